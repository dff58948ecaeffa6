/* SASLprep: the examples of RFC 4013 chapter 3, and PostgreSQL's ways of seeing it. That whole passwords come out as in
 * PostgreSQL is shown by the verifiers in test_password.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "auth/saslprep.h"

static void becomes_bytes(const void *in, size_t len, const char *want)
{
	struct buf out = {0};

	buf_add_str(&out, "what was there before");
	saslprep((struct span){in, len}, &out);
	assert_int_equal(out.len, strlen(want));
	if (out.len)
		assert_memory_equal(out.p, want, out.len);
	buf_wipe(&out);
}

static void becomes(const char *in, const char *want)
{
	becomes_bytes(in, strlen(in), want);
}

static void stays(const char *in)
{
	becomes(in, in);
}

static void the_rfcs_examples_come_out_right(void **state)
{
	(void)state;
	becomes("I\u00ADX", "IX");
	stays("user");
	stays("USER");
	becomes("\u00AA", "a");
	becomes("\u2168", "IX");
}

static void spaces_of_all_kinds_become_one_kind(void **state)
{
	(void)state;
	becomes("a\u00A0b", "a b");
	becomes("a\u3000b", "a b");
	becomes("a\u200Bb", "a b"); /* in both of the RFC's tables; PostgreSQL takes it for a space */
	becomes("a\u1680b", "a b");
}

static void characters_mapped_to_nothing_vanish(void **state)
{
	(void)state;
	becomes("a\u200C\u200D\u2060\uFE0F\uFEFFb\u00E9", "ab\u00E9");
}

static void the_form_is_nfkc(void **state)
{
	(void)state;
	becomes("e\u0301", "\u00E9");
	becomes("\uFB01n", "fin");
	becomes("\uFF76\uFF9E", "\u30AC"); /* half-width ka and voice mark: ga */
	becomes("\u1100\u1161\u11A8", "\uAC01");
	becomes("\u212B", "\u00C5");
	becomes("a\u0323\u0301", "\u1EA1\u0301");
	becomes("a\u0301\u0323", "\u1EA1\u0301");
}

static void ascii_is_never_touched(void **state)
{
	(void)state;
	stays("");
	stays("\x01\x7f  ~");
	becomes_bytes("", 0, "");
}

static void prohibited_characters_leave_the_password_raw(void **state)
{
	(void)state;
	stays("\x07\uFB01");             /* ASCII control, not alone */
	stays("\xc2\x85\uFB01");       /* other control */
	stays("\uE000\uFB01");           /* private use */
	stays("\uFFFE\uFB01");           /* not a character */
	stays("\uFFFD\uFB01");           /* replacement character */
	stays("\u2FF0\uFB01");           /* ideographic description */
	stays("\u202E\uFB01");           /* changes the direction */
	stays("\U000E0001\uFB01");       /* tag */
	stays("\u0340\uFB01");           /* prohibited as it stands; NFKC would have made U+0300 of it */
}

static void characters_younger_than_unicode_3_2_leave_the_password_raw(void **state)
{
	(void)state;
	stays("\u0221\uFB01");
	stays("\U0001F600\uFB01");
	stays("\U0001F100"); /* would be "0." */
}

static void a_password_of_nothing_is_used_raw(void **state)
{
	(void)state;
	stays("\u00AD");
	stays("\u00AD\u200C");
}

static void right_to_left_text_may_not_be_mixed(void **state)
{
	(void)state;
	stays("\u0627\uFB01\u0628"); /* a ligature of Latin letters between Arabic ones */
	stays("\u06271\uFF76\uFF9E");
	stays("\u0627\u00B9");                          /* does not end right-to-left: RFC 4013's last example in other digits */
	becomes("\u0627\u00B9\u0628", "\u0627" "1\u0628"); /* digits inside are neutral */
	becomes("\uFB1D", "\u05D9\u05B4");
	becomes("\u2135\uFB01", "\u05D0" "fi"); /* the alef symbol is a left-to-right character before NFKC, which is when we look */
}

static void bytes_that_are_not_utf8_are_used_raw(void **state)
{
	(void)state;
	stays("\xff\xfe\xef\xac\x81");
	stays("\xc0\x80\xef\xac\x81");         /* overlong NUL */
	stays("\xe0\x80\xaf\xef\xac\x81");     /* overlong slash */
	stays("\xed\xa0\x80\xef\xac\x81");     /* a surrogate */
	stays("\xf4\x90\x80\x80\xef\xac\x81"); /* above U+10FFFF */
	stays("\xef\xac\x81\xc3");             /* cut off */
	stays("caf\xe9");                      /* Latin-1 */
}

static void a_zero_byte_is_an_ordinary_control_character(void **state)
{
	struct buf out = {0};

	(void)state;
	saslprep((struct span){(const uint8_t *)"a\0\xef\xac\x81", 5}, &out);
	assert_int_equal(out.len, 5);
	assert_memory_equal(out.p, "a\0\xef\xac\x81", 5);
	buf_wipe(&out);
}

static void long_passwords_are_prepared_as_a_whole(void **state)
{
	struct buf in = {0}, out = {0};

	(void)state;
	while (in.len + 3 <= 65535)
		buf_add_str(&in, "\uFB01");
	saslprep(buf_span(&in), &out);
	assert_int_equal(out.len, in.len / 3 * 2);
	for (size_t i = 0; i < out.len; i++)
		assert_int_equal(out.p[i], "fi"[i % 2]);
	buf_free(&in);
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rfcs_examples_come_out_right),
		cmocka_unit_test(spaces_of_all_kinds_become_one_kind),
		cmocka_unit_test(characters_mapped_to_nothing_vanish),
		cmocka_unit_test(the_form_is_nfkc),
		cmocka_unit_test(ascii_is_never_touched),
		cmocka_unit_test(prohibited_characters_leave_the_password_raw),
		cmocka_unit_test(characters_younger_than_unicode_3_2_leave_the_password_raw),
		cmocka_unit_test(a_password_of_nothing_is_used_raw),
		cmocka_unit_test(right_to_left_text_may_not_be_mixed),
		cmocka_unit_test(bytes_that_are_not_utf8_are_used_raw),
		cmocka_unit_test(a_zero_byte_is_an_ordinary_control_character),
		cmocka_unit_test(long_passwords_are_prepared_as_a_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
