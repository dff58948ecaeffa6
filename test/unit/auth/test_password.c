/* Passwords against what PostgreSQL 15 stored for them: the verifiers and md5 texts are copied from pg_authid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "auth/password.h"
#include "auth/scram.h"

/* A secret of a literal; freed by the caller. */
static struct secret secret_of(const char *text)
{
	struct secret s = {0};

	secret_set(&s, text, strlen(text));
	return s;
}

static enum password_kind kind(const char *text)
{
	struct secret s = secret_of(text);
	enum password_kind k = password_kind(&s);

	secret_free(&s);
	return k;
}

static bool matches(const char *stored, const char *user, const char *sent)
{
	struct secret s = secret_of(stored);
	bool m = password_matches(&s, user, span_str(sent));

	secret_free(&s);
	return m;
}

/* CREATE ROLE bob PASSWORD 'secret' with password_encryption = md5. */
#define BOB_SECRET_MD5 "md521f3163f8f86fa10bdefbfbd502a8f06"

static const struct {
	const char *what;
	const char *password;
	const char *verifier;
} postgres[] = {
	{"plain ASCII", "plain",
	 "SCRAM-SHA-256$4096:bNnTq9P5RkXa/2g8vaTCNQ==$vk9zYq0o5zhZQh6x9Q0rLjEz0wd3VtuY35ZHMy5q9Oo=:KdiSkXoooeP6ubSFtMCv+Le2oGT45Yt6jFraADTg7wY="},
	{"soft hyphen", "I\u00ADX",
	 "SCRAM-SHA-256$4096:dNsFD9kgSQ4BScaxIQindw==$UELOxqUEG0ner6bkU2NSwBppvpIXTJWrWLybiqFVCyE=:1aR5cSqqVQrQA5DTQpAsi3v8aJuIAz7jfDd6agz3Zns="},
	{"non-breaking space", "a\u00A0b",
	 "SCRAM-SHA-256$4096:GNF5klsYOaUo06NM7jbXEg==$N1exQAeiRF8GWPoTRIILdPFHwNYPfFWg68RxLGobDjk=:BtkPfMMuZNv3nqnlZFYvYWKkDz1ZpOvOd9icma7zL+s="},
	{"half-width katakana", "\uFF76\uFF9E\uFF77",
	 "SCRAM-SHA-256$4096:g8Vb26O7x2bqHgM5DkCwxg==$61IVezmW7OUyjs/OxjKng72hzdcREtG8NrBWZQi5oiI=:b2bd2WRDsErH+BN3tgJ0p6k9je5AGswXRWwnBQABPEA="},
	{"ligature fi", "\uFB01x",
	 "SCRAM-SHA-256$4096:T4eRlbuqZiz/EeIgt8B9TA==$vgqHXL8T3Rr1Woa0gy3o6obAxhWRVluNIlq2SGH3I/I=:501QXA+oGJStYNtrcPevrRrqlOoJ0JuTZA7m99DUzD0="},
	{"roman nine", "\u2168",
	 "SCRAM-SHA-256$4096:qAVzlYe8arCsUJ5sW1lR+g==$dSFBLQgQ/80FcGPZ7HVC26rWqJ0Ul4dvxOUOisko3pc=:K006DWn445aSaVan1BVY05JvkZj6354uMgNxTb67TJU="},
	{"alef symbol behind a Latin letter", "a\u2135",
	 "SCRAM-SHA-256$4096:r1056f19MYqlwZIG+yQDMw==$TifaTCAOv/IT8Qn7FLLGpAGe775RYT8E1BGoTHwSLi0=:+DmUPg/xIYIBoRMOZ3yER+l6Dtt2Ob2vIsBWMstTBMk="},
	{"prohibited: grave tone mark", "\u0340" "a",
	 "SCRAM-SHA-256$4096:nG5UVmEU9bY1kjZEhT5d2g==$KzBldX1tFcG2zKq7fTWCfv4p9466TQY7hNeHlF35hHg=:86IefNBQqhfdw1DA6dTgw/pYNfWutIIvCAAA5u8Hkwo="},
	{"prohibited: control character beside others", "\x07\u00E9",
	 "SCRAM-SHA-256$4096:ViuZjA2T6Zu9z0DG7iwrrQ==$14Zyqx2SzUDGYXpWzW8DLf9JPc0fV2weFk454Iy2yfk=:yVvCZ2ARD2rLuBVuzuud90tsQAFDK+D+8TtQfTgBGtc="},
	{"direction: Arabic that ends in a digit", "\u0627" "1",
	 "SCRAM-SHA-256$4096:Hi94tY9O5yZlBCXxLrAlig==$d5jXReyX0sMiCfkv4cs4kOZoxN26QtNr4E6ejqiF5do=:Hs0EGmqKFIy/xxqGARyWGmKWQf9XoW6zQLPgeRlnbT8="},
	{"nothing left: soft hyphen alone", "\u00AD",
	 "SCRAM-SHA-256$4096:BpTd+H4mCIWUylan7DfLRg==$mENX1avZ4/Myvq3HixzVnBXFT/dHC0PmFNvWM9qCMio=:c/T8VXqgGj7rARTu/dKaXcLJrg32bNno8O403SENqp4="},
	{"not UTF-8", "\xff\xfe",
	 "SCRAM-SHA-256$4096:h7CWVX/ttJiKQh61KKU4Vw==$7Xw5h6S4iuGhBZNxRiX1jvtGYVKvW5a79PAidlNTIrc=:DFkCPGO4TEyB8h31+BDoK0A9ugfKY9qu1liS/eyVmkw="},
	{"unassigned in Unicode 3.2", "\U0001F600x",
	 "SCRAM-SHA-256$4096:DG/L7GBVOYfz8wfKB48mpA==$QcrtrJIZAkdn0kZTV0RCCV6tbvO1grmOzpoEfYN4HTQ=:EPT0iS8FOTIDw4gGSb9U4mrVO346BT5+FoWx08Em+EU="},
};

