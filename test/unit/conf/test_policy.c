/* What holds for an entry, a user and an org together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "loaded.h"

static struct policy policy_of(const struct conf *c, const char *entry, const char *user, const char *org)
{
	struct policy p;

	conf_policy(c, entry ? conf_entry(c, entry) : NULL, user, org, &p);
	return p;
}

static void a_value_is_the_orgs_else_the_users_else_the_entrys_else_the_processs(void **state)
{
	struct conf *c = loads("[pgweir]\ndefault_pool_size = 1\n[databases]\nplain = host=h\nsized = host=h pool_size=2\n"
			       "[users]\nu = pool_size=3\nv =\n[orgs]\na = pool_size=4\nb = name=x\n");

	(void)state;
	assert_int_equal(policy_of(c, "plain", "v", "b").pool_size, 1);
	assert_int_equal(policy_of(c, "sized", "v", "b").pool_size, 2);
	assert_int_equal(policy_of(c, "sized", "nobody", NULL).pool_size, 2);
	assert_int_equal(policy_of(c, "sized", "u", "b").pool_size, 3);
	assert_int_equal(policy_of(c, "sized", "u", "a").pool_size, 4);
	assert_int_equal(policy_of(c, NULL, NULL, NULL).pool_size, 1);
	conf_drop(&c);
}

static void an_org_without_a_value_has_the_stars(void **state)
{
	struct conf *c = loads("[databases]\nx = host=h\n[users]\nu = pool_size=3\n[orgs]\n* = pool_size=5 max_client_conn=200\na = max_client_conn=0\nb = pool_size=9\n");

	(void)state;
	assert_int_equal(policy_of(c, "x", "u", "a").pool_size, 5);
	assert_int_equal(policy_of(c, "x", "u", "unlisted").pool_size, 5);
	assert_int_equal(policy_of(c, "x", "u", NULL).pool_size, 5);
	assert_int_equal(policy_of(c, "x", "u", "b").pool_size, 9);
	assert_int_equal(policy_of(c, "x", "u", "a").max_org_clients, 0);
	assert_int_equal(policy_of(c, "x", "u", "b").max_org_clients, 200);
	conf_drop(&c);
}

static void rates_and_priorities_are_the_orgs_else_the_stars(void **state)
{
	struct conf *c = loads("[databases]\nx = host=h\n[orgs]\n* = tx_rate=200 tx_burst=400 rate_action=reject rate_wait=3 priority=low weight=2\n"
			       "a = tx_rate=0 conn_rate=1.5 rate_action=queue rate_wait=0 priority=high\n");
	struct policy p = policy_of(c, "x", "u", "b");

	(void)state;
	assert_true(p.tx_rate == 200 && p.tx_burst == 400 && p.conn_rate == 0 && p.weight == 2);
	assert_int_equal(p.rate_action, RATE_REJECT);
	assert_int_equal(p.rate_wait, 3 * USEC_PER_SEC);
	assert_int_equal(p.priority, 2);
	p = policy_of(c, "x", "u", "a");
	assert_true(p.tx_rate == 0 && p.tx_burst == 400 && p.conn_rate == 1.5 && p.weight == 2);
	assert_int_equal(p.rate_action, RATE_QUEUE);
	assert_int_equal(p.rate_wait, 0);
	assert_int_equal(p.priority, 0);
	conf_drop(&c);
}

static void clients_without_an_org_have_the_line_of_default(void **state)
{
	struct conf *c = loads("[databases]\nx = host=h\n[orgs]\ndefault = pool_size=7\n");

	(void)state;
	assert_int_equal(policy_of(c, "x", "u", NULL).pool_size, 7);
	assert_int_equal(policy_of(c, "x", "u", "").pool_size, 7);
	assert_int_equal(policy_of(c, "x", "u", "default").pool_size, 7);
	assert_int_equal(policy_of(c, "x", "u", "other").pool_size, 20);
	conf_drop(&c);
}

static void every_value_is_inherited(void **state)
{
	struct conf *c = loads("[pgbouncer]\npool_mode = session\nmin_pool_size = 1\nreserve_pool_size = 2\nquery_timeout = 3\nquery_wait_timeout = 4\nidle_transaction_timeout = 5\n"
			       "transaction_timeout = 6\nclient_idle_timeout = 7\nserver_lifetime = 8\nmax_user_connections = 9\nmax_user_client_connections = 10\nmax_db_connections = 11\nmax_db_client_connections = 12\n"
			       "[databases]\nx = host=h pool_mode=statement server_lifetime=0 max_db_connections=21\n"
			       "[users]\nu = pool_mode=transaction query_timeout=0 query_wait_timeout=0 transaction_timeout=16 max_user_connections=19 max_user_client_connections=0\n");
	struct policy p = policy_of(c, "x", "nobody", "a");

	(void)state;
	assert_int_equal(p.pool_mode, POOL_STATEMENT);
	assert_int_equal(p.min_pool_size, 1);
	assert_int_equal(p.reserve_pool_size, 2);
	assert_int_equal(p.query_timeout, 3 * USEC_PER_SEC);
	assert_int_equal(p.query_wait_timeout, 4 * USEC_PER_SEC);
	assert_int_equal(p.idle_transaction_timeout, 5 * USEC_PER_SEC);
	assert_int_equal(p.transaction_timeout, 6 * USEC_PER_SEC);
	assert_int_equal(p.client_idle_timeout, 7 * USEC_PER_SEC);
	assert_int_equal(p.server_lifetime, 0);
	assert_int_equal(p.max_user_connections, 9);
	assert_int_equal(p.max_user_client_connections, 10);
	assert_int_equal(p.max_db_connections, 21);
	assert_int_equal(p.max_db_client_connections, 12);
	assert_true(p.weight == 1.0 && p.tx_rate == 0 && p.conn_rate == 0);
	assert_int_equal(p.priority, 1);
	assert_int_equal(p.rate_action, RATE_QUEUE);
	assert_int_equal(p.rate_wait, USEC_PER_SEC);
	p = policy_of(c, "x", "u", "a");
	assert_int_equal(p.pool_mode, POOL_TRANSACTION);
	/* PgBouncer: 0 on a user takes the process's value, but a query_wait_timeout of 0 really disables it. */
	assert_int_equal(p.query_timeout, 3 * USEC_PER_SEC);
	assert_int_equal(p.query_wait_timeout, 0);
	assert_int_equal(p.transaction_timeout, 16 * USEC_PER_SEC);
	assert_int_equal(p.max_user_connections, 19);
	assert_int_equal(p.max_user_client_connections, 10);
	conf_drop(&c);
}

