/* What a text may do to its session. A row says what touch_find finds; the sieve must let through all that has something. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <string.h>

#include "sql/touch.h"

static char names[300];

/* a name, with - before it when it is reset, ~ when it is local, and its value behind = */
static void note_name(void *arg, const char *name, const char *value, enum touch_how how)
{
	static const char *const before[] = {[TOUCH_SET] = "", [TOUCH_RESET] = "-", [TOUCH_LOCAL] = "~"};
	(void)arg;
	size_t len = strlen(names);
	snprintf(names + len, sizeof(names) - len, "%s%s%s%s ", before[how], name ? name : "*", value ? "=" : "", value ? value : "");
}

/* The text in a block of its exact size. */
static struct touches touches_of(const char *sql, bool *may, enum touch_look look)
{
	size_t len = strlen(sql);
	uint8_t *exact = malloc(len ? len : 1);
	memcpy(exact, sql, len);
	names[0] = 0;
	*may = touch_may(exact, len, look);
	struct touches t = touch_find(scan_of(exact, len), note_name, NULL);
	free(exact);
	return t;
}

static void finds(const char *sql, unsigned asks, unsigned takes, const char *expected_names)
{
	bool may;
	struct touches t = touches_of(sql, &may, TOUCH_LOOK_FOR_GIVING_TOO);
	if (t.asks != asks || t.takes != takes || strcmp(names, expected_names) != 0)
		print_message("%s: asks %x takes %x names %s\n", sql, t.asks, t.takes, names);
	assert_int_equal(t.asks, asks);
	assert_int_equal(t.takes, takes);
	assert_string_equal(names, expected_names);
	if (asks)
		assert_true(may);
	t = touches_of(sql, &may, TOUCH_LOOK_FOR_TAKING);
	if (asks & ~TOUCH(GIVES))
		assert_true(may);
}

static void passes_the_sieve(const char *sql, bool expected)
{
	bool may;
	touches_of(sql, &may, TOUCH_LOOK_FOR_TAKING);
	if (may != expected)
		print_message("%s\n", sql);
	assert_int_equal(may, expected);
}

static void ordinary_statements_are_not_looked_at(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"", " ", ";", "SELECT 1", "SELECT abalance FROM pgbench_accounts WHERE aid = 1;", "select set_at, pg_table_size(x), a_temperature from t ;\n",
		"INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "DELETE FROM t", "BEGIN", "COMMIT", "END", "ROLLBACK TO SAVEPOINT a", "RELEASE a", "LOCK TABLE t",
		"COPY t FROM STDIN", "CALL p()", "DROP TABLE t", "CLOSE c", "DEALLOCATE a", "UNLISTEN *", "WITH a AS (SELECT 1) SELECT * FROM a", "FETCH 1 FROM c",
		"/* app */ SELECT 1", "-- x\n SELECT 1", "NOTIFY a", "TABLE t", "VALUES (1)", "(SELECT 1)", "SHOW search_path", "DELETE FROM temp_things",
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		passes_the_sieve(texts[i], false);
}

static void settings_are_found_by_name(void **state)
{
	(void)state;
	finds("SET search_path = a, b", TOUCH(NAMED), 0, "search_path ");
	finds("set session Work_Mem to '8MB'", TOUCH(NAMED), 0, "work_mem=8MB ");
	finds("SET app.user TO DEFAULT", TOUCH(NAMED), 0, "-app.user ");
	finds("SET SCHEMA 'x'", TOUCH(NAMED), 0, "search_path=x ");
	finds("SET ROLE bob", TOUCH(NAMED), 0, "role ");
	finds("SET SESSION AUTHORIZATION bob", TOUCH(NAMED), 0, "session_authorization ");
	finds("RESET search_path", TOUCH(NAMED), 0, "-search_path ");
	finds("RESET ALL", TOUCH(NAMED), 0, "-* ");
	finds("RESET ROLE", TOUCH(NAMED), 0, "-role ");
	finds("/* a /* b */ c */ SET a.b = 1", TOUCH(NAMED), 0, "a.b=1 ");
	finds("SELECT 1; SET a.b = 1; RESET c.d", TOUCH(NAMED), 0, "a.b=1 -c.d ");
	finds("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE", TOUCH(NAMED), 0,
	      "default_transaction_isolation default_transaction_read_only default_transaction_deferrable ");
}

