"""Seeded sequences of messages.

A sequence is a client's: some acts (a query, a batch, a COPY, a transaction of
acts, ...), then an ending that leaves no transaction and no COPY behind. Names,
statements and portals live on into the client's next sequence, as in a real
session; the little that is remembered here about them only makes what is sent
meaningful more often than chance would.

One client also does what ties its session to its server connection. It has one to itself, so to speak:
the others would wait for as long as it pleases.
"""

import random

from . import words
from .script import B, BYTEWISE, C, D, E, F, H, P, Q, S, Turn, WHOLE, c, d, f, gone
from .spare import spare_postgresql
from .words import NAMES, PORTALS


class Writer:
	"""Writes the sequences of one client."""

	def __init__(self, client, pins=False):
		self.client = client
		self.table = f"prop{client}"
		self.pins = pins
		self.params = {}     # statement name -> kinds of its parameters, as far as we know

	# --- words

	def of_client(self, sql):
		return sql.replace("{t}", self.table).replace("{u}", f"late{self.client}").replace("{n}", str(self.client))

	def text(self, rng):
		if rng.random() < 0.06:
			return self.of_client(words.setting(rng)), ""
		if rng.random() < 0.02:
			return words.deallocate(rng), ""
		tables = [(words.PLAIN, 30), (words.TABLE, 30), (words.SHOWN, 12), (words.WRONG, 8), (words.CONTROL, 8),
		          (words.LARGE, 1), (words.OTHERS_SHOWN, 8), (words.PINS, 25 if self.pins else 0)]
		sql, kinds = rng.choice(rng.choices([rows for rows, _ in tables], [w for _, w in tables])[0])
		return self.of_client(sql), kinds

	def values(self, rng, name):
		kinds = self.params.get(name, "")
		values = [words.value(rng, kind) for kind in kinds]
		if rng.random() < 0.03:
			values.append("1")
		return values

	def name(self, rng):
		return "" if rng.random() < 0.4 else rng.choice(NAMES)

	def known(self, rng):
		"""A statement that may well exist."""
		if self.params and rng.random() < 0.95:
			return rng.choice(sorted(self.params))
		return self.name(rng)

	def portal(self, rng):
		return "" if rng.random() < 0.75 else rng.choice(PORTALS)

	# --- messages

	def parse(self, rng, name=None):
		name = self.name(rng) if name is None else name
		sql, kinds = self.text(rng)
		made = []
		if name and name in self.params and rng.random() < 0.8:
			made.append(C("S", name))
		if name not in self.params or made or not name:
			self.params[name] = kinds
		oids = [rng.choice([0, 23, 25]) for _ in kinds] if kinds and rng.random() < 0.1 else ()
		return [*made, P(name, sql, oids)]

	def bind(self, rng, portal=None, name=None):
		portal = self.portal(rng) if portal is None else portal
		name = self.known(rng) if name is None else name
		return [B(portal, name, *self.values(rng, name))]

	def execute(self, rng, portal=None):
		portal = self.portal(rng) if portal is None else portal
		return [E(portal, rng.choice([0, 0, 0, 1, 2, 3]))]

	def describe(self, rng):
		return [D("S", self.known(rng)) if rng.random() < 0.5 else D("P", self.portal(rng))]

	def close(self, rng):
		if rng.random() < 0.3:
			return [C("P", self.portal(rng))]
		name = self.known(rng)
		self.params.pop(name, None)
		return [C("S", name)]

	def run(self, rng):
		"""Parse, Bind, Describe, Execute as drivers do it, of a new statement or an old one."""
		name, portal = self.name(rng), self.portal(rng)
		made = []
		if name not in self.params or rng.random() < 0.4:
			made += self.parse(rng, name)
			if rng.random() < 0.3:
				made.append(D("S", name))
		made += self.bind(rng, portal, name)
		if rng.random() < 0.4:
			made.append(D("P", portal))
		made += self.execute(rng, portal)
		if rng.random() < 0.2:
			made += self.execute(rng, portal)
		return made

	def stray(self, rng):
		return [rng.choice([d("1\tx\n"), c, f(), S, H, E("nosuch"), B("", "nosuch"), D("S", "nosuch"),
		                    D("P", "nosuch"), C("S", "nosuch"), C("P", "nosuch")])]

	def call(self, rng):
		function, kinds = rng.choice(words.FUNCTIONS)
		return [F(function, *[words.value(rng, rng.choice([kind, "s"])) for kind in kinds])]

	def any(self, rng):
		return rng.choice([self.run, self.run, self.run, self.parse, self.bind, self.execute,
		                   self.describe, self.close, self.stray, lambda _: [H]])(rng)

	# --- acts

	def simple(self, rng):
		if rng.random() < 0.25:
			texts = [self.unbound(rng, alone=False) for _ in range(rng.randint(2, 4))]
			return [Q(rng.choice(["; ", ";\n", " ;; "]).join(texts))]
		return [Q(self.unbound(rng))]

	def unbound(self, rng, alone=True):
		if rng.random() < 0.05:
			return rng.choice(words.READ_ONCE)
		while True:
			sql, kinds = self.text(rng)
			if kinds or "copy" in sql:
				continue
			if alone or not self.forgets_one(sql):
				return sql

	def forgets_one(self, sql):
		return sql.lower().startswith("deallocate") and not sql.endswith(("all", "ALL", "nosuch"))

	def batch(self, rng):
		made = []
		for _ in range(rng.randint(1, 4)):
			made += self.any(rng)
		return [*made, S] if rng.random() < 0.92 else made

	def driver(self, rng):
		"""Two round trips: prepare and describe, then bind and execute."""
		name = self.name(rng)
		end = rng.choice([S, H])
		made = [*self.parse(rng, name), D("S", name), end]
		for _ in range(rng.randint(1, 3)):
			made += [*self.bind(rng, "", name), D("P", ""), *self.execute(rng, ""), S]
		return made

	def fetch(self, rng):
		"""A portal read in pieces, in a transaction."""
		portal = rng.choice(PORTALS)
		made = [Q("begin"), P("", "select generate_series(1, 6)"), B(portal, ""), H]
		for _ in range(rng.randint(1, 4)):
			made += [E(portal, rng.randint(1, 4)), rng.choice([H, S])]
			if rng.random() < 0.3:
				made += self.parse(rng)
		return [*made, C("P", portal), S, Q(rng.choice(["commit", "rollback"]))]

	def cursor(self, rng):
		name = rng.choice([*PORTALS, "cur"])
		made = [Q("begin"), Q(f"declare {name} cursor for select generate_series(1, 9)")]
		for _ in range(rng.randint(1, 3)):
			made.append(rng.choice([Q(f"fetch 2 from {name}"), E(name, 2), D("P", name), S,
			                        Q(f"move 1 in {name}"), Q("fetch 1 from nosuch")]))
		return [*made, S, Q(rng.choice(["commit", "rollback", f"close {name}; commit"]))]

	def rows(self, rng):
		made = []
		for _ in range(rng.randint(0, 4)):
			row = f"{rng.randint(0, 40)}\t{rng.choice(['x', 'yy', ''])}\n"
			if rng.random() < 0.1:
				row = "bad" + row
			elif rng.random() < 0.2:
				place = rng.randint(1, len(row) - 1)
				made.append(d(row[:place]))
				row = row[place:]
			made.append(d(row))
		return made

	def copy_in(self, rng):
		sql = f"copy {self.table} from stdin" if rng.random() < 0.9 else "copy nosuch from stdin"
		end = c if rng.random() < 0.8 else f()
		if rng.random() < 0.5:
			if rng.random() < 0.2:
				sql = f"select 1; {sql}; select 2"
			made = [Q(sql), *self.rows(rng), end]
			if rng.random() < 0.1:
				made = [Q(f"{sql}; {sql}; {self.unbound(rng, alone=False)}"), *self.rows(rng), end, *self.rows(rng), c]
		else:
			# A name of its own: what follows this Execute must be copy data, or PostgreSQL ends the session.
			name = rng.choice(["", "copies"])
			made = [C("S", name), P(name, sql), B("", name), E("")]
			made += [S] * rng.choice([0, 0, 1, 2])
			made += [*self.rows(rng), end, S, P("", "select 'no copy'"), S]
			self.params[""] = ""
		if rng.random() < 0.1:
			# Not a Sync between a row that fails and the end of the data: whether it is answered hangs on whether the
			# COPY has failed by then, which nobody but the server can know (docs/transaction-pooling.md).
			bad = next((i for i, m in enumerate(made) if m.spoils_copy), len(made))
			what = rng.choice([S, H, c])
			made.insert(rng.randint(1, bad if what == S else len(made)), what)
		return made

	def copy_out(self, rng):
		sql = self.of_client(rng.choice(words.COPY_OUT))
		return [Q(sql)] if rng.random() < 0.5 else [P("", sql), B("", ""), E(""), S]

	def shown(self, rng):
		return self.of_client(rng.choice(words.SHOWN[:11] + words.OTHERS_SHOWN[:12])[0])

	def tied(self, rng):
		"""Taking and giving up what ties a session to its server, with rollbacks."""
		texts = [self.of_client(sql) for sql, kinds in words.PINS if not kinds]
		made = []
		for _ in range(rng.randint(2, 6)):
			made += self.one(rng, rng.choice([*texts, "begin", "commit", "rollback", "savepoint s1", "rollback to s1"]))
		if rng.random() < 0.5:
			made += [S, Q("rollback"), Q(rng.choice(["discard all", "; ".join(words.GIVE_UP[:6])])), Q("select 'free'")]
		return made

	def settings(self, rng):
		made = []
		for _ in range(rng.randint(1, 3)):
			sql = self.of_client(words.setting(rng))
			made += [Q(sql)] if rng.random() < 0.6 else [P("", sql), B("", ""), E(""), S]
		sql = self.shown(rng)
		return made + ([Q(sql)] if rng.random() < 0.5 else [P("", sql), B("", ""), E(""), S])

	def forget(self, rng):
		sql = words.deallocate(rng)
		made = [Q(sql)] if rng.random() < 0.5 else [P("", sql), B("", ""), E(""), S, P("", "select 'gone'"), S]
		if rng.random() < 0.6:
			made += [*self.bind(rng, "", rng.choice(NAMES)), E(""), S]
		return made

	def one(self, rng, sql):
		return [Q(sql)] if rng.random() < 0.6 else [P("", sql), B("", ""), E(""), S]

	def undone_settings(self, rng):
		"""What SET did, behind savepoints and the end of the transaction."""
		made = [Q("begin")] if rng.random() < 0.8 else []
		for _ in range(rng.randint(2, 5)):
			made += self.one(rng, rng.choice([self.of_client(words.setting(rng)), self.of_client(words.setting(rng)), "savepoint s1", "rollback to s1",
			                                  "release s1", "savepoint s2", "rollback to s2", "select 1/0"]))
			if rng.random() < 0.3:
				made += self.one(rng, self.shown(rng))
		return [*made, Q(rng.choice(["commit", "rollback", "commit and chain"])), *self.one(rng, self.shown(rng))]

	def changed_table(self, rng):
		"""A statement whose result changes under it (0A000), in one transaction: it is on this server for sure."""
		name = rng.choice(NAMES)
		self.params[name] = ""
		use = [B("", name), E(""), S]
		made = [S, Q("rollback"), Q("begin"), C("S", name), P(name, f"select * from {self.table} order by id"), *use]
		made += [Q("savepoint s1")] if rng.random() < 0.5 else []
		made += [*self.one(rng, f"alter table {self.table} alter v type varchar({rng.choice([50, 60])})")]
		made += [D("S", name), S] if rng.random() < 0.3 else []
		made += [*use, Q("rollback to s1"), *use] if rng.random() < 0.6 else use
		return [*made, Q("rollback"), *use]

	def new_table(self, rng):
		"""The table is changed for good. What was prepared of it before is forgotten: PostgreSQL refuses to run it, and
		the pooler need not, where it is prepared again."""
		self.params.clear()
		made = [S, Q("rollback"), Q(rng.choice(["deallocate all", "discard all"])),
		        Q(f"alter table {self.table} alter v type {rng.choice(['text', 'varchar(3000)', 'varchar(4000)'])}")]
		for _ in range(rng.randint(1, 4)):
			made += self.run(rng)
		return [*made, S]

	def leave(self, rng):
		"""In the middle of anything that is answered."""
		made = rng.choice([lambda _: [], self.transaction, self.fetch, self.batch, self.open_copy])(rng)
		made = made[:rng.randint(0, len(made))]
		self.params.clear()
		tail = rng.choice([b"", b"X\0\0\0\4", b"Q\0\0\0\x20sel", b"P", b"B\0\0\1\0abc\0", b"d\0\0\0\x99", b"P\0\0",
		                   P("", "select 1").bytes(), B("", "").bytes()])
		# Nothing that ends a batch: PostgreSQL would commit what stands before it.
		return [*made, rng.choice([H, S]), gone(tail)]

	def open_copy(self, rng):
		return [Q(f"copy {self.table} from stdin"), *self.rows(rng), c]

	def transaction(self, rng):
		made = self.one(rng, rng.choice(["begin", "begin", "begin read only", "start transaction"]))
		if rng.random() < 0.1:
			# Never behind a Describe: what is prepared ahead for it has taken the transaction's snapshot (documented).
			made = [S, Q("rollback"), *self.one(rng, "begin isolation level repeatable read")]
		for _ in range(rng.randint(1, 4)):
			made += self.act(rng, inside=True)
			if rng.random() < 0.25:
				made.append(Q(rng.choice(["savepoint s1", "rollback to s1", "release s1"])))
		end = rng.choice(["commit", "commit", "rollback", "rollback", "end; select 1"])
		return [*made, S, Q(end)]

	def act(self, rng, inside=False):
		acts = [(self.simple, 15), (self.batch, 40), (self.driver, 12), (self.copy_in, 10), (self.copy_out, 4),
		        (self.settings, 10), (self.forget, 6), (self.stray, 3), (self.call, 2)]
		if not inside:
			acts += [(self.transaction, 25), (self.fetch, 6), (self.cursor, 4), (self.undone_settings, 6),
			         (self.changed_table, 3), (self.new_table, 3), (self.leave, 2), (self.tied, 60 if self.pins else 0)]
		return rng.choices([a for a, _ in acts], [w for _, w in acts])[0](rng)

	def ending(self, rng):
		"""Leaves COPY, a failed batch and a transaction, whichever there is; mostly tidies up too."""
		made = [f(), S, Q("rollback")]
		how = rng.random()
		if how < 0.5:
			made += [C("S", name) for name in NAMES if name in self.params]
			made += [S, Q(self.of_client("reset all; delete from {t}; delete from {u}"))]
			self.params.clear()
		elif how < 0.6:
			made.append(Q("discard all"))
			self.params.clear()
		return made

	def sequence(self, rng):
		messages = []
		for _ in range(rng.randint(1, 4)):
			messages += self.act(rng)
		return self.cut(rng, spare_postgresql(self.flushed(rng, messages))) + [Turn(self.client, tuple(self.ending(rng)), WHOLE)]

	def flushed(self, rng, messages):
		"""With Flush strewn in, in some."""
		if rng.random() < 0.7:
			return messages
		made = []
		for m in messages:
			made += [m, H] if m.kind in "PBDECd" and rng.random() < 0.3 else [m]
		return made

	def cut(self, rng, messages):
		"""Into turns: mostly where an answer can be waited for."""
		eager = rng.choice([0.2, 0.8, 1.0])
		turns, held = [], []
		for m in messages:
			if m.kind == "gone" and held:
				turns.append(held)
				held = []
			held.append(m)
			if m.kind == "gone" or rng.random() < (eager if m.kind in "SQH" else 0.06):
				turns.append(held)
				held = []
		if held:
			turns.append(held)
		how = rng.choice([WHOLE, WHOLE, WHOLE, BYTEWISE, rng.randint(2, 1 << 30)])
		return [Turn(self.client, tuple(held), how) for held in turns]


class Round:
	"""One sequence for each client, from one seed, and what is decided at random about playing it."""

	def __init__(self, seed, writers):
		self.seed = seed
		rng = random.Random(seed)
		self.sequences = [writer.sequence(rng) for writer in writers]
		self.order = rng.randint(0, 1 << 30)
		self.at_once = rng.random() < 0.5
