"""Faults that users of other poolers reported, cases P-41 to P-58, one test or a few each.

A test is named after its case. The usual run does a slice of what is long or depends on chance; PGWEIR_LONG=1 does
all of it. Where PostgreSQL can say what is right, it is asked; where a case leaves the choice to us, the docstring
says what we chose.
"""

import hashlib
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import psycopg
import pytest

from rig import Relay, node, process, raw, same_as_direct
from rig.cases import backend, in_threads
from rig.limits import LONG, limit, until
from rig.pooler import CONSOLE_PASSWORDS
from rig.postgres import PASSWORDS
from rig.raw import B, C, Closed, D, E, H, P, Q, Raw, S, ServerError, c, d, f

pytestmark = pytest.mark.usefixtures("clean")

MIB = 1 << 20


def count(usual, whole):
	return whole if LONG else usual


def lose(client):
	"""Whatever a client that is about to lose its server still gets."""
	try:
		return client.read_eof()
	except OSError:
		return "EOF"


class Swap:
	"""While it is open, the client's next transaction lands on another server than its last one (pool of 2)."""

	def __init__(self, weir, client):
		self.old = backend(client)
		self.helpers = [weir.raw(), weir.raw()]

	def __enter__(self):
		pids = []
		for helper in self.helpers:
			helper.query("begin")
			pids.append(backend(helper))
		assert self.old in pids and pids[0] != pids[1]
		self.helpers.pop(1 - pids.index(self.old)).query("rollback")
		return self

	def __exit__(self, *_):
		self.helpers[0].query("rollback")


# --- P-41: cancels that queued up while PostgreSQL was away

def test_p41_stale_cancels_do_not_delay_the_return_of_the_server(own_pg, pooler):
	pg = own_pg(max_connections=40)
	weir = pooler(pg, settings={"default_pool_size": 10, "server_login_retry": 0.5, "cancel_wait_timeout": 3})
	clients = [weir.raw() for _ in range(50)]
	for client in clients:
		client.send(Q("select pg_sleep(60)"))
	weir.wait_pool(sv_active=10, cl_waiting=40, seconds=5)
	pg.stop(signal.SIGQUIT)
	cancels = []
	for client in clients:
		for _ in range(3):
			canceller = weir.open()
			canceller.send(raw.cancel_packet(client.key))
			cancels.append(canceller)
	pg.start()
	began = time.monotonic()
	assert weir.raw(seconds=5).value("select 1") == "1"
	assert time.monotonic() - began < limit(1)
	for canceller in cancels:
		assert canceller.read_eof(5) == "EOF"


def test_p41_a_cancel_that_fails_is_not_a_failed_login(pg, pooler):
	"""With a retry of 15 s a new server connection must still be made at once."""
	with Relay(pg.address) as relay:
		weir = pooler(databases={"app": {"port": relay.port}},
		              settings={"default_pool_size": 2, "server_login_retry": 15})
		busy = weir.raw()
		busy.send(Q("select pg_sleep(60)"))
		until("it runs", lambda: pg.count("state = 'active'"))
		relay.refuse = True
		assert weir.cancel(busy.key, seconds=5) == b""
		relay.refuse = False
		assert weir.raw().value("select 1") == "1"
		assert weir.cancel(busy.key) == b""
		assert busy.read_ready() == "T E(57014) Z(I)"


# --- P-42: cancel connections that misbehave

def test_p42_a_cancel_connection_that_keeps_talking_harms_nobody(pg, pooler):
	seed = random.randrange(1 << 32)
	chance = random.Random(seed)
	print(f"seed {seed}")
	weir = pooler(settings={"default_pool_size": 3, "max_client_conn": 500})
	good = weir.raw()

	def in_one_packet(client):
		canceller = weir.open()
		canceller.send(raw.cancel_packet(client.key) + chance.randbytes(chance.randint(1, 64)))
		canceller.half_close()
		assert lose(canceller) == "EOF"

	def later(client):
		canceller = weir.open()
		canceller.send(raw.cancel_packet(client.key))
		try:
			time.sleep(0.05 if chance.random() < 0.1 else 0.001)
			canceller.send(chance.randbytes(chance.randint(1, 64)))
		except OSError:
			pass
		assert lose(canceller) == "EOF"

	def half(client):
		canceller = weir.open()
		canceller.send(raw.cancel_packet(client.key)[:chance.randint(1, 15)])
		canceller.reset()

	def client_goes(client):
		client.send(Q("select pg_sleep(0.5)"))
		canceller = weir.open()
		canceller.send(raw.cancel_packet(client.key))
		client.reset()
		assert lose(canceller) == "EOF"

	def in_the_login(_):
		weir.admin("RECONNECT app")
		client = weir.raw()
		client.send(Q("select pg_sleep(0.2)"))
		assert weir.cancel(client.key) == b""
		assert client.read_ready() in ("T E(57014) Z(I)", "E(57014) Z(I)", "T D[] C(SELECT 1) Z(I)")

	def under_the_knife(client):
		client.send(Q("select pg_sleep(0.5)"))
		canceller = weir.open()
		pg.sql("select pg_terminate_backend(pid) from pg_stat_activity where query like '%%pg_sleep(0.5)%%' "
		       "and application_name <> 'rig'")
		canceller.send(raw.cancel_packet(client.key))
		assert lose(canceller) == "EOF"

	ways = [in_one_packet, later, half, client_goes, in_the_login, under_the_knife]
	for turn in range(count(60, 1000)):
		chance.choice(ways)(weir.raw())
		if turn % 20 == 19:
			assert good.value("select 41 + 1") == "42"
			weir.drop_clients()
			good = weir.raw()


# --- P-43: RELOAD that gives a database in use a forced user

def test_p43_reload_adds_a_forced_user_to_a_database_in_use(pg, pooler):
	weir = pooler(databases={"*": {}}, settings={"default_pool_size": 5})
	olds = [weir.raw("app", "app2") for _ in range(5)]
	for old in olds:
		old.query("begin")
		assert old.value("select current_user") == "app2"
	weir.databases["app"] = weir.database({"user": "app3", "password": PASSWORDS["app3"]})
	weir.reload()
	for _ in range(10):
		assert weir.raw("app", "app2").value("select current_user") == "app3"
	for old in olds:
		assert old.talk(Q("insert into t values (43)"), Q("commit"), times=2) \
			== "C(INSERT 0 1) Z(T) C(COMMIT) Z(I)"
	del weir.databases["app"]
	weir.reload()
	assert weir.raw("app", "app2").value("select current_user") == "app2"
	assert pg.value("select count(*) from t", dbname="app") == 5


