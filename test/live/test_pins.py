"""What cannot follow a client ties it to its server connection until it is given up.

Other clients use other connections meanwhile; SHOW CLIENTS says who is pinned, and why.
"""

import pytest

from rig.limits import until
from rig.raw import B, E, F, P, Q, S, ServerError

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.pgweir("no pins there")]

# what ties a client: how it is taken, how SHOW CLIENTS calls it, and the ways of giving it up
TIES = {
	"listen": (["listen a"], "listen", ["unlisten a", "unlisten *", "discard all"]),
	"listen_twice": (["listen a", "listen b"], "listen", ["unlisten *", "unlisten a; unlisten b"]),
	"lock": (["select pg_advisory_lock(1)"], "advisory_lock", ["select pg_advisory_unlock(1)", "select pg_advisory_unlock_all()", "discard all"]),
	"lock_shared": (["select pg_try_advisory_lock_shared(1, 2)"], "advisory_lock", ["select pg_advisory_unlock_shared(1, 2)"]),
	"lock_rolled_back": (["begin", "select pg_advisory_lock(1)", "rollback"], "advisory_lock", ["select pg_advisory_unlock(1)"]),
	"temp_table": (["create temp table tt (a int)"], "temporary", ["drop table tt", "discard temp", "discard all"]),
	"select_into_temp": (["select 1 as a into temp tt"], "temporary", ["drop table tt"]),
	"temp_schema": (["create table pg_temp.tt (a int)"], "temporary", ["drop table pg_temp.tt"]),
	"temp_path": (["set search_path = pg_temp, public", "create table tt (a int)"], "temporary", ["drop table tt", "discard all"]),
	"temp_path_here": (["begin", "set local search_path to Pg_Temp", "select 1 as a into tt", "commit"], "temporary", ["drop table tt"]),
	"temp_path_by_function": (["select set_config('search_path', 'pg_temp', false); select 1 as a into tt"], "temporary", ["drop table tt"]),
	"temp_view": (["create temp view tv as select 1"], "temporary", ["drop view tv"]),
	"temp_function": (["create function pg_temp.f() returns int language sql as 'select 1'"], "temporary", ["drop function pg_temp.f()"]),
	"temp_sequence": (["create temp sequence ts"], "temporary", ["drop sequence ts"]),
	"with_hold": (["declare c cursor with hold for select generate_series(1, 3)"], "with_hold", ["close c", "close all", "discard all"]),
	"with_hold_in_transaction": (["begin", "declare c cursor with hold for select 1", "commit"], "with_hold", ["close c"]),
	"prepare": (["prepare p as select 1"], "prepare", ["deallocate p", "deallocate all", "discard all"]),
	"do_block": (["do $$ begin create temp table tt (a int); end $$"], "temporary", ["drop table tt"]),
	"amid_others": (["select 1; listen a; select 2"], "listen", ["select 1; unlisten a"]),
}


@pytest.fixture
def two(pg, pooler):
	return pooler(settings={"default_pool_size": 2})


def run(client, statements):
	for sql in statements:
		client.query(sql)


def pid(client):
	return client.value("select pg_backend_pid()")


def pinned(pooler):
	"""What SHOW CLIENTS says, of clients that hold a server."""
	return [row["pinned"] for row in pooler.show("CLIENTS") if row["pinned"]]


@pytest.mark.parametrize("name, give_up", [(name, way) for name, (_, _, ways) in TIES.items() for way in ways])
def test_a_tie_keeps_client_and_server_together_until_it_is_given_up(two, name, give_up):
	take, word, _ = TIES[name]
	a, b = two.raw(), two.raw()
	run(a, take)
	mine = pid(a)
	for _ in range(3):
		assert pid(b) != mine
		assert pid(a) == mine
	assert pinned(two) == [word]
	a.query(give_up)
	until("it is free again", lambda: pinned(two) == [], 3)
	assert two.pool()["sv_active"] == 0


