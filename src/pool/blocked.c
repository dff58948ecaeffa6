/* See pool/blocked.h.
 *
 * A pool that cannot use a server any more (it became full, was paused, has enough on their way) is not looked for: it is dropped when a
 * pick comes upon it. Whatever makes it want one again has it served anew, and so blocked again. */
#include "pool/blocked.h"

#include "pool/pool_priv.h"

/* ---- scopes ---- */

static bool scope_is(const struct hash_link *link, const void *tally)
{
	return owner_of(link, struct scope, link)->of == tally;
}

struct scope *scope_of(struct lane *l, const struct tally *t)
{
	uint64_t hash = hash_bytes(&t, sizeof(t));
	struct hash_link *link = hash_find(&l->scopes, hash, scope_is, t);
	struct scope *s = link ? owner_of(link, struct scope, link) : NULL;

	if (!s) {
		s = mem_make(struct scope);
		s->of = t;
		sfq_init(&s->pools);
		list_init(&s->blocked_link);
		hash_add(&l->scopes, &s->link, hash);
	}
	s->n_targets++;
	return s;
}

void scope_drop(struct lane *l, struct scope **at)
{
	struct scope *s = *at;

	*at = NULL;
	if (--s->n_targets)
		return;
	hash_take(&l->scopes, &s->link);
	list_take(&s->blocked_link);
	sfq_free(&s->pools);
	mem_free(s);
}

/* The scope of a cap that is not the cluster's. */
static struct scope *scope_for(const struct pool *p, enum cap cap)
{
	return cap == CAP_USER ? p->target->user_scope : p->target->entry_scope;
}

/* ---- in and out ---- */

static atomic_int *starved_count(const struct pool *p)
{
	if (p->blocked_by == CAP_USER)
		return &p->target->user->starved;
	return p->blocked_by == CAP_ENTRY ? &p->target->entry->starved : NULL;
}

static usec_t waits_since(const struct pool *p)
{
	return list_owner(list_first((struct list *)&p->waiters), struct waiter, link)->since;
}

/* All that has to do with its being blocked but its place in the queue. */
static void forget(struct pool *p)
{
	atomic_int *starved = starved_count(p);

	if (starved)
		atomic_fetch_sub(starved, 1);
	p->blocked_by = CAP_NONE;
	p->lane->n_blocked--;
}

static void flow_follows(struct flow *f)
{
	if (!sfq_is_empty(&f->pools))
		sfq_wait_moved(&f->unit, sfq_oldest(&f->pools));
	else if (sfq_waits(&f->unit))
		sfq_leave(&f->unit);
}

void pool_unblock(struct pool *p)
{
	enum cap cap = p->blocked_by;

	if (!pool_is_blocked(p))
		return;
	forget(p);
	sfq_leave(&p->unit);
	if (cap == CAP_CLUSTER)
		flow_follows(p->flow);
	else if (sfq_is_empty(&scope_for(p, cap)->pools))
		list_take(&scope_for(p, cap)->blocked_link);
}

static void enter(struct pool *p, enum cap cap)
{
	usec_t now = loop_now(p->lane->loop), since = waits_since(p);

	if (cap != CAP_CLUSTER) {
		struct scope *s = scope_for(p, cap);
		sfq_enter(&s->pools, &p->unit, since, now);
		if (!list_linked(&s->blocked_link))
			list_push(&p->lane->blocked_scopes, &s->blocked_link);
		return;
	}
	sfq_enter(&p->flow->pools, &p->unit, since, now);
	if (sfq_waits(&p->flow->unit))
		flow_follows(p->flow);
	else
		sfq_enter(&p->lane->orgs, &p->flow->unit, since, now);
}

bool pool_block(struct pool *p, enum cap cap)
{
	if (pool_is_blocked(p) && p->blocked_by == cap)
		return false;
	pool_unblock(p);
	p->blocked_by = cap;
	p->lane->n_blocked++;
	enter(p, cap);
	atomic_int *starved = starved_count(p);
	if (starved)
		atomic_fetch_add(starved, 1);
	if (cap == CAP_USER && p->lane->calls->cap_wanted)
		p->lane->calls->cap_wanted(p->lane);
	return starved != NULL;
}

void pool_wait_moved(struct pool *p)
{
	if (!pool_is_blocked(p))
		return;
	sfq_wait_moved(&p->unit, waits_since(p));
	if (p->blocked_by == CAP_CLUSTER)
		flow_follows(p->flow);
}

/* ---- who is next ---- */

struct asked {
	struct server *s;   /* what came free; NULL: room under a cap */
	struct lane *lane;
	struct pool *found; /* in the flow that fits */
};

