"""Real-world cases P-21 to P-40: pipelining, COPY, cancel, session state, login, TLS, limits, pause.

Each test is named after its case: a fault that users of some pooler have met,
and what PostgreSQL itself does instead. Long loops are a slice here and whole
under PGWEIR_LONG.
"""

import itertools
import re
import ssl
import struct
import subprocess
import threading
import time

import pytest

from rig import Relay, process, raw, same_as_direct
from rig.cases import Background, backend, dice, loops
from rig.fakeserver import FakeServer, error
from rig.limits import LONG, limit, until
from rig.postgres import PASSWORDS
from rig.raw import B, Closed, D, E, H, P, Q, Raw, S, ServerError, X, c, d

pytestmark = [pytest.mark.usefixtures("clean"),
              pytest.mark.pgweir("the cases hold for pgweir")]


@pytest.fixture
def one(pg, pooler):
	return pooler(settings={"default_pool_size": 1})


# --- P-21

def test_p21_a_query_and_a_batch_in_one_write(pg, one):
	"""The first ReadyForQuery is not the end of the work (pgbouncer #52)."""
	data = b"".join([Q("SET statement_timeout=30000"), P("", "select 1"), D("S", ""), B("", ""), E(""), S])
	letters = "C(SET) Z(I) 1 t T 2 D[1] C(SELECT 1) Z(I)"
	same_as_direct(pg, one, [([data], letters)])
	a, b = one.raw(seconds=5), one.raw(seconds=5)
	with Background(lambda n: b.query(f"select {n}")) as rival:
		for offset in range(1, len(data)):
			a.send_split(data, [offset])
			a.expect(letters)
		for _ in range(loops(200, 2000)):
			a.send(data)
			a.expect(letters)
	assert rival.rounds[0] > 0


def test_p21_several_queries_in_one_write(pg, one):
	def answer(n):
		return f"T D[{n}] C(SELECT 1) Z(I)"

	b = one.raw(seconds=5)
	with Background(lambda n: b.query(f"select {n}")):
		same_as_direct(pg, one, [([Q("select 1"), Q("select 2"), Q("select 3")],
		                          f"{answer(1)} {answer(2)} {answer(3)}")] * 50)
		for n in range(20):
			a = one.raw(seconds=5)
			a.send(Q(f"select {n}"), X)
			assert a.read_eof() == f"{answer(n)} EOF"


# --- P-22

LINES = [d(f"{n}\tx\n") for n in range(1000)]


def test_p22_a_whole_copy_in_one_write(pg, one):
	same_as_direct(pg, one, [
		([P("", "copy ct from stdin"), B(), E(), *LINES, c, S], "1 2 G C(COPY 1000) Z(I)"),
		([Q("delete from ct")], "C(DELETE 1000) Z(I)"),
		([Q("copy ct from stdin"), *LINES[:2], c], "G C(COPY 2) Z(I)"),
		([Q("delete from ct")], "C(DELETE 2) Z(I)"),
		([P("", "copy ct from stdin"), B(), E(), S, LINES[0], c, S, Q("select 7")],
		 "1 2 G C(COPY 1) Z(I) T D[7] C(SELECT 1) Z(I)"),
		([Q("delete from ct")], "C(DELETE 1) Z(I)"),
		([Q("copy nosuch from stdin"), LINES[0], c, Q("select 5")],
		 "E(42P01) Z(I) T D[5] C(SELECT 1) Z(I)"),
	])


# --- P-23

def test_p23_a_copy_keeps_its_server_through_every_pause(pg, one):
	a, b = one.raw(), one.raw(seconds=10)
	pause = 2 if LONG else 0.3
	with Background(lambda n: b.query(f"select {n}")) as rival:
		a.send(Q("copy ct from stdin"))
		a.expect("G")
		one.wait_pool(cl_waiting=1)
		stopped_at = rival.rounds[0]
		time.sleep(pause)  # a client that thinks between its chunks
		a.send(d("1\tx\n"))
		time.sleep(pause)
		assert rival.rounds[0] == stopped_at
		a.send(c)
		a.expect("C(COPY 1) Z(I)")
		until("the rival goes on", lambda: rival.rounds[0] > stopped_at)
	assert pg.value("select count(*) from ct", dbname="app") == 1


def test_p23_ten_clients_copy_in_chunks_of_any_size(pg, pooler):
	weir = pooler(settings={"default_pool_size": 2})
	cast = dice()
	text = [b"".join(b"%d\t%s\n" % (place, b"v" * 100) for _ in range(10000)) for place in range(10)]
	sizes = [[cast.randint(1, 70000) for _ in range(200)] for _ in range(10)]

	def copy(place):
		client = weir.raw(seconds=20)
		client.send(Q("copy big from stdin"))
		client.expect("G")
		at, data = 0, text[place]
		for size in itertools.cycle(sizes[place]):
			if at >= len(data):
				break
			client.send(d(data[at:at + size]))
			at += size
		client.send(c)
		client.expect("C(COPY 10000) Z(I)")

	with Background(*(lambda _, place=place: copy(place) for place in range(10)), times=1, seconds=60):
		pass
	assert pg.sql("select n, count(*) from big group by n order by n", dbname="app") \
		== [(place, 10000) for place in range(10)]


# --- P-24

@pytest.mark.parametrize("way", ["out", "in"])
def test_p24_a_client_that_dies_in_a_copy_frees_its_server_at_once(pg, pooler, way):
	weir = pooler(settings={"default_pool_size": 2})
	pg.sql("insert into ct values (1, 'kept')", dbname="app")
	for n in range(loops(4, 20)):
		a = weir.raw()
		if way == "out":
			a.send(Q("copy (select repeat('x',1000) from generate_series(1,2000000)) to stdout"))
			assert a.read(65).startswith("H d d")
		else:
			a.send(Q("copy ct from stdin"))
			a.expect("G")
			a.send(*(d(f"{n}\t{'x' * 1000}\n") for n in range(2, 1002)))
		a.reset()
		assert weir.raw().value("select 1") == "1"
		until("no session is in a copy", lambda: pg.count("query ilike 'copy%%' and state = 'active'") == 0)
	assert pg.sql("select id, v from ct", dbname="app") == [(1, "kept")]


