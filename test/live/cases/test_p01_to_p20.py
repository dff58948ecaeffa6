"""Real-world cases P-01 to P-20: prepared statements, pipelining, COPY, cancel, session state.

Each test is named after its case: a fault that users of some pooler have met,
and what PostgreSQL itself does instead. Long loops are a slice here and whole
under PGWEIR_LONG.
"""

import asyncio
import re
import threading
import time

import asyncpg
import pytest

from rig import Relay, node, same_as_direct
from rig.cases import Background, backend, dice, loops, on_another_server
from rig.limits import limit, until
from rig.oracle import play
from rig.raw import B, C, D, E, H, P, Q, Raw, S, c, d, f, message

pytestmark = [pytest.mark.usefixtures("clean"),
              pytest.mark.pgweir("the cases hold for pgweir")]


@pytest.fixture
def one(pg, pooler):
	return pooler(settings={"default_pool_size": 1})


@pytest.fixture
def two(pg, pooler):
	return pooler(settings={"default_pool_size": 2})


def in_asyncio(work, seconds=20):
	return asyncio.run(asyncio.wait_for(work, limit(seconds)))


def asyncpg_connect(weir, **more):
	return asyncpg.connect(host=weir.host, port=weir.port, user="app", database="app", ssl=False,
	                       password=weir.password("app"), **more)


def own_values(weir, count):
	"""A fresh client that asks with parameters gets its own values, each in its place."""
	fresh = weir.raw()
	for n in range(count):
		assert fresh.talk(P("", "select $1::int"), B("", "", n), E(), S) == f"1 2 D[{n}] C(SELECT 1) Z(I)"


# --- P-01

@pytest.fixture
def small_cache(pg, pooler):
	return pooler(settings={"default_pool_size": 1, "max_prepared_statements": 2})


def test_p01_a_made_up_reply_never_overtakes_a_real_one(pg, small_cache):
	"""Closes and Parses in one batch, at the limit of the server's cache (pgbouncer PR 1555)."""
	same_as_direct(pg, small_cache, [
		([P("a", "select 1"), P("b", "select 2"), S], "1 1 Z(I)"),
		([P("c", "select 3"), C("S", "a"), C("S", "b"), P("d", "select 1"), B("", "d"), E(), S],
		 "1 3 3 1 2 D[1] C(SELECT 1) Z(I)"),
	])
	own_values(small_cache, 20)


def test_p01_random_batches_at_the_limit_are_answered_letter_by_letter(pg, small_cache):
	cast = dice()
	texts = [f"select {n}" for n in range(1, 8)]
	parts = [lambda name: P(name, cast.choice(texts)), lambda name: C("S", name),
	         lambda name: B("", name) + E()]
	steps = [([*(cast.choice(parts)(cast.choice("abcde")) for _ in range(cast.randint(1, 8))), S], 1)
	         for _ in range(loops(200, 4000))]
	same_as_direct(pg, small_cache, steps)
	own_values(small_cache, 20)


# --- P-02

def test_p02_a_describe_alone_prepares_the_statement_where_it_is_not_known(two):
	a = two.raw()
	assert a.talk(P("s1", "select $1::int as x, now() as y"), S) == "1 Z(I)"
	with on_another_server(two, a):
		assert a.talk(D("S", "s1"), S) == "t T Z(I)"
		assert a.fields == ["x", "y"]
	two.admin("RECONNECT")
	with on_another_server(two, a):
		a.send(D("S", "s1"), H)
		a.expect("t T")
		a.send(B("", "s1", "5"), D("P", ""), E(), S)
		assert re.fullmatch(r"2 T D\[5,.*\] C\(SELECT 1\) Z\(I\)", a.read_ready())


# --- P-03

