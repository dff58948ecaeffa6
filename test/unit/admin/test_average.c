/* The averages of SHOW STATS, as PgBouncer's manual describes them: counts and bytes per second, times per thing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "admin/stats_priv.h"

static void counts_are_per_second_of_the_time_that_passed(void **state)
{
	struct totals before = {.n = {[TOTAL_queries] = 100, [TOTAL_received] = 5000}};
	struct totals now = {.n = {[TOTAL_queries] = 400, [TOTAL_received] = 11000}};
	struct totals a;

	(void)state;
	stats_compute(&before, &now, 60 * USEC_PER_SEC, &a);
	assert_int_equal(a.n[TOTAL_queries], 5);
	assert_int_equal(a.n[TOTAL_received], 100);
}

static void times_are_per_transaction_query_and_assignment(void **state)
{
	struct totals before = {.n = {[TOTAL_xacts] = 1, [TOTAL_xact_us] = 1000000, [TOTAL_queries] = 1, [TOTAL_query_us] = 7}};
	struct totals now = {.n = {
		[TOTAL_xacts] = 5, [TOTAL_xact_us] = 1000400, [TOTAL_queries] = 11, [TOTAL_query_us] = 257, [TOTAL_server_assignments] = 2, [TOTAL_wait_us] = 90,
	}};
	struct totals a;

	(void)state;
	stats_compute(&before, &now, USEC_PER_SEC, &a);
	assert_int_equal(a.n[TOTAL_xact_us], 100);
	assert_int_equal(a.n[TOTAL_query_us], 25);
	assert_int_equal(a.n[TOTAL_wait_us], 45);
}

static void where_nothing_happened_all_is_zero(void **state)
{
	struct totals same = {.n = {[TOTAL_xacts] = 9, [TOTAL_xact_us] = 9, [TOTAL_wait_us] = 9}};
	struct totals a;

	(void)state;
	stats_compute(&same, &same, USEC_PER_SEC, &a);
	for (int i = 0; i < TOTALS; i++)
		assert_int_equal(a.n[i], 0);
}

static void no_time_at_all_divides_by_nothing(void **state)
{
	struct totals before = {0}, now = {.n = {[TOTAL_queries] = 9}};
	struct totals a;

	(void)state;
	stats_compute(&before, &now, 0, &a);
	assert_int_equal(a.n[TOTAL_queries], 0);
}

static void averages_keep_the_entry_they_are_of(void **state)
{
	struct tally entry = {0};
	struct totals before = {0}, now = {.entry = &entry};
	struct totals a;

	(void)state;
	stats_compute(&before, &now, USEC_PER_SEC, &a);
	assert_ptr_equal(a.entry, &entry);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_are_per_second_of_the_time_that_passed),
		cmocka_unit_test(times_are_per_transaction_query_and_assignment),
		cmocka_unit_test(where_nothing_happened_all_is_zero),
		cmocka_unit_test(no_time_at_all_divides_by_nothing),
		cmocka_unit_test(averages_keep_the_entry_they_are_of),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
