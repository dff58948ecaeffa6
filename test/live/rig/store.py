"""The control store, installed as its users install it, and called as pgweir's instances call it: with text parameters.

	store = Store(server, "name")          a database of its own, with the store in it
	store.ask("cutover", "main", 1)        the one row, by a login that is nothing but a member of pgweir
	store.rows("claim", "main", "w", role="drain")
	store.later(15)                        the store's clock, which stands still otherwise
"""

import os

import psycopg
from psycopg import sql
from psycopg.rows import namedtuple_row

from . import process
from .limits import limit

ETC = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3, "etc"))

# A login for each role, and one that has none of them.
LOGINS = {"pgweir": "store_node", "drain": "store_drain", "app": "store_app", "nobody": "store_nobody"}
MEMBER_OF = {"pgweir": "pgweir", "drain": "pgweir_drain", "app": "pgweir_app"}


def install(server, dbname, name="control-store", *, user=None, check=True):
	"""One psql command."""
	return process.run(["psql", "-X", "-q", "-d", server.dsn(dbname, user), "-f", f"{ETC}/sql/{name}.sql"], check=check)


def make_logins(server):
	for name, login in LOGINS.items():
		if not server.sql("select 1 from pg_roles where rolname = %s", [login]):
			server.sql(f"create role {login} login")
			if name in MEMBER_OF:
				server.sql(f"grant {MEMBER_OF[name]} to {login}")


class Store:
	def __init__(self, server, dbname):
		self.server = server
		self.dbname = dbname
		if not server.sql("select 1 from pg_database where datname = 'store_template'"):
			server.sql("create database store_template")
			install(server, "store_template")
			make_logins(server)
		server.sql(f"create database {dbname} template store_template")
		self._connections = {}

	def dsn(self, role):
		return self.server.dsn(self.dbname, LOGINS.get(role, role))

	def connect(self, role="pgweir", **how):
		"""A new connection, for a thread of its own or an open transaction. It never hangs."""
		return psycopg.connect(self.dsn(role), row_factory=namedtuple_row, options=f"-c statement_timeout={limit(20)}s",
		                       **{"autocommit": True, **how})

	def rows(self, function, *values, role="pgweir", on=None):
		if on is None:
			on = self._connections.get(role)
			if on is None or on.closed:
				on = self._connections[role] = self.connect(role)
		texts = [None if value is None else str(value) for value in values]
		call = sql.SQL("select * from pgweir.{}({})").format(sql.Identifier(function),
		                                                      sql.SQL(", ").join([sql.Placeholder()] * len(texts)))
		return on.execute(call, texts).fetchall()

	def ask(self, function, *values, role="pgweir", on=None):
		found = self.rows(function, *values, role=role, on=on)
		assert len(found) == 1, found
		return found[0]

	def sql(self, query, params=None):
		"""As the superuser."""
		return self.server.sql(query, params, dbname=self.dbname)

	def value(self, query, params=None):
		return self.sql(query, params)[0][0]

	# --- its clock

	def stop_clock(self):
		self.sql("""create table pgweir.stopped (at timestamptz);
			alter table pgweir.stopped owner to pgweir_owner;
			insert into pgweir.stopped values ('2030-01-01 00:00:00+00');
			create or replace function pgweir.clock() returns timestamptz
				language sql volatile security definer as 'select at from pgweir.stopped'""")
		return self

	def later(self, seconds):
		self.sql("update pgweir.stopped set at = at + %s * interval '1 s'", [seconds])

	# --- what most tests begin with

	def poll(self, node="node-1", *, lease_ms=5000, cluster="main", on=None):
		"""One node, one cluster: says what it was told last, and gives (epoch, state) of what it is told now."""
		told = getattr(self, "_told", None)
		if told is None:
			told = self._told = {}
		epoch, state = told.get((node, cluster), (0, "NONE"))
		answer = self.ask("poll", node, lease_ms, f"{cluster} {epoch} {state}", on=on)
		words = answer.clusters.split(" ")
		told[node, cluster] = (int(words[1]), words[2])
		return told[node, cluster]

	def enqueue(self, key, kind="pay", payload="{}", cluster="main", **how):
		return self.ask("enqueue", cluster, key, kind, payload, role="app", **how)

	def claim(self, worker="worker", lease_s=60, at_most=1, cluster="main", **how):
		return self.rows("claim", cluster, worker, lease_s, at_most, role="drain", **how)

	def close(self):
		for connection in self._connections.values():
			connection.close()
		self.server.drop(self.dbname)