# --- P-25

def test_p25_a_cancel_with_nothing_running_is_silent(pg, one):
	a = one.raw()
	assert a.value("select 1") == "1"
	assert one.cancel(a.key) == b""
	assert a.is_quiet(0.2)
	assert a.value("select 2") == "2"


def test_p25_a_cancel_at_the_end_of_a_query_never_shifts_the_answers(pg, one):
	a, cast = one.raw(), dice()
	for n in range(loops(80, 500)):
		a.send(Q(f"select {n} from pg_sleep(0.002)"))
		racer = threading.Timer(cast.uniform(0.0005, 0.004), one.cancel, [a.key])
		racer.start()
		letters = a.read_ready()
		racer.join()
		assert letters in (f"T D[{n}] C(SELECT 1) Z(I)", f"T D[{n}] E(57014) Z(I)", "T E(57014) Z(I)",
		                   "E(57014) Z(I)"), letters


def test_p25_a_key_that_names_no_running_query_does_nothing(pg, one):
	a, gone = one.raw(seconds=4), one.raw()
	gone.query("select 1")
	gone.terminate()
	wrong = a.key[:4] + bytes(byte ^ 0x5a for byte in a.key[4:])
	a.send(Q("select 'mine' from pg_sleep(0.4)"))
	until("it runs", lambda: pg.count("state = 'active'"))
	for key in (wrong, gone.key, one.console().key):
		assert one.cancel(key) == b""
	a.expect("T D[mine] C(SELECT 1) Z(I)")


# --- P-26

def test_p26_a_queued_query_is_cancelled_and_never_run(pg, one):
	"""Stricter than PgBouncer, where it stays in the queue and runs in the end."""
	x, a = one.raw(seconds=8), one.raw()
	x.query("begin")
	x.send(Q("select 'x' from pg_sleep(%s)" % (5 if LONG else 1)))
	until("the holder runs", lambda: pg.count("state = 'active'"))
	a.send(Q("insert into t values(1)"))
	one.wait_pool(cl_waiting=1)
	assert one.cancel(a.key) == b""
	a.expect("E(57014) Z(I)", 1)
	x.expect("T D[x] C(SELECT 1) Z(T)")
	x.query("rollback")
	assert pg.value("select count(*) from t", dbname="app") == 0
	assert a.value("select 2") == "2"


def test_p26_a_queued_batch_gets_one_error_and_its_ready_at_the_sync(pg, one):
	x, a = one.raw(), one.raw()
	x.query("begin")
	a.send(P("", "insert into t values(1)"), B(), E())
	one.wait_pool(cl_waiting=1)
	assert one.cancel(a.key) == b""
	a.expect("E(57014)", 1)
	assert a.is_quiet(0.05)
	a.send(S)
	a.expect("Z(I)", 1)
	a.send(P("", "insert into t values(1)"), B(), E(), S, Q("select 1"))
	one.wait_pool(cl_waiting=1)
	assert one.cancel(a.key) == b""
	a.expect("E(57014) Z(I)", 1)
	assert x.talk(Q("rollback")) == "C(ROLLBACK) Z(I)"
	a.expect("T D[1] C(SELECT 1) Z(I)")
	assert pg.value("select count(*) from t", dbname="app") == 0


# --- P-27

def leave_by_terminate(client):
	client.terminate()


def leave_by_fin(client):
	client.close()


def leave_by_half_close(client):
	client.half_close()
	client.read_eof()
	client.close()


def leave_by_rst(client):
	client.reset()


@pytest.mark.parametrize("state", ["changed", "failed", "unread"])
@pytest.mark.parametrize("leave", [leave_by_terminate, leave_by_fin, leave_by_half_close, leave_by_rst],
                         ids=lambda leave: leave.__name__)
def test_p27_what_a_client_left_undone_is_undone(pg, one, state, leave):
	pg.sql("insert into t values (1)", dbname="app")
	b = one.raw()
	for _ in range(3):
		a = one.raw()
		if state == "unread":
			a.send(Q("begin"), Q("update t set x=2"))
		else:
			a.query("begin")
			a.query("update t set x=2")
		if state == "failed":
			assert a.talk(Q("select 1/0")) == "E(22012) Z(E)"
		leave(a)
		assert b.value("select txid_current_if_assigned()") is None
		assert b.value("select x from t") == "1"
		assert b.status == "I"