@pytest.mark.parametrize("how", ["once the error is read", "in the same write"])
def test_p03_a_request_between_an_error_and_its_ready_keeps_the_server(pg, pooler, how):
	"""The late ReadyForQuery is not the end of what was sent after it (pgbouncer #759)."""
	with Relay(pg.address) as relay:
		weir = pooler(databases={"app": {"port": relay.port}}, settings={"default_pool_size": 1})
		a, b = weir.raw(), weir.raw()
		a.query("select 1")

		def hold_back_ready(direction, data):
			if direction == "server" and data.endswith(b"Z\0\0\0\5I"):
				return [(0, data[:-6]), (0.03, data[-6:])]
			return [(0, data)]

		relay.edit = hold_back_ready
		fails = [P("", "select 1/0"), B(), E(), S]
		follows = [P("", "select 2"), D("S", ""), H]
		for _ in range(loops(5, 50)):
			if how == "in the same write":
				a.send(*fails, *follows)
				a.expect("1 E(22012) Z(I) 1 t T")
			else:
				a.send(*fails)
				assert a.read(2) == "1 E(22012)"
				a.send(*follows)
				a.expect("Z(I) 1 t T")
			b.send(Q("select 9"))
			weir.wait_pool(cl_waiting=1)
			a.send(B(), E(), S)
			a.expect("2 D[2] C(SELECT 1) Z(I)")
			b.expect("T D[9] C(SELECT 1) Z(I)")


# --- P-04

COPY = "copy ct from stdin"
EARLY_SYNC = {
	"by an unnamed statement": ([P("", COPY), B(), E(), S], "1 2 G"),
	"by a named one": ([B("", "cp"), E(), S], "2 G"),
	"with two syncs": ([P("", COPY), B(), E(), S, S], "1 2 G"),
	"of a client that gives up": ([P("", COPY), B(), E(), S], "1 2 G"),
}


@pytest.mark.parametrize("what", EARLY_SYNC)
def test_p04_a_sync_before_the_data_of_a_copy_does_not_count(pg, one, what):
	"""Parse, Bind, Execute and Sync, and the data after that: PostgreSQL ignores this Sync."""
	messages, letters = EARLY_SYNC[what]
	gives_up = "gives up" in what
	a, b = one.raw(), one.raw()
	assert a.talk(P("cp", COPY), S) == "1 Z(I)"
	count = loops(400, 10000)
	warm, before = count // 4, 0
	for n in range(count):
		if n == warm:
			before = one.rss_kib()
		a.send(*messages)
		a.expect(letters)
		a.send(d(f"{n}\tx\n"), f() if gives_up else c, S)
		a.expect("E(57014) Z(I)" if gives_up else "C(COPY 1) Z(I)")
		a.errors.clear()
		if n % 20 == 0:
			assert b.value("select 1") == "1"
	assert one.rss_kib() - before < 1024
	assert pg.value("select count(*) from ct", dbname="app") == (0 if gives_up else count)


# --- P-05

@pytest.mark.parametrize("delay", [0, 0.1])
def test_p05_a_late_cancel_never_kills_the_query_of_another_client(pg, pooler, delay):
	"""With a delay each cancel reaches PostgreSQL when its query is long over (pgbouncer #245)."""
	with Relay(pg.address) as relay:
		relay.delay_cancel = delay
		weir = pooler(databases={"app": {"port": relay.port}}, settings={"default_pool_size": 1})
		a, b = weir.raw(seconds=5), weir.raw(seconds=5)
		cast = dice()
		end = time.monotonic() + loops(2, 60)
		with Background(lambda _: b.query("select pg_sleep(0.005)")) as innocent:
			while time.monotonic() < end and not innocent.failures:
				a.send(Q("select pg_sleep(0.01)"))
				racer = threading.Timer(cast.uniform(0.008, 0.012), weir.cancel, [a.key], {"seconds": 5})
				racer.start()
				letters = a.read_ready()
				assert letters in ("T D[] C(SELECT 1) Z(I)", "T D[] E(57014) Z(I)", "T E(57014) Z(I)",
				                   "E(57014) Z(I)"), letters
				racer.join()
		assert relay.cancels > 0 and innocent.rounds[0] > 0


# --- P-06

