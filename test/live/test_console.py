"""The console: columns that tools read, commands, rights and errors."""

import threading

import psycopg
import pytest

from rig import process
from rig.limits import limit, until
from rig.pooler import stand_in
from rig.raw import B, Closed, D, E, P, Q, S, ServerError

pytestmark = pytest.mark.usefixtures("clean")

# Columns in PgBouncer 1.25's order. Ours, such as org, stand behind them.
CONNECTION = ("type user database replication state addr port local_addr local_port connect_time "
              "request_time wait wait_us close_needed ptr link remote_pid tls application_name "
              "prepared_statements id")
COUNTS = "server_assignment_count xact_count query_count"
TIMES = "xact_time query_time wait_time"
PARSES = "client_parse_count server_parse_count bind_count client_login_count"


def prefixed(prefix, *groups):
	return [prefix + name for group in groups for name in group.split()]


GOLDEN = {
	"CLIENTS": CONNECTION.split(),
	"SERVERS": CONNECTION.split(),
	"POOLS": "database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req "
	         "sv_active sv_active_cancel sv_being_canceled sv_idle sv_used sv_tested sv_login "
	         "maxwait maxwait_us pool_mode load_balance_hosts".split(),
	"DATABASES": "name host port database force_user pool_size min_pool_size reserve_pool_size "
	             "server_lifetime pool_mode load_balance_hosts max_connections current_connections "
	             "max_client_connections current_client_connections paused disabled".split(),
	"USERS": "name pool_size reserve_pool_size pool_mode max_user_connections current_connections "
	         "max_user_client_connections current_client_connections".split(),
	"STATS": ["database", *prefixed("total_", COUNTS, "received sent", TIMES, PARSES),
	          *prefixed("avg_", COUNTS, "recv sent", TIMES, PARSES)],
	"STATS_TOTALS": ["database", *prefixed("", COUNTS, "bytes_received bytes_sent", TIMES, PARSES)],
	"STATS_AVERAGES": ["database", *prefixed("", COUNTS, "bytes_received bytes_sent", TIMES),
	                   *prefixed("avg_", PARSES)],
	"TOTALS": ["name", "value"],
	"LISTS": ["list", "items"],
	"CONFIG": ["key", "value", "default", "changeable"],
	"MEM": ["name", "size", "used", "free", "memtotal"],
	"STATE": ["key", "value"],
	"VERSION": ["version"],
}
TEXT, INT4, INT8, NUMERIC = 25, 23, 20, 1700
OURS = ["ORGS", "CLUSTERS", "WORKERS"]


@pytest.fixture
def weir(pg, pooler):
	one = pooler(settings={"default_pool_size": 3, "server_login_retry": 1})
	one.raw().query("select 1")
	return one


def columns(weir, what):
	client = weir.console()
	client.query(f"SHOW {what}")
	return client.fields, client.types


@pytest.mark.parametrize("what", GOLDEN)
def test_show_has_pgbouncers_columns_in_its_order(weir, what):
	if stand_in() and what == "STATE":
		pytest.skip("stand-in: 1.18 has no SHOW STATE")
	names, _ = columns(weir, what)
	golden = GOLDEN[what]
	if stand_in():
		assert [n for n in names if n in golden] == [g for g in golden if g in names]
		return
	assert names[:len(golden)] == golden


@pytest.mark.pgweir("1.18 has other types")
@pytest.mark.parametrize("what,wanted", [
	("POOLS", {"database": TEXT, "cl_active": INT4, "maxwait_us": INT4, "pool_mode": TEXT}),
	("CLIENTS", {"type": TEXT, "port": INT4, "wait_us": INT4, "ptr": TEXT, "id": INT4}),
	("STATS", {"database": TEXT, "total_xact_count": NUMERIC, "avg_recv": NUMERIC}),
	("LISTS", {"list": TEXT, "items": INT4}), ("TOTALS", {"name": TEXT, "value": NUMERIC}),
	("DATABASES", {"port": INT4, "pool_size": INT4, "paused": INT4, "host": TEXT}),
])
def test_show_has_pgbouncers_types(weir, what, wanted):
	names, types = columns(weir, what)
	found = dict(zip(names, types))
	assert {name: found[name] for name in wanted} == wanted


