/* See pool/usage.h. A round goes through lane->touched from its head. A pool that is busy has something to tell the next time in
 * any case, and goes to the tail at once; the round's number says where the walk is through. */
#include "pool/usage.h"

static usec_t held_now(const struct list *servers, usec_t now)
{
	usec_t sum = 0;

	list_each(link, servers) {
		const struct server *s = list_owner(link, struct server, link);
		if (s->used_since && now > s->used_since)
			sum += now - s->used_since;
	}
	return sum;
}

static void read_counts(const struct pool *p, usec_t now, uint64_t n[TOTALS])
{
#define X(name, unit, help) n[TOTAL_##name] = count_read(&p->counts.name);
	POOL_COUNTERS(X)
#undef X
	n[TOTAL_slot_us] += (uint64_t)(held_now(&p->servers[SERVER_ACTIVE], now) + held_now(&p->servers[SERVER_HELD], now) + held_now(&p->servers[SERVER_RESET], now));
}

static usec_t longest_wait(const struct pool *p, usec_t now)
{
	const struct list *first = p->waiters.next;

	return first == &p->waiters ? 0 : now - list_owner(first, struct waiter, link)->since;
}

static void take_waits(struct pool *p, struct usage *u)
{
	uint64_t waited = hist_take(&p->waits, u->waits);

	verify(waited <= u->n[TOTAL_server_assignments]);
	u->waits[0] += u->n[TOTAL_server_assignments] - waited;
}

static void tell(struct pool *p, struct buf *out)
{
	usec_t now = loop_now(p->lane->loop);
	struct pool_told is = {.clients = p->n_clients, .active = p->n_state[SERVER_ACTIVE], .idle = p->n_state[SERVER_IDLE], .servers = p->n_servers, .waiting = p->n_waiters};
	struct usage u = {
		.entry = p->target->entry, .cluster = p->lane->cluster, .clients = is.clients - p->told.clients, .active = is.active - p->told.active, .idle = is.idle - p->told.idle,
		.servers = is.servers - p->told.servers, .waiting = is.waiting - p->told.waiting, .maxwait = longest_wait(p, now),
	};

	strcpy(u.org, p->flow->key);
	read_counts(p, now, is.n);
	for (int i = 0; i < TOTALS; i++)
		u.n[i] = is.n[i] - p->told.n[i];
	take_waits(p, &u);
	if (p->policy.pool_size > 0)
		u.pool_use = (int)((int64_t)is.active * 1000 / p->policy.pool_size);
	p->told = is;
	buf_add(out, &u, sizeof(u));
}

void usage_begin(struct lane *l)
{
	verify_here(l->loop);
	l->usage_round++;
}

bool usage_take(struct lane *l, int most, struct buf *out)
{
	struct list *first;

	verify_here(l->loop);
	if (l->usage_left.len) {
		buf_add(out, l->usage_left.p, l->usage_left.len);
		buf_free(&l->usage_left);
	}
	while ((first = list_first(&l->touched))) {
		struct pool *p = list_owner(first, struct pool, touched);
		if (p->usage_round == l->usage_round)
			return false;
		if (most-- == 0)
			return true;
		p->usage_round = l->usage_round;
		list_take(&p->touched);
		tell(p, out);
		if (p->n_servers > p->n_state[SERVER_IDLE] || p->n_waiters)
			list_push(&l->touched, &p->touched);
	}
	return false;
}

void usage_leave(struct pool *p)
{
	if (list_linked(&p->touched))
		tell(p, &p->lane->usage_left);
	list_take(&p->touched);
}
