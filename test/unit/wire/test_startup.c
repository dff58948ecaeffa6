/* First packets, good and hostile. Every packet is parsed from a block of its exact size, so that a read past its end
 * is seen by the sanitizer; chapter 55.7, and the texts of PgBouncer and PostgreSQL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "wire/sqlstate.h"
#include "wire/startup.h"
#include "wire/writer.h"

#define SSL_CODE 80877103u
#define GSS_CODE 80877104u
#define CANCEL_CODE 80877102u

struct packet {
	uint8_t *p; /* owns: exactly len bytes */
	size_t len;
	struct startup s; /* borrows p */
	struct err err;
	enum parse parse;
};

static struct packet parse(const void *bytes, size_t len)
{
	struct packet k = {.p = malloc(len ? len : 1), .len = len};
	memcpy(k.p, bytes, len);
	k.parse = startup_parse(k.p, len, &k.s, &k.err);
	return k;
}

/* length 0: as it is. */
static struct packet parse_body(uint32_t length, uint32_t code, const char *body, size_t body_len)
{
	struct buf b = {0};
	msg_u32(&b, length ? length : (uint32_t)body_len + 8);
	msg_u32(&b, code);
	msg_bytes(&b, body, body_len);
	struct packet k = parse(b.p, b.len);
	buf_free(&b);
	return k;
}
/* The literal's own NUL is the terminator. */
#define LOGIN(version, body) parse_body(0, version, body, sizeof(body))

static void is_bad(struct packet k, const char *sqlstate, const char *text)
{
	assert_int_equal(k.parse, PARSE_BAD);
	assert_string_equal(k.err.sqlstate, sqlstate);
	assert_string_equal(k.err.text, text);
	free(k.p);
}

static void a_login_names_user_and_database(void **state)
{
	(void)state;
	struct packet k = LOGIN(PROTOCOL_3_0, "user\0bob\0database\0app\0application_name\0x\0options\0-c a=b\0replication\0true\0");
	assert_int_equal(k.parse, PARSE_OK);
	assert_int_equal(k.s.kind, STARTUP_LOGIN);
	assert_int_equal(k.s.size, k.len);
	assert_int_equal(k.s.version, 196608);
	assert_string_equal(k.s.user, "bob");
	assert_string_equal(k.s.database, "app");
	assert_string_equal(k.s.replication, "true");
	assert_int_equal(k.s.n_params, 2);
	assert_string_equal(k.s.params[0].name, "application_name");
	assert_string_equal(k.s.params[0].value, "x");
	assert_string_equal(k.s.params[1].name, "options");
	assert_string_equal(k.s.params[1].value, "-c a=b");
	assert_false(k.s.negotiate);
	free(k.p);
}

static void the_database_defaults_to_the_user(void **state)
{
	(void)state;
	struct packet k = LOGIN(PROTOCOL_3_0, "user\0bob\0");
	assert_string_equal(k.s.database, "bob");
	assert_null(k.s.replication);
	free(k.p);
	k = LOGIN(PROTOCOL_3_0, "database\0\0user\0bob\0");
	assert_string_equal(k.s.database, "bob");
	free(k.p);
}

static void of_two_users_the_last_counts(void **state)
{
	(void)state;
	struct packet k = LOGIN(PROTOCOL_3_0, "user\0a\0database\0x\0user\0b\0database\0y\0");
	assert_string_equal(k.s.user, "b");
	assert_string_equal(k.s.database, "y");
	free(k.p);
}

static void names_have_case(void **state)
{
	(void)state;
	is_bad(LOGIN(PROTOCOL_3_0, "User\0bob\0"), SQLSTATE_PROTOCOL, "no username supplied");
}

static void a_login_without_a_user_is_bad(void **state)
{
	(void)state;
	is_bad(LOGIN(PROTOCOL_3_0, "database\0app\0"), SQLSTATE_PROTOCOL, "no username supplied");
	is_bad(LOGIN(PROTOCOL_3_0, "user\0\0"), SQLSTATE_PROTOCOL, "no username supplied");
	is_bad(LOGIN(PROTOCOL_3_0, ""), SQLSTATE_PROTOCOL, "no username supplied");
}

