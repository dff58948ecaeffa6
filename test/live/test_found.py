"""What random traffic, compared with PostgreSQL, has found: a minimal case of each."""

import pytest

from rig import same_as_direct, until
from rig.raw import B, C, D, E, H, P, Q, S, X, f

pytestmark = [pytest.mark.usefixtures("clean"),
              pytest.mark.pgweir("cases of pgweir's own bookkeeping")]


@pytest.fixture
def one(pg, pooler):
	"""One server for everybody, and room for many statements on it."""
	return pooler(settings={"default_pool_size": 1, "query_wait_timeout": 4})


@pytest.fixture
def tight(pg, pooler):
	"""One server, which holds one statement."""
	return pooler(settings={"default_pool_size": 1, "max_prepared_statements": 1})


def fail_first(client):
	"""An error of the client's batch has arrived, and its Sync is still to come."""
	client.send(B("", "no such statement"), H)
	client.expect("E(26000)")


# --- a worker must not hang, nor the process die

def test_a_parse_behind_an_error_at_the_limit_of_statements_does_not_hang_the_worker(tight):
	client = tight.raw()
	assert client.talk(P("a", "select 1"), S) == "1 Z(I)"
	fail_first(client)
	assert client.talk(P("b", "select 2"), S) == "Z(I)"
	assert client.talk(B("", "a"), E(), S) == "2 D[1] C(SELECT 1) Z(I)"


def test_a_parse_and_its_deallocate_behind_an_error_harm_nobody(one):
	client = one.raw()
	assert client.talk(B("", "nope"), P("a", "select 1"), Q("deallocate a"), S) == "E(26000) Z(I)"
	assert client.value("select 1") == "1"


def test_a_failing_parse_and_its_deallocate_in_one_write_harm_nobody(one):
	client = one.raw()
	assert client.talk(P("a", "selec"), Q("deallocate a"), S) == "E(42601) Z(I)"
	assert client.value("select 1") == "1"


@pytest.mark.parametrize("all_of_them", ["discard all", "deallocate all"])
def test_a_parse_that_fails_behind_a_pipelined(one, all_of_them):
	same_as_direct(one.pg, one, [([Q(all_of_them), P("a", "selec"), S], 2),
	                             ([Q("select 1")], 1)])


# --- a server must not be lost to a client that has gone

LEFT_WITHOUT_SYNC = {
	"a parse": [P("a", "select 1")],
	"a whole batch": [P("", "select 1"), B(), E()],
	"a batch in a transaction": [Q("begin"), P("", "select 1")],
	"a batch behind a query": [Q("select 1"), P("", "select 1"), B(), E()],
	"a copy that has not begun": [Q("copy ct from stdin")],
}


@pytest.mark.parametrize("what", LEFT_WITHOUT_SYNC)
def test_terminate_without_a_sync_ends_the_client_behind(one, what):
	client = one.raw()
	client.send(*LEFT_WITHOUT_SYNC[what], X)
	until("the client has left", lambda: not one.show("CLIENTS", database="app"), 3)
	assert one.raw().value("select 1") == "1"


@pytest.mark.parametrize("round", range(6))
def test_a_server_that_ends_the_session_in_a_copy_ends_its_client(one, round):
	"""PostgreSQL answers a message that has no place in a COPY with FATAL, and closes on what it has not read: a FIN and a reset
	in one."""
	data = b"".join([Q("copy ct from stdin"), P("s", "select 1"), f("end"), S, Q("select 1")])
	for cut in range(10 * round, 10 * round + 10):
		client = one.raw(seconds=4)
		client.send_split(data, [min(cut + 1, len(data)), min(cut + 20, len(data))])
		letters = client.read_eof(4)
		assert "E(08P01)" in letters and letters.endswith("EOF"), letters
		client.close()


# --- statements and their names

@pytest.mark.parametrize("all_of_them", ["discard all", "deallocate all"])
def test_a_parse_pipelined_behind_stays_prepared(one, all_of_them):
	same_as_direct(one.pg, one, [
		([P("a", "select 1"), S], 1),
		([Q(all_of_them), P("b", "select 2"), S], 2),
		([B("", "b"), E(), S], 1),
		([B("", "a"), E(), S], 1)])


