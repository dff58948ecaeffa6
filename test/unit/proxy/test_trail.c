/* Trails of routes: what begins one, what goes on, and their text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "proxy/trail.h"

#define HEAD "[databases]\napp = host=h\nacme = host=i\nother = host=j\n[orgs]\none = pool_size=1\ntwo = pool_size=1\n[routes]\n"
#define AT(s) ((usec_t)(s) * USEC_PER_SEC)

static struct conf *conf_of(const char *routes)
{
	struct conf_report r = {0};
	struct buf text = {0};
	struct conf *c;

	buf_add_str(&text, HEAD);
	buf_add_str(&text, routes);
	buf_add_u8(&text, 0);
	c = conf_load_text((const char *)text.p, &r);
	assert_non_null(c);
	buf_free(&text);
	conf_report_free(&r);
	return c;
}

static void a_route_was_used_last_when_it_came_into_force_or_later(void **state)
{
	struct conf *c = conf_of("r = org=one entry=app to=acme\n");

	(void)state;
	assert_int_equal(trails_last_use(c->routes[0]), 0);
	trails_follow(c, AT(100));
	assert_int_equal(trails_last_use(c->routes[0]), AT(100));
	trails_use(c->routes[0], AT(150));
	trails_use(c->routes[0], AT(140));
	assert_int_equal(trails_last_use(c->routes[0]), AT(150));
	trails_free();
	conf_drop(&c);
}

static void a_reload_goes_on_with_what_is_the_same_and_begins_what_is_not(void **state)
{
	struct conf *a = conf_of("r = org=one entry=app to=acme\ns = org=two entry=app to=acme\n");
	struct conf *b = conf_of("s = org=two entry=app to=acme\nr = org=one entry=app to=other\n");

	(void)state;
	trails_follow(a, AT(100));
	trails_follow(b, AT(200));
	assert_int_equal(trails_last_use(b->routes[0]), AT(100));
	assert_int_equal(trails_last_use(b->routes[1]), AT(200));
	assert_int_equal(trails_last_use(a->routes[0]), 0);
	trails_follow(a, AT(300));
	assert_int_equal(trails_last_use(a->routes[0]), AT(300));
	trails_free();
	conf_drop(&a);
	conf_drop(&b);
}

static void the_text_brings_back_what_the_same_routes_had(void **state)
{
	struct conf *c = conf_of("r = application_name='a b%*' to=acme\ns = org=two user='-' entry=app to=acme\n");
	struct buf text = {0};

	(void)state;
	trails_follow(c, AT(100));
	trails_use(c->routes[0], AT(160));
	assert_true(trails_changed());
	trails_print(&text);
	assert_false(trails_changed());
	trails_free();
	trails_follow(c, AT(900));
	assert_true(trails_read(buf_span(&text)));
	assert_int_equal(trails_last_use(c->routes[0]), AT(160));
	assert_int_equal(trails_last_use(c->routes[1]), AT(100));
	buf_free(&text);
	trails_free();
	conf_drop(&c);
}

static void a_text_that_is_not_ours_is_not_taken(void **state)
{
	static const char *const bad[] = {
		"", "pgweir routes 2\n", "pgweir routes 1\n100 r one - - app acme", "pgweir routes 1\n100\n", "pgweir routes 1\n-5 r one - - app acme\n",
		"pgweir routes 1\nx r one - - app acme\n", "pgweir routes 1\n100 r one - - app acme\nrubbish\n",
		"pgweir routes 1\n99999999999999999999 r one - - app acme\n", "pgweir routes 1\n9223372036854775807 r one - - app acme\n",
	};
	struct conf *c = conf_of("r = org=one entry=app to=acme\n");

	(void)state;
	trails_follow(c, AT(500));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_false(trails_read(span_str(bad[i])));
		assert_int_equal(trails_last_use(c->routes[0]), AT(500));
	}
	assert_false(trails_read((struct span){(const uint8_t *)"pgweir routes 1\n100 r\0\n", 23}));
	assert_true(trails_read(span_str("pgweir routes 1\n7 gone one - - app acme\n100 r one - - app acme\n")));
	assert_int_equal(trails_last_use(c->routes[0]), AT(100));
	trails_free();
	conf_drop(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_route_was_used_last_when_it_came_into_force_or_later),
		cmocka_unit_test(a_reload_goes_on_with_what_is_the_same_and_begins_what_is_not),
		cmocka_unit_test(the_text_brings_back_what_the_same_routes_had),
		cmocka_unit_test(a_text_that_is_not_ours_is_not_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
