"""Whoever waits is served: no slot is kept by somebody who does not need it, no wake-up is lost, nothing spins."""

import signal
import socket
import struct
import threading
import time

import pytest

from rig.fakeserver import READY, FakeServer, error, one_row
from rig.limits import limit, until
from rig.raw import Q, S, X, c, cancel_packet, d, message

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.pgweir("cases of pgweir's own bookkeeping")]

ONE = "T D[1] C(SELECT 1) Z(I)"
BIG = "select repeat('x', 1000) from generate_series(1, 100000)"


@pytest.fixture
def one(pg, pooler):
	return pooler(settings={"default_pool_size": 1})


@pytest.fixture
def two_lanes(pg, pooler):
	"""One user, one connection, two clusters."""
	return pooler(settings={"max_user_connections": 1}, databases={
		"app": {}, "app2": {"host": "localhost", "port": pg.port, "dbname": "app"}})


def leads_to(server):
	return {"app": {"host": server.host, "port": server.port}}


def of_org(weir, org):
	return weir.raw(params={"org_id": org})


def ticks(weir):
	"""Processor time of the pooler, in hundredths of a second."""
	with open(f"/proc/{weir.pid}/stat") as stat:
		fields = stat.read().rsplit(")", 1)[1].split()
	return int(fields[11]) + int(fields[12])


# --- wake-ups

def test_as_many_waiters_as_the_pool_has_room_for_are_served_at_once(pg, pooler):
	weir = pooler(settings={"default_pool_size": 20})
	clients = [weir.raw() for _ in range(20)]
	for client in clients:
		client.send(Q("select pg_sleep(3)"))
	until("all have a server", lambda: pg.count("query = 'select pg_sleep(3)' and state = 'active'") == 20, 2.5)
	for client in clients:
		assert client.read_ready(seconds=6).endswith("Z(I)")


def test_orgs_that_come_while_others_log_in_are_served(pg, pooler):
	weir = pooler(settings={"default_pool_size": 2})
	clients = [of_org(weir, f"o{number}") for number in range(14)]
	for client in clients:
		client.send(Q("select 1"))
	for client in clients:
		client.expect(ONE)


def test_a_pool_that_a_cap_holds_back_costs_no_processor_time(pg, pooler):
	weir = pooler(settings={"max_db_connections": 1})
	a, b = of_org(weir, "a"), of_org(weir, "b")
	a.query("begin")
	b.send(Q("select 1"))
	weir.wait_pool(org="b", cl_waiting=1)
	before = ticks(weir)
	time.sleep(1)
	assert ticks(weir) - before < 30
	a.query("commit")
	b.expect(ONE)


# --- caps

def test_a_resting_server_of_another_cluster_makes_room_under_the_user_s_cap(two_lanes):
	a, b = two_lanes.raw(), two_lanes.raw("app2")
	for client in (a, b, a):
		assert client.value("select 1") == "1"


def test_a_place_under_the_user_s_cap_goes_to_the_waiter_of_another_cluster(two_lanes):
	b = two_lanes.raw("app2")
	a = two_lanes.raw()
	a.query("begin")
	b.send(Q("select 1"))
	two_lanes.wait_pool(database="app2", cl_waiting=1)
	a.close()
	b.expect(ONE)


def test_hand_overs_lift_no_org_above_its_pool_size(pg, pooler):
	weir = pooler(settings={"default_pool_size": 4}, orgs={"b": {"pool_size": 1}},
	              clusters={"main": {"primary": f"{pg.host}:{pg.port}", "max_server_conn": 4}},
	              databases={"app": {"cluster": "main"}})
	holders = [of_org(weir, "a") for _ in range(4)]
	for client in holders:
		client.query("begin")
	waiters = [of_org(weir, "b") for _ in range(3)]
	for client in waiters:
		client.send(Q("begin"))
	weir.wait_pool(org="b", cl_waiting=3)
	for client in holders:
		client.query("commit")
	weir.wait_pool(org="b", sv_active=1)
	assert pg.count("state = 'idle in transaction'") == 1


# --- slots that nobody needs

def test_a_copy_that_fails_in_the_middle_of_a_message_gives_its_server_back(one):
	a, b = one.raw(), one.raw()
	a.send(Q("copy ct from stdin"))
	a.expect("G")
	more = d("1\tx\n" * 1000)
	a.send(d("this is no number\n"), more[:50])
	a.expect("E(22P02) Z(I)")
	a.send(more[50:], c)
	assert b.value("select 1") == "1"


def test_a_client_that_says_goodbye_and_reads_nothing_frees_its_server(one):
	a, b = one.raw(), one.raw()
	a.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
	a.send(Q(BIG), X)
	one.wait_pool(sv_active=1)
	time.sleep(0.3)
	a.reset()
	assert b.value("select 1", 4) == "1"


