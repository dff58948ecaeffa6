/* SCRAM: the vector of RFC 7677 chapter 3 on both sides, our two sides against each other, and hostile peers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "auth/scram_priv.h"

#define RFC_CLIENT_NONCE "rOprNGfwEbeRWgbNEkqO"
#define RFC_SERVER_NONCE "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
#define RFC_NONCE RFC_CLIENT_NONCE RFC_SERVER_NONCE
#define RFC_SALT "W22ZaJ0SNY7soEsUEjb6gQ=="
#define RFC_CLIENT_FIRST "n,,n=user,r=" RFC_CLIENT_NONCE
#define RFC_SERVER_FIRST "r=" RFC_NONCE ",s=" RFC_SALT ",i=4096"
#define RFC_CLIENT_FINAL "c=biws,r=" RFC_NONCE ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
#define RFC_SERVER_FINAL "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

/* CREATE ROLE with the password "plain" in PostgreSQL 15. */
#define VERIFIER_PLAIN "SCRAM-SHA-256$4096:bNnTq9P5RkXa/2g8vaTCNQ==$vk9zYq0o5zhZQh6x9Q0rLjEz0wd3VtuY35ZHMy5q9Oo=:KdiSkXoooeP6ubSFtMCv+Le2oGT45Yt6jFraADTg7wY="

static const struct span nothing = {NULL, 0};

static struct secret secret_of(const char *text)
{
	struct secret s = {0};

	secret_set(&s, text, strlen(text));
	return s;
}

static void is_text(const struct buf *b, const char *want)
{
	assert_int_equal(b->len, strlen(want));
	assert_memory_equal(b->p, want, b->len);
}

static struct scram_verifier rfc_verifier(void)
{
	struct scram_verifier v = {.iterations = 4096};
	uint8_t client_key[SCRAM_KEY];

	assert_true(scram_base64_decode(span_str(RFC_SALT), SCRAM_SALT_MOST, &v.salt));
	scram_derive(span_str("pencil"), buf_span(&v.salt), 4096, client_key, v.server_key);
	scram_stored_key(client_key, v.stored_key);
	return v;
}

static struct scram_server *rfc_server(void)
{
	struct scram_verifier v = rfc_verifier();
	struct scram_server *s = scram_server_new(&v);

	scram_server_fix(s, RFC_SERVER_NONCE);
	scram_verifier_free(&v);
	return s;
}

static struct scram_client *rfc_client(void)
{
	struct secret password = secret_of("pencil");
	struct scram_client *c = scram_client_new(&password, NULL);

	scram_client_fix(c, "user", RFC_CLIENT_NONCE);
	secret_free(&password);
	return c;
}

/* ---- the vector ---- */

static void the_server_side_says_what_rfc_7677_says(void **state)
{
	struct scram_server *s = rfc_server();
	struct buf first = {0}, final = {0};
	struct scram_keys keys;
	struct err err = {0};

	(void)state;
	assert_true(scram_server_first(s, span_str(RFC_CLIENT_FIRST), false, false, nothing, &first, &err));
	is_text(&first, RFC_SERVER_FIRST);
	assert_true(scram_server_final(s, span_str(RFC_CLIENT_FINAL), &final, &keys, &err));
	is_text(&final, RFC_SERVER_FINAL);
	assert_true(keys.set);
	buf_free(&first);
	buf_free(&final);
	scram_server_free(&s);
	assert_null(s);
}

static void the_client_side_says_what_rfc_7677_says(void **state)
{
	struct scram_client *c = rfc_client();
	struct buf first = {0}, final = {0};
	struct err err = {0};

	(void)state;
	scram_client_first(c, false, false, nothing, &first);
	is_text(&first, RFC_CLIENT_FIRST);
	assert_true(scram_client_next(c, span_str(RFC_SERVER_FIRST), &final, &err));
	is_text(&final, RFC_CLIENT_FINAL);
	assert_true(scram_client_check(c, span_str(RFC_SERVER_FINAL), &err));
	buf_free(&first);
	buf_free(&final);
	scram_client_free(&c);
	assert_null(c);
}

/* ---- verifiers ---- */

