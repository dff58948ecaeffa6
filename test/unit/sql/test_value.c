/* Values of tokens: what PostgreSQL takes a word, name, string or number for (chapters 4.1.1 and 4.1.2), and which of them
 * have no value that we could be sure of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "sql/scan.h"
#include "sql/scan_priv.h"

enum mode { CONFORMING, BACKSLASH };

/* The value of the first token, with room for exactly that much; NULL: it has none. */
static void value_is_in(const char *sql, const char *expected, enum mode mode)
{
	struct scan s = scan_of(sql, strlen(sql));
	s.backslash = mode == BACKSLASH;
	scan_next(&s);
	size_t room = expected ? strlen(expected) + 1 : 100;
	char *out = malloc(room);
	assert_int_equal(scan_value(&s, out, room), expected != NULL);
	assert_string_equal(out, expected ? expected : "");
	if (room > 1 && expected)
		assert_false(scan_value(&s, out, room - 1));
	free(out);
}

static void value_is(const char *sql, const char *expected)
{
	value_is_in(sql, expected, CONFORMING);
}

static void the_value_of_a_word_is_folded(void **state)
{
	(void)state;
	value_is("ISO", "iso");
	value_is("\xc3\x89t", "\xc3\x89t");
}

static void the_value_of_a_name_keeps_its_case(void **state)
{
	(void)state;
	value_is("\"My\"\"Name\"", "My\"Name");
	value_is("\"\\n\"", "\\n");
	value_is("U&\"d\\0061t\\+000061\"", "data");
	value_is("U&\"\\0441\\043B\\043E\\043D\"", "\xd1\x81\xd0\xbb\xd0\xbe\xd0\xbd");
}

static void the_value_of_a_string_is_unescaped(void **state)
{
	(void)state;
	value_is("'Dianne''s horse'", "Dianne's horse");
	value_is("'foo'\n'bar'", "foobar");
	value_is("'a\\n'", "a\\n");
	value_is("''", "");
	value_is("''''", "'");
	value_is("N'x''y'", "x'y");
	value_is("B'101'", "101");
	value_is("X'1F'", "1F");
	value_is("$$a'b\\$$", "a'b\\");
	value_is("$t$ $$ $t$", " $$ ");
	value_is("$$$$", "");
}

static void the_value_of_an_e_string_has_c_escapes(void **state)
{
	(void)state;
	value_is("E'\\b\\f\\n\\r\\t\\\\\\'\\q'", "\b\f\n\r\t\\'q");
	value_is("E'\\101\\1012\\x41\\x4a\\xg\\60'", "AA2AJxg0");
	value_is("E'\\u0061\\U00000062'", "ab");
	value_is("E'\\ud83d\\ude00'", "\xf0\x9f\x98\x80");
	value_is("E'a'\n'\\n'", "a\n");
	value_is("E'\\u00e9\\u20ac'", "\xc3\xa9\xe2\x82\xac");
}

static void the_value_of_a_unicode_string_has_code_points(void **state)
{
	(void)state;
	value_is("U&'d\\0061t\\+000061'", "data");
	value_is("U&'a\\\\b''c'", "a\\b'c");
	value_is("U&'\\D83D\\DE00'", "\xf0\x9f\x98\x80");
	value_is("U&'\\D83D\\+00DE00'", "\xf0\x9f\x98\x80");
	value_is("U&'\\+01F600'", "\xf0\x9f\x98\x80");
}

static void what_has_no_certain_value_is_refused(void **state)
{
	(void)state;
	static const char *const texts[] = {"E'\\0'", "E'\\400'", "E'\\x00'", "E'\\u0000'", "E'\\u006'", "E'\\U00110000'", "E'\\ud83d'", "E'\\ud83dx'", "E'\\ud83d\\u0061'",
		"E'\\ude00'", "E'\\v'", "U&'\\006'", "U&'\\'", "U&'\\+0061'", "U&'\\D83D'", "U&'d!0061' UESCAPE '!'", "U&\"d!0061\" /* */ uescape '!'",
		"'abc", "'abc''", "$$a", "$$$", "/* x */", "", ";", "(", "$1", "||"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		value_is(texts[i], NULL);
}

static void without_conforming_strings_plain_values_are_unescaped_too(void **state)
{
	(void)state;
	value_is_in("'a\\tb'", "a\tb", BACKSLASH);
	value_is_in("n'a\\''", "a'", BACKSLASH);
	value_is_in("\"a\\t\"", "a\\t", BACKSLASH);
	value_is_in("$$\\t$$", "\\t", BACKSLASH);
}

static void the_value_of_a_number_is_its_text(void **state)
{
	(void)state;
	value_is("10", "10");
	value_is("1.5e3", "1.5e3");
	value_is(".5", ".5");
}

static void no_room_at_all_is_refused_and_nothing_is_written(void **state)
{
	(void)state;
	struct scan s = scan_of("abc", 3);
	scan_next(&s);
	char out[2] = "x";
	assert_false(scan_value(&s, out, 0));
	assert_int_equal(out[0], 'x');
	assert_false(scan_value(&s, out, 2));
	assert_int_equal(out[0], '\0');
}

/* NAMEDATALEN is 64: 63 bytes, but no part of a character. */
static void a_value_that_may_be_cut_is_cut_between_characters(void **state)
{
	(void)state;
	char out[5];
	struct scan s = scan_of("abc\xe2\x82\xac" "d \xc3\xa9\xc3\xa9\xc3\xa9 abcd /", 22);
	scan_next(&s);
	assert_true(scan_value_cut(&s, out, sizeof(out)));
	assert_string_equal(out, "abc");
	scan_next(&s);
	assert_true(scan_value_cut(&s, out, sizeof(out)));
	assert_string_equal(out, "\xc3\xa9\xc3\xa9");
	scan_next(&s);
	assert_true(scan_value_cut(&s, out, sizeof(out)));
	assert_string_equal(out, "abcd");
	scan_next(&s);
	assert_false(scan_value_cut(&s, out, sizeof(out)));
	assert_string_equal(out, "");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_value_of_a_word_is_folded),
		cmocka_unit_test(the_value_of_a_name_keeps_its_case),
		cmocka_unit_test(the_value_of_a_string_is_unescaped),
		cmocka_unit_test(the_value_of_an_e_string_has_c_escapes),
		cmocka_unit_test(the_value_of_a_unicode_string_has_code_points),
		cmocka_unit_test(what_has_no_certain_value_is_refused),
		cmocka_unit_test(without_conforming_strings_plain_values_are_unescaped_too),
		cmocka_unit_test(the_value_of_a_number_is_its_text),
		cmocka_unit_test(no_room_at_all_is_refused_and_nothing_is_written),
		cmocka_unit_test(a_value_that_may_be_cut_is_cut_between_characters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