static void what_is_stored_is_told_by_its_form(void **state)
{
	(void)state;
	assert_int_equal(kind("secret"), PASSWORD_PLAIN);
	assert_int_equal(kind(BOB_SECRET_MD5), PASSWORD_MD5);
	assert_int_equal(kind(postgres[0].verifier), PASSWORD_SCRAM);
	assert_int_equal(kind(""), PASSWORD_NONE);
	assert_int_equal(password_kind(&(struct secret){0}), PASSWORD_NONE);
}

static void what_only_resembles_a_hash_is_plain(void **state)
{
	(void)state;
	assert_int_equal(kind("md5"), PASSWORD_PLAIN);
	assert_int_equal(kind("md5ABCDEF00000000000000000000000000"), PASSWORD_PLAIN); /* PostgreSQL takes lower case only */
	assert_int_equal(kind("md5abcdef000000000000000000000000000"), PASSWORD_PLAIN);
	assert_int_equal(kind("md5abcdef0000000000000000000000000g"), PASSWORD_PLAIN);
	assert_int_equal(kind("SCRAM-SHA-256$4096:AAAA"), PASSWORD_PLAIN);
}

static void a_zero_byte_ends_no_verifier_early(void **state)
{
	struct secret s = {0};
	char text[200];
	size_t len = strlen(postgres[0].verifier);

	(void)state;
	memcpy(text, postgres[0].verifier, len);
	memcpy(text + len, "\0x", 2);
	secret_set(&s, text, len + 2);
	assert_int_equal(password_kind(&s), PASSWORD_PLAIN);
	secret_free(&s);
}

static void the_md5_form_is_postgresqls(void **state)
{
	char out[PASSWORD_MD5_LEN + 1];

	(void)state;
	password_md5("secret", 6, "bob", out);
	assert_string_equal(out, BOB_SECRET_MD5);
	password_md5("pässwörd", strlen("pässwörd"), "Ünï x", out);
	assert_string_equal(out, "md5062f5d3caab87815d64f9620d2ebba47");
}

/* SELECT 'md5' || md5(md5('secret' || 'bob')::bytea || salt) */
static void the_md5_answer_is_the_same_from_plain_and_from_md5(void **state)
{
	static const char *const forms[] = {"secret", BOB_SECRET_MD5};
	char out[PASSWORD_MD5_LEN + 1];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct secret s = secret_of(forms[i]);

		assert_true(password_md5_answer(&s, "bob", (const uint8_t *)"abcd", out));
		assert_string_equal(out, "md595b9eb35c215f6feb0a53d6ecdb802fb");
		assert_true(password_md5_answer(&s, "bob", (const uint8_t *)"\x00\xff\x01\x80", out));
		assert_string_equal(out, "md5268717e87aa186a6937dbf63fc44735e");
		secret_free(&s);
	}
}

static void a_scram_secret_cannot_answer_md5(void **state)
{
	struct secret s = secret_of(postgres[0].verifier);
	char out[PASSWORD_MD5_LEN + 1];

	(void)state;
	assert_false(password_md5_answer(&s, "bob", (const uint8_t *)"abcd", out));
	assert_string_equal(out, "");
	assert_false(password_md5_answer(&(struct secret){0}, "bob", (const uint8_t *)"abcd", out));
	assert_false(password_md5_matches(&s, "bob", (const uint8_t *)"abcd", span_str("")));
	secret_free(&s);
}