def test_p43_a_changed_host_port_and_dbname_leave_open_transactions_alone(own_pg, pg, pooler):
	other = own_pg()
	weir = pooler(pg, databases={"app": {}, "app2": {}}, settings={"default_pool_size": 6})
	olds = [weir.raw() for _ in range(5)]
	for old in olds:
		old.query("begin")
		old.query("insert into t values (1)")
	for line in ({"dbname": "app2"}, {"host": "localhost"}, {"port": other.port}):
		weir.databases["app"] = weir.database(line)
		weir.reload()
		client = weir.raw(seconds=4)
		assert client.value("select current_database()") == line.get("dbname", "app")
		assert client.value("show port") == str(line.get("port", pg.port))
	for old in olds:
		old.query("commit")
	assert pg.value("select count(*) from t", dbname="app") == 5
	weir.databases["app"] = weir.database({})
	weir.reload()


def test_p43_random_edits_and_reloads_under_load_cost_no_client_anything(pg, pooler):
	seed = random.randrange(1 << 32)
	chance = random.Random(seed)
	print(f"seed {seed}")
	weir = pooler(databases={"*": {}, "app": {}}, settings={"default_pool_size": 3, "max_client_conn": 400})
	lines = [{}, {"user": "app3", "password": PASSWORDS["app3"]}, {"pool_size": 2}, {"host": "localhost"},
	         {"dbname": "app3"}, {"pool_mode": "session", "pool_size": 8}, {"user": "app2"}, None]
	ended = threading.Event()

	def work(database, user):
		with Raw.login(weir.address, user=user, database=database, seconds=5) as client:
			while not ended.is_set():
				assert client.talk(Q("begin"), Q("select 7"), Q("commit"), times=3) \
					== "C(BEGIN) Z(T) T D[7] C(SELECT 1) Z(T) C(COMMIT) Z(I)"

	def edit():
		try:
			for _ in range(count(30, 200)):
				line = chance.choice(lines)
				weir.databases.pop("app2", None)
				if line is not None:
					weir.databases["app2"] = weir.database(line)
				weir.databases["app"] = weir.database(chance.choice(lines[:-1]))
				weir.reload()
				try:
					with Raw.login(weir.address, user="app2", database="app2", seconds=5) as client:
						client.query("select 1")
						client.send(raw.X)
				except (ServerError, Closed):
					assert line is None, line
			assert weir.is_alive()
		finally:
			ended.set()

	in_threads(edit, *(lambda user=user: work("app", user) for user in ("app", "app2", "app", "app2")),
	           seconds=120)
	weir.databases["app"] = weir.database({})
	weir.reload()


# --- P-44: statement texts that nobody holds any more

def text_of(n):
	return f"select {n}" + " " * 2000


def closes(client, first, last):
	"""Parse and Close of texts that are never the same, fifty to a Sync."""
	for base in range(first, last, 50):
		got = client.talk(*(part for n in range(base, base + 50)
		                    for part in (P("s", text_of(n)), C("S", "s"))), S, seconds=10)
		assert got == "1 3 " * 50 + "Z(I)"


def leaves(weir, first, last):
	for base in range(first, last, 50):
		with Raw.login(weir.address, user="app", database="app", seconds=5) as client:
			got = client.talk(*(P(f"s{n}", text_of(n)) for n in range(base, base + 50)), S)
			assert got == "1 " * 50 + "Z(I)"


def discards(client, first, last):
	for base in range(first, last, 50):
		got = client.talk(*(P(f"s{n}", text_of(n)) for n in range(base, base + 50)), S, seconds=5)
		assert got == "1 " * 50 + "Z(I)"
		assert client.talk(Q("DISCARD ALL")) == "C(DISCARD ALL) Z(I)"


def fails(client, first, last):
	for n in range(first, last):
		assert client.talk(P("s", "selekt" + text_of(n)), S) == "E(42601) Z(I)"


def nameless(client, first, last):
	for base in range(first, last, 50):
		got = client.talk(*(P("", text_of(n)) for n in range(base, base + 50)), S, seconds=5)
		assert got == "1 " * 50 + "Z(I)"


@pytest.mark.parametrize("how", [closes, leaves, discards, fails, nameless])
def test_p44_texts_that_nobody_holds_are_let_go(pg, pooler, how):
	weir = pooler(settings={"default_pool_size": 1, "log_connections": 0, "log_disconnections": 0})
	subject = weir if how is leaves else weir.raw()
	warm, total = 1000, count(6000, 200000)
	how(subject, 0, warm)
	before = weir.rss_kib()
	how(subject, warm, total)
	assert weir.rss_kib() - before < (2 if total == 6000 else 20) * 1024


def test_p44_what_a_hoarder_holds_is_visible_and_freed_when_it_leaves(pg, pooler):
	"""SHOW MEM has a row that grows with the statements that a client keeps, and shrinks when it leaves."""
	weir = pooler(settings={"default_pool_size": 1})
	hoarder = weir.raw(seconds=60)

	def used():
		return {row["name"]: row["used"] for row in weir.admin("SHOW MEM")}

	before, total = used(), count(5000, 100000)
	for base in range(0, total, 100):
		got = hoarder.talk(*(P(f"s{n}", f"select {n}") for n in range(base, base + 100)), S)
		assert got == "1 " * 100 + "Z(I)"
	held = used()
	grown = [name for name in held if held[name] - before.get(name, 0) >= total]
	assert grown, f"no row of SHOW MEM tells of {total} statements: {held}"
	hoarder.terminate()
	# The server may keep its copies, max_prepared_statements at most.
	until("they are freed", lambda: all(used()[name] - before.get(name, 0) < (held[name] - before.get(name, 0)) / 10
	                                    for name in grown), 5)


# --- P-45: slow readers

def small_window(weir, **more):
	"""A client whose kernel takes in little, so that a slow reader is slow from the start."""
	client = weir.raw(seconds=30, **more)
	client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
	return client


GIANT = "select repeat('x', 1000) from generate_series(1, 3000000)"


@pytest.mark.parametrize("tls", [False, True])
def test_p45_a_slow_reader_costs_bounded_memory_and_no_one_else_time(pg, pooler, certs, tls):
	weir = pooler(settings={"default_pool_size": 3, "client_tls_sslmode": "prefer",
	                        "client_tls_cert_file": certs.server_cert, "client_tls_key_file": certs.server_key})
	other = weir.raw()
	other.query("select repeat('x', 100000)")
	slow = small_window(weir, **({"tls": certs.context()} if tls else {}))
	pid = backend(slow)
	before = weir.rss_kib()
	slow.send(Q(GIANT))
	end = time.monotonic() + count(1.5, 10)
	slowest = 0
	while time.monotonic() < end:
		assert slow.sock.recv(100)
		began = time.monotonic()
		assert other.value("select 1") == "1"
		slowest = max(slowest, time.monotonic() - began)
		time.sleep(0.1)  # 1 KB/s
	assert slowest < limit(0.25)
	assert weir.rss_kib() - before < 5 * 1024
	slow.reset()
	until("its server is free", lambda: pg.count("pid = %s and state = 'active'", pid) == 0)


