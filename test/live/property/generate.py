"""Seeded sequences of messages.

A sequence is a client's: some acts (a query, a batch, a COPY, a transaction of
acts, ...), then an ending that leaves no transaction and no COPY behind. Names,
statements and portals live on into the client's next sequence, as in a real
session; the little that is remembered here about them only makes what is sent
meaningful more often than chance would.

What the pooler does not promise yet is behind LATER, and off.
"""

import random

from .script import B, BYTEWISE, C, D, E, H, P, Q, S, Turn, WHOLE, c, d, f

LATER = frozenset()  # of: unreported listen locks temp hold prepare names

NAMES = ["a", "b", "c", "d", "e"]
PORTALS = ["p", "q"]

ZONES = ["UTC", "Asia/Tokyo", "America/New_York", "Europe/Rome", "+03:30", "Mars/Base"]
SETTINGS = {
	"timezone": ZONES,
	"datestyle": ["ISO, DMY", "German", "SQL, MDY", "Postgres, YMD", "nonsense"],
	"intervalstyle": ["iso_8601", "sql_standard", "postgres_verbose", "postgres", "odd"],
	"application_name": ["one", "two's", "three \\ 3", "", "vier \u00e4"],
	"default_transaction_read_only": ["on", "off", "maybe"],
	"standard_conforming_strings": ["on", "off"],
	"client_encoding": ["UTF8", "utf-8"],
}

# Texts and the kinds of their parameters; {t} is the client's own table.
PLAIN = [
	("select 1", ""), ("select 'one' as x, null, ''", ""), ("select $1::int * 10", "i"),
	("select $1::text, $2::int", "ti"), ("select generate_series(1, 7)", ""),
	("select g, $1::text from generate_series(1, $2::int) g", "ts"), ("", ""), ("-- nothing", ""),
	("values (1), (2)", ""), ("select 10 / $1::int", "i"),
]
TABLE = [
	("select * from {t} order by id limit 5", ""), ("select count(*) from {t}", ""),
	("insert into {t} values ($1, $2)", "it"), ("insert into {t} values ($1, $2) returning *", "it"),
	("insert into {t} values ($1, 'x') on conflict (id) do update set v = 'again'", "i"),
	("update {t} set v = $1 where id = $2", "ti"), ("delete from {t} where id < $1", "i"),
	("select v from {t} where id = $1", "i"), ("delete from {t}", ""),
]
SHOWN = [
	("show timezone", ""), ("show datestyle", ""), ("show application_name", ""),
	("select current_setting('intervalstyle')", ""),
	("select timestamptz '2020-06-01 12:00+00'", ""), ("select date '2020-12-31'", ""),
	("select interval '1 day 2 hours'", ""), ("show default_transaction_read_only", ""),
	("show transaction_read_only", ""), ("show standard_conforming_strings", ""),
	("select $1::timestamptz", "z"), ("select to_timestamp($1::int)", "i"),
]
WRONG = [
	("selekt 1", ""), ("select 1/0", ""), ("select nosuch", ""), ("select * from nosuch", ""),
	("select 1; select 2", ""), ("select $1", "t"), ("insert into {t} values (null)", ""),
	("select 'abc'::int", ""), ("copy nosuch from stdin", ""),
]
CONTROL = [
	("begin", ""), ("commit", ""), ("rollback", ""), ("savepoint s1", ""), ("rollback to s1", ""),
	("release s1", ""), ("begin read only", ""), ("commit and chain", ""),
	("set transaction read only", ""), ("end", ""), ("abort", ""),
]
UNREPORTED = [("set search_path to nowhere", ""), ("set work_mem to '1MB'", ""), ("show work_mem", ""),
              ("set statement_timeout to 12345", ""), ("show statement_timeout", "")]
TEMP = [("create temp table tt (x int)", ""), ("select count(*) from tt", ""),
        ("drop table if exists tt", "")]
HOLD = [("declare h cursor with hold for select generate_series(1, 9)", ""), ("fetch 2 from h", ""),
        ("close h", "")]
LOCKS = [("select pg_advisory_lock({n})", ""), ("select pg_advisory_unlock({n})", "")]
LISTEN = [("listen ch{n}", ""), ("notify ch{n}, 'x'", ""), ("unlisten *", "")]
PREPARE = [("prepare sp as select 5", ""), ("execute sp", ""), ("deallocate sp", "")]


# --- what kills PostgreSQL

def is_copy_in(message):
	return message.kind == "Q" and "copy " in message.args[0] and "from stdin" in message.args[0]


