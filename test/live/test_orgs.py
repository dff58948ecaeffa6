"""Each org in its own pool: how it is named, what is kept apart, who is refused."""

import threading
import time

import pytest

from rig import process
from rig.limits import LONG, until
from rig.load import start_pgbench, watch
from rig.raw import B, E, P, Q, S, ServerError

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.pgweir("orgs are ours")]

ACME = "11111111-aaaa-4bbb-8ccc-111111111111"
BATCH = "22222222-2222-2222-2222-222222222222"


def by_startup(org, key="x-org-id"):
	return {key: org}


def by_options(org, key="x-org-id"):
	return {"options": f"-c {key}={org}"}


def by_application_name(org):
	return {"application_name": f"app:org={org}:edge=lead-create"}


def org_of(weir, client):
	"""What the console says of the one client that is there."""
	rows = weir.show("CLIENTS", database="app")
	assert len(rows) == 1
	return rows[0]["org"]


WAYS = [
	by_startup(ACME), by_startup(ACME, "org_id"), by_startup(ACME, "pgweir.org"),
	by_startup(ACME, "X-Org-Id"), by_options(ACME), by_options(ACME, "org_id"),
	by_options(ACME, "pgweir.org"), {"options": f"--x-org-id={ACME}"}, by_application_name(ACME),
	{"options": f"-c timezone=UTC -c x-org-id={ACME} -c datestyle=ISO"},
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(f"{k}={v}" for k, v in way.items()))
def test_a_client_lands_in_the_pool_of_the_org_it_names(pg, pooler, way):
	weir = pooler()
	client = weir.raw(params=way)
	assert client.value("select current_user") == "app"
	assert org_of(weir, client) == ACME
	assert [row["org"] for row in weir.show("POOLS", database="app")] == [ACME]
	assert [row["org"] for row in weir.show("SERVERS", database="app")] == [ACME]


def test_a_client_that_names_none_belongs_to_default(pg, pooler):
	weir = pooler()
	client = weir.raw(params={"application_name": "plain"})
	client.query("select 1")
	assert org_of(weir, client) == "default"


def test_the_server_sees_the_application_name_and_no_org_parameter(pg, pooler):
	weir = pooler()
	client = weir.raw(params={**by_startup(ACME), **by_application_name(ACME)})
	assert client.value("show application_name") == f"app:org={ACME}:edge=lead-create"
	with pytest.raises(ServerError) as unknown:
		client.query('show "x-org-id"')
	assert unknown.value.sqlstate in ("42704", "42601")


def test_org_pattern_is_the_operators(pg, pooler):
	weir = pooler(settings={"org_pattern": "tenant/([0-9a-z]+)"})
	client = weir.raw(params={"application_name": "x tenant/blue y org=red"})
	client.query("select 1")
	assert org_of(weir, client) == "blue"


def test_a_source_that_is_not_listed_is_not_looked_at(pg, pooler):
	weir = pooler(settings={"org_sources": "application_name"})
	client = weir.raw(params=by_application_name("acme"))
	client.query("select 1")
	assert org_of(weir, client) == "acme"


def test_sources_that_agree_are_welcome(pg, pooler):
	weir = pooler()
	client = weir.raw(params={**by_startup(ACME), **by_options(ACME.upper()),
	                          **by_application_name(ACME)})
	client.query("select 1")
	assert org_of(weir, client) == ACME


@pytest.mark.parametrize("claims", [
	{**by_startup(ACME), **by_options(BATCH)},
	{**by_startup("acme"), **by_application_name("Acme")},
	{**by_options("a"), **by_application_name("b")},
	{"x-org-id": "a", "org_id": "b"},
	{"options": "-c x-org-id=a -c org_id=b"},
], ids=["startup-options", "case", "options-name", "two-startup", "two-options"])
def test_sources_that_disagree_are_refused_with_28000(pg, pooler, claims):
	refused = pooler().refusal(params=claims)
	assert refused.sqlstate == "28000" and refused.severity == "FATAL"


@pytest.mark.parametrize("org", ["a b", "a/b", "a'b", "ö", "x" * 65, "a;b", "*"])
def test_an_illegal_id_is_refused_with_28000(pg, pooler, org):
	refused = pooler().refusal(params=by_startup(org))
	assert refused.sqlstate == "28000" and refused.severity == "FATAL"


@pytest.mark.parametrize("org", ["a", "x" * 64, "A.b:c_d-9", ACME])
def test_a_legal_id_is_taken(pg, pooler, org):
	weir = pooler()
	client = weir.raw(params=by_startup(org))
	client.query("select 1")
	assert org_of(weir, client) == org


