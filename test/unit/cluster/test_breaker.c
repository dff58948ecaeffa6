/* The breaker: its rules one by one, every event in every state, and a walk of a million random events beside a second
 * bookkeeping that knows only what must never happen. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "cluster/breaker.h"

#define SEC USEC_PER_SEC

static const struct breaker_rules rules = {.failures = 3, .probes = 2, .open = 30 * SEC};

static struct breaker in_primary(void)
{
	struct breaker b;

	breaker_init(&b, CLUSTER_PRIMARY, 5, 0);
	return b;
}

static struct breaker in_degraded(void)
{
	struct breaker b = in_primary();

	for (int i = 0; i < 3; i++)
		breaker_login_failed(&b, &rules, 5, 100 * SEC);
	assert_int_equal(b.state, CLUSTER_DEGRADED);
	return b;
}

static struct breaker in_recovering(void)
{
	struct breaker b = in_degraded();

	assert_true(breaker_tick(&b, &rules, 130 * SEC));
	assert_int_equal(b.state, CLUSTER_RECOVERING);
	return b;
}

static struct breaker fenced(void)
{
	struct breaker b = in_primary();

	assert_true(breaker_fence(&b, 100 * SEC));
	return b;
}

static bool probed(struct breaker *b, enum breaker_finding f, usec_t now)
{
	unsigned ticket = breaker_probe_begin(b);

	assert_int_not_equal(ticket, 0);
	return breaker_probe_end(b, &rules, ticket, f, now);
}

/* ---- PRIMARY ---- */

static void the_third_failure_in_a_row_opens_it(void **state)
{
	struct breaker b = in_primary();

	(void)state;
	assert_false(probed(&b, BREAKER_BAD, SEC));
	assert_false(breaker_login_failed(&b, &rules, 5, 2 * SEC));
	assert_int_equal(b.state, CLUSTER_PRIMARY);
	assert_true(probed(&b, BREAKER_BAD, 3 * SEC));
	assert_int_equal(b.state, CLUSTER_DEGRADED);
	assert_int_equal(b.since, 3 * SEC);
	assert_int_equal(b.epoch, 5);
}

static void a_good_probe_resets_the_count(void **state)
{
	struct breaker b = in_primary();

	(void)state;
	for (int round = 0; round < 4; round++) {
		assert_false(breaker_login_failed(&b, &rules, 5, SEC));
		assert_false(breaker_login_failed(&b, &rules, 5, SEC));
		assert_false(probed(&b, BREAKER_GOOD, SEC));
	}
	assert_int_equal(b.state, CLUSTER_PRIMARY);
}

static void a_login_that_worked_resets_the_count(void **state)
{
	struct breaker b = in_primary();

	(void)state;
	for (int round = 0; round < 4; round++) {
		assert_false(probed(&b, BREAKER_BAD, SEC));
		assert_false(probed(&b, BREAKER_BAD, SEC));
		breaker_login_worked(&b, 5);
	}
	assert_int_equal(b.state, CLUSTER_PRIMARY);
}

static void logins_begun_under_another_epoch_count_for_nothing(void **state)
{
	struct breaker b = in_primary();

	(void)state;
	for (int i = 0; i < 10; i++)
		assert_false(breaker_login_failed(&b, &rules, 4, SEC));
	assert_int_equal(b.failures, 0);
	breaker_login_failed(&b, &rules, 5, SEC);
	breaker_login_worked(&b, 4);
	assert_int_equal(b.failures, 1);
}

static void one_failure_is_enough_where_the_rules_say_so(void **state)
{
	const struct breaker_rules strict = {.failures = 1, .probes = 1, .open = 0};
	struct breaker b = in_primary();

	(void)state;
	assert_true(breaker_login_failed(&b, &strict, 5, SEC));
	assert_true(breaker_tick(&b, &strict, SEC));
	assert_false(breaker_probe_end(&b, &strict, breaker_probe_begin(&b), BREAKER_GOOD, SEC));
	assert_true(breaker_is_ready(&b, &strict));
}

