"""Settings that PostgreSQL does not report follow their client from server to server.

Most tests play one script twice: on a private connection to PostgreSQL, and through the pooler,
where after each transaction another client uses the only server connection. Both must hear the same.
"""

import pytest

from rig.limits import until
from rig.raw import B, E, F, P, Q, Raw, S, ServerError

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.pgweir("only reported settings follow there")]


@pytest.fixture
def one(pg, pooler):
	return pooler(settings={"default_pool_size": 1})


def heard(client, sql):
	try:
		return client.query(sql)
	except ServerError as error:
		return error.sqlstate


def play(client, script, between=lambda: None):
	said = []
	for sql in script:
		said.append((sql, heard(client, sql)))
		if client.status == "I":
			between()
	return said


SHOW = "select current_setting('search_path'), current_setting('work_mem'), current_setting('my.own', true), current_setting('role')"

SCRIPTS = {
	"set": ["set search_path = a, \"B c\", public", SHOW, "set work_mem to '8MB'", SHOW, "set my.own = 'x'", SHOW],
	"set_and_reset": ["set work_mem = '8MB'", "reset work_mem", SHOW, "set work_mem = 999", "set work_mem to default", SHOW],
	"reset_all": ["set work_mem = '8MB'; set search_path = a", SHOW, "reset all", SHOW],
	"discard_all": ["set work_mem = '8MB'", "set search_path = a", "discard all", "show work_mem", "show search_path"],
	"schema": ["set schema 'a'", SHOW],
	"local": ["begin", "set local work_mem = '8MB'", SHOW, "commit", SHOW],
	"rollback": ["set work_mem = '6MB'", "begin", "set work_mem = '8MB'", SHOW, "rollback", SHOW],
	"reset_rolled_back": ["set work_mem = '6MB'", "begin", "reset work_mem", SHOW, "rollback", SHOW],
	"savepoint": ["begin", "set work_mem = '6MB'", "savepoint a", "set work_mem = '7MB'", "set search_path = b", "rollback to a", "commit", SHOW],
	"failed_transaction": ["begin", "set work_mem = '6MB'", "select 1/0", "commit", SHOW],
	"several_statements": ["set work_mem = '6MB'; select 1; set search_path = x, y", SHOW],
	"several_statements_that_fail": ["set work_mem = '6MB'; select 1/0; set search_path = x", SHOW],
	"commit_amid_several": ["begin; set work_mem = '6MB'; commit; set search_path = z; select 1/0", SHOW],
	"wrong_value": ["set work_mem = 'much'", SHOW, "set no_such_setting = 1", SHOW],
	"set_config": ["select set_config('work_mem', '6MB', false)", SHOW, "select set_config('work_mem', '9MB', true)", SHOW],
	"set_config_computed": ["select set_config('work' || '_mem', '6MB', false)", SHOW, "select set_config(coalesce('my.own'), 'x', false), set_config('search_path', 'q', false)",
	                        "select current_setting('search_path'), current_setting('work_mem')"],
	"set_config_of_rows": ["select set_config(n, v, false) from (values ('work_mem', '6MB'), ('statement_timeout', '7s')) x(n, v)", SHOW, "show statement_timeout"],
	"do_block": ["do $$ begin perform set_config('work_mem', '6MB', false); set search_path = d; end $$", SHOW],
	"quotes": ["set my.own = 'it''s \"x\" \\ $$ ; drop'", SHOW, "set search_path = 'a''b', \"c\"\"d\", ''", SHOW],
	"characteristics": ["set session characteristics as transaction isolation level serializable", "show transaction_isolation", "show default_transaction_isolation"],
	"time_limits": ["set statement_timeout = '60s'; set lock_timeout = 5000", "show statement_timeout", "show lock_timeout", "reset lock_timeout", "show lock_timeout"],
	"transaction_only": ["set transaction_isolation = 'serializable'", "begin", "set transaction isolation level repeatable read", "show transaction_isolation", "commit", "show transaction_isolation"],
	"extra_float_digits": ["set extra_float_digits = 0", "select 0.1::float8 + 0.2::float8"],
	"empty_value": ["set my.own = ''", SHOW, "reset my.own", SHOW],
	"xml": ["set xml option document", "show xmloption", "reset xmloption", "show xmloption"],
	"seed": ["set seed = 0.5", SHOW],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_hears_what_it_hears_on_a_private_connection(pg, one, name):
	other = one.raw()
	with Raw.login(pg.address, user="app", database="app") as direct:
		expected = play(direct, SCRIPTS[name])
	assert play(one.raw(), SCRIPTS[name], lambda: other.query("select 1")) == expected


# for clients whose startup packet gives values: RESET leads to those
START = {"DateStyle": "German", "application_name": "mine", "TimeZone": "Asia/Tokyo"}
LOOK = "select current_setting('datestyle'), current_setting('application_name'), current_setting('timezone'), current_setting('intervalstyle')"
RESETS = {
	"reset": ["set datestyle = 'SQL, YMD'", LOOK, "reset datestyle", LOOK, "set timezone = 'UTC'", "reset timezone", LOOK, "reset timezone", LOOK],
	"to_default": ["set application_name = 'x'", LOOK, "set application_name to default", LOOK],
	"reset_all": ["set datestyle = 'SQL'; set timezone = 'UTC'; set intervalstyle = 'iso_8601'", LOOK, "reset all", LOOK],
	"discard_all": ["set datestyle = 'SQL'; set timezone = 'UTC'; set intervalstyle = 'iso_8601'", LOOK, "discard all", LOOK, "discard all", LOOK],
	"rolled_back": ["set datestyle = 'SQL'", "begin", "reset datestyle", "rollback", LOOK, "begin", "reset all", "rollback", LOOK],
	"committed": ["set datestyle = 'SQL'", "begin", "reset datestyle", "commit", LOOK],
	"reset_of_the_first": ["reset datestyle", LOOK, "reset all", LOOK, "discard all", LOOK],
}


def test_settings_behind_a_backslash_are_found_however_strings_are_read(pg, pooler):
	one = pooler(settings={"default_pool_size": 1})
	a, b = one.raw(), one.raw()
	before = b.value("show work_mem")
	a.query("set standard_conforming_strings = off")
	assert b.value("show standard_conforming_strings") == "on"
	a.query(r"select 'a\'; -- ', set_config('work_mem', '6MB', false) as x")
	assert b.value("show work_mem") == before
	assert a.value("show work_mem") == "6MB"
	a.send(Q("set standard_conforming_strings = on"), Q(r"select 'a\', set_config('work_mem', '7MB', false), '; --\'"))
	a.read_ready(2)
	assert b.value("show work_mem") == before
	assert a.value("show work_mem") == "7MB"


@pytest.mark.parametrize("name", RESETS)
def test_reset_leads_to_what_the_startup_packet_gave(pg, one, name):
	other = one.raw(params={"DateStyle": "ISO, YMD"})
	def told(client):
		return {key: client.params[key] for key in ("DateStyle", "application_name", "TimeZone", "IntervalStyle")}
	with Raw.login(pg.address, user="app", database="app", params=START) as direct:
		client = one.raw(params=START)
		for sql in RESETS[name]:
			assert heard(client, sql) == heard(direct, sql)
			if client.status == "I": # amid a transaction it is told of the server's default
				assert told(client) == told(direct)
				assert other.value("show datestyle") == "ISO, YMD"


def test_a_pinned_client_resets_to_what_its_startup_packet_gave(pg, pooler):
	one = pooler(settings={"default_pool_size": 1})
	a = one.raw(params=START)
	a.query("listen a")
	for sql in ("reset datestyle", "discard all", "listen a", "reset all"):
		a.query(sql)
		assert a.query(LOOK) == [["German, DMY", "mine", "Asia/Tokyo", "postgres"]]


def test_connect_query_holds_again_after_others_have_set_and_reset(pg, pooler):
	one = pooler(settings={"default_pool_size": 1}, databases={"app": {"connect_query": "set search_path = cq, public; set work_mem = '3MB'"}})
	a, b = one.raw(), one.raw()
	a.query("set search_path = a")
	for _ in range(2):
		assert b.query("select current_setting('search_path'), current_setting('work_mem')") == [["cq, public", "3MB"]]
		assert a.query("select current_setting('search_path'), current_setting('work_mem')") == [["a", "3MB"]]
	a.query("discard all")
	assert b.query("select current_setting('search_path'), current_setting('work_mem')") == [["cq, public", "3MB"]]
	c = one.raw(params={"application_name": "x:org=other:y"})
	assert c.query("select current_setting('search_path'), current_setting('work_mem')") == [["cq, public", "3MB"]]


@pytest.mark.parametrize("name", SCRIPTS)
def test_nothing_of_a_script_reaches_another_client(pg, one, name):
	other = one.raw()
	# pg_settings shows no custom names: those are looked at by themselves; once set, PostgreSQL knows them for ever, as ''
	# ... and a library's settings once it is loaded, which nothing undoes
	look = "select name, setting from pg_settings where name not like '%.%' order by 1"
	before = other.query(look)

	def unchanged():
		assert other.query(look) == before
		assert other.value("select coalesce(current_setting('my.own', true), '')") == ""
		assert other.value("select current_user") == "app"
	play(one.raw(), SCRIPTS[name], unchanged)


def test_a_role_follows_its_client(own_pg, pooler):
	pg = own_pg()
	pg.sql("create role worker; grant worker to app; alter role app noinherit; create table mine (a int); alter table mine owner to worker", dbname="app")
	one = pooler(pg, settings={"default_pool_size": 1})
	a, b = one.raw(), one.raw()
	a.query("set role worker")
	for _ in range(2):
		assert b.value("select current_user") == "app"
		with pytest.raises(ServerError) as refused:
			b.query("select * from mine")
		assert refused.value.sqlstate == "42501"
		assert a.value("select current_user") == "worker"
		assert a.query("select * from mine") == []
	a.query("reset role")
	assert b.value("select current_user") == "app"
	assert a.value("select current_user") == "app"


def test_a_session_user_follows_its_client(own_pg, pooler):
	pg = own_pg()
	one = pooler(pg, settings={"default_pool_size": 1}, databases={"app": {"user": "postgres"}})
	a, b = one.raw(), one.raw()
	a.query("set session authorization app")
	for _ in range(2):
		assert b.value("select session_user") == "postgres"
		assert a.value("select session_user") == "app"
	a.query("reset session authorization")
	assert a.value("select session_user") == "postgres"


def test_a_role_that_is_gone_hurts_its_client_only(own_pg, pooler):
	pg = own_pg()
	pg.sql("create role worker; grant worker to app", dbname="app")
	one = pooler(pg, settings={"default_pool_size": 1})
	a, b = one.raw(), one.raw()
	a.query("set role worker")
	assert b.value("select current_user") == "app"
	pg.sql("drop role worker", dbname="app")
	with pytest.raises(ServerError) as refused:
		a.query("select 1")
	assert (refused.value.severity, refused.value.sqlstate) == ("FATAL", "22023")
	for _ in range(3):
		assert b.value("select current_user") == "app"


def test_a_changed_default_reaches_those_who_never_asked(own_pg, pooler):
	pg = own_pg()
	one = pooler(pg, settings={"default_pool_size": 1, "server_lifetime": 3600})
	a, b = one.raw(), one.raw()
	a.query("set work_mem = '6MB'")
	assert b.value("show work_mem") != "7MB"
	pg.sql("alter system set work_mem = '7MB'", dbname="app")
	pg.sql("select pg_reload_conf()", dbname="app")
	until("the server has read it", lambda: b.value("show work_mem") == "7MB", 5)
	assert a.value("show work_mem") == "6MB"


def test_settings_follow_in_the_extended_protocol(one):
	a, b = one.raw(), one.raw()
	def extended(client, sql, *params):
		return client.talk(P("", sql), B("", "", *params), E(), S)
	assert extended(a, "set search_path = a") == "1 2 C(SET) Z(I)"
	assert extended(b, "show search_path") == '1 2 D["$user", public] C(SHOW) Z(I)'
	assert extended(a, "show search_path") == "1 2 D[a] C(SHOW) Z(I)"
	assert extended(a, "select set_config($1, $2, $3)", "work_mem", "6MB", "f") == "1 2 D[6MB] C(SELECT 1) Z(I)"
	b.query("select 1")
	assert extended(a, "show work_mem") == "1 2 D[6MB] C(SHOW) Z(I)"
	assert extended(a, "select set_config($1, $2, $3)", "my.other", "x", "f") == "1 2 D[x] C(SELECT 1) Z(I)"
	assert b.value("select coalesce(current_setting('my.other', true), '')") == ""
	assert extended(a, "show my.other") == "1 2 D[x] C(SHOW) Z(I)"
	a.send(P("s", "select set_config('my.own', $1, false)"), S)
	a.expect("1 Z(I)")
	for value in ("x", "y"):
		b.query("select 1")
		a.talk(B("", "s", value), E(), S)
		b.query("select 1")
		assert a.value("show my.own") == value


def test_a_batch_that_fails_takes_its_settings_back(one):
	a, b = one.raw(), one.raw()
	assert a.talk(P("", "set work_mem = '6MB'"), B(), E(), P("", "select 1/x from generate_series(0, 0) x"), B(), E(), S) == "1 2 C(SET) 1 2 E(22012) Z(I)"
	b.query("select 1")
	assert a.value("show work_mem") == b.value("show work_mem")


def test_a_pipeline_behind_a_set_stays_in_order(one):
	a, b = one.raw(), one.raw()
	for i in range(20):
		a.send(Q(f"set work_mem = {1000 + i}"), Q("show work_mem"), Q("set search_path = a"), Q("reset work_mem"), Q("show search_path"))
		b.query("select 1")
		assert a.read_ready(5) == f"C(SET) Z(I) T D[{1000 + i}kB] C(SHOW) Z(I) C(SET) Z(I) C(RESET) Z(I) T D[a] C(SHOW) Z(I)"


def test_a_client_that_sets_and_leaves_at_once_leaves_nothing(one):
	pids = set()
	for i in range(30):
		client = one.raw()
		client.send(Q(f"set search_path = x{i}"))
		assert client.read_ready() == "C(SET) Z(I)"
		client.terminate()
		other = one.raw()
		assert other.value("show search_path") == '"$user", public'
		pids.add(other.value("select pg_backend_pid()"))
		other.terminate()
	assert len(pids) == 1, "the server connection was thrown away"


def test_a_client_that_vanishes_amid_a_set_leaves_nothing(one):
	for how in ("close", "reset"):
		for sql in ("set search_path = x", "begin; set search_path = x", "set search_path = x; select pg_sleep(0.2)"):
			client = one.raw()
			client.send(Q(sql))
			getattr(client, how)()
			other = one.raw(seconds=8)
			assert other.value("show search_path") == '"$user", public'


def test_statements_mean_what_their_clients_search_path_says(pg, one):
	pg.sql("drop schema if exists s1, s2 cascade; create schema s1; create schema s2; create table s1.t as select 1 as a; "
	       "create table s2.t as select 'two'::text as a; grant usage on schema s1, s2 to public; grant select on s1.t, s2.t to public", dbname="app")
	a, b = one.raw(), one.raw()
	a.query("set search_path = s1")
	b.query("set search_path = s2")
	for client in (a, b):
		client.send(P("s", "select a from t"), S)
		client.expect("1 Z(I)")
	for _ in range(3):
		assert a.talk(B("", "s"), E(), S) == "2 D[1] C(SELECT 1) Z(I)"
		assert b.talk(B("", "s"), E(), S) == "2 D[two] C(SELECT 1) Z(I)"
	pg.sql("drop schema s1, s2 cascade", dbname="app")


def test_a_text_too_long_to_be_read_is_told_by_its_tags(pg, pooler):
	one = pooler(settings={"default_pool_size": 1, "inspect_bytes": 4096})
	a, b = one.raw(), one.raw()
	a.query("select '" + "x" * 10000 + "'; set search_path = a")
	assert b.value("show search_path") == '"$user", public'
	assert a.value("show search_path") == "a"


def test_many_settings_keep_the_server_rather_than_be_lost(pg, pooler):
	one = pooler(settings={"default_pool_size": 2})
	a, b = one.raw(), one.raw()
	a.query(";".join(f"set my.n{i} = {i}" for i in range(300)))
	a_pid = a.value("select pg_backend_pid()")
	assert b.value("select pg_backend_pid()") != a_pid
	assert a.value("show my.n299") == "299"
	def pinned():
		return [row["pinned"] for row in one.show("CLIENTS") if row["link"]]
	assert pinned() == ["settings"]
	for sql in ("reset my.n0", "unlisten *", "select 1"):
		a.query(sql)
		assert a.value("show my.n299") == "299" and pinned() == ["settings"]
	a.query("discard all")
	until("it is free again", lambda: not pinned(), 3)


def test_with_allow_nothing_is_asked_and_settings_stay_behind(pg, pooler):
	one = pooler(settings={"default_pool_size": 1, "session_features": "allow"})
	a, b = one.raw(), one.raw()
	a.query("set search_path = a")
	assert b.value("show search_path") == "a"


def test_in_session_mode_all_is_postgresqls_own(pg, pooler):
	one = pooler(settings={"default_pool_size": 2, "pool_mode": "session"})
	a, b = one.raw(), one.raw()
	a.query("set search_path = a")
	a.query("create temp table tt (a int)")
	b.query("select 1")
	assert a.value("show search_path") == "a"
	assert a.query("select * from tt") == []


def test_settings_do_not_cross_to_another_org(pg, pooler):
	one = pooler(settings={"default_pool_size": 1, "max_db_connections": 1})
	a = one.raw(params={"application_name": "app:org=one:x"})
	b = one.raw(params={"application_name": "app:org=two:x"})
	a.query("set search_path = a; set my.own = 'secret'")
	for _ in range(3):
		assert b.value("show search_path") == '"$user", public'
		assert b.value("select coalesce(current_setting('my.own', true), '')") == ""
		assert a.value("show search_path") == "a"
		assert a.value("show my.own") == "secret"


@pytest.mark.parametrize("make", ["select set_config('my.x', repeat('é', 2000000), false)", "select set_config('my.x' || '', repeat('x', 70000), false), set_config('my.y', 'y', false)"])
def test_a_setting_too_large_to_be_carried_keeps_the_server_until_it_is_reset(pg, pooler, make):
	two = pooler(settings={"default_pool_size": 2})
	a, b = two.raw(), two.raw()
	a.query("set work_mem = '6MB'")
	a.query(make + ", 'my.x'")
	length = a.value("select length(current_setting('my.x'))")
	assert int(length) >= 70000
	assert b.value("select current_setting('my.x', true)") is None
	assert [row["pinned"] for row in two.show("CLIENTS") if row["pinned"]] == ["settings"]
	a.query("reset my.x")
	until("it is free again", lambda: not [row for row in two.show("CLIENTS") if row["pinned"]], 3)
	assert a.value("show work_mem") == "6MB"


def test_a_statement_timeout_of_the_client_does_not_hit_our_question(pg, one):
	a, b = one.raw(seconds=5), one.raw()
	a.query("set statement_timeout = '50ms'")
	with Raw.login(pg.address, user="postgres", database="app") as holder:
		holder.query("begin; lock table pg_catalog.pg_depend in access exclusive mode") # which the question reads
		assert a.talk(Q("do $$ begin end $$")) == "C(DO) Z(I)"
		until("the question is asked again", lambda: pg.count("wait_event_type = 'Lock' and position('set_config(''statement_timeout''' in query) > 0"), 3)
		assert a.is_quiet(0.4) # more than the limit for each of the times that it is asked
		holder.query("rollback")
	assert a.value("show statement_timeout") == "50ms"
	assert b.value("show statement_timeout") == "0"
	a.query("set my.x = 'x'")
	assert a.query("select current_setting('my.x'), current_setting('statement_timeout')") == [["x", "50ms"]]


def test_a_setting_made_by_a_function_call_follows(one):
	a, b = one.raw(), one.raw()
	set_config = 2078 # OID
	for cut in (1, 8, 20):
		call = F(set_config, "work_mem", "7MB", "f") + F(set_config, "my.call", "x", "f")
		a.send_split(call, range(0, len(call), cut))
		assert a.read_ready(2) == "V Z(I) V Z(I)"
		assert b.value("show work_mem") != "7MB"
		assert not b.value("select current_setting('my.call', true)")
		assert a.query("select current_setting('work_mem'), current_setting('my.call')") == [["7MB", "x"]]
		a.query("reset all")


def test_a_text_that_others_prepared_where_nobody_looks_is_looked_at(pg, pooler):
	one = pooler(heading="pgbouncer", settings={"default_pool_size": 1, "session_features": "pin", "max_prepared_statements": 50},
	             databases={"app": {}, "ses": {"dbname": "app", "pool_mode": "session"}})
	first, a, b = one.raw("ses"), one.raw(), one.raw()
	prepared = P("s", "set work_mem = '6MB'")
	assert first.talk(prepared, S) == "1 Z(I)"
	assert a.talk(prepared, B("", "s"), E(), S) == "1 2 C(SET) Z(I)"
	assert b.value("show work_mem") != "6MB"
	assert a.value("show work_mem") == "6MB"


# the second byte of this letter is a backslash in SJIS, of the other in GBK and BIG5
@pytest.mark.parametrize("encoding, letter", [("SJIS", "\u8868"), ("GBK", "\u8a93"), ("BIG5", "\u529f"), ("LATIN1", "\u00e9"), ("UTF8", "\u8868")])
def test_a_value_is_the_same_whatever_the_encoding(pg, pooler, encoding, letter):
	two = pooler(settings={"default_pool_size": 3})
	look = "select encode(convert_to(current_setting('my.x', true), 'UTF8'), 'hex')"
	a, b, late = two.raw(params={"client_encoding": encoding}), two.raw(), two.raw()
	a.query(f"set my.x = U&'\\{ord(letter):04x}'")
	late.query(f"set my.x = U&'\\{ord(letter):04x}'")
	late.query(f"set client_encoding = '{encoding}'")
	for _ in range(3):
		assert b.query(look) in ([[None]], [[""]])
		assert a.value(look) == letter.encode().hex() == late.value(look)
		assert b.value("show client_encoding") == "UTF8"
	assert a.value("show client_encoding") == encoding == late.value("show client_encoding")