def executes_left_over(messages):
	"""Behind a Query: may an Execute find the unnamed portal as that Query has left it?

	It may not if a Bind or Close of the portal stands before it and no Sync between them: if that is
	skipped for an error, so is the Execute. Nor if another Query does, unless that may be skipped.
	"""
	gone, is_read = False, True
	for m in messages:
		if m.kind == "Q":
			if is_read:
				return False
			continue
		is_read = m.kind == "S"
		if is_read:
			gone = False
		elif m == C("P", "") or (m.kind == "B" and m.args[0] == ""):
			gone = True
		elif m.kind == "E" and m.args[0] == "" and not gone:
			return True
	return False


def spare_postgresql(messages):
	"""Closes the unnamed portal behind each Query whose portal an Execute might find.

	A statement of a Query that fails while it runs, in a transaction, leaves the unnamed portal behind.
	Its statements were in memory that PostgreSQL frees before it reads the next message, and only for
	portals of Bind it forgets them then. An Execute of that portal, in the transaction that has failed,
	reads what is there by now: mostly it is refused with 25P02 for all that, and sometimes the process
	dies by signal 11, and all sessions with it. Seen with 15.20: Query "begin"; Query "deallocate
	nosuch"; a Query of nine statements, which is refused; Execute. Close drops the portal unread.
	"""
	made, copying = [], False
	for i, m in enumerate(messages):
		made.append(m)
		ends_query = m.kind == "Q" or (copying and m.kind in "cf")
		copying = is_copy_in(m) or (copying and not ends_query)
		# Not while PostgreSQL reads copy data: a Close would end the session.
		if ends_query and not copying and executes_left_over(messages[i + 1:]):
			made.append(C("P", ""))
	return made