@pytest.mark.pgweir("orgs are ours")
@pytest.mark.parametrize("what", ["POOLS", "CLIENTS", "SERVERS"])
def test_org_stands_behind_pgbouncers_columns(weir, what):
	assert "org" in columns(weir, what)[0][len(GOLDEN[what]):]


@pytest.mark.pgweir("these are ours")
@pytest.mark.parametrize("what", OURS)
def test_our_own_tables_are_there(weir, what):
	assert weir.admin(f"SHOW {what}")


@pytest.mark.pgweir("the rows of 1.18 are fewer")
def test_totals_lists_and_state_have_pgbouncers_rows(weir):
	totals = [row["name"] for row in weir.admin("SHOW TOTALS")]
	names = (f"{COUNTS} client_bytes server_bytes {TIMES} ps_client_parse_count "
	         "ps_server_parse_count ps_bind_count client_login_count").split()
	assert totals[:2 * len(names)] == [*prefixed("total_", " ".join(names)),
	                                   *prefixed("avg_", " ".join(names))]
	lists = [row["list"] for row in weir.admin("SHOW LISTS")]
	assert lists[:14] == ("databases users peers pools peer_pools free_clients used_clients "
	                      "login_clients free_servers used_servers dns_names dns_zones dns_queries "
	                      "dns_pending").split()
	state = {row["key"]: row["value"] for row in weir.admin("SHOW STATE")}
	assert state == {"active": "yes", "paused": "no", "suspended": "no"}


def test_show_help_is_a_notice_that_lists_the_commands(weir):
	client = weir.console()
	letters = client.talk(Q("SHOW HELP"))
	assert letters.startswith("N(") and letters.endswith("C(SHOW) Z(I)")
	notice = client.notices[-1]
	assert notice["M"] == "Console usage"
	wanted = ["SHOW", "RELOAD", "PAUSE", "RESUME", "KILL", "SHUTDOWN"] + ([] if stand_in() else OURS)
	assert [word for word in wanted if word not in notice["D"]] == []


def test_show_version_and_the_greeting_name_the_program(weir):
	version = weir.admin("SHOW VERSION")[0]["version"]
	assert version
	client = weir.console()
	assert "/bouncer" in client.params["server_version"]
	assert client.params["client_encoding"] == "UTF8"
	assert client.params["is_superuser"] == "on"


def test_commands_are_taken_in_any_case_with_or_without_a_semicolon(weir):
	for text in ("show pools", "SHOW POOLS;", "  sHoW   pools  ;  "):
		assert weir.admin(text)


@pytest.mark.pgweir("since 1.21")
def test_select_is_an_alias_of_show(weir):
	assert weir.admin("select pools") == weir.admin("show pools")


def test_show_config_lists_settings_by_name_with_their_values(weir):
	rows = {row["key"]: row for row in weir.admin("SHOW CONFIG")}
	names = [row["key"] for row in weir.admin("SHOW CONFIG")]
	if not stand_in():
		assert names == sorted(names)
	assert rows["default_pool_size"]["value"] == "3"
	assert rows["default_pool_size"]["default"] == "20"
	assert rows["default_pool_size"]["changeable"] == "yes"
	assert rows["listen_port"]["changeable"] == "no"


def test_show_pools_counts_what_is_there(weir):
	a, b = weir.raw(), weir.raw()
	a.query("begin")
	row = weir.pool()
	assert (row["cl_active"], row["sv_active"], row["cl_waiting"]) == (3, 1, 0)
	assert row["pool_mode"] == "transaction"
	a.query("rollback")
	weir.wait_pool(sv_active=0)
	assert b.value("select 1") == "1"


