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


@pytest.mark.parametrize("workers", [1, 4])
def test_the_walk_through_moves_an_org_under_load_there_and_back(own_pg, pooler, workers):
	old, new = own_pg(), own_pg()
	old.sql("create schema acme", dbname="app")
	old.sql("create table acme.orders (id bigserial primary key, at int)", dbname="app")
	old.sql("grant all on schema acme to public", dbname="app")
	old.sql("grant all on all tables in schema acme to public", dbname="app")
	old.sql("grant all on all sequences in schema acme to public", dbname="app")
	weir = pooler(settings={"workers": workers}, databases={}, start=False)
	walk = Walk(weir, old, new)
	weir.settings.update({"state_dir": weir.folder, "hot_period": 1})
	weir.databases = dict([walk.config("app = host=10.0.0.1 dbname=app")])
	weir.orgs = dict(walk.config(line) for line in ("* = pool_size=5", "acme = pool_size=20"))
	weir.start()
	script = "begin;\ninsert into acme.orders (at) values (current_setting('port')::int);\nselect 1;\nend;\n"
	load = start_pgbench(weir, script, clients=8, seconds=12, database="dbname=app options='-c org_id=acme'", more=["-j", "8"])
	rest = start_pgbench(weir, "select 1;\n", clients=4, seconds=12)

	def orders(server):
		return server.value("select count(*) from acme.orders", dbname="app")

	def goes_on_at(server):
		before = orders(server)
		until("the org goes on", lambda: orders(server) > before + 20, 10)

	goes_on_at(old)
	# 1. find
	walk.says("SHOW HOT_ORGS")
	until("it is measured", lambda: weir.show("HOT_ORGS", org="acme"), 10)
	# 2. make the new place
	walk.shell("pg_dumpall -h 10.0.0.1 -U postgres --roles-only | psql -h 10.0.1.1 -U postgres")
	walk.says("createdb -h 10.0.1.1 -U postgres app")  # the rig's has it
	weir.databases.update([walk.config("app_acme = host=10.0.1.1 dbname=app")])
	weir.write()
	walk.console("RELOAD")
	assert int(weir.raw("app_acme", seconds=limit(10)).value("show port")) == new.port
	# 3. hold, 4. copy
	walk.console("PAUSE ORG acme")
	copied = orders(old)
	done = walk.shell("pg_dump -h 10.0.0.1 -U postgres --schema=acme app | psql -h 10.0.1.1 -U postgres -v ON_ERROR_STOP=1 -1 app")
	assert done.returncode == 0, done.stderr
	assert orders(old) == orders(new) == copied
	# 5. reroute
	weir.routes = dict([walk.config("acme = org=acme entry=app to=app_acme")])
	weir.write()
	walk.console("RELOAD")
	walk.console("RESUME ORG acme")
	goes_on_at(new)
	# 6. verify
	row, = walk.console("SHOW ROUTES")
	assert row["old_running"] == 0 and row["clients"] >= 1
	until("it has no other pool", lambda: {pool["database"] for pool in weir.show("POOLS", org="acme")} == {"app_acme"}, 5)
	walk.sql(OLD, "SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE schemaname = 'acme'")
	assert orders(old) == copied
	# 7. going back
	walk.console("PAUSE ORG acme")
	copied = orders(new)
	walk.sql(OLD, "ALTER SCHEMA acme RENAME TO acme_before")
	done = walk.shell("pg_dump -h 10.0.1.1 -U postgres --schema=acme app | psql -h 10.0.0.1 -U postgres -v ON_ERROR_STOP=1 -1 app")
	assert done.returncode == 0, done.stderr
	assert orders(old) == copied
	weir.routes = {}
	weir.write()
	walk.console("RELOAD")
	walk.console("RESUME ORG acme")
	goes_on_at(old)
	assert orders(new) == copied
	for bench in (load, rest):
		said, _ = bench.communicate(timeout=limit(30))
		assert bench.returncode == 0 and "aborted" not in said, said
	places = old.sql("select at, count(*) from acme.orders group by at", dbname="app")
	assert {at for at, _ in places} == {old.port, new.port}
	# 8. clean up
	walk.sql(OLD, "DROP SCHEMA acme CASCADE")
	assert walk.left == []
