"""Plays scripts: on PostgreSQL, then through the pooler, reply by reply.

Replies are compared in the notation of rig/raw.py, with the words of an error
and the names, types and formats of columns. ParameterStatus counts where a
ReadyForQuery follows: what has changed for the client since the last one.
"""

import random
import re
import select
import struct
from collections import defaultdict

from rig import raw
from rig.limits import limit

from . import script
from .script import Q, Turn, WHOLE

CLIENTS = 8
SERVERS = 2
PINNING = 0  # this client may be tied to a server, and has one more
STATEMENTS = 3
DATABASE, DIRECT = "app", "app2"  # the same tables, apart
PATIENCE = 3.0

SETTINGS = {"default_pool_size": SERVERS + 1, "max_prepared_statements": STATEMENTS}


class Difference(AssertionError):
	def __init__(self, client, turn, said, right, got):
		super().__init__(f"client {client}, turn {turn}\n"
		                 f"  replies so far   {' '.join(said[-12:])}\n"
		                 f"  PostgreSQL says  {right}\n  the pooler says  {got}")
		self.client = client


def make_tables(pg):
	for database in (DATABASE, DIRECT):
		pg.sql("set client_min_messages to error; " + "; ".join(
			f"drop table if exists prop{i}, late{i}; create table prop{i} (id int primary key, v text); "
			f"create table late{i} (id int unique deferrable initially deferred); "
			f"alter table prop{i} owner to app; grant all on late{i} to public" for i in range(CLIENTS)), dbname=database)


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
		if letter == "A":
			return f"A[{body[4:].decode()}]"
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

	def __init__(self):
		self.turns = []
		self.replies = []
		self.upto = []    # after each turn: how many replies must have come
		self.holds = []   # ... and whether the client still has its server

	def add(self, turns, replies):
		"""What was asked and answered on one connection."""
		before = len(self.replies)
		course = script.Course(replies, STATEMENTS - 1)
		for turn in turns:
			self.turns.append(turn._replace(messages=tuple(m for m in turn.messages if follow(course, m))))
			self.upto.append(before + course.sure)
			self.holds.append(course.holds and not turn.leaves)
		if course.at != len(replies):
			raise script.Confused(f"{len(replies) - course.at} replies are left over: {replies[course.at:]}")
		self.replies += replies


def follow(course, message):
	"""False: the message is left out."""
	if message.kind == "gone":
		if course.sure != course.at:
			raise script.Confused("the client is gone before it is answered")
		return True
	if not course.allows(message):
		return False
	course.message(message)
	return True


def closing(client, number):
	"""Ends whatever is open, and marks the end."""
	return Turn(client, (script.f(), script.S, Q("rollback"), Q(f"select 'end {number}'")), WHOLE)


def lives(turns):
	"""The turns of one client, by connection."""
	made = [[]]
	for turn in turns:
		made[-1].append(turn)
		if turn.leaves:
			made.append([])
	return made


class Asking:
	"""One client's turns, on connections of its own."""

	def __init__(self, direct, client, turns):
		self.direct = direct
		self.client = client
		direct.count += 1
		self.mark = f"D[end {direct.count}]"
		self.left = lives([*turns, closing(client, direct.count)])
		self.part = Part()
		self.begin()

	def begin(self):
		self.turns = self.left.pop(0)
		self.replies = []
		self.reader = self.direct.reader(self.client)
		try:
			for turn in self.turns:
				send_all(self.reader.sock, b"".join(m.bytes() for m in turn.messages if m.kind != "gone"))
		except OSError:
			pass  # what it said at the end can still be read

	def is_answered(self):
		last = self.replies[-3:]
		if not self.turns[-1].leaves:
			return len(last) == 3 and last[0] == self.mark and last[2].startswith("Z")
		try:
			Part().add(self.turns, list(self.replies))
			return True
		except script.Confused:
			return False  # there is more to come

	def read(self):
		"""True: it is through."""
		self.replies += self.reader.read()
		return self.go_on()

	def go_on(self):
		if self.replies[-1:] == ["EOF"]:
			raise script.Confused(f"PostgreSQL closed the connection: {self.replies[-5:]}\nturns {self.turns}")
		while self.is_answered():
			try:
				self.part.add(self.turns, self.replies)
			except script.Confused as confused:
				raise script.Confused(f"{confused}\nturns {self.turns}\nreplies {self.replies}") from None
			if not self.left:
				return True
			self.direct.forget(self.client)
			self.begin()
		return False


