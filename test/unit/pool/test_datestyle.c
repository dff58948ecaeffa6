/* What a DateStyle that says half means. The expectations are what PostgreSQL 15 reports after a start with each. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "pool/datestyle.h"

static void becomes(const char *asked, const char *base, const char *want)
{
	char whole[DATESTYLE_MOST] = "";

	assert_true(datestyle_complete(asked, base, whole));
	assert_string_equal(whole, want);
}

static void a_style_takes_the_order_of_the_default(void **state)
{
	(void)state;
	becomes("ISO", "ISO, MDY", "ISO, MDY");
	becomes("iso", "German, DMY", "ISO, DMY");
	becomes("Sql", "ISO, YMD", "SQL, YMD");
	becomes("postgresql", "ISO, MDY", "Postgres, MDY");
}

static void an_order_takes_the_style_of_the_default(void **state)
{
	(void)state;
	becomes("YMD", "ISO, MDY", "ISO, YMD");
	becomes("European", "SQL, MDY", "SQL, DMY");
	becomes("us", "Postgres, DMY", "Postgres, MDY");
	becomes("NonEuropean", "German, DMY", "German, MDY");
}

static void german_brings_its_order_unless_another_is_named(void **state)
{
	(void)state;
	becomes("German", "ISO, MDY", "German, DMY");
	becomes("German, YMD", "ISO, MDY", "German, YMD");
	becomes("mdy,german", "ISO, YMD", "German, MDY");
}

static void a_whole_one_is_spelled_as_postgresql_does(void **state)
{
	(void)state;
	becomes(" ymd ,\tiso ", "German, DMY", "ISO, YMD");
	becomes("POSTGRES, EURO", "ISO, MDY", "Postgres, DMY");
	becomes("ISO, ISO, MDY", "ISO, YMD", "ISO, MDY");
}

static void nothing_is_the_default(void **state)
{
	(void)state;
	becomes("", "SQL, DMY", "SQL, DMY");
	becomes("  ", "SQL, DMY", "SQL, DMY");
}

static void what_is_not_plain_is_left_to_postgresql(void **state)
{
	static const char *const asked[] = {"nonsense", "ISO, SQL", "DMY, MDY", "ISO MDY", "ISO,", ",ISO", ",", "default", "\"ISO\"", "isoo", "IS", "ISO'; --"};
	char whole[DATESTYLE_MOST];

	(void)state;
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
		assert_false(datestyle_complete(asked[i], "ISO, MDY", whole));
}

static void a_default_that_is_not_whole_completes_nothing(void **state)
{
	char whole[DATESTYLE_MOST];

	(void)state;
	assert_false(datestyle_complete("ISO", "", whole));
	assert_false(datestyle_complete("ISO", "MDY", whole));
	assert_false(datestyle_complete("ISO", "new, style", whole));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_style_takes_the_order_of_the_default),
		cmocka_unit_test(an_order_takes_the_style_of_the_default),
		cmocka_unit_test(german_brings_its_order_unless_another_is_named),
		cmocka_unit_test(a_whole_one_is_spelled_as_postgresql_does),
		cmocka_unit_test(nothing_is_the_default),
		cmocka_unit_test(what_is_not_plain_is_left_to_postgresql),
		cmocka_unit_test(a_default_that_is_not_whole_completes_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
