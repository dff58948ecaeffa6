"""PAUSE ORG and RESUME ORG: the transactions of one org wait, all others go on."""

import threading

import pytest

from rig.limits import limit, until
from rig.load import start_pgbench, watch
from rig.pooler import stand_in
from rig.raw import Q, ServerError

pytestmark = [pytest.mark.usefixtures("clean"),
              pytest.mark.skipif(stand_in(), reason="PgBouncer has no orgs")]

UUID = "11111111-1111-1111-1111-111111111111"
ORG = {"x-org-id": "acme"}
WORKERS = pytest.mark.parametrize("workers", [1, 4])


def paused(weir, org="acme"):
	return weir.show("ORGS", org=org)[0]["paused"]


@WORKERS
def test_a_paused_org_waits_and_the_others_do_not(pg, pooler, workers):
	weir = pooler(settings={"workers": workers})
	client, other = weir.raw(params=ORG), weir.raw(params={"x-org-id": "batch"})
	client.query("select 1")
	weir.admin("PAUSE ORG acme")
	assert paused(weir) == 1
	client.send(Q("select 1"))
	assert other.value("select 1") == "1"
	assert client.is_quiet()
	weir.admin("RESUME ORG acme")
	client.expect("T D[1] C(SELECT 1) Z(I)")
	assert paused(weir) == 0


@pytest.mark.parametrize("name", [UUID, UUID.upper(), f'"{UUID}"', f"'{UUID}'", "acme_corp", '"acme_corp"'])
def test_an_org_is_named_by_its_id_or_its_name(pg, pooler, name):
	weir = pooler(orgs={UUID: "name=acme_corp"})
	client = weir.raw(params={"x-org-id": UUID})
	client.query("select 1")
	weir.admin(f"PAUSE ORG {name}")
	assert paused(weir, UUID) == 1
	client.send(Q("select 1"))
	assert client.is_quiet()
	weir.admin(f"resume org {name};")
	client.expect("T D[1] C(SELECT 1) Z(I)")


def test_it_is_answered_when_the_last_transaction_is_over(pg, pooler):
	weir = pooler()
	client, late = weir.raw(params=ORG), weir.raw(params=ORG)
	client.query("begin")
	answered = threading.Event()
	pause = threading.Thread(target=lambda: (weir.console().query("PAUSE ORG acme", seconds=limit(10)), answered.set()))
	pause.start()
	until("it is paused", lambda: paused(weir) == 1)
	late.send(Q("select 2"))
	assert client.value("select 1") == "1"
	assert late.is_quiet() and not answered.is_set()
	client.query("commit")
	pause.join(limit(5))
	assert answered.is_set()
	assert late.is_quiet()
	weir.admin("RESUME ORG acme")
	late.expect("T D[2] C(SELECT 1) Z(I)")


def test_resume_answers_a_pause_that_still_waits(pg, pooler):
	weir = pooler()
	client = weir.raw(params=ORG)
	client.query("begin")
	console = weir.console()
	console.send(Q("PAUSE ORG acme"))
	until("it is paused", lambda: paused(weir) == 1)
	weir.admin("RESUME ORG acme")
	assert "E(57014)" in console.read_ready()
	client.query("commit")
	assert client.value("select 1") == "1"


@WORKERS
def test_who_logs_in_later_is_held_too(pg, pooler, workers):
	weir = pooler(settings={"workers": workers})
	weir.raw().query("select 1")
	weir.admin("PAUSE ORG acme")
	client = weir.raw(params=ORG)
	client.send(Q("select 1"))
	other = weir.raw()
	other.query("set pgweir.org = 'acme'")
	other.send(Q("select 2"))
	assert client.is_quiet() and other.is_quiet()
	weir.admin("RESUME ORG acme")
	client.expect("T D[1] C(SELECT 1) Z(I)")
	other.expect("T D[2] C(SELECT 1) Z(I)")


@WORKERS
def test_a_reload_and_a_move_leave_it_paused(pg, own_pg, pooler, workers):
	other = own_pg()
	weir = pooler(pg, settings={"workers": workers}, databases={
		"app": {}, "app_acme": {"host": other.host, "port": other.port, "dbname": "app"}}, orgs={"acme": ""})
	clients = [weir.raw(params=ORG) for _ in range(3)]
	for client in clients:
		client.query("select 1")
	weir.admin("PAUSE ORG acme")
	clients[0].send(Q("show port"))
	weir.routes = {"r": {"org": "acme", "entry": "app", "to": "app_acme"}}
	weir.reload()
	clients[1].send(Q("show port"))
	assert clients[0].is_quiet() and clients[1].is_quiet()
	assert paused(weir) == 1
	weir.admin("RESUME ORG acme")
	for client in clients[:2]:
		client.expect(f"T D[{other.port}] C(SHOW) Z(I)")


def test_what_cannot_be_is_refused(pg, pooler):
	weir = pooler(orgs={"a1": "name=twin", "a2": "name=twin"})
	for command, words in [("PAUSE ORG twin", "several orgs"), ("PAUSE ORG 'a b'", "no such org"),
	                       ("RESUME ORG a1", "neither frozen nor paused"), ("PAUSE app2 app", "invalid command"),
	                       ("RESUME a b", "invalid command")]:
		with pytest.raises(ServerError) as refused:
			weir.admin(command)
		assert words in refused.value.message
	weir.admin("PAUSE ORG a1")
	with pytest.raises(ServerError) as refused:
		weir.admin("PAUSE ORG a1")
	assert "already paused" in refused.value.message
	weir.admin("RESUME ORG a1")


def test_a_server_of_a_paused_org_still_serves_the_others(pg, pooler):
	"""Under a ceiling of one the paused org must not sit on the only server."""
	weir = pooler(settings={"max_server_conn": 1})
	own, other = weir.raw(params=ORG), weir.raw(params={"x-org-id": "batch"})
	own.query("select 1")
	weir.admin("PAUSE ORG acme")
	own.send(Q("select 1"))
	for _ in range(3):
		assert other.value("select 1") == "1"
	assert own.is_quiet()
	weir.admin("RESUME ORG acme")
	own.expect("T D[1] C(SELECT 1) Z(I)")


@WORKERS
def test_pausing_again_and_again_under_load_costs_no_error(pg, pooler, workers):
	weir = pooler(settings={"workers": workers}, orgs={"acme": ""})
	load = start_pgbench(weir, "begin;\nselect 1;\nend;\n", clients=8, seconds=2,
	                     database="dbname=app options='-c org_id=acme'")

	def done():
		return weir.show("ORGS", org="acme")[0]["total_xacts"] if weir.show("ORGS", org="acme") else 0

	def pause():
		weir.admin("PAUSE ORG acme")
		assert pg.count("datname = 'app' and state <> 'idle'") == 0
		before = done()
		weir.admin("RESUME ORG acme")
		until("it goes on", lambda: load.poll() is not None or done() > before + 20, 5)

	assert watch(load, pause) > 3