static void a_verifier_of_postgresql_is_read(void **state)
{
	struct scram_verifier v;

	(void)state;
	assert_true(scram_verifier_parse(VERIFIER_PLAIN, &v));
	assert_int_equal(v.iterations, 4096);
	assert_int_equal(v.salt.len, 16);
	scram_verifier_free(&v);
	assert_null(v.salt.p);
}

static void what_is_no_verifier_is_refused(void **state)
{
	static const char key[] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
	static const char *const bad[] = {
		"%s", "", "SCRAM-SHA-256", "SCRAM-SHA-256$", "SCRAM-SHA-1$4096:AAAA$%s:%s", "scram-sha-256$4096:AAAA$%s:%s",
		"SCRAM-SHA-256$0:AAAA$%s:%s", "SCRAM-SHA-256$-1:AAAA$%s:%s", "SCRAM-SHA-256$:AAAA$%s:%s", "SCRAM-SHA-256$ 4096:AAAA$%s:%s",
		"SCRAM-SHA-256$10000001:AAAA$%s:%s", "SCRAM-SHA-256$4294967297:AAAA$%s:%s", "SCRAM-SHA-256$99999999999999999999:AAAA$%s:%s",
		"SCRAM-SHA-256$4096:$%s:%s", "SCRAM-SHA-256$4096:AAA$%s:%s", "SCRAM-SHA-256$4096:A===$%s:%s", "SCRAM-SHA-256$4096:AA=A$%s:%s",
		"SCRAM-SHA-256$4096: AAAA$%s:%s", "SCRAM-SHA-256$4096:AA.A$%s:%s", "SCRAM-SHA-256$4096:AAAA$%s", "SCRAM-SHA-256$4096:AAAA$%s:",
		"SCRAM-SHA-256$4096:AAAA$%s:%s:", "SCRAM-SHA-256$4096:AAAA$%s:%s\n", "SCRAM-SHA-256$4096:AAAA$AAAA:%s", "SCRAM-SHA-256$4096:AAAA:%s$%s",
		"SCRAM-SHA-256$4096:AAAA$A%s:%s",
	};
	struct scram_verifier v;
	char text[400];

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		const char *first = strstr(bad[i], "%s"), *second = first ? strstr(first + 2, "%s") : NULL;

		/* "%s" stands for a key. */
		if (second)
			snprintf(text, sizeof text, "%.*s%s%.*s%s%s", (int)(first - bad[i]), bad[i], key, (int)(second - first - 2), first + 2, key, second + 2);
		else if (first)
			snprintf(text, sizeof text, "%.*s%s%s", (int)(first - bad[i]), bad[i], key, first + 2);
		else
			snprintf(text, sizeof text, "%s", bad[i]);
		if (scram_verifier_parse(text, &v))
			fail_msg("%s", text);
		assert_null(v.salt.p);
	}
	assert_false(scram_verifier_parse(NULL, &v));
}

