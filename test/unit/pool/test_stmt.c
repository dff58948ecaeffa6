/* Prepared statements: one per text, counted; sets in order of use; clients' names. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "pool/stmt.h"

struct scene {
	struct stmt_book book;
	struct stmt_set set;
	struct stmt_names names;
};

static int scene_make(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));

	stmt_set_init(&s->set);
	*state = s;
	return 0;
}

static int scene_free(void **state)
{
	struct scene *s = *state;

	stmt_set_clear(&s->set);
	stmt_names_clear(&s->names);
	assert_int_equal(s->book.bytes, 0);
	stmt_book_free(&s->book);
	free(s);
	return 0;
}

/* A Parse body behind the name: query, NUL, no types. */
static struct stmt *stmt_for(struct scene *s, const char *sql)
{
	uint8_t body[128] = "";
	int len = snprintf((char *)body, sizeof(body) - 2, "%s", sql) + 1;

	return stmt_of(&s->book, body, (size_t)len + 2, 0);
}

/* ---- statements ---- */

static void equal_bodies_are_one_statement(void **state)
{
	struct scene *s = *state;
	struct stmt *a = stmt_for(s, "select 1"), *b = stmt_for(s, "select 1"), *c = stmt_for(s, "select 2");

	assert_ptr_equal(a, b);
	assert_int_equal(a->refs, 2);
	assert_ptr_not_equal(a, c);
	assert_string_not_equal(a->name, c->name);
	stmt_drop(&a);
	stmt_drop(&b);
	stmt_drop(&c);
}

static void other_settings_make_another_statement(void **state)
{
	struct scene *s = *state;
	const uint8_t body[] = "select '01/02/2020'::date\0\0";
	struct stmt *a = stmt_of(&s->book, body, sizeof(body), 0), *b = stmt_of(&s->book, body, sizeof(body), 7);
	struct stmt *c = stmt_of(&s->book, body, sizeof(body), 7), *d = stmt_of(&s->book, body, sizeof(body), 8);

	assert_ptr_not_equal(a, b);
	assert_ptr_equal(b, c);
	assert_ptr_not_equal(b, d);
	stmt_drop(&a);
	stmt_drop(&b);
	stmt_drop(&c);
	stmt_drop(&d);
}

static void parameter_types_make_another_statement(void **state)
{
	struct scene *s = *state;
	const uint8_t int4[] = "select $1\0\0\1\0\0\0\x17", text[] = "select $1\0\0\1\0\0\0\x19";
	struct stmt *a = stmt_of(&s->book, int4, sizeof(int4) - 1, 0), *b = stmt_of(&s->book, text, sizeof(text) - 1, 0);

	assert_ptr_not_equal(a, b);
	assert_int_equal(a->len, sizeof(int4) - 1);
	assert_memory_equal(a->body, int4, a->len);
	stmt_drop(&a);
	stmt_drop(&b);
}

static void the_name_is_made_of_the_serial(void **state)
{
	struct scene *s = *state;
	struct stmt *a = stmt_for(s, "a"), *b = stmt_for(s, "b");

	assert_string_equal(a->name, "PGWEIR_1");
	assert_string_equal(b->name, "PGWEIR_2");
	stmt_drop(&a);
	stmt_drop(&b);
}

static void a_serial_is_never_used_twice_not_even_behind_32_bits(void **state)
{
	struct scene *s = *state;
	struct stmt *a = stmt_for(s, "a"), *b;

	s->book.last_serial = UINT32_MAX;
	b = stmt_for(s, "b");
	assert_string_equal(a->name, "PGWEIR_1");
	assert_string_equal(b->name, "PGWEIR_4294967296");
	stmt_drop(&a);
	stmt_drop(&b);
	s->book.last_serial = UINT64_MAX - 1;
	a = stmt_for(s, "a");
	assert_string_equal(a->name, "PGWEIR_18446744073709551615"); /* fits */
	stmt_drop(&a);
}

static void the_last_drop_forgets_the_text(void **state)
{
	struct scene *s = *state;
	struct stmt *a = stmt_for(s, "a");
	uint64_t serial = a->serial;

	assert_true(s->book.bytes > 0);
	stmt_drop(&a);
	assert_null(a);
	assert_int_equal(s->book.bytes, 0);
	assert_int_equal(s->book.by_content.count, 0);
	a = stmt_for(s, "a");
	assert_true(a->serial > serial);
	stmt_drop(&a);
}

static void a_retired_statement_is_made_anew_and_lives_until_dropped(void **state)
{
	struct scene *s = *state;
	struct stmt *old = stmt_for(s, "select * from t"), *fresh;

	stmt_retire(old);
	stmt_retire(old);
	fresh = stmt_for(s, "select * from t");
	assert_ptr_not_equal(fresh, old);
	assert_string_not_equal(fresh->name, old->name);
	assert_string_equal((char *)old->body, "select * from t");
	stmt_drop(&old);
	old = stmt_for(s, "select * from t"); /* dropping the old one took nothing from the new one */
	assert_ptr_equal(old, fresh);
	stmt_drop(&old);
	stmt_drop(&fresh);
}

