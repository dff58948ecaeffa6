/* auth_file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "loaded.h"

/* A configuration whose auth_file holds these bytes; "FILE" in the warnings is its name. */
static struct conf *with_users(struct span users, const char *warnings)
{
	char path[] = "/tmp/test_userlist.XXXXXX", text[128], *seen;
	int fd = mkstemp(path);
	struct conf_report r = {0};
	struct conf *c;
	struct buf want = {0};

	assert_true(fd >= 0);
	assert_int_equal(write(fd, users.p, users.len), users.len);
	close(fd);
	snprintf(text, sizeof(text), "[pgweir]\nauth_file = %s\n", path);
	c = conf_load_text(text, &r);
	unlink(path);
	assert_non_null(c);
	for (const char *at = warnings; *at; at++) {
		if (*at == '@')
			buf_add_str(&want, path);
		else
			buf_add_u8(&want, (uint8_t)*at);
	}
	buf_add_u8(&want, '\0');
	seen = report_text(&r.warnings);
	assert_string_equal(seen, (char *)want.p);
	free(seen);
	buf_free(&want);
	conf_report_free(&r);
	return c;
}

static void secret_is(const struct conf *c, const char *user, const char *secret)
{
	const struct conf_login *login = conf_login(c, user);

	if (!login)
		fail_msg("no user %s", user);
	assert_string_equal(secret_text(&login->secret), secret);
}

static void users_and_secrets_are_read(void **state)
{
	struct conf *c = with_users(span_str("; a comment\n\n\"bob\" \"pw\"\n\"eve\"\t\"md5abc\"\r\n  \"sam\" \"SCRAM-SHA-256$4096:a$b:c\" \"\" more\n\"last\" \"line\""), "");

	(void)state;
	secret_is(c, "bob", "pw");
	secret_is(c, "eve", "md5abc");
	secret_is(c, "sam", "SCRAM-SHA-256$4096:a$b:c");
	secret_is(c, "last", "line");
	assert_null(conf_login(c, "Bob"));
	assert_int_equal(c->logins.count, 4);
	conf_drop(&c);
}

static void a_quote_within_quotes_is_written_twice(void **state)
{
	struct conf *c = with_users(span_str("\"o\"\"neil\" \"\"\"x\"\"\"\n\"semi\" \"a ; b # c\"\n\"none\" \"\"\n"), "");

	(void)state;
	secret_is(c, "o\"neil", "\"x\"");
	secret_is(c, "semi", "a ; b # c");
	secret_is(c, "none", "");
	conf_drop(&c);
}

static void a_later_line_of_a_user_wins(void **state)
{
	struct conf *c = with_users(span_str("\"u\" \"old\"\n\"u\" \"new\"\n"), "");

	(void)state;
	secret_is(c, "u", "new");
	assert_int_equal(c->logins.count, 1);
	conf_drop(&c);
}

static void a_bad_line_is_a_warning_that_shows_nothing(void **state)
{
	static const char text[] = "bob pw\n\"bob\"\n\"bob\" \"hush\n\"\" \"hush\"\n\"nul\" \"a\0b\"\n\"ok\" \"x\"\n\"ok2\" hush\n";
	struct conf *c = with_users((struct span){(const uint8_t *)text, sizeof(text) - 1},
				    "@:1: expected \"user\" \"secret\"; the line is left out\n"
				    "@:2: expected \"user\" \"secret\"; the line is left out\n"
				    "@:3: expected \"user\" \"secret\"; the line is left out\n"
				    "@:4: the user's name is empty; the line is left out\n"
				    "@:5: the line holds a NUL byte; the line is left out\n"
				    "@:7: expected \"user\" \"secret\"; the line is left out\n");

	(void)state;
	secret_is(c, "ok", "x");
	assert_int_equal(c->logins.count, 1);
	conf_drop(&c);
}

static void a_secret_of_65_kb_is_whole(void **state)
{
	struct buf text = {0};
	struct conf *c;

	(void)state;
	buf_add_str(&text, "\"u\" \"");
	for (int i = 0; i < 66560; i++)
		buf_add_u8(&text, 'k');
	buf_add_str(&text, "\"\n\"v\" \"w\"\n");
	c = with_users(buf_span(&text), "");
	assert_int_equal(secret_span(&conf_login(c, "u")->secret).len, 66560);
	secret_is(c, "v", "w");
	conf_drop(&c);
	buf_free(&text);
}

static void a_name_may_have_127_bytes(void **state)
{
	struct buf text = {0};
	struct conf *c;

	(void)state;
	buf_add_fmt(&text, "\"%0127d\" \"a\"\n\"%0128d\" \"b\"\n", 1, 1);
	c = with_users(buf_span(&text), "@:2: the user's name is longer than 127 bytes; the line is left out\n");
	assert_int_equal(c->logins.count, 1);
	conf_drop(&c);
	buf_free(&text);
}

static void a_set_keeps_the_users(void **state)
{
	struct conf *c = with_users(span_str("\"u\" \"pw\"\n\"n\" \"\"\n"), "");
	struct err err = {0};
	struct conf *d = conf_with(c, "default_pool_size", "3", &err);

	(void)state;
	conf_drop(&c);
	secret_is(d, "u", "pw");
	secret_is(d, "n", "");
	conf_drop(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(users_and_secrets_are_read),
		cmocka_unit_test(a_quote_within_quotes_is_written_twice),
		cmocka_unit_test(a_later_line_of_a_user_wins),
		cmocka_unit_test(a_bad_line_is_a_warning_that_shows_nothing),
		cmocka_unit_test(a_secret_of_65_kb_is_whole),
		cmocka_unit_test(a_name_may_have_127_bytes),
		cmocka_unit_test(a_set_keeps_the_users),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
