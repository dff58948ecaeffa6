"""tx_rate and conn_rate of orgs: what passes, what is held back, what is refused, and what the client can do then."""

import asyncio
import re
import time

import psycopg
import pytest

from rig import process, same_as_direct
from rig.cases import in_threads
from rig.limits import SLOW, limit, until
from rig.raw import B, C, D, E, H, P, Q, S, X, ServerError, c, d

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.pgweir("rates are ours")]

SLOW_RATE = "tx_rate=0.2 tx_burst=1"  # one at once, the next in five seconds
REFUSAL = re.compile(r'^transactions of org "a" exceeded \(tx_rate 0\.2 per second\), retry after (\d+) ms$')


def of(org):
	return {"x-org-id": org}


def org_row(weir, org="a"):
	return weir.show("ORGS", org=org)[0]


@pytest.fixture
def reject(pg, pooler):
	"""A client whose org has no token left for five seconds, and is refused at once."""
	weir = pooler(orgs={"a": f"{SLOW_RATE} rate_action=reject"})
	client = weir.raw(params=of("a"))
	assert client.value("select 'first'") == "first"
	client.weir = weir
	return client


@pytest.fixture
def queue(pg, pooler):
	"""Clients of an org of ten transactions a second, one at once."""
	return pooler(orgs={"a": "tx_rate=10 tx_burst=1 rate_wait=5"})


# --- the refusal

def test_the_refusal_names_org_and_limit_and_says_when_to_come_again(reject):
	with pytest.raises(ServerError) as refused:
		reject.query("select 1")
	assert refused.value.sqlstate == "53400" and refused.value.severity == "ERROR"
	said = REFUSAL.match(refused.value.message)
	assert said and 0 < int(said[1]) <= 5000
	assert refused.value.fields["H"] == f"retry after {said[1]} ms"


def test_who_comes_again_when_he_was_told_is_served(pg, pooler):
	client = pooler(orgs={"a": "tx_rate=4 tx_burst=1 rate_action=reject"}).raw(params=of("a"))
	for n in range(3):
		client.query("select 1")
		with pytest.raises(ServerError) as refused:
			client.query("select 1")
		time.sleep(int(re.search(r"after (\d+) ms", refused.value.message)[1]) / 1000)


def test_the_connection_stays_usable_in_both_protocols(reject):
	for _ in range(3):
		assert reject.talk(Q("select 1")) == "E(53400) Z(I)"
		assert reject.talk(P("", "select 1"), B(), E(), S) == "E(53400) Z(I)"
		assert reject.talk(P("s", "select 1"), D("S", "s"), B("", "s"), D("P"), E(), S) == "E(53400) Z(I)"
	until("it is served again", lambda: reject.talk(Q("select 'again'")) == "T D[again] C(SELECT 1) Z(I)", 8)


def test_what_runs_nothing_takes_no_token(reject):
	for n in range(3):
		assert reject.talk(S) == "Z(I)"
		assert reject.talk(P(f"s{n}", "select $1::int"), D("S", f"s{n}"), S) == "1 t T Z(I)"
		assert reject.talk(P("", "select 1"), B(), D("P"), S) == "1 2 T Z(I)"
		assert reject.talk(C("S", f"s{n}"), S) == "3 Z(I)"
	assert reject.talk(Q("select 1")) == "E(53400) Z(I)"


def test_each_query_of_a_pipeline_is_a_transaction(reject):
	assert reject.talk(Q("select 1"), Q("select 2"), Q("select 3"), times=3) == "E(53400) Z(I) E(53400) Z(I) E(53400) Z(I)"
	batch = [P("", "select 1"), B(), E(), S]
	assert reject.talk(*batch, *batch, S, *batch, times=4) == "E(53400) Z(I) E(53400) Z(I) Z(I) E(53400) Z(I)"


def test_in_a_pipeline_those_with_a_token_pass_and_the_others_are_refused_in_order(pg, pooler):
	client = pooler(orgs={"a": "tx_rate=0.2 tx_burst=3 rate_action=reject"}).raw(params=of("a"))
	assert client.talk(Q("select 1"), P("", "select 2"), B(), E(), S, Q("begin"), Q("select 3"), Q("commit"), Q("select 4"),
	                   P("", "select 5"), B(), E(), S, times=7) == (
		"T D[1] C(SELECT 1) Z(I) 1 2 D[2] C(SELECT 1) Z(I) C(BEGIN) Z(T) T D[3] C(SELECT 1) Z(T) C(COMMIT) Z(I) "
		"E(53400) Z(I) E(53400) Z(I)")


