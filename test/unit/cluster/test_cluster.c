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

/* ---- hosts ---- */

static struct conf_host hosts[] = {{"a", 1}, {"a", 2}, {"b", 1}, {NULL, 1}};

static const struct conf_cluster four = {.primary = hosts, .n_primary = 2, .replicas = hosts + 2, .n_replicas = 2};

static void a_new_cluster_has_no_breaker_and_any_primary(void **state)
{
	(void)state;
	struct cluster *c = cluster_of("plain", 0);

	assert_true(cluster_word(c) == 0);
	assert_int_equal(cluster_primary(c, &four), PRIMARY_ANY);
	for (int i = 0; i < 4; i++)
		assert_false(cluster_may_read(c, conf_cluster_host(&four, i)));
}

static void any_host_that_may_be_read_from_stands_in(void **state)
{
	(void)state;
	struct cluster *c = cluster_of("standing in", 0);

	assert_false(cluster_has_stand_in(c, &four));
	for (int i = 0; i < 4; i++) {
		atomic_store(&c->replicas[0], cluster_host_key(&hosts[i]));
		assert_true(cluster_has_stand_in(c, &four));
	}
	atomic_store(&c->replicas[0], cluster_host_key(&(struct conf_host){"c", 1}));
	assert_false(cluster_has_stand_in(c, &four));
}

static void the_primary_is_found_among_all_hosts_wherever_it_stands(void **state)
{
	(void)state;
	struct cluster *c = cluster_of("followed", 0);
	const struct conf_cluster turned = {.primary = hosts + 2, .n_primary = 2, .replicas = hosts, .n_replicas = 2};
	const struct conf_cluster others = {.primary = hosts + 2, .n_primary = 2};

	for (int i = 0; i < 4; i++) {
		atomic_store(&c->primary, cluster_host_key(&hosts[i]));
		assert_int_equal(cluster_primary(c, &four), i);
		assert_int_equal(cluster_primary(c, &turned), (i + 2) % 4);
		assert_int_equal(cluster_primary(c, &others), i < 2 ? PRIMARY_NOBODY : i - 2);
	}
	atomic_store(&c->primary, KEY_NOBODY);
	assert_int_equal(cluster_primary(c, &four), PRIMARY_NOBODY);
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
		cmocka_unit_test(a_new_cluster_has_no_breaker_and_any_primary),
		cmocka_unit_test(any_host_that_may_be_read_from_stands_in),
		cmocka_unit_test(the_primary_is_found_among_all_hosts_wherever_it_stands),
	};
	return cmocka_run_group_tests(tests, three_workers, NULL);
}