def half_a_query(client):
	client.send(message("Q", b"select '" + b"x" * 199992)[:5 + 70000])


def three_bytes_of_a_header(client):
	client.send(Q("select 1")[:3])


def half_a_bind(client):
	client.send(P("", "select $1::text"), B("", "", "y" * 200000)[:70000])


def half_a_copy_data(client):
	client.send(Q("copy ct from stdin"))
	client.expect("G")
	client.send(d("1\tx\n"), d("2\t" + "z" * 200000)[:70000])


@pytest.mark.parametrize("tls", ["plain", "tls"])
@pytest.mark.parametrize("cut", [half_a_query, three_bytes_of_a_header, half_a_bind, half_a_copy_data],
                         ids=lambda cut: cut.__name__)
def test_p06_half_a_message_is_never_glued_to_the_next_client_s(pg, pooler, certs, cut, tls):
	weir = pooler(settings={"default_pool_size": 1, "client_tls_sslmode": "prefer",
	                        "client_tls_cert_file": certs.server_cert,
	                        "client_tls_key_file": certs.server_key})
	secure = {"tls": certs.context()} if tls == "tls" else {}
	mark = pg.mark()
	b = weir.raw(**secure)
	for n in range(loops(6, 300)):
		a = weir.raw(**secure)
		a.query("begin")
		if n % 3:
			cut(a)
			b.send(Q("select 41+1"))
		else:
			b.send(Q("select 41+1"))
			weir.wait_pool(cl_waiting=1)
			cut(a)
		a.half_close() if n % 2 else a.reset()
		b.expect("T D[42] C(SELECT 1) Z(I)")
		a.close()
	assert "invalid frontend message type" not in pg.log(mark)
	assert not re.search(rf"\[{backend(b)}\].*incomplete message", pg.log(mark))
	assert pg.value("select count(*) from ct", dbname="app") == 0


# --- P-07

def test_p07_a_backend_never_goes_back_with_a_transaction_open(pg, pooler):
	"""Clients that pipeline a transaction and vanish some ms later, at any point of it."""
	weir = pooler(settings={"default_pool_size": 3, "log_connections": 0, "log_disconnections": 0})
	mark = pg.mark()
	cast = dice()

	def vanish(_):
		with weir.raw() as a:
			a.send(P("", "begin"), B(), E(), P("", "insert into t values (1)"), B(), E(),
			       P("", "select pg_sleep(0.02)"), B(), E(), P("", "commit"), B(), E(), S)
			time.sleep(cast.uniform(0, 0.04))  # the page is left at some point of its work

	goods = [weir.raw(seconds=5), weir.raw(seconds=5)]

	def behave(client):
		assert client.talk(Q("begin")) == "C(BEGIN) Z(T)"
		assert client.value("select txid_current_if_assigned()") is None
		backend(client)
		assert client.talk(Q("commit")) == "C(COMMIT) Z(I)"

	with Background(*(lambda _, good=good: behave(good) for good in goods)) as good:
		with Background(*[vanish] * 6, times=loops(20, 400), seconds=60):
			pass
	assert min(good.rounds) > 0
	until("nobody is left in a transaction", lambda: pg.count("state like 'idle in%%'") == 0)
	assert "already a transaction in progress" not in pg.log(mark)
	assert "no transaction in progress" not in pg.log(mark)


# --- P-08

def test_p08_the_unnamed_statement_lives_from_one_sync_to_the_next(one):
	a, b = one.raw(), one.raw()
	for n in range(loops(5, 200)):
		assert a.talk(P("", "select $1::int*10"), D("S", ""), S) == "1 t T Z(I)"
		assert b.talk(P("", "select 'other'"), D("S", ""), S) == "1 t T Z(I)"
		assert a.talk(B("", "", "7"), E(), S) == "2 D[70] C(SELECT 1) Z(I)"
		assert b.talk(B("", ""), E(), S) == "2 D[other] C(SELECT 1) Z(I)"
		assert a.talk(B("", "", n), E(), S) == f"2 D[{n * 10}] C(SELECT 1) Z(I)"