def test_a_refused_parse_leaves_no_statement(reject):
	assert reject.talk(P("s", "select 7"), B("", "s"), E(), S) == "E(53400) Z(I)"
	assert reject.talk(D("S", "s"), S) == "E(26000) Z(I)"
	assert reject.talk(P("s", "select 7"), S) == "1 Z(I)"
	until("there is a token", lambda: reject.talk(B("", "s"), E(), S) == "2 D[7] C(SELECT 1) Z(I)", 8)


def test_a_batch_whose_execute_comes_later_is_refused_there(reject):
	"""Parse and Bind are on the server by then: their answers come first, the error at its place, one ReadyForQuery."""
	reject.send(P("", "select 1"), B(), H)
	reject.expect("1 2")
	assert reject.talk(E(), S) == "E(53400) Z(I)"
	reject.send(P("", "select 1"), D("S"))
	reject.send(H)
	reject.expect("1 t T")
	reject.send(B(), E(), H)
	reject.expect("E(53400)")
	reject.send(B(), E(), H, D("P"))
	assert reject.talk(S) == "Z(I)"
	assert reject.talk(P("", "select 1"), S) == "1 Z(I)"


def test_an_error_of_the_servers_stands_for_the_refusal(reject):
	"""The batch had failed before its Execute came: PostgreSQL gives one error for a batch."""
	reject.send(P("", "select nonsense"), B())
	time.sleep(0.05)
	assert reject.talk(E(), S) == "E(42703) Z(I)"
	reject.send(P("", "select nonsense"), H)
	reject.expect("E(42703)")
	assert reject.talk(B(), E(), Q("select 1"), S) == "Z(I)"


def test_a_query_behind_a_batch_without_sync_is_refused_in_order(reject):
	reject.send(P("", "select 1"), B())
	assert reject.talk(Q("select 2")) == "1 2 E(53400) Z(I)"
	assert reject.talk(P("", "select 1"), B(), Q("select 2")) == "1 2 E(53400) Z(I)"
	assert reject.talk(S) == "Z(I)"


def test_a_transaction_that_has_begun_is_never_throttled(pg, pooler):
	client = pooler(orgs={"a": f"{SLOW_RATE} rate_action=reject"}).raw(params=of("a"))
	client.query("begin")
	for n in range(20):
		assert client.value(f"select {n}") == str(n)
		assert client.talk(P("", "select 'x'"), B(), E(), S) == "1 2 D[x] C(SELECT 1) Z(T)"
	assert client.talk(Q("select 1/0")).endswith("E(22012) Z(E)")
	assert client.talk(Q("select 1")) == "E(25P02) Z(E)"
	client.query("rollback")
	assert client.talk(Q("select 1")) == "E(53400) Z(I)"


def test_several_executes_of_one_batch_are_one_transaction(pg, pooler):
	client = pooler(orgs={"a": f"{SLOW_RATE} rate_action=reject"}).raw(params=of("a"))
	one = [B("", "s"), E()]
	client.send(P("s", "select 1"), *one, *one, H)
	client.expect("1 2 D[1] C(SELECT 1) 2 D[1] C(SELECT 1)")
	assert client.talk(*one, S) == "2 D[1] C(SELECT 1) Z(I)"
	assert client.talk(*one, S) == "E(53400) Z(I)"


def test_copy_takes_one_token(pg, pooler):
	client = pooler(orgs={"a": f"{SLOW_RATE} rate_action=reject"}).raw(params=of("a"))
	client.send(Q("copy ct from stdin"))
	client.expect("G")
	assert client.talk(d("1\tx\n"), c) == "C(COPY 1) Z(I)"
	assert client.talk(Q("copy ct to stdout")) == "E(53400) Z(I)"


def test_a_query_in_the_middle_of_copy_data_is_postgresqls_matter(pg, pooler):
	"""Nothing waits for the end of the COPY, which would never come."""
	weir = pooler(orgs={"a": "tx_rate=100"})
	same_as_direct(pg, weir, [([Q("copy ct from stdin"), Q("select 1")], 2)], client=weir.raw(params=of("a")))


