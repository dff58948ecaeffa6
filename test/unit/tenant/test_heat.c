/* Hot orgs. Time is a variable here: windows of thirty days take no time at all. What the numbers must be is worked out by hand from the
 * words of docs/orgs.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tenant/heat_priv.h"

#define SECOND USEC_PER_SEC
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define START (20000 * DAY) /* some midnight */

static const double no_floors[HEAT_MEASURES] = {0, 0, 0};
static const double floors[HEAT_MEASURES] = {60, 0.5, 100e6};
static int n_changed;
static char changed_id[ORG_ID_MOST + 1];

static void note_change(const struct heat *h, const struct heat_org *o)
{
	(void)h;
	n_changed++;
	strcpy(changed_id, o->id);
}

static void judge(struct heat *h, usec_t now, const double f[HEAT_MEASURES])
{
	n_changed = 0;
	heat_judge_begin(h, f);
	while (heat_measure_some(h, now, 7))
		;
	heat_weigh(h);
	while (heat_decide_some(h, now, 7, note_change))
		;
}

static bool about(double a, double b)
{
	return fabs(a - b) <= 1e-6 * (1 + fabs(b));
}

static double rate(const struct heat *h, const char *id, enum heat_window w, enum heat_measure m)
{
	return heat_value(heat_find(h, id), w, m);
}

/* An even load from..to, told every 10 seconds. */
static void load_even(struct heat *h, const char *id, usec_t from, usec_t to, double queries_per_min, double slots)
{
	for (usec_t t = from; t < to; t += 10 * SECOND)
		heat_note(h, id, t, (uint64_t)(queries_per_min / 6), (usec_t)(slots * 10 * SECOND));
}

/* ---- windows ---- */

static void an_even_load_is_the_same_in_every_window(void **state)
{
	struct heat h = {0};

	(void)state;
	load_even(&h, "a", START, START + 31 * DAY, 600, 2);
	judge(&h, START + 31 * DAY - 1, no_floors);
	for (int w = 0; w < HEAT_WINDOWS; w++) {
		assert_true(fabs(rate(&h, "a", w, HEAT_QUERIES) - 600) < 1);
		assert_true(fabs(rate(&h, "a", w, HEAT_SLOTS) - 2) < 0.01);
	}
	heat_free(&h);
}

static void what_is_older_than_the_window_is_not_in_it(void **state)
{
	struct heat h = {0};

	(void)state;
	load_even(&h, "other", START - 40 * DAY, START + 1, 6, 0);
	heat_note(&h, "a", START, 7000, 70 * SECOND);
	judge(&h, START + 5 * SECOND, no_floors);
	/* The minute at hand is 65 seconds long: six buckets and the five seconds of this one. */
	assert_true(about(rate(&h, "a", HEAT_1M, HEAT_QUERIES), 7000 * 60.0 / 65));
	assert_true(about(rate(&h, "a", HEAT_1M, HEAT_SLOTS), 70.0 / 65));
	judge(&h, START + 69 * SECOND, no_floors);
	assert_true(rate(&h, "a", HEAT_1M, HEAT_QUERIES) > 0);
	judge(&h, START + 70 * SECOND, no_floors);
	assert_true(rate(&h, "a", HEAT_1M, HEAT_QUERIES) == 0);
	assert_true(rate(&h, "a", HEAT_5M, HEAT_QUERIES) > 0);
	judge(&h, START + 5 * MINUTE + 10 * SECOND, no_floors);
	assert_true(rate(&h, "a", HEAT_5M, HEAT_QUERIES) == 0);
	assert_true(rate(&h, "a", HEAT_24H, HEAT_QUERIES) > 0);
	judge(&h, START + DAY + 30 * MINUTE, no_floors);
	assert_true(rate(&h, "a", HEAT_24H, HEAT_QUERIES) == 0);
	assert_true(about(rate(&h, "a", HEAT_30D, HEAT_QUERIES), 7000 / (30 * 24 * 60 + 30.0)));
	judge(&h, START + 30 * DAY + 12 * HOUR - 1, no_floors);
	assert_true(rate(&h, "a", HEAT_30D, HEAT_QUERIES) > 0);
	judge(&h, START + 30 * DAY + 12 * HOUR, no_floors);
	assert_true(rate(&h, "a", HEAT_30D, HEAT_QUERIES) == 0);
	heat_free(&h);
}