class Direct:
	"""PostgreSQL itself, a connection for each client."""

	def __init__(self, pg):
		self.address = pg.address
		self.readers = {}
		self.count = 0

	def reader(self, client):
		if client not in self.readers:
			self.readers[client] = Reader(self.address, DIRECT)
		return self.readers[client]

	def forget(self, client):
		self.readers.pop(client).close()

	def close(self):
		for reader in self.readers.values():
			reader.close()

	def ask(self, turns):
		"""The script's parts by client, answered."""
		by_client = defaultdict(list)
		for turn in turns:
			by_client[turn.client].append(turn)
		asked = [Asking(self, client, its) for client, its in by_client.items()]
		left = [one for one in asked if not one.go_on()]
		while left:
			ready = select.select([one.reader.sock for one in left], [], [], limit(10))[0]
			if not ready:
				raise script.Confused(f"PostgreSQL waits for more after {left[0].turns}, {left[0].replies[-9:]}")
			left = [one for one in left if one.reader.sock not in ready or not one.read()]
		return {one.client: one.part for one in asked}


# --- through the pooler

def is_as_good(got, right):
	"""In a transaction that has failed PostgreSQL refuses a Bind; for a wrong number of values before
	it says why. A statement that this server has not got cannot even be prepared there."""
	return got.startswith("E(25P02") and right.startswith("E(08P01 ERROR bind message")


# Describe of a statement whose table is gone: PostgreSQL tells the types of its parameters, and then that it cannot be
# planned any more. On a server that has not got the statement it cannot even be prepared.


class Player:
	"""One client of the pooler, at some place of its part."""

	def __init__(self, through, client, part):
		self.through = through
		self.client = client
		self.reader = through.reader(client)
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
		turn = self.part.turns[self.turn]
		for piece in turn.pieces():
			send_all(self.reader.sock, piece)
		self.turn += 1
		if turn.leaves:
			self.through.forget(self.client)
			self.reader = self.through.reader(self.client)

	def read(self):
		right = self.part.replies
		for reply in self.reader.read():
			if reply.startswith("E(") and right[self.got:self.got + 2][1:] == [reply] and right[self.got].startswith("t["):
				del right[self.got]
				self.part.upto = [n - (n > self.got) for n in self.part.upto]
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

	def reader(self, client):
		if client not in self.readers:
			self.readers[client] = Reader(self.address, DATABASE)
		return self.readers[client]

	def forget(self, client):
		self.readers.pop(client).close()

	def close(self):
		for reader in self.readers.values():
			reader.close()

	def players(self, parts):
		return {client: Player(self, client, part) for client, part in parts.items()}

	def in_turn(self, turns, parts):
		"""In the order of the script, but for those who would have to wait for a server."""
		players = self.players(parts)
		queue = [turn.client for turn in turns] + list(parts)
		while queue:
			holders = sum(p.holds for p in players.values() if p.client != PINNING)
			place = next(i for i, client in enumerate(queue)
			             if holders < SERVERS or players[client].holds or client == PINNING)
			player = players[queue.pop(place)]
			player.send()
			player.catch_up()

	def at_once(self, parts):
		"""Everyone goes on as soon as its answer is there."""
		players = list(self.players(parts).values())
		for player in players:
			self.go_on(player)
		left = [player for player in players if player.waits]
		while left:
			by_sock = {player.reader.sock: player for player in left}
			ready = select.select(list(by_sock), [], [], limit(PATIENCE))[0]
			if not ready:
				left[0].differs("nothing")
			for sock in ready:
				by_sock[sock].read()
				self.go_on(by_sock[sock])
			left = [player for player in left if player.waits]

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
