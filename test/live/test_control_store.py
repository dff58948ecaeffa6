"""The control store: installing it, clusters and their epochs, nodes, rights. Its queue: test_command_queue.py."""

import itertools
import random

import psycopg
import pytest
from psycopg import errors

from rig.cases import dice, in_threads
from rig.limits import rounds, until
from rig.store import LOGINS, Store, install

pytestmark = pytest.mark.apart

_number = itertools.count()


@pytest.fixture
def store(shared_pg):
	made = Store(shared_pg, f"control_{next(_number)}").stop_clock()
	yield made
	made.close()


@pytest.fixture
def recovering(store):
	"""A cluster in RECOVERING, epoch 1, of which one node knows that."""
	store.poll()
	store.ask("open", "main", 1, "PRIMARY", "node-1", "refused")
	store.ask("recover", "main", 1, "node-1")
	store.poll()
	store.poll()
	return store


def drain(store):
	for command in store.claim(at_most=1000):
		assert store.ask("ack", command.id, command.claim, role="drain").ack


def standing(store):
	found = store.ask("standing", "main")
	return found.state, found.epoch


def waits_for_a_lock(store, connection):
	return store.value("select count(*) from pg_locks where pid = %s and not granted", [connection.info.backend_pid])


# --- installing

def test_installing_again_keeps_what_is_there_and_brings_the_functions(recovering):
	store = recovering
	store.enqueue("one")
	store.sql("create or replace function pgweir.back_off(failures integer) returns interval "
	          "language sql as $$select interval '1 d'$$")
	tables = ["clusters", "nodes", "cursors", "commands", "history", "store"]
	before = [store.sql(f"select * from pgweir.{table}") for table in tables]
	install(store.server, store.dbname)
	assert [store.sql(f"select * from pgweir.{table}") for table in tables] == before
	assert store.value("select pgweir.back_off(1)").total_seconds() == 15
	assert store.enqueue("one").fresh is False


def test_a_store_of_a_newer_pgweir_is_left_as_it_is(store):
	store.sql("update pgweir.store set version = 1000")
	store.sql("drop function pgweir.purge")
	done = install(store.server, store.dbname, check=False)
	assert done.returncode != 0 and "newer" in done.stderr
	assert store.value("select to_regproc('pgweir.purge')") is None


def test_who_may_create_roles_and_owns_the_database_can_install_without_being_superuser(own_pg):
	server = own_pg()
	server.sql("create role boss login createrole")
	server.sql("create database bossy owner boss")
	install(server, "bossy", user="boss")
	install(server, "bossy", user="boss")
	for name in ("applied", "fence-trigger"):
		install(server, "bossy", name, user="boss")
	assert server.sql("select distinct rolname, rolsuper from pg_proc p join pg_roles r on r.oid = p.proowner "
	                  "where pronamespace in ('pgweir'::regnamespace, 'pgweir_local'::regnamespace)",
	                  dbname="bossy") == [("pgweir_owner", False)]


# --- states and epochs

def test_a_cluster_goes_round_and_comes_back_in_the_next_epoch(store):
	assert store.poll() == (1, "PRIMARY")
	assert store.poll() == (1, "PRIMARY")
	opened = store.ask("open", "main", 1, "PRIMARY", "node-1", "connection refused")
	assert (opened.ok, opened.reason, opened.state, opened.epoch) == (True, "", "DEGRADED", 1)
	assert store.poll() == (1, "DEGRADED")
	begun = store.ask("recover", "main", 1, "node-1")
	assert (begun.ok, begun.state, begun.epoch, begun.held) == (True, "RECOVERING", 1, False)
	assert store.poll() == (1, "RECOVERING")
	over = store.ask("cutover", "main", 1, "node-1")
	assert (over.ok, over.state, over.epoch) == (True, "PRIMARY", 2)
	assert store.poll() == (2, "PRIMARY")
	assert store.sql("select from_state, to_state, epoch, changed_by from pgweir.history order by seq") == [
		(None, "PRIMARY", 1, "node-1"), ("PRIMARY", "DEGRADED", 1, "node-1"),
		("DEGRADED", "RECOVERING", 1, "node-1"), ("RECOVERING", "PRIMARY", 2, "node-1")]


