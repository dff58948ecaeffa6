"""Who shares which server connection, and how many there are."""

import time

import pytest

from rig.limits import limit, until
from rig.load import start_pgbench, watch
from rig.raw import B, Closed, E, P, Q, Raw, S, ServerError

pytestmark = pytest.mark.usefixtures("clean")


def backend(client):
	return int(client.value("select pg_backend_pid()"))


def test_clients_share_one_server_in_transaction_mode(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	assert len({backend(weir.raw()) for _ in range(10)}) == 1


def test_a_transaction_keeps_its_server_and_others_wait(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	a, b = weir.raw(), weir.raw()
	a.query("begin")
	b.send(Q("select 'b'"))
	weir.wait_pool(cl_waiting=1)
	assert a.value("select 'a'") == "a"
	assert b.is_quiet(0.05)
	a.query("commit")
	b.expect("T D[b] C(SELECT 1) Z(I)")


def test_a_session_keeps_its_server_to_the_end(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "pool_mode": "session"})
	a, b = weir.raw(), weir.raw()
	pid = backend(a)
	b.send(Q("select pg_backend_pid()"))
	weir.wait_pool(cl_waiting=1)
	assert backend(a) == pid
	a.terminate()
	b.expect(f"T D[{pid}] C(SELECT 1) Z(I)")


def test_a_session_is_reset_before_the_next_one(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "pool_mode": "session"})
	a = weir.raw()
	a.query("create temp table mine (x int)")
	a.query("set work_mem = '1MB'")
	a.query("listen something")
	pid = backend(a)
	a.terminate()
	b = weir.raw()
	assert backend(b) == pid
	assert b.value("select to_regclass('mine')") is None
	assert b.value("select count(*) from pg_listening_channels()") == "0"
	with Raw.login(pg.address, user="app", database="app") as direct:
		assert b.value("show work_mem") == direct.value("show work_mem")


def test_statement_mode_lends_a_server_for_one_statement(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "pool_mode": "statement"})
	a, b = weir.raw(), weir.raw()
	assert backend(a) == backend(b)


def test_statement_mode_refuses_a_transaction(pg, pooler):
	weir = pooler(settings={"pool_mode": "statement"})
	client = weir.raw()
	with pytest.raises((ServerError, Closed)):
		client.query("begin")
		client.query("select 1")
	weir.wait_log("transaction blocks not allowed in statement pooling mode")


def test_the_pool_mode_of_the_entry_stands_above_the_global_one(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1},
	              databases={"app": {}, "sticky": {"dbname": "app", "pool_mode": "session"}})
	a = weir.raw("sticky")
	backend(a)
	b = weir.raw("sticky")
	b.send(Q("select 1"))
	weir.wait_pool("sticky", cl_waiting=1)
	a.terminate()
	b.expect("T D[1] C(SELECT 1) Z(I)")


def test_the_pool_mode_of_the_user_stands_above_the_entry(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1}, users={"app2": {"pool_mode": "session"}})
	a = weir.raw(user="app2")
	backend(a)
	b = weir.raw(user="app2")
	b.send(Q("select 1"))
	weir.wait_pool(user="app2", cl_waiting=1)
	a.terminate()
	b.expect("T D[1] C(SELECT 1) Z(I)")


@pytest.mark.parametrize("size", [1, 3, 7])
def test_pool_size_holds_at_every_sample(pg, pooler, size):
	weir = pooler(settings={"default_pool_size": size})
	bench = start_pgbench(weir, "select pg_sleep(0.002);\n", clients=24, seconds=1)
	seen = []
	samples = watch(bench, lambda: seen.append(pg.count()))
	assert max(seen) == size and samples > 20


def test_pool_size_of_the_entry_holds_for_each_user(pg, pooler):
	weir = pooler(settings={"default_pool_size": 9}, databases={"app": {"pool_size": 2}})
	benches = [start_pgbench(weir, "select pg_sleep(0.002);\n", clients=8, seconds=1, user=user)
	           for user in ("app", "app2")]
	watch(benches[0], lambda: [check_at_most(pg, 2, "usename = %s", user)
	                           for user in ("app", "app2")])
	watch(benches[1], lambda: None)
	assert pg.count("usename = 'app'") == 2


def check_at_most(pg, most, where, *params):
	count = pg.count(where, *params)
	assert count <= most, f"{count} sessions where {where} {params}"
	return count


def test_min_pool_size_is_filled_without_being_asked(pg, pooler):
	weir = pooler(settings={"default_pool_size": 5, "min_pool_size": 3})
	client = weir.raw()
	assert client.value("select 1") == "1"
	until("three servers are there", lambda: pg.count() == 3, 4)
	assert weir.pool()["cl_waiting"] == 0