class Writer:
	"""Writes the sequences of one client."""

	def __init__(self, client, later=LATER):
		self.client = client
		self.table = f"prop{client}"
		self.later = later
		self.params = {}     # statement name -> kinds of its parameters, as far as we know
		self.silent = set()  # ... of those that return no rows

	# --- words

	def text(self, rng):
		tables = [(PLAIN, 30), (TABLE, 30), (SHOWN, 12), (WRONG, 8), (CONTROL, 8)]
		for name, rows in (("unreported", UNREPORTED), ("temp", TEMP), ("hold", HOLD),
		                   ("locks", LOCKS), ("listen", LISTEN), ("prepare", PREPARE)):
			if name in self.later:
				tables.append((rows, 5))
		if rng.random() < 0.06:
			return self.setting(rng), ""
		if rng.random() < 0.02:
			return self.deallocate(rng), ""
		rows = rng.choices([t for t, _ in tables], [w for _, w in tables])[0]
		sql, kinds = rng.choice(rows)
		return sql.replace("{t}", self.table).replace("{n}", str(self.client)), kinds

	def setting(self, rng):
		name = rng.choice(list(SETTINGS))
		value = rng.choice(SETTINGS[name])
		quoted = "'" + value.replace("'", "''") + "'"
		if "\\" in value:
			quoted = "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
		if name == "datestyle" and rng.random() < 0.7:
			quoted = value
		return rng.choice([
			f"set {name} to {quoted}", f"SET SESSION {name} = {quoted}", f"set local {name} to {quoted}",
			f"set {name} to {quoted}", f"select set_config('{name}', {quoted}, {rng.choice(['true', 'false'])})",
			f"reset {name}", f"set {name} to default", "reset all",
			"set session characteristics as transaction read only",
			"set session characteristics as transaction read write",
		] if rng.random() < 0.9 else [f"/* so */ set time zone {rng.choice(['default', 'local', '3', quoted])}"])

	def deallocate(self, rng):
		return rng.choice(["deallocate all", "DEALLOCATE ALL", "/* x */ deallocate all", "discard all",
		                   "discard plans", "deallocate nosuch",
		                   f"deallocate {rng.choice(NAMES)}", f"DEALLOCATE PREPARE {rng.choice(NAMES)}"])

	def value(self, rng, kind):
		if rng.random() < 0.04:
			return rng.choice([None, "x", "", "99999999999"])
		if kind == "i":
			return str(rng.randint(0, 30))
		if kind == "s":
			return str(rng.randint(0, 4))
		if kind == "z":
			return rng.choice(["2020-01-02 03:04", "2001-02-03 04:05+06"])
		return rng.choice(["word", "o'clock", "b\\s", "\u00fc", "x" * rng.choice([1, 50, 3000])])

	def values(self, rng, name):
		kinds = self.params.get(name, "")
		values = [self.value(rng, kind) for kind in kinds]
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
		while self.forgets_one(sql) and "names" not in self.later:
			sql, kinds = self.text(rng)
		made = []
		if name and name in self.params and rng.random() < 0.8:
			made.append(C("S", name))
		if name not in self.params or made or not name:
			self.params[name] = kinds
			self.silent.discard(name)
			if not sql.startswith(("select", "show", "values")) and "returning" not in sql:
				self.silent.add(name)
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
		# In a transaction that has failed a statement without rows can be described still, and cannot
		# if its server has to be given it first. That is known, and documented.
		name = self.known(rng)
		if rng.random() < 0.5 and name not in self.silent:
			return [D("S", name)]
		return [D("P", self.portal(rng))]

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
		while True:
			sql, kinds = self.text(rng)
			if kinds or "copy" in sql:
				continue
			if alone or "names" in self.later or not self.forgets_one(sql):
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
		else:
			# A name of its own: what follows this Execute must be copy data, or PostgreSQL ends the session.
			name = rng.choice(["", "copies"])
			made = [C("S", name), P(name, sql), B("", name), E("")]
			made += [S] * rng.choice([0, 0, 1, 2])
			made += [*self.rows(rng), end, S, P("", "select 'no copy'"), S]
			self.params[""] = ""
		if rng.random() < 0.1:
			made.insert(rng.randint(1, len(made)), rng.choice([S, H, c]))
		return made

	def copy_out(self, rng):
		sql = rng.choice([f"copy {self.table} to stdout", "copy (select generate_series(1, 4)) to stdout",
		                  "copy (select 1 / (2 - g) from generate_series(1, 4) g) to stdout",
		                  "copy (select 1 where false) to stdout"])
		return [Q(sql)] if rng.random() < 0.5 else [P("", sql), B("", ""), E(""), S]

	def settings(self, rng):
		made = []
		for _ in range(rng.randint(1, 3)):
			sql = self.setting(rng)
			made += [Q(sql)] if rng.random() < 0.6 else [P("", sql), B("", ""), E(""), S]
		sql = rng.choice(SHOWN[:10])[0]
		return made + ([Q(sql)] if rng.random() < 0.5 else [P("", sql), B("", ""), E(""), S])

	def forget(self, rng):
		sql = self.deallocate(rng)
		made = [Q(sql)] if rng.random() < 0.5 else [P("", sql), B("", ""), E(""), S, P("", "select 'gone'"), S]
		if rng.random() < 0.6:
			made += [*self.bind(rng, "", rng.choice(NAMES)), E(""), S]
		return made

	def transaction(self, rng):
		made = [Q(rng.choice(["begin", "begin", "begin read only", "start transaction"]))] \
			if rng.random() < 0.6 else [P("", "begin"), B("", ""), E(""), S]
		for _ in range(rng.randint(1, 4)):
			made += self.act(rng, inside=True)
			if rng.random() < 0.25:
				made.append(Q(rng.choice(["savepoint s1", "rollback to s1", "release s1"])))
		end = rng.choice(["commit", "commit", "rollback", "rollback", "end; select 1"])
		return [*made, S, Q(end)]

	def act(self, rng, inside=False):
		acts = [(self.simple, 15), (self.batch, 40), (self.driver, 12), (self.copy_in, 10), (self.copy_out, 4),
		        (self.settings, 10), (self.forget, 6), (self.stray, 3)]
		if not inside:
			acts += [(self.transaction, 25), (self.fetch, 6), (self.cursor, 4)]
		return rng.choices([a for a, _ in acts], [w for _, w in acts])[0](rng)

	def ending(self, rng):
		"""Leaves COPY, a failed batch and a transaction, whichever there is; mostly tidies up too."""
		made = [f(), S, Q("rollback")]
		how = rng.random()
		if how < 0.5:
			made += [C("S", name) for name in NAMES if name in self.params]
			made += [S, Q(f"reset all; delete from {self.table}")]
			self.params.clear()
		elif how < 0.6:
			made.append(Q("discard all"))
			self.params.clear()
		return made

	def sequence(self, rng):
		messages = []
		for _ in range(rng.randint(1, 4)):
			messages += self.act(rng)
		return self.cut(rng, spare_postgresql(messages)) + [Turn(self.client, tuple(self.ending(rng)), WHOLE)]

	def cut(self, rng, messages):
		"""Into turns: mostly where an answer can be waited for."""
		eager = rng.choice([0.2, 0.8, 1.0])
		turns, held = [], []
		for m in messages:
			held.append(m)
			if rng.random() < (eager if m.kind in "SQH" else 0.06):
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
