"""Many requests in one write, and requests that do not wait for a Sync."""

import struct
import threading

import pytest

from rig import Relay, same_as_direct
from rig.limits import rounds, until
from rig.raw import B, C, D, E, H, P, Q, S, X, message

pytestmark = pytest.mark.usefixtures("clean")


@pytest.fixture
def one(pg, pooler):
	return pooler(settings={"default_pool_size": 1})


def test_a_batch_is_answered_in_order(pg, one):
	same_as_direct(pg, one, [
		([P("", "select 1"), D("S", ""), B(), D("P", ""), E(), S],
		 "1 t T 2 T D[1] C(SELECT 1) Z(I)"),
		([Q("select 1"), Q("select 2"), Q("select 3")],
		 "T D[1] C(SELECT 1) Z(I) T D[2] C(SELECT 1) Z(I) T D[3] C(SELECT 1) Z(I)"),
		([Q("")], "I Z(I)"),
		([Q("select 1; select 2")], "T D[1] C(SELECT 1) T D[2] C(SELECT 1) Z(I)"),
		([S, S, S], "Z(I) Z(I) Z(I)"),
		([P("", ""), B(), E(), S], "1 2 I Z(I)"),
	])


def test_an_error_skips_to_the_sync(pg, one):
	same_as_direct(pg, one, [
		([P("", "select 1/(random() * 0)"), B(), E(), P("", "select 2"), B(), E(), S, P("", "select 3"), B(), E(), S],
		 "1 2 E(22012) Z(I) 1 2 D[3] C(SELECT 1) Z(I)"),
		([P("", "selekt"), B(), E(), C("S", ""), D("S", ""), S, Q("select 4")],
		 "E(42601) Z(I) T D[4] C(SELECT 1) Z(I)"),
	])


def test_an_error_comes_without_waiting_for_the_sync(one):
	"""PostgreSQL flushes an ErrorResponse at once; a client may decide by it what to send."""
	a = one.raw()
	a.send(P("", "selekt"))
	a.expect("E(42601)")
	a.send(S)
	a.expect("Z(I)")


@pytest.mark.pgweir("the pooler's own error for a name it does not know")
def test_the_pooler_s_own_error_comes_without_waiting_for_the_sync(one):
	a = one.raw()
	a.query("begin")
	a.send(B("", "nope"))
	a.expect("E(26000)")
	a.send(S)
	a.expect("Z(E)")
	a.query("rollback")


def test_flush_brings_replies_and_keeps_the_server(pg, one):
	a, b = one.raw(), one.raw()
	a.send(P("", "insert into ins values ($1)"), D("S", ""), H)
	a.expect("1 t n")
	b.send(Q("select 1"))
	one.wait_pool(cl_waiting=1)
	a.send(B("", "", "1"), E(), H)
	a.expect("2 C(INSERT 0 1)")
	assert pg.value("select count(*) from ins", dbname="app") == 0
	assert b.is_quiet(0.05)
	a.send(S)
	a.expect("Z(I)")
	assert pg.value("select count(*) from ins", dbname="app") == 1
	b.expect("T D[1] C(SELECT 1) Z(I)")


def test_a_row_limit_suspends_the_portal(pg, one):
	a = one.raw()
	a.send(P("", "select generate_series(1, 5)"), B(), E("", 2), H)
	a.expect("1 2 D[1] D[2] s")
	a.send(E("", 2), H)
	a.expect("D[3] D[4] s")
	a.send(E("", 2), S)
	a.expect("D[5] C(SELECT 1) Z(I)")


def test_one_sync_is_one_transaction(pg, one):
	same_as_direct(pg, one, [
		([P("", "create temp table tt (x int) on commit drop"), B(), E(),
		  P("", "select count(*) from tt"), B(), D("P", ""), E(), S],
		 "1 2 C(CREATE TABLE) 1 2 T D[0] C(SELECT 1) Z(I)"),
		([P("", "insert into t values (1)"), B(), E(), P("", "select 1/(random() * 0)"), B(), E(),
		  P("", "insert into t values (2)"), B(), E(), S], "1 2 C(INSERT 0 1) 1 2 E(22012) Z(I)"),
	])
	assert pg.value("select count(*) from t", dbname="app") == 0


