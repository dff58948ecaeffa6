"""The program under test, each time with a configuration, folder and port of its own.

PGWEIR_BIN names the program. Debian's pgbouncer may stand in for it while the
rig itself is worked on: `stand_in()` is true then, sections and settings that
it does not know are left out, and tests that need them say so.

PGWEIR_WORKERS sets `workers`. Sanitizer reports go to the pooler's folder;
`stop` fails when there is one, when an internal check failed, when the exit
status is not 0, and when the process was not the one we started.
"""

import glob
import os
import re
import shutil
import signal
import socket
import time

import psycopg

from . import process, raw
from .limits import SLOW, limit, until
from .postgres import PASSWORDS

CONSOLE_PASSWORDS = {"admin": "admin-secret-a", "stats": "stats-secret-b"}

BAD_TEXT = re.compile(r"ERROR: AddressSanitizer|runtime error:|WARNING: ThreadSanitizer|"
                      r"LeakSanitizer|AddressSanitizer:DEADLYSIGNAL|UndefinedBehaviorSanitizer|"
                      r"\bBUG(?::| in )|(?<!certificate )\bverify failed\b|Assertion .* failed|"
                      r"\bassertion\b.*failed")

# What the stand-in (pgbouncer 1.18) has never heard of, of the settings the rig itself writes.
NOT_OF_THE_STAND_IN = {"workers", "org_sources", "org_pattern", "org_required", "org_unknown",
                       "max_orgs", "org_guc", "state_dir", "max_prepared_statements",
                       "transaction_timeout", "query_wait_notify", "session_features"}


def program():
	"""The program as named; a relative path counts from the top of the source."""
	named = os.environ.get("PGWEIR_BIN")
	if named:
		return os.path.abspath(named)
	top = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
	for place in ("build/pgweir", "build/src/main/pgweir", "pgweir"):
		if os.access(f"{top}/{place}", os.X_OK):
			return f"{top}/{place}"
	raise AssertionError("no program to test: set PGWEIR_BIN, or build into build/")


def stand_in():
	return os.path.basename(program()).startswith("pgbouncer")


_copied = {}


def reachable_program():
	"""A copy that the children's account can reach, whatever folder the build is in."""
	path = program()
	if path not in _copied:
		folder = process.new_folder(prefix="pgweir-bin-")
		_copied[path] = shutil.copy(path, folder)
		os.chmod(_copied[path], 0o755)
	return _copied[path]


def forget_program():
	for path in _copied.values():
		process.remove(os.path.dirname(path))
	_copied.clear()


def pairs(values):
	"""A dict as a connection string; a string as it is."""
	if isinstance(values, str):
		return values
	def quoted(value):
		value = str(value)
		return value if re.fullmatch(r"[^\s'\\]+", value) else \
			"'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
	return " ".join(f"{key}={quoted(value)}" for key, value in values.items())


