"""Two instances and their control store: one state, one epoch, and no writes without a lease."""

import os
import signal
import time

import pytest

from rig import Relay, http, process
from rig.limits import until
from rig.raw import ServerError
from rig.store import Store

pytestmark = pytest.mark.pgweir("the control store's client")

LEASE = 2


@pytest.fixture
def store(pg, request):
	store = Store(pg, f"control_{os.getpid()}_{time.monotonic_ns()}")
	yield store
	store.close()


@pytest.fixture
def table(pg):
	pg.sql("drop table if exists held", dbname="app")
	pg.sql("create table held (i int)", dbname="app")
	pg.sql("grant all on held to public", dbname="app")
	yield
	pg.sql("drop table held", dbname="app")


@pytest.fixture
def state_dirs():
	folders = []

	def make():
		folders.append(process.new_folder(prefix="state-"))
		return folders[-1]

	yield make
	for folder in folders:
		process.remove(folder)


@pytest.fixture
def weir_of(pg, pooler, store, table, state_dirs):
	def make(*, through=None, state_dir=None, settings=None, cluster=None, control=None, **how):
		at = through or pg
		line = control or f"postgresql://store_node@{at.host}:{at.port}/{store.dbname}"
		return pooler(pg, settings={"state_dir": state_dir or state_dirs(), "probe_interval": "0.1", "probe_timeout": "1", "breaker_open": "0.5",
		                            "fence_lease": str(LEASE), **(settings or {})},
		              clusters={"main": {"primary": f"{pg.host}:{pg.port}", "control": line, **(cluster or {})}},
		              databases={"app": "cluster=main dbname=app"}, **how)
	return make


def standing(weir):
	row = weir.admin("SHOW FENCES")[0]
	return row["state"], row["epoch"], bool(row["fenced"])


def writes(weir):
	until("writes pass", lambda: not weir.admin("SHOW FENCES")[0]["fenced"], seconds=15)


def told(store):
	row = store.sql("select state, epoch, held from pgweir.clusters where name = 'main'")
	return tuple(row[0]) if row else None


def insert(weir, i=1):
	with weir.raw() as client:
		client.query(f"insert into held values ({i})")


def refused(weir, code="25006"):
	with pytest.raises(ServerError) as caught:
		insert(weir)
	assert caught.value.sqlstate == code


def test_two_instances_begin_in_the_epoch_that_the_store_gives(weir_of, store):
	one, two = weir_of(), weir_of()
	for weir in (one, two):
		writes(weir)
		assert standing(weir) == ("primary", 1, False)
		insert(weir)
	assert told(store) == ("PRIMARY", 1, False)
	assert store.value("select count(distinct node) from pgweir.nodes") == 2


def test_a_fence_at_one_is_a_fence_at_both_and_unfence_is_the_stores(weir_of, store):
	one, two = weir_of(), weir_of()
	writes(one)
	writes(two)
	one.admin("FENCE main")
	refused(one)
	until("the other is fenced, too", lambda: standing(two)[2], seconds=1.5)
	refused(two)
	assert told(store) == ("RECOVERING", 1, True)
	until("both have found the primary", lambda: all(w.admin("SHOW CLUSTERS")[0]["probes"] == 2 for w in (one, two)))
	two.admin("UNFENCE main")
	assert told(store) == ("PRIMARY", 2, False)
	for weir in (one, two):
		writes(weir)
		assert standing(weir) == ("primary", 2, False)
		insert(weir)


def test_a_cut_from_the_store_fences_within_the_lease_and_lifts_in_the_same_epoch(weir_of, pg, store):
	relay = Relay((pg.host, pg.port))
	weir = weir_of(through=relay)
	writes(weir)
	client = weir.raw()
	client.query("begin")
	client.query("insert into held values (7)")
	relay.refuse = True
	cut = time.monotonic()
	relay.cut()
	until("it is fenced", lambda: standing(weir)[2], seconds=LEASE + 1)
	assert time.monotonic() - cut < LEASE + 0.5
	with pytest.raises(ServerError) as caught:
		client.query("commit")
	assert caught.value.sqlstate == "40001"
	refused(weir)
	assert told(store) == ("PRIMARY", 1, False)
	relay.refuse = False
	writes(weir)
	insert(weir, 8)
	assert [i for i, in pg.sql("select i from held", dbname="app")] == [8]
	relay.close()


