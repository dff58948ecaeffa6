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
}

static void a_startup_packet_has_no_type(void **state)
{
	(void)state;
	struct buf b = {0};
	msg_empty(&b, 'S');
	size_t begun = b.len;
	msg_startup_head(&b, PROTOCOL_3_0);
	msg_str(&b, "user");
	msg_str(&b, "bob");
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
		cmocka_unit_test(a_startup_packet_has_no_type),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
