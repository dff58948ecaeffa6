"""The walk-through of docs/moving-an-org.md, step by step, on two servers and under load.

What is typed in here must stand in the document, and what stands there must be typed in here.
"""

import os
import re
import subprocess

import pytest

from rig.limits import limit, until
from rig.load import start_pgbench
from rig.postgres import BIN, superuser
from rig.raw import ServerError

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.pgweir("routes")]

DOC = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2, "docs/moving-an-org.md"))
CONFIG = re.compile(r"\[|(\*|\w+) = ")
OLD, NEW = "10.0.0.1", "10.0.1.1"


class Walk:
	def __init__(self, weir, old, new):
		self.weir, self.servers = weir, {OLD: old, NEW: new}
		with open(DOC) as file:
			lines = [line[4:].rstrip("\n") for line in file if line.startswith("    ")]
		self.left = [line for line in lines if line and not CONFIG.match(line)]
		self.text = "\n".join(lines)

	def says(self, line):
		assert line in self.left, f"the document does not say here: {line}"
		self.left.remove(line)
		return line

	def config(self, line):
		assert line in self.text.split("\n"), f"the document does not have the line: {line}"
		key, value = line.split(" = ", 1)
		for host, server in self.servers.items():
			value = value.replace(f"host={host}", f"host={server.host} port={server.port}")
		return key, value

	def console(self, line):
		return self.weir.admin(self.says(line), seconds=30)

	def sql(self, host, line):
		return self.servers[host].sql(self.says(line), dbname="app")

	def shell(self, line):
		"""As it stands there, but for addresses and the name of the superuser."""
		command = self.says(line)
		for host, server in self.servers.items():
			command = command.replace(f"-h {host}", f"-h {server.host} -p {server.port}")
		command = command.replace("-U postgres", f"-U {superuser()}")
		done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True,
		                      env={"PATH": f"{BIN}:/usr/bin:/bin"}, timeout=limit(60))
		return done


@pytest.fixture
def start(own_pg, pooler):
	def make(workers):
		old, new = own_pg(), own_pg()
		for line in ["create schema acme", "create table acme.orders (id bigserial primary key, at int)",
		             "grant all on schema acme to public", "grant all on all tables in schema acme to public",
		             "grant all on all sequences in schema acme to public"]:
			old.sql(line, dbname="app")
		weir = pooler(databases={}, settings={"workers": workers, "hot_period": 1}, start=False)
		weir.settings["state_dir"] = weir.folder
		walk = Walk(weir, old, new)
		weir.databases = dict([walk.config("app = host=10.0.0.1 dbname=app")])
		weir.orgs = dict(walk.config(line) for line in ("* = pool_size=5", "acme = pool_size=20"))
		weir.start()
		return walk

	return make


def orders(server):
	return server.value("select count(*) from acme.orders", dbname="app")


def load_on(weir, script):
	"""The org at work, and the others."""
	org = start_pgbench(weir, script, clients=8, seconds=int(limit(18)), database="dbname=app options='-c org_id=acme'", more=["-j", "8"])
	return [org, start_pgbench(weir, "select 1;\n", clients=4, seconds=int(limit(18)))]


def ended_well(benches):
	for bench in benches:
		said, _ = bench.communicate(timeout=limit(40))
		assert bench.returncode == 0 and "aborted" not in said, said


def goes_on_at(server):
	before = orders(server)
	until("the org writes there", lambda: orders(server) > before + 20, 10)


def make_the_new_place(walk):
	walk.says("SHOW HOT_ORGS")
	until("it is measured", lambda: walk.weir.show("HOT_ORGS", org="acme"), 10)
	walk.shell("pg_dumpall -h 10.0.0.1 -U postgres --roles-only | psql -h 10.0.1.1 -U postgres")
	walk.says("createdb -h 10.0.1.1 -U postgres app")  # the rig's has it
	walk.weir.databases.update([walk.config("app_acme = host=10.0.1.1 dbname=app")])
	walk.weir.write()
	walk.console("RELOAD")
	assert int(walk.weir.raw("app_acme", seconds=limit(10)).value("show port")) == walk.servers[NEW].port


def copy(walk, source, target):
	done = walk.shell(f"pg_dump -h {source} -U postgres --schema=acme app | psql -h {target} -U postgres -v ON_ERROR_STOP=1 -1 app")
	assert done.returncode == 0, done.stderr
	assert orders(walk.servers[source]) == orders(walk.servers[target])


def reroute(walk):
	walk.weir.routes = dict([walk.config("acme = org=acme entry=app to=app_acme")])
	walk.weir.write()
	walk.console("RELOAD")
	walk.console("RESUME ORG acme")


def verify(walk, written):
	walk.says("SHOW ROUTES")
	until("nothing runs at the old place", lambda: [row["old_running"] for row in walk.weir.show("ROUTES")] == [0], 5)
	assert walk.weir.show("ROUTES")[0]["clients"] >= 1
	until("it has no other pool", lambda: {pool["database"] for pool in walk.weir.show("POOLS", org="acme")} == {"app_acme"}, 5)
	walk.sql(OLD, "SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE schemaname = 'acme'")
	assert orders(walk.servers[OLD]) == written


@pytest.mark.parametrize("workers", [1, 4])
def test_the_walk_through_moves_an_org_that_writes_there_and_back(start, workers):
	walk = start(workers)
	weir, old, new = walk.weir, walk.servers[OLD], walk.servers[NEW]
	load = load_on(weir, "begin;\ninsert into acme.orders (at) values (current_setting('port')::int);\nselect 1;\nend;\n")
	goes_on_at(old)
	make_the_new_place(walk)
	walk.says("FREEZE ORG acme")  # the other way, see below
	walk.console("PAUSE ORG acme")
	written = orders(old)
	copy(walk, OLD, NEW)
	reroute(walk)
	goes_on_at(new)
	verify(walk, written)
	walk.console("PAUSE ORG acme")
	walk.sql(OLD, "ALTER SCHEMA acme RENAME TO acme_before")
	copy(walk, NEW, OLD)
	written = orders(new)
	weir.routes = {}
	weir.write()
	walk.console("RELOAD")
	walk.console("RESUME ORG acme")
	goes_on_at(old)
	assert orders(new) == written
	ended_well(load)
	places = old.sql("select at, count(*) from acme.orders group by at", dbname="app")
	assert {at for at, _ in places} == {old.port, new.port}
	walk.sql(OLD, "DROP SCHEMA acme CASCADE")
	assert walk.left == []


def test_a_frozen_org_reads_through_the_move_and_its_writes_are_refused(start):
	walk = start(4)
	weir, old, new = walk.weir, walk.servers[OLD], walk.servers[NEW]
	load = load_on(weir, "select count(*) from acme.orders;\n")
	writer = weir.raw(params={"x-org-id": "acme"}, seconds=limit(10))
	write = "insert into acme.orders (at) values (current_setting('port')::int)"
	for _ in range(30):
		writer.query(write)
	make_the_new_place(walk)
	walk.console("FREEZE ORG acme")
	with pytest.raises(ServerError) as refused:
		writer.query(write)
	assert refused.value.sqlstate == "25006"
	copy(walk, OLD, NEW)
	assert orders(new) == 30
	reroute(walk)
	writer.query(write)
	assert orders(new) == 31
	verify(walk, 30)
	ended_well(load)
