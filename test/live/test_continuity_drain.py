"""The drain worker: every command has its effect once, wherever it is killed."""

import itertools
import json
import signal
import sys
import time

import pytest

from rig import process
from rig.cases import dice
from rig.limits import limit, rounds, until
from rig.store import ETC, Store, install

pytestmark = pytest.mark.apart

_number = itertools.count()

STEPS = ["claimed", "begun", "noted", "applied", "committed", "acked"]

# The effect shows how often it came about: no key keeps a second row out.
HANDLERS = """
create schema app_commands;
create table effects (command text, amount numeric, org text);
create function app_commands.pay(payload jsonb) returns void language sql as
	$$insert into effects values (payload->>'n', (payload->>'amount')::numeric, current_setting('pgweir.org', true))$$;
create function app_commands.refuse(payload jsonb) returns void language plpgsql as
	$$begin insert into effects values ('refused'); raise 'no such account'; end$$;
create function app_commands.sleep(payload jsonb) returns void language sql as
	$$insert into effects values ('slept'); select pg_sleep(60)$$;
grant usage on schema app_commands to store_drain;
grant all on effects to store_drain;
"""


class Drained:
	"""A store and a primary, which are two databases here, and the workers between them."""

	def __init__(self, server):
		self.server = server
		self.store = Store(server, f"drain_store_{next(_number)}")
		self.primary = f"drain_primary_{next(_number)}"
		server.sql(f"create database {self.primary}")
		install(server, self.primary, "applied")
		server.sql(HANDLERS, dbname=self.primary)
		self.store.poll()
		self.folder = process.new_folder(prefix="drain-")
		self.workers = []

	def start(self, *, kill_at=None, lease_s=30, **env):
		log = f"{self.folder}/log-{len(self.workers)}"
		with open(log, "wb") as out:
			child = process.spawn(
				[sys.executable, f"{ETC}/continuity-drain", "--cluster", "main", "--handlers", "app_commands",
				 "--name", f"worker-{len(self.workers)}", "--lease", str(lease_s), "--poll", "0.05"],
				env={"DRAIN_STORE": self.store.dsn("drain"), "DRAIN_PRIMARY": self.server.dsn(self.primary, "store_drain"),
				     **({"DRAIN_KILL_AT": kill_at} if kill_at else {}), **env}, stderr=out)
		child.log = log
		self.workers.append(child)
		return child

	def log(self, worker):
		with open(worker.log) as log:
			return log.read()

	def enqueue(self, n, kind="pay", **more):
		return self.store.enqueue(n, kind, json.dumps({"n": str(n), **more}))

	def sql(self, query):
		return self.server.sql(query, dbname=self.primary)

	def effects(self):
		return sorted(name for name, in self.sql("select command from effects"))

	def states(self):
		return dict(self.store.sql("select state, count(*) from pgweir.commands group by 1"))

	def end_leases(self):
		self.store.sql("update pgweir.commands set due_at = now() where state = 'claimed'")

	def wait_acked(self, count, seconds=20):
		until(f"{count} commands are acked", lambda: self.states() == {"acked": count}, seconds)

	def sessions(self, more="true"):
		"""Of workers, at both ends."""
		return self.server.value("select count(*) from pg_stat_activity where usename = 'store_drain' and " + more)

	def close(self):
		for worker in self.workers:
			process.end(worker, signal.SIGKILL)
		self.store.close()
		self.server.drop(self.primary)
		process.remove(self.folder)


@pytest.fixture
def drained(shared_pg):
	made = Drained(shared_pg)
	yield made
	made.close()


def test_commands_are_applied_in_order_and_acked(drained):
	for n in range(20):
		drained.enqueue(n)
	drained.start()
	drained.wait_acked(20)
	assert drained.sql("select command::int from effects order by ctid") == [(n,) for n in range(20)]


@pytest.mark.parametrize("step", STEPS)
def test_workers_killed_at_any_step_lose_nothing_and_double_nothing(drained, step):
	for n in range(3):
		drained.enqueue(n)
	for killed in range(1, 3):
		assert drained.start(kill_at=step).wait(limit(20)) == -signal.SIGKILL
		until("PostgreSQL has noticed", lambda: drained.sessions() == 0, 10)
		# The first command is applied once or not yet, however many workers died over it; after an ack it is the next.
		assert len(drained.effects()) == {"committed": 1, "acked": killed}.get(step, 0)
		assert drained.states().get("acked", 0) == (killed if step == "acked" else 0)
		drained.end_leases()
	drained.start()
	drained.wait_acked(3)
	assert drained.effects() == ["0", "1", "2"]


