/* Verifiers made from plain passwords, and how long they are kept. That they let the right password in is checked with
 * auth/scram's own two sides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "proxy/adhoc.h"

#define ITERATIONS 64

static struct secret secret_of(const char *text)
{
	struct secret s = {{0}};

	secret_set(&s, text, strlen(text));
	return s;
}

/* Remembers what the borrowed verifier holds. */
static void salt_of(const char *user, const char *password, int iterations, struct buf *salt)
{
	struct secret s = secret_of(password);
	const struct scram_verifier *v = adhoc_verifier(user, &s, iterations);

	assert_non_null(v);
	assert_int_equal(v->iterations, iterations);
	salt->len = 0;
	buf_add(salt, v->salt.p, v->salt.len);
	secret_free(&s);
}

static void same_salts(struct buf *a, struct buf *b, bool same)
{
	assert_int_equal(span_same(buf_span(a), buf_span(b)), same);
	buf_free(a);
	buf_free(b);
}

static void a_user_keeps_its_salt(void **state)
{
	(void)state;
	struct buf first = {0}, second = {0};

	salt_of("bob", "word", ITERATIONS, &first);
	salt_of("bob", "word", ITERATIONS, &second);
	same_salts(&first, &second, true);
}

static void two_users_have_two_salts(void **state)
{
	(void)state;
	struct buf first = {0}, second = {0};

	salt_of("bob", "word", ITERATIONS, &first);
	salt_of("ann", "word", ITERATIONS, &second);
	same_salts(&first, &second, false);
}

static void a_new_password_makes_a_new_verifier(void **state)
{
	(void)state;
	struct buf first = {0}, second = {0};

	salt_of("bob", "word", ITERATIONS, &first);
	salt_of("bob", "Word", ITERATIONS, &second);
	same_salts(&first, &second, false);
	salt_of("bob", "words", ITERATIONS, &first);
	salt_of("bob", "Word", ITERATIONS, &second);
	same_salts(&first, &second, false);
}

static void other_iterations_make_a_new_verifier(void **state)
{
	(void)state;
	struct buf first = {0}, second = {0};

	salt_of("bob", "word", ITERATIONS, &first);
	salt_of("bob", "word", ITERATIONS + 1, &second);
	same_salts(&first, &second, false);
}

/* Both sides of an exchange over the verifier: does this password get in? */
static bool lets_in(const struct scram_verifier *v, const char *password)
{
	struct secret s = secret_of(password);
	struct scram_server *server = scram_server_new(v);
	struct scram_client *client = scram_client_new(&s, NULL);
	struct buf first = {0}, reply = {0}, final = {0}, last = {0};
	struct scram_keys keys;
	struct span none = {NULL, 0};
	struct err err;

	scram_client_first(client, false, false, none, &first);
	assert_true(scram_server_first(server, buf_span(&first), false, false, none, &reply, &err));
	assert_true(scram_client_next(client, buf_span(&reply), &final, &err));
	bool in = scram_server_final(server, buf_span(&final), &last, &keys, &err);
	buf_free(&first);
	buf_free(&reply);
	buf_free(&final);
	buf_free(&last);
	scram_client_free(&client);
	scram_server_free(&server);
	secret_free(&s);
	return in;
}

static void the_right_password_and_no_other_gets_in(void **state)
{
	(void)state;
	struct secret s = secret_of("word");

	for (int round = 0; round < 2; round++) { /* made, then kept */
		assert_true(lets_in(adhoc_verifier("eve", &s, ITERATIONS), "word"));
		assert_false(lets_in(adhoc_verifier("eve", &s, ITERATIONS), "sword"));
	}
	secret_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_user_keeps_its_salt),
		cmocka_unit_test(two_users_have_two_salts),
		cmocka_unit_test(a_new_password_makes_a_new_verifier),
		cmocka_unit_test(other_iterations_make_a_new_verifier),
		cmocka_unit_test(the_right_password_and_no_other_gets_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
