/* What an instance asks the control store and makes of its word: rules one by one, and a walk of three nodes over a store that is modelled after
 * etc/sql/control-store (clusters.sql, nodes.sql), with answers that are slow, lost or come after a restart. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "cluster/agree.h"

#define SEC USEC_PER_SEC
#define LEASE (5 * SEC)

static const struct breaker_rules rules = {.failures = 1, .probes = 2, .open = 2 * SEC};

/* ---- rules ---- */

static struct breaker breaker_in(enum cluster_state s, uint64_t epoch)
{
	struct breaker b;

	breaker_init(&b, s, epoch, 0);
	return b;
}

static enum agree_step hear(struct agree *a, const struct breaker *b, uint64_t epoch, enum cluster_state s)
{
	return agree_hear(a, b, &(struct standing){epoch, s, false});
}

static void nothing_is_written_before_the_store_is_heard(void **state)
{
	struct breaker b = breaker_in(CLUSTER_PRIMARY, 5);
	struct agree a = {0};

	(void)state;
	assert_false(agree_may_write(&a, &b, 1));
	assert_string_equal(agree_report(&a, &b).state, "NONE");
	assert_int_equal(agree_report(&a, &b).epoch, 0);
	a.lease_until = LEASE;
	assert_int_equal(hear(&a, &b, 5, CLUSTER_PRIMARY), AGREE_STAY);
	assert_true(agree_may_write(&a, &b, LEASE - 1));
	assert_false(agree_may_write(&a, &b, LEASE));
}

static void a_lease_that_is_over_is_not_told(void **state)
{
	struct breaker b = breaker_in(CLUSTER_PRIMARY, 5);
	struct agree a = {.lease_until = 1};

	(void)state;
	hear(&a, &b, 5, CLUSTER_PRIMARY);
	assert_false(agree_may_write(&a, &b, 2));
	assert_string_equal(agree_report(&a, &b).state, "PRIMARY");
	assert_int_equal(agree_next(&a, &b, &rules, 2), CALL_NONE);
}

static void a_store_that_knows_less_is_told_our_epoch_and_nothing_is_written(void **state)
{
	struct breaker b = breaker_in(CLUSTER_PRIMARY, 7);
	struct agree a = {.lease_until = LEASE};

	(void)state;
	assert_int_equal(hear(&a, &b, 5, CLUSTER_PRIMARY), AGREE_AHEAD);
	assert_false(agree_may_write(&a, &b, 1));
	assert_int_equal(agree_report(&a, &b).epoch, 7);
	assert_string_equal(agree_report(&a, &b).state, "RECOVERING");
}

static void primary_does_not_come_back_within_an_epoch(void **state)
{
	struct breaker b = breaker_in(CLUSTER_RECOVERING, 5);
	struct agree a = {.lease_until = LEASE};

	(void)state;
	assert_int_equal(hear(&a, &b, 5, CLUSTER_PRIMARY), AGREE_STAY);
	assert_false(agree_may_write(&a, &b, 1));
	assert_int_equal(agree_next(&a, &b, &rules, 1), CALL_OPEN);
	assert_int_equal(a.failed, CLUSTER_PRIMARY);
	assert_int_equal(agree_answered(&a, &b, CALL_OPEN, "", &(struct standing){5, CLUSTER_DEGRADED, false}, 1), AGREE_STAY);
	assert_int_equal(agree_next(&a, &b, &rules, 1), CALL_RECOVER);
	assert_int_equal(agree_answered(&a, &b, CALL_RECOVER, "", &(struct standing){5, CLUSTER_RECOVERING, false}, 1), AGREE_STAY);
	assert_int_equal(agree_next(&a, &b, &rules, 1), CALL_NONE); /* the probes come first */
	b.good = 2;
	assert_int_equal(agree_next(&a, &b, &rules, 1), CALL_CUTOVER);
	assert_int_equal(agree_answered(&a, &b, CALL_CUTOVER, "undrained", &(struct standing){5, CLUSTER_RECOVERING, false}, 1), AGREE_STAY);
	assert_int_equal(agree_next(&a, &b, &rules, 1), CALL_NONE);
	assert_int_equal(agree_next(&a, &b, &rules, 1 + SEC), CALL_CUTOVER);
	assert_int_equal(agree_answered(&a, &b, CALL_CUTOVER, "", &(struct standing){6, CLUSTER_PRIMARY, false}, 1 + SEC), AGREE_BEGIN);
}