def test_p08_a_query_or_a_failed_parse_drops_the_unnamed_statement(pg, one):
	b = one.raw()
	assert b.talk(P("", "select 'not yours'"), S) == "1 Z(I)"
	gone = ([B("", ""), E(), S], "E(26000) Z(I)")
	same_as_direct(pg, one, [
		gone,
		([P("", "select 5"), S], "1 Z(I)"),
		([Q("select 6")], "T D[6] C(SELECT 1) Z(I)"),
		gone,
		([P("", "select 5"), S], "1 Z(I)"),
		([P("", "selekt"), S], "E(42601) Z(I)"),
		gone,
		([P("", "select 5"), S], "1 Z(I)"),
		([C("S", ""), S], "3 Z(I)"),
		gone,
	])
	assert b.talk(B("", ""), E(), S) == "2 D[not yours] C(SELECT 1) Z(I)"


def test_p08_asyncpg_without_a_statement_cache_shares_a_server(one):
	async def work():
		clients = [await asyncpg_connect(one, statement_cache_size=0) for _ in range(2)]

		async def ask(place):
			for n in range(loops(50, 1000)):
				assert await clients[place].fetchval(f"select $1::int * 10 + {place}", n) == n * 10 + place

		await asyncio.gather(ask(0), ask(1))
		for client in clients:
			await client.close()

	in_asyncio(work())


def test_p08_node_postgres_clients_share_a_server(one):
	assert node.run(one, "unnamed.js", "50") == ["100"]


# --- P-09

def in_a_transaction_that_is_undone(text):
	return [([Q("begin")], "C(BEGIN) Z(T)"), ([Q(text)], "C(DEALLOCATE ALL) Z(T)"),
	        ([Q("rollback")], "C(ROLLBACK) Z(I)")]


RESETS = {
	"by a simple query": [([Q("DEALLOCATE ALL")], "C(DEALLOCATE ALL) Z(I)")],
	"in lower case": [([Q("deallocate all")], "C(DEALLOCATE ALL) Z(I)")],
	"in full words": [([Q("Deallocate Prepare All;")], "C(DEALLOCATE ALL) Z(I)")],
	"behind comments": [([Q("/* tidy /* up */ */ -- first\n DEALLOCATE\tALL")], "C(DEALLOCATE ALL) Z(I)")],
	"by DISCARD ALL": [([Q("DISCARD ALL")], "C(DISCARD ALL) Z(I)")],
	"by discard all behind a comment": [([Q("/*x*/discard all ;")], "C(DISCARD ALL) Z(I)")],
	"among other statements": [([Q("select 1; deallocate all; select 2")],
	                            "T D[1] C(SELECT 1) C(DEALLOCATE ALL) T D[2] C(SELECT 1) Z(I)")],
	"by the extended protocol": [([P("", "DEALLOCATE ALL"), B(), E(), S], "1 2 C(DEALLOCATE ALL) Z(I)")],
	"of all, extended": [([P("", "discard all"), B(), E(), S], "1 2 C(DISCARD ALL) Z(I)")],
	"in a transaction that is undone": in_a_transaction_that_is_undone("deallocate all"),
}


@pytest.mark.parametrize("how", RESETS)
def test_p09_a_reset_by_sql_takes_the_names_of_its_client_only(pg, one, how):
	b = one.raw()
	assert b.talk(P("b", "select 2"), S) == "1 Z(I)"
	same_as_direct(pg, one, [
		([P("a", "select 1"), S], "1 Z(I)"),
		([B("", "a"), E(), S], "2 D[1] C(SELECT 1) Z(I)"),
		*RESETS[how],
		([B("", "a"), E(), S], "E(26000) Z(I)"),
		([P("a", "select 3"), B("", "a"), E(), S], "1 2 D[3] C(SELECT 1) Z(I)"),
	])
	assert b.talk(B("", "b"), E(), S) == "2 D[2] C(SELECT 1) Z(I)"