static void a_packet_not_laid_out_exactly_is_bad(void **state)
{
	(void)state;
	static const char text[] = "invalid startup packet layout: expected terminator as last byte";
	is_bad(parse_body(0, PROTOCOL_3_0, "", 0), SQLSTATE_PROTOCOL, text);
	is_bad(parse_body(0, PROTOCOL_3_0, "user\0bob\0", 9), SQLSTATE_PROTOCOL, text);         /* no terminator */
	is_bad(parse_body(0, PROTOCOL_3_0, "user\0bob\0\0x", 11), SQLSTATE_PROTOCOL, text);     /* bytes behind it */
	is_bad(parse_body(0, PROTOCOL_3_0, "user\0bob\0\0\0", 11), SQLSTATE_PROTOCOL, text);
	is_bad(parse_body(0, PROTOCOL_3_0, "user\0bob\0x\0", 11), SQLSTATE_PROTOCOL, text);     /* a name without a value */
	is_bad(parse_body(0, PROTOCOL_3_0, "user\0bob", 8), SQLSTATE_PROTOCOL, text);           /* a value without an end */
	is_bad(parse_body(0, PROTOCOL_3_0, "user", 4), SQLSTATE_PROTOCOL, text);                /* a name without an end */
}

static void an_empty_value_is_a_value(void **state)
{
	(void)state;
	struct packet k = LOGIN(PROTOCOL_3_0, "x\0\0user\0bob\0");
	assert_int_equal(k.parse, PARSE_OK);
	assert_string_equal(k.s.params[0].value, "");
	free(k.p);
}

static void too_many_parameters_are_bad(void **state)
{
	(void)state;
	for (int extension = 0; extension < 2; extension++) {
		for (int n = STARTUP_PARAMS_MOST; n <= STARTUP_PARAMS_MOST + 1; n++) {
			struct buf b = {0};
			msg_startup_head(&b, PROTOCOL_3_0);
			buf_add(&b, "user\0bob", 9);
			for (int i = 0; i < n; i++) {
				msg_str(&b, extension ? "_pq_.x" : "x");
				msg_str(&b, "y");
			}
			msg_u8(&b, 0);
			msg_end(&b, 0);
			struct packet k = parse(b.p, b.len);
			buf_free(&b);
			if (n > STARTUP_PARAMS_MOST) {
				is_bad(k, SQLSTATE_PROTOCOL, "too many startup parameters");
			} else {
				assert_int_equal(k.parse, PARSE_OK);
				assert_int_equal(extension ? k.s.n_extensions : k.s.n_params, n);
				free(k.p);
			}
		}
	}
}

static void lengths_are_refused_before_the_rest_is_there(void **state)
{
	(void)state;
	static const uint32_t lengths[] = {0, 1, 4, 7, STARTUP_MOST + 1, 0x00100000, 0x7fffffff, 0x80000000, 0xffffffff};
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint8_t word[4] = {(uint8_t)(lengths[i] >> 24), (uint8_t)(lengths[i] >> 16), (uint8_t)(lengths[i] >> 8), (uint8_t)lengths[i]};
		is_bad(parse(word, 4), SQLSTATE_PROTOCOL, "invalid length of startup packet");
	}
}

static void the_longest_packet_is_taken(void **state)
{
	(void)state;
	struct buf b = {0};
	msg_startup_head(&b, PROTOCOL_3_0);
	buf_add(&b, "user\0bob\0application_name", 26);
	while (b.len < STARTUP_MOST - 2)
		msg_u8(&b, 'x');
	msg_u16(&b, 0);
	msg_end(&b, 0);
	struct packet k = parse(b.p, b.len);
	assert_int_equal(k.len, STARTUP_MOST);
	assert_int_equal(k.parse, PARSE_OK);
	assert_int_equal(strlen(k.s.params[0].value), STARTUP_MOST - 8 - 26 - 2);
	free(k.p);
	buf_free(&b);
}