def test_a_client_that_says_goodbye_closes_and_is_reset_frees_its_server(one):
	a, b = one.raw(), one.raw()
	a.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
	a.send(Q(BIG), X)
	a.half_close()
	one.wait_pool(sv_active=1)
	time.sleep(0.3)
	a.reset()
	assert b.value("select 1", 4) == "1"


def test_a_server_whose_reader_is_slow_is_read_on_by_the_next(pg, pooler):
	# Its last bytes may make the reader's backlog too large: then it is paused, and it rests.
	weir = pooler(databases={"app": {"host": pg.folder, "port": pg.port}},
	              settings={"default_pool_size": 1, "tcp_socket_buffer": 8192})
	for rows in range(60, 160, 2):
		with weir.open() as slow:
			slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
			slow.startup(user="app", database="app")
			slow.authenticate("app", None)
			slow.send(Q(f"select repeat('x', 1000) from generate_series(1, {rows})"))
			time.sleep(0.05)
			if weir.pool()["sv_idle"]:
				assert weir.raw().value("select 1") == "1", rows
		weir.wait_pool(sv_active=0)


class FailsLate(FakeServer):
	"""It takes its time before it says that a COPY has failed, and before it reads on."""

	def __init__(self):
		super().__init__(answers={"Q": self.query, "d": self.data, "c": None})
		self.taken = 0

	def query(self, session, body):
		return message("G", b"\0\0\0") if body.startswith(b"copy") else one_row() + READY

	def data(self, session, body):
		self.taken += 1
		if self.taken in (10, 11):
			time.sleep(0.7)
		return error("22P02") + READY if self.taken == 10 else None


def test_a_copy_that_fails_while_its_data_backs_up_leaves_nobody_paused(pooler):
	with FailsLate() as server:
		weir = pooler(databases=leads_to(server), settings={"default_pool_size": 1, "tcp_socket_buffer": 16384})
		a, b = weir.raw(), weir.raw()
		a.send(Q("copy t from stdin"))
		a.expect("G")
		a.sock.settimeout(limit(5))
		feeder = threading.Thread(target=a.send, args=(d("x" * 50000) * 200, c), daemon=True)
		feeder.start()
		a.expect("E(22P02) Z(I)", seconds=5)
		feeder.join(limit(5))
		assert not feeder.is_alive()
		assert a.value("select 1") == "1"
		assert b.value("select 1") == "1"


# --- cancels

class Cancels(FakeServer):
	"""What becomes of cancel connections is `canceled`'s business; queries are never answered."""

	def __init__(self, canceled):
		super().__init__(answers={"Q": None})
		self.canceled = canceled

	def _exactly(self, sock, count):
		head = super()._exactly(sock, count)
		if count == 8 and head[4:] == struct.pack("!I", 80877102):
			self.canceled(self, sock)
		return head


def die(server, cancel):
	"""The server ends, and its cancel connection stays."""
	for sock in list(server._sockets):
		if sock is not cancel:
			sock.shutdown(socket.SHUT_RDWR)
	time.sleep(5)


def test_a_cancel_may_outlive_its_pool(pooler):
	with Cancels(die) as server:
		weir = pooler(databases=leads_to(server),
		              settings={"default_pool_size": 1, "pool_idle_timeout": 1, "cancel_wait_timeout": 3})
		a = weir.raw()
		a.send(Q("slow"))
		weir.wait_pool(sv_active=1)
		a.close()
		weir.wait_log("cancel request failed", seconds=5)


def test_the_end_of_the_process_waits_for_no_cancel(pooler):
	with Cancels(lambda server, cancel: time.sleep(3)) as server:
		weir = pooler(databases=leads_to(server), settings={"default_pool_size": 1})
		a = weir.raw()
		a.send(Q("slow"))
		weir.wait_pool(sv_active=1)
		a.close()
		weir.wait_pool(sv_active=0)
		weir.stop()


def test_a_cancel_is_obeyed_though_its_sender_left_at_once(one):
	a = one.raw()
	a.send(Q("select pg_sleep(3)"))
	request = one.open()
	one.wait_pool(sv_active=1)
	one.signal(signal.SIGSTOP)
	request.send(cancel_packet(a.key))
	request.close()
	time.sleep(0.1)
	one.signal(signal.SIGCONT)
	a.expect("T E(57014) Z(I)")


def test_hundreds_of_cancels_for_one_query_harm_nobody(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "max_client_conn": 1000})
	a = weir.raw()
	a.send(Q("select pg_sleep(5)"))
	until("it runs", lambda: pg.count("query = 'select pg_sleep(5)' and state = 'active'"))
	requests = [weir.open() for _ in range(300)]
	for request in requests:
		request.send(cancel_packet(a.key))
	a.expect("T E(57014) Z(I)")
	for request in requests:
		assert request.read_eof(5) == "EOF"
	assert a.talk(S) == "Z(I)"
	assert a.value("select 1") == "1"
