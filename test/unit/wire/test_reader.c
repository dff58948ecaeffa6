/* The field reader: its error is sticky, and no length moves it past the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "wire/reader.h"

static void fields_come_in_network_order(void **state)
{
	(void)state;
	struct reader r = reader_of("\x01\x02\x03\x81\x02\x03\x04" "ab\0xyz", 13);
	assert_int_equal(read_u8(&r), 1);
	assert_int_equal(read_u16(&r), 0x0203);
	assert_int_equal(read_u32(&r), 0x81020304u);
	assert_string_equal(read_str(&r), "ab");
	assert_int_equal(reader_left(&r), 3);
	assert_false(reader_done(&r));
	assert_true(span_is(read_bytes(&r, 3), "xyz"));
	assert_true(reader_done(&r));
}

static void nothing_is_read_from_nothing(void **state)
{
	(void)state;
	struct reader r = reader_of(NULL, 0);
	assert_true(reader_done(&r));
	assert_int_equal(read_bytes(&r, 0).len, 0);
	assert_true(reader_done(&r));
	assert_int_equal(read_u8(&r), 0);
	assert_false(reader_done(&r));
}

static void a_missing_field_makes_all_later_ones_nothing(void **state)
{
	(void)state;
	struct reader r = reader_of("\1\2\3ab", 6);
	assert_int_equal(read_u8(&r), 1);
	assert_int_equal(read_bytes(&r, 6).len, 0);
	assert_int_equal(read_u8(&r), 0);
	assert_int_equal(read_u16(&r), 0);
	assert_int_equal(read_u32(&r), 0);
	assert_string_equal(read_str(&r), "");
	assert_int_equal(reader_left(&r), 0);
	assert_false(reader_done(&r));
}

static void each_field_stops_short_of_the_end(void **state)
{
	(void)state;
	for (size_t len = 0; len < 4; len++) {
		uint8_t *exact = calloc(1, len ? len : 1);
		memset(exact, 'x', len);
		struct reader r = reader_of(exact, len);
		assert_int_equal(read_u32(&r), 0);
		assert_true(r.bad);
		r = reader_of(exact, len);
		assert_string_equal(read_str(&r), ""); /* no NUL in it */
		assert_true(r.bad);
		r = reader_of(exact, len);
		read_u16(&r);
		assert_int_equal(r.bad, len < 2);
		free(exact);
	}
}

static void a_length_near_the_top_of_its_type_does_not_wrap(void **state)
{
	(void)state;
	struct reader r = reader_of("abc", 3);
	assert_null(read_bytes(&r, SIZE_MAX).p);
	assert_true(r.bad);
	r = reader_of("abc", 3);
	assert_null(read_bytes(&r, SIZE_MAX - 1).p);
	assert_true(r.bad);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_come_in_network_order),
		cmocka_unit_test(nothing_is_read_from_nothing),
		cmocka_unit_test(a_missing_field_makes_all_later_ones_nothing),
		cmocka_unit_test(each_field_stops_short_of_the_end),
		cmocka_unit_test(a_length_near_the_top_of_its_type_does_not_wrap),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
