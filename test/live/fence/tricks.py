"""Scenes: what a client may send to write, or to make its session writable and write then, in whichever
messages. A scene is a list of batches, each a list of messages that are sent in one write.

LIFTERS   make the session writable when the transaction they are in commits
WRITERS   write, and do not look like it
"""

import struct

from rig.raw import B, C, D, E, H, P, Q, S, c, d, message

SETUP = [
	"CREATE TABLE kept (n int)",
	"CREATE PROCEDURE p_escape() LANGUAGE plpgsql AS $$BEGIN SET default_transaction_read_only = off; COMMIT; INSERT INTO w VALUES (1); COMMIT; END$$",
	"CREATE PROCEDURE p_escape_local() LANGUAGE plpgsql AS $$BEGIN PERFORM set_config('default_transaction_read_only', 'off', false); COMMIT; INSERT INTO w VALUES (1); END$$",
	"CREATE PROCEDURE p_local() LANGUAGE plpgsql AS $$BEGIN COMMIT; SET TRANSACTION READ WRITE; INSERT INTO w VALUES (1); COMMIT; END$$",
	"CREATE PROCEDURE p_nested() LANGUAGE plpgsql AS $$BEGIN CALL p_escape(); END$$",
	"CREATE PROCEDURE p_rollback() LANGUAGE plpgsql AS $$BEGIN ROLLBACK; SET TRANSACTION READ WRITE; INSERT INTO w VALUES (1); COMMIT; END$$",
	"CREATE PROCEDURE p_chain() LANGUAGE plpgsql AS $$BEGIN SET default_transaction_read_only = off; COMMIT AND CHAIN; COMMIT; INSERT INTO w VALUES (1); END$$",
	"CREATE FUNCTION f_lift_local() RETURNS text LANGUAGE sql AS $$SELECT set_config('transaction_read_only', 'off', true)$$",
	"CREATE FUNCTION f_immutable() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$BEGIN PERFORM f_write(1); RETURN 1; END$$",
	"CREATE FUNCTION f_immutable_flip() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$BEGIN PERFORM f_flip(); RETURN 1; END$$",
	"CREATE FUNCTION f_trap() RETURNS int LANGUAGE plpgsql AS $$BEGIN SET LOCAL transaction_read_only = off; INSERT INTO w VALUES (1); RETURN 1; EXCEPTION WHEN OTHERS THEN INSERT INTO w VALUES (1); RETURN 2; END$$",
	"CREATE FUNCTION f_define() RETURNS void LANGUAGE plpgsql AS $$BEGIN EXECUTE 'CREATE TABLE made (i int)'; END$$",
	"CREATE FUNCTION f_truncate() RETURNS void LANGUAGE plpgsql AS $$BEGIN TRUNCATE t; END$$",
	"CREATE FUNCTION f_sequence() RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RETURN nextval('s'); END$$",
	"CREATE FUNCTION f_role() RETURNS void LANGUAGE plpgsql AS $$BEGIN EXECUTE 'ALTER ROLE app SET work_mem = ''7MB'''; END$$",
	"CREATE FUNCTION f_owner() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'INSERT INTO w VALUES (1) RETURNING n'",
	"CREATE FUNCTION f_settings() RETURNS int LANGUAGE sql SET default_transaction_read_only = off AS 'INSERT INTO w VALUES (1) RETURNING n'",
	"CREATE VIEW v_rule AS SELECT id, x FROM t",
	"CREATE RULE r_insert AS ON INSERT TO v_rule DO INSTEAD INSERT INTO w VALUES (NEW.x)",
	"CREATE RULE r_update AS ON UPDATE TO v_rule DO INSTEAD DELETE FROM w",
	"CREATE TABLE hooked (i int)",
	"CREATE FUNCTION f_hook() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO w VALUES (2); RETURN NEW; END$$",
	"CREATE TRIGGER hook BEFORE INSERT ON hooked FOR EACH ROW EXECUTE FUNCTION f_hook()",
	"CREATE CONSTRAINT TRIGGER late AFTER INSERT ON hooked DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION f_hook()",
	"CREATE AGGREGATE a_write (int) (sfunc = f_write, stype = int)",
	"CREATE FUNCTION f_table(int) RETURNS TABLE (n int) LANGUAGE plpgsql AS $$BEGIN RETURN QUERY INSERT INTO w VALUES ($1) RETURNING 1; END$$",
	"CREATE VIEW v_notify AS SELECT pg_notify('ch', 'p')::text",
	"CREATE VIEW v_flip AS SELECT f_flip()",
	"CREATE VIEW v_lock AS SELECT pg_try_advisory_lock(42)",
]

