"""Sudden deaths on every side. Afterwards all is at rest and nothing has leaked."""

import os
import signal
import subprocess
import threading

import pytest

from rig import Relay, fakeserver, raw
from rig.fakeserver import CLOSE, FakeServer, error, message
from rig.limits import SLOW, limit, rounds, until
from rig.pooler import stand_in
from rig.raw import B, Closed, D, E, P, Q, S, ServerError

pytestmark = pytest.mark.usefixtures("clean")


def fast_retry(**more):
	return {"server_login_retry": 0.3, "default_pool_size": 3, **more}


def backend(client):
	return int(client.value("select pg_backend_pid()"))


# --- server backends

def test_an_idle_client_does_not_notice_the_death_of_a_server(pg, pooler):
	weir = pooler(settings=fast_retry(default_pool_size=1))
	client = weir.raw()
	pid = backend(client)
	pg.sql("select pg_terminate_backend(%s)", [pid])
	until("it is gone", lambda: pg.count("pid = %s", pid) == 0)
	until("the pooler has seen it", lambda: not weir.show("SERVERS", remote_pid=pid))
	assert client.value("select 1") == "1"


def test_the_server_s_fatal_error_reaches_the_client_whole(pg, pooler):
	weir = pooler(settings=fast_retry())
	client, bystander = weir.raw(), weir.raw()
	client.query("begin")
	pg.sql("select pg_terminate_backend(%s)", [backend(client)])
	assert client.read_eof() in ("E(57P01) EOF",) or stand_in()
	assert bystander.value("select 1") == "1"


@pytest.mark.pgweir("1.18 says 08P01 to all of it")
@pytest.mark.parametrize("work,outcome", [
	("select pg_sleep(20)", "E(08006) EOF"),
	("insert into t select 1 from pg_sleep(20)", "E(08007) EOF"),
])
def test_a_server_lost_without_a_word_is_08006_or_08007(pg, pooler, work, outcome):
	"""The relay resets the connection: PostgreSQL has no chance to say why."""
	with Relay(pg.address) as relay:
		weir = pooler(databases={"app": {"port": relay.port}}, settings=fast_retry())
		client = weir.raw()
		client.query("select 1")
		client.send(Q(work))
		until("it runs", lambda: pg.count("state = 'active'"))
		relay.cut()
		assert client.read_eof() == outcome
		pg.end_sessions()
		assert weir.raw(seconds=5).value("select 1") == "1"


def ext(text):
	return [P("", text), B(), E()]


SLEEP = "select pg_sleep(20)"
INSERT = "insert into t select 1 from pg_sleep(20)"


@pytest.mark.pgweir("1.18 says 08P01 to all of it")
@pytest.mark.parametrize("work, code", [
	([Q(SLEEP), Q("select 1")], "08006"),
	([Q(SLEEP + ";")], "08006"),
	([Q("select ';' from pg_sleep(20)")], "08006"),
	([Q(f"select 1; {SLEEP}")], "08006"),
	([*ext("select 1"), *ext(SLEEP), S], "08006"),
	([P("", SLEEP), D("S"), B(), E(), S], "08006"),
	([Q("begin"), Q("insert into t values (1)"), Q(SLEEP)], "08006"),
	([Q(INSERT), Q("select 1")], "08007"),
	([Q(f"select 1; {INSERT}")], "08007"),
	([Q(f"begin; insert into t values (1); commit; {SLEEP}")], "08007"),
	([*ext(INSERT), *ext("select 1"), S], "08007"),
	([*ext("insert into t values (1)"), *ext(SLEEP), S], "08007"),
	([*ext(INSERT), S, *ext("select 1"), S], "08007"),
	([P("w", INSERT), P("r", "select 1"), B("", "w"), E(), B("", "r"), E(), S], "08007"),
])
def test_the_worst_of_what_was_under_way_says_what_its_loss_means(pg, pooler, work, code):
	with Relay(pg.address) as relay:
		weir = pooler(databases={"app": {"port": relay.port}}, settings=fast_retry())
		client = weir.raw()
		client.query("insert into t values (0)")
		client.send(*work)
		until("it runs", lambda: pg.count("wait_event = 'PgSleep'"))
		assert weir.raw().value("select 1") == "1"  # what was answered before is read then
		relay.cut()
		assert f"E({code}) EOF" in client.read_eof()
		pg.end_sessions()


def test_kill_9_of_a_backend_restarts_postgresql_and_the_pooler_recovers(own_pg, pooler):
	pg = own_pg()
	weir = pooler(pg, settings=fast_retry())
	idle, busy = weir.raw(seconds=10), weir.raw()
	idle.query("select 1")
	busy.query("begin")
	os.kill(backend(busy), signal.SIGKILL)
	assert busy.read_eof(5).endswith("EOF")
	pg.drop_own()
	until("PostgreSQL is back", pg.answers, 20)
	until("the old client is served", lambda: answers(idle), 10)