static void a_fence_that_the_store_does_not_know_yet_outlives_its_next_epoch(void **state)
{
	struct breaker b = breaker_in(CLUSTER_RECOVERING, 5);
	struct agree a = {0};

	(void)state;
	hear(&a, &b, 5, CLUSTER_RECOVERING);
	breaker_fence(&b, 1);
	agree_moved(&a, &b, CLUSTER_RECOVERING);
	assert_int_equal(hear(&a, &b, 6, CLUSTER_PRIMARY), AGREE_HOLD);
	breaker_adopt(&b, CLUSTER_RECOVERING, 6, true, 2);
	assert_int_equal(agree_next(&a, &b, &rules, 2), CALL_FENCE);
}

static void a_fence_that_was_left_standing_is_told_after_a_restart(void **state)
{
	struct breaker b = breaker_in(CLUSTER_RECOVERING, 5);
	struct agree a = {0};

	(void)state;
	b.fenced = true;
	assert_int_equal(hear(&a, &b, 5, CLUSTER_RECOVERING), AGREE_STAY);
	assert_int_equal(agree_next(&a, &b, &rules, 0), CALL_FENCE);
}

static void the_word_of_another_instance_is_adopted(void **state)
{
	struct breaker b = breaker_in(CLUSTER_PRIMARY, 5);
	struct agree a = {.lease_until = LEASE};

	(void)state;
	hear(&a, &b, 5, CLUSTER_PRIMARY);
	assert_int_equal(hear(&a, &b, 5, CLUSTER_DEGRADED), AGREE_FENCE);
	assert_false(agree_may_write(&a, &b, 1)); /* even before the breaker has moved */
	assert_int_equal(hear(&a, &b, 6, CLUSTER_PRIMARY), AGREE_BEGIN);
	assert_false(agree_may_write(&a, &b, 1));
}

/* ---- the walk ---- */

#define NODES 3

struct model_store {
	struct standing now;
	struct standing seen[NODES]; /* cursors; epoch 0: none told */
	usec_t until[NODES];         /* leases, by a run's slot */
	bool known[NODES];
	uint64_t last_primary;
};

struct model_call {
	bool flying, answered, poll;
	enum agree_call call;
	uint64_t epoch;
	enum cluster_state failed;
	struct standing_told told;
	usec_t sent;
	const char *reason;
	struct standing answer;
};

struct model_node {
	struct breaker b;
	struct agree a;
	struct model_call out;
	usec_t cut_until;    /* nothing passes between it and the store */
	uint64_t left_epoch; /* the highest epoch in which it was seen in another state than PRIMARY */
};

static uint64_t seed;

static unsigned roll(unsigned limit)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % limit;
}

static bool is_unseen(const struct model_store *s, usec_t now)
{
	for (int i = 0; i < NODES; i++)
		if (s->known[i] && s->until[i] > now && !(s->seen[i].epoch == s->now.epoch && s->seen[i].state != CLUSTER_PRIMARY))
			return true;
	return false;
}

static void store_polled(struct model_store *s, int node, const struct model_call *c, usec_t now)
{
	struct standing told = {.epoch = c->told.epoch, .state = CLUSTER_PRIMARY}; /* NONE counts as what is worst */
	bool none = !standing_find(c->told.state, &told.state);

	s->known[node] = true;
	s->until[node] = now + LEASE;
	if (told.epoch > s->now.epoch || (told.epoch == s->now.epoch && s->now.state == CLUSTER_PRIMARY && (none || told.state != CLUSTER_PRIMARY)))
		s->now = (struct standing){told.epoch, CLUSTER_RECOVERING, s->now.held};
	s->seen[node] = told;
}

