"""Settings that PostgreSQL reports follow their client from server to server."""

import pytest

from rig import process
from rig.pooler import stand_in
from rig.raw import B, E, P, Q, Raw, S, ServerError

pytestmark = pytest.mark.usefixtures("clean")

# Parameters that PostgreSQL 15 reports and a client may set, with a value that is not the default.
TRACKED = {
	"TimeZone": "Asia/Tokyo",
	"DateStyle": "German, DMY",
	"client_encoding": "LATIN1",
	"standard_conforming_strings": "off",
	"application_name": "one of mine",
	"IntervalStyle": "iso_8601",
}


@pytest.fixture
def one(pg, pooler):
	return pooler(settings={"default_pool_size": 1})


def skip_on_the_stand_in(name):
	if stand_in() and name in ("IntervalStyle", "application_name"):
		pytest.skip(f"stand-in: 1.18 does not track {name} well")


@pytest.mark.parametrize("name", TRACKED)
def test_a_startup_parameter_follows_its_client(one, name):
	skip_on_the_stand_in(name)
	a, b = one.raw(params={name: TRACKED[name]}), one.raw()
	default = b.value(f"show {name}")
	for _ in range(3):
		assert a.value(f"show {name}") == TRACKED[name]
		assert b.value(f"show {name}") == default != TRACKED[name]
	assert a.params[name] == TRACKED[name]


@pytest.mark.pgweir("pgbouncer takes the words as they are")
@pytest.mark.parametrize("asked", ["ISO", "YMD", "German", "SQL", "dmy, iso", "euro", "postgresql", "iso,us", ""])
def test_a_date_style_that_says_half_never_depends_on_who_had_the_server_before(pg, one, asked):
	"""JDBC asks for ISO. SET DateStyle = 'ISO' keeps the order of day and month that stands: on a shared server that of somebody else."""
	with Raw.login(pg.address, user="app", database="app", params={"DateStyle": asked}) as direct:
		whole = direct.value("show datestyle")
	a, b = one.raw(params={"DateStyle": asked}), one.raw()
	assert a.params["DateStyle"] == whole
	for other in ("ISO, YMD", "German, DMY", "SQL, MDY", "Postgres, YMD", "ISO, MDY"):
		b.query(f"set datestyle = {other}")
		assert a.value("show datestyle") == whole
		assert b.value("show datestyle") == other
	assert one.raw(params={"DateStyle": asked}).params["DateStyle"] == whole


@pytest.mark.parametrize("name", TRACKED)
def test_a_set_follows_its_client(one, name):
	skip_on_the_stand_in(name)
	a, b = one.raw(), one.raw()
	default = b.value(f"show {name}")
	a.query(f"set {name} = {TRACKED[name]}" if name == "DateStyle" else f"set {name} = '{TRACKED[name]}'")
	for _ in range(3):
		assert a.value(f"show {name}") == TRACKED[name]
		assert b.value(f"show {name}") == default


def test_the_client_is_told_of_a_change_as_postgresql_tells(pg, one):
	def told(client):
		client.query("set timezone = 'Asia/Tokyo'")
		first = client.params["TimeZone"]
		client.query("reset timezone")
		return first, client.params["TimeZone"]

	with Raw.login(pg.address, user="app", database="app") as direct:
		assert told(one.raw()) == told(direct)


def test_a_set_that_is_rolled_back_does_not_stick(one):
	a = one.raw()
	default = a.value("show timezone")
	a.query("begin")
	a.query("set timezone = 'Asia/Tokyo'")
	a.query("rollback")
	one.raw().query("select 1")
	assert a.value("show timezone") == default
	a.query("begin")
	a.query("set local timezone = 'Asia/Tokyo'")
	a.query("commit")
	assert a.value("show timezone") == default


