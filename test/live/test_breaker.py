"""Breaker and probes against real primaries and replicas: who is served, in which state, under which epoch."""

import os
import signal
import time

import psycopg
import pytest

from rig import Relay, process
from rig.fakeserver import CLOSE, FakeServer, error
from rig.limits import until
from rig.raw import ServerError
from rig.replica import Replica, Stranger, Twin

pytestmark = pytest.mark.pgweir("breaker and probes")

QUICK = {"probe_interval": "0.1", "probe_timeout": "1", "breaker_open": "1", "server_login_retry": "0.3",
         "probe_user": "prober", "probe_dbname": "postgres"}


@pytest.fixture
def primary(own_pg):
	server = own_pg(settings={"max_wal_senders": 10, "wal_keep_size": "64MB"})
	server.sql("create role prober login replication password 'prober-secret'")
	return server


@pytest.fixture
def copies(primary, request):
	made = []

	def make(kind, **how):
		server = kind(primary, **how)
		made.append(server)
		request.node.live_servers = [(one, 0) for one in [primary, *made]]
		return server.start()

	yield make
	for server in made:
		server.remove()


@pytest.fixture
def weir_of(pooler, state_dir):
	"""A pooler with one cluster `main` of these servers, the first of them under primary=."""
	def make(*servers, settings=None, cluster=None, **how):
		first, *rest = [f"{s.host}:{s.port}" for s in servers]
		line = {"primary": first, **({"replicas": ",".join(rest)} if rest else {}), **(cluster or {})}
		return pooler(servers[0], settings={**QUICK, "state_dir": state_dir, **(settings or {})}, clusters={"main": line},
		              databases={"app": "cluster=main dbname=app"}, **how)
	return make


def cluster(weir):
	return weir.show("CLUSTERS", cluster="main")[0]


def wait_state(weir, state, seconds=5, **more):
	def is_so():
		row = cluster(weir)
		return row if row["state"] == state and all(row[k] == v for k, v in more.items()) else None
	return until(f"the cluster is {state} with {more}", is_so, seconds)


def name(server):
	return f"{server.host}:{server.port}"


def server_port(client):
	return client.execute("select inet_server_port()").fetchone()[0]


def served_port(weir):
	"""Which server a new client gets."""
	with psycopg.connect(weir.dsn(), autocommit=True) as client:
		return server_port(client)


# --- what is shown

def test_a_primary_and_its_replica_are_told_apart(primary, copies, weir_of):
	replica = copies(Replica)
	weir = weir_of(primary, replica)
	row = wait_state(weir, "primary", primary=name(primary))
	assert (row["epoch"], row["failures"], row["breaker"], row["last_error"]) == (1, 0, "on", None)
	until("both were seen", lambda: cluster(weir)["seen"] ==
	      f"{name(primary)} primary timeline=1; {name(replica)} replica timeline=1 lag=0")
	assert served_port(weir) == primary.port


def test_the_lag_of_a_replica_that_does_not_replay_grows(primary, copies, weir_of):
	replica = copies(Replica)
	weir = weir_of(primary, replica)
	until("the lag is 0", lambda: cluster(weir)["seen"].endswith("lag=0"), 5)
	replica.sql("select pg_wal_replay_pause()")
	primary.sql("create table wide as select n, repeat('x', 100) from generate_series(1, 1000) n", dbname="app")
	until("the lag is 100 kB and more", lambda: int(cluster(weir)["seen"].rpartition("lag=")[2]) > 100_000)
	replica.sql("select pg_wal_replay_resume()")
	until("the lag is 0 again", lambda: cluster(weir)["seen"].endswith("lag=0"))


def test_columns_of_show_clusters_stand_behind_those_that_were_there(primary, weir_of):
	weir = weir_of(primary)
	assert list(cluster(weir)) == [
		"cluster", "home", "max_server_conn", "servers", "max_server_login", "entries", "hosts", "implicit", "breaker", "state", "since",
		"epoch", "failures", "probes", "primary", "seen", "last_error"]


def test_a_plain_host_has_no_breaker(pg, pooler):
	weir = pooler(settings=QUICK)
	row, = weir.admin("SHOW CLUSTERS")
	assert (row["implicit"], row["breaker"], row["state"], row["epoch"]) == (1, "off", None, None)
	assert weir.admin("SHOW FENCES") == []
	with pytest.raises(ServerError, match="has no breaker"):
		weir.admin(f'FENCE "{row["cluster"]}"')
	assert weir.raw().value("select 1") == "1"