@pytest.mark.parametrize("mode", ["session", "statement"])
def test_in_every_pool_mode(pg, pooler, mode):
	client = pooler(settings={"pool_mode": mode}, orgs={"a": f"{SLOW_RATE} rate_action=reject"}).raw(params=of("a"))
	client.query("select 1")
	for _ in range(2):
		assert client.talk(Q("select 1")) == "E(53400) Z(I)"
		assert client.talk(P("", "select 1"), B(), E(), S) == "E(53400) Z(I)"
		assert client.talk(P("", "select 1"), D("S"), S) == "1 t T Z(I)"


def test_other_orgs_do_not_feel_it(reject):
	assert reject.talk(Q("select 1")) == "E(53400) Z(I)"
	other = reject.weir.raw(params=of("b"))
	for n in range(20):
		assert other.value(f"select {n}") == str(n)


def test_a_transaction_counts_for_the_org_that_a_comment_names(pg, pooler):
	weir = pooler(settings={"org_sources": "startup, comment"}, orgs={"a": f"{SLOW_RATE} rate_action=reject"})
	client = weir.raw(params=of("b"))
	assert client.value("select 1 /*org='a'*/") == "1"
	for _ in range(2):
		assert client.talk(Q("select 2 /*org='a'*/")) == "E(53400) Z(I)"
		assert client.talk(P("", "select 2 /*org='a'*/"), B(), E(), S) == "E(53400) Z(I)"
		assert client.value("select current_user") == "app"
	assert weir.show("CLIENTS", database="app")[0]["org"] == "b"


def test_who_changes_org_has_that_orgs_rate(pg, pooler):
	weir = pooler(orgs={"a": f"{SLOW_RATE} rate_action=reject"})
	client = weir.raw(params=of("b"))
	client.query("set pgweir.org = 'a'")
	assert client.talk(Q("select 1"), Q("select 2"), Q("set pgweir.org = 'b'"), Q("select 3"), times=4) \
		== "T D[1] C(SELECT 1) Z(I) E(53400) Z(I) C(SET) Z(I) T D[3] C(SELECT 1) Z(I)"


# --- the queue

@pytest.mark.alone
def test_what_is_over_the_rate_is_held_back_and_then_served(queue):
	client = queue.raw(params=of("a"), seconds=5)
	client.query("select 1")
	began = time.monotonic()
	for n in range(5):
		assert client.value(f"select {n}") == str(n)
	assert 0.45 < time.monotonic() - began < 0.5 + limit(0.2)


def test_who_is_held_back_holds_no_server(pg, pooler):
	queue = pooler(orgs={"a": "tx_rate=1 tx_burst=1 rate_wait=10"})
	clients = [queue.raw(params=of("a"), seconds=8) for _ in range(4)]
	for n, client in enumerate(clients):
		client.send(*([Q("select 1")] if n % 2 else [P("", "select 1"), B(), E(), S]))
	until("the first is served", lambda: org_row(queue)["total_xacts"] == 1)
	assert (org_row(queue)["held"], queue.pool(org="a")["sv_active"]) == (3, 0)
	for client in clients:
		assert client.read_ready().endswith("D[1] C(SELECT 1) Z(I)")
	assert org_row(queue)["throttled"] == 3


def test_first_come_first_served(queue):
	clients = [queue.raw(params=of("a"), seconds=5) for _ in range(5)]
	for n, client in enumerate(clients):
		client.send(Q("select clock_timestamp()::text"))
		until("it has come", lambda: org_row(queue)["held"] + org_row(queue)["total_xacts"] >= n)
	at = []
	for client in clients:
		_, row, *_ = client.read_ready().split("D[")
		at.append(row.split("]")[0])
	assert at == sorted(at)


def test_after_rate_wait_it_is_refused(pg, pooler):
	weir = pooler(orgs={"a": f"{SLOW_RATE} rate_wait=0.5"})
	client = weir.raw(params=of("a"))
	client.query("select 1")
	for message in (Q("select 1"), P("", "select 1") + B() + E() + S):
		began = time.monotonic()
		assert client.talk(message) == "E(53400) Z(I)"
		assert 0.5 <= time.monotonic() - began < 0.5 + limit(0.3)
		assert REFUSAL.match(client.errors[-1]["M"])
	row = org_row(weir)
	assert (row["throttled"], row["refused"], row["held"]) == (2, 2, 0)