static void a_young_process_divides_by_its_age_but_not_by_less_than_a_minute(void **state)
{
	struct heat h = {0};

	(void)state;
	heat_note(&h, "a", START, 120, 0);
	judge(&h, START + SECOND, no_floors);
	for (int w = 0; w < HEAT_WINDOWS; w++)
		assert_true(about(rate(&h, "a", w, HEAT_QUERIES), 120));
	judge(&h, START + 3 * MINUTE, no_floors);
	assert_true(about(rate(&h, "a", HEAT_5M, HEAT_QUERIES), 40));
	assert_true(about(rate(&h, "a", HEAT_30D, HEAT_QUERIES), 40));
	heat_free(&h);
}

static void a_long_silence_empties_the_rings(void **state)
{
	struct heat h = {0};

	(void)state;
	load_even(&h, "a", START, START + DAY, 600, 1);
	heat_note(&h, "a", START + 400 * DAY, 60, 0);
	judge(&h, START + 400 * DAY, no_floors);
	assert_true(about(rate(&h, "a", HEAT_1M, HEAT_QUERIES), 60));
	assert_true(about(rate(&h, "a", HEAT_30D, HEAT_QUERIES), 60.0 / (30 * 24 * 60)));
	heat_free(&h);
}

static void time_that_goes_back_loses_nothing_and_reads_nothing_wrong(void **state)
{
	struct heat h = {0};

	(void)state;
	heat_note(&h, "a", START + MINUTE, 60, 0);
	heat_note(&h, "a", START, 60, 0);
	judge(&h, START, no_floors);
	assert_true(about(rate(&h, "a", HEAT_1M, HEAT_QUERIES), 120));
	heat_free(&h);
}

/* ---- the median and the ratios ---- */

static void the_median_is_that_of_the_orgs_active_in_the_window(void **state)
{
	struct heat h = {0};

	(void)state;
	load_even(&h, "began", START - DAY, START - DAY + 1, 6, 0);
	for (int i = 1; i <= 5; i++) {
		char id[8];
		snprintf(id, sizeof(id), "o%d", i);
		heat_note(&h, id, START, (uint64_t)i * 60, 0);
	}
	for (int i = 0; i < 20; i++) {
		char id[8];
		snprintf(id, sizeof(id), "old%d", i);
		heat_note(&h, id, START - 10 * MINUTE, 1, 0);
	}
	judge(&h, START, no_floors);
	assert_true(about(h.p50[HEAT_1M][HEAT_QUERIES], 180));
	assert_true(about(heat_ratio(&h, heat_find(&h, "o5"), HEAT_1M, HEAT_QUERIES), 5.0 / 3));
	assert_true(h.p50[HEAT_24H][HEAT_QUERIES] < 1); /* there the twenty count, too */
	heat_free(&h);
}

static void of_two_the_median_is_the_lower_one(void **state)
{
	struct heat h = {0};

	(void)state;
	heat_note(&h, "quiet", START, 100, 0);
	heat_note(&h, "busy", START, 1000, 0);
	judge(&h, START, no_floors);
	assert_true(about(heat_ratio(&h, heat_find(&h, "busy"), HEAT_1M, HEAT_QUERIES), 10));
	heat_free(&h);
}

static void a_median_below_its_floor_makes_nobody_hot(void **state)
{
	struct heat h = {0};

	(void)state;
	for (int i = 0; i < 9; i++) {
		char id[8];
		snprintf(id, sizeof(id), "o%d", i);
		heat_note(&h, id, START, 1, SECOND / 100);
	}
	heat_note(&h, "busy", START, 170, 80 * SECOND);
	judge(&h, START, floors);
	const struct heat_org *o = heat_find(&h, "busy");
	assert_true(about(h.p50[HEAT_1M][HEAT_QUERIES], 1));
	assert_true(about(heat_ratio(&h, o, HEAT_1M, HEAT_QUERIES), 170.0 / 60));
	assert_int_equal(o->severity[HEAT_1M][HEAT_QUERIES], HEAT_OK);
	assert_false(o->hot);
	heat_free(&h);
}

