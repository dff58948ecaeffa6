/* The fair queue against models of orgs that want servers: shares, ranks, idleness, waits. Time is a number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "pool/sfq.h"

#define MSEC USEC_PER_MSEC
#define SEC USEC_PER_SEC

/* ---- a model: orgs with as many clients as they like, who share slots ---- */

#define ORGS_MOST 5000
#define SLOTS_MOST 100

struct org {
	struct sfq_unit unit;
	double weight;
	int clients;   /* that want a slot all the time */
	int waiting;
	usec_t think;  /* between two transactions of a client */
	usec_t (*takes)(struct org *o);
	int turn;      /* for takes */
	int index;
	usec_t used;   /* slot time, by the model's own reckoning */
	usec_t longest_wait;
	usec_t waits_since[64]; /* ring of the waiting clients' */
	int wait_first;
};

struct slot {
	struct org *org; /* NULL: free */
	usec_t begun, ends;
};

/* A client that thinks comes back. */
struct comeback {
	struct org *org;
	usec_t at;
};

struct model {
	struct sfq q;
	struct org orgs[ORGS_MOST];
	int n_orgs;
	struct slot slots[SLOTS_MOST];
	int n_slots;
	struct comeback thinking[1000];
	int n_thinking;
	usec_t now, max_wait;
	uint64_t dice;
};

static struct model m;

static double roll(void)
{
	m.dice = m.dice * 6364136223846793005u + 1442695040888963407u;
	return (double)(m.dice >> 11) / (double)(1ull << 53);
}

static enum sfq_fit everything_fits(struct sfq_unit *u, void *arg)
{
	(void)u;
	(void)arg;
	return SFQ_TAKE;
}

static struct org *org_of(struct sfq_unit *u)
{
	return owner_of(u, struct org, unit);
}

static void comes_to_wait(struct org *o)
{
	o->waits_since[(o->wait_first + o->waiting) % 64] = m.now;
	if (o->waiting++ == 0)
		sfq_enter(&m.q, &o->unit, m.now, m.now);
}

static void gets(struct slot *s, struct org *o)
{
	usec_t waited = m.now - o->waits_since[o->wait_first];

	o->longest_wait = waited > o->longest_wait ? waited : o->longest_wait;
	o->wait_first = (o->wait_first + 1) % 64;
	sfq_advance(&m.q, &o->unit, m.now);
	if (--o->waiting == 0)
		sfq_leave(&o->unit);
	else
		sfq_wait_moved(&o->unit, o->waits_since[o->wait_first]);
	sfq_begin(&o->unit, m.now);
	*s = (struct slot){o, m.now, m.now + o->takes(o)};
}

static void is_over(struct slot *s)
{
	struct org *o = s->org;

	sfq_end(&o->unit, s->begun, m.now);
	o->used += m.now - s->begun;
	s->org = NULL;
	if (o->think)
		m.thinking[m.n_thinking++] = (struct comeback){o, m.now + o->think};
	else
		comes_to_wait(o);
}

static struct slot *next_to_end(void)
{
	struct slot *first = NULL;

	for (int i = 0; i < m.n_slots; i++)
		if (m.slots[i].org && (!first || m.slots[i].ends < first->ends))
			first = &m.slots[i];
	return first;
}

static void fill_free_slots(void)
{
	for (int i = 0; i < m.n_slots; i++) {
		if (m.slots[i].org)
			continue;
		struct sfq_unit *u = sfq_pick(&m.q, m.now, m.max_wait, everything_fits, NULL);
		if (!u)
			return;
		gets(&m.slots[i], org_of(u));
	}
}

static int next_to_come(void)
{
	int first = -1;

	for (int i = 0; i < m.n_thinking; i++)
		if (first < 0 || m.thinking[i].at < m.thinking[first].at)
			first = i;
	return first;
}

static void model_run(usec_t until)
{
	fill_free_slots();
	for (;;) {
		struct slot *s = next_to_end();
		int come = next_to_come();
		usec_t ends = s ? s->ends : INT64_MAX, comes = come >= 0 ? m.thinking[come].at : INT64_MAX;
		if ((ends < comes ? ends : comes) > until)
			break;
		if (ends < comes) {
			m.now = ends;
			is_over(s);
		} else {
			m.now = comes;
			comes_to_wait(m.thinking[come].org);
			m.thinking[come] = m.thinking[--m.n_thinking];
		}
		fill_free_slots();
	}
	m.now = until;
}

