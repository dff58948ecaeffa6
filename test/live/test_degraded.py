"""Degraded service: what a cluster whose primary is gone still does, and how it says so (pgweir.mode)."""

import time

import psycopg
import pytest

from rig.limits import limit, until
from rig.raw import B, E, P, Q, S, ServerError
from rig.replica import Replica

pytestmark = pytest.mark.pgweir("degraded service")

QUICK = {"probe_interval": "0.1", "probe_timeout": "1", "server_login_retry": "0.3", "probe_user": "prober", "probe_dbname": "postgres"}
AT_ONCE = 2 # seconds, where query_wait_timeout has 120


@pytest.fixture
def primary(own_pg):
	server = own_pg(settings={"max_wal_senders": 10, "wal_keep_size": "64MB"})
	server.sql("create role prober login replication")
	server.sql("create table kept (n int); insert into kept values (1); grant all on kept to public", dbname="app")
	server.sql("checkpoint") # it is killed, and runs without fsync
	return server


@pytest.fixture
def replica(primary, request):
	server = Replica(primary)
	request.node.live_servers = [(primary, 0), (server, 0)]
	server.start()
	until("the replica has it all", lambda: server.value("select pg_last_wal_replay_lsn() is not null"))
	until("the table is there", lambda: server.value("select to_regclass('kept') is not null", dbname="app"), 5)
	yield server
	server.remove()


@pytest.fixture
def weir_of(primary, pooler, state_dir):
	def make(*replicas, settings=None, cluster=None, **how):
		line = {"primary": f"{primary.host}:{primary.port}", **(cluster or {})}
		if replicas:
			line["replicas"] = ",".join(f"{one.host}:{one.port}" for one in replicas)
		weir = pooler(primary, settings={**QUICK, "breaker_open": "60", "state_dir": state_dir, **(settings or {})}, clusters={"main": line},
		              databases={"app": "cluster=main dbname=app"}, **how)
		wait_state(weir, "primary")
		return weir
	return make


def wait_state(weir, state, seconds=5):
	until(f"the cluster is {state}", lambda: weir.show("CLUSTERS", cluster="main")[0]["state"] == state, seconds)


def degrade(weir, primary):
	primary.kill()
	wait_state(weir, "degraded")


def port(client):
	return int(client.value("show port"))


# --- with a replica

def test_a_client_that_is_in_reads_from_the_replica(primary, replica, weir_of):
	weir = weir_of(replica)
	client = weir.raw()
	assert port(client) == primary.port
	degrade(weir, primary)
	assert port(client) == replica.port
	assert client.value("select n from kept") == "1"


def test_a_new_client_logs_in_and_reads_from_the_replica(primary, replica, weir_of):
	weir = weir_of(replica)
	degrade(weir, primary)
	client = weir.raw()
	assert client.params["in_hot_standby"] == "on"
	assert port(client) == replica.port


def test_a_plain_begin_reads_and_its_write_is_refused(primary, replica, weir_of):
	weir = weir_of(replica)
	client = weir.raw()
	degrade(weir, primary)
	client.query("begin")
	assert client.value("select n from kept") == "1"
	with pytest.raises(ServerError) as refused:
		client.query("insert into kept values (2)")
	assert refused.value.sqlstate == "57P03"
	assert "main" in refused.value.message and "degraded" in refused.value.message
	assert client.status == "E"
	client.query("rollback")
	assert port(client) == replica.port


def test_a_write_is_refused_in_the_extended_protocol(primary, replica, weir_of):
	weir = weir_of(replica)
	client = weir.raw()
	degrade(weir, primary)
	got = client.talk(P("", "insert into kept values (2)"), B(), E(), S)
	assert got == "1 E(57P03) Z(I)" # as PostgreSQL, which parses it all the same
	assert client.talk(P("", "select n from kept"), B(), E(), S) == "1 2 D[1] C(SELECT 1) Z(I)"


def test_a_statement_prepared_before_is_executed_on_the_replica(primary, replica, weir_of):
	weir = weir_of(replica)
	client = weir.raw()
	assert client.talk(P("read", "select n from kept"), P("write", "insert into kept values (2)"), S) == "1 1 Z(I)"
	degrade(weir, primary)
	assert client.talk(B("", "read"), E(), S) == "2 D[1] C(SELECT 1) Z(I)"
	assert client.talk(B("", "write"), E(), S).endswith("E(57P03) Z(I)")


def test_new_transactions_go_to_the_primary_when_it_is_back(primary, replica, weir_of):
	weir = weir_of(replica, settings={"breaker_open": "1"})
	client = weir.raw()
	degrade(weir, primary)
	assert port(client) == replica.port
	primary.start()
	wait_state(weir, "primary", 10)
	assert port(client) == primary.port
	client.query("insert into kept values (2)")
	assert primary.value("select count(*) from kept", dbname="app") == 2
	assert weir.raw().params["in_hot_standby"] == "off"


