"""Hot orgs: one that is busy among quiet ones is seen, and nobody else; windows outlive a restart; what orgs store."""

import os
import re
import signal
import time

import pytest

from rig import http, process
from rig.limits import LONG, limit, until
from rig.raw import ServerError

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.pgweir("hot orgs are ours")]

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2))
COLUMNS = ("org name queries_per_min queries_p50 queries_ratio queries_severity slots slots_p50 slots_ratio "
           "slots_severity storage storage_p50 storage_ratio storage_severity verdict since").split()

# Verdicts every second, and floors that a test reaches.
LOW = {"hot_period": 1, "hot_floor_queries": 1, "hot_floor_slots": 0.001, "hot_floor_storage": "64kB"}


def of_org(org):
	return {"x-org-id": org}


def work(weir, org, *, queries, sleep=0):
	client = weir.raw(params=of_org(org), seconds=10)
	for _ in range(queries):
		client.query(f"select pg_sleep({sleep})" if sleep else "select 1")
	client.terminate()


def quiet_ones(weir, count=6):
	for n in range(count):
		work(weir, f"quiet-{n}", queries=6)


def hot_rows(weir, window=""):
	return {row["org"]: row for row in weir.admin(f"SHOW HOT_ORGS {window}")}


def wait_row(weir, org, check, *, window="", seconds=10):
	def look():
		row = hot_rows(weir, window).get(org)
		return row if row and check(row) else None
	return until(f"the row of {org} is so", look, seconds)


@pytest.fixture
def weir_of(pg, pooler):
	def make(**how):
		return pooler(settings={**LOW, **how.pop("settings", {})}, **how)
	return make


def test_one_hot_org_among_quiet_ones_is_seen_and_nobody_else(weir_of):
	weir = weir_of(settings={"http_listen": http.listen()}, orgs={"busy": "name=acme"})
	quiet_ones(weir)
	mark = weir.mark()
	work(weir, "busy", queries=200)
	work(weir, "busy", queries=5, sleep=0.3)
	row = wait_row(weir, "busy", lambda r: r["verdict"] == "hot" and float(r["slots"]) >= 0.02)
	assert list(row) == COLUMNS
	assert row["name"] == "acme"
	# 205 queries and a second and a half of slots, in a minute that is sixty to seventy seconds long.
	assert 170 <= float(row["queries_per_min"]) <= 206
	assert float(row["slots"]) <= 0.04
	assert row["queries_severity"] == row["slots_severity"] == "CRITICAL"
	assert float(row["queries_ratio"]) > 10 and float(row["slots_ratio"]) > 10
	assert row["storage"] is None and row["storage_severity"] is None
	assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", row["since"])
	for org, other in hot_rows(weir).items():
		if org.startswith("quiet"):
			assert other["verdict"] == "ok" and other["queries_severity"] == "OK"
	assert weir.show("ORGS", org="busy")[0]["verdict"] == "hot"
	assert weir.show("ORGS", org="quiet-0")[0]["verdict"] == "ok"
	weir.wait_log(r"(?m)WARNING org busy \(acme\) is hot: queries=[\d.]+ ratio=[\d.]+ (WARN|CRITICAL), "
	              r"slots=[\d.]+ ratio=[\d.]+ (WARN|CRITICAL)$", mark)
	assert len(re.findall("is hot", weir.log(mark))) == 1
	page = until("the page has it", lambda: (p := http.page(weir)) and p("pgweir_org_hot", org="busy") and p)
	assert page("pgweir_hot_orgs") == 1
	assert page("pgweir_org_hot", org="quiet-0") == 0
	assert page("pgweir_org_hot_ratio", org="busy", measure="queries") > 10
	assert page("pgweir_org_hot_severity", org="busy", measure="slots") == 2
	assert page("pgweir_org_hot_severity", org="quiet-0", measure="slots") == 0


def test_three_to_ten_times_the_median_is_a_warning(weir_of):
	weir = weir_of(settings={"hot_floor_slots": 1000})
	quiet_ones(weir)
	work(weir, "busy", queries=30)
	row = wait_row(weir, "busy", lambda r: r["queries_severity"] != "OK")
	assert row["queries_severity"] == "WARN" and 4 <= float(row["queries_ratio"]) <= 6


