"""A PostgreSQL that does what PostgreSQL never would.

	server = FakeServer()                         a login that succeeds, one row for each query
	server = FakeServer(login=bytes)              these bytes in answer to the startup packet
	server = FakeServer(answers={"Q": bytes})     these bytes in answer to a message
	server = FakeServer(answers={"Q": function})  function(session, body) -> bytes or None
	server = FakeServer(tls_answer=bytes)         these bytes in answer to SSLRequest and GSSENCRequest

An answer of None is silence; CLOSE ends the connection. All that clients sent
is kept in `received` as (letter, body).
"""

import socket
import struct
import threading

from .raw import message, text

CLOSE = object()
SSL_CODES = (80877103, 80877104)
CANCEL_CODE = 80877102

AUTH_OK = message("R", struct.pack("!I", 0))
READY = message("Z", b"I")
KEY = message("K", struct.pack("!II", 4711, 815))


def parameter(name, value):
	return message("S", text(name) + text(value))


PARAMETERS = b"".join(parameter(n, v) for n, v in {
	"server_version": "15.0", "server_encoding": "UTF8", "client_encoding": "UTF8",
	"DateStyle": "ISO, MDY", "TimeZone": "UTC", "integer_datetimes": "on",
	"standard_conforming_strings": "on", "IntervalStyle": "postgres",
	"application_name": "", "is_superuser": "off", "session_authorization": "app",
	"default_transaction_read_only": "off", "in_hot_standby": "off"}.items())

LOGIN = AUTH_OK + PARAMETERS + KEY + READY


def error(sqlstate=None, words="it broke", severity="ERROR"):
	fields = [("S", severity), ("V", severity)]
	if sqlstate:
		fields.append(("C", sqlstate))
	fields.append(("M", words))
	return message("E", b"".join(k.encode() + text(v) for k, v in fields) + b"\0")


def one_row(value="1", name="fake"):
	columns = struct.pack("!H", 1) + text(name) + struct.pack("!IHIhiH", 0, 0, 25, -1, -1, 0)
	data = value.encode()
	return (message("T", columns) + message("D", struct.pack("!HI", 1, len(data)) + data)
	        + message("C", text("SELECT 1")))


ANSWERS = {"Q": one_row() + READY, "P": message("1"), "B": message("2"), "D": message("n"),
           "E": message("C", text("SELECT 0")), "C": message("3"), "S": READY, "H": b"",
           "X": CLOSE, "p": AUTH_OK + PARAMETERS + KEY + READY}


class FakeServer:
	def __init__(self, *, login=LOGIN, answers=None, tls_answer=b"N"):
		self.login = login
		self.tls_answer = tls_answer
		self.answers = {**ANSWERS, **(answers or {})}
		self.received = []
		self.startups = []
		self.logins = 0
		self._sockets = set()
		self._listener = socket.create_server(("127.0.0.1", 0), backlog=200)
		self.host, self.port = self._listener.getsockname()
		threading.Thread(target=self._accept, daemon=True).start()

	def close(self):
		self._listener.close()
		for sock in list(self._sockets):
			sock.close()

	def _accept(self):
		while True:
			try:
				sock, _ = self._listener.accept()
			except OSError:
				return
			threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

	def _serve(self, sock):
		self._sockets.add(sock)
		try:
			if self._greet(sock):
				self._converse(sock)
		except (OSError, EOFError):
			pass
		finally:
			self._sockets.discard(sock)
			sock.close()

	def _exactly(self, sock, count):
		data = b""
		while len(data) < count:
			some = sock.recv(count - len(data))
			if not some:
				raise EOFError
			data += some
		return data

	def _greet(self, sock):
		while True:
			size, code = struct.unpack("!II", self._exactly(sock, 8))
			body = self._exactly(sock, size - 8)
			if code in SSL_CODES:
				sock.sendall(self.tls_answer)
				continue
			if code == CANCEL_CODE:
				return False
			self.startups.append(body)
			self.logins += 1
			return self._reply(sock, self.login, body)

	def _converse(self, sock):
		while True:
			letter = self._exactly(sock, 1).decode(errors="replace")
			body = self._exactly(sock, struct.unpack("!I", self._exactly(sock, 4))[0] - 4)
			self.received.append((letter, body))
			if not self._reply(sock, self.answers.get(letter), body):
				return

	def _reply(self, sock, answer, body):
		if callable(answer):
			answer = answer(self, body)
		if answer is CLOSE:
			return False
		if answer:
			sock.sendall(answer)
		return True

	def __enter__(self):
		return self

	def __exit__(self, *_):
		self.close()
