/* SHOW ORGS: the registry's numbers, and what the pools of all lanes add to them. */
#include <stdio.h>
#include <stdlib.h>

#include "admin/hot.h"
#include "admin/show_priv.h"
#include "base/mem.h"
#include "proxy/throttle.h"
#include "proxy/worker.h"

static const struct column org_columns[] = {
	{"org", COL_TEXT}, {"name", COL_TEXT},
#define COLUMNS_COUNT(name) {#name, COL_INT4},
#define COLUMNS_USEC(name) {#name, COL_INT4}, {#name "_us", COL_INT4},
#define COLUMNS_PERMILLE(name) /* metrics only */
#define NOW_FIGURE(name, kind, unit, help) COLUMNS_##unit(name)
#include "admin/figures.def"
	{"pool_size", COL_INT4}, {"total_xacts", COL_INT8}, {"total_queries", COL_INT8}, {"total_wait_time", COL_INT8},
#define ORG_FIGURE(name, kind, unit, help) {#name, COL_INT8},
#include "admin/figures.def"
	{"total_slot_time", COL_INT8}, {"held", COL_INT4}, {"max_client_conn", COL_INT4}, {"tx_rate", COL_TEXT}, {"tx_burst", COL_TEXT},
	{"conn_rate", COL_TEXT}, {"rate_action", COL_TEXT}, {"rate_wait_ms", COL_INT8}, {"weight", COL_TEXT}, {"priority", COL_TEXT},
	{"verdict", COL_TEXT}, {"frozen", COL_INT4}, {"paused", COL_INT4},
};
const struct columns columns_orgs = COLUMNS_OF(org_columns);

/* A pool's share, or the registry's; summed by id. The totals are those of pools that are there: a pool that nobody used for long is freed. */
struct sum {
	char id[ORG_ID_MOST + 1];
	int clients, active, idle, servers, waiting, held, frozen, paused;
	usec_t maxwait;
	uint64_t xacts, queries, wait_us, slot_us, throttled, refused;
};

static void ask_pool(const struct pool *p, usec_t now, struct buf *out)
{
	struct list *first = list_first((struct list *)&p->waiters);
	struct sum s = {
		.active = p->n_state[SERVER_ACTIVE], .idle = p->n_state[SERVER_IDLE], .servers = p->n_servers, .waiting = p->n_waiters,
		.maxwait = first ? now - list_owner(first, struct waiter, link)->since : 0,
		.xacts = count_read(&p->counts.xacts), .queries = count_read(&p->counts.queries), .wait_us = count_read(&p->counts.wait_us),
		.slot_us = count_read(&p->counts.slot_us),
	};

	strcpy(s.id, p->flow->key);
	buf_add(out, &s, sizeof(s));
}

static void note_held(void *arg, const struct org *o, int held)
{
	struct sum s = {.held = held};

	memcpy(s.id, o->id, sizeof(s.id));
	buf_add(arg, &s, sizeof(s));
}

void ask_orgs(struct worker *w, struct buf *out)
{
	usec_t now = loop_now(w->loop);

	hash_each(at, &w->lanes) {
		struct lane *l = owner_of(at, struct lane, link);
		hash_each(link, &l->pools)
			ask_pool(owner_of(link, struct pool, link), now, out);
	}
	throttle_each(w, note_held, out);
}

static void note_org(void *arg, struct org *o)
{
	struct sum s = {.clients = atomic_load(&o->clients), .throttled = atomic_load(&o->throttled), .refused = atomic_load(&o->refused), .frozen = atomic_load(&o->frozen), .paused = atomic_load(&o->paused)};

	memcpy(s.id, o->id, sizeof(s.id));
	buf_add(arg, &s, sizeof(s));
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct sum *)a)->id, ((const struct sum *)b)->id);
}

static void add(struct sum *to, const struct sum *s)
{
	to->clients += s->clients;
	to->active += s->active;
	to->idle += s->idle;
	to->servers += s->servers;
	to->waiting += s->waiting;
	to->held += s->held;
	to->maxwait = s->maxwait > to->maxwait ? s->maxwait : to->maxwait;
	to->xacts += s->xacts;
	to->queries += s->queries;
	to->wait_us += s->wait_us;
	to->slot_us += s->slot_us;
	to->throttled += s->throttled;
	to->refused += s->refused;
	to->frozen += s->frozen;
	to->paused += s->paused;
}

static void row_real(struct row *r, double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%g", value);
	row_text(r, text);
}

/* As they hold for the org; a rate of 0 is none. */
static void put_limits(struct row *r, const struct policy *p)
{
	row_int(r, p->max_org_clients);
	row_real(r, p->tx_rate);
	row_real(r, p->tx_burst > 0 ? p->tx_burst : p->tx_rate);
	row_real(r, p->conn_rate);
	row_text(r, rate_action_name(p->rate_action));
	row_int(r, p->rate_wait / USEC_PER_MSEC);
	row_real(r, p->weight);
	row_text(r, priority_name(p->priority));
}

static void put(struct buf *out, const struct sum *s)
{
	const struct conf *conf = control->setup->conf;
	const struct conf_org *line = conf_org(conf, s->id);
	struct policy policy;
	struct row r;

	conf_policy(conf, NULL, NULL, s->id, &policy);
	row_begin(&r, out, columns_orgs.n);
	row_text(&r, s->id);
	row_text(&r, line ? line->name : NULL);
	row_int(&r, s->clients);
	row_int(&r, s->active);
	row_int(&r, s->idle);
	row_int(&r, s->servers);
	row_int(&r, s->waiting);
	row_int(&r, s->maxwait / USEC_PER_SEC);
	row_int(&r, s->maxwait % USEC_PER_SEC);
	row_int(&r, policy.pool_size);
	row_int(&r, (int64_t)s->xacts);
	row_int(&r, (int64_t)s->queries);
	row_int(&r, (int64_t)s->wait_us);
	row_int(&r, (int64_t)s->throttled);
	row_int(&r, (int64_t)s->refused);
	row_int(&r, (int64_t)s->slot_us);
	row_int(&r, s->held);
	put_limits(&r, &policy);
	row_text(&r, hot_verdict(heat_find(hot_heat(), s->id)));
	row_int(&r, s->frozen);
	row_int(&r, s->paused);
	row_end(&r);
}

void tell_orgs(const struct gather *g, struct buf *out)
{
	struct buf all = {0};

	org_each(note_org, &all);
	for (int i = 0; i < g->n_parts; i++)
		if (g->parts[i].rows.len)
			buf_add(&all, g->parts[i].rows.p, g->parts[i].rows.len);
	struct sum *sums = (struct sum *)all.p;
	size_t n = all.len / sizeof(*sums);
	if (n)
		qsort(sums, n, sizeof(*sums), by_id);
	for (size_t i = 0; i < n;) {
		struct sum one = sums[i];
		for (i++; i < n && strcmp(sums[i].id, one.id) == 0; i++)
			add(&one, &sums[i]);
		put(out, &one);
	}
	buf_free(&all);
}