def test_workers_killed_at_random_moments_come_to_the_same_end(drained):
	random_ = dice()
	count = rounds(60)
	for n in range(count):
		drained.enqueue(n)
	kills = 0
	while drained.states().get("acked", 0) < count:
		worker = drained.start(lease_s=1)
		until("the worker is at work", lambda: "applied" in drained.log(worker) or drained.states() == {"acked": count}, 20)
		time.sleep(random_.uniform(0, 0.05)) # not a wait for anything: the moment of the kill
		worker.kill()
		worker.wait()
		kills += 1
		drained.end_leases()
	print(kills, "kills")
	assert kills > 1
	assert drained.effects() == sorted(str(n) for n in range(count))


def test_workers_side_by_side_apply_every_command_once(drained):
	for _ in range(3):
		drained.start()
	for n in range(100):
		drained.enqueue(n)
	drained.wait_acked(100)
	assert drained.effects() == sorted(str(n) for n in range(100))


def test_a_worker_that_wakes_after_its_lease_does_not_double_what_another_one_did(drained):
	drained.enqueue(0)
	with drained.server.connect(drained.primary) as blocker:
		blocker.execute("lock table effects")
		slow = drained.start(lease_s=30)
		until("it waits", lambda: drained.sessions("wait_event_type = 'Lock'") == 1, 10)
		drained.end_leases()
		other = drained.start(lease_s=30)
		until("both wait", lambda: drained.sessions("wait_event_type = 'Lock'") == 2, 10)
		blocker.rollback()
	drained.wait_acked(1)
	until("both are done", lambda: all("applied" in drained.log(worker) for worker in (slow, other)), 5)
	assert drained.effects() == ["0"]
	assert "the claim was lost" in drained.log(slow)
	assert "was applied before" in drained.log(other)


def test_a_command_that_fails_has_no_effect_and_is_tried_again_later(drained):
	drained.enqueue(0, "refuse")
	drained.enqueue(1)
	worker = drained.start()
	until("the other is acked", lambda: drained.states() == {"pending": 1, "acked": 1}, 10)
	assert drained.effects() == ["1"]
	attempts, error, wait = drained.store.sql("select attempts, error, extract(epoch from due_at - now()) from pgweir.commands "
	                                          "where state = 'pending'")[0]
	assert attempts == 1 and "no such account" in error and 5 < wait <= 15
	assert "no such account" in drained.log(worker)


def test_a_kind_without_a_handler_fails_and_nothing_else_can_be_called(drained):
	for n, kind in enumerate(("nothing", "pg_sleep", "advance")):
		drained.enqueue(n, kind)
	drained.start()
	until("all have failed", lambda: drained.store.value("select count(error) from pgweir.commands") == 3, 10)
	assert drained.states() == {"pending": 3}
	assert all("does not exist" in error for error, in drained.store.sql("select error from pgweir.commands"))


def test_a_command_that_takes_too_long_is_cancelled_and_has_failed(drained):
	drained.enqueue(0, "sleep")
	drained.start(lease_s=2)
	until("it has failed", lambda: drained.store.value("select error from pgweir.commands"), 10)
	assert "statement timeout" in drained.store.value("select error from pgweir.commands")
	assert drained.states() == {"pending": 1} and drained.effects() == []


def test_a_primary_that_is_away_costs_no_attempts(drained):
	worker = drained.start()
	until("it serves", lambda: "serves under epoch 1" in drained.log(worker), 10)
	drained.server.sql(f"alter database {drained.primary} allow_connections false")
	drained.server.sql("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and usename = 'store_drain'",
	                   [drained.primary])
	drained.enqueue(0)
	until("it has been given back", lambda: "given back" in drained.log(worker), 10)
	until("it tries to connect", lambda: drained.log(worker).count("not currently accepting") > 2, 10)
	assert drained.store.sql("select state, attempts from pgweir.commands") == [("pending", 0)]
	drained.server.sql(f"alter database {drained.primary} allow_connections true")
	drained.wait_acked(1)
	assert drained.effects() == ["0"]


