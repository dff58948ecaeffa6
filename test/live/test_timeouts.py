"""Each time limit: that it strikes, what it says, and that nothing is left over.

Limits are set to fractions of a second; the tests measure that the limit did
not strike early, and give it patience in being late.
"""

import time

import pytest

from rig.fakeserver import FakeServer, LOGIN, READY, one_row
from rig.limits import until
from rig.pooler import stand_in
from rig.raw import B, Closed, E, P, Q, S, ServerError, c, d

pytestmark = pytest.mark.usefixtures("clean")


def struck(client, parts, *, after, seconds=4):
	"""Send, and wait for the error; gives it, and checks that it did not come early."""
	began = time.monotonic()
	if parts:
		client.send(*parts)
	letters = client.read_eof(seconds)
	took = time.monotonic() - began
	assert "E(" in letters, f"no error: {letters}"
	assert took >= after * 0.9, f"struck after {took:.2f} s already"
	assert letters.endswith("EOF"), letters
	return client.errors[-1]


def test_query_timeout_is_57014_and_closes_the_server(pg, pooler):
	weir = pooler(settings={"query_timeout": 0.4})
	client = weir.raw()
	error = struck(client, [Q("select pg_sleep(20)")], after=0.4)
	assert error["C"] in weir.code("57014")
	assert "query timeout" in error["M"] or "query_timeout" in error["M"]
	if stand_in():
		pg.end_sessions()  # 1.18 leaves the query running
	until("the query has ended on the server", lambda: pg.count("state = 'active'") == 0, 3)


@pytest.mark.parametrize("mode", ["transaction", "session"])
@pytest.mark.pgweir("1.18 counts it")
def test_query_timeout_does_not_count_idle_time_in_a_transaction(pg, pooler, mode):
	"""pgbouncer #22, #579: only while a query runs."""
	weir = pooler(settings={"pool_mode": mode, "query_timeout": 0.5})
	client = weir.raw()
	client.query("begin")
	time.sleep(0.8)  # the idle time that must not count
	for _ in range(3):
		client.query("select pg_sleep(0.3)")
	client.query("commit")


@pytest.mark.pgweir("per-user timeouts came with 1.24")
def test_query_timeout_of_a_user_stands_above_the_global_one(pg, pooler):
	weir = pooler(settings={"query_timeout": 30}, users={"app2": {"query_timeout": 1}})
	struck(weir.raw(user="app2"), [Q("select pg_sleep(20)")], after=1)
	weir.raw(user="app").query("select pg_sleep(1.1)", 4)


def test_query_wait_timeout_is_57014_and_frees_the_place(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "query_wait_timeout": 0.5})
	holder, waiter = weir.raw(), weir.raw()
	holder.query("begin")
	error = struck(waiter, [Q("select 1")], after=0.5)
	assert error["C"] in weir.code("57014") and "query_wait_timeout" in error["M"]
	weir.wait_pool(cl_waiting=0)
	assert holder.value("select 2") == "2"
	holder.query("rollback")


def test_query_wait_timeout_in_an_extended_batch_is_one_error_and_no_stray_ready(pg, pooler):
	"""pgcat PR 137: never a ReadyForQuery before the client's Sync."""
	weir = pooler(settings={"default_pool_size": 1, "query_wait_timeout": 0.5})
	holder, whole, part = weir.raw(), weir.raw(seconds=4), weir.raw(seconds=4)
	holder.query("begin")
	whole.send(P("", "select 1"), B(), E(), S)
	part.send(P("", "select 1"))
	for client in (whole, part):
		assert client.read_eof() in ("E(57014) EOF", "E(08P01) EOF")
	holder.query("rollback")