static void ten_thousand_statements_are_found_again(void **state)
{
	struct scene *s = *state;
	static struct stmt *all[10000];
	char sql[40];

	for (int i = 0; i < 10000; i++) {
		snprintf(sql, sizeof(sql), "select %d", i);
		all[i] = stmt_for(s, sql);
		stmt_set_add(&s->set, all[i]);
	}
	assert_int_equal(s->book.by_content.count, 10000);
	assert_int_equal(stmt_set_count(&s->set), 10000);
	for (int i = 0; i < 10000; i++) {
		struct stmt *again;

		snprintf(sql, sizeof(sql), "select %d", i);
		again = stmt_for(s, sql);
		assert_ptr_equal(again, all[i]);
		assert_true(stmt_set_use(&s->set, again));
		stmt_drop(&again);
		stmt_drop(&all[i]);
	}
}

/* ---- sets ---- */

static void a_set_holds_its_statements(void **state)
{
	struct scene *s = *state;
	struct stmt *a = stmt_for(s, "a"), *a_too = a;

	assert_false(stmt_set_use(&s->set, a));
	stmt_set_add(&s->set, a);
	stmt_set_add(&s->set, a); /* twice is once */
	assert_int_equal(a->refs, 2);
	stmt_drop(&a);
	assert_true(stmt_set_use(&s->set, a_too));
	assert_int_equal(stmt_set_count(&s->set), 1);
	stmt_set_take(&s->set, a_too);
	assert_int_equal(stmt_set_count(&s->set), 0);
	assert_int_equal(s->book.bytes, 0);
}

static void taking_what_is_not_there_does_nothing(void **state)
{
	struct scene *s = *state;
	struct stmt *a = stmt_for(s, "a");

	stmt_set_take(&s->set, a);
	assert_int_equal(a->refs, 1);
	stmt_drop(&a);
}

static void the_oldest_is_the_one_not_used_for_longest(void **state)
{
	struct scene *s = *state;
	struct stmt *a = stmt_for(s, "a"), *b = stmt_for(s, "b"), *c = stmt_for(s, "c");

	assert_null(stmt_set_oldest(&s->set));
	stmt_set_add(&s->set, a);
	stmt_set_add(&s->set, b);
	stmt_set_add(&s->set, c);
	assert_ptr_equal(stmt_set_oldest(&s->set), a);
	stmt_set_use(&s->set, a);
	assert_ptr_equal(stmt_set_oldest(&s->set), b);
	stmt_set_add(&s->set, b); /* is a use too */
	assert_ptr_equal(stmt_set_oldest(&s->set), c);
	stmt_set_take(&s->set, c);
	assert_ptr_equal(stmt_set_oldest(&s->set), a);
	stmt_drop(&a);
	stmt_drop(&b);
	stmt_drop(&c);
}

static void a_retired_statement_stays_in_its_sets(void **state)
{
	struct scene *s = *state;
	struct stmt *old = stmt_for(s, "a"), *fresh;

	stmt_set_add(&s->set, old);
	stmt_retire(old);
	fresh = stmt_for(s, "a");
	assert_true(stmt_set_use(&s->set, old));
	assert_false(stmt_set_use(&s->set, fresh));
	stmt_drop(&old);
	stmt_drop(&fresh);
}

static void a_statement_is_retired_by_its_serial(void **state)
{
	struct scene *s = *state;
	struct stmt *a = stmt_for(s, "a"), *b = stmt_for(s, "b");

	stmt_set_add(&s->set, a);
	assert_null(stmt_set_find(&s->set, b->serial));
	assert_false(b->retired);
	stmt_retire(stmt_set_find(&s->set, a->serial));
	assert_true(a->retired);
	assert_true(stmt_set_use(&s->set, a));
	stmt_drop(&a);
	stmt_drop(&b);
}

static void a_cleared_set_is_empty_and_usable(void **state)
{
	struct scene *s = *state;
	struct stmt *a = stmt_for(s, "a");

	stmt_set_add(&s->set, a);
	stmt_set_clear(&s->set);
	assert_int_equal(stmt_set_count(&s->set), 0);
	assert_null(stmt_set_oldest(&s->set));
	assert_int_equal(a->refs, 1);
	stmt_set_add(&s->set, a);
	assert_ptr_equal(stmt_set_oldest(&s->set), a);
	stmt_drop(&a);
}

/* ---- names ---- */