@pytest.mark.pgweir("1.18 needs a client first")
def test_min_pool_size_of_a_forced_user_is_kept_warm_without_clients(pg, pooler):
	pooler(databases={"app": {"user": "app", "min_pool_size": 2}})
	until("two servers are there", lambda: pg.count() == 2, 4)


def test_a_killed_server_of_the_minimum_comes_back(pg, pooler):
	weir = pooler(settings={"min_pool_size": 2})
	client = weir.raw()
	client.query("select 1")
	until("two servers are there", lambda: pg.count() == 2, 4)
	killed = {row[0] for row in pg.sql("select pid, pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'")}

	def others():
		pids = {row[0] for row in pg.sql("select pid from pg_stat_activity where usename = 'app'")}
		return len(pids) == 2 and not pids & killed

	until("both are back", others, 4)
	assert client.value("select 1") == "1"


def test_the_reserve_pool_helps_after_its_timeout_only(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "reserve_pool_size": 1,
	                        "reserve_pool_timeout": 1})
	a, b = weir.raw(), weir.raw(seconds=5)
	a.query("begin")
	began = time.monotonic()
	assert b.value("select 1") == "1"
	waited = time.monotonic() - began
	assert 0.9 <= waited
	assert pg.count() == 2
	weir.wait_log("taking connection from reserve_pool")
	a.query("rollback")


def test_the_reserve_pool_is_a_cap_too(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "reserve_pool_size": 1,
	                        "reserve_pool_timeout": 0.2})
	holders = [weir.raw(seconds=5) for _ in range(2)]
	for holder in holders:
		holder.query("begin")
	late = weir.raw(seconds=5)
	late.send(Q("select 1"))
	weir.wait_pool(cl_waiting=1)
	assert late.is_quiet(0.6)
	assert pg.count() == 2
	holders[0].query("rollback")
	late.expect("T D[1] C(SELECT 1) Z(I)")
	holders[1].query("rollback")


def test_max_db_connections_holds_over_all_users(pg, pooler):
	weir = pooler(settings={"default_pool_size": 5, "max_db_connections": 3})
	benches = [start_pgbench(weir, "select pg_sleep(0.002);\n", clients=8, seconds=1, user=user)
	           for user in ("app", "app2")]
	seen = set()
	for bench in benches:
		watch(bench, lambda: seen.add(check_at_most(pg, 3, "datname = 'app'")))
	assert 3 in seen, "the limit is never reached"


def test_at_max_db_connections_an_idle_server_of_another_user_makes_room(pg, pooler):
	weir = pooler(settings={"max_db_connections": 1})
	assert weir.raw(user="app").value("select 1") == "1"
	assert weir.raw(user="app2").value("select current_user") == "app2"
	assert pg.count() == 1
	weir.wait_log("closing because: evicted")


def test_max_user_connections_holds_over_all_databases(pg, pooler):
	weir = pooler(settings={"default_pool_size": 5, "max_user_connections": 3})
	benches = [start_pgbench(weir, "select pg_sleep(0.002);\n", clients=8, seconds=1, database=name)
	           for name in ("app", "app2")]
	seen = set()
	for bench in benches:
		watch(bench, lambda: seen.add(check_at_most(pg, 3, "usename = 'app'")))
	assert 3 in seen, "the limit is never reached"


def test_max_user_connections_of_the_user_s_line(pg, pooler):
	weir = pooler(users={"app2": {"max_user_connections": 1}})
	a, b = weir.raw("app", "app2"), weir.raw("app2", "app2")
	a.query("begin")
	b.send(Q("select 1"))
	weir.wait_pool("app2", "app2", cl_waiting=1)
	assert b.is_quiet(0.2)
	assert pg.count("usename = 'app2'") == 1
	a.query("rollback")
	b.expect("T D[1] C(SELECT 1) Z(I)")


def test_a_minimum_never_evicts_and_never_churns(pg, pooler):
	"""min_pool_size above a cap must not open and evict for ever (pgbouncer #647)."""
	weir = pooler(settings={"min_pool_size": 3, "max_db_connections": 2})
	a, b = weir.raw(user="app"), weir.raw(user="app2")
	a.query("select 1")
	b.query("select 1")
	until("the cap is reached", lambda: pg.count() == 2, 4)
	mark = pg.mark()
	pids = {row["pid"] for row in pg.sessions()}
	time.sleep(1.2)  # three rounds of PgBouncer's janitor: a claim that nothing happens
	assert {row["pid"] for row in pg.sessions()} == pids
	assert "FATAL" not in pg.log(mark)


