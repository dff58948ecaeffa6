/* control=: connection strings of both forms, and that nothing else passes. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "conf/load_priv.h"

static void both_forms_say_the_same(void **state)
{
	static const char *const texts[] = {
		"host=h port=7 user=u dbname=d password='it\\'s'",
		"  password=it\\'s dbname='d' user=u  host=h port=7 ",
		"postgresql://u:it%27s@h:7/d",
		"postgres://h:7/d?user=u&password=it's",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct conf_control c;
		struct err err;

		if (!control_read(texts[i], &c, &err))
			fail_msg("%s: %s", texts[i], err.text);
		assert_string_equal(c.host, "h");
		assert_int_equal(c.port, 7);
		assert_string_equal(c.user, "u");
		assert_string_equal(c.dbname, "d");
		assert_string_equal(secret_text(&c.password), "it's");
		control_clear(&c);
	}
}

static void what_is_not_said_is_as_libpq_has_it(void **state)
{
	struct conf_control c;
	struct err err;

	(void)state;
	assert_true(control_read("postgresql://u@[::1]/", &c, &err));
	assert_string_equal(c.host, "::1");
	assert_int_equal(c.port, 5432);
	assert_string_equal(c.dbname, "u");
	assert_false(secret_is_set(&c.password));
	control_clear(&c);
	assert_true(control_read("user=u", &c, &err));
	assert_null(c.host);
	control_clear(&c);
}

static void anything_else_is_refused(void **state)
{
	static const char *const texts[] = {
		"", "h", "host=h", "user=u host=a,b", "user=u port=0", "user=u port=x", "user=u sslmode=require", "user=u x=1", "user='u", "user=u =",
		"postgresql://", "postgresql://h/d", "postgresql://u@h:99999/d", "postgresql://u@[::1/d", "postgresql://u%@h/d", "postgresql://u%0", "postgresql://u%00@h/d",
		"postgresql://u@h/d?x", "postgresql://u@h/d?sslmode=require",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct conf_control c;
		struct err err = {0};

		if (control_read(texts[i], &c, &err))
			fail_msg("%s was read", texts[i]);
		assert_non_null(strstr(err.text, "control"));
		assert_null(c.user);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_forms_say_the_same),
		cmocka_unit_test(what_is_not_said_is_as_libpq_has_it),
		cmocka_unit_test(anything_else_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
