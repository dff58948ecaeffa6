"""For which org a client speaks: every source at login, and the change of org between transactions."""

import pytest

from rig.limits import until
from rig.pooler import CONSOLE_PASSWORDS
from rig.postgres import PASSWORDS
from rig.raw import B, C, D, E, F, P, Q, S, ServerError

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.pgweir("no orgs there")]

ALL = "startup, options, application_name, user_suffix, sni, cert, comment"


def org_of(pooler, client):
	"""Asks the server whose it is: the pooler has told it (org_guc)."""
	return client.value("select current_setting('app.current_org')")


@pytest.fixture
def weir(pg, pooler):
	return pooler(settings={"default_pool_size": 2, "org_sources": ALL, "org_guc": "app.current_org"},
	              orgs={"bound": {"users": "app3"}, "bound2": {"users": "app3"}, "full": {"max_client_conn": 1}, "slim": {"pool_size": 1}})


def refused(talk):
	with pytest.raises(ServerError) as error:
		talk()
	return error.value


# --- sources

def test_a_user_name_says_the_org_behind_its_last_point(weir):
	assert org_of(weir, weir.raw(user="app.acme", password="")) == "acme"
	assert weir.raw(user="app.acme", password="").value("select current_user") == "app"


def test_a_known_user_is_not_split(own_pg, pooler):
	pg = own_pg()
	pg.sql("create role \"a.b\" login", dbname="app")
	one = pooler(pg, settings={"org_sources": ALL, "org_guc": "app.current_org"}, userlist={**PASSWORDS, **CONSOLE_PASSWORDS, "a.b": "x"})
	client = one.raw(user="a.b", password="x")
	assert client.value("select current_user") == "a.b"
	assert org_of(one, client) == "default"


@pytest.mark.parametrize("auth", ["plain", "md5", "scram-sha-256"])
def test_a_split_user_proves_itself_by_the_users_password(pg, pooler, auth):
	one = pooler(settings={"auth_type": auth, "org_sources": "user_suffix", "org_guc": "app.current_org"})
	assert org_of(one, one.raw(user="app.acme", password=one.password("app"))) == "acme"
	assert refused(lambda: one.raw(user="app.acme", password="wrong")).sqlstate == "28P01"


def test_sources_that_differ_refuse_the_login(weir):
	error = refused(lambda: weir.raw(user="app.acme", password="", params={"x-org-id": "globex"}))
	assert (error.severity, error.sqlstate) == ("FATAL", "28000")
	assert "acme" in error.message and "globex" in error.message
	assert org_of(weir, weir.raw(user="app.acme", password="", params={"X-ORG-ID": "acme"})) == "acme"


# --- the change

def by_setting(client, org):
	return client.talk(Q(f"set pgweir.org = '{org}'"))


def by_name(client, org):
	return client.talk(Q(f"SET application_name TO 'app:org={org}:edge=x'"))


def extended(client, org):
	return client.talk(P("", f"set pgweir.org = '{org}'"), B(), D("P"), E(), S).replace("1 2 n ", "")


def by_named_statement(client, org):
	name = f"s_{org}"
	client.talk(P(name, f"set pgweir.org to '{org}'"), D("S", name), S)
	return client.talk(B("", name), E(), S).replace("2 ", "")


CHANGES = [by_setting, by_name, extended, by_named_statement]


@pytest.mark.parametrize("change", CHANGES)
def test_a_client_changes_its_org_between_transactions(weir, change):
	a = weir.raw(params={"x-org-id": "one"})
	for org in ("two", "three", "one", "two"):
		assert change(a, org) == "C(SET) Z(I)"
		assert org_of(weir, a) == org
		rows = weir.show("CLIENTS", org=org)
		assert len(rows) == 1
	if change is by_name:
		assert a.params["application_name"] == "app:org=two:edge=x" == a.value("show application_name")


@pytest.mark.parametrize("change", CHANGES)
def test_the_change_needs_no_server_of_the_old_org(weir, change):
	a, b = weir.raw(params={"x-org-id": "slim"}), weir.raw(params={"x-org-id": "slim"})
	b.query("begin")
	assert change(a, "two") == "C(SET) Z(I)"
	assert org_of(weir, a) == "two"
	b.query("commit")


