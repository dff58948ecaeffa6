/* Ids of orgs, [orgs], and users bound to orgs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "loaded.h"

static void id_is(const char *text, const char *want)
{
	char out[ORG_ID_MOST + 1];

	assert_true(org_id_make(text, strlen(text), out));
	assert_string_equal(out, want);
}

static void id_is_bad(const char *text, size_t len)
{
	char out[ORG_ID_MOST + 1];

	assert_false(org_id_make(text, len, out));
}

static void an_id_is_kept_as_it_is(void **state)
{
	(void)state;
	id_is("acme", "acme");
	id_is("Acme_Corp.eu:1-x", "Acme_Corp.eu:1-x");
	id_is("0123456789012345678901234567890123456789012345678901234567890123", "0123456789012345678901234567890123456789012345678901234567890123");
}

static void a_uuid_is_folded(void **state)
{
	(void)state;
	id_is("550E8400-E29B-41D4-A716-446655440000", "550e8400-e29b-41d4-a716-446655440000");
	id_is("550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440000");
}

static void what_only_looks_like_a_uuid_is_not_folded(void **state)
{
	(void)state;
	id_is("550E8400-E29B-41D4-A716-44665544000G", "550E8400-E29B-41D4-A716-44665544000G");
	id_is("550E8400E-29B-41D4-A716-446655440000", "550E8400E-29B-41D4-A716-446655440000");
	id_is("550E8400-E29B-41D4-A716-4466554400001", "550E8400-E29B-41D4-A716-4466554400001");
}

static void other_characters_and_lengths_are_no_id(void **state)
{
	(void)state;
	id_is_bad("", 0);
	id_is_bad("01234567890123456789012345678901234567890123456789012345678901234", 65);
	for (int c = 0; c < 256; c++) {
		char one = (char)c, out[ORG_ID_MOST + 1];
		bool want = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '.' || c == ':' || c == '-';

		assert_int_equal(org_id_make(&one, 1, out), want);
	}
}

static void every_key_of_an_org_is_read(void **state)
{
	struct conf_report r = {0};
	struct conf *c = conf_load_text("[orgs]\na = name='A Ltd' users='u, v' pool_size=1 min_pool_size=2 reserve_pool_size=3 max_client_conn=4 tx_rate=5.5 tx_burst=6 conn_rate=7 "
					"rate_action=reject rate_wait=8 weight=0.5 priority=low max_pinned=9 query_timeout=1 query_wait_timeout=0 idle_transaction_timeout=2 "
					"transaction_timeout=3 client_idle_timeout=4\n", &r);
	const struct conf_org *o;

	(void)state;
	assert_non_null(c);
	conf_report_free(&r);
	o = conf_org(c, "a");
	assert_string_equal(o->name, "A Ltd");
	assert_int_equal(o->n_users, 2);
	assert_string_equal(o->users[1], "v");
	assert_int_equal(o->over.pool_size, 1);
	assert_int_equal(o->over.min_pool_size, 2);
	assert_int_equal(o->over.reserve_pool_size, 3);
	assert_int_equal(o->max_client_conn, 4);
	assert_true(o->tx_rate == 5.5 && o->tx_burst == 6 && o->conn_rate == 7 && o->weight == 0.5);
	assert_int_equal(o->rate_action, 1);
	assert_int_equal(o->rate_wait, 8 * USEC_PER_SEC);
	assert_int_equal(o->priority, 2);
	assert_int_equal(o->max_pinned, 9);
	assert_int_equal(o->over.query_timeout, USEC_PER_SEC);
	assert_int_equal(o->over.query_wait_timeout, 0);
	assert_int_equal(o->over.idle_transaction_timeout, 2 * USEC_PER_SEC);
	assert_int_equal(o->over.transaction_timeout, 3 * USEC_PER_SEC);
	assert_int_equal(o->over.client_idle_timeout, 4 * USEC_PER_SEC);
	conf_drop(&c);
}

static void a_uuid_line_is_found_by_its_folded_id(void **state)
{
	struct conf *c = loads("[orgs]\n550E8400-E29B-41D4-A716-446655440000 = name=x\nAcme = name=y\n");

	(void)state;
	assert_string_equal(conf_org(c, "550e8400-e29b-41d4-a716-446655440000")->name, "x");
	assert_non_null(conf_org(c, "Acme"));
	assert_null(conf_org(c, "acme"));
	conf_drop(&c);
}

static void the_star_line_holds_defaults_and_is_no_org(void **state)
{
	struct conf *c = loads("[orgs]\n* = pool_size=5 max_client_conn=200\n");

	(void)state;
	assert_null(conf_org(c, "*"));
	assert_int_equal(c->org_star.over.pool_size, 5);
	assert_int_equal(c->org_star.max_client_conn, 200);
	assert_int_equal(c->orgs.count, 0);
	conf_drop(&c);
}

static void users_are_bound_to_the_orgs_that_name_them(void **state)
{
	struct conf *c = loads("[orgs]\na = users=u,v\nb = users='u, u'\nc = name=x\n");
	const struct conf_org *bound[2] = {NULL, NULL};

	(void)state;
	assert_int_equal(conf_bound(c, "v", bound, 2), 1);
	assert_ptr_equal(bound[0], conf_org(c, "a"));
	assert_int_equal(conf_bound(c, "u", bound, 2), 2);
	assert_true((bound[0] == conf_org(c, "a") && bound[1] == conf_org(c, "b")) || (bound[1] == conf_org(c, "a") && bound[0] == conf_org(c, "b")));
	assert_int_equal(conf_bound(c, "u", bound, 1), 2);
	assert_int_equal(conf_bound(c, "w", bound, 2), 0);
	conf_drop(&c);
}

static void a_later_line_replaces_an_org_and_its_users(void **state)
{
	struct conf *c = loads("[orgs]\na = users=u\n* = pool_size=1\na = users=v\n* = pool_size=2\n");

	(void)state;
	assert_int_equal(conf_bound(c, "u", NULL, 0), 0);
	assert_int_equal(conf_bound(c, "v", NULL, 0), 1);
	assert_int_equal(c->org_star.over.pool_size, 2);
	conf_drop(&c);
}

static void bad_lines_are_refused(void **state)
{
	(void)state;
	refuses("[orgs]\n* = users=u\na = pool_size=x\nb = weight=0\nc = priority=urgent\nd = tx_rate=-1\ne = colour=red\n",
		"test.ini:2: [orgs] *: users= binds to one org and has no meaning here\n"
		"test.ini:3: [orgs] a: pool_size: \"x\" is not a whole number\n"
		"test.ini:4: [orgs] b: weight: not in the range 0.001 to 1000\n"
		"test.ini:5: [orgs] c: priority: \"urgent\" is not one of high normal low\n"
		"test.ini:6: [orgs] d: tx_rate: \"-1\" is not a number\n"
		"test.ini:7: [orgs] e: unknown key \"colour\"\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_id_is_kept_as_it_is),
		cmocka_unit_test(a_uuid_is_folded),
		cmocka_unit_test(what_only_looks_like_a_uuid_is_not_folded),
		cmocka_unit_test(other_characters_and_lengths_are_no_id),
		cmocka_unit_test(every_key_of_an_org_is_read),
		cmocka_unit_test(a_uuid_line_is_found_by_its_folded_id),
		cmocka_unit_test(the_star_line_holds_defaults_and_is_no_org),
		cmocka_unit_test(users_are_bound_to_the_orgs_that_name_them),
		cmocka_unit_test(a_later_line_replaces_an_org_and_its_users),
		cmocka_unit_test(bad_lines_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
