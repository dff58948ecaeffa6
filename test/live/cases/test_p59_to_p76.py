"""Faults that users of other poolers reported, cases P-59 to P-76, one test or a few each.

A test is named after its case. The usual run does a slice of what is long or depends on chance; PGWEIR_LONG=1 does
all of it. Where a case leaves the choice to us, the docstring says what we chose: what a PgBouncer user expects.
"""

import glob
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time

import psycopg
import pytest

from rig import Relay, fakeserver, process, raw
from rig.cases import backend, in_threads
from rig.fakeserver import FakeServer, error
from rig.limits import LONG, limit, until
from rig.load import start_pgbench, watch
from rig.pooler import CONSOLE_PASSWORDS
from rig.postgres import PASSWORDS
from rig.raw import B, Closed, D, E, P, Q, Raw, S, ServerError, c, d
from test_console import GOLDEN
from test_kill import HOSTILE_ANSWERS, HOSTILE_LOGINS, SCRAM_FIRSTS, server_first

pytestmark = pytest.mark.usefixtures("clean")


def count(usual, whole):
	return whole if LONG else usual


def holds_for(seconds, what, check):
	"""A claim that something stays so can only be watched for a while."""
	end = time.monotonic() + seconds
	while time.monotonic() < end:
		assert check(), what
		time.sleep(0.02)


# --- P-59: query_timeout and the time between queries

def test_p59_query_timeout_does_not_count_the_time_between_queries(pg, pooler):
	weir = pooler(settings={"query_timeout": 0.8})
	client = weir.raw(seconds=5)
	client.query("begin")
	time.sleep(1.2)  # longer than the limit, and nothing runs
	assert client.value("select 1") == "1"
	for _ in range(5):
		client.query("select pg_sleep(0.4)")
	began = time.monotonic()
	client.send(Q("select pg_sleep(30)"))
	letters = client.read_eof(4)
	assert "E(57014)" in letters and letters.endswith("EOF")
	assert 0.7 <= time.monotonic() - began < limit(1.8)
	until("the server does not run it any more", lambda: pg.count("state <> 'idle'") == 0)


def test_p59_transaction_timeout_counts_the_whole_transaction(pg, pooler):
	weir = pooler(settings={"transaction_timeout": 1.2, "query_timeout": 0.8})
	client = weir.raw(seconds=5)
	client.query("begin")
	began = time.monotonic()
	with pytest.raises((ServerError, Closed)):
		for _ in range(5):
			client.query("select pg_sleep(0.4)")
	assert time.monotonic() - began >= 1
	until("the server has ended it", lambda: pg.count("state <> 'idle'") == 0)


def test_p59_query_timeout_counts_a_result_that_streams(pg, pooler):
	"""Our choice, and PgBouncer's: the limit counts to ReadyForQuery, however much has come before.

	The error is told where a message ends; inside a row there is no room for it, and only the end is seen.
	"""
	weir = pooler(settings={"query_timeout": 1})
	client = weir.raw(seconds=5)
	# Rows larger than PostgreSQL's buffer of 8 KB leave it one by one.
	client.send(Q("select repeat('x', 9000), pg_sleep(0.01) from generate_series(1, 3000)"))
	assert client.read_message()[0] == "T"
	letters = re.sub("x+", "x", client.read_eof(4))
	assert re.fullmatch(r"(D\[x,\] ){10,}(E\(57014\) )?EOF", letters), letters[-200:]
	weir.wait_log("closing because: query_timeout")
	until("the server does not run it any more", lambda: pg.count("state = 'active'") == 0)


# --- P-60: PAUSE and KILL of one database

def test_p60_a_paused_database_has_no_server_until_resume(own_pg, pooler):
	pg = own_pg()
	weir = pooler(pg, settings={"server_login_retry": 0.5}, databases={"app": {}, "app2": {"min_pool_size": 1}})
	clients = [weir.raw(seconds=10) for _ in range(5)]
	for client in clients:
		client.query("select 1")
	other = weir.raw("app2", seconds=10)
	weir.admin("PAUSE app")
	assert pg.count("datname = 'app'") == 0
	for client in clients:
		client.send(Q("select 'served'"))

	def is_kept():
		assert other.value("select 1") == "1"
		return pg.count("datname = 'app'") == 0

	holds_for(count(1, 3), "a server of a paused database", is_kept)
	pg.restart()
	assert pg.count("datname = 'app'") == 0
	weir.admin("RESUME app")
	for client in clients:
		client.expect("T D[served] C(SELECT 1) Z(I)")


def test_p60_a_minimum_is_not_filled_up_while_paused(pg, pooler):
	weir = pooler(databases={"app": {"user": "app", "min_pool_size": 3}, "app2": {}})
	until("the minimum is there", lambda: pg.count("datname = 'app'") == 3, 4)
	weir.admin("PAUSE app")
	holds_for(1.2, "a server of a paused database", lambda: pg.count("datname = 'app'") == 0)
	weir.admin("RESUME app")
	until("the minimum is back", lambda: pg.count("datname = 'app'") == 3, 4)


def test_p60_kill_drops_all_and_new_clients_wait_for_resume(pg, pooler):
	weir = pooler(databases={"app": {}, "app2": {}})
	inside, idle, other = weir.raw(), weir.raw(), weir.raw("app2")
	inside.query("begin")
	idle.query("select 1")
	weir.admin("KILL app")
	for client in (inside, idle):
		letters = client.read_eof()
		assert re.fullmatch(r"E\(.....\) EOF", letters), letters
	until("its servers are gone", lambda: pg.count("datname = 'app'") == 0)
	assert weir.show("DATABASES", name="app")[0]["paused"] == 1
	assert weir.show("DATABASES", name="app2")[0]["paused"] == 0
	answers = []
	waiting = threading.Thread(target=lambda: answers.append(weir.raw(seconds=10).value("select 'resumed'")))
	waiting.start()
	waiting.join(0.5)
	assert not answers and pg.count("datname = 'app'") == 0
	assert other.value("select 1") == "1"
	weir.admin("RESUME app")
	waiting.join(limit(5))
	assert answers == ["resumed"]


