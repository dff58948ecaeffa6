/* err: always false, cut to fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/err.h"

static void an_error_has_state_and_text(void **state)
{
	struct err err = {0};

	(void)state;
	assert_false(err_set(&err, "57P03", "cluster \"%s\" is away", "main"));
	assert_string_equal(err.sqlstate, "57P03");
	assert_string_equal(err.text, "cluster \"main\" is away");
}

static void no_state_means_internal_error(void **state)
{
	struct err err = {0};

	(void)state;
	assert_false(err_set(&err, NULL, "x"));
	assert_string_equal(err.sqlstate, "XX000");
}

static void nobody_need_listen(void **state)
{
	(void)state;
	assert_false(err_set(NULL, "57P03", "%d", 1));
}

static void a_longer_text_is_cut(void **state)
{
	struct err err;

	(void)state;
	assert_false(err_set(&err, "57P03", "%0*d", 2000, 0));
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

static void a_hint_goes_with_its_text(void **state)
{
	struct err err;

	(void)state;
	err_set(&err, "53400", "too fast");
	assert_string_equal(err.hint, "");
	err_hint(&err, "retry after %d ms", 7);
	assert_string_equal(err.hint, "retry after 7 ms");
	assert_string_equal(err.text, "too fast");
	err_set(&err, "53300", "too many");
	assert_string_equal(err.hint, "");
	err_hint(NULL, "%d", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_has_state_and_text),
		cmocka_unit_test(no_state_means_internal_error),
		cmocka_unit_test(nobody_need_listen),
		cmocka_unit_test(a_longer_text_is_cut),
		cmocka_unit_test(a_hint_goes_with_its_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