static usec_t takes_one_msec(struct org *o)
{
	(void)o;
	return MSEC;
}

static void model_new(int n_slots)
{
	memset(&m, 0, sizeof(m));
	sfq_init(&m.q);
	m.n_slots = n_slots;
	m.now = 1000 * SEC;
	m.dice = 42;
}

static struct org *model_org(double weight, enum sfq_rank rank, int clients, usec_t (*takes)(struct org *))
{
	struct org *o = &m.orgs[m.n_orgs];

	*o = (struct org){.weight = weight, .clients = clients, .takes = takes, .index = m.n_orgs++};
	sfq_unit_init(&o->unit);
	sfq_unit_tune(&o->unit, weight, rank, m.now);
	for (int i = 0; i < clients; i++)
		comes_to_wait(o);
	return o;
}

/* Slot time, that of uses not over yet included. */
static usec_t slot_time(const struct org *o)
{
	usec_t used = o->used;

	for (int i = 0; i < m.n_slots; i++)
		if (m.slots[i].org == o)
			used += m.now - m.slots[i].begun;
	return used;
}

static void model_end(void)
{
	for (int i = 0; i < m.n_orgs; i++)
		if (sfq_waits(&m.orgs[i].unit))
			sfq_leave(&m.orgs[i].unit);
	sfq_free(&m.q);
}

/* ---- shares ---- */

static usec_t takes_random(struct org *o)
{
	(void)o;
	return (usec_t)(-log(1 - roll()) * 5000) + 1;
}

static usec_t takes_by_org(struct org *o) /* some orgs' transactions are a hundred times as long as others' */
{
	return (usec_t)(roll() * (o->index % 3 == 0 ? 100000 : 1000)) + 1;
}

static usec_t takes_heavy_tailed(struct org *o)
{
	(void)o;
	double t = 1000 / pow(1 - roll(), 0.8);
	return t < 500000 ? (usec_t)t : 500000;
}

static usec_t takes_bursts(struct org *o) /* short ones until it is taken for small, then a long one */
{
	return o->turn++ % 200 == 199 ? 500 * MSEC : 200;
}

static usec_t takes_when_ahead(struct org *o) /* long ones exactly while it stands in front of the others */
{
	return o->unit.used <= m.q.ranks[o->unit.rank].vtime ? 300 * MSEC : MSEC;
}

static usec_t takes_against_the_light(struct org *o) /* the light orgs are the slow ones */
{
	return (usec_t)(roll() * 200000 / o->weight) + 1;
}

static void shares_are_within_3_percent(usec_t (*takes)(struct org *), int seconds)
{
	double weights = 0;

	model_new(20);
	for (int i = 0; i < 24; i++) {
		model_org(1 + i % 8, SFQ_NORMAL, 8, takes);
		weights += 1 + i % 8;
	}
	usec_t began = m.now;
	model_run(began + seconds * SEC);
	for (int i = 0; i < 24; i++) {
		double due = 20.0 * seconds * SEC * m.orgs[i].weight / weights;
		double off = (double)slot_time(&m.orgs[i]) / due - 1;
		if (fabs(off) > 0.03)
			fail_msg("org %d of weight %g is %.1f %% off its share", i, m.orgs[i].weight, off * 100);
	}
	model_end();
}

static void backlogged_orgs_get_their_weighted_shares_whatever_their_transactions_take(void **state)
{
	(void)state;
	shares_are_within_3_percent(takes_one_msec, 30);
	shares_are_within_3_percent(takes_random, 100);
	shares_are_within_3_percent(takes_by_org, 300);
	shares_are_within_3_percent(takes_heavy_tailed, 300);
	shares_are_within_3_percent(takes_against_the_light, 600);
}

static void an_org_gains_nothing_by_choosing_when_its_transactions_are_long(void **state)
{
	(void)state;
	shares_are_within_3_percent(takes_bursts, 600);
	shares_are_within_3_percent(takes_when_ahead, 1000);
}

