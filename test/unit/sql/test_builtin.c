/* The table of built-in functions: its order, and what it says of each VOLATILE function, as judged in volatile.tsv. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lines.h"
#include "sql/builtin.h"

static enum builtin find(const char *name)
{
	return builtin_find(name, strlen(name));
}

static void each_row_is_found(void **state)
{
	(void)state;
#define BUILTIN(name, kind) assert_int_equal(find(name), BUILTIN_##kind);
#include "sql/builtins.def"
#undef BUILTIN
}

static void what_has_no_row_is_not_found(void **state)
{
	(void)state;
	assert_int_equal(find(""), BUILTIN_NONE);
	assert_int_equal(find("a"), BUILTIN_NONE);
	assert_int_equal(find("f_write"), BUILTIN_NONE);
	assert_int_equal(find("NEXTVAL"), BUILTIN_NONE);
	assert_int_equal(find("nextva"), BUILTIN_NONE);
	assert_int_equal(find("nextval1"), BUILTIN_NONE);
	assert_int_equal(find("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"), BUILTIN_NONE);
	assert_int_equal(builtin_find("nextval_and_more", 7), BUILTIN_WRITE);
}

/* By this the classifier tells most columns from them without a look-up (src/sql/body.c). */
static void what_writes_has_six_letters_or_more_and_begins_with_one_of_a_few(void **state)
{
	(void)state;
#define BUILTIN(name, kind) assert_true(BUILTIN_##kind == BUILTIN_READ || (strlen(name) >= 6 && strchr("bglnpst", *(name))));
#include "sql/builtins.def"
#undef BUILTIN
}

static enum builtin kind_of(const char *judged)
{
	static const struct {
		const char *judged;
		enum builtin kind;
	} kinds[] = {
		{"harmless", BUILTIN_READ}, {"session", BUILTIN_READ}, {"write", BUILTIN_WRITE}, {"admin", BUILTIN_WRITE}, {"primary-only-lock", BUILTIN_WRITE},
		{"read-write-flip", BUILTIN_SETTING}, {"runs-sql-text", BUILTIN_NONE}, {"internal", BUILTIN_NONE},
	};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(judged, kinds[i].judged) == 0)
			return kinds[i].kind;
	fail_msg("no such judgement: %s", judged);
	return BUILTIN_NONE;
}

static bool is_stable(const char *name)
{
	return strcmp(name, "txid_current") == 0 || strcmp(name, "pg_current_xact_id") == 0;
}

static void each_volatile_function_is_what_it_was_judged_to_be(void **state)
{
	(void)state;
	struct lines lines = lines_of("volatile.tsv");
	int seen = 0;
	for (; lines_next(&lines); seen++) {
		enum builtin expected = is_stable(lines.first) ? BUILTIN_XID : kind_of(lines.rest);
		if (find(lines.first) != expected)
			fail_msg("%s is %d, not %d", lines.first, find(lines.first), expected);
	}
	assert_int_equal(seen, 225);
}

/* What runs SQL that it is handed, or is handed tables by name, is not VOLATILE throughout. */
static void functions_that_run_queries_are_unknown(void **state)
{
	(void)state;
	static const char *const names[] = {"table_to_xml", "schema_to_xml", "database_to_xml", "table_to_xml_and_xmlschema", "ts_rewrite", "ts_stat", "query_to_xml"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(find(names[i]), BUILTIN_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row_is_found),
		cmocka_unit_test(what_has_no_row_is_not_found),
		cmocka_unit_test(what_writes_has_six_letters_or_more_and_begins_with_one_of_a_few),
		cmocka_unit_test(each_volatile_function_is_what_it_was_judged_to_be),
		cmocka_unit_test(functions_that_run_queries_are_unknown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
