/* The classifier on statements whose class was found out on a server (classes.tsv), and on the corners around them. What
 * is called a read is also held against a real server, see test/live/test_classify.py. Texts are copied into blocks of
 * their exact size, so that a read past the end is seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

#include "lines.h"
#include "sql/classify.h"

static const char *const class_names[] = {[CLASS_READ] = "read", [CLASS_UNKNOWN] = "unknown", [CLASS_FLIP] = "read-write-flip", [CLASS_WRITE] = "write"};

static struct classified classified_len(const char *sql, size_t len, unsigned reading)
{
	uint8_t *exact = malloc(len ? len : 1);
	memcpy(exact, sql, len);
	struct classified c = classify((struct span){exact, len}, reading);
	free(exact);
	return c;
}

static struct classified classified(const char *sql, unsigned reading)
{
	return classified_len(sql, strlen(sql), reading);
}

static void class_is(const char *sql, enum sql_class expected)
{
	enum sql_class seen = classified(sql, READING_CONFORMING).class;
	if (seen != expected)
		fail_msg("%s: %s, not %s", class_names[seen], sql, class_names[expected]);
}

static void acts_are(const char *sql, enum sql_class class, unsigned acts)
{
	struct classified c = classified(sql, READING_CONFORMING);
	class_is(sql, class);
	if (c.acts != acts)
		fail_msg("acts %#x, not %#x: %s", c.acts, acts, sql);
}

/* --- the table */

static void each_statement_of_the_table_has_its_class(void **state)
{
	(void)state;
	struct lines lines = lines_of("classes.tsv");
	int seen = 0;
	for (; lines_next(&lines); seen++) {
		struct classified c = classified_len(lines.rest, lines.rest_len, READING_CONFORMING);
		if (strcmp(class_names[c.class], lines.first) != 0)
			fail_msg("%s, not %s: %s", class_names[c.class], lines.first, lines.rest);
	}
	assert_int_equal(seen, 257);
}

static void without_a_backslash_the_reading_of_strings_does_not_matter(void **state)
{
	(void)state;
	struct lines lines = lines_of("classes.tsv");
	while (lines_next(&lines)) {
		struct classified on = classified_len(lines.rest, lines.rest_len, READING_CONFORMING);
		struct classified off = classified_len(lines.rest, lines.rest_len, READING_BACKSLASH);
		struct classified either = classified_len(lines.rest, lines.rest_len, READING_EITHER);
		if (!strchr(lines.rest, '\\'))
			assert_true(on.class == off.class && on.acts == off.acts && on.statements == off.statements);
		assert_true(either.class == (on.class > off.class ? on.class : off.class));
		assert_int_equal(either.acts, on.acts | off.acts);
	}
}

static void a_write_behind_any_statement_makes_a_write(void **state)
{
	(void)state;
	struct lines lines = lines_of("classes.tsv");
	while (lines_next(&lines)) {
		char both[5000];
		snprintf(both, sizeof(both), "%s\n;DELETE FROM t", lines.rest);
		if (classified(both, READING_CONFORMING).class != CLASS_WRITE)
			fail_msg("not a write: %s", both);
	}
}

