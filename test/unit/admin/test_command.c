/* The console's commands as people and drivers write them. What PgBouncer's manual and its console take must be taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "admin/command_priv.h"

static struct command first(const char *sql)
{
	struct scan s = scan_of(sql, strlen(sql));
	struct command c;

	assert_true(command_next(&s, &c));
	return c;
}

static void assert_text(const struct command *c, const char *text)
{
	assert_int_equal(c->text.len, strlen(text));
	assert_memory_equal(c->text.p, text, strlen(text));
}

static void a_verb_is_folded_and_its_argument_is_not(void **state)
{
	struct command c = first("PaUsE MyDb");

	(void)state;
	assert_string_equal(c.verb, "pause");
	assert_int_equal(c.args, ARGS_ONE);
	assert_string_equal(c.arg, "MyDb");
}

static void a_quoted_name_is_taken_out_of_its_quotes(void **state)
{
	struct command c = first("PAUSE \"My \"\"db\"\"; x\" ;");

	(void)state;
	assert_int_equal(c.args, ARGS_ONE);
	assert_string_equal(c.arg, "My \"db\"; x");
}

static void a_name_may_begin_with_digits(void **state)
{
	struct command c = first("RESUME 7db");

	(void)state;
	assert_int_equal(c.args, ARGS_ONE);
	assert_string_equal(c.arg, "7db");
}

static void three_words_are_no_arguments(void **state)
{
	(void)state;
	assert_int_equal(first("PAUSE a b c").args, ARGS_OTHER);
	assert_int_equal(first("PAUSE a, b").args, ARGS_OTHER);
}

static void two_words_behind_a_verb_are_two_arguments(void **state)
{
	struct command c = first("unfence \"eu-1\" force;");

	(void)state;
	assert_int_equal(c.args, ARGS_TWO);
	assert_string_equal(c.arg, "eu-1");
	assert_string_equal(c.more, "force");
	assert_int_equal(first("PAUSE 7 db").args, ARGS_TWO);
}

static void comments_and_blanks_and_semicolons_do_not_count(void **state)
{
	struct command c = first(" ;; /* one /* two */ */ -- three\n\tshow /* four */ pools -- five\n ; ");

	(void)state;
	assert_string_equal(c.verb, "show");
	assert_int_equal(c.args, ARGS_ONE);
	assert_string_equal(c.arg, "pools");
	assert_text(&c, "show /* four */ pools");
}

static void a_query_may_hold_several_commands(void **state)
{
	const char *sql = "show pools; SET a = 'x;y'; ;reload";
	struct scan s = scan_of(sql, strlen(sql));
	struct command c;

	(void)state;
	assert_true(command_next(&s, &c));
	assert_text(&c, "show pools");
	assert_true(command_next(&s, &c));
	assert_text(&c, "SET a = 'x;y'");
	assert_string_equal(c.value, "x;y");
	assert_true(command_next(&s, &c));
	assert_string_equal(c.verb, "reload");
	assert_int_equal(c.args, ARGS_NONE);
	assert_false(command_next(&s, &c));
	assert_false(command_next(&s, &c));
}

static void nothing_holds_no_command(void **state)
{
	static const char *const empty[] = {"", " ", ";", " ; ; ", "-- only this", "/* and that */;"};
	struct command c;

	(void)state;
	for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
		struct scan s = scan_of(empty[i], strlen(empty[i]));
		assert_false(command_next(&s, &c));
	}
}

static void set_takes_an_equals_sign_or_the_word_to(void **state)
{
	static const char *const ways[] = {"set verbose=1", "SET verbose = 1", "set verbose to 1", "SET verbose TO '1'", "set verbose = \"1\";"};

	(void)state;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct command c = first(ways[i]);
		assert_int_equal(c.args, ARGS_VALUE);
		assert_string_equal(c.arg, "verbose");
		assert_string_equal(c.value, "1");
	}
}

