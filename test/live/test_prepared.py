"""Prepared statements in transaction mode, letter by letter as PostgreSQL answers."""

import contextlib
import random

import pytest

from rig import same_as_direct
from rig.limits import rounds
from rig.oracle import play
from rig.raw import B, C, D, E, H, P, Q, Raw, S

pytestmark = [pytest.mark.usefixtures("clean"),
              pytest.mark.pgweir("named statements in transaction mode came with 1.21")]


def backend(client):
	return client.value("select pg_backend_pid()")


def swap(weir, client):
	"""Make the client's next transaction land on another server; needs a pool of two."""
	before = backend(client)
	helpers = [weir.raw(), weir.raw()]
	for helper in helpers:
		helper.query("begin")
	keep = [helper for helper in helpers if backend(helper) == before]
	for helper in helpers:
		if helper not in keep:
			helper.query("rollback")
	assert len(keep) == 1 and backend(client) != before
	return keep[0]


@pytest.fixture
def two(pg, pooler):
	return pooler(settings={"default_pool_size": 2})


@pytest.fixture
def one(pg, pooler):
	return pooler(settings={"default_pool_size": 1})


def test_a_named_statement_follows_its_client_to_another_server(two):
	a = two.raw()
	assert a.talk(P("s1", "select $1::int * 10"), S) == "1 Z(I)"
	other = swap(two, a)
	assert a.talk(B("", "s1", "7"), E(), S) == "2 D[70] C(SELECT 1) Z(I)"
	other.query("rollback")


def test_describe_alone_prepares_on_a_server_that_never_saw_the_statement(two):
	a = two.raw()
	assert a.talk(P("s1", "select $1::int as x, now() as y"), S) == "1 Z(I)"
	other = swap(two, a)
	assert a.talk(D("S", "s1"), S) == "t T Z(I)"
	other.query("rollback")
	other = swap(two, a)
	a.send(D("S", "s1"), H)
	a.expect("t T")
	a.send(B("", "s1", "5"), D("P", ""), E(), S)
	letters = a.read_ready()
	assert letters.startswith("2 T D[5,") and letters.endswith("C(SELECT 1) Z(I)")
	other.query("rollback")


def test_names_belong_to_their_clients(one, pg):
	a, b, c = one.raw(), one.raw(), one.raw()
	assert a.talk(P("S_1", "BEGIN"), S) == "1 Z(I)"
	assert b.talk(P("S_1", "insert into t values (1)"), S) == "1 Z(I)"
	assert c.talk(P("S_1", "select $1::text"), S) == "1 Z(I)"
	assert a.talk(B("", "S_1"), E(), S) == "2 C(BEGIN) Z(T)"
	a.query("rollback")
	assert b.talk(B("", "S_1"), E(), S) == "2 C(INSERT 0 1) Z(I)"
	assert c.talk(B("", "S_1", "x"), E(), S) == "2 D[x] C(SELECT 1) Z(I)"


def test_equal_texts_share_one_statement_on_the_server(one):
	for name in ("first", "second", "third"):
		client = one.raw()
		client.talk(P(name, "select 4711"), S)
		assert client.talk(B("", name), E(), S) == "2 D[4711] C(SELECT 1) Z(I)"
	assert one.raw().value("select count(*) from pg_prepared_statements "
	                       "where statement = 'select 4711'") == "1"


def test_equal_texts_of_different_types_do_not(one):
	a, b = one.raw(), one.raw()
	a.talk(P("s", "select $1", oids=[23]), S)
	b.talk(P("s", "select $1", oids=[25]), S)
	assert a.talk(B("", "s", "abc"), E(), S) == "E(22P02) Z(I)"
	assert b.talk(B("", "s", "abc"), E(), S) == "2 D[abc] C(SELECT 1) Z(I)"


def test_a_second_parse_of_a_live_name_is_42P05_and_the_first_stays(pg, one):
	same_as_direct(pg, one, [
		([P("r", "select 42"), S], "1 Z(I)"),
		([P("r", "select 43"), S], "E(42P05) Z(I)"),
		([B("", "r"), E(), S], "2 D[42] C(SELECT 1) Z(I)"),
		([Q("begin")], "C(BEGIN) Z(T)"),
		([P("r", "select 44"), S], "E(42P05) Z(E)"),
		([Q("select 1")], "E(25P02) Z(E)"),
		([Q("rollback")], "C(ROLLBACK) Z(I)"),
	])