static void another_primary_is_not_served_before_two_probes_and_a_cutover(void **state)
{
	struct breaker b = in_primary();

	(void)state;
	assert_true(probed(&b, BREAKER_OTHER, SEC));
	assert_int_equal(b.state, CLUSTER_RECOVERING);
	assert_false(breaker_is_ready(&b, &rules));
	probed(&b, BREAKER_GOOD, 2 * SEC);
	assert_false(breaker_is_ready(&b, &rules));
	probed(&b, BREAKER_GOOD, 3 * SEC);
	assert_true(breaker_is_ready(&b, &rules));
	breaker_cut_over(&b, &rules, 6, 3 * SEC);
	assert_int_equal(b.state, CLUSTER_PRIMARY);
	assert_int_equal(b.epoch, 6);
}

static void a_conflict_opens_it_at_once(void **state)
{
	struct breaker b = in_primary();

	(void)state;
	assert_true(probed(&b, BREAKER_CONFLICT, SEC));
	assert_int_equal(b.state, CLUSTER_DEGRADED);
}

/* ---- DEGRADED ---- */

static void no_probe_is_sent_while_the_window_is_open(void **state)
{
	struct breaker b = in_degraded();

	(void)state;
	assert_int_equal(breaker_probe_begin(&b), 0);
	assert_false(breaker_tick(&b, &rules, 130 * SEC - 1));
	assert_int_equal(breaker_probe_begin(&b), 0);
	assert_true(breaker_tick(&b, &rules, 130 * SEC));
	assert_int_not_equal(breaker_probe_begin(&b), 0);
}

static void a_late_success_does_not_close_it(void **state)
{
	struct breaker b = in_primary();
	unsigned ticket = breaker_probe_begin(&b);

	(void)state;
	for (int i = 0; i < 3; i++)
		breaker_login_failed(&b, &rules, 5, 100 * SEC);
	assert_false(breaker_probe_end(&b, &rules, ticket, BREAKER_GOOD, 101 * SEC));
	breaker_login_worked(&b, 5);
	assert_int_equal(b.state, CLUSTER_DEGRADED);
	breaker_tick(&b, &rules, 130 * SEC);
	assert_false(breaker_probe_end(&b, &rules, ticket, BREAKER_GOOD, 131 * SEC));
	assert_int_equal(b.good, 0);
}

/* ---- RECOVERING ---- */

static void two_good_probes_in_a_row_make_it_ready_and_only_a_new_epoch_closes_it(void **state)
{
	struct breaker b = in_recovering();

	(void)state;
	probed(&b, BREAKER_GOOD, 131 * SEC);
	assert_false(breaker_is_ready(&b, &rules));
	probed(&b, BREAKER_GOOD, 132 * SEC);
	assert_true(breaker_is_ready(&b, &rules));
	assert_int_equal(b.state, CLUSTER_RECOVERING);
	breaker_cut_over(&b, &rules, 6, 133 * SEC);
	assert_int_equal(b.state, CLUSTER_PRIMARY);
	assert_int_equal(b.since, 133 * SEC);
	assert_int_equal(b.failures, 0);
}

static void good_probes_of_two_primaries_are_not_two_of_one(void **state)
{
	struct breaker b = in_recovering();

	(void)state;
	for (int i = 0; i < 10; i++) {
		probed(&b, BREAKER_OTHER, 131 * SEC);
		assert_false(breaker_is_ready(&b, &rules));
	}
	probed(&b, BREAKER_GOOD, 132 * SEC);
	assert_true(breaker_is_ready(&b, &rules));
}

static void a_bad_probe_goes_back_for_a_fresh_window(void **state)
{
	struct breaker b = in_recovering();

	(void)state;
	probed(&b, BREAKER_GOOD, 131 * SEC);
	assert_true(probed(&b, BREAKER_BAD, 132 * SEC));
	assert_int_equal(b.state, CLUSTER_DEGRADED);
	assert_false(breaker_tick(&b, &rules, 162 * SEC - 1));
	assert_true(breaker_tick(&b, &rules, 162 * SEC));
	probed(&b, BREAKER_GOOD, 163 * SEC);
	assert_false(breaker_is_ready(&b, &rules));
}

