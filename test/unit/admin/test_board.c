/* Figures by name. What must hold whatever happens: every count is told once, in one series, and no series goes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "admin/board_priv.h"
#include "base/mem.h"

#define KEEP 1000

static struct usage queries(uint64_t n)
{
	return (struct usage){.n = {[TOTAL_queries] = n, [TOTAL_slot_us] = n * 1000}};
}

static void round_of(struct board *b, usec_t now, int most, const char *name, struct usage u)
{
	board_begin(b, now, most);
	board_add(b, name, &u);
	board_end(b, KEEP);
}

static const struct sheet_line *line(const struct sheet *s, const char *name)
{
	for (int i = 0; i < s->n; i++)
		if (strcmp(s->lines[i].name, name) == 0)
			return &s->lines[i];
	return NULL;
}

static uint64_t queries_of(const struct board *b, const char *name)
{
	struct sheet s;

	board_sheet(b, &s);
	const struct sheet_line *l = line(&s, name);
	uint64_t n = l ? l->sums.n[TOTAL_queries] : UINT64_MAX;
	sheet_free(&s);
	return n;
}

static void while_there_is_room_everybody_is_named(void **state)
{
	struct board b = {0};

	(void)state;
	round_of(&b, 1, 3, "a", queries(5));
	round_of(&b, 2, 3, "b", queries(7));
	round_of(&b, 3, 3, "a", queries(10));
	assert_int_equal(queries_of(&b, "a"), 15);
	assert_int_equal(queries_of(&b, "b"), 7);
	assert_int_equal(queries_of(&b, "other"), 0);
	board_free(&b);
}

static void the_busiest_are_named_and_the_rest_is_one_line(void **state)
{
	struct board b = {0};
	struct sheet s;

	(void)state;
	for (int r = 1; r <= 3; r++) {
		board_begin(&b, r * 61 * USEC_PER_SEC, 3);
		for (int i = 0; i < 20; i++) {
			char name[16];
			struct usage u = queries((uint64_t)i * 100);
			snprintf(name, sizeof(name), "org-%02d", i);
			board_add(&b, name, &u);
		}
		board_end(&b, KEEP);
	}
	board_sheet(&b, &s);
	assert_int_equal(s.n, 4);
	assert_string_equal(s.lines[0].name, "org-17");
	assert_string_equal(s.lines[1].name, "org-18");
	assert_string_equal(s.lines[2].name, "org-19");
	assert_string_equal(s.lines[3].name, "other");
	sheet_free(&s);
	board_free(&b);
}

static void a_line_called_other_is_counted_with_the_rest(void **state)
{
	struct board b = {0};
	struct sheet s;

	(void)state;
	round_of(&b, 1, 10, "other", queries(1000));
	round_of(&b, 2, 10, "a", queries(1));
	board_sheet(&b, &s);
	assert_int_equal(s.n, 2);
	assert_string_equal(s.lines[0].name, "a");
	assert_string_equal(s.lines[1].name, "other");
	sheet_free(&s);
	board_free(&b);
}

static void a_name_is_not_lost_to_one_that_is_hardly_busier(void **state)
{
	struct board b = {0};
	struct sheet s;

	(void)state;
	round_of(&b, 1, 1, "a", queries(100));
	round_of(&b, 2, 1, "b", queries(120));
	round_of(&b, 61 * USEC_PER_SEC + 2, 1, "b", queries(1));
	board_sheet(&b, &s);
	assert_string_equal(s.lines[0].name, "a");
	sheet_free(&s);
	round_of(&b, 200 * USEC_PER_SEC, 1, "b", queries(1000));
	board_sheet(&b, &s);
	assert_string_equal(s.lines[0].name, "b");
	sheet_free(&s);
	board_free(&b);
}

static void what_is_there_now_is_summed_and_the_longest_wait_is_of_this_round(void **state)
{
	struct board b = {0};
	struct usage more = {.clients = 3, .active = 2, .servers = 4, .waiting = 1, .maxwait = 500, .pool_use = 900}, fewer = {.clients = -1, .active = -2};
	struct sheet s;

	(void)state;
	round_of(&b, 1, 0, "a", more);
	round_of(&b, 2, 0, "b", more);
	board_sheet(&b, &s);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.lines[0].now[NOW_clients], 6);
	assert_int_equal(s.lines[0].now[NOW_servers_active], 4);
	assert_int_equal(s.lines[0].now[NOW_maxwait], 500);
	assert_int_equal(s.lines[0].now[NOW_pool_use], 900);
	sheet_free(&s);
	round_of(&b, 3, 0, "a", fewer);
	board_sheet(&b, &s);
	assert_int_equal(s.lines[0].now[NOW_clients], 5);
	assert_int_equal(s.lines[0].now[NOW_servers_active], 2);
	assert_int_equal(s.lines[0].now[NOW_maxwait], 0);
	sheet_free(&s);
	board_free(&b);
}

static void quiet_lines_are_forgotten_and_busy_ones_are_not(void **state)
{
	struct board b = {0};
	struct usage holds = {.clients = 1};

	(void)state;
	round_of(&b, 1, 1, "named", queries(1000000));
	round_of(&b, 2, 1, "with-clients", holds);
	for (int i = 0; i < 100; i++) {
		char name[16];
		struct usage u = queries(1);
		snprintf(name, sizeof(name), "q%d", i);
		board_begin(&b, 3, 1);
		board_add(&b, name, &u);
		board_end(&b, 50);
		assert_true(b.lines.count <= 50);
	}
	assert_int_equal(queries_of(&b, "named"), 1000000);
	assert_int_equal(queries_of(&b, "other"), 100);
	struct usage gone = {.clients = -1};
	round_of(&b, 4, 1, "with-clients", gone);
	struct sheet s;
	board_sheet(&b, &s);
	for (int i = 0; i < s.n; i++)
		assert_int_equal(s.lines[i].now[NOW_clients], 0);
	sheet_free(&s);
	board_free(&b);
}

/* ---- a model: names come and go at random, series are compared from page to page ---- */