def test_p27_a_client_that_is_killed_leaves_nothing(pg, one):
	pg.sql("insert into t values (1)", dbname="app")
	child = subprocess.Popen(["psql", "-X", one.dsn()], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
	child.stdin.write("begin;\nupdate t set x=2;\n")
	child.stdin.flush()
	until("it is in its transaction",
	      lambda: pg.count("state = 'idle in transaction' and query like 'update%%'"))
	child.kill()
	child.wait()
	child.stdin.close()
	assert one.raw().value("select x from t") == "1"


# --- P-28

UNREPORTED = [("select pg_catalog.set_config('search_path','',false)", "search_path"),
              ("set search_path = pg_catalog", "search_path"),
              ("set client_min_messages = error", "client_min_messages"),
              ("select set_config('statement_timeout', '12345', false)", "statement_timeout")]


@pytest.mark.parametrize("sets,name", UNREPORTED)
def test_p28_a_setting_that_is_not_reported_stays_with_its_client(one, sets, name):
	a, b = one.raw(), one.raw()
	default = b.value(f"show {name}")
	a.query(sets)
	mine = a.value(f"show {name}")
	assert mine != default
	for _ in range(3):
		assert b.value("select count(*) from ct") == "0"
		assert b.value(f"show {name}") == default
		assert a.value(f"show {name}") == mine


@pytest.mark.parametrize("sets,name", UNREPORTED)
def test_p28_server_reset_query_always_wipes_a_setting_that_is_not_reported(pg, pooler, sets, name):
	weir = pooler(settings={"default_pool_size": 1, "server_reset_query_always": 1})
	a, b = weir.raw(), weir.raw()
	default = b.value(f"show {name}")
	for _ in range(3):
		a.query(sets)
		assert b.value("select count(*) from ct") == "0"
		assert b.value(f"show {name}") == default


def test_p28_a_setting_never_reaches_another_user_or_database(pg, one):
	a = one.raw()
	for sets, _ in UNREPORTED:
		a.query(sets)
	for b in (one.raw("app", "app2"), one.raw("app2", "app")):
		assert b.value("select count(*) from ct") == "0"
		assert b.value("show client_min_messages") == "notice"
	a.query("discard all")


REPORTED = {"TimeZone": "Asia/Tokyo", "DateStyle": "German", "client_encoding": "LATIN1",
            "application_name": "mine", "standard_conforming_strings": "off"}


@pytest.mark.parametrize("name", REPORTED)
def test_p28_a_setting_that_is_reported_follows_its_client(one, name):
	a, b = one.raw(), one.raw()
	default = b.value(f"show {name}")
	a.query(f"set {name} = '{REPORTED[name]}'")
	mine = a.params[name]
	assert mine != default
	for _ in range(3):
		assert b.value(f"show {name}") == default
		assert a.value(f"show {name}") == mine


@pytest.mark.parametrize("text,end", [("set timezone='Asia/Tokyo'", "rollback"),
                                      ("set local timezone='Asia/Tokyo'", "commit"),
                                      ("set local timezone='Asia/Tokyo'", "rollback"),
                                      ("set session timezone='Asia/Tokyo'; select 1/0", "commit")])
def test_p28_a_setting_of_a_transaction_ends_with_it(one, text, end):
	a, b = one.raw(), one.raw()
	default = a.value("show timezone")
	a.query("begin")
	a.talk(Q(text))
	a.query(end)
	assert a.params["TimeZone"] == default
	for client in (b, a, b):
		assert client.value("show timezone") == default


def test_p28_pg_dump_disturbs_nobody_where_servers_are_reset(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "server_reset_query_always": 1,
	                        "ignore_startup_parameters": "extra_float_digits"})
	assert "CREATE TABLE public.ct" in dump_beside_a_checker(weir)


def test_p28_pg_dump_disturbs_nobody(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "ignore_startup_parameters": "extra_float_digits"})
	assert "CREATE TABLE public.ct" in dump_beside_a_checker(weir)


def dump_beside_a_checker(weir):
	checker = weir.raw(seconds=20)

	def check(_):
		assert checker.value("select count(*) from ct") == "0"
		assert checker.value("show client_min_messages") == "notice"

	with Background(check) as loop:
		out = process.run(["pg_dump", "--no-sync", weir.dsn()]).stdout
		after = loop.rounds[0]
		until("the checker went on", lambda: loop.rounds[0] > after + 5 or loop.failures)
	return out


# --- P-29

@pytest.mark.parametrize("name,value,default", [("enable_seqscan", "off", "on"),
                                                ("search_path", "pg_catalog", '"$user", public')])
def test_p29_a_startup_value_that_is_not_reported_does_not_stick(pg, pooler, name, value, default):
	weir = pooler(settings={"default_pool_size": 1, "track_extra_parameters": "enable_seqscan, search_path"})
	a = weir.raw(params={"options": f"-c {name}={value}"})
	for _ in range(3):
		assert a.value(f"show {name}") == value
		assert weir.raw().value(f"show {name}") == default
	plain = weir.raw(params={name: value})
	assert plain.value(f"show {name}") == value
	assert weir.raw().value(f"show {name}") == default


# --- P-30

def test_p30_a_default_changed_by_alter_role_reaches_who_never_asked(pg, one):
	a, own = one.raw(user="app3"), one.raw(user="app3")
	own.query("set timezone = 'Europe/Paris'")
	asked = one.raw(user="app3", params={"timezone": "America/Lima"})
	default = a.value("show timezone")
	try:
		for text, wanted in (("set timezone = 'Asia/Tokyo'", "Asia/Tokyo"), ("reset timezone", default)):
			pg.sql(f"alter role app3 {text}")
			one.admin("RECONNECT")
			assert one.raw(user="app3").value("show timezone") == wanted
			seen = {a.value("show timezone") for _ in range(3)}
			assert len(seen) == 1 and seen <= {default, wanted}
			assert own.value("show timezone") == "Europe/Paris"
			assert asked.value("show timezone") == "America/Lima"
			assert one.raw(user="app3").value("show timezone") == wanted
	finally:
		pg.sql("alter role app3 reset timezone")


def test_p30_a_default_changed_by_alter_database_reaches_who_never_asked(pg, one):
	default = one.raw("app3").value("show timezone")
	try:
		for text, wanted in (("set timezone = 'Asia/Tokyo'", "Asia/Tokyo"), ("reset timezone", default)):
			pg.sql(f"alter database app3 {text}")
			one.admin("RECONNECT app3")
			client = one.raw("app3")
			assert client.value("show timezone") == wanted
			assert one.raw("app3").params["TimeZone"] == wanted
	finally:
		pg.sql("alter database app3 reset timezone")


# --- P-31

def login_letters(weir, user, *, version, params=None, seconds=6):
	"""Log in and give the client and the letters of all messages up to ReadyForQuery or an error."""
	client, letters = weir.open(seconds=seconds), []
	read = client.read_message

	def read_and_note(*args):
		letter, body = read(*args)
		letters.append(letter)
		return letter, body

	client.read_message = read_and_note
	try:
		client.startup(user=user, database="app", version=version, params=params)
		client.authenticate(user, weir.password(user))
	except (ServerError, Closed):
		pass  # the letters say so: they do not end with Z
	finally:
		client.read_message = read
	return client, "".join(letters)