def test_a_bad_probe_in_recovery_opens_it_again(recovering):
	assert recovering.ask("open", "main", 1, "RECOVERING", "node-1", "mute").ok
	assert standing(recovering) == ("DEGRADED", 1)


OF_ANOTHER_EPOCH = [
	("open", "main", 2, "PRIMARY", "n", "late"), ("open", "main", None, "PRIMARY", "n", "none"),
	("recover", "main", 0, "n"), ("recover", "main", None, "n"), ("mark", "main", 7, "n"),
	("cutover", "main", 2, "n"), ("cutover", "main", None, "n"), ("unfence", "main", 0, "n", "force"),
	("unfence", "main", None, "n", "force")]


@pytest.mark.parametrize("state", ["PRIMARY", "DEGRADED", "RECOVERING"])
def test_a_call_that_names_another_epoch_changes_nothing(store, state):
	store.poll()
	if state != "PRIMARY":
		store.ask("open", "main", 1, "PRIMARY", "n", "")
	if state == "RECOVERING":
		store.ask("recover", "main", 1, "n")
	store.poll()
	store.poll()
	before = store.sql("select * from pgweir.clusters")
	for call in OF_ANOTHER_EPOCH:
		answer = store.ask(*call)
		assert (answer.ok, answer.reason, answer.state, answer.epoch) == (False, "epoch", state, 1), call
		assert store.sql("select * from pgweir.clusters") == before


def test_a_step_from_a_state_that_is_over_changes_nothing(store):
	store.poll()
	for call in (("open", "main", 1, "RECOVERING", "n", ""), ("recover", "main", 1, "n"), ("mark", "main", 1, "n"),
	             ("cutover", "main", 1, "n"), ("unfence", "main", 1, "n", "force"), ("open", "main", 1, None, "n", "")):
		answer = store.ask(*call)
		assert (answer.ok, answer.reason) == (False, "state"), call
	store.ask("open", "main", 1, "PRIMARY", "n", "")
	for call in (("open", "main", 1, "PRIMARY", "n", ""), ("open", "main", 1, "DEGRADED", "n", ""),
	             ("cutover", "main", 1, "n"), ("unfence", "main", 1, "n", "force")):
		answer = store.ask(*call)
		assert (answer.ok, answer.reason) == (False, "state"), call
	assert standing(store) == ("DEGRADED", 1)


def test_a_cluster_that_is_not_there_is_unknown_to_every_call(store):
	for call in (("open", "x", 1, "PRIMARY", "n", ""), ("recover", "x", 1, "n"), ("mark", "x", 1, "n"),
	             ("cutover", "x", 1, "n"), ("fence", "x", "n", ""), ("unfence", "x", 1, "n", "force"), ("standing", "x")):
		answer = store.ask(*call)
		assert (answer.ok, answer.reason, answer.state, answer.epoch) == (False, "unknown", None, None), call


BACK = [
	"update pgweir.clusters set epoch = epoch - 1", "update pgweir.clusters set epoch = 1, state = 'RECOVERING'",
	"insert into pgweir.clusters (name, state, epoch, since) values ('main', 'PRIMARY', 1, now()) "
	"on conflict (name) do update set epoch = excluded.epoch",
	"delete from pgweir.clusters", "truncate pgweir.clusters cascade", "update pgweir.clusters set name = 'other'",
	"update pgweir.clusters set mark = mark - 1", "update pgweir.clusters set epoch = epoch + 1",
	"update pgweir.clusters set state = 'DEGRADED'; update pgweir.clusters set state = 'PRIMARY'",
	"set session_replication_role = replica; update pgweir.clusters set epoch = 1"]


def test_not_even_a_superuser_takes_an_epoch_back(recovering):
	store = recovering
	store.enqueue("one")
	store.ask("mark", "main", 1, "n")
	drain(store)
	assert store.ask("cutover", "main", 1, "n").ok
	for change in BACK:
		with psycopg.connect(store.server.dsn(store.dbname)) as root, pytest.raises(errors.ObjectNotInPrerequisiteState):
			root.execute(change)
	assert standing(store) == ("PRIMARY", 2)


