"""What the Python programs of this folder have in common: arguments, the checker, the tally, the threads.

A Ledger knows what one worker has written and committed. A Session knows what one connection has set. A Work has the
acts of one worker, as methods named act_<name>; a driver's program subclasses it. README.md describes the acts.
"""

import collections
import contextlib
import hashlib
import json
import os
import random
import sys
import threading
import time
import traceback

POOL = 3
ALPHABET = "abcdefghijklmnopqrstuvwxyz'\"$;:,.é "
ZONES = {"UTC": ("12:00:00", "+00", "UTC"), "America/New_York": ("08:00:00", "-04", "EDT"),
         "Asia/Kolkata": ("17:30:00", "+05:30", "IST")}
STYLES = ["ISO, MDY", "German, DMY", "SQL, DMY"]
PATHS = ['"$user", public', "pools, public", "public, pools"]
LIMITS = ["0", "5min", "400s"]
WHO = ("select current_setting('application_name'), current_setting('TimeZone'), current_setting('DateStyle'), "
       "'2020-07-01 12:00:00+00'::timestamptz::text, current_setting('search_path'), "
       "current_setting('statement_timeout'), coalesce(current_setting('app.who', true), '')")


class Wrong(Exception):
	"""A value that is not what it must be."""


def same(got, want, what):
	if got != want:
		raise Wrong(f"{what}: got {str(got)[:500]!r}, want {str(want)[:500]!r}")


class Arguments:
	def __init__(self, driver):
		host, port, database, password, seconds, seed, orgs, workers = sys.argv[1:9]
		self.driver = driver
		self.host, self.port = host, int(port)
		self.database, self.password = database, password
		self.seconds, self.seed = float(seconds), int(seed)
		self.orgs = [f"o{n + 1}" for n in range(int(orgs))]
		self.workers = int(workers)

	def application_name(self, org):
		return f"app:org={org}:{self.driver}"


class Session:
	"""The settings of one connection, as its user knows them."""

	def __init__(self, name, zone="UTC", style="ISO, MDY", path=PATHS[0], limit="0", who=""):
		self.name, self.zone, self.style, self.path, self.limit, self.who = name, zone, style, path, limit, who

	def other(self, rng):
		"""Settings to change to; the part of the name that tells the org stays."""
		app, org, _ = self.name.split(":")
		return Session(f"{app}:{org}:{rng.randrange(1000)}'x", rng.choice(list(ZONES)), rng.choice(STYLES),
		               rng.choice(PATHS), rng.choice(LIMITS), f"{rng.randrange(1000)}")

	def become(self, other):
		self.__dict__.update(other.__dict__)

	def commands(self, local=""):
		"""The SETs that lead here."""
		name = self.name.replace("'", "''")
		return [f"set {local} application_name = '{name}'", f"set {local} TimeZone to '{self.zone}'",
		        f"set {local} datestyle = {self.style}", f"set {local} search_path to {self.path}",
		        f"set {local} statement_timeout to '{self.limit}'", f"set {local} app.who to '{self.who}'"]

	def row(self):
		"""What WHO answers."""
		hour, offset, zone = ZONES[self.zone]
		instant = {"ISO, MDY": f"2020-07-01 {hour}{offset}", "German, DMY": f"01.07.2020 {hour} {zone}",
		           "SQL, DMY": f"01/07/2020 {hour} {zone}"}[self.style]
		return (self.name, self.zone, self.style, instant, self.path, self.limit, self.who)


def holds(worker):
	"""What stays with the session from one transaction to the next: statements, and what they answer if they do, four times."""
	k = int(hashlib.md5(worker.encode()).hexdigest()[:7], 16)
	locks = f"select count(*)::text from pg_locks where locktype = 'advisory' and objid = {k}"
	return [
		[(f"create temp table mine as select '{worker}'::text as w, n from generate_series(1, 5) n", None),
		 (f"insert into mine values ('{worker}', 6)", None),
		 ("select count(*)::text, min(w), max(w) from mine", [("6", worker, worker)]),
		 ("drop table mine", None)],
		[(f"select pg_advisory_lock({k})::text", [("",)]), (locks, [("1",)]),
		 (f"select pg_advisory_unlock({k})::text", [("true",)]), (locks, [("0",)])],
		[(f"prepare mine (int) as select ($1 + {k})::text", None), ("execute mine (1)", [(f"{k + 1}",)]),
		 ("execute mine (2)", [(f"{k + 2}",)]), ("deallocate mine", None)],
		[("declare mine cursor with hold for select n::text from generate_series(1, 5) n", None),
		 ("fetch 2 from mine", [("1",), ("2",)]), ("fetch 2 from mine", [("3",), ("4",)]), ("close mine", None)],
	]