def test_with_a_rate_wait_of_0_the_queue_refuses_at_once(pg, pooler):
	client = pooler(orgs={"a": f"{SLOW_RATE} rate_wait=0"}).raw(params=of("a"))
	client.query("select 1")
	began = time.monotonic()
	assert client.talk(Q("select 1")) == "E(53400) Z(I)"
	assert time.monotonic() - began < limit(0.3)


def test_one_that_waits_with_its_batch_begun_is_refused_after_rate_wait_or_served(pg, pooler):
	weir = pooler(orgs={"a": "tx_rate=2 tx_burst=1 rate_wait=0.2"})
	client = weir.raw(params=of("a"))
	client.query("select 1")
	client.send(P("", "select 2"), B(), H)
	client.expect("1 2")
	assert client.talk(E(), S) == "E(53400) Z(I)"
	time.sleep(0.15)
	client.send(P("", "select 3"), B(), H)
	client.expect("1 2")
	assert client.talk(E(), S) == "D[3] C(SELECT 1) Z(I)"


@pytest.mark.alone
def test_the_rate_is_kept_to_the_full(pg, pooler):
	"""Timers are late by a little each time; that must not add up."""
	weir = pooler(orgs={"a": "tx_rate=200 tx_burst=1 rate_wait=10"})
	clients = [weir.raw(params=of("a"), seconds=20) for _ in range(8)]
	clients[0].query("select 1")
	began = time.monotonic()

	def work(client):
		for _ in range(50):
			client.query("select 1")

	in_threads(*[lambda client=client: work(client) for client in clients])
	took = time.monotonic() - began
	assert 1.99 <= took < 2 + limit(0.3), f"400 transactions at 200 a second took {took:.2f} s"


@pytest.mark.parametrize("action", ["queue rate_wait=1", "reject"])
@pytest.mark.alone
def test_the_rate_is_exact_over_all_workers(pg, pooler, action):
	"""Two clusters of one PostgreSQL live on two workers; the org has one bucket."""
	weir = pooler(settings={"workers": 2}, databases={"app": {}, "app2": {"host": "localhost"}},
	              orgs={"a": f"tx_rate=100 tx_burst=20 rate_action={action}"})
	clients = [weir.raw(database, params=of("a"), seconds=5) for database in ("app", "app2") for _ in range(6)]
	homes = {row["home"] for row in weir.show("CLUSTERS")}
	assert len(homes) == 2
	passed = []
	end = time.monotonic() + 2

	def work(client):
		while time.monotonic() < end:
			passed.append(client.talk(Q("select 1")) == "T D[1] C(SELECT 1) Z(I)")

	began = time.monotonic()
	in_threads(*[lambda client=client: work(client) for client in clients])
	took = time.monotonic() - began
	assert 0.9 * 200 <= sum(passed) <= 20 + 100 * took + 1


def test_a_cancel_request_ends_the_wait(pg, pooler):
	weir = pooler(orgs={"a": f"{SLOW_RATE} rate_wait=60"})
	client = weir.raw(params=of("a"))
	client.query("select 1")
	client.send(Q("select 1"))
	until("it is held", lambda: org_row(weir)["held"] == 1)
	weir.cancel(client.key)
	client.expect("E(57014) Z(I)")
	client.send(P("", "select 1"), B(), H)
	client.expect("1 2")
	client.send(E(), S)
	until("it is held", lambda: org_row(weir)["held"] == 1)
	weir.cancel(client.key)
	client.expect("E(57014) Z(I)")
	assert client.talk(P("", "select 1"), S) == "1 Z(I)"


def test_who_leaves_the_queue_leaves_nothing_behind(pg, pooler):
	weir = pooler(orgs={"a": "tx_rate=2 tx_burst=1 rate_wait=60"})
	clients = [weir.raw(params=of("a"), seconds=5) for _ in range(6)]
	for client in clients:
		client.send(Q("select 1"))
	until("five are held", lambda: org_row(weir)["held"] == 5)
	for client in clients[:5]:
		client.close()
	until("one is held", lambda: org_row(weir)["held"] <= 1)
	clients[5].expect("T D[1] C(SELECT 1) Z(I)")
	until("their seats are free", lambda: org_row(weir)["clients"] == 1)


