"""The control store's queue of commands, and its snapshots."""

import itertools
import json
import uuid

import pytest
from psycopg import errors

from rig.cases import in_threads
from rig.limits import rounds
from rig.store import Store

_number = itertools.count()


@pytest.fixture
def store(shared_pg):
	made = Store(shared_pg, f"queue_{next(_number)}").stop_clock()
	made.poll()
	yield made
	made.close()


def ack(store, command, **how):
	return store.ask("ack", command.id, command.claim, role="drain", **how).ack


def fail(store, command, because="it broke"):
	return store.ask("fail", command.id, command.claim, because, role="drain")


def release(store, command, wait_s=1):
	return store.ask("release", command.id, command.claim, "primary away", wait_s, role="drain").release


def state(store, command):
	return store.ask("command", command.id, role="app").state


def padded(size):
	"""A payload whose text has exactly this many bytes."""
	return json.dumps({"a": "x" * (size - len('{"a": ""}'))})


# --- queuing

def test_a_key_queues_one_command_however_often_it_is_said(store):
	first = store.enqueue("order-1", payload='{"amount": 1.10}')
	again = store.enqueue("order-1", payload='{"amount":1.10}')
	assert (first.fresh, first.state) == (True, "pending")
	assert (again.fresh, again.id, again.seq) == (False, first.id, first.seq)
	[command] = store.claim()
	ack(store, command)
	assert store.enqueue("order-1", payload='{"amount": 1.10}').state == "acked"
	assert store.claim() == []


def test_a_key_that_many_say_at_once_queues_one_command(store):
	answers = []

	def client():
		with store.connect("app") as own:
			answers.extend(store.enqueue(f"k{i}", on=own) for i in range(rounds(30)))

	in_threads(*[client] * 4)
	assert len({answer.id for answer in answers}) == sum(answer.fresh for answer in answers) == rounds(30)
	assert len(store.claim(at_most=1000)) == rounds(30)


@pytest.mark.parametrize("other", [dict(kind="refund"), dict(payload='{"amount": 2}')])
def test_a_key_that_comes_with_another_command_is_refused(store, other):
	store.enqueue("order-1", payload='{"amount": 1}')
	with pytest.raises(errors.UniqueViolation):
		store.enqueue("order-1", **{"payload": '{"amount": 1}', **other})
	with pytest.raises(errors.UniqueViolation):
		store.ask("enqueue", "main", "order-1", "pay", '{"amount": 1}', "another-org", role="app")


def test_clusters_do_not_share_keys(store):
	store.poll(cluster="other")
	assert store.enqueue("k").id != store.enqueue("k", cluster="other").id
	assert len(store.claim(at_most=10)) == 1


def test_a_command_id_may_be_given_and_stands_for_one_command(store):
	mine = str(uuid.uuid4())
	for fresh in (True, False):
		queued = store.ask("enqueue", "main", "k", "pay", "{}", None, mine, role="app")
		assert (str(queued.id), queued.fresh) == (mine, fresh)
	with pytest.raises(errors.UniqueViolation):
		store.ask("enqueue", "main", "other key", "pay", "{}", None, mine, role="app")
	with pytest.raises(errors.UniqueViolation):
		store.ask("enqueue", "main", "k", "pay", "{}", None, uuid.uuid4(), role="app")


def test_a_command_has_64_kib_and_not_a_byte_more(store):
	assert store.enqueue("fits", payload=padded(65536)).fresh
	with pytest.raises(errors.ProgramLimitExceeded):
		store.enqueue("too long", payload=padded(65537))
	with pytest.raises(errors.ProgramLimitExceeded):
		store.enqueue("longer than it looks", payload='{"a": 1e70000}')


def test_a_key_or_kind_that_is_none_is_refused(store):
	for key, kind in (("", "pay"), ("k" * 256, "pay"), (None, "pay"), ("k", ""), ("k", None), ("k", "a.b"), ("k", "x" * 64),
	                  ("k", "pay; drop"), ("k", "1pay"), ("k", "pay\n")):
		with pytest.raises(errors.IntegrityError):
			store.enqueue(key, kind=kind)
	assert store.claim() == []


def test_a_cluster_that_is_not_there_takes_no_commands(store):
	with pytest.raises(errors.UndefinedObject):
		store.enqueue("k", cluster="none")
	with pytest.raises(errors.UndefinedObject):
		store.claim(cluster="none")


# --- claiming

def test_two_claimers_never_get_the_same_command(store):
	count = rounds(300)
	for i in range(count):
		store.enqueue(i)
	got = []

	def worker(name, at_most):
		with store.connect("drain") as own:
			while commands := store.claim(name, at_most=at_most, on=own):
				got.extend(command.id for command in commands)

	in_threads(*[lambda name=f"w{i}": worker(name, 1 + len(name) % 3) for i in range(6)])
	assert len(got) == count and len(set(got)) == count


