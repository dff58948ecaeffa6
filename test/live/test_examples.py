"""The files in etc/ load as they are: no error, no warning, and the console answers.

Addresses, ports and paths belong to the machine. So each file is included by one of
our own that sets those again; where a key stands twice the later one holds.
"""

import os
import re

import pytest

from rig import process
from rig.pooler import Pooler

pytestmark = pytest.mark.pgweir("settings of ours")

ETC = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2, "etc"))
FILES = ["pgweir.ini", *sorted(f"examples/{name}" for name in os.listdir(f"{ETC}/examples"))]


class Example(Pooler):
	def __init__(self, path):
		with open(path) as file:
			self.text = file.read()
		heading = "pgbouncer" if re.search(r"^\[pgbouncer\]", self.text, re.M) else "pgweir"
		super().__init__(heading=heading, databases={}, settings={
			"auth_type": "scram-sha-256", "pool_mode": None,
			"server_tls_sslmode": None, "workers": "1" if heading == "pgweir" else None})
		self.settings.update({"pidfile": f"{self.folder}/pid", "state_dir": self.folder})

	def config(self):
		return f"%include {self.folder}/example.ini\n{super().config()}"

	def write(self):
		process.write_file(f"{self.folder}/example.ini", self.text)
		super().write()


@pytest.fixture
def example(request):
	made = Example(f"{ETC}/{request.param}")
	request.node.live_poolers = [made]
	request.addfinalizer(made.remove)
	yield made
	made.stop()


@pytest.mark.parametrize("example", FILES, indirect=True)
def test_an_example_loads_without_a_complaint(example):
	example.start()
	assert example.show("VERSION")
	complaints = re.findall(r"^.* (?:WARNING|ERROR|FATAL) .*$", example.log() + example.stderr(), re.M)
	assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("example", ["examples/saas.ini"], indirect=True)
def test_the_saas_example_admits_nobody_without_an_org(example):
	example.start()
	refused = example.refusal("app", "app")
	assert refused.sqlstate == "28000"


@pytest.mark.parametrize("example", ["examples/pgbouncer-swap.ini"], indirect=True)
def test_under_pgbouncers_heading_the_defaults_are_pgbouncers(example):
	example.start()
	assert example.show("CONFIG", key="session_features")[0]["value"] == "allow"
