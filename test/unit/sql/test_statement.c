/* Statements: where they end and what their first words say. Which texts PostgreSQL 15 accepts, and what a SET of them
 * leaves behind, was tried on one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "sql/statement.h"

/* The first statement of a text that is copied into a block of its exact size; *out lives on, its text does not. */
static void first_of(const char *sql, struct statement *out)
{
	size_t len = strlen(sql);
	char *exact = malloc(len ? len : 1);
	memcpy(exact, sql, len);
	struct scan s = scan_of(exact, len);
	assert_true(statement_next(&s, out));
	free(exact);
}

static void kind_is(const char *sql, enum statement_kind kind, const char *name)
{
	struct statement st;
	first_of(sql, &st);
	if (st.kind != kind)
		print_message("%s\n", sql);
	assert_int_equal(st.kind, kind);
	assert_string_equal(st.name, name);
}

/* value NULL: it has none. */
static void sets(const char *sql, enum statement_kind kind, const char *name, const char *value)
{
	struct statement st;
	kind_is(sql, kind, name);
	first_of(sql, &st);
	assert_string_equal(st.value, value ? value : "");
	assert_int_equal(st.has_value, value != NULL);
}

/* The statements of a text, each in brackets. */
static void splits(const char *sql, const char *expected)
{
	struct scan s = scan_of(sql, strlen(sql));
	struct statement st;
	char seen[1000] = "";
	size_t n = 0;
	while (statement_next(&s, &st))
		n += (size_t)snprintf(seen + n, sizeof(seen) - n, "[%.*s]", (int)st.text.len, (const char *)st.text.p);
	assert_string_equal(seen, expected);
	assert_false(statement_next(&s, &st));
}

static void a_text_of_nothing_has_no_statement(void **state)
{
	(void)state;
	splits("", "");
	splits(" ;;/* x */; -- y", "");
	struct scan s = scan_of(NULL, 0);
	struct statement st;
	assert_false(statement_next(&s, &st));
}

static void statements_end_at_semicolons(void **state)
{
	(void)state;
	splits("SELECT 1", "[SELECT 1]");
	splits("SET; SET LOCAL; a", "[SET][SET LOCAL][a]");
	splits(" SELECT 1 ; ; SELECT 2 -- x", "[SELECT 1][SELECT 2]");
	splits("/*a*/ SELECT 1 /*b*/; /*c*/ SELECT /*d*/ 2", "[SELECT 1][SELECT /*d*/ 2]");
}

static void semicolons_in_strings_names_and_comments_are_none(void **state)
{
	(void)state;
	splits("SELECT 'a;b'; SELECT 2", "[SELECT 'a;b'][SELECT 2]");
	splits("SELECT $$;$$; DELETE FROM t", "[SELECT $$;$$][DELETE FROM t]");
	splits("SELECT \";\" /* ; */ -- ;\n; b", "[SELECT \";\"][b]");
	splits("SELECT E'\\'; DELETE FROM t; --'", "[SELECT E'\\'; DELETE FROM t; --']");
	splits("SELECT '\\'; DELETE FROM t; --'", "[SELECT '\\'][DELETE FROM t]");
	splits("SELECT 'a; b", "[SELECT 'a; b]");
}

static void semicolons_in_parentheses_are_part_of_a_rule(void **state)
{
	(void)state;
	splits("CREATE RULE r AS ON INSERT TO t DO (DELETE FROM a; DELETE FROM b); x", "[CREATE RULE r AS ON INSERT TO t DO (DELETE FROM a; DELETE FROM b)][x]");
	splits("(a;b);c", "[(a;b)][c]");
	splits("a);b", "[a)][b]");
	splits("a);(b;c);d", "[a)][(b;c)][d]");
}

static void the_body_of_a_routine_is_part_of_it(void **state)
{
	(void)state;
	splits("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END; x", "[CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END][x]");
	splits("create or replace procedure p() begin atomic; end; x", "[create or replace procedure p() begin atomic; end][x]");
	splits("CREATE FUNCTION f() BEGIN ATOMIC END; x", "[CREATE FUNCTION f() BEGIN ATOMIC END][x]");
	splits("CREATE FUNCTION f() BEGIN ATOMIC a; b", "[CREATE FUNCTION f() BEGIN ATOMIC a; b]");
}