def looked_up(way="scram-sha-256", query="select usename, passwd from public.lookup($1)", **settings):
	return {"settings": {"auth_type": way, "auth_user": "lookup", "auth_query": query, **settings},
	        "databases": {"app": {}},
	        "userlist": {"lookup": PASSWORDS["lookup"], "admin": "admin-secret-a"}}


WAYS = {"trust": {"settings": {"auth_type": "trust"}}, "md5": {"settings": {"auth_type": "md5"}},
        "scram": {"settings": {"auth_type": "scram-sha-256"}}, "auth_query": looked_up()}


def assert_negotiated_once(letters):
	assert letters.count("v") == 1 and letters.index("v") < letters.index("R"), letters


@pytest.mark.parametrize("way", WAYS)
def test_p31_the_version_is_negotiated_once_however_long_the_server_takes(pg, pooler, way):
	"""libpq 18 asks for 3.2; the login must not be begun anew when a server is there (pgbouncer #1459)."""
	with Relay(pg.address) as relay:
		how = {"databases": {"app": {}}, **WAYS[way]}
		weir = pooler(**{**how, "databases": {"app": {"port": relay.port}}})
		relay.hold("server")
		threading.Timer(1 if LONG else 0.3, relay.release, ["server"]).start()
		for _ in range(2):
			client, letters = login_letters(weir, "app2", version=raw.PROTOCOL_3_2)
			assert_negotiated_once(letters)
			assert letters.endswith("Z") and letters.count("K") == 1
			assert client.protocol == raw.PROTOCOL_3_0 and client.refused_options == []
			assert client.value("select 1") == "1"
		weir.databases["app"] = weir.database({})
		weir.reload()


@pytest.mark.parametrize("way", WAYS)
def test_p31_the_version_is_negotiated_once_while_postgresql_is_down(own_pg, pooler, way):
	"""A login may be refused then; what it must not be is begun twice."""
	pg = own_pg()
	how = {"databases": {"app": {}}, **WAYS[way]}
	weir = pooler(pg, **{**how, "settings": {**how["settings"], "server_login_retry": 0.1}})
	pg.stop()
	starts = threading.Timer(1 if LONG else 0.3, pg.start)
	starts.start()
	seen = []

	def try_login():
		client, letters = login_letters(weir, "app2", version=raw.PROTOCOL_3_2)
		client.close()
		seen.append(letters)
		return letters.endswith("Z")

	try:
		until("a login succeeds", try_login, 10)
	finally:
		starts.join()
	for letters in seen:
		assert letters.count("v") <= 1, letters
		if "R" in letters:
			assert_negotiated_once(letters)


# --- P-32

def first_bytes(address, packet):
	"""The messages of a login up to the first authentication request, or all of them."""
	with Raw(address) as client:
		client.send(packet)
		got = []
		try:
			while not got or got[-1][0] not in "RE":
				got.append(client.read_message())
		except Closed:
			pass
		return got


PQ = {"user": "app", "database": "app"}
NEGOTIATED = [
	((3 << 16) | 9999, {"_pq_.a": "1", "_pq_.b": ""}, (3 << 16, ["_pq_.a", "_pq_.b"])),
	((3 << 16) | 9999, {"_pq_.test_protocol_negotiation": ""}, (3 << 16, ["_pq_.test_protocol_negotiation"])),
	(3 << 16, {"_pq_.x": "on"}, (3 << 16, ["_pq_.x"])),
	((3 << 16) | 1, {}, (3 << 16, [])),
	((3 << 16) | 2, {}, (3 << 16, [])),
	(3 << 16, {}, None),
]


@pytest.mark.parametrize("version,options,wanted", NEGOTIATED)
def test_p32_an_unknown_minor_version_and_options_are_negotiated(pg, pooler, version, options, wanted):
	weir = pooler()
	packet = raw.startup_packet({**PQ, **options}, version)
	right = [body for letter, body in first_bytes(pg.address, packet) if letter == "v"]
	got = [body for letter, body in first_bytes(weir.address, packet) if letter == "v"]
	assert got == right
	if wanted:
		newest, names = wanted
		assert got == [struct.pack("!II", newest, len(names)) + b"".join(raw.text(name) for name in names)]
	client, letters = login_letters(weir, "app", version=version, params=options)
	assert letters.count("v") == bool(wanted) and letters.endswith("Z")
	assert client.value("select 1") == "1"


@pytest.mark.parametrize("major", [2, 4])
def test_p32_another_major_version_is_refused(pg, pooler, major):
	weir = pooler()
	client = weir.open()
	client.send(raw.startup_packet(PQ, major << 16))
	assert client.read_eof() == "E(0A000) EOF"
	assert client.errors[-1]["S"] == "FATAL"


# --- P-33

SCRAM_HBA = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


def refused_in(weir, seconds, **how):
	began = time.monotonic()
	refused = weir.refusal(**how)
	took = time.monotonic() - began
	assert took < limit(seconds), f"refused after {took:.2f} s"
	return refused, took


def test_p33_verifiers_for_all_but_the_one_who_looks_them_up(own_pg, pooler):
	pg = own_pg(hba=SCRAM_HBA)
	weir = pooler(pg, **looked_up(default_pool_size=1, server_login_retry=0.2))
	a = weir.raw(user="app2", seconds=5)
	b = weir.raw(user="app2", seconds=5)
	assert a.value("select current_user") == "app2"
	assert backend(a) == backend(b)
	wrong, took_wrong = refused_in(weir, 1, user="app2", password="wrong")
	unknown, took_unknown = refused_in(weir, 1, user="nobody_here", password="wrong")
	assert wrong.sqlstate == unknown.sqlstate == "28P01"
	assert wrong.message.replace("app2", "<user>") == unknown.message.replace("nobody_here", "<user>")
	assert abs(took_wrong - took_unknown) < limit(0.5)
	assert process.run(["psql", "-XAtc", "select 42", weir.dsn(user="app2")]).stdout == "42\n"
	pg.restart()
	until("the old client is served by its keys", lambda: served(a), 10)
	assert weir.raw(user="app2", seconds=5).value("select 1") == "1"