class Pooler:
	def __init__(self, pg=None, *, settings=None, databases=None, users=None, orgs=None,
	             clusters=None, routes=None, peers=None, userlist=None, heading=None, extra="",
	             env=None):
		self.pg = pg
		self.folder = process.new_folder(prefix="weir-")
		self.conf_path = f"{self.folder}/pgweir.ini"
		self.auth_path = f"{self.folder}/userlist.txt"
		self.log_path = f"{self.folder}/pgweir.log"
		self.stderr_path = f"{self.folder}/stderr"
		self.host = "127.0.0.1"
		self.port = process.free_port()
		self.socket_path = f"{self.folder}/.s.PGSQL.{self.port}"
		self.heading = heading or ("pgbouncer" if stand_in() else "pgweir")
		self.settings = {
			"listen_addr": self.host, "listen_port": self.port, "unix_socket_dir": self.folder,
			"logfile": self.log_path, "auth_type": "trust", "auth_file": self.auth_path,
			"admin_users": "admin", "stats_users": "stats", "server_tls_sslmode": "disable",
			"pool_mode": "transaction", "workers": os.environ.get("PGWEIR_WORKERS", "1"),
		}
		self.settings.update(settings or {})
		if databases is None:
			databases = {name: {} for name in ("app", "app2", "app3")}
		self.databases = {name: self.database(line) for name, line in databases.items()}
		self.users = users or {}
		self.orgs = orgs or {}
		self.clusters = clusters or {}
		self.routes = routes or {}
		self.peers = peers or {}
		self.userlist = {**PASSWORDS, **CONSOLE_PASSWORDS} if userlist is None else userlist
		self.extra = extra
		self.env = env or {}
		self.child = None
		self.expected_death = False
		self._clients = []
		self._console = None

	def database(self, line):
		"""Entries lead to our PostgreSQL unless they say otherwise."""
		if isinstance(line, str) or self.pg is None or "cluster" in line:
			return line
		return {"host": self.pg.host, "port": self.pg.port, **line}

	# --- its files

	def config(self):
		settings = dict(self.settings)
		if stand_in():
			settings = {k: v for k, v in settings.items() if k not in NOT_OF_THE_STAND_IN}
		lines = [f"[{self.heading}]"]
		lines += [f"{key} = {value}" for key, value in settings.items() if value is not None]
		for title in ("clusters", "databases", "users", "orgs", "routes", "peers"):
			rows = getattr(self, title)
			if rows and not (stand_in() and title in ("clusters", "orgs", "routes", "peers")):
				lines += ["", f"[{title}]"]
				lines += [f"{key} = {pairs(value)}" for key, value in rows.items()]
		return "\n".join(lines) + "\n" + self.extra

	def write(self):
		process.write_file(self.conf_path, self.config())
		if isinstance(self.userlist, dict):
			def quoted(word):
				return '"' + word.replace('"', '""') + '"'
			lines = [f"{quoted(name)} {quoted(word)}" for name, word in self.userlist.items()]
			process.write_file(self.auth_path, "\n".join(lines) + "\n")
		elif self.userlist is not False:
			process.write_file(self.auth_path, self.userlist)

	# --- its life

	def sanitizer_env(self):
		def with_log(name, ours):
			given = os.environ.get(name, "")
			return ":".join(part for part in (ours, given, f"log_path={self.folder}/san") if part)
		return {"ASAN_OPTIONS": with_log("ASAN_OPTIONS", "detect_stack_use_after_return=1"),
		        "UBSAN_OPTIONS": with_log("UBSAN_OPTIONS", "print_stacktrace=1"),
		        "TSAN_OPTIONS": with_log("TSAN_OPTIONS", "second_deadlock_stack=1"),
		        "LSAN_OPTIONS": os.environ.get("LSAN_OPTIONS", "")}

	def launch(self, *options):
		"""Start the process, and wait for nothing."""
		self.write()
		with open(self.stderr_path, "ab") as err:
			self.child = process.spawn(
				[reachable_program(), *options, self.conf_path], stdout=err, stderr=err,
				cwd=self.folder, env={**self.sanitizer_env(), **self.env})
		return self

	def start(self):
		self.launch()
		until("the pooler accepts connections", self.accepts, 10)
		return self

	def accepts(self):
		if self.child.poll() is not None:
			raise AssertionError(f"the pooler ended with {self.child.returncode} at its start:\n"
			                     f"{self.stderr()[-4000:]}\n{self.log()[-4000:]}")
		try:
			socket.create_connection((self.host, self.port), timeout=limit(1)).close()
			if self.settings.get("unix_socket_dir") == self.folder:
				with socket.socket(socket.AF_UNIX) as client:
					client.connect(self.socket_path)
			return True
		except OSError:
			return False

	def fails_to_start(self, seconds=5):
		"""For a bad configuration: the exit status, and all that was said about it."""
		self.launch()
		try:
			status = self.child.wait(limit(seconds))
		except Exception:
			self.child.kill()
			self.child.wait()
			raise AssertionError(f"it started all the same:\n{self.config()}") from None
		self.expected_death = True
		return status, self.stderr() + self.log()

	@property
	def pid(self):
		return self.child.pid

	def is_alive(self):
		return self.child is not None and self.child.poll() is None

	def signal(self, number):
		self.child.send_signal(number)

	def wait_end(self, seconds=5):
		"""Wait for an end that the test itself brought about; the exit status."""
		status = self.child.wait(limit(seconds))
		self.expected_death = True
		return status

	def stop(self):
		"""End it the polite way and hold it to account."""
		self.drop_clients()
		if self.child is None:
			return
		problems = []
		if self.is_alive():
			status = process.end(self.child, signal.SIGTERM, 10)
			if status is None:
				problems.append("SIGTERM without clients did not end the pooler within the limit")
			elif status != 0 and not (stand_in() and status == 1):
				problems.append(f"the pooler ended with status {status}")
		elif not self.expected_death:
			problems.append(f"the pooler had died, with status {self.child.returncode}")
		self.child = None
		problems += self.reports()
		assert not problems, "\n".join(problems)

	def reports(self):
		"""What sanitizers and internal checks have written."""
		found = []
		for path in [self.log_path, self.stderr_path, *glob.glob(f"{self.folder}/san*")]:
			if os.path.exists(path):
				with open(path, errors="replace") as lines:
					text = lines.read()
				match = BAD_TEXT.search(text)
				if match:
					at = max(0, match.start() - 200)
					found.append(f"{os.path.basename(path)} says:\n{text[at:at + 6000]}")
		return found

	def remove(self):
		process.remove(self.folder)

	# --- what it says

	def log(self, mark=0):
		try:
			with open(self.log_path, "rb") as log:
				log.seek(mark)
				return log.read().decode(errors="replace")
		except FileNotFoundError:
			return ""

	def mark(self):
		return os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0

	def wait_log(self, pattern, mark=0, seconds=2):
		"""Until a line of the log matches; gives the match."""
		try:
			return until(f"the log says /{pattern}/",
			             lambda: re.search(pattern, self.log(mark)), seconds)
		except AssertionError as failure:
			raise AssertionError(f"{failure}\nlog:\n{self.log(mark)[-3000:]}") from None

	def stderr(self):
		try:
			with open(self.stderr_path, errors="replace") as text:
				return text.read()
		except FileNotFoundError:
			return ""

	def code(self, sqlstate):
		"""The SQLSTATE that is right; the stand-in says 08P01 to everything."""
		return (sqlstate, "08P01") if stand_in() else (sqlstate,)

	def is_sanitized(self):
		with open(program(), "rb") as binary:
			text = binary.read()
		return b"__asan_init" in text or b"__tsan_init" in text

	def rss_kib(self):
		"""Resident memory. A sanitizer's allocator keeps what was freed and shadows the rest, so its builds always say 0 here:
		there the tests about memory look for crashes and leaks, and growth is judged in the default build only."""
		if self.is_sanitized():
			return 0
		with open(f"/proc/{self.pid}/status") as lines:
			for line in lines:
				if line.startswith("VmRSS:"):
					return int(line.split()[1])
		raise AssertionError("no VmRSS")

	def fd_count(self):
		return len(os.listdir(f"/proc/{self.pid}/fd"))

	# --- clients

	@property
	def address(self):
		return (self.host, self.port)

	def dsn(self, dbname="app", user="app", **more):
		words = {"host": self.host, "port": self.port, "dbname": dbname, "user": user,
		         "password": self.password(user), "sslmode": "disable",
		         "connect_timeout": max(2, int(limit(5))), **more}
		return psycopg.conninfo.make_conninfo(**{k: v for k, v in words.items() if v is not None})

	def password(self, user):
		return {**PASSWORDS, **CONSOLE_PASSWORDS}.get(user, "no-such-secret")

	def raw(self, database="app", user="app", *, password=None, unix=False, **more):
		"""A logged-in raw client, closed at the end of the test."""
		client = raw.Raw.login(self.socket_path if unix else self.address, user=user,
		                       database=database,
		                       password=self.password(user) if password is None else password,
		                       **more)
		self._clients.append(client)
		return client

	def open(self, *, unix=False, seconds=2.0):
		"""A raw connection that has said nothing yet."""
		client = raw.Raw(self.socket_path if unix else self.address, seconds=seconds)
		self._clients.append(client)
		return client

	def refusal(self, database="app", user="app", **more):
		"""The error that this login gets; a login that succeeds is a failure."""
		try:
			self.raw(database, user, **more)
		except raw.ServerError as refused:
			return refused
		raise AssertionError(f"{user} was let into {database}")

	def connect(self, dbname="app", user="app", *, autocommit=True, **more):
		"""A psycopg 3 connection, closed at the end of the test."""
		client = psycopg.connect(self.dsn(dbname, user, **more), autocommit=autocommit)
		self._clients.append(client)
		return client

	def keep(self, client):
		"""Close this one, too, at the end of the test."""
		self._clients.append(client)
		return client

	def drop_clients(self):
		if self._console:
			self._console.close()
			self._console = None
		for client in self._clients:
			try:
				client.close()
			except Exception:
				pass
		self._clients.clear()

	def cancel(self, key, **more):
		return raw.send_cancel(self.address, key, **more)

	# --- the console

	@property
	def console_name(self):
		return "pgbouncer" if stand_in() else "pgweir"

	def console(self, user="admin", database=None):
		return self.raw(database or self.console_name, user)

	def admin(self, command, seconds=5):
		"""Run a console command as the admin; its rows as dicts with whole numbers as int."""
		if self._console is None:
			self._console = raw.Raw.login(self.address, user="admin", database=self.console_name,
			                              password=self.password("admin"))
		client = self._console
		client.fields, client.types = [], []
		try:
			rows = client.query(command, seconds)
		except (raw.Closed, OSError):
			self._console = None
			raise
		def typed(value, oid):
			return int(value) if value is not None and oid in (20, 21, 23) else value
		return [dict(zip(client.fields, map(typed, values, client.types))) for values in rows]

	def show(self, what, **where):
		"""Rows of a SHOW that have these values."""
		return [row for row in self.admin(f"SHOW {what}")
		        if all(row.get(key) == value for key, value in where.items())]

	def pool(self, database="app", user="app", **where):
		"""The row of SHOW POOLS, or one of zeros for a pool that is not there."""
		rows = self.show("POOLS", database=database, user=user, **where)
		return rows[0] if rows else dict.fromkeys(
			["cl_active", "cl_waiting", "sv_active", "sv_idle", "sv_used", "sv_login"], 0)

	def wait_pool(self, database="app", user="app", *, seconds=2, org=None, **numbers):
		"""Until SHOW POOLS says these numbers of the pool."""
		where = {"org": org} if org else {}
		def is_so():
			row = self.pool(database, user, **where)
			return all(row[key] == value for key, value in numbers.items())
		until(f"pool {database}/{user} has {numbers}", is_so, seconds)

	def reload(self):
		"""Write the files as the attributes say now, and RELOAD by the console."""
		self.write()
		return self.admin("RELOAD")

	# --- at rest

	def login_until(self, end, user, entry):
		"""A place may still be held by a client whose end another worker has not seen yet: that has the same two seconds."""
		while True:
			try:
				return raw.Raw.login(self.address, user=user, database=entry, password=self.password(user),
				                     seconds=max(0.5, (end - time.monotonic()) / SLOW))
			except raw.ServerError as refused:
				if refused.sqlstate != "53300" or time.monotonic() > end:
					raise

	def assert_clean(self):
		"""After a test: it serves, nothing waits, nothing is stuck, caps are kept."""
		self.drop_clients()
		pid = self.pid
		entry = "app" if "app" in self.databases or "*" in self.databases else \
			next(iter(self.databases), None)
		assert self.is_alive(), "the pooler is dead"
		if entry and self.pg and self.pg.child:
			user = "app"
			end = time.monotonic() + limit(2)
			for tag in range(21):
				with self.login_until(end, user, entry) as client:
					assert client.value(f"select {tag}") == str(tag)
					client.send(raw.X)
			until("no session is active or idle in transaction",
			      lambda: not self.pg.count("state in ('active', 'idle in transaction', "
			                                "'idle in transaction (aborted)')"), 2)
		until("nobody waits and no server is active",
		      lambda: all(row["cl_waiting"] == 0 and row["sv_active"] == 0
		                  for row in self.admin("SHOW POOLS")), 2)
		assert self.is_alive() and self.pid == pid
