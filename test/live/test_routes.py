"""[routes]: who is served from which entry, and moves by a RELOAD that nobody notices."""

import itertools

import pytest

from rig import process
from rig.cases import Background, in_threads
from rig.limits import limit, until
from rig.load import start_pgbench, watch
from rig.pooler import stand_in
from rig.raw import B, D, E, P, Q, S, ServerError

pytestmark = [pytest.mark.usefixtures("clean"),
              pytest.mark.skipif(stand_in(), reason="PgBouncer has no routes")]

ORG = {"x-org-id": "acme"}


@pytest.fixture
def two(pg, own_pg, pooler):
	"""A pooler with the entry `app` on one PostgreSQL and `app_acme` on another; in each worker count a test asks for."""
	other = own_pg()

	def make(**how):
		settings = {"default_pool_size": 4, **how.pop("settings", {})}
		databases = {"app": {}, "app_acme": {"host": other.host, "port": other.port, "dbname": "app"},
		             **how.pop("databases", {})}
		weir = pooler(pg, settings=settings, databases=databases, **how)
		weir.other = other
		return weir

	return make


def port(client):
	return int(client.value("show port"))


def move(weir, *, org="acme", to="app_acme"):
	weir.routes = {"acme": {"org": org, "entry": "app", "to": to}}
	weir.reload()


def move_back(weir):
	weir.routes = {}
	weir.reload()


WORKERS = pytest.mark.parametrize("workers", [1, 4])


# --- which line matches

@WORKERS
def test_an_org_is_led_to_another_entry_and_the_others_are_not(pg, two, workers):
	weir = two(settings={"workers": workers}, orgs={"acme": "name=acme_corp"},
	           routes={"r": {"org": "acme_corp", "entry": "app", "to": "app_acme"}})
	assert port(weir.raw(params=ORG)) == weir.other.port
	assert port(weir.raw(params={"x-org-id": "batch"})) == pg.port
	assert port(weir.raw()) == pg.port
	assert weir.show("POOLS", org="acme")[0]["database"] == "app_acme"


@WORKERS
def test_a_user_and_an_application_name_are_led_too(pg, two, workers):
	weir = two(settings={"workers": workers}, routes={
		"readers": {"application_name": "read.*", "to": "app_acme"},
		"app2": {"user": "app2", "to": "app_acme"}})
	assert port(weir.raw(params={"application_name": "read.orders"})) == weir.other.port
	assert port(weir.raw(params={"application_name": "reader"})) == pg.port
	assert port(weir.raw()) == pg.port
	assert port(weir.raw(user="app2")) == weir.other.port


@WORKERS
def test_a_client_that_changes_its_application_name_changes_its_place(pg, two, workers):
	weir = two(settings={"workers": workers},
	           routes={"readers": {"application_name": "read.*", "entry": "app", "to": "app_acme"}})
	client = weir.raw(params={"application_name": "write"})
	assert port(client) == pg.port
	client.query("set application_name = 'read.orders'")
	assert port(client) == weir.other.port
	assert client.value("show application_name") == "read.orders"
	client.query("begin")
	client.query("set application_name = 'write'")
	assert port(client) == weir.other.port
	client.query("commit")
	assert port(client) == pg.port
	client.query("reset application_name")
	assert port(client) == pg.port


def test_an_entry_of_the_star_line_is_led_away(pg, two):
	weir = two(databases={"*": {}}, routes={"r": {"entry": "app3", "to": "app_acme"}})
	assert port(weir.raw("app3")) == weir.other.port
	assert port(weir.raw("app2")) == pg.port


def test_a_line_that_leads_to_no_entry_is_refused_at_reload(pg, two):
	weir = two()
	weir.routes = {"r": {"org": "acme", "to": "nowhere"}}
	with pytest.raises(ServerError):
		weir.reload()
	assert 'is no entry' in weir.log()
	assert port(weir.raw(params=ORG)) == pg.port


# --- orgs that change

