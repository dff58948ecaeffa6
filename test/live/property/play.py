"""Plays scripts: on PostgreSQL, then through the pooler, reply by reply.

Replies are compared in the notation of rig/raw.py, with the words of an error
and the names, types and formats of columns. ParameterStatus counts where a
ReadyForQuery follows: what has changed for the client since the last one.
"""

import random
import re
import select
import struct
import time
from collections import defaultdict

from rig import raw
from rig.limits import limit

from . import script
from .script import Q, Turn, WHOLE

CLIENTS = 8
SERVERS = 2
STATEMENTS = 3
DATABASE, DIRECT = "app", "app2"  # the same tables, apart
PATIENCE = 3.0

SETTINGS = {"default_pool_size": SERVERS, "max_prepared_statements": STATEMENTS}


class Difference(AssertionError):
	def __init__(self, client, turn, said, right, got):
		super().__init__(f"client {client}, turn {turn}\n"
		                 f"  replies so far   {' '.join(said[-12:])}\n"
		                 f"  PostgreSQL says  {right}\n  the pooler says  {got}")
		self.client = client


def make_tables(pg):
	for database in (DATABASE, DIRECT):
		pg.sql("set client_min_messages to error; " + "; ".join(
			f"drop table if exists prop{i}; create table prop{i} (id int primary key, v text); "
			f"grant all on prop{i} to public" for i in range(CLIENTS)), dbname=database)


# --- replies

_columns = {}


def columns(body):
	"""RowDescription without what differs from database to database: object and column numbers."""
	found = _columns.get(body)
	if found is None:
		parts, at = [], 2
		for _ in range(struct.unpack_from("!H", body)[0]):
			end = body.index(0, at)
			kind, _, mod, form = struct.unpack_from("!IhiH", body, end + 7)
			parts.append(f"{body[at:end].decode()}:{kind}:{mod}:{form}")
			at = end + 19
		if len(_columns) > 5000:
			_columns.clear()
		found = _columns[body] = f"T[{', '.join(parts)}]"
	return found


# The server knows statements by names of the pooler's, and errors of Bind and Execute say them.
NAMED = re.compile(r'prepared statement "[^"]*"')


def error(body):
	fields = raw.report(body)
	words = NAMED.sub("prepared statement ...", fields.get("M", ""))
	return f"({fields.get('C')} {fields.get('S')} {words})"


class Reader:
	"""One connection's replies, as text."""

	PLAIN = {"1": "1", "2": "2", "3": "3", "n": "n", "s": "s", "I": "I", "c": "c"}

	def __init__(self, address, database):
		self.raw = raw.Raw.login(address, user="app", database=database, seconds=5)
		self.sock = self.raw.sock
		self.sock.setblocking(False)
		self.buffer = bytes(self.raw.buffer)
		self.told = dict(self.raw.params)
		self.params = dict(self.raw.params)
		self.closed = False

	def close(self):
		self.raw.close()

	def read(self):
		"""What has come, as a list of replies; does not wait."""
		try:
			some = self.sock.recv(262144)
			if not some:
				self.closed = True
				return ["EOF"]
		except BlockingIOError:
			return []
		except OSError:
			self.closed = True
			return ["EOF"]
		data = self.buffer + some if self.buffer else some
		found, at, size = [], 0, len(data)
		while size - at >= 5:
			end = at + 1 + int.from_bytes(data[at + 1:at + 5], "big")
			if end > size:
				break
			reply = self.text(chr(data[at]), data[at + 5:end])
			if reply:
				found.append(reply)
			at = end
		self.buffer = data[at:]
		return found

	def text(self, letter, body):
		plain = self.PLAIN.get(letter)
		if plain:
			return plain
		if letter == "D":
			return "D[" + ",".join("NULL" if v is None else v for v in raw.row(body)) + "]"
		if letter == "C":
			return f"C({body[:-1].decode()})"
		if letter == "Z":
			return f"Z({body.decode()}){self.changes()}"
		if letter == "T":
			return columns(body)
		if letter in "EN":
			return letter + error(body)
		if letter == "S":
			name, value = body.split(b"\0")[:2]
			self.params[name.decode()] = value.decode(errors="replace")
			return None
		return f"{letter}[{body.decode('latin-1')}]"

	def changes(self):
		if self.params == self.told:
			return ""
		changed = [f"{k}={v}" for k, v in sorted(self.params.items()) if self.told.get(k) != v]
		self.told = dict(self.params)
		return "{" + "; ".join(changed) + "}"


