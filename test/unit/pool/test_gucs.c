/* Tracked parameters: interned values, and the SQL that brings a server to what a client wants. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>

#include "pool/gucs.h"

enum { ENCODING, DATE_STYLE, TIME_ZONE, APPLICATION_NAME, SEARCH_PATH, DOTTED, N_NAMES };

static const struct setup setup = {
	.n_gucs = N_NAMES,
	.guc_names = {"client_encoding", "DateStyle", "TimeZone", "application_name", "search_path", "my.own"},
};

/* One client and one server over a book; all freed, and the book seen to be empty, at the end of each test. */
struct scene {
	struct guc_book book;
	struct gucs want, now, login;
	struct buf sql;
	uint32_t changed;
};

static int scene_make(void **state)
{
	*state = calloc(1, sizeof(struct scene));
	return *state ? 0 : -1;
}

static int scene_free(void **state)
{
	struct scene *s = *state;

	gucs_clear(&s->want);
	gucs_clear(&s->now);
	gucs_clear(&s->login);
	guc_book_free(&s->book); /* aborts if a value is left */
	buf_free(&s->sql);
	free(s);
	return 0;
}

static void set(struct scene *s, struct gucs *g, int i, const char *value)
{
	gucs_set(g, i, guc_of(&s->book, value));
}

static const char *diff(struct scene *s)
{
	s->sql.len = 0;
	s->changed = gucs_diff(&s->want, &s->now, &s->login, &setup, &s->sql);
	buf_add_u8(&s->sql, 0);
	return (const char *)s->sql.p;
}

static const char *quoted(struct scene *s, const char *value)
{
	s->sql.len = 0;
	guc_quote(&s->sql, value);
	buf_add_u8(&s->sql, 0);
	return (const char *)s->sql.p;
}

/* ---- values ---- */

static void equal_texts_are_one_value(void **state)
{
	struct scene *s = *state;
	struct guc_value *a = guc_of(&s->book, "UTF8"), *b = guc_of(&s->book, "UTF8"), *c = guc_of(&s->book, "utf8"), *d = NULL;

	assert_ptr_equal(a, b);
	assert_int_equal(a->refs, 2);
	assert_ptr_not_equal(a, c);
	guc_drop(&a);
	assert_null(a);
	assert_string_equal(b->text, "UTF8");
	guc_drop(&b);
	guc_drop(&c);
	guc_drop(&d); /* NULL is nothing to drop */
	assert_null(guc_ref(NULL));
	assert_int_equal(s->book.values.count, 0);
}

static void an_empty_value_is_a_value(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, APPLICATION_NAME, "");
	set(s, &s->now, APPLICATION_NAME, "psql");
	set(s, &s->login, APPLICATION_NAME, "psql");
	assert_string_equal(diff(s), "SET application_name='';");
}

static void setting_drops_what_was_there(void **state)
{
	struct scene *s = *state;

	set(s, &s->now, TIME_ZONE, "UTC");
	set(s, &s->now, TIME_ZONE, "GMT");
	assert_int_equal(s->book.values.count, 1);
	gucs_set(&s->now, TIME_ZONE, NULL);
	assert_int_equal(s->book.values.count, 0);
}

static void setting_the_value_that_is_there_keeps_it(void **state)
{
	struct scene *s = *state;

	set(s, &s->now, TIME_ZONE, "UTC");
	set(s, &s->now, TIME_ZONE, "UTC");
	assert_string_equal(s->now.at[TIME_ZONE]->text, "UTC");
	assert_int_equal(s->now.at[TIME_ZONE]->refs, 1);
}

static void a_copy_holds_references_of_its_own(void **state)
{
	struct scene *s = *state;

	set(s, &s->now, ENCODING, "UTF8");
	set(s, &s->login, TIME_ZONE, "UTC");
	s->now.firm = 1u << ENCODING;
	gucs_copy(&s->login, &s->now);
	gucs_copy(&s->login, &s->login);
	gucs_clear(&s->now);
	assert_string_equal(s->login.at[ENCODING]->text, "UTF8");
	assert_null(s->login.at[TIME_ZONE]);
	assert_int_equal(s->login.firm, 1u << ENCODING);
	assert_int_equal(s->now.firm, 0);
}

/* ---- differences ---- */

static void nothing_differs_nothing_is_said(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, DATE_STYLE, "ISO, MDY");
	set(s, &s->now, DATE_STYLE, "ISO, MDY");
	set(s, &s->login, DATE_STYLE, "ISO, MDY");
	set(s, &s->now, TIME_ZONE, "UTC"); /* never asked for, as at login */
	set(s, &s->login, TIME_ZONE, "UTC");
	assert_string_equal(diff(s), "");
	assert_int_equal(s->changed, 0);
}

static void what_differs_is_set_in_order_and_named_in_the_mask(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, TIME_ZONE, "Europe/Oslo");
	set(s, &s->now, TIME_ZONE, "UTC");
	set(s, &s->want, DATE_STYLE, "ISO");
	set(s, &s->now, DATE_STYLE, "German, DMY");
	assert_string_equal(diff(s), "SET DateStyle='ISO';SET TimeZone='Europe/Oslo';");
	assert_int_equal(s->changed, 1u << DATE_STYLE | 1u << TIME_ZONE);
}

static void what_the_server_never_reported_is_set(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, SEARCH_PATH, "public");
	assert_string_equal(diff(s), "SELECT pg_catalog.set_config('search_path','public',false);");
}

static void what_another_client_changed_is_reset(void **state)
{
	struct scene *s = *state;

	set(s, &s->now, TIME_ZONE, "Asia/Tokyo");
	set(s, &s->login, TIME_ZONE, "UTC");
	set(s, &s->now, SEARCH_PATH, "other"); /* unreported at login */
	assert_string_equal(diff(s), "RESET TimeZone;RESET search_path;");
	assert_int_equal(s->changed, 1u << TIME_ZONE | 1u << SEARCH_PATH);
}