def test_of_many_who_open_at_once_one_does(store):
	store.poll()
	answers = []

	def opener():
		with store.connect() as own:
			answers.append(store.ask("open", "main", 1, "PRIMARY", "n", "", on=own))

	in_threads(*[opener] * 8)
	assert sorted(answer.ok for answer in answers) == [False] * 7 + [True]
	assert {answer.state for answer in answers} == {"DEGRADED"}


# --- the cutover

def test_a_cutover_under_race_succeeds_once(recovering):
	store = recovering
	for epoch in range(1, 1 + rounds(12)):
		answers = []

		def rival():
			with store.connect() as own:
				answers.append(store.ask("cutover", "main", epoch, "n", on=own))

		in_threads(*[rival] * 6)
		assert sorted(answer.ok for answer in answers) == [False] * 5 + [True]
		assert {(answer.state, answer.epoch) for answer in answers} == {("PRIMARY", epoch + 1)}
		assert {answer.reason for answer in answers if not answer.ok} == {"epoch"}
		store.ask("fence", "main", "n", "")
		store.sql("update pgweir.clusters set held = false")
		store.poll()
		store.poll()


def test_a_cutover_waits_for_all_commands_up_to_the_mark(store):
	store.poll()
	store.ask("open", "main", 1, "PRIMARY", "n", "")
	for key in range(3):
		store.enqueue(key)
	begun = store.ask("recover", "main", 1, "n")
	assert begun.mark == store.enqueue(2).seq and begun.open_seq == store.enqueue(0).seq
	store.poll(), store.poll()
	for _ in range(3):
		assert store.ask("cutover", "main", 1).reason == "undrained"
		[command] = store.claim()
		assert store.ask("cutover", "main", 1).reason == "undrained"
		store.ask("ack", command.id, command.claim, role="drain")
	assert store.ask("cutover", "main", 1).ok


def test_what_is_queued_behind_the_mark_does_not_hold_a_cutover_up_unless_the_mark_is_taken_anew(recovering):
	store = recovering
	late = store.enqueue("late")
	assert store.ask("mark", "main", 1, "n").mark == late.seq
	assert store.ask("cutover", "main", 1).reason == "undrained"
	drain(store)
	later = store.enqueue("later")
	over = store.ask("cutover", "main", 1)
	assert over.ok and over.open_seq == later.seq
	assert [command.epoch for command in store.claim()] == [2]


def test_a_dead_command_does_not_hold_a_cutover_up(recovering):
	store = recovering
	store.enqueue("one")
	store.ask("mark", "main", 1, "n")
	store.sql("update pgweir.commands set state = 'dead', ended_at = now()")
	assert store.ask("cutover", "main", 1).ok


def test_an_application_asleep_in_its_transaction_keeps_no_state_from_changing(store):
	store.poll()
	with store.connect("app", autocommit=False) as asleep:
		store.enqueue("one", on=asleep)
		assert store.ask("open", "main", 1, "PRIMARY", "n", "").ok
		assert store.ask("recover", "main", 1, "n").ok
		store.poll(), store.poll()
		assert store.ask("cutover", "main", 1, "n").ok
		assert store.ask("fence", "main", "n", "").ok


def test_an_outage_only_queue_is_closed_in_primary_and_drained_whole(recovering):
	store = recovering
	store.sql("update pgweir.clusters set outage_only = true")
	store.enqueue("one")
	assert store.ask("cutover", "main", 1).reason == "undrained" # behind the mark, and it counts
	drain(store)
	with store.connect("app", autocommit=False) as asleep:
		store.enqueue("two", on=asleep)
		assert store.ask("cutover", "main", 1).reason == "busy"
	assert store.ask("cutover", "main", 1).reason == "undrained"
	drain(store)
	assert store.ask("cutover", "main", 1).ok
	with pytest.raises(errors.ObjectNotInPrerequisiteState):
		store.enqueue("three")
	assert store.enqueue("two").state == "acked"