def answers(client):
	try:
		return client.value("select 1") == "1"
	except ServerError as failure:
		assert failure.severity != "FATAL", failure
		return False


def test_kill_9_of_postgresql_and_its_return(own_pg, pooler):
	pg = own_pg()
	weir = pooler(pg, settings=fast_retry(query_wait_timeout=20))
	busy, idle = weir.raw(), weir.raw(seconds=20)
	idle.query("select 1")
	busy.query("begin")
	pg.kill()
	assert busy.read_eof(5).endswith("EOF")
	assert weir.admin("SHOW POOLS") and weir.is_alive()
	pg.start()
	until("a new client is served", lambda: serves(weir), 10)


def serves(weir):
	try:
		return weir.raw().value("select 1") == "1"
	except (ServerError, Closed):
		return False


@pytest.mark.pgweir("1.18 tells of its own login failure only")
def test_a_refused_server_is_told_with_its_cause(own_pg, pooler):
	pg = own_pg()
	weir = pooler(pg, settings=fast_retry(server_login_retry=5))
	pg.stop()
	with pytest.raises(ServerError) as refused:
		weir.raw(seconds=5).query("select 1")
	assert refused.value.sqlstate in ("08006", "08001")
	pg.start()
	weir.admin("SET server_login_retry = 0")
	until("it serves again", lambda: serves(weir), 8)


@pytest.mark.pgweir("since 1.21")
def test_a_server_that_is_starting_up_keeps_clients_waiting(pooler, pg):
	"""57P03 is temporary (pgbouncer PR 946)."""
	state = {"starting": True}

	def login(session, body):
		if state["starting"]:
			return error("57P03", "the database system is starting up", "FATAL")
		return fakeserver.LOGIN

	with FakeServer(login=login) as server:
		weir = pooler(databases={"app": {"port": server.port}}, settings=fast_retry())
		results = []

		def ask():
			try:
				client = weir.raw(seconds=10)
				results.append(client.value("select 1"))
			except Exception as failure:
				results.append(repr(failure))

		threads = [threading.Thread(target=ask) for _ in range(5)]
		for thread in threads:
			thread.start()
		until("it was tried twice", lambda: server.logins >= 2, 5)
		assert results == []
		state["starting"] = False
		for thread in threads:
			thread.join(limit(10))
		assert results == ["1"] * 5
		weir.drop_clients()
		weir.databases["app"] = weir.database({})
		weir.reload()


@pytest.mark.parametrize("sqlstate", ["28P01", "3D000", "28000"])
def test_a_login_error_that_will_not_pass_is_told_at_once(pooler, pg, sqlstate):
	with FakeServer(login=error(sqlstate, "words of the server", "FATAL")) as server:
		weir = pooler(databases={"app": {"port": server.port}}, settings=fast_retry())
		with pytest.raises(ServerError) as refused:
			weir.raw().query("select 1")
		assert refused.value.sqlstate in weir.code(sqlstate)
		assert "words of the server" in refused.value.message
		weir.databases["app"] = weir.database({})
		weir.reload()
		until("it serves again", lambda: serves(weir), 5)


# --- hostile servers

HOSTILE_LOGINS = {
	"an error without a code": error(None),
	"an error without fields": message("E", b"\0"),
	"an error without an end": message("E", b"SERROR\0C28P01"),
	"an empty error": message("E", b""),
	"a notice before authentication": message("N", b"SNOTICE\0Mhello\0\0"),
	"an unknown method": message("R", (99).to_bytes(4, "big")),
	"a short method": message("R", b"\0"),
	"sasl without mechanisms": message("R", (10).to_bytes(4, "big") + b"\0"),
	"sasl with an unknown one": message("R", (10).to_bytes(4, "big") + b"SCRAM-SHA-999\0\0"),
	"md5 without salt": message("R", (5).to_bytes(4, "big")),
	"a length of three": b"R\0\0\0\3",
	"a length of 2 GiB": b"R\x7f\xff\xff\xff\0\0\0\0",
	"a negative length": b"S\xff\xff\xff\xf0" + b"x" * 64,
	"ready before authentication": fakeserver.READY,
	"two keys": fakeserver.AUTH_OK + fakeserver.KEY * 2,
	"a short key": fakeserver.AUTH_OK + message("K", b"\0\0"),
	"a version": message("v", (3 << 16).to_bytes(4, "big") + b"\0\0\0\0"),
	"a parameter without a value": fakeserver.AUTH_OK + message("S", b"TimeZone"),
	"a row": fakeserver.one_row(),
	"random bytes": bytes(range(1, 200)),
}