@pytest.mark.parametrize("change", CHANGES)
def test_inside_a_transaction_it_is_refused(weir, change):
	a = weir.raw(params={"x-org-id": "one"})
	a.query("begin")
	assert "E(25001)" in change(a, "two")
	assert a.status == "E"
	a.query("rollback")
	assert org_of(weir, a) == "one"


def test_amid_other_statements_it_is_refused(weir):
	a = weir.raw(params={"x-org-id": "one"})
	for sql in ("set pgweir.org = 'two'; select 1", "select 1; set pgweir.org = 'two'", "select set_config('pgweir.org', 'two', false)",
	            "begin; set application_name = 'org=two'; commit", "set local pgweir.org = 'two'"):
		assert refused(lambda: a.query(sql)).sqlstate == "25001"
		assert org_of(weir, a) == "one"
	assert a.talk(P("", "select 1"), B(), E(), P("", "set pgweir.org = 'two'"), B(), E(), S) == "1 2 D[1] C(SELECT 1) 1 E(25001) Z(I)"
	assert org_of(weir, a) == "one"


@pytest.mark.parametrize("change", CHANGES)
def test_a_binding_holds_at_the_change(weir, change):
	a = weir.raw(user="app3", params={"x-org-id": "bound"})
	said = change(a, "other")
	assert said in ("E(28000) Z(I)", "1 2 n E(28000) Z(I)")
	assert org_of(weir, a) == "bound"
	assert change(a, "bound2") == "C(SET) Z(I)"
	assert org_of(weir, a) == "bound2"


def test_an_illegal_or_full_org_is_refused_and_the_old_one_kept(weir):
	a, b = weir.raw(params={"x-org-id": "one"}), weir.raw(params={"x-org-id": "full"})
	assert by_setting(a, "no such id") == "E(28000) Z(I)"
	assert by_setting(a, "full") == "E(53300) Z(I)"
	assert extended(a, "full") == "E(53300) Z(I)"
	assert org_of(weir, a) == "one"
	by_setting(b, "one")
	assert by_setting(a, "full") == "C(SET) Z(I)"
	assert len(weir.show("CLIENTS", org="full")) == 1


def test_a_pipeline_of_changes_is_served_by_the_right_orgs(weir):
	a = weir.raw(params={"x-org-id": "one"})
	ask = "select current_setting('app.current_org')"
	for _ in range(20):
		a.send(Q(ask), Q("set pgweir.org = 'two'"), Q(ask), P("", "set application_name = 'org=three'"), B(), E(), S, P("", ask), B(), E(), S, Q("set pgweir.org = 'one'"))
		assert a.read_ready(6) == ("T D[one] C(SELECT 1) Z(I) C(SET) Z(I) T D[two] C(SELECT 1) Z(I) 1 2 C(SET) Z(I) "
		                           "1 2 D[three] C(SELECT 1) Z(I) C(SET) Z(I)")


def test_a_change_and_a_query_in_one_batch(weir):
	a = weir.raw(params={"x-org-id": "one"})
	assert a.talk(P("", "set pgweir.org = 'two'"), B(), E(), P("", "select current_setting('app.current_org')"), B(), E(), S) \
		== "1 2 C(SET) 1 2 D[two] C(SELECT 1) Z(I)"


def test_a_portal_of_a_change_ends_with_its_transaction(weir):
	a = weir.raw(params={"x-org-id": "one"})
	assert a.talk(P("", "set pgweir.org = 'two'"), B(), P("", "select 1"), B(), E(), S) == "1 2 1 2 D[1] C(SELECT 1) Z(I)"
	assert a.talk(E(), S) == "E(34000) Z(I)"
	assert org_of(weir, a) == "one"


def test_a_prepared_change_of_name_is_only_that_when_a_reload_says_so(pg, pooler):
	one = pooler(settings={"org_guc": "app.current_org"})
	a, b = one.raw(params={"x-org-id": "one"}), one.raw(params={"x-org-id": "one"})
	a.talk(P("s", "set application_name = 'org=two'"), S)
	b.talk(P("", "set application_name = 'org=two'"), S)
	one.settings["org_sources"] = "startup"
	one.reload()
	for client, name in ((a, "s"), (b, "")):
		assert client.talk(B("", name), E(), S) == "2 C(SET) Z(I)"
		assert (client.params["application_name"], org_of(one, client)) == ("org=two", "one")