def test_show_clients_and_servers_tell_who_is_linked_to_whom(weir):
	a = weir.raw(params={"application_name": "linked"})
	a.query("begin")
	pid = int(a.value("select pg_backend_pid()"))
	client = weir.show("CLIENTS", application_name="linked")
	if stand_in() and not client:
		client = [row for row in weir.show("CLIENTS", database="app") if row["link"]]
	server = [row for row in weir.show("SERVERS", database="app") if row["state"] == "active"]
	assert len(client) == len(server) == 1
	assert server[0]["remote_pid"] == pid
	assert client[0]["link"] == server[0]["ptr"] and server[0]["link"] == client[0]["ptr"]
	assert client[0]["addr"] == "127.0.0.1" and client[0]["port"] == a.sock.getsockname()[1]
	a.query("rollback")


def test_show_stats_counts_transactions_and_queries(weir):
	def counts():
		row = weir.show("STATS_TOTALS", database="app")[0]
		return int(row["xact_count"]), int(row["query_count"])

	client = weir.raw()
	xacts, queries = counts()
	client.query("begin")
	for _ in range(3):
		client.query("select 1")
	client.query("commit")
	client.query("select 2")
	until("both are counted", lambda: counts() == (xacts + 2, queries + 6))


def test_show_databases_tells_where_entries_lead(weir, pg):
	row = weir.show("DATABASES", name="app2")[0]
	assert (row["host"], row["port"], row["database"]) == ("127.0.0.1", pg.port, "app2")
	assert (row["paused"], row["disabled"]) == (0, 0)


def test_no_show_prints_a_password(pg, pooler):
	weir = pooler(databases={"app": {"user": "plain_u", "password": "plain-secret-6"}})
	weir.raw().query("select 1")
	for what in [*GOLDEN, *([] if stand_in() else OURS)]:
		try:
			assert "secret" not in str(weir.admin(f"SHOW {what}")), what
		except ServerError:
			assert stand_in()


# --- rights and errors

def test_a_stats_user_may_show_and_nothing_else(weir):
	client = weir.console("stats")
	assert client.query("SHOW POOLS") is not None
	for command in ("RELOAD", "PAUSE", "PAUSE app", "RESUME", "KILL app", "SHUTDOWN", "DISABLE app",
	                "SET query_timeout = 1", "RECONNECT", "KILL_CLIENT 1"):
		with pytest.raises(ServerError) as refused:
			client.query(command)
		if not (stand_in() and command.startswith("KILL_CLIENT")):
			assert "admin access needed" in refused.value.message, command
	assert client.query("SHOW VERSION")


def test_other_users_have_no_console(weir):
	refused = weir.refusal(weir.console_name, "app")
	assert refused.severity == "FATAL"


@pytest.mark.parametrize("name", ["pgweir", "pgbouncer"])
def test_the_console_answers_to_both_names(weir, name):
	if stand_in() and name == "pgweir":
		pytest.skip("stand-in: it has one name")
	assert weir.console(database=name).query("SHOW VERSION")


ERRORS = {
	"": None, ";": None,
	"NONSENSE": "invalid command", "SHOW NONSENSE": "invalid command",
	"PAUSE nosuch": "no such database: nosuch", "DISABLE nosuch": "no such database: nosuch",
	"SET nosuch_key = 1": "SET failed", "SET default_pool_size = abc": "SET failed",
	"RESUME": "not paused", "RESUME app": "is not paused",
}


@pytest.mark.parametrize("command", ERRORS)
def test_a_bad_command_is_one_error_and_the_console_goes_on(weir, command):
	client = weir.console()
	letters = client.talk(Q(command))
	assert letters.endswith("Z(I)") and letters.count("Z(") == 1
	if ERRORS[command]:
		if stand_in() and "abc" in command:
			return  # 1.18 takes abc for 0
		assert letters.startswith("E("), letters
		assert ERRORS[command] in client.errors[-1]["M"]
	assert client.query("SHOW VERSION")


def test_the_extended_protocol_gets_one_error_and_one_ready(weir):
	client = weir.console()
	client.send(P("", "SHOW POOLS"), B(), D("P"), E(), S)
	if stand_in():
		return  # 1.18 closes
	client.expect("E(08P01) Z(I)")
	assert client.query("SHOW VERSION")