static void bytes_behind_the_packet_are_not_its_own(void **state)
{
	(void)state;
	struct packet k = parse_body(18, PROTOCOL_3_0, "user\0bob\0\0Q\0\0\0", 14);
	assert_int_equal(k.parse, PARSE_OK);
	assert_int_equal(k.s.size, 18);
	free(k.p);
	k = parse_body(8, SSL_CODE, "x", 1);
	assert_int_equal(k.parse, PARSE_OK);
	assert_int_equal(k.s.size, 8);
	free(k.p);
}

static void ssl_and_gss_requests_are_eight_bytes(void **state)
{
	(void)state;
	struct packet k = parse_body(0, SSL_CODE, NULL, 0);
	assert_int_equal(k.parse, PARSE_OK);
	assert_int_equal(k.s.kind, STARTUP_SSL);
	free(k.p);
	k = parse_body(0, GSS_CODE, NULL, 0);
	assert_int_equal(k.parse, PARSE_OK);
	assert_int_equal(k.s.kind, STARTUP_GSS);
	free(k.p);
	is_bad(parse_body(9, SSL_CODE, NULL, 0), SQLSTATE_PROTOCOL, "invalid length of startup packet"); /* at the 8th byte */
	is_bad(parse_body(0, GSS_CODE, "x", 1), SQLSTATE_PROTOCOL, "invalid length of startup packet");
}

static void a_cancel_request_holds_its_key(void **state)
{
	(void)state;
	struct packet k = parse_body(0, CANCEL_CODE, "\1\2\3\4\5\6\7\x8", 8);
	assert_int_equal(k.parse, PARSE_OK);
	assert_int_equal(k.s.kind, STARTUP_CANCEL);
	assert_true(span_is(k.s.key, "\1\2\3\4\5\6\7\x8"));
	free(k.p);
}

/* Protocol 3.2: a process id and a secret of 4 to 256 bytes. */
static void a_cancel_key_has_a_least_and_a_most(void **state)
{
	(void)state;
	char key[300] = {1};
	for (size_t len = 0; len < sizeof(key); len++) {
		struct packet k = parse_body(0, CANCEL_CODE, key, len);
		assert_int_equal(k.parse, len >= 8 && len <= 260 ? PARSE_OK : PARSE_BAD);
		if (k.parse == PARSE_OK)
			assert_int_equal(k.s.key.len, len);
		else
			assert_string_equal(k.err.sqlstate, SQLSTATE_PROTOCOL);
		free(k.p);
	}
	is_bad(parse_body(8 + 261, CANCEL_CODE, NULL, 0), SQLSTATE_PROTOCOL, "invalid length of cancel request"); /* at the 8th byte */
}

static void other_versions_are_refused_by_name(void **state)
{
	(void)state;
	is_bad(parse_body(1000, 0x00020000, NULL, 0), SQLSTATE_UNSUPPORTED, "old V2 protocol not supported"); /* at the 8th byte */
	is_bad(LOGIN(0x00010000, "user\0bob\0"), SQLSTATE_UNSUPPORTED, "unsupported frontend protocol 1.0: server supports 3.0 to 3.0");
	is_bad(LOGIN(0x00040000, "user\0bob\0"), SQLSTATE_UNSUPPORTED, "unsupported frontend protocol 4.0: server supports 3.0 to 3.0");
	is_bad(parse_body(0, 80877105u, NULL, 0), SQLSTATE_UNSUPPORTED, "unsupported frontend protocol 1234.5681: server supports 3.0 to 3.0");
	is_bad(parse_body(0, 0, NULL, 0), SQLSTATE_UNSUPPORTED, "unsupported frontend protocol 0.0: server supports 3.0 to 3.0");
}

static void negotiation_is(struct packet k, const char *expected, size_t len)
{
	assert_int_equal(k.parse, PARSE_OK);
	assert_true(k.s.negotiate);
	struct buf b = {0};
	startup_negotiate(&b, &k.s);
	assert_int_equal(b.len, len);
	assert_memory_equal(b.p, expected, len);
	buf_free(&b);
	free(k.p);
}

