/* The front of a stream, and the message tables against chapters 55.2 and 55.7 of the documentation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "wire/frame.h"

static enum parse peek(const char *bytes, size_t len, struct frame *f)
{
	uint8_t *exact = malloc(len ? len : 1);
	memcpy(exact, bytes, len);
	enum parse seen = frame_peek(exact, len, f);
	free(exact);
	return seen;
}

static void fewer_than_five_bytes_are_no_frame_yet(void **state)
{
	(void)state;
	struct frame f;
	for (size_t len = 0; len < 5; len++)
		assert_int_equal(peek("S\0\0\0\4", len, &f), PARSE_MORE);
}

static void a_frame_knows_its_size_and_how_much_is_there(void **state)
{
	(void)state;
	struct frame f;
	assert_int_equal(peek("S\0\0\0\4Q", 6, &f), PARSE_OK);
	assert_int_equal(f.type, 'S');
	assert_int_equal(f.size, 5);
	assert_int_equal(f.have, 5);
	assert_int_equal(peek("Q\0\0\1\0xyz", 8, &f), PARSE_OK);
	assert_int_equal(f.size, 257);
	assert_int_equal(f.have, 8);
}

static void a_length_that_does_not_hold_itself_is_bad(void **state)
{
	(void)state;
	struct frame f;
	assert_int_equal(peek("Q\0\0\0\0", 5, &f), PARSE_BAD);
	assert_int_equal(peek("Q\0\0\0\3", 5, &f), PARSE_BAD);
}

static void a_length_of_more_than_a_gibibyte_is_bad(void **state)
{
	(void)state;
	struct frame f;
	assert_int_equal(peek("d\x40\0\0\0", 5, &f), PARSE_OK);
	assert_int_equal(f.size, 1073741825);
	assert_int_equal(peek("d\x40\0\0\1", 5, &f), PARSE_BAD);
	assert_int_equal(peek("d\x7f\xff\xff\xff", 5, &f), PARSE_BAD);
	assert_int_equal(peek("d\xff\xff\xff\xff", 5, &f), PARSE_BAD);
}

static void only_known_letters_pass(void **state)
{
	(void)state;
	static const char client[] = "QPBEDCSHXFdcf", server[] = "123ACDEGHINSTVWZcdnst";
	for (int c = 0; c < 256; c++) {
		assert_int_equal(treat_of_client[c] != TREAT_BAD, c && strchr(client, c));
		assert_int_equal(treat_of_server[c] != TREAT_BAD, c && strchr(server, c));
	}
}

static void what_is_large_is_not_kept_whole(void **state)
{
	(void)state;
	assert_int_equal(treat_of_client['d'], TREAT_PASS);
	assert_int_equal(treat_of_client['F'], TREAT_PASS);
	assert_int_equal(treat_of_client['Q'], TREAT_PEEK);
	assert_int_equal(treat_of_client['B'], TREAT_PEEK);
	assert_int_equal(treat_of_server['D'], TREAT_PASS);
	assert_int_equal(treat_of_server['d'], TREAT_PASS);
	assert_int_equal(treat_of_server['N'], TREAT_PASS);
	assert_int_equal(treat_of_server['V'], TREAT_PASS);
}

static void what_we_act_on_is_kept_whole(void **state)
{
	(void)state;
	for (const char *c = "PDCSHXcf"; *c; c++)
		assert_int_equal(treat_of_client[(uint8_t)*c], TREAT_WHOLE);
	for (const char *c = "123CEGHWISZns"; *c; c++)
		assert_int_equal(treat_of_server[(uint8_t)*c], TREAT_WHOLE);
}

static void login_messages_are_bad_after_login_but_have_names(void **state)
{
	(void)state;
	assert_int_equal(treat_of_client['p'], TREAT_BAD);
	assert_string_equal(message_name(true, 'p'), "PasswordMessage");
	assert_string_equal(message_name(false, 'R'), "Authentication");
	assert_string_equal(message_name(false, 'K'), "BackendKeyData");
}

static void one_letter_has_a_name_on_each_side(void **state)
{
	(void)state;
	assert_string_equal(message_name(true, 'D'), "Describe");
	assert_string_equal(message_name(false, 'D'), "DataRow");
	assert_string_equal(message_name(true, 'T'), "unknown");
	assert_string_equal(message_name(false, 0), "unknown");
	assert_string_equal(message_name(true, 255), "unknown");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(fewer_than_five_bytes_are_no_frame_yet),
		cmocka_unit_test(a_frame_knows_its_size_and_how_much_is_there),
		cmocka_unit_test(a_length_that_does_not_hold_itself_is_bad),
		cmocka_unit_test(a_length_of_more_than_a_gibibyte_is_bad),
		cmocka_unit_test(only_known_letters_pass),
		cmocka_unit_test(what_is_large_is_not_kept_whole),
		cmocka_unit_test(what_we_act_on_is_kept_whole),
		cmocka_unit_test(login_messages_are_bad_after_login_but_have_names),
		cmocka_unit_test(one_letter_has_a_name_on_each_side),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