static enum sfq_fit pool_fits(struct sfq_unit *u, void *arg)
{
	struct pool *p = owner_of(u, struct pool, unit);
	const struct asked *a = arg;

	if (a->s && a->s->pool == p)
		return SFQ_TAKE;
	if (!pool_wants_one_more(p)) {
		forget(p);
		return SFQ_DROP;
	}
	if (a->s)
		return pool_may_take_over(a->s, p) || pool_is_worth_a_login(a->s->pool, p) ? SFQ_TAKE : SFQ_PASS;
	return pool_may_log_in(p) ? SFQ_TAKE : SFQ_PASS;
}

static enum sfq_fit flow_fits(struct sfq_unit *u, void *arg)
{
	struct flow *f = owner_of(u, struct flow, unit);
	struct asked *a = arg;
	struct sfq_unit *first = sfq_pick(&f->pools, loop_now(a->lane->loop), 0, pool_fits, a);

	if (sfq_is_empty(&f->pools))
		return SFQ_DROP;
	flow_follows(f);
	if (!first)
		return SFQ_PASS;
	a->found = owner_of(first, struct pool, unit);
	return SFQ_TAKE;
}

static struct pool *first_of_orgs(struct asked *a)
{
	struct lane *l = a->lane;

	return sfq_pick(&l->orgs, loop_now(l->loop), l->priority_max_wait, flow_fits, a) ? a->found : NULL;
}

static struct pool *first_of_scope(struct asked *a, struct scope *s)
{
	struct lane *l = a->lane;
	struct sfq_unit *first;

	if (!list_linked(&s->blocked_link))
		return NULL;
	first = sfq_pick(&s->pools, loop_now(l->loop), l->priority_max_wait, pool_fits, a);
	if (sfq_is_empty(&s->pools))
		list_take(&s->blocked_link);
	return first ? owner_of(first, struct pool, unit) : NULL;
}

/* Of two that come of different queues: the org that has used less; in one org, the pool. */
static bool stands_before(const struct pool *a, const struct pool *b)
{
	const struct lane *l = a->lane;
	usec_t now = loop_now(l->loop);

	if (a->flow == b->flow)
		return sfq_tag_in(&a->flow->pools, &a->unit, now) < sfq_tag_in(&b->flow->pools, &b->unit, now);
	if (a->flow->unit.rank != b->flow->unit.rank)
		return a->flow->unit.rank < b->flow->unit.rank;
	return sfq_tag_in(&l->orgs, &a->flow->unit, now) < sfq_tag_in(&l->orgs, &b->flow->unit, now);
}

struct pool *blocked_next(struct server *s)
{
	struct pool *own = s->pool;
	struct asked a = {.s = s, .lane = s->lane};

	if (!s->lane->n_blocked)
		return own->n_waiters ? own : NULL;
	if (own->n_waiters && !pool_is_blocked(own))
		pool_block(own, CAP_CLUSTER); /* it is full, and stands in the queue for what is its own already */
	struct pool *best = first_of_orgs(&a);
	bool lifted = s->lane->orgs.lifted;
	struct scope *scopes[] = {s->target->entry_scope, s->target->user_scope};
	for (int i = 0; i < 2; i++) {
		struct pool *p = first_of_scope(&a, scopes[i]);
		if (!p || (best && !scopes[i]->pools.lifted && (lifted || !stands_before(p, best))))
			continue;
		best = p;
		lifted = scopes[i]->pools.lifted;
	}
	return best;
}

struct pool *blocked_first(struct lane *l, struct scope *scope)
{
	struct asked a = {.lane = l};

	return scope ? first_of_scope(&a, scope) : first_of_orgs(&a);
}

/* ---- slot time ---- */

/* Only where somebody may come to wait is there a time to be kept. */
static void advance(const struct pool *p, usec_t now)
{
	sfq_advance(&p->lane->orgs, &p->flow->unit, now);
	if (p->flow->n_pools > 1)
		sfq_advance(&p->flow->pools, &p->unit, now);
	if (p->policy.max_db_connections)
		sfq_advance(&p->target->entry_scope->pools, &p->unit, now);
	if (p->policy.max_user_connections)
		sfq_advance(&p->target->user_scope->pools, &p->unit, now);
}

void use_begin(struct server *s)
{
	verify(!s->in_use);
	advance(s->pool, s->request_at);
	sfq_begin(&s->pool->flow->unit, s->request_at);
	sfq_begin(&s->pool->unit, s->request_at);
	s->in_use = true;
}

void use_end(struct server *s)
{
	usec_t now = loop_now(s->loop);

	if (!s->in_use)
		return;
	s->in_use = false;
	sfq_end(&s->pool->flow->unit, s->request_at, now);
	sfq_end(&s->pool->unit, s->request_at, now);
}