def test_a_store_that_is_away_is_waited_for(drained):
	worker = drained.start()
	until("it serves", lambda: "serves under epoch 1" in drained.log(worker), 10)
	for n in range(3):
		drained.server.sql("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and usename = 'store_drain'",
		                   [drained.store.dbname])
		drained.enqueue(n)
		drained.wait_acked(n + 1)
	assert drained.effects() == ["0", "1", "2"]


def test_nothing_is_applied_while_the_cluster_is_degraded(drained):
	worker = drained.start()
	until("it serves", lambda: "serves under epoch 1" in drained.log(worker), 10)
	drained.store.ask("open", "main", 1, "PRIMARY", "n", "")
	drained.enqueue(0)
	looks = drained.store.value("select xact_commit from pg_stat_database where datname = current_database()")
	until("it has looked again", lambda: drained.store.value("select xact_commit from pg_stat_database where "
	      "datname = current_database()") > looks + 20, 10)
	assert drained.states() == {"pending": 1} and drained.effects() == []
	drained.store.ask("recover", "main", 1, "n")
	drained.wait_acked(1)


def test_the_worker_goes_on_under_the_next_epoch_and_tells_the_trigger(drained):
	install(drained.server, drained.primary, "fence-trigger")
	drained.sql("select pgweir_local.protect('effects')")
	worker = drained.start()
	drained.enqueue(0)
	drained.wait_acked(1)
	drained.store.ask("fence", "main", "n", "")
	drained.enqueue(1)
	drained.wait_acked(2)
	drained.store.poll(), drained.store.poll()
	assert drained.store.ask("unfence", "main", 1, "n", "drained").ok
	until("the trigger knows", lambda: drained.sql("select epoch from pgweir_local.current") == [(2,)], 10)
	drained.enqueue(2)
	drained.wait_acked(3)
	assert drained.sql("select epoch from pgweir_local.applied order by applied_at") == [(1,), (1,), (2,)]
	assert "serves under epoch 2" in drained.log(worker)


def test_a_worker_whose_store_has_gone_back_applies_nothing(drained):
	install(drained.server, drained.primary, "fence-trigger")
	drained.sql("select pgweir_local.advance(7)")
	drained.enqueue(0)
	worker = drained.start()
	until("it says so", lambda: "its epoch is 7" in drained.log(worker), 10)
	assert drained.states() == {"pending": 1} and drained.effects() == []


def test_numbers_and_orgs_arrive_as_they_were_queued(drained):
	for n, amount, org in (("a", "12345678901234567890.12345678901234567890", "acme"), ("b", "1.10", None),
	                       ("c", "null", "o:1_x.y-z")):
		drained.store.ask("enqueue", "main", n, "pay", f'{{"n": "{n}", "amount": {amount}}}', org, role="app")
	drained.start()
	drained.wait_acked(3)
	assert drained.sql("select command, amount::text, org from effects order by command") == [
		("a", "12345678901234567890.12345678901234567890", "acme"), ("b", "1.10", "default"), ("c", None, "o:1_x.y-z")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_end_finishes_its_command_and_takes_no_other(drained, number):
	drained.enqueue(0)
	drained.enqueue(1)
	with drained.server.connect(drained.primary) as blocker:
		blocker.execute("lock table effects")
		worker = drained.start()
		until("it waits", lambda: drained.sessions("wait_event_type = 'Lock'") == 1, 10)
		worker.send_signal(number)
		blocker.rollback()
	assert worker.wait(limit(10)) == 0
	assert drained.states() == {"acked": 1, "pending": 1} and drained.effects() == ["0"]


def test_an_idle_worker_ends_at_once_when_it_is_told_to(drained):
	worker = drained.start()
	until("it serves", lambda: "serves under epoch 1" in drained.log(worker), 10)
	assert process.end(worker) == 0
	assert drained.log(worker).rstrip().endswith("INFO ends")


def test_a_worker_without_connection_strings_says_what_is_missing():
	done = process.run([sys.executable, f"{ETC}/continuity-drain", "--cluster", "c", "--handlers", "h"], check=False)
	assert done.returncode == 2 and "--store" in done.stderr
