/* Connection strings as PgBouncer reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conf/ini.h"

static bool on_pair(void *arg, const char *key, const char *value, struct err *err)
{
	(void)err;
	buf_add_fmt(arg, "<%s>", key);
	buf_add_str(arg, value);
	return true;
}

static void reads(const char *text, const char *want)
{
	struct buf seen = {0};
	struct err err = {0};

	assert_true(pairs_read(text, on_pair, &seen, &err));
	buf_add_u8(&seen, '\0');
	assert_string_equal((char *)seen.p, want);
	buf_free(&seen);
}

static void refuses(const char *text, const char *why)
{
	struct buf seen = {0};
	struct err err = {0};

	assert_false(pairs_read(text, on_pair, &seen, &err));
	assert_string_equal(err.text, why);
	buf_free(&seen);
}

static void pairs_are_parted_by_blanks(void **state)
{
	(void)state;
	reads("host=a port=1\tdbname=x", "<host>a<port>1<dbname>x");
	reads("", "");
	reads("  host=a  ", "<host>a");
}

static void blanks_around_the_sign_do_not_count(void **state)
{
	(void)state;
	reads("host = a port= 1 dbname =x", "<host>a<port>1<dbname>x");
}

static void quotes_hold_blanks_and_a_quote_is_written_twice(void **state)
{
	(void)state;
	reads("password='a b' user='o''neil' q=''''", "<password>a b<user>o'neil<q>'");
}

static void a_quoted_value_may_be_empty(void **state)
{
	(void)state;
	reads("connect_query='' user=x", "<connect_query><user>x");
}

static void a_backslash_is_a_character(void **state)
{
	(void)state;
	reads("password='a\\b' user=c\\d", "<password>a\\b<user>c\\d");
}

static void signs_inside_a_value_stay(void **state)
{
	(void)state;
	reads("password=a=b;c#d' x='=;#'", "<password>a=b;c#d'<x>=;#");
}

static void bad_syntax_is_told_by_place_and_never_shown(void **state)
{
	(void)state;
	refuses("password=two words", "expected key=value at character 14 of the value");
	refuses("=x", "expected key=value at character 1 of the value");
	refuses("password='open", "no closing quote for the one at character 10 of the value");
	refuses("password='open''", "no closing quote for the one at character 10 of the value");
	refuses("password='a'b", "expected a blank behind the quote at character 13 of the value");
	refuses("host=a user=", "no value for the key at character 8 of the value");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pairs_are_parted_by_blanks),
		cmocka_unit_test(blanks_around_the_sign_do_not_count),
		cmocka_unit_test(quotes_hold_blanks_and_a_quote_is_written_twice),
		cmocka_unit_test(a_quoted_value_may_be_empty),
		cmocka_unit_test(a_backslash_is_a_character),
		cmocka_unit_test(signs_inside_a_value_stay),
		cmocka_unit_test(bad_syntax_is_told_by_place_and_never_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