static void without_median_and_floor_nothing_is_divided_by_zero(void **state)
{
	struct heat h = {0};

	(void)state;
	for (int i = 0; i < 3; i++) {
		char id[8];
		snprintf(id, sizeof(id), "o%d", i);
		heat_note(&h, id, START, 1, i == 2 ? SECOND : 0);
	}
	judge(&h, START, no_floors);
	double ratio = heat_ratio(&h, heat_find(&h, "o2"), HEAT_1M, HEAT_SLOTS);
	assert_true(isfinite(ratio) && ratio > 10);
	assert_true(heat_ratio(&h, heat_find(&h, "o0"), HEAT_1M, HEAT_SLOTS) == 0);
	heat_free(&h);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void the_median_is_what_sorting_finds(void **state)
{
	(void)state;
	srandom(4711);
	for (int round = 0; round < 300; round++) {
		struct heat h = {0};
		int n = 1 + (int)(random() % 60);
		double all[60];
		for (int i = 0; i < n; i++) {
			char id[8];
			uint64_t q = 1 + (uint64_t)random() % (round % 2 ? 1000 : 4);
			snprintf(id, sizeof(id), "o%d", i);
			heat_note(&h, id, START, q, 0);
			all[i] = (double)q;
		}
		qsort(all, (size_t)n, sizeof(*all), by_size);
		judge(&h, START, no_floors);
		assert_true(about(h.p50[HEAT_1M][HEAT_QUERIES], all[(n - 1) / 2]));
		heat_free(&h);
	}
}

/* ---- severities and verdicts ---- */

static void a_severity_goes_up_at_once_and_down_below_eight_tenths(void **state)
{
	static const struct {
		enum heat_severity before;
		double ratio;
		enum heat_severity after;
	} rows[] = {
		{HEAT_OK, 0, HEAT_OK}, {HEAT_OK, 3, HEAT_OK}, {HEAT_OK, 3.01, HEAT_WARN}, {HEAT_OK, 10, HEAT_WARN}, {HEAT_OK, 10.01, HEAT_CRITICAL},
		{HEAT_WARN, 2.4, HEAT_WARN}, {HEAT_WARN, 2.39, HEAT_OK}, {HEAT_WARN, 9, HEAT_WARN}, {HEAT_WARN, 11, HEAT_CRITICAL},
		{HEAT_CRITICAL, 8, HEAT_CRITICAL}, {HEAT_CRITICAL, 7.99, HEAT_WARN}, {HEAT_CRITICAL, 2.5, HEAT_WARN}, {HEAT_CRITICAL, 2.39, HEAT_OK},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(heat_next(rows[i].before, rows[i].ratio), rows[i].after);
}

/* Nine quiet orgs, 60 queries a minute and half a slot each, and "x" that is so many times as busy. */
static void minute_of(struct heat *h, usec_t from, double queries, double slots)
{
	for (int i = 0; i < 9; i++) {
		char id[8];
		snprintf(id, sizeof(id), "q%d", i);
		load_even(h, id, from, from + MINUTE, 60, 0.5);
	}
	load_even(h, "x", from, from + MINUTE, 60 * queries, 0.5 * slots);
}

static void one_measure_alone_makes_nobody_hot_and_two_do(void **state)
{
	struct heat h = {0};

	(void)state;
	minute_of(&h, START, 1, 1);
	judge(&h, START + MINUTE - 1, floors);
	assert_int_equal(n_changed, 0);
	minute_of(&h, START + MINUTE, 50, 1);
	judge(&h, START + 2 * MINUTE - 1, floors);
	const struct heat_org *x = heat_find(&h, "x");
	assert_int_equal(x->severity[HEAT_1M][HEAT_QUERIES], HEAT_CRITICAL);
	assert_false(x->hot);
	assert_int_equal(n_changed, 0);
	minute_of(&h, START + 2 * MINUTE, 50, 5);
	judge(&h, START + 3 * MINUTE - 1, floors);
	assert_int_equal(x->severity[HEAT_1M][HEAT_SLOTS], HEAT_WARN);
	assert_true(x->hot);
	assert_int_equal(x->since, START + 3 * MINUTE - 1);
	assert_int_equal(n_changed, 1);
	assert_string_equal(changed_id, "x");
	for (int i = 0; i < 9; i++) {
		char id[8];
		snprintf(id, sizeof(id), "q%d", i);
		assert_false(heat_find(&h, id)->hot);
		assert_int_equal(heat_find(&h, id)->severity[HEAT_1M][HEAT_QUERIES], HEAT_OK);
	}
	judge(&h, START + 3 * MINUTE, floors);
	assert_int_equal(n_changed, 0); /* it is told once */
	minute_of(&h, START + 3 * MINUTE, 1, 1);
	minute_of(&h, START + 4 * MINUTE, 1, 1);
	judge(&h, START + 5 * MINUTE - 1, floors);
	assert_false(x->hot);
	assert_int_equal(n_changed, 1);
	heat_free(&h);
}

static void storage_and_one_other_measure_make_an_org_hot(void **state)
{
	struct heat h = {0};

	(void)state;
	minute_of(&h, START, 5, 1);
	int report = heat_report_begin(&h, "main");
	for (int i = 0; i < 9; i++) {
		char id[8];
		snprintf(id, sizeof(id), "q%d", i);
		heat_report(&h, report, id, 200e6);
	}
	heat_report(&h, report, "x", 900e6);
	heat_report_end(&h, report);
	judge(&h, START + MINUTE - 1, floors);
	const struct heat_org *x = heat_find(&h, "x");
	assert_true(about(heat_ratio(&h, x, HEAT_1M, HEAT_STORAGE), 4.5));
	assert_true(x->hot);
	heat_free(&h);
}

static void an_org_that_falls_silent_is_hot_no_more(void **state)
{
	struct heat h = {0};

	(void)state;
	minute_of(&h, START, 50, 50);
	judge(&h, START + MINUTE - 1, floors);
	assert_true(heat_find(&h, "x")->hot);
	judge(&h, START + 10 * MINUTE, floors);
	assert_false(heat_find(&h, "x")->hot);
	assert_int_equal(n_changed, 1);
	heat_free(&h);
}

/* ---- storage ---- */

static double stored(struct heat *h, const char *id)
{
	judge(h, START, no_floors);
	return heat_find(h, id)->storage;
}

static void storage_is_the_sum_of_what_clusters_reported_last(void **state)
{
	struct heat h = {0};

	(void)state;
	heat_note(&h, "a", START, 1, 0);
	assert_true(stored(&h, "a") == -1);
	int report = heat_report_begin(&h, "main");
	heat_report(&h, report, "a", 100);
	heat_report(&h, report, "a", 50);
	heat_report(&h, report, "b", 7);
	heat_report_end(&h, report);
	report = heat_report_begin(&h, "second");
	heat_report(&h, report, "a", 1000);
	heat_report_end(&h, report);
	assert_true(stored(&h, "a") == 1150);
	assert_true(stored(&h, "b") == 7);
	report = heat_report_begin(&h, "main"); /* b has moved away */
	heat_report(&h, report, "a", 200);
	heat_report_end(&h, report);
	assert_true(stored(&h, "a") == 1200);
	assert_true(stored(&h, "b") == -1);
	heat_free(&h);
}

/* ---- bounded ---- */

static void an_org_without_traffic_takes_no_rings(void **state)
{
	struct heat h = {0};

	(void)state;
	int report = heat_report_begin(&h, "main");
	heat_report(&h, report, "a", 1);
	heat_report_end(&h, report);
	heat_note(&h, "b", START, 0, 0);
	assert_null(heat_find(&h, "a")->rings);
	assert_null(heat_find(&h, "b"));
	assert_true(sizeof(struct heat_org) <= 512);
	assert_true(HEAT_RINGS * sizeof(struct heat_ring) <= 1700);
	heat_free(&h);
}

static void those_quiet_for_longest_are_forgotten_first(void **state)
{
	struct heat h = {0};

	(void)state;
	for (int i = 0; i < 100; i++) {
		char id[8];
		snprintf(id, sizeof(id), "o%d", i);
		heat_note(&h, id, START + i * SECOND, 1, 0);
		heat_forget(&h, START + i * SECOND, 50);
		assert_true(h.n <= 50);
		assert_non_null(heat_find(&h, id));
	}
	assert_null(heat_find(&h, "o10"));
	judge(&h, START + 100 * SECOND, no_floors);
	heat_forget(&h, START + 32 * DAY, 50);
	assert_int_equal(h.n, 0);
	heat_free(&h);
}

/* ---- the file ---- */

static struct buf saved(const struct heat *h, usec_t now)
{
	struct buf text = {0};
	size_t at = 0;

	heat_save_head(h, now, &text);
	while (heat_save_some(h, &at, 3, &text))
		;
	heat_save_end(at, &text);
	return text;
}

static struct heat a_busy_estate(usec_t *now)
{
	struct heat h = {0};

	load_even(&h, "a", START, START + 2 * DAY, 600, 2);
	load_even(&h, "b.c:d-e_f", START + DAY, START + 2 * DAY, 12, 0.25);
	minute_of(&h, START + 2 * DAY, 50, 50);
	int report = heat_report_begin(&h, "127.0.0.1:5432");
	heat_report(&h, report, "a", 123456789012.0);
	heat_report(&h, report, "cold", 5);
	heat_report_end(&h, report);
	*now = START + 2 * DAY + MINUTE - 1;
	judge(&h, *now, floors);
	return h;
}

static void what_was_saved_is_what_is_loaded(void **state)
{
	usec_t now;
	struct heat h = a_busy_estate(&now), again = {0};
	struct buf text = saved(&h, now);
	const char *why;

	(void)state;
	assert_true(heat_load(&again, now + 5 * SECOND, (const char *)text.p, text.len, &why));
	assert_int_equal(again.n, h.n);
	assert_true(again.began == h.began);
	assert_true(heat_find(&again, "x")->hot);
	assert_true(heat_find(&again, "x")->since == heat_find(&h, "x")->since);
	/* The verdict that stands is no news after a restart. */
	judge(&again, now, floors);
	assert_int_equal(n_changed, 0);
	for (size_t i = 0; i < h.n; i++) {
		const struct heat_org *o = heat_find(&again, h.all[i]->id);
		for (int w = 0; w < HEAT_WINDOWS; w++)
			for (int m = 0; m < HEAT_MEASURES; m++) {
				assert_true(fabs(heat_value(o, w, m) - heat_value(h.all[i], w, m)) <= 1e-5 * (1 + fabs(heat_value(o, w, m))));
				assert_int_equal(o->severity[w][m], h.all[i]->severity[w][m]);
			}
	}
	struct buf twice = saved(&again, now);
	assert_true(twice.len > 0);
	buf_free(&twice);
	buf_free(&text);
	heat_free(&h);
	heat_free(&again);
}

static void a_file_that_was_cut_short_is_refused_whole(void **state)
{
	usec_t now;
	struct heat h = a_busy_estate(&now);
	struct buf text = saved(&h, now);

	(void)state;
	for (size_t len = 0; len < text.len; len += len < 300 ? 1 : 37) {
		struct heat again = {0};
		const char *why;
		char *copy = mem_strn(text.p, len); /* so that reading beyond it is seen */
		assert_false(heat_load(&again, now, copy, len, &why));
		assert_non_null(why);
		assert_int_equal(again.n, 0);
		heat_free(&again);
		mem_free(copy);
	}
	buf_free(&text);
	heat_free(&h);
}

static void a_file_that_is_damaged_does_no_harm(void **state)
{
	usec_t now;
	struct heat h = a_busy_estate(&now);
	struct buf text = saved(&h, now);

	(void)state;
	srandom(815);
	for (int i = 0; i < 3000; i++) {
		struct heat again = {0};
		const char *why;
		size_t at = (size_t)random() % text.len;
		uint8_t before = text.p[at];
		text.p[at] = (uint8_t)random();
		if (heat_load(&again, now, (const char *)text.p, text.len, &why)) {
			judge(&again, now, floors); /* a digit of a number: still sound */
			for (size_t k = 0; k < again.n; k++)
				for (int w = 0; w < HEAT_WINDOWS; w++)
					assert_true(isfinite(heat_value(again.all[k], w, HEAT_QUERIES)));
		}
		heat_free(&again);
		text.p[at] = before;
	}
	buf_free(&text);
	heat_free(&h);
}

static bool loads(const char *text)
{
	struct heat h = {0};
	const char *why;
	bool ok = heat_load(&h, START, text, strlen(text), &why);

	heat_free(&h);
	return ok;
}

static void each_part_of_the_file_is_checked(void **state)
{
#define HEAD "pgweir hot orgs 1\nbegan 1000\n"
#define ORG "org a 1000 0 1000 000000000000\n"
	(void)state;
	assert_true(loads(HEAD "end 0\n"));
	assert_true(loads(HEAD ORG "bucket 0 5 1 500000\nstored 7 main\nend 1\n"));
	assert_false(loads("pgweir hot orgs 2\nbegan 1000\nend 0\n"));
	assert_false(loads(HEAD "end 1\n"));
	assert_false(loads(HEAD "end 0\nend 0\n"));
	assert_false(loads(HEAD "end 0"));
	assert_false(loads(HEAD "bucket 0 5 1 500000\nend 0\n"));
	assert_false(loads(HEAD ORG ORG "end 2\n"));
	assert_false(loads(HEAD "org a'b 1000 0 1000 000000000000\nend 1\n"));
	assert_false(loads(HEAD "org a 1000 2 1000 000000000000\nend 1\n"));
	assert_false(loads(HEAD "org a 1000 0 1000 00000000000\nend 1\n"));
	assert_false(loads(HEAD "org a 1000 0 1000 000000000003\nend 1\n"));
	assert_false(loads(HEAD "org a 99999999999999999 0 1000 000000000000\nend 1\n"));
	assert_false(loads(HEAD ORG "bucket 3 5 1 500000\nend 1\n"));
	assert_false(loads(HEAD ORG "bucket 0 5 1 500000\nbucket 0 5 1 500000\nend 1\n"));
	assert_false(loads(HEAD ORG "bucket 0 5 -1 500000\nend 1\n"));
	assert_false(loads(HEAD ORG "bucket 0 5 nan 500000\nend 1\n"));
	assert_false(loads(HEAD ORG "bucket 0 5 inf 500000\nend 1\n"));
	assert_false(loads(HEAD ORG "bucket 0 5 1e3 500000\nend 1\n"));
	assert_false(loads(HEAD ORG "bucket 0 9223372036854775807 1 500000\nend 1\n"));
	assert_false(loads(HEAD ORG "bucket 0 5 9223372036854775808 500000\nend 1\n"));
	assert_false(loads(HEAD ORG "bucket 0 5 1 0.5\nend 1\n"));
	assert_false(loads(HEAD ORG "stored 7\nend 1\n"));
	assert_false(loads(HEAD ORG "what\nend 1\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_even_load_is_the_same_in_every_window),
		cmocka_unit_test(what_is_older_than_the_window_is_not_in_it),
		cmocka_unit_test(a_young_process_divides_by_its_age_but_not_by_less_than_a_minute),
		cmocka_unit_test(a_long_silence_empties_the_rings),
		cmocka_unit_test(time_that_goes_back_loses_nothing_and_reads_nothing_wrong),
		cmocka_unit_test(the_median_is_that_of_the_orgs_active_in_the_window),
		cmocka_unit_test(of_two_the_median_is_the_lower_one),
		cmocka_unit_test(a_median_below_its_floor_makes_nobody_hot),
		cmocka_unit_test(without_median_and_floor_nothing_is_divided_by_zero),
		cmocka_unit_test(the_median_is_what_sorting_finds),
		cmocka_unit_test(a_severity_goes_up_at_once_and_down_below_eight_tenths),
		cmocka_unit_test(one_measure_alone_makes_nobody_hot_and_two_do),
		cmocka_unit_test(storage_and_one_other_measure_make_an_org_hot),
		cmocka_unit_test(an_org_that_falls_silent_is_hot_no_more),
		cmocka_unit_test(storage_is_the_sum_of_what_clusters_reported_last),
		cmocka_unit_test(an_org_without_traffic_takes_no_rings),
		cmocka_unit_test(those_quiet_for_longest_are_forgotten_first),
		cmocka_unit_test(what_was_saved_is_what_is_loaded),
		cmocka_unit_test(a_file_that_was_cut_short_is_refused_whole),
		cmocka_unit_test(a_file_that_is_damaged_does_no_harm),
		cmocka_unit_test(each_part_of_the_file_is_checked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
