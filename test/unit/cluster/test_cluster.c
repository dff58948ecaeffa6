/* Clusters: homes and the ledger. The book of clusters is the process's, so the first test makes the homes and the
 * others use names of their own. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>

#include "cluster/cluster.h"

static int three_workers(void **state)
{
	(void)state;
	cluster_set_workers(3);
	return 0;
}

static void new_clusters_go_to_the_least_loaded_worker_lowest_first(void **state)
{
	(void)state;
	const int expected[] = {0, 1, 2, 0, 1, 2, 0};
	char name[24];

	for (int i = 0; i < 7; i++) {
		snprintf(name, sizeof(name), "home-%d", i);
		assert_int_equal(cluster_of(name, 0)->home, expected[i]);
	}
}

static void a_known_cluster_keeps_its_home_and_takes_the_new_ceiling(void **state)
{
	(void)state;
	struct cluster *c = cluster_of("kept", 5);
	int home = c->home;

	cluster_of("another", 1);
	assert_ptr_equal(cluster_of("kept", 9), c);
	assert_int_equal(c->home, home);
	assert_int_equal(c->ceiling, 9);
	assert_string_equal(c->name, "kept");
}

static void the_ledger_lends_up_to_the_ceiling(void **state)
{
	(void)state;
	struct cluster *c = cluster_of("lends", 2);

	assert_true(ledger_take(c));
	assert_true(ledger_take(c));
	assert_false(ledger_take(c));
	assert_int_equal(c->lent, 2);
	ledger_give(c);
	assert_true(ledger_take(c));
}

static void a_lowered_ceiling_lends_nothing_until_enough_came_back(void **state)
{
	(void)state;
	struct cluster *c = cluster_of("lowered", 3);

	for (int i = 0; i < 3; i++)
		assert_true(ledger_take(c));
	cluster_of("lowered", 1);
	ledger_give(c);
	assert_false(ledger_take(c)); /* 2 are out */
	ledger_give(c);
	assert_false(ledger_take(c)); /* 1 is out */
	ledger_give(c);
	assert_true(ledger_take(c));
}

static void without_a_ceiling_every_permit_is_given(void **state)
{
	(void)state;
	struct cluster *c = cluster_of("open", 0);

	for (int i = 0; i < 500; i++)
		assert_true(ledger_take(c));
}

static void count(void *arg, struct cluster *c)
{
	*(int *)arg += c->name[0] == 'w';
}

static void a_walk_shows_every_cluster(void **state)
{
	(void)state;
	int n = 0;

	cluster_of("w1", 0);
	cluster_of("w2", 0);
	cluster_of("w1", 0);
	cluster_each(count, &n);
	assert_int_equal(n, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_clusters_go_to_the_least_loaded_worker_lowest_first),
		cmocka_unit_test(a_known_cluster_keeps_its_home_and_takes_the_new_ceiling),
		cmocka_unit_test(the_ledger_lends_up_to_the_ceiling),
		cmocka_unit_test(a_lowered_ceiling_lends_nothing_until_enough_came_back),
		cmocka_unit_test(without_a_ceiling_every_permit_is_given),
		cmocka_unit_test(a_walk_shows_every_cluster),
	};
	return cmocka_run_group_tests(tests, three_workers, NULL);
}