static void what_connect_query_had_set_is_set_again(void **state)
{
	struct scene *s = *state;

	set(s, &s->now, TIME_ZONE, "Asia/Tokyo");
	set(s, &s->login, TIME_ZONE, "Europe/Oslo");
	s->login.firm = 1u << TIME_ZONE;
	assert_string_equal(diff(s), "SET TimeZone='Europe/Oslo';");
}

static void spelling_in_another_case_is_no_difference(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, ENCODING, "utf8");
	set(s, &s->now, ENCODING, "UTF8");
	set(s, &s->login, ENCODING, "UTF8");
	assert_string_equal(diff(s), "");
}

static void case_counts_in_an_application_name(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, APPLICATION_NAME, "billing");
	set(s, &s->now, APPLICATION_NAME, "Billing");
	assert_string_equal(diff(s), "SET application_name='billing';");
}

/* SET DateStyle takes the list as one string; SET search_path would make one schema name of it. */
static void a_list_of_names_goes_through_set_config(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, DATE_STYLE, "ISO, DMY");
	set(s, &s->want, SEARCH_PATH, "\"$user\", public");
	assert_string_equal(diff(s), "SET DateStyle='ISO, DMY';SELECT pg_catalog.set_config('search_path','\"$user\", public',false);");
}

static void a_name_that_is_no_plain_word_is_quoted_by_parts(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, DOTTED, "x");
	assert_string_equal(diff(s), "SET \"my\".\"own\"='x';");
	gucs_set(&s->want, DOTTED, NULL);
	set(s, &s->now, DOTTED, "x");
	assert_string_equal(diff(s), "RESET \"my\".\"own\";");
}

static void the_sql_is_appended(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, TIME_ZONE, "UTC");
	buf_add_str(&s->sql, "DISCARD ALL;");
	gucs_diff(&s->want, &s->now, &s->login, &setup, &s->sql);
	buf_add_u8(&s->sql, 0);
	assert_string_equal((char *)s->sql.p, "DISCARD ALL;SET TimeZone='UTC';");
}

/* ---- quoting ---- */

static void a_quote_is_doubled(void **state)
{
	assert_string_equal(quoted(*state, "O'Hara''s"), "'O''Hara''''s'");
	assert_string_equal(quoted(*state, "'"), "''''");
	assert_string_equal(quoted(*state, ""), "''");
}

/* Under standard_conforming_strings=off a backslash in '' would swallow the quote behind it; in E'' it is an escape under both. */
static void a_backslash_is_written_as_an_escape(void **state)
{
	assert_string_equal(quoted(*state, "a\\b"), "E'a\\134b'");
	assert_string_equal(quoted(*state, "\\'; DROP TABLE t; --"), "E'\\134''; DROP TABLE t; --'");
	assert_string_equal(quoted(*state, "\\"), "E'\\134'");
}

/* 0x95 0x5C is one character in SJIS. No bare backslash may be left behind it. */
static void no_backslash_stands_behind_the_lead_byte_of_a_wide_character(void **state)
{
	assert_string_equal(quoted(*state, "\x95\\'x"), "E'\x95\\134''x'");
}

static void bytes_that_are_no_utf8_pass_as_they_are(void **state)
{
	assert_string_equal(quoted(*state, "\xc0'\xff"), "'\xc0''\xff'");
}

/* As the lexer of PostgreSQL reads a string: 1 if the whole of sql is exactly one, with or without backslash escapes. */
static int is_one_string(const char *sql, bool escapes)
{
	const char *p = sql;

	if (*p == 'E') {
		escapes = true;
		p++;
	}
	if (*p++ != '\'')
		return 0;
	for (; *p; p++) {
		if (escapes && *p == '\\' && p[1])
			p++;
		else if (*p == '\'' && p[1] == '\'')
			p++;
		else if (*p == '\'')
			return p[1] == '\0';
	}
	return 0;
}

static void nothing_of_up_to_four_nasty_bytes_breaks_out_under_either_setting(void **state)
{
	static const char nasty[] = "'\\;aE\x95\n";
	const int n = sizeof(nasty) - 1;
	char value[5] = "";

	for (int i = 0; i < n * n * n * n; i++) {
		for (int k = 0, rest = i; k < 4; k++, rest /= n)
			value[k] = nasty[rest % n];
		const char *sql = quoted(*state, value);
		assert_true(is_one_string(sql, true));
		assert_true(is_one_string(sql, false));
	}
}

#define test(name) cmocka_unit_test_setup_teardown(name, scene_make, scene_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(equal_texts_are_one_value),
		test(an_empty_value_is_a_value),
		test(setting_drops_what_was_there),
		test(setting_the_value_that_is_there_keeps_it),
		test(a_copy_holds_references_of_its_own),
		test(nothing_differs_nothing_is_said),
		test(what_differs_is_set_in_order_and_named_in_the_mask),
		test(what_the_server_never_reported_is_set),
		test(what_another_client_changed_is_reset),
		test(what_connect_query_had_set_is_set_again),
		test(spelling_in_another_case_is_no_difference),
		test(case_counts_in_an_application_name),
		test(a_list_of_names_goes_through_set_config),
		test(a_name_that_is_no_plain_word_is_quoted_by_parts),
		test(the_sql_is_appended),
		test(a_quote_is_doubled),
		test(a_backslash_is_written_as_an_escape),
		test(no_backslash_stands_behind_the_lead_byte_of_a_wide_character),
		test(bytes_that_are_no_utf8_pass_as_they_are),
		test(nothing_of_up_to_four_nasty_bytes_breaks_out_under_either_setting),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
