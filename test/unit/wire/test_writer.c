/* Messages byte by byte, as chapter 55.7 lays them out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "wire/startup.h"
#include "wire/writer.h"

static void holds(struct buf *b, const void *expected, size_t len)
{
	assert_int_equal(b->len, len);
	assert_memory_equal(b->p, expected, len);
	buf_free(b);
}
#define HOLDS(b, bytes) holds(b, bytes, sizeof(bytes) - 1)

static void a_length_counts_itself_and_the_body(void **state)
{
	(void)state;
	struct buf b = {0};
	size_t begun = msg_begin(&b, 'x');
	msg_u8(&b, 0xfe);
	msg_u16(&b, 0x0102);
	msg_u32(&b, 0x81020304u);
	msg_str(&b, "ab");
	msg_bytes(&b, "cd", 2);
	msg_bytes(&b, NULL, 0);
	msg_end(&b, begun);
	HOLDS(&b, "x\0\0\0\x10\xfe\1\2\x81\2\3\4ab\0cd");
}

static void a_second_message_does_not_touch_the_first(void **state)
{
	(void)state;
	struct buf b = {0};
	msg_ready(&b, 'T');
	msg_ready(&b, 'E');
	HOLDS(&b, "Z\0\0\0\5TZ\0\0\0\5E");
}

static void whole_messages_are_laid_out_as_documented(void **state)
{
	(void)state;
	struct buf b = {0};
	msg_empty(&b, '1');
	HOLDS(&b, "1\0\0\0\4");
	msg_auth(&b, 0, NULL, 0);
	HOLDS(&b, "R\0\0\0\x8\0\0\0\0");
	msg_auth(&b, 5, "salt", 4);
	HOLDS(&b, "R\0\0\0\x0c\0\0\0\5salt");
	msg_parameter(&b, "TimeZone", "UTC");
	HOLDS(&b, "S\0\0\0\x11TimeZone\0UTC\0");
	msg_key(&b, 1, 0xfffefdfcu);
	HOLDS(&b, "K\0\0\0\x0c\0\0\0\1\xff\xfe\xfd\xfc");
	msg_query(&b, "x");
	HOLDS(&b, "Q\0\0\0\6x\0");
	msg_complete(&b, "SET");
	HOLDS(&b, "C\0\0\0\x8SET\0");
	msg_ssl_request(&b);
	HOLDS(&b, "\0\0\0\x8\4\xd2\x16\x2f");
}

static void messages_of_an_extended_query_are_laid_out_as_documented(void **state)
{
	(void)state;
	const char *values[] = {"", "xyz"};
	struct buf b = {0};
	msg_parse(&b, "s", "q\0\0\1\0\0\0\x17", 8); /* one type, int4 */
	HOLDS(&b, "P\0\0\0\x0es\0q\0\0\1\0\0\0\x17");
	msg_parse_sql(&b, "s", "q");
	HOLDS(&b, "P\0\0\0\x0as\0q\0\0\0");
	msg_bind(&b, "p", "s", NULL, 0);
	HOLDS(&b, "B\0\0\0\x0ep\0s\0\0\0\0\0\0\0");
	msg_bind(&b, "", "s", values, 2);
	HOLDS(&b, "B\0\0\0\x18\0s\0\0\0\0\2\0\0\0\0\0\0\0\3xyz\0\0");
	msg_object(&b, 'D', 'P', "p");
	HOLDS(&b, "D\0\0\0\7Pp\0");
	msg_execute(&b, "p");
	HOLDS(&b, "E\0\0\0\x0ap\0\0\0\0\0");
}

static void a_startup_packet_has_no_type(void **state)
{
	(void)state;
	struct buf b = {0};
	msg_empty(&b, 'S');
	size_t begun = b.len;
	msg_startup_head(&b, PROTOCOL_3_0);
	msg_pair(&b, "user", "bob");
	msg_u8(&b, 0);
	msg_end(&b, begun);
	HOLDS(&b, "S\0\0\0\4\0\0\0\x12\0\3\0\0user\0bob\0\0");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_length_counts_itself_and_the_body),
		cmocka_unit_test(a_second_message_does_not_touch_the_first),
		cmocka_unit_test(whole_messages_are_laid_out_as_documented),
		cmocka_unit_test(messages_of_an_extended_query_are_laid_out_as_documented),
		cmocka_unit_test(a_startup_packet_has_no_type),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