def test_a_command_queued_while_an_outage_only_cluster_is_cut_over_is_drained_first_or_refused(recovering):
	store = recovering
	store.sql("update pgweir.clusters set outage_only = true")
	with store.connect("app") as one, store.connect("app") as two, store.connect() as node, store.connect("drain") as worker:
		for round in range(rounds(40)):
			queued = []

			def queue(own, key):
				try:
					queued.append(store.enqueue(key, on=own))
				except errors.ObjectNotInPrerequisiteState:
					pass

			def cut():
				while not store.ask("cutover", "main", round + 1, on=node).ok:
					for command in store.claim(at_most=100, on=worker):
						store.ask("ack", command.id, command.claim, on=worker)

			in_threads(lambda: queue(one, f"a{round}"), cut, lambda: queue(two, f"b{round}"))
			assert store.value("select count(*) from pgweir.commands where state <> 'acked'") == 0
			store.ask("fence", "main", "n", "")
			store.sql("update pgweir.clusters set held = false")
			store.poll(), store.poll()


# --- fence and unfence by hand

@pytest.mark.parametrize("state", ["PRIMARY", "DEGRADED", "RECOVERING"])
def test_a_fence_by_hand_holds_until_it_is_lifted_by_hand(store, state):
	store.poll()
	if state != "PRIMARY":
		store.ask("open", "main", 1, "PRIMARY", "n", "")
	if state == "RECOVERING":
		store.ask("recover", "main", 1, "n")
	queued = store.enqueue("one")
	fenced = store.ask("fence", "main", "operator", "maintenance")
	assert (fenced.ok, fenced.state, fenced.epoch, fenced.held) == (True, "RECOVERING", 1, True)
	assert fenced.mark == (0 if state == "RECOVERING" else queued.seq)
	assert store.ask("fence", "main", "operator", "again").ok
	store.poll(), store.poll()
	assert store.ask("open", "main", 1, "RECOVERING", "n", "").reason == "held"
	assert store.ask("mark", "main", 1, "n").ok
	assert store.ask("unfence", "main", 1, "operator", "drained").reason == "undrained"
	drain(store)
	assert store.ask("cutover", "main", 1).reason == "held"
	lifted = store.ask("unfence", "main", 1, "operator", "drained")
	assert (lifted.ok, lifted.state, lifted.epoch, lifted.held) == (True, "PRIMARY", 2, False)


def test_force_does_not_ask_for_the_queue_but_for_the_nodes(store):
	store.poll()
	store.enqueue("one")
	store.ask("fence", "main", "operator", "")
	assert store.ask("unfence", "main", 1, "operator", "force").reason == "unseen"
	store.poll(), store.poll()
	assert store.ask("unfence", "main", 1, "operator", "force").ok
	for how in ("forced", "", None):
		with pytest.raises(errors.InvalidParameterValue):
			store.ask("unfence", "main", 2, "operator", how)


# --- nodes

def test_no_cutover_while_a_node_with_a_lease_has_not_seen_the_fence(recovering):
	store = recovering
	store.sql("update pgweir.clusters set held = false")
	assert store.ask("cutover", "main", 1).ok
	store.poll("node-1"), store.poll("node-2", lease_ms=7000)
	store.poll("node-1"), store.poll("node-2", lease_ms=7000)
	store.ask("open", "main", 2, "PRIMARY", "node-1", "")
	store.ask("recover", "main", 2, "node-1")
	store.poll("node-1"), store.poll("node-1")
	assert store.ask("cutover", "main", 2).reason == "unseen"
	store.later(6.999)
	assert store.ask("cutover", "main", 2).reason == "unseen"
	store.later(0.001)
	assert store.ask("cutover", "main", 2).ok


def test_a_node_that_tells_it_has_seen_the_fence_is_not_waited_for(recovering):
	store = recovering
	store.poll("node-2", lease_ms=3600000)
	assert store.ask("cutover", "main", 1).reason == "unseen"
	store.poll("node-2", lease_ms=3600000)
	assert store.ask("cutover", "main", 1).ok


def test_a_node_that_has_seen_an_older_fence_only_is_waited_for(recovering):
	store = recovering
	store.poll("node-2"), store.poll("node-2")
	assert store.ask("cutover", "main", 1).ok
	store.ask("poll", "node-2", "5000", "main 1 RECOVERING") # is told PRIMARY 2, and has not said so yet
	store.ask("fence", "main", "n", "")
	store.poll("node-1"), store.poll("node-1")
	assert store.ask("unfence", "main", 2, "n", "drained").reason == "unseen"


