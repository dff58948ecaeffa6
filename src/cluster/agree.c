/* See cluster/agree.h. docs/continuity.md has the rules ("What pgweir calls"). */
#include "cluster/agree.h"

#include <string.h>

#define AGAIN USEC_PER_SEC

static const char *const names[CLUSTER_STATES] = {
	[CLUSTER_PRIMARY] = "PRIMARY",
	[CLUSTER_DEGRADED] = "DEGRADED",
	[CLUSTER_RECOVERING] = "RECOVERING",
};

const char *standing_name(enum cluster_state s)
{
	return names[s];
}

bool standing_find(const char *name, enum cluster_state *out)
{
	for (int i = 0; i < CLUSTER_STATES; i++)
		if (strcmp(names[i], name) == 0) {
			*out = (enum cluster_state)i;
			return true;
		}
	return false;
}

/* ---- what holds ---- */

bool agree_is_heard(const struct agree *a, const struct breaker *b)
{
	return a->heard && a->told.epoch == b->epoch;
}

bool agree_may_write(const struct agree *a, const struct breaker *b, usec_t now)
{
	return agree_is_heard(a, b) && a->told.state == CLUSTER_PRIMARY && b->state == CLUSTER_PRIMARY && now < a->lease_until;
}

/* A fence for want of a lease is not told; but that the store has fallen behind is, and it fences all under our epoch then. */
struct standing_told agree_report(const struct agree *a, const struct breaker *b)
{
	if (!a->heard)
		return (struct standing_told){0, "NONE"};
	if (a->told.epoch < b->epoch)
		return (struct standing_told){b->epoch, names[CLUSTER_RECOVERING]};
	return (struct standing_told){a->told.epoch, names[a->told.state]};
}

/* ---- what the store must learn ---- */

static void want(struct agree *a, enum agree_call call)
{
	if (a->want != call)
		a->not_before = 0;
	a->want = call;
}

void agree_moved(struct agree *a, const struct breaker *b, enum cluster_state from)
{
	if (b->fenced)
		want(a, CALL_FENCE);
	else if (a->want == CALL_OPEN)
		return; /* of an earlier failure: that comes first, and whatever it leads to */
	else if (b->state == CLUSTER_DEGRADED || from == CLUSTER_PRIMARY) {
		a->failed = from;
		want(a, CALL_OPEN);
	} else {
		want(a, CALL_RECOVER);
	}
}

/* ---- what the store says ---- */

static bool is_pressing(enum agree_call call)
{
	return call == CALL_OPEN || call == CALL_RECOVER || call == CALL_FENCE;
}

/* Within an epoch: the store may not know yet what happened here, and PRIMARY does not come back. */
static enum agree_step hear_same(struct agree *a, const struct breaker *b, enum agree_call before, const struct standing *s, bool first)
{
	if (s->state == CLUSTER_PRIMARY && b->state != CLUSTER_PRIMARY) {
		a->failed = CLUSTER_PRIMARY;
		if (before != CALL_OPEN && before != CALL_FENCE)
			want(a, b->fenced ? CALL_FENCE : CALL_OPEN);
		return AGREE_STAY;
	}
	if (first && b->fenced && !s->held && s->state != CLUSTER_PRIMARY)
		want(a, CALL_FENCE); /* it was left fenced, before the store could be told */
	if (is_pressing(a->want) || (s->state == b->state && s->held == b->fenced))
		return AGREE_STAY;
	return AGREE_FENCE;
}

enum agree_step agree_hear(struct agree *a, const struct breaker *b, const struct standing *s)
{
	bool first = !a->heard;

	a->heard = true;
	a->told = *s;
	if (s->epoch == b->epoch)
		return hear_same(a, b, a->want, s, first);
	if (s->epoch > b->epoch && a->want == CALL_FENCE)
		return AGREE_HOLD;
	if (a->want != CALL_FENCE)
		want(a, CALL_NONE);
	if (s->epoch < b->epoch)
		return AGREE_AHEAD;
	return s->state == CLUSTER_PRIMARY ? AGREE_BEGIN : AGREE_FENCE;
}

/* ---- calls ---- */

enum agree_call agree_next(const struct agree *a, const struct breaker *b, const struct breaker_rules *r, usec_t now)
{
	if (!agree_is_heard(a, b) || now < a->not_before)
		return CALL_NONE;
	if (a->want != CALL_NONE)
		return a->want;
	return a->told.state == CLUSTER_RECOVERING && !a->told.held && breaker_is_ready(b, r) ? CALL_CUTOVER : CALL_NONE;
}

bool agree_may_retry(const char *reason)
{
	static const char *const passing[] = {"undrained", "unseen", "busy", "unknown"};

	for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++)
		if (strcmp(passing[i], reason) == 0)
			return true;
	return false;
}

enum agree_step agree_answered(struct agree *a, const struct breaker *b, enum agree_call call, const char *reason, const struct standing *s, usec_t now)
{
	if (agree_may_retry(reason) && (a->want == call || a->want == CALL_NONE))
		a->not_before = now + AGAIN;
	else if (a->want == call)
		want(a, CALL_NONE);
	/* Another host is the primary now, or the window was over before the store could be told: the next step is due at once. */
	if (call == CALL_OPEN && a->want == CALL_NONE && s->epoch == b->epoch && s->state == CLUSTER_DEGRADED && b->state == CLUSTER_RECOVERING && !b->fenced)
		want(a, CALL_RECOVER);
	return agree_hear(a, b, s);
}