@pytest.mark.parametrize("sql", [
	"begin; select pg_advisory_xact_lock(1); commit", "begin; create temp table tt (a int) on commit drop; commit",
	"begin; listen a; rollback", "begin; declare c cursor for select 1; commit", "notify a", "create temp table tt (a int); drop table tt",
	"select pg_advisory_lock(1); select pg_advisory_unlock(1)", "prepare p as select 1; execute p; deallocate p",
])
def test_what_is_over_with_its_transaction_ties_nobody(two, sql):
	a = two.raw()
	a.query(sql)
	until("nobody is pinned", lambda: pinned(two) == [] and two.pool()["sv_active"] == 0, 3)


def test_advisory_locks_are_counted_as_postgresql_counts_them(two):
	a = two.raw()
	for _ in range(3):
		a.query("select pg_advisory_lock(7)")
	for _ in range(2):
		a.query("select pg_advisory_unlock(7)")
		assert a.query("select 1") and pinned(two) == ["advisory_lock"]
	a.query("select pg_advisory_unlock(7)")
	until("free", lambda: pinned(two) == [], 3)


def test_several_ties_hold_until_the_last_is_given_up(two):
	a = two.raw()
	run(a, ["listen a", "create temp table tt (a int)", "prepare p as select 1"])
	a.query("select 1")
	assert pinned(two) == ["listen,temporary,prepare"]
	a.query("unlisten *")
	a.query("drop table tt")
	assert a.query("execute p") == [["1"]]
	assert pinned(two) == ["prepare"]
	a.query("deallocate p")
	until("free", lambda: pinned(two) == [], 3)


def test_a_listener_hears_its_notifications_while_it_is_idle(two):
	a, b = two.raw(), two.raw()
	a.query("listen news")
	b.query("notify news, 'x'")
	a.expect("A(news)")
	a.query("unlisten news")
	b.query("notify news, 'x'")
	assert a.is_quiet()


def test_a_temporary_table_is_its_clients_own(two):
	a, b = two.raw(), two.raw()
	for client, value in ((a, 1), (b, 2)):
		client.query("create temp table tt as select %d as a" % value)
	for _ in range(2):
		assert a.value("select a from tt") == "1"
		assert b.value("select a from tt") == "2"


def test_settings_made_while_pinned_follow_afterwards(two):
	a, b = two.raw(), two.raw()
	a.query("listen a")
	a.query("set work_mem = '6MB'; set my.own = 'x'")
	a.query("select set_config('search_path', 'q', false)")
	a.query("unlisten *")
	until("free", lambda: pinned(two) == [], 3)
	for _ in range(3):
		b.query("begin")
		assert b.value("show work_mem") != "6MB"
		assert a.query("select current_setting('work_mem'), current_setting('my.own'), current_setting('search_path')") == [["6MB", "x", "q"]]
		b.query("commit")


@pytest.mark.parametrize("how", ["terminate", "close", "reset"])
@pytest.mark.parametrize("name", TIES)
def test_a_pinned_client_that_leaves_leaves_nothing(pg, pooler, name, how):
	one = pooler(settings={"default_pool_size": 1})
	a = one.raw()
	run(a, TIES[name][0])
	a.query("select 1")
	getattr(a, how)()
	b = one.raw(seconds=5)
	assert b.query("select (select count(*) from pg_listening_channels()), (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()), "
	               "(select count(*) from pg_class where relnamespace = pg_my_temp_schema()), (select count(*) from pg_cursors where is_holdable), "
	               "(select count(*) from pg_prepared_statements where from_sql)") == [["0"] * 5]
	assert pinned(one) == []


def test_a_library_ties_its_client_for_good_and_its_server_is_not_used_again(own_pg, pooler):
	pg = own_pg()
	one = pooler(pg, settings={"default_pool_size": 1}, databases={"app": {"user": "postgres"}})
	a = one.raw()
	a.query("load 'auto_explain'")
	mine = pid(a)
	assert pinned(one) == ["load"]
	a.terminate()
	b = one.raw(seconds=5)
	assert pid(b) != mine