def test_a_node_that_leaves_is_not_waited_for(recovering):
	store = recovering
	store.poll("node-2")
	assert store.ask("cutover", "main", 1).reason == "unseen"
	assert store.ask("leave", "node-2").leave is True
	assert store.ask("leave", "node-2").leave is False
	assert store.ask("cutover", "main", 1).ok


def test_a_node_that_serves_a_cluster_no_longer_is_not_waited_for(recovering):
	store = recovering
	store.poll("node-2")
	store.ask("poll", "node-2", "5000", "other 0 NONE")
	assert store.ask("cutover", "main", 1).ok


def test_a_lease_that_gets_shorter_does_so_with_the_next_call(recovering):
	store = recovering
	store.ask("poll", "node-2", 60000, "main 0 NONE")
	store.ask("poll", "node-2", 1000, "main 0 NONE")
	store.later(59)
	assert store.ask("cutover", "main", 1).reason == "unseen"
	store.ask("poll", "node-2", 1000, "main 0 NONE")
	store.later(1)
	assert store.ask("cutover", "main", 1).ok


def test_a_cutover_waits_for_a_poll_that_is_under_way(recovering):
	store = recovering
	with store.connect(autocommit=False) as new, store.connect() as other:
		store.poll("new", on=new) # told RECOVERING; it has not committed, so nobody sees the node yet
		answers = []

		def commit_later():
			until("the cutover waits", lambda: waits_for_a_lock(store, other))
			new.commit()

		in_threads(commit_later, lambda: answers.append(store.ask("cutover", "main", 1, on=other)))
		assert answers[0].reason == "unseen"


def test_a_poll_waits_for_a_cutover_that_is_under_way_and_tells_the_new_epoch(recovering):
	store = recovering
	with store.connect(autocommit=False) as cutting, store.connect() as other:
		assert store.ask("cutover", "main", 1, on=cutting).ok
		told = []

		def commit_later():
			until("the poll waits", lambda: waits_for_a_lock(store, other))
			cutting.commit()

		in_threads(commit_later, lambda: told.append(store.poll("node-1", on=other)))
		assert told == [(2, "PRIMARY")]


def test_a_poll_tells_all_clusters_it_asks_for_and_no_others(store):
	store.poll(cluster="aside")
	seen = "b-1 0 NONE\na.2 3 PRIMARY\n"
	answer = store.ask("poll", "n", "5000", seen)
	store.ask("fence", "b-1", "n", "")
	queued = store.enqueue("one", cluster="b-1")
	answer = store.ask("poll", "n", "5000", seen)
	since = answer.at_us
	assert answer.clusters.split("\n") == [f"a.2 3 PRIMARY 0 {since} 0 0", f"b-1 1 RECOVERING 1 {since} 0 {queued.seq}"]
	assert answer.at_us == 1893456000000000 # 2030-01-01, where the clock stands
	assert store.ask("poll", "n", "5000", "").clusters == ""


NO_LINES = ["main", "main 1", "main x PRIMARY", "main -1 PRIMARY", "main 1 PRIMARY more", "main 1  PRIMARY", " 1 PRIMARY",
            "ma in 1 PRIMARY", "main 1 PRIMARY\n\nmain 1 PRIMARY", "main 1 primary", "main 9999999999999999999 PRIMARY",
            "x" * 65 + " 1 PRIMARY", "m;drop 1 PRIMARY"]


def test_a_poll_with_a_line_that_is_none_is_refused(store):
	for seen in NO_LINES:
		with pytest.raises(errors.InvalidParameterValue):
			store.ask("poll", "n", "5000", seen)
	assert store.value("select count(*) from pgweir.nodes") == 0


def test_a_poll_with_a_node_or_lease_that_is_none_is_refused(store):
	for node, lease in (("", 5000), ("n" * 256, 5000), (None, 5000), ("n", 0), ("n", -1), ("n", 3600001), ("n", None)):
		with pytest.raises(errors.IntegrityError):
			store.ask("poll", node, lease, "main 0 NONE")


def test_a_cluster_begins_in_the_epoch_of_the_node_that_brings_it(store):
	assert store.ask("poll", "n", "5000", "main 41 PRIMARY").clusters.startswith("main 41 PRIMARY 0 ")


