"""Fixtures of the live tests.

pg        the PostgreSQL that most tests share; no test may break it
own_pg    makes one that the test may break
pooler    makes poolers: pooler(settings={...}, orgs={...}); stopped and judged at the end
clean     after the test every pooler must be at rest (see Pooler.assert_clean)
certs     a certificate authority
state_dir a folder for what a pooler keeps over its restarts

Marks: `takes(seconds)` for a test that may take longer than others; `pgweir("reason")` for what the stand-in cannot do; `alone` for what
measures shares or rates: when several processes run tests (-n of pytest-xdist), no other test runs meanwhile.
"""

import contextlib
import faulthandler
import fcntl
import os
import sys

import pytest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(__file__))

from rig import Postgres, pooler as pooler_module, process  # noqa: E402
from rig.certs import Certs  # noqa: E402
from rig.limits import LONG  # noqa: E402
from rig.pooler import Pooler, stand_in  # noqa: E402

TEST_LIMIT = float(os.environ.get("PGWEIR_TEST_LIMIT", "1200" if LONG else "120"))


def pytest_configure(config):
	config.addinivalue_line("markers", "pgweir(reason): what Debian's pgbouncer cannot do")
	config.addinivalue_line("markers", "takes(seconds): it may take this long")
	config.addinivalue_line("markers", "alone: no other test may run meanwhile")
	config.addinivalue_line("markers", "apart: no pgweir runs in it, or hundreds of rows of one kind do: test/run leaves it to the default build")


def pytest_report_header(config):
	return [f"program: {pooler_module.program()}{' (stand-in)' if stand_in() else ''}, "
	        f"workers: {os.environ.get('PGWEIR_WORKERS', '1')}, "
	        f"patience: x{os.environ.get('PGWEIR_SLOW', '1')}"]


def pytest_collection_modifyitems(items):
	if not stand_in():
		return
	for item in items:
		mark = item.get_closest_marker("pgweir")
		if mark:
			reason = mark.args[0] if mark.args else "a feature of pgweir"
			item.add_marker(pytest.mark.skip(reason=f"stand-in: {reason}"))


@contextlib.contextmanager
def room(alone):
	"""The processes of a run share a room, unless one must be alone in it; whoever waits for that holds up who comes later. The locks lie on
	files that are there anyway."""
	with open(__file__) as turn, open(pooler_module.__file__) as inside:
		fcntl.flock(turn, fcntl.LOCK_EX)
		fcntl.flock(inside, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
		fcntl.flock(turn, fcntl.LOCK_UN)
		yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
	# The last resort: a test that hangs in spite of its limits shows where, and the run ends.
	mark = item.get_closest_marker("takes")
	limit = max(TEST_LIMIT, mark.args[0] if mark else 0)
	with room(item.get_closest_marker("alone")):
		faulthandler.dump_traceback_later(limit * float(os.environ.get("PGWEIR_SLOW", "1")),
		                                  exit=True, file=sys.__stderr__)
		yield
		faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
	outcome = yield
	report = outcome.get_result()
	if not report.failed:
		return
	for made in getattr(item, "live_poolers", []):
		report.sections.append(("configuration", made.config()))
		report.sections.append(("log of the pooler", made.log()[-6000:]))
		report.sections.append(("stderr of the pooler", made.stderr()[-3000:]))
		report.sections.append(("sanitizers and checks", "\n".join(made.reports())))
	for server, mark in getattr(item, "live_servers", []):
		if os.path.exists(server.log_path):
			report.sections.append(("log of PostgreSQL", server.log(mark)[-4000:]))


@pytest.fixture(scope="session", autouse=True)
def leave_nothing():
	yield
	Postgres.forget_template()
	pooler_module.forget_program()


@pytest.fixture(scope="session")
def certs():
	made = Certs()
	yield made
	made.remove()


@pytest.fixture(scope="session")
def shared_pg(certs, leave_nothing):
	server = Postgres(certs=certs, max_connections=200).start()
	yield server
	server.remove()


@pytest.fixture
def pg(shared_pg, request):
	shared_pg.end_sessions()
	shared_pg.sql("truncate ct, t, ins, big", dbname="app")
	request.node.live_servers = [(shared_pg, shared_pg.mark())]
	return shared_pg


@pytest.fixture
def own_pg(certs, request):
	made = []

	def make(**settings):
		server = Postgres(certs=certs, **settings).start()
		made.append(server)
		request.node.live_servers = [(server, 0) for server in made]
		return server

	yield make
	for server in made:
		server.remove()


@pytest.fixture
def pooler(request):
	made = request.node.live_poolers = []

	def make(server=None, *, start=True, **how):
		if server is None and ("pg" in request.fixturenames):
			server = request.getfixturevalue("pg")
		one = Pooler(server, **how)
		made.append(one)
		return one.start() if start else one

	yield make
	failures = []
	for one in made:
		try:
			one.stop()
		except AssertionError as failure:
			failures.append(str(failure))
			if one.child and one.child.poll() is None:
				process.end(one.child, 9)
	request.addfinalizer(lambda: [one.remove() for one in made])
	assert not failures, "\n".join(failures)


@pytest.fixture
def state_dir():
	folder = process.new_folder(prefix="state-")
	yield folder
	process.remove(folder)


@pytest.fixture
def clean(pooler, request):
	yield
	for one in request.node.live_poolers:
		if one.child and not one.expected_death:
			one.assert_clean()
