/* A parcel arrives as it was put together, however many pieces it has. stream_send and stream_sendv are replaced: this test links no stream. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "proxy/parcel.h"

static struct buf arrived;
static int sends, pieces;

void stream_sendv(struct stream *s, const struct iovec *iov, int n)
{
	(void)s;
	sends++;
	pieces += n;
	for (int i = 0; i < n; i++)
		buf_add(&arrived, iov[i].iov_base, iov[i].iov_len);
}

void stream_send(struct stream *s, const void *p, size_t len)
{
	struct iovec one = {(void *)p, len};
	stream_sendv(s, &one, 1);
}

static int clear(void **state)
{
	(void)state;
	buf_free(&arrived);
	sends = pieces = 0;
	return 0;
}

static void expect(struct parcel *p, const char *text)
{
	parcel_send(p, NULL);
	assert_int_equal(arrived.len, strlen(text));
	assert_memory_equal(arrived.p, text, arrived.len);
	assert_true(parcel_empty(p));
	parcel_free(p);
}

static void few_bytes_are_sent_as_one_piece(void **state)
{
	static const uint8_t read[] = "abcdef";
	struct parcel p = {0};
	(void)state;
	buf_add_str(parcel_made(&p), "<1>");
	parcel_pass(&p, read, 6);
	expect(&p, "<1>abcdef");
	assert_int_equal(pieces, 1);
}

static void many_bytes_are_sent_as_they_stand(void **state)
{
	static uint8_t read[8001];
	struct parcel p = {0};
	(void)state;
	memset(read, 'x', 8000);
	parcel_pass(&p, read, 8000);
	buf_add_str(parcel_made(&p), "<1>");
	parcel_send(&p, NULL);
	assert_int_equal(arrived.len, 8003);
	assert_int_equal(pieces, 2);
	parcel_free(&p);
}

static void runs_that_touch_are_one_piece(void **state)
{
	static const uint8_t read[] = "abcdef";
	struct parcel p = {0};
	(void)state;
	parcel_pass(&p, read, 2);
	parcel_pass(&p, read + 2, 3);
	parcel_pass(&p, read + 5, 1);
	expect(&p, "abcdef");
	assert_int_equal(pieces, 1);
}

static void a_made_message_stands_where_it_was_made(void **state)
{
	static const uint8_t read[] = "abcdef";
	struct parcel p = {0};
	(void)state;
	buf_add_str(parcel_made(&p), "<1>");
	parcel_pass(&p, read, 3);
	buf_add_str(parcel_made(&p), "<2>");
	buf_add_str(parcel_made(&p), "<3>");
	parcel_pass(&p, read + 3, 3);
	buf_add_str(parcel_made(&p), "<4>");
	expect(&p, "<1>abc<2><3>def<4>");
	assert_int_equal(sends, 1);
}

static void more_pieces_than_fit_arrive_in_order(void **state)
{
	static const uint8_t read[] = "abcdefghij";
	struct parcel p = {0};
	struct buf text = {0};
	(void)state;
	for (int i = 0; i < 1000; i++) {
		char made[16];
		snprintf(made, sizeof(made), "<%d>", i);
		buf_add_str(parcel_made(&p), made);
		parcel_pass(&p, read + i % 10, 1);
		buf_add_str(&text, made);
		buf_add(&text, read + i % 10, 1);
	}
	buf_add_u8(&text, 0);
	expect(&p, (const char *)text.p);
	buf_free(&text);
}

static void a_dropped_parcel_sends_nothing(void **state)
{
	struct parcel p = {0};
	(void)state;
	buf_add_str(parcel_made(&p), "x");
	parcel_drop(&p);
	expect(&p, "");
	assert_int_equal(sends, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, clear, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(few_bytes_are_sent_as_one_piece),
		TEST(many_bytes_are_sent_as_they_stand),
		TEST(runs_that_touch_are_one_piece),
		TEST(a_made_message_stands_where_it_was_made),
		TEST(more_pieces_than_fit_arrive_in_order),
		TEST(a_dropped_parcel_sends_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