static void a_body_ends_only_where_a_statement_could_begin(void **state)
{
	(void)state;
	splits("CREATE FUNCTION f() BEGIN ATOMIC SELECT CASE WHEN a THEN b END; SELECT 1 end; SELECT 1 AS case; (a; end); END; x",
		"[CREATE FUNCTION f() BEGIN ATOMIC SELECT CASE WHEN a THEN b END; SELECT 1 end; SELECT 1 AS case; (a; end); END][x]");
}

static void only_a_routine_has_a_body(void **state)
{
	(void)state;
	splits("BEGIN ATOMIC; SELECT 1; END; x", "[BEGIN ATOMIC][SELECT 1][END][x]");
	splits("CREATE TABLE begin(atomic int); x", "[CREATE TABLE begin(atomic int)][x]");
	splits("CREATE FUNCTION f(begin atomic) AS 'x'; y", "[CREATE FUNCTION f(begin atomic) AS 'x'][y]");
	splits("CREATE FUNCTION f() AS $$ BEGIN a; END $$; y", "[CREATE FUNCTION f() AS $$ BEGIN a; END $$][y]");
	splits("CREATE FUNCTION begin() AS 'x'; y", "[CREATE FUNCTION begin() AS 'x'][y]");
}

static void transactions_begin_and_end(void **state)
{
	(void)state;
	static const char *const begins[] = {"BEGIN", "begin work", "BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE", "START TRANSACTION", "start /**/ transaction read only"};
	static const char *const ends[] = {"COMMIT", "commit work", "COMMIT AND CHAIN", "END", "end transaction", "ROLLBACK", "rollback work", "ROLLBACK AND NO CHAIN", "ABORT", "abort work"};
	static const char *const others[] = {"ROLLBACK TO s", "rollback to savepoint s", "ROLLBACK WORK TO s", "ROLLBACK TRANSACTION TO SAVEPOINT s", "COMMIT PREPARED 'x'",
		"ROLLBACK PREPARED 'x'", "PREPARE TRANSACTION 'x'", "SAVEPOINT s", "RELEASE s", "START", "\"begin\"", "beginx", "'begin'", "(begin)", "begi"};
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		kind_is(begins[i], STATEMENT_BEGIN, "");
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		kind_is(ends[i], STATEMENT_END, "");
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		kind_is(others[i], STATEMENT_OTHER, "");
}

static void a_set_has_a_name_and_a_value(void **state)
{
	(void)state;
	sets("SET statement_timeout = '5s'", STATEMENT_SET, "statement_timeout", "5s");
	sets("set Statement_Timeout to 10", STATEMENT_SET, "statement_timeout", "10");
	sets("SET SESSION a='x';", STATEMENT_SET, "a", "x");
	sets("SET a=-1", STATEMENT_SET, "a", "-1");
	sets("SET a = - 1.5", STATEMENT_SET, "a", "-1.5");
	sets("SET a = +5", STATEMENT_SET, "a", "5");
	sets("SET a = ON", STATEMENT_SET, "a", "on");
	sets("SET datestyle TO ISO", STATEMENT_SET, "datestyle", "iso");
	sets("SET \"TimeZone\" = \"Europe/Berlin\"", STATEMENT_SET, "TimeZone", "Europe/Berlin");
	sets("SET a = E'x\\ny'", STATEMENT_SET, "a", "x\ny");
	sets("SET a = 'x'\n'y'", STATEMENT_SET, "a", "xy");
	sets("SET a = $$x$$", STATEMENT_SET, "a", "x");
	sets("SET a = ''", STATEMENT_SET, "a", "");
	sets("SET synchronous_commit = local", STATEMENT_SET, "synchronous_commit", "local");
	sets("SET role = bob", STATEMENT_SET, "role", "bob");
}

static void a_custom_setting_has_its_whole_name(void **state)
{
	(void)state;
	sets("SET app.current_org = 'x'", STATEMENT_SET, "app.current_org", "x");
	sets("SET App . /**/ \"Org\" = 1", STATEMENT_SET, "app.Org", "1");
	sets("SET a.b.c TO x", STATEMENT_SET, "a.b.c", "x");
	sets("SET local.a = 1", STATEMENT_SET, "local.a", "1");
	sets("SET session.a = 1", STATEMENT_SET, "session.a", "1");
	sets("SET LOCAL local.a = 1", STATEMENT_SET_LOCAL, "local.a", "1");
	sets("SET role.a = 1", STATEMENT_SET, "role.a", "1");
	sets("SET transaction.a = 1", STATEMENT_SET, "transaction.a", "1");
	sets("SET names.a TO 1", STATEMENT_SET, "names.a", "1");
	sets("SET session = 1", STATEMENT_SET, "session", "1");
	sets("SET local TO 1", STATEMENT_SET, "local", "1");
}