def send_all(sock, data):
	while data:
		try:
			data = data[sock.send(data):]
		except BlockingIOError:
			select.select([], [sock], [], limit(PATIENCE))


# --- on PostgreSQL

class Part:
	"""One client's share of a script, with PostgreSQL's answer."""

	def __init__(self, turns):
		self.turns = turns
		self.replies = []
		self.upto = []    # after each turn: how many replies must have come
		self.holds = []   # ... and whether the client still has its server

	def follow(self):
		course = script.Course(self.replies)
		for turn in self.turns:
			for message in turn.messages:
				course.message(message)
			self.upto.append(course.sure)
			self.holds.append(course.holds)
		if course.at != len(self.replies):
			raise script.Confused(f"{len(self.replies) - course.at} replies are left over: "
			                      f"{self.replies[course.at:]}")


def closing(client, number):
	"""Ends whatever is open, and marks the end."""
	return Turn(client, (script.f(), script.S, Q("rollback"), Q(f"select 'end {number}'")), WHOLE)


class Direct:
	"""PostgreSQL itself, a connection for each client."""

	def __init__(self, pg):
		self.address = pg.address
		self.readers = {}
		self.count = 0

	def close(self):
		for reader in self.readers.values():
			reader.close()

	def ask(self, turns):
		"""The script's parts by client, answered."""
		by_client = defaultdict(list)
		for turn in turns:
			by_client[turn.client].append(turn)
		parts, waiting = {}, {}
		for client, its in by_client.items():
			self.count += 1
			if client not in self.readers:
				self.readers[client] = Reader(self.address, DIRECT)
			part = parts[client] = Part([*its, closing(client, self.count)])
			reader = self.readers[client]
			send_all(reader.sock, b"".join(m.bytes() for t in part.turns for m in t.messages))
			waiting[reader.sock] = (part, reader, f"D[end {self.count}]")
		while waiting:
			ready = select.select(list(waiting), [], [], limit(10))[0]
			if not ready:
				stuck = next(iter(waiting.values()))[0]
				raise script.Confused(f"PostgreSQL waits for more after {stuck.turns}")
			for sock in ready:
				part, reader, mark = waiting[sock]
				part.replies += reader.read()
				last = part.replies[-3:]
				if len(last) == 3 and last[0] == mark and last[2].startswith("Z"):
					del waiting[sock]
				elif last[-1:] == ["EOF"]:
					raise script.Confused(f"PostgreSQL closed the connection: {part.replies[-3:]}")
		for part in parts.values():
			try:
				part.follow()
			except script.Confused as confused:
				raise script.Confused(f"{confused}\nturns {part.turns}\nreplies {part.replies}") from None
		return parts


# --- through the pooler

def is_as_good(got, right):
	"""In a transaction that has failed PostgreSQL refuses a Bind; for a wrong number of values before
	it says why. A statement that this server has not got cannot even be prepared there."""
	return got.startswith("E(25P02") and right.startswith("E(08P01 ERROR bind message")