/* The search relies on it. */
static void rows_are_in_order(void **state)
{
	(void)state;
	static const char *const verbs[] = {
#define VERB(word, kind) word,
#include "sql/classes.def"
#undef VERB
	}, *const words[] = {
#define WORD(word, mark) word,
#include "sql/classes.def"
#undef WORD
	};
	for (size_t i = 1; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		assert_true(strlen(verbs[i - 1]) < strlen(verbs[i]) || (strlen(verbs[i - 1]) == strlen(verbs[i]) && strcmp(verbs[i - 1], verbs[i]) < 0));
	for (size_t i = 1; i < sizeof(words) / sizeof(words[0]); i++)
		assert_true(strlen(words[i - 1]) < strlen(words[i]) || (strlen(words[i - 1]) == strlen(words[i]) && strcmp(words[i - 1], words[i]) < 0));
}

/* Spaces, letters and comments that PostgreSQL does not mind; nothing of it inside of strings and names. */
static void case_and_comments_do_not_matter(void **state)
{
	(void)state;
	class_is("sElEcT nExTvAl /*x*/ --y\n ('s')", CLASS_WRITE);
	class_is("\f\r\n\t/*/**/*/--\rdElEtE/**/fRoM t", CLASS_WRITE);
	class_is("SET/**/TRANSACTION--\nREAD/**/WRITE", CLASS_FLIP);
	class_is("SELECT 1 FOR/**/uPdAtE", CLASS_WRITE);
}

/* --- where strings end */

static void a_backslash_hides_what_follows_only_where_it_escapes(void **state)
{
	(void)state;
	const char *hidden_when_off = "SELECT '\\'; DELETE FROM t; --'", *hidden_when_on = "SELECT '\\''; DELETE FROM t; --'";
	assert_int_equal(classified(hidden_when_off, READING_CONFORMING).class, CLASS_WRITE);
	assert_int_equal(classified(hidden_when_off, READING_BACKSLASH).class, CLASS_READ);
	assert_int_equal(classified(hidden_when_off, READING_EITHER).class, CLASS_WRITE);
	assert_int_equal(classified(hidden_when_on, READING_CONFORMING).class, CLASS_READ);
	assert_int_equal(classified(hidden_when_on, READING_BACKSLASH).class, CLASS_WRITE);
	assert_int_equal(classified(hidden_when_on, READING_EITHER).class, CLASS_WRITE);
	assert_int_equal(classified(hidden_when_on, READING_EITHER | READING_BACKSLASH).class, CLASS_WRITE);
}

static void a_text_that_ends_inside_of_a_string_is_unknown(void **state)
{
	(void)state;
	class_is("SELECT 'a", CLASS_UNKNOWN);
	class_is("SELECT \"a", CLASS_UNKNOWN);
	class_is("SELECT $a$ $b$", CLASS_UNKNOWN);
	class_is("SELECT 1 /*", CLASS_UNKNOWN);
	class_is("'", CLASS_UNKNOWN);
}

static void bytes_above_ascii_make_a_write_where_the_encoding_is_odd(void **state)
{
	(void)state;
	assert_int_equal(classified("SELECT '\x83\\'", READING_CONFORMING).class, CLASS_READ);
	assert_int_equal(classified("SELECT '\x83\\'", READING_ODD_ENCODING).class, CLASS_WRITE);
	assert_int_equal(classified("SELECT '\\'", READING_ODD_ENCODING).class, CLASS_READ);
}

static void encodings_that_only_clients_have_are_odd(void **state)
{
	(void)state;
	static const char *const plain[] = {"UTF8", "SQL_ASCII", "LATIN1", "LATIN10", "WIN1252", "WIN866", "ISO_8859_5", "KOI8R", "EUC_JP", "EUC_JIS_2004", "MULE_INTERNAL"};
	static const char *const odd[] = {"SJIS", "SHIFT_JIS_2004", "BIG5", "GBK", "UHC", "GB18030", "JOHAB", "WIN932", "WIN950", "", "nonsense"};
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		assert_true(classify_reads_encoding(plain[i]));
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		assert_false(classify_reads_encoding(odd[i]));
}

/* --- several statements */

static void statements_are_counted_and_the_worst_holds(void **state)
{
	(void)state;
	assert_int_equal(classified("", READING_CONFORMING).statements, 0);
	assert_int_equal(classified(" ;; -- x", READING_CONFORMING).statements, 0);
	assert_int_equal(classified("SELECT 1;;SELECT 2;", READING_CONFORMING).statements, 2);
	assert_int_equal(classified("CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2); SELECT 3", READING_CONFORMING).statements, 2);
	assert_int_equal(classified("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END; SELECT 3", READING_CONFORMING).statements, 2);
	class_is("SELECT f(); SET default_transaction_read_only = on", CLASS_FLIP);
	class_is("COMMIT; SELECT 1", CLASS_UNKNOWN);
}

/* A statement that breaks off does not take the next one with it. */
static void no_statement_reaches_beyond_its_semicolon(void **state)
{
	(void)state;
	static const char *const broken[] = {
		"EXPLAIN", "EXPLAIN (", "EXPLAIN (ANALYZE", "EXPLAIN (ANALYZE off,", "EXPLAIN (COSTS", "COPY", "COPY (", "COPY (SELECT 1) TO", "COPY t (", "DECLARE c CURSOR FOR",
		"PREPARE", "PREPARE p (", "PREPARE p AS", "SET", "SET x =", "SET TRANSACTION READ", "RESET", "DISCARD", "START", "COMMIT AND", "ROLLBACK TO", "LOCK t IN ACCESS",
		"WITH", "SELECT f", "SELECT (", "SELECT 1 FOR", "SELECT set_config(", "SELECT 1::", "BEGIN READ", "SHOW", "SELECT * FROM t, f(a) AS (",
	};
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		char both[200];
		snprintf(both, sizeof(both), "%s;BEGIN READ ONLY", broken[i]);
		struct classified c = classified(both, READING_CONFORMING);
		if (c.statements != 2 || !(c.acts & ACT_BEGIN))
			fail_msg("%u statements: %s", c.statements, both);
	}
}

