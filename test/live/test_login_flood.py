"""A flood of logins or cancels by one org costs the others nothing but a share of the processor."""

import base64
import hashlib
import hmac
import socket
import statistics
import struct
import threading
import time

import pytest

from rig.cases import Background
from rig.limits import SLOW, until
from rig.pooler import CONSOLE_PASSWORDS, PASSWORDS
from rig.raw import Q, p, startup_packet, text

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.pgweir("orgs are ours")]

ITERATIONS = 20000  # of the stored verifier: a clear password costs so many rounds, each time


def verifier(password):
	salt = b"0123456789abcdef"
	salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)
	stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
	server = hmac.digest(salted, b"Server Key", "sha256")
	return f"SCRAM-SHA-256${ITERATIONS}:{base64.b64encode(salt).decode()}${base64.b64encode(stored).decode()}:{base64.b64encode(server).decode()}"


@pytest.fixture
def weir(pg, pooler):
	return pooler(settings={"auth_type": "plain", "max_client_conn": 1000, "client_login_timeout": 30, "workers": 1},
	              userlist={**PASSWORDS, "app": verifier(PASSWORDS["app"]), **CONSOLE_PASSWORDS})


def of(org):
	return {"x-org-id": org}


class LoginFlood:
	"""Many clients of one org log in at the same time, again and again, with a password that is costly to check."""

	def __init__(self, weir, org, at_once=60):
		self.packet = startup_packet({"user": "app", "database": "app", **of(org)}) + p(text("wrong"))
		self.address, self.at_once = weir.address, at_once
		self.rounds = 0
		self._ended = threading.Event()
		self._thread = threading.Thread(target=self._run, daemon=True)

	def _run(self):
		while not self._ended.is_set():
			sockets = [socket.create_connection(self.address) for _ in range(self.at_once)]
			for sock in sockets:
				sock.sendall(self.packet)
			for sock in sockets:
				while sock.recv(4096):
					pass
				sock.close()
			self.rounds += 1

	def __enter__(self):
		self._thread.start()
		until("it is under way", lambda: self.rounds > 0, 20)
		return self

	def __exit__(self, *_):
		self._ended.set()
		self._thread.join()


def times_of(work, count):
	took = []
	for _ in range(count):
		began = time.monotonic()
		work()
		took.append(time.monotonic() - began)
	return took


def one_check(weir):
	"""How long the worker is at one of the flood's logins."""
	def log_in():
		assert weir.refusal(user="app", password="wrong", params=of("flood"), seconds=10).sqlstate == "28P01"
	return statistics.median(times_of(log_in, 5))


def test_queries_of_others_go_on_beside_a_flood_of_logins(weir):
	alone = one_check(weir)
	client = weir.raw(user="app2", params=of("quiet"), seconds=10)
	client.query("select 1")
	with LoginFlood(weir, "flood") as flood:
		before = flood.rounds
		took = times_of(lambda: client.query("select 1"), 60)
		until("the flood goes on", lambda: flood.rounds > before, 20)
	# Sixty of them stood in one turn, without the gate; with it, one does.
	assert max(took) < 30 * alone, f"{max(took) * 1000:.0f} ms, where one login takes {alone * 1000:.0f} ms"


def test_logins_of_other_orgs_do_not_stand_behind_a_flood(weir):
	weir.raw(user="app2", params=of("quiet"), seconds=10).query("select 1")
	alone = one_check(weir)

	def log_in():
		weir.raw(user="app2", params=of("quiet"), seconds=10).close()

	with LoginFlood(weir, "flood"):
		took = times_of(log_in, 20)
	assert max(took) < 30 * alone, f"{max(took) * 1000:.0f} ms, where one login takes {alone * 1000:.0f} ms"


def test_the_flood_itself_is_served_in_the_end(weir):
	client = weir.raw(user="app", params=of("flood"), seconds=20)
	with LoginFlood(weir, "flood"):
		assert weir.raw(user="app", params=of("flood"), seconds=20).value("select 1") == "1"
	assert client.value("select 1") == "1"


def test_who_leaves_at_the_gate_leaves_nothing_behind(weir):
	packet = startup_packet({"user": "app", "database": "app", **of("flood")}) + p(text(PASSWORDS["app"]))
	for _ in range(3):
		sockets = [socket.create_connection(weir.address) for _ in range(40)]
		for sock in sockets:
			sock.sendall(packet)
		for n, sock in enumerate(sockets):
			if n % 2:
				sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
			sock.close()
	until("all have gone", lambda: all(row["clients"] == 0 for row in weir.show("ORGS")), 10)
	assert weir.raw(user="app", params=of("flood"), seconds=10).value("select 1") == "1"


def test_a_flood_of_cancels_costs_others_nothing(pg, pooler):
	weir = pooler(settings={"max_client_conn": 500})
	victim = weir.raw(params=of("flood"), seconds=20)
	quiet = weir.raw(params=of("quiet"))
	quiet.query("select 1")

	def cancel(n):
		with socket.create_connection(weir.address) as sock:
			sock.sendall(struct.pack("!II", 16, 80877102) + victim.key)
			sock.recv(1)

	took = []
	with Background(*[cancel] * 4, seconds=10):
		for _ in range(10):
			victim.send(Q("select pg_sleep(10)"))
			assert victim.read_ready().endswith("E(57014) Z(I)")
			took += times_of(lambda: quiet.query("select 1"), 10)
	assert statistics.median(took) < 0.02 * SLOW