@WORKERS
def test_a_client_that_changes_its_org_is_served_where_that_is(pg, two, workers):
	weir = two(settings={"workers": workers},
	           routes={"r": {"org": "acme", "entry": "app", "to": "app_acme"}})
	client = weir.raw()
	for _ in range(3):
		assert port(client) == pg.port
		client.query("set pgweir.org = 'acme'")
		assert port(client) == weir.other.port
		client.query("set pgweir.org = 'default'")


@WORKERS
def test_a_comment_leads_one_transaction_to_its_orgs_place(pg, two, workers):
	weir = two(settings={"workers": workers, "org_sources": "startup, comment"},
	           routes={"r": {"org": "acme", "entry": "app", "to": "app_acme"}})
	client = weir.raw()
	for _ in range(3):
		assert int(client.value("show port /*org='acme'*/")) == weir.other.port
		assert port(client) == pg.port
		client.query("begin /*org='acme'*/")
		assert port(client) == weir.other.port
		client.query("commit")
		assert int(client.value("show port /*org='other'*/")) == pg.port


@WORKERS
def test_a_pipeline_that_changes_the_org_again_and_again_is_served_in_order(pg, two, workers):
	weir = two(settings={"workers": workers},
	           routes={"r": {"org": "acme", "entry": "app", "to": "app_acme"}})
	client = weir.raw()
	for _ in range(20):
		client.send(*(part for org in ("acme", "default", "acme")
		              for part in (Q(f"set pgweir.org = '{org}'"), Q("show port"))))
		client.read_ready(6)
	assert port(client) == weir.other.port


# --- what a session holds goes along

@WORKERS
def test_settings_and_statements_follow_a_client_to_its_new_place(pg, two, workers):
	weir = two(settings={"workers": workers})
	client = weir.raw(params={**ORG, "application_name": "carried", "DateStyle": "German"})
	client.query("set timezone = 'Asia/Tokyo'")
	client.query("set search_path = pg_catalog, public")
	client.query("set app.mine = 'it''s'")
	client.send(P("named", "select $1::int + 1"), S)
	client.expect("1 Z(I)")
	client.send(P("", "select current_setting('app.mine')"), S)
	client.expect("1 Z(I)")
	for to, place in [("app_acme", weir.other), ("app", pg)]:
		move(weir, to=to)
		assert client.value("show application_name") == "carried"
		assert client.value("show datestyle") == "German, DMY"
		assert client.value("show timezone") == "Asia/Tokyo"
		assert client.value("show search_path") == "pg_catalog, public"
		assert client.value("select current_setting('app.mine')") == "it's"
		assert port(client) == place.port
		client.send(B("", "named", "41"), E(), S)
		client.expect("2 D[42] C(SELECT 1) Z(I)")


@WORKERS
def test_an_unnamed_statement_is_bound_again_at_the_new_place(pg, two, workers):
	weir = two(settings={"workers": workers})
	client = weir.raw(params=ORG)
	client.send(P("", "select current_setting('port')"), D("S"), S)
	client.expect("1 t T Z(I)")
	move(weir)
	client.send(B(), E(), S)
	client.expect(f"2 D[{weir.other.port}] C(SELECT 1) Z(I)")


@WORKERS
def test_reset_leads_to_what_the_startup_packet_gave_after_a_move(pg, two, workers):
	weir = two(settings={"workers": workers})
	client = weir.raw(params={**ORG, "DateStyle": "German"})
	client.query("set datestyle = 'SQL, DMY'")
	move(weir)
	assert client.value("show datestyle") == "SQL, DMY"
	client.query("reset datestyle")
	assert client.value("show datestyle") == "German, DMY"