static void one_statement_after_the_other_has_its_own_class(void **state)
{
	(void)state;
	static const enum sql_class expected[] = {CLASS_READ, CLASS_WRITE, CLASS_UNKNOWN, CLASS_READ, CLASS_UNKNOWN};
	const char *sql = "BEGIN; CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2);; CALL p();SELECT 1; COMMIT;";
	struct scan s = scan_of(sql, strlen(sql));
	struct classified c;
	size_t n = 0;
	for (; classify_next(&s, &c); n++) {
		assert_int_equal(c.class, expected[n]);
		assert_int_equal(c.statements, 1);
	}
	assert_int_equal(n, 5);
	assert_false(classify_next(&s, &c));
	assert_int_equal(c.statements, 0);
}

/* --- acts */

static void transactions_begin_and_end(void **state)
{
	(void)state;
	acts_are("BEGIN", CLASS_READ, ACT_BEGIN);
	acts_are("BEGIN WORK ISOLATION LEVEL READ COMMITTED", CLASS_READ, ACT_BEGIN);
	acts_are("BEGIN READ ONLY", CLASS_FLIP, ACT_BEGIN | ACT_READ_ONLY);
	acts_are("BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE", CLASS_FLIP, ACT_BEGIN | ACT_LIFT);
	acts_are("BEGIN READ ONLY, READ WRITE", CLASS_FLIP, ACT_BEGIN | ACT_READ_ONLY | ACT_LIFT);
	acts_are("START TRANSACTION READ ONLY", CLASS_FLIP, ACT_BEGIN | ACT_READ_ONLY);
	acts_are("START", CLASS_UNKNOWN, ACT_RUNS_UNKNOWN);
	acts_are("START_REPLICATION 0/0", CLASS_UNKNOWN, ACT_RUNS_UNKNOWN);
	acts_are("COMMIT", CLASS_UNKNOWN, ACT_COMMIT);
	acts_are("END WORK AND CHAIN", CLASS_UNKNOWN, ACT_COMMIT | ACT_CHAIN);
	acts_are("COMMIT AND NO CHAIN", CLASS_UNKNOWN, ACT_COMMIT);
	acts_are("ROLLBACK", CLASS_READ, ACT_ROLLBACK);
	acts_are("ABORT TRANSACTION AND CHAIN", CLASS_READ, ACT_ROLLBACK | ACT_CHAIN);
	acts_are("SAVEPOINT a; RELEASE a; ROLLBACK TO a; ROLLBACK WORK TO SAVEPOINT a", CLASS_READ, ACT_SAVEPOINT);
	acts_are("PREPARE TRANSACTION 'x'", CLASS_WRITE, ACT_TWO_PHASE);
	acts_are("COMMIT PREPARED 'x'", CLASS_WRITE, ACT_TWO_PHASE);
	acts_are("ROLLBACK PREPARED 'x'", CLASS_WRITE, ACT_TWO_PHASE);
	acts_are("SELECT 1; COMMIT", CLASS_UNKNOWN, ACT_COMMIT);
	acts_are("CALL p(); COMMIT", CLASS_UNKNOWN, ACT_COMMIT | ACT_RUNS_UNKNOWN);
}