def test_p09_a_reset_that_fails_takes_no_name(pg, one):
	same_as_direct(pg, one, [
		([P("a", "select 1"), S], "1 Z(I)"),
		([Q("begin")], "C(BEGIN) Z(T)"),
		([Q("discard all")], "E(25001) Z(E)"),
		([Q("deallocate all")], "E(25P02) Z(E)"),
		([Q("rollback")], "C(ROLLBACK) Z(I)"),
		([B("", "a"), E(), S], "2 D[1] C(SELECT 1) Z(I)"),
	])


# --- P-10

@pytest.mark.parametrize("how", ["simple", "extended"])
def test_p10_deallocate_by_sql_frees_the_client_s_own_name(pg, one, how):
	frees, letters = ([Q("deallocate k")], "C(DEALLOCATE) Z(I)") if how == "simple" else \
		([P("", "DEALLOCATE k"), B(), E(), S], "1 2 C(DEALLOCATE) Z(I)")
	b = one.raw()
	assert b.talk(P("k", "select 1"), S) == "1 Z(I)"
	same_as_direct(pg, one, [
		([P("k", "select 1"), S], "1 Z(I)"),
		(frees, letters),
		([B("", "k"), E(), S], "E(26000) Z(I)"),
		([P("k", "select 11"), S], "1 Z(I)"),
		([B("", "k"), E(), S], "2 D[11] C(SELECT 1) Z(I)"),
	])
	assert b.talk(B("", "k"), E(), S) == "2 D[1] C(SELECT 1) Z(I)"


def test_p10_deallocate_of_an_unknown_name_is_the_server_s_own_error(pg, one):
	same_as_direct(pg, one, [
		([Q("deallocate nope")], "E(26000) Z(I)"),
		([Q("begin")], "C(BEGIN) Z(T)"),
		([P("k", "select 1"), S], "1 Z(T)"),
		([Q("deallocate nope")], "E(26000) Z(E)"),
		([Q("deallocate k")], "E(25P02) Z(E)"),
		([Q("rollback")], "C(ROLLBACK) Z(I)"),
		([B("", "k"), E(), S], "2 D[1] C(SELECT 1) Z(I)"),
	])


def test_p10_psycopg_rolls_its_small_cache_over(two):
	clients = [two.connect(autocommit=False) for _ in range(2)]
	for client in clients:
		client.prepare_threshold = 0
		client.prepared_max = 3
	for _ in range(2):
		for place, client in enumerate(clients):
			for n in range(10):
				assert client.execute(f"select %s::int + {n}", [place]).fetchone() == (place + n,)
	for client in clients:
		client.commit()


# --- P-11

@pytest.fixture
def sc(pg):
	pg.sql("drop table if exists sc; create table sc (a int); grant all on sc to public", dbname="app")
	yield "sc"
	pg.sql("drop table sc", dbname="app")


def test_p11_a_client_recovers_from_a_schema_change_as_it_would_directly(pg, one, sc):
	before = [([P("s", "select * from sc"), D("S", "s"), S], "1 t T Z(I)"),
	          ([B("", "s"), E(), S], "2 C(SELECT 0) Z(I)")]
	after = [([B("", "s"), E(), S], "E(0A000) Z(I)"),
	         ([C("S", "s"), P("s", "select * from sc"), D("S", "s"), S], "3 1 t T Z(I)"),
	         ([B("", "s"), E(), S], "2 C(SELECT 0) Z(I)")]
	direct = Raw.login(pg.address, user="app", database="app", params={"application_name": "rig"})
	clients = [direct, one.raw(), one.raw()]
	for client in clients:
		assert play(client, before) == [letters for _, letters in before]
	pg.sql("alter table sc add b int", dbname="app")
	for client in clients:
		assert play(client, after) == [letters for _, letters in after]
		assert client.fields == ["a", "b"]
	direct.close()


