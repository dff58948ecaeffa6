/* route_choose: whom a line of [routes] matches, and which of several is the one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "proxy/route.h"

#define HEAD "[databases]\napp = host=h\napp_read = host=h\nacme = host=i\nother = host=j\n[orgs]\n* = pool_size=1\none = name=one\ntwo = name=two\nthree = name=three\n[routes]\n"

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

static const char *chosen(const struct conf *c, const char *org, const char *name, const char *user, const char *entry)
{
	const struct conf_route *r = route_choose(c, &(struct route_facts){org, name, user, entry});

	return r ? r->name : "-";
}

static void without_a_match_there_is_none(void **state)
{
	struct conf *c = conf_of(""), *d = conf_of("r = org=one entry=app to=acme\n");

	(void)state;
	assert_string_equal(chosen(c, "one", "", "u", "app"), "-");
	assert_string_equal(chosen(d, "two", "", "u", "app"), "-");
	assert_string_equal(chosen(d, "one", "", "u", "other"), "-");
	conf_drop(&c);
	conf_drop(&d);
}

static void all_that_a_line_asks_for_must_be_so(void **state)
{
	struct conf *c = conf_of("r = org=one application_name=job-? user=u entry=app to=acme\n");

	(void)state;
	assert_string_equal(chosen(c, "one", "job-1", "u", "app"), "r");
	assert_string_equal(chosen(c, "two", "job-1", "u", "app"), "-");
	assert_string_equal(chosen(c, "one", "job-12", "u", "app"), "-");
	assert_string_equal(chosen(c, "one", "job-1", "v", "app"), "-");
	assert_string_equal(chosen(c, "one", "job-1", "u", "acme"), "-");
	conf_drop(&c);
}

static void the_first_that_matches_wins_whatever_it_asks_for(void **state)
{
	struct conf *c = conf_of("1 = user=batch to=other\n2 = org=one to=acme\n3 = application_name=read.* to=app_read\n4 = org=one user=late to=other\n5 = to=app\n");

	(void)state;
	assert_string_equal(chosen(c, "one", "", "batch", "app"), "1");
	assert_string_equal(chosen(c, "one", "read.x", "u", "app"), "2");
	assert_string_equal(chosen(c, "one", "", "late", "app"), "2");
	assert_string_equal(chosen(c, "two", "read.x", "u", "app"), "3");
	assert_string_equal(chosen(c, "two", "", "u", "app"), "5");
	conf_drop(&c);
}

static void names_match_as_globs_do(void **state)
{
	struct conf *c = conf_of("1 = application_name=read.* to=app_read\n2 = application_name=[ab]x to=acme\n3 = application_name=* to=other\n");

	(void)state;
	assert_string_equal(chosen(c, "one", "read.", "u", "app"), "1");
	assert_string_equal(chosen(c, "one", "read.orders/1", "u", "app"), "1");
	assert_string_equal(chosen(c, "one", "reader", "u", "app"), "3");
	assert_string_equal(chosen(c, "one", "xread.", "u", "app"), "3");
	assert_string_equal(chosen(c, "one", "bx", "u", "app"), "2");
	assert_string_equal(chosen(c, "one", "", "u", "app"), "3");
	conf_drop(&c);
}

static void lines_are_not_chained(void **state)
{
	struct conf *c = conf_of("1 = entry=app to=acme\n2 = entry=acme to=app\n");

	(void)state;
	assert_string_equal(chosen(c, "one", "", "u", "app"), "1");
	assert_string_equal(chosen(c, "one", "", "u", "acme"), "2");
	conf_drop(&c);
}

static void a_line_may_keep_some_where_they_are(void **state)
{
	struct conf *c = conf_of("stay = org=one user=batch entry=app to=app\nmove = org=one entry=app to=acme\n");

	(void)state;
	assert_string_equal(chosen(c, "one", "", "batch", "app"), "stay");
	assert_string_equal(chosen(c, "one", "", "u", "app"), "move");
	conf_drop(&c);
}

/* The chains of the index against the plain rule, for all there is to ask. */
static void the_index_finds_what_a_walk_over_all_lines_finds(void **state)
{
	static const char *const orgs[] = {"one", "two", "three", "four"}, *const users[] = {"u", "v"}, *const entries[] = {"app", "acme", "other"};
	struct buf text = {0};
	unsigned dice = 12345;

	(void)state;
	for (int i = 0; i < 60; i++) {
		dice = dice * 1103515245 + 12345;
		unsigned d = dice >> 8;
		buf_add_fmt(&text, "r%d = ", i);
		if (d % 4)
			buf_add_fmt(&text, "org=%s ", orgs[d / 4 % 3]);
		if (d / 16 % 3 == 0)
			buf_add_fmt(&text, "user=%s ", users[d / 64 % 2]);
		if (d / 128 % 4)
			buf_add_fmt(&text, "entry=%s ", entries[d / 512 % 3]);
		buf_add_str(&text, "application_name=x? to=app_read\n");
	}
	buf_add_u8(&text, 0);
	struct conf *c = conf_of((const char *)text.p);
	buf_free(&text);
	for (size_t o = 0; o < 4; o++)
		for (size_t u = 0; u < 2; u++)
			for (size_t e = 0; e < 3; e++) {
				const char *want = "-";
				for (int i = c->n_routes - 1; i >= 0; i--) {
					const struct conf_route *r = c->routes[i];
					if ((!r->org[0] || !strcmp(r->org, orgs[o])) && (!r->user || !strcmp(r->user, users[u])) && (!r->entry || !strcmp(r->entry, entries[e])))
						want = r->name;
				}
				assert_string_equal(chosen(c, orgs[o], "xy", users[u], entries[e]), want);
			}
	conf_drop(&c);
}

static void note(void *arg, const struct conf_route *r)
{
	buf_add_str(arg, r->name);
	buf_add_str(arg, " ");
}

static void away_is(const struct conf *c, const char *org, const char *name, const char *place, const char *want)
{
	struct buf seen = {0};

	route_each_away(c, &(struct route_facts){org, name, "u", place}, note, &seen);
	buf_add_u8(&seen, 0);
	assert_string_equal((const char *)seen.p, want);
	buf_free(&seen);
}

static void lines_lead_away_from_a_place_that_they_would_match(void **state)
{
	struct conf *c = conf_of("stay = org=one user=u entry=app to=app\nmove = org=one entry=app to=acme\nreads = application_name=read.* entry=app to=app_read\nall = org=two to=other\n");

	(void)state;
	away_is(c, "one", "", "app", "move ");
	away_is(c, "one", "read.x", "app", "move reads ");
	away_is(c, "one", "", "acme", "");
	away_is(c, "two", "", "acme", "all ");
	away_is(c, "two", "", "other", "");
	away_is(c, "three", "", "app", "");
	conf_drop(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_match_there_is_none),
		cmocka_unit_test(all_that_a_line_asks_for_must_be_so),
		cmocka_unit_test(the_first_that_matches_wins_whatever_it_asks_for),
		cmocka_unit_test(names_match_as_globs_do),
		cmocka_unit_test(lines_are_not_chained),
		cmocka_unit_test(a_line_may_keep_some_where_they_are),
		cmocka_unit_test(the_index_finds_what_a_walk_over_all_lines_finds),
		cmocka_unit_test(lines_lead_away_from_a_place_that_they_would_match),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