@pytest.mark.parametrize("seen", ["5 PRIMARY", "5 DEGRADED", "5 RECOVERING", "1 DEGRADED", "1 RECOVERING"])
def test_a_store_that_knows_less_than_a_node_is_fenced_and_goes_on_from_there(store, seen):
	store.poll("other"), store.poll("other")
	queued = store.enqueue("one")
	epoch = int(seen.split()[0])
	words = store.ask("poll", "n", "5000", f"main {seen}").clusters.split()
	assert words[:4] == ["main", str(epoch), "RECOVERING", "0"] and words[5] == str(queued.seq)
	store.ask("poll", "n", "5000", f"main {epoch} RECOVERING")
	drain(store)
	assert store.ask("cutover", "main", epoch).reason == "unseen"
	store.poll("other"), store.poll("other")
	over = store.ask("cutover", "main", epoch)
	assert (over.ok, over.epoch) == (True, epoch + 1)


def test_a_node_that_knows_an_older_epoch_moves_nothing(recovering):
	store = recovering
	assert store.ask("cutover", "main", 1).ok
	before = store.sql("select * from pgweir.clusters")
	for seen in ("1 PRIMARY", "1 DEGRADED", "0 NONE", "2 PRIMARY"):
		store.ask("poll", "old", "5000", f"main {seen}")
	assert store.sql("select * from pgweir.clusters") == before


def test_nodes_that_are_long_gone_are_forgotten(store):
	store.poll("old")
	store.later(86400 + 6)
	store.poll("new")
	assert store.sql("select node from pgweir.nodes") == [("new",)]
	assert store.sql("select node from pgweir.cursors") == [("new",)]


def test_what_a_node_is_told_is_on_disk_however_the_database_is_set(store):
	assert store.value("show synchronous_commit") == "off"
	store.poll()
	with store.connect(autocommit=False) as own:
		for call in (("poll", "n", 5000, "main 0 NONE"), ("open", "main", 1, "PRIMARY", "n", ""), ("recover", "main", 1, "n"),
		             ("mark", "main", 1, "n"), ("cutover", "main", 1, "n"), ("fence", "main", "n", ""),
		             ("unfence", "main", 1, "n", "force"), ("slots", "main", "n", 0, 1, 5000)):
			store.ask(*call, on=own)
			assert own.execute("show synchronous_commit").fetchone()[0] == "on", call
			own.rollback()


def test_a_snapshot_of_the_past_is_no_place_to_decide_from(store):
	store.poll()
	with store.connect() as own:
		own.execute("set default_transaction_isolation = 'repeatable read'")
		for call in (("poll", "n", 5000, "main 0 NONE"), ("cutover", "main", 1, "n"), ("fence", "main", "n", "")):
			with pytest.raises(errors.InvalidTransactionState):
				store.ask(*call, on=own)


def test_whoever_listens_is_told_of_every_change(store):
	store.poll()
	with store.connect() as own:
		own.execute("listen pgweir")
		store.ask("open", "main", 1, "PRIMARY", "n", "")
		store.enqueue("one")
		heard = own.notifies()
		assert [next(heard).payload for _ in range(2)] == ["cluster main", "queue main"]
		heard.close()


# --- slots

def test_nodes_never_hold_more_slots_together_than_the_cluster_has(store):
	store.poll()
	store.sql("update pgweir.clusters set max_slots = 20")
	random_ = dice()
	held = {f"n{i}": 0 for i in range(4)}
	for _ in range(rounds(300)):
		node = random_.choice(list(held))
		held[node] = random_.randint(0, held[node]) # some were closed
		granted = store.ask("slots", "main", node, held[node], random_.randint(0, 30), 5000).granted
		held[node] = max(held[node], granted)       # and as many as allowed are opened
		assert sum(held.values()) <= 20, held


def test_a_share_that_was_lent_comes_back_when_it_is_wanted(store):
	store.poll()
	store.sql("update pgweir.clusters set max_slots = 20")
	assert store.ask("slots", "main", "a", 0, 30, 5000).granted == 20
	assert store.ask("slots", "main", "b", 0, 30, 5000).granted == 0
	assert store.ask("slots", "main", "a", 20, 30, 5000).granted == 10
	assert store.ask("slots", "main", "b", 0, 30, 5000).granted == 0 # a has them still
	assert store.ask("slots", "main", "a", 10, 30, 5000).granted == 10
	assert store.ask("slots", "main", "b", 0, 30, 5000).granted == 10