static void a_salt_may_have_1024_bytes_and_no_more(void **state)
{
	struct buf salt = {0}, text = {0};
	struct scram_verifier v;

	(void)state;
	for (size_t len = SCRAM_SALT_MOST - 1; len <= SCRAM_SALT_MOST + 3; len++) {
		buf_free(&salt);
		buf_free(&text);
		for (size_t i = 0; i < len; i++)
			buf_add_u8(&salt, 'x');
		buf_add_str(&text, "SCRAM-SHA-256$1:");
		scram_base64_add(&text, salt.p, salt.len);
		buf_add_str(&text, "$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
		buf_add_u8(&text, 0);
		assert_int_equal(scram_verifier_parse((char *)text.p, &v), len <= SCRAM_SALT_MOST);
		if (len <= SCRAM_SALT_MOST)
			assert_true(span_same(buf_span(&v.salt), buf_span(&salt)));
		scram_verifier_free(&v);
	}
	buf_free(&salt);
	buf_free(&text);
}

static void a_made_verifier_has_a_new_salt_each_time(void **state)
{
	struct secret password = secret_of("pencil"), none = {0};
	struct scram_verifier a, b;

	(void)state;
	assert_true(scram_verifier_make(&password, 4096, &a));
	assert_true(scram_verifier_make(&password, 4096, &b));
	assert_int_equal(a.salt.len, 16);
	assert_false(span_same(buf_span(&a.salt), buf_span(&b.salt)));
	assert_memory_not_equal(a.stored_key, b.stored_key, SCRAM_KEY);
	scram_verifier_free(&a);
	scram_verifier_free(&b);
	assert_false(scram_verifier_make(&password, 0, &a));
	assert_false(scram_verifier_make(&password, SCRAM_ITERATIONS_MOST + 1, &a));
	assert_false(scram_verifier_make(&none, 4096, &a));
	secret_free(&password);
}

/* ---- both sides ---- */

/* One exchange as it is set up by the fields, and how far it came. */
struct exchange {
	const struct scram_verifier *verifier;
	const struct secret *password;
	const struct scram_keys *keys;
	struct span client_cb, server_cb;
	bool plus;

	struct scram_keys revealed;
	struct buf server_first;
	struct err err;
};

enum outcome { REFUSED_FIRST, REFUSED_NEXT, REFUSED_FINAL, REFUSED_CHECK, LOGGED_IN };

static enum outcome exchange(struct exchange *x)
{
	struct scram_client *c = scram_client_new(x->password, x->keys);
	struct scram_server *s = scram_server_new(x->verifier);
	struct buf m[3] = {0};
	enum outcome out = LOGGED_IN;

	buf_free(&x->server_first);
	scram_client_first(c, x->plus, false, x->client_cb, &m[0]);
	if (!scram_server_first(s, buf_span(&m[0]), x->plus, x->server_cb.len > 0, x->server_cb, &x->server_first, &x->err))
		out = REFUSED_FIRST;
	else if (!scram_client_next(c, buf_span(&x->server_first), &m[1], &x->err))
		out = REFUSED_NEXT;
	else if (!scram_server_final(s, buf_span(&m[1]), &m[2], &x->revealed, &x->err))
		out = REFUSED_FINAL;
	else if (!scram_client_check(c, buf_span(&m[2]), &x->err))
		out = REFUSED_CHECK;
	for (int i = 0; i < 3; i++)
		buf_free(&m[i]);
	scram_client_free(&c);
	scram_server_free(&s);
	return out;
}

static void the_right_password_logs_in_and_a_wrong_one_does_not(void **state)
{
	struct secret right = secret_of("plain"), wrong = secret_of("plainer");
	struct scram_verifier v;
	struct exchange x = {.verifier = &v, .password = &right};

	(void)state;
	assert_true(scram_verifier_parse(VERIFIER_PLAIN, &v));
	assert_int_equal(exchange(&x), LOGGED_IN);
	assert_true(x.revealed.set);
	x.password = &wrong;
	assert_int_equal(exchange(&x), REFUSED_FINAL);
	assert_string_equal(x.err.sqlstate, "28P01");
	assert_false(x.revealed.set);
	buf_free(&x.server_first);
	scram_verifier_free(&v);
	secret_free(&right);
	secret_free(&wrong);
}

static void the_keys_of_a_login_log_in_again_without_the_password(void **state)
{
	struct secret password = secret_of("plain");
	struct scram_verifier v, other;
	struct exchange x = {.verifier = &v, .password = &password}, again = {.verifier = &v};
	uint8_t stored[SCRAM_KEY];

	(void)state;
	assert_true(scram_verifier_parse(VERIFIER_PLAIN, &v));
	assert_true(scram_verifier_make(&password, 4096, &other));
	assert_int_equal(exchange(&x), LOGGED_IN);
	scram_stored_key(x.revealed.client_key, stored);
	assert_memory_equal(stored, v.stored_key, SCRAM_KEY);
	again.keys = &x.revealed;
	assert_int_equal(exchange(&again), LOGGED_IN);
	assert_memory_equal(again.revealed.client_key, x.revealed.client_key, SCRAM_KEY);
	again.verifier = &other; /* the same password, another salt */
	assert_int_equal(exchange(&again), REFUSED_FINAL);
	buf_free(&x.server_first);
	buf_free(&again.server_first);
	scram_verifier_free(&v);
	scram_verifier_free(&other);
	secret_free(&password);
}

static void spellings_that_saslprep_joins_log_in(void **state)
{
	struct secret stored = secret_of("I\u00ADX\uFB01"), typed = secret_of("\u2168fi");
	struct scram_verifier v;
	struct exchange x = {.verifier = &v, .password = &typed};

	(void)state;
	assert_true(scram_verifier_make(&stored, 2, &v));
	assert_int_equal(exchange(&x), LOGGED_IN);
	buf_free(&x.server_first);
	scram_verifier_free(&v);
	secret_free(&stored);
	secret_free(&typed);
}

static void passwords_of_64_kb_log_in(void **state)
{
	char *text = malloc(65535);
	struct secret password = {0};
	struct scram_verifier v;
	struct exchange x = {.verifier = &v, .password = &password};

	(void)state;
	memset(text, 0xe9, 65535);
	secret_set(&password, text, 65535);
	assert_true(scram_verifier_make(&password, 2, &v));
	assert_int_equal(exchange(&x), LOGGED_IN);
	text[65534]++;
	secret_set(&password, text, 65535);
	assert_int_equal(exchange(&x), REFUSED_FINAL);
	buf_free(&x.server_first);
	scram_verifier_free(&v);
	secret_free(&password);
	free(text);
}

static void an_unknown_user_meets_a_steady_salt_and_always_fails(void **state)
{
	const uint8_t seed[32] = "seed", seed2[32] = "seed2";
	struct secret password = secret_of("plain");
	struct scram_verifier a, same, user, seeded;
	struct exchange x = {.verifier = &a, .password = &password};

	(void)state;
	scram_verifier_mock("nobody", seed, 4096, &a);
	scram_verifier_mock("nobody", seed, 4096, &same);
	scram_verifier_mock("nobodx", seed, 4096, &user);
	scram_verifier_mock("nobody", seed2, 4096, &seeded);
	assert_int_equal(a.salt.len, 16); /* as PostgreSQL's and ours */
	assert_true(span_same(buf_span(&a.salt), buf_span(&same.salt)));
	assert_memory_equal(a.stored_key, same.stored_key, SCRAM_KEY);
	assert_false(span_same(buf_span(&a.salt), buf_span(&user.salt)));
	assert_false(span_same(buf_span(&a.salt), buf_span(&seeded.salt)));
	assert_int_equal(exchange(&x), REFUSED_FINAL);
	assert_string_equal(x.err.sqlstate, "28P01");
	buf_free(&x.server_first);
	scram_verifier_free(&a);
	scram_verifier_free(&same);
	scram_verifier_free(&user);
	scram_verifier_free(&seeded);
	secret_free(&password);
}

/* ---- channel binding ---- */

static void plus_logs_in_when_both_sides_see_the_same_certificate(void **state)
{
	struct secret password = secret_of("plain");
	struct scram_verifier v;
	struct exchange x = {.verifier = &v, .password = &password, .plus = true, .client_cb = span_str("hash A"), .server_cb = span_str("hash A")};

	(void)state;
	assert_true(scram_verifier_parse(VERIFIER_PLAIN, &v));
	assert_int_equal(exchange(&x), LOGGED_IN);
	x.client_cb = span_str("hash B");
	assert_int_equal(exchange(&x), REFUSED_FINAL);
	assert_string_equal(x.err.sqlstate, "28000"); /* PostgreSQL's for a failed binding */
	x.client_cb = span_str("hash ");
	assert_int_equal(exchange(&x), REFUSED_FINAL);
	buf_free(&x.server_first);
	scram_verifier_free(&v);
	secret_free(&password);
}

/* What server_first says to it; NULL when it is taken. */
static const char *first_refused(const char *client_first, size_t len, bool plus, bool offered, struct err *err)
{
	struct scram_server *s = rfc_server();
	struct buf out = {0};
	bool taken = scram_server_first(s, (struct span){(const uint8_t *)client_first, len}, plus, offered, offered ? span_str("hash") : nothing, &out, err);

	if (!taken)
		assert_int_equal(out.len, 0);
	buf_free(&out);
	scram_server_free(&s);
	return taken ? NULL : err->sqlstate;
}

static void y_is_a_downgrade_when_plus_was_offered(void **state)
{
	struct err err = {0};

	(void)state;
	assert_string_equal(first_refused("y,,n=,r=abc", 11, false, true, &err), "28000");
	assert_null(first_refused("y,,n=,r=abc", 11, false, false, &err));
	assert_null(first_refused("n,,n=,r=abc", 11, false, true, &err));
}

static void mechanism_and_flag_must_agree(void **state)
{
	static const char p[] = "p=tls-server-end-point,,n=,r=abc", unique[] = "p=tls-unique,,n=,r=abc", longer[] = "p=tls-server-end-point2,,n=,r=abc";
	struct err err = {0};

	(void)state;
	assert_null(first_refused(p, strlen(p), true, true, &err));
	assert_string_equal(first_refused(p, strlen(p), false, true, &err), "08P01");
	assert_string_equal(first_refused(p, strlen(p), true, false, &err), "08P01"); /* not offered: there is no hash to bind to */
	assert_string_equal(first_refused("n,,n=,r=abc", 11, true, true, &err), "08P01");
	assert_string_equal(first_refused("y,,n=,r=abc", 11, true, true, &err), "08P01");
	assert_string_equal(first_refused(unique, strlen(unique), true, true, &err), "08P01");
	assert_string_equal(first_refused(longer, strlen(longer), true, true, &err), "08P01");
}

static void the_header_is_bound_even_without_plus(void **state)
{
	struct secret password = secret_of("pencil");
	struct scram_server *s = rfc_server();
	struct scram_client *c = scram_client_new(&password, NULL);
	struct buf first = {0}, second = {0}, third = {0}, fourth = {0};
	struct scram_keys keys;
	struct err err = {0};

	(void)state;
	scram_client_first(c, false, true, nothing, &first);
	assert_int_equal(first.p[0], 'y');
	first.p[0] = 'n'; /* somebody between them hides that the client can bind */
	assert_true(scram_server_first(s, buf_span(&first), false, true, span_str("hash"), &second, &err));
	assert_true(scram_client_next(c, buf_span(&second), &third, &err));
	assert_false(scram_server_final(s, buf_span(&third), &fourth, &keys, &err));
	assert_string_equal(err.sqlstate, "28000");
	buf_free(&first);
	buf_free(&second);
	buf_free(&third);
	scram_client_free(&c);
	scram_server_free(&s);
	secret_free(&password);
}

/* ---- hostile clients ---- */

static void malformed_client_firsts_are_refused(void **state)
{
	static const char *const bad[] = {
		"", "n", "n,", "n,,", "n,,n=", "n,,n=,", "n,,n=,r=", "n,,r=abc", "n,,n=user", "n,,n=user,r", "n,,n=user,x=1,r=abc", "n,a=admin,n=user,r=abc",
		"n,,n=user,r=abc,", "n,,n=user,r=a b", "n,,n=user,r=\x7f", "n,,n=user,r=\xc3\xa9", "n,,n=user,r=abc,x", "n,,n=user,r=abc,1=x", "n,,n=user,r=abc,=x",
		"nn,,n=,r=abc", "N,,n=,r=abc", "x,,n=,r=abc", "p,,n=,r=abc", "p=,,n=,r=abc", ",,n=,r=abc", ",", ",,", "=,,", "n,n=user,r=abc", "m=x,,n=,r=abc",
	};
	struct err err = {0};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		const char *sqlstate = first_refused(bad[i], strlen(bad[i]), false, false, &err);

		if (!sqlstate || strcmp(sqlstate, "08P01") != 0)
			fail_msg("%s: %s", bad[i], sqlstate ? sqlstate : "taken");
	}
	assert_string_equal(first_refused("n,,n=u\0,r=abc", 13, false, false, &err), "08P01");
	assert_string_equal(first_refused("n,,m=x,n=,r=abc", 15, false, false, &err), "0A000"); /* as PostgreSQL */
	assert_null(first_refused("n,,n=us=2Cer,r=abc,x=,y=1", 25, false, false, &err));        /* extensions it may leave out */
}

