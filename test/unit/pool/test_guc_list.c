/* Settings by name: immutable lists, and the SQL that brings a session from one to another. What role decides, and that
 * set_config takes what SHOW gives, was tried on PostgreSQL 15. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "pool/guc_list.h"

/* One book; it is seen to be empty at the end of each test. */
struct scene {
	struct guc_book book;
	struct guc_list *want, *now;
	const char *first;
	struct buf sql;
};

static int scene_make(void **state)
{
	*state = calloc(1, sizeof(struct scene));
	return *state ? 0 : -1;
}

static int scene_free(void **state)
{
	struct scene *s = *state;

	guc_list_drop(&s->want);
	guc_list_drop(&s->now);
	guc_book_free(&s->book); /* aborts if a value is left */
	buf_free(&s->sql);
	free(s);
	return 0;
}

static void set(struct scene *s, struct guc_list **l, const char *name, const char *value)
{
	*l = guc_list_with(*l, &s->book, name, value);
}

static const char *diff(struct scene *s)
{
	s->sql.len = 0;
	guc_list_diff(s->want, s->now, s->first, &s->sql);
	buf_add_u8(&s->sql, 0);
	return (const char *)s->sql.p;
}

#define SET(name, value) "SELECT pg_catalog.set_config('" name "','" value "',false);"

static void a_value_is_found_by_its_name(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, "a", "1");
	set(s, &s->want, "b", "2");
	assert_string_equal(guc_list_find(s->want, "a")->text, "1");
	set(s, &s->want, "a", "3");
	assert_string_equal(guc_list_find(s->want, "a")->text, "3");
	assert_int_equal(s->want->n, 2);
	assert_null(guc_list_find(s->want, "c"));
	assert_null(guc_list_find(NULL, "a"));
}

static void a_list_that_others_hold_does_not_change(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, "a", "1");
	s->now = guc_list_ref(s->want);
	set(s, &s->want, "a", "2");
	assert_string_equal(guc_list_find(s->now, "a")->text, "1");
	assert_false(guc_list_same(s->want, s->now));
}

static void taking_the_last_one_leaves_the_empty_list(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, "a", "1");
	set(s, &s->want, "x", NULL);
	assert_int_equal(s->want->n, 1);
	set(s, &s->want, "a", NULL);
	assert_null(s->want);
}

static void what_changes_nothing_is_the_same_list(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, "a", "1");
	struct guc_list *before = s->want;
	set(s, &s->want, "a", "1");
	assert_ptr_equal(before, s->want);
}

static void equal_lists_are_the_same_and_differ_in_nothing(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, "a", "1");
	set(s, &s->now, "a", "1");
	assert_true(guc_list_same(s->want, s->now));
	assert_false(guc_list_same(s->want, NULL));
	assert_string_equal(diff(s), "");
}

static void only_differences_are_sent(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, "a", "1");
	set(s, &s->want, "b", "2");
	set(s, &s->now, "a", "1");
	set(s, &s->now, "b", "9");
	set(s, &s->now, "my.own", "9");
	assert_string_equal(diff(s), "RESET \"my\".\"own\";" SET("b", "2"));
}

static void another_role_means_all_anew(void **state)
{
	struct scene *s = *state;

	set(s, &s->now, "role", "bob");
	set(s, &s->now, "work_mem", "1MB");
	set(s, &s->want, "work_mem", "1MB");
	assert_string_equal(diff(s), "RESET role;RESET work_mem;" SET("work_mem", "1MB"));
}

static void what_each_session_begins_with_is_done_again_behind_a_reset(void **state)
{
	struct scene *s = *state;

	s->first = "SET a = 1";
	set(s, &s->now, "a", "9");
	assert_string_equal(diff(s), "RESET a;SET a = 1;");
	set(s, &s->want, "b", "2");
	set(s, &s->now, "b", "2");
	assert_string_equal(diff(s), "RESET b;RESET a;SET a = 1;" SET("b", "2"));
	set(s, &s->want, "a", "5");
	assert_string_equal(diff(s), SET("a", "5"));
}

static void the_order_in_which_they_were_set_is_kept(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, "role", "bob");
	set(s, &s->want, "b", "2");
	set(s, &s->want, "role", "eve");
	assert_string_equal(diff(s), SET("b", "2") SET("role", "eve"));
}

static void a_quote_cannot_break_out(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, "a'b", "x'; DROP TABLE t; --");
	assert_string_equal(diff(s), "SELECT pg_catalog.set_config('a''b','x''; DROP TABLE t; --',false);");
	guc_list_drop(&s->want);
	set(s, &s->now, "a\"; DROP", "1");
	assert_string_equal(diff(s), "RESET \"a\"\"; DROP\";");
}

static void the_session_user_is_reset_by_its_own_words(void **state)
{
	struct scene *s = *state;

	set(s, &s->now, "session_authorization", "bob");
	assert_string_equal(diff(s), "RESET SESSION AUTHORIZATION;");
}

static void names_of_the_application_mean_nothing_to_the_parser(void **state)
{
	struct scene *s = *state;

	set(s, &s->want, "app.user", "7");
	assert_int_equal(s->want->meaning, 0);
	set(s, &s->want, "search_path", "a");
	set(s, &s->now, "search_path", "b");
	assert_int_not_equal(s->want->meaning, 0);
	assert_int_not_equal(s->want->meaning, s->now->meaning);
}

static void what_is_too_much_is_said_to_be(void **state)
{
	struct scene *s = *state;
	char name[20];

	assert_false(guc_list_is_too_large(NULL));
	for (int i = 0; i < GUC_LIST_MOST; i++) {
		snprintf(name, sizeof(name), "a.n%d", i);
		set(s, &s->want, name, "1");
	}
	assert_false(guc_list_is_too_large(s->want));
	set(s, &s->want, "one.more", "1");
	assert_true(guc_list_is_too_large(s->want));
	char *large = malloc(GUC_LIST_BYTES + 1);
	memset(large, 'x', GUC_LIST_BYTES);
	large[GUC_LIST_BYTES] = 0;
	set(s, &s->now, "a", large);
	assert_true(guc_list_is_too_large(s->now));
	free(large);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_make, scene_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_value_is_found_by_its_name),
		TEST(a_list_that_others_hold_does_not_change),
		TEST(taking_the_last_one_leaves_the_empty_list),
		TEST(what_changes_nothing_is_the_same_list),
		TEST(equal_lists_are_the_same_and_differ_in_nothing),
		TEST(only_differences_are_sent),
		TEST(another_role_means_all_anew),
		TEST(what_each_session_begins_with_is_done_again_behind_a_reset),
		TEST(the_order_in_which_they_were_set_is_kept),
		TEST(a_quote_cannot_break_out),
		TEST(the_session_user_is_reset_by_its_own_words),
		TEST(names_of_the_application_mean_nothing_to_the_parser),
		TEST(what_is_too_much_is_said_to_be),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
