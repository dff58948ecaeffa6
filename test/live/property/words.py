"""What the sequences are made of: names, texts of statements, values.

A row of texts is (text, kinds of its parameters); {t} is the client's own table, {u} its table with a
deferred constraint, {n} its number. A client sees only what it did itself, or the two sides could
differ by the order in which the clients come to their turns. For the same reason nothing depends on
the time, or on the order of rows in a heap: where a new row goes, PostgreSQL decides by which
transactions still see the old ones.
"""

NAMES = ["a", "b", "c", "d", "e"]
PORTALS = ["p", "q"]

ZONES = ["UTC", "Asia/Tokyo", "America/New_York", "Europe/Rome", "+03:30", "<+05>-05", "Mars/Base"]

# Those that PostgreSQL reports.
SETTINGS = {
	"timezone": ZONES,
	"datestyle": ["ISO, DMY", "German", "SQL, MDY", "Postgres, YMD", "nonsense", "DMY"],
	"intervalstyle": ["iso_8601", "sql_standard", "postgres_verbose", "postgres", "odd"],
	"application_name": ["one", "two's", "three \\ 3", "", "vier \u00e4", "; select 1 --", "$1", "x" * 70],
	"default_transaction_read_only": ["on", "off", "maybe", "1", "F"],
	"standard_conforming_strings": ["on", "off", "0"],
	"client_encoding": ["UTF8", "utf-8", "LATIN1", "win1252", "SQL_ASCII", "nosuch"],
}

# ... and some that it does not.
OTHERS = {
	# The tables stay in sight: where a statement has to be prepared again it is read under the path of that moment (documented).
	"search_path": ["public", "nowhere, public", '"$user", public', "pg_catalog, public", '"a ""b", public'],
	"work_mem": ["1MB", "2048", "-5", "64kB"], "extra_float_digits": ["0", "1", "3", "99"],
	"bytea_output": ["escape", "hex", "odd"], "client_min_messages": ["error", "notice", "warning"],
	"statement_timeout": ["1min", "50000", "0"], "default_transaction_isolation": ["serializable", "repeatable read"],
	"role": ["app", "none", "nobody"], "app.c{n}": ["one", "it's", "\\ and x", "; select 1 --", "", "z" * 2000],
	"enable_seqscan": ["off", "on"], "row_security": ["off", "on"], "check_function_bodies": ["off", "on"],
}