def test_slots_of_a_node_that_went_silent_are_free_when_its_lease_is_over(store):
	store.poll()
	store.sql("update pgweir.clusters set max_slots = 20")
	assert store.ask("slots", "main", "a", 0, 20, 5000).granted == 20
	store.later(4.999)
	assert store.ask("slots", "main", "b", 0, 20, 5000).granted == 0
	store.later(0.001)
	assert store.ask("slots", "main", "b", 0, 20, 5000).granted == 20


def test_many_who_ask_for_slots_at_once_stay_within_the_limit(store):
	store.poll()
	store.sql("update pgweir.clusters set max_slots = 20")
	granted = []

	def node(name):
		with store.connect() as own:
			granted.append(store.ask("slots", "main", name, 0, 7, 5000, on=own).granted)

	in_threads(*[lambda name=f"n{i}": node(name) for i in range(8)])
	assert sum(granted) == 20


def test_without_a_limit_as_many_slots_as_wanted(store):
	store.poll()
	assert store.ask("slots", "main", "a", 0, 500, 5000).granted == 500
	with pytest.raises(errors.UndefinedObject):
		store.ask("slots", "none", "a", 0, 500, 5000)


# --- rights

MAY = {
	"pgweir": {"standing", "queue", "poll", "leave", "slots", "open", "recover", "mark", "cutover", "fence", "unfence", "clock"},
	"drain": {"standing", "queue", "claim", "ack", "fail", "release", "purge", "put_snapshot"},
	"app": {"standing", "queue", "enqueue", "command", "get_snapshot"},
	"nobody": set(),
}


def test_a_role_may_call_what_it_needs_and_nothing_else(store):
	for role, names in MAY.items():
		allowed = store.sql("select proname from pg_proc where pronamespace = 'pgweir'::regnamespace "
		                    "and has_function_privilege(%s, oid, 'execute')", [LOGINS[role]])
		assert {name for name, in allowed} == names
		assert store.value("select has_schema_privilege(%s, 'pgweir', 'usage')", [LOGINS[role]]) == bool(names)
		assert not store.value("select has_schema_privilege(%s, 'pgweir', 'create')", [LOGINS[role]])


def test_no_role_can_touch_a_table(store):
	for role in MAY:
		may = store.sql("select c.relname, p from pg_class c, unnest(array['select', 'insert', 'update', 'delete', "
		                "'truncate', 'references', 'trigger']) p where c.relnamespace = 'pgweir'::regnamespace "
		                "and c.relkind in ('r', 'v') and has_table_privilege(%s, c.oid, p)", [LOGINS[role]])
		assert may == ([("status", "select")] if role == "pgweir" else [])
		with store.connect(role) as own, pytest.raises(errors.InsufficientPrivilege):
			own.execute("begin; lock table pgweir.nodes in access share mode")


def test_the_view_is_for_operators(store):
	store.poll()
	with store.connect() as own:
		seen = own.execute("select name, state, epoch, nodes, open, dead from pgweir.status").fetchall()
		assert seen == [("main", "PRIMARY", 1, 1, 0, 0)]
	with store.connect("app") as own, pytest.raises(errors.InsufficientPrivilege):
		own.execute("select * from pgweir.status")


def test_functions_with_the_owners_rights_look_nowhere_but_in_the_catalog(store):
	loose = store.sql("select proname from pg_proc where pronamespace = 'pgweir'::regnamespace and prosecdef "
	                  "and not proconfig @> array['search_path=pg_catalog, pg_temp'] and proname <> 'clock'")
	assert loose == []
	assert store.value("select count(*) from pg_proc where pronamespace = 'pgweir'::regnamespace and prosecdef") > 20