def test_one_measure_alone_makes_nobody_hot(weir_of):
	weir = weir_of(settings={"hot_floor_slots": 1000})
	quiet_ones(weir)
	work(weir, "batch", queries=300)
	row = wait_row(weir, "batch", lambda r: r["queries_severity"] == "CRITICAL")
	time.sleep(2.5)  # verdicts that might change it
	row = hot_rows(weir)["batch"]
	assert (row["slots_severity"], row["verdict"]) == ("OK", "ok")
	assert "is hot" not in weir.log()


def test_a_transaction_that_does_not_end_counts_while_it_runs(weir_of):
	weir = weir_of()
	quiet_ones(weir, 3)
	client = weir.raw(params=of_org("long"))
	client.query("begin")
	row = wait_row(weir, "long", lambda r: float(r["slots"]) > 0.03)
	assert row["slots_severity"] == "CRITICAL"
	client.query("rollback")


def test_floors_keep_a_small_estate_calm(pg, pooler):
	weir = pooler(settings={"hot_period": 1})
	quiet_ones(weir, 3)
	work(weir, "busier", queries=150)
	row = wait_row(weir, "busier", lambda r: float(r["queries_per_min"]) > 100)
	assert row["queries_severity"] == "OK" and row["verdict"] == "ok"


def test_each_window_is_shown_and_no_other(weir_of):
	weir = weir_of()
	work(weir, "a", queries=60)
	for window in ("", "1m", "5m", "24h", "30d", "24H"):
		wait_row(weir, "a", lambda r: float(r["queries_per_min"]) > 0, window=window)
	for words in ("SHOW HOT_ORGS 7d", "SHOW HOT_ORGS 1"):
		with pytest.raises(ServerError) as refused:
			weir.admin(words)
		assert refused.value.sqlstate == "22023"
	for words in ("SHOW HOT_ORGS 1m 5m", "SHOW POOLS 5m"):
		with pytest.raises(ServerError) as refused:
			weir.admin(words)
		assert refused.value.sqlstate == "42601"


@pytest.mark.skipif(not LONG, reason="takes a minute and a half: PGWEIR_LONG")
def test_an_org_that_calms_down_is_hot_no_more(weir_of):
	weir = weir_of()
	quiet_ones(weir)
	work(weir, "busy", queries=200, sleep=0.01)
	wait_row(weir, "busy", lambda r: r["verdict"] == "hot")
	weir.wait_log("org busy is hot no more", seconds=90)
	assert hot_rows(weir, "5m")["busy"]["verdict"] == "ok"


# --- restarts

def again(weir):
	"""The same pooler, started once more."""
	weir.drop_clients()
	weir.start()


def test_windows_and_verdicts_outlive_a_restart(weir_of, pooler):
	weir = weir_of(settings={"state_dir": process.new_folder()})
	quiet_ones(weir)
	work(weir, "busy", queries=200, sleep=0.01)
	before = wait_row(weir, "busy", lambda r: r["verdict"] == "hot")
	long_before = hot_rows(weir, "30d")["busy"]
	weir.drop_clients()
	weir.signal(signal.SIGTERM)
	assert weir.wait_end() == 0
	mark = weir.mark()
	again(weir)
	after = wait_row(weir, "busy", lambda r: float(r["queries_per_min"]) > 0)
	assert after["verdict"] == "hot" and after["since"] == before["since"]
	assert "is hot" not in weir.log(mark)
	assert {org for org in hot_rows(weir)} >= {f"quiet-{n}" for n in range(6)}
	long_after = hot_rows(weir, "30d")["busy"]
	# The same queries, over some seconds more.
	assert 0.6 * float(long_before["queries_per_min"]) < float(long_after["queries_per_min"]) \
		<= 1.01 * float(long_before["queries_per_min"])
	process.remove(weir.settings["state_dir"])