LIFTERS = [
	"SELECT f_flip()",
	"CALL p_flip()",
	"DO $$BEGIN SET default_transaction_read_only = off; END$$",
	"DO $$BEGIN PERFORM set_config('default_' || 'transaction_read_only', 'off', false); END$$",
	"SELECT f_immutable_flip()",
]

WRITERS = [
	"SELECT f_write(1)",
	"CALL p_write()",
	"DO $$BEGIN INSERT INTO w VALUES (1); END$$",
	"SELECT * FROM f_table(1)",
	"SELECT f_define()",
]


def ext(text, portal="", *values):
	return [P("", text), B(portal, "", *values), E(portal)]


def lo(oid, *arguments):
	"""A function call by the fast path, with binary arguments of four bytes."""
	return message("F", struct.pack("!IHhH", oid, 1, 1, len(arguments)) + b"".join(
		struct.pack("!i", len(a)) + a for a in arguments) + struct.pack("!h", 1))


# How a lifter and a writer behind it may be sent.
CARRIERS = {
	"one simple message": lambda a, b: [[Q(f"{a}; COMMIT; {b}")]],
	"one simple message, implicitly": lambda a, b: [[Q(f"{a}; {b}")]],
	"one simple message in a block": lambda a, b: [[Q(f"BEGIN; {a}; COMMIT; BEGIN; {b}; COMMIT")]],
	"two simple messages in one write": lambda a, b: [[Q(a), Q(b)]],
	"two simple messages": lambda a, b: [[Q(a)], [Q(b)]],
	"a block, then a message": lambda a, b: [[Q("BEGIN"), Q(a), Q("COMMIT"), Q(b)]],
	"a block that is rolled back to a savepoint": lambda a, b: [[Q("BEGIN"), Q("SAVEPOINT s"), Q(a), Q("RELEASE s"), Q("COMMIT"), Q(b)]],
	"a chained block": lambda a, b: [[Q("BEGIN"), Q(a), Q("COMMIT AND CHAIN"), Q("COMMIT"), Q(b)]],
	"a block begun and ended beside it": lambda a, b: [[Q(f"BEGIN; {a}"), Q(f"COMMIT; {b}")]],
	"one pipeline": lambda a, b: [[*ext(a), *ext(b), S]],
	"one pipeline with a COMMIT": lambda a, b: [[*ext(a), *ext("COMMIT"), *ext(b), S]],
	"one pipeline with a block": lambda a, b: [[*ext("BEGIN"), *ext(a), *ext("COMMIT"), *ext(b), S]],
	"one pipeline with a chained block": lambda a, b: [[*ext("BEGIN"), *ext(a), *ext("COMMIT AND CHAIN"), *ext("COMMIT"), *ext(b), S]],
	"a pipeline of two Syncs": lambda a, b: [[*ext(a), S, *ext(b), S]],
	"a pipeline with Flush": lambda a, b: [[*ext(a), H], [*ext("COMMIT"), H], [*ext(b), S]],
	"a block and a pipeline that ends it": lambda a, b: [[Q("BEGIN")], [*ext(a), *ext("COMMIT"), *ext(b), S]],
	"a COMMIT bound before": lambda a, b: [[P("k", "COMMIT"), B("k", "k"), *ext(a), E("k"), *ext(b), S]],
	"a COMMIT bound before, in a block": lambda a, b: [[Q("BEGIN")], [P("k", "COMMIT"), B("k", "k"), S], [*ext(a), E("k"), *ext(b), S]],
	"a BEGIN bound and not run": lambda a, b: [[P("k", "BEGIN"), B("k", "k"), *ext(a), S, *ext(b), S]],
	"a COMMIT in the unnamed portal": lambda a, b: [[Q("BEGIN")], [P("l", a), B("l", "l"), P("", "COMMIT"), B(), S], [E("l"), E(), *ext(b), S]],
	"names prepared ahead": lambda a, b: [[P("a", a), P("b", b), P("k", "COMMIT"), S], [B("", "a"), E(), B("", "k"), E(), B("", "b"), E(), S]],
	"named portals": lambda a, b: [[*ext(a, "x"), *ext(b, "y"), S]],
	"a simple message behind extended ones": lambda a, b: [[*ext(a), Q(b), S]],
	"an extended one behind a simple one": lambda a, b: [[Q(a), *ext(b), S]],
}


