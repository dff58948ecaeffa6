"""Nothing of one client reaches another, and every reply stands in its place."""

import struct
import threading
import time

import pytest

from rig import same_as_direct
from rig.fakeserver import READY, FakeServer, one_row
from rig.raw import B, C, D, E, H, P, Q, S, message, send_cancel, text

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.pgweir("cases of pgweir's own bookkeeping")]


@pytest.fixture
def one(pg, pooler):
	return pooler(settings={"default_pool_size": 1})


def leads_to(server):
	return {"app": {"host": server.host, "port": server.port}}


# --- sessions

def test_a_session_left_inside_a_transaction_is_reset_before_the_next_one(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "pool_mode": "session"})
	a = weir.raw()
	pid = a.value("select pg_backend_pid()")
	a.query("create temp table mine (x int)")
	a.query("begin")
	a.close()
	b = weir.raw()
	assert b.value("select pg_backend_pid()") == pid
	assert b.value("select to_regclass('mine')") is None


class SlowToCancel(FakeServer):
	"""Its cancel connections last longer than its slow queries."""

	def __init__(self):
		super().__init__(answers={"Q": self.answer})

	def answer(self, session, body):
		time.sleep(0.4 if body == text("slow") else 0)
		return one_row() + READY

	def _exactly(self, sock, count):
		head = super()._exactly(sock, count)
		if count == 8 and head[4:] == struct.pack("!I", 80877102):
			time.sleep(1.2)
		return head


def test_a_session_that_ends_while_a_cancel_is_under_way_is_reset_all_the_same(pooler):
	with SlowToCancel() as server:
		weir = pooler(databases=leads_to(server), settings={"default_pool_size": 1, "pool_mode": "session"})
		a, b = weir.raw(), weir.raw()
		a.send(Q("slow"))
		threading.Timer(0.1, send_cancel, (weir.address, a.key, 5)).start()
		a.expect("T D[1] C(SELECT 1) Z(I)")
		a.terminate()
		assert b.value("next", 4) == "1"
		said = [body for letter, body in server.received if letter == "Q"]
		assert said[-3:] == [text("slow"), text("DISCARD ALL"), text("next")]


# --- replies

def test_what_was_said_to_a_client_that_is_refused_reaches_no_other(pg, pooler):
	weir = pooler(settings={"default_pool_size": 2})
	a, b, console = weir.raw(), weir.raw(), weir.console()
	a.query("begin")
	console.send(Q("SHUTDOWN WAIT_FOR_SERVERS"))
	weir.wait_log("(?i)shut.*down|waiting for")
	b.send(S, Q("select 2"))
	assert b.read_eof() == "Z(I) E(57P01) EOF"
	assert a.talk(Q("select 3")) == "T D[3] C(SELECT 1) Z(T)"
	a.close()
	assert weir.wait_end() == 0


class InTwoPieces(FakeServer):
	"""Its RowDescription comes in two pieces."""

	def _reply(self, sock, answer, body):
		if answer != "pieces":
			return super()._reply(sock, answer, body)
		shape = one_row()[:one_row().index(b"D", 5)]
		sock.sendall(message("t", b"\0\0") + shape[:12])
		time.sleep(0.5)
		sock.sendall(shape[12:])
		return True


def test_a_made_up_reply_does_not_stand_in_the_middle_of_a_message(pooler):
	with InTwoPieces(answers={"D": "pieces"}) as server:
		a = pooler(databases=leads_to(server)).raw()
		assert a.talk(P("s1", "select 1"), S) == "1 Z(I)"
		a.send(D("S", "s1"), H)
		assert a.next_letter() == "t"
		a.send(P("s2", "select 1"), H)
		a.expect("T 1")


# --- statements

def test_a_name_given_up_before_its_parse_failed(pg, one):
	same_as_direct(pg, one, [
		([P("s1", "no sql"), P("", "deallocate s1"), S], "E(42601) Z(I)"),
		([P("s1", "select 1"), B("", "s1"), E(), S], "1 2 D[1] C(SELECT 1) Z(I)")])


def test_a_parse_that_fails_behind_a_deallocate_all(pg, one):
	same_as_direct(pg, one, [
		([P("", "deallocate all"), B(), E(), P("s1", "no sql"), S], "1 2 C(DEALLOCATE ALL) E(42601) Z(I)"),
		([P("s1", "select 1"), B("", "s1"), E(), S], "1 2 D[1] C(SELECT 1) Z(I)")])


def test_a_name_made_behind_a_deallocate_all_lives(pg, one):
	same_as_direct(pg, one, [
		([P("", "deallocate all"), B(), E(), P("s1", "select 1"), S], "1 2 C(DEALLOCATE ALL) 1 Z(I)"),
		([B("", "s1"), E(), S], "2 D[1] C(SELECT 1) Z(I)")])
	b = one.raw()
	assert b.talk(P("x", "select 1"), B("", "x"), E(), S) == "1 2 D[1] C(SELECT 1) Z(I)"


def test_the_check_query_takes_no_unnamed_statement_away(pg, pooler):
	a = pooler(settings={"default_pool_size": 1, "server_check_delay": 0, "server_check_query": "select 1"}).raw()
	assert a.talk(P("", "select 7"), S) == "1 Z(I)"
	time.sleep(0.1)
	assert a.talk(B(), E(), S) == "2 D[7] C(SELECT 1) Z(I)"


def test_a_text_that_means_something_else_under_other_settings_is_another_statement(pg, pooler):
	"""PostgreSQL reads the constant when it parses: what one client prepared is not what the other wrote."""
	weir = pooler(settings={"default_pool_size": 1})
	a, b = weir.raw(params={"datestyle": "ISO, MDY"}), weir.raw(params={"datestyle": "ISO, DMY"})
	for client, date in ((a, "2020-01-02"), (b, "2020-02-01"), (a, "2020-01-02")):
		client.talk(C("S", "d"), P("d", "select '01/02/2020'::date"), S)
		assert client.talk(B("", "d"), E(), S) == f"2 D[{date}] C(SELECT 1) Z(I)"