def served(client):
	try:
		return client.value("select 1") == "1"
	except ServerError as failure:
		assert failure.severity != "FATAL", failure
		return False


def test_p33_an_auth_user_with_a_verifier_only_is_an_error_at_once(own_pg, pooler):
	pg = own_pg(hba=SCRAM_HBA)
	how = looked_up()
	how["userlist"]["lookup"] = pg.value("select rolpassword from pg_authid where rolname = 'lookup'")
	weir = pooler(pg, **how)
	refused, _ = refused_in(weir, 3, user="app2")
	assert refused.severity == "FATAL"
	weir.wait_log(r"(?i)lookup.*(password|verifier|secret|SCRAM)|(password|verifier|secret|SCRAM).*lookup")
	weir.userlist["lookup"] = PASSWORDS["lookup"]
	weir.settings["server_login_retry"] = 0.1
	weir.reload()
	until("it works with the password", lambda: let_in(weir, "app2", PASSWORDS["app2"]), 5)


def let_in(weir, user, password):
	try:
		return weir.raw(user=user, password=password).value("select 1") == "1"
	except ServerError:
		return False


# --- P-34

COUNTED = """
	create table lookups (name text);
	create function public.counted(name text, out usename name, out passwd text)
		returns setof record language sql volatile security definer as
		'insert into public.lookups values ($1);
		 select rolname, rolpassword from pg_authid where rolname = $1 and rolcanlogin'"""


def test_p34_a_new_password_is_good_at_once_and_the_old_one_is_not(own_pg, pooler):
	pg = own_pg()
	pg.sql(COUNTED, dbname="app")
	weir = pooler(pg, **looked_up(query="select usename, passwd from public.counted($1)"))
	for n in range(3):
		old, new = pg_password(n), pg_password(n + 1)
		pg.sql(f"alter role app2 password '{old}'")
		kept = weir.raw(user="app2", password=old)
		assert kept.value("select 1") == "1"
		pg.sql(f"alter role app2 password '{new}'")
		assert weir.raw(user="app2", password=new).value("select 1") == "1"
		assert weir.refusal(user="app2", password=old).sqlstate == "28P01"
		assert kept.value("select 2") == "2"


def pg_password(n):
	return PASSWORDS["app2"] if n == 0 else f"rotated-{n}"


def test_p34_wrong_passwords_do_not_multiply_lookups_nor_slow_others(own_pg, pooler):
	pg = own_pg()
	pg.sql(COUNTED, dbname="app")
	weir = pooler(pg, **looked_up(query="select usename, passwd from public.counted($1)"))
	weir.raw(user="app2").query("select 1")
	weir.raw(user="app").query("select 1")

	def lookups():
		return pg.value("select count(*) from lookups where name = 'app2'", dbname="app")

	def fail(_):
		assert weir.refusal(user="app2", password="wrong").sqlstate == "28P01"
		time.sleep(0.08)  # four of these make about fifty a second

	before, began, slowest = lookups(), time.monotonic(), 0
	with Background(*[fail] * 4) as flood:
		while time.monotonic() < began + loops(2, 5):
			start = time.monotonic()
			assert weir.raw(user="app").value("select 1") == "1"
			slowest = max(slowest, time.monotonic() - start)
			time.sleep(0.05)  # the pace of the good users
	took = time.monotonic() - began
	assert sum(flood.rounds) > 5 * took
	assert lookups() - before <= 10 * took + 10, f"{lookups() - before} lookups in {took:.1f} s"
	assert slowest < limit(0.2), f"a good login took {slowest:.3f} s"


# --- P-35

@pytest.fixture
def rotating(pg, pooler, certs):
	cert, key = certs.issue("rotating", "localhost", names="DNS:localhost")
	weir = pooler(settings={"client_tls_sslmode": "prefer", "client_tls_cert_file": cert,
	                        "client_tls_key_file": key, "client_tls_ca_file": certs.ca,
	                        "server_tls_sslmode": "require", "default_pool_size": 2})
	weir.key_path = key
	return weir


def serial(weir, certs):
	client = weir.raw(tls=certs.context())
	assert client.value("select 1") == "1"
	return client.sock.getpeercert()["serialNumber"]


def test_p35_a_renewed_certificate_is_shown_after_a_reload_and_nobody_notices(pg, rotating, certs):
	busy = rotating.raw(tls=certs.context(), seconds=5)
	idle = rotating.raw(tls=certs.context())
	before = serial(rotating, certs)
	pids = {row["remote_pid"] for row in rotating.show("SERVERS")}
	busy.send(Q("select 'finished' from pg_sleep(0.8)"))
	until("it runs", lambda: pg.count("state = 'active'"))
	certs.issue("rotating", "localhost", names="DNS:localhost")
	rotating.admin("RELOAD")
	assert serial(rotating, certs) != before
	busy.expect("T D[finished] C(SELECT 1) Z(I)")
	assert idle.value("select 2") == "2"
	for _ in range(10):
		rotating.admin("RELOAD")
	assert busy.value("select 3") == "3"
	assert pids <= {row["remote_pid"] for row in rotating.show("SERVERS")}


def test_p35_a_key_that_does_not_match_changes_nothing(pg, rotating, certs):
	before = serial(rotating, certs)
	good = open(rotating.key_path, "rb").read()
	for bad in (open(certs.server_key, "rb").read(), b"this is no key\n", b""):
		process.write_file(rotating.key_path, bad)
		with pytest.raises(ServerError):
			rotating.admin("RELOAD")
		assert serial(rotating, certs) == before
	process.write_file(rotating.key_path, good)
	rotating.admin("RELOAD")
	assert serial(rotating, certs) == before