static void a_name_leads_to_its_statement(void **state)
{
	struct scene *s = *state;
	struct stmt *a = stmt_for(s, "a"), *b = stmt_for(s, "b");

	assert_null(stmt_name_find(&s->names, "one"));
	stmt_name_put(&s->names, stmt_name_new("one", a));
	stmt_name_put(&s->names, stmt_name_new("two", b));
	assert_ptr_equal(stmt_name_find(&s->names, "one")->stmt, a);
	assert_ptr_equal(stmt_name_find(&s->names, "two")->stmt, b);
	assert_null(stmt_name_find(&s->names, "One")); /* exact, as PostgreSQL */
	assert_null(stmt_name_find(&s->names, ""));
	assert_int_equal(a->refs, 2);
	stmt_drop(&a);
	stmt_drop(&b);
}

static void a_name_that_was_taken_is_not_found(void **state)
{
	struct scene *s = *state;
	struct stmt *a = stmt_for(s, "a");
	struct stmt_name *n = stmt_name_new("one", a), *again = stmt_name_new("one", a);

	stmt_name_put(&s->names, n);
	assert_ptr_equal(stmt_name_find(&s->names, "one"), n); /* also when it was the last one found */
	stmt_name_take(&s->names, n);
	assert_null(stmt_name_find(&s->names, "one"));
	stmt_name_free(&n);
	stmt_name_put(&s->names, again);
	assert_ptr_equal(stmt_name_find(&s->names, "one"), again);
	stmt_names_clear_settled(&s->names);
	assert_null(stmt_name_find(&s->names, "one"));
	stmt_drop(&a);
}

static void a_name_in_no_hash_is_freed_alone(void **state)
{
	struct scene *s = *state;
	struct stmt *a = stmt_for(s, "a");
	struct stmt_name *n = stmt_name_new("one", a);

	stmt_drop(&a);
	assert_string_equal((char *)n->stmt->body, "a");
	stmt_name_free(&n);
	assert_null(n);
	stmt_name_free(&n);
}

static void clearing_the_names_drops_all(void **state)
{
	struct scene *s = *state;
	char name[24];

	for (int i = 0; i < 1000; i++) {
		struct stmt *st = stmt_for(s, i % 2 ? "odd" : "even");

		snprintf(name, sizeof(name), "s%d", i);
		stmt_name_put(&s->names, stmt_name_new(name, st));
		stmt_drop(&st);
	}
	stmt_names_clear(&s->names);
	assert_int_equal(stmt_names_count(&s->names), 0);
	assert_int_equal(s->book.bytes, 0);
}

static void names_count_for_as_long_as_they_are_in_the_table(void **state)
{
	struct scene *s = *state;
	struct stmt *a = stmt_for(s, "a"), *b = stmt_for(s, "select a longer text");
	struct stmt_name *one = stmt_name_new("one", a), *two = stmt_name_new("two", b);

	assert_int_equal(s->names.bytes, 0);
	stmt_name_put(&s->names, one);
	size_t first = s->names.bytes;
	assert_true(first > sizeof(struct stmt) + a->len);
	stmt_name_put(&s->names, two);
	assert_int_equal(s->names.bytes - first, first + b->len - a->len);
	assert_false(stmt_names_are_full(&s->names, "six", a->len, 3, 0));
	assert_true(stmt_names_are_full(&s->names, "six", a->len, 2, 0));
	assert_false(stmt_names_are_full(&s->names, "six", a->len, 0, s->names.bytes + first));
	assert_true(stmt_names_are_full(&s->names, "seven", a->len, 0, s->names.bytes + first));
	assert_false(stmt_names_are_full(&s->names, "seven", a->len, 0, 0));
	stmt_name_take(&s->names, two);
	assert_int_equal(s->names.bytes, first);
	stmt_name_put(&s->names, two);
	stmt_names_clear(&s->names);
	assert_int_equal(s->names.bytes, 0);
	stmt_drop(&a);
	stmt_drop(&b);
}

#define test(name) cmocka_unit_test_setup_teardown(name, scene_make, scene_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(equal_bodies_are_one_statement),
		test(other_settings_make_another_statement),
		test(parameter_types_make_another_statement),
		test(the_name_is_made_of_the_serial),
		test(a_serial_is_never_used_twice_not_even_behind_32_bits),
		test(the_last_drop_forgets_the_text),
		test(a_retired_statement_is_made_anew_and_lives_until_dropped),
		test(ten_thousand_statements_are_found_again),
		test(a_set_holds_its_statements),
		test(taking_what_is_not_there_does_nothing),
		test(the_oldest_is_the_one_not_used_for_longest),
		test(a_retired_statement_stays_in_its_sets),
		test(a_statement_is_retired_by_its_serial),
		test(a_cleared_set_is_empty_and_usable),
		test(a_name_leads_to_its_statement),
		test(a_name_that_was_taken_is_not_found),
		test(a_name_in_no_hash_is_freed_alone),
		test(clearing_the_names_drops_all),
		test(names_count_for_as_long_as_they_are_in_the_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
