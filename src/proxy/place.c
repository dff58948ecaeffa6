/* See proxy/place.h.
 *
 *   place_go      WAIT, c->move                              on the old worker
 *   depart        at the end of the turn: packed             (a stream cannot leave its loop from within its own call)
 *   arrived       the place is looked for again, by the configuration here; it may be elsewhere by now
 *   move_over     unpacked, IDLE, read again                 on the new worker
 *
 * Workers adopt a configuration one after the other. A client that was sent by one that has it already waits on arrival until it is
 * in force here, too; so it is never sent back and forth. */
#include "proxy/place.h"

#include "base/mem.h"
#include "proxy/address.h"
#include "proxy/fence.h"
#include "proxy/home.h"
#include "proxy/link.h"
#include "proxy/luggage.h"
#include "proxy/route.h"
#include "proxy/speak.h"
#include "proxy/throttle.h"
#include "proxy/trail.h"
#include "proxy/welcome.h"
#include "proxy/worker.h"
#include "wire/sqlstate.h"

struct move {
	struct client *client;     /* borrows: it owns us */
	struct later go;           /* depart, or look again on arrival */
	struct worker *to;
	struct luggage *luggage;   /* owns; NULL: not packed */
	char *name;                /* owns: its application_name, once that is packed */
	struct target_lore lore;   /* owns: what clients have taught its old target */
	unsigned long serial;      /* of the configuration by which it was sent */
	char org[ORG_ID_MOST + 1]; /* whose place it goes to */
	char *fallback;            /* owns: the entry that serves it there, for one transaction; NULL: its place */
	bool falls;                /* it does not go: it looks for a fallback, because of why */
	struct err why;
};

/* ---- which place ---- */

static const char *name_of(const struct client *c)
{
	const struct guc_value *v = c->gucs.at[c->worker->setup->name_guc];

	if (c->move && c->move->luggage)
		return c->move->name;
	if (!c->pool) /* logging in: it may not have its settings yet */
		return c->application_name ? c->application_name : "";
	return v ? v->text : "";
}

static struct route_facts facts_of(const struct client *c, const char *org, const char *entry)
{
	return (struct route_facts){.org = org, .application_name = name_of(c), .user = c->user, .entry = entry};
}

const struct conf_entry *place_entry(const struct client *c, const struct conf *conf, const char *org, struct conf_entry **made)
{
	const struct conf_entry *asked = conf_entry(conf, c->database);
	const struct conf_route *r = NULL;
	struct route_facts facts;

	*made = NULL;
	if (!asked && !conf->star)
		return NULL;
	if (conf->n_routes) {
		facts = facts_of(c, org, c->database);
		r = route_choose(conf, &facts);
	}
	if (r)
		return conf_entry(conf, r->to);
	return asked ? asked : (*made = conf_entry_make(conf, c->database));
}

static struct pool *pool_at(struct client *c, const struct conf_entry *e, const char *org, struct worker **home)
{
	*home = e ? home_of(e->cluster) : NULL;
	if (*home != c->worker)
		return NULL;
	return fence_pool(c, e, org);
}

static struct pool *pool_of_entry(struct client *c, const char *name, const char *org, struct worker **home)
{
	return pool_at(c, conf_entry(c->worker->setup->conf, name), org, home);
}

struct pool *place_pool(struct client *c, const char *org, struct worker **home)
{
	struct conf_entry *made;
	const struct conf_entry *e = place_entry(c, c->worker->setup->conf, org, &made);
	struct pool *p = pool_at(c, e, org, home);

	conf_entry_free(&made);
	return p;
}

/* Is its pool the one that this org of its would be served from? Without making one. */
static bool is_served_from_here(const struct client *c, const char *org)
{
	struct conf_entry *made;
	const struct conf_entry *e = place_entry(c, c->worker->setup->conf, org, &made);
	const struct pool *p = c->pool;
	bool here = e && strcmp(p->target->entry->name, e->name) == 0 && strcmp(p->target->user->name, e->user ? e->user : c->user) == 0 &&
		    strcmp(p->lane->cluster->name, e->cluster->name) == 0 && strcmp(p->flow->key, org) == 0;

	conf_entry_free(&made);
	return here;
}

/* ---- what leads to it and away from it ---- */

const struct conf_route *place_route(const struct client *c)
{
	const struct route_facts facts = facts_of(c, c->org->id, c->database);

	return route_choose(c->worker->setup->conf, &facts);
}