def refused_at(weir, count, database="app", user="app"):
	for _ in range(count):
		weir.raw(database, user)
	return weir.refusal(database, user)


def test_max_client_conn_refuses_one_too_many_with_53300(pg, pooler):
	weir = pooler(settings={"max_client_conn": 3})
	refused = refused_at(weir, 3)
	assert refused.sqlstate in weir.code("53300") and refused.severity == "FATAL"
	assert "max_client_conn" in refused.message


def test_the_console_is_reachable_at_max_client_conn(pg, pooler):
	weir = pooler(settings={"max_client_conn": 2})
	refused_at(weir, 2)
	assert weir.admin("SHOW VERSION")


def test_a_place_is_free_again_when_a_client_leaves(pg, pooler):
	weir = pooler(settings={"max_client_conn": 2})
	first = weir.raw()
	weir.raw()
	weir.refusal()
	first.terminate()
	until("the place is free", lambda: logs_in(weir), 2)


def logs_in(weir):
	try:
		weir.raw()
		return True
	except ServerError:
		return False


@pytest.mark.pgweir("client caps came with 1.24")
def test_max_db_client_connections_refuses_with_53300(pg, pooler):
	weir = pooler(databases={"app": {"max_db_client_connections": 2}, "app2": {}})
	refused = refused_at(weir, 2)
	assert refused.sqlstate == "53300" and "max_db_client_connections" in refused.message
	assert weir.raw("app2").value("select 1") == "1"


@pytest.mark.pgweir("client caps came with 1.24")
def test_max_user_client_connections_refuses_with_53300(pg, pooler):
	weir = pooler(users={"app2": {"max_user_client_connections": 2}})
	refused = refused_at(weir, 2, user="app2")
	assert refused.sqlstate == "53300" and "max_user_client_connections" in refused.message
	assert weir.raw(user="app").value("select 1") == "1"


@pytest.mark.pgweir("client caps came with 1.24")
def test_refused_logins_do_not_use_up_the_caps(pg, pooler):
	"""One flag per client says whether it was counted (pgbouncer 1.24.1)."""
	weir = pooler(settings={"auth_type": "plain"},
	              users={"app2": {"max_user_client_connections": 2}})
	for _ in range(6):
		weir.refusal(user="app2", password="wrong")
	assert weir.raw(user="app2").value("select 1") == "1"
	assert weir.raw(user="app2").value("select 1") == "1"
	weir.refusal(user="app2")