@WORKERS
def test_a_cancel_key_still_leads_to_a_client_that_has_moved(pg, two, workers):
	weir = two(settings={"workers": workers})
	client = weir.raw(params=ORG)
	for to, place in [("app_acme", weir.other), ("app", pg), ("app_acme", weir.other)]:
		move(weir, to=to)
		client.send(Q("select pg_sleep(60)"))
		until("it runs", lambda: place.count("query like '%%pg_sleep(60)%%' and state = 'active'") == 1)
		weir.cancel(client.key)
		assert client.read_ready().endswith("E(57014) Z(I)")
	client.terminate()
	until("it is gone", lambda: not weir.show("CLIENTS", database="app"))
	weir.cancel(client.key)


@WORKERS
def test_the_cancel_keys_of_many_that_moved_and_left_are_given_back(pg, two, workers):
	weir = two(settings={"workers": workers})
	for round_ in range(3):
		clients = [weir.raw(params=ORG) for _ in range(20)]
		for client in clients:
			client.query("select 1")
		move(weir, to=["app_acme", "app"][round_ % 2])
		for client in clients[::2]:
			client.terminate()
		move(weir, to=["app_acme", "app"][(round_ + 1) % 2])
		for client in clients[1::2]:
			client.query("select 1")
			client.terminate()
	fresh = weir.raw(params=ORG)
	fresh.send(Q("select pg_sleep(60)"))
	until("it runs", lambda: weir.other.count("query like '%%pg_sleep(60)%%' and state = 'active'")
	      + pg.count("query like '%%pg_sleep(60)%%' and state = 'active'") == 1)
	weir.cancel(fresh.key)
	assert fresh.read_ready().endswith("E(57014) Z(I)")


# --- a reload that moves

@WORKERS
def test_a_transaction_ends_where_it_began_and_the_next_one_is_at_the_new_place(pg, two, workers):
	weir = two(settings={"workers": workers})
	running, idle = weir.raw(params=ORG), weir.raw(params=ORG)
	running.query("begin")
	assert port(running) == port(idle) == pg.port
	move(weir)
	assert port(idle) == weir.other.port
	assert port(running) == pg.port
	running.query("commit")
	assert port(running) == weir.other.port
	until("no server of the org is left at the old place", lambda: pg.count("datname = 'app'") == 0, 4)
	move_back(weir)
	assert port(running) == port(idle) == pg.port
	until("none at the new one", lambda: weir.other.count("datname = 'app'") == 0, 4)


@WORKERS
def test_servers_at_the_old_place_close_though_nobody_of_the_org_says_a_word(pg, two, workers):
	weir = two(settings={"workers": workers})
	silent = [weir.raw(params=ORG) for _ in range(3)]
	for client in silent:
		client.query("select 1")
	assert pg.count("datname = 'app'") == 1
	move(weir)
	until("they are closed", lambda: pg.count("datname = 'app'") == 0, 4)
	for client in silent:
		assert port(client) == weir.other.port


def test_the_other_orgs_keep_their_servers(pg, two):
	weir = two()
	other, own = weir.raw(params={"x-org-id": "batch"}), weir.raw(params=ORG)
	own.query("select 1")
	pid = other.value("select pg_backend_pid()")
	move(weir)
	assert other.value("select pg_backend_pid()") == pid
	until("only the other's is left", lambda: pg.count("datname = 'app'") == 1, 4)


@WORKERS
def test_who_waits_for_a_server_is_served_at_the_new_place(pg, two, workers):
	weir = two(settings={"workers": workers, "default_pool_size": 1})
	holder, waiter = weir.raw(params=ORG), weir.raw(params=ORG)
	holder.query("begin")
	waiter.send(Q("show port"))
	until("it waits", lambda: weir.show("POOLS", org="acme")[0]["cl_waiting"] == 1)
	move(weir)
	waiter.expect(f"T D[{weir.other.port}] C(SHOW) Z(I)")
	assert port(waiter) == weir.other.port
	assert port(holder) == pg.port
	holder.query("rollback")