void place_each_away(const struct client *c, void (*fn)(void *arg, const struct conf_route *r), void *arg)
{
	const struct route_facts facts = facts_of(c, c->org->id, c->pool->target->entry->name);

	route_each_away(c->worker->setup->conf, &facts, fn, arg);
}

static void is_one(void *arg, const struct conf_route *r)
{
	(void)r;
	*(bool *)arg = true;
}

static void note_stray(struct client *c)
{
	c->stray = false;
	if (c->worker->setup->conf->n_routes)
		place_each_away(c, is_one, &c->stray);
}

static void use_one(void *arg, const struct conf_route *r)
{
	trails_use(r, *(usec_t *)arg);
}

void place_note_use(const struct client *c)
{
	usec_t now = clock_wall();

	place_each_away(c, use_one, &now);
}

/* ---- being there ---- */

bool place_name_changed(const struct client *c)
{
	return c->routed_name != c->gucs.at[c->worker->setup->name_guc];
}

/* The name that its place was chosen by, where that matters. The reference keeps another value from getting the same address. */
static void note_name(struct client *c)
{
	const struct setup *setup = c->worker->setup;

	guc_drop(&c->routed_name);
	c->routed_name_matters = setup->conf->routes_by_name;
	if (c->routed_name_matters)
		c->routed_name = guc_ref(c->gucs.at[setup->name_guc]);
}

/* What an operator has said of its org, where the flow was made since. */
static void tell_flow(const struct org *org, struct flow *f)
{
	if (strcmp(org->id, f->key) != 0)
		return;
	if (atomic_load_explicit(&org->paused, memory_order_relaxed))
		f->paused = true;
	if (atomic_load_explicit(&org->frozen, memory_order_relaxed))
		flow_freeze(f);
}

void place_enter(struct client *c, struct pool *pool)
{
	const struct conf_entry *e = target_entry(pool->target);
	struct policy policy;

	c->pool = pool;
	tell_flow(c->org, pool->flow);
	note_name(c);
	note_stray(c);
	if (!e)
		return; /* removed this moment: what stands holds */
	conf_policy(c->worker->setup->conf, e, c->user, c->org->id, &policy);
	c->mode = policy.pool_mode;
}

bool place_join(struct client *c)
{
	struct worker *home;
	struct pool *pool = place_pool(c, c->org->id, &home);

	if (!pool)
		return false;
	pool_client_add(pool);
	place_enter(c, pool);
	return true;
}

static void leave_pool(struct client *c, struct pool *pool)
{
	pool_client_drop(pool);
	if (c->place == PLACE_NOW)
		pool_left(pool);
}

static void enter_own(struct client *c, struct pool *pool)
{
	struct pool *old = c->pool;
	struct target_lore lore;

	if (old != pool) {
		target_lore_of(old->target, &lore);
		target_teach(pool->target, &lore);
		target_lore_free(&lore);
		pool_client_add(pool);
	}
	place_enter(c, pool);
	if (old != pool)
		leave_pool(c, old);
	c->place = PLACE_SETTLED;
}

static void close_homeless(struct client *c)
{
	struct err err;

	err_set(&err, SQLSTATE_NO_DATABASE, "no such database: %s", c->database);
	client_close(c, &err, err.text);
}

enum placed place_settle(struct client *c)
{
	struct worker *home;
	struct pool *pool = place_pool(c, c->org->id, &home);

	verify(!c->server);
	if (!home) {
		close_homeless(c);
		return PLACE_NONE;
	}
	if (!pool) {
		place_go(c, home, c->org->id);
		return PLACE_AWAY;
	}
	enter_own(c, pool);
	return PLACE_HERE;
}

/* ---- going to another worker ---- */

static void move_free(struct move **at)
{
	struct move *m = *at;

	*at = NULL;
	if (!m)
		return;
	later_stop(&m->go);
	luggage_free(&m->luggage);
	mem_free(m->name);
	mem_free(m->fallback);
	target_lore_free(&m->lore);
	mem_free(m);
}

/* At rest, with what it has to do in front of it. */
static void begin(struct client *c)
{
	client_move(c, CLIENT_IDLE);
	if (c->welcome_due) {
		client_welcome(c);
		return;
	}
	link_idle(c);
	stream_resume(&c->stream);
}

/* What it came for is done from here, and not from its own place, which is elsewhere. */
static void be_guest(struct client *c, struct pool *pool)
{
	pool_client_add(pool);
	c->fallen_from = pool;
	c->fallen_place = PLACE_LATER;
	c->place = PLACE_SETTLED;
	if (strcmp(c->move->org, c->org->id) != 0)
		speak_visit_here(c, c->move->org, pool);
}