static void what_touches_the_fence_is_told_apart(void **state)
{
	(void)state;
	acts_are("RESET ALL", CLASS_FLIP, ACT_RESET_ALL);
	acts_are("DISCARD ALL", CLASS_FLIP, ACT_DISCARD_ALL);
	acts_are("DISCARD TEMP", CLASS_WRITE, 0);
	acts_are("SET TRANSACTION READ ONLY", CLASS_FLIP, ACT_READ_ONLY);
	acts_are("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", CLASS_FLIP, ACT_READ_ONLY);
	acts_are("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", CLASS_FLIP, ACT_LIFT);
	acts_are("SET TRANSACTION READ ONLY, READ WRITE", CLASS_FLIP, ACT_READ_ONLY | ACT_LIFT);
	acts_are("SET transaction_read_only = on", CLASS_FLIP, ACT_LIFT);
	acts_are("SET LOCAL \"TRANSACTION_READ_ONLY\" TO 'off'", CLASS_FLIP, ACT_LIFT);
	acts_are("SET U&\"transaction\\005fread_only\" TO 'off'", CLASS_FLIP, ACT_LIFT);
	acts_are("SET U&\"transaction!005fread_only\" UESCAPE '!' TO 'off'", CLASS_FLIP, ACT_LIFT);
	acts_are("SET transaction_read_only FROM CURRENT", CLASS_FLIP, ACT_LIFT);
	acts_are("RESET transaction_read_only", CLASS_FLIP, ACT_LIFT);
	acts_are("SET application_name = 'transaction_read_only'", CLASS_READ, 0);
	acts_are("SET search_path = read, write", CLASS_READ, 0);
	acts_are("ALTER ROLE r SET default_transaction_read_only = off", CLASS_WRITE, 0);
}

/* A server with a Turkish locale and a one-byte encoding folds a capital dotted I to i. */
static void a_bare_setting_beyond_ascii_may_be_the_fence(void **state)
{
	(void)state;
	acts_are("SET default_transact\xc4\xb0on_read_only = off", CLASS_FLIP, ACT_LIFT);
	acts_are("RESET transact\xc4\xb0on_read_only", CLASS_FLIP, ACT_LIFT);
	acts_are("SET ROLE m\xc3\xbcller", CLASS_READ, 0);
	acts_are("SET application_name TO m\xc3\xbcller", CLASS_READ, 0);
}

static void set_config_is_what_its_first_argument_says(void **state)
{
	(void)state;
	acts_are("SELECT set_config('work_mem', '4MB', true)", CLASS_READ, 0);
	acts_are("SELECT set_config('work_mem'::text, '4MB', true)", CLASS_READ, 0);
	acts_are("SELECT set_config('Transaction_Read_Only', 'off', true)", CLASS_FLIP, ACT_LIFT);
	acts_are("SELECT set_config(E'transaction\\x5fread_only'::text, 'off', true)", CLASS_FLIP, ACT_LIFT);
	acts_are("SELECT set_config($1, 'off', true)", CLASS_UNKNOWN, ACT_RUNS_UNKNOWN);
	acts_are("SELECT set_config($1::text, $2, true)", CLASS_UNKNOWN, ACT_RUNS_UNKNOWN);
	acts_are("SELECT set_config($1 || 'y', 'off', true)", CLASS_FLIP, ACT_LIFT);
	acts_are("SELECT set_config('work_mem' || '', 'off', true)", CLASS_FLIP, ACT_LIFT);
	acts_are("SELECT set_config('work_mem'::varchar(4), 'off', true)", CLASS_FLIP, ACT_LIFT);
	acts_are("SELECT set_config('work_mem'::regclass, 'off', true)", CLASS_FLIP, ACT_LIFT);
	acts_are("SELECT set_config(setting, 'off', true)", CLASS_FLIP, ACT_LIFT);
	acts_are("SELECT set_config(", CLASS_FLIP, ACT_LIFT);
	acts_are("SELECT set_config", CLASS_READ, 0);
}