def test_p11_asyncpg_recovers_from_a_schema_change_by_itself(pg, one, sc):
	async def work():
		client = await asyncpg_connect(one)
		assert await client.fetch("select * from sc") == []
		pg.sql("alter table sc add b int; insert into sc values (1, 2)", dbname="app")
		try:
			await client.fetch("select * from sc")
		except asyncpg.PostgresError:
			pass  # the first one may fail, as it does without a pooler
		assert [tuple(row) for row in await client.fetch("select * from sc")] == [(1, 2)]
		await client.close()

	in_asyncio(work())


# --- P-12

def test_p12_a_close_after_a_failed_parse_is_no_error(pg, one):
	same_as_direct(pg, one, [
		([P("x", "selekt 1"), S], "E(42601) Z(I)"),
		([C("S", "x"), S], "3 Z(I)"),
		([P("x", "select 1"), B("", "x"), E(), S], "1 2 D[1] C(SELECT 1) Z(I)"),
		([C("S", "never_seen"), S], "3 Z(I)"),
		([C("P", "never_seen"), S], "3 Z(I)"),
		([Q("begin")], "C(BEGIN) Z(T)"),
		([P("y", "selekt 1"), S], "E(42601) Z(E)"),
		([C("S", "y"), S], "3 Z(E)"),
		([C("S", "never_seen"), S], "3 Z(E)"),
		([C("P", "never_seen"), S], "3 Z(E)"),
		([Q("rollback")], "C(ROLLBACK) Z(I)"),
		([P("y", "select 2"), B("", "y"), E(), S], "1 2 D[2] C(SELECT 1) Z(I)"),
	])


# --- P-13

def test_p13_one_name_means_to_each_client_its_own_text(pg, two):
	cast = dice()
	works = {
		"begins": ("BEGIN", [], "C(BEGIN) Z(T)"),
		"inserts": ("insert into t values(1)", [], "C(INSERT 0 1) Z(I)"),
		"echoes": ("select $1::text", ["x"], "D[x] C(SELECT 1) Z(I)"),
	}
	count = loops(15, 100)
	for _ in range(count):
		clients = [(two.raw(), *works[which]) for which in cast.sample(sorted(works), 3)]
		for client, sql, _, _ in clients:
			assert client.talk(P("S_1", sql), S) == "1 Z(I)"
		cast.shuffle(clients)
		for client, sql, values, letters in clients:
			assert client.talk(B("", "S_1", *values), E(), S) == f"2 {letters}"
			if sql == "BEGIN":
				assert client.talk(Q("rollback")) == "C(ROLLBACK) Z(I)"
		for client, *_ in clients:
			client.terminate()
	assert pg.value("select count(*) from t", dbname="app") == count


def test_p13_a_client_that_comes_back_may_name_another_text_so(one):
	for n in range(loops(20, 200)):
		with one.raw() as client:
			assert client.talk(P("S_1", f"select {n}"), B("", "S_1"), E(), S) \
				== f"1 2 D[{n}] C(SELECT 1) Z(I)"


# --- P-14

def test_p14_a_second_parse_of_a_live_name_is_an_error_and_not_the_end(pg, one):
	same_as_direct(pg, one, [
		([P("r", "select 42"), S], "1 Z(I)"),
		([P("r", "select 43"), S], "E(42P05) Z(I)"),
		([B("", "r"), E(), S], "2 D[42] C(SELECT 1) Z(I)"),
		([P("r", "select 42"), S], "E(42P05) Z(I)"),
		([Q("begin")], "C(BEGIN) Z(T)"),
		([P("r", "select 43"), S], "E(42P05) Z(E)"),
		([Q("select 1")], "E(25P02) Z(E)"),
		([Q("rollback")], "C(ROLLBACK) Z(I)"),
		([B("", "r"), E(), S], "2 D[42] C(SELECT 1) Z(I)"),
		([P("", "insert into t values (1)"), B(), E(), P("r", "select 43"), S], "1 2 C(INSERT 0 1) E(42P05) Z(I)"),
	])
	assert pg.value("select count(*) from t", dbname="app") == 0


# --- P-15