static usec_t takes_about_half_a_second(struct org *o)
{
	(void)o;
	return 400 * MSEC + (usec_t)(roll() * 100000);
}

static usec_t takes_half_a_second(struct org *o)
{
	(void)o;
	return 500 * MSEC;
}

/* A use counts while it goes on: else the slow one would take slot after slot until its first is over. */
static void long_transactions_do_not_take_slot_after_slot(void **state)
{
	(void)state;
	model_new(20);
	struct org *slow = model_org(1, SFQ_NORMAL, 30, takes_half_a_second);
	for (int i = 0; i < 9; i++)
		model_org(1, SFQ_NORMAL, 8, takes_one_msec);
	usec_t began = m.now;
	for (usec_t t = 0; t < 450 * MSEC; t += 10 * MSEC) {
		model_run(began + t);
		assert_true(slot_time(slow) <= t * 2 + 200 * MSEC); /* two slots are its due, ten transactions may begin at once */
	}
	model_end();
}

static void a_new_weight_is_in_force_at_once(void **state)
{
	(void)state;
	model_new(4);
	struct org *a = model_org(1, SFQ_NORMAL, 8, takes_one_msec), *b = model_org(1, SFQ_NORMAL, 8, takes_one_msec);
	model_run(m.now + 10 * SEC);
	assert_true(fabs((double)slot_time(a) / (double)slot_time(b) - 1) < 0.01);
	usec_t of_a = slot_time(a), of_b = slot_time(b);
	sfq_unit_tune(&a->unit, 3, SFQ_NORMAL, m.now);
	model_run(m.now + 10 * SEC);
	assert_true(fabs((double)(slot_time(a) - of_a) / (double)(slot_time(b) - of_b) - 3) < 0.05);
	model_end();
}

/* ---- idleness ---- */

static void an_org_that_was_idle_has_no_credit(void **state)
{
	(void)state;
	model_new(4);
	struct org *busy = model_org(1, SFQ_NORMAL, 8, takes_one_msec);
	model_run(m.now + 100 * SEC);
	usec_t before = slot_time(busy);
	struct org *back = model_org(1, SFQ_NORMAL, 8, takes_one_msec);
	model_run(m.now + 2 * SEC);
	assert_true(fabs((double)slot_time(back) / (double)(slot_time(busy) - before) - 1) < 0.02);
	model_end();
}

/* What it used while nobody else wanted it is not held against it. */
static void an_org_that_was_alone_is_not_shut_out_when_others_come(void **state)
{
	(void)state;
	model_new(4);
	struct org *alone = model_org(1, SFQ_NORMAL, 4, takes_one_msec);
	alone->think = 1; /* it never waits */
	model_run(m.now + 1000 * SEC);
	usec_t before = slot_time(alone);
	struct org *other = model_org(1, SFQ_NORMAL, 8, takes_one_msec);
	alone->think = 0;
	model_run(m.now + 2 * SEC);
	assert_true(fabs((double)slot_time(other) / (double)(slot_time(alone) - before) - 1) < 0.05);
	model_end();
}

static void a_quiet_org_is_served_when_the_next_slot_comes_free(void **state)
{
	(void)state;
	model_new(4);
	for (int i = 0; i < 20; i++)
		model_org(1, SFQ_NORMAL, 20, takes_about_half_a_second);
	model_run(m.now + 10 * SEC);
	struct org *quiet = model_org(1, SFQ_NORMAL, 1, takes_one_msec);
	quiet->think = 700 * MSEC;
	model_run(m.now + 100 * SEC);
	assert_true(quiet->longest_wait <= 500 * MSEC);
	model_end();
}

/* One endless transaction does not shut its org out for as long again: what it owes is forgotten beyond a minute. */
static void debt_is_bounded(void **state)
{
	struct sfq_unit a, b;
	struct sfq q;
	usec_t now = SEC;

	(void)state;
	sfq_init(&q);
	sfq_unit_init(&a);
	sfq_unit_init(&b);
	sfq_begin(&a, now);
	sfq_end(&a, now, now + 3600 * SEC);
	now += 3600 * SEC;
	sfq_enter(&q, &a, now, now);
	sfq_enter(&q, &b, now, now);
	int of_b = 0;
	while (sfq_pick(&q, now, 0, everything_fits, NULL) == &b) {
		sfq_begin(&b, now);
		now += SEC;
		sfq_end(&b, now - SEC, now);
		of_b++;
	}
	assert_in_range(of_b, 60, 61);
	sfq_leave(&a);
	sfq_leave(&b);
	sfq_free(&q);
}