def carried():
	"""Each carrier with each lifter, the writers in turn."""
	n = 0
	for name, carry in CARRIERS.items():
		for lifter in LIFTERS:
			writer = WRITERS[n % len(WRITERS)]
			n += 1
			yield f"{name}: {lifter} / {writer}", carry(lifter, writer)


ALONE = {
	# Procedures and blocks that end their transactions
	**{f"{text} {how}": [batch(text)] for text in (
		"CALL p_escape()", "CALL p_escape_local()", "CALL p_local()", "CALL p_nested()", "CALL p_rollback()", "CALL p_chain()",
		"DO $$BEGIN SET default_transaction_read_only = off; COMMIT; INSERT INTO w VALUES (1); END$$",
		"DO $$BEGIN COMMIT; SET TRANSACTION READ WRITE; INSERT INTO w VALUES (1); END$$",
		"DO $$BEGIN ROLLBACK; SET LOCAL transaction_read_only = off; INSERT INTO w VALUES (1); END$$",
	) for how, batch in {"simple": lambda t: [Q(t)], "extended": lambda t: [*ext(t), S],
	                     "behind a read": lambda t: [*ext("SELECT 1"), S, *ext(t), S]}.items()},
	# Functions
	**{text: [[Q(text)]] for text in (
		"SELECT f_trap()", "SELECT f_define()", "SELECT f_truncate()", "SELECT f_sequence()", "SELECT f_role()", "SELECT f_owner()",
		"SELECT f_settings()", "SELECT a_write(id) FROM t", "SELECT f_immutable()", "SELECT * FROM t WHERE f_write(id) > 0",
		"SELECT id FROM t ORDER BY f_write(id)", "SELECT count(*) FROM t GROUP BY f_write(id)", "VALUES (f_write(1))",
		"SELECT 1 LIMIT f_write(1)", "WITH a AS MATERIALIZED (SELECT f_write(1)) SELECT * FROM a", "EXPLAIN ANALYZE SELECT f_write(1)",
		"EXPLAIN SELECT f_immutable()", "EXPLAIN (ANALYZE, COSTS OFF) INSERT INTO w VALUES (1)", "EXPLAIN ANALYZE CREATE TABLE made AS SELECT 1",
		"COPY (SELECT f_write(1)) TO STDOUT", "COPY (INSERT INTO w VALUES (1) RETURNING n) TO STDOUT",
		"PREPARE x AS SELECT f_write(1); EXECUTE x", "SELECT f_write(1) \\gexec",
	)},
	"an immutable function that is planned and not run": [[P("", "SELECT f_immutable()"), B(), S]],
	# Settings whose names stand in values
	"set_config with a bound name": [[P("", "SELECT set_config($1, $2, false)"), B("", "", "default_transaction_read_only", "off"), E(), S],
	                                 [Q("SELECT f_write(1)")]],
	"set_config with a bound name, and COMMIT": [[P("", "SELECT set_config($1, $2, false)"), B("", "", "default_transaction_read_only", "off"), E(),
	                                              *ext("COMMIT"), *ext("SELECT f_write(1)"), S]],
	"set_config with a computed name": [[Q("SELECT set_config(reverse('ylno_daer_noitcasnart_tluafed'), 'off', false)"), Q("SELECT f_write(1)")]],
	"set_config for a block": [[Q("BEGIN"), Q("SELECT set_config('transaction_read' || '_only', 'off', true)"), Q("SELECT f_write(1)"), Q("COMMIT")]],
	"a function that lifts its transaction": [[Q("BEGIN"), Q("SELECT f_lift_local()"), Q("SELECT f_write(1)"), Q("COMMIT")]],
	**{f"{text}, then a write": [[Q(text), Q("SELECT f_write(1)")], [Q("COMMIT")]] for text in (
		"SET default_transaction_read_only = off", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "BEGIN READ WRITE",
		"START TRANSACTION READ WRITE", "BEGIN; SET TRANSACTION READ WRITE", "BEGIN; SET LOCAL transaction_read_only TO 'off'",
		"BEGIN; SET \"transaction_read_only\" = 0", "SET \"Default_Transaction_Read_Only\" TO DEFAULT", "RESET default_transaction_read_only",
		"SET u&\"default!005ftransaction_read_only\" uescape '!' = off", "SET default_transaction_read_only FROM CURRENT",
		"BEGIN ISOLATION LEVEL SERIALIZABLE, READ WRITE", "COMMIT AND CHAIN; SET TRANSACTION READ WRITE", "RESET ALL", "DISCARD ALL",
	)},
	"READ WRITE before the first query of a block": [[*ext("BEGIN"), *ext("SET TRANSACTION READ WRITE"), *ext("INSERT INTO w VALUES (1)"), *ext("COMMIT"), S]],
	# COPY
	"COPY FROM in the simple protocol": [[Q("COPY w FROM STDIN"), d(b"1\n"), c]],
	"COPY FROM in the extended protocol": [[*ext("COPY w FROM STDIN"), d(b"1\n"), c, S]],
	"COPY FROM among others": [[Q("SELECT 1; COPY w FROM STDIN"), d(b"1\n"), c]],
	"COPY FROM into a view": [[Q("COPY hooked FROM STDIN"), d(b"1\n"), c]],
	# Large objects
	"lo_creat by the fast path": [[lo(957, struct.pack("!i", 0x20000))]],
	"lo_create by the fast path": [[lo(715, struct.pack("!i", 0))]],
	"lo_unlink by the fast path in a block": [[Q("BEGIN"), lo(964, struct.pack("!i", 4711)), Q("COMMIT")]],
	"lo_put by SQL": [[Q("SELECT lo_put(4711, 0, 'x')")]],
	"lo_from_bytea by SQL": [[*ext("SELECT lo_from_bytea(0, 'x')"), S]],
	"lowrite in a block": [[Q("BEGIN"), Q("SELECT lowrite(lo_open(4711, 131072), 'x')"), Q("COMMIT")]],
	"lo_truncate": [[Q("BEGIN"), Q("SELECT lo_truncate(lo_open(4711, 131072), 0)"), Q("COMMIT")]],
	"txid_current by the fast path": [[lo(2943)]],
	# Two-phase commit
	"PREPARE TRANSACTION": [[Q("BEGIN"), Q("SELECT f_write(1)"), Q("PREPARE TRANSACTION 'x1'")]],
	"PREPARE TRANSACTION, extended": [[*ext("BEGIN"), *ext("INSERT INTO w VALUES (1)"), *ext("PREPARE TRANSACTION 'x2'"), S]],
	"COMMIT PREPARED": [[Q("COMMIT PREPARED 'waiting'")]],
	"ROLLBACK PREPARED": [[*ext("ROLLBACK PREPARED 'waiting'"), S]],
	# Rules and triggers
	"a view with a rule": [[Q("INSERT INTO v_rule VALUES (1, 1)")]],
	"a view with a rule, extended": [[*ext("UPDATE v_rule SET x = 1"), S]],
	"a trigger": [[Q("INSERT INTO hooked VALUES (1)")]],
	"a deferred trigger": [[Q("BEGIN"), Q("INSERT INTO hooked VALUES (1)"), Q("COMMIT")]],
	# Cursors
	"a cursor": [[Q("BEGIN"), Q("DECLARE k CURSOR FOR SELECT f_write(1)"), Q("FETCH k"), Q("COMMIT")]],
	"a cursor WITH HOLD": [[Q("DECLARE k CURSOR WITH HOLD FOR SELECT f_write(1)")]],
	"a cursor WITH HOLD in a block": [[Q("BEGIN"), Q("DECLARE k CURSOR WITH HOLD FOR SELECT f_write(1)"), Q("COMMIT"), Q("FETCH ALL FROM k")]],
	"a portal read in steps": [[Q("BEGIN")], [P("", "SELECT f_set(g) FROM generate_series(1, 9) g"), B("k"), E("k", 1), S], [E("k", 1), S], [Q("COMMIT")]],
	"WHERE CURRENT OF": [[Q("BEGIN"), Q("DECLARE k CURSOR FOR SELECT id FROM t"), Q("FETCH k"), Q("UPDATE t SET x = 0 WHERE CURRENT OF k"), Q("COMMIT")]],
	# SQL's own prepared statements, by SQL and by the protocol
	"PREPARE and EXECUTE": [[Q("PREPARE x AS SELECT f_write(1)")], [Q("EXECUTE x")]],
	"PREPARE and Bind": [[Q("PREPARE x AS SELECT f_write(1)")], [B("", "x"), E(), S]],
	"PREPARE of a write, and EXECUTE": [[Q("PREPARE x AS INSERT INTO w VALUES (1)")], [Q("EXECUTE x")]],
	"EXECUTE in EXPLAIN ANALYZE": [[Q("PREPARE x AS SELECT f_write(1)")], [Q("EXPLAIN ANALYZE EXECUTE x")]],
	# How texts are read
	"a string that ends elsewhere": [[Q("SET standard_conforming_strings = off")], [Q("SELECT '\\'' || f_write(1)::text --'")]],
	"a string that ends elsewhere, in one batch": [[*ext("SET standard_conforming_strings = off"),
	                                               *ext("SELECT '\\'' || f_write(1)::text --'"), S]],
	"an encoding that hides a quote": [[Q("SET client_encoding = 'SJIS'"),
	                                    message("Q", b"SELECT '\x95\x5c', f_write(1) --'\0")]],
	"an encoding that hides a quote, in one batch": [[*ext("SET client_encoding = 'SJIS'"), message("P", b"\0SELECT '\x95\x5c', f_write(1) --'\0\0\0"), B(), E(), S]],
	# A text that is not looked at as a whole
	"a long text": [[Q("SELECT 1 /*" + "x" * 300_000 + "*/; INSERT INTO w VALUES (1)")]],
	"a long text, extended": [[*ext("INSERT INTO w VALUES (1) /*" + "x" * 300_000 + "*/"), S]],
	# Others that a read-only session lets through
	**{text: [[Q(text)], [*ext(text), S]] for text in (
		"NOTIFY ch", "SELECT pg_notify('ch', 'p')", "SELECT pg_advisory_lock(7)", "SELECT pg_logical_emit_message(true, 'a', 'b')",
		"SELECT txid_current()", "SELECT nextval('s')", "SELECT setval('s', 99)",
	)},
	"CREATE TEMP TABLE": [[Q("CREATE TEMP TABLE z (i int)")]],
	"SELECT INTO": [[Q("SELECT 1 AS i INTO made")]],
	"SELECT FOR UPDATE": [[Q("SELECT * FROM t FOR UPDATE")]],
	"ALTER SYSTEM": [[Q("ALTER SYSTEM SET work_mem = '6MB'")]],
	"ALTER ROLE": [[Q("ALTER ROLE app SET statement_timeout = '1h'")]],
	"REFRESH and REINDEX": [[Q("REINDEX TABLE t")]],
}
