/* list: order, taking, walking. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/list.h"

struct item {
	int number;
	struct list link;
};

static struct item items[5];
static struct list all;

static int fill(void **state)
{
	(void)state;
	list_init(&all);
	for (int i = 0; i < 5; i++) {
		items[i].number = i;
		list_init(&items[i].link);
		list_push(&all, &items[i].link);
	}
	return 0;
}

static void assert_numbers(const int *numbers, int count)
{
	int n = 0;

	list_each(at, &all) {
		assert_true(n < count);
		assert_int_equal(list_owner(at, struct item, link)->number, numbers[n++]);
	}
	assert_int_equal(n, count);
}

static void pushed_links_come_in_order(void **state)
{
	(void)state;
	assert_numbers((int[]){0, 1, 2, 3, 4}, 5);
	assert_ptr_equal(list_first(&all), &items[0].link);
	assert_ptr_equal(list_last(&all), &items[4].link);
}

static void pushed_in_front_comes_first(void **state)
{
	(void)state;
	list_take(&items[3].link);
	list_push_front(&all, &items[3].link);
	assert_numbers((int[]){3, 0, 1, 2, 4}, 5);
}

static void a_link_may_be_taken_twice(void **state)
{
	(void)state;
	assert_true(list_linked(&items[2].link));
	list_take(&items[2].link);
	list_take(&items[2].link);
	assert_false(list_linked(&items[2].link));
	assert_numbers((int[]){0, 1, 3, 4}, 4);
}

static void a_moved_link_stands_at_the_tail_of_the_other_list(void **state)
{
	struct list other;
	struct item lone;

	(void)state;
	list_init(&other);
	list_init(&lone.link);
	list_move(&other, &items[1].link);
	list_move(&other, &lone.link); /* which was in none */
	list_move(&other, &items[1].link);
	assert_numbers((int[]){0, 2, 3, 4}, 4);
	assert_ptr_equal(list_first(&other), &lone.link);
	assert_ptr_equal(list_last(&other), &items[1].link);
}

static void all_may_be_taken_on_a_walk(void **state)
{
	int n = 0;

	(void)state;
	list_each_safe(at, &all) {
		list_take(at);
		n++;
	}
	assert_int_equal(n, 5);
	assert_true(list_empty(&all));
}

static void another_list_takes_over_all(void **state)
{
	struct list other;

	(void)state;
	list_take_all(&other, &all);
	assert_true(list_empty(&all));
	assert_ptr_equal(list_first(&other), &items[0].link);
	list_take_all(&all, &other);
	assert_true(list_empty(&other));
	assert_numbers((int[]){0, 1, 2, 3, 4}, 5);
}

static void taking_over_none_leaves_two_empty_lists(void **state)
{
	struct list none, other;

	(void)state;
	list_init(&none);
	list_take_all(&other, &none);
	assert_true(list_empty(&none));
	assert_true(list_empty(&other));
}

static void an_empty_list_has_no_first_and_no_last(void **state)
{
	struct list none;

	(void)state;
	list_init(&none);
	assert_null(list_first(&none));
	assert_null(list_last(&none));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(pushed_links_come_in_order, fill),
		cmocka_unit_test_setup(pushed_in_front_comes_first, fill),
		cmocka_unit_test_setup(a_link_may_be_taken_twice, fill),
		cmocka_unit_test_setup(a_moved_link_stands_at_the_tail_of_the_other_list, fill),
		cmocka_unit_test_setup(all_may_be_taken_on_a_walk, fill),
		cmocka_unit_test_setup(another_list_takes_over_all, fill),
		cmocka_unit_test_setup(taking_over_none_leaves_two_empty_lists, fill),
		cmocka_unit_test_setup(an_empty_list_has_no_first_and_no_last, fill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