# --- P-61: several hosts

def test_p61_another_host_is_tried_at_once(pg, pooler):
	weir = pooler(databases={"app": {"host": "127.0.0.2,127.0.0.1"}},
	              settings={"server_login_retry": 15, "default_pool_size": 20})
	began = time.monotonic()
	clients = [weir.raw() for _ in range(20)]
	for client in clients:
		client.query("begin")
	assert time.monotonic() - began < limit(1)
	for client in clients:
		client.query("rollback")


def test_p61_when_all_hosts_are_down_the_cause_is_told_and_the_first_to_return_is_used(own_pg, pooler):
	pg = own_pg()
	weir = pooler(pg, databases={"app": {"host": "127.0.0.2,127.0.0.1"}}, settings={"server_login_retry": 15})
	pg.stop()
	began = time.monotonic()
	client = weir.open(seconds=3)
	client.startup(user="app", database="app")
	with pytest.raises(ServerError) as refused:
		client.authenticate("app", None)
		client.query("select 1")
	assert time.monotonic() - began < limit(1)
	assert "refused" in refused.value.message, refused.value.message
	pg.start()

	def serves():
		try:
			with Raw.login(weir.address, user="app", database="app", seconds=15) as again:
				return again.value("select 1") == "1"
		except (ServerError, Closed):
			return False

	until("it serves", serves, 15)


# --- P-62: a server that is starting up, and one that will not have us

def through_a_gate(weir, seconds=10):
	"""Ten clients that ask at once; gives the list their answers come to, and their threads."""
	answers = []

	def ask():
		try:
			with Raw.login(weir.address, user="app", database="app", seconds=seconds) as client:
				answers.append(client.value("select 1"))
		except Exception as failure:
			answers.append(failure)

	threads = [threading.Thread(target=ask) for _ in range(10)]
	for thread in threads:
		thread.start()
	return answers, threads


def test_p62_clients_wait_while_the_server_is_starting_up(pg, pooler):
	starting = [True]

	def login(session, body):
		return error("57P03", "the database system is starting up", "FATAL") if starting else fakeserver.LOGIN

	with FakeServer(login=login) as server:
		weir = pooler(databases={"app": {"port": server.port}},
		              settings={"server_login_retry": 0.5, "default_pool_size": 3})
		answers, threads = through_a_gate(weir)
		until("it was tried again", lambda: server.logins >= 3, 5)
		time.sleep(count(0.5, 2))  # the time it takes to start
		assert answers == []
		starting.clear()
		for thread in threads:
			thread.join(limit(10))
		assert answers == ["1"] * 10
		weir.databases["app"] = weir.database({})
		weir.reload()


@pytest.mark.parametrize("sqlstate,words", [("28P01", "password authentication failed for user \"app\""),
                                            ("3D000", "database \"app\" does not exist"),
                                            ("28000", "no pg_hba.conf entry for host \"127.0.0.1\"")])
def test_p62_an_error_that_will_not_pass_is_told_at_once_and_whole(pg, pooler, sqlstate, words):
	with FakeServer(login=error(sqlstate, words, "FATAL")) as server:
		weir = pooler(databases={"app": {"port": server.port}}, settings={"server_login_retry": 5})
		began = time.monotonic()
		answers, threads = through_a_gate(weir)
		for thread in threads:
			thread.join(limit(5))
		assert time.monotonic() - began < limit(1.5)
		assert len(answers) == 10
		for failure in answers:
			assert isinstance(failure, ServerError), failure
			assert failure.sqlstate == sqlstate and words in failure.message, failure
		weir.databases["app"] = weir.database({})
		weir.reload()


# --- P-63: the server's own last words

def test_p63_the_end_of_a_backend_is_told_in_its_own_words(pg, pooler):
	weir = pooler(settings={"default_pool_size": 2})
	inside, bystander = weir.raw(), weir.raw()
	inside.query("begin")
	pid = backend(inside)
	pg.sql("select pg_terminate_backend(%s)", [pid])
	assert inside.read_eof() == "E(57P01) EOF"
	assert inside.errors[0]["S"] == "FATAL"
	assert bystander.value("select 1") == "1"
	weir.wait_log("terminating connection due to administrator command")


