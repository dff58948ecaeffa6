/* The registry of orgs. It is one for the process, so each test uses ids of its own and gives back what it took; what is idle
 * stays behind, which is what the registry is for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tenant/org.h"

#define NO_LIMIT 0

static bool found;

static void look_for(void *arg, struct org *o)
{
	found = found || strcmp(o->id, arg) == 0;
}

static bool is_known(const char *id)
{
	found = false;
	org_each(look_for, (void *)id);
	return found;
}

static void the_same_id_is_the_same_org(void **state)
{
	(void)state;
	struct org *a = org_of("same", NO_LIMIT), *b = org_of("same", NO_LIMIT), *other = org_of("Same", NO_LIMIT);

	assert_ptr_equal(a, b);
	assert_ptr_not_equal(a, other);
	assert_int_equal(atomic_load(&a->refs), 2);
	org_drop(&a);
	org_drop(&b);
	org_drop(&other);
	assert_null(a);
}

static void an_idle_org_keeps_its_counters(void **state)
{
	(void)state;
	struct org *o = org_of("counted", NO_LIMIT);

	atomic_store(&o->throttled, 7);
	org_drop(&o);
	o = org_of("counted", NO_LIMIT);
	assert_int_equal(atomic_load(&o->throttled), 7);
	org_drop(&o);
}

static void at_max_orgs_the_one_idle_for_longest_is_forgotten(void **state)
{
	(void)state;
	struct org *first = org_of("idle-1", NO_LIMIT), *second = org_of("idle-2", NO_LIMIT);

	int n = 0;

	/* Whatever other tests left idle is older: it goes first. */
	org_drop(&first);
	org_drop(&second);
	int most = org_count();
	while (is_known("idle-1")) {
		char id[40];
		snprintf(id, sizeof(id), "newer-%d", n++);
		assert_true(is_known("idle-2"));
		struct org *o = org_of(id, most);
		assert_non_null(o);
		assert_int_equal(org_count(), most);
		org_drop(&o);
	}
	assert_true(is_known("idle-2"));
}

static void an_org_in_use_is_not_forgotten(void **state)
{
	(void)state;
	struct org *o = org_of("in-use", NO_LIMIT), *held[256];
	int n = 0;
	int most = org_count();

	do {
		char id[40];
		snprintf(id, sizeof(id), "press-%d", n);
		held[n] = org_of(id, most);
	} while (held[n] && ++n < 256);
	assert_true(n < 256); /* there came an end: all are in use */
	assert_int_equal(org_count(), most);
	assert_true(is_known("in-use"));
	while (n)
		org_drop(&held[--n]);
	org_drop(&o);
}

static void an_org_with_a_line_is_not_forgotten(void **state)
{
	(void)state;
	struct org *o = org_of("listed", NO_LIMIT);

	atomic_store(&o->listed, true);
	org_drop(&o);
	int most = org_count();
	for (int i = 0; i < 300; i++) {
		char id[40];
		snprintf(id, sizeof(id), "stranger-%d", i);
		struct org *s = org_of(id, most);
		org_drop(&s);
	}
	assert_true(is_known("listed"));
}

static void a_paused_org_is_not_forgotten(void **state)
{
	(void)state;
	struct org *o = org_of("paused", NO_LIMIT);

	atomic_store(&o->paused, true);
	org_drop(&o);
	int most = org_count();
	for (int i = 0; i < 300; i++) {
		char id[40];
		snprintf(id, sizeof(id), "visitor-%d", i);
		struct org *s = org_of(id, most);
		org_drop(&s);
	}
	assert_true(is_known("paused"));
}

static void an_org_found_again_is_as_good_as_new(void **state)
{
	(void)state;
	struct org *o = org_of("again", NO_LIMIT);

	org_drop(&o);
	o = org_of("again", NO_LIMIT);
	struct org *held[256];
	int n = 0, most = org_count();
	do {
		char id[40];
		snprintf(id, sizeof(id), "again-%d", n);
		held[n] = org_of(id, most);
	} while (held[n] && ++n < 256);
	assert_true(is_known("again"));
	while (n)
		org_drop(&held[--n]);
	org_drop(&o);
}

#define ROUNDS 20000

static void *come_and_go(void *arg)
{
	char own[40];

	snprintf(own, sizeof(own), "thread-%p", arg);
	for (int i = 0; i < ROUNDS; i++) {
		struct org *shared = org_of("shared", 100000), *o = org_of(own, 100000);
		struct org *again = org_ref(shared);
		org_drop(&shared);
		org_drop(&o);
		org_drop(&again);
	}
	return NULL;
}

static void many_threads_lose_no_reference(void **state)
{
	(void)state;
	pthread_t threads[4];
	int own[4];

	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &own[i]), 0);
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	struct org *o = org_of("shared", NO_LIMIT);
	assert_int_equal(atomic_load(&o->refs), 1);
	org_drop(&o);
}

static void count_it(void *arg, struct org *o)
{
	(void)o;
	++*(int *)arg;
}

static void a_walk_in_slices_calls_each_org_once(void **state)
{
	(void)state;
	struct org *some[50];
	size_t at = 0;
	int n = 0, slices = 1;

	for (int i = 0; i < 50; i++) {
		char id[16];
		snprintf(id, sizeof(id), "slice-%d", i);
		some[i] = org_of(id, NO_LIMIT);
	}
	while (org_each_of(&at, 16, count_it, &n))
		slices++;
	assert_int_equal(n, org_count());
	assert_true(slices >= 50 / 16);
	for (int i = 0; i < 50; i++)
		org_drop(&some[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_id_is_the_same_org),
		cmocka_unit_test(an_idle_org_keeps_its_counters),
		cmocka_unit_test(at_max_orgs_the_one_idle_for_longest_is_forgotten),
		cmocka_unit_test(an_org_in_use_is_not_forgotten),
		cmocka_unit_test(an_org_with_a_line_is_not_forgotten),
		cmocka_unit_test(a_paused_org_is_not_forgotten),
		cmocka_unit_test(an_org_found_again_is_as_good_as_new),
		cmocka_unit_test(many_threads_lose_no_reference),
		cmocka_unit_test(a_walk_in_slices_calls_each_org_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
