/* See cluster/breaker.h. */
#include "cluster/breaker.h"

#define MOVE(from, to) (1u << ((from) * CLUSTER_STATES + (to)))

static const unsigned legal_moves =
	MOVE(CLUSTER_PRIMARY, CLUSTER_DEGRADED) | MOVE(CLUSTER_PRIMARY, CLUSTER_RECOVERING) | MOVE(CLUSTER_DEGRADED, CLUSTER_RECOVERING) |
	MOVE(CLUSTER_RECOVERING, CLUSTER_DEGRADED) | MOVE(CLUSTER_RECOVERING, CLUSTER_PRIMARY);

static void move(struct breaker *b, enum cluster_state to, usec_t now)
{
	verify(legal_moves & MOVE(b->state, to));
	b->state = to;
	b->since = now;
	b->failures = b->good = 0;
	b->ticket = 0;
}

static bool failure(struct breaker *b, const struct breaker_rules *r, usec_t now)
{
	if (++b->failures < r->failures)
		return false;
	move(b, CLUSTER_DEGRADED, now);
	return true;
}

/* ---- probes ---- */

unsigned breaker_probe_begin(struct breaker *b)
{
	if (b->ticket || b->state == CLUSTER_DEGRADED)
		return 0;
	if (++b->last_ticket == 0)
		b->last_ticket = 1;
	return b->ticket = b->last_ticket;
}

void breaker_probe_forget(struct breaker *b)
{
	b->ticket = 0;
}

static bool primary_probed(struct breaker *b, const struct breaker_rules *r, enum breaker_finding f, usec_t now)
{
	switch (f) {
	case BREAKER_GOOD:
		b->failures = 0;
		return false;
	case BREAKER_OTHER:
		move(b, CLUSTER_RECOVERING, now);
		return true;
	case BREAKER_BAD:
		return failure(b, r, now);
	case BREAKER_CONFLICT:
		move(b, CLUSTER_DEGRADED, now);
		return true;
	}
	never("no such finding");
}

static bool recovering_probed(struct breaker *b, const struct breaker_rules *r, enum breaker_finding f, usec_t now)
{
	if (f != BREAKER_GOOD)
		b->good = 0;
	if (f == BREAKER_GOOD || f == BREAKER_OTHER) {
		b->good += b->good < r->probes;
		return false;
	}
	if (b->fenced)
		return false;
	move(b, CLUSTER_DEGRADED, now);
	return true;
}

bool breaker_probe_end(struct breaker *b, const struct breaker_rules *r, unsigned ticket, enum breaker_finding f, usec_t now)
{
	if (!ticket || ticket != b->ticket)
		return false; /* asked before the last move */
	b->ticket = 0;
	switch (b->state) {
	case CLUSTER_PRIMARY:
		return primary_probed(b, r, f, now);
	case CLUSTER_RECOVERING:
		return recovering_probed(b, r, f, now);
	default:
		never("a ticket in DEGRADED");
	}
}

/* ---- logins ---- */

static bool counts(const struct breaker *b, uint64_t epoch)
{
	return b->state == CLUSTER_PRIMARY && b->epoch == epoch;
}

bool breaker_login_failed(struct breaker *b, const struct breaker_rules *r, uint64_t epoch, usec_t now)
{
	return counts(b, epoch) && failure(b, r, now);
}

void breaker_login_worked(struct breaker *b, uint64_t epoch)
{
	if (counts(b, epoch))
		b->failures = 0;
}

/* ---- the rest of its life ---- */

void breaker_init(struct breaker *b, enum cluster_state state, uint64_t epoch, usec_t now)
{
	*b = (struct breaker){.state = state, .epoch = epoch, .since = now};
}

bool breaker_tick(struct breaker *b, const struct breaker_rules *r, usec_t now)
{
	if (b->state != CLUSTER_DEGRADED || now - b->since < r->open)
		return false;
	move(b, CLUSTER_RECOVERING, now);
	return true;
}

bool breaker_fence(struct breaker *b, usec_t now)
{
	b->fenced = true;
	if (b->state == CLUSTER_RECOVERING)
		return false;
	move(b, CLUSTER_RECOVERING, now);
	return true;
}

void breaker_unfence(struct breaker *b)
{
	b->fenced = false;
}

void breaker_start_over(struct breaker *b)
{
	b->good = 0;
	b->ticket = 0;
}

bool breaker_is_ready(const struct breaker *b, const struct breaker_rules *r)
{
	return b->state == CLUSTER_RECOVERING && !b->fenced && b->good >= r->probes;
}

void breaker_cut_over(struct breaker *b, const struct breaker_rules *r, uint64_t epoch, usec_t now)
{
	verify(breaker_is_ready(b, r) && epoch > b->epoch);
	b->epoch = epoch;
	move(b, CLUSTER_PRIMARY, now);
}

void breaker_adopt(struct breaker *b, enum cluster_state state, uint64_t epoch, bool fenced, usec_t now)
{
	verify(epoch > b->epoch || (epoch == b->epoch && (state != CLUSTER_PRIMARY || b->state == CLUSTER_PRIMARY)));
	verify(!fenced || state == CLUSTER_RECOVERING);
	if (state != b->state || epoch != b->epoch) {
		b->state = state;
		b->since = now;
		b->failures = b->good = 0;
		b->ticket = 0;
	}
	b->epoch = epoch;
	b->fenced = fenced;
}
