/* What of an SQL text may stand in the log: never a constant, never a comment, never a second line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "sql/redact.h"

static void shows(const char *sql, const char *expected)
{
	char out[300];
	redact_sql(span_str(sql), out, sizeof(out));
	assert_string_equal(out, expected);
}

static void constants_become_question_marks(void **state)
{
	(void)state;
	shows("SELECT * FROM t WHERE a = 'secret' AND b=-1.5e3 AND c = $1", "SELECT * FROM t WHERE a = ? AND b=-? AND c = ?");
	shows("ALTER ROLE bob PASSWORD 'x''y'", "ALTER ROLE bob PASSWORD ?");
	shows("SELECT E'a\\'b', $$sec$$, $t$ret$t$, X'1F', N'n', U&'u', 0xFF", "SELECT ?, ?, ?, ?, ?, ?, ?");
	shows("'a'\n'b'", "?");
}

static void names_and_words_stay(void **state)
{
	(void)state;
	shows("SELECT \"Col\" FROM s.t1", "SELECT \"Col\" FROM s.t1");
	shows("", "");
}

static void blanks_and_comments_become_one_blank(void **state)
{
	(void)state;
	shows("  SELECT\n\t1 -- password is x\n, /* 'y' */ a/**/b ", "SELECT ? , a b");
}

static void what_never_ends_is_a_constant(void **state)
{
	(void)state;
	shows("SELECT 'abc", "SELECT ?");
	shows("SELECT \"abc", "SELECT ?");
	shows("SELECT $$abc", "SELECT ?");
	shows("SELECT /* abc", "SELECT ?");
}

/* With standard_conforming_strings off, or in SJIS, the server may see the string end elsewhere. */
static void a_doubtful_end_of_a_string_ends_the_line(void **state)
{
	(void)state;
	shows("SELECT 'a\\'secret', b", "SELECT ? ...");
	shows("SELECT 'a\\' , secret , '", "SELECT ? ...");
	shows("SELECT E'\x83\\'secret', b", "SELECT ? ...");
	shows("SELECT N'\\' secret", "SELECT ? ...");
	shows("SELECT 'a\\b', c", "SELECT ?, c");
	shows("SELECT E'a\\'b', c", "SELECT ?, c");
	shows("SELECT $$\\'$$, c", "SELECT ?, c");
}

static void no_name_begins_a_second_line(void **state)
{
	(void)state;
	shows("SELECT \"a\nFATAL b\"", "SELECT \"a FATAL b\"");
	shows("a \x1b b", "a   b");
}

static void a_nul_byte_is_no_end(void **state)
{
	(void)state;
	char out[30];
	redact_sql((struct span){(const uint8_t *)"a\0'x'", 5}, out, sizeof(out));
	assert_string_equal(out, "a ?");
	redact_sql((struct span){NULL, 0}, out, sizeof(out));
	assert_string_equal(out, "");
}

static void it_is_cut_at_the_room_there_is(void **state)
{
	(void)state;
	static const char sql[] = "SELECT caf\xc3\xa9, '\xc3\xa9' FROM \"\xe2\x82\xac\"";
	static const char whole[] = "SELECT caf\xc3\xa9, ? FROM \"\xe2\x82\xac\"";
	for (size_t room = 1; room <= sizeof(whole) + 1; room++) {
		char *out = malloc(room);
		redact_sql(span_str(sql), out, room);
		size_t len = strlen(out);
		assert_true(len < room && len + 3 >= (room < sizeof(whole) ? room : sizeof(whole)));
		assert_memory_equal(out, whole, len);
		assert_false(len > 0 && ((uint8_t)whole[len] & 0xc0) == 0x80); /* the next byte begins a character */
		free(out);
	}
	char none = 'x';
	redact_sql(span_str(sql), &none, 0);
	assert_int_equal(none, 'x');
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(constants_become_question_marks),
		cmocka_unit_test(names_and_words_stay),
		cmocka_unit_test(blanks_and_comments_become_one_blank),
		cmocka_unit_test(what_never_ends_is_a_constant),
		cmocka_unit_test(a_doubtful_end_of_a_string_ends_the_line),
		cmocka_unit_test(no_name_begins_a_second_line),
		cmocka_unit_test(a_nul_byte_is_no_end),
		cmocka_unit_test(it_is_cut_at_the_room_there_is),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
