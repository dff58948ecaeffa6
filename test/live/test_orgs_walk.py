"""The walk of docs/orgs.md, from one line of configuration to a hot org found, held and moved: each line as it stands there, in its order, with
five orgs at work. Only addresses, passwords and the patience of the hot verdict are the rig's."""

import os
import subprocess

import pytest

from rig.limits import limit, until
from rig.load import start_pgbench
from rig.postgres import BIN, superuser

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.pgweir("orgs and routes")]

DOC = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2, "docs/orgs.md"))
QUIET = ["globex", "initech", "umbrella", "hooli"]
ENTRY = {"[databases]": "databases", "[orgs]": "orgs", "[routes]": "routes", "[pgweir]": "settings"}


def steps():
	"""The lines of code of the walk."""
	with open(DOC) as file:
		walk = file.read().split("## From one line to a hot org that has moved\n")[1].split("\n## ")[0]
	return [line[4:] for line in walk.split("\n") if line.startswith("    ")]


class Walk:
	def __init__(self, weir, servers):
		self.weir, self.servers, self.section, self.changed = weir, servers, None, False
		self.left = steps()

	def local(self, text):
		for host, server in self.servers.items():
			text = text.replace(f"host={host}", f"host={server.host} port={server.port}").replace(f"-h {host}", f"-h {server.host} -p {server.port}")
		return text.replace("-U postgres", f"-U {superuser()}").replace("host=127.0.0.1 port=6432", f"host=127.0.0.1 port={self.weir.port} sslmode=disable")

	def config(self):
		"""The lines of configuration that come next, into the file."""
		while self.left and (self.left[0] in ENTRY or " = " in self.left[0]):
			line = self.left.pop(0)
			if line in ENTRY:
				self.section = ENTRY[line]
				continue
			key, value = line.split(" = ", 1)
			if key != "auth_file":
				getattr(self.weir, self.section)[key] = self.local(value)

	def next(self, line):
		assert self.left and self.left[0] == line, f"the document goes on with {self.left[:1]} and not with {line}"
		return self.left.pop(0)

	def console(self, line):
		if line == "RELOAD":
			self.weir.write()
		return self.weir.admin(self.next(line), seconds=30)

	def shell(self):
		done = subprocess.run(["bash", "-o", "pipefail", "-c", self.local(self.left.pop(0))], capture_output=True, text=True, timeout=limit(60),
		                      env={"PATH": f"{BIN}:/usr/bin:/bin", "PGPASSWORD": self.weir.password("app")}, stdin=subprocess.DEVNULL)
		assert done.returncode == 0, done.stderr


def load_on(weir, seconds):
	def bench(org, script, clients, *more):
		return start_pgbench(weir, script, clients=clients, seconds=seconds, database=f"dbname=app options='-c org_id={org}'", more=more)
	return [bench("acme", "begin;\ninsert into acme.orders values (current_setting('port')::int);\nselect pg_sleep(0.02);\nend;\n", 8),
	        *[bench(org, "select 1;\n", 1, "-R", "4") for org in QUIET]]


def orders(server):
	return server.value("select count(*) from acme.orders", dbname="app")


@pytest.mark.takes(200)
def test_a_hot_org_is_found_held_and_moved_as_the_document_says(own_pg, pooler):
	old, new = own_pg(), own_pg()
	old.sql("create schema acme", dbname="app")
	old.sql("create table acme.orders (at int)", dbname="app")
	old.sql("grant all on schema acme to public; grant all on all tables in schema acme to public", dbname="app")
	weir = pooler(databases={}, settings={"hot_period": 1, "hot_floor_queries": 1, "hot_floor_slots": 0.01}, start=False)
	walk = Walk(weir, {"10.0.0.1": old, "10.0.1.1": new})
	walk.config()
	weir.start()
	walk.shell()
	loads = load_on(weir, int(limit(20)))
	until("all have come", lambda: {row["org"] for row in weir.show("POOLS", database="app")} >= {"acme", *QUIET}, 10)
	assert {row["org"] for row in walk.console("SHOW POOLS")} >= {"acme", *QUIET}
	assert {row["org"] for row in walk.console("SHOW ORGS")} >= {"acme", *QUIET}
	until("it is found", lambda: [row["org"] for row in weir.show("HOT_ORGS", verdict="hot")] == ["acme"], 15)
	weir.wait_log("WARNING org acme is hot")
	assert walk.console("SHOW HOT_ORGS")[0]["org"] == "acme"

	assert weir.show("ORGS", org="acme")[0]["servers_active"] > 2
	walk.config()
	walk.console("RELOAD")
	until("it is held", lambda: weir.show("ORGS", org="acme")[0]["servers_active"] <= 2 and weir.show("ORGS", org="acme")[0]["throttled"] > 0, 5)
	assert [row for row in walk.console("SHOW ORGS") if row["org"] == "acme"][0]["pool_size"] == 2

	walk.config()
	walk.console("RELOAD")
	walk.console("PAUSE ORG acme")
	written = orders(old)
	walk.shell()
	assert orders(new) == written == orders(old)
	walk.config()
	walk.console("RELOAD")
	walk.console("RESUME ORG acme")
	until("it goes on at the new place", lambda: orders(new) > written + 20, 10)
	assert orders(old) == written
	assert [(row["clients"], row["old_running"]) for row in walk.console("SHOW ROUTES")] == [(8, 0)]
	assert not walk.left
	for load in loads:
		said, _ = load.communicate(timeout=limit(40))
		assert load.returncode == 0 and "aborted" not in said, said