def test_without_the_store_a_start_is_fenced(weir_of, pg):
	relay = Relay((pg.host, pg.port))
	relay.refuse = True
	weir = weir_of(through=relay)
	refused(weir)
	relay.refuse = False
	writes(weir)
	relay.close()


# --- the breaker goes through the store

def test_a_primary_that_goes_and_comes_back_begins_one_new_epoch_everywhere(weir_of, own_pg, store):
	primary = own_pg()
	primary.sql("create role app_writer login superuser")
	line = {"primary": f"{primary.host}:{primary.port}"}
	one, two = weir_of(cluster=line), weir_of(cluster=line)
	writes(one)
	writes(two)
	primary.stop()
	until("both are degraded", lambda: all(standing(w)[0] in ("degraded", "recovering") for w in (one, two)), seconds=5)
	assert told(store)[0] in ("DEGRADED", "RECOVERING")
	assert told(store)[1] == 1
	primary.start()
	for weir in (one, two):
		writes(weir)
		assert standing(weir) == ("primary", 2, False)
	assert store.value("select count(*) from pgweir.history where to_state = 'PRIMARY' and epoch = 2") == 1


def test_no_cutover_before_the_queue_is_drained(weir_of, store):
	weir = weir_of()
	writes(weir)
	store.enqueue("order-1")
	weir.admin("FENCE main")
	until("the store knows", lambda: told(store) == ("RECOVERING", 1, True))
	until("the primary is found", lambda: weir.admin("SHOW CLUSTERS")[0]["probes"] == 2)
	with pytest.raises(Exception, match="undrained"):
		weir.admin("UNFENCE main")
	assert standing(weir) == ("recovering", 1, True)
	claim, = store.claim()
	store.ask("ack", claim.id, claim.claim, role="drain")
	weir.admin("UNFENCE main")
	writes(weir)
	assert standing(weir) == ("primary", 2, False)


def test_unfence_force_does_not_ask_for_the_queue(weir_of, store):
	weir = weir_of()
	writes(weir)
	store.enqueue("order-1")
	weir.admin("FENCE main")
	until("the store knows", lambda: told(store) == ("RECOVERING", 1, True))
	weir.admin("UNFENCE main FORCE")
	assert told(store) == ("PRIMARY", 2, False)
	writes(weir)


def test_unfence_without_the_store_is_refused_and_not_left_waiting(weir_of, pg):
	relay = Relay((pg.host, pg.port))
	weir = weir_of(through=relay)
	writes(weir)
	weir.admin("FENCE main")
	until("the primary is found", lambda: weir.admin("SHOW CLUSTERS")[0]["probes"] == 2)
	relay.refuse = True
	relay.cut()
	with pytest.raises(Exception):
		weir.admin("UNFENCE main")
	assert standing(weir)[2]
	relay.refuse = False
	until("it is unfenced", lambda: released(weir), seconds=10)
	writes(weir)
	assert standing(weir) == ("primary", 2, False)
	relay.close()


def released(weir):
	try:
		weir.admin("UNFENCE main")
	except Exception:
		return False
	return True


# --- what may happen to the store, and to us

@pytest.mark.parametrize("direction", ["server", "client"])
def test_answers_or_calls_that_do_not_come_through_end_the_lease(weir_of, pg, direction):
	relay = Relay((pg.host, pg.port))
	weir = weir_of(through=relay)
	writes(weir)
	relay.hold(direction)
	held = time.monotonic()
	until("it is fenced", lambda: standing(weir)[2], seconds=LEASE + 1)
	assert time.monotonic() - held < LEASE + 0.5
	refused(weir)
	relay.release(direction)
	writes(weir)
	assert standing(weir)[1] == 1
	relay.close()