static void what_is_local_is_nothing(void **state)
{
	(void)state;
	finds("SET LOCAL search_path = a", 0, 0, "~search_path ");
	finds("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", 0, 0, "");
	finds("SET CONSTRAINTS ALL DEFERRED", 0, 0, "");
	finds("SELECT set_config('a.b', $1, true)", 0, 0, "~a.b ");
	finds("SELECT pg_advisory_xact_lock(1), pg_try_advisory_xact_lock_shared(1)", 0, 0, "");
}

static void set_config_is_found_wherever_it_stands(void **state)
{
	(void)state;
	finds("SELECT set_config('a.b', 'x', false)", TOUCH(NAMED), 0, "a.b ");
	finds("SELECT pg_catalog.\"set_config\"('a.b', f(1, 2), $1)", TOUCH(NAMED), 0, "a.b ");
	finds("SELECT set_config($1, $2, $3)", TOUCH(SETTINGS), 0, "");
	finds("SELECT set_config('a' || x, y, false) FROM z", TOUCH(SETTINGS), 0, "");
	finds("SELECT set_config(n, v, false) FROM (VALUES ('a.b', 'x y'), ('work_mem', '1.5'), ('c.d', '')) x (n, v)", TOUCH(SETTINGS) | TOUCH(NAMED), 0, "a.b 1.5 c.d ");
	finds("WITH q AS (SELECT SET_CONFIG('search_path', (SELECT 'a'), false)) SELECT 1", TOUCH(NAMED), 0, "search_path ");
	finds("SELECT set_config('a.b', 'x', true), set_config('c.d', 'x', false)", TOUCH(NAMED), 0, "~a.b c.d ");
	finds("SELECT set_config('a.b', 'x', not true)", TOUCH(NAMED), 0, "a.b ");
	finds("UPDATE t SET a = set_config('a.b', 'x', false)", TOUCH(NAMED), 0, "a.b ");
}

static void ties_are_found(void **state)
{
	(void)state;
	finds("LISTEN a", TOUCH(LISTEN), TOUCH(LISTEN), "");
	finds("LOAD 'auto_explain'", TOUCH(LOAD), TOUCH(LOAD), "");
	finds("PREPARE p AS SELECT 1", TOUCH(PREPARE), TOUCH(PREPARE), "");
	finds("PREPARE TRANSACTION 'x'", 0, 0, "");
	finds("CREATE TEMP TABLE t (a int)", TOUCH(TEMP), TOUCH(TEMP), "");
	finds("create or replace local temporary view v as select 1", TOUCH(TEMP), TOUCH(TEMP), "");
	finds("CREATE TEMP TABLE t (a int) ON COMMIT DROP", TOUCH(TEMP), 0, "");
	finds("CREATE TABLE pg_temp.t (a int)", TOUCH(TEMP), 0, "");
	finds("CREATE TABLE t (temp int)", 0, 0, "");
	finds("SET search_path TO a, PG_TEMP", TOUCH(NAMED) | TOUCH(TEMP), 0, "search_path ");
	finds("SET LOCAL search_path TO 'pg_temp'", TOUCH(TEMP), 0, "~search_path ");
	finds("SELECT set_config('search_path', 'pg_temp', true)", TOUCH(TEMP), 0, "~search_path ");
	finds("SET work_mem = 'pg_temp'", TOUCH(NAMED), 0, "work_mem=pg_temp ");
	finds("SELECT a INTO TEMP t FROM b", TOUCH(TEMP), TOUCH(TEMP), "");
	finds("(SELECT a INTO TEMPORARY TABLE t FROM b)", TOUCH(TEMP), TOUCH(TEMP), "");
	finds("WITH q AS (SELECT 1) SELECT * INTO LOCAL TEMP t FROM q", TOUCH(TEMP), TOUCH(TEMP), "");
	finds("EXPLAIN ANALYZE CREATE TEMP TABLE t AS SELECT 1", TOUCH(TEMP), TOUCH(TEMP), "");
	finds("DECLARE c CURSOR WITH HOLD FOR SELECT 1", TOUCH(HOLD), TOUCH(HOLD), "");
	finds("DECLARE c SCROLL CURSOR FOR SELECT 1", 0, 0, "");
	finds("SELECT pg_advisory_lock(1)", TOUCH(LOCK), TOUCH(LOCK), "");
	finds("SELECT Pg_Try_Advisory_Lock_Shared($1, $2)", TOUCH(LOCK), TOUCH(LOCK), "");
	finds("SELECT 1; LISTEN a; LISTEN b", TOUCH(LISTEN), TOUCH(LISTEN), "");
	finds("DO $x$ BEGIN PERFORM set_config('a.b', '1', false); END $x$", TOUCH_ALL_TIES | TOUCH(SETTINGS) | TOUCH(NAMED) | TOUCH(GIVES), 0, "a.b ");
	finds("DO $$ BEGIN PERFORM 1; END $$", TOUCH_ALL_TIES | TOUCH(SETTINGS) | TOUCH(GIVES), 0, "");
}