static void a_newer_minor_version_is_negotiated_down(void **state)
{
	(void)state;
	static const char none[] = "v\0\0\0\x0c\0\3\0\0\0\0\0";
	static const char two[] = "v\0\0\0\x1b\0\3\0\0\0\0\0\2_pq_.a\0_pq_.bc";
	negotiation_is(LOGIN(0x00030001, "user\0bob\0"), none, sizeof(none));
	negotiation_is(LOGIN(0x00030002, "user\0bob\0"), none, sizeof(none));
	negotiation_is(LOGIN(0x0003270f, "user\0bob\0_pq_.a\0" "1\0_pq_.bc\0\0"), two, sizeof(two));
}

static void unknown_extensions_are_named_and_are_no_parameters(void **state)
{
	(void)state;
	static const char one[] = "v\0\0\0\x13\0\3\0\0\0\0\0\1_pq_.x";
	struct packet k = LOGIN(PROTOCOL_3_0, "_pq_.x\0y\0user\0bob\0_pq_\0z\0");
	assert_int_equal(k.s.n_params, 1);
	assert_string_equal(k.s.params[0].name, "_pq_");
	negotiation_is(k, one, sizeof(one));
}

/* Cut at every byte: never taken for whole, neither as it was sent nor with a length that says so. */
static void every_cut_is_wrong(const char *bytes, size_t whole)
{
	for (size_t len = 0; len < whole; len++) {
		struct packet k = parse(bytes, len);
		assert_int_equal(k.parse, PARSE_MORE);
		free(k.p);
		if (len < 8)
			continue;
		uint8_t *lying = malloc(len);
		memcpy(lying, bytes, len);
		lying[0] = lying[1] = 0;
		lying[2] = (uint8_t)(len >> 8);
		lying[3] = (uint8_t)len;
		k = parse(lying, len);
		assert_int_equal(k.parse, PARSE_BAD);
		assert_string_not_equal(k.err.sqlstate, "");
		free(k.p);
		free(lying);
	}
	struct packet k = parse(bytes, whole);
	assert_int_equal(k.parse, PARSE_OK);
	free(k.p);
}

static void a_packet_cut_anywhere_is_never_whole(void **state)
{
	(void)state;
	static const char login[] = "\0\0\0\x3c\0\3\0\0user\0bob\0database\0app\0_pq_.x\0y\0options\0\0a\0b c d ee\0";
	static const char ssl[] = "\0\0\0\x8\x4\xd2\x16\x2f", gss[] = "\0\0\0\x8\x4\xd2\x16\x30";
	static const char cancel[] = "\0\0\0\x10\x4\xd2\x16\x2e" "12345678";
	assert_int_equal(sizeof(login), 0x3c);
	every_cut_is_wrong(login, sizeof(login));
	every_cut_is_wrong(ssl, 8);
	every_cut_is_wrong(gss, 8);
	every_cut_is_wrong(cancel, 16);
}

static void every_byte_changed_does_no_harm(void **state)
{
	(void)state;
	static const char login[] = "\0\0\0\x1e\0\3\0\0user\0bob\0_pq_.x\0y\0c\0\0";
	assert_int_equal(sizeof(login), 0x1e);
	for (size_t at = 0; at < sizeof(login); at++) {
		for (int c = 0; c < 256; c++) {
			char changed[sizeof(login)];
			memcpy(changed, login, sizeof(login));
			changed[at] = (char)c;
			struct packet k = parse(changed, sizeof(changed));
			if (k.parse == PARSE_OK)
				assert_true(k.s.kind == STARTUP_LOGIN && k.s.user[0]);
			free(k.p);
		}
	}
}

/* options: what was set, as "name=value;". */
static bool note(void *arg, const char *name, const char *value, struct err *err)
{
	struct buf *b = arg;
	if (strcmp(name, "bad") == 0)
		return err_set(err, SQLSTATE_BAD_VALUE, "no %s", value);
	buf_add_str(b, name);
	buf_add_str(b, "=");
	buf_add_str(b, value);
	buf_add_str(b, ";");
	return true;
}

