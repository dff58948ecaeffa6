/* hist: which slot a duration falls into, and the percentiles read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/hist.h"

static void a_slot_holds_what_is_below_its_power_of_two(void **state)
{
	static const struct {
		usec_t duration;
		unsigned slot;
	} rows[] = {
		{-5, 0}, {0, 0}, {1, 1}, {2, 2}, {3, 2}, {4, 3}, {1023, 10}, {1024, 11},
		{(usec_t)1 << 30, 31}, {(usec_t)1 << 31, 31}, {INT64_MAX, 31},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct hist h = {0};

		hist_add(&h, rows[i].duration);
		for (unsigned s = 0; s < HIST_SLOTS; s++)
			assert_int_equal(h.slots[s], s == rows[i].slot);
	}
}

static void an_empty_histogram_says_zero(void **state)
{
	struct hist h = {0};

	(void)state;
	assert_int_equal(hist_percentile(&h, 0.99), 0);
}

static void a_percentile_is_the_upper_edge_of_its_slot(void **state)
{
	struct hist h = {0};

	(void)state;
	for (int i = 0; i < 90; i++)
		hist_add(&h, 100);
	for (int i = 0; i < 10; i++)
		hist_add(&h, 5000);
	assert_int_equal(hist_percentile(&h, 0.5), 128);
	assert_int_equal(hist_percentile(&h, 0.9), 128);
	assert_int_equal(hist_percentile(&h, 0.91), 8192);
	assert_int_equal(hist_percentile(&h, 1), 8192);
}

static void the_lowest_percentile_is_that_of_the_least_duration(void **state)
{
	struct hist h = {0};

	(void)state;
	hist_add(&h, 100);
	assert_int_equal(hist_percentile(&h, 0), 128);
}

static void what_is_taken_out_is_counted_no_more(void **state)
{
	struct hist h = {0};
	uint64_t out[HIST_SLOTS];

	(void)state;
	hist_add(&h, 3);
	hist_add(&h, 3);
	hist_add(&h, 100);
	assert_int_equal(hist_take(&h, out), 3);
	assert_int_equal(out[2], 2);
	assert_int_equal(out[7], 1);
	hist_add(&h, 3);
	assert_int_equal(hist_take(&h, out), 1);
	assert_int_equal(out[2], 1);
	assert_int_equal(out[7], 0);
	assert_int_equal(hist_take(&h, out), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slot_holds_what_is_below_its_power_of_two),
		cmocka_unit_test(an_empty_histogram_says_zero),
		cmocka_unit_test(a_percentile_is_the_upper_edge_of_its_slot),
		cmocka_unit_test(the_lowest_percentile_is_that_of_the_least_duration),
		cmocka_unit_test(what_is_taken_out_is_counted_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
