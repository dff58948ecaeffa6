"""The drivers that applications use: connect, query, transaction, prepared statement, error, cancel, COPY."""

import asyncio
import io
import os
import shutil
import signal
import subprocess
import threading

import asyncpg
import psycopg
import psycopg2
import pytest

from rig import java, node, process
from rig.limits import limit, until
from rig.pooler import stand_in

pytestmark = pytest.mark.usefixtures("clean")

HERE = os.path.dirname(os.path.abspath(__file__))
JDBC = os.environ.get("PGWEIR_TEST_JDBC", "/usr/share/java/postgresql.jar")


@pytest.fixture
def weir(pg, pooler):
	return pooler(settings={"auth_type": "scram-sha-256", "default_pool_size": 2,
	                        "ignore_startup_parameters": "extra_float_digits"})


# --- psql and pgbench

def psql(weir, *commands, stdin=None, check=True):
	argv = ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1"]
	for command in commands:
		argv += ["-c", command]
	return process.run([*argv, weir.dsn()], stdin=stdin, check=check)


def test_psql_queries_and_transacts(weir, pg):
	assert psql(weir, "select 6*7").stdout == "42\n"
	psql(weir, "begin", "insert into t values (1)", "rollback", "begin", "insert into t values (2)", "commit")
	assert pg.sql("select x from t", dbname="app") == [(2,)]


def test_psql_shows_errors_and_goes_on(weir):
	done = process.run(["psql", "-XAtq", weir.dsn()], stdin="select 1/0;\nselect 'on';\n")
	assert "division by zero" in done.stderr and done.stdout == "on\n"


def test_psql_copies_both_ways(weir):
	psql(weir, r"\copy ct from pstdin", stdin="1\tone\n2\ttwo\n")
	assert psql(weir, r"\copy ct to pstdout").stdout == "1\tone\n2\ttwo\n"