def test_p45_many_slow_readers_cost_bounded_memory(own_pg, pooler):
	many = count(40, 200)
	pg = own_pg(max_connections=many + 20)
	weir = pooler(pg, settings={"default_pool_size": many + 2, "max_client_conn": many + 20})
	weir.raw().query("select repeat('x', 100000)")
	before = weir.rss_kib()
	readers = [small_window(weir) for _ in range(many)]
	for reader in readers:
		reader.send(Q(GIANT))
	until("all servers are held back", lambda: pg.value(
		"select count(*) from pg_stat_activity where wait_event = 'ClientWrite'") == many, 30)
	assert weir.rss_kib() - before < many * 1024
	assert weir.raw().value("select 1") == "1"
	for reader in readers:
		reader.reset()
	until("the servers are free", lambda: pg.count("state = 'active'") == 0, 5)


def test_p45_a_copy_into_a_server_that_stands_still_costs_bounded_memory(pg, pooler):
	weir = pooler(settings={"default_pool_size": 2})
	other = weir.raw()
	other.query("select repeat('x', 100000)")
	writer = weir.raw(seconds=30)
	pid = backend(writer)
	writer.send(Q("copy big from stdin"))
	writer.expect("G")
	before = weir.rss_kib()
	os.kill(pid, signal.SIGSTOP)
	try:
		chunk = d((b"1\t" + b"v" * 1021 + b"\n") * 64)
		sent = 0
		writer.sock.settimeout(0.5)
		with pytest.raises(TimeoutError):
			while sent < 500 * MIB:
				sent += writer.sock.send(chunk[sent % len(chunk):])
		assert other.value("select 1") == "1"
		assert weir.rss_kib() - before < 5 * 1024
	finally:
		os.kill(pid, signal.SIGCONT)
	writer.sock.settimeout(limit(30))
	writer.send(chunk[sent % len(chunk):], f())
	assert writer.read_ready() == "E(57014) Z(I)"


# --- P-46: batches of any size behind a simple query

def sizes_around(*borders):
	return [n for border in borders for n in range(border - 20, border + 21)]


def test_p46_a_batch_of_any_size_behind_a_simple_query_is_answered_whole(pg, pooler):
	weir = pooler(settings={"default_pool_size": 2})
	sizes = [1, 100, *sizes_around(4096), 65535, 65536, *sizes_around(65536)[::count(8, 1)], MIB]

	def ask(first):
		client = weir.raw(seconds=20)
		for n in sizes[first::10]:
			word = "abcdefghij"[first] * n
			client.send(Q("DISCARD ALL"), P("", "select length($1), md5($1)"), B("", "", word), D("P"), E(), S)
			got = client.read_ready(2)
			assert got == (f"C(DISCARD ALL) Z(I) 1 2 T D[{n},{hashlib.md5(word.encode()).hexdigest()}] "
			               "C(SELECT 1) Z(I)"), n

	in_threads(*(lambda first=first: ask(first) for first in range(10)))


def test_p46_20_mb_behind_a_simple_query(pg, pooler):
	weir = pooler(settings={"default_pool_size": 2})
	client, word = weir.raw(seconds=30), "w" * (20 * MIB)
	client.send(Q("DISCARD ALL"), P("", "select length($1), $1"), B("", "", word), D("P"), E(), S)
	assert client.read(5) == "C(DISCARD ALL) Z(I) 1 2 T"
	assert client.next_letter() == f"D[{len(word)},{word}]"
	client.expect("C(SELECT 1) Z(I)")


@pytest.mark.parametrize("n", [1, 4000, *sizes_around(4096)[::5], 65536, 100000, MIB])
def test_p46_rows_errors_and_notices_of_any_size(pg, pooler, n):
	weir = pooler(settings={"default_pool_size": 1})
	client = weir.raw(seconds=10)
	assert client.talk(Q("DISCARD ALL"), P("", f"select repeat('r', {n})"), B(), E(), S, times=2) \
		== f"C(DISCARD ALL) Z(I) 1 2 D[{'r' * n}] C(SELECT 1) Z(I)"
	assert client.talk(Q("DISCARD ALL"), Q(f"do $$ begin raise exception '%', repeat('e', {n}); end $$"),
	                   Q("select 5"), times=3) == "C(DISCARD ALL) Z(I) E(P0001) Z(I) T D[5] C(SELECT 1) Z(I)"
	assert client.errors[-1]["M"] == "e" * n
	assert client.talk(Q(f"do $$ begin raise notice '%', repeat('n', {n}); end $$")) == "N(00000) C(DO) Z(I)"
	assert client.notices[-1]["M"] == "n" * n


# --- P-47: named statements larger than any buffer

def test_p47_a_large_named_parse_keeps_its_place_and_moves_to_another_server(pg, pooler):
	size = count(200_000, MIB)

	def trickle(direction, data):
		if direction == "server" or not slow:
			return [(0, data)]
		return [(0.005, data[at:at + 1024]) for at in range(0, len(data), 1024)]

	slow = []
	with Relay(pg.address) as relay:
		# Small windows on the way, or the kernel would take in all of it at once.
		relay._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
		relay.edit = trickle
		weir = pooler(databases={"app": {"port": relay.port}},
		              settings={"default_pool_size": 2, "tcp_socket_buffer": 8192})
		client = weir.raw(seconds=30)
		client.query("select 1")
		word = "".join(random.Random(47).choices("abcdefgh", k=size))
		slow.append(True)
		got = client.talk(P("big", f"select '{word}'"), D("S", "big"), B("", "big"), E(), S,
		                  P("s2", "select 2"), B("", "s2"), E(), S, times=2)
		assert got == f"1 t T 2 D[{word}] C(SELECT 1) Z(I) 1 2 D[2] C(SELECT 1) Z(I)"
		slow.clear()
		with Swap(weir, client):
			slow.append(True)
			assert client.talk(B("", "big"), E(), S) == f"2 D[{word}] C(SELECT 1) Z(I)"
			slow.clear()