def test_an_unknown_name_is_26000_and_the_connection_goes_on(pg, one):
	same_as_direct(pg, one, [
		([B("", "never"), E(), S], "E(26000) Z(I)"),
		([D("S", "never"), S], "E(26000) Z(I)"),
		([Q("begin")], "C(BEGIN) Z(T)"),
		([B("", "never"), E(), S], "E(26000) Z(E)"),
		([Q("select 1")], "E(25P02) Z(E)"),
		([Q("rollback")], "C(ROLLBACK) Z(I)"),
		([Q("select 1")], "T D[1] C(SELECT 1) Z(I)"),
	])


def test_closing_what_does_not_exist_is_no_error(pg, one):
	same_as_direct(pg, one, [
		([P("x", "selekt 1"), S], "E(42601) Z(I)"),
		([C("S", "x"), S], "3 Z(I)"),
		([P("x", "select 1"), B("", "x"), E(), S], "1 2 D[1] C(SELECT 1) Z(I)"),
		([C("S", "never_seen"), C("P", "never_seen"), S], "3 3 Z(I)"),
		([Q("begin"), Q("select 1/0")], "C(BEGIN) Z(T) E(22012) Z(E)"),
		([C("S", "never_seen"), S], "3 Z(E)"),
		([Q("rollback")], "C(ROLLBACK) Z(I)"),
	])


def test_a_closed_name_is_free_again(pg, one):
	same_as_direct(pg, one, [
		([P("n", "select 1"), B("", "n"), E(), S], "1 2 D[1] C(SELECT 1) Z(I)"),
		([C("S", "n"), P("n", "select 2"), B("", "n"), E(), S], "3 1 2 D[2] C(SELECT 1) Z(I)"),
		([C("S", "n"), S], "3 Z(I)"),
		([B("", "n"), E(), S], "E(26000) Z(I)"),
	])


def test_a_begin_and_a_named_query_in_one_batch_keep_the_row_description(pg, two):
	batch = [B("", "b"), E(), B("", "q"), D("P", ""), E(), S]
	a = two.raw()
	assert a.talk(P("b", "BEGIN"), P("q", "select 5"), S) == "1 1 Z(I)"
	other = swap(two, a)
	assert a.talk(*batch) == "2 C(BEGIN) 2 T D[5] C(SELECT 1) Z(T)"
	a.query("rollback")
	other.query("rollback")


def test_the_unnamed_statement_lives_from_one_sync_to_the_next(one):
	"""Stricter than PgBouncer: it belongs to its client like any other."""
	a, b = one.raw(), one.raw()
	assert a.talk(P("", "select $1::int * 10"), D("S", ""), S) == "1 t T Z(I)"
	assert b.talk(P("", "select 'other'"), D("S", ""), S) == "1 t T Z(I)"
	assert a.talk(B("", "", "7"), E(), S) == "2 D[70] C(SELECT 1) Z(I)"
	assert b.talk(B("", ""), E(), S) == "2 D[other] C(SELECT 1) Z(I)"
	assert a.talk(B("", "", "8"), E(), S) == "2 D[80] C(SELECT 1) Z(I)"


def test_a_simple_query_drops_the_unnamed_statement(pg, one):
	same_as_direct(pg, one, [
		([P("", "select 5"), S], "1 Z(I)"),
		([Q("select 6")], "T D[6] C(SELECT 1) Z(I)"),
		([B("", ""), E(), S], "E(26000) Z(I)"),
	])


@pytest.mark.parametrize("reset", ["DEALLOCATE ALL", "discard all", "/* tidy */ Deallocate All"])
def test_a_reset_takes_the_names_of_the_one_who_asked_only(one, reset):
	a, b = one.raw(), one.raw()
	a.talk(P("a", "select 1"), S)
	b.talk(P("b", "select 2"), S)
	a.query(reset)
	assert b.talk(B("", "b"), E(), S) == "2 D[2] C(SELECT 1) Z(I)"
	assert a.talk(B("", "a"), E(), S) == "E(26000) Z(I)"
	assert a.talk(P("a", "select 3"), B("", "a"), E(), S) == "1 2 D[3] C(SELECT 1) Z(I)"