static void a_bad_probe_after_it_was_ready_takes_that_back(void **state)
{
	struct breaker b = in_recovering();

	(void)state;
	probed(&b, BREAKER_GOOD, 131 * SEC);
	probed(&b, BREAKER_GOOD, 132 * SEC);
	assert_true(probed(&b, BREAKER_BAD, 133 * SEC));
	assert_false(breaker_is_ready(&b, &rules));
}

static void there_is_one_probe_at_a_time(void **state)
{
	struct breaker b = in_recovering();
	unsigned ticket = breaker_probe_begin(&b);

	(void)state;
	assert_int_not_equal(ticket, 0);
	assert_int_equal(breaker_probe_begin(&b), 0);
	breaker_probe_end(&b, &rules, ticket, BREAKER_GOOD, 131 * SEC);
	assert_int_not_equal(breaker_probe_begin(&b), 0);
}

static void an_answer_counts_once(void **state)
{
	struct breaker b = in_recovering();
	unsigned ticket = breaker_probe_begin(&b);

	(void)state;
	for (int i = 0; i < 3; i++)
		breaker_probe_end(&b, &rules, ticket, BREAKER_GOOD, 131 * SEC);
	assert_int_equal(b.good, 1);
}

static void a_probe_that_was_given_up_counts_for_nothing(void **state)
{
	struct breaker b = in_recovering();
	unsigned ticket = breaker_probe_begin(&b);

	(void)state;
	breaker_probe_forget(&b);
	assert_int_not_equal(breaker_probe_begin(&b), ticket);
	assert_false(breaker_probe_end(&b, &rules, ticket, BREAKER_BAD, 131 * SEC));
	assert_int_equal(b.state, CLUSTER_RECOVERING);
}

static void tickets_skip_zero_when_they_run_over(void **state)
{
	struct breaker b = in_recovering();

	(void)state;
	b.last_ticket = UINT32_MAX;
	assert_int_equal(breaker_probe_begin(&b), 1);
}

/* ---- the operator's fence ---- */

static void a_fence_stays_whatever_the_probes_say(void **state)
{
	struct breaker b = fenced();

	(void)state;
	for (int i = 0; i < 20; i++) {
		probed(&b, i % 3 ? BREAKER_GOOD : i % 2 ? BREAKER_BAD : BREAKER_CONFLICT, (101 + i) * SEC);
		assert_int_equal(b.state, CLUSTER_RECOVERING);
		assert_false(breaker_is_ready(&b, &rules));
	}
}

static void an_unfenced_cluster_cuts_over_by_the_probes_that_were_good_last(void **state)
{
	struct breaker b = fenced();

	(void)state;
	probed(&b, BREAKER_GOOD, 101 * SEC);
	breaker_unfence(&b);
	assert_false(breaker_is_ready(&b, &rules));
	probed(&b, BREAKER_GOOD, 102 * SEC);
	assert_true(breaker_is_ready(&b, &rules));

	b = fenced();
	probed(&b, BREAKER_GOOD, 101 * SEC);
	probed(&b, BREAKER_GOOD, 102 * SEC);
	breaker_unfence(&b);
	assert_true(breaker_is_ready(&b, &rules));

	b = fenced();
	probed(&b, BREAKER_GOOD, 101 * SEC);
	probed(&b, BREAKER_GOOD, 102 * SEC);
	probed(&b, BREAKER_BAD, 103 * SEC);
	breaker_unfence(&b);
	assert_false(breaker_is_ready(&b, &rules));
	assert_true(probed(&b, BREAKER_BAD, 104 * SEC)); /* and then the rules hold */
	assert_int_equal(b.state, CLUSTER_DEGRADED);
}

static void starting_over_takes_all_good_probes_back(void **state)
{
	struct breaker b = in_recovering();
	unsigned ticket;

	(void)state;
	probed(&b, BREAKER_GOOD, 131 * SEC);
	probed(&b, BREAKER_GOOD, 132 * SEC);
	ticket = breaker_probe_begin(&b);
	breaker_start_over(&b);
	breaker_probe_end(&b, &rules, ticket, BREAKER_GOOD, 133 * SEC);
	probed(&b, BREAKER_GOOD, 134 * SEC);
	assert_false(breaker_is_ready(&b, &rules));
	probed(&b, BREAKER_GOOD, 135 * SEC);
	assert_true(breaker_is_ready(&b, &rules));
}