class Ledger:
	"""All that one worker has committed."""

	def __init__(self, worker, org, rng):
		self.worker, self.org, self.rng = worker, org, rng
		self.counter = 0
		self.next = 1
		self.rows = {}

	def sum(self, n, body):
		return hashlib.md5(f"{self.worker}|{n}|{body}".encode()).hexdigest()

	def text(self, length):
		return "".join(self.rng.choice(ALPHABET) for _ in range(length))

	def new_row(self, ahead=0):
		"""The next row, or one further on, as its columns."""
		n = self.next + ahead
		body = self.text(self.rng.randrange(60))
		if self.rng.random() < 0.02:
			body = body * 300 + "."
		return (self.worker, n, self.org, body, self.sum(n, body))

	def new_rows(self, count):
		return [self.new_row(ahead) for ahead in range(count)]

	def keep(self, *rows):
		"""These are committed."""
		for row in rows:
			self.rows[row[1]] = tuple(row)
			self.next = max(self.next, row[1] + 1)

	def oldest(self):
		"""The number up to which rows are to be deleted, and those numbers."""
		last = sorted(self.rows)[-10:][:1]
		return (last[0], sorted(n for n in self.rows if n <= last[0])) if last else (0, [])

	def drop(self, numbers):
		for n in numbers:
			del self.rows[n]

	def check(self, rows):
		"""Compare rows as read, in the order of n."""
		rows = [tuple(row) for row in rows]
		same([row[1] for row in rows], sorted(self.rows), "numbers of the rows")
		for row in rows:
			same(row, self.rows[row[1]], "row")

	def account(self):
		digest = "".join(f"{n}:{self.rows[n][4]};" for n in sorted(self.rows))
		return {"worker": self.worker, "org": self.org, "counter": self.counter, "rows": len(self.rows),
		        "digest": hashlib.md5(digest.encode()).hexdigest()}


class Tally:
	"""Counts of all workers, and the one signal to stop."""

	def __init__(self):
		self.lock = threading.Lock()
		self.acts = collections.Counter()
		self.errors = collections.Counter()
		self.transactions = 0
		self.faults = []

	def count(self, act, transactions):
		with self.lock:
			self.acts[act] += 1
			self.transactions += transactions

	def error(self, code):
		with self.lock:
			self.errors[code] += 1

	def fault(self, text):
		with self.lock:
			self.faults.append(text)


class Work:
	"""One worker. code_of is the driver's way to read the SQLSTATE of an error."""

	errors = ()

	def __init__(self, arguments, tally, org, place):
		self.arguments, self.tally, self.org, self.place = arguments, tally, org, place
		name = f"{arguments.database}-{org}-{place}"
		self.rng = random.Random(f"{arguments.seed}/{name}")
		self.ledger = Ledger(name, org, self.rng)
		self.done = 0

	def code_of(self, error):
		return error.sqlstate

	@contextlib.contextmanager
	def expect(self, *codes):
		"""The block must fail with one of these SQLSTATEs."""
		try:
			yield
		except self.errors as error:
			if self.code_of(error) not in codes:
				raise
			self.tally.error(self.code_of(error))
		else:
			raise Wrong(f"no error where {' or '.join(codes)} was due")

	def acts(self):
		return [name[4:] for name in dir(self) if name.startswith("act_")]

	def plan(self, end):
		"""Names of acts: each of them once, then any until the time is over, and a last look."""
		acts = self.acts()
		self.rng.shuffle(acts)
		yield from acts
		likely = [name for name in acts for _ in range(1 if name in ("cancel", "timeout", "leave", "large") else 6)]
		while time.monotonic() < end and not self.tally.faults:
			yield self.rng.choice(likely)
		yield "look"

	def blame(self, act):
		self.tally.fault(f"{self.ledger.worker}, act {act} (number {self.done}), seed {self.arguments.seed}:\n"
		                 f"{traceback.format_exc()}")

	def run(self, end):
		act = "begin"
		try:
			self.begin()
			for act in self.plan(end):
				if self.tally.faults:
					break
				self.done += 1
				self.tally.count(act, getattr(self, f"act_{act}")() or 1)
			act = "finish"
			self.finish()
		except BaseException:
			self.blame(act)

	def begin(self):
		"""Insert the counter."""
		raise NotImplementedError

	def finish(self):
		"""Give back what this worker holds."""


def report(tally, works):
	"""The last word of a program; gives its exit status."""
	if tally.faults:
		print("\n\n".join(tally.faults[:3]), file=sys.stderr)
		print(f"{len(tally.faults)} faults", file=sys.stderr)
		return 1
	print(json.dumps({"acts": tally.acts, "transactions": tally.transactions, "errors": tally.errors,
	                  "workers": [work.ledger.account() for work in works]}))
	return 0


def run_threads(arguments, works, tally):
	"""Run all works, each in a thread, and end the program."""
	end = time.monotonic() + arguments.seconds
	threads = [threading.Thread(target=work.run, args=(end,), daemon=True) for work in works]
	for thread in threads:
		thread.start()
	# A worker that hangs is a fault as well: where it hangs is what we want to know.
	patience = end + float(os.environ.get("PGWEIR_SLOW", "1")) * 20
	for thread in threads:
		thread.join(max(0.1, patience - time.monotonic()))
	frames = sys._current_frames()
	for thread, work in zip(threads, works):
		if thread.is_alive():
			stack = "".join(traceback.format_stack(frames[thread.ident])) if thread.ident in frames else ""
			tally.fault(f"{work.ledger.worker} hangs, seed {arguments.seed}:\n{stack}")
	status = report(tally, works)
	sys.stdout.flush()
	sys.stderr.flush()
	os._exit(status)