static void move_over(struct client *c, struct pool *pool)
{
	struct move *m = c->move;

	luggage_unpack(&m->luggage, c);
	pool_client_add(pool);
	place_enter(c, pool);
	target_teach(pool->target, &m->lore);
	c->place = strcmp(m->org, c->org->id) == 0 ? PLACE_SETTLED : PLACE_LATER;
	address_arrive(c);
	if (m->fallback)
		be_guest(c, pool);
	move_free(&c->move);
	begin(c);
}

/* Where the fallback is; when a reload has taken it away, the client's place. */
static struct pool *destination(struct client *c, struct worker **home)
{
	struct move *m = c->move;
	struct pool *pool = m->fallback ? pool_of_entry(c, m->fallback, m->org, home) : NULL;

	if (m->fallback && *home)
		return pool;
	mem_free(m->fallback);
	m->fallback = NULL;
	return place_pool(c, m->org, home);
}

static void arrived(struct client *c)
{
	struct move *m = c->move;
	const struct conf *conf = c->worker->setup->conf;
	struct worker *home;

	if (conf->serial < m->serial) {
		loop_later(c->worker->loop, &m->go);
		return;
	}
	struct pool *pool = destination(c, &home);
	m->serial = conf->serial;
	m->to = home;
	if (pool)
		move_over(c, pool);
	else if (home)
		home_go(c, home, arrived);
	else
		close_homeless(c);
}

static void depart(struct client *c)
{
	struct move *m = c->move;
	struct pool *pool = c->pool;

	target_lore_of(pool->target, &m->lore);
	m->name = mem_str(name_of(c));
	guc_drop(&c->routed_name);
	m->luggage = luggage_pack(c);
	c->pool = NULL;
	leave_pool(c, pool);
	address_leave(c);
	home_go(c, m->to, arrived);
}

/* Where a reload has just taken the fallback away, it asks its pool once more. */
static void fall(struct client *c)
{
	struct err why = c->move->why;

	move_free(&c->move);
	if (place_fall_back(c, &why) != PLACE_AWAY)
		begin(c);
}

static void go(struct later *l)
{
	struct move *m = owner_of(l, struct move, go);

	if (m->falls)
		fall(m->client);
	else if (m->luggage)
		arrived(m->client);
	else
		depart(m->client);
}

static struct move *move_new(struct client *c, struct worker *to, const char *org)
{
	struct move *m = mem_make(struct move);

	verify(!c->move && !c->server);
	m->client = c;
	m->to = to;
	m->serial = c->worker->setup->conf->serial;
	strcpy(m->org, org);
	later_init(&m->go, go);
	c->move = m;
	c->deadline_idle = c->deadline_wait = c->deadline_notice = 0;
	if (c->state != CLIENT_WAIT)
		client_move(c, CLIENT_WAIT);
	stream_pause(&c->stream);
	loop_later(c->worker->loop, &m->go);
	return m;
}

void place_go(struct client *c, struct worker *home, const char *org)
{
	verify(home != c->worker && !c->fallen_from);
	move_new(c, home, org);
}

void place_stay(struct client *c)
{
	if (!c->move)
		return;
	move_free(&c->move);
	if (c->place == PLACE_SETTLED)
		c->place = PLACE_LATER;
}

void place_free(struct client *c)
{
	struct pool *pool = c->pool;

	move_free(&c->move);
	guc_drop(&c->routed_name);
	c->pool = NULL;
	if (pool)
		leave_pool(c, pool);
}

/* ---- fallbacks ---- */

static const char *fallback_of(const struct client *c)
{
	const struct conf_entry *e = target_entry(c->pool->target);
	return e && e->prefer_replica ? e->fallback : NULL;
}

bool place_has_fallback(const struct client *c)
{
	return fallback_of(c) != NULL;
}

static void note_fallback(const struct client *c, const char *to, const struct err *why)
{
	static struct log_limit limit;
	struct tally *entry = c->pool->target->entry;
	struct who who;
	char peer[ADDR_TEXT];

	atomic_fetch_add_explicit(&entry->fallbacks, 1, memory_order_relaxed);
	client_who(c, &who, peer);
	log_limited(&limit, LOG_WARNING_, &who, "no replica serves entry %s, its transactions go to %s: %s", entry->name, to, why->text);
}

enum placed place_fall_back(struct client *c, const struct err *why)
{
	const char *to = fallback_of(c);
	char org[ORG_ID_MOST + 1];
	struct worker *home;
	struct pool *pool;