static void default_and_lists_have_no_value(void **state)
{
	(void)state;
	sets("SET a TO DEFAULT", STATEMENT_SET, "a", NULL);
	sets("SET a = default", STATEMENT_SET, "a", NULL);
	sets("SET search_path = a, b", STATEMENT_SET, "search_path", NULL);
	sets("SET search_path TO 'a', 'b'", STATEMENT_SET, "search_path", NULL);
	sets("SET a FROM CURRENT", STATEMENT_SET, "a", NULL);
	sets("SET a = 'x", STATEMENT_SET, "a", NULL);
	sets("SET a =", STATEMENT_SET, "a", NULL);
	sets("SET a = U&'d!0061' UESCAPE '!'", STATEMENT_SET, "a", NULL);
	sets("SET a = $1", STATEMENT_SET, "a", NULL);
	sets("SET a = \"default\"", STATEMENT_SET, "a", "default");
	sets("SET a = - 'x'", STATEMENT_SET, "a", NULL);
}

static void a_value_that_does_not_fit_is_none(void **state)
{
	(void)state;
	char sql[400], value[300];
	memset(value, 'x', sizeof(value));
	value[255] = '\0';
	snprintf(sql, sizeof(sql), "SET a = '%s'", value);
	sets(sql, STATEMENT_SET, "a", value);
	value[255] = 'x', value[256] = '\0';
	snprintf(sql, sizeof(sql), "SET a = '%s'", value);
	sets(sql, STATEMENT_SET, "a", NULL);
	memset(value, '1', 255);
	value[255] = '\0';
	snprintf(sql, sizeof(sql), "SET a = -%s", value);
	sets(sql, STATEMENT_SET, "a", NULL);
}

static void phrases_of_set_stand_for_settings(void **state)
{
	(void)state;
	sets("SET TIME ZONE 'UTC'", STATEMENT_SET, "timezone", "UTC");
	sets("SET TIME ZONE utc", STATEMENT_SET, "timezone", "utc");
	sets("SET TIME ZONE -7", STATEMENT_SET, "timezone", "-7");
	sets("SET TIME ZONE LOCAL", STATEMENT_SET, "timezone", NULL);
	sets("SET TIME ZONE DEFAULT", STATEMENT_SET, "timezone", NULL);
	sets("SET TIME ZONE INTERVAL '1' HOUR", STATEMENT_SET, "timezone", NULL);
	sets("SET LOCAL TIME ZONE 'UTC'", STATEMENT_SET_LOCAL, "timezone", "UTC");
	sets("SET SESSION TIME ZONE 'UTC'", STATEMENT_SET, "timezone", "UTC");
	sets("SET NAMES 'LATIN1'", STATEMENT_SET, "client_encoding", "LATIN1");
	sets("SET NAMES", STATEMENT_SET, "client_encoding", NULL);
	sets("SET NAMES DEFAULT", STATEMENT_SET, "client_encoding", NULL);
	sets("SET SCHEMA 'My'", STATEMENT_SET, "search_path", "My");
}

static void set_local_is_told_apart(void **state)
{
	(void)state;
	sets("SET LOCAL work_mem = '8MB'", STATEMENT_SET_LOCAL, "work_mem", "8MB");
	sets("set local work_mem to default", STATEMENT_SET_LOCAL, "work_mem", NULL);
	kind_is("SET LOCAL ROLE bob", STATEMENT_SET_LOCAL, "role");
	kind_is("SET LOCAL SESSION AUTHORIZATION bob", STATEMENT_SET_LOCAL, "session_authorization");
}