PLAIN = [
	("select 1", ""), ("select 'one' as x, null, ''", ""), ("select $1::int * 10", "i"),
	("select $1::text, $2::int", "ti"), ("select generate_series(1, 7)", ""),
	("select g, $1::text from generate_series(1, $2::int) g", "ts"), ("", ""), ("-- nothing", ""),
	("values (1), (2)", ""), ("select 10 / $1::int", "i"), ("select $1::int, $1::int", "i"),
	("select E'a\\\\b', '\u00fc\u20ac'", ""), ("explain (costs off) select 1", ""),
	("do $$ begin raise notice 'heard'; end $$", ""),
	("do $$ begin perform set_config('timezone', 'Asia/Tokyo', false); end $$", ""),
	("do $$ begin set local intervalstyle to iso_8601; end $$", ""),
]
# What their constants mean hangs on the settings of the moment when they are read, and that is not the same where they have to be prepared
# again (documented): so not for Parse.
READ_ONCE = ["select 'a\\b'", "select '01/02/2020'::date", "select timestamptz '2020-06-01 12:00'", "select interval '1-2'"]
LARGE = [
	("select repeat('ab', $1::int)", "l"), ("select g, repeat('x', 900) from generate_series(1, 60) g", ""),
	("select $1::text || $1", "t"), ("select repeat('y', 40000) from generate_series(1, 9)", ""),
]
TABLE = [
	("select * from {t} order by id limit 5", ""), ("select count(*) from {t}", ""),
	("insert into {t} values ($1, $2)", "it"), ("insert into {t} values ($1, $2) returning *", "it"),
	("insert into {t} values ($1, 'x') on conflict (id) do update set v = 'again'", "i"),
	("update {t} set v = $1 where id = $2", "ti"), ("delete from {t} where id < $1", "i"),
	("select v from {t} where id = $1", "i"), ("delete from {t}", ""), ("insert into {t} values (7, 'seven')", ""),
	("lock table {t} in share mode", ""), ("insert into {u} values ($1)", "i"),
	("insert into {u} values (1), (1)", ""), ("delete from {u}", ""), ("select count(*) from {u}", ""),
	("with w as (insert into {t} values ($1, 'w') on conflict do nothing returning id) select * from w", "i"),
]
SHOWN = [
	("show timezone", ""), ("show datestyle", ""), ("show application_name", ""),
	("select current_setting('intervalstyle')", ""),
	("select timestamptz '2020-06-01 12:00+00'", ""), ("select date '2020-12-31'", ""),
	("select interval '1 day 2 hours'", ""), ("show default_transaction_read_only", ""),
	("show transaction_read_only", ""), ("show standard_conforming_strings", ""), ("show client_encoding", ""),
	("select $1::timestamptz", "z"), ("select to_timestamp($1::int)", "i"),
]
OTHERS_SHOWN = [
	("show search_path", ""), ("show work_mem", ""), ("select 0.1::float4, 1.1::float8 / 3", ""), ("select decode('0141', 'hex')", ""),
	("show statement_timeout", ""), ("show transaction_isolation", ""), ("show default_transaction_isolation", ""),
	("select current_user, session_user", ""), ("show role", ""), ("show enable_seqscan", ""), ("show client_min_messages", ""),
	# A name of the application's own is the empty string and not unknown where it was set once: documented.
	("select coalesce(current_setting('app.c{n}', true), '')", ""), ("select current_setting($1)", "g"),
	("select set_config($1, $2, false)", "hv"), ("select current_schemas(false)", ""),
	("select pg_advisory_xact_lock({n})", ""), ("drop table if exists nosuch", ""),
]
WRONG = [
	("selekt 1", ""), ("select 1/0", ""), ("select nosuch", ""), ("select * from nosuch", ""),
	("select 1; select 2", ""), ("select $1", "t"), ("insert into {t} values (null)", ""),
	("select 'abc'::int", ""), ("copy nosuch from stdin", ""), ("select 6 / (4 - g) from generate_series(1, 6) g", ""),
	("do $$ begin raise exception 'odd' using errcode = 'AB123'; end $$", ""),
	("do $$ begin insert into {t} values (1, 'a'), (1, 'b'); end $$", ""),
	("select 'unterminated", ""), ("fetch 1 from nosuch", ""), ("execute nosuch", ""), ("show nosuch", ""),
]
CONTROL = [
	("begin", ""), ("commit", ""), ("rollback", ""), ("savepoint s1", ""), ("rollback to s1", ""),
	("release s1", ""), ("begin read only", ""), ("commit and chain", ""), ("rollback and chain", ""),
	("set transaction read only", ""), ("end", ""), ("abort", ""), ("set constraints all immediate", ""),
	("savepoint s2", ""), ("rollback to savepoint s2", ""),
]
# What ties a session to its server.
PINS = [
	("set app.c{n} to 'vier \u00e4'", ""), ("reset app.c{n}", ""),  # carried, unless the client's encoding is another than UTF8
	("listen ch{n}", ""), ("listen \"Other\"", ""), ("notify ch{n}, 'x'", ""), ("select pg_notify('ch{n}', $1)", "s"),
	("unlisten *", ""), ("unlisten ch{n}", ""),
	("select pg_advisory_lock({n})", ""), ("select pg_advisory_unlock({n})", ""), ("select pg_try_advisory_lock($1)", "i"),
	("select pg_advisory_lock_shared({n}, 1)", ""), ("select pg_advisory_unlock_all()", ""),
	("create temp table tt (x int)", ""), ("insert into tt values (1)", ""), ("select count(*) from tt", ""),
	("drop table if exists tt", ""), ("create temp table tc (x int) on commit drop", ""),
	("create temp view tv as select 5 as x", ""), ("select x from tv", ""), ("drop view tv", ""),
	("declare h cursor with hold for select generate_series(1, 9)", ""), ("fetch 2 from h", ""), ("close h", ""),
	("close all", ""), ("prepare sp as select 5", ""), ("prepare sq(int) as select $1 * 2", ""), ("execute sp", ""),
	("execute sq(4)", ""), ("deallocate sp", ""), ("deallocate sq", ""),
]
GIVE_UP = ["unlisten *", "select pg_advisory_unlock_all()", "drop table if exists tt", "drop view if exists tv", "close all",
           "deallocate all", "discard all", "discard temp"]