@pytest.mark.pgweir("query_wait_notify came with 1.25")
def test_query_wait_notify_sends_one_notice(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "query_wait_notify": 1})
	holder, waiter = weir.raw(), weir.raw(seconds=5)
	holder.query("begin")
	waiter.send(Q("select 1"))
	assert waiter.next_letter().startswith("N(")
	assert waiter.notices[-1]["M"] == ("No server connection available in postgres backend, "
	                                   "client being queued")
	holder.query("rollback")
	waiter.expect("T D[1] C(SELECT 1) Z(I)")


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_idle_transaction_timeout_is_25P03_and_rolls_back(pg, pooler, mode):
	weir = pooler(settings={"pool_mode": mode, "idle_transaction_timeout": 0.5, "default_pool_size": 1})
	client = weir.raw()
	client.query("begin")
	client.query("insert into t values (1)")
	error = struck(client, [], after=0.4)
	assert error["C"] in weir.code("25P03") and "idle transaction timeout" in error["M"]
	assert weir.raw().value("select count(*) from t") == "0"


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_idle_transaction_timeout_leaves_a_busy_transaction_alone(pg, pooler, mode):
	weir = pooler(settings={"pool_mode": mode, "idle_transaction_timeout": 0.5})
	client = weir.raw(seconds=4)
	client.query("begin")
	client.query("select pg_sleep(1)")
	client.query("commit")


@pytest.mark.parametrize("mode", ["transaction", "session"])
@pytest.mark.pgweir("transaction_timeout came with 1.24")
def test_transaction_timeout_counts_the_whole_transaction(pg, pooler, mode):
	weir = pooler(settings={"pool_mode": mode, "transaction_timeout": 1})
	client = weir.raw(seconds=4)
	client.query("begin")
	client.query("select pg_sleep(0.3)")
	error = struck(client, [Q("select pg_sleep(20)")], after=0.5)
	assert error["C"] == "57014" and "transaction timeout" in error["M"]
	until("the server has ended it", lambda: pg.count("state <> 'idle'") == 0, 3)


@pytest.mark.alone
@pytest.mark.parametrize("mode", ["transaction", "session"])
@pytest.mark.pgweir("transaction_timeout came with 1.24")
def test_transaction_timeout_begins_anew_with_each_transaction(pg, pooler, mode):
	weir = pooler(settings={"pool_mode": mode, "transaction_timeout": 1})
	client = weir.raw(seconds=4)
	for _ in range(3):
		client.query("begin")
		client.query("select pg_sleep(0.4)")
		client.query("commit")
	assert client.is_quiet(0.8)  # nothing runs: the limit of the last transaction is over with it


def test_client_idle_timeout_is_57P05(pg, pooler):
	weir = pooler(settings={"client_idle_timeout": 0.5})
	client = weir.raw()
	client.query("select 1")
	error = struck(client, [], after=0.4)
	assert error["C"] in weir.code("57P05") and "client_idle_timeout" in error["M"]
	assert pg.count("state = 'active'") == 0


def test_client_idle_timeout_spares_a_client_in_a_query(pg, pooler):
	weir = pooler(settings={"client_idle_timeout": 0.5})
	client = weir.raw(seconds=4)
	client.query("select pg_sleep(1)")


@pytest.mark.parametrize("step", ["nothing", "half a startup packet", "ssl request", "password"])
def test_client_login_timeout_ends_a_login_that_stops_at(pg, pooler, step):
	if stand_in() and step.startswith("half"):
		pytest.skip("stand-in: 1.18 wants the startup packet in one piece")
	weir = pooler(settings={"client_login_timeout": 0.5, "auth_type": "plain",
	                        "tcp_defer_accept": 0})
	client = weir.open(seconds=4)
	began = time.monotonic()
	if step == "half a startup packet":
		client.send(b"\0\0\0\x50\0\3\0\0user\0a")
	elif step == "ssl request":
		assert client.ask_tls() == b"N"
	elif step == "password":
		client.startup(user="app", database="app")
		assert client.read_message()[0] == "R"
	assert client.read_eof().endswith("EOF")
	assert time.monotonic() - began >= 0.4
	weir.wait_log("closing because: client_login_timeout")


@pytest.mark.pgweir("1.18 wants the startup packet in one piece")
def test_many_half_open_logins_are_all_ended(pg, pooler):
	weir = pooler(settings={"client_login_timeout": 0.5, "max_client_conn": 400,
	                        "tcp_defer_accept": 0})
	weir.raw().value("select 1")
	before = weir.fd_count()
	for _ in range(150):
		weir.open().send(b"\0\0\0\x50\0\3")
	until("all are closed", lambda: weir.fd_count() <= before, 5)


def test_server_idle_timeout_closes_idle_servers(pg, pooler):
	weir = pooler(settings={"server_idle_timeout": 0.5})
	client = weir.raw()
	client.query("select 1")
	assert pg.count() == 1
	until("it is closed", lambda: pg.count() == 0, 4)
	weir.wait_log("closing because: server idle timeout")
	assert client.value("select 2") == "2"