	if (!to)
		return PLACE_NONE;
	note_fallback(c, to, why);
	strcpy(org, c->org->id);
	pool = pool_of_entry(c, to, org, &home);
	verify(home);
	if (!pool) {
		to = mem_str(to);
		place_rise(c);
		speak_visit_end(c);
		move_new(c, home, org)->fallback = (char *)to;
		return PLACE_AWAY;
	}
	pool_client_add(pool);
	if (c->fallen_from) {
		pool_client_drop(c->pool);
	} else {
		c->fallen_from = c->pool;
		c->fallen_place = c->place;
		c->place = PLACE_SETTLED;
	}
	place_enter(c, pool);
	return PLACE_HERE;
}

void place_fall_soon(struct client *c, const struct err *why)
{
	struct move *m;

	c->deadline_wait = c->deadline_notice = 0;
	m = move_new(c, c->worker, c->org->id);
	m->falls = true;
	m->why = *why;
}

void place_rise(struct client *c)
{
	struct pool *pool = c->pool;

	if (!c->fallen_from)
		return;
	place_enter(c, c->fallen_from);
	c->fallen_from = NULL;
	pool_client_drop(pool);
	if (c->fallen_place > c->place)
		c->place = c->fallen_place;
}

/* ---- reload ---- */

static bool texts_same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool routes_same(const struct conf *a, const struct conf *b)
{
	if (a->n_routes != b->n_routes)
		return false;
	for (int i = 0; i < a->n_routes; i++) {
		const struct conf_route *r = a->routes[i], *s = b->routes[i];
		if (strcmp(r->org, s->org) != 0 || strcmp(r->to, s->to) != 0 || !texts_same(r->application_name, s->application_name) ||
		    !texts_same(r->user, s->user) || !texts_same(r->entry, s->entry))
			return false;
	}
	return true;
}

static bool entry_stays(const struct conf_entry *a, const struct conf_entry *b)
{
	return a && b ? strcmp(a->cluster->name, b->cluster->name) == 0 && texts_same(a->user, b->user) : a == b;
}

/* Are all places of the one where they are in the other? */
static bool places_same(const struct conf *a, const struct conf *b)
{
	if (!routes_same(a, b) || a->entries.count != b->entries.count || !entry_stays(a->star, b->star))
		return false;
	hash_each(link, &a->entries) {
		const struct conf_entry *e = owner_of(link, struct conf_entry, link);
		if (!entry_stays(e, conf_entry(b, e->name)))
			return false;
	}
	return true;
}

/* One that waits for a server, at the wrong place: it begins again at the right one. */
static void begin_again(struct client *c)
{
	pool_give_up(&c->waiter);
	throttle_leave(c);
	c->deadline_wait = c->deadline_notice = 0;
	place_rise(c);
	speak_visit_end(c);
	if (place_settle(c) == PLACE_HERE)
		begin(c);
}

static void client_adopt(struct client *c)
{
	const struct conf *conf = c->worker->setup->conf;

	if (!c->pool)
		return; /* it logs in */
	if (c->move) {
		c->place = PLACE_NOW; /* it looks for its place when it arrives, or when it has been served from a fallback */
		return;
	}
	note_name(c);
	note_stray(c);
	if (!conf->star && !conf_entry(conf, c->database))
		return; /* removed: who reloads closes it */
	if (is_served_from_here(c, c->org->id) && !speak_is_visiting(c))
		return;
	c->place = PLACE_NOW;
	if (c->state == CLIENT_IDLE)
		place_settle(c);
	else if (!c->server && !is_served_from_here(c, c->org->id))
		begin_again(c);
}

static int clients_pick(struct worker *w, struct client ***out)
{
	int n = 0, room = 0;

	for (int state = CLIENT_IDLE; state < CLIENT_CLOSING; state++)
		room += w->n_clients[state];
	*out = mem_new((size_t)room * sizeof(**out) + 1);
	for (int state = CLIENT_IDLE; state < CLIENT_CLOSING; state++)
		list_each(link, &w->clients[state])
			(*out)[n++] = list_owner(link, struct client, link);
	return n;
}

/* They are picked first: what is done to one may move others from list to list, or end them; their memory stays to the end of the turn. */
void place_adopt(struct worker *w, const struct conf *before)
{
	struct client **all;
	int n;

	verify_here(w->loop);
	if (places_same(before, w->setup->conf))
		return;
	n = clients_pick(w, &all);
	for (int i = 0; i < n; i++)
		if (all[i]->state != CLIENT_CLOSING && !all[i]->console)
			client_adopt(all[i]);
	mem_free(all);
}