def test_waiting_clients_are_served_in_the_order_they_came(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	holder = weir.raw()
	holder.query("begin")
	clients = [weir.raw() for _ in range(8)]
	for place, client in enumerate(clients, 1):
		client.send(Q("select clock_timestamp()"))
		weir.wait_pool(cl_waiting=place)
	holder.query("rollback")
	times = []
	for client in clients:
		letter, _ = client.read_message()
		assert letter == "T"
		times.append(client.next_letter())
		client.read(2)
	assert times == sorted(times)


@pytest.mark.pgweir("1.18 does not look at waiting clients")
def test_a_waiting_client_that_leaves_is_forgotten(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	holder, gone, next_one = weir.raw(), weir.raw(), weir.raw()
	holder.query("begin")
	gone.send(Q("insert into t values (666)"))
	weir.wait_pool(cl_waiting=1)
	next_one.send(Q("select 'served'"))
	weir.wait_pool(cl_waiting=2)
	gone.reset()
	weir.wait_pool(cl_waiting=1)
	holder.query("rollback")
	next_one.expect("T D[served] C(SELECT 1) Z(I)")
	assert pg.value("select count(*) from t", dbname="app") == 0


@pytest.mark.parametrize("leave", ["terminate", "close", "reset"])
def test_a_client_that_leaves_inside_a_transaction_leaves_nothing(pg, pooler, leave):
	weir = pooler(settings={"default_pool_size": 1})
	pg.sql("insert into t values (1)", dbname="app")
	a = weir.raw()
	a.query("begin")
	a.query("update t set x = 2")
	getattr(a, leave)()
	b = weir.raw()
	assert b.value("select x from t") == "1"
	assert b.value("select txid_current_if_assigned()") is None


def test_a_client_that_leaves_in_a_failed_transaction_leaves_nothing(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	a = weir.raw()
	assert a.talk(Q("begin"), Q("select 1/0"), times=2) == "C(BEGIN) Z(T) E(22012) Z(E)"
	a.reset()
	assert weir.raw().value("select 1") == "1"


def test_a_client_cut_in_the_middle_of_a_message_taints_no_server(pg, pooler):
	"""The rest of a half message must never be a stranger's bytes (supavisor #1164)."""
	weir = pooler(settings={"default_pool_size": 1})
	mark = pg.mark()
	bystander = weir.raw()
	halves = [b"Q\0\0", b"Q" + (200000).to_bytes(4, "big") + b"select '" + b"x" * 70000,
	          B("", "", "y" * 1000)[:500], P("", "select $1")[:9]]
	for half in halves:
		for leave in ("reset", "close"):
			a = weir.raw()
			a.query("begin")
			a.send(half)
			getattr(a, leave)()
			assert bystander.value("select 41 + 1") == "42"
	assert "invalid frontend message type" not in pg.log(mark)


def test_settings_of_the_entry_reach_the_server(pg, pooler):
	weir = pooler(databases={"app": {"client_encoding": "LATIN1", "datestyle": "German",
	                                 "timezone": "Asia/Tokyo"}})
	client = weir.raw(params={"datestyle": "ISO"})
	assert client.value("show client_encoding") == "LATIN1"
	assert client.value("show timezone") == "Asia/Tokyo"
	assert client.value("show datestyle").startswith("ISO")


def test_connect_query_runs_on_each_new_server(pg, pooler):
	weir = pooler(databases={"app": {"connect_query": "set work_mem = '3MB'"}})
	assert weir.raw().value("show work_mem") == "3MB"


@pytest.mark.pgweir("1.18 waits server_login_retry after the first host")
def test_several_hosts_are_tried_before_anybody_waits(pg, pooler):
	"""127.0.0.2 refuses on this port; the other one works (pgbouncer #872)."""
	weir = pooler(databases={"app": {"host": "127.0.0.2,127.0.0.1"}},
	              settings={"server_login_retry": 15, "default_pool_size": 2})
	began = time.monotonic()
	for _ in range(10):
		assert weir.raw().value("select 1") == "1"
	assert time.monotonic() - began < limit(2)


def test_server_connections_to_a_socket_folder(pg, pooler):
	weir = pooler(databases={"app": {"host": pg.socket_dir}})
	assert weir.raw().value("select inet_server_addr()") is None


def test_a_server_that_was_reset_by_nobody_keeps_named_portals_to_its_transaction(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	a, b = weir.raw(), weir.raw()
	a.talk(Q("begin"))
	assert a.talk(P("", "select generate_series(1, 3)"), B("p1", ""), E("p1", 1), S) \
		== "1 2 D[1] s Z(T)"
	assert a.talk(E("p1", 1), S) == "D[2] s Z(T)"
	a.query("commit")
	assert b.talk(E("p1", 1), S) == "E(34000) Z(I)"


def test_many_clients_of_many_users_and_databases_at_once(pg, pooler):
	weir = pooler(settings={"default_pool_size": 2, "max_client_conn": 200})
	benches = [start_pgbench(weir, "begin;\nselect pg_sleep(0.001);\nselect 1;\ncommit;\n",
	                         clients=6, seconds=1, database=name, user=user)
	           for name in ("app", "app2") for user in ("app", "app2")]
	for bench in benches:
		watch(bench, lambda: check_at_most(pg, 8, "true"))


def test_disable_pqexec_refuses_the_simple_protocol_only(pg, pooler):
	weir = pooler(settings={"disable_pqexec": 1})
	client = weir.raw()
	client.send(P("", "select 1"), B(), E(), S)
	client.expect("1 2 D[1] C(SELECT 1) Z(I)")
	client.send(Q("select 1"))
	client.expect("E(08P01) EOF")
	assert client.errors[-1]["M"] == "PQexec disallowed"
	weir.stop()


@pytest.mark.pgweir("1.18 closes it without a word")
def test_server_fast_close_ends_a_session_after_reconnect(pg, pooler):
	weir = pooler(settings={"server_fast_close": 1, "pool_mode": "session"})
	idle, busy = weir.raw(), weir.raw()
	idle.query("select 1")
	busy.query("begin")
	weir.admin("RECONNECT")
	idle.expect("E(57P01) EOF")
	assert idle.errors[-1]["M"] == "database configuration changed"
	assert busy.value("select 2") == "2"
	busy.send(Q("commit"))
	assert busy.read_eof() == "C(COMMIT) Z(I) E(57P01) EOF"


def test_an_automatic_database_is_made_and_freed_again(pg, pooler):
	weir = pooler(databases={"*": {}}, settings={"autodb_idle_timeout": 1, "server_idle_timeout": 1})
	client = weir.raw("postgres")
	assert client.value("select current_database()") == "postgres"
	weir.wait_log("registered new auto-database: postgres")
	client.close()
	until("its pool is gone", lambda: not [row for row in weir.admin("SHOW POOLS") if row["database"] == "postgres"], 6)
