"""A throwaway PostgreSQL: own folder, own port, gone at the end of the run.

A cluster is made once per run with all roles, databases and tables of the
tests and then copied, since initdb costs more than all the rest. Most tests
share one server; whoever breaks a server makes one of his own.

Roles and how the server lets them in over TCP:
	app app2 app3 tight    trust
	scram_u            scram-sha-256
	md5_u              md5
	plain_u            password (clear text)
	tls_u              trust, over TLS only
	lookup             trust; may read passwords by public.lookup(text)
	missing            not a role at all
"""

import glob
import os
import signal
import subprocess

import psycopg

from . import process
from .limits import until

BIN = os.environ.get("PGWEIR_TEST_PGBIN") or (sorted(glob.glob("/usr/lib/postgresql/*/bin")) or
                                              [""])[-1]

PASSWORDS = {
	"app": "app-secret-1", "app2": "app2-secret-2", "app3": "app3-secret-3",
	"tight": "tight-secret-9",
	"scram_u": "scram-secret-4", "md5_u": "md5-secret-5", "plain_u": "plain-secret-6",
	"tls_u": "tls-secret-7", "lookup": "lookup-secret-8",
}

DATABASES = ["app", "app2", "app3"]

SETUP = [
	*(f"CREATE ROLE {name} LOGIN PASSWORD '{word}'" for name, word in PASSWORDS.items()
	  if name != "md5_u"),
	"SET password_encryption = md5",
	f"CREATE ROLE md5_u LOGIN PASSWORD '{PASSWORDS['md5_u']}'",
	*(f"CREATE DATABASE {name} OWNER app" for name in DATABASES),
]

SETUP_EACH = [
	"GRANT ALL ON SCHEMA public TO PUBLIC",
	"CREATE TABLE ct (id int primary key, v text)",
	"CREATE TABLE t (x int)",
	"CREATE TABLE ins (x int)",
	"CREATE TABLE big (n int, v text)",
	"GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC",
	"""CREATE FUNCTION public.lookup(name text, OUT usename name, OUT passwd text)
		RETURNS SETOF record LANGUAGE sql SECURITY DEFINER AS
		'SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1 AND rolcanlogin'""",
]

HBA = """
local   all  all                                    trust
hostssl all  tls_u                    127.0.0.1/32  trust
host    all  tls_u                    127.0.0.1/32  reject
host    all  scram_u                  127.0.0.1/32  scram-sha-256
host    all  md5_u                    127.0.0.1/32  md5
host    all  plain_u                  127.0.0.1/32  password
host    all  all                      127.0.0.1/32  trust
host    replication all               127.0.0.1/32  trust
"""


def superuser():
	return "postgres"


def make_template(folder):
	"""The cluster that all others are copied from."""
	process.run_as_account([f"{BIN}/initdb", "-D", folder, "-U", superuser(), "-A", "trust",
	                        "--no-sync", "--no-instructions", "-E", "UTF8", "--locale=C.UTF-8"])
	def single(database, statements):
		process.run_as_account([f"{BIN}/postgres", "--single", "-j", "-F", "-D", folder, database],
		                       stdin=";\n\n".join(statements) + ";\n\n")
	single("postgres", SETUP)
	for name in ["postgres", *DATABASES]:
		single(name, SETUP_EACH)


