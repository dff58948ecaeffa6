"""COPY in both directions, in all the ways that drivers send it."""

import random
import threading

import pytest

from rig import same_as_direct
from rig.limits import until
from rig.raw import B, E, P, Q, S, X, c, d, f

pytestmark = pytest.mark.usefixtures("clean")


def rows(pg, table="ct"):
	return pg.value(f"select count(*) from {table}", dbname="app")


@pytest.fixture
def one(pg, pooler):
	return pooler(settings={"default_pool_size": 1})


def test_copy_in_and_out_by_the_simple_protocol(pg, one):
	a = one.raw()
	a.send(Q("copy ct from stdin"))
	a.expect("G")
	a.send(d("1\tone\n"), d("2\ttwo\n"), c)
	a.expect("C(COPY 2) Z(I)")
	assert a.talk(Q("copy ct to stdout")) == "H d d c C(COPY 2) Z(I)"


def test_the_sync_before_the_data_does_not_count(pg, one):
	"""tokio-postgres: Parse Bind Execute Sync, then the data (pgbouncer #1023)."""
	a, b = one.raw(), one.raw()
	for n in range(200):
		a.send(P("", "copy ct from stdin"), B(), E(), S)
		a.expect("1 2 G")
		a.send(d(f"{n}\tx\n"), c, S)
		a.expect("C(COPY 1) Z(I)")
		if n % 20 == 0:
			assert b.value("select 1") == "1"
	assert rows(pg) == 200


def test_copy_fail_instead_of_copy_done(pg, one):
	a, b = one.raw(), one.raw()
	a.send(P("", "copy ct from stdin"), B(), E(), S)
	a.expect("1 2 G")
	a.send(d("1\tx\n"), f("no more"), S)
	a.expect("E(57014) Z(I)")
	assert b.value("select 1") == "1"
	a.send(Q("copy ct from stdin"))
	a.expect("G")
	a.send(f("no more"))
	a.expect("E(57014) Z(I)")
	assert rows(pg) == 0


@pytest.mark.pgweir("1.18 loses the last reply")
def test_a_whole_copy_in_one_write(pg, one):
	lines = [d(f"{n}\tx\n") for n in range(1000)]
	same_as_direct(pg, one, [
		([Q("truncate ct")], 1),
		([P("", "copy ct from stdin"), B(), E(), *lines, c, S], "1 2 G C(COPY 1000) Z(I)"),
		([Q("truncate ct")], 1),
		([Q("copy ct from stdin"), *lines[:2], c], "G C(COPY 2) Z(I)"),
		([Q("truncate ct")], 1),
		([P("", "copy ct from stdin"), B(), E(), S, lines[0], c, S, Q("select 7")],
		 "1 2 G C(COPY 1) Z(I) T D[7] C(SELECT 1) Z(I)"),
	])


def test_data_behind_a_copy_that_failed_is_thrown_away(pg, one):
	same_as_direct(pg, one, [
		([Q("copy nosuch from stdin"), d("1\n"), c, Q("select 5")],
		 "E(42P01) Z(I) T D[5] C(SELECT 1) Z(I)"),
		([P("", "copy nosuch from stdin"), B(), E(), d("1\n"), c, S], "1 2 E(42P01) Z(I)"),
		([Q("select 6")], "T D[6] C(SELECT 1) Z(I)"),
	])
	assert one.raw().value("select 1") == "1"


def test_bad_data_is_an_error_at_once_and_the_rest_is_thrown_away(pg, one):
	same_as_direct(pg, one, [
		([Q("copy ct from stdin"), d("not a number\tx\n"), d("2\tx\n"), c],
		 "G E(22P02) Z(I)"),
		([Q("select 6")], "T D[6] C(SELECT 1) Z(I)"),
	])


def test_a_pause_between_chunks_keeps_the_server(pg, one):
	a, b = one.raw(), one.raw()
	a.send(Q("copy ct from stdin"))
	a.expect("G")
	b.send(Q("select 'b'"))
	one.wait_pool(cl_waiting=1)
	a.send(d("1\tx\n"))
	assert b.is_quiet(0.2)
	a.send(c)
	a.expect("C(COPY 1) Z(I)")
	b.expect("T D[b] C(SELECT 1) Z(I)")


def test_copy_out_keeps_the_server_until_ready(pg, one):
	a = one.raw(seconds=10)
	a.send(Q("copy (select generate_series(1, 5000)) to stdout"))
	letters = a.read_ready()
	assert letters.startswith("H d") and letters.endswith("c C(COPY 5000) Z(I)")
	assert letters.count("d") == 5000


def test_ten_clients_copy_in_chunks_of_any_size(pg, pooler):
	weir = pooler(settings={"default_pool_size": 2})
	seed = random.randrange(1 << 30)
	print("seed", seed)
	failures = []

	def copy(place):
		try:
			dice = random.Random(seed + place)
			client = weir.raw(seconds=20)
			data = "".join(f"{place}\t{'v' * dice.randrange(200)}\n" for _ in range(3000)).encode()
			client.send(Q("copy big from stdin"))
			client.expect("G")
			at = 0
			while at < len(data):
				size = dice.randrange(1, 70000)
				client.send(d(data[at:at + size]))
				at += size
			client.send(c)
			client.expect("C(COPY 3000) Z(I)")
		except BaseException as failure:  # told to the main thread
			failures.append((place, failure))

	threads = [threading.Thread(target=copy, args=(place,)) for place in range(10)]
	for thread in threads:
		thread.start()
	for thread in threads:
		thread.join(60)
	assert not failures
	assert pg.sql("select n, count(*) from big group by n order by n", dbname="app") \
		== [(n, 3000) for n in range(10)]


@pytest.mark.parametrize("leave", ["reset", "close"])
def test_a_client_that_dies_in_a_copy_out_frees_its_server(pg, pooler, leave):
	weir = pooler(settings={"default_pool_size": 2})
	for _ in range(4):
		a = weir.raw()
		a.send(Q("copy (select repeat('x', 1000) from generate_series(1, 2000000)) to stdout"))
		assert a.read(60).startswith("H d")
		getattr(a, leave)()
		assert weir.raw().value("select 1") == "1"
	until("no copy goes on", lambda: pg.count("query like 'copy%%' and state = 'active'") == 0, 3)


@pytest.mark.parametrize("leave", ["reset", "close", "terminate"])
def test_a_client_that_dies_in_a_copy_in_leaves_no_row(pg, one, leave):
	for _ in range(4):
		a = one.raw()
		a.send(Q("copy ct from stdin"))
		a.expect("G")
		a.send(*(d(f"{n}\t{'x' * 500}\n") for n in range(2000)))
		getattr(a, leave)()
		assert one.raw().value("select count(*) from ct") == "0"


def test_a_client_cut_inside_copy_data_leaves_no_row(pg, one):
	a = one.raw()
	a.send(Q("copy ct from stdin"))
	a.expect("G")
	a.send(d("1\tx\n"), d("2\t" + "y" * 5000 + "\n")[:2000])
	a.reset()
	assert one.raw().value("select count(*) from ct") == "0"


@pytest.mark.pgweir("1.18 drops the replies")
def test_terminate_behind_a_copy_is_obeyed_after_it(pg, one):
	a = one.raw()
	a.send(Q("copy ct from stdin"), d("1\tx\n"), c, X)
	assert a.read_eof() == "G C(COPY 1) Z(I) EOF"
	assert rows(pg) == 1