/* ---- ranks ---- */

static void a_lower_rank_is_served_when_no_higher_one_waits(void **state)
{
	(void)state;
	model_new(4);
	struct org *high = model_org(1, SFQ_HIGH, 8, takes_one_msec);
	struct org *normal = model_org(8, SFQ_NORMAL, 8, takes_one_msec);
	struct org *low = model_org(8, SFQ_LOW, 8, takes_one_msec);
	model_run(m.now + 10 * SEC);
	assert_int_equal(slot_time(normal) + slot_time(low), 0);
	high->think = 10 * MSEC; /* now it leaves most of the time to others */
	model_run(m.now + 10 * SEC);
	assert_true(slot_time(normal) > 20 * SEC);
	assert_int_equal(slot_time(low), 0);
	assert_true(high->longest_wait <= MSEC + 1);
	model_end();
}

static void nobody_waits_longer_than_max_wait_behind_a_higher_rank(void **state)
{
	(void)state;
	model_new(4);
	m.max_wait = SEC;
	struct org *high = model_org(1, SFQ_HIGH, 30, takes_random);
	struct org *normal = model_org(1, SFQ_NORMAL, 10, takes_random);
	struct org *low[5];
	for (int i = 0; i < 5; i++)
		low[i] = model_org(1, SFQ_LOW, 4, takes_random);
	usec_t began = m.now;
	model_run(began + 100 * SEC);
	/* All thirty of the lower ranks have waited too long at one moment: they get every second slot, one each 2.5 ms. */
	assert_true(normal->longest_wait <= SEC + 150 * MSEC);
	for (int i = 0; i < 5; i++)
		assert_true(low[i]->longest_wait <= SEC + 150 * MSEC);
	assert_true(slot_time(high) > 100 * 4 * SEC * 9 / 10);
	model_end();
}

/* More waits too long than there are slots for: the higher rank still gets every second one. */
static void a_flood_of_a_lower_rank_does_not_shut_the_higher_one_out(void **state)
{
	(void)state;
	model_new(4);
	m.max_wait = SEC;
	for (int i = 0; i < 50; i++)
		model_org(1, SFQ_LOW, 60, takes_random);
	model_run(m.now + 20 * SEC);
	struct org *high = model_org(1, SFQ_HIGH, 30, takes_random);
	model_run(m.now + 20 * SEC);
	assert_true(slot_time(high) > 20 * 4 * SEC * 45 / 100);
	model_end();
}

static void within_a_rank_shares_are_weighted_too(void **state)
{
	(void)state;
	model_new(8);
	struct org *high = model_org(1, SFQ_HIGH, 4, takes_random);
	struct org *light = model_org(1, SFQ_LOW, 20, takes_random), *heavy = model_org(3, SFQ_LOW, 20, takes_random);
	model_run(m.now + 100 * SEC);
	assert_true(fabs((double)slot_time(heavy) / (double)slot_time(light) - 3) < 0.1);
	assert_true(slot_time(high) > 0);
	model_end();
}

static void a_unit_that_changes_rank_waits_on_in_the_new_one(void **state)
{
	struct sfq_unit a, b;
	struct sfq q;

	(void)state;
	sfq_init(&q);
	sfq_unit_init(&a);
	sfq_unit_init(&b);
	sfq_enter(&q, &a, 1, 10);
	sfq_enter(&q, &b, 2, 10);
	sfq_unit_tune(&b, 1, SFQ_HIGH, 10);
	assert_ptr_equal(sfq_pick(&q, 10, 0, everything_fits, NULL), &b);
	assert_int_equal(b.since, 2);
	assert_int_equal(sfq_oldest(&q), 1);
	sfq_leave(&a);
	assert_int_equal(sfq_oldest(&q), 2);
	sfq_leave(&b);
	assert_true(sfq_is_empty(&q));
	sfq_free(&q);
}

/* ---- who fits ---- */

struct fitting {
	const struct sfq_unit *pass, *drop;
	int asked;
};