@pytest.mark.pgweir("1.18 compares spellings for ever")
def test_two_spellings_of_one_value_cost_one_set(own_pg, pooler):
	"""DateStyle ISO is reported as 'ISO, MDY': not a difference (pgbouncer #776)."""
	pg = own_pg(settings={"log_statement": "all"})
	weir = pooler(pg, settings={"default_pool_size": 1})
	client = weir.raw(params={"datestyle": "ISO", "client_encoding": "utf-8"})
	client.query("select 1")
	mark = pg.mark()
	for _ in range(20):
		client.query("select 1")
	log = pg.log(mark).lower()
	assert log.count("set ") <= 1, log


@pytest.mark.pgweir("what 1.18 sends is its own affair")
def test_only_differences_are_sent(own_pg, pooler):
	pg = own_pg(settings={"log_statement": "all"})
	weir = pooler(pg, settings={"default_pool_size": 1})
	a, b = (weir.raw(params={"timezone": zone}) for zone in ("Asia/Tokyo", "Europe/Paris"))
	for client in (a, b):
		client.query("select 1")
	mark = pg.mark()
	for _ in range(10):
		assert a.value("show timezone") == "Asia/Tokyo"
		assert b.value("show timezone") == "Europe/Paris"
	lines = [line for line in pg.log(mark).splitlines() if "statement:" in line]
	sets = [line for line in lines if "show" not in line.lower() or "set " in line.lower()]
	assert len(sets) <= 21, lines


def test_quotes_and_backslashes_in_a_value_survive(one):
	a, b = one.raw(params={"application_name": r"it's \ a \"name\""}), one.raw()
	b.query("select 1")
	assert a.value("show application_name") == r"it's \ a \"name\""
	b.query("set standard_conforming_strings = off")
	assert b.value("select 1") == "1"
	assert a.value("show application_name") == r"it's \ a \"name\""


@pytest.mark.pgweir("1.18 loses it")
def test_an_empty_application_name_is_a_value(one):
	a, b = one.raw(params={"application_name": ""}), one.raw(params={"application_name": "b"})
	b.query("select 1")
	assert a.value("show application_name") == ""