static void a_value_needs_no_quotes(void **state)
{
	static const struct {
		const char *sql, *value;
	} rows[] = {
		{"set logfile = /var/log/pg weir.log ;", "/var/log/pg weir.log"},
		{"set query_timeout = 1.5s", "1.5s"},
		{"set admin_users = a, b", "a, b"},
		{"set server_check_query = <empty>", "<empty>"},
		{"set query_timeout=-1", "-1"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct command c = first(rows[i].sql);
		assert_int_equal(c.args, ARGS_VALUE);
		assert_string_equal(c.value, rows[i].value);
	}
}

static void a_value_may_be_empty_in_quotes_only(void **state)
{
	struct command c = first("set logfile = ''");

	(void)state;
	assert_int_equal(c.args, ARGS_VALUE);
	assert_string_equal(c.value, "");
	assert_int_equal(first("set logfile =").args, ARGS_OTHER);
}

static void quotes_in_a_string_are_doubled(void **state)
{
	(void)state;
	assert_string_equal(first("set server_check_query = 'select ''x'''").value, "select 'x'");
}

static void something_behind_a_quoted_value_is_wrong(void **state)
{
	(void)state;
	assert_int_equal(first("set a = 'b' c").args, ARGS_OTHER);
}

static void what_is_too_long_is_no_command_and_is_skipped_whole(void **state)
{
	char sql[10240];
	struct scan s;
	struct command c;

	(void)state;
	memset(sql, 'x', sizeof(sql));
	memcpy(sql + sizeof(sql) - 7, ";reload", 7);
	s = scan_of(sql, sizeof(sql));
	assert_true(command_next(&s, &c));
	assert_string_equal(c.verb, "");
	assert_int_equal(c.text.len, sizeof(sql) - 7);
	assert_true(command_next(&s, &c));
	assert_string_equal(c.verb, "reload");
}

static void an_argument_that_does_not_fit_is_refused(void **state)
{
	char sql[COMMAND_ARG_MOST + 7];

	(void)state;
	memset(sql, 'x', sizeof(sql));
	memcpy(sql, "pause ", 6);
	sql[sizeof(sql) - 1] = '\0'; /* COMMAND_ARG_MOST letters: no room for the NUL */
	assert_int_equal(first(sql).args, ARGS_OTHER);
	sql[sizeof(sql) - 2] = '\0';
	assert_int_equal(first(sql).args, ARGS_ONE);
	assert_int_equal(strlen(first(sql).arg), COMMAND_ARG_MOST - 1);
}

static void an_open_quote_takes_all_that_follows(void **state)
{
	const char *sql = "pause \"t; shutdown";
	struct scan s = scan_of(sql, strlen(sql));
	struct command c;

	(void)state;
	assert_true(command_next(&s, &c));
	assert_int_equal(c.args, ARGS_OTHER);
	assert_false(command_next(&s, &c));
}

static void a_query_that_begins_with_no_word_has_no_verb(void **state)
{
	(void)state;
	assert_string_equal(first("'show' pools").verb, "");
	assert_string_equal(first("(select 1)").verb, "");
	assert_string_equal(first("\"show\" pools").verb, "");
}

static void select_is_read_like_any_other(void **state)
{
	struct command c = first("select 1");

	(void)state;
	assert_string_equal(c.verb, "select");
	assert_string_equal(c.arg, "1");
	assert_int_equal(first("select version()").args, ARGS_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_verb_is_folded_and_its_argument_is_not),
		cmocka_unit_test(a_quoted_name_is_taken_out_of_its_quotes),
		cmocka_unit_test(a_name_may_begin_with_digits),
		cmocka_unit_test(three_words_are_no_arguments),
		cmocka_unit_test(two_words_behind_a_verb_are_two_arguments),
		cmocka_unit_test(comments_and_blanks_and_semicolons_do_not_count),
		cmocka_unit_test(a_query_may_hold_several_commands),
		cmocka_unit_test(nothing_holds_no_command),
		cmocka_unit_test(set_takes_an_equals_sign_or_the_word_to),
		cmocka_unit_test(a_value_needs_no_quotes),
		cmocka_unit_test(a_value_may_be_empty_in_quotes_only),
		cmocka_unit_test(quotes_in_a_string_are_doubled),
		cmocka_unit_test(something_behind_a_quoted_value_is_wrong),
		cmocka_unit_test(what_is_too_long_is_no_command_and_is_skipped_whole),
		cmocka_unit_test(an_argument_that_does_not_fit_is_refused),
		cmocka_unit_test(an_open_quote_takes_all_that_follows),
		cmocka_unit_test(a_query_that_begins_with_no_word_has_no_verb),
		cmocka_unit_test(select_is_read_like_any_other),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