@WORKERS
def test_who_waits_for_its_welcome_is_welcomed_at_the_new_place(pg, two, workers):
	weir = two(settings={"workers": workers})
	pg.pause()
	try:
		late = weir.open()
		late.startup(user="app", database="app", params={"x-org-id": "acme", "DateStyle": "German"})
		until("it waits", lambda: weir.show("POOLS", org="acme")[0]["cl_waiting"] == 1)
		move(weir)
		late.read_ready(seconds=limit(5))
		assert port(late) == weir.other.port
	finally:
		pg.resume()


def test_a_client_that_pools_by_session_moves_when_it_comes_back(pg, two):
	weir = two(settings={"pool_mode": "session"})
	client = weir.raw(params=ORG)
	client.query("select 1")
	move(weir)
	assert port(client) == pg.port
	assert port(weir.raw(params=ORG)) == weir.other.port
	client.terminate()
	until("its server is closed", lambda: pg.count("datname = 'app'") == 0, 4)


def test_a_pinned_client_stays_until_it_has_given_up_what_pins_it(pg, two):
	weir = two()
	client = weir.raw(params=ORG)
	client.query("listen something")
	move(weir)
	assert port(client) == pg.port
	client.query("unlisten *")
	assert port(client) == weir.other.port


@WORKERS
def test_a_moved_org_is_held_to_its_limits_at_the_new_place(pg, two, workers):
	weir = two(settings={"workers": workers}, orgs={"acme": "pool_size=2"})
	clients = [weir.raw(params=ORG) for _ in range(8)]
	for client in clients:
		client.query("select 1")
	move(weir)
	clients += [weir.raw(params=ORG) for _ in range(8)]
	for client in clients:
		client.send(Q("select pg_sleep(0.02)"))
	for client in clients:
		client.read_ready()
		assert weir.other.count("datname = 'app'") <= 2


@WORKERS
def test_what_a_login_taught_opens_the_door_of_the_new_place(pg, two, workers):
	weir = two(settings={"workers": workers, "auth_type": "scram-sha-256", "auth_user": "lookup",
	                     "auth_query": "select usename, passwd from public.lookup($1)"},
	           userlist={"lookup": "lookup-secret-8", "admin": "admin-secret-a"}, orgs={"acme": ""})
	verifier = pg.value("select rolpassword from pg_authid where rolname = 'scram_u'")
	weir.other.sql(f"alter role scram_u password '{verifier}'")
	client = weir.raw(user="scram_u", password="scram-secret-4", params=ORG)
	assert port(client) == pg.port
	move(weir)
	assert port(client) == weir.other.port
	move_back(weir)
	assert port(client) == pg.port


@WORKERS
def test_killing_the_place_ends_those_that_were_led_there(pg, two, workers):
	weir = two(settings={"workers": workers},
	           routes={"r": {"org": "acme", "entry": "app", "to": "app_acme"}})
	led, other = weir.raw(params=ORG), weir.raw()
	led.query("select 1")
	other.query("select 1")
	weir.admin("KILL app_acme")
	led.expect("E(57P01)")
	led.read_eof()
	assert port(other) == pg.port
	weir.admin("RESUME app_acme")


@WORKERS
def test_a_paused_place_holds_those_that_were_led_there(pg, two, workers):
	weir = two(settings={"workers": workers},
	           routes={"r": {"org": "acme", "entry": "app", "to": "app_acme"}})
	led, other = weir.raw(params=ORG), weir.raw()
	led.query("select 1")
	weir.admin("PAUSE app_acme")
	led.send(Q("select 1"))
	assert port(other) == pg.port
	assert led.is_quiet()
	weir.admin("RESUME app_acme")
	led.expect("T D[1] C(SELECT 1) Z(I)")


# --- under load