static void a_minimum_is_never_above_a_cap(void **state)
{
	struct conf *c = loads("[pgweir]\nmin_pool_size = 30\ndefault_pool_size = 20\n"
			       "[clusters]\nk = primary=h max_server_conn=4\n"
			       "[databases]\nplain = host=h\ncapped = host=h max_db_connections=3\nk = cluster=k\nopen = host=h pool_size=0\n"
			       "[users]\nb = max_user_connections=2\n");

	(void)state;
	assert_int_equal(policy_of(c, "plain", "a", NULL).min_pool_size, 20);
	assert_int_equal(policy_of(c, "capped", "a", NULL).min_pool_size, 3);
	assert_int_equal(policy_of(c, "capped", "b", NULL).min_pool_size, 2);
	assert_int_equal(policy_of(c, "k", "a", NULL).min_pool_size, 4);
	/* A pool size of 0 is no limit, and so no cap. */
	assert_int_equal(policy_of(c, "open", "a", NULL).min_pool_size, 30);
	conf_drop(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_is_the_orgs_else_the_users_else_the_entrys_else_the_processs),
		cmocka_unit_test(an_org_without_a_value_has_the_stars),
		cmocka_unit_test(rates_and_priorities_are_the_orgs_else_the_stars),
		cmocka_unit_test(clients_without_an_org_have_the_line_of_default),
		cmocka_unit_test(every_value_is_inherited),
		cmocka_unit_test(a_minimum_is_never_above_a_cap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
