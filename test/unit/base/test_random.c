/* random: within its limits, and not always the same. The bounds below fail by chance less than once in 10^9 runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/random.h"

static void numbers_differ(void **state)
{
	(void)state;
	assert_false(random_u64() == random_u64());
}

static void all_bytes_asked_for_are_filled(void **state)
{
	uint8_t bytes[64 + 1], seen[64] = {0};

	(void)state;
	/* A byte that stays 0 ten times over was not filled: (1/256)^10 by chance. */
	bytes[64] = 0xa5;
	for (int i = 0; i < 10; i++) {
		memset(bytes, 0, 64);
		random_bytes(bytes, 64);
		for (int j = 0; j < 64; j++)
			seen[j] |= bytes[j];
	}
	for (int j = 0; j < 64; j++)
		assert_int_not_equal(seen[j], 0);
	assert_int_equal(bytes[64], 0xa5);
}

static void below_a_limit_every_number_comes_about_as_often(void **state)
{
	enum { DRAWS = 60000 };
	unsigned seen[6] = {0};

	(void)state;
	for (int i = 0; i < DRAWS; i++) {
		uint32_t v = random_below(6);

		assert_true(v < 6);
		seen[v]++;
	}
	/* 10,000 each, with a standard deviation of 91. */
	for (int i = 0; i < 6; i++)
		assert_in_range(seen[i], 10000 - 700, 10000 + 700);
}

static void a_large_limit_is_even_too(void **state)
{
	enum { DRAWS = 30000 };
	const uint32_t limit = 0xc0000000u; /* v % limit alone would give the lower third twice as often */
	unsigned low = 0;

	(void)state;
	for (int i = 0; i < DRAWS; i++)
		low += random_below(limit) < limit / 3;
	/* 10,000, with a standard deviation of 82. */
	assert_in_range(low, 10000 - 600, 10000 + 600);
}

static void below_one_there_is_only_zero(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		assert_int_equal(random_below(1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_differ),
		cmocka_unit_test(all_bytes_asked_for_are_filled),
		cmocka_unit_test(below_a_limit_every_number_comes_about_as_often),
		cmocka_unit_test(a_large_limit_is_even_too),
		cmocka_unit_test(below_one_there_is_only_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