def test_ties_in_the_extended_protocol(two):
	a, b = two.raw(), two.raw()
	a.send(P("", "select pg_advisory_lock($1::int)"), B("", "", 5), E(), S)
	a.expect("1 2 D[] C(SELECT 1) Z(I)")
	a.query("select 1")
	assert pinned(two) == ["advisory_lock"]
	a.send(P("u", "select pg_advisory_unlock($1::int)"), S)
	a.expect("1 Z(I)")
	a.send(B("", "u", 5), E(), S)
	a.expect("2 D[t] C(SELECT 1) Z(I)")
	until("free", lambda: pinned(two) == [], 3)
	a.send(P("l", "listen a"), B("", "l"), E(), S)
	a.expect("1 2 C(LISTEN) Z(I)")
	assert pid(b) != pid(a)
	a.send(P("", "unlisten a"), B(), E(), S)
	a.expect("1 2 C(UNLISTEN) Z(I)")
	until("free", lambda: pinned(two) == [], 3)


@pytest.mark.parametrize("give_up", ["deallocate p", "deallocate all", "discard all", "DEALLOCATE PREPARE p"])
@pytest.mark.parametrize("named", [False, True])
def test_what_sql_prepared_is_given_up_in_the_extended_protocol(two, give_up, named):
	a = two.raw()
	a.send(P("", "prepare p as select 1"), B(), E(), S)
	a.expect("1 2 C(PREPARE) Z(I)")
	until("it is pinned", lambda: pinned(two) == ["prepare"], 3)
	if named:
		a.talk(P("d", give_up), S)
		said = a.talk(B("", "d"), E(), S)
	else:
		said = a.talk(P("", give_up), B(), E(), S)
	assert "E(" not in said
	until("it is free again", lambda: pinned(two) == [], 3)
	assert two.pool()["sv_active"] == 0


REFUSED = ["listen a", "select pg_advisory_lock(1)", "create temp table tt (a int)", "select 1 into temp tt", "declare c cursor with hold for select 1", "prepare p as select 1", "load 'x'"]


@pytest.mark.parametrize("sql", REFUSED)
def test_reject_refuses_in_both_protocols_and_the_client_stays(pg, pooler, sql):
	one = pooler(settings={"default_pool_size": 1, "session_features": "reject"})
	a, b = one.raw(), one.raw()
	assert a.talk(Q(sql)) == "E(0A000) Z(I)"
	assert "session_features" in a.errors[-1]["M"]
	assert a.talk(P("", sql), B(), E(), P("", "select 1"), B(), E(), S) == "1 E(0A000) Z(I)"
	assert a.talk(P("s", sql), S) == "1 Z(I)"
	assert a.talk(P("", "select 2"), S, B(), E(), B("", "s"), E(), S, times=2) == "1 Z(I) 2 D[2] C(SELECT 1) E(0A000) Z(I)"
	a.query("begin")
	assert a.talk(Q(sql)) == "E(0A000) Z(E)"
	assert a.talk(Q("commit")) == "C(ROLLBACK) Z(I)"
	assert b.query("select count(*) from pg_listening_channels()") == [["0"]]
	assert a.query("select 1") == [["1"]]


def test_reject_passes_what_ties_nothing(pg, pooler):
	one = pooler(settings={"default_pool_size": 1, "session_features": "reject"})
	a, b = one.raw(), one.raw()
	a.query("begin; create temp table tt (a int) on commit drop; commit")
	a.query("select pg_advisory_xact_lock(1)")
	a.query("set work_mem = '6MB'")
	b.query("select 1")
	assert a.value("show work_mem") == "6MB"


