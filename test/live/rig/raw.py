"""The PostgreSQL wire protocol by hand.

Messages are built by functions named after their letters (PostgreSQL manual,
chapter "Frontend/Backend Protocol", section "Message Formats"):

	Q(sql) P(name,sql,oids) B(portal,stmt,*params) D("S"|"P",name) E(portal,max)
	C("S"|"P",name) S H X d(bytes) c f(text) F(oid,*values) p(bytes)

What comes back is read as a string of letters:

	1 ParseComplete  2 BindComplete  3 CloseComplete  t ParameterDescription
	T RowDescription  n NoData  D[a,b] DataRow  C(tag) CommandComplete
	I EmptyQuery  s PortalSuspended  G CopyIn  H CopyOut  W CopyBoth
	d CopyData  c CopyDone  E(sqlstate) Error  N(sqlstate) Notice
	A(channel) Notification  Z(I|T|E) ReadyForQuery

ParameterStatus stays out of the letters and goes to `Raw.params`. Every read
has a limit; a peer that closes shows as the letter "EOF".
"""

import base64
import hashlib
import hmac
import os
import re
import select
import socket
import ssl
import struct
import time

from .limits import limit

PROTOCOL_3_0 = 196608
PROTOCOL_3_2 = 196610
SSL_REQUEST = struct.pack("!II", 8, 80877103)
GSSENC_REQUEST = struct.pack("!II", 8, 80877104)


def message(letter, body=b""):
	return letter.encode() + struct.pack("!I", len(body) + 4) + body


def text(value):
	value = value if isinstance(value, bytes) else str(value).encode()
	return value + b"\0"


def Q(sql):
	return message("Q", text(sql))