@pytest.mark.parametrize("what", HOSTILE_LOGINS)
def test_a_hostile_login_ends_that_server_and_harms_nobody(pooler, pg, what):
	if stand_in() and what in ("an error without a code", "an error without fields",
	                           "an error without an end", "an empty error",
	                           "ready before authentication"):
		pytest.skip("stand-in: 1.18 dies of it (CVE-2026-6666)")
	with FakeServer(login=HOSTILE_LOGINS[what]) as server:
		weir = pooler(databases={"bad": {"port": server.port}, "app": {}},
		              settings=fast_retry(server_connect_timeout=1, query_wait_timeout=0.8))
		good = weir.raw()
		client = weir.open(seconds=5)
		client.startup(user="app", database="bad")
		try:
			client.authenticate("app", None)
			client.query("select 1")
		except (ServerError, Closed, TimeoutError):
			pass
		assert good.value("select 1") == "1"


def server_first(text):
	"""A SCRAM server whose first message is this."""
	def p_answer(session, body):
		return message("R", (11).to_bytes(4, "big") + text(body) if callable(text)
		               else (11).to_bytes(4, "big") + text)
	return message("R", (10).to_bytes(4, "big") + b"SCRAM-SHA-256\0\0"), p_answer


def nonce_of(body):
	return body[body.index(b"r=") + 2:]


SCRAM_FIRSTS = {
	"a nonce of 10 KB": lambda body: b"r=" + nonce_of(body) + b"n" * 10000 + b",s=c2FsdA==,i=4096",
	"no iterations": lambda body: b"r=" + nonce_of(body) + b"x,s=c2FsdA==,i=0",
	"endless iterations": lambda body: b"r=" + nonce_of(body) + b"x,s=c2FsdA==,i=99999999999",
	"no salt": lambda body: b"r=" + nonce_of(body) + b"x,i=4096",
	"a salt that is none": lambda body: b"r=" + nonce_of(body) + b"x,s=!!!!,i=4096",
	"another nonce": lambda body: b"r=other,s=c2FsdA==,i=4096",
	"nothing": lambda body: b"",
}


@pytest.mark.pgweir("1.18 dies of some (CVE-2026-6665)")
@pytest.mark.parametrize("what", SCRAM_FIRSTS)
def test_a_hostile_scram_server_harms_nobody(pooler, pg, what):
	first, p_answer = server_first(SCRAM_FIRSTS[what])
	with FakeServer(login=first, answers={"p": p_answer}) as server:
		weir = pooler(databases={"bad": {"port": server.port}, "app": {}},
		              settings=fast_retry(server_connect_timeout=1, query_wait_timeout=0.8))
		good = weir.raw()
		client = weir.open(seconds=5)
		client.startup(user="app", database="bad")
		try:
			client.authenticate("app", None)
			client.query("select 1")
		except (ServerError, Closed, TimeoutError):
			pass
		assert good.value("select 1", 3) == "1"


HOSTILE_ANSWERS = {
	"an error without a code": error(None) + fakeserver.READY,
	"an error without fields": message("E", b"\0") + fakeserver.READY,
	"a length of three": b"T\0\0\0\3",
	"a negative length": b"D\xff\xff\xff\xf0" + b"x" * 100,
	"a second authentication": fakeserver.AUTH_OK,
	"a ready of a strange state": message("Z", b"?"),
	"a ready without a state": message("Z", b""),
	"two readies": fakeserver.one_row() + fakeserver.READY * 2,
	"an unknown letter": message("\x7f", b"x") + fakeserver.READY,
	"half a row and the end": None,
	"the end": CLOSE,
}


@pytest.mark.parametrize("what", HOSTILE_ANSWERS)
def test_a_hostile_answer_ends_that_server_and_harms_nobody(pooler, pg, what):
	def half(session, body):
		return fakeserver.one_row()[:30]

	answer = half if HOSTILE_ANSWERS[what] is None else HOSTILE_ANSWERS[what]
	served = []

	def once(session, body):
		if served:
			return fakeserver.one_row("good") + fakeserver.READY
		served.append(1)
		return answer(session, body) if callable(answer) else answer

	with FakeServer(answers={"Q": once}) as server:
		weir = pooler(databases={"bad": {"port": server.port, "pool_size": 1}, "app": {}},
		              settings=fast_retry(query_timeout=1))
		client = weir.raw("bad", seconds=4)
		client.send(Q("select 1"))
		client.read_ready()
		client.close()
		assert weir.raw("bad", seconds=4).value("select 2") == "good"
		assert weir.raw().value("select 3") == "3"


# --- clients

STATES = ["accepted", "startup", "password", "idle", "transaction", "failed", "active", "waiting",
          "copy in", "copy out", "half message", "batch without sync", "cancel"]


