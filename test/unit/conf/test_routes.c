/* [routes]: what a line may say, and how lines of one org hang together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "loaded.h"

#define ENTRIES "[databases]\na = host=h\nb = host=i\n"
#define ACME "11111111-1111-1111-1111-111111111111"
#define ORGS "[orgs]\n" ACME " = name=acme\ntwin-1 = name=twin\ntwin-2 = name=twin\n"

static void a_line_is_read(void **state)
{
	struct conf *c = loads(ENTRIES ORGS "[routes]\nr = org=acme application_name=read.* user=u entry=a to=b\n");
	const struct conf_route *r;

	(void)state;
	assert_int_equal(c->n_routes, 1);
	r = c->routes[0];
	assert_string_equal(r->name, "r");
	assert_string_equal(r->org, ACME);
	assert_string_equal(r->application_name, "read.*");
	assert_string_equal(r->user, "u");
	assert_string_equal(r->entry, "a");
	assert_string_equal(r->to, "b");
	assert_true(c->routes_by_name);
	conf_drop(&c);
}

static void an_org_may_be_said_by_id_in_any_case(void **state)
{
	struct conf *c = loads(ENTRIES "[orgs]\n550e8400-e29b-41d4-a716-446655440000 = pool_size=1\n[routes]\nr = org=550E8400-E29B-41D4-A716-446655440000 to=b\n");

	(void)state;
	assert_string_equal(c->routes[0]->org, "550e8400-e29b-41d4-a716-446655440000");
	assert_false(c->routes_by_name);
	conf_drop(&c);
}

static void an_id_stands_above_a_name(void **state)
{
	struct conf *c = loads(ENTRIES "[orgs]\nx = name=y\ny = name=x\n[routes]\nr = org=x to=b\n");

	(void)state;
	assert_string_equal(c->routes[0]->org, "x");
	conf_drop(&c);
}

static void an_org_without_a_line_is_warned_of(void **state)
{
	struct conf *c = loads_warning(ENTRIES ORGS "[routes]\nr = org=acne to=b\n",
		"test.ini:9: [routes] r: \"acne\" is neither id nor name of a line in [orgs]; it is taken for an id\n");

	(void)state;
	assert_string_equal(c->routes[0]->org, "acne");
	conf_drop(&c);
}

static void the_default_org_needs_no_line(void **state)
{
	struct conf *c = loads(ENTRIES "[routes]\nr = org=default to=b\n");

	(void)state;
	assert_string_equal(c->routes[0]->org, "default");
	conf_drop(&c);
}

static void what_leads_nowhere_is_refused(void **state)
{
	(void)state;
	refuses(ENTRIES ORGS "[routes]\nr = org=acme\ns = to=none\nt = org='a b' to=a\nu = org=twin to=a\nv = entry=none to=a\nw = to=a\nw = to=b\nx = entri=a\n",
		"test.ini:9: [routes] r: a route needs to=entry\n"
		"test.ini:10: [routes] s: \"none\" is no entry\n"
		"test.ini:11: [routes] t: no org is called \"a b\", and an id is 1 to 64 of A-Za-z0-9_.:-\n"
		"test.ini:12: [routes] u: several orgs are called \"twin\": say the id\n"
		"test.ini:13: [routes] v: \"none\" is no entry\n"
		"test.ini:15: [routes] w: there is another route of this name\n"
		"test.ini:16: [routes] x: unknown key \"entri\"; did you mean \"entry\"?\n");
}

static void a_star_line_may_be_asked_for_but_not_led_to(void **state)
{
	struct conf *c = loads("[databases]\n* = host=h\nb = host=i\n[routes]\nr = entry=any to=b\n");

	(void)state;
	assert_string_equal(c->routes[0]->entry, "any");
	conf_drop(&c);
	refuses("[databases]\n* = host=h\n[routes]\nr = to=b\n", "test.ini:4: [routes] r: \"b\" is no entry\n");
}

static void lines_of_one_org_hang_together_in_their_order(void **state)
{
	struct conf *c = loads(ENTRIES ORGS "[routes]\n1 = org=twin-1 to=a\n2 = to=a\n3 = org=acme to=a\n4 = org=twin-1 to=b\n5 = entry=a to=b\n6 = org=twin-1 entry=b to=a\n");

	(void)state;
	assert_int_equal(c->routes_by_org.count, 2);
	assert_ptr_equal(c->routes[0]->next, c->routes[3]);
	assert_ptr_equal(c->routes[3]->next, c->routes[5]);
	assert_null(c->routes[5]->next);
	assert_null(c->routes[2]->next);
	assert_ptr_equal(c->routes_of_any, c->routes[1]);
	assert_ptr_equal(c->routes[1]->next, c->routes[4]);
	assert_null(c->routes[4]->next);
	conf_drop(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_read),
		cmocka_unit_test(an_org_may_be_said_by_id_in_any_case),
		cmocka_unit_test(an_id_stands_above_a_name),
		cmocka_unit_test(an_org_without_a_line_is_warned_of),
		cmocka_unit_test(the_default_org_needs_no_line),
		cmocka_unit_test(what_leads_nowhere_is_refused),
		cmocka_unit_test(a_star_line_may_be_asked_for_but_not_led_to),
		cmocka_unit_test(lines_of_one_org_hang_together_in_their_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