def test_idle_transaction_timeout_is_not_for_those_that_are_held(pg, pooler):
	weir = pooler(settings={"idle_transaction_timeout": 0.3}, orgs={"a": "tx_rate=1 tx_burst=1 rate_wait=60"})
	client = weir.raw(params=of("a"), seconds=5)
	client.query("select 1")
	client.send(P("", "select 1"), B(), H)
	client.expect("1 2")
	assert client.talk(E(), S) == "D[1] C(SELECT 1) Z(I)"


def test_a_terminate_behind_what_is_held_is_seen_when_its_turn_comes(pg, pooler):
	weir = pooler(orgs={"a": "tx_rate=4 tx_burst=1 rate_wait=60"})
	client = weir.raw(params=of("a"), seconds=5)
	client.query("select 1")
	client.send(Q("insert into t values (77)"), X)
	until("it was done", lambda: pg.sql("select 1 from t where x = 77", dbname="app"), 5)
	until("it has left", lambda: org_row(weir)["clients"] == 0)


@pytest.mark.alone
def test_a_new_rate_is_in_force_after_reload(pg, pooler):
	weir = pooler(orgs={"a": "tx_rate=0.01 tx_burst=1 rate_wait=60"})
	clients = [weir.raw(params=of("a"), seconds=5) for _ in range(4)]
	clients[0].query("select 1")
	for client in clients:
		client.send(Q("select 1"))
	until("they are held", lambda: org_row(weir)["held"] == 4)
	weir.orgs["a"] = "pool_size=3"
	weir.reload()
	for client in clients:
		client.expect("T D[1] C(SELECT 1) Z(I)")
	weir.orgs["a"] = f"{SLOW_RATE} rate_action=reject"
	weir.reload()
	assert clients[0].talk(*[Q("select 1")] * 3, times=3).endswith("E(53400) Z(I)")
	row = org_row(weir)
	assert (row["tx_rate"], row["tx_burst"], row["rate_action"], row["rate_wait_ms"]) == ("0.2", "1", "reject", 1000)


def test_without_a_burst_it_is_a_seconds_worth(pg, pooler):
	client = pooler(orgs={"*": "tx_rate=7 rate_action=reject", "default": "tx_rate=0"}).raw(params=of("a"))
	got = client.talk(*[Q("select 1")] * 9, times=9)
	assert got.count("D[1]") == 7 and got.count("E(53400)") == 2


# --- new connections

def test_conn_rate_refuses_with_53300_and_says_when_to_come_again(pg, pooler):
	weir = pooler(orgs={"a": "conn_rate=3"})
	for _ in range(3):
		weir.raw(params=of("a")).query("select 1")
	refused = weir.refusal(params=of("a"))
	assert refused.sqlstate == "53300" and refused.severity == "FATAL"
	said = re.match(r'^new connections of org "a" exceeded \(conn_rate 3 per second\), retry after (\d+) ms$', refused.message)
	assert said and int(said[1]) <= 334
	assert refused.fields["H"] == f"retry after {said[1]} ms"
	assert weir.raw(params=of("b")).value("select 1") == "1"
	time.sleep(int(said[1]) / 1000)
	assert weir.raw(params=of("a")).value("select 1") == "1"
	assert org_row(weir)["refused"] == 1


@pytest.mark.parametrize("line", ["a", "*"])
def test_conn_rate_comes_before_the_password(pg, pooler, line):
	"""Of an org that is known: it was in the configuration, or somebody has brought it in."""
	weir = pooler(settings={"auth_type": "scram-sha-256"}, orgs={line: "conn_rate=2", "default": "conn_rate=0"})
	for _ in range(2):
		weir.raw(params=of("a"))
	asked = weir.open()
	asked.startup(user="app", database="app", params=of("a"))
	letter, body = asked.read_message()
	assert letter == "E" and b"C53300\0" in body


def test_a_flood_of_connections_is_let_in_at_the_rate(pg, pooler):
	weir = pooler(orgs={"a": "conn_rate=20"}, settings={"max_client_conn": 500})
	came = []
	end = time.monotonic() + 1.5

	def work():
		while time.monotonic() < end:
			try:
				weir.raw(params=of("a")).close()
				came.append(True)
			except ServerError as refused:
				assert refused.sqlstate == "53300"

	began = time.monotonic()
	in_threads(*[work] * 6)
	took = time.monotonic() - began
	assert 20 + 20 * 1.5 * 0.8 <= len(came) <= 20 + 20 * took + 1


