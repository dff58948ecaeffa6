"""Who gets the next server when there are fewer than are wanted: shares, weights, priorities, and nobody forgotten."""

import statistics
import threading
import time

import pytest

from rig.cases import Background, in_threads
from rig.limits import SLOW, limit, until
from rig.load import start_pgbench
from rig.raw import Q

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("clean"), pytest.mark.pgweir("fairness between orgs is ours")]


def of(org):
	return {"x-org-id": org}


def slot_times(weir):
	return {row["org"]: row["total_slot_time"] for row in weir.show("ORGS")}


def flood(weir, org, *, clients, sql, seconds=30):
	return start_pgbench(weir, sql, clients=clients, seconds=seconds, database=f"dbname=app application_name=org={org}")


def stop(benches):
	for bench in benches:
		bench.kill()
	for bench in benches:
		bench.wait()


class Flood:
	"""Orgs that want more servers than there are, for as long as the block lasts."""

	def __init__(self, weir, orgs, sql, clients=8):
		self.weir, self.orgs, self.sql, self.clients = weir, orgs, sql, clients

	def __enter__(self):
		self.benches = [flood(self.weir, org, clients=self.clients, sql=self.sql) for org in self.orgs]
		until("all orgs wait", lambda: sum(row["waiting"] > self.clients // 2 for row in self.weir.show("ORGS") if row["org"] in self.orgs)
		      >= len(self.orgs), 20)
		return self

	def __exit__(self, *_):
		stop(self.benches)
		until("their clients are gone", lambda: not any(row["clients"] for row in self.weir.show("ORGS")
		                                                if row["org"] in self.orgs), 10)


# --- nobody is forgotten

def test_an_org_at_its_pool_size_whose_server_goes_to_another_org_is_served_again(pg, pooler):
	"""Both are at pool_size when they are served, and below it when they are not."""
	weir = pooler(settings={"max_server_conn": 1}, orgs={"*": "pool_size=1"})
	clients = [weir.raw(params=of(org), seconds=10) for org in "aaabbb"]
	clients[0].query("begin")
	for client in clients[1:]:
		client.send(Q("select pg_sleep(0.01)"))
	weir.wait_pool(org="a", cl_waiting=2)
	weir.wait_pool(org="b", cl_waiting=3)
	clients[0].query("commit")
	for client in clients[1:]:
		client.expect("T D[] C(SELECT 1) Z(I)")


def test_waiters_of_orgs_with_users_of_their_own_are_all_served(pg, pooler):
	"""No server can change hands: each is ended to make room for the next."""
	weir = pooler(settings={"max_server_conn": 2, "max_client_conn": 200})

	def work(user):
		client = weir.raw(user=user, seconds=30)
		for n in range(10):
			assert client.value(f"select {n}") == str(n)

	in_threads(*[lambda user=user: work(user) for user in ("app", "app2", "app3") for _ in range(5)])


@pytest.mark.parametrize("reserve", ["reserve_pool_size=1", ""])
def test_reserve_and_minimum_hold_at_the_ceiling(pg, pooler, reserve):
	weir = pooler(settings={"max_server_conn": 3, "reserve_pool_timeout": 0.2},
	              orgs={"a": f"pool_size=1 min_pool_size=1 {reserve}", "b": "pool_size=2"})
	holder, waiter = (weir.raw(params=of("a"), seconds=5) for _ in range(2))
	holder.query("begin")
	waiter.send(Q("select 1"))
	if reserve:
		waiter.expect("T D[1] C(SELECT 1) Z(I)")
	else:
		weir.wait_pool(org="a", cl_waiting=1, sv_active=1)
	holder.query("rollback")
	if not reserve:
		waiter.expect("T D[1] C(SELECT 1) Z(I)")


# --- straight to the next

def test_a_freed_slot_goes_straight_to_the_next_waiter(pg, pooler):
	"""Neither a poll nor a timer lies between: the next org is served in the time of a round trip, each time."""
	weir = pooler(settings={"max_server_conn": 1})
	holder, waiter = weir.raw(params=of("a")), weir.raw(params=of("b"))
	took = []
	for _ in range(60):
		holder.query("begin")
		waiter.send(Q("select 1"))
		until("it waits", lambda: any(row["waiting"] for row in weir.show("ORGS", org="b")))
		began = time.monotonic()
		holder.send(Q("commit"))
		waiter.expect("T D[1] C(SELECT 1) Z(I)")
		took.append(time.monotonic() - began)
		holder.read_ready()
	assert statistics.median(took) < 0.004 * SLOW, f"the median is {statistics.median(took) * 1000:.1f} ms"


# --- shares

def test_backlogged_orgs_share_the_slots_by_weight(pg, pooler):
	weights = {"a": 1, "b": 1, "c": 2, "d": 3, "e": 4, "f": 5}
	weir = pooler(settings={"max_server_conn": 4, "max_client_conn": 200},
	              orgs={org: f"weight={weight}" for org, weight in weights.items()})
	with Flood(weir, weights, "\\set ms random(1, 10)\nselect pg_sleep(:ms / 1000.0);\n", clients=12):
		before = slot_times(weir)
		time.sleep(limit(10))
		after = slot_times(weir)
	used = {org: after[org] - before[org] for org in weights}
	unit = sum(used.values()) / sum(weights.values())
	off = {org: round(100 * (used[org] / unit / weight - 1), 1) for org, weight in weights.items()}
	assert max(map(abs, off.values())) <= 3, f"per cent off the share: {off}"


def test_an_org_with_slow_transactions_gets_no_more_than_one_with_quick_ones(pg, pooler):
	weir = pooler(settings={"max_server_conn": 4, "max_client_conn": 200})
	with Flood(weir, ["slow"], "select pg_sleep(0.1);\n", clients=20), \
			Flood(weir, ["q1", "q2", "q3"], "select pg_sleep(0.002);\n", clients=12):
		before = slot_times(weir)
		time.sleep(limit(8))
		after = slot_times(weir)
	used = {org: after[org] - before[org] for org in ("slow", "q1", "q2", "q3")}
	share = used["slow"] / (sum(used.values()) / 4)
	assert 0.9 < share < 1.1, f"{share:.2f} of its share"


def test_a_new_weight_is_in_force_after_reload(pg, pooler):
	weir = pooler(settings={"max_server_conn": 2, "max_client_conn": 200}, orgs={"a": "weight=1"})

	def ratio():
		before = slot_times(weir)
		time.sleep(limit(2))
		after = slot_times(weir)
		return (after["a"] - before["a"]) / (after["b"] - before["b"])

	with Flood(weir, ["a", "b"], "select pg_sleep(0.003);\n"):
		assert 0.85 < ratio() < 1.18
		weir.orgs["a"] = "weight=4"
		weir.reload()
		assert 3.4 < ratio() < 4.7


def test_an_org_that_comes_back_from_idleness_has_no_credit(pg, pooler):
	weir = pooler(settings={"max_server_conn": 2, "max_client_conn": 200})
	with Flood(weir, ["busy"], "select pg_sleep(0.003);\n", clients=12):
		time.sleep(limit(2))
		with Flood(weir, ["back"], "select pg_sleep(0.003);\n", clients=12):
			before = slot_times(weir)
			time.sleep(limit(1))
			after = slot_times(weir)
	share = (after["back"] - before["back"]) / (after["busy"] - before["busy"])
	assert 0.8 < share < 1.25, f"it got {share:.2f} times what the other got"


# --- the quiet among the busy

def longest_of(client, count, pause):
	took = []
	for _ in range(count):
		began = time.monotonic()
		client.query("select 1")
		took.append(time.monotonic() - began)
		time.sleep(pause)
	return max(took)


def test_a_quiet_user_is_served_within_a_transactions_time_while_twenty_busy_ones_flood(pg, pooler):
	"""Two users, one database, its connections capped: none of the busy user's may stand between."""
	weir = pooler(databases={"app": {"max_db_connections": 2}}, settings={"max_client_conn": 100})
	busy = [weir.raw(user="app", seconds=30) for _ in range(20)]
	quiet = weir.raw(user="app2", seconds=30)

	def work(client):
		return lambda n: client.query("select pg_sleep(0.3)")

	with Background(*map(work, busy), seconds=20):
		weir.wait_pool(user="app", cl_waiting=18)
		longest = longest_of(quiet, 5, 0.2)
	assert longest < limit(0.3 + 0.25), f"{longest:.2f} s behind transactions of 0.3 s"


def test_a_quiet_org_is_served_within_a_transactions_time_while_twenty_flood(pg, pooler):
	weir = pooler(settings={"max_server_conn": 4, "max_client_conn": 300})
	orgs = [f"o{n}" for n in range(20)]
	busy = [weir.raw(params=of(org), seconds=30) for org in orgs for _ in range(4)]
	quiet = weir.raw(params=of("quiet"), seconds=30)

	def work(client):
		return lambda n: client.query("select pg_sleep(0.2 + random() * 0.05)")

	with Background(*map(work, busy), seconds=30):
		until("each was served", lambda: all(slot_times(weir).get(org) for org in orgs), 10)
		longest = longest_of(quiet, 10, 0.2)
	assert longest < limit(0.25 + 0.1), f"{longest:.2f} s behind transactions of 0.2 s"


# --- priorities

def test_a_lower_priority_is_served_only_when_no_higher_one_waits(pg, pooler):
	weir = pooler(settings={"max_server_conn": 1, "priority_max_wait": 60},
	              orgs={"h": "priority=high", "l": "priority=low"})
	holder = weir.raw(params=of("n"))
	holder.query("begin")
	order, lock = [], threading.Lock()

	def work(org):
		client = weir.raw(params=of(org), seconds=20)
		client.query("select pg_sleep(0.02)")
		with lock:
			order.append(org)

	with Background(*[lambda n, org=org: work(org) for org in "lllnnnhhh"], times=1, seconds=20):
		until("all nine wait", lambda: sum(row["waiting"] for row in weir.show("ORGS")) == 9)
		holder.query("commit")
	assert "".join(order) == "hhhnnnlll"


@pytest.mark.parametrize("where", ["process", "cluster"])
def test_nobody_waits_longer_than_priority_max_wait_behind_a_higher_one(pg, pooler, where):
	line = f"primary={pg.host}:{pg.port} max_server_conn=2" + (" priority_max_wait=1" if where == "cluster" else "")
	weir = pooler(settings={"max_client_conn": 100, "priority_max_wait": 1 if where == "process" else 60},
	              clusters={"main": line}, databases={"app": {"cluster": "main"}},
	              orgs={"h": "priority=high", "l": "priority=low"})
	with Flood(weir, ["h"], "select pg_sleep(0.02);\n", clients=20):
		clients = [weir.raw(params=of("l"), seconds=10) for _ in range(4)]
		began = time.monotonic()
		for client in clients:
			client.send(Q("select 1"))
		for client in clients:
			client.expect("T D[1] C(SELECT 1) Z(I)")
		took = time.monotonic() - began
	assert 1 <= took < 1 + limit(0.5), f"it took {took:.2f} s"
