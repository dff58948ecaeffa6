"""Messages far larger than any buffer, in bounded memory."""

import threading

import pytest

from rig import Relay
from rig.limits import until
from rig.raw import B, E, P, Q, S, c, d

pytestmark = pytest.mark.usefixtures("clean")

MIB = 1 << 20
# What the pooler may grow by while one message passes: its buffers, not the message.
GROWTH_KIB = 4096


@pytest.fixture
def one(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	weir.raw().query("select repeat('x', 100000)")
	return weir


def grown(weir, before):
	return weir.rss_kib() - before


@pytest.mark.parametrize("size", [1, 4095, 4096, 65535, 65536, 65537, MIB])
def test_a_row_of_any_size_arrives_whole(one, size):
	client = one.raw(seconds=5)
	assert client.value(f"select repeat('r', {size})") == "r" * size


@pytest.mark.parametrize("size", [1, 4095, 4096, 65535, 65536, 65537, MIB])
def test_a_query_of_any_size_arrives_whole(one, size):
	client = one.raw(seconds=5)
	assert client.value(f"select length('{'q' * size}')") == str(size)


def test_a_row_of_16_mib_passes_in_bounded_memory(one):
	client = one.raw(seconds=20)
	before = one.rss_kib()
	client.send(Q(f"select repeat('x', {16 * MIB})"))
	letter, _ = client.read_message()
	assert letter == "T"
	letter, body = client.read_message()
	assert letter == "D" and len(body) == 16 * MIB + 6
	client.expect("C(SELECT 1) Z(I)")
	assert grown(one, before) < GROWTH_KIB


def test_a_parameter_of_16_mib_passes_in_bounded_memory(one):
	client = one.raw(seconds=20)
	before = one.rss_kib()
	client.send(P("", "select length($1)"), B("", "", "p" * (16 * MIB)), E(), S)
	client.expect(f"1 2 D[{16 * MIB}] C(SELECT 1) Z(I)")
	assert grown(one, before) < GROWTH_KIB


@pytest.mark.pgweir("1.18 keeps the whole of a Parse with a name")
def test_a_query_text_of_16_mib_passes(one):
	client = one.raw(seconds=20)
	client.send(Q(f"select length('{'q' * (16 * MIB)}')"))
	client.expect(f"T D[{16 * MIB}] C(SELECT 1) Z(I)")
	client.send(P("", f"select length('{'q' * (16 * MIB)}')"), B(), E(), S)
	client.expect(f"1 2 D[{16 * MIB}] C(SELECT 1) Z(I)")


def test_64_mib_of_copy_in_and_out_pass_in_bounded_memory(one, pg):
	client = one.raw(seconds=60)
	line = b"1\t" + b"v" * 1021 + b"\n"
	chunk = d(line * 64)
	before = one.rss_kib()
	client.send(Q("copy big from stdin"))
	client.expect("G")
	for _ in range(64 * MIB // len(line) // 64):
		client.send(chunk)
	client.send(c)
	client.expect("C(COPY 65536) Z(I)")
	client.send(Q("copy big to stdout"))
	count = 0
	while True:
		letter, body = client.read_message()
		count += letter == "d"
		if letter == "Z":
			break
	assert count == 65536
	assert grown(one, before) < GROWTH_KIB
	pg.sql("truncate big", dbname="app")


def test_many_rows_pass_in_bounded_memory(one):
	client = one.raw(seconds=30)
	before = one.rss_kib()
	client.send(Q("select repeat('x', 1000) from generate_series(1, 20000)"))
	count = 0
	while (letter := client.read_message()[0]) != "Z":
		count += letter == "D"
	assert count == 20000
	assert grown(one, before) < GROWTH_KIB


def test_a_client_that_does_not_read_holds_back_its_server_and_not_the_memory(pg, pooler):
	weir = pooler(settings={"default_pool_size": 2})
	other = weir.raw()
	other.query("select repeat('x', 100000)")
	slow = weir.raw(seconds=30)
	before = weir.rss_kib()
	slow.send(Q("select repeat('x', 1000000) from generate_series(1, 100)"))
	for _ in range(30):
		assert other.value("select 1") == "1"
	until("the server is held back", lambda: pg.value(
		"select count(*) from pg_stat_activity where wait_event = 'ClientWrite'") == 1, 5)
	assert grown(weir, before) < GROWTH_KIB
	rows = 0
	while (letter := slow.read_message()[0]) != "Z":
		rows += letter == "D"
	assert rows == 100


def test_a_server_that_does_not_read_holds_back_its_client_and_not_the_memory(pg, pooler):
	with Relay(pg.address) as relay:
		weir = pooler(databases={"app": {"port": relay.port}}, settings={"default_pool_size": 1})
		client = weir.raw(seconds=30)
		client.query("select repeat('x', 100000)")
		before = weir.rss_kib()
		relay.hold("client")
		sender = threading.Thread(target=lambda: client.send(Q(f"select length('{'q' * (48 * MIB)}')")))
		client.sock.settimeout(60)
		sender.start()
		sender.join(0.5)
		assert sender.is_alive(), "48 MiB went somewhere"
		assert grown(weir, before) < GROWTH_KIB
		relay.release("client")
		sender.join(60)
		client.expect(f"T D[{48 * MIB}] C(SELECT 1) Z(I)", 30)


def test_max_packet_size_refuses_what_is_larger(pg, pooler):
	weir = pooler(settings={"max_packet_size": 100000})
	client = weir.raw()
	assert client.value(f"select length('{'q' * 90000}')") == "90000"
	client.send(Q(f"select length('{'q' * 200000}')"))
	assert client.read_eof().endswith("EOF")
	assert weir.raw().value("select 1") == "1"


def test_large_results_of_many_clients_at_once(pg, pooler):
	weir = pooler(settings={"default_pool_size": 4})
	failures = []

	def fetch(letter):
		try:
			client = weir.raw(seconds=30)
			for _ in range(3):
				assert client.value(f"select repeat('{letter}', 2000000)") == letter * 2000000
		except BaseException as failure:  # told to the main thread
			failures.append((letter, repr(failure)[:300]))

	threads = [threading.Thread(target=fetch, args=(letter,)) for letter in "abcdefgh"]
	for thread in threads:
		thread.start()
	for thread in threads:
		thread.join(60)
	assert not failures