def test_the_probes_log_in_with_scram(own_pg, weir_of):
	server = own_pg(settings={"max_wal_senders": 10})
	server.sql("alter role scram_u replication")
	weir = weir_of(server, settings={"probe_user": "scram_u", "probe_password": "scram-secret-4"})
	wait_state(weir, "primary", primary=name(server))
	assert "primary timeline=1" in cluster(weir)["seen"]
	assert "scram-secret-4" not in weir.log() + repr(weir.admin("SHOW CONFIG"))


def test_a_password_in_auth_file_is_the_probes_too(own_pg, weir_of):
	server = own_pg(settings={"max_wal_senders": 10})
	server.sql("alter role scram_u replication")
	weir = weir_of(server, settings={"probe_user": "scram_u"})
	wait_state(weir, "primary", primary=name(server))
	assert "primary timeline=1" in cluster(weir)["seen"]


@pytest.mark.parametrize("mode", ["require", "disable"])
def test_the_probes_use_tls_as_the_servers_do(primary, weir_of, mode):
	primary.write_hba("local all all trust\n" + ("hostssl" if mode == "require" else "hostnossl") + " all all 127.0.0.1/32 trust\n")
	primary.reload()
	weir = weir_of(primary, settings={"server_tls_sslmode": mode})
	wait_state(weir, "primary", primary=name(primary))
	assert "primary timeline=1" in cluster(weir)["seen"]


def test_a_user_who_may_not_replicate_finds_the_role_alone_and_it_is_said_once(primary, copies, weir_of):
	replica = copies(Replica)
	weir = weir_of(primary, replica, settings={"probe_user": "app"})
	wait_state(weir, "primary", primary=name(primary))
	until("both were seen", lambda: cluster(weir)["seen"] == f"{name(primary)} primary; {name(replica)} replica")
	mark = primary.mark()
	until("ten rounds are over", lambda: primary.log(mark).count("\n") == 0 and time.sleep(1) is None, 3)
	assert weir.log().count("does not tell its timeline") == 2


def test_without_a_probe_user_an_answer_is_enough(primary, weir_of):
	weir = weir_of(primary, settings={"probe_user": ""})
	row = wait_state(weir, "primary", primary=name(primary))
	until("it was seen", lambda: cluster(weir)["seen"] == f"{name(primary)} up")
	primary.stop()
	wait_state(weir, "degraded")
	primary.start()
	wait_state(weir, "primary", epoch=row["epoch"] + 1)


# --- the breaker

def test_a_primary_that_dies_is_degraded_and_comes_back_under_the_next_epoch(primary, weir_of):
	weir = weir_of(primary)
	wait_state(weir, "primary", primary=name(primary))
	primary.kill()
	row = wait_state(weir, "degraded", 3)
	assert "Connection refused" in row["last_error"]
	assert row["primary"] is None
	assert row["epoch"] == 1
	fence, = weir.admin("SHOW FENCES")
	assert (fence["cluster"], fence["fenced"], fence["by"], fence["state"]) == ("main", 1, "breaker", "degraded")
	primary.start()
	row = wait_state(weir, "primary", primary=name(primary))
	assert row["epoch"] == 2
	log = weir.log()
	moves = [log.index(text) for text in ("PRIMARY -> DEGRADED", "DEGRADED -> RECOVERING", "PRIMARY under epoch 2")]
	assert moves == sorted(moves)
	assert weir.admin("SHOW FENCES")[0]["fenced"] == 0
	assert served_port(weir) == primary.port


def test_a_mute_primary_is_degraded_within_its_time(primary, weir_of):
	weir = weir_of(primary, settings={"probe_timeout": "0.3"})
	wait_state(weir, "primary", primary=name(primary))
	primary.pause()
	# Three times 0.3 s and what lies between.
	wait_state(weir, "degraded", 2)
	assert "probe_timeout" in cluster(weir)["last_error"]
	primary.resume()
	wait_state(weir, "primary", epoch=2)


def test_while_the_breaker_is_open_the_primary_is_not_tried(primary, weir_of):
	with Relay(primary.address) as relay:
		weir = weir_of(relay, settings={"breaker_open": "2"})
		wait_state(weir, "primary")
		client = weir.connect()
		client.execute("select 1")
		primary.stop()
		wait_state(weir, "degraded", 3)
		primary.start()
		seen = relay.connections
		began = time.monotonic()
		while time.monotonic() - began < 1:
			assert relay.connections == seen
			assert cluster(weir)["state"] == "degraded"
			time.sleep(0.05)
		wait_state(weir, "primary", epoch=2)


