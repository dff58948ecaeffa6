"""Two instances and their control store: one state, one epoch, and no writes without a lease."""

import os
import signal
import time

import pytest

from rig import Relay, process
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