static void options_set(const char *options, const char *expected)
{
	struct buf b = {0};
	struct err err = {0};
	assert_true(startup_options(options, note, &b, &err));
	buf_add_u8(&b, 0);
	assert_string_equal((const char *)b.p, expected);
	buf_free(&b);
}

static void options_are_split_as_postgres_does(void **state)
{
	(void)state;
	options_set("", "");
	options_set("  \t\n\v\f\r ", "");
	options_set("-c timezone=UTC", "timezone=UTC;");
	options_set("-ctimezone=UTC", "timezone=UTC;");
	options_set("--timezone=UTC", "timezone=UTC;");
	options_set("  -c   TimeZone=UTC\t-c datestyle=German ", "TimeZone=UTC;datestyle=German;");
	options_set("-c application_name=a\\ b", "application_name=a b;");
	options_set("-c a=b\\\\c\\d", "a=b\\cd;");
	options_set("-c\\ a=b", " a=b;");
	options_set("-c a=", "a=;");
	options_set("-c a=b=c", "a=b=c;");
	options_set("--a-b.c-d=e-f", "a_b.c_d=e-f;");
	options_set("-c a-b=c-d", "a_b=c-d;");
	options_set("-c -a=b", "_a=b;");
}

static void other_options_are_refused(void **state)
{
	(void)state;
	static const char *const texts[] = {"-c", "-c ", "-x", "-", "--", "x", "a=b", "-c a", "--a", "-c =b", "--=b", "-ca", "-B 5", "-e", "-c a=b -x", "-c a=b\\", "\\", "-c\\", "-C a=b"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct buf b = {0};
		struct err err = {0};
		assert_false(startup_options(texts[i], note, &b, &err));
		assert_string_equal(err.sqlstate, SQLSTATE_SYNTAX); /* as PostgreSQL has it for its command line */
		assert_string_equal(err.text, "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed");
		buf_free(&b);
	}
}

static void an_option_refused_by_its_taker_ends_the_walk(void **state)
{
	(void)state;
	struct buf b = {0};
	struct err err = {0};
	assert_false(startup_options("-c a=1 -c bad=2 -c c=3", note, &b, &err));
	assert_string_equal(err.text, "no 2");
	assert_string_equal(err.sqlstate, SQLSTATE_BAD_VALUE);
	assert_int_equal(b.len, 4);
	buf_free(&b);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_login_names_user_and_database),
		cmocka_unit_test(the_database_defaults_to_the_user),
		cmocka_unit_test(of_two_users_the_last_counts),
		cmocka_unit_test(names_have_case),
		cmocka_unit_test(a_login_without_a_user_is_bad),
		cmocka_unit_test(a_packet_not_laid_out_exactly_is_bad),
		cmocka_unit_test(an_empty_value_is_a_value),
		cmocka_unit_test(too_many_parameters_are_bad),
		cmocka_unit_test(lengths_are_refused_before_the_rest_is_there),
		cmocka_unit_test(the_longest_packet_is_taken),
		cmocka_unit_test(bytes_behind_the_packet_are_not_its_own),
		cmocka_unit_test(ssl_and_gss_requests_are_eight_bytes),
		cmocka_unit_test(a_cancel_request_holds_its_key),
		cmocka_unit_test(a_cancel_key_has_a_least_and_a_most),
		cmocka_unit_test(other_versions_are_refused_by_name),
		cmocka_unit_test(a_newer_minor_version_is_negotiated_down),
		cmocka_unit_test(unknown_extensions_are_named_and_are_no_parameters),
		cmocka_unit_test(a_packet_cut_anywhere_is_never_whole),
		cmocka_unit_test(every_byte_changed_does_no_harm),
		cmocka_unit_test(options_are_split_as_postgres_does),
		cmocka_unit_test(other_options_are_refused),
		cmocka_unit_test(an_option_refused_by_its_taker_ends_the_walk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