HIDDEN = {"do": "do $$ begin execute 'deall' || 'ocate all'; end $$", "function": "select drops_them()"}


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_statements_that_a_function_drops_come_back(pg, pooler, hidden, mode):
	"""Nobody can see that they go: the next use of one fails, once, and not for ever."""
	weir = pooler(settings={"default_pool_size": 1}, databases={"app": {"pool_mode": mode}})
	pg.sql("create or replace function drops_them() returns void language plpgsql as $$ begin execute 'deallocate all'; end $$", dbname="app")
	a = weir.raw()
	for n in range(3):
		a.talk(P(f"s{n}", f"select {n}"), S)
	with contextlib.closing(weir.raw() if mode == "transaction" else a) as b:
		b.query(HIDDEN[hidden])
		for n in range(3):
			said = a.talk(B("", f"s{n}"), E(), S)
			assert said in ("E(26000) Z(I)", f"2 D[{n}] C(SELECT 1) Z(I)")
		for n in range(3):
			assert a.talk(B("", f"s{n}"), E(), S) == f"2 D[{n}] C(SELECT 1) Z(I)"
			assert a.talk(B("", f"s{n}"), E(), B("", f"s{n}"), E(), S) == f"2 D[{n}] C(SELECT 1) 2 D[{n}] C(SELECT 1) Z(I)"
	pg.sql("drop function drops_them()", dbname="app")


def test_statements_beyond_the_limit_come_back_and_the_server_holds_no_more(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "max_prepared_statements": 5})
	a = weir.raw()
	for n in range(30):
		assert a.talk(P(f"s{n}", f"select {n}"), S) == "1 Z(I)"
	seed = random.randrange(1 << 30)
	print("seed", seed)
	order = random.Random(seed)
	for _ in range(rounds(300)):
		n = order.randrange(30)
		assert a.talk(B("", f"s{n}"), E(), S) == f"2 D[{n}] C(SELECT 1) Z(I)"
	assert int(a.value("select count(*) from pg_prepared_statements")) <= 6


def test_made_up_replies_keep_their_place(pg, pooler):
	"""Closes and parses in one batch at the limit (pgbouncer PR 1555)."""
	weir = pooler(settings={"default_pool_size": 1, "max_prepared_statements": 2})
	same_as_direct(pg, weir, [
		([P("a", "select 1"), P("b", "select 2"), S], "1 1 Z(I)"),
		([P("c", "select 3"), C("S", "a"), C("S", "b"), P("d", "select 1"),
		  B("", "d"), E(), S], "1 3 3 1 2 D[1] C(SELECT 1) Z(I)"),
	])


def test_random_batches_are_answered_as_postgresql_answers_them(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "max_prepared_statements": 2})
	seed = random.randrange(1 << 30)
	print("seed", seed)
	dice = random.Random(seed)
	steps = []
	for _ in range(rounds(100)):
		batch = []
		for _ in range(dice.randint(1, 6)):
			name = dice.choice("abcde")
			batch.append(dice.choice([
				lambda n: P(n, f"select {ord(n)} + {dice.randrange(3)}"), lambda n: C("S", n),
				lambda n: B("", n) + E(), lambda n: D("S", n)])(name))
		steps.append(([*batch, S], 1))
	same_as_direct(pg, weir, steps)
	fresh = weir.raw()
	for n in range(20):
		assert fresh.talk(P("", "select $1::int"), B("", "", n), E(), S) \
			== f"1 2 D[{n}] C(SELECT 1) Z(I)"


def test_a_failed_parse_does_not_leave_its_name_behind(pg, two):
	same_as_direct(pg, two, [
		([P("f", "select nope"), S], "E(42703) Z(I)"),
		([B("", "f"), E(), S], "E(26000) Z(I)"),
		([P("f", "select 1"), B("", "f"), E(), S], "1 2 D[1] C(SELECT 1) Z(I)"),
	])


