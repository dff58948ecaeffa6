"""Read pools: prefer=replica, and what goes to fallback= when no replica can serve."""

import pytest

from rig import process
from rig.limits import limit, until
from rig.load import start_pgbench, watch
from rig.raw import Q, ServerError
from rig.replica import Replica

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.pgweir("read pools")]

WORKERS = pytest.mark.parametrize("workers", [1, 4])


@pytest.fixture
def primary(own_pg):
	server = own_pg(settings={"max_wal_senders": 10, "wal_keep_size": "64MB"})
	server.sql("create role prober login replication")
	return server


@pytest.fixture
def replica_of(primary, request):
	made = []

	def make():
		server = Replica(primary)
		made.append(server)
		request.node.live_servers = [(one, 0) for one in [primary, *made]]
		return server.start()

	yield make
	for server in made:
		server.remove()


@pytest.fixture
def weir_of(primary, pooler):
	def make(*replicas, read=None, breaker="off", settings=None, **how):
		line = {"primary": f"{primary.host}:{primary.port}", "breaker": breaker,
		        "replicas": ",".join(f"{one.host}:{one.port}" for one in replicas) or None}
		if breaker != "off":
			line.update({"probe_user": "prober", "probe_interval": "0.1", "probe_timeout": "0.5"})
		databases = {"app": "cluster=main dbname=app",
		             "read": read or "cluster=main dbname=app prefer=replica fallback=app",
		             **how.pop("databases", {})}
		clusters = {"main": {key: value for key, value in line.items() if value}, **how.pop("clusters", {})}
		return pooler(primary, settings={"server_login_retry": "0.3", "max_server_conn": 20, **(settings or {})}, clusters=clusters,
		              databases=databases, **how)

	return make


def port(client):
	return int(client.value("show port"))


def fallbacks(weir, entry="read"):
	return weir.show("DATABASES", name=entry)[0]["fallbacks"]


@WORKERS
@pytest.mark.parametrize("breaker", ["off", "on"])
def test_a_read_pool_is_served_from_a_replica(primary, replica_of, weir_of, breaker, workers):
	replica = replica_of()
	weir = weir_of(replica, breaker=breaker, settings={"workers": workers})
	client = weir.raw("read")
	until("the probes have found the replica", lambda: port(client) == replica.port, 5)
	before = fallbacks(weir)
	assert client.value("select pg_is_in_recovery()") == "t"
	assert port(weir.raw("app")) == primary.port
	assert fallbacks(weir) == before


def test_several_replicas_are_taken_in_turn(primary, replica_of, weir_of):
	one, two = replica_of(), replica_of()
	weir = weir_of(one, two)
	clients = [weir.raw("read") for _ in range(4)]
	for client in clients:
		client.query("begin")
	assert {port(client) for client in clients} == {one.port, two.port}
	for client in clients:
		client.query("commit")


@WORKERS
@pytest.mark.parametrize("breaker", ["off", "on"])
def test_without_a_replica_each_transaction_goes_to_the_fallback_and_is_counted(primary, replica_of, weir_of, breaker, workers):
	replica = replica_of()
	weir = weir_of(replica, breaker=breaker, settings={"workers": workers})
	client = weir.raw("read")
	until("it is served from the replica", lambda: port(client) == replica.port, 5)
	before = fallbacks(weir)
	replica.stop()
	client.send(Q("show port"))
	letters = client.read_ready(seconds=limit(5)) if client else ""
	assert letters.startswith("T D"), letters
	for _ in range(5):
		assert port(client) == primary.port
	client.query("begin")
	assert port(client) == primary.port
	client.query("commit")
	assert fallbacks(weir) >= before + 7
	assert "no replica serves entry read, its transactions go to app" in weir.log()
	replica.start()
	until("the replica serves again", lambda: port(client) == replica.port, 10)
	counted = fallbacks(weir)
	client.query("select 1")
	assert fallbacks(weir) == counted


@WORKERS
def test_who_logs_in_while_no_replica_is_there_is_welcomed_by_the_fallback(primary, replica_of, weir_of, workers):
	replica = replica_of()
	replica.stop()
	weir = weir_of(replica, settings={"workers": workers})
	clients = [weir.raw("read", params={"DateStyle": "German"}, seconds=limit(5)) for _ in range(5)]
	for client in clients:
		assert port(client) == primary.port
		assert client.value("show datestyle") == "German, DMY"
	replica.start()
	until("the replica serves", lambda: port(clients[0]) == replica.port, 10)
	assert port(weir.raw("read")) == replica.port


