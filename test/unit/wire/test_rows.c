/* Console results byte by byte: RowDescription, DataRow, CommandComplete of chapter 55.7, with pg_type's OIDs and sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "wire/rows.h"
#include "wire/writer.h"

static void holds(struct buf *b, const void *expected, size_t len)
{
	assert_int_equal(b->len, len);
	assert_memory_equal(b->p, expected, len);
	buf_free(b);
}
#define HOLDS(b, bytes) holds(b, bytes, sizeof(bytes) - 1)

static void a_head_describes_its_columns(void **state)
{
	(void)state;
	static const struct column columns[] = {{"t", COL_TEXT}, {"i", COL_INT4}, {"l", COL_INT8}, {"n", COL_NUMERIC}, {"b", COL_BYTEA}};
	struct buf b = {0};
	rows_head(&b, columns, 5);
	HOLDS(&b, "T\0\0\0\x6a\0\5"
		"t\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0"
		"i\0\0\0\0\0\0\0\0\0\0\x17\0\4\xff\xff\xff\xff\0\0"
		"l\0\0\0\0\0\0\0\0\0\0\x14\0\x8\xff\xff\xff\xff\0\0"
		"n\0\0\0\0\0\0\0\0\0\6\xa4\xff\xff\xff\xff\xff\xff\0\0"
		"b\0\0\0\0\0\0\0\0\0\0\x11\xff\xff\xff\xff\xff\xff\0\0");
}

static void a_row_holds_texts_numbers_and_nulls(void **state)
{
	(void)state;
	struct buf b = {0};
	struct row r;
	row_begin(&r, &b, 6);
	row_text(&r, "ab");
	row_text(&r, "");
	row_text(&r, NULL);
	row_int(&r, -7);
	row_int(&r, INT64_MIN);
	row_null(&r);
	row_end(&r);
	HOLDS(&b, "D\0\0\0\x36\0\6\0\0\0\2ab\0\0\0\0\xff\xff\xff\xff\0\0\0\2-7\0\0\0\x14-9223372036854775808\xff\xff\xff\xff");
}

static void a_result_without_columns_or_rows_is_whole(void **state)
{
	(void)state;
	struct buf b = {0};
	struct row r;
	rows_head(&b, NULL, 0);
	row_begin(&r, &b, 0);
	row_end(&r);
	msg_complete(&b, "SHOW");
	HOLDS(&b, "T\0\0\0\6\0\0D\0\0\0\6\0\0C\0\0\0\x9SHOW\0");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_head_describes_its_columns),
		cmocka_unit_test(a_row_holds_texts_numbers_and_nulls),
		cmocka_unit_test(a_result_without_columns_or_rows_is_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