def test_objects_of_the_callers_own_do_not_get_in_between(store):
	store.poll()
	with store.connect("pgweir") as own:
		own.execute("create temp table clusters (name text, epoch bigint)")
		own.execute("create function pg_temp.greatest_of(a int) returns int language sql as 'select 666'")
		own.execute("create function pg_temp.left(a text, b int) returns text language sql as $$select 'stolen'$$")
		own.execute("set search_path = pg_temp, pg_catalog")
		assert store.ask("fence", "main", "operator", "true words", on=own).ok
	assert store.value("select reason from pgweir.clusters") == "true words"


# --- all of it, at random

def test_in_no_order_of_calls_is_a_node_with_a_lease_left_behind_in_an_old_epoch(store):
	random_ = dice()
	nodes = [f"n{i}" for i in range(3)]
	told = dict.fromkeys(nodes, (0, "NONE"))
	lease_ends = dict.fromkeys(nodes, 0.0)
	now, cutovers, unseen = 0.0, 0, 0
	for _ in range(rounds(600)):
		node = random_.choice(nodes)
		epoch, state = told[node]
		what = random_.choice(["poll"] * 6 + ["lost poll", "later", "open", "recover", "cutover", "cutover"])
		if what == "later":
			step = random_.choice([0.5, 2, 6])
			store.later(step)
			now += step
		elif what in ("poll", "lost poll"):
			words = store.ask("poll", node, 5000, f"main {epoch} {state}").clusters.split()
			if what == "poll":
				told[node], lease_ends[node] = (int(words[1]), words[2]), now + 5
		elif what == "open":
			store.ask("open", "main", epoch, state, node, "")
		else:
			answer = store.ask(what, "main", epoch, node)
			unseen += answer.reason == "unseen"
			if what == "cutover" and answer.ok:
				cutovers += 1
				behind = [other for other in nodes if told[other] == (epoch, "PRIMARY") and lease_ends[other] > now]
				assert not behind, f"{behind} may still write under epoch {epoch}"
	print(cutovers, "cutovers,", unseen, "refused for a node's sake")
	assert cutovers and unseen


def test_whatever_many_nodes_call_at_once_an_epoch_begins_once_and_is_left_once(store):
	seed = dice().randrange(1 << 30)
	store.poll()

	def node(number):
		random_ = random.Random(seed + number)
		name, told = f"n{number}", (0, "NONE")
		with store.connect() as own, store.connect("drain") as worker, store.connect("app") as app:
			for turn in range(rounds(120)):
				epoch = max(1, told[0] + random_.choice([0] * 8 + [-1, 1]))
				state = random_.choice(["PRIMARY", "RECOVERING"])
				call = random_.choice(["poll"] * 4 + ["cutover"] * 2 + ["later", "open", "recover", "mark", "fence", "unfence",
				                                                         "queue", "drain"])
				if call == "poll":
					words = store.ask("poll", name, 1000, f"main {told[0]} {told[1]}", on=own).clusters.split()
					assert int(words[1]) >= told[0]
					assert not (int(words[1]) == told[0] and words[2] == "PRIMARY" and told[1] in ("DEGRADED", "RECOVERING"))
					told = (int(words[1]), words[2])
				elif call == "later":
					store.later(0.5)
				elif call == "queue":
					store.enqueue(f"{number}-{turn}", on=app)
				elif call == "drain":
					for command in store.claim(at_most=10, on=worker):
						store.ask("ack", command.id, command.claim, on=worker)
				else:
					more = {"open": [epoch, state, name, ""], "fence": [name, ""], "unfence": [epoch, name, "drained"]}
					store.ask(call, "main", *more.get(call, [epoch, name]), on=own)

	in_threads(*[lambda number=i: node(number) for i in range(4)])
	story = store.sql("select from_state, to_state, epoch from pgweir.history order by seq")
	assert story[0] == (None, "PRIMARY", 1)
	for (_, was, old), (came_from, now, new) in zip(story, story[1:]):
		assert came_from == was
		assert new == (old + 1 if now == "PRIMARY" and was != "PRIMARY" else old), story
		assert (was, now) in {("PRIMARY", "DEGRADED"), ("PRIMARY", "RECOVERING"), ("DEGRADED", "RECOVERING"),
		                      ("RECOVERING", "DEGRADED"), ("RECOVERING", "RECOVERING"), ("RECOVERING", "PRIMARY")}
	print(len(story), "changes, epoch", story[-1][2])
	assert story[-1][2] > 1