def test_a_pinned_client_does_not_change_its_org(weir):
	a = weir.raw(params={"x-org-id": "one"})
	a.query("listen x")
	a.query("select 1")
	assert by_setting(a, "two") == "E(25001) Z(I)"
	assert extended(a, "two") == "1 E(25001) Z(I)"
	a.query("unlisten *")
	until("it may again", lambda: by_setting(a, "two") == "C(SET) Z(I)", 3)


def test_a_name_without_an_org_changes_nothing(weir):
	a = weir.raw(params={"x-org-id": "one"})
	a.query("set application_name = 'just a name'")
	assert a.value("show application_name") == "just a name"
	assert org_of(weir, a) == "one"


def test_settings_of_the_client_follow_it_through_its_orgs(weir):
	a = weir.raw(params={"x-org-id": "one"})
	a.query("set work_mem = '6MB'")
	by_setting(a, "two")
	assert a.value("show work_mem") == "6MB"
	b = weir.raw(params={"x-org-id": "one"})
	assert b.value("show work_mem") != "6MB"


# --- comments

def test_a_comment_speaks_for_its_transaction(weir):
	a = weir.raw(params={"x-org-id": "one"})
	ask = "select current_setting('app.current_org')"
	assert a.value(ask + " /*org='two',route='%2Fx'*/") == "two"
	assert a.value(ask) == "one"
	assert a.value("/*app='x',org='three'*/ " + ask) == "three"
	a.query("begin /*org='two'*/")
	assert a.value(ask) == "two"
	assert a.value(ask + " /*org='two'*/") == "two"
	assert refused(lambda: a.query(ask + " /*org='one'*/")).sqlstate == "25001"
	a.query("rollback")
	assert a.value(ask) == "one"
	assert a.talk(P("", ask + " /*org='two'*/"), B(), E(), S) == "1 2 D[two] C(SELECT 1) Z(I)"
	assert a.talk(P("s", ask + " /*org='two'*/"), S) == "1 Z(I)"
	assert a.talk(B("", "s"), E(), S) == "2 D[two] C(SELECT 1) Z(I)"
	assert a.talk(P("", ask + " /*org='a b'*/"), B(), E(), S, Q("select 1"), times=2) == "E(28000) Z(I) T D[1] C(SELECT 1) Z(I)"
	assert a.talk(Q("select '/*org=''two''*/'")) == "T D[/*org='two'*/] C(SELECT 1) Z(I)"
	assert a.value("select 1 /*org='11111111-1111-1111-1111-AAAAAAAAAAAA'*/") == "1"
	assert weir.show("SERVERS", org="11111111-1111-1111-1111-aaaaaaaaaaaa")
	assert a.value(ask) == "one"
	bound = weir.raw(user="app3", params={"x-org-id": "bound"})
	assert bound.talk(Q("select 1 /*org='one'*/")) == "E(28000) Z(I)"
	assert bound.value(ask) == "bound"


def test_without_the_source_a_comment_is_a_comment(pg, pooler):
	one = pooler(settings={"org_guc": "app.current_org"})
	assert one.raw(params={"x-org-id": "one"}).value("select current_setting('app.current_org') /*org='two'*/") == "one"


def test_visitors_come_and_go_in_every_way(weir):
	for end in ("terminate", "close", "reset"):
		a = weir.raw(params={"x-org-id": "one"})
		a.send(Q("select pg_sleep(0.1) /*org='two'*/"))
		getattr(a, end)()
	until("all are gone", lambda: not [r for r in weir.show("CLIENTS") if r["database"] == "app"], 5)
	assert org_of(weir, weir.raw(params={"x-org-id": "one"})) == "one"


# --- org_guc

def test_org_guc_is_the_poolers_to_set(weir):
	a = weir.raw(params={"x-org-id": "one"})
	for sql in ("set app.current_org = 'two'", "set local app.current_org = 'two'", "select set_config('app.current_org', 'two', true)",
	            "select set_config('APP.Current_Org', 'two', false)", "reset app.current_org", "select 1; set \"app\".\"current_org\" = 'x'"):
		assert refused(lambda: a.query(sql)).sqlstate == "42501"
		assert org_of(weir, a) == "one"
	assert a.talk(P("", "select set_config($1, $2, false)"), B("", "", "app.current_org", "two"), E(), S) == "1 E(42501) Z(I)"
	assert a.talk(F(2078, "app.current_org", "two", "f")) == "E(42501) Z(I)" # the OID of set_config
	for sql in ("reset all", "discard all"):
		a.query(sql)
		assert org_of(weir, a) == "one"