@pytest.mark.parametrize("setting", ["lock_timeout to sdfs", "timezone = 'no/where'",
                                     "client_encoding = 'nope'"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_bad_value_is_the_error_of_its_own_statement(pg, one, setting, inside):
	def play(client):
		got = []
		if inside:
			got.append(client.talk(Q("begin")))
		got.append(client.talk(Q(f"set {setting}")))
		if inside:
			got.append(client.talk(Q("rollback")))
		got.append(client.talk(Q("select 2")))
		got.append(client.talk(P("", "select 3"), B(), E(), S))
		return got

	with Raw.login(pg.address, user="app", database="app",
	               params={"application_name": "rig"}) as direct:
		assert play(one.raw()) == play(direct)


@pytest.mark.pgweir("1.18 lets the client hang or go")
@pytest.mark.parametrize("name,value", [("timezone", "no/where"), ("client_encoding", "nope"),
                                        ("datestyle", "nonsense")])
def test_a_bad_startup_value_is_refused_as_postgresql_refuses_it(pg, one, name, value):
	with pytest.raises(ServerError) as right:
		Raw.login(pg.address, user="app", database="app", params={name: value})
	one.raw().query("select 1")
	with pytest.raises(ServerError) as got:
		one.raw(params={name: value}).query("select 1")
	assert got.value.sqlstate == right.value.sqlstate
	assert one.raw().value("select 1") == "1"


OPTIONS = ["-c timezone=UTC", "-ctimezone=Asia/Tokyo", "--timezone=Asia/Tokyo",
           r"-c  TimeZone=UTC -c datestyle=German", r"-c application_name=a\ b"]


@pytest.mark.pgweir("options are understood since 1.20")
@pytest.mark.parametrize("options", OPTIONS)
def test_options_are_read_as_postgresql_reads_them(pg, one, options):
	def seen(client):
		return [client.value(f"show {name}") for name in ("timezone", "datestyle", "application_name")]

	with Raw.login(pg.address, user="app", database="app", params={"options": options}) as direct:
		right = seen(direct)
	one.raw(params={"timezone": "Europe/Paris"}).query("select 1")
	assert seen(one.raw(params={"options": options})) == right


@pytest.mark.pgweir("options are understood since 1.20")
@pytest.mark.parametrize("options", ["-c", "-x", "-c timezone", "rubbish"])
def test_bad_options_are_refused(pg, one, options):
	with pytest.raises(ServerError):
		Raw.login(pg.address, user="app", database="app", params={"options": options})
	refused = one.refusal(params={"options": options})
	assert refused.severity == "FATAL"


@pytest.mark.parametrize("options", ["-c timezone=UTC\\", "--", "\\", " ", "", "-c =", "-c x=" + "y" * 3000])
def test_odd_options_harm_nobody(one, options):
	try:
		one.raw(params={"options": options})
	except ServerError as refused:
		assert refused.severity == "FATAL"
	assert one.raw().value("select 1") == "1"


@pytest.mark.pgweir("options are understood since 1.20")
def test_an_option_that_is_not_tracked_is_refused_unless_it_is_ignored(pg, pooler):
	weir = pooler()
	refused = weir.refusal(params={"options": "-c enable_seqscan=off"})
	assert "unsupported startup parameter in options: enable_seqscan" in refused.message
	weir.settings["ignore_startup_parameters"] = "enable_seqscan"
	weir.reload()
	assert weir.raw(params={"options": "-c enable_seqscan=off"}).value("show enable_seqscan") == "on"
	weir.settings["ignore_startup_parameters"] = "options"
	weir.reload()
	client = weir.raw(params={"options": "-c work_mem=1MB -c timezone=Asia/Tokyo"})
	assert client.value("show timezone") == "Asia/Tokyo"


def test_an_unknown_startup_parameter_is_refused_unless_it_is_ignored(pg, pooler):
	weir = pooler()
	refused = weir.refusal(params={"extra_float_digits": "3"})
	assert "unsupported startup parameter: extra_float_digits" in refused.message
	weir.settings["ignore_startup_parameters"] = "extra_float_digits, search_path"
	weir.reload()
	assert weir.raw(params={"extra_float_digits": "3"}).value("select 1") == "1"


@pytest.mark.pgweir("track_extra_parameters came with 1.20")
def test_a_tracked_parameter_that_is_not_reported_does_not_stick_to_the_server(pg, pooler):
	"""PostgreSQL 15 says nothing about enable_seqscan (pgbouncer PR 1576)."""
	weir = pooler(settings={"default_pool_size": 1,
	                        "track_extra_parameters": "IntervalStyle, enable_seqscan"})
	a = weir.raw(params={"options": "-c enable_seqscan=off"})
	assert a.value("show enable_seqscan") == "off"
	assert weir.raw().value("show enable_seqscan") == "on"
	assert a.value("show enable_seqscan") == "off"


def test_server_reset_query_always_wipes_what_is_not_tracked(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1, "server_reset_query_always": 1})
	a, b = weir.raw(), weir.raw()
	a.query("select pg_catalog.set_config('search_path', '', false)")
	a.query("select pg_advisory_lock(4711)")
	assert b.value("select count(*) from t") == "0"
	assert b.value("select pg_try_advisory_lock(4711)") == "t"


def test_a_default_changed_by_alter_role_reaches_new_servers(pg, one):
	a = one.raw(user="app3")
	a.query("select 1")
	try:
		pg.sql("alter role app3 set timezone = 'Asia/Tokyo'")
		one.admin("RECONNECT")
		if not stand_in():
			assert one.raw(user="app3").value("show timezone") == "Asia/Tokyo"
	finally:
		pg.sql("alter role app3 reset timezone")


def test_psql_sees_the_encoding_that_it_asked_for(pg, one):
	out = process.run(["psql", "-XAtc", "show client_encoding", one.dsn()],
	                  env={"PGCLIENTENCODING": "LATIN1"})
	assert out.stdout.strip() == "LATIN1"


def test_application_name_add_host_adds_it(pg, pooler):
	weir = pooler(settings={"application_name_add_host": 1})
	name = weir.raw(params={"application_name": "mine"}).value("show application_name")
	assert name.startswith("mine - 127.0.0.1:")
