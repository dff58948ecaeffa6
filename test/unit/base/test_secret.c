/* secret: copies, a NUL behind, and a comparison. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/secret.h"

static void an_unset_secret_is_an_empty_text(void **state)
{
	struct secret s = {0};

	(void)state;
	assert_false(secret_is_set(&s));
	assert_string_equal(secret_text(&s), "");
	assert_int_equal(secret_span(&s).len, 0);
	secret_free(&s);
}

static void a_secret_is_a_copy_with_a_nul_behind(void **state)
{
	char password[] = "hunter2!";
	struct secret s = {0};

	(void)state;
	secret_set(&s, password, 7);
	password[0] = 'x';
	assert_string_equal(secret_text(&s), "hunter2");
	assert_int_equal(secret_span(&s).len, 7);
	secret_free(&s);
	assert_false(secret_is_set(&s));
}

static void an_empty_secret_is_set_all_the_same(void **state)
{
	struct secret s = {0};

	(void)state;
	secret_set(&s, NULL, 0);
	assert_true(secret_is_set(&s));
	assert_string_equal(secret_text(&s), "");
	secret_free(&s);
}

static void a_secret_may_hold_a_nul(void **state)
{
	struct secret s = {0};

	(void)state;
	secret_set(&s, "a\0b", 3);
	assert_int_equal(secret_span(&s).len, 3);
	assert_memory_equal(secret_span(&s).p, "a\0b", 3);
	secret_free(&s);
}

static void setting_again_forgets_the_old(void **state)
{
	struct secret s = {0};

	(void)state;
	secret_set(&s, "a long one, once", 16);
	secret_set(&s, secret_text(&s) + 2, 4);
	assert_string_equal(secret_text(&s), "long");
	secret_free(&s);
}

static void a_copy_outlives_what_it_was_made_of(void **state)
{
	struct secret a = {0}, b = {0}, none = {0};

	(void)state;
	secret_set(&a, "key", 3);
	secret_copy(&b, &a);
	secret_free(&a);
	assert_string_equal(secret_text(&b), "key");
	secret_copy(&b, &b);
	assert_string_equal(secret_text(&b), "key");
	secret_copy(&b, &none);
	assert_false(secret_is_set(&b));
}

static void bytes_are_the_same_or_not(void **state)
{
	(void)state;
	assert_true(bytes_same_secretly("abcd", "abcd", 4));
	assert_false(bytes_same_secretly("abcd", "abce", 4));
	assert_false(bytes_same_secretly("abcd", "bbcd", 4));
	assert_true(bytes_same_secretly("abcd", "abce", 3));
	assert_true(bytes_same_secretly(NULL, NULL, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_unset_secret_is_an_empty_text),
		cmocka_unit_test(a_secret_is_a_copy_with_a_nul_behind),
		cmocka_unit_test(an_empty_secret_is_set_all_the_same),
		cmocka_unit_test(a_secret_may_hold_a_nul),
		cmocka_unit_test(setting_again_forgets_the_old),
		cmocka_unit_test(a_copy_outlives_what_it_was_made_of),
		cmocka_unit_test(bytes_are_the_same_or_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
