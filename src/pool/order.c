/* See pool/order.h. */
#include "pool/order.h"

struct order {
	struct list link;    /* in lane->orders */
	struct tally *entry; /* NULL: all */
	char org[ORG_ID_MOST + 1]; /* "": all */
	enum order_until until;
	struct part *part;   /* borrows: the asker's, until it is answered or forgotten */
	void (*done)(struct part *p);
};

static bool concerns(const struct pool *p, const struct tally *entry)
{
	return !entry || p->target->entry == entry;
}

typedef void (*server_fn)(struct server *s, const struct err *why);

static void each_server(struct lane *l, struct tally *entry, server_fn fn, const struct err *why)
{
	verify_here(l->loop);
	hash_each(link, &l->pools) {
		struct pool *p = owner_of(link, struct pool, link);
		if (!concerns(p, entry))
			continue;
		for (int state = SERVER_DIAL; state < SERVER_CLOSING; state++)
			list_each_safe(at, &p->servers[state])
				fn(list_owner(at, struct server, link), why);
	}
}

static void close_unused(struct server *s, const struct err *why)
{
	(void)why;
	if (s->state == SERVER_IDLE || s->state == SERVER_DIAL || s->state == SERVER_LOGIN)
		server_close(s, NULL, "pooler paused");
}

static void make_stale(struct server *s, const struct err *why)
{
	(void)why;
	server_make_stale(s, "RECONNECT was asked for");
}

static void kill_server(struct server *s, const struct err *why)
{
	server_close(s, why, why->text);
}

void order_pause(struct lane *l, struct tally *entry)
{
	each_server(l, entry, close_unused, NULL);
}

void order_resume(struct lane *l, struct tally *entry)
{
	verify_here(l->loop);
	hash_each(link, &l->pools) {
		struct pool *p = owner_of(link, struct pool, link);
		if (concerns(p, entry))
			pool_serve_soon(p);
	}
}

void order_reconnect(struct lane *l, struct tally *entry)
{
	each_server(l, entry, make_stale, NULL);
}

void order_kill(struct lane *l, struct tally *entry, const struct err *why)
{
	each_server(l, entry, kill_server, why);
}

static bool has_stale(struct pool *p)
{
	for (int state = SERVER_DIAL; state < SERVER_CLOSING; state++)
		list_each(at, &p->servers[state])
			if (list_owner(at, struct server, link)->stale)
				return true;
	return false;
}

/* What waits for more of a COPY's data, or in an open transaction, will not write any more: its next message is refused. */
static bool may_write_yet(const struct server *s)
{
	if (s->word != WORD_OVER)
		return false;
	return s->state == SERVER_HELD || (s->state == SERVER_ACTIVE && !replies_empty(&s->replies) && !s->replies.copy_in);
}

static bool has_writes(struct pool *p)
{
	for (int state = SERVER_DIAL; state < SERVER_CLOSING; state++)
		list_each(at, &p->servers[state])
			if (may_write_yet(list_owner(at, struct server, link)))
				return true;
	return false;
}

static bool is_done_in(struct pool *p, enum order_until until)
{
	switch (until) {
	case ORDER_NO_SERVERS:
		return p->n_servers == 0;
	case ORDER_NO_BUSY_SERVERS:
		return p->n_servers == p->n_state[SERVER_IDLE];
	case ORDER_NO_STALE_SERVERS:
		return !has_stale(p);
	case ORDER_NO_WRITES:
		return !has_writes(p);
	}
	never("no such order");
}

static bool is_fulfilled(struct lane *l, const struct order *o)
{
	hash_each(link, &l->pools) {
		struct pool *p = owner_of(link, struct pool, link);
		if (o->org[0] && strcmp(p->flow->key, o->org) != 0)
			continue;
		if (concerns(p, o->entry) && !is_done_in(p, o->until))
			return false;
	}
	return true;
}

static void order_answer(struct order *o)
{
	struct part *p = o->part;
	void (*done)(struct part *) = o->done;

	list_take(&o->link);
	mem_free(o);
	done(p);
}

static void order_add(struct lane *l, const struct order *what)
{
	struct order *o = mem_make(struct order);

	verify_here(l->loop);
	*o = *what;
	list_init(&o->link);
	list_push(&l->orders, &o->link);
	if (is_fulfilled(l, o))
		order_answer(o);
}

void order_wait(struct lane *l, struct tally *entry, enum order_until until, struct part *p, void (*done)(struct part *p))
{
	order_add(l, &(struct order){.entry = entry, .until = until, .part = p, .done = done});
}

void order_pause_org(struct lane *l, const char *org, struct part *p, void (*done)(struct part *p))
{
	struct flow *f = lane_flow(l, org);
	struct order what = {.until = ORDER_NO_BUSY_SERVERS, .part = p, .done = done};

	if (f)
		f->paused = true; /* a flow that is made later is told by whoever speaks for it */
	strcpy(what.org, org);
	order_add(l, &what);
}

void order_resume_org(struct lane *l, const char *org)
{
	struct flow *f = lane_flow(l, org);

	verify_here(l->loop);
	if (f)
		f->paused = false;
	list_each_safe(link, &l->orders) {
		struct order *o = list_owner(link, struct order, link);
		if (strcmp(o->org, org) == 0)
			order_answer(o);
	}
	hash_each(link, &l->pools) {
		struct pool *p = owner_of(link, struct pool, link);
		if (p->flow == f)
			pool_serve_soon(p);
	}
}

void order_cancel(struct lane *l, struct tally *entry)
{
	verify_here(l->loop);
	list_each_safe(link, &l->orders) {
		struct order *o = list_owner(link, struct order, link);
		if (!o->org[0] && o->entry == entry && (o->until == ORDER_NO_SERVERS || o->until == ORDER_NO_BUSY_SERVERS))
			order_answer(o);
	}
}

void order_forget(struct lane *l, struct part *p)
{
	list_each_safe(link, &l->orders) {
		struct order *o = list_owner(link, struct order, link);
		if (o->part == p) {
			list_take(&o->link);
			mem_free(o);
		}
	}
}

void order_check(struct lane *l)
{
	list_each_safe(link, &l->orders) {
		struct order *o = list_owner(link, struct order, link);
		if (is_fulfilled(l, o))
			order_answer(o);
	}
}