@pytest.mark.pgweir("named statements in transaction mode came with 1.21")
def test_preparing_again_and_setting_parameters_add_no_commit(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	a, b = weir.raw(params={"timezone": "Asia/Tokyo"}), weir.raw(params={"timezone": "UTC"})
	assert a.talk(P("ins", "insert into t values (1)"), P("bad", "select 1/(x - x) from t"), S) \
		== "1 1 Z(I)"
	b.query("deallocate all")
	assert a.talk(B("", "ins"), E(), B("", "bad"), E(), S) == "2 C(INSERT 0 1) 2 E(22012) Z(I)"
	assert pg.value("select count(*) from t", dbname="app") == 0
	assert a.value("show timezone") == "Asia/Tokyo"


def test_a_simple_query_and_a_batch_in_one_write(pg, one):
	"""The first ReadyForQuery is not the end of the work (pgbouncer #52)."""
	steps = [([Q("set statement_timeout = 30000"), P("", "select 1"), D("S", ""), B(), E(), S],
	          "C(SET) Z(I) 1 t T 2 D[1] C(SELECT 1) Z(I)")]
	same_as_direct(pg, one, steps * 50)


def test_a_batch_split_at_every_byte_is_answered_the_same(pg, one):
	data = b"".join([Q("set statement_timeout = 30000"), P("", "select 1"), D("S", ""), B(), E(), S])
	client, rival = one.raw(seconds=5), one.raw()
	for offset in range(1, len(data)):
		client.send_split(data, [offset])
		assert client.read_ready(2) == "C(SET) Z(I) 1 t T 2 D[1] C(SELECT 1) Z(I)"
		if offset % 16 == 0:
			assert rival.value("select 'r'") == "r"


def test_a_batch_sent_byte_by_byte(one):
	client = one.raw(seconds=5)
	data = b"".join([P("", "select $1::text"), B("", "", "hello"), E(), S])
	client.send_split(data, range(1, len(data)))
	client.expect("1 2 D[hello] C(SELECT 1) Z(I)")


@pytest.mark.pgweir("1.18 has this very fault")
def test_a_request_between_an_error_and_its_ready_keeps_the_server(pg, pooler):
	"""A late ReadyForQuery must not end what was sent after it (pgbouncer #759)."""
	with Relay(pg.address) as relay:
		weir = pooler(databases={"app": {"port": relay.port}}, settings={"default_pool_size": 1})
		a, b = weir.raw(), weir.raw()
		a.query("select 1")

		def hold_back_ready(direction, data):
			if direction == "server" and data.endswith(b"Z\0\0\0\5I") and b"C22012" in data:
				return [(0, data[:-6]), (0.1, data[-6:])]
			return [(0, data)]

		relay.edit = hold_back_ready
		a.send(P("", "select 1/(random() * 0)"), B(), E(), S)
		assert a.read(2) == "1 2"
		assert a.read(1) == "E(22012)"
		a.send(P("", "select 2"), D("S", ""), H)
		a.expect("Z(I) 1 t T")
		b.send(Q("select 9"))
		weir.wait_pool(cl_waiting=1)
		a.send(B(), E(), S)
		a.expect("2 D[2] C(SELECT 1) Z(I)")
		b.expect("T D[9] C(SELECT 1) Z(I)")


def test_terminate_behind_a_query_lets_the_query_finish_or_not_but_harms_nobody(pg, one):
	a, b = one.raw(), one.raw()
	a.send(Q("select 1"), X)
	a.read_eof()
	assert b.value("select 2") == "2"


def test_a_long_pipeline_is_answered_whole(pg, one):
	"""Replies fill all buffers while the client still sends: both directions must move."""
	client = one.raw(seconds=20)
	count = 3000
	batch = b"".join(P("", "select repeat('x', 500), $1::int") + B("", "", n) + E() for n in range(count))
	sender = threading.Thread(target=client.send, args=(batch, S))
	sender.start()
	letters = client.read_ready()
	sender.join()
	found = letters.split(" ")
	assert len([x for x in found if x.startswith("D[")]) == count
	assert found[-1] == "Z(I)" and "E(" not in letters


def test_a_pipeline_left_unread_by_a_client_that_dies_leaves_no_transaction(pg, pooler):
	weir = pooler(settings={"default_pool_size": 3})
	mark = pg.mark()
	good = weir.raw()
	for n in range(rounds(60)):
		a = weir.raw()
		a.send(P("", "begin"), B(), E(), P("", "insert into t values (1)"), B(), E(),
		       P("", "select pg_sleep(0.005)"), B(), E(), P("", "commit"), B(), E(), S)
		if n % 3:
			a.read(n % 7)
		a.reset() if n % 2 else a.close()
		assert good.talk(Q("begin")) == "C(BEGIN) Z(T)"
		assert good.value("select txid_current_if_assigned()") is None
		assert good.talk(Q("commit")) == "C(COMMIT) Z(I)"
	until("all is idle", lambda: pg.count("state like 'idle in%%'") == 0, 3)
	assert "already a transaction in progress" not in pg.log(mark)


def test_a_function_call_message_is_passed(pg, one):
	"""The fast path (letter F) with int4pl, oid 177: 3 + 4."""
	call = message("F", struct.pack("!IHHH", 177, 1, 0, 2) + struct.pack("!I", 1) + b"3"
	               + struct.pack("!I", 1) + b"4" + struct.pack("!H", 0))
	same_as_direct(pg, one, [([call], "V Z(I)")])


def test_unknown_letters_are_a_protocol_error_and_close(one):
	client = one.raw()
	client.send(b"\x01\0\0\0\4")
	letters = client.read_eof()
	assert letters.endswith("EOF")
	assert one.raw().value("select 1") == "1"