@WORKERS
@pytest.mark.parametrize("protocol", ["simple", "prepared"])
def test_a_reload_that_moves_an_org_under_full_load_costs_no_client_an_error(pg, two, workers, protocol):
	"""pgbench is the org, and another one the rest; each transaction must be at one place from BEGIN to END, and all of them somewhere."""
	weir = two(settings={"workers": workers, "default_pool_size": 5, "max_server_conn": 12,
	                     "max_client_conn": 1000}, orgs={"acme": ""})
	for server in (pg, weir.other):
		server.sql("create table if not exists moves (id bigint, at int)", dbname="app")
		server.sql("truncate moves", dbname="app")
		server.sql("grant all on moves to public", dbname="app")
	script = ("\\set id random(1, 1000000000000)\n"
	          "BEGIN;\nINSERT INTO moves VALUES (:id, current_setting('port')::int);\n"
	          "SELECT 1 / (count(*) = 1)::int FROM moves WHERE id = :id;\nEND;\n")
	more = ["-M", protocol, "-j", "24"]  # a thread each: pgbench waits for a Parse with the whole thread
	load = start_pgbench(weir, script, clients=24, seconds=4, database="dbname=app options='-c org_id=acme'", more=more)
	rest = start_pgbench(weir, "select 1;\n", clients=8, seconds=4)
	turns = itertools.cycle([("app_acme", weir.other), ("app", pg)])

	def done_at(server):
		return server.value("select count(*) from moves", dbname="app")

	def move_on():
		to, server = next(turns)
		before = done_at(server)
		move(weir, to=to)
		until("the load goes on at the new place",
		      lambda: load.poll() is not None or done_at(server) > before + 50, 10)
		assert max(pg.count("datname = 'app'"), weir.other.count("datname = 'app'")) <= 13

	watch(load, move_on, seconds=20)
	watch(rest, lambda: None, seconds=20)
	here = pg.value("select count(*) from moves where at = %s", [pg.port], dbname="app")
	there = weir.other.value("select count(*) from moves where at = %s", [weir.other.port], dbname="app")
	assert here > 100 and there > 100
	assert pg.value("select count(*) from moves", dbname="app") == here
	assert weir.other.value("select count(*) from moves", dbname="app") == there


@WORKERS
def test_clients_that_come_and_go_during_moves_meet_no_error(pg, two, workers):
	weir = two(settings={"workers": workers}, orgs={"acme": ""})

	def come_and_go(_):
		client = weir.raw(params=ORG, seconds=10)
		for _ in range(3):
			client.query("select 1", seconds=10)
		client.terminate()

	with Background(come_and_go, come_and_go, come_and_go, seconds=30):
		for to in ["app_acme", "app"] * 10:
			move(weir, to=to)


@WORKERS
def test_one_connection_for_a_hundred_orgs_at_two_places(pg, two, workers):
	"""Each transaction asks the server where it is, and whose it was told to be."""
	orgs = [f"o{n}" for n in range(100)]
	weir = two(settings={"workers": workers, "org_sources": "startup, comment", "org_guc": "app.org",
	                     "max_server_conn": 6},
	           orgs={org: "" for org in orgs},
	           routes={f"r{n}": {"org": f"o{n}", "entry": "app", "to": "app_acme"} for n in range(0, 100, 2)})

	def tour(client, by_comment):
		for n in range(0, 200, 7):
			org = orgs[n % 100]
			if by_comment:
				seen = client.value(f"select current_setting('app.org') || ' ' || current_setting('port') /*org='{org}'*/",
				                    seconds=10)
			else:
				client.query(f"set pgweir.org = '{org}'")
				seen = client.value("select current_setting('app.org') || ' ' || current_setting('port')", seconds=10)
			assert seen == f"{org} {(weir.other if n % 2 == 0 else pg).port}"

	clients = [weir.raw() for _ in range(6)]
	in_threads(*(lambda c=c, n=n: tour(c, n % 2) for n, c in enumerate(clients)))


# --- with a fence