def test_logins_that_fail_open_it_though_no_probe_was_due(primary, weir_of):
	weir = weir_of(primary, settings={"probe_interval": "60", "server_login_retry": "0.1", "breaker_open": "60"})
	wait_state(weir, "primary", primary=name(primary))
	primary.stop()
	for _ in range(3):
		assert cluster(weir)["state"] == "primary"
		assert "Connection refused" in weir.refusal().message
		until("the next attempt is due", lambda: time.sleep(0.1) is None)
	assert "Connection refused" in wait_state(weir, "degraded", 1)["last_error"]


def test_a_primary_that_starts_up_counts_as_down(weir_of):
	starting = error("57P03", "the database system is starting up", "FATAL")
	with FakeServer(login=starting) as fake:
		weir = weir_of(fake, settings={"breaker_open": "60"})
		row = wait_state(weir, "degraded")
		assert "starting up" in row["last_error"]


def test_a_full_primary_does_not_count_as_down(primary, weir_of):
	"""Its probes are walsenders, which have places of their own; when those are gone too, it still answers."""
	primary.sql("alter system set max_wal_senders = 0")
	primary.settings.update(max_wal_senders=0, wal_level="minimal", max_connections=6)
	primary.restart()
	weir = weir_of(primary, settings={"probe_user": "app"})
	wait_state(weir, "primary", primary=name(primary))
	crowd = []

	def is_full():
		try:
			crowd.append(psycopg.connect(f"host={primary.host} port={primary.port} user=app dbname=app"))
		except psycopg.OperationalError as refused:
			assert "connection slots" in str(refused) or "too many clients" in str(refused)
		return cluster(weir)["seen"] == f"{name(primary)} up"

	until("probes are refused", is_full)
	seen = weir.mark()
	for _ in range(10):
		assert cluster(weir)["state"] == "primary"
		time.sleep(0.05)
	assert "DEGRADED" not in weir.log(seen)
	for one in crowd:
		one.close()
	until("they are let in again", lambda: "primary" in cluster(weir)["seen"])
	assert cluster(weir)["epoch"] == 1


def test_observe_does_nothing_but_log(primary, weir_of):
	weir = weir_of(primary, settings={"breaker": "observe"})
	wait_state(weir, "primary", primary=name(primary), breaker="observe")
	primary.stop()
	weir.wait_log(r"breaker=observe: nothing is done\): PRIMARY -> DEGRADED", seconds=3)
	assert weir.admin("SHOW FENCES")[0]["fenced"] == 0
	primary.start()
	until("a client is served at once, and not after the window", lambda: served_port(weir) == primary.port)
	weir.wait_log(r"nothing is done\): PRIMARY under epoch 2", seconds=5)
	with pytest.raises(ServerError, match="observed only"):
		weir.admin("FENCE main")


# --- several hosts

def test_a_promoted_replica_is_followed(primary, copies, weir_of):
	replica = copies(Replica)
	weir = weir_of(primary, replica)
	wait_state(weir, "primary", primary=name(primary))
	primary.stop()
	wait_state(weir, "degraded")
	replica.promote()
	row = wait_state(weir, "primary", primary=name(replica))
	assert row["epoch"] == 2
	assert served_port(weir) == replica.port


def test_a_promotion_beside_a_living_primary_is_followed_and_the_old_one_gets_nothing(primary, copies, weir_of):
	replica = copies(Replica)
	weir = weir_of(primary, replica)
	wait_state(weir, "primary", primary=name(primary))
	client = weir.connect()
	assert server_port(client) == primary.port
	replica.promote()
	row = wait_state(weir, "primary", primary=name(replica))
	assert row["epoch"] == 2
	assert server_port(client) == replica.port
	assert served_port(weir) == replica.port
	weir.wait_log(f"{name(primary)} says that it is the primary too, but on timeline 1 where {name(replica)} is on 2: it gets nothing")
	until("no session of ours is left there", lambda: primary.count("usename = 'app'") == 0)


