"""Messages as values, and which reply answers which message.

A message prints as it is written in a script: P('a', 'select 1'). The rules by
which PostgreSQL answers are those of the manual's chapter "Frontend/Backend
Protocol": an error in the extended protocol skips to Sync; Sync and Flush are
ignored while it reads copy data, and copy data is ignored while it does not.
"""

import random
import re
from collections import namedtuple

from rig import raw

BUILD = {"Q": raw.Q, "P": raw.P, "B": raw.B, "D": raw.D, "E": raw.E, "C": raw.C, "d": raw.d,
         "f": raw.f, "F": raw.F, "S": lambda: raw.S, "H": lambda: raw.H, "c": lambda: raw.c,
         "gone": lambda tail: tail}


LONG_RUN = re.compile(r"(.)\1{40,}")


def shown(arg):
	"""An argument as it is written in a script; a long run of one letter as a product."""
	run = LONG_RUN.search(arg) if isinstance(arg, str) else None
	if not run:
		return repr(arg)
	parts = [repr(arg[:run.start()]), f"{run[1]!r} * {run.end() - run.start()}", shown(arg[run.end():])]
	return " + ".join(part for part in parts if part != "''")


class Message(namedtuple("Message", "kind args")):
	def __repr__(self):
		if not self.args and self.kind in "SHc":
			return self.kind
		return f"{self.kind}({', '.join(map(shown, self.args))})"

	def bytes(self):
		return BUILD[self.kind](*self.args)

	@property
	def spoils_copy(self):
		"""Copy data that no table takes: rows that are wrong are marked with this word."""
		return self.kind == "d" and "bad" in self.args[0]


def Q(sql):
	return Message("Q", (sql,))


def P(name, sql, oids=()):
	return Message("P", (name, sql, tuple(oids)) if oids else (name, sql))


def B(portal="", stmt="", *params):
	return Message("B", (portal, stmt, *params))


def D(kind, name=""):
	return Message("D", (kind, name))


def E(portal="", most=0):
	return Message("E", (portal, most) if most else (portal,))


def C(kind, name=""):
	return Message("C", (kind, name))


def d(data):
	return Message("d", (data,))


def f(reason="changed my mind"):
	return Message("f", (reason,))


def F(function, *values):
	return Message("F", (function, *values))


def gone(tail=b""):
	"""Not a message: these bytes, and then the client ends the connection and makes a new one."""
	return Message("gone", (tail,))


S, H, c = Message("S", ()), Message("H", ()), Message("c", ())

WHOLE, BYTEWISE = 0, 1
MANY = 300


class Turn(namedtuple("Turn", "client messages cut")):
	"""One client's messages, sent in one write or cut: WHOLE, BYTEWISE, or a seed of the places."""

	def __repr__(self):
		how = {WHOLE: "", BYTEWISE: "   # byte by byte"}.get(self.cut, f"   # cut by {self.cut}")
		return f"({self.client}, [{', '.join(map(repr, self.messages))}]),{how}"

	@property
	def leaves(self):
		return any(m.kind == "gone" for m in self.messages)

	def pieces(self):
		data = b"".join(m.bytes() for m in self.messages)
		if self.cut == WHOLE or len(data) < 2:
			return [data]
		if self.cut == BYTEWISE and len(data) <= MANY:
			return [data[i:i + 1] for i in range(len(data))]
		rng = random.Random(self.cut)
		places = sorted(rng.sample(range(1, len(data)), min(len(data) - 1, rng.randint(1, 12))))
		return [data[a:b] for a, b in zip([0, *places], [*places, len(data)])]


def turns_of(script):
	"""Turns from what a test writes down: (client, [messages]) or (client, [messages], cut)."""
	return [Turn(row[0], tuple(row[1]), row[2] if len(row) > 2 else WHOLE) for row in script]


class Confused(Exception):
	"""The replies do not follow from the messages by our rules: a mistake of this test."""


FLUSHED = "ENZG"  # what PostgreSQL sends at once, with all that stands before it


class Course:
	"""Walks over a client's messages with PostgreSQL's replies (as play.Reader gives them).

	A statement that was prepared on another server cannot be prepared in a transaction that has failed.
	Then the pooler has to refuse what PostgreSQL answers still: Describe of one that returns no rows
	(documented). Such a Describe changes nothing, so it is left out, with its replies: `allows` says
	which message may stay. To be certain that a server has a statement it must have been named in the
	same transaction, behind few others.
	"""

	def __init__(self, replies, certain=0):
		self.replies = replies
		self.certain = certain  # so many statements are on the server that holds the client
		self.at = 0          # replies that belong to the messages so far
		self.sure = 0        # ... of them, those that have been sent
		self.copy = None     # kind of the message whose COPY reads data now
		self.skipping = False
		self.status = "I"
		self.holds = False   # the client's server is its own still
		self.here = set()    # statements named since the client has its server
		self.replaced = 0    # ... and so many of them have gone again, but not from there

	def peek(self):
		if self.at >= len(self.replies):
			raise Confused(f"no reply left, {self.replies[-5:]}")
		return self.replies[self.at]

	def take(self):
		reply = self.peek()
		self.at += 1
		if reply[0] in FLUSHED:
			self.sure = self.at
		if reply[0] == "Z":
			self.status = reply[2]
			self.holds = self.status != "I"
			if not self.holds:
				self.here.clear()
				self.replaced = 0
		return reply

	def take_until(self, ends):
		while True:
			reply = self.take()
			if reply[0] in ends:
				return reply[0]

	def message(self, m):
		kind = m.kind
		if self.copy:
			self.copy_message(m)
		elif kind == "S":
			self.skipping = False
			self.take_until("Z")
		elif kind == "H":
			self.sure = self.at if not self.skipping else self.sure
		elif self.skipping or kind in "dcf":
			pass
		else:
			self.holds = True
			self.ask(m)

	def ask(self, m):
		kind = m.kind
		if kind in "QF":
			self.copy = "Q" if self.take_until("ZG") == "G" else None
			if kind == "Q":
				self.here.discard("")
			return
		end = self.take_until({"P": "1E", "B": "2E", "C": "3E", "D": "TnE", "E": "CIsEG"}[kind])
		if end == "G":
			self.copy = "E"
		self.skipping = end == "E"
		self.name(m)

	def name(self, m):
		"""Keeps `here`."""
		if m.kind == "P" or (m.kind in "CD" and m.args[0] == "S"):
			name = m.args[m.kind != "P"]
		elif m.kind == "B":
			name = m.args[1]
		else:
			return
		if m.kind == "C" or (m.kind == "P" and self.skipping):
			self.replaced += name in self.here and name != ""
			self.here.discard(name)
		elif not self.skipping:
			self.here.add(name)

	def is_here(self, name):
		"""The server must have this statement."""
		named = len(self.here - {""}) + self.replaced
		return name in self.here and (name == "" or named <= self.certain)

	def allows(self, m):
		"""May it be sent to the pooler? If not, its replies are taken out."""
		if self.copy or self.skipping or self.status != "E" or m.kind != "D" or m.args[0] != "S":
			return True
		if self.is_here(m.args[1]) or not self.peek().startswith("t["):
			return True
		del self.replies[self.at:self.at + 2]
		return False

	def copy_message(self, m):
		if m.kind in "SH" or (m.kind == "d" and not m.spoils_copy):
			return
		if m.kind == "d" and not self.peek().startswith("E(22"):
			return
		asked, self.copy = self.copy, None
		if asked == "Q":
			self.copy = "Q" if self.take_until("ZG") == "G" else None
			return
		self.skipping = self.take_until("CE") == "E"