@pytest.mark.parametrize("size", [1, 62, 63, 64, 300, 5000])
def test_p47_statement_names_of_any_length(pg, pooler, size):
	weir = pooler(settings={"default_pool_size": 1})
	name = "n" * size
	same_as_direct(pg, weir, [
		([P(name, "select $1::int"), B("", name, "47"), E(), S], "1 2 D[47] C(SELECT 1) Z(I)"),
		([D("S", name), S], "t T Z(I)"),
		([C("S", name), B("", name, "47"), E(), S], "3 E(26000) Z(I)"),
	])


def test_p47_a_bind_with_65535_parameters(pg, pooler):
	weir = pooler(settings={"default_pool_size": 2})
	client = weir.raw(seconds=20)
	places = ",".join(f"${n}::int" for n in range(1, 65536))
	sql = f"select sum(x) from unnest(array[{places}]) x"
	values = [str(n) for n in range(65535)]
	wanted = f"D[{sum(range(65535))}] C(SELECT 1) Z(I)"
	assert client.talk(P("all", sql), B("", "all", *values), E(), S) == f"1 2 {wanted}"
	with Swap(weir, client):
		assert client.talk(B("", "all", *values), E(), S) == f"2 {wanted}"


# --- P-48: pgbench with several statements outside a transaction

BENCH = """\\set a random(1, 1000)
SELECT abalance FROM pgbench_accounts WHERE aid = :a;
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :a;
SELECT 1;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, :a, 1, CURRENT_TIMESTAMP);
SELECT count(*) FROM pgbench_branches;
"""


@pytest.fixture(scope="module")
def bench_tables(shared_pg):
	with_pooler_out_of_the_way = f"host={shared_pg.host} port={shared_pg.port} user=app dbname=app3"
	process.run(["pgbench", "-i", "-q", "-s", "1", with_pooler_out_of_the_way])
	yield
	shared_pg.end_sessions()
	shared_pg.sql("drop table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers", dbname="app3")


@pytest.mark.parametrize("mode,size,more", [("prepared", 1, []), ("prepared", 5, []), ("extended", 5, []),
                                            ("prepared", 5, ["-C"])])
def test_p48_pgbench_runs_statements_outside_a_transaction(pg, bench_tables, pooler, mode, size, more):
	weir = pooler(settings={"default_pool_size": size})
	pg.sql("truncate pgbench_history", dbname="app3")
	before = pg.value("select sum(abalance) from pgbench_accounts", dbname="app3")
	script = process.write_file(f"{weir.folder}/p48.sql", BENCH, 0o644)
	done = process.run(["pgbench", "-n", "-M", mode, "-c", "20", "-j", "2", "-T", str(count(2, 20)), "-f", script,
	                    *more, weir.dsn("app3")], seconds=60)
	assert "number of failed transactions: 0 (" in done.stdout and "aborted" not in done.stderr, done.stderr
	ran = int(re.search(r"actually processed: (\d+)", done.stdout)[1])
	assert ran > 20
	assert pg.value("select count(*) from pgbench_history", dbname="app3") == ran
	assert pg.value("select sum(abalance) from pgbench_accounts", dbname="app3") - before == ran


# --- P-49: psycopg 3 in pipeline mode

def hundred_inserts(conn):
	with conn.pipeline():
		for n in range(100):
			conn.execute("insert into work values (%s)", [n])
	return conn.execute("select count(*), sum(x) from work").fetchone()


def error_in_the_middle(conn):
	"""psycopg may tell of an error at any later call, so what is compared is the first one, and that all works again."""
	said = []
	try:
		with conn.pipeline():
			for n in range(10):
				conn.execute("select 1 / %s::int", [n - 4])
	except psycopg.Error as failure:
		said.append(type(failure).__name__)
	conn.rollback()
	return said, conn.execute("select 'usable'").fetchone()


def aborted_after_the_error(conn):
	"""The same one layer lower, where each of the ten has a result of its own."""
	low, got = conn.pgconn, []
	low.enter_pipeline_mode()
	for n in range(10):
		low.send_query_params(b"select 1 / $1::int", [str(n - 4).encode()])
	low.pipeline_sync()
	low.nonblocking = 0
	while not got or got[-1] != "PIPELINE_SYNC":
		result = low.get_result()
		got.append(result and psycopg.pq.ExecStatus(result.status).name)
	low.exit_pipeline_mode()
	return got, conn.execute("select 'usable'").fetchone()


def transaction_inside(conn):
	with conn.pipeline():
		with conn.transaction():
			conn.execute("insert into work values (1)")
			with conn.transaction():
				conn.execute("insert into work values (2)")
		cursor = conn.execute("select count(*) from work")
		return cursor.fetchone()


def transaction_that_fails(conn):
	said = []
	with conn.pipeline() as pipeline:
		try:
			with conn.transaction():
				conn.execute("insert into work values (1)")
				conn.execute("select 1/0")
				pipeline.sync()
		except psycopg.Error as failure:
			said.append(type(failure).__name__)
		return said, conn.execute("select count(*) from work").fetchone()


def prepared_at_once(conn):
	conn.prepare_threshold = 1
	with conn.pipeline():
		cursors = [conn.execute("select %s::int * 3", [n]) for n in range(20)]
		return [cursor.fetchone() for cursor in cursors]


def many_returning(conn):
	cursor = conn.cursor()
	with conn.pipeline():
		cursor.executemany(conn.named("insert into work values (%s) returning x"), [(n,) for n in range(30)],
		                   returning=True)
	got = []
	while True:
		got.append(cursor.fetchone())
		if not cursor.nextset():
			return got


def sync_in_the_middle(conn):
	with conn.pipeline() as pipeline:
		first = [conn.execute("select %s::int", [n]) for n in range(5)]
		pipeline.sync()
		then = [conn.execute("select %s::int", [n]) for n in range(5, 10)]
		return [cursor.fetchone() for cursor in first + then]


def fetch_between(conn):
	got = []
	with conn.pipeline():
		for n in range(10):
			got.append(conn.execute("select generate_series(1, %s)", [n]).fetchall())
	return got


def syntax_error_and_on(conn):
	said = []
	for _ in range(3):
		try:
			with conn.pipeline():
				conn.execute("selekt 1")
				conn.execute("select 2")
		except psycopg.Error as failure:
			said.append(type(failure).__name__)
			conn.rollback()
	return said, conn.execute("select 3").fetchone()


def large_parameters(conn):
	with conn.pipeline():
		cursors = [conn.execute("select length(%s)", ["x" * 300_000]) for _ in range(10)]
		return [cursor.fetchone() for cursor in cursors]


def nested_pipelines(conn):
	with conn.pipeline():
		outer = conn.execute("select 'outer'")
		with conn.pipeline():
			inner = conn.execute("select 'inner'")
		return outer.fetchone(), inner.fetchone()