static const char *store_called(struct model_store *s, const struct model_call *c, usec_t now)
{
	if (c->call == CALL_FENCE) {
		s->now.state = CLUSTER_RECOVERING;
		s->now.held = true;
		return "";
	}
	if (c->epoch != s->now.epoch)
		return "epoch";
	switch (c->call) {
	case CALL_OPEN:
		if (s->now.state != c->failed)
			return "state";
		if (s->now.held)
			return "held";
		s->now.state = CLUSTER_DEGRADED;
		return "";
	case CALL_RECOVER:
		if (s->now.state != CLUSTER_DEGRADED)
			return "state";
		s->now.state = CLUSTER_RECOVERING;
		return "";
	case CALL_CUTOVER:
	case CALL_UNFENCE:
	case CALL_UNFENCE_FORCE:
		if (s->now.state != CLUSTER_RECOVERING)
			return "state";
		if (s->now.held && c->call == CALL_CUTOVER)
			return "held";
		if (roll(4) == 0)
			return "undrained";
		if (is_unseen(s, now))
			return "unseen";
		s->now = (struct standing){s->now.epoch + 1, CLUSTER_PRIMARY, false};
		return "";
	default:
		fail();
		return "";
	}
}

static void node_do(struct model_node *n, enum agree_step step, usec_t now)
{
	const struct standing *s = &n->a.told;

	switch (step) {
	case AGREE_STAY:
		return;
	case AGREE_FENCE:
		breaker_adopt(&n->b, s->state, s->epoch, s->held, now);
		return;
	case AGREE_BEGIN:
		if (roll(20) == 0)
			return; /* the disk fails */
		breaker_adopt(&n->b, CLUSTER_PRIMARY, s->epoch, false, now);
		return;
	case AGREE_HOLD:
		breaker_adopt(&n->b, CLUSTER_RECOVERING, s->epoch, true, now);
		return;
	case AGREE_AHEAD:
		if (n->b.state == CLUSTER_PRIMARY)
			breaker_adopt(&n->b, CLUSTER_RECOVERING, n->b.epoch, false, now);
		return;
	}
}

static void node_answer(struct model_node *n, usec_t now)
{
	struct model_call c = n->out;

	n->out = (struct model_call){0};
	if (!c.poll)
		node_do(n, agree_answered(&n->a, &n->b, c.call, c.reason, &c.answer, now), now);
	else {
		if (c.sent + LEASE > n->a.lease_until)
			n->a.lease_until = c.sent + LEASE;
		node_do(n, agree_hear(&n->a, &n->b, &c.answer), now);
	}
}

static void node_send(struct model_node *n, usec_t now)
{
	enum agree_call call = roll(2) ? CALL_NONE : agree_next(&n->a, &n->b, &rules, now);

	n->out = (struct model_call){.flying = true, .poll = call == CALL_NONE, .call = call, .epoch = n->b.epoch, .failed = n->a.failed,
				     .told = agree_report(&n->a, &n->b), .sent = now};
}

/* A new run: what the disk keeps is kept, and it speaks under another name. The old one's lease stays at the store. */
static void node_restart(struct model_node *n)
{
	bool primary = n->b.state == CLUSTER_PRIMARY, fenced = n->b.fenced;
	uint64_t epoch = n->b.epoch;

	n->a = (struct agree){0};
	n->out = (struct model_call){0};
	breaker_init(&n->b, primary ? CLUSTER_PRIMARY : CLUSTER_RECOVERING, epoch, 0);
	n->b.fenced = fenced;
}

