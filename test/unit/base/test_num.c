/* num: what people write, whole or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/num.h"

#define UNTOUCHED 4711

static void assert_i64(bool (*read)(const char *, int64_t *), const char *text, int64_t wanted)
{
	int64_t v = UNTOUCHED;

	if (!read(text, &v) || v != wanted)
		fail_msg("\"%s\": %lld instead of %lld", text, (long long)v, (long long)wanted);
}

static void assert_refused(bool (*read)(const char *, int64_t *), const char *text)
{
	int64_t v = UNTOUCHED;

	if (read(text, &v))
		fail_msg("\"%s\" was taken as %lld", text, (long long)v);
	assert_int_equal(v, UNTOUCHED);
}

static void whole_numbers_are_decimal_hexadecimal_or_octal(void **state)
{
	(void)state;
	assert_i64(num_i64, "0", 0);
	assert_i64(num_i64, "42", 42);
	assert_i64(num_i64, "-1", -1);
	assert_i64(num_i64, "0x1F", 31);
	assert_i64(num_i64, "010", 8);
	assert_i64(num_i64, "9223372036854775807", INT64_MAX);
	assert_i64(num_i64, "-9223372036854775808", INT64_MIN);
}

static void what_is_not_wholly_a_number_is_refused(void **state)
{
	static const char *const bad[] = {
		"", " ", "abc", "1x", "1 ", " 1", "\n1", "1.5", "--1", "- 1", "08", "0x", "9223372036854775808",
		"-9223372036854775809", "99999999999999999999999999",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_refused(num_i64, bad[i]);
}

static void octal_needs_no_leading_zero(void **state)
{
	(void)state;
	assert_i64(num_octal, "0777", 0777);
	assert_i64(num_octal, "777", 0777);
	assert_i64(num_octal, "0", 0);
	assert_refused(num_octal, "888");
	assert_refused(num_octal, "-7");
	assert_refused(num_octal, "+7");
	assert_refused(num_octal, "0x1ff");
	assert_refused(num_octal, "");
	assert_refused(num_octal, " 7");
}

static void a_bare_duration_is_seconds(void **state)
{
	(void)state;
	assert_i64(num_usec, "0", 0);
	assert_i64(num_usec, "1.5", 1500000);
	assert_i64(num_usec, ".25", 250000);
	assert_i64(num_usec, "3600", 3600 * USEC_PER_SEC);
	assert_i64(num_usec, "0.1", 100000);
	assert_i64(num_usec, "0.000001", 1);
}

static void a_duration_takes_the_units_of_postgresql(void **state)
{
	(void)state;
	assert_i64(num_usec, "7us", 7);
	assert_i64(num_usec, "7ms", 7000);
	assert_i64(num_usec, "7s", 7000000);
	assert_i64(num_usec, "2min", 120 * USEC_PER_SEC);
	assert_i64(num_usec, "2h", 7200 * USEC_PER_SEC);
	assert_i64(num_usec, "1d", 86400 * USEC_PER_SEC);
	assert_i64(num_usec, "1.5 min", 90 * USEC_PER_SEC);
}

static void a_duration_is_never_negative_nor_endless(void **state)
{
	static const char *const bad[] = {
		"", "-1", "+1", "-0", "inf", "nan", "infinity", " 1", "1 ms x", "1m", "1S", "s", ".", "1..2", "1e300",
		"9999999999999999999", "300000000d",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_refused(num_usec, bad[i]);
}

static void sizes_count_in_steps_of_1024(void **state)
{
	(void)state;
	assert_i64(num_bytes, "0", 0);
	assert_i64(num_bytes, "2147483647", 2147483647);
	assert_i64(num_bytes, "10B", 10);
	assert_i64(num_bytes, "4kB", 4096);
	assert_i64(num_bytes, "1MB", 1048576);
	assert_i64(num_bytes, "2 GB", 2147483648);
	assert_i64(num_bytes, "8589934591GB", 8589934591ll << 30);
}

static void a_size_too_large_or_of_unknown_unit_is_refused(void **state)
{
	static const char *const bad[] = {"", "-1", "1KB", "1kb", "1 x", "MB", "1.5MB", "8589934592GB", "9223372036854775808"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_refused(num_bytes, bad[i]);
}

static void yes_and_no_have_four_names_each_in_any_case(void **state)
{
	static const char *const yes[] = {"1", "on", "yes", "true", "ON", "Yes", "tRUE"};
	static const char *const no[] = {"0", "off", "no", "false", "OFF", "No", "FALSE"};
	static const char *const bad[] = {"", "2", "y", "n", "t", "onn", "tru", " on", "on "};
	bool v;

	(void)state;
	for (size_t i = 0; i < 7; i++) {
		v = false;
		assert_true(num_bool(yes[i], &v) && v);
		v = true;
		assert_true(num_bool(no[i], &v) && !v);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(num_bool(bad[i], &v));
}

static void numbers_are_written_in_full(void **state)
{
	char out[20];

	(void)state;
	assert_int_equal(num_write(out, 0), 1);
	assert_memory_equal(out, "0", 1);
	assert_int_equal(num_write(out, 1030), 4);
	assert_memory_equal(out, "1030", 4);
	assert_int_equal(num_write(out, UINT64_MAX), 20);
	assert_memory_equal(out, "18446744073709551615", 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_numbers_are_decimal_hexadecimal_or_octal),
		cmocka_unit_test(what_is_not_wholly_a_number_is_refused),
		cmocka_unit_test(octal_needs_no_leading_zero),
		cmocka_unit_test(a_bare_duration_is_seconds),
		cmocka_unit_test(a_duration_takes_the_units_of_postgresql),
		cmocka_unit_test(a_duration_is_never_negative_nor_endless),
		cmocka_unit_test(sizes_count_in_steps_of_1024),
		cmocka_unit_test(a_size_too_large_or_of_unknown_unit_is_refused),
		cmocka_unit_test(yes_and_no_have_four_names_each_in_any_case),
		cmocka_unit_test(numbers_are_written_in_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
