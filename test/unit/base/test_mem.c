/* mem: zeroed objects, copies of text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/mem.h"

struct thing {
	int number;
	char *text;
	char rest[500];
};

static void a_new_object_is_zeroed(void **state)
{
	static const struct thing zero;

	(void)state;
	/* Several times, so that memory given back dirty comes round again. */
	for (int i = 0; i < 16; i++) {
		struct thing *t = mem_make(struct thing);

		assert_memory_equal(t, &zero, sizeof(zero));
		memset(t, 0xa5, sizeof(*t));
		mem_free(t);
	}
}

static void growing_keeps_what_was_there(void **state)
{
	char *p = mem_grow(NULL, 4);

	(void)state;
	memcpy(p, "abc", 4);
	p = mem_grow(p, 100000);
	assert_string_equal(p, "abc");
	mem_free(p);
}

static void a_copied_text_is_a_text_of_its_own(void **state)
{
	char text[] = "weir";
	char *copy = mem_str(text);

	(void)state;
	text[0] = 'W';
	assert_string_equal(copy, "weir");
	mem_free(copy);
}

static void no_text_stays_no_text(void **state)
{
	(void)state;
	assert_null(mem_str(NULL));
}

static void copied_bytes_end_with_a_nul(void **state)
{
	char *copy = mem_strn("abcdef", 3), *none = mem_strn(NULL, 0);

	(void)state;
	assert_string_equal(copy, "abc");
	assert_string_equal(none, "");
	mem_free(copy);
	mem_free(none);
}

static void trying_for_too_much_gives_null(void **state)
{
	/* volatile: the compiler must not know how much too much it is */
	volatile size_t too_much = SIZE_MAX / 4;
	void *p;

	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* the sanitizers' malloc ends the process instead */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
	skip();
#endif
#endif
	p = mem_try(too_much);
	assert_null(p);
}

static void an_owner_is_found_by_its_member(void **state)
{
	struct thing t;

	(void)state;
	assert_ptr_equal(owner_of(&t.rest, struct thing, rest), &t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_object_is_zeroed),
		cmocka_unit_test(growing_keeps_what_was_there),
		cmocka_unit_test(a_copied_text_is_a_text_of_its_own),
		cmocka_unit_test(no_text_stays_no_text),
		cmocka_unit_test(copied_bytes_end_with_a_nul),
		cmocka_unit_test(trying_for_too_much_gives_null),
		cmocka_unit_test(an_owner_is_found_by_its_member),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