def P(name, sql, oids=()):
	return message("P", text(name) + text(sql) + struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def values_of(values):
	"""A count and values, as in Bind."""
	body = struct.pack("!H", len(values))
	for value in values:
		if value is None:
			body += struct.pack("!i", -1)
		else:
			value = value if isinstance(value, bytes) else str(value).encode()
			body += struct.pack("!I", len(value)) + value
	return body


def B(portal="", stmt="", *params):
	return message("B", text(portal) + text(stmt) + struct.pack("!H", 0) + values_of(params)
	               + struct.pack("!H", 0))


def D(kind, name=""):
	return message("D", kind.encode() + text(name))


def E(portal="", most=0):
	return message("E", text(portal) + struct.pack("!I", most))


def C(kind, name=""):
	return message("C", kind.encode() + text(name))


S = message("S")
H = message("H")
X = message("X")
c = message("c")


def d(data):
	return message("d", data if isinstance(data, bytes) else data.encode())


def f(reason="changed my mind"):
	return message("f", text(reason))


def F(function, *values):
	"""FunctionCall, all in text."""
	return message("F", struct.pack("!IH", function, 0) + values_of(values) + struct.pack("!H", 0))


def p(body):
	return message("p", body)


def startup_packet(params, version=PROTOCOL_3_0):
	body = struct.pack("!I", version)
	for key, value in params.items():
		body += text(key) + text(value)
	body += b"\0"
	return struct.pack("!I", len(body) + 4) + body


def cancel_packet(key):
	return struct.pack("!II", 8 + len(key), 80877102) + key


TOKEN = re.compile(r"EOF|[A-Za-z0-9](?:\[[^\]]*\]|\([^)]*\))?")


def tokens(letters):
	"""The single letters of a string of letters."""
	return TOKEN.findall(letters)


class ServerError(Exception):
	"""An ErrorResponse where the caller wanted none."""

	def __init__(self, fields):
		super().__init__(f"{fields.get('S')} {fields.get('C')}: {fields.get('M')}")
		self.fields = fields
		self.sqlstate = fields.get("C")
		self.severity = fields.get("S")
		self.message = fields.get("M", "")


class Closed(Exception):
	"""The peer closed the connection."""


class Raw:
	"""One connection, by hand."""

	def __init__(self, address, *, seconds=2.0):
		"""address: (host, port), or the path of a Unix socket."""
		self.seconds = seconds
		self.buffer = bytearray()
		self.params = {}
		self.key = None
		self.errors = []
		self.notices = []
		self.fields = []
		self.status = None
		self.protocol = None
		self.refused_options = None
		if isinstance(address, tuple):
			self.sock = socket.create_connection(address, timeout=limit(seconds))
			self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
		else:
			self.sock = socket.socket(socket.AF_UNIX)
			self.sock.settimeout(limit(seconds))
			self.sock.connect(address)

	# --- opening

	@classmethod
	def login(cls, address, *, user, database=None, password=None, params=None, tls=None,
	          direct_tls=None, version=PROTOCOL_3_0, seconds=2.0):
		"""Connect and log in; raises ServerError with what the server said."""
		raw = cls(address, seconds=seconds)
		try:
			if tls is not None:
				assert raw.ask_tls() == b"S", "the server has no TLS"
				raw.start_tls(tls)
			if direct_tls is not None:
				raw.start_tls(direct_tls)
			raw.startup(user=user, database=database, params=params, version=version)
			raw.authenticate(user, password)
		except BaseException:
			raw.close()
			raise
		return raw

	def ask_tls(self):
		self.sock.sendall(SSL_REQUEST)
		return self.sock.recv(1)

	def start_tls(self, context, name="localhost"):
		self.sock = context.wrap_socket(self.sock, server_hostname=name)

	def startup(self, *, user, database=None, params=None, version=PROTOCOL_3_0):
		all_params = {"user": user}
		if database is not None:
			all_params["database"] = database
		all_params.update(params or {})
		self.send(startup_packet(all_params, version))

	def authenticate(self, user, password):
		"""Answer authentication requests up to the first ReadyForQuery."""
		scram = None
		while True:
			letter, body = self.read_message()
			if letter == "R":
				kind = struct.unpack_from("!I", body)[0]
				if kind == 0:
					continue
				if password is None:
					raise AssertionError(f"the server wants a password (method {kind})")
				if kind == 3:
					self.send(p(text(password)))
				elif kind == 5:
					self.send(p(text(md5_answer(user, password, body[4:8]))))
				elif kind == 10:
					self.mechanisms = [m.decode() for m in body[4:].split(b"\0") if m]
					scram = Scram(password)
					self.send(p(text("SCRAM-SHA-256") + struct.pack("!I", len(scram.first))
					            + scram.first))
				elif kind == 11:
					self.send(p(scram.final(body[4:])))
				elif kind == 12:
					scram.verify(body[4:])
				else:
					raise AssertionError(f"authentication method {kind} is not known here")
			elif letter == "K":
				self.key = body
			elif letter == "v":
				self.protocol = struct.unpack_from("!I", body)[0]
				self.refused_options = [n.decode() for n in body[8:].split(b"\0") if n]
			elif letter == "E":
				raise ServerError(report(body))
			elif letter == "Z":
				self.status = body.decode()
				return
			else:
				self.note(letter, body)

	# --- sending

	def send(self, *parts):
		"""All parts in one write."""
		self.sock.sendall(b"".join(parts))

	def send_split(self, data, offsets):
		"""The same bytes in pieces that end at the given offsets, each its own segment."""
		last = 0
		for offset in [*offsets, len(data)]:
			if offset > last:
				self.sock.sendall(data[last:offset])
				last = offset

	# --- reading

	def fill(self, seconds):
		if isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():
			ready = True
		else:
			ready = select.select([self.sock], [], [], max(0, seconds))[0]
		if not ready:
			raise TimeoutError
		try:
			some = self.sock.recv(262144)
		except (ConnectionResetError, ssl.SSLError):
			some = b""
		if not some:
			raise Closed
		self.buffer += some

	def read_message(self, seconds=None):
		"""The next message as (letter, body)."""
		end = time.monotonic() + limit(self.seconds if seconds is None else seconds)
		while True:
			if len(self.buffer) >= 5:
				size = struct.unpack_from("!I", self.buffer, 1)[0] + 1
				if len(self.buffer) >= size:
					letter = chr(self.buffer[0])
					body = bytes(self.buffer[5:size])
					del self.buffer[:size]
					return letter, body
			self.fill(end - time.monotonic())

	def note(self, letter, body):
		"""Take in what is not a reply to anything."""
		if letter == "S":
			name, value = body.split(b"\0")[:2]
			self.params[name.decode()] = value.decode(errors="replace")
		elif letter == "N":
			self.notices.append(report(body))

	def next_letter(self, seconds=None):
		"""The next reply as a letter with its content."""
		while True:
			letter, body = self.read_message(seconds)
			if letter == "S":
				self.note(letter, body)
				continue
			return self.describe(letter, body)

	def describe(self, letter, body):
		if letter == "D":
			return "D[" + ",".join("NULL" if v is None else v for v in row(body)) + "]"
		if letter == "C":
			return f"C({body[:-1].decode()})"
		if letter == "E":
			self.errors.append(report(body))
			return f"E({self.errors[-1].get('C')})"
		if letter == "N":
			self.note(letter, body)
			return f"N({self.notices[-1].get('C')})"
		if letter == "Z":
			self.status = body.decode()
			return f"Z({self.status})"
		if letter == "T":
			self.fields = field_names(body)
			return "T"
		if letter == "A":
			return f"A({body[4:].split(bytes(1))[0].decode()})"
		return letter

	def read(self, count, seconds=None):
		"""That many letters; fewer, and a last one that says why, when they do not come."""
		got = []
		end = time.monotonic() + limit(self.seconds if seconds is None else seconds)
		while len(got) < count:
			try:
				got.append(self.next_letter((end - time.monotonic()) / limit(1)))
			except Closed:
				got.append("EOF")
				break
			except TimeoutError:
				got.append("<nothing more came>")
				break
		return " ".join(got)

	def read_ready(self, times=1, seconds=None):
		"""Letters up to the given number of ReadyForQuery."""
		got = []
		end = time.monotonic() + limit(self.seconds if seconds is None else seconds)
		while times:
			try:
				got.append(self.next_letter((end - time.monotonic()) / limit(1)))
			except Closed:
				got.append("EOF")
				break
			except TimeoutError:
				got.append("<nothing more came>")
				break
			times -= got[-1].startswith("Z")
		return " ".join(got)

	def expect(self, letters, seconds=None):
		"""Assert that exactly these letters come, and that nothing else is there already."""
		wanted = tokens(letters)
		got = self.read(len(wanted), seconds)
		said = f" ({self.errors[-1]})" if self.errors and "E(" in got else ""
		assert got == " ".join(wanted), f"wanted {' '.join(wanted)}\n   got {got}{said}"
		assert not self.buffer, f"after {got} came {bytes(self.buffer[:80])!r}"
		return got

	def talk(self, *parts, times=1, seconds=None):
		"""Send in one write, and read up to the last ReadyForQuery."""
		self.send(*parts)
		return self.read_ready(times, seconds)

	def query(self, sql, seconds=None):
		"""A simple query: its rows; raises ServerError."""
		self.send(Q(sql))
		rows, failure = [], None
		while True:
			letter, body = self.read_message(seconds)
			if letter == "D":
				rows.append(row(body))
			elif letter == "E":
				failure = report(body)
				if failure.get("S") in ("FATAL", "PANIC"):
					raise ServerError(failure)
			elif letter == "T":
				self.fields = field_names(body)
				self.types = field_types(body)
			elif letter == "Z":
				self.status = body.decode()
				if failure:
					raise ServerError(failure)
				return rows
			else:
				self.note(letter, body)

	def value(self, sql, seconds=None):
		return self.query(sql, seconds)[0][0]

	def is_quiet(self, seconds=0.1):
		"""True when nothing comes for that long: a claim about silence has to wait."""
		if self.buffer:
			return False
		return not select.select([self.sock], [], [], seconds)[0]

	def read_eof(self, seconds=None):
		"""Whatever still comes up to the end of the connection, as letters."""
		return self.read(1 << 30, seconds)

	# --- ending

	def close(self):
		try:
			self.sock.close()
		except OSError:
			pass

	def terminate(self):
		"""The polite end: Terminate, then close."""
		try:
			self.send(X)
		except OSError:
			pass
		self.close()

	def reset(self):
		"""End with RST and not with FIN, as a killed host does."""
		self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
		self.sock.close()

	def half_close(self):
		"""FIN our way only; a peer that was faster has closed already, which is as good."""
		try:
			self.sock.shutdown(socket.SHUT_WR)
		except OSError:
			pass

	def __enter__(self):
		return self

	def __exit__(self, *_):
		self.close()


def send_cancel(address, key, seconds=2.0, tls=None):
	"""A CancelRequest; gives what came back before the close, which should be nothing."""
	raw = Raw(address, seconds=seconds)
	with raw:
		if tls is not None:
			assert raw.ask_tls() == b"S"
			raw.start_tls(tls)
		raw.send(cancel_packet(key))
		raw.sock.settimeout(limit(seconds))
		got = b""
		try:
			while some := raw.sock.recv(4096):
				got += some
		except (ConnectionResetError, ssl.SSLError):
			pass
		return got


# --- bodies

def report(body):
	"""The fields of an ErrorResponse or NoticeResponse."""
	return {part[:1].decode(): part[1:].decode(errors="replace")
	        for part in body.split(b"\0") if part}


def row(body):
	count = struct.unpack_from("!H", body)[0]
	values, at = [], 2
	for _ in range(count):
		size = struct.unpack_from("!i", body, at)[0]
		at += 4
		if size < 0:
			values.append(None)
		else:
			values.append(body[at:at + size].decode(errors="replace"))
			at += size
	return values


def field_names(body):
	return [name for name, _ in _fields(body)]


def field_types(body):
	return [oid for _, oid in _fields(body)]


def _fields(body):
	count, at, found = struct.unpack_from("!H", body)[0], 2, []
	for _ in range(count):
		end = body.index(b"\0", at)
		found.append((body[at:end].decode(), struct.unpack_from("!I", body, end + 7)[0]))
		at = end + 19
	return found


# --- passwords

def md5_secret(user, password):
	return "md5" + hashlib.md5((password + user).encode()).hexdigest()


def md5_answer(user, password, salt):
	inner = hashlib.md5((password + user).encode()).hexdigest()
	return "md5" + hashlib.md5(inner.encode() + salt).hexdigest()


def scram_secret(password, iterations=4096, salt=None):
	"""A verifier as pg_authid stores it (RFC 5803 in PostgreSQL's spelling)."""
	salt = salt or os.urandom(16)
	salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
	client = hmac.digest(salted, b"Client Key", "sha256")
	server = hmac.digest(salted, b"Server Key", "sha256")
	def b64(data):
		return base64.b64encode(data).decode()
	return (f"SCRAM-SHA-256${iterations}:{b64(salt)}$"
	        f"{b64(hashlib.sha256(client).digest())}:{b64(server)}")


class Scram:
	"""The client's side of SCRAM-SHA-256 without channel binding (RFC 5802, RFC 7677)."""

	def __init__(self, password):
		self.password = password.encode()
		self.nonce = base64.b64encode(os.urandom(18))
		self.bare = b"n=,r=" + self.nonce
		self.first = b"n,," + self.bare

	def final(self, server_first):
		parts = dict(part.split(b"=", 1) for part in server_first.split(b","))
		assert parts[b"r"].startswith(self.nonce) and len(parts[b"r"]) > len(self.nonce)
		salted = hashlib.pbkdf2_hmac("sha256", self.password, base64.b64decode(parts[b"s"]),
		                             int(parts[b"i"]))
		without_proof = b"c=biws,r=" + parts[b"r"]
		signed = self.bare + b"," + server_first + b"," + without_proof
		key = hmac.digest(salted, b"Client Key", "sha256")
		signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
		proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature)))
		self.server_signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"),
		                                    signed, "sha256")
		return without_proof + b",p=" + proof

	def verify(self, server_final):
		assert server_final == b"v=" + base64.b64encode(self.server_signature), \
			"the server does not know the password either"
