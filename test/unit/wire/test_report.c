/* Error and notice reports: ours in PostgreSQL's layout, theirs in any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "wire/report.h"

#define LONG_TEXT 100000

static void an_error_has_postgres_fields_in_its_order(void **state)
{
	(void)state;
	static const char expected[] = "E\0\0\0\x32SERROR\0VERROR\0C53400\0Mtoo fast\0Ddetail\0Hhint\0";
	struct buf b = {0};
	report_write(&b, 'E', &(struct report){"ERROR", "53400", "too fast", "detail", "hint"});
	assert_int_equal(b.len, sizeof(expected));
	assert_memory_equal(b.p, expected, sizeof(expected));
	buf_free(&b);
}

static void detail_and_hint_are_left_out_when_there_are_none(void **state)
{
	(void)state;
	static const char expected[] = "E\0\0\0\x21SFATAL\0VFATAL\0C08P01\0Ma 7 b\0";
	struct buf b = {0};
	report_error(&b, "FATAL", "08P01", "a %d %s", 7, "b");
	assert_int_equal(b.len, sizeof(expected));
	assert_memory_equal(b.p, expected, sizeof(expected));
	buf_free(&b);
}

static void what_went_wrong_is_told_with_its_hint(void **state)
{
	(void)state;
	static const char expected[] = "E\0\0\0\x2bSERROR\0VERROR\0C53400\0Mtoo fast\0Hlater\0";
	struct buf b = {0};
	struct err err;
	err_set(&err, "53400", "too fast");
	err_hint(&err, "later");
	report_err(&b, "ERROR", &err);
	assert_int_equal(b.len, sizeof(expected));
	assert_memory_equal(b.p, expected, sizeof(expected));
	b.len = 0;
	err_set(&err, "53400", "too fast");
	report_err(&b, "ERROR", &err);
	assert_null(memchr(b.p + 5, 'H', b.len - 5));
	buf_free(&b);
}

static void a_notice_is_of_class_00000(void **state)
{
	(void)state;
	static const char expected[] = "N\0\0\0\x20SNOTICE\0VNOTICE\0C00000\0Mhi\0";
	struct buf b = {0};
	report_notice(&b, "hi");
	assert_int_equal(b.len, sizeof(expected));
	assert_memory_equal(b.p, expected, sizeof(expected));
	buf_free(&b);
}

static void a_long_text_is_whole(void **state)
{
	(void)state;
	char *text = malloc(LONG_TEXT + 1);
	memset(text, 'x', LONG_TEXT);
	text[LONG_TEXT] = '\0';
	struct buf b = {0};
	struct report r;
	report_error(&b, "ERROR", "XX000", "%s!", text);
	assert_true(report_read(b.p + 5, b.len - 5, &r));
	assert_int_equal(strlen(r.text), LONG_TEXT + 1);
	assert_int_equal(r.text[LONG_TEXT], '!');
	buf_free(&b);
	free(text);
}

static bool read_exact(const char *body, size_t len, struct report *r, char **exact)
{
	*exact = malloc(len ? len : 1);
	memcpy(*exact, body, len);
	return report_read((uint8_t *)*exact, len, r);
}

static void fields_are_read_in_any_order_and_unknown_ones_ignored(void **state)
{
	(void)state;
	static const char body[] = "Mno such table\0!new\0C42P01\0P15\0VERROR\0SFEHLER\0Ltable.c\0Hhint\0";
	struct report r;
	char *exact;
	assert_true(read_exact(body, sizeof(body), &r, &exact));
	assert_string_equal(r.severity, "FEHLER");
	assert_string_equal(r.sqlstate, "42P01");
	assert_string_equal(r.text, "no such table");
	assert_string_equal(r.hint, "hint");
	assert_null(r.detail);
	free(exact);
}

static void every_field_is_optional(void **state)
{
	(void)state;
	struct report r;
	char *exact;
	assert_true(read_exact("", 1, &r, &exact));
	assert_string_equal(r.severity, "");
	assert_string_equal(r.sqlstate, "");
	assert_string_equal(r.text, "");
	assert_null(r.detail);
	assert_null(r.hint);
	free(exact);
}

static void a_report_cut_short_or_with_more_behind_it_is_not_well_formed(void **state)
{
	(void)state;
	static const char body[] = "SERROR\0C42P01\0Mx\0\0y";
	size_t whole = sizeof(body) - 2;
	for (size_t len = 0; len <= sizeof(body); len++) {
		struct report r;
		char *exact;
		assert_int_equal(read_exact(body, len < sizeof(body) ? len : sizeof(body) - 1, &r, &exact), len == whole);
		assert_non_null(r.severity);
		assert_non_null(r.sqlstate);
		assert_non_null(r.text);
		free(exact);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_has_postgres_fields_in_its_order),
		cmocka_unit_test(detail_and_hint_are_left_out_when_there_are_none),
		cmocka_unit_test(what_went_wrong_is_told_with_its_hint),
		cmocka_unit_test(a_notice_is_of_class_00000),
		cmocka_unit_test(a_long_text_is_whole),
		cmocka_unit_test(fields_are_read_in_any_order_and_unknown_ones_ignored),
		cmocka_unit_test(every_field_is_optional),
		cmocka_unit_test(a_report_cut_short_or_with_more_behind_it_is_not_well_formed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