/* --- calls */

static void a_name_before_a_parenthesis_is_a_call(void **state)
{
	(void)state;
	class_is("SELECT f (1)", CLASS_UNKNOWN);
	class_is("SELECT public.lower('a')", CLASS_UNKNOWN);
	class_is("SELECT a.pg_catalog.lower('a')", CLASS_UNKNOWN);
	class_is("SELECT PG_CATALOG.LOWER('a')", CLASS_READ);
	class_is("SELECT \"pg_catalog\".\"lower\"('a')", CLASS_READ);
	class_is("SELECT \"PG_CATALOG\".lower('a')", CLASS_UNKNOWN);
	class_is("SELECT \"LOWER\"('a')", CLASS_UNKNOWN);
	class_is("SELECT U&\"\\006cower\"('a')", CLASS_READ);
	class_is("SELECT U&\"!006cower\" UESCAPE '!' ('a')", CLASS_UNKNOWN);
	class_is("SELECT \"and\" (1)", CLASS_UNKNOWN);
	class_is("SELECT t.and (1)", CLASS_UNKNOWN);
	class_is("SELECT TREAT('s' AS nextval)", CLASS_UNKNOWN);
	class_is("SELECT 1 OPERATOR(public.+) 2", CLASS_UNKNOWN);
}

static void a_name_behind_an_expression_and_a_point_is_a_call(void **state)
{
	(void)state;
	class_is("SELECT (x).f", CLASS_UNKNOWN);
	class_is("SELECT (x) . \"f\"", CLASS_UNKNOWN);
	class_is("SELECT x[1].f", CLASS_UNKNOWN);
	class_is("SELECT $1.f", CLASS_UNKNOWN);
	class_is("SELECT (x).lower.f", CLASS_UNKNOWN);
	class_is("SELECT (x).lower", CLASS_READ);
	class_is("SELECT (x).*", CLASS_READ);
	class_is("SELECT ('s'::regclass).nextval", CLASS_WRITE);
	class_is("SELECT ('s'::regclass).U&\"\\006eextval\"", CLASS_WRITE);
	class_is("SELECT a.b, a.b.c, a.b.c.d FROM a.b", CLASS_READ);
	class_is("SELECT g.nextval FROM to_regclass('s') g", CLASS_WRITE);
	class_is("SELECT g.\"pg_advisory_lock\" FROM generate_series(1, 2) g", CLASS_WRITE);
	class_is("SELECT pg_catalog.nextval('s')", CLASS_WRITE);
	class_is("EXPLAIN SELECT pg_catalog.nextval('s')", CLASS_READ);
}

static void what_stands_before_a_parenthesis_and_is_no_call(void **state)
{
	(void)state;
	class_is("SELECT x::geometry(Point, 4326), x::public.geometry(Point), CAST(x AS geometry(Point))", CLASS_READ);
	class_is("SELECT * FROM (VALUES (1)) AS v (a), LATERAL (SELECT 1) AS \"q\" (b)", CLASS_READ);
	class_is("SELECT * FROM a JOIN (SELECT 1) b ON (a.x = b.x) LEFT JOIN (c JOIN d ON (true)) ON (true)", CLASS_READ);
	class_is("WITH a (x) AS (SELECT 1), b (x, y) AS NOT MATERIALIZED (SELECT 1, 2) SELECT 1", CLASS_READ);
	class_is("SELECT a ILIKE ('x'), 'x' ILIKE ('x')", CLASS_READ);
	class_is("SELECT count(*) OVER (), sum(x) OVER (w), max(x) FILTER (WHERE true) FROM t GROUP BY (x)", CLASS_READ);
}