@pytest.mark.parametrize("what", ["POOLS", "STATS", "CLIENTS", "SERVERS", "DATABASES", "LISTS",
                                  "CONFIG", "MEM", "USERS", "VERSION"])
def test_psycopg_reads_the_console(weir, what):
	with psycopg.connect(weir.dsn(weir.console_name, "admin"), autocommit=True,
	                     cursor_factory=psycopg.ClientCursor) as client:
		rows = client.execute(f"SHOW {what}").fetchall()
		assert rows and all(len(row) == len(rows[0]) for row in rows)


def test_psql_reads_the_console(weir):
	out = process.run(["psql", "-XAt", "-c", "SHOW VERSION", "-c", r"\x", "-c", "show pools",
	                   "-c", "show stats", weir.dsn(weir.console_name, "admin")])
	assert "cl_waiting|0" in out.stdout and "avg_xact_count" in out.stdout


def test_the_socket_owner_is_admin_without_a_password(pg, pooler):
	weir = pooler(settings={"auth_type": "scram-sha-256"})
	out = process.run_as_account(["psql", "-XAtc", "SHOW VERSION", "-h", weir.folder, "-p",
	                              str(weir.port), "-U", weir.console_name, weir.console_name])
	assert out.strip()


def test_drivers_may_ask_and_set_the_usual_parameters(weir):
	client = weir.console()
	for name in ("client_encoding", "default_transaction_isolation", "standard_conforming_strings",
	             "datestyle", "timezone"):
		assert client.query(f"SHOW {name}")[0][0]
	client.query("SET client_encoding = 'UTF8'")


# --- commands

def test_pause_waits_for_transactions_and_holds_new_ones(weir, pg):
	busy, idle = weir.raw(), weir.raw()
	busy.query("begin")
	console = weir.console()
	console.send(Q("PAUSE app"))
	until("it is on its way", lambda: weir.show("DATABASES", name="app")[0]["paused"] == 1)
	assert console.is_quiet(0.1)
	assert busy.value("select 1") == "1"
	busy.query("commit")
	console.expect("C(PAUSE) Z(I)")
	assert pg.count() == 0
	idle.send(Q("select 'resumed'"))
	weir.wait_pool(cl_waiting=1)
	assert weir.raw("app2").value("select 1") == "1"
	weir.admin("RESUME app")
	idle.expect("T D[resumed] C(SELECT 1) Z(I)")


def test_pause_of_all_survives_a_restart_of_postgresql(own_pg, pooler):
	pg = own_pg()
	weir = pooler(pg)
	client = weir.raw(seconds=10)
	client.query("select 1")
	weir.admin("PAUSE")
	assert pg.count() == 0
	client.send(Q("select 'after'"))
	weir.wait_pool(cl_waiting=1)
	pg.restart()
	weir.admin("RESUME")
	client.expect("T D[after] C(SELECT 1) Z(I)")


def test_kill_drops_all_and_holds_new_ones_until_resume(weir, pg):
	a = weir.raw()
	a.query("begin")
	weir.admin("KILL app")
	letters = a.read_eof()
	assert letters.endswith("EOF")
	if not stand_in():
		assert letters == "E(57P01) EOF"
	until("all servers are gone", lambda: pg.count("datname = 'app'") == 0)
	b = weir.open(seconds=4)
	b.startup(user="app", database="app")
	b.is_quiet(0.2)  # it may be let in, but nothing is opened for it
	assert pg.count("datname = 'app'") == 0
	weir.admin("RESUME app")
	b.authenticate("app", weir.password("app"))
	assert b.value("select 1") == "1"


def test_disable_refuses_new_clients_and_keeps_old_ones(weir):
	old = weir.raw()
	weir.admin("DISABLE app")
	refused = weir.refusal()
	assert refused.sqlstate in weir.code("57P03")
	assert old.value("select 1") == "1"
	assert weir.show("DATABASES", name="app")[0]["disabled"] == 1
	weir.admin("ENABLE app")
	assert weir.raw().value("select 1") == "1"