def test_a_refused_connection_gives_its_seat_back(pg, pooler):
	weir = pooler(orgs={"a": "conn_rate=0.1 max_client_conn=8"})
	first = weir.raw(params=of("a"))
	for _ in range(30):
		assert "conn_rate" in weir.refusal(params=of("a")).message
	until("no seat is lost", lambda: org_row(weir)["clients"] == 1)
	first.query("select 1")


# --- drivers

def test_psycopg_goes_on_after_a_refusal(pg, pooler):
	weir = pooler(orgs={"a": f"{SLOW_RATE} rate_action=reject"})
	client = weir.connect(application_name="org=a")
	assert client.execute("select 1").fetchone() == (1,)
	for _ in range(3):
		with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="retry after"):
			client.execute("select %s::int", (2,))
		with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
			client.execute("select %s::int", (2,), prepare=True)
		assert client.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_psycopg_in_pipeline_mode_gets_an_error_for_each_that_is_refused(pg, pooler):
	weir = pooler(orgs={"a": "tx_rate=0.2 tx_burst=2 rate_action=reject"})
	client = weir.connect(application_name="org=a")
	served, refused = 0, 0
	for n in range(4):
		try:
			with client.pipeline():
				cursors = [client.execute("select %s::int", (n,)) for _ in range(3)]
			assert [cursor.fetchone() for cursor in cursors] == [(n,)] * 3
			served += 1
		except psycopg.errors.ConfigurationLimitExceeded:
			refused += 1
	assert refused and served


def test_psycopg_is_slowed_down_by_the_queue_and_sees_no_error(pg, pooler):
	weir = pooler(orgs={"a": "tx_rate=20 tx_burst=1 rate_wait=5"})
	client = weir.connect(application_name="org=a")
	client.execute("select 0")
	began = time.monotonic()
	with client.pipeline() as pipeline:
		cursors = []
		for n in range(5):
			cursors.append(client.execute("select %s::int", (n,)))
			pipeline.sync()
	assert [cursor.fetchone()[0] for cursor in cursors] == list(range(5))
	for n in range(5):
		with client.transaction():
			assert client.execute("select %s::int", (n,)).fetchone() == (n,)
	assert time.monotonic() - began > 0.45


def test_asyncpg_goes_on_after_a_refusal(pg, pooler):
	asyncpg = pytest.importorskip("asyncpg")
	weir = pooler(orgs={"a": "tx_rate=0.2 tx_burst=2 rate_action=reject"})

	async def work():
		client = await asyncpg.connect(host=weir.host, port=weir.port, user="app", database="app", password=weir.password("app"),
		                               server_settings={"application_name": "org=a"})
		assert await client.fetchval("select $1::int", 1) == 1
		assert await client.fetchval("select 2") == 2
		for n in range(3):
			with pytest.raises(asyncpg.exceptions.ConfigurationLimitExceededError):
				await client.fetchval("select $1::int", 1)
			with pytest.raises(asyncpg.exceptions.ConfigurationLimitExceededError):
				await client.fetchval(f"select {n}, $1::text", "new")
			with pytest.raises(asyncpg.exceptions.ConfigurationLimitExceededError):
				await client.execute("select 1")
		await client.close()

	asyncio.run(work())


@pytest.mark.alone
def test_pgbench_keeps_to_the_rate(pg, pooler):
	weir = pooler(orgs={"a": "tx_rate=100 tx_burst=1 rate_wait=10"})
	script = process.write_file(f"{weir.folder}/one.sql", "select 1;\n", 0o644)
	for protocol in ("simple", "extended", "prepared"):
		said = process.run(["pgbench", "-n", "-h", weir.host, "-p", str(weir.port), "-U", "app", "-c", "8", "-t", "20", "-M", protocol,
		                    "-f", script, "dbname=app application_name=org=a"], env={"PGPASSWORD": weir.password("app")}, seconds=30).stdout
		assert "160/160" in said
		tps = float(re.search(r"tps = ([\d.]+)", said)[1])
		assert 80 / SLOW < tps < 103, said
