"""Connection pools of real drivers: many orgs, two server connections, mixed work, every value known.

The programs are in pools/, one per driver. Each runs twice at once: with two server connections for each org, and with
two for all of its orgs together, which then change hands without end. What a program says that it has committed is
compared with the tables, past the pooler. With PGWEIR_LONG all drivers run together, for ten minutes.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import pytest

from rig import java, node, process
from rig.limits import LONG, until

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.pgweir("orgs, and settings that follow")]

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = f"{HERE}/pools"
JARS = ["postgresql", "HikariCP", "slf4j-api", "slf4j-nop"]

ACTS = {"add", "move", "undo", "save", "fail", "look", "who", "set", "tryset", "copy", "cancel", "timeout", "large",
        "adhoc", "batch", "trim", "leave", "hold"}
CODES = {"22012", "23505", "42P01", "22P02", "25P02", "57014"}
SHAPES = {"apart": {"dbname": "app", "pool_size": 2},
          "shared": {"dbname": "app", "pool_size": 2, "max_db_connections": 2}}

TABLES = """
	drop schema if exists pools cascade;
	create schema pools authorization app;
	set role app;
	create table pools.counter (worker text primary key, org text not null, n bigint not null);
	create table pools.line (worker text, n bigint, org text not null, body text not null, sum text not null,
		primary key (worker, n));
	create function pools.judge() returns trigger language plpgsql as $$
	begin
		if substring(current_setting('application_name') from 'org=([^:]+)') is distinct from new.org then
			raise 'a row of org % is written under application_name %', new.org, current_setting('application_name');
		end if;
		return new;
	end $$;
	create trigger judge before insert or update on pools.counter for each row execute function pools.judge();
	create trigger judge before insert or update on pools.line for each row execute function pools.judge();
	reset role;
"""

COMMITTED = """
	select c.worker, c.org, c.n, count(l.n), md5(coalesce(string_agg(l.n || ':' || l.sum || ';', '' order by l.n), ''))
	from pools.counter c left join pools.line l using (worker)
	where c.worker like %s group by c.worker, c.org, c.n
"""

BAD_ROWS = """
	select l.* from pools.line l join pools.counter c using (worker)
	where l.org <> c.org or l.sum <> md5(l.worker || '|' || l.n || '|' || l.body) limit 3
"""


# --- how each program is started

def needs(*programs):
	for program in programs:
		if not shutil.which(program):
			pytest.skip(f"{program} is not installed")


def python(name):
	return lambda: ([sys.executable, f"{FOLDER}/{name}"], {})


def script(program, name):
	def start():
		needs(program)
		return [program, f"{FOLDER}/{name}"], {}
	return start


def javascript(name):
	return lambda: (["node", f"{FOLDER}/{name}"], {"NODE_PATH": node.modules()})


def jdbc():
	needs("javac", "java")
	jars = [f"/usr/share/java/{name}.jar" for name in JARS]
	for jar in jars:
		if not os.path.exists(jar):
			pytest.skip(f"{jar} is not there")
	path = java.compiled(f"{FOLDER}/DriveJdbc.java", ":".join(jars))
	return ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", path, "DriveJdbc"], {}


DRIVERS = {
	"psycopg": python("drive_psycopg.py"),
	"asyncpg": python("drive_asyncpg.py"),
	"sqlalchemy": python("drive_sqlalchemy.py"),
	"django": python("drive_django.py"),
	"pg": javascript("drive_pg.js"),
	"postgres": javascript("drive_postgres.js"),
	"jdbc": jdbc,
	"ruby": script("ruby", "drive_ruby.rb"),
	"perl": script("perl", "drive_perl.pl"),
}


@pytest.fixture
def tables(pg):
	pg.sql(TABLES, dbname="app")
	yield pg
	pg.sql("drop schema pools cascade", dbname="app")


@pytest.fixture
def weir(tables, pooler):
	entries = {f"{driver}_{shape}": line for driver in DRIVERS for shape, line in SHAPES.items()}
	return pooler(settings={"auth_type": "scram-sha-256", "max_client_conn": 2000, "max_prepared_statements": 20,
	                        "ignore_startup_parameters": "extra_float_digits"}, databases=entries)


class Run:
	"""A program at work on one entry."""

	def __init__(self, weir, driver, shape, seed, seconds, orgs, workers):
		argv, env = DRIVERS[driver]()
		self.entry = f"{driver}_{shape}"
		self.workers = orgs * workers
		argv = [*argv, weir.host, weir.port, self.entry, weir.password("app"), seconds, seed, orgs, workers]
		self.argv = [str(word) for word in argv]
		full = {k: v for k, v in os.environ.items() if not k.startswith("PG") or k.startswith("PGWEIR")}
		full.update(PYTHONDONTWRITEBYTECODE="1", **env)
		self.out, self.err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
		self.child = subprocess.Popen(self.argv, env=full, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err)

	def said(self, stream, most):
		stream.seek(0)
		return stream.read()[-most:]

	def is_over(self):
		"""Has it ended? An end with a fault is told at once."""
		status = self.child.poll()
		assert not status, (f"{self.entry} ended with {status}: {' '.join(self.argv)}\n"
		                    f"{self.said(self.out, 2000)}\n{self.said(self.err, 8000)}")
		return status is not None

	def account(self):
		"""What it says of itself, which must be whole."""
		account = json.loads(self.said(self.out, 1 << 20).splitlines()[-1])
		assert set(account["acts"]) == ACTS, f"{self.entry} did not do every act"
		assert set(account["errors"]) <= CODES, f"{self.entry} has errors that nobody asked for"
		assert len(account["workers"]) == self.workers
		return account

	def end(self):
		if self.child.poll() is None:
			self.child.kill()
		self.child.wait()
		self.out.close()
		self.err.close()


def no_bad_row(pg):
	bad = pg.sql(BAD_ROWS, dbname="app")
	assert not bad, bad


def compare(pg, entry, account):
	"""What was committed, as the program knows it and as PostgreSQL has it."""
	known = {w["worker"]: (w["org"], w["counter"], w["rows"], w["digest"]) for w in account["workers"]}
	found = {row[0]: tuple(row[1:]) for row in pg.sql(COMMITTED, [entry.replace("_", "\\_") + "-%"], dbname="app")}
	assert found == known, entry


def run_all(weir, pg, drivers, seconds, orgs, workers):
	seed = int(os.environ.get("PGWEIR_SEED") or random.randrange(1 << 31))
	runs = []
	try:
		for driver in drivers:
			runs += [Run(weir, driver, shape, seed, seconds, orgs, workers) for shape in SHAPES]

		def all_over():
			no_bad_row(pg)
			return all([run.is_over() for run in runs])

		until("all programs have ended", all_over, seconds + 60)
		for run in runs:
			account = run.account()
			print(f"{run.entry}: {account['transactions']} transactions, errors {account['errors']}, seed {seed}")
			compare(pg, run.entry, account)
	finally:
		for run in runs:
			run.end()


@pytest.mark.skipif(LONG, reason="all drivers run together with PGWEIR_LONG")
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_pool_reads_what_it_wrote(weir, pg, driver):
	run_all(weir, pg, [driver], seconds=3, orgs=3, workers=4)


@pytest.mark.skipif(not LONG, reason="ten minutes; test/run --long")
def test_pools_of_all_drivers_read_what_they_wrote(weir, pg):
	run_all(weir, pg, list(DRIVERS), seconds=600, orgs=5, workers=3)