def test_psql_cancels_at_ctrl_c(weir, pg):
	child = subprocess.Popen(["psql", "-XAtq", "-c", "select pg_sleep(30)", weir.dsn()],
	                         stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
	until("it runs", lambda: pg.count("state = 'active'"))
	child.send_signal(signal.SIGINT)
	_, said = child.communicate(timeout=limit(5))
	assert "canceling statement due to user request" in said


def test_psql_uses_cursors_and_describes_tables(weir):
	done = process.run(["psql", "-XAtq", "-v", "FETCH_COUNT=10", weir.dsn()],
	                   stdin="select generate_series(1, 100);\n\\d ct\n")
	assert done.stdout.splitlines()[:100] == [str(n) for n in range(1, 101)]
	assert "id|integer||not null" in done.stdout


@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
@pytest.mark.parametrize("how", ["kept", "-C"])
def test_pgbench_runs(weir, mode, how):
	if stand_in() and mode == "prepared":
		pytest.skip("stand-in: named statements came with 1.21")
	script = process.write_file(f"{weir.folder}/script.sql", (
		"\\set n random(1, 1000)\nbegin;\ninsert into t values (:n);\nselect :n * 2;\n"
		"delete from t where x = :n;\ncommit;\nselect :n;\n"), 0o644)
	done = process.run(["pgbench", "-n", "-M", mode, "-c", "8", "-j", "8", "-t", "20", "-f", script,
	                    *(["-C"] if how == "-C" else []), weir.dsn()], seconds=20)
	assert "number of failed transactions: 0 (" in done.stdout
	assert "transactions actually processed: 160/160" in done.stdout


def test_pgbench_initialises_and_runs_its_own_mix(weir, pg):
	process.run(["pgbench", "-i", "-q", "-s", "1", weir.dsn("app2")])
	modes = ["simple", "extended"] + ([] if stand_in() else ["prepared"])
	for mode in modes:
		done = process.run(["pgbench", "-n", "-M", mode, "-c", "6", "-j", "6", "-t", "20", weir.dsn("app2")],
		                   seconds=20)
		assert "number of failed transactions: 0 (" in done.stdout
	pg.sql("drop table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers",
	       dbname="app2")


def test_pg_dump_passes_and_other_clients_do_not_notice(weir, pg):
	checker = weir.connect()
	pg.sql("insert into ct values (1, 'dumped')", dbname="app")
	settings = weir.settings
	settings["server_reset_query_always"] = 1
	settings["ignore_startup_parameters"] = "extra_float_digits"
	weir.reload()
	dump = process.run(["pg_dump", "--no-sync", weir.dsn()]).stdout
	assert "dumped" in dump
	assert checker.execute("select count(*) from ct").fetchone() == (1,)


# --- psycopg 3

def test_psycopg_queries_and_transacts(weir, pg):
	with weir.connect(autocommit=False) as client:
		assert client.execute("select %s::int * 2", [21]).fetchone() == (42,)
		client.rollback()
		client.execute("insert into t values (1)")
		client.rollback()
		with client.transaction():
			client.execute("insert into t values (2)")
			with pytest.raises(psycopg.errors.UniqueViolation):
				with client.transaction():
					client.execute("insert into ct values (1, 'a'), (1, 'b')")
	assert pg.sql("select x from t", dbname="app") == [(2,)]


@pytest.mark.pgweir("named statements came with 1.21")
def test_psycopg_prepares_on_two_servers(weir):
	clients = [weir.connect() for _ in range(3)]
	for client in clients:
		client.prepare_threshold = 0
		client.prepared_max = 3
	for n in range(40):
		for place, client in enumerate(clients):
			assert client.execute(f"select %s::int + {n % 5}", [place]).fetchone() == (place + n % 5,)


@pytest.mark.pgweir("named statements came with 1.21")
def test_psycopg_pipelines(weir, pg):
	client = weir.connect()
	with client.pipeline():
		for n in range(100):
			client.execute("insert into ins values (%s)", [n])
	assert pg.value("select sum(x) from ins", dbname="app") == sum(range(100))
	with pytest.raises(psycopg.errors.DivisionByZero):
		with client.pipeline():
			client.execute("select 1")
			client.execute("select 1 / %s::int", [0])
			client.execute("select 3")
	assert client.execute("select 'usable'").fetchone() == ("usable",)


def test_psycopg_errors_keep_their_code(weir):
	client = weir.connect()
	with pytest.raises(psycopg.errors.UndefinedTable) as failure:
		client.execute("select * from no_such_table")
	assert failure.value.sqlstate == "42P01"
	assert client.execute("select 1").fetchone() == (1,)


def test_psycopg_cancels(weir, pg):
	client = weir.connect()

	def cancel():
		until("it runs", lambda: pg.count("state = 'active'"))
		client.cancel()

	thread = threading.Thread(target=cancel)
	thread.start()
	with pytest.raises(psycopg.errors.QueryCanceled):
		client.execute("select pg_sleep(30)")
	thread.join()
	assert client.execute("select 1").fetchone() == (1,)


def test_psycopg_copies_both_ways(weir):
	client = weir.connect()
	cursor = client.cursor()
	with cursor.copy("copy ct from stdin") as copy:
		for n in range(1000):
			copy.write_row((n, "v" * n))
	with cursor.copy("copy ct to stdout") as copy:
		assert sum(1 for _ in copy.rows()) == 1000
	with pytest.raises(psycopg.errors.QueryCanceled):
		with cursor.copy("copy ct from stdin") as copy:
			copy.write("2000\tx\n")
			raise RuntimeError("changed my mind")
	assert client.execute("select count(*) from ct").fetchone() == (1000,)


def test_psycopg_reads_by_a_server_side_cursor(weir):
	with weir.connect(autocommit=False) as client, client.cursor("far") as cursor:
		cursor.itersize = 100
		cursor.execute("select generate_series(1, 1000)")
		assert sum(row[0] for row in cursor) == 500500


def test_psycopg_stores_a_large_object(weir):
	client = weir.connect(autocommit=False)
	oid = client.execute("select lo_from_bytea(0, %s)", [b"x" * 300000]).fetchone()[0]
	assert len(client.execute("select lo_get(%s)", [oid]).fetchone()[0]) == 300000
	client.execute("select lo_unlink(%s)", [oid])
	client.commit()


# --- psycopg2

@pytest.fixture
def two(weir):
	client = psycopg2.connect(weir.dsn())
	weir.keep(client)
	return client


def test_psycopg2_queries_transacts_and_errs(two, pg):
	with two, two.cursor() as cursor:
		cursor.execute("select %s * 2", [21])
		assert cursor.fetchone() == (42,)
		cursor.execute("insert into t values (1)")
	with pytest.raises(psycopg2.errors.DivisionByZero):
		with two, two.cursor() as cursor:
			cursor.execute("insert into t values (2)")
			cursor.execute("select 1/0")
	assert pg.sql("select x from t", dbname="app") == [(1,)]


def test_psycopg2_copies_both_ways(two):
	with two, two.cursor() as cursor:
		cursor.copy_expert("copy ct from stdin", io.StringIO("1\tone\n2\ttwo\n"))
		out = io.StringIO()
		cursor.copy_expert("copy ct to stdout", out)
	assert out.getvalue() == "1\tone\n2\ttwo\n"


def test_psycopg2_cancels(two, pg):
	def cancel():
		until("it runs", lambda: pg.count("state = 'active'"))
		two.cancel()

	thread = threading.Thread(target=cancel)
	thread.start()
	with pytest.raises(psycopg2.errors.QueryCanceled):
		two.cursor().execute("select pg_sleep(30)")
	thread.join()
	two.rollback()


def test_psycopg2_reads_by_a_named_cursor(two):
	with two, two.cursor("far") as cursor:
		cursor.execute("select generate_series(1, 5000)")
		assert sum(row[0] for row in cursor) == 12502500


# --- asyncpg

def in_asyncio(work, seconds=20):
	return asyncio.run(asyncio.wait_for(work, limit(seconds)))


def asyncpg_connect(weir, **more):
	return asyncpg.connect(host=weir.host, port=weir.port, user="app", database="app", ssl=False,
	                       password=weir.password("app"), **more)


@pytest.mark.parametrize("cache", [0, 100])
def test_asyncpg_does_it_all(weir, pg, cache):
	if stand_in():
		pytest.skip("stand-in: named statements came with 1.21")

	async def work():
		client = await asyncpg_connect(weir, statement_cache_size=cache)
		for n in range(20):
			assert await client.fetchval("select $1::int * 10", n) == n * 10
		async with client.transaction():
			await client.execute("insert into t values ($1)", 2)
		with pytest.raises(asyncpg.DivisionByZeroError):
			async with client.transaction():
				await client.execute("insert into t values (3)")
				await client.fetchval("select 1/0")
		assert [r["x"] for r in await client.fetch("select x from t")] == [2]
		statement = await client.prepare("select $1::text || 'x'")
		assert [await statement.fetchval(word) for word in "abc"] == ["ax", "bx", "cx"]
		await client.executemany("insert into ins values ($1)", [(n,) for n in range(50)])
		async with client.transaction():
			total = 0
			async for row in client.cursor("select generate_series(1, 500) as x", prefetch=50):
				total += row["x"]
			assert total == 125250
		with pytest.raises(asyncio.TimeoutError):
			await client.fetchval("select pg_sleep(30)", timeout=0.2)
		assert await client.fetchval("select 1") == 1
		await client.copy_records_to_table("ct", records=[(n, str(n)) for n in range(100)])
		got = []

		async def take(data):
			got.append(data)

		await client.copy_from_query("select * from ct", output=take)
		assert b"".join(got).count(b"\n") == 100
		await client.close()

	in_asyncio(work())


@pytest.mark.pgweir("named statements came with 1.21")
def test_asyncpg_pools_share_servers(weir):
	async def work():
		async with asyncpg.create_pool(host=weir.host, port=weir.port, user="app", database="app", ssl=False,
		                               password=weir.password("app"), min_size=6, max_size=6) as pool:
			async def ask(n):
				return await pool.fetchval(f"select $1::int + {n % 5}", n)
			assert await asyncio.gather(*(ask(n) for n in range(200))) == [n + n % 5 for n in range(200)]

	in_asyncio(work())


@pytest.mark.pgweir("named statements came with 1.21")
def test_asyncpg_recovers_from_a_schema_change(weir, pg):
	pg.sql("drop table if exists sc; create table sc (a int); grant all on sc to public", dbname="app")

	async def work():
		client = await asyncpg_connect(weir)
		await client.fetch("select * from sc")
		pg.sql("alter table sc add b int; insert into sc values (1, 2)", dbname="app")
		try:
			await client.fetch("select * from sc")
		except asyncpg.PostgresError:
			pass
		assert [tuple(row) for row in await client.fetch("select * from sc")] == [(1, 2)]
		await client.close()

	in_asyncio(work())


# --- node-postgres

def test_node_postgres_does_it_all(weir):
	if stand_in():
		pytest.skip("stand-in: named statements came with 1.21")
	url = f"postgresql://app:{weir.password('app')}@{weir.host}:{weir.port}/app"
	done = process.run(["node", f"{HERE}/node/drive.js", url], env={"NODE_PATH": node.modules()})
	assert done.stdout.splitlines() == ["query 42", "transaction 1", "prepared 1900", "pool true",
	                                    "error 22012", "cancel 57014", "copy 12", "end 1"]


# --- JDBC

def test_jdbc_does_it_all(weir):
	if stand_in():
		pytest.skip("stand-in: named statements came with 1.21")
	if not shutil.which("javac") or not os.path.exists(JDBC):
		pytest.skip("javac or the JDBC driver is not installed")
	classes = java.compiled(f"{HERE}/jdbc/Drive.java", JDBC)
	url = f"jdbc:postgresql://{weir.host}:{weir.port}/app?sslmode=disable"
	done = process.run(["java", "-Xshare:auto", "-cp", classes, "Drive", url, "app",
	                    weir.password("app")])
	assert done.stdout.splitlines() == ["query 42", "transaction 1", "metadata 1", "prepared 1900", "batch 100",
	                                    "cursor 100", "error 22012", "cancel 57014", "copy 2 12", "end 1"]
