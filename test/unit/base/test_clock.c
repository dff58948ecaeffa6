/* clock: printing, and that the monotonic one is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"

static void assert_printed(usec_t wall, const char *wanted)
{
	char out[32];

	clock_print(wall, out);
	assert_string_equal(out, wanted);
}

static void times_print_in_utc_to_the_second(void **state)
{
	(void)state;
	assert_printed(0, "1970-01-01 00:00:00 UTC");
	assert_printed(1796054728ll * USEC_PER_SEC + 999999, "2026-11-30 16:05:28 UTC");
	assert_printed(951782400ll * USEC_PER_SEC, "2000-02-29 00:00:00 UTC");
	assert_printed(253402300799ll * USEC_PER_SEC, "9999-12-31 23:59:59 UTC");
}

static void a_time_beyond_all_calendars_prints_something_that_fits(void **state)
{
	char out[32];

	(void)state;
	clock_print(INT64_MAX, out);
	clock_print(INT64_MIN, out);
}

static void now_never_goes_back_and_is_never_zero(void **state)
{
	usec_t last = clock_now();

	(void)state;
	assert_true(last > 0);
	for (int i = 0; i < 1000; i++) {
		usec_t now = clock_now();

		assert_true(now >= last);
		last = now;
	}
}

static void the_wall_clock_is_of_this_century(void **state)
{
	(void)state;
	assert_true(clock_wall() > 1700000000ll * USEC_PER_SEC);
	assert_true(clock_wall() < 4102444800ll * USEC_PER_SEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_print_in_utc_to_the_second),
		cmocka_unit_test(a_time_beyond_all_calendars_prints_something_that_fits),
		cmocka_unit_test(now_never_goes_back_and_is_never_zero),
		cmocka_unit_test(the_wall_clock_is_of_this_century),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