def test_uuids_compare_without_case_and_other_ids_exactly(pg, pooler):
	weir = pooler()
	for org in (ACME, ACME.upper(), "Blue", "blue"):
		weir.raw(params=by_startup(org)).query("select 1")
	orgs = sorted(row["org"].lower() for row in weir.show("POOLS", database="app"))
	assert orgs == sorted([ACME, "blue", "blue"])


def test_each_org_has_a_pool_of_its_own(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	clients = {org: weir.raw(params=by_startup(org)) for org in ("a", "b", "c")}
	pids = {org: client.value("select pg_backend_pid()") for org, client in clients.items()}
	assert len(set(pids.values())) == 3
	for org, client in clients.items():
		assert client.value("select pg_backend_pid()") == pids[org]


def test_a_busy_org_does_not_make_another_wait(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	holder, waiter = (weir.raw(params=by_startup("a")) for _ in range(2))
	holder.query("begin")
	waiter.send(Q("select 'late'"))
	weir.wait_pool(org="a", cl_waiting=1)
	began = time.monotonic()
	assert weir.raw(params=by_startup("b")).value("select 1") == "1"
	assert time.monotonic() - began < 1
	assert weir.pool(org="b")["cl_waiting"] == 0
	holder.query("rollback")
	waiter.expect("T D[late] C(SELECT 1) Z(I)")


def test_pool_size_comes_from_the_org_else_from_the_star_else_from_the_process(pg, pooler):
	weir = pooler(settings={"default_pool_size": 4}, orgs={"*": "pool_size=2", "big": "pool_size=3",
	                                                       "plain": "name=plain"})
	for org, size in (("big", 3), ("other", 2), ("plain", 2)):
		holders = [weir.raw(params=by_startup(org), seconds=4) for _ in range(size)]
		for holder in holders:
			holder.query("begin")
		late = weir.raw(params=by_startup(org))
		late.send(Q("select 1"))
		weir.wait_pool(org=org, cl_waiting=1, sv_active=size)
		for holder in holders:
			holder.query("rollback")
		late.expect("T D[1] C(SELECT 1) Z(I)")


def test_no_org_exceeds_its_pool_size_at_any_sample(pg, pooler):
	sizes = {"a": 1, "b": 2, "c": 4}
	weir = pooler(orgs={org: f"pool_size={size}" for org, size in sizes.items()},
	              settings={"max_client_conn": 200})
	benches = []
	for org in sizes:
		benches.append(start_pgbench(weir, f"select pg_sleep(0.002); -- {org}\n", clients=32 if LONG else 10, seconds=60 if LONG else 1,
		                             database=f"dbname=app application_name=org={org}"))

	def look():
		for org, size in sizes.items():
			count = pg.count("application_name = %s", f"org={org}")
			assert count <= size, f"{count} servers of org {org}"

	for bench in benches:
		watch(bench, look, 90)


def test_org_max_client_conn_refuses_with_53300(pg, pooler):
	weir = pooler(orgs={"a": "max_client_conn=2"})
	for _ in range(2):
		weir.raw(params=by_startup("a"))
	assert weir.refusal(params=by_startup("a")).sqlstate == "53300"
	assert weir.raw(params=by_startup("b")).value("select 1") == "1"


# --- hand-over

@pytest.fixture
def single(pg, pooler):
	"""One server connection for all orgs: it has to change hands."""
	return pooler(settings={"max_server_conn": 1, "default_pool_size": 1})


def test_a_server_changes_hands_at_the_ceiling(single):
	a, b = single.raw(params=by_startup("a")), single.raw(params=by_startup("b"))
	pid = a.value("select pg_backend_pid()")
	for _ in range(3):
		assert b.value("select pg_backend_pid()") == pid
		assert a.value("select pg_backend_pid()") == pid


def test_nothing_of_one_org_crosses_to_the_next(pg, pooler):
	# allow: whoever holds what cannot follow would keep the server else
	single = pooler(settings={"max_server_conn": 1, "default_pool_size": 1, "session_features": "allow"})
	a, b = single.raw(params=by_startup("a")), single.raw(params=by_startup("b"))
	default = b.value("show work_mem")
	pid = a.value("select pg_backend_pid()")
	a.query("create temp table secret as select 'of a' as word")
	a.query("set work_mem = '1MB'")
	a.query("select pg_advisory_lock(4711)")
	a.query("prepare mine as select 1")
	a.query("listen gossip")
	a.query("set session characteristics as transaction read only")
	assert b.value("select pg_backend_pid()") == pid
	assert b.value("select to_regclass('secret')") is None
	assert b.value("show work_mem") == default
	assert b.value("select count(*) from pg_locks where locktype = 'advisory'") == "0"
	assert b.value("select count(*) from pg_prepared_statements where name = 'mine'") == "0"
	assert b.value("select count(*) from pg_listening_channels()") == "0"
	b.query("insert into t values (1)")


def test_the_reset_shows_in_no_reply(single):
	a, b = single.raw(params=by_startup("a")), single.raw(params=by_startup("b"))
	for _ in range(5):
		assert a.talk(Q("select 'a'")) == "T D[a] C(SELECT 1) Z(I)"
		assert b.talk(P("", "select $1::text"), B("", "", "b"), E(), S) \
			== "1 2 D[b] C(SELECT 1) Z(I)"
		assert a.talk(Q("begin"), Q("select 1"), Q("commit"), times=3) \
			== "C(BEGIN) Z(T) T D[1] C(SELECT 1) Z(T) C(COMMIT) Z(I)"
		assert b.talk(Q("select 1/0")) in ("E(22012) Z(I)", "T E(22012) Z(I)")


def test_parameters_and_statements_of_a_client_outlive_the_hand_over(single):
	a = single.raw(params={**by_startup("a"), "timezone": "Asia/Tokyo"})
	b = single.raw(params={**by_startup("b"), "timezone": "Europe/Paris"})
	a.talk(P("s", "select current_setting('timezone')"), S)
	b.talk(P("s", "select 'b ' || current_setting('timezone')"), S)
	for _ in range(3):
		assert a.talk(B("", "s"), E(), S) == "2 D[Asia/Tokyo] C(SELECT 1) Z(I)"
		assert b.talk(B("", "s"), E(), S) == "2 D[b Europe/Paris] C(SELECT 1) Z(I)"


def test_no_hand_over_between_users_or_databases(pg, pooler):
	weir = pooler(settings={"max_server_conn": 1})
	a = weir.raw("app", "app", params=by_startup("a"))
	assert a.value("select current_user || current_database()") == "appapp"
	b = weir.raw("app", "app2", params=by_startup("b"), seconds=5)
	assert b.value("select current_user || current_database()") == "app2app"
	c = weir.raw("app2", "app", params=by_startup("a"), seconds=5)
	assert c.value("select current_user || current_database()") == "appapp2"
	assert pg.count() == 1


def test_hundreds_of_orgs_share_a_few_servers(pg, pooler):
	weir = pooler(settings={"max_server_conn": 4, "max_client_conn": 600})
	clients = [(n, weir.raw(params=by_startup(f"org-{n}"), seconds=20)) for n in range(300)]
	for n, client in clients:
		client.send(Q(f"select {n}"))
	most = pg.count()
	for n, client in clients:
		client.expect(f"T D[{n}] C(SELECT 1) Z(I)")
		if n % 50 == 0:
			most = max(most, pg.count())
	assert most <= 4
	shown = [row for row in weir.admin("SHOW ORGS") if str(next(iter(row.values()))).startswith("org-")]
	assert len(shown) == 300


def test_waiters_of_several_orgs_are_all_served_at_the_ceiling(pg, pooler):
	weir = pooler(settings={"max_server_conn": 2, "max_client_conn": 200})
	failures, counts = [], {}

	def work(org, place):
		try:
			client = weir.raw(params=by_startup(org), seconds=20)
			for n in range(20):
				assert client.value(f"select '{org}{place}{n}'") == f"{org}{place}{n}"
			counts[org, place] = 20
		except BaseException as failure:  # told to the main thread
			failures.append(repr(failure))

	threads = [threading.Thread(target=work, args=(org, place)) for org in "abcd" for place in range(5)]
	for thread in threads:
		thread.start()
	for thread in threads:
		thread.join(60)
	assert not failures and len(counts) == 20


def test_an_org_that_lost_its_servers_to_others_gets_one_again(pg, pooler):
	"""While it had all that pool_size allows it was not held back by the ceiling; without them it is."""
	weir = pooler(settings={"max_server_conn": 2, "default_pool_size": 2})
	a, also_a, late_a, b, c = (weir.raw(params=by_startup(org), seconds=5) for org in "aaabc")
	for client in (a, also_a):
		client.query("begin")
		client.query("select pg_sleep(0.1)")  # so that b and c, who have used nothing, are due before a
	for client, org, text in ((late_a, "a", "select 'late'"), (b, "b", "begin"), (c, "c", "begin")):
		client.send(Q(text))
		weir.wait_pool(org=org, cl_waiting=1)
	for client, heir in ((a, b), (also_a, c)):
		client.query("commit")
		heir.expect("C(BEGIN) Z(T)")
	for client in (b, c):
		client.query("commit")
	late_a.expect("T D[late] C(SELECT 1) Z(I)")


# --- who may speak for whom

def bound(pooler, **settings):
	return pooler(settings=settings, orgs={"acme": "users=app2", "blue": "users=app3",
	                                       "green": "users=app3,tight"})


def test_a_user_bound_to_one_org_needs_to_say_nothing(pg, pooler):
	weir = bound(pooler)
	client = weir.raw(user="app2")
	client.query("select 1")
	assert org_of(weir, client) == "acme"


def test_a_bound_user_may_say_its_org_and_no_other(pg, pooler):
	weir = bound(pooler)
	assert weir.raw(user="app2", params=by_startup("acme")).value("select 1") == "1"
	for way in (by_startup, by_options, by_application_name):
		refused = weir.refusal(user="app2", params=way("blue"))
		assert refused.sqlstate == "28000" and refused.severity == "FATAL"
	weir.wait_log("blue")


def test_a_user_bound_to_several_orgs_must_say_which(pg, pooler):
	weir = bound(pooler)
	assert weir.refusal(user="app3").sqlstate == "28000"
	assert weir.raw(user="app3", params=by_startup("green")).value("select 1") == "1"
	assert weir.refusal(user="app3", params=by_startup("acme")).sqlstate == "28000"


def test_an_unbound_user_may_speak_for_any_org(pg, pooler):
	weir = bound(pooler)
	assert weir.raw(user="app", params=by_startup("acme")).value("select 1") == "1"
	assert weir.raw(user="app").value("select 1") == "1"


def test_a_binding_is_looked_at_after_the_password(pg, pooler):
	"""Who has not logged in learns nothing about bindings."""
	weir = bound(pooler, auth_type="scram-sha-256")
	refused = weir.refusal(user="app2", password="wrong", params=by_startup("blue"))
	assert refused.sqlstate == "28P01"


def test_org_required_refuses_clients_without_one(pg, pooler):
	weir = pooler(settings={"org_required": 1})
	assert weir.refusal().sqlstate == "28000"
	assert weir.raw(params=by_startup("a")).value("select 1") == "1"
	weir.settings["org_required"] = 0
	weir.reload()


def test_org_unknown_reject_refuses_orgs_without_a_line(pg, pooler):
	weir = pooler(settings={"org_unknown": "reject"}, orgs={"acme": "pool_size=3"})
	assert weir.raw(params=by_startup("acme")).value("select 1") == "1"
	assert weir.raw().value("select 1") == "1"
	assert weir.refusal(params=by_startup("stranger")).sqlstate == "28000"


def test_a_changed_binding_is_in_force_after_reload(pg, pooler):
	weir = bound(pooler)
	weir.orgs["blue"] = "users=app2"
	del weir.orgs["acme"]
	weir.reload()
	client = weir.raw(user="app2")
	client.query("select 1")
	assert org_of(weir, client) == "blue"


def test_a_changed_pool_size_of_an_org_is_in_force_after_reload(pg, pooler):
	weir = pooler(orgs={"a": "pool_size=1"})
	holder, waiter = (weir.raw(params=by_startup("a")) for _ in range(2))
	holder.query("begin")
	waiter.send(Q("select 1"))
	weir.wait_pool(org="a", cl_waiting=1)
	weir.orgs["a"] = "pool_size=2"
	weir.reload()
	waiter.expect("T D[1] C(SELECT 1) Z(I)")
	holder.query("rollback")


def test_log_lines_name_the_org(pg, pooler):
	weir = pooler()
	weir.raw(params=by_startup("acme")).query("select 1")
	weir.wait_log(r"app/app@127\.0\.0\.1:\d+ .*\borg=acme\b")


def test_psql_lands_in_the_pool_of_its_org(pg, pooler):
	weir = pooler()
	process.run(["psql", "-XAtc", "select 1",
	             weir.dsn(application_name=f"app:org={ACME}:edge=x")])
	until("the pool is there", lambda: weir.show("POOLS", database="app", org=ACME))