class Player:
	"""One client of the pooler, at some place of its part."""

	def __init__(self, client, reader, part):
		self.client = client
		self.reader = reader
		self.part = part
		self.turn = 0      # the next one to play
		self.got = 0       # replies that have come

	@property
	def is_done(self):
		return self.turn == len(self.part.turns)

	@property
	def holds(self):
		return self.turn > 0 and self.part.holds[self.turn - 1]

	@property
	def waits(self):
		return self.turn > 0 and self.got < self.part.upto[self.turn - 1]

	def send(self):
		for piece in self.part.turns[self.turn].pieces():
			send_all(self.reader.sock, piece)
		self.turn += 1

	def read(self):
		right = self.part.replies
		for reply in self.reader.read():
			if self.got == len(right) or (reply != right[self.got] and not is_as_good(reply, right[self.got])):
				self.differs(reply)
			self.got += 1

	def differs(self, got):
		right = self.part.replies
		raise Difference(self.client, self.turn - 1, right[:self.got],
		                 right[self.got] if self.got < len(right) else "nothing", got)

	def catch_up(self):
		"""Wait until all has come that must have come by now."""
		while self.waits:
			if not select.select([self.reader.sock], [], [], limit(PATIENCE))[0]:
				self.differs("nothing")
			self.read()


class Through:
	"""The pooler, a connection for each client."""

	def __init__(self, weir):
		self.address = weir.address
		self.readers = {}

	def close(self):
		for reader in self.readers.values():
			reader.close()

	def players(self, parts):
		for client in parts:
			if client not in self.readers:
				self.readers[client] = Reader(self.address, DATABASE)
		return {client: Player(client, self.readers[client], part) for client, part in parts.items()}

	def in_turn(self, turns, parts):
		"""In the order of the script, but for those who would have to wait for a server."""
		players = self.players(parts)
		queue = [turn.client for turn in turns] + list(parts)
		while queue:
			holders = sum(p.holds for p in players.values())
			place = next(i for i, client in enumerate(queue)
			             if holders < SERVERS or players[client].holds)
			player = players[queue.pop(place)]
			player.send()
			player.catch_up()

	def at_once(self, parts):
		"""Everyone goes on as soon as its answer is there."""
		players = self.players(parts)
		by_sock = {p.reader.sock: p for p in players.values()}
		poll = select.epoll()
		by_fd = {}
		for sock, player in by_sock.items():
			poll.register(sock, select.EPOLLIN)
			by_fd[sock.fileno()] = player
		for player in players.values():
			self.go_on(player)
		left = sum(1 for p in players.values() if p.waits or not p.is_done)
		last = time.monotonic()
		while left:
			events = poll.poll(limit(PATIENCE))
			if not events:
				next(p for p in players.values() if p.waits).differs("nothing")
			for fd, _ in events:
				player = by_fd[fd]
				player.read()
				self.go_on(player)
			left = sum(1 for p in players.values() if p.waits or not p.is_done)
		poll.close()

	def go_on(self, player):
		while not player.waits and not player.is_done:
			player.send()


def shuffled(sequences, seed):
	"""The turns of the sequences, mixed; each client's stay in order."""
	rng = random.Random(seed)
	left = [list(reversed(turns)) for turns in sequences if turns]
	mixed = []
	while left:
		# In short runs: a client that goes on at once meets the state it left.
		its = rng.choice(left)
		for _ in range(rng.choice([1, 1, 2, 5])):
			if its:
				mixed.append(its.pop())
		left = [turns for turns in left if turns]
	return mixed


AT_ONCE, IN_TURN = "at once", "in turn"


def play(turns, direct, through, how=IN_TURN):
	"""Raises Difference."""
	parts = direct.ask(turns)
	if how == IN_TURN:
		through.in_turn(turns, parts)
	else:
		through.at_once(parts)


def same(pg, weir, rows, how=IN_TURN):
	"""For a script that a test writes down: [(client, [messages]), ...]."""
	make_tables(pg)
	direct, through = Direct(pg), Through(weir)
	try:
		play(script.turns_of(rows), direct, through, how)
	finally:
		direct.close()
		through.close()