static void words_that_can_be_functions_are_calls_where_one_can_stand(void **state)
{
	(void)state;
	class_is("SELECT join(1)", CLASS_UNKNOWN);
	class_is("SELECT 1 AND ilike(1)", CLASS_UNKNOWN);
	class_is("SELECT now() AT TIME ZONE ilike(1)", CLASS_UNKNOWN);
	class_is("SELECT over(1)", CLASS_UNKNOWN);
	class_is("SELECT DISTINCT ON (a) over()", CLASS_UNKNOWN);
	class_is("SELECT DISTINCT ON (a) filter(1)", CLASS_UNKNOWN);
	class_is("SELECT DISTINCT ON (a) ilike(1)", CLASS_UNKNOWN);
	class_is("SELECT DISTINCT ON (a) join(1)", CLASS_UNKNOWN);
	class_is("SELECT DISTINCT ON (a) count(*) OVER (PARTITION BY b) FROM t", CLASS_READ);
	class_is("SELECT by(1)", CLASS_UNKNOWN);
	class_is("SELECT system(1)", CLASS_UNKNOWN);
}

/* A function with a list of columns looks much like one more query of WITH. */
static void a_function_in_from_is_a_call_even_with_columns(void **state)
{
	(void)state;
	class_is("SELECT * FROM t, f (a, b) AS (c int)", CLASS_UNKNOWN);
	class_is("SELECT * FROM t, f (a, b) AS (values int)", CLASS_UNKNOWN);
	class_is("SELECT * FROM t, f (a, b) AS materialized (c int)", CLASS_UNKNOWN);
}

static void planning_alone_may_run_what_is_stable(void **state)
{
	(void)state;
	class_is("EXPLAIN SELECT * FROM t WHERE x = txid_current()", CLASS_WRITE);
	class_is("EXPLAIN SELECT f(1)", CLASS_UNKNOWN);
	class_is("EXPLAIN EXECUTE p", CLASS_UNKNOWN);
	class_is("EXPLAIN VACUUM", CLASS_UNKNOWN);
	class_is("EXPLAIN (ANALYZE off) SELECT nextval('s')", CLASS_READ);
	class_is("EXPLAIN (ANALYZE oof) SELECT nextval('s')", CLASS_WRITE);
	class_is("EXPLAIN (U&\"!0061nalyze\" UESCAPE '!') DELETE FROM t", CLASS_WRITE);
	class_is("EXPLAIN VERBOSE ANALYZE DELETE FROM t", CLASS_WRITE);
	class_is("EXPLAIN DELETE FROM t; DELETE FROM t", CLASS_WRITE);
}

/* As column names these are rare, and told from writes only by the grammar. */
static void a_column_that_is_called_like_a_write_may_be_called_one(void **state)
{
	(void)state;
	class_is("SELECT delete FROM t", CLASS_WRITE);
	class_is("SELECT t.delete, t.into, \"into\" FROM t", CLASS_READ);
	class_is("SELECT (delete), max(update) FROM (SELECT 1) t", CLASS_READ);
}

/* A file on the server's disk is a write, a program may be anything. */
static void copy_goes_somewhere(void **state)
{
	(void)state;
	class_is("COPY t TO STDIN", CLASS_READ);
	class_is("COPY BINARY t TO STDOUT", CLASS_READ);
	class_is("COPY t (a, b) TO STDOUT (FORCE_QUOTE (a))", CLASS_READ);
	class_is("COPY t TO '/tmp/x'", CLASS_WRITE);
	class_is("COPY (SELECT f()) TO STDOUT", CLASS_UNKNOWN);
	class_is("COPY (SELECT 1) TO PROGRAM 'x'", CLASS_UNKNOWN);
	class_is("COPY t", CLASS_WRITE);
}

static void statements_we_do_not_know_are_unknown(void **state)
{
	(void)state;
	class_is("FROBNICATE", CLASS_UNKNOWN);
	class_is("\"select\" 1", CLASS_UNKNOWN);
	class_is("1", CLASS_UNKNOWN);
	class_is(")", CLASS_UNKNOWN);
	class_is("SELECT1", CLASS_UNKNOWN);
	class_is("S\xc4\xb0LECT", CLASS_UNKNOWN);
	class_is("SET CONSTRAINTS ALL IMMEDIATE", CLASS_UNKNOWN);
}