def test_a_client_that_pools_by_session_is_ended_with_its_server(primary, replica, weir_of):
	weir = weir_of(replica, settings={"pool_mode": "session"})
	client = weir.raw()
	assert port(client) == primary.port
	degrade(weir, primary)
	assert "E(" in client.read_eof()
	assert port(weir.raw()) == replica.port


# --- without one

def assert_at_once(began):
	assert time.monotonic() - began < limit(AT_ONCE)


def test_without_a_replica_a_client_that_is_in_is_refused_at_once_and_stays(primary, weir_of):
	weir = weir_of()
	client = weir.raw()
	assert client.value("select 1") == "1"
	degrade(weir, primary)
	began = time.monotonic()
	with pytest.raises(ServerError) as refused:
		client.query("select 1")
	assert_at_once(began)
	error = refused.value
	assert (error.sqlstate, error.fields["S"]) == ("57P03", "ERROR")
	assert "cluster main is degraded" in error.message
	assert "tried again within 60000 ms" in error.fields["H"]
	assert client.status == "I"
	assert client.talk(P("", "select 1"), B(), E(), S) == "E(57P03) Z(I)"
	primary.start()


def test_without_a_replica_each_of_a_pipeline_is_refused_in_its_place(primary, weir_of):
	weir = weir_of()
	client = weir.raw()
	degrade(weir, primary)
	batch = P("a", "select 1") + B("", "a") + E() + S
	assert client.talk(batch, Q("select 1"), batch, times=3) == "E(57P03) Z(I) E(57P03) Z(I) E(57P03) Z(I)"
	assert client.talk(S) == "Z(I)"


def test_without_a_replica_a_login_is_refused_with_fatal(primary, weir_of):
	weir = weir_of()
	degrade(weir, primary)
	began = time.monotonic()
	refused = weir.refusal()
	assert_at_once(began)
	assert (refused.sqlstate, refused.fields["S"]) == ("57P03", "FATAL")
	assert "cluster main is degraded" in refused.message


def test_who_waits_for_a_server_is_told_when_the_cluster_is_degraded(primary, weir_of):
	weir = weir_of(settings={"default_pool_size": "1", "server_login_retry": "15"})
	busy, waiting = weir.raw(), weir.raw()
	waiting.value("select 1") # one who was never served is told of the first login that fails
	busy.query("begin")
	waiting.send(Q("select 1"))
	weir.wait_pool(cl_waiting=1)
	primary.kill()
	assert waiting.read_ready(seconds=5) == "E(57P03) Z(I)"


def test_one_that_was_refused_is_served_when_the_primary_is_back(primary, weir_of):
	weir = weir_of(settings={"breaker_open": "1"})
	client = weir.raw()
	degrade(weir, primary)
	with pytest.raises(ServerError):
		client.query("select 1")
	primary.start()
	wait_state(weir, "primary", 10)
	client.query("insert into kept values (2)")


# --- pgweir.mode

def test_the_mode_is_told_at_login_and_before_the_first_answer_after_it_changed(primary, replica, weir_of):
	weir = weir_of(replica, settings={"breaker_open": "1"})
	client = weir.raw()
	assert client.params["pgweir.mode"] == "primary"
	primary.kill()
	wait_state(weir, "degraded")
	assert client.is_quiet()
	client.send(Q("select 1"))
	letter, body = client.read_message()
	assert (letter, body) == ("S", b"pgweir.mode\0degraded\0")
	assert client.read_ready() == "T D[1] C(SELECT 1) Z(I)"
	assert weir.raw().params["pgweir.mode"] in ("degraded", "recovering")
	primary.start()
	wait_state(weir, "primary", 10)
	client.value("select 1")
	assert client.params["pgweir.mode"] == "primary"


def test_the_mode_stands_before_a_refusal(primary, weir_of):
	weir = weir_of()
	client = weir.raw()
	degrade(weir, primary)
	client.send(Q("select 1"))
	assert [client.read_message()[0] for _ in range(3)] == ["S", "E", "Z"]
	client.send(Q("select 1"))
	assert [client.read_message()[0] for _ in range(2)] == ["E", "Z"]


def test_the_mode_of_a_fenced_cluster_is_recovering(primary, weir_of):
	weir = weir_of()
	client = weir.raw()
	client.query("begin")
	weir.admin("FENCE main")
	wait_state(weir, "recovering")
	client.send(Q("commit"))
	assert [client.read_message()[0] for _ in range(3)] == ["S", "E", "Z"]
	assert client.errors == []
	client.send(Q("select 1"))
	assert client.read_ready() == "T D[1] C(SELECT 1) Z(I)"
	assert weir.raw().params["pgweir.mode"] == "recovering"


def test_a_cluster_without_a_breaker_has_no_mode(pg, pooler):
	assert "pgweir.mode" not in pooler().raw().params


def test_psycopg_takes_the_mode(primary, replica, weir_of):
	weir = weir_of(replica)
	with psycopg.connect(weir.dsn(), autocommit=True) as client:
		assert client.info.parameter_status("pgweir.mode") == "primary"
		degrade(weir, primary)
		assert client.execute("select n from kept").fetchone() == (1,)
		assert client.info.parameter_status("pgweir.mode") == "degraded"