def test_server_lifetime_renews_servers_between_transactions(pg, pooler):
	weir = pooler(settings={"server_lifetime": 0.5})
	client = weir.raw()
	client.query("begin")
	first = client.value("select pg_backend_pid()")
	time.sleep(0.8)  # the lifetime passes inside the transaction
	assert client.value("select pg_backend_pid()") == first
	client.query("commit")
	until("the old one is closed", lambda: pg.count("pid = %s", int(first)) == 0, 4)
	assert client.value("select pg_backend_pid()") != first


def test_server_lifetime_zero_uses_a_server_once(pg, pooler):
	weir = pooler(settings={"server_lifetime": 0, "default_pool_size": 1})
	client = weir.raw()
	pids = {client.value("select pg_backend_pid()") for _ in range(4)}
	assert len(pids) == 4


def test_server_connect_timeout_ends_a_login_that_hangs(pooler):
	with FakeServer(login=b"") as mute:
		weir = pooler(settings={"server_connect_timeout": 1, "server_login_retry": 0.2,
		                        "query_wait_timeout": 3},
		              databases={"app": {"host": mute.host, "port": mute.port}})
		client = weir.open(seconds=5)
		client.startup(user="app", database="app")
		try:
			client.authenticate("app", None)
			client.query("select 1")
			raise AssertionError("a query was answered")
		except (ServerError, Closed):
			pass
		weir.wait_log("closing because: connect timeout")


@pytest.mark.pgweir("server_check_timeout is ours")
def test_a_server_that_does_not_answer_its_check_is_replaced(pooler):
	"""The mute connection is closed and the client gets another, without an error."""
	mute = []

	def answer(_, body):
		return None if mute and body == b"select 'check'\0" else one_row() + READY

	with FakeServer(login=LOGIN, answers={"Q": answer}) as server:
		weir = pooler(settings={"server_check_delay": 0, "server_check_query": "select 'check'",
		                        "server_check_timeout": 0.4, "default_pool_size": 1},
		              databases={"app": {"host": server.host, "port": server.port}})
		client = weir.raw(seconds=5)
		assert client.value("select 1") == "1"
		logins = server.logins
		mute.append(True)
		client.send(Q("select 1"))
		until("the mute one is given up", lambda: server.logins > logins, 4)
		mute.clear()
		client.expect("T D[1] C(SELECT 1) Z(I)")


@pytest.mark.pgweir("transaction_timeout is young")
def test_transaction_timeout_spares_a_session_between_transactions(pg, pooler):
	a = pooler(settings={"pool_mode": "session", "transaction_timeout": 1}).raw()
	a.query("select 1")
	time.sleep(1.6)
	assert a.value("select 1") == "1"
	a.query("begin")
	assert "E(57014)" in a.read(2, 3)


def test_idle_transaction_timeout_holds_in_session_mode(pg, pooler):
	a = pooler(settings={"pool_mode": "session", "idle_transaction_timeout": 1}).raw()
	a.query("select 1")
	time.sleep(1.6)
	a.query("begin")
	assert "E(25P03)" in a.read(2, 3)


@pytest.mark.pgweir("answers a lone Sync itself")
def test_a_lone_sync_begins_client_idle_timeout_anew_and_does_not_end_it(pg, pooler):
	a = pooler(settings={"client_idle_timeout": 1}).raw()
	a.query("select 1")
	assert a.talk(S) == "Z(I)"
	assert "E(57P05)" in a.read(2, 3)


def test_copy_data_behind_a_failed_copy_begins_no_query(pg, pooler):
	a = pooler(settings={"default_pool_size": 1, "query_timeout": 1}).raw()
	a.query("begin")
	a.send(Q("copy ct from stdin"))
	a.expect("G")
	a.send(d("this is no number\n"))
	a.expect("E(22P02) Z(E)")
	a.send(d("more\n"), c)
	time.sleep(1.7)
	a.query("rollback")


@pytest.mark.pgweir("server_check_timeout is ours")
def test_server_check_timeout_zero_waits_for_ever(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "pool_mode": "session", "server_check_timeout": 0})
	a = weir.raw()
	pid = a.value("select pg_backend_pid()")
	a.terminate()
	weir.wait_pool(sv_active=0, sv_idle=1)
	assert weir.raw().value("select pg_backend_pid()") == pid