COPY_OUT = ["copy (select * from {t} order by id) to stdout", "copy (select generate_series(1, 4)) to stdout",
            "copy (select 1 / (2 - g) from generate_series(1, 4) g) to stdout", "copy (select 1 where false) to stdout",
            "copy (select repeat('z', 30000) from generate_series(1, 5)) to stdout", "copy nosuch to stdout",
            "copy (select 1) to stdout with (format binary)", "copy (select 1, 'two') to stdout csv header"]

# By their numbers in pg_proc.dat: int4pl, int4div, abs of int4, and none.
FUNCTIONS = [(177, "ii"), (154, "ii"), (1397, "i"), (1397, ""), (999999999, "i")]


def value(rng, kind):
	if rng.random() < 0.04:
		return rng.choice([None, "x", "", "99999999999"])
	if kind == "i":
		return str(rng.randint(0, 30))
	if kind == "s":
		return str(rng.randint(0, 4))
	if kind == "l":
		return str(rng.choice([10, 4000, 5000, 35000, 150000]))
	if kind == "g":
		return rng.choice(["work_mem", "search_path", "TimeZone", "bytea_output", "nosuch"])
	if kind == "h":
		return rng.choice(["work_mem", "TimeZone", "bytea_output", "nosuch"])
	if kind == "v":
		return rng.choice(["3MB", "UTC", "hex", "Asia/Tokyo"])
	if kind == "z":
		return rng.choice(["2020-01-02 03:04", "2001-02-03 04:05+06"])
	return rng.choice(["word", "o'clock", "b\\s", "\u00fc", "\u20ac", "x" * rng.choice([1, 50, 3000]),
	                   "y" * rng.choice([10, 100000])])


def quoted(value):
	if "\\" in value:
		return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
	return "'" + value.replace("'", "''") + "'"


def setting(rng):
	of = SETTINGS if rng.random() < 0.6 else OTHERS
	name = rng.choice(list(of))
	word = rng.choice(of[name])
	to = word if name == "search_path" or (name == "datestyle" and rng.random() < 0.7) else quoted(word)
	if rng.random() < 0.1:
		zone = rng.choice(["default", "local", "3", "-3.5", "interval '-08:00' hour to minute", quoted(word)])
		return f"/* so */ set time zone {zone}"
	return rng.choice([
		f"set {name} to {to}", f"SET SESSION {name} = {to}", f"set local {name} to {to}",
		f"set {name} to {to}", f"select set_config('{name}', {quoted(word)}, {rng.choice(['true', 'false'])})",
		f"reset {name}", f"set {name} to default", "reset all",
		# Of an application's own name that is not set it hangs on the server connection whether it is known: documented.
		f"set {name} from current" if "." not in name else f"set {name} to {to}",
		"set session characteristics as transaction read only",
		"set session characteristics as transaction read write",
	])


def deallocate(rng):
	return rng.choice(["deallocate all", "DEALLOCATE ALL", "/* x */ deallocate all", "discard all",
	                   "discard plans", "discard temp", "discard sequences", "deallocate nosuch",
	                   f"deallocate {rng.choice(NAMES)}", f"DEALLOCATE PREPARE {rng.choice(NAMES)}"])