def test_commands_are_claimed_in_the_order_in_which_they_were_queued(store):
	queued = [store.enqueue(i).id for i in range(7)]
	claimed = [command.id for command in store.claim(at_most=4)] + [command.id for command in store.claim(at_most=4)]
	assert claimed == queued


def test_a_claimer_does_not_wait_for_another_one_that_is_not_done(store):
	first, second = store.enqueue("a"), store.enqueue("b")
	with store.connect("drain", autocommit=False) as slow:
		assert [command.id for command in store.claim("slow", on=slow)] == [first.id]
		assert [command.id for command in store.claim("quick", at_most=9)] == [second.id]


def test_a_claim_tells_all_that_is_needed_to_apply_it(store):
	queued = store.ask("enqueue", "main", "k", "pay", '{"n": [1, 2]}', "acme", role="app")
	[command] = store.claim()
	assert command == (queued.id, 1, queued.seq, "pay", "acme", {"n": [1, 2]}, 1, 1)


def test_a_claim_whose_lease_has_ended_is_claimed_by_the_next(store):
	store.enqueue("k")
	[lost] = store.claim("one", lease_s=60)
	store.later(59.9)
	assert store.claim("two") == []
	store.later(0.1)
	[taken] = store.claim("two", lease_s=60)
	assert (taken.id, taken.claim, taken.attempt) == (lost.id, 2, 2)
	assert store.value("select claimed_by from pgweir.commands") == "two"


@pytest.mark.parametrize("taken_over", [True, False])
def test_who_has_lost_the_lease_can_end_nothing(store, taken_over):
	store.enqueue("k")
	[lost] = store.claim("one", lease_s=60)
	store.later(60)
	if taken_over:
		[taken] = store.claim("two", lease_s=60)
	assert ack(store, lost) is False
	assert fail(store, lost).ok is False
	assert release(store, lost) is False
	assert state(store, lost) == "claimed"
	if taken_over:
		assert ack(store, taken) is True


def test_an_ack_may_be_said_again_by_who_said_it_and_by_nobody_else(store):
	store.enqueue("k")
	[lost] = store.claim("one", lease_s=60)
	store.later(60)
	[command] = store.claim("two", lease_s=60)
	assert ack(store, command) and ack(store, command)
	assert not ack(store, lost)
	assert not fail(store, command).ok and not release(store, command)
	store.later(3600)
	assert ack(store, command)
	assert state(store, command) == "acked"


def test_of_two_who_end_a_claim_at_once_one_does(store):
	for i in range(rounds(20)):
		store.enqueue(i)
		[command] = store.claim()
		said = []

		def end(function, *more):
			with store.connect("drain") as own:
				answer = store.ask(function, command.id, command.claim, *more, on=own)
				said.append(answer[0])

		in_threads(lambda: end("release", "x", 0), lambda: end("fail", "x"), lambda: end("release", "y", 0))
		assert sorted(said) == [False, False, True]
		store.sql("update pgweir.commands set state = 'acked', ended_at = now()")


def test_nothing_is_claimed_while_the_cluster_is_degraded(store):
	store.enqueue("k")
	store.ask("open", "main", 1, "PRIMARY", "n", "")
	assert store.claim() == []
	store.ask("recover", "main", 1, "n")
	assert len(store.claim()) == 1


def test_a_claim_out_of_bounds_is_refused(store):
	for lease_s, at_most in ((0, 1), (-1, 1), (3601, 1), (None, 1), (60, 0), (60, -1), (60, 1001), (60, None)):
		with pytest.raises(errors.InvalidParameterValue):
			store.claim(lease_s=lease_s, at_most=at_most)


# --- failing

def test_failures_back_off_from_15_seconds_doubling_and_the_eighth_is_the_end(store):
	queued = store.enqueue("k")
	for wait in (15, 30, 60, 120, 240, 480, 960):
		[command] = store.claim()
		failed = fail(store, command)
		assert (failed.ok, failed.state) == (True, "pending")
		store.later(wait - 0.001)
		assert store.claim() == [], f"claimed before {wait} s"
		store.later(0.001)
	[command] = store.claim()
	assert command.attempt == 8
	failed = fail(store, command, "for good")
	assert (failed.ok, failed.state) == (True, "dead")
	store.later(86400)
	assert store.claim() == []
	found = store.ask("command", queued.id, role="app")
	assert (found.state, found.attempts, found.error) == ("dead", 8, "for good")