@pytest.mark.parametrize("features", ["pin", "reject", "allow"])
@pytest.mark.parametrize("mode", ["transaction", "statement", "session"])
def test_org_guc_is_never_left_over(pg, pooler, features, mode):
	one = pooler(settings={"default_pool_size": 1, "max_db_connections": 1 if mode != "session" else 0, "org_guc": "app.current_org", "session_features": features, "pool_mode": mode})
	clients = {org: one.raw(params={"x-org-id": org}) for org in ("one", "two", "three")}
	for _ in range(3):
		for org, client in clients.items():
			assert org_of(one, client) == org
			assert refused(lambda: client.query("set app.current_org = 'x'")).sqlstate == "42501"


@pytest.mark.parametrize("reset", ["reset all", "discard all", "begin; reset all; rollback", "begin; reset all; commit"])
@pytest.mark.parametrize("features", ["pin", "allow"])
@pytest.mark.parametrize("mode", ["transaction", "session", "pinned"])
def test_org_guc_is_there_again_after_a_reset(pg, pooler, features, mode, reset):
	one = pooler(settings={"default_pool_size": 1, "org_guc": "app.current_org", "session_features": features, "pool_mode": "session" if mode == "session" else "transaction"})
	a, other = one.raw(params={"x-org-id": "one"}), one.raw(params={"x-org-id": "two"})
	for _ in range(2):
		if mode == "pinned":
			a.query("listen x")
		assert org_of(one, a) == "one"
		a.query(reset)
		if mode == "pinned":
			a.query("listen x")
		assert org_of(one, a) == "one"
		assert a.talk(P("s", "reset all"), B("", "s"), E(), C("S", "s"), S) == "1 2 C(RESET) 3 Z(I)"
		assert org_of(one, a) == "one"
		if mode == "transaction":
			assert org_of(one, other) == "two"
			a.query(reset)
			assert org_of(one, one.raw(params={"x-org-id": "one"})) == "one"


def test_one_connection_serves_a_thousand_orgs(pg, pooler):
	weir = pooler(settings={"org_sources": ALL, "org_guc": "app.current_org", "max_db_connections": 3})
	a = weir.raw(params={"x-org-id": "first"}, seconds=5)
	ask = "select current_setting('app.current_org')"
	for i in range(1000):
		org = f"org-{i:04}"
		if i % 4 == 0:
			a.send(Q(f"set pgweir.org = '{org}'"), Q(ask))
			assert a.read_ready(2) == f"C(SET) Z(I) T D[{org}] C(SELECT 1) Z(I)"
		elif i % 4 == 1:
			a.send(Q(f"set application_name = 'x:org={org}'"), P("", ask), B(), E(), S)
			assert a.read_ready(2) == f"C(SET) Z(I) 1 2 D[{org}] C(SELECT 1) Z(I)"
		elif i % 4 == 2:
			assert a.value(f"{ask} /*org='{org}'*/") == org
		else:
			assert a.talk(P("", f"{ask} /*org='{org}'*/"), B(), E(), S) == f"1 2 D[{org}] C(SELECT 1) Z(I)"
	assert len(weir.show("ORGS")) >= 1000


def test_a_postgresql_that_has_no_more_connections_is_shared_all_the_same(own_pg, pooler):
	pg = own_pg(max_connections=8)
	one = pooler(pg, settings={"org_guc": "app.current_org"})
	a = one.raw(params={"x-org-id": "first"}, seconds=5)
	for i in range(30):
		assert by_setting(a, f"org-{i}") == "C(SET) Z(I)"
		assert org_of(one, a) == f"org-{i}"


def test_a_wrong_org_guc_is_an_error_at_start(pg, pooler):
	status, text = pooler(settings={"org_guc": "work_mem"}, start=False).fails_to_start()
	assert status != 0 and "org_guc" in text