static enum sfq_fit fits(struct sfq_unit *u, void *arg)
{
	struct fitting *f = arg;

	f->asked++;
	if (u == f->drop)
		return SFQ_DROP;
	return u == f->pass ? SFQ_PASS : SFQ_TAKE;
}

static void who_is_passed_over_keeps_its_place_and_who_is_dropped_is_out(void **state)
{
	struct sfq_unit units[3];
	struct fitting f = {&units[0], &units[1], 0};
	struct sfq q;

	(void)state;
	sfq_init(&q);
	for (int i = 0; i < 3; i++) {
		sfq_unit_init(&units[i]);
		units[i].used = i;
		sfq_enter(&q, &units[i], 1, 10);
	}
	assert_ptr_equal(sfq_pick(&q, 10, 0, fits, &f), &units[2]);
	assert_true(sfq_waits(&units[0]));
	assert_false(sfq_waits(&units[1]));
	assert_ptr_equal(sfq_pick(&q, 10, 0, everything_fits, NULL), &units[0]);
	sfq_leave(&units[2]);
	assert_null(sfq_pick(&q, 10, 0, fits, &f));
	sfq_leave(&units[0]);
	assert_null(sfq_pick(&q, 10, 0, everything_fits, NULL));
	sfq_free(&q);
}

/* A slot that only one could use does not move the time for the others: who comes anew does not stand behind them. */
static void time_does_not_run_away_with_one_that_only_itself_can_help(void **state)
{
	struct sfq_unit waits, runs, comes;
	struct sfq q;

	(void)state;
	sfq_init(&q);
	sfq_unit_init(&waits);
	sfq_unit_init(&runs);
	sfq_unit_init(&comes);
	sfq_enter(&q, &waits, 1, 10);
	for (usec_t now = 10; now < 1000 * SEC; now += SEC) {
		sfq_advance(&q, &runs, now);
		sfq_begin(&runs, now);
		sfq_end(&runs, now, now + SEC);
	}
	assert_true(sfq_tag_in(&q, &comes, 1000 * SEC) <= sfq_tag(&waits, 1000 * SEC));
	sfq_leave(&waits);
	sfq_free(&q);
}

/* ---- what it costs ---- */

static void a_pick_among_thousands_looks_at_a_few(void **state)
{
	struct fitting f = {0};

	(void)state;
	model_new(80);
	for (int i = 0; i < ORGS_MOST; i++)
		model_org(1 + i % 8, SFQ_NORMAL, 1, takes_random);
	model_run(m.now + SEC);
	for (int i = 0; i < 1000; i++) {
		f.asked = 0;
		struct sfq_unit *u = sfq_pick(&m.q, m.now, 0, fits, &f);
		assert_non_null(u);
		assert_int_equal(f.asked, 1);
		sfq_begin(u, m.now);
	}
	model_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(backlogged_orgs_get_their_weighted_shares_whatever_their_transactions_take),
		cmocka_unit_test(an_org_gains_nothing_by_choosing_when_its_transactions_are_long),
		cmocka_unit_test(long_transactions_do_not_take_slot_after_slot),
		cmocka_unit_test(a_new_weight_is_in_force_at_once),
		cmocka_unit_test(an_org_that_was_idle_has_no_credit),
		cmocka_unit_test(an_org_that_was_alone_is_not_shut_out_when_others_come),
		cmocka_unit_test(a_quiet_org_is_served_when_the_next_slot_comes_free),
		cmocka_unit_test(debt_is_bounded),
		cmocka_unit_test(a_lower_rank_is_served_when_no_higher_one_waits),
		cmocka_unit_test(nobody_waits_longer_than_max_wait_behind_a_higher_rank),
		cmocka_unit_test(a_flood_of_a_lower_rank_does_not_shut_the_higher_one_out),
		cmocka_unit_test(within_a_rank_shares_are_weighted_too),
		cmocka_unit_test(a_unit_that_changes_rank_waits_on_in_the_new_one),
		cmocka_unit_test(who_is_passed_over_keeps_its_place_and_who_is_dropped_is_out),
		cmocka_unit_test(time_does_not_run_away_with_one_that_only_itself_can_help),
		cmocka_unit_test(a_pick_among_thousands_looks_at_a_few),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