def test_p35_a_handshake_under_way_outlives_a_reload(pg, rotating, certs):
	incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
	tls = certs.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
	client = rotating.open()
	assert client.ask_tls() == b"S"

	def step():
		try:
			tls.do_handshake()
			return True
		except ssl.SSLWantReadError:
			return False

	assert not step()
	hello = outgoing.read()
	client.send(hello[:len(hello) // 2])
	certs.issue("rotating", "localhost", names="DNS:localhost")
	rotating.admin("RELOAD")
	client.send(hello[len(hello) // 2:])
	while not step():
		incoming.write(client.sock.recv(65536))
		if outgoing.pending:
			rotating.admin("RELOAD")
			client.send(outgoing.read())
	tls.write(raw.startup_packet(PQ))
	client.send(outgoing.read())
	got = b""
	while not got.endswith(b"Z\0\0\0\5I"):
		data = client.sock.recv(65536)
		assert data, got
		incoming.write(data)
		try:
			got += tls.read(65536)
		except ssl.SSLWantReadError:
			pass
	assert got.startswith(b"R")


# --- P-36

@pytest.fixture
def tls_weir(pg, pooler, certs):
	return pooler(settings={"client_tls_sslmode": "prefer", "client_tls_cert_file": certs.server_cert,
	                        "client_tls_key_file": certs.server_key})


def all_bytes(client):
	got = b""
	client.sock.settimeout(limit(2))
	try:
		while some := client.sock.recv(65536):
			got += some
	except ConnectionResetError:
		pass
	except TimeoutError:
		got += b"<and it stayed open>"
	return got


@pytest.mark.parametrize("request_", [raw.SSL_REQUEST, raw.GSSENC_REQUEST], ids=["ssl", "gssenc"])
@pytest.mark.parametrize("extra", [raw.startup_packet(PQ), b"\0", Q("select 1")], ids=["startup", "a byte", "sql"])
def test_p36_bytes_behind_a_request_for_encryption_are_refused(tls_weir, certs, request_, extra):
	"""They came in clear and could be anybody's (CVE-2021-3935)."""
	client = tls_weir.open()
	client.send(request_, extra)
	if request_ == raw.SSL_REQUEST:
		try:
			client.sock.settimeout(limit(2))
			if client.sock.recv(1) == b"S":
				client.start_tls(certs.context())
				raise AssertionError("a handshake was made over injected bytes")
		except (ssl.SSLError, OSError):
			pass
		client.close()
	else:
		got = all_bytes(client)
		assert got in (b"", b"N") or b"C08P01" in got, got
	tls_weir.wait_log("closing because")
	assert "login attempt" not in tls_weir.log()


def test_p36_a_server_that_says_more_than_yes_in_clear_is_refused(pg, pooler):
	with FakeServer(tls_answer=b"S" + error("28P01", "injected words", "FATAL")) as server:
		weir = pooler(databases={"bad": {"port": server.port}, "app": {}},
		              settings={"server_tls_sslmode": "require", "server_login_retry": 0.2,
		                        "query_wait_timeout": 1, "server_connect_timeout": 1})
		client = weir.open(seconds=5)
		client.startup(user="app", database="bad")
		with pytest.raises((ServerError, Closed)) as refused:
			client.authenticate("app", None)
			client.query("select 1")
		assert "injected words" not in str(refused.value)
		assert server.logins == 0 and "injected words" not in weir.log()
		weir.settings["server_tls_sslmode"] = "disable"
		weir.reload()


def test_p36_the_order_of_requests_that_libpq_uses_works(tls_weir, certs):
	client = tls_weir.open()
	client.send(raw.GSSENC_REQUEST)
	assert client.sock.recv(1) == b"N"
	assert client.ask_tls() == b"S"
	client.start_tls(certs.context())
	client.startup(user="app", database="app")
	client.authenticate("app", None)
	assert client.value("select 1") == "1"


@pytest.mark.parametrize("again", [raw.SSL_REQUEST, raw.GSSENC_REQUEST], ids=["ssl", "gssenc"])
def test_p36_a_second_request_inside_tls_is_closed(tls_weir, certs, again):
	client = tls_weir.open()
	assert client.ask_tls() == b"S"
	client.start_tls(certs.context())
	client.send(again)
	got = all_bytes(client)
	assert got == b"" or got.startswith(b"E"), got


# --- P-37

EVIL = """
	create table seen (who text, path text);
	grant all on seen to public;
	create schema evil;
	grant usage on schema evil to public;
	create function evil.lookup(name text, out usename name, out passwd text)
		returns setof record language sql volatile as
		'insert into public.seen values (''evil'', current_setting(''search_path''));
		 select ''app2''::name, ''stolen''';
	create function public.watched(name text, out usename name, out passwd text)
		returns setof record language sql volatile security definer as
		'insert into public.seen values (''good'', current_setting(''search_path''));
		 select rolname, rolpassword from pg_authid where rolname = $1';
	create or replace function evil.watched(name text, out usename name, out passwd text)
		returns setof record language sql volatile as
		'insert into public.seen values (''evil'', current_setting(''search_path''));
		 select ''app2''::name, ''stolen''';
	grant execute on all functions in schema evil to public"""

INJECTIONS = [
	{"options": "-c search_path=evil,pg_catalog"},
	{"search_path": "evil, public, pg_catalog"},
	{"options": "-c search_path=evil,public,pg_catalog -c standard_conforming_strings=off"},
	{"application_name": r"a'; set search_path = evil; --\'", "standard_conforming_strings": "off"},
	{"application_name": "\\'; set search_path = evil; --", "standard_conforming_strings": "off"},
	{"DateStyle": r"ISO'; set search_path = evil; --"},
	{"TimeZone": r"UTC\'; set search_path = evil; --", "standard_conforming_strings": "off"},
]


def test_p37_nothing_of_a_stranger_s_startup_touches_the_lookup(own_pg, pooler):
	"""Tracked parameters of somebody who has not logged in yet (CVE-2025-12819)."""
	pg = own_pg()
	pg.sql(EVIL, dbname="app")
	weir = pooler(pg, **looked_up(query="select usename, passwd from watched($1)",
	                              track_extra_parameters="search_path, IntervalStyle",
	                              default_pool_size=1))
	for place, params in enumerate(INJECTIONS):
		for n in range(loops(4, 20)):
			with pytest.raises(ServerError):
				# Every other name is one that nobody has looked up before.
				weir.raw(user="app2" if n % 2 else f"stranger{place}_{n}", password="bad", params=params)
	rows = pg.sql("select distinct who, path from seen", dbname="app")
	assert rows == [("good", '"$user", public')]
	for params in INJECTIONS:
		try:
			weir.raw(user="app2", params=params).query("select 1")
		except ServerError:
			pass  # a value that PostgreSQL refuses
		weir.raw(user="app").query("select 1")
	assert pg.value("select count(*) from seen where who = 'evil'", dbname="app") == 0


# --- P-38

def stops_in_a_batch(client):
	client.send(P("", "select 1"), B(), E(), H)
	client.expect("1 2 D[1] C(SELECT 1)")


def stops_before_any_sync(client):
	client.send(P("", "select 1"), B(), E())


def stops_in_a_message(client):
	client.send(P("", "select 1"), H, Q("select 2")[:7])
	client.expect("1")


def stops_in_a_long_message(client):
	client.send(Q("select '" + "x" * 200000 + "'")[:70000])


def stops_in_a_copy(client):
	client.send(Q("copy ct from stdin"))
	client.expect("G")


def stops_in_a_portal(client):
	client.send(P("", "select generate_series(1, 9)"), B(), E("", 1), H)
	client.expect("1 2 D[1] s")


@pytest.mark.parametrize("stop", [stops_in_a_batch, stops_before_any_sync, stops_in_a_message,
                                  stops_in_a_long_message, stops_in_a_copy, stops_in_a_portal],
                         ids=lambda stop: stop.__name__)
def test_p38_a_client_that_stops_in_the_middle_does_not_hold_its_server(pg, pooler, stop):
	"""PostgreSQL's own limits do not see it: to it the session waits for its client."""
	weir = pooler(settings={"default_pool_size": 1, "idle_transaction_timeout": 0.6})
	a, b = weir.raw(), weir.raw(seconds=4)
	stop(a)
	b.send(Q("select 'b'"))
	b.expect("T D[b] C(SELECT 1) Z(I)", 2)
	if stop is not stops_in_a_long_message:
		assert a.read_eof(2).endswith("E(25P03) EOF")


def test_p38_half_a_tls_record_does_not_hold_a_server(pg, pooler, certs):
	weir = pooler(settings={"default_pool_size": 1, "idle_transaction_timeout": 0.6,
	                        "client_tls_sslmode": "prefer", "client_tls_cert_file": certs.server_cert,
	                        "client_tls_key_file": certs.server_key})
	with Relay(weir.address) as relay:
		client = weir.keep(Raw(relay.address, seconds=4))
		assert client.ask_tls() == b"S"
		client.start_tls(certs.context())
		client.startup(user="app", database="app")
		client.authenticate("app", None)
		client.query("begin")
		relay.edit = lambda direction, data: [(0, data[:len(data) // 2])] if direction == "client" else [(0, data)]
		client.send(Q("select 1"))
		b = weir.raw(seconds=4)
		assert b.value("select 'b'") == "b"
		assert client.read_eof(2) == "E(25P03) EOF"


# --- P-39

def config_value(weir, key):
	return weir.show("CONFIG", key=key)[0]["value"]


def by_reload(weir, **settings):
	weir.settings.update(settings)
	weir.reload()


def by_set(weir, **settings):
	for key, value in settings.items():
		weir.admin(f"SET {key} = '{value}'")


BY = pytest.mark.parametrize("change", [by_reload, by_set], ids=lambda change: change.__name__)


@BY
def test_p39_the_global_pool_size_goes_up_and_down(pg, pooler, change):
	weir = pooler(settings={"default_pool_size": 1},
	              databases={"app": {}, "own": {"dbname": "app2", "pool_size": 2}})
	clients = [weir.raw() for _ in range(3)]
	own = [weir.raw("own") for _ in range(3)]
	for client in clients + own:
		client.send(Q("begin"))
	weir.wait_pool(sv_active=1, cl_waiting=2)
	weir.wait_pool("own", sv_active=2, cl_waiting=1)
	change(weir, default_pool_size=3)
	for client in clients:
		client.expect("C(BEGIN) Z(T)", 1)
	assert weir.show("DATABASES", name="app")[0]["pool_size"] == 3
	weir.wait_pool("own", sv_active=2, cl_waiting=1)
	assert weir.show("DATABASES", name="own")[0]["pool_size"] == 2
	change(weir, default_pool_size=1)
	for client in clients:
		assert client.talk(Q("commit")) == "C(COMMIT) Z(I)"
	until("the surplus is closed", lambda: pg.count("datname = 'app'") == 1)
	assert weir.show("DATABASES", name="app")[0]["pool_size"] == 1
	weir.wait_pool("own", sv_active=2, cl_waiting=1)
	assert [client.value("select 1") for client in clients] == ["1"] * 3
	assert pg.count("datname = 'app'") == 1
	for client in own:
		client.close()


@BY
def test_p39_the_global_minimum_is_kept(pg, pooler, change):
	weir = pooler(databases={"app": {}})
	weir.raw().query("select 1")
	assert pg.count() == 1
	change(weir, min_pool_size=3)
	until("three are open", lambda: pg.count() == 3, 5)


@BY
def test_p39_the_global_reserve_is_used(pg, pooler, change):
	weir = pooler(settings={"default_pool_size": 1, "reserve_pool_timeout": 0.2}, databases={"app": {}})
	holder, waiter = weir.raw(), weir.raw()
	holder.query("begin")
	waiter.send(Q("select 1"))
	assert waiter.is_quiet(0.4)
	change(weir, reserve_pool_size=1)
	waiter.expect("T D[1] C(SELECT 1) Z(I)")
	holder.query("rollback")


@BY
def test_p39_the_global_wait_limit_is_used(pg, pooler, change):
	weir = pooler(settings={"default_pool_size": 1})
	holder, waiter = weir.raw(), weir.raw()
	holder.query("begin")
	change(weir, query_wait_timeout=0.4)
	waiter.send(Q("select 1"))
	assert waiter.read_eof(2) == "E(57014) EOF"
	holder.query("rollback")


# --- P-40

@pytest.fixture
def held(pg, pooler):
	"""A pooler whose entry app cannot be paused yet: a client is in a transaction."""
	weir = pooler(settings={"default_pool_size": 2})
	weir.holder = weir.raw(seconds=6)
	weir.holder.query("begin")
	return weir


def start(weir, command, *, on=None):
	"""A console on which this command is under way."""
	console = weir.console()
	console.send(Q(command))
	if command.startswith("PAUSE"):
		until("it is on its way", lambda: weir.show("DATABASES", name="app")[0]["paused"])
	else:
		assert console.is_quiet(0.1)
	return console


def assert_live(weir):
	assert weir.raw().value("select 'live'") == "live"
	assert weir.holder.talk(Q("commit")) == "C(COMMIT) Z(I)"
	assert weir.holder.value("select 1") == "1"
	assert weir.show("DATABASES", name="app")[0]["paused"] == 0


@pytest.mark.parametrize("what", ["", " app"], ids=["all", "app"])
def test_p40_a_resume_from_another_console_ends_a_pause_that_waits(held, what):
	console = start(held, f"PAUSE{what}")
	assert held.admin(f"RESUME{what}") == []
	letters = console.read_ready(seconds=1)
	assert re.fullmatch(r"(C\(PAUSE\)|E\(\w+\)) Z\(I\)", letters), letters
	if letters.startswith("E"):
		assert "RESUME" in console.errors[-1]["M"]
	assert console.query("SHOW VERSION")
	assert_live(held)


@pytest.mark.parametrize("leave", ["close", "reset", "terminate"])
def test_p40_a_pause_whose_console_leaves_can_be_resumed(held, leave):
	mark = held.mark()
	getattr(start(held, "PAUSE app"), leave)()
	left = rf"{held.console_name}/admin@.* closing because"
	if leave != "terminate":
		held.wait_log(left, mark)
	try:
		held.admin("RESUME app")
	except ServerError as failure:  # a pause that ended with its console
		assert "is not paused" in failure.message
	held.wait_log(left, mark)
	assert_live(held)


def test_p40_a_pause_can_be_cancelled(held):
	console = start(held, "PAUSE app")
	assert held.cancel(console.key) == b""
	letters = console.read_ready(seconds=1)
	assert letters == "E(57014) Z(I)"
	assert console.query("SHOW VERSION")
	assert_live(held)


def test_p40_two_pauses_of_one_entry_both_end(held):
	consoles = [start(held, "PAUSE app")]
	second = held.console()
	second.send(Q("PAUSE app"))
	consoles.append(second)
	assert held.holder.talk(Q("commit")) == "C(COMMIT) Z(I)"
	for console in consoles:
		assert re.fullmatch(r"(C\(PAUSE\)|E\(\w+\)) Z\(I\)", console.read_ready(seconds=1))
	held.admin("RESUME app")
	assert_live_without_a_holder(held)


def assert_live_without_a_holder(weir):
	assert weir.raw().value("select 'live'") == "live"
	assert weir.show("DATABASES", name="app")[0]["paused"] == 0


def test_p40_a_kill_ends_a_pause_that_waits(held):
	console = start(held, "PAUSE app")
	held.admin("KILL app")
	assert re.fullmatch(r"(C\(PAUSE\)|E\(\w+\)) Z\(I\)", console.read_ready(seconds=1))
	assert held.holder.read_eof().endswith("EOF")
	held.admin("RESUME app")
	assert_live_without_a_holder(held)


def test_p40_a_pause_of_what_is_paused_is_an_error(pg, pooler):
	weir = pooler()
	for what in ("", " app"):
		weir.admin(f"PAUSE{what}")
		with pytest.raises(ServerError) as refused:
			weir.admin(f"PAUSE{what}")
		assert "paused" in refused.value.message
		weir.admin(f"RESUME{what}")
	assert weir.raw().value("select 1") == "1"


@pytest.fixture
def closing(held):
	held.admin("RECONNECT app")
	return held


def test_p40_a_wait_close_whose_console_leaves_harms_nobody(closing):
	for leave in ("close", "reset", "terminate"):
		getattr(start(closing, "WAIT_CLOSE app"), leave)()
	assert_live(closing)


def test_p40_a_wait_close_can_be_cancelled(closing):
	console = start(closing, "WAIT_CLOSE app")
	assert closing.cancel(console.key) == b""
	assert console.read_ready(seconds=1) == "E(57014) Z(I)"
	assert console.query("SHOW VERSION")
	assert_live(closing)


def test_p40_two_wait_closes_and_a_kill_all_end(closing):
	consoles = [start(closing, "WAIT_CLOSE app"), start(closing, "WAIT_CLOSE")]
	closing.admin("KILL app")
	for console in consoles:
		assert re.fullmatch(r"(C\(WAIT_CLOSE\)|E\(\w+\)) Z\(I\)", console.read_ready(seconds=1))
	closing.admin("RESUME app")
	assert_live_without_a_holder(closing)


def test_p40_a_wait_close_ends_with_the_last_old_server(closing):
	consoles = [start(closing, "WAIT_CLOSE app"), start(closing, "WAIT_CLOSE app")]
	assert closing.holder.talk(Q("commit")) == "C(COMMIT) Z(I)"
	for console in consoles:
		console.expect("C(WAIT_CLOSE) Z(I)", 1)