BEGUN = "1 2 C(BEGIN) 1 2 T D[5] C(SELECT 1) Z(T)"


def test_p15_a_begin_and_a_query_in_one_batch_keep_the_row_description(pg, two):
	def batch(first, second):
		return [P(first, "BEGIN"), B("", first), E(), P(second, "select 5"), B("", second), D("P", ""), E(), S]

	rollback = ([Q("rollback")], "C(ROLLBACK) Z(I)")
	same_as_direct(pg, two, [(batch("", ""), BEGUN), rollback, (batch("b", "q"), BEGUN), rollback])
	a = two.raw()
	with on_another_server(two, a):
		assert a.talk(*batch("b1", "q1")) == BEGUN
		a.query("rollback")
	with on_another_server(two, a):
		assert a.talk(*batch("b2", "q2")) == BEGUN
		a.query("rollback")
		assert a.talk(B("", "b1"), E(), B("", "q1"), D("P", ""), E(), S) \
			== "2 C(BEGIN) 2 T D[5] C(SELECT 1) Z(T)"
		assert a.fields == ["?column?"]
		a.query("rollback")


# --- P-16

@pytest.fixture
def cache_of_five(pg, pooler):
	return pooler(settings={"default_pool_size": 1, "max_prepared_statements": 5})


def test_p16_evicted_statements_come_back_and_the_server_holds_no_more_than_the_limit(cache_of_five):
	a, cast = cache_of_five.raw(), dice()
	for n in range(50):
		assert a.talk(P(f"s{n}", f"select {n}"), S) == "1 Z(I)"
	for turn in range(loops(400, 2000)):
		n = cast.randrange(50)
		assert a.talk(B("", f"s{n}"), E(), S) == f"2 D[{n}] C(SELECT 1) Z(I)"
		if turn % 50 == 0:
			assert int(a.value("select count(*) from pg_prepared_statements")) <= 6


def test_p16_an_open_portal_outlives_the_eviction_of_its_statement(cache_of_five):
	a = cache_of_five.raw()
	a.query("begin")
	a.send(P("s", "select generate_series(1, 3)"), B("p", "s"), E("p", 1), H)
	a.expect("1 2 D[1] s")
	for n in range(12):
		a.send(P(f"o{n}", f"select {n}"), B("", f"o{n}"), E(), H)
		a.expect(f"1 2 D[{n}] C(SELECT 1)")
	a.send(E("p", 1), H)
	a.expect("D[2] s")
	a.send(E("p", 0), S)
	a.expect("D[3] C(SELECT 1) Z(T)")
	assert a.talk(B("", "s"), E(), S) == "2 D[1] D[2] D[3] C(SELECT 3) Z(T)"
	a.query("commit")


# --- P-17

def test_p17_a_flush_brings_replies_and_keeps_the_server(pg, one):
	a, b = one.raw(), one.raw()
	a.send(P("", "insert into ins values($1)"), D("S", ""), H)
	a.expect("1 t n", 0.2)
	b.send(Q("select 1"))
	one.wait_pool(cl_waiting=1)
	a.send(B("", "", "1"), E(), H)
	a.expect("2 C(INSERT 0 1)", 0.2)
	assert pg.value("select count(*) from ins", dbname="app") == 0
	assert b.is_quiet(0.05)
	a.send(S)
	a.expect("Z(I)")
	assert pg.value("select count(*) from ins", dbname="app") == 1
	b.expect("T D[1] C(SELECT 1) Z(I)")


def test_p17_postgres_js_without_named_statements(two):
	assert node.run(two, "flush.js", "50") == ["50"]


# --- P-18

def test_p18_an_error_does_not_wait_for_the_sync(one):
	a = one.raw()
	a.send(P("", "selekt"))
	a.expect("E(42601)", 0.2)
	a.send(S)
	a.expect("Z(I)")
	a.query("begin")
	a.send(B("", "nope"))
	a.expect("E(26000)", 0.2)
	a.send(S)
	a.expect("Z(E)")
	a.query("rollback")
	a.send(B("", "nope"))
	a.expect("E(26000)", 0.2)
	a.send(S)
	a.expect("Z(I)")