def test_a_parse_pipelined_behind_deallocate_all_of_a_shared_text_is_bound(one):
	same_as_direct(one.pg, one, [
		([P("a", "select 2"), S], 1),
		([Q("deallocate all"), P("b", "select 2"), B("", "b"), E(), S], 2)])
	same_as_direct(one.pg, one, [
		([P("a", "select 3"), S], 1),
		([P("", "deallocate all"), B(), E(), P("b", "select 3"), B("", "b"), E(), S], 1)])


def test_discard_all_of_one_client_does_not_spoil_the_server_for_another(one):
	a, b = one.raw(), one.raw()
	assert a.talk(P("a", "select 2"), S) == "1 Z(I)"
	one.admin("RECONNECT")
	assert b.talk(Q("discard all"), P("b", "select 2"), S, times=2) == "C(DISCARD ALL) Z(I) 1 Z(I)"
	for _ in range(2):
		assert a.talk(B("", "a"), E(), S) == "2 D[2] C(SELECT 1) Z(I)"


def test_deallocate_in_a_failed_transaction_is_refused_and_the_name_stays(one):
	same_as_direct(one.pg, one, [
		([P("a", "select 1"), S], 1), ([Q("begin")], 1), ([Q("select 1/0")], 1),
		([Q("deallocate a")], "E(25P02) Z(E)"), ([Q("rollback")], 1),
		([B("", "a"), E(), S], "2 D[1] C(SELECT 1) Z(I)")])


def test_deallocate_behind_an_error_leaves_the_name(one):
	same_as_direct(one.pg, one, [
		([P("a", "select 1"), S], 1),
		([E("nope"), Q("deallocate a"), S], "E(34000) Z(I)"),
		([B("", "a"), E(), S], "2 D[1] C(SELECT 1) Z(I)")])


def test_a_parsed_deallocate_that_is_never_executed_leaves_the_name(one):
	same_as_direct(one.pg, one, [
		([P("a", "select 1"), S], 1), ([P("", "deallocate a"), S], "1 Z(I)"),
		([B("", "a"), E(), S], "2 D[1] C(SELECT 1) Z(I)")])


# --- an error in one batch, and the next batch sent without waiting for its answer

def test_a_statement_that_was_to_be_evicted_when_a_batch_failed_is_still_usable_in_the_next(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "max_prepared_statements": 2})
	same_as_direct(weir.pg, weir, [
		([P("s0", "select 1"), S], 1), ([P("s1", "select 2"), S], 1),
		([B("", "nope"), P("s2", "select 3"), S, B("", "s0"), E(), S], 2),
		([B("", "s0"), E(), S, B("", "s1"), E(), S], 2)])


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_parse_skipped_in_one_batch_may_be_repeated_in_the_next(one, name):
	same_as_direct(one.pg, one, [
		([B("", "nope"), P("a", "select 5"), S, P(name, "select 5"), B("", name), E(), S], 2),
		([B("", name), E(), S], 1)])


def test_a_close_skipped_in_one_batch_leaves_the_name_to_the_next(one):
	same_as_direct(one.pg, one, [
		([P("a", "select 1"), S], 1),
		([B("", "nope"), C("S", "a"), S, B("", "a"), E(), S], 2)])


def test_a_parse_skipped_in_one_batch_is_unknown_to_the_next_by_its_own_name(one):
	client = one.raw()
	client.talk(B("", "nope"), P("a", "select 5"), S, B("", "a"), D("P"), E(), S, times=2)
	assert [error["C"] for error in client.errors] == ["26000", "26000"]
	assert "PGWEIR" not in client.errors[1]["M"], client.errors[1]


def test_a_text_like_the_one_that_stands_for_deallocate_spoils_nobodys(one):
	a, b = one.raw(), one.raw()
	assert a.talk(P("a", "SET pgweir.deallocated = ''"), B("", "a"), E(), S) == "1 2 C(SET) Z(I)"
	assert b.talk(P("s", "select 1"), P("drop", "deallocate s"), B("", "drop"), E(), S) == "1 1 2 C(DEALLOCATE) Z(I)"
	assert b.talk(B("", "s"), E(), S) == "E(26000) Z(I)"
	assert a.talk(B("", "a"), E(), S) == "2 C(SET) Z(I)"
