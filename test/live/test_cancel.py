"""Cancel requests: they reach the query they were meant for, or nothing."""

import random
import threading
import time

import pytest

from rig import Relay
from rig.limits import limit, rounds, until
from rig.raw import B, E, P, Q, S, ServerError

pytestmark = pytest.mark.usefixtures("clean")


@pytest.fixture
def one(pg, pooler):
	return pooler(settings={"default_pool_size": 1})


def test_a_running_query_is_cancelled(pg, one):
	a = one.raw()
	a.send(Q("select pg_sleep(20)"))
	until("it runs", lambda: pg.count("query like 'select pg_sleep%%' and state = 'active'"))
	assert one.cancel(a.key) == b""
	a.expect("T E(57014) Z(I)")
	assert a.value("select 1") == "1"


def test_a_cancel_over_tls_works(pg, pooler, certs):
	weir = pooler(settings={"client_tls_sslmode": "prefer", "default_pool_size": 1,
	                        "client_tls_cert_file": certs.server_cert,
	                        "client_tls_key_file": certs.server_key})
	a = weir.raw(tls=certs.context())
	a.send(Q("select pg_sleep(20)"))
	until("it runs", lambda: pg.count("state = 'active'"))
	assert weir.cancel(a.key, tls=certs.context()) == b""
	a.expect("T E(57014) Z(I)")


def test_a_cancel_in_a_transaction_fails_the_transaction_only(pg, one):
	a = one.raw()
	a.query("begin")
	a.send(Q("select pg_sleep(20)"))
	until("it runs", lambda: pg.count("state = 'active'"))
	one.cancel(a.key)
	a.expect("T E(57014) Z(E)")
	a.query("rollback")


@pytest.mark.pgweir("named statements in transaction mode came with 1.21")
@pytest.mark.parametrize("name", ["", "s"])
def test_a_query_is_cancelled_behind_a_statement_that_was_prepared_ahead_of_it(pg, pooler, name):
	"""PostgreSQL keeps the answers to our Close and Parse back until it has sent something of the query itself."""
	weir = pooler(settings={"default_pool_size": 1, "max_prepared_statements": 1})
	a, b = weir.raw(), weir.raw()
	assert a.talk(P(name, "select pg_sleep(20)"), S) == "1 Z(I)"
	for text in ("select 1", "select 2"):
		assert b.talk(P("", text), P("s" + text, text), S) == "1 1 Z(I)"
	a.send(B("", name), E(), S)
	until("it runs", lambda: pg.count("query = 'select pg_sleep(20)' and state = 'active' and "
	                                  "wait_event = 'PgSleep'"))
	assert weir.cancel(a.key) == b""
	assert a.read_ready() in ("E(57014) Z(I)", "2 E(57014) Z(I)")
	assert a.talk(P("", "select 3"), B(), E(), S) == "1 2 D[3] C(SELECT 1) Z(I)"


def test_a_cancel_with_nothing_running_is_silent(pg, one):
	"""An extra reply would shift all later ones (pgbouncer #223)."""
	a = one.raw()
	assert a.value("select 1") == "1"
	assert one.cancel(a.key) == b""
	assert a.is_quiet(0.1)
	assert a.value("select 2") == "2"


def test_cancels_raced_against_the_end_of_a_query_never_shift_the_replies(pg, one):
	a = one.raw()
	seed = random.randrange(1 << 30)
	print("seed", seed)
	dice = random.Random(seed)
	for n in range(rounds(60)):
		a.send(Q(f"select {n} from pg_sleep(0.003)"))
		racer = threading.Timer(dice.uniform(0.001, 0.005), one.cancel, [a.key])
		racer.start()
		letters = a.read_ready()
		racer.join()
		assert letters in (f"T D[{n}] C(SELECT 1) Z(I)", f"T D[{n}] E(57014) Z(I)",
		                   "T E(57014) Z(I)", "E(57014) Z(I)"), letters


@pytest.mark.parametrize("which", ["wrong", "of a client that left", "of the console", "of zeros"])
def test_a_key_that_names_no_query_does_nothing(pg, one, which):
	a = one.raw(seconds=4)
	a.send(Q("select 'mine' from pg_sleep(0.3)"))
	if which == "wrong":
		key = bytes([a.key[0]]) + bytes(b ^ 0x55 for b in a.key[1:])
	elif which == "of zeros":
		key = bytes(8)
	elif which == "of the console":
		key = one.console().key
	else:
		gone = one.raw()
		key = gone.key
		gone.terminate()
	assert one.cancel(key) == b""
	a.expect("T D[mine] C(SELECT 1) Z(I)")