@WORKERS
def test_a_fallback_on_another_cluster_serves_wherever_that_lives(primary, replica_of, weir_of, own_pg, workers):
	other = own_pg()
	replica = replica_of()
	weir = weir_of(replica, settings={"workers": workers, "org_sources": "startup, comment"},
	               read="cluster=main dbname=app prefer=replica fallback=far",
	               clusters={"far": f"primary={other.host}:{other.port} breaker=off"},
	               databases={"far": "cluster=far dbname=app"})
	client = weir.raw("read")
	client.query("set timezone = 'Asia/Tokyo'")
	assert port(client) == replica.port
	replica.stop()
	client.send(Q("select 1"))
	client.read_ready(seconds=limit(5))
	for _ in range(3):
		assert port(client) == other.port
		assert client.value("show timezone") == "Asia/Tokyo"
		assert int(client.value("show port /*org='acme'*/")) == other.port
	assert port(weir.raw("read", seconds=limit(5))) == other.port
	replica.start()
	until("the replica serves again", lambda: port(client) == replica.port, 10)


def test_a_chain_of_fallbacks_is_gone_down(primary, replica_of, weir_of):
	one, two = replica_of(), replica_of()
	weir = weir_of(one, read="cluster=main dbname=app prefer=replica fallback=second",
	               clusters={"more": f"primary={primary.host}:{primary.port} replicas={two.host}:{two.port} breaker=off"},
	               databases={"second": "cluster=more dbname=app prefer=replica fallback=app"})
	client = weir.raw("read")
	assert port(client) == one.port
	one.stop()
	client.send(Q("select 1"))
	client.read_ready(seconds=limit(5))
	assert port(client) == two.port
	two.stop()
	until("the last one serves", lambda: port(client) == primary.port, 5)
	assert fallbacks(weir) > 0 and fallbacks(weir, "second") > 0


def test_a_mute_replica_does_not_hold_up_once_the_probes_know(primary, replica_of, weir_of):
	replica = replica_of()
	weir = weir_of(replica, breaker="on")
	client = weir.raw("read")
	until("it is served from the replica", lambda: port(client) == replica.port, 5)
	replica.pause()
	try:
		until("the probes have noticed", lambda: f"{replica.port} down" in weir.show("CLUSTERS", cluster="main")[0]["seen"], 5)
		assert port(client) == primary.port
	finally:
		replica.resume()
	until("the replica serves again", lambda: port(client) == replica.port, 10)


def test_a_route_leads_readers_to_the_read_pool(primary, replica_of, weir_of):
	replica = replica_of()
	weir = weir_of(replica, routes={"reads": {"application_name": "read.*", "entry": "app", "to": "read"}})
	assert port(weir.raw("app", params={"application_name": "read.orders"})) == replica.port
	assert port(weir.raw("app", params={"application_name": "write"})) == primary.port


def test_a_replica_that_goes_and_comes_under_load_costs_no_error_of_who_begins(primary, replica_of, weir_of):
	"""What runs on the replica when it ends is lost; what begins afterwards must not be."""
	replica = replica_of()
	weir = weir_of(replica, settings={"default_pool_size": 4})
	replica.stop()
	load = start_pgbench(weir, "select 1;\n", clients=12, seconds=3, database="read", more=["-j", "12"])
	until("it runs on the fallback", lambda: fallbacks(weir) > 100, 5)
	replica.start()
	watch(load, lambda: None, seconds=15)
	assert replica.count("datname = 'app'") > 0


def test_what_the_servers_of_an_entry_are_told_is_theirs_after_every_reset(primary, pooler):
	weir = pooler(primary, databases={"app": {
		"application_name": "batch_pool", "statement_timeout": "30s", "work_mem": "7MB", "search_path": "pg_catalog"}})
	client = weir.raw()
	told = {"statement_timeout": "30s", "work_mem": "7MB", "search_path": "pg_catalog", "application_name": "batch_pool"}

	def is_told():
		return {name: client.value(f"show {name}") for name in told} == told

	assert is_told()
	for name, other in [("statement_timeout", "'5s'"), ("work_mem", "'9MB'"), ("search_path", "public"), ("application_name", "'mine'")]:
		client.query(f"set {name} = {other}")
		assert not is_told()
		client.query(f"reset {name}")
		assert is_told()
	for reset in ("reset all", "discard all"):
		client.query("set work_mem = '9MB'")
		client.query("set statement_timeout = 0")
		client.query(reset)
		assert is_told()
	named = weir.raw(params={"application_name": "mine"})
	assert named.value("show application_name") == "mine"
	assert is_told()
	assert primary.count("application_name in ('batch_pool', 'mine')") >= 1
	other = weir.raw(params={"x-org-id": "acme"})
	assert other.value("show work_mem") == "7MB"