@pytest.mark.parametrize("damage", ["cut", "nonsense", "empty", "folder"])
def test_a_damaged_file_is_told_of_and_replaced(weir_of, damage):
	folder = process.new_folder()
	weir = weir_of(settings={"state_dir": folder})
	work(weir, "a", queries=10)
	wait_row(weir, "a", lambda r: True)
	weir.drop_clients()
	weir.signal(signal.SIGTERM)
	assert weir.wait_end() == 0
	path = f"{folder}/hot_orgs"
	with open(path, "rb") as file:
		text = file.read()
	assert text.startswith(b"pgweir hot orgs 1\n") and b"\norg a " in text
	if damage == "folder":
		os.unlink(path)
		os.mkdir(path)
	else:
		process.write_file(path, {"cut": text[:-20], "nonsense": b"\0\xff" * 500, "empty": b""}[damage])
	again(weir)
	weir.wait_log("WARNING the windows of hot orgs begin anew: ")
	work(weir, "b", queries=10)
	wait_row(weir, "b", lambda r: True)
	assert "a" not in hot_rows(weir, "30d")
	weir.drop_clients()
	weir.signal(signal.SIGTERM)
	assert weir.wait_end() == 0
	if damage == "folder":
		weir.wait_log("the windows of hot orgs are not kept")
	else:
		with open(path, "rb") as file:
			assert b"\norg b " in file.read()
	assert [name for name in os.listdir(folder) if "hot_orgs" in name] == ["hot_orgs"]
	process.remove(folder)
	weir.expected_death = True
	weir.settings["state_dir"] = ""
	again(weir)


# --- storage

def documented():
	"""The queries of docs/orgs.md, by what stands in the heading line above each."""
	with open(f"{TOP}/docs/orgs.md") as text:
		found = re.findall(r"^    ; (one schema per org|one partition per org|one database per org).*\n"
		                   r"    hot_storage_query = (.*)$", text.read(), re.M)
	assert len(found) == 3
	return dict(found)


def surveyed(weir_of, query, **how):
	return weir_of(settings={"hot_storage_query": query, "hot_storage_user": "app", "hot_storage_period": 1,
	                         **how.pop("settings", {})}, **how)


def traffic(weir, orgs):
	for org in orgs:
		work(weir, org, queries=1)


def drop_all(pg, *statements):
	for statement in statements:
		pg.sql(statement, dbname="app")


def test_the_documented_query_for_one_schema_per_org(pg, weir_of):
	names = ["tiny", "small", "large"]
	for name, rows in zip(names, (10, 2000, 60000)):
		pg.sql(f"create schema {name}", dbname="app")
		pg.sql(f"create table {name}.t as select generate_series(1, {rows}) as n", dbname="app")
		pg.sql(f"create index on {name}.t (n)", dbname="app")
	try:
		weir = surveyed(weir_of, documented()["one schema per org"])
		traffic(weir, names)
		row = wait_row(weir, "large", lambda r: r["storage"] is not None)
		for name in names:
			true = pg.value("select pg_total_relation_size(%s)", [f"{name}.t"], dbname="app")
			assert hot_rows(weir)[name]["storage"] == true
		row = wait_row(weir, "large", lambda r: r["storage_severity"] == "CRITICAL")
		assert row["storage_p50"] == hot_rows(weir)["small"]["storage"]
		assert hot_rows(weir)["small"]["storage_severity"] == "OK"
		pg.sql("drop schema large cascade", dbname="app")
		wait_row(weir, "large", lambda r: r["storage"] is None)
	finally:
		drop_all(pg, *(f"drop schema if exists {name} cascade" for name in names))


def test_the_documented_query_for_one_partition_per_org(pg, weir_of):
	uuid = "11111111-1111-4111-8111-111111111111"
	for key, value in (("text", "acme"), ("uuid", uuid), ("int", "42")):
		pg.sql(f"create table events_{key} (org {key}, n int) partition by list (org)", dbname="app")
		literal = value if key == "int" else f"'{value}'"
		pg.sql(f"create table events_{key}_1 partition of events_{key} for values in ({literal})", dbname="app")
		pg.sql(f"create table events_{key}_rest partition of events_{key} default", dbname="app")
		pg.sql(f"insert into events_{key} select {literal}, generate_series(1, 1000)", dbname="app")
	try:
		weir = surveyed(weir_of, documented()["one partition per org"])
		orgs = {"acme": "events_text_1", uuid: "events_uuid_1", "42": "events_int_1"}
		traffic(weir, orgs)
		for org, table in orgs.items():
			row = wait_row(weir, org, lambda r: r["storage"] is not None)
			assert row["storage"] == pg.value("select pg_total_relation_size(%s)", [table], dbname="app")
		assert "hot_storage_query" not in weir.log()
	finally:
		drop_all(pg, *(f"drop table events_{key}" for key in ("text", "uuid", "int")))


def test_the_documented_query_for_one_database_per_org(pg, weir_of):
	weir = surveyed(weir_of, documented()["one database per org"])
	traffic(weir, ["app", "app2"])
	for org in ("app", "app2"):
		row = wait_row(weir, org, lambda r: r["storage"] is not None)
		true = pg.value(f"select pg_database_size('{org}')")
		assert abs(row["storage"] - true) < 1 << 20
	assert "hot_storage_query" not in weir.log()