/* --- calls by name */

static bool calls_in(const char *sql, unsigned reading)
{
	static const char *const names[] = {"Mixed", "app.order_cancel", "order_create"};
	size_t len = strlen(sql);
	uint8_t *exact = malloc(len ? len : 1);
	memcpy(exact, sql, len);
	bool found = classify_calls((struct span){exact, len}, reading, names, 3);
	free(exact);
	return found;
}

static bool calls(const char *sql)
{
	return calls_in(sql, READING_CONFORMING);
}

static void a_listed_function_is_found_where_it_is_called(void **state)
{
	(void)state;
	assert_true(calls("SELECT order_create(1)"));
	assert_true(calls("SELECT a, lower(b), \n Order_Create /* x */ (1) FROM t"));
	assert_true(calls("SELECT \"order_create\"(1)"));
	assert_true(calls("SELECT U&\"order\\005fcreate\"(1)"));
	assert_true(calls("SELECT any_schema.order_create(1)"));
	assert_true(calls("CALL app.order_cancel(1)"));
	assert_true(calls("SELECT * FROM APP . \"order_cancel\" (1)"));
	assert_true(calls("SELECT db.app.order_cancel(1)"));
	assert_true(calls("SELECT \"Mixed\"(1)"));
	assert_true(calls("BEGIN; SELECT order_create(1)"));
}

static void what_is_not_a_call_of_it_is_not_found(void **state)
{
	(void)state;
	assert_false(calls(""));
	assert_false(calls("SELECT order_create"));
	assert_false(calls("SELECT 'order_create(1)', \"Order_Create\"(1) -- order_create(1)"));
	assert_false(calls("SELECT order_cancel(1), other.order_cancel(1), \"app.order_cancel\"(1), app.\"order_cancel \"(1)"));
	assert_false(calls("SELECT Mixed(1)"));
	assert_false(calls("INSERT INTO order_create (a) VALUES (1)"));
	assert_false(calls("INSERT INTO app.order_create (a) VALUES (1)"));
	assert_false(calls("SELECT * FROM (VALUES (1)) AS order_create (a)"));
	assert_false(calls("SELECT order_create.f(1)"));
	assert_false(calls("SELECT order_create + (1)"));
	assert_false(classify_calls(span_str("SELECT f(1)"), READING_CONFORMING, NULL, 0));
}

static void both_readings_of_strings_are_searched(void **state)
{
	(void)state;
	const char *sql = "SELECT '\\'', order_create(1) --'";
	assert_false(calls_in(sql, READING_CONFORMING));
	assert_true(calls_in(sql, READING_BACKSLASH));
	assert_true(calls_in(sql, READING_EITHER));
}

/* --- cost */

static double least_ns(const char *sql)
{
	struct span text = span_str(sql);
	double least = 1e9;
	unsigned sum = 0;
	for (int round = 0; round < 200; round++) {
		struct timespec a, b;
		clock_gettime(CLOCK_MONOTONIC, &a);
		for (int i = 0; i < 100; i++)
			sum += classify(text, READING_CONFORMING).class;
		clock_gettime(CLOCK_MONOTONIC, &b);
		double ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / 100;
		least = ns < least ? ns : least;
	}
	assert_int_equal(sum, 0);
	return least;
}

/* The figure is for the reader; a machine that is busy with other things would make any limit fail. */
static void a_statement_of_200_bytes_costs_little(void **state)
{
	(void)state;
	const char *sql = "SELECT o.id, o.total, c.name, count(*) FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.status = 'open' "
		"AND o.created_at > now() - interval '1 day' GROUP BY o.id, c.name ORDER BY o.id DESC LIMIT 50";
	double ns = least_ns(sql);
	print_message("%zu bytes: %.0f ns\n", strlen(sql), ns);
	assert_true(ns < 100000);
}