# --- P-19

@pytest.mark.parametrize("how", ["in one write", "with a pause behind the Parse"])
def test_p19_a_batch_without_a_server_ends_with_one_error(pg, pooler, how):
	"""Never a ReadyForQuery that no Sync asked for: our way is one error, then the end."""
	weir = pooler(settings={"default_pool_size": 1, "query_wait_timeout": 1})
	holder, a = weir.raw(), weir.raw()
	holder.query("begin")
	parse, rest = P("", "select 1"), [B(), D("P", ""), E(), S]
	began = time.monotonic()
	if how == "in one write":
		a.send(parse, *rest)
	else:
		a.send(parse)
		time.sleep(1.5)  # the limit strikes inside this pause
		try:
			a.send(*rest)
		except ConnectionError:
			pass
	assert a.read_eof(3) == "E(57014) EOF"
	assert 0.9 < time.monotonic() - began < limit(3)
	holder.query("rollback")
	assert weir.raw().value("select 2") == "2"
	assert weir.pool()["cl_waiting"] == 0


# --- P-20

TEMP = "create temp table tt(x int) on commit drop"


def test_p20_one_sync_is_one_transaction(pg, one):
	same_as_direct(pg, one, [
		([P("", TEMP), B(), E(), P("", "select count(*) from tt"), B(), D("P", ""), E(), S],
		 "1 2 C(CREATE TABLE) 1 2 T D[0] C(SELECT 1) Z(I)"),
		([P("", "insert into t values (1)"), B(), E(), P("", "select 1/0"), B(), E(),
		  P("", "insert into t values (2)"), B(), E(), S], "1 2 C(INSERT 0 1) 1 E(22012) Z(I)"),
	])
	assert pg.value("select count(*) from t", dbname="app") == 0


def test_p20_a_statement_that_is_prepared_again_adds_no_sync(pg, two):
	a = two.raw()
	assert a.talk(P("", TEMP), B(), E(), P("cnt", "select count(*) from tt"), B("", "cnt"), D("P", ""), E(), S) \
		== "1 2 C(CREATE TABLE) 1 2 T D[0] C(SELECT 1) Z(I)"
	assert a.talk(P("bad", "select 1/(x-x) from t"), S) == "1 Z(I)"
	for _ in range(2):
		with on_another_server(two, a):
			assert a.talk(P("", TEMP), B(), E(), B("", "cnt"), D("P", ""), E(), S) \
				== "1 2 C(CREATE TABLE) 2 T D[0] C(SELECT 1) Z(I)"
			assert a.talk(P("", "insert into t values (1)"), B(), E(), B("", "bad"), E(),
			              P("", "insert into t values (2)"), B(), E(), S) \
				== "1 2 C(INSERT 0 1) 2 E(22012) Z(I)"
	assert pg.value("select count(*) from t", dbname="app") == 0


def test_p20_a_parameter_that_differs_adds_no_sync(pg, one):
	a, b = one.raw(), one.raw()
	a.query("set timezone = 'Asia/Tokyo'")
	assert a.talk(P("cnt", "select 1/(x-x) from t"), S) == "1 Z(I)"
	for _ in range(3):
		b.query("deallocate all")
		assert b.value("show timezone") == "UTC"
		assert a.talk(P("", TEMP), B(), E(), P("", "select count(*) from tt"), B(), D("P", ""), E(), S) \
			== "1 2 C(CREATE TABLE) 1 2 T D[0] C(SELECT 1) Z(I)"
		assert b.value("show timezone") == "UTC"
		assert a.talk(P("", "insert into t values (1)"), B(), E(), B("", "cnt"), E(), S) \
			== "1 2 C(INSERT 0 1) 2 E(22012) Z(I)"
		assert a.value("show timezone") == "Asia/Tokyo"
	assert pg.value("select count(*) from t", dbname="app") == 0