def test_the_old_primary_alone_is_not_served_again(primary, copies, weir_of):
	replica = copies(Replica)
	weir = weir_of(primary, replica)
	wait_state(weir, "primary", primary=name(primary))
	replica.promote()
	wait_state(weir, "primary", primary=name(replica), epoch=2)
	replica.stop()
	row = wait_state(weir, "degraded")
	assert row["primary"] is None
	weir.wait_log("says that it is the primary on timeline 1, but there was one on 2 already")
	weir.stop()
	weir.start()  # and a restart does not make it forget
	weir.wait_log("there was one on 2 already", weir.mark(), 5)
	assert cluster(weir)["state"] != "primary"
	replica.start()
	wait_state(weir, "primary", primary=name(replica), epoch=3)
	assert served_port(weir) == replica.port


def test_two_on_the_same_timeline_are_both_not_served(primary, copies, weir_of):
	twin = copies(Twin)
	twin.stop()
	weir = weir_of(primary, twin)
	wait_state(weir, "primary", primary=name(primary))
	client = weir.connect()
	client.execute("select 1")
	twin.start()
	row = wait_state(weir, "degraded")
	assert row["primary"] is None
	assert "both say that they are the primary, on the same timeline 1" in row["last_error"]
	weir.wait_log("ERROR .*on the same timeline 1")
	until("no session of ours is left", lambda: primary.count("usename = 'app'") == 0)
	twin.stop()
	wait_state(weir, "primary", primary=name(primary), epoch=2)


def test_with_a_primary_of_another_system_none_is_served(primary, copies, weir_of):
	stranger = copies(Stranger)
	stranger.sql("create role prober login replication")
	stranger.stop()
	weir = weir_of(primary, stranger)
	wait_state(weir, "primary", primary=name(primary))
	stranger.start()
	row = wait_state(weir, "degraded")
	assert "are primaries of two different systems" in row["last_error"]
	primary.stop()
	weir.wait_log(f"{name(stranger)} is the primary of another system", seconds=5)
	stranger.stop()
	primary.start()
	wait_state(weir, "primary", primary=name(primary), epoch=2)


def test_a_switchover_is_followed_without_a_window(primary, copies, weir_of):
	"""The old primary comes back as a replica, the new one is promoted: as cluster managers do it."""
	replica = copies(Replica)
	weir = weir_of(primary, replica, settings={"breaker_failures": "100000", "breaker_open": "60"})
	wait_state(weir, "primary", primary=name(primary))
	primary.stop()
	replica.promote()
	wait_state(weir, "primary", primary=name(replica), epoch=2)
	assert "DEGRADED" not in weir.log()


# --- fences

def test_a_fence_stands_until_it_is_lifted_and_a_new_epoch_begins(primary, weir_of):
	weir = weir_of(primary)
	wait_state(weir, "primary", primary=name(primary))
	weir.admin("FENCE main")
	fence, = weir.admin("SHOW FENCES")
	assert (fence["fenced"], fence["by"], fence["state"], fence["epoch"]) == (1, "operator", "recovering", 1)
	weir.admin("FENCE main")
	until("probes are good", lambda: cluster(weir)["probes"] == 2)
	assert cluster(weir)["state"] == "recovering"
	weir.admin("UNFENCE main")
	fence, = weir.admin("SHOW FENCES")
	assert (fence["fenced"], fence["by"], fence["state"], fence["epoch"]) == (0, None, "primary", 2)
	with pytest.raises(ServerError, match="not fenced"):
		weir.admin("UNFENCE main")


def test_unfence_waits_for_the_probes(primary, weir_of):
	weir = weir_of(primary)
	wait_state(weir, "primary", primary=name(primary))
	weir.admin("FENCE main")
	primary.stop()
	until("a probe is bad", lambda: cluster(weir)["probes"] == 0 and cluster(weir)["last_error"])
	weir.admin("UNFENCE main FORCE")
	assert cluster(weir)["state"] != "primary"
	wait_state(weir, "degraded")
	primary.start()
	wait_state(weir, "primary", epoch=2)


@pytest.mark.parametrize("command,words", [
	("FENCE nowhere", "no such cluster: nowhere"), ("UNFENCE nowhere", "no such cluster: nowhere"),
	("UNFENCE main now", "invalid command"), ("FENCE", "invalid command"), ("FENCE main FORCE", "invalid command"),
	("UNFENCE main FORCE FORCE", "invalid command"),
])
def test_what_fence_and_unfence_do_not_take(primary, weir_of, command, words):
	weir = weir_of(primary)
	with pytest.raises(ServerError, match=words):
		weir.admin(command)