def test_a_client_recovers_from_a_schema_change_as_it_would_directly(pg, one):
	pg.sql("drop table if exists sc; create table sc (a int); grant all on sc to public",
	       dbname="app")
	before = [
		([P("s", "select * from sc"), D("S", "s"), S], "1 t T Z(I)"),
		([B("", "s"), E(), S], "2 C(SELECT 0) Z(I)"),
	]
	after = [
		([B("", "s"), E(), S], "E(0A000) Z(I)"),
		([C("S", "s"), P("s", "select * from sc"), D("S", "s"), S], "3 1 t T Z(I)"),
		([B("", "s"), E(), S], "2 C(SELECT 0) Z(I)"),
	]
	clients = [Raw.login(pg.address, user="app", database="app",
	                     params={"application_name": "rig"}), one.raw()]
	for client in clients:
		assert play(client, before) == [letters for _, letters in before]
	pg.sql("alter table sc add b int", dbname="app")
	for client in clients:
		assert play(client, after) == [letters for _, letters in after]
		assert client.fields == ["a", "b"]
	clients[0].close()


def test_a_statement_that_left_with_its_client_can_be_named_anew(one):
	for n in range(10):
		client = one.raw()
		assert client.talk(P("S_1", f"select {n}"), B("", "S_1"), E(), S) \
			== f"1 2 D[{n}] C(SELECT 1) Z(I)"
		client.terminate()


def test_show_stats_counts_parses_and_binds(one):
	client = one.raw()
	client.talk(P("s", "select 1"), S)
	for _ in range(3):
		client.talk(B("", "s"), E(), S)
	row = one.show("STATS", database="app")[0]
	assert int(row["total_client_parse_count"]) >= 1
	assert int(row["total_bind_count"]) >= 3
	assert [c["prepared_statements"] for c in one.show("CLIENTS", database="app")] == [1]


def test_session_mode_passes_statements_untouched(pg, pooler):
	weir = pooler(settings={"pool_mode": "session"})
	same_as_direct(pg, weir, [
		([P("s", "select 1"), B("", "s"), E(), S], "1 2 D[1] C(SELECT 1) Z(I)"),
		([P("s", "select 1"), S], "E(42P05) Z(I)"),
		([Q("deallocate s")], "C(DEALLOCATE) Z(I)"),
		([B("", "s"), E(), S], "E(26000) Z(I)"),
	])


# --- names

def test_names_are_told_apart_by_as_many_bytes_as_in_postgresql(pg, two):
	long = "x" * 62
	with Raw.login(pg.address, user="app", database="app") as direct:
		client = two.raw()
		for step in [[P(long + "12", "select 1"), S], [P(long + "13", "select 2"), S], [B("", long + "1"), E(), S], [B("", long + "2"), E(), S],
		             [Q(f"deallocate {long}1")], [B("", long + "12"), E(), S], [P(long + "2", "select 3"), C("S", long + "27"), P(long + "2", "select 4"), S]]:
			assert client.talk(*step) == direct.talk(*step)



@pytest.mark.parametrize("name", ["s", "another \"name\" %s", "PGWEIR_1", "é" * 20])
def test_an_error_names_a_statement_as_the_client_does(pg, two, name):
	steps = [
		[P(name, "select $1::int"), S],
		[P("twin", "select $1::int"), P(name + "2", "select $1::int"), S],
		[B("", name, "1", "2"), S],
		[B("", "twin"), S],
		[B("", name + "2"), C("S", name + "2"), S],
		[B("", name, "PGWEIR_1"), S], # 22P02: a value is left alone
		[P("", "select 1"), S],
		[B("", "", "1"), S],
		[B("", "none of mine"), S],
		[D("S", "none of mine"), S],
		[P(name, "select 1"), S],
		[Q("begin")], [B("", name), S], [D("S", name), S], [Q("rollback")],
	]
	with Raw.login(pg.address, user="app", database="app") as direct:
		client = two.raw()
		for step in steps:
			assert client.talk(*step) == direct.talk(*step)
			assert [e["M"] for e in client.errors] == [e["M"] for e in direct.errors]
			assert [e["C"] for e in client.errors] == [e["C"] for e in direct.errors]
	assert len(client.errors) > 5