def rollback_of_all(conn):
	with conn.pipeline():
		for n in range(10):
			conn.execute("insert into work values (%s)", [n])
		conn.rollback()
	return conn.execute("select count(*) from work").fetchone()


SCRIPTS = [hundred_inserts, error_in_the_middle, aborted_after_the_error, transaction_inside, transaction_that_fails, prepared_at_once,
           many_returning, sync_in_the_middle, fetch_between, syntax_error_and_on, large_parameters,
           nested_pipelines, rollback_of_all]


def played(dsn, script, table):
	"""The result on a table of the caller's own, which is empty before; twice, with and without autocommit."""
	got = []
	for autocommit in (True, False):
		with psycopg.connect(dsn, autocommit=True) as conn:
			conn.execute(f"drop table if exists {table}")
			conn.execute(f"create table {table} (x int)")
			conn.autocommit = autocommit
			renamed = _Renaming(conn, table)
			got.append(script(renamed))
			conn.rollback()
			conn.autocommit = True
			conn.execute(f"drop table {table}")
	return got


class _Renaming:
	"""A connection whose statements name the caller's own table where they say `work`."""

	def __init__(self, conn, table):
		object.__setattr__(self, "conn", conn)
		object.__setattr__(self, "table", table)

	def __getattr__(self, name):
		return getattr(self.conn, name)

	def __setattr__(self, name, value):
		setattr(self.conn, name, value)

	def execute(self, sql, params=None):
		return self.conn.execute(self.named(sql), params)

	def named(self, sql):
		return sql.replace("work", self.table)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_p49_psycopg_pipelines_do_what_they_do_directly(pg, pooler, script):
	weir = pooler(settings={"default_pool_size": 1})
	direct = played(f"host={pg.host} port={pg.port} user=app dbname=app", script, "p49_direct")

	def through(table):
		assert played(weir.dsn(), script, table) == direct

	in_threads(*(lambda table=table: through(table) for table in ("p49_a", "p49_b")), seconds=20)


# --- P-50: cursors that stop after some rows