def test_storage_and_queries_make_an_org_hot_and_outlive_a_restart(weir_of):
	folder = process.new_folder()
	query = "select o, b from (values ('busy', 500000000.5), ('quiet-0', 1000000), ('quiet-1', 1000000), ('quiet-2', 1000000)) v(o, b)"
	weir = surveyed(weir_of, query, settings={"hot_floor_slots": 1000, "state_dir": folder})
	quiet_ones(weir, 3)
	work(weir, "busy", queries=100)
	row = wait_row(weir, "busy", lambda r: r["verdict"] == "hot")
	assert (row["slots_severity"], row["storage_severity"], row["queries_severity"]) == ("OK", "CRITICAL", "CRITICAL")
	assert row["storage_p50"] == 1000000
	weir.drop_clients()
	weir.signal(signal.SIGTERM)
	assert weir.wait_end() == 0
	weir.settings["hot_storage_period"] = 3600
	again(weir)
	wait_row(weir, "busy", lambda r: r["storage"] == 500000000)
	weir.settings["hot_storage_query"] = ""
	weir.reload()
	wait_row(weir, "busy", lambda r: r["storage"] is None and r["verdict"] == "ok", seconds=15)
	process.remove(folder)


def test_a_cluster_has_its_own_query_and_entry(pg, weir_of):
	weir = weir_of(settings={"hot_storage_user": "app", "hot_storage_period": 1},
	               clusters={"main": {"primary": f"{pg.host}:{pg.port}", "hot_storage_entry": "second",
	                                  "hot_storage_query": "select current_database(), 7777"}},
	               databases={"app": {"cluster": "main"}, "second": {"cluster": "main", "dbname": "app2"}})
	traffic(weir, ["app2"])
	wait_row(weir, "app2", lambda r: r["storage"] == 7777)


@pytest.mark.parametrize("query, told", [
	("select nothing from nowhere", 'relation "nowhere" does not exist'),
	("select 1", "two columns"),
	("select 'a', 1, 2", "two columns"),
	("create table written (x int)", "read-only transaction"),
	("select pg_sleep(30), 1", "statement timeout"),
	("copy (select 'a', 1) to stdout", "unexpected message"),
	("", None),
	("begin", "two columns|no rows"),
	("select g::text, g from generate_series(1, 200) g", "more rows than max_orgs"),
	("select 'not an id', 5 union all select 'a', null union all select null, 5", "1 rows are left out"),
	("select 'a', 'many'", "1 rows are left out"),
	("select 'a', -5", "1 rows are left out"),
], ids=lambda value: str(value)[:30])
def test_a_query_that_fails_is_told_of_and_harms_nobody(weir_of, query, told):
	weir = surveyed(weir_of, query, settings={"max_orgs": 100})
	traffic(weir, ["a"])
	if told:
		weir.wait_log(f"WARNING hot_storage_query of cluster .*({told})", seconds=5)
	wait_row(weir, "a", lambda r: r["storage"] is None)
	assert weir.raw(params=of_org("a")).value("select current_setting('transaction_read_only')") == "off"


def test_a_query_without_a_user_is_told_of(weir_of):
	weir = weir_of(settings={"hot_storage_query": "select 'a', 1"})
	weir.wait_log("WARNING hot_storage_query of cluster .*: entry app has no user", seconds=5)


def test_nobody_waits_for_a_survey(pg, weir_of):
	weir = surveyed(weir_of, "select pg_sleep(30)::text, 1", settings={"hot_storage_period": 3600})
	until("it runs", lambda: pg.count("query ~ 'pg_sleep'"), 5)
	began = time.monotonic()
	weir.admin("PAUSE", seconds=10)
	assert time.monotonic() - began < limit(5)
	weir.admin("RESUME")
	weir.wait_log("in the way of a pause")
	pg.end_sessions()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT], ids=lambda s: s.name)
def test_a_survey_does_not_keep_the_process_from_ending(pg, pooler, how):
	weir = pooler(settings={**LOW, "hot_storage_query": "select pg_sleep(30)::text, 1", "hot_storage_user": "app"})
	until("it runs", lambda: pg.count("query ~ 'pg_sleep'"), 5)
	weir.signal(how)
	assert weir.wait_end(5) == 0
	pg.end_sessions()
