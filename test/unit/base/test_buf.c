/* buf and span. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"

static void a_fresh_buffer_holds_no_memory(void **state)
{
	struct buf b = {0};

	(void)state;
	buf_add(&b, "", 0);
	assert_null(b.p);
	buf_free(&b);
}

static void what_is_added_stands_behind_what_was_there(void **state)
{
	struct buf b = {0};

	(void)state;
	buf_add(&b, "ab", 2);
	buf_add_str(&b, "cd");
	buf_add_u8(&b, 'e');
	buf_add_fmt(&b, "<%d|%s>", 7, "x");
	assert_true(span_is(buf_span(&b), "abcde<7|x>"));
	buf_free(&b);
	assert_null(b.p);
	assert_int_equal(b.len, 0);
	assert_int_equal(b.room, 0);
}

static void a_long_formatted_text_comes_whole(void **state)
{
	struct buf b = {0};

	(void)state;
	buf_add_fmt(&b, "%0*d", 5000, 1);
	assert_int_equal(b.len, 5000);
	assert_int_equal(b.p[0], '0');
	assert_int_equal(b.p[4999], '1');
	buf_free(&b);
}

static void a_million_single_bytes_grow_it_a_few_times_only(void **state)
{
	struct buf b = {0};
	size_t room = 0;
	int grown = 0;

	(void)state;
	for (int i = 0; i < 1000000; i++) {
		buf_add_u8(&b, (uint8_t)i);
		if (b.room != room) {
			room = b.room;
			grown++;
		}
	}
	assert_true(grown < 32);
	for (int i = 0; i < 1000000; i++)
		assert_int_equal(b.p[i], (uint8_t)i);
	buf_free(&b);
}

static void room_asked_for_is_there(void **state)
{
	struct buf b = {0};
	const uint8_t *p;

	(void)state;
	buf_add_str(&b, "xy");
	buf_need(&b, 10000);
	assert_true(b.room - b.len >= 10000);
	p = b.p;
	memset(b.p + b.len, 'z', 10000);
	buf_need(&b, 10000);
	assert_ptr_equal(b.p, p);
	assert_int_equal(b.len, 2);
	buf_free(&b);
}

static void cutting_drops_from_the_front(void **state)
{
	struct buf b = {0};

	(void)state;
	buf_add_str(&b, "abcdef");
	buf_cut(&b, 0);
	assert_true(span_is(buf_span(&b), "abcdef"));
	buf_cut(&b, 4);
	assert_true(span_is(buf_span(&b), "ef"));
	buf_cut(&b, 2);
	assert_int_equal(b.len, 0);
	buf_add_str(&b, "g");
	assert_true(span_is(buf_span(&b), "g"));
	buf_free(&b);
}

static void a_wiped_buffer_is_empty_and_usable(void **state)
{
	struct buf b = {0};

	(void)state;
	buf_wipe(&b);
	buf_add_str(&b, "hunter2");
	buf_wipe(&b);
	assert_null(b.p);
	buf_add_str(&b, "a");
	assert_true(span_is(buf_span(&b), "a"));
	buf_free(&b);
}

static void spans_compare_by_length_and_bytes(void **state)
{
	struct span none = {NULL, 0};

	(void)state;
	assert_true(span_same(span_str("ab"), span_str("ab")));
	assert_false(span_same(span_str("ab"), span_str("abc")));
	assert_false(span_same(span_str("ab"), span_str("ac")));
	assert_true(span_same(none, span_str("")));
	assert_false(span_is(span_str("ab"), "a"));
	assert_true(span_is(span_str(""), ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fresh_buffer_holds_no_memory),
		cmocka_unit_test(what_is_added_stands_behind_what_was_there),
		cmocka_unit_test(a_long_formatted_text_comes_whole),
		cmocka_unit_test(a_million_single_bytes_grow_it_a_few_times_only),
		cmocka_unit_test(room_asked_for_is_there),
		cmocka_unit_test(cutting_drops_from_the_front),
		cmocka_unit_test(a_wiped_buffer_is_empty_and_usable),
		cmocka_unit_test(spans_compare_by_length_and_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