def test_a_process_that_was_asleep_writes_nothing_under_the_old_epoch(weir_of, pg, store):
	sleeper, other = weir_of(), weir_of()
	writes(sleeper)
	writes(other)
	client = sleeper.raw()
	client.query("begin")
	client.query("insert into held values (1)")
	stop(sleeper)
	try:
		client.send(b"Q\x00\x00\x00\x0bcommit\x00")
		other.admin("FENCE main")
		until("it is found good", lambda: other.admin("SHOW CLUSTERS")[0]["probes"] == 2)
		until("a new epoch begins", lambda: unfenced(other), seconds=LEASE + 8)
	finally:
		sleeper.signal(signal.SIGCONT)
	answer = client.read(2)
	assert answer == "E(40001) Z(I)", answer
	assert pg.sql("select i from held", dbname="app") == []
	until("it has caught up", lambda: standing(sleeper) == ("primary", 2, False), seconds=10)


def stop(weir):
	"""All of its threads: the signal is on its way for a moment."""
	def stands(task):
		with open(f"/proc/{weir.pid}/task/{task}/stat") as stat:
			return stat.read().rsplit(")", 1)[1].split()[0] == "T"
	weir.signal(signal.SIGSTOP)
	until("all threads stand", lambda: all(stands(task) for task in os.listdir(f"/proc/{weir.pid}/task")))


def unfenced(weir):
	try:
		weir.admin("UNFENCE main")
	except Exception as e:
		assert "unseen" in str(e), e
		return False
	return True


def test_kill_9_and_a_restart_come_back_in_the_same_epoch_under_another_name(weir_of, store, state_dirs):
	folder = state_dirs()
	weir = weir_of(state_dir=folder)
	writes(weir)
	first = weir.admin("SHOW FENCES")[0]["node"]
	weir.signal(signal.SIGKILL)
	weir.wait_end()
	weir.drop_clients()
	weir.start()
	writes(weir)
	assert standing(weir) == ("primary", 1, False)
	assert weir.admin("SHOW FENCES")[0]["node"] != first


def test_a_store_that_knows_an_older_epoch_does_not_bring_it_back(weir_of, pg, store, state_dirs):
	folder = state_dirs()
	weir = weir_of(state_dir=folder)
	writes(weir)
	for epoch in (2, 3):
		weir.admin("FENCE main")
		until("the primary is found", lambda: weir.admin("SHOW CLUSTERS")[0]["probes"] == 2)
		until("the store lets it", lambda: unfenced(weir), seconds=5)
		until("it is the next epoch", lambda: standing(weir) == ("primary", epoch, False))
	weir.stop()
	older = Store(pg, f"older_{time.monotonic_ns()}")
	try:
		older.poll("somebody")
		older.ask("leave", "somebody")
		fresh = weir_of(state_dir=folder, control=f"postgresql://store_node@{pg.host}:{pg.port}/{older.dbname}")
		writes(fresh)
		assert standing(fresh) == ("primary", 4, False)
		assert told(older) == ("PRIMARY", 4, False)
		assert ("PRIMARY", 1) in older.sql("select to_state, epoch from pgweir.history")
		fresh.stop()
	finally:
		older.close()


def test_a_user_without_rights_is_named_in_the_log_and_nothing_is_written(weir_of, pg, store):
	weir = weir_of(control=f"host={pg.host} port={pg.port} user=store_nobody dbname={store.dbname}")
	weir.wait_log("control store of cluster main: poll: permission denied .*42501", seconds=5)
	refused(weir)


def test_a_database_without_the_store_is_named_in_the_log(weir_of, pg):
	weir = weir_of(control=f"host={pg.host} port={pg.port} user=app dbname=app")
	weir.wait_log("control store of cluster main: poll: .*pgweir", seconds=5)
	refused(weir)


def test_metrics_tell_state_epoch_lease_and_queue(weir_of, store):
	weir = weir_of(settings={"http_listen": http.listen()})
	writes(weir)
	page = http.page(weir)
	assert page("pgweir_cluster_state", cluster="main") == 0
	assert page("pgweir_cluster_epoch", cluster="main") == 1
	assert 0 < page("pgweir_cluster_lease_seconds", cluster="main") <= LEASE
	store.enqueue("order-1")
	weir.admin("FENCE main")
	refused(weir)

	def told_so():
		page = http.page(weir)
		return page("pgweir_cluster_state", cluster="main") == 2 and page("pgweir_cluster_queue", cluster="main") == 1
	until("the page tells the fence and the queue", told_so, seconds=15)
	assert http.page(weir)("pgweir_cluster_refused_writes_total", cluster="main") >= 1