class Postgres:
	_template = None

	def __init__(self, *, max_connections=100, settings=None, hba=HBA, certs=None, name="pg"):
		self.folder = process.new_folder(prefix=f"{name}-")
		self.data = f"{self.folder}/data"
		self.log_path = f"{self.folder}/log"
		self.port = process.free_port()
		self.host = "127.0.0.1"
		self.socket_dir = self.folder
		self.settings = {
			"port": self.port, "listen_addresses": "127.0.0.1",
			"unix_socket_directories": self.folder,
			"max_connections": max_connections, "fsync": "off", "full_page_writes": "off",
			"synchronous_commit": "off", "shared_buffers": "32MB", "autovacuum": "off",
			"max_wal_size": "4GB", "log_line_prefix": "%m [%p] %u@%d ", "log_connections": "off",
			"superuser_reserved_connections": 3, "timezone": "UTC", "log_timezone": "UTC",
			"max_wal_senders": 2, "max_worker_processes": 2, "bgwriter_delay": "10s",
			"max_prepared_transactions": 4, "lc_messages": "C",
		}
		if certs:
			self.settings.update({"ssl": "on", "ssl_cert_file": certs.server_cert,
			                      "ssl_key_file": certs.server_key, "ssl_ca_file": certs.ca})
		self.settings.update(settings or {})
		self.hba = hba
		self.child = None
		self._sql = {}

	# --- its life

	@classmethod
	def template(cls):
		if cls._template is None:
			folder = process.new_folder(prefix="pg-template-")
			make_template(f"{folder}/data")
			cls._template = folder
		return f"{cls._template}/data"

	@classmethod
	def forget_template(cls):
		if cls._template:
			process.remove(cls._template)
			cls._template = None

	def start(self):
		if not os.path.isdir(self.data):
			template = self.template()
			process.run_as_account(["cp", "-a", "--reflink=auto", template, self.data])
		self.write_hba()
		lines = [f"{key} = '{value}'" for key, value in self.settings.items()]
		process.write_file(f"{self.data}/postgresql.auto.conf", "\n".join(lines) + "\n")
		with open(self.log_path, "ab") as log:
			self.child = process.spawn([f"{BIN}/postgres", "-D", self.data], stdout=log, stderr=log)
		until("PostgreSQL answers", self.answers, 20)
		return self

	def answers(self):
		if self.child.poll() is not None:
			raise AssertionError(f"PostgreSQL ended with {self.child.returncode}:\n{self.log()[-4000:]}")
		try:
			psycopg.connect(self.dsn(), connect_timeout=2).close()
			return True
		except psycopg.OperationalError:
			return False

	def stop(self, how=signal.SIGINT):
		"""SIGINT is PostgreSQL's fast shutdown, SIGQUIT its immediate one."""
		self.drop_own()
		if self.child:
			self.resume()
			status = process.end(self.child, how, 20)
			self.child = None
			return status
		return 0

	def restart(self, how=signal.SIGINT):
		self.stop(how)
		self.start()

	def kill(self):
		"""kill -9 of the postmaster; its children notice and end by themselves."""
		self.drop_own()
		self.child.kill()
		self.child.wait()
		self.child = None
		until("the orphans of PostgreSQL have gone", lambda: not self.has_orphans(), 20)

	def has_orphans(self):
		found = subprocess.run(["pgrep", "-f", f"postgres -D {self.data}"], capture_output=True)
		pid_file = f"{self.data}/postmaster.pid"
		if found.returncode != 0 and os.path.exists(pid_file):
			# The shared memory segment of the dead postmaster is given up with its last child.
			os.unlink(pid_file)
		return found.returncode == 0

	def pause(self):
		"""A server that takes connections (by its kernel) and never answers."""
		os.kill(self.child.pid, signal.SIGSTOP)

	def resume(self):
		if self.child and self.child.poll() is None:
			os.kill(self.child.pid, signal.SIGCONT)

	def remove(self):
		self.stop()
		process.remove(self.folder)

	# --- its settings

	def write_hba(self, text=None):
		if text is not None:
			self.hba = text
		process.write_file(f"{self.data}/pg_hba.conf", self.hba)

	def reload(self):
		self.sql("select pg_reload_conf()")

	# --- asking it

	@property
	def address(self):
		return (self.host, self.port)

	def dsn(self, dbname="postgres", user=None):
		return (f"host={self.socket_dir} port={self.port} user={user or superuser()} "
		        f"dbname={dbname} application_name=rig")

	def sql(self, query, params=None, *, dbname="postgres"):
		"""Ask past the pooler, as the superuser. Rows, or None where there are none."""
		connection = self._sql.get(dbname)
		if connection is None or connection.closed:
			connection = self._sql[dbname] = psycopg.connect(
				self.dsn(dbname), autocommit=True, cursor_factory=psycopg.ClientCursor)
		cursor = connection.execute(query, params)
		return cursor.fetchall() if cursor.description else None

	def connect(self, dbname="postgres", user=None):
		"""A connection of the test's own, for a transaction that stays open."""
		return psycopg.connect(self.dsn(dbname, user))

	def value(self, query, params=None, *, dbname="postgres"):
		return self.sql(query, params, dbname=dbname)[0][0]

	def drop(self, dbname):
		"""A database that a test made."""
		own = self._sql.pop(dbname, None)
		if own:
			own.close()
		self.sql(f"drop database {dbname} with (force)")

	def drop_own(self):
		for connection in self._sql.values():
			connection.close()
		self._sql.clear()

	def sessions(self, where="true", *params):
		"""Rows of pg_stat_activity that are not the rig's own."""
		rows = self.sql("select pid, usename, datname, state, application_name, query, client_port "
		                "from pg_stat_activity where backend_type = 'client backend' "
		                f"and application_name <> 'rig' and ({where}) order by pid", params)
		keys = ["pid", "user", "database", "state", "application_name", "query", "port"]
		return [dict(zip(keys, values)) for values in rows]

	def count(self, where="true", *params):
		return len(self.sessions(where, *params))

	def end_sessions(self):
		"""Terminate all sessions but the rig's own."""
		for row in self.sessions():
			self.sql("select pg_terminate_backend(%s)", [row["pid"]])
		self.wait_empty()

	def wait_empty(self, seconds=5):
		"""Until no session but the rig's own is left."""
		until("PostgreSQL has no session of ours left", lambda: self.count() == 0, seconds)

	# --- its log

	def mark(self):
		"""A place in the log to look on from."""
		return os.path.getsize(self.log_path)

	def log(self, mark=0):
		with open(self.log_path, "rb") as log:
			log.seek(mark)
			return log.read().decode(errors="replace")