def test_reject_ends_a_client_whose_function_hid_it(pg, pooler):
	one = pooler(settings={"default_pool_size": 1, "session_features": "reject"})
	a = one.raw()
	a.send(Q("do $$ begin perform pg_advisory_lock(1); end $$"))
	assert a.read_ready() == "C(DO) Z(I)"
	assert a.read_eof() == "E(0A000) EOF"
	b = one.raw()
	assert b.query("select count(*) from pg_locks where locktype = 'advisory'") == [["0"]]


def test_max_pinned_holds_per_org_and_refuses_the_next(pg, pooler):
	one = pooler(settings={"default_pool_size": 5}, orgs={"*": {"max_pinned": 1}})
	def client(org):
		return one.raw(params={"application_name": f"x:org={org}:y"})
	a, b, c = client("one"), client("one"), client("two")
	a.query("listen a")
	a.query("select 1")
	assert b.talk(Q("listen a")) == "E(53300) Z(I)"
	assert "max_pinned" in b.errors[-1]["M"] and '"one"' in b.errors[-1]["M"]
	assert b.talk(P("", "listen a"), B(), E(), S) == "1 E(53300) Z(I)"
	assert c.talk(Q("listen a")) == "C(LISTEN) Z(I)"
	assert a.talk(Q("create temp table tt (a int)")) == "C(CREATE TABLE) Z(I)"
	a.query("drop table tt; unlisten *")
	until("a gave it up", lambda: [r for r in one.show("CLIENTS", org="one") if r["pinned"]] == [], 3)
	assert b.talk(Q("listen a")) == "C(LISTEN) Z(I)"
	b.query("select 1")
	b.close()
	until("b's place is free", lambda: a.talk(Q("listen a")) == "C(LISTEN) Z(I)", 3)


def test_a_pinned_client_that_does_nothing_is_ended_by_client_idle_timeout(pg, pooler):
	one = pooler(settings={"default_pool_size": 1, "client_idle_timeout": 1, "idle_transaction_timeout": 60})
	a = one.raw(seconds=6)
	a.query("listen a")
	assert a.read_eof() == "E(57P05) EOF"
	assert one.raw(seconds=5).query("select 1") == [["1"]]


def test_a_server_that_dies_under_a_pinned_client_takes_it_along(pg, two):
	a = two.raw()
	a.query("listen a")
	mine = pid(a)
	pg.sql(f"select pg_terminate_backend({mine})", dbname="app")
	assert a.read_eof() == "E(57P01) EOF"
	until("nobody is pinned", lambda: pinned(two) == [], 3)


def test_pause_waits_for_pinned_clients_and_kill_ends_them(two):
	a = two.raw()
	a.query("listen a")
	a.query("select 1")
	two.admin("KILL app")
	assert "57P01" in a.read_eof()
	two.admin("RESUME app")
	until("nobody is pinned", lambda: pinned(two) == [], 3)


LOCK, LOCK_OF_TWO, UNLOCK, UNLOCK_ALL = 2880, 2886, 2884, 2892 # OIDs


@pytest.mark.parametrize("how", [(LOCK, "5"), (LOCK_OF_TWO, "5", "6")], ids=["one_key", "two_keys"])
def test_a_lock_taken_by_a_function_call_ties_too(two, how):
	a, b = two.raw(), two.raw()
	assert a.talk(F(*how)) == "V Z(I)"
	mine = pid(a)
	assert pid(b) != mine and pinned(two) == ["advisory_lock"]
	if how[0] == LOCK:
		assert a.talk(F(UNLOCK, "5")) == "V Z(I)"
	else:
		assert a.talk(F(UNLOCK_ALL)) == "V Z(I)"
	until("nobody is pinned", lambda: not pinned(two), 2)


def test_a_lock_taken_by_a_function_call_is_refused_too(pg, pooler):
	one = pooler(settings={"session_features": "reject"})
	a = one.raw()
	assert a.talk(F(LOCK, "5")) == "E(0A000) Z(I)"
	a.query("begin")
	assert a.talk(F(LOCK, "5")) == "E(0A000) Z(E)"
	a.query("rollback")
	assert a.talk(F(1598)) == "V Z(I)" # random()