static void node_event(struct model_node *n, usec_t now)
{
	enum cluster_state before = n->b.state;

	switch (roll(40)) {
	case 0:
		if (breaker_login_failed(&n->b, &rules, n->b.epoch, now))
			agree_moved(&n->a, &n->b, before);
		return;
	case 1:
		if (roll(4) == 0) {
			breaker_fence(&n->b, now);
			agree_moved(&n->a, &n->b, before);
		}
		return;
	case 2:
		if ((n->b.fenced || n->a.told.held) && n->a.want == CALL_NONE)
			n->a.want = CALL_UNFENCE;
		return;
	case 3:
		if (roll(10) == 0)
			node_restart(n);
		return;
	default:
		break;
	}
	if (breaker_tick(&n->b, &rules, now))
		agree_moved(&n->a, &n->b, before);
	else if (breaker_probe_end(&n->b, &rules, breaker_probe_begin(&n->b), roll(8) ? BREAKER_GOOD : roll(2) ? BREAKER_BAD : BREAKER_OTHER, now))
		agree_moved(&n->a, &n->b, before);
}

static void check(struct model_node nodes[NODES], struct model_store *s, usec_t now, long *writes)
{
	uint64_t epoch = 0;

	if (s->now.state == CLUSTER_PRIMARY)
		s->last_primary = s->now.epoch;
	else
		assert_true(s->now.epoch >= s->last_primary);
	for (int i = 0; i < NODES; i++) {
		struct model_node *n = &nodes[i];

		if (n->b.state != CLUSTER_PRIMARY && n->b.epoch > n->left_epoch)
			n->left_epoch = n->b.epoch;
		if (!agree_may_write(&n->a, &n->b, now))
			continue;
		++*writes;
		assert_true(n->b.epoch > n->left_epoch);            /* PRIMARY once in an epoch */
		assert_true(n->b.epoch <= s->now.epoch);            /* the store has said it */
		assert_true(!epoch || epoch == n->b.epoch);         /* never two epochs at one moment */
		assert_true(s->now.epoch == n->b.epoch);            /* and never an epoch that is over */
		epoch = n->b.epoch;
	}
}

static void whatever_is_slow_or_lost_no_two_epochs_are_written_at_once(void **state)
{
	struct model_store store = {.now = {1, CLUSTER_PRIMARY, false}};
	struct model_node nodes[NODES] = {0};
	usec_t now = SEC;
	long writes = 0;

	(void)state;
	seed = 7;
	for (int i = 0; i < NODES; i++)
		breaker_init(&nodes[i].b, CLUSTER_PRIMARY, 1, 0);
	for (long step = 0; step < 1000000; step++) {
		int i = (int)roll(NODES);
		struct model_node *n = &nodes[i];

		now += roll(200) * USEC_PER_MSEC;
		if (roll(3000) == 0)
			now += roll(10) * SEC; /* everybody sleeps */
		if (roll(200) == 0)
			n->cut_until = now + roll(20) * SEC;
		if (now < n->cut_until)
			;
		else if (!n->out.flying)
			node_send(n, now);
		else if (!n->out.answered && roll(2)) {
			if (n->out.poll)
				store_polled(&store, i, &n->out, now);
			else
				n->out.reason = store_called(&store, &n->out, now);
			n->out.answer = store.now;
			n->out.answered = true;
		} else if (roll(12) == 0) {
			if (n->out.call == CALL_UNFENCE && n->a.want == CALL_UNFENCE)
				n->a.want = CALL_NONE;
			n->out = (struct model_call){0}; /* lost, before the store or behind it */
		} else if (n->out.answered && roll(2))
			node_answer(n, now);
		check(nodes, &store, now, &writes);
		node_event(n, now);
		check(nodes, &store, now, &writes);
	}
	assert_true(writes > 10000);          /* it was not fenced all the time */
	assert_true(store.now.epoch > 1000);  /* nor did nothing happen */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_written_before_the_store_is_heard),
		cmocka_unit_test(a_lease_that_is_over_is_not_told),
		cmocka_unit_test(a_store_that_knows_less_is_told_our_epoch_and_nothing_is_written),
		cmocka_unit_test(primary_does_not_come_back_within_an_epoch),
		cmocka_unit_test(a_fence_that_the_store_does_not_know_yet_outlives_its_next_epoch),
		cmocka_unit_test(a_fence_that_was_left_standing_is_told_after_a_restart),
		cmocka_unit_test(the_word_of_another_instance_is_adopted),
		cmocka_unit_test(whatever_is_slow_or_lost_no_two_epochs_are_written_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
