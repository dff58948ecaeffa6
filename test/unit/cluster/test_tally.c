/* Tallies: one per name, and caps that hold at every instant. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "cluster/tally.h"

static void the_same_name_is_the_same_tally(void **state)
{
	(void)state;
	struct tally *app = tally_entry("app");

	assert_ptr_equal(tally_entry("app"), app);
	assert_string_equal(app->name, "app");
	assert_ptr_not_equal(tally_entry("App"), app);
	assert_ptr_not_equal(tally_entry("ap"), app);
}

static void an_entry_and_a_user_of_one_name_are_two_tallies(void **state)
{
	(void)state;
	assert_ptr_not_equal(tally_entry("both"), tally_user("both"));
	assert_ptr_equal(tally_user("both"), tally_user("both"));
}

static void a_fresh_tally_is_empty_and_open(void **state)
{
	(void)state;
	struct tally *t = tally_entry("fresh");

	assert_int_equal(t->clients, 0);
	assert_int_equal(t->servers, 0);
	assert_int_equal(t->starved, 0);
	assert_false(t->paused);
	assert_false(t->disabled);
}

static void taking_stops_at_the_limit_and_goes_on_after_a_give(void **state)
{
	(void)state;
	atomic_int n = 0;

	assert_true(tally_take(&n, 2));
	assert_true(tally_take(&n, 2));
	assert_false(tally_take(&n, 2));
	assert_int_equal(n, 2);
	tally_give(&n);
	assert_true(tally_take(&n, 2));
	assert_false(tally_take(&n, 1)); /* the limit was lowered */
}

static void a_limit_of_nought_is_no_limit(void **state)
{
	(void)state;
	atomic_int n = 0;

	for (int i = 0; i < 1000; i++)
		assert_true(tally_take(&n, 0));
	assert_int_equal(n, 1000);
}

/* Threads fight over a cap; each looks whether it was broken while it held a place. */
#define CAP 3
static atomic_int contested;
static atomic_int seen_above;

static void *fight(void *arg)
{
	intptr_t won = 0;

	(void)arg;
	for (int i = 0; i < 20000; i++) {
		if (!tally_take(&contested, CAP))
			continue;
		if (contested > CAP)
			seen_above++;
		tally_give(&contested);
		won++;
	}
	return (void *)won;
}

static void a_cap_holds_while_threads_fight_over_it(void **state)
{
	(void)state;
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, fight, NULL), 0);
	for (int i = 0; i < 4; i++) {
		void *won;

		pthread_join(threads[i], &won);
		assert_true((intptr_t)won > 0);
	}
	assert_int_equal(seen_above, 0);
	assert_int_equal(contested, 0);
}

struct seen {
	const char *name;
	int times;
};

static void look(void *arg, struct tally *t)
{
	struct seen *s = arg;

	s->times += strcmp(t->name, s->name) == 0;
}

static void a_walk_shows_each_name_once(void **state)
{
	(void)state;
	struct seen entry = {"walk", 0}, user = {"walk", 0};

	tally_entry("walk");
	tally_entry("walk");
	tally_each_entry(look, &entry);
	tally_each_user(look, &user);
	assert_int_equal(entry.times, 1);
	assert_int_equal(user.times, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_name_is_the_same_tally),
		cmocka_unit_test(an_entry_and_a_user_of_one_name_are_two_tallies),
		cmocka_unit_test(a_fresh_tally_is_empty_and_open),
		cmocka_unit_test(taking_stops_at_the_limit_and_goes_on_after_a_give),
		cmocka_unit_test(a_limit_of_nought_is_no_limit),
		cmocka_unit_test(a_cap_holds_while_threads_fight_over_it),
		cmocka_unit_test(a_walk_shows_each_name_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