def bring_to(weir, state):
	"""A client in this state of its life, made by raw bytes."""
	if state in ("accepted", "startup", "password"):
		client = weir.open()
		if state == "startup":
			client.send(b"\0\0\0\x40\0\3\0\0user")
		elif state == "password":
			client.startup(user="app", database="app")
			client.read_message()
		return client
	if state == "cancel":
		key = weir.raw().key
		client = weir.open()
		client.send(raw.cancel_packet(key)[:12])
		return client
	client = weir.raw()
	steps = {"transaction": [Q("begin")], "failed": [Q("begin"), Q("select 1/0")],
	         "active": [Q("select pg_sleep(0.3)")], "copy in": [Q("copy ct from stdin"), raw.d("1\tx\n")],
	         "copy out": [Q("copy (select repeat('x', 1000) from generate_series(1, 1000000)) to stdout")],
	         "half message": [Q("begin"), Q("select " + "1" * 1000)[:500]],
	         "batch without sync": [P("", "select 1"), B(), E()], "waiting": [], "idle": []}[state]
	if state == "waiting":
		holders = [weir.raw() for _ in range(3)]
		for holder in holders:
			holder.query("begin")
		client.send(Q("select 1"))
		weir.wait_pool(cl_waiting=1)
		client.holders = holders
	elif steps:
		client.send(*steps)
		if state == "batch without sync":
			weir.wait_pool(sv_active=1)
		else:
			client.read(1)
	return client


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_client_that_dies_harms_nobody_in_the_state(pg, pooler, state, how):
	weir = pooler(settings=fast_retry(auth_type="plain", tcp_defer_accept=0))
	for _ in range(3):
		client = bring_to(weir, state)
		getattr(client, how)()
		for holder in getattr(client, "holders", []):
			holder.query("rollback")
		assert weir.raw(seconds=4).value("select 1") == "1"


def test_a_client_program_killed_in_a_transaction_leaves_nothing(pg, pooler):
	weir = pooler(settings=fast_retry(default_pool_size=1))
	child = subprocess.Popen(["psql", "-X", weir.dsn()], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
	                         text=True)
	child.stdin.write("begin;\ninsert into t values (1);\n")
	child.stdin.flush()
	until("it is in its transaction", lambda: pg.count("state = 'idle in transaction'"))
	child.kill()
	child.wait()
	child.stdin.close()
	assert weir.raw().value("select count(*) from t") == "0"


# --- leaks

def connects(weir, count, *, mode="simple"):
	jobs = 8
	out = subprocess.run(["pgbench", "-n", "-C", "-M", mode, "-h", weir.host, "-p", str(weir.port),
	                      "-U", "app", "-c", str(jobs), "-j", "2", "-t", str(count // jobs),
	                      "-f", "/dev/stdin", "app"], input="select 1;\n", text=True, capture_output=True,
	                     timeout=limit(120), env={"PATH": "/usr/bin:/bin", "PGSSLMODE": "disable",
	                                              "PGPASSWORD": weir.password("app")})
	assert out.returncode == 0 and "aborted" not in out.stdout + out.stderr, out.stderr[-2000:]


def test_20_000_connects_leave_the_memory_flat(pg, pooler):
	weir = pooler(settings={"log_connections": 0, "log_disconnections": 0})
	count = 20000 if SLOW == 1 else 6000

	def descriptors():
		return weir.fd_count() - pg.count("usename = 'app'")  # how many servers eight clients need is chance

	connects(weir, count // 4)
	before, fds = weir.rss_kib(), descriptors()
	connects(weir, count - count // 4)
	assert weir.rss_kib() - before < 1024 * (1 if SLOW == 1 else 16)
	until("no descriptor is left over", lambda: descriptors() <= fds)


def test_failed_logins_leave_the_memory_flat(pg, pooler):
	weir = pooler(settings={"auth_type": "plain", "log_connections": 0, "log_disconnections": 0,
	                        "log_pooler_errors": 0})

	def fail(count):
		for n in range(count):
			for user, database, word in (("app", "app", "wrong"), (f"nobody{n}", "app", "x"),
			                             ("app", f"nosuch{n}", weir.password("app"))):
				with raw.Raw(weir.address) as client:
					client.startup(user=user, database=database)
					with pytest.raises((ServerError, Closed)):
						client.authenticate(user, word)

	fail(300)
	before = weir.rss_kib()
	fail(1000)
	assert weir.rss_kib() - before < 1024 * (1 if SLOW == 1 else 16)


def test_clients_reset_at_every_step_leave_the_servers_in_place(pg, pooler):
	"""A drop after ReadyForQuery must not cost a server (pgbouncer #699)."""
	weir = pooler(settings=fast_retry())
	keeper = weir.raw()
	pid = backend(keeper)
	for _ in range(rounds(100)):
		client = weir.raw()
		assert client.value("select 1") == "1"
		client.reset()
	assert backend(keeper) == pid