#define ORGS 40

struct seen {
	char name[16];
	uint64_t n, waits, of_org;
};

static void no_series_goes_back_and_their_sum_is_what_was_counted(void **state)
{
	struct board b = {0};
	struct seen seen[ORGS + 1] = {0};
	uint64_t counted = 0, refused = 0;
	int n_seen = 0;

	(void)state;
	srandom(4711);
	for (int r = 1; r < 400; r++) {
		usec_t now = r * 30 * USEC_PER_SEC;
		int favourite = (int)(random() % ORGS);
		board_begin(&b, now, (int)(random() % 8));
		for (int i = 0; i < ORGS; i++) {
			uint64_t n = i == favourite ? 100000 : (uint64_t)random() % 50;
			struct usage u = queries(n);
			char name[16];
			u.waits[5] = n;
			snprintf(name, sizeof(name), "org-%d", i);
			board_add(&b, name, &u);
			board_count(&b, name, ORG_refused, 1);
			counted += n;
			refused++;
		}
		board_end(&b, KEEP);

		struct sheet s;
		board_sheet(&b, &s);
		for (int i = 0; i < s.n; i++) {
			int at = 0;
			while (at < n_seen && strcmp(seen[at].name, s.lines[i].name) != 0)
				at++;
			if (at == n_seen)
				snprintf(seen[n_seen++].name, sizeof(seen[0].name), "%s", s.lines[i].name);
			assert_true(s.lines[i].sums.n[TOTAL_queries] >= seen[at].n);
			assert_true(s.lines[i].sums.waits[5] >= seen[at].waits);
			assert_true(s.lines[i].sums.of_org[ORG_refused] >= seen[at].of_org);
			seen[at].n = s.lines[i].sums.n[TOTAL_queries];
			seen[at].waits = s.lines[i].sums.waits[5];
			seen[at].of_org = s.lines[i].sums.of_org[ORG_refused];
		}
		sheet_free(&s);
		uint64_t sum = 0, sum_refused = 0;
		for (int i = 0; i < n_seen; i++) {
			sum += seen[i].n;
			sum_refused += seen[i].of_org;
		}
		/* A series that is not on the page any more is as it was last seen. But what a line lost its name with was not seen yet. */
		assert_true(sum <= counted && sum_refused <= refused);
	}
	/* With all of them named nothing is hidden. */
	board_begin(&b, 100000 * USEC_PER_SEC, ORGS);
	board_end(&b, KEEP);
	struct sheet s;
	uint64_t sum = 0, sum_refused = 0;
	board_sheet(&b, &s);
	assert_int_equal(s.n, ORGS + 1);
	for (int i = 0; i < s.n; i++) {
		sum += s.lines[i].sums.n[TOTAL_queries];
		sum_refused += s.lines[i].sums.of_org[ORG_refused];
	}
	assert_int_equal(sum, counted);
	assert_int_equal(sum_refused, refused);
	sheet_free(&s);
	board_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(while_there_is_room_everybody_is_named),
		cmocka_unit_test(the_busiest_are_named_and_the_rest_is_one_line),
		cmocka_unit_test(a_line_called_other_is_counted_with_the_rest),
		cmocka_unit_test(a_name_is_not_lost_to_one_that_is_hardly_busier),
		cmocka_unit_test(what_is_there_now_is_summed_and_the_longest_wait_is_of_this_round),
		cmocka_unit_test(quiet_lines_are_forgotten_and_busy_ones_are_not),
		cmocka_unit_test(no_series_goes_back_and_their_sum_is_what_was_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