def test_a_wait_is_an_hour_at_most(store):
	waits = [store.value("select pgweir.back_off(%s)", [n]).total_seconds() for n in range(1, 12)]
	assert waits == [15, 30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
	assert store.value("select pgweir.back_off(2147483647)").total_seconds() == 3600


def test_workers_that_die_over_a_command_count_as_failures(store):
	store.enqueue("k")
	for attempt in range(1, 9):
		[command] = store.claim(lease_s=60)
		assert command.attempt == attempt
		store.later(60)
	assert store.claim() == []
	assert state(store, command) == "dead"
	assert not ack(store, command)


def test_a_command_given_back_has_not_failed(store):
	store.enqueue("k")
	for _ in range(20):
		[command] = store.claim()
		assert command.attempt == 1
		assert release(store, command, wait_s=3)
		store.later(2.9)
		assert store.claim() == []
		store.later(0.1)


def test_a_late_fail_or_ack_of_a_claim_given_back_is_refused(store):
	store.enqueue("k")
	[old] = store.claim()
	release(store, old, wait_s=0)
	[new] = store.claim()
	assert new.attempt == old.attempt and new.claim == old.claim + 1
	assert not ack(store, old) and not fail(store, old).ok and not release(store, old)
	assert ack(store, new)


def test_commands_that_wait_do_not_keep_others_waiting(store):
	store.enqueue("bad")
	[bad] = store.claim()
	fail(store, bad)
	good = store.enqueue("good")
	assert [command.id for command in store.claim(at_most=9)] == [good.id]


def test_an_operator_may_revive_a_dead_command(store):
	store.enqueue("k")
	store.sql("update pgweir.commands set state = 'dead', attempts = 8, ended_at = now()")
	id = store.value("select id from pgweir.commands")
	assert store.value("select pgweir.revive(%s)", [id]) is True
	assert store.value("select pgweir.revive(%s)", [id]) is False
	[command] = store.claim()
	assert (command.id, command.attempt) == (id, 1)


def test_errors_of_any_length_are_kept_in_part(store):
	store.enqueue("k")
	[command] = store.claim()
	assert fail(store, command, "x" * 100000).ok
	assert store.value("select length(error) from pgweir.commands") == 2000


# --- the rest

def test_only_what_is_acked_and_old_is_purged(store):
	for key in range(4):
		store.enqueue(key)
	one, two, three = store.claim(at_most=3)
	ack(store, one)
	store.later(8 * 86400)
	store.sql("update pgweir.commands set due_at = due_at + interval '9 d' where state = 'claimed'")
	ack(store, two)
	store.sql("update pgweir.commands set state = 'dead', ended_at = '2029-01-01' where id = %s", [three.id])
	assert store.ask("purge", "7 days", role="drain").purge == 1
	assert store.sql("select state from pgweir.commands order by seq") == [("acked",), ("dead",), ("pending",)]


def test_depth_and_age_are_counted(store):
	for key in range(3):
		store.enqueue(key)
		store.later(10)
	store.claim()
	assert store.ask("queue", "main") == (3, 1, 0, 30000)
	store.sql("update pgweir.commands set state = 'dead', ended_at = now() where seq = 1")
	assert store.ask("queue", "main", role="app") == (2, 0, 1, 20000)
	assert store.ask("queue", "none") == (0, 0, 0, 0)


def test_an_acked_command_survives_a_crash_of_the_store(own_pg):
	# The rig sets fsync and synchronous_commit off. A crash of the server alone leaves what it gave to the kernel.
	server = own_pg()
	store = Store(server, "crash")
	store.poll()
	queued = store.enqueue("k")
	store.ask("fence", "main", "n", "before the crash")
	server.kill()
	server.start()
	store._connections.clear()
	assert store.enqueue("k").id == queued.id
	assert store.ask("standing", "main").held is True


# --- snapshots

def put(store, payload, *, version=1, epoch=1, key="k", cluster="main"):
	return store.ask("put_snapshot", cluster, epoch, key, version, payload, role="drain")


def test_a_snapshot_is_read_with_its_age(store):
	assert put(store, '{"n": 1}', version=7) == (True, "")
	store.later(90)
	[found] = store.rows("get_snapshot", "main", "k", role="app")
	assert (found.payload, found.version, found.epoch, found.age_s) == ({"n": 1}, 7, 1, 90)
	assert store.rows("get_snapshot", "main", "other", role="app") == []


def test_an_older_snapshot_does_not_replace_a_newer_one(store):
	put(store, '{"n": 5}', version=5)
	assert put(store, '{"n": 4}', version=4) == (False, "stale")
	assert put(store, '{"n": 6}', version=6) == (True, "")
	[found] = store.rows("get_snapshot", "main", "k", role="app")
	assert found.payload == {"n": 6}


def test_a_snapshot_of_another_epoch_is_refused(store):
	put(store, '{"n": 5}', version=5)
	store.ask("fence", "main", "n", "")
	store.poll(), store.poll()
	assert store.ask("unfence", "main", 1, "n", "drained").ok
	assert put(store, '{"n": 6}', version=6) == (False, "epoch")
	assert put(store, '{"n": 3}', version=3, epoch=2) == (True, "") # the new primary counts anew
	assert put(store, '{}', epoch=2, cluster="none") == (False, "epoch")


def test_a_snapshot_has_256_kib_and_not_a_byte_more(store):
	assert put(store, padded(262144)).ok
	with pytest.raises(errors.ProgramLimitExceeded):
		put(store, padded(262145), version=2)