def test_p50_rows_of_a_portal_arrive_at_a_flush(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	same_as_direct(pg, weir, [
		([P("", "select generate_series(1, 5)"), B(), E("", 2), H], "1 2 D[1] D[2] s"),
		([E("", 2), H], "D[3] D[4] s"),
		([E("", 2), S], "D[5] C(SELECT 1) Z(I)"),
	])


PG_CURSOR = """
const { Client } = require('pg'), Cursor = require('pg-cursor');
const url = process.argv[1], rows = Number(process.argv[2]);
async function all(stop) {
	const client = new Client(url);
	await client.connect();
	client.on('error', () => {});
	await client.query('begin');
	const cursor = client.query(new Cursor('select generate_series(1, $1::int) as n', [rows]));
	let sum = 0;
	for (;;) {
		const got = await cursor.read(10);
		for (const row of got) sum += row.n;
		if (stop && sum > rows) { client.connection.stream.destroy(); return 'left'; }
		if (!got.length) break;
	}
	await cursor.close();
	await client.query('commit');
	await client.end();
	return sum;
}
Promise.all([...Array(10).keys()].map(n => all(n == 0))).then(sums => console.log(sums.join(' ')));
"""


def test_p50_pg_cursor_reads_in_pieces(pg, pooler):
	weir = pooler(settings={"default_pool_size": 2})
	rows = count(1000, 10000)
	url = f"postgresql://app:{weir.password('app')}@{weir.host}:{weir.port}/app"
	done = process.run(["node", "-e", PG_CURSOR, url, str(rows)], env={"NODE_PATH": node.modules()})
	assert done.stdout.split() == ["left"] + [str(rows * (rows + 1) // 2)] * 9


def test_p50_a_client_that_leaves_its_cursor_half_read_frees_its_server(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	for leave in ("close", "reset", "terminate"):
		client = weir.raw()
		client.query("begin")
		client.send(P("", "select generate_series(1, 10000)"), B("half", ""), E("half", 10), H)
		assert client.read(13).endswith("D[10] s")
		getattr(client, leave)()
		assert weir.raw().value("select 1") == "1"


# --- P-51: session advisory locks

def test_p51_a_session_lock_goes_when_the_server_is_released(pg, pooler):
	weir = pooler(settings={"default_pool_size": 2, "server_reset_query": "DISCARD ALL",
	                        "server_reset_query_always": 1})
	a, b = weir.raw(), weir.raw()
	assert a.talk(P("kept", "select $1::int"), S) == "1 Z(I)"
	a.query("select pg_advisory_lock(1)")
	until("the lock is gone", lambda: not pg.value("select count(*) from pg_locks where locktype = 'advisory'"))
	assert b.value("select pg_try_advisory_lock(1)") == "t"
	a.query("begin")
	a.query("select pg_advisory_lock(2)")
	b.query("select 1")
	assert a.value("select count(*) from pg_locks where locktype = 'advisory' and objid = 2 and "
	               "pid = pg_backend_pid()") == "1"
	a.query("commit")
	for n in range(5):
		assert a.talk(B("", "kept", n), E(), S) == f"2 D[{n}] C(SELECT 1) Z(I)"


@pytest.mark.parametrize("leave", ["terminate", "close", "reset"])
@pytest.mark.parametrize("mode", ["transaction", "session"])
@pytest.mark.parametrize("inside", [False, True])
def test_p51_nothing_is_left_of_a_client_that_took_a_lock_and_left(pg, pooler, leave, mode, inside):
	weir = pooler(settings={"default_pool_size": 1, "server_reset_query": "DISCARD ALL", "pool_mode": mode,
	                        "server_reset_query_always": 1})
	client = weir.raw()
	if inside:
		client.query("begin")
	client.query("select pg_advisory_lock(3)")
	getattr(client, leave)()
	until("the lock is gone", lambda: not pg.value("select count(*) from pg_locks where locktype = 'advisory'"))
	assert weir.raw().value("select pg_try_advisory_lock(3)") == "t"


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_p51_a_cancel_under_way_does_not_keep_a_lock_alive(pg, pooler, mode):
	"""The server waits for the end of the cancel connection, and is still reset before anybody gets it."""
	with Relay(pg.address) as relay:
		relay.delay_cancel = 0.3
		weir = pooler(databases={"app": {"port": relay.port}}, settings={
			"default_pool_size": 1, "server_reset_query": "DISCARD ALL", "pool_mode": mode,
			"server_reset_query_always": 1})
		client = weir.raw()
		client.query("begin")
		client.query("select pg_advisory_lock(4)")
		client.send(Q("select pg_sleep(0.2)"))
		canceller = weir.open()
		canceller.send(raw.cancel_packet(client.key))
		until("the cancel is under way", lambda: relay.cancels == 1)
		client.read_ready()
		client.query("commit")
		client.terminate()
		assert weir.raw(seconds=4).value("select count(*) from pg_locks where locktype = 'advisory'") == "0"


# --- P-52: values that are spelt in another way

def statements(log):
	return [line.split("statement: ", 1)[1] for line in log.splitlines() if "statement: " in line]


def test_p52_two_spellings_of_one_value_cost_one_set_at_most(own_pg, pooler):
	pg = own_pg(settings={"log_statement": "all"})
	weir = pooler(pg, settings={"default_pool_size": 1})
	mark = pg.mark()
	script = "".join("select 1;\n" for _ in range(100))
	process.run(["psql", "-XAtq", weir.dsn(options="-c datestyle=ISO")], stdin=script,
	            env={"PGCLIENTENCODING": "utf-8"})
	said = statements(pg.log(mark))
	assert said.count("select 1;") == 100
	sets = [sql for sql in said if re.search(r"\bset\b|set_config|\breset\b", sql, re.I)]
	assert len(sets) <= 1, sets
	assert all(sql.lower().count(name) <= 1 for sql in sets for name in ("datestyle", "client_encoding")), sets


def test_p52_two_clients_of_different_time_zones_cost_one_set_a_switch(own_pg, pooler):
	pg = own_pg(settings={"log_statement": "all"})
	weir = pooler(pg, settings={"default_pool_size": 1})
	zones = ["Asia/Tokyo", "Europe/Paris"]
	clients = [weir.raw(params={"timezone": zone}) for zone in zones]
	for client in clients:
		client.query("show timezone")
	mark, turns = pg.mark(), 100
	for turn in range(turns):
		assert clients[turn % 2].value("show timezone") == zones[turn % 2]
	sets = [sql for sql in statements(pg.log(mark)) if re.search(r"\bset\b|set_config", sql, re.I)]
	assert len(sets) == turns, sets[:10]


# --- P-53: bad values

@pytest.mark.parametrize("sql", ["SET lock_timeout TO sdfs", "SET timezone = 'no/where'",
                                 "SET client_encoding = 'nope'"])
def test_p53_a_bad_set_is_its_own_error_and_nothing_follows(pg, pooler, sql):
	weir = pooler(settings={"default_pool_size": 1})
	good = [P("", "select $1"), B("", "", "1"), E(), S], "1 2 D[1] C(SELECT 1) Z(I)"
	same_as_direct(pg, weir, [
		good, ([Q("select 1")], 1), ([Q(sql)], "E(22023) Z(I)"), ([Q("select 2")], "T D[2] C(SELECT 1) Z(I)"), good,
		([Q("begin")], 1), ([Q(sql)], "E(22023) Z(E)"), ([Q("select 2")], "E(25P02) Z(E)"),
		([Q("rollback")], 1), good,
		([P("", sql), B(), E(), S], "1 2 E(22023) Z(I)"), good,
	])


@pytest.mark.parametrize("name,value", [("timezone", "no/where"), ("client_encoding", "nope")])
def test_p53_a_bad_value_in_the_startup_packet_is_fatal_22023(pg, pooler, name, value):
	weir = pooler(settings={"default_pool_size": 1})
	weir.raw().query("select 1")
	refused = weir.refusal(params={name: value})
	assert (refused.severity, refused.sqlstate) == ("FATAL", "22023")
	assert weir.raw().value("select 1") == "1"


# --- P-54: startup packets in pieces, large and false

@pytest.mark.parametrize("step", [1, 7])
def test_p54_a_login_in_small_pieces_works(pg, pooler, certs, step):
	weir = pooler(settings={"auth_type": "plain", "pkt_buf": 512})
	client = weir.open()

	def dribble(packet):
		for at in range(0, len(packet), step):
			client.send(packet[at:at + step])
			time.sleep(0.001)

	dribble(raw.SSL_REQUEST)
	assert client.sock.recv(1) == b"N"
	dribble(raw.startup_packet({"user": "app", "database": "app", "application_name": "in pieces"}))
	assert client.read_message()[0] == "R"
	dribble(raw.p(raw.text(weir.password("app"))))
	client.authenticate("app", None)
	assert client.value("show application_name") == "in pieces"


@pytest.mark.parametrize("size", [200, 3000, 9000])
def test_p54_a_long_application_name_is_cut_to_63(pg, pooler, size):
	weir = pooler()
	client = weir.raw(params={"application_name": "n" * size})
	assert client.value("show application_name") == "n" * 63
	assert client.params["application_name"] == "n" * 63


FALSE_STARTUPS = {
	"a length of 20000": struct.pack("!II", 20000, raw.PROTOCOL_3_0) + b"user\0app\0",
	"a length of zero": struct.pack("!II", 0, raw.PROTOCOL_3_0) + b"user\0app\0\0",
	"a length of 7": struct.pack("!II", 7, raw.PROTOCOL_3_0) + b"user\0app\0\0",
	"no last NUL": struct.pack("!II", 8 + 9, raw.PROTOCOL_3_0) + b"user\0app\0",
	"no user": raw.startup_packet({"database": "app"}),
}


@pytest.mark.parametrize("what", FALSE_STARTUPS)
def test_p54_a_false_startup_packet_is_closed_within_a_second(pg, pooler, what):
	weir = pooler()
	client = weir.open()
	client.send(FALSE_STARTUPS[what])
	letters = client.read_eof(1)
	assert letters.endswith("EOF") and "Z" not in letters, letters
	if "E(" in letters:
		assert client.errors[0]["S"] == "FATAL" and client.errors[0]["C"] in ("08P01", "28000")


def test_p54_half_open_logins_are_removed_and_hold_no_memory(pg, pooler):
	weir = pooler(settings={"client_login_timeout": 1, "max_client_conn": 600, "tcp_defer_accept": 0,
	                        "log_disconnections": 0, "log_pooler_errors": 0})
	weir.raw().query("select 1")
	fds, memory = weir.fd_count(), weir.rss_kib()
	for n in range(500):
		weir.open().send(b"\0\0\x20\0\0\3\0\0user\0"[:n % 13])
	until("they are there", lambda: weir.fd_count() > fds + 100)
	until("all are closed", lambda: weir.fd_count() <= fds, 8)
	assert weir.rss_kib() - memory < 2048


# --- P-55: the startup parameter `options`

def seen(client):
	return {name: client.value(f"show {name}") for name in ("timezone", "datestyle", "application_name")}


@pytest.mark.parametrize("options,wanted", [
	("-c timezone=Asia/Tokyo", {"timezone": "Asia/Tokyo"}),
	("-ctimezone=Asia/Tokyo", {"timezone": "Asia/Tokyo"}),
	("--timezone=Asia/Tokyo", {"timezone": "Asia/Tokyo"}),
	("-c  TimeZone=Asia/Tokyo -c datestyle=German", {"timezone": "Asia/Tokyo", "datestyle": "German, DMY"}),
	(r"-c application_name=a\ b", {"application_name": "a b"}),
])
def test_p55_options_are_applied_as_postgresql_applies_them(pg, pooler, options, wanted):
	weir = pooler(settings={"default_pool_size": 1})
	weir.raw(params={"timezone": "Europe/Paris"}).query("select 1")
	with Raw.login(pg.address, user="app", database="app", params={"options": options}) as direct:
		right = seen(direct)
	assert right.items() >= wanted.items()
	assert seen(weir.raw(params={"options": options})) == right
	out = process.run(["psql", "-XAtc", "show timezone", weir.dsn()], env={"PGOPTIONS": options})
	assert out.stdout.strip() == right["timezone"]


def test_p55_an_option_that_cannot_follow_is_named_in_the_refusal_unless_it_is_ignored(pg, pooler):
	weir = pooler()
	options = {"options": "-c enable_seqscan=off -c timezone=Asia/Tokyo"}
	for ignore in ("enable_seqscan", "options"):
		refused = weir.refusal(params=options)
		assert refused.severity == "FATAL" and "enable_seqscan" in refused.message
		weir.settings["ignore_startup_parameters"] = ignore
		weir.reload()
		client = weir.raw(params=options)
		assert client.value("show enable_seqscan") == "on"
		assert client.value("show timezone") == "Asia/Tokyo"
		del weir.settings["ignore_startup_parameters"]
		weir.reload()


def test_p55_statement_timeout_is_refused_applied_or_ignored_but_never_dropped_in_silence(pg, pooler):
	"""PostgreSQL does not report it, so it does not follow a client and is refused, until the operator ignores it."""
	weir = pooler()
	options = {"options": "-c statement_timeout=5s"}
	assert "statement_timeout" in weir.refusal(params=options).message
	weir.settings["ignore_startup_parameters"] = "statement_timeout"
	weir.reload()
	assert weir.raw(params=options).value("show statement_timeout") == "0"


@pytest.mark.parametrize("options", ["-c", "-x", "-c timezone=UTC\\", "-c timezone", "--", "rubbish", "-c =x"])
def test_p55_options_that_are_no_options_are_fatal_where_postgresql_says_so(pg, pooler, options):
	weir = pooler()
	try:
		Raw.login(pg.address, user="app", database="app", params={"options": options}).close()
		weir.raw(params={"options": options}).query("select 1")
	except ServerError as failure:
		right = failure
		refused = weir.refusal(params={"options": options})
		assert refused.severity == right.severity == "FATAL"
	assert weir.raw().value("select 1") == "1"


# --- P-56: [users] and auth_query

def test_p56_a_line_in_users_takes_nothing_away_from_auth_query(pg, pooler):
	weir = pooler(settings={"auth_type": "scram-sha-256", "auth_user": "lookup", "default_pool_size": 5,
	                        "auth_query": "select usename, passwd from public.lookup($1)"},
	              userlist={"lookup": PASSWORDS["lookup"], "admin": CONSOLE_PASSWORDS["admin"]},
	              users={"app2": {"max_user_connections": 2, "pool_mode": "transaction"}})
	for line in ({"max_user_connections": 1, "pool_mode": "transaction"}, None) * 2:
		old = weir.raw(user="app2")
		weir.users.clear()
		if line:
			weir.users["app2"] = line
		weir.reload()
		weir.admin("RECONNECT")  # a cap that was lowered counts for servers still to be opened
		assert old.value("select current_user") == "app2"
		holder, other = weir.raw(user="app2"), weir.raw(user="app2")
		out = process.run(["psql", "-XAtc", "select current_user", weir.dsn(user="app2")])
		assert out.stdout.strip() == "app2"
		assert weir.refusal(user="app2", password="wrong").sqlstate == "28P01"
		holder.query("begin")
		other.send(Q("select 1"))
		if line:
			weir.wait_pool(user="app2", cl_waiting=1)
			assert other.is_quiet(0.1)
		else:
			other.expect("T D[1] C(SELECT 1) Z(I)")
		holder.query("rollback")
		if line:
			other.expect("T D[1] C(SELECT 1) Z(I)")


# --- P-57: long passwords, and passwords that are not ASCII

SIZES = [63, 64, 127, 128, 996, 1023, 1024, 2047, 2048, 5000, 60000]


def password_of(size):
	word = "Tk" + "x9" * (size // 2 - 1) + "z" * (size % 2)
	assert len(word) == size
	return word


@pytest.mark.parametrize("way", ["plain", "md5", "scram-sha-256"])
def test_p57_long_passwords_work_towards_the_client(pg, pooler, way):
	weir = pooler(settings={"auth_type": way}, userlist={
		"admin": CONSOLE_PASSWORDS["admin"], "app": PASSWORDS["app"],
		**{f"long_{size}": password_of(size) for size in SIZES}}, databases={
		"app": {}, "forced": {"dbname": "app", "user": "app"}})
	for size in SIZES:
		word = password_of(size)
		assert weir.raw("forced", f"long_{size}", password=word).value("select 1") == "1"
		assert weir.refusal("forced", f"long_{size}", password=word[:-1] + "?").sqlstate == "28P01"
		assert weir.refusal("forced", f"long_{size}", password=word[:-1]).sqlstate == "28P01"


@pytest.mark.parametrize("way", ["password", "md5", "scram-sha-256"])
@pytest.mark.parametrize("place", ["userlist", "entry"])
def test_p57_long_passwords_work_towards_the_server(own_pg, pooler, way, place):
	"""PostgreSQL 15 takes any length in CREATE ROLE, and at login as much as it reads in a password message (64 KB)."""
	pg = own_pg()
	pg.write_hba(f"local all all trust\nhost all app 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 {way}\n")
	pg.sql(f"alter system set password_encryption = '{'md5' if way == 'md5' else 'scram-sha-256'}'")
	pg.reload()
	until("it is in force", lambda: way != "md5" or pg.value("show password_encryption") == "md5")
	words = {f"long_{size}": password_of(size) for size in (128, 1023, 2048, 5000, 60000)}
	for user, word in words.items():
		pg.sql(f"create role {user} login password '{word}'")
		with Raw.login(pg.address, user=user, database="app", password=word) as direct:
			assert direct.value("select current_user") == user
	entries = {user: {"dbname": "app", "user": user, "password": word} for user, word in words.items()} \
		if place == "entry" else {}
	weir = pooler(pg, settings={"auth_type": "trust"}, databases={"app": {}, **entries},
	              userlist={**PASSWORDS, **CONSOLE_PASSWORDS, **({} if place == "entry" else words)})
	for user in words:
		client = weir.raw(user, "app") if place == "entry" else weir.raw("app", user)
		assert client.value("select current_user") == user


# What a user types, and another spelling that RFC 4013 makes the same.
PREPARED = {
	"a ligature (NFKC)": ("\ufb01sh", "fish"),
	"full-width letters (NFKC)": ("\uff50\uff47", "pg"),
	"a combined letter (NFKC)": ("e\u0301t\u00e9", "\u00e9te\u0301"),
	"a soft hyphen (mapped to nothing)": ("pass\u00adword", "password"),
	"a wide blank (mapped to a blank)": ("a\u3000b", "a b"),
	"a no-break blank (mapped to a blank)": ("a\u00a0b", "a b"),
	"an umlaut": ("gr\u00fc\u00dfe", "gr\u00fc\u00dfe"),
}


def libpq_login(dsn):
	with psycopg.connect(dsn) as client:
		return client.execute("select current_user").fetchone()[0]


@pytest.mark.parametrize("what", PREPARED)
def test_p57_passwords_are_prepared_as_libpq_prepares_them(pg, pooler, what):
	"""Userlist and server both hold the first spelling; libpq logs in with either one, directly and through us."""
	typed, same = PREPARED[what]
	pg.sql(f"set password_encryption = 'scram-sha-256'; alter role scram_u password '{typed}'")
	try:
		weir = pooler(settings={"auth_type": "scram-sha-256"},
		              userlist={**PASSWORDS, **CONSOLE_PASSWORDS, "scram_u": typed})
		for word in (typed, same):
			assert libpq_login(psycopg.conninfo.make_conninfo(
				host=pg.host, port=pg.port, user="scram_u", dbname="app", password=word)) == "scram_u"
			assert libpq_login(weir.dsn(user="scram_u", password=word)) == "scram_u"
		with pytest.raises(psycopg.OperationalError):
			libpq_login(weir.dsn(user="scram_u", password=typed + "x"))
	finally:
		pg.sql(f"alter role scram_u password '{PASSWORDS['scram_u']}'")


# --- P-58: client certificates

MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
OFFERS = ["none", "good", "other CA", "expired", "wrong CN"]


@pytest.fixture(scope="module")
def offers(certs):
	"""What psql may show; files of its own that only their owner may read."""
	made = {"none": None, "good": certs.client("app"), "other CA": certs.other("app"),
	        "wrong CN": certs.client("somebody")}
	made["expired"] = certs.issue("expired", "app", days=-1)
	folder = process.new_folder(prefix="offers-")
	copies = {}
	for name, pair in made.items():
		if pair:
			copies[name] = [shutil.copy(path, f"{folder}/{name.replace(' ', '-')}.{end}")
			                for path, end in zip(pair, ("crt", "key"))]
			os.chmod(copies[name][1], 0o600)
			os.chown(copies[name][1], os.geteuid(), os.getegid())
	yield copies
	process.remove(folder)


def psql_gets_in(weir, sslmode, pair, **more):
	words = {"sslmode": sslmode, "sslcert": "/nonexistent/crt", "sslkey": "/nonexistent/key", "gssencmode": "disable"}
	if pair:
		words.update(sslcert=pair[0], sslkey=pair[1])
	done = process.run(["psql", "-XAtc", "select 1", weir.dsn(**{**words, **more})], check=False)
	return done.returncode == 0, done.stderr


def is_welcome(mode, sslmode, offer):
	"""The table: what the operator's mode lets in of what the client tries.

	`prefer` of the client tries TLS first and, where that is refused, plain: which helps only below `require`.
	A client certificate is looked at in the verify modes alone. A wrong CN is none of TLS's business: PgBouncer
	compares names in auth_type=cert only.
	"""
	plain = mode in ("disable", "allow", "prefer")
	tls = mode in ("allow", "prefer", "require") or (mode.startswith("verify") and offer in ("good", "wrong CN"))
	return {"disable": plain, "prefer": plain or tls, "require": tls}[sslmode]


@pytest.mark.parametrize("mode", MODES)
def test_p58_who_gets_in_with_which_certificate(pg, pooler, certs, offers, mode):
	weir = pooler(settings={"client_tls_sslmode": mode, "client_tls_ca_file": certs.ca,
	                        "client_tls_cert_file": certs.server_cert, "client_tls_key_file": certs.server_key})
	wrong = []
	for sslmode in ("disable", "prefer", "require"):
		for offer in OFFERS:
			if sslmode == "disable" and offer != "none":
				continue
			got_in, said = psql_gets_in(weir, sslmode, offers.get(offer))
			if got_in != is_welcome(mode, sslmode, offer):
				wrong.append(f"{sslmode} with {offer}: {'let in' if got_in else 'refused: ' + said}")
			if sslmode == "disable" and not got_in and "SSL required" not in said:
				wrong.append(f"{sslmode} with {offer} was told: {said}")
	assert not wrong, "\n".join(wrong)
	assert psql_gets_in(weir, "prefer", None, host=weir.folder)[0], "a Unix socket needs no certificate"
	with Raw.login(weir.socket_path, user="admin", database=weir.console_name,
	               password=weir.password("admin")) as console:
		weir.settings["client_tls_sslmode"] = "prefer"
		weir.write()
		console.query("RELOAD")


def test_p58_auth_type_cert_compares_the_name(pg, pooler, certs, offers):
	weir = pooler(start=False, settings={
		"client_tls_sslmode": "verify-full", "client_tls_ca_file": certs.ca, "auth_type": "cert",
		"client_tls_cert_file": certs.server_cert, "client_tls_key_file": certs.server_key})
	weir.launch()
	try:
		until("it is up, or has ended", lambda: weir.child.poll() is not None or weir.accepts(), 5)
	except AssertionError:
		pass
	if weir.child.poll() is not None:
		weir.expected_death = True
		assert re.search(r"auth_type.*cert", weir.stderr() + weir.log())
		pytest.skip("auth_type=cert is not built")
	assert psql_gets_in(weir, "require", offers["good"])[0]
	assert not psql_gets_in(weir, "require", offers["wrong CN"])[0]
	assert not psql_gets_in(weir, "require", offers["good"], user="admin", dbname=weir.console_name)[0]