@pytest.mark.parametrize("command", ["RECONNECT", "RECONNECT app"])
def test_reconnect_renews_servers_between_transactions(weir, command):
	a, b = weir.raw(), weir.raw()
	a.query("begin")
	old = a.value("select pg_backend_pid()")
	weir.admin(command)
	assert a.value("select pg_backend_pid()") == old
	a.query("commit")
	assert b.value("select pg_backend_pid()") != old


def test_wait_close_returns_when_the_old_servers_are_gone(weir):
	a = weir.raw()
	a.query("begin")
	weir.admin("RECONNECT app")
	console = weir.console()
	console.send(Q("WAIT_CLOSE app"))
	assert console.is_quiet(0.1)
	a.query("commit")
	console.expect("C(WAIT_CLOSE) Z(I)")


def test_kill_client_ends_that_client(weir):
	if stand_in():
		pytest.skip("stand-in: 1.18 has no KILL_CLIENT")
	a, b = weir.raw(params={"application_name": "victim"}), weir.raw()
	victim = weir.show("CLIENTS", application_name="victim")[0]["id"]
	weir.admin(f"KILL_CLIENT {victim}")
	assert a.read_eof().endswith("EOF")
	assert b.value("select 1") == "1"
	with pytest.raises(ServerError) as refused:
		weir.admin("KILL_CLIENT 999999999")
	assert "client not found" in refused.value.message


def test_set_changes_a_setting_at_once(weir):
	client = weir.console()
	assert client.talk(Q("SET query_wait_timeout = 7")) == "C(SET query_wait_timeout=7) Z(I)" \
		or stand_in()
	assert weir.show("CONFIG", key="query_wait_timeout")[0]["value"] == "7"
	weir.admin("SET query_wait_timeout TO 120")
	assert weir.show("CONFIG", key="query_wait_timeout")[0]["value"] == "120"


def test_two_consoles_may_pause_and_resume_different_databases(weir):
	one, two = weir.console(), weir.console()
	one.query("PAUSE app")
	two.query("PAUSE app2")
	one.query("RESUME app2")
	two.query("RESUME app")
	assert weir.raw("app2").value("select 1") == "1"


def shutdown(weir, command):
	console = weir.console()
	console.send(Q(command))
	return console


def test_shutdown_ends_the_process_at_once(weir):
	client = weir.raw()
	shutdown(weir, "SHUTDOWN")
	assert client.read_eof().endswith("EOF")
	assert weir.wait_end() in ((0, 1) if stand_in() else (0,))


@pytest.mark.pgweir("since 1.23")
def test_shutdown_wait_for_clients_waits_for_them(weir):
	client = weir.raw()
	shutdown(weir, "SHUTDOWN WAIT_FOR_CLIENTS")
	until("new ones are refused", lambda: not weir.accepts())
	assert client.value("select 1") == "1"
	assert weir.is_alive()
	client.terminate()
	weir.drop_clients()
	assert weir.wait_end() == 0


@pytest.mark.pgweir("since 1.23")
def test_shutdown_wait_for_servers_waits_for_transactions(weir):
	client = weir.raw()
	client.query("begin")
	shutdown(weir, "SHUTDOWN WAIT_FOR_SERVERS")
	assert client.value("select 1") == "1"
	client.query("commit")
	assert weir.wait_end() == 0


def test_shows_and_traffic_do_not_disturb_each_other(weir):
	failures, ended = [], threading.Event()

	def traffic():
		try:
			client = weir.raw(seconds=5)
			while not ended.is_set():
				assert client.value("select 1") == "1"
		except (AssertionError, Closed, OSError, ServerError) as failure:
			failures.append(failure)

	threads = [threading.Thread(target=traffic) for _ in range(4)]
	for thread in threads:
		thread.start()
	for _ in range(15):
		for what in ("POOLS", "SERVERS", "CLIENTS", "STATS", "CONFIG", "MEM"):
			weir.admin(f"SHOW {what}")
	ended.set()
	for thread in threads:
		thread.join(limit(5))
	assert not failures