def test_keys_that_differ_in_one_bit_do_nothing(pg, one):
	a = one.raw(seconds=6)
	a.send(Q("select 'mine' from pg_sleep(0.6)"))
	for bit in range(len(a.key) * 8):
		near = bytearray(a.key)
		near[bit // 8] ^= 1 << bit % 8
		assert one.cancel(bytes(near)) == b""
	a.expect("T D[mine] C(SELECT 1) Z(I)")


def test_a_late_cancel_never_hits_the_next_client(pg, pooler):
	"""The relay holds each cancel back until the server serves somebody else (pgbouncer #245)."""
	with Relay(pg.address) as relay:
		relay.delay_cancel = 0.1
		weir = pooler(databases={"app": {"port": relay.port}}, settings={"default_pool_size": 1})
		a, b = weir.raw(seconds=5), weir.raw(seconds=5)
		ended = threading.Event()
		failures = []

		def innocent():
			while not ended.is_set():
				try:
					b.query("select pg_sleep(0.005)")
				except ServerError as failure:
					failures.append(failure)
					return

		thread = threading.Thread(target=innocent)
		thread.start()
		try:
			end = time.monotonic() + 2
			while time.monotonic() < end and not failures:
				a.send(Q("select pg_sleep(0.01)"))
				racer = threading.Timer(random.uniform(0.002, 0.012), weir.cancel, [a.key],
				                        {"seconds": 5})
				racer.start()
				letters = a.read_ready()
				assert letters.endswith("Z(I)") and ("C(SELECT 1)" in letters or "57014" in letters)
				racer.join()
		finally:
			ended.set()
			thread.join(limit(5))
		assert not failures and relay.cancels > 0


@pytest.mark.pgweir("stricter than PgBouncer, which lets it wait on")
def test_a_client_that_waits_is_cancelled_without_its_query_being_run(pg, one):
	x, a = one.raw(seconds=4), one.raw()
	x.send(Q("select 'x' from pg_sleep(0.6)"))
	until("the holder runs", lambda: pg.count("state = 'active'"))
	a.send(Q("insert into t values (1)"))
	one.wait_pool(cl_waiting=1)
	assert one.cancel(a.key) == b""
	a.expect("E(57014) Z(I)", 1)
	x.expect("T D[x] C(SELECT 1) Z(I)")
	assert a.value("select count(*) from t") == "0"


@pytest.mark.pgweir("stricter than PgBouncer, which lets it wait on")
def test_a_waiting_batch_that_is_cancelled_gets_one_error_and_its_ready_at_the_sync(pg, one):
	x, a = one.raw(), one.raw()
	x.query("begin")
	a.send(P("", "insert into t values (1)"), B(), E())
	one.wait_pool(cl_waiting=1)
	one.cancel(a.key)
	a.expect("E(57014)")
	assert a.is_quiet(0.05)
	a.send(S)
	a.expect("Z(I)")
	x.query("rollback")
	assert a.value("select count(*) from t") == "0"


def test_a_flood_of_cancels_for_one_client_harms_nobody(pg, one):
	a, b = one.raw(seconds=6), one.raw(seconds=6)
	a.send(Q("select pg_sleep(20)"))
	until("it runs", lambda: pg.count("state = 'active'"))
	threads = [threading.Thread(target=one.cancel, args=(a.key,), kwargs={"seconds": 15})
	           for _ in range(20)]
	for thread in threads:
		thread.start()
	a.expect("T E(57014) Z(I)")
	for thread in threads:
		thread.join(limit(15))
		assert not thread.is_alive()
	assert b.value("select 1") == "1"


@pytest.mark.parametrize("size", [0, 4, 5, 7, 9, 300])
def test_a_cancel_request_of_a_wrong_size_is_closed(one, size):
	client = one.open()
	client.send((8 + size).to_bytes(4, "big") + (80877102).to_bytes(4, "big") + b"k" * size)
	assert client.read_eof().endswith("EOF")
	assert one.raw().value("select 1") == "1"