def test_only_admins_fence(primary, weir_of):
	weir = weir_of(primary)
	stats = weir.console("stats")
	with pytest.raises(ServerError, match="admin access needed"):
		stats.query("FENCE main")
	assert stats.query("SHOW FENCES")


def test_help_lists_them(primary, weir_of):
	weir = weir_of(primary)
	notices = []
	with psycopg.connect(weir.dsn("pgweir", "admin"), autocommit=True, cursor_factory=psycopg.ClientCursor) as client:
		client.add_notice_handler(lambda notice: notices.append(notice.message_detail))
		client.execute("SHOW HELP")
	for text in ("FENCES", "FENCE <cluster>", "UNFENCE <cluster> [FORCE]"):
		assert text in notices[0]


def test_force_takes_the_primary_that_is_there(primary, copies, weir_of):
	"""The promoted replica is lost for good, and an operator decides for the old primary."""
	replica = copies(Replica)
	weir = weir_of(primary, replica)
	wait_state(weir, "primary", primary=name(primary))
	replica.promote()
	wait_state(weir, "primary", primary=name(replica))
	replica.stop()
	wait_state(weir, "degraded")
	weir.admin("FENCE main")
	weir.admin("UNFENCE main FORCE")
	wait_state(weir, "primary", primary=name(primary), epoch=3)
	assert served_port(weir) == primary.port


# --- restarts

def test_a_fence_and_an_epoch_outlive_a_kill(primary, weir_of):
	weir = weir_of(primary)
	wait_state(weir, "primary", primary=name(primary))
	for epoch in (1, 2, 3):
		weir.admin("FENCE main")
		weir.signal(signal.SIGKILL)
		weir.wait_end()
		weir._console = None
		weir.start()
		fence, = weir.admin("SHOW FENCES")
		assert (fence["fenced"], fence["by"], fence["epoch"]) == (1, "operator", epoch)
		until("probes are good", lambda: cluster(weir)["probes"] == 2)
		weir.admin("UNFENCE main")
		wait_state(weir, "primary", epoch=epoch + 1)
	weir.expected_death = False


def test_a_restart_while_degraded_comes_up_fenced_and_recovers_by_probes(primary, weir_of):
	weir = weir_of(primary, settings={"breaker_open": "60"})
	wait_state(weir, "primary", primary=name(primary))
	primary.stop()
	wait_state(weir, "degraded")
	weir.stop()
	primary.start()
	weir.start()
	wait_state(weir, "primary", epoch=2, primary=name(primary))


def test_an_orderly_restart_keeps_the_epoch(primary, weir_of):
	weir = weir_of(primary)
	wait_state(weir, "primary", primary=name(primary))
	weir.stop()
	weir.start()
	assert wait_state(weir, "primary", primary=name(primary))["epoch"] == 1
	assert served_port(weir) == primary.port


def test_another_primary_after_a_restart_begins_an_epoch(primary, copies, weir_of):
	replica = copies(Replica)
	weir = weir_of(primary, replica)
	wait_state(weir, "primary", primary=name(primary))
	weir.stop()
	replica.promote()
	weir.start()
	wait_state(weir, "primary", primary=name(replica), epoch=2)


def test_a_lost_file_of_epochs_brings_all_up_fenced_and_further(primary, weir_of, state_dir):
	weir = weir_of(primary)
	wait_state(weir, "primary", primary=name(primary))
	weir.stop()
	os.truncate(f"{state_dir}/epochs.1", 10)
	weir.start()
	weir.wait_log("ERROR state_dir: epochs.1 is broken and may have been the newer one")
	fence, = weir.admin("SHOW FENCES")
	assert (fence["fenced"], fence["by"], fence["epoch"]) == (1, "operator", 2)
	until("probes are good", lambda: cluster(weir)["probes"] == 2)
	weir.admin("UNFENCE main")
	wait_state(weir, "primary", epoch=3)


@pytest.mark.parametrize("wreck,words", [
	(lambda folder: [os.truncate(f"{folder}/epochs.{i}", 10) for i in (0, 1)], "epochs.0 is broken and epochs.1 is broken"),
	(lambda folder: process.remove(folder), "No such file or directory"),
])
def test_a_state_dir_that_cannot_be_used_stops_the_start(primary, weir_of, state_dir, wreck, words):
	weir = weir_of(primary)
	wait_state(weir, "primary", primary=name(primary))
	weir.stop()
	wreck(state_dir)
	status, said = weir.fails_to_start()
	assert status == 1
	assert words in said