static void a_fence_in_the_window_ends_it_for_good(void **state)
{
	struct breaker b = in_degraded();

	(void)state;
	assert_true(breaker_fence(&b, 101 * SEC));
	assert_int_equal(b.state, CLUSTER_RECOVERING);
	assert_false(breaker_fence(&b, 102 * SEC));
	assert_false(breaker_tick(&b, &rules, 1000 * SEC));
	assert_int_equal(b.state, CLUSTER_RECOVERING);
}

/* ---- every event in every state ---- */

enum event { GOOD, OTHER, BAD, CONFLICT, LATE, LOGIN_FAILED, LOGIN_WORKED, TICK_EARLY, TICK_DUE, FENCE, UNFENCE, EVENTS };
enum from { FROM_PRIMARY, FROM_PRIMARY_ONE_LEFT, FROM_DEGRADED, FROM_RECOVERING, FROM_FENCED, FROMS };

static struct breaker from_of(enum from from)
{
	struct breaker b = in_primary();

	switch (from) {
	case FROM_PRIMARY:
		return b;
	case FROM_PRIMARY_ONE_LEFT:
		breaker_login_failed(&b, &rules, 5, 0);
		breaker_login_failed(&b, &rules, 5, 0);
		return b;
	case FROM_DEGRADED:
		return in_degraded();
	case FROM_RECOVERING:
		return in_recovering();
	default:
		return fenced();
	}
}

static bool happen(struct breaker *b, enum event e)
{
	const usec_t now = 200 * SEC;

	switch (e) {
	case GOOD:
		return breaker_probe_end(b, &rules, breaker_probe_begin(b), BREAKER_GOOD, now);
	case OTHER:
		return breaker_probe_end(b, &rules, breaker_probe_begin(b), BREAKER_OTHER, now);
	case BAD:
		return breaker_probe_end(b, &rules, breaker_probe_begin(b), BREAKER_BAD, now);
	case CONFLICT:
		return breaker_probe_end(b, &rules, breaker_probe_begin(b), BREAKER_CONFLICT, now);
	case LATE:
		return breaker_probe_end(b, &rules, 77, BREAKER_OTHER, now);
	case LOGIN_FAILED:
		return breaker_login_failed(b, &rules, 5, now);
	case LOGIN_WORKED:
		breaker_login_worked(b, 5);
		return false;
	case TICK_EARLY:
		return breaker_tick(b, &rules, b->since + 30 * SEC - 1);
	case TICK_DUE:
		return breaker_tick(b, &rules, b->since + 30 * SEC);
	case FENCE:
		return breaker_fence(b, now);
	default:
		breaker_unfence(b);
		return false;
	}
}

static void every_event_in_every_state_leads_where_the_rules_say(void **state)
{
	enum { P = CLUSTER_PRIMARY, D = CLUSTER_DEGRADED, R = CLUSTER_RECOVERING };
	static const int to[FROMS][EVENTS] = {
		/*                          GOOD OTHER     BAD CONFLICT LATE FAILED WORKED EARLY DUE FENCE UNFENCE */
		[FROM_PRIMARY] =          { P,   R,        P,  D,       P,   P,     P,     P,    P,  R,    P },
		[FROM_PRIMARY_ONE_LEFT] = { P,   R,        D,  D,       P,   D,     P,     P,    P,  R,    P },
		[FROM_DEGRADED] =         { D,   D,        D,  D,       D,   D,     D,     D,    R,  R,    D },
		[FROM_RECOVERING] =       { R,   R,        D,  D,       R,   R,     R,     R,    R,  R,    R },
		[FROM_FENCED] =           { R,   R,        R,  R,       R,   R,     R,     R,    R,  R,    R },
	};

	(void)state;
	for (int from = 0; from < FROMS; from++)
		for (int event = 0; event < EVENTS; event++) {
			struct breaker b = from_of((enum from)from);
			enum cluster_state before = b.state;
			bool moved = happen(&b, (enum event)event);

			assert_int_equal(b.state, to[from][event]);
			assert_int_equal(moved, before != b.state);
			assert_int_equal(b.epoch, 5);
		}
}