static void other_sets_are_no_settings(void **state)
{
	(void)state;
	kind_is("SET TRANSACTION READ ONLY", STATEMENT_SET_OTHER, "");
	kind_is("SET LOCAL TRANSACTION READ ONLY", STATEMENT_SET_OTHER, "");
	kind_is("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", STATEMENT_SET_CHARACTERISTICS, "");
	kind_is("SET CONSTRAINTS ALL DEFERRED", STATEMENT_SET_OTHER, "");
	sets("SET ROLE bob", STATEMENT_SET_OTHER, "role", "bob");
	sets("SET SESSION ROLE NONE", STATEMENT_SET_OTHER, "role", "none");
	sets("SET SESSION AUTHORIZATION 'bob'", STATEMENT_SET_OTHER, "session_authorization", "bob");
	sets("SET SESSION SESSION AUTHORIZATION DEFAULT", STATEMENT_SET_OTHER, "session_authorization", NULL);
	kind_is("SET XML OPTION DOCUMENT", STATEMENT_SET_OTHER, "xmloption");
}

static void broken_sets_are_other_statements(void **state)
{
	(void)state;
	static const char *const texts[] = {"SET", "SET a", "SET a 1", "SET = 1", "SET a. = 1", "SET 'a' = 1", "SET LOCAL", "SET SESSION", "SET a := 1"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		sets(texts[i], STATEMENT_OTHER, "", NULL);
}

static void reset_and_show_have_names(void **state)
{
	(void)state;
	kind_is("RESET statement_timeout", STATEMENT_RESET, "statement_timeout");
	kind_is("RESET app.x", STATEMENT_RESET, "app.x");
	kind_is("RESET ALL", STATEMENT_RESET_ALL, "");
	kind_is("RESET \"all\"", STATEMENT_RESET, "all");
	kind_is("RESET ROLE", STATEMENT_RESET, "role");
	kind_is("RESET SESSION AUTHORIZATION", STATEMENT_RESET, "session_authorization");
	kind_is("RESET TIME ZONE", STATEMENT_RESET, "timezone");
	kind_is("RESET TRANSACTION ISOLATION LEVEL", STATEMENT_RESET, "transaction_isolation");
	kind_is("SHOW server_version", STATEMENT_SHOW, "server_version");
	kind_is("SHOW TIME ZONE", STATEMENT_SHOW, "timezone");
	kind_is("SHOW ALL", STATEMENT_SHOW, "all");
	kind_is("SHOW pgweir.org", STATEMENT_SHOW, "pgweir.org");
	kind_is("RESET", STATEMENT_OTHER, "");
}

static void prepared_statements_have_names(void **state)
{
	(void)state;
	kind_is("PREPARE Foo AS SELECT 1", STATEMENT_PREPARE, "foo");
	kind_is("PREPARE \"Foo\"(int) AS SELECT $1", STATEMENT_PREPARE, "Foo");
	kind_is("PREPARE transaction AS SELECT 1", STATEMENT_PREPARE, "transaction");
	kind_is("EXECUTE foo(1, 'x')", STATEMENT_EXECUTE, "foo");
	kind_is("DEALLOCATE foo", STATEMENT_DEALLOCATE, "foo");
	kind_is("DEALLOCATE PREPARE foo", STATEMENT_DEALLOCATE, "foo");
	kind_is("DEALLOCATE PREPARE", STATEMENT_DEALLOCATE, "prepare");
	kind_is("DEALLOCATE \"all\"", STATEMENT_DEALLOCATE, "all");
	kind_is("deallocate all", STATEMENT_DEALLOCATE_ALL, "");
	kind_is("DEALLOCATE PREPARE ALL", STATEMENT_DEALLOCATE_ALL, "");
}

static void the_rest_is_known_by_its_first_words(void **state)
{
	(void)state;
	kind_is("DISCARD ALL", STATEMENT_DISCARD_ALL, "");
	kind_is("DISCARD PLANS", STATEMENT_DISCARD, "plans");
	kind_is("DISCARD TEMP", STATEMENT_DISCARD, "temp");
	kind_is("LISTEN Ch", STATEMENT_LISTEN, "ch");
	kind_is("UNLISTEN ch", STATEMENT_UNLISTEN, "ch");
	kind_is("UNLISTEN *", STATEMENT_UNLISTEN, "*");
	kind_is("LOAD 'auto_explain'", STATEMENT_LOAD, "");
	kind_is("COPY t FROM STDIN", STATEMENT_COPY, "");
	kind_is("copy (SELECT 1) TO STDOUT", STATEMENT_COPY, "");
	kind_is("SELECT 1", STATEMENT_OTHER, "");
	kind_is("/* x */ -- y\n LISTEN ch", STATEMENT_LISTEN, "ch");
	kind_is("NOTIFY ch", STATEMENT_OTHER, "");
}

/* 63 bytes, but whole characters: NAMEDATALEN and pg_mbcliplen. */
static void a_longer_name_is_cut_at_63(void **state)
{
	(void)state;
	char sql[1100] = "LISTEN ", name[64] = "";
	memset(sql + 7, 'n', 1000);
	memset(name, 'n', 63);
	kind_is(sql, STATEMENT_LISTEN, name);
	sql[7 + 63] = '\0';
	kind_is(sql, STATEMENT_LISTEN, name);
	memcpy(sql + 7 + 61, "\xe2\x82\xac", 4);
	name[61] = '\0';
	kind_is(sql, STATEMENT_LISTEN, name);
	memcpy(sql + 7 + 60, "\xe2\x82\xac" "x", 5);
	memcpy(name + 60, "\xe2\x82\xac", 4);
	kind_is(sql, STATEMENT_LISTEN, name);
}

static void a_longer_dotted_name_is_cut_at_63(void **state)
{
	(void)state;
	char sql[300], name[200];
	memset(name, 'n', 60);
	for (size_t first = 55; first <= 80; first++) {
		memset(name, 'n', first);
		strcpy(name + first, ".org_of_mine");
		snprintf(sql, sizeof(sql), "RESET %s", name);
		struct statement st;
		first_of(sql, &st);
		assert_int_equal(st.kind, STATEMENT_RESET);
		assert_true(strlen(st.name) <= 63);
		assert_int_equal(strncmp(st.name, name, strlen(st.name)), 0);
		assert_true(strlen(st.name) >= 62);
	}
}

static void the_session_decides_about_backslashes(void **state)
{
	(void)state;
	struct statement st;
	static const char sql[] = "SET a = 'x\\'; y'; SET b = 1";
	struct scan s = scan_of(sql, strlen(sql));
	s.backslash = true;
	assert_true(statement_next(&s, &st));
	assert_string_equal(st.value, "x'; y");
	assert_true(statement_next(&s, &st));
	assert_string_equal(st.name, "b");
	assert_false(statement_next(&s, &st));
}

static void a_value_of_one_statement_does_not_reach_into_the_next(void **state)
{
	(void)state;
	struct scan s = scan_of("SET a = 'x'; UESCAPE '!'; RESET b", 33);
	struct statement st;
	assert_true(statement_next(&s, &st));
	assert_true(st.has_value);
	assert_true(statement_next(&s, &st));
	assert_int_equal(st.kind, STATEMENT_OTHER);
	assert_false(st.has_value);
	assert_string_equal(st.value, "");
	assert_true(statement_next(&s, &st));
	assert_string_equal(st.name, "b");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_of_nothing_has_no_statement),
		cmocka_unit_test(statements_end_at_semicolons),
		cmocka_unit_test(semicolons_in_strings_names_and_comments_are_none),
		cmocka_unit_test(semicolons_in_parentheses_are_part_of_a_rule),
		cmocka_unit_test(the_body_of_a_routine_is_part_of_it),
		cmocka_unit_test(a_body_ends_only_where_a_statement_could_begin),
		cmocka_unit_test(only_a_routine_has_a_body),
		cmocka_unit_test(transactions_begin_and_end),
		cmocka_unit_test(a_set_has_a_name_and_a_value),
		cmocka_unit_test(a_custom_setting_has_its_whole_name),
		cmocka_unit_test(default_and_lists_have_no_value),
		cmocka_unit_test(a_value_that_does_not_fit_is_none),
		cmocka_unit_test(phrases_of_set_stand_for_settings),
		cmocka_unit_test(set_local_is_told_apart),
		cmocka_unit_test(other_sets_are_no_settings),
		cmocka_unit_test(broken_sets_are_other_statements),
		cmocka_unit_test(reset_and_show_have_names),
		cmocka_unit_test(prepared_statements_have_names),
		cmocka_unit_test(the_rest_is_known_by_its_first_words),
		cmocka_unit_test(a_longer_name_is_cut_at_63),
		cmocka_unit_test(a_longer_dotted_name_is_cut_at_63),
		cmocka_unit_test(the_session_decides_about_backslashes),
		cmocka_unit_test(a_value_of_one_statement_does_not_reach_into_the_next),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