def test_two_poolers_do_not_share_a_state_dir(primary, weir_of, pooler, state_dir):
	weir_of(primary)
	other = pooler(primary, start=False, settings={"state_dir": state_dir})
	status, said = other.fails_to_start()
	assert status == 1
	assert f"state_dir {state_dir} is another process's" in said


def test_without_a_state_dir_it_is_said(primary, weir_of):
	weir = weir_of(primary, settings={"state_dir": None})
	weir.wait_log("state_dir is not set")
	assert wait_state(weir, "primary", primary=name(primary))["epoch"] == 1


def test_a_full_disk_keeps_the_fence_up(primary, weir_of, state_dir):
	weir = weir_of(primary)
	wait_state(weir, "primary", primary=name(primary))
	weir.admin("FENCE main")
	until("probes are good", lambda: cluster(weir)["probes"] == 2)
	os.mkdir(f"{state_dir}/epochs.new")  # stands in the way of the next file
	with pytest.raises(ServerError, match="cannot write"):
		weir.admin("UNFENCE main")
	assert cluster(weir)["state"] == "recovering"
	os.rmdir(f"{state_dir}/epochs.new")
	wait_state(weir, "primary", epoch=2)


# --- reload

def test_a_reload_changes_breaker_and_hosts(primary, copies, weir_of):
	replica = copies(Replica)
	weir = weir_of(primary)
	wait_state(weir, "primary", primary=name(primary))
	weir.clusters["main"]["replicas"] = name(replica)
	weir.reload()
	until("both were seen", lambda: f"{name(replica)} replica" in cluster(weir)["seen"])
	assert cluster(weir)["epoch"] == 1
	weir.clusters["main"]["breaker"] = "off"
	weir.reload()
	assert cluster(weir)["breaker"] == "off"
	assert weir.admin("SHOW FENCES") == []
	assert served_port(weir) == primary.port
	weir.clusters["main"].update(breaker="on", primary=name(replica), replicas=name(primary))
	weir.reload()
	wait_state(weir, "primary", primary=name(primary))
	assert served_port(weir) == primary.port


def test_a_reload_does_not_lift_a_fence(primary, weir_of):
	weir = weir_of(primary)
	wait_state(weir, "primary", primary=name(primary))
	weir.admin("FENCE main")
	for _ in range(3):
		weir.reload()
	assert weir.admin("SHOW FENCES")[0]["by"] == "operator"


def test_settings_that_probes_cannot_go_by_are_refused(primary, weir_of):
	weir = weir_of(primary)
	mark = weir.mark()
	weir.clusters["main"]["probe_interval"] = "0"
	with pytest.raises(ServerError):
		weir.reload()
	weir.wait_log("probe_interval and probe_timeout are 10 milliseconds at least", mark)


# --- hostile servers

@pytest.mark.parametrize("answer", [
	b"", b"R", b"R\0\0\0\3", b"R\xff\xff\xff\xff", b"Z\0\0\0\5I", b"D\0\0\0\6\0\0", b"X" * 2000, b"\0" * 70000, CLOSE,
], ids=lambda answer: "end" if answer is CLOSE else repr(answer)[:30])
def test_whatever_a_server_answers_the_pooler_lives(weir_of, answer):
	with FakeServer(login=answer) as fake:
		weir = weir_of(fake, settings={"probe_timeout": "0.2"})
		wait_state(weir, "degraded")


@pytest.mark.parametrize("rows", [
	b"", b"D\0\0\0\6\0\0", b"D\0\0\0\6\xff\xff", b"D\0\0\0\x0a\0\1\0\0\0\0", b"D\0\0\0\x0e\0\2\xff\xff\xff\xff\xff\xff\xff\xff",
	b"D\0\0\0\x0f\0\2\0\0\0\1x\xff\xff\xff\xff", b"D\0\0\0\x0f\0\2\0\0\0\1f\x7f\xff\xff\xff",
], ids=repr)
def test_a_row_that_is_none_is_no_answer(weir_of, rows):
	with FakeServer(answers={"Q": rows + b"C\0\0\0\x0dSELECT 1\0" + b"Z\0\0\0\5I"}) as fake:
		weir = weir_of(fake, settings={"probe_timeout": "0.2"})
		wait_state(weir, "degraded")