/* ---- a random walk ---- */

static uint32_t chance(uint32_t below)
{
	static uint64_t seed = 0x9e3779b97f4a7c15u;

	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

/* What must hold, kept by its own count of what was seen: nothing of it is read out of the breaker. */
struct model {
	enum cluster_state state;
	uint64_t epoch;
	usec_t opened_at;
	int good_in_a_row;      /* of one primary, by probes that were sent since RECOVERING began */
	int failures_in_a_row;
	unsigned in_flight;     /* 0: none */
	unsigned stale[4];      /* tickets of probes whose answer is still to come, from before a move */
	unsigned n_stale;
	bool fenced;
	usec_t now;
};

static const bool legal[CLUSTER_STATES][CLUSTER_STATES] = {
	[CLUSTER_PRIMARY] = {false, true, true},
	[CLUSTER_DEGRADED] = {false, false, true},
	[CLUSTER_RECOVERING] = {true, true, false},
};

static void observe(struct model *m, const struct breaker *b)
{
	assert_true(b->epoch >= m->epoch);
	if (b->state == m->state) {
		assert_true(b->epoch == m->epoch);
		return;
	}
	assert_true(legal[m->state][b->state]);
	assert_int_equal(b->epoch > m->epoch, b->state == CLUSTER_PRIMARY);
	if (b->state == CLUSTER_PRIMARY) {
		assert_true(m->good_in_a_row >= rules.probes);
		assert_false(m->fenced);
	}
	if (m->state == CLUSTER_DEGRADED)
		assert_true(m->fenced || m->now - m->opened_at >= rules.open);
	if (m->fenced)
		assert_int_equal(b->state, CLUSTER_RECOVERING);
	if (b->state == CLUSTER_DEGRADED)
		m->opened_at = m->now;
	if (m->in_flight)
		m->stale[m->n_stale++ % 4] = m->in_flight;
	m->in_flight = 0;
	m->good_in_a_row = m->failures_in_a_row = 0;
	m->state = b->state;
	m->epoch = b->epoch;
}

static void walk_send(struct model *m, struct breaker *b)
{
	unsigned ticket = breaker_probe_begin(b);

	if (!ticket)
		return;
	assert_int_equal(m->in_flight, 0);
	assert_int_not_equal(m->state, CLUSTER_DEGRADED);
	m->in_flight = ticket;
}

static void walk_answer(struct model *m, struct breaker *b)
{
	static const enum breaker_finding findings[] = {
		BREAKER_GOOD, BREAKER_GOOD, BREAKER_GOOD, BREAKER_GOOD, BREAKER_GOOD, BREAKER_BAD, BREAKER_BAD, BREAKER_OTHER, BREAKER_CONFLICT,
	};
	bool late = chance(4) == 0;
	unsigned ticket = late ? m->stale[chance(4)] : m->in_flight;
	enum breaker_finding f = findings[chance(9)];
	const struct breaker before = *b;
	bool moved = breaker_probe_end(b, &rules, ticket, f, m->now);

	if (late || !ticket) {
		assert_false(moved);
		assert_memory_equal(&before, b, sizeof(before));
		return;
	}
	m->in_flight = 0;
	if (m->state != CLUSTER_RECOVERING || f != BREAKER_GOOD)
		m->good_in_a_row = 0;
	if (m->state == CLUSTER_RECOVERING)
		m->good_in_a_row += f == BREAKER_GOOD || f == BREAKER_OTHER;
	if (m->state == CLUSTER_PRIMARY) {
		m->failures_in_a_row = f == BREAKER_BAD ? m->failures_in_a_row + 1 : 0;
		if (f == BREAKER_BAD)
			assert_int_equal(moved, m->failures_in_a_row >= rules.failures);
	}
}

static void walk_login(struct model *m, struct breaker *b)
{
	uint64_t epoch = m->epoch - chance(2);
	bool now = epoch == m->epoch && m->state == CLUSTER_PRIMARY;

	if (chance(2)) {
		breaker_login_worked(b, epoch);
		m->failures_in_a_row = now ? 0 : m->failures_in_a_row;
		return;
	}
	bool moved = breaker_login_failed(b, &rules, epoch, m->now);
	m->failures_in_a_row += now;
	assert_int_equal(moved, now && m->failures_in_a_row >= rules.failures);
}

static void walk_fence(struct model *m, struct breaker *b)
{
	if (chance(3)) {
		breaker_unfence(b);
		m->fenced = false;
	} else if (chance(4) == 0) {
		m->fenced = true;
		breaker_fence(b, m->now);
	}
}

static void a_million_random_events_break_no_rule(void **state)
{
	struct model m = {.state = CLUSTER_PRIMARY, .epoch = 1, .now = SEC};
	struct breaker b;
	int visits[CLUSTER_STATES] = {0}, cutovers = 0;

	(void)state;
	breaker_init(&b, CLUSTER_PRIMARY, 1, m.now);
	for (int i = 0; i < 1000 * 1000; i++) {
		m.now += chance(4) ? (usec_t)chance(2 * SEC) : 0;
		switch (chance(8)) {
		case 0:
		case 1:
			walk_send(&m, &b);
			break;
		case 2:
		case 3:
			walk_answer(&m, &b);
			break;
		case 4:
			walk_login(&m, &b);
			break;
		case 5:
			breaker_tick(&b, &rules, m.now);
			break;
		case 6:
			walk_fence(&m, &b);
			break;
		default:
			if (breaker_is_ready(&b, &rules)) {
				breaker_cut_over(&b, &rules, b.epoch + 1, m.now);
				cutovers++;
			}
		}
		if (b.state != m.state)
			visits[b.state]++;
		observe(&m, &b);
	}
	/* The walk was everywhere. */
	for (int s = 0; s < CLUSTER_STATES; s++)
		assert_true(visits[s] > 1000);
	assert_int_equal(b.epoch, 1 + (uint64_t)cutovers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_third_failure_in_a_row_opens_it),
		cmocka_unit_test(a_good_probe_resets_the_count),
		cmocka_unit_test(a_login_that_worked_resets_the_count),
		cmocka_unit_test(logins_begun_under_another_epoch_count_for_nothing),
		cmocka_unit_test(one_failure_is_enough_where_the_rules_say_so),
		cmocka_unit_test(another_primary_is_not_served_before_two_probes_and_a_cutover),
		cmocka_unit_test(a_conflict_opens_it_at_once),
		cmocka_unit_test(no_probe_is_sent_while_the_window_is_open),
		cmocka_unit_test(a_late_success_does_not_close_it),
		cmocka_unit_test(two_good_probes_in_a_row_make_it_ready_and_only_a_new_epoch_closes_it),
		cmocka_unit_test(good_probes_of_two_primaries_are_not_two_of_one),
		cmocka_unit_test(a_bad_probe_goes_back_for_a_fresh_window),
		cmocka_unit_test(a_bad_probe_after_it_was_ready_takes_that_back),
		cmocka_unit_test(there_is_one_probe_at_a_time),
		cmocka_unit_test(an_answer_counts_once),
		cmocka_unit_test(a_probe_that_was_given_up_counts_for_nothing),
		cmocka_unit_test(tickets_skip_zero_when_they_run_over),
		cmocka_unit_test(a_fence_stays_whatever_the_probes_say),
		cmocka_unit_test(an_unfenced_cluster_cuts_over_by_the_probes_that_were_good_last),
		cmocka_unit_test(starting_over_takes_all_good_probes_back),
		cmocka_unit_test(a_fence_in_the_window_ends_it_for_good),
		cmocka_unit_test(every_event_in_every_state_leads_where_the_rules_say),
		cmocka_unit_test(a_million_random_events_break_no_rule),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