static void an_md5_answer_matches_for_its_salt_only(void **state)
{
	struct secret s = secret_of("secret");

	(void)state;
	assert_true(password_md5_matches(&s, "bob", (const uint8_t *)"abcd", span_str("md595b9eb35c215f6feb0a53d6ecdb802fb")));
	assert_false(password_md5_matches(&s, "bob", (const uint8_t *)"abce", span_str("md595b9eb35c215f6feb0a53d6ecdb802fb")));
	assert_false(password_md5_matches(&s, "alice", (const uint8_t *)"abcd", span_str("md595b9eb35c215f6feb0a53d6ecdb802fb")));
	assert_false(password_md5_matches(&s, "bob", (const uint8_t *)"abcd", span_str("")));
	assert_false(password_md5_matches(&s, "bob", (const uint8_t *)"abcd", span_str("secret")));
	secret_free(&s);
}

static void clear_passwords_match_themselves_in_any_stored_form(void **state)
{
	(void)state;
	assert_true(matches("secret", "bob", "secret"));
	assert_false(matches("secret", "bob", "secres"));
	assert_false(matches("secret", "bob", "secre"));
	assert_false(matches("secret", "bob", "secrets"));
	assert_true(matches(BOB_SECRET_MD5, "bob", "secret"));
	assert_false(matches(BOB_SECRET_MD5, "bab", "secret"));
	assert_false(matches(BOB_SECRET_MD5, "bob", "Secret"));
}

static void a_stored_hash_is_not_itself_a_password(void **state)
{
	(void)state;
	assert_false(matches(BOB_SECRET_MD5, "bob", BOB_SECRET_MD5));
	assert_false(matches(postgres[0].verifier, "bob", postgres[0].verifier));
}

static void empty_never_matches(void **state)
{
	(void)state;
	assert_false(matches("", "bob", ""));
	assert_false(matches("", "bob", "x"));
	assert_false(matches("secret", "bob", ""));
	assert_false(password_matches(&(struct secret){0}, "bob", span_str("")));
	/* The md5 form of the empty password, which older servers stored: md5('' || 'bob'). */
	assert_false(matches("md59f9d51bc70ef21ca5c14f307980a29d8", "bob", ""));
}

static void passwords_match_the_verifiers_that_postgresql_made(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof postgres / sizeof *postgres; i++) {
		if (!matches(postgres[i].verifier, "anyone", postgres[i].password))
			fail_msg("%s", postgres[i].what);
		assert_false(matches(postgres[i].verifier, "anyone", "another"));
	}
}

static void spellings_that_prepare_to_the_same_match(void **state)
{
	(void)state;
	assert_true(matches(postgres[1].verifier, "x", "IX"));
	assert_true(matches(postgres[2].verifier, "x", "a b"));
	assert_false(matches(postgres[2].verifier, "x", "ab"));
}

static void passwords_of_64_kb_work_in_every_form(void **state)
{
	char *text = malloc(65535), md5[PASSWORD_MD5_LEN + 1];
	struct secret s = {0}, hash;
	struct span sent = {(const uint8_t *)text, 65535};
	uint8_t salt[4] = {1, 2, 3, 4};

	(void)state;
	memset(text, 'x', 65535);
	secret_set(&s, text, 65535);
	assert_int_equal(password_kind(&s), PASSWORD_PLAIN);
	assert_true(password_matches(&s, "bob", sent));
	assert_true(password_md5_answer(&s, "bob", salt, md5));
	password_md5(text, 65535, "bob", md5);
	hash = secret_of(md5);
	assert_true(password_matches(&hash, "bob", sent));
	text[65534] = 'y';
	assert_false(password_matches(&s, "bob", sent));
	assert_false(password_matches(&hash, "bob", sent));
	secret_free(&s);
	secret_free(&hash);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_stored_is_told_by_its_form),
		cmocka_unit_test(what_only_resembles_a_hash_is_plain),
		cmocka_unit_test(a_zero_byte_ends_no_verifier_early),
		cmocka_unit_test(the_md5_form_is_postgresqls),
		cmocka_unit_test(the_md5_answer_is_the_same_from_plain_and_from_md5),
		cmocka_unit_test(a_scram_secret_cannot_answer_md5),
		cmocka_unit_test(an_md5_answer_matches_for_its_salt_only),
		cmocka_unit_test(clear_passwords_match_themselves_in_any_stored_form),
		cmocka_unit_test(a_stored_hash_is_not_itself_a_password),
		cmocka_unit_test(empty_never_matches),
		cmocka_unit_test(passwords_match_the_verifiers_that_postgresql_made),
		cmocka_unit_test(spellings_that_prepare_to_the_same_match),
		cmocka_unit_test(passwords_of_64_kb_work_in_every_form),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