# --- limits

def test_a_client_may_not_hoard_statements(pg, pooler):
	weir = pooler(settings={"default_pool_size": 2, "max_client_statements": 20})
	a, b = weir.raw(), weir.raw()
	for i in range(20):
		assert a.talk(P(f"s{i}", f"select {i}"), S) == "1 Z(I)"
	for _ in range(2):
		assert a.talk(P("more", "select 'more'"), B("", "more"), E(), S) == "E(53400) Z(I)"
		assert "max_client_statements" in a.errors[-1]["M"] and a.errors[-1]["S"] == "ERROR"
		assert a.talk(P("s0", "select 1"), S) == "E(42P05) Z(I)"
		assert a.talk(P("more", "set pgweir.org = 'x'"), S) == "E(53400) Z(I)"
		assert a.talk(B("", "s19"), E(), P("", "select 'unnamed'"), B(), E(), S) == "2 D[19] C(SELECT 1) 1 2 D[unnamed] C(SELECT 1) Z(I)"
	assert b.talk(P("more", "select 'more'"), B("", "more"), E(), S) == "1 2 D[more] C(SELECT 1) Z(I)"
	a.query("begin")
	assert a.talk(P("more", "select 'more'"), S) == "E(53400) Z(E)"
	a.query("rollback")
	for give_up in (C("S", "s0") + S, Q("deallocate more"), Q("deallocate all")):
		a.talk(give_up)
		assert a.talk(P("more", "select 'more'"), S) == "1 Z(I)"
	assert a.talk(*(P(f"s{i}", f"select {i}") for i in range(30)), S) == "1 " * 19 + "E(53400) Z(I)"
	assert a.talk(P("s0", "select 0"), S) == "E(42P05) Z(I)" # what was parsed before the one that failed is there


def test_a_client_may_not_hoard_texts(pg, pooler):
	weir = pooler(settings={"max_client_statement_bytes": "100kB"})
	a = weir.raw()
	text = "select " + "1" * 30000 + "::numeric > 0 as "
	for name in "abc":
		assert a.talk(P(name, text + name), B("", name), E(), S) == "1 2 D[t] C(SELECT 1) Z(I)"
	for _ in range(2):
		assert a.talk(P("d", text + "d"), B("", "d"), E(), S) == "E(53400) Z(I)"
		assert a.talk(P("small", "select 1"), C("S", "small"), S) == "1 3 Z(I)"
	a.talk(C("S", "b"), S)
	assert a.talk(P("d", text + "d"), B("", "d"), E(), S) == "1 2 D[t] C(SELECT 1) Z(I)"


@pytest.mark.parametrize("name", ["", "a"])
def test_texts_whose_answers_nobody_asks_for_are_not_hoarded(pg, pooler, name):
	weir = pooler(settings={"max_prepared_statements": 10})
	a = weir.raw(seconds=20)
	a.query("select 1")
	before, most = weir.rss_kib(), 0
	for i in range(300):
		a.send(P(name, f"select {i} -- " + "x" * 500000), C("S", name))
		most = max(most, weir.rss_kib())
	assert a.talk(P(name, "select 'done'"), B("", name), E(), S).endswith("1 2 D[done] C(SELECT 1) Z(I)")
	assert max(most, weir.rss_kib()) - before < 60000


def test_without_support_a_named_statement_is_looked_at_when_it_is_parsed(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "max_prepared_statements": 0, "org_guc": "app.current_org"})
	a, b = weir.raw(), weir.raw()
	assert a.talk(P("s", "set work_mem = '6MB'"), B("", "s"), E(), C("S", "s"), S) == "1 2 C(SET) 3 Z(I)"
	assert b.value("show work_mem") != "6MB"
	assert a.value("show work_mem") == "6MB"
	assert a.talk(P("s", "set app.current_org = 'x'"), B("", "s"), E(), S) == "E(42501) Z(I)"
	assert b.value("select current_setting('app.current_org')") == "default"