/* Where a look ahead began anew at each name it would be minutes, and statements inside each other would use up the stack. */
static void a_hostile_text_takes_time_in_proportion_to_its_length(void **state)
{
	(void)state;
	enum { LENGTH = 400000 };
	static const struct {
		const char *begun, *repeated;
	} texts[] = {
		{"SELECT 1", ",a("}, {"SELECT 1", ",a,b"}, {"SELECT f(1", ",a(b"}, {"SELECT ", "("}, {"SELECT ", "f("}, {"SELECT ", "abs("}, {"SELECT ", "FOR "}, {"SELECT ", "'a'\n"},
		{"SELECT ", "UPDATE "}, {"SELECT 1", ",a(b) AS "}, {"SELECT set_config('a'", "::text"}, {"SELECT ", "set_config('a'"}, {"SELECT ", "a."}, {"SELECT ", "(x).f"}, {"WITH a (b", ",b"},
		{"", "EXPLAIN ANALYZE "}, {"", "EXPLAIN "}, {"", "EXPLAIN ("}, {"", "PREPARE a AS "}, {"", "DECLARE c CURSOR FOR "}, {"", "CREATE FUNCTION f() BEGIN ATOMIC "}, {"", ";CREATE RULE ("},
		{"", "SET "}, {"SET ", "READ "}, {"COPY ", "("}, {"", "SELECT /*"}, {"SELECT ", "$a$"},
	};
	char *text = malloc(LENGTH);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		size_t len = strlen(texts[i].begun), more = strlen(texts[i].repeated);
		memcpy(text, texts[i].begun, len);
		for (; len + more <= LENGTH; len += more)
			memcpy(text + len, texts[i].repeated, more);
		clock_t begun = clock();
		classify((struct span){(uint8_t *)text, len}, READING_EITHER);
		if (clock() - begun > 2 * CLOCKS_PER_SEC)
			fail_msg("minutes: %s%s...", texts[i].begun, texts[i].repeated);
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_statement_of_the_table_has_its_class),
		cmocka_unit_test(without_a_backslash_the_reading_of_strings_does_not_matter),
		cmocka_unit_test(a_write_behind_any_statement_makes_a_write),
		cmocka_unit_test(rows_are_in_order),
		cmocka_unit_test(case_and_comments_do_not_matter),
		cmocka_unit_test(a_backslash_hides_what_follows_only_where_it_escapes),
		cmocka_unit_test(a_text_that_ends_inside_of_a_string_is_unknown),
		cmocka_unit_test(bytes_above_ascii_make_a_write_where_the_encoding_is_odd),
		cmocka_unit_test(encodings_that_only_clients_have_are_odd),
		cmocka_unit_test(statements_are_counted_and_the_worst_holds),
		cmocka_unit_test(no_statement_reaches_beyond_its_semicolon),
		cmocka_unit_test(one_statement_after_the_other_has_its_own_class),
		cmocka_unit_test(transactions_begin_and_end),
		cmocka_unit_test(what_touches_the_fence_is_told_apart),
		cmocka_unit_test(a_bare_setting_beyond_ascii_may_be_the_fence),
		cmocka_unit_test(set_config_is_what_its_first_argument_says),
		cmocka_unit_test(a_name_before_a_parenthesis_is_a_call),
		cmocka_unit_test(a_name_behind_an_expression_and_a_point_is_a_call),
		cmocka_unit_test(what_stands_before_a_parenthesis_and_is_no_call),
		cmocka_unit_test(words_that_can_be_functions_are_calls_where_one_can_stand),
		cmocka_unit_test(a_function_in_from_is_a_call_even_with_columns),
		cmocka_unit_test(planning_alone_may_run_what_is_stable),
		cmocka_unit_test(a_column_that_is_called_like_a_write_may_be_called_one),
		cmocka_unit_test(copy_goes_somewhere),
		cmocka_unit_test(statements_we_do_not_know_are_unknown),
		cmocka_unit_test(a_listed_function_is_found_where_it_is_called),
		cmocka_unit_test(what_is_not_a_call_of_it_is_not_found),
		cmocka_unit_test(both_readings_of_strings_are_searched),
		cmocka_unit_test(a_statement_of_200_bytes_costs_little),
		cmocka_unit_test(a_hostile_text_takes_time_in_proportion_to_its_length),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