static void a_call_by_oid_is_what_its_text_would_be(void **state)
{
	(void)state;
	finds(touch_text_of_call(2078), TOUCH(SETTINGS), 0, ""); /* set_config */
	finds(touch_text_of_call(2880), TOUCH(LOCK), TOUCH(LOCK), "");
	finds(touch_text_of_call(2889), TOUCH(LOCK), TOUCH(LOCK), "");
	finds(touch_text_of_call(2885), TOUCH(GIVES), 0, "");
	finds(touch_text_of_call(2892), TOUCH(GIVES), 0, "");
	assert_null(touch_text_of_call(0));
	assert_null(touch_text_of_call(952)); /* lo_open */
	assert_null(touch_text_of_call(3089)); /* pg_advisory_xact_lock */
}

static void giving_up_is_found(void **state)
{
	(void)state;
	finds("UNLISTEN *", TOUCH(GIVES), 0, "");
	finds("SELECT pg_advisory_unlock(1)", TOUCH(GIVES), 0, "");
	finds("DROP TABLE t", TOUCH(GIVES), 0, "");
	finds("CLOSE c", TOUCH(GIVES), 0, "");
	finds("DEALLOCATE p", TOUCH(GIVES), 0, "");
	finds("DISCARD TEMP", TOUCH(GIVES), 0, "");
	finds("DISCARD ALL", TOUCH(GIVES), 0, "");
}

static void strings_and_comments_do_nothing(void **state)
{
	(void)state;
	finds("SELECT 'set_config(''a'', ''b'', false)'", 0, 0, "");
	finds("SELECT $x$ LISTEN a; pg_advisory_lock(1) $x$", 0, 0, "");
	finds("SELECT 1 /* ; LISTEN a */", 0, 0, "");
}

static void the_session_decides_about_backslashes(void **state)
{
	(void)state;
	static const char sql[] = "SELECT 'a\\', set_config('a.b', '1', false), '; --\\''";
	struct scan scan = scan_of(sql, strlen(sql));
	names[0] = 0;
	assert_int_equal(touch_find(scan, note_name, NULL).asks, TOUCH(NAMED));
	assert_string_equal(names, "a.b ");
	scan.backslash = true; /* then the call stands in a string */
	names[0] = 0;
	assert_int_equal(touch_find(scan, note_name, NULL).asks, 0);
	static const char hidden[] = "SELECT 'a\\'; -- ', set_config('a.b', '1', false)";
	scan = scan_of(hidden, strlen(hidden));
	assert_int_equal(touch_find(scan, note_name, NULL).asks, 0);
	scan.backslash = true;
	assert_int_equal(touch_find(scan, note_name, NULL).asks, TOUCH(NAMED));
}

static void broken_texts_end(void **state)
{
	(void)state;
	static const char *const texts[] = {"SET", "SET a", "RESET", "CREATE", "CREATE TEMP", "SELECT set_config(", "SELECT set_config('a.b'", "SELECT set_config('a.b',", "SELECT set_config('a.b', (((",
					    "LISTEN", "DO", "EXPLAIN", "((((", "SELECT 1; SET '", "/*", "--", "SELECT set_config('"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		bool may;
		touches_of(texts[i], &may, TOUCH_LOOK_FOR_GIVING_TOO);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ordinary_statements_are_not_looked_at),
		cmocka_unit_test(settings_are_found_by_name),
		cmocka_unit_test(what_is_local_is_nothing),
		cmocka_unit_test(set_config_is_found_wherever_it_stands),
		cmocka_unit_test(ties_are_found),
		cmocka_unit_test(a_call_by_oid_is_what_its_text_would_be),
		cmocka_unit_test(giving_up_is_found),
		cmocka_unit_test(strings_and_comments_do_nothing),
		cmocka_unit_test(the_session_decides_about_backslashes),
		cmocka_unit_test(broken_texts_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