static void malformed_client_finals_are_refused(void **state)
{
	static const struct {
		const char *text, *sqlstate;
	} bad[] = {
		{"", "08P01"}, {"c", "08P01"}, {"c=", "28000"}, {"c=biws", "08P01"}, {"c=biws,", "08P01"}, {"c=biws,r=", "08P01"}, {"c=biws,r=" RFC_NONCE, "08P01"},
		{"c=biws,r=" RFC_NONCE ",", "08P01"}, {"c=biws,r=" RFC_NONCE ",p=", "08P01"}, {"c=biws,r=" RFC_NONCE ",p=AAAA", "08P01"},
		{"c=biws,r=" RFC_CLIENT_NONCE ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", "08P01"}, {"c=eSws,r=" RFC_NONCE ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", "28000"},
		{"c=biws,r=" RFC_NONCE "x,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", "08P01"}, {RFC_CLIENT_FINAL ",x=1", "08P01"}, {RFC_CLIENT_FINAL ",", "08P01"},
		{"c=biws,r=" RFC_NONCE ",x=1,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", "28P01"}, /* well formed, but x is in what is signed */
		{"c=biws,r=" RFC_NONCE ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVR=", "08P01"},
		{"c=biws,r=" RFC_NONCE ",p=AHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", "28P01"}, {"c=biws,r=" RFC_NONCE ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQAAAA=", "08P01"},
		{"c=biws,r=" RFC_NONCE ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ", "08P01"},
	};
	struct scram_keys keys;
	struct err err = {0};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct scram_server *s = rfc_server();
		struct buf first = {0}, final = {0};

		assert_true(scram_server_first(s, span_str(RFC_CLIENT_FIRST), false, false, nothing, &first, &err));
		if (scram_server_final(s, span_str(bad[i].text), &final, &keys, &err) || strcmp(err.sqlstate, bad[i].sqlstate) != 0)
			fail_msg("%s: %s", bad[i].text, err.sqlstate);
		assert_false(keys.set);
		assert_int_equal(final.len, 0);
		/* There is no second try. */
		assert_false(scram_server_final(s, span_str(RFC_CLIENT_FINAL), &final, &keys, &err));
		buf_free(&first);
		scram_server_free(&s);
	}
}

static void messages_out_of_turn_are_refused(void **state)
{
	struct scram_server *s = rfc_server();
	struct scram_client *c = rfc_client();
	struct scram_keys keys;
	struct buf out = {0};
	struct err err = {0};

	(void)state;
	assert_false(scram_server_final(s, span_str(RFC_CLIENT_FINAL), &out, &keys, &err));
	assert_true(scram_server_first(s, span_str(RFC_CLIENT_FIRST), false, false, nothing, &out, &err));
	assert_false(scram_server_first(s, span_str(RFC_CLIENT_FIRST), false, false, nothing, &out, &err));
	scram_client_first(c, false, false, nothing, &out);
	assert_false(scram_client_check(c, span_str(RFC_SERVER_FINAL), &err)); /* a server that skips the challenge has proved nothing */
	assert_true(scram_client_next(c, span_str(RFC_SERVER_FIRST), &out, &err));
	assert_false(scram_client_next(c, span_str(RFC_SERVER_FIRST), &out, &err));
	buf_free(&out);
	scram_server_free(&s);
	scram_client_free(&c);
}

/* ---- hostile servers ---- */

static bool client_takes(const char *server_first, struct err *err)
{
	struct scram_client *c = rfc_client();
	struct buf out = {0}, final = {0};
	bool taken;

	scram_client_first(c, false, false, nothing, &out);
	taken = scram_client_next(c, span_str(server_first), &final, err);
	if (!taken)
		assert_int_equal(final.len, 0);
	buf_free(&out);
	buf_free(&final);
	scram_client_free(&c);
	return taken;
}

static void malformed_server_firsts_are_refused(void **state)
{
	static const char *const bad[] = {
		"", "r", "r=", "r=" RFC_NONCE, "r=" RFC_NONCE ",", "r=" RFC_NONCE ",s=" RFC_SALT, "r=" RFC_NONCE ",i=4096", "r=" RFC_NONCE ",i=4096,s=" RFC_SALT,
		"r=other,s=" RFC_SALT ",i=4096", "r=rOprNGfwEbeRWgbNEkq,s=" RFC_SALT ",i=4096", "r=ROprNGfwEbeRWgbNEkqOxxxx,s=" RFC_SALT ",i=4096",
		"r=" RFC_NONCE " ,s=" RFC_SALT ",i=4096", "r=" RFC_NONCE ",s=,i=4096", "r=" RFC_NONCE ",s=W22,i=4096", "r=" RFC_NONCE ",s=!!!!,i=4096",
		"r=" RFC_NONCE ",s=" RFC_SALT ",i=", "r=" RFC_NONCE ",s=" RFC_SALT ",i=0", "r=" RFC_NONCE ",s=" RFC_SALT ",i=00000000", "r=" RFC_NONCE ",s=" RFC_SALT ",i=-4096",
		"r=" RFC_NONCE ",s=" RFC_SALT ",i=10000001", "r=" RFC_NONCE ",s=" RFC_SALT ",i=4294971392", "r=" RFC_NONCE ",s=" RFC_SALT ",i=18446744073709555712",
		"r=" RFC_NONCE ",s=" RFC_SALT ",i=4096 ", "r=" RFC_NONCE ",s=" RFC_SALT ",i=4096,", "m=x,r=" RFC_NONCE ",s=" RFC_SALT ",i=4096",
		"r=" RFC_NONCE ",s=" RFC_SALT ",i=4096,m=x", "r=" RFC_NONCE ",s=" RFC_SALT ",i=4096,x", "e=other-error",
	};
	struct err err = {0};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (client_takes(bad[i], &err) || strcmp(err.sqlstate, "08P01") != 0)
			fail_msg("%s", bad[i]);
	assert_true(client_takes("r=" RFC_NONCE ",s=" RFC_SALT ",i=1,x=optional", &err));
}

static void a_salt_over_1024_bytes_is_refused_by_the_client(void **state)
{
	struct buf salt = {0}, text = {0};
	struct err err = {0};

	(void)state;
	for (size_t len = SCRAM_SALT_MOST; len <= SCRAM_SALT_MOST + 1; len++) {
		buf_free(&salt);
		buf_free(&text);
		while (salt.len < len)
			buf_add_u8(&salt, 'x');
		buf_add_str(&text, "r=" RFC_NONCE ",s=");
		scram_base64_add(&text, salt.p, salt.len);
		buf_add(&text, ",i=1", 5);
		assert_int_equal(client_takes((char *)text.p, &err), len <= SCRAM_SALT_MOST);
	}
	buf_free(&salt);
	buf_free(&text);
}

/* PgBouncer's CVE-2026-6665: the answer was built in a buffer of fixed size. */
static void a_nonce_of_10_kb_is_sent_back_whole(void **state)
{
	struct scram_client *c = rfc_client();
	struct buf first = {0}, challenge = {0}, final = {0};
	struct err err = {0};

	(void)state;
	scram_client_first(c, false, false, nothing, &first);
	buf_add_str(&challenge, "r=" RFC_CLIENT_NONCE);
	while (challenge.len < 10240)
		buf_add_u8(&challenge, 'N');
	buf_add_str(&challenge, ",s=" RFC_SALT ",i=1");
	assert_true(scram_client_next(c, buf_span(&challenge), &final, &err));
	assert_int_equal(final.len, strlen("c=biws,") + 10240 + strlen(",p=") + 44);
	assert_memory_equal(final.p + strlen("c=biws,"), challenge.p, 10240);
	buf_free(&first);
	buf_free(&challenge);
	buf_free(&final);
	scram_client_free(&c);
}

static void a_client_nonce_of_10_kb_is_sent_back_whole(void **state)
{
	struct scram_server *s = rfc_server();
	struct buf first = {0}, challenge = {0};
	struct err err = {0};

	(void)state;
	buf_add_str(&first, "n,,n=,r=");
	while (first.len < 10240)
		buf_add_u8(&first, 'N');
	assert_true(scram_server_first(s, buf_span(&first), false, false, nothing, &challenge, &err));
	assert_memory_equal(challenge.p, first.p + strlen("n,,n=,"), 10240 - strlen("n,,n=,"));
	buf_free(&first);
	buf_free(&challenge);
	scram_server_free(&s);
}

static void a_server_that_cannot_sign_is_not_believed(void **state)
{
	static const struct {
		const char *text, *sqlstate;
	} bad[] = {
		{"", "08P01"}, {"v", "08P01"}, {"v=", "08P01"}, {"v=AAAA", "08P01"}, {"x=1", "08P01"}, {"v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "28P01"},
		{"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "28P01"}, {RFC_SERVER_FINAL "A", "08P01"}, {RFC_SERVER_FINAL ",x=1", "08P01"}, {RFC_SERVER_FINAL ",", "08P01"},
		{"e=invalid-proof\x1b[2J", "28P01"},
	};
	struct err err = {0};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct scram_client *c = rfc_client();
		struct buf out = {0};

		scram_client_first(c, false, false, nothing, &out);
		assert_true(scram_client_next(c, span_str(RFC_SERVER_FIRST), &out, &err));
		if (scram_client_check(c, span_str(bad[i].text), &err) || strcmp(err.sqlstate, bad[i].sqlstate) != 0)
			fail_msg("%s: %s", bad[i].text, err.sqlstate);
		assert_null(strchr(err.text, 0x1b));
		assert_false(scram_client_check(c, span_str(RFC_SERVER_FINAL), &err));
		buf_free(&out);
		scram_client_free(&c);
	}
}

static void nonces_of_ours_are_new_each_time(void **state)
{
	struct secret password = secret_of("pencil");
	struct buf m[2] = {0};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct scram_client *c = scram_client_new(&password, NULL);

		scram_client_first(c, false, false, nothing, &m[i]);
		assert_memory_equal(m[i].p, "n,,n=,r=", 8); /* no name: the startup packet's counts */
		assert_int_equal(m[i].len, 8 + 24);
		scram_client_free(&c);
	}
	assert_false(span_same(buf_span(&m[0]), buf_span(&m[1])));
	buf_free(&m[0]);
	buf_free(&m[1]);
	secret_free(&password);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_server_side_says_what_rfc_7677_says),
		cmocka_unit_test(the_client_side_says_what_rfc_7677_says),
		cmocka_unit_test(a_verifier_of_postgresql_is_read),
		cmocka_unit_test(what_is_no_verifier_is_refused),
		cmocka_unit_test(a_salt_may_have_1024_bytes_and_no_more),
		cmocka_unit_test(a_made_verifier_has_a_new_salt_each_time),
		cmocka_unit_test(the_right_password_logs_in_and_a_wrong_one_does_not),
		cmocka_unit_test(the_keys_of_a_login_log_in_again_without_the_password),
		cmocka_unit_test(spellings_that_saslprep_joins_log_in),
		cmocka_unit_test(passwords_of_64_kb_log_in),
		cmocka_unit_test(an_unknown_user_meets_a_steady_salt_and_always_fails),
		cmocka_unit_test(plus_logs_in_when_both_sides_see_the_same_certificate),
		cmocka_unit_test(y_is_a_downgrade_when_plus_was_offered),
		cmocka_unit_test(mechanism_and_flag_must_agree),
		cmocka_unit_test(the_header_is_bound_even_without_plus),
		cmocka_unit_test(malformed_client_firsts_are_refused),
		cmocka_unit_test(malformed_client_finals_are_refused),
		cmocka_unit_test(messages_out_of_turn_are_refused),
		cmocka_unit_test(malformed_server_firsts_are_refused),
		cmocka_unit_test(a_salt_over_1024_bytes_is_refused_by_the_client),
		cmocka_unit_test(a_nonce_of_10_kb_is_sent_back_whole),
		cmocka_unit_test(a_client_nonce_of_10_kb_is_sent_back_whole),
		cmocka_unit_test(a_server_that_cannot_sign_is_not_believed),
		cmocka_unit_test(nonces_of_ours_are_new_each_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