def test_p63_idle_in_transaction_session_timeout_is_25P03(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	client = weir.raw()
	client.query("begin")
	client.query("set local idle_in_transaction_session_timeout = '300ms'")
	assert client.read_eof() == "E(25P03) EOF"
	assert weir.raw().value("select 1") == "1"


def test_p63_an_idle_client_notices_nothing(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	client = weir.raw()
	for _ in range(5):
		pid = backend(client)
		pg.sql("select pg_terminate_backend(%s)", [pid])
		until("it is gone", lambda: pg.count("pid = %s", pid) == 0)
		until("the pooler has seen it", lambda: not weir.show("SERVERS", remote_pid=pid))
		assert client.is_quiet(0.01)
		assert client.value("select 1") == "1"


def test_p63_kill_9_of_a_backend_hurts_those_in_a_transaction_only(own_pg, pooler):
	pg = own_pg()
	weir = pooler(pg, settings={"default_pool_size": 3, "server_login_retry": 0.3})
	inside, other, idle = weir.raw(), weir.raw(), weir.raw(seconds=10)
	idle.query("select 1")
	for client in (inside, other):
		client.query("begin")
	os.kill(backend(inside), signal.SIGKILL)
	for client in (inside, other):
		letters = client.read_eof(10)
		assert re.search(r"E\(\w{5}\) EOF$", letters), letters
	pg.drop_own()
	until("PostgreSQL is back", pg.answers, 20)
	assert idle.value("select 1") == "1"


def test_p63_a_database_that_is_not_there_is_3D000(pg, pooler):
	weir = pooler(databases={"app": {}, "gone": {"dbname": "no_such_database"}})
	for name in ("gone", "never_heard_of"):
		client = weir.open()
		client.startup(user="app", database=name)
		with pytest.raises(ServerError) as refused:
			client.authenticate("app", None)
			client.query("select 1")
		assert refused.value.sqlstate == "3D000", refused.value


# --- P-64: clients that go at every step

STEPS = ["connected", "ssl request", "startup", "password", "logged in", "half a query", "query sent", "after C",
         "after Z"]


def go_at(weir, step):
	"""A client that vanishes (RST) at this step."""
	client = Raw(weir.address)
	try:
		if step == "connected":
			return
		if step == "ssl request":
			client.send(raw.SSL_REQUEST)
			return
		client.startup(user="app", database="app")
		if step == "startup":
			return
		assert client.read_message()[0] == "R"
		client.send(raw.p(raw.text(weir.password("app"))))
		if step == "password":
			return
		client.authenticate("app", weir.password("app"))
		if step == "half a query":
			client.send(Q("select 'half of a query'")[:12])
		elif step != "logged in":
			client.send(Q("select 1"))
			if step == "after C":
				client.read(3)
			elif step == "after Z":
				assert client.read(4) == "T D[1] C(SELECT 1) Z(I)"
	finally:
		client.reset()


def pids_of(pg):
	return {row["pid"] for row in pg.sessions("usename = 'app'")}


def test_p64_clients_that_go_at_any_step_harm_nobody(pg, pooler):
	seed = random.randrange(1 << 32)
	print(f"seed {seed}")
	weir = pooler(settings={"auth_type": "plain", "default_pool_size": 5, "max_client_conn": 300, "tcp_defer_accept": 0,
	                        "log_connections": 0, "log_disconnections": 0, "log_pooler_errors": 0})

	def churn(chance):
		for _ in range(count(60, 2500)):
			go_at(weir, chance.choice(STEPS))

	in_threads(*(lambda n=n: churn(random.Random(seed + n)) for n in range(8)), seconds=110)
	assert weir.raw().value("select 41 + 1") == "42"


@pytest.mark.parametrize("step", ["connected", "ssl request", "startup", "password", "logged in", "after Z"])
def test_p64_a_client_that_owes_nothing_costs_no_server(pg, pooler, step):
	weir = pooler(settings={"auth_type": "plain", "default_pool_size": 2, "tcp_defer_accept": 0})
	weir.raw().query("select 1")
	mine = pids_of(pg)
	for _ in range(count(100, 1000)):
		go_at(weir, step)
	weir.raw().query("select 1")
	assert mine <= pids_of(pg)


@pytest.mark.parametrize("tls", ["disable", "require"])
def test_p64_short_sessions_under_shows_and_reloads(pg, pooler, certs, tls):
	weir = pooler(settings={"default_pool_size": 5, "max_client_conn": 300, "client_tls_sslmode": "prefer",
	                        "client_tls_cert_file": certs.server_cert, "client_tls_key_file": certs.server_key,
	                        "log_connections": 0, "log_disconnections": 0})
	script = process.write_file(f"{weir.folder}/p64.sql", "select 1;\n", 0o644)
	bench = subprocess.Popen(["pgbench", "-n", "-C", "-c", "100", "-j", "2", "-T", str(count(2, 60)), "-f", script,
	                          weir.dsn(sslmode=tls)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
	reloaded = [time.monotonic()]

	def look():
		for what in ("POOLS", "SERVERS", "CLIENTS"):
			weir.admin(f"SHOW {what}")
		if time.monotonic() - reloaded[0] > 1:
			weir.admin("RELOAD")
			reloaded[0] = time.monotonic()
		time.sleep(0.01)

	watch(bench, look, count(20, 90))


# --- P-65: servers that say what no server says

def outcome(client):
	"""What a client is told: the SQLSTATE, a value, or that it was told nothing."""
	try:
		client.authenticate("app", None)
		return client.value("select 1")
	except ServerError as failure:
		return failure.sqlstate
	except (Closed, OSError) as failure:
		return type(failure).__name__


def play_hostile(pooler, server):
	weir = pooler(databases={"bad": {"port": server.port, "pool_size": 1}, "app": {}},
	              settings={"server_connect_timeout": 1, "server_login_retry": 0.3, "query_wait_timeout": 2,
	                        "query_timeout": 1})
	good = weir.raw()
	for _ in range(2):
		client = weir.open(seconds=5)
		client.startup(user="app", database="bad")
		got = outcome(client)
		assert re.fullmatch(r"[0-9A-Z]{5}", got), f"the client was told: {got}"
	assert good.value("select 1") == "1"
	weir.admin("SHOW SERVERS")


@pytest.mark.parametrize("what", HOSTILE_LOGINS)
def test_p65_an_odd_login_is_an_error_for_its_clients_only(pg, pooler, what):
	with FakeServer(login=HOSTILE_LOGINS[what]) as server:
		play_hostile(pooler, server)


@pytest.mark.parametrize("what", SCRAM_FIRSTS)
def test_p65_an_odd_scram_server_is_an_error_for_its_clients_only(pg, pooler, what):
	first, answer = server_first(SCRAM_FIRSTS[what])
	with FakeServer(login=first, answers={"p": answer}) as server:
		play_hostile(pooler, server)


# These are well-formed enough to be handed on: the client sees them, and nobody is the worse for it.
PASSED_ON = ["an error without a code", "an error without fields", "half a row and the end"]


@pytest.mark.parametrize("what", [name for name in HOSTILE_ANSWERS if name not in PASSED_ON]
                         + list(HOSTILE_LOGINS))
def test_p65_an_odd_message_in_a_query_ends_that_server(pg, pooler, what):
	if what in PASSED_ON:
		pytest.skip("as an answer to a query it is handed on")
	answer = HOSTILE_ANSWERS.get(what, HOSTILE_LOGINS.get(what))
	turns = []

	def once(session, body):
		turns.append(1)
		return answer if len(turns) == 1 else fakeserver.one_row("good") + fakeserver.READY

	with FakeServer(answers={"Q": once}) as server:
		weir = pooler(databases={"bad": {"port": server.port, "pool_size": 1}, "app": {}},
		              settings={"query_timeout": 1, "server_login_retry": 0.3})
		client = weir.raw("bad", seconds=4)
		client.send(Q("select 1"))
		letters = client.read_ready()
		assert "EOF" in letters or "Z(" in letters, letters
		client.close()
		assert weir.raw("bad", seconds=4).value("select 2") == "good"
		assert weir.raw().value("select 3") == "3"


# --- P-66: memory of logins and of automatic databases

def test_p66_logins_of_all_kinds_leave_the_memory_flat(pg, pooler):
	weir = pooler(settings={"auth_type": "scram-sha-256", "auth_user": "lookup", "default_pool_size": 3,
	                        "auth_query": "select usename, passwd from public.lookup($1)", "log_connections": 0,
	                        "log_disconnections": 0, "log_pooler_errors": 0, "max_client_conn": 300,
	                        "client_login_timeout": 5},
	              databases={"*": {}},
	              userlist={"lookup": PASSWORDS["lookup"], "admin": CONSOLE_PASSWORDS["admin"]})

	def bad(rounds):
		for n in range(rounds):
			for user, database, word in (("app", "app", "wrong"), (f"nobody{n}", "app", "x"),
			                             ("app", f"nosuch{n % 7}", weir.password("app"))):
				with Raw(weir.address, seconds=5) as client:
					client.startup(user=user, database=database)
					with pytest.raises((ServerError, Closed)):
						client.authenticate(user, word)
						client.query("select 1")
			with Raw(weir.address) as client:
				client.startup(user="app2", database="app")
				client.read_message()
				client.reset()

	def good(connects):
		script = process.write_file(f"{weir.folder}/p66.sql", "select 1;\n", 0o644)
		for user in ("app", "app2"):
			done = process.run(["pgbench", "-n", "-C", "-c", "4", "-j", "2", "-t", str(connects // 8), "-f", script,
			                    weir.dsn(user=user)], seconds=120)
			assert "number of failed transactions: 0 (" in done.stdout, done.stdout

	warm, rest = count(800, 5000), count(1600, 15000)
	good(warm)
	bad(warm // 20)
	before = weir.rss_kib()
	good(rest)
	bad(rest // 20)
	assert weir.rss_kib() - before < 1024


def test_p66_automatic_databases_end_and_give_back_their_memory(pg, pooler):
	weir = pooler(settings={"autodb_idle_timeout": 1, "server_idle_timeout": 1, "log_connections": 0,
	                        "log_disconnections": 0}, databases={"*": {"dbname": "app"}})

	def names():
		return [row["name"] for row in weir.admin("SHOW DATABASES") if row["name"].startswith("auto")]

	def come_and_go(turn):
		total = count(60, 500)
		for n in range(total):
			with Raw.login(weir.address, user="app", database=f"auto_{turn}_{n}", seconds=5) as client:
				assert client.value("select 1") == "1"
				client.send(raw.X)
			if n % 50 == 49:
				until("the servers are closed", lambda: pg.count() < 60, 10)
		return total

	come_and_go(0)
	until("they have ended", lambda: not names(), 20)
	before = weir.rss_kib()
	for turn in (1, 2):
		come_and_go(turn)
		assert names()
		until("they have ended", lambda: not names(), 20)
	assert weir.rss_kib() - before < 1024


# --- P-67: drivers on the console

def test_p67_the_extended_protocol_is_one_error_and_one_ready(pg, pooler):
	console = pooler().console()
	for _ in range(3):
		assert console.talk(P("", "SHOW POOLS"), B(), D("P"), E(), S) == "E(08P01) Z(I)"
		assert console.is_quiet(0.05)
		assert console.talk(Q("SHOW VERSION")).startswith("T D[")


WHAT = ["pools", "stats", "clients", "servers", "databases", "lists", "config", "mem"]


def test_p67_psycopg_reads_the_console(pg, pooler):
	weir = pooler()
	weir.raw().query("select 1")
	with psycopg.connect(weir.dsn(weir.console_name, "admin"), autocommit=True,
	                     cursor_factory=psycopg.ClientCursor) as client:
		for what in WHAT:
			cursor = client.execute(f"show {what}")
			assert cursor.fetchall() and cursor.description[0].name


def test_p67_a_begin_on_the_console_breaks_nothing(pg, pooler):
	"""Our choice: refused or tolerated, but answered, and the connection goes on."""
	console = pooler().console()
	for word in ("BEGIN", "COMMIT", "ROLLBACK"):
		letters = console.talk(Q(word))
		assert re.fullmatch(r"(C\(\w+\)|E\(\w{5}\)) Z\(I\)", letters), letters
		assert console.talk(Q("SHOW VERSION")).startswith("T D[")


def test_p67_psql_reads_the_console(pg, pooler):
	weir = pooler()
	weir.raw().query("select 1")
	dsn = weir.dsn(weir.console_name, "admin")
	for what in WHAT:
		done = process.run(["psql", "-X", "-x", "-c", f"show {what}", dsn])
		assert "-[ RECORD 1 ]" in done.stdout
	done = process.run(["psql", "-XAt", dsn], stdin="show pools;\nshow stats;\n")
	assert "app|app|" in done.stdout and not done.stderr
	console = weir.console()
	letters = console.talk(Q("show pools; show stats"))
	assert letters.endswith("Z(I)") and letters.count("Z(") == 1
	assert letters.count("T ") == 2 or "E(" in letters, letters


# --- P-68: what counts as a query

def totals(weir, database):
	row = weir.show("STATS", database=database)[0]
	return int(row["total_query_count"]), int(row["total_xact_count"])


def differ(weir, database, work):
	before = totals(weir, database)
	work()
	after = totals(weir, database)
	return after[0] - before[0], after[1] - before[1]


def whole(row):
	return {name: int(value) for name, value in row.items() if name != "database"}


def test_p68_notifications_are_not_queries(pg, pooler):
	weir = pooler(settings={"pool_mode": "session"}, databases={"app": {}, "app2": {}})
	a = weir.raw()
	a.query("listen ch")
	b = weir.raw(seconds=10)
	mark, turns = weir.mark(), count(200, 1000)

	def notify():
		for _ in range(turns):
			assert b.talk(Q("notify ch")) == "C(NOTIFY) Z(I)"
		assert a.read(turns, 10) == " ".join(["A(ch)"] * turns)

	assert differ(weir, "app", notify) == (turns, turns)
	assert "WARNING" not in weir.log(mark)
	row = whole(weir.show("STATS", database="app")[0])
	for name in ("avg_query_time", "avg_xact_time", "avg_wait_time"):
		assert 0 <= row[name] < 2_000_000, (name, row[name])
	spent = row["total_query_time"] / (turns + 1)
	assert 0 < spent < 1_000_000


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_p68_notices_and_settings_that_come_late_are_not_queries(pg, pooler, mode):
	"""PostgreSQL before 14 reports a changed default while a session is idle; a notice may come at any time."""
	with FakeServer() as server:
		weir = pooler(databases={"late": {"port": server.port, "pool_size": 1}, "app": {}}, settings={"pool_mode": mode})
		a = weir.raw("late")
		a.query("select 1")
		mark = weir.mark()

		def come_late():
			for n in range(50):
				for sock in list(server._sockets):
					sock.sendall(fakeserver.parameter("TimeZone", f"Etc/GMT+{n % 10}")
					             + raw.message("N", b"SNOTICE\0C00000\0Mlate\0\0"))
			if mode == "session":
				assert a.read(50) == " ".join(["N(00000)"] * 50)

		assert differ(weir, "late", come_late) == (0, 0)
		assert a.value("select 2") == "1"
		assert "WARNING" not in weir.log(mark)


def test_p68_transactions_pipelines_and_copies_are_counted_by_ready(pg, pooler):
	"""As PgBouncer counts: a query is what ends in one ReadyForQuery, so a pipeline under one Sync is one."""
	weir = pooler(settings={"default_pool_size": 1})
	a = weir.raw()
	a.query("select 1")

	def transaction():
		a.talk(*map(Q, ("begin", "select 1", "select 2", "select 3", "commit")), times=5)

	def pipeline():
		got = a.talk(*(part for n in range(5) for part in (P("", f"select {n}"), B(), E())), S)
		assert got.count("C(SELECT 1)") == 5

	def copy():
		a.talk(Q("copy ct from stdin"), d("1\tone\n"), d("2\ttwo\n"), c)
		a.talk(Q("copy ct to stdout"))

	assert differ(weir, "app", transaction) == (5, 1)
	assert differ(weir, "app", pipeline) == (1, 1)
	assert differ(weir, "app", copy) == (2, 2)


# --- P-69: one tenant's burst of logins and another tenant's time

class Steady:
	"""pgbench at a steady rate on app; `percentile` of what it measured, in seconds."""

	def __init__(self, weir, seconds):
		self.prefix = f"{weir.folder}/steady-{time.monotonic_ns()}"
		self.bench = start_pgbench(weir, "select 1;\n", clients=5, seconds=seconds,
		                           more=["-R", "200", "-l", "--log-prefix", self.prefix])

	def percentile(self, share=0.99):
		watch(self.bench, lambda: time.sleep(0.05), 60)
		times = []
		for path in glob.glob(f"{self.prefix}.*"):
			with open(path) as lines:
				times += [int(line.split()[2]) / 1e6 for line in lines]
		assert len(times) > 50
		return sorted(times)[int(len(times) * share)]


def assert_undisturbed(weir, disturb, seconds):
	usual = Steady(weir, 1).percentile()
	steady = Steady(weir, seconds)
	disturb()
	slowed = steady.percentile()
	# Five times next to nothing is still nothing that anybody notices; on a busy machine it is what it usually is.
	assert slowed < max(5 * usual, limit(0.05)), f"p99 {usual:.4f} s, then {slowed:.4f} s"


@pytest.mark.alone
def test_p69_a_resume_with_many_logins_waiting_does_not_slow_another_database(pg, pooler, certs):
	many = count(80, 500)
	weir = pooler(settings={"default_pool_size": 10, "max_client_conn": many + 50, "auth_type": "scram-sha-256",
	                        "client_tls_sslmode": "prefer", "client_tls_cert_file": certs.server_cert,
	                        "client_tls_key_file": certs.server_key, "log_connections": 0, "log_disconnections": 0})
	weir.raw("app2", "app2").query("select 1")

	def disturb():
		weir.admin("PAUSE app2")
		script = process.write_file(f"{weir.folder}/p69.sql", "select 1;\n", 0o644)
		burst = subprocess.Popen(["pgbench", "-n", "-c", str(many), "-j", "2", "-t", "1", "-f", script,
		                          weir.dsn("app2", "app2", sslmode="require")],
		                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
		until("clients wait", lambda: weir.pool("app2", "app2")["cl_waiting"] >= 2, 20)
		weir.admin("RESUME app2")
		watch(burst, lambda: time.sleep(0.05), 30)

	assert_undisturbed(weir, disturb, count(3, 15))


@pytest.mark.alone
def test_p69_a_host_that_drops_everything_does_not_slow_another_database(pg, pooler):
	with socket.socket() as hole:
		# A full queue of connections that nobody accepts: the kernel drops further SYNs.
		hole.bind(("127.0.0.1", 0))
		hole.listen(0)
		filling = []
		for _ in range(4):
			sock = socket.socket()
			sock.setblocking(False)
			sock.connect_ex(hole.getsockname())
			filling.append(sock)
		weir = pooler(databases={"app": {}, "app2": {"port": hole.getsockname()[1]}},
		              settings={"server_connect_timeout": 1, "query_wait_timeout": 2, "server_login_retry": 0.5,
		                        "max_client_conn": 300, "log_connections": 0, "log_pooler_errors": 0})

		def disturb():
			for _ in range(count(50, 200)):
				weir.open().startup(user="app", database="app2")

		assert_undisturbed(weir, disturb, 3)
		for sock in filling:
			sock.close()


@pytest.mark.alone
def test_p69_a_slow_auth_query_does_not_slow_another_database(pg, pooler):
	weir = pooler(settings={"auth_type": "scram-sha-256", "auth_user": "lookup", "max_client_conn": 300,
	                        "auth_query": "select usename, passwd from public.lookup($1), pg_sleep(2)",
	                        "log_connections": 0},
	              userlist={**CONSOLE_PASSWORDS, "app": PASSWORDS["app"], "lookup": PASSWORDS["lookup"]})

	def disturb():
		for n in range(count(30, 200)):
			weir.open().startup(user="app2", database="app2")

	assert_undisturbed(weir, disturb, 4)


# --- P-70: a minimum above the caps

def test_p70_a_minimum_above_the_caps_does_not_churn(own_pg, pooler):
	pg = own_pg(settings={"log_connections": "on"})
	weir = pooler(pg, settings={"min_pool_size": 5}, databases={"app": {"max_db_connections": 3}},
	              users={"app2": {"max_user_connections": 2}})
	mark = pg.mark()
	b = weir.raw(user="app2")
	b.query("select 1")
	until("its cap is reached", lambda: pg.count("usename = 'app2'") == 2, 4)
	a = weir.raw(user="app")
	a.query("select 1")
	holds_for(count(2, 30), "the caps hold", lambda: pg.count("usename = 'app2'") <= 2 and pg.count() <= 3)
	logins = len(re.findall(r"connection authorized: user=app2", pg.log(mark)))
	assert logins <= 3, f"{logins} logins of app2"


# --- P-71: caps of clients

def test_p71_one_user_cannot_take_all_places(pg, pooler):
	weir = pooler(settings={"max_client_conn": 20, "max_user_client_connections": 5, "auth_type": "plain"})
	clients = [weir.raw() for _ in range(5)]
	refused = weir.refusal()
	assert (refused.severity, refused.sqlstate) == ("FATAL", "53300")
	assert "max_user_client_connections" in refused.message
	assert weir.raw(user="app2").value("select 1") == "1"
	clients.pop().reset()
	until("the place is free", lambda: weir.show("USERS", name="app")[0]["current_client_connections"] == 4)
	weir.raw()
	weir.refusal()


def test_p71_one_database_cannot_take_all_places(pg, pooler):
	weir = pooler(settings={"max_client_conn": 20, "max_db_client_connections": 5})
	for n in range(5):
		weir.raw("app", ("app", "app2")[n % 2])
	refused = weir.refusal("app", "app3")
	assert (refused.severity, refused.sqlstate) == ("FATAL", "53300")
	assert "max_db_client_connections" in refused.message
	assert weir.raw("app2", "app").value("select 1") == "1"


@pytest.mark.parametrize("way", ["wrong password", "gone after startup", "gone after the question", "gone at once"])
def test_p71_logins_that_fail_give_their_places_back(pg, pooler, way):
	weir = pooler(settings={"max_client_conn": 20, "max_user_client_connections": 5, "auth_type": "plain",
	                        "max_db_client_connections": 5, "log_pooler_errors": 0, "tcp_defer_accept": 0})
	for _ in range(count(60, 1000)):
		client = Raw(weir.address, seconds=5)
		if way != "gone at once":
			client.startup(user="app", database="app")
		if way in ("wrong password", "gone after the question"):
			assert client.read_message()[0] == "R"
		if way == "wrong password":
			client.send(raw.p(raw.text("wrong")))
			assert client.read_eof() == "E(28P01) EOF"
			client.close()
		else:
			client.reset()
	until("all places are free", lambda: all(
		row["current_client_connections"] == 0 for row in weir.show("USERS") if row["name"] != "admin")
		and weir.show("DATABASES", name="app")[0]["current_client_connections"] == 0)
	for _ in range(5):
		weir.raw()
	weir.refusal()


def test_p71_admins_get_in_when_all_places_are_taken(pg, pooler):
	"""Our choice: an admin's login to the console does not need a place."""
	weir = pooler(settings={"max_client_conn": 20, "max_user_client_connections": 12})
	for n in range(20):
		weir.raw(user=("app", "app2")[n % 2])
	assert "max_client_conn" in weir.refusal(user="app3").message
	assert weir.admin("SHOW POOLS")
	process.run(["psql", "-XAtc", "show version", weir.dsn(weir.console_name, "admin")])


# --- P-72: caps of servers

def test_p72_pool_size_holds_at_every_instant(pg, pooler):
	weir = pooler(settings={"default_pool_size": 5})
	bench = start_pgbench(weir, "begin;\nselect pg_sleep(0.05);\ncommit;\n", clients=50, seconds=count(2, 10))
	seen = []
	watch(bench, lambda: (seen.append(pg.count("usename = 'app'")), time.sleep(0.02)))
	assert max(seen) == 5, max(seen)


def test_p72_a_cap_of_the_database_holds_over_users_and_both_make_progress(pg, pooler):
	weir = pooler(settings={"default_pool_size": 5, "max_db_connections": 5})
	benches = [start_pgbench(weir, "begin;\nselect pg_sleep(0.02);\ncommit;\n", clients=25, seconds=count(2, 10),
	                         user=user) for user in ("app", "app2")]
	seen, of_each = [], {"app": 0, "app2": 0}

	def look():
		now = [row["user"] for row in pg.sessions("datname = 'app'")]
		seen.append(len(now))
		for user in set(now):
			of_each[user] += 1
		time.sleep(0.02)

	watch(benches[0], look)
	watch(benches[1], look)
	assert max(seen) == 5 and all(of_each.values()), (max(seen), of_each)


def test_p72_caps_hold_while_queries_are_cancelled(pg, pooler):
	weir = pooler(settings={"default_pool_size": 3, "max_user_connections": 4, "reserve_pool_size": 1,
	                        "reserve_pool_timeout": 0.1, "max_client_conn": 200})
	ended, seen = threading.Event(), []

	def work(client):
		while not ended.is_set():
			assert client.talk(Q("select pg_sleep(0.02)"), seconds=10) in (
				"T D[] C(SELECT 1) Z(I)", "T E(57014) Z(I)", "E(57014) Z(I)")

	def disturb(clients):
		chance, end = random.Random(72), time.monotonic() + count(1.5, 20)
		try:
			while time.monotonic() < end:
				weir.cancel(chance.choice(clients).key, seconds=10)
				seen.append(pg.count("usename = 'app'"))
		finally:
			ended.set()

	clients = [weir.raw(seconds=10) for _ in range(12)]
	in_threads(lambda: disturb(clients), *(lambda one=one: work(one) for one in clients))
	assert max(seen) <= 4, max(seen)


def test_p72_the_order_of_service_is_the_order_of_arrival(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	holder = weir.raw()
	holder.query("begin")
	clients = [weir.raw(seconds=5) for _ in range(20)]
	for place, client in enumerate(clients, 1):
		client.send(Q(f"insert into t values ({place})"))
		weir.wait_pool(cl_waiting=place)
	holder.query("rollback")
	for client in clients:
		client.expect("C(INSERT 0 1) Z(I)")
	assert pg.sql("select x from t order by ctid", dbname="app") == [(n,) for n in range(1, 21)]


# --- P-73: clients that vanish by the hundred

def test_p73_vanishing_clients_cause_no_storm_of_reconnects(own_pg, pooler):
	pg = own_pg(max_connections=20, settings={"log_connections": "on"})
	many = count(60, 300)
	weir = pooler(pg, settings={"default_pool_size": 10, "max_client_conn": many + 50, "log_connections": 0,
	                            "log_disconnections": 0})
	weir.raw().query("select 1")
	seed = random.randrange(1 << 32)
	print(f"seed {seed}")
	mark, lost, ended = pg.mark(), [], time.monotonic() + count(3, 60)

	def live(chance):
		while time.monotonic() < ended:
			client = Raw.login(weir.address, user="app", database="app", password="x", seconds=10)
			for _ in range(chance.randint(0, 5)):
				assert client.talk(Q("select pg_sleep(0.01)"), seconds=20) == "T D[] C(SELECT 1) Z(I)"
			if chance.random() < 0.5:
				client.send(Q("select pg_sleep(0.01)"))
				time.sleep(chance.random() * 0.03)
				lost.append(1)
			client.reset()

	in_threads(*(lambda n=n: live(random.Random(seed + n)) for n in range(many)), seconds=count(30, 100))
	log = pg.log(mark)
	assert "too many clients" not in log and "remaining connection slots" not in log
	assert log.count("connection received") < 2 * len(lost), (log.count("connection received"), len(lost))


def test_p73_clients_that_leave_between_transactions_cost_no_server(own_pg, pooler):
	pg = own_pg(max_connections=20, settings={"log_connections": "on"})
	weir = pooler(pg, settings={"default_pool_size": 3})
	mark = pg.mark()
	for _ in range(count(100, 1000)):
		client = weir.raw()
		client.query("select 1")
		client.reset()
	assert pg.log(mark).count("connection authorized: user=app ") <= 3


def test_p73_a_server_that_is_down_is_not_hammered(pg, pooler):
	with Relay(pg.address) as relay:
		many = count(60, 300)
		weir = pooler(databases={"app": {"port": relay.port}}, settings={
			"default_pool_size": 10, "server_login_retry": 1, "max_client_conn": many + 20, "query_wait_timeout": 60})
		waiting = [weir.raw(seconds=20) for _ in range(many)]
		waiting[0].query("select 1")
		relay.refuse = True
		relay.cut()
		before = relay.connections
		for client in waiting:
			client.send(Q("select 'back'"))
		down = count(3, 10)
		time.sleep(down)  # how long it is down
		tried = relay.connections - before
		assert 1 <= tried <= 5 * (down + 1), tried
		relay.refuse = False
		letters = [client.read_ready() for client in waiting]
		served = sum(said == "T D[back] C(SELECT 1) Z(I)" for said in letters)
		assert all("back" in said or said.endswith("EOF") for said in letters), letters
		print(f"{tried} attempts in {down} s; {served} of {many} clients were served afterwards")


# --- P-74: startup parameters that drivers always send

PARAMS = {"extra_float_digits": "2", "geqo": "off"}


@pytest.mark.parametrize("database", ["app", "pgbouncer", "pgweir"])
def test_p74_extra_float_digits_is_refused_unless_it_is_ignored(pg, pooler, database):
	weir = pooler()
	user = "app" if database == "app" else "admin"
	ask = "select 1" if database == "app" else "SHOW STATS"
	for name in PARAMS:
		refused = weir.refusal(database, user, params={name: PARAMS[name]})
		assert refused.severity == "FATAL"
		assert f"unsupported startup parameter: {name}" in refused.message
	weir.settings["ignore_startup_parameters"] = "extra_float_digits,geqo"
	weir.reload()
	client = weir.raw(database, user, params=PARAMS)
	assert client.query(ask)


# --- P-75: the console's words

@pytest.mark.parametrize("what", GOLDEN)
def test_p75_each_show_has_pgbouncers_columns_in_its_order(pg, pooler, what):
	weir = pooler()
	weir.raw().query("select 1")
	console = weir.console()
	for spelling in (f"SHOW {what}", f"show {what.lower()};", f"  show   {what.lower()}  ;  ",
	                 f"/* a tool */ show {what}", f"show {what} -- a tool"):
		console.fields = []
		console.query(spelling)
		assert console.fields[:len(GOLDEN[what])] == GOLDEN[what], spelling


ODD = ["show nothing_like_it", "SHOW", "frobnicate", "g" * 10240, "'", "\"", "show \"pools", "show 'pools'", "pause no_such",
       "set", "set no_such = 1", "select 1", ";;", "/* open", "show pools extra"]


def test_p75_what_the_console_does_not_know_is_an_error_and_it_goes_on(pg, pooler):
	weir = pooler()
	console = weir.console()
	assert console.talk(Q("")) == "I Z(I)"
	for command in ODD:
		letters = console.talk(Q(command))
		assert letters.endswith("Z(I)") and letters.count("Z(") == 1, (command[:40], letters)
		assert letters.count("E(") <= 1, (command[:40], letters)
		assert console.talk(Q("SHOW VERSION")).startswith("T D[")
	for command in ("show nothing_like_it", "frobnicate", "g" * 10240):
		assert re.fullmatch(r"E\(\w{5}\) Z\(I\)", console.talk(Q(command))), command[:40]


def test_p75_show_version_is_a_row(pg, pooler):
	weir = pooler()
	rows = weir.admin("SHOW VERSION")
	assert len(rows) == 1 and re.search(r"\d+\.\d+", rows[0]["version"])


def test_p75_stats_users_may_look_and_nothing_else(pg, pooler):
	weir = pooler()
	console = weir.console("stats")
	for what in ("POOLS", "STATS", "CLIENTS", "SERVERS", "DATABASES", "LISTS", "VERSION"):
		assert console.talk(Q(f"SHOW {what}")).endswith("Z(I)") and not console.errors
	for command in ("SET max_client_conn = 5", "PAUSE", "PAUSE app", "KILL app", "RELOAD", "SHUTDOWN", "RESUME",
	                "DISABLE app", "RECONNECT", "SUSPEND"):
		assert re.fullmatch(r"E\(\w{5}\) Z\(I\)", console.talk(Q(command))), command
	assert weir.is_alive() and weir.raw().value("select 1") == "1"


# --- P-76: values of SHOW

def test_p76_a_users_pool_size_is_shown_and_in_force_for_that_user_only(pg, pooler):
	weir = pooler(users={"app2": {"pool_size": 1}}, settings={"default_pool_size": 3})
	for user in ("app", "app2", "app3"):
		weir.raw(user=user)
	shown = {row["name"]: row["pool_size"] for row in weir.admin("SHOW USERS")}
	assert shown["app2"] == 1 and shown["app"] is None and shown["app3"] is None
	for user, size in (("app2", 1), ("app3", 3)):
		clients = [weir.raw(user=user) for _ in range(5)]
		for client in clients:
			client.send(Q("select pg_sleep(0.3)"))
		weir.wait_pool("app", user, sv_active=size, cl_waiting=5 - size)
		for client in clients:
			client.expect("T D[] C(SELECT 1) Z(I)", 5)


def test_p76_clients_of_a_paused_database_are_idle_until_they_ask(pg, pooler):
	weir = pooler()
	clients = [weir.raw(seconds=5) for _ in range(3)]
	for client in clients:
		client.query("select 1")
	weir.admin("PAUSE app")

	def states():
		return sorted(row["state"] for row in weir.show("CLIENTS", database="app"))

	assert states() == ["idle"] * 3
	clients[0].send(Q("select 2"))
	until("one waits", lambda: states() == ["idle", "idle", "waiting"])
	weir.admin("RESUME app")
	clients[0].expect("T D[2] C(SELECT 1) Z(I)")
	clients[0].query("begin")
	assert states() == ["active", "idle", "idle"]
	clients[0].query("rollback")


def test_p76_totals_are_what_pgbench_did_and_never_decrease(pg, pooler):
	weir = pooler(settings={"default_pool_size": 3, "stats_period": 1})
	bench = start_pgbench(weir, "begin;\nselect 1;\ncommit;\nselect 2;\n", clients=6, seconds=count(2, 20))
	last = {}

	def look():
		for row in weir.admin("SHOW STATS"):
			for name, value in row.items():
				if name.startswith("total_"):
					key = row["database"], name
					assert int(value) >= last.get(key, 0), key
					last[key] = int(value)
		time.sleep(0.01)

	end = time.monotonic() + limit(40)
	while bench.poll() is None:
		look()
		assert time.monotonic() < end
	said = bench.stdout.read()
	ran = int(re.search(r"actually processed: (\d+)", said)[1])
	for database in ("app2", "app3"):
		assert last.get((database, "total_query_count"), 0) == 0
	# The last rounds that pgbench broke off at its end are not in its count.
	queries, xacts = totals(weir, "app")
	assert ran * 4 <= queries <= ran * 4 + 6 * 4
	assert ran * 2 <= xacts <= ran * 2 + 6 * 2
	weir.raw().query("select 1")
	assert totals(weir, "app") == (queries + 1, xacts + 1)