@WORKERS
def test_a_transaction_that_a_fence_ends_goes_on_at_the_new_place(pg, two, workers):
	"""Server and place are taken away between two messages of one client."""
	weir = two(settings={"workers": workers}, orgs={"acme": ""},
	           clusters={"main": f"primary={pg.host}:{pg.port} probe_interval=0.1"},
	           databases={"app": "cluster=main dbname=app"})
	clients = [weir.raw(params=ORG) for _ in range(2)]
	for client in clients:
		until("it is served", lambda client=client: client.value("show port") == str(pg.port), 5)
	clients[0].query("begin")
	clients[0].query("insert into t values (1)")
	clients[1].query("begin read only")
	weir.admin("FENCE main")
	move(weir)
	with pytest.raises(ServerError) as told:
		clients[0].query("select 1")
	assert told.value.sqlstate == "40001"
	assert port(clients[0]) == weir.other.port
	clients[1].send(Q("commit"))
	clients[1].read_ready()
	assert port(clients[1]) == weir.other.port
	assert weir.is_alive()


# --- SHOW ROUTES

def route(weir, name="acme"):
	return weir.show("ROUTES", name=name)[0]


@WORKERS
def test_show_routes_tells_whom_a_line_matches_and_what_still_runs_at_the_old_place(pg, two, workers):
	weir = two(settings={"workers": workers}, orgs={"acme": ""})
	running, idle = weir.raw(params=ORG), weir.raw(params=ORG)
	running.query("begin")
	idle.query("select 1")
	weir.raw().query("select 1")
	assert weir.show("ROUTES") == []
	move(weir)
	row = route(weir)
	assert row["matches"] == "org=acme entry=app" and row["to"] == "app_acme"
	assert row["old_running"] == 1 and row["old_quiet_seconds"] == 0
	until("the idle one has arrived", lambda: route(weir)["clients"] == 2)
	running.query("commit")
	assert route(weir)["old_running"] == 0


def test_what_a_line_keeps_at_the_old_place_counts_as_its_use(pg, two):
	"""A batch user of the org that stays is what the operator must not clean up under."""
	weir = two(orgs={"acme": ""}, routes={
		"stay": {"org": "acme", "user": "app2", "entry": "app", "to": "app"},
		"acme": {"org": "acme", "entry": "app", "to": "app_acme"}})
	batch = weir.raw(user="app2", params=ORG)
	until("a second has passed", lambda: route(weir)["old_quiet_seconds"] >= 2, 5)
	batch.query("select 1")
	assert route(weir)["old_quiet_seconds"] <= 1
	assert route(weir, "stay")["old_running"] == 0
	until("it is quiet again", lambda: route(weir)["old_quiet_seconds"] >= 2, 5)
	assert port(weir.raw(params=ORG)) == weir.other.port
	weir.raw(user="app2").query("select 1")
	assert route(weir)["old_quiet_seconds"] >= 2


@pytest.mark.parametrize("end", ["in order", "killed"])
def test_when_the_old_place_was_used_last_is_known_after_a_restart(pg, two, end):
	weir = two(orgs={"acme": ""}, routes={"acme": {"org": "acme", "entry": "app", "to": "app_acme"}}, start=False)
	weir.settings["state_dir"] = weir.folder
	weir.start()
	last = route(weir)["old_last_used"]
	until("time passes", lambda: route(weir)["old_quiet_seconds"] >= 2, 5)
	assert route(weir)["old_last_used"] == last
	if end == "in order":
		weir.stop()
	else:
		weir.child.kill()
		weir.child.wait()
	weir._console = None
	weir.start()
	assert route(weir)["old_last_used"] == last
	weir.routes["acme"]["entry"] = "app2"
	weir.databases["app2"] = weir.databases["app"]
	weir.reload()
	assert route(weir)["old_last_used"] > last


def test_a_broken_file_of_uses_is_told_and_nothing_is_taken_from_it(pg, two):
	weir = two(orgs={"acme": ""}, routes={"acme": {"org": "acme", "entry": "app", "to": "app_acme"}}, start=False)
	weir.settings["state_dir"] = weir.folder
	process.write_file(f"{weir.folder}/routes", "pgweir routes 1\nrubbish\n")
	weir.start()
	weir.wait_log("routes is broken")
	assert route(weir)["old_quiet_seconds"] <= 2
