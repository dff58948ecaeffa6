/* See pool/pool.h. Who gets a server, and when one more is opened.
 *
 * A waiter is served, in this order of preference, by an idle server of its own pool, by a new one, by an idle one of the same target
 * that changes hands through a reset, by closing an idle one of another target and opening one in its place. The last two only
 * where a cap over several pools (user, entry, cluster) keeps it from opening one. When nothing of that is possible the pool is
 * blocked, and pool/blocked says whose turn it is when a server comes free. */
#include "pool/pool.h"

#include <inttypes.h>
#include <strings.h>

#include "base/random.h"
#include "pool/ask.h"
#include "pool/blocked.h"
#include "pool/order.h"
#include "pool/pool_priv.h"
#include "wire/sqlstate.h"

#define LOGINS_AT_ONCE 8 /* per target, while they work; one while they fail */

static const struct settings *settings_of(const struct pool *p)
{
	return &p->lane->setup->conf->set;
}

bool pool_is_held(const struct pool *p)
{
	return p->lane->suspended || p->flow->paused || atomic_load_explicit(&p->target->entry->paused, memory_order_relaxed);
}

/* ---- granting ---- */

static void note_wait(struct pool *p, usec_t since)
{
	usec_t waited = loop_now(p->lane->loop) - since;

	count_add(&p->counts.wait_us, (uint64_t)waited);
	hist_add(&p->waits, waited);
}

static void hand_to(struct server *s, void *user)
{
	count_add(&s->pool->counts.server_assignments, 1);
	server_take(s, user);
	use_begin(s);
}

static void waiter_out(struct waiter *w)
{
	list_take(&w->link);
	if (--w->pool->n_waiters == 0)
		pool_unblock(w->pool);
	else
		pool_wait_moved(w->pool);
}

static void grant_first(struct pool *p, struct server *s)
{
	struct waiter *w = list_owner(list_first(&p->waiters), struct waiter, link);

	waiter_out(w);
	note_wait(p, w->since);
	hand_to(s, w->user);
	w->granted(w, s);
}

static inline bool needs_check(const struct server *s)
{
	const struct settings *set = &s->lane->setup->conf->set;
	return loop_now(s->loop) - s->idle_since > set->server_check_delay && set->server_check_query[0];
}

/* An idle server of the pool that can be used at once. Those that must be asked first are asked, as many as there are waiters for. */
static struct server *own_idle(struct pool *p, int wanted)
{
	bool oldest_first = settings_of(p)->server_round_robin;
	struct list *idle = &p->servers[SERVER_IDLE];

	while (!list_empty(idle)) {
		struct server *s = list_owner(oldest_first ? idle->prev : idle->next, struct server, link);
		if (!needs_check(s))
			return s; /* what is overdue is closed when it comes to rest, or by its timer, or by the order that made it so */
		else if (p->n_state[SERVER_TEST] < wanted)
			ask_check(s);
		else
			break;
	}
	return NULL;
}

/* Those that will come free without anybody's doing. */
static int servers_coming(const struct pool *p)
{
	return p->n_state[SERVER_DIAL] + p->n_state[SERVER_LOGIN] + p->n_state[SERVER_TEST] + p->n_state[SERVER_RESET] + p->n_evictions;
}

/* ---- opening ---- */

static bool reserve_is_due(const struct pool *p)
{
	const struct settings *set = settings_of(p);
	struct list *first = list_first((struct list *)&p->waiters);

	if (!first || !set->reserve_pool_timeout)
		return false;
	return loop_now(p->lane->loop) - list_owner(first, struct waiter, link)->since >= set->reserve_pool_timeout;
}

static bool pool_has_room(struct pool *p, bool *reserve)
{
	int size = p->policy.pool_size;

	*reserve = false;
	if (size == 0 || p->n_servers < size)
		return true;
	*reserve = p->policy.reserve_pool_size > 0 && p->n_servers < size + p->policy.reserve_pool_size && reserve_is_due(p);
	return *reserve;
}

static bool logins_are_enough(const struct pool *p)
{
	const struct target *t = p->target;
	const struct conf_entry *e = target_entry(t);
	int most = t->failing_since ? 1 : LOGINS_AT_ONCE;

	if (timer_is_set(&t->retry) || t->n_logins >= most || !e)
		return true;
	return e->cluster->max_server_login && p->lane->n_logins >= e->cluster->max_server_login;
}

/* Takes all the counts for one more server, or none and says which cap stands in the way. */
static enum cap caps_take(struct pool *p)
{
	struct target *t = p->target;

	if (!tally_take(&t->user->servers, p->policy.max_user_connections))
		return CAP_USER;
	if (!tally_take(&t->entry->servers, p->policy.max_db_connections)) {
		tally_give(&t->user->servers);
		return CAP_ENTRY;
	}
	if (!ledger_take(p->lane->cluster)) {
		tally_give(&t->user->servers);
		tally_give(&t->entry->servers);
		return CAP_CLUSTER;
	}
	return CAP_NONE;
}

/* PostgreSQL itself has no more connections to give: whoever waits for one gets the next that comes free, as at a ceiling of ours. */
static bool target_is_full(const struct target *t)
{
	return t->failing_since && t->n_servers > t->n_logins && strcmp(t->last_err.sqlstate, SQLSTATE_TOO_MANY) == 0;
}

static enum cap open_one(struct pool *p)
{
	bool reserve;

	if (pool_is_held(p) || !pool_has_room(p, &reserve))
		return CAP_POOL;
	if (logins_are_enough(p))
		return target_is_full(p->target) ? CAP_CLUSTER : CAP_LATER;
	enum cap cap = caps_take(p);
	if (cap != CAP_NONE)
		return cap;
	struct server *s = server_open(p);
	if (reserve) {
		struct who who;
		char peer[ADDR_TEXT];
		server_who(s, &who, peer);
		log_line(LOG_LOG_, &who, "taking connection from reserve_pool");
	}
	return CAP_NONE;
}

static bool cap_concerns(enum cap cap, const struct pool *p, const struct server *s)
{
	switch (cap) {
	case CAP_USER:
		return s->target->user == p->target->user;
	case CAP_ENTRY:
		return s->target->entry == p->target->entry;
	case CAP_CLUSTER:
		return true;
	default:
		return false;
	}
}

/* The idle server that rested longest among those whose end would make room under the cap. */
static struct server *idle_to_evict(struct pool *p, enum cap cap)
{
	list_each(link, &p->lane->idle) {
		struct server *s = list_owner(link, struct server, lane_link);
		if (s->pool != p && cap_concerns(cap, p, s))
			return s;
	}
	return NULL;
}

/* Servers of frozen orgs and others are not each other's: one is read-only by its startup packet. */
bool pool_may_take_over(const struct server *s, const struct pool *p)
{
	return s->target == p->target && s->frozen == p->flow->frozen;
}

/* An idle server of the same target, of another org: it changes hands. */
static struct server *idle_to_take_over(struct pool *p)
{
	list_each(link, &p->target->idle) {
		struct server *s = list_owner(link, struct server, idle_link);
		if (s->pool != p && pool_may_take_over(s, p))
			return s;
	}
	return NULL;
}

/* Closes an idle server of another pool so that this one may open one: when it is gone (pool_server_gone). */
static void evict(struct server *s, struct pool *p)
{
	s->evicted_for = p;
	p->n_evictions++;
	server_close(s, NULL, "evicted");
}

/* True: it can be used at once, DISCARD ALL goes ahead of the next query. A reset of the operator's own making may fail, and what stands
 * behind it would run in the other org's session; so its answer is awaited. */
static bool take_over(struct server *s, struct pool *p)
{
	const struct conf_entry *e = target_entry(s->target);
	const char *reset = e ? e->cluster->org_reset_query : NULL;
	struct pool *before = s->pool;

	server_change_pool(s, p);
	if (before->n_waiters) /* its pool_size may have held it back until now: what does from here on, it must find out */
		pool_serve_soon(before);
	count_add(&p->counts.handovers, 1);
	if (reset && strcasecmp(reset, "DISCARD ALL") != 0) {
		ask_org_reset(s, reset);
		return false;
	}
	s->dirty = true;
	if (!needs_check(s))
		return true;
	ask_check(s);
	return false;
}

/* ---- serving ---- */

/* Opens what the waiters need; true when a server was found that can be used at once instead. */
static bool open_for_waiters(struct pool *p, struct server **found)
{
	*found = NULL;
	while (servers_coming(p) < p->n_waiters) {
		enum cap cap = open_one(p);
		if (cap == CAP_NONE)
			continue;
		if (cap == CAP_LATER && !list_linked(&p->login_link))
			list_push(&p->lane->to_login, &p->login_link);
		if (cap == CAP_POOL || cap == CAP_LATER) {
			pool_unblock(p);
			return false;
		}
		*found = idle_to_take_over(p);
		if (*found)
			return true;
		struct server *victim = idle_to_evict(p, cap);
		bool first = pool_block(p, cap); /* also with a victim: one that comes free may be due to it before that is gone */
		if (victim)
			evict(victim, p);
		else if (!first)
			return false;
	}
	if (!p->n_evictions)
		pool_unblock(p);
	return false;
}

static void timer_for(struct pool *p);
static void refuse_waiters(struct pool *p, const struct err *err, bool all);

void pool_serve(struct pool *p)
{
	struct err err;

	verify_here(p->lane->loop);
	lane_keep_up(p->lane);
	if (p->n_waiters && target_is_down(p->target, &err))
		refuse_waiters(p, &err, true);
	while (p->n_waiters && !pool_is_held(p)) {
		struct server *s = own_idle(p, p->n_waiters);
		if (!s) {
			if (!open_for_waiters(p, &s))
				break;
			if (!take_over(s, p))
				continue;
		}
		grant_first(p, s);
	}
	timer_for(p);
}

enum take pool_take(struct pool *p, struct waiter *w, struct server **out, struct err *err)
{
	verify_here(p->lane->loop);
	lane_keep_up(p->lane);
	w->pool = p;
	w->since = loop_now(p->lane->loop);
	if (p->target->reads && !pool_is_held(p) && target_refuses(p->target, w->fresh, err))
		return TAKE_REFUSED;
	if (!p->n_waiters && !pool_is_held(p)) {
		struct server *s = own_idle(p, 1);
		if (s) {
			hand_to(s, w->user);
			*out = s;
			return TAKE_GRANTED;
		}
	}
	if (target_refuses(p->target, w->fresh, err))
		return TAKE_REFUSED;
	list_push(&p->waiters, &w->link);
	p->n_waiters++;
	pool_touch(p);
	pool_serve_soon(p);
	return TAKE_WAIT;
}

void pool_give_up(struct waiter *w)
{
	if (!w->pool || !list_linked(&w->link))
		return;
	waiter_out(w);
}

/* Another target's connection cannot be used, only ended so that a new one is opened: that costs a login, and must not be done for every
 * transaction. While the one has waiters of its own it gives up one only to a pool that has clearly fewer, or none for a while. */
#define WORTH_A_LOGIN (20 * USEC_PER_MSEC)

bool pool_is_worth_a_login(const struct pool *own, const struct pool *other)
{
	if (!own->n_waiters || other->n_servers + 1 < own->n_servers)
		return true;
	return other->n_servers == 0 && loop_now(own->lane->loop) - list_owner(list_first((struct list *)&other->waiters), struct waiter, link)->since >= WORTH_A_LOGIN;
}

bool pool_wants_one_more(struct pool *p)
{
	bool reserve;
	return !pool_is_held(p) && pool_has_room(p, &reserve) && servers_coming(p) < p->n_waiters;
}

bool pool_may_log_in(struct pool *p)
{
	return !logins_are_enough(p);
}

/* A user's cap spans lanes: is somebody of another lane held back by it? Those of this lane were asked first. */
static bool wanted_elsewhere(const struct server *s)
{
	return atomic_load_explicit(&s->target->user->starved, memory_order_relaxed) > 0 && s->pool->n_waiters == 0;
}

void lane_make_room(struct lane *l)
{
	list_each(link, &l->idle) {
		struct server *s = list_owner(link, struct server, lane_link);
		if (!wanted_elsewhere(s))
			continue;
		server_close(s, NULL, "evicted");
		return;
	}
}

void pool_give(struct server *s)
{
	struct pool *own = s->pool, *p;

	use_end(s);
	p = blocked_next(s);
	if (!p) {
		if (wanted_elsewhere(s))
			server_close(s, NULL, "evicted");
		return;
	}
	if (p == own) {
		if (needs_check(s))
			pool_serve_soon(own);
		else
			grant_first(own, s);
		return;
	}
	if (!pool_may_take_over(s, p))
		evict(s, p);
	else if (take_over(s, p))
		grant_first(p, s);
}

/* ---- looking again, at the end of the turn ---- */

void pool_serve_soon(struct pool *p)
{
	if (!list_linked(&p->serve_link))
		list_push(&p->lane->to_serve, &p->serve_link);
	loop_later(p->lane->loop, &p->lane->serve_later);
}

void pool_server_gone(struct server *s)
{
	struct pool *p = s->pool;
	struct lane *l = p->lane;
	struct target *t = p->target;

	if (s->evicted_for) {
		s->evicted_for->n_evictions--;
		pool_serve_soon(s->evicted_for);
		s->evicted_for = NULL;
	}
	if (p->n_waiters || p->policy.min_pool_size > p->n_servers)
		pool_serve_soon(p);
	if (l->n_blocked)
		lane_cap_room(l);
	if (l->calls->cap_room && (atomic_load(&t->user->starved) || atomic_load(&t->entry->starved)))
		l->calls->cap_room(l);
	if (!list_empty(&l->orders))
		order_check(l);
	timer_for(p);
}

void lane_cap_room(struct lane *l)
{
	l->cap_room = true;
	loop_later(l->loop, &l->serve_later);
}

void lane_login_over(struct lane *l)
{
	l->login_room = true;
	if (!list_empty(&l->to_login))
		loop_later(l->loop, &l->serve_later);
	if (l->n_blocked)
		lane_cap_room(l);
}

/* Those that find no room now keep their places; whoever comes to want more goes to the end, where there is none by then. */
void lane_serve_logins(struct lane *l)
{
	if (!l->login_room)
		return;
	l->login_room = false;
	list_each_safe(link, &l->to_login) {
		struct pool *p = list_owner(link, struct pool, login_link);
		if (logins_are_enough(p))
			continue;
		list_take(link);
		pool_serve(p);
	}
}

/* Each round helps the first of the queue, or finds that another cap holds it back, or ends. */
static void serve_queue(struct lane *l, struct scope *scope)
{
	struct pool *p;

	while ((p = blocked_first(l, scope))) {
		int waiters = p->n_waiters, servers = p->n_servers;
		enum cap cap = p->blocked_by;
		pool_serve(p);
		if (p->blocked_by == cap && p->n_waiters == waiters && p->n_servers == servers)
			return;
	}
}

/* Only what was asked for: not with each turn of the loop, nor with each waiter that comes. */
void lane_serve_blocked(struct lane *l)
{
	if (!l->cap_room)
		return;
	l->cap_room = false;
	serve_queue(l, NULL);
	list_each_safe(link, &l->blocked_scopes)
		serve_queue(l, list_owner(link, struct scope, blocked_link));
}

/* ---- the pool's timer: reserve, minimum, end ---- */

#define MINIMUM_EVERY (USEC_PER_SEC / 3)
#define EMPTY_POOL_STAYS (60 * USEC_PER_SEC)

static bool keeps_minimum(const struct pool *p)
{
	const struct conf_entry *e = target_entry(p->target);
	return p->n_servers < p->policy.min_pool_size && e && (p->n_clients > 0 || (e->user && !p->left)) && !pool_is_held(p);
}

/* Pools of orgs come and go; others stay unless pool_idle_timeout says when they end. */
static usec_t empty_pool_stays(const struct pool *p)
{
	usec_t idle = settings_of(p)->pool_idle_timeout;
	if (p->left)
		return USEC_PER_SEC;
	if (p->policy.min_pool_size > 0)
		return 0;
	if (idle)
		return idle;
	if (p->target->made)
		return settings_of(p)->autodb_idle_timeout;
	return strcmp(p->flow->key, "default") == 0 ? 0 : EMPTY_POOL_STAYS;
}

static void timer_for(struct pool *p)
{
	usec_t now = loop_now(p->lane->loop);
	usec_t at = 0;
	usec_t reserve_after = settings_of(p)->reserve_pool_timeout;
	struct list *first = list_first(&p->waiters);

	if (first && p->policy.reserve_pool_size && reserve_after) {
		usec_t due = list_owner(first, struct waiter, link)->since + reserve_after;
		at = due > now ? due : now + MINIMUM_EVERY;
	}
	if (keeps_minimum(p))
		at = now + MINIMUM_EVERY;
	bool empty = p->n_clients == 0 && p->n_servers == 0 && p->n_waiters == 0 && p->n_evictions == 0;
	if (!empty)
		p->empty_since = 0;
	else if (!p->empty_since)
		p->empty_since = now;
	if (empty && !at && empty_pool_stays(p))
		at = p->empty_since + empty_pool_stays(p);
	if (at && (!timer_is_set(&p->timer) || p->timer.at > at))
		timer_set(&p->timer, at);
}

static void log_cleanup(const struct pool *p)
{
	struct who who = {.kind = 'P', .entry = p->target->entry->name, .user = p->target->user->name, .peer = "pool", .org = p->flow->key};
	log_line(LOG_LOG_, &who, "cleaning up idle pool");
}

void pool_timer(struct timer *t)
{
	struct pool *p = owner_of(t, struct pool, timer);
	usec_t stays = empty_pool_stays(p);

	if (p->empty_since && stays && p->n_clients == 0 && p->n_servers == 0 && !p->n_waiters && !p->n_evictions && loop_now(p->lane->loop) - p->empty_since >= stays) {
		log_cleanup(p);
		lane_pool_free(p);
		return;
	}
	if (keeps_minimum(p))
		open_one(p);
	pool_serve(p);
}

void pool_client_add(struct pool *p)
{
	p->n_clients++;
	p->left = false;
	pool_touch(p);
	if (keeps_minimum(p))
		timer_for(p);
}

void pool_client_drop(struct pool *p)
{
	verify(p->n_clients > 0);
	p->n_clients--;
	pool_touch(p);
	if (p->n_clients == 0 && p->n_servers == 0)
		timer_for(p);
}

void pool_left(struct pool *p)
{
	p->left = p->n_clients == 0;
	while (p->n_state[SERVER_IDLE] && pool_live_servers(p) > p->n_clients)
		server_close(list_owner(list_last(&p->servers[SERVER_IDLE]), struct server, link), NULL, "clients were led elsewhere");
}

/* ---- logins that fail ---- */

#define RETRY_FIRST (100 * USEC_PER_MSEC)

static bool is_temporary(const struct err *err)
{
	return strcmp(err->sqlstate, SQLSTATE_NOT_NOW) == 0; /* the database system is starting up */
}

#define SOON USEC_PER_SEC /* a client waits so long for the next attempt rather than be told of the last */

static bool any_replica_serves(const struct target *t)
{
	const struct conf_cluster *cc = target_entry(t)->cluster;

	for (int i = 0; i < cc->n_replicas; i++)
		if (cluster_replica_serves(t->lane->cluster, cc, i))
			return true;
	return false;
}

/* Of a read pool with a fallback: whoever would have to wait for a replica that cannot serve goes there instead. A replica that the probes find
 * mute may leave connections that look well. */
static bool is_not_served(const struct target *t, struct err *err)
{
	if (!any_replica_serves(t))
		return !err_set(err, SQLSTATE_NOT_NOW, "no replica of cluster %s can serve", t->lane->cluster->name);
	if (!timer_is_set(&t->retry) || t->n_servers > t->n_logins)
		return false;
	*err = t->last_err;
	return true;
}

bool target_is_down(const struct target *t, struct err *err)
{
	const struct cluster *c = t->lane->cluster;
	word_t w = cluster_word(c);
	const struct conf_entry *e;

	if (!word_is_guarded(w) || word_state(w) != CLUSTER_DEGRADED)
		return false;
	e = target_entry(t);
	if (!e || e->prefer_replica || (!t->exempt && cluster_has_stand_in(c, e->cluster)))
		return false;
	err_set(err, SQLSTATE_NOT_NOW, "cluster %s is %s under epoch %" PRIu64 ": its primary cannot be used, and %s", c->name,
		cluster_state_name(word_state(w)), word_epoch(w), t->exempt ? "this client may not read elsewhere" : "no replica can serve");
	err_hint(err, "the primary is tried again within %lld ms", (long long)(e->cluster->breaker_open / USEC_PER_MSEC));
	return true;
}

bool target_refuses(const struct target *t, bool fresh, struct err *err)
{
	const struct settings *set = &t->lane->setup->conf->set;

	if (target_is_down(t, err))
		return true;
	if (t->reads)
		return is_not_served(t, err);
	if (!timer_is_set(&t->retry) || t->n_servers > t->n_logins || is_temporary(&t->last_err))
		return false; /* it works, or it is about to be tried again */
	if (!t->failed_by_server && t->retry.at - loop_now(t->lane->loop) <= SOON)
		return false; /* the next attempt is its answer */
	if (!fresh && !t->failed_by_server && loop_now(t->lane->loop) - t->failing_since < set->server_login_retry)
		return false; /* a restart: those who were served before queue through it */
	if (t->failed_by_server)
		*err = t->last_err;
	else
		err_set(err, t->last_err.sqlstate, "server login has been failing, cached error: %s (server_login_retry)", t->last_err.text);
	return true;
}

static void refuse_waiters(struct pool *p, const struct err *err, bool all)
{
	list_each_safe(link, &p->waiters) {
		struct waiter *w = list_owner(link, struct waiter, link);
		if (!all && !w->fresh)
			continue;
		waiter_out(w);
		w->refused(w, err);
	}
}

void target_login_failed(struct target *t, const struct err *err, bool server_said)
{
	struct lane *l = t->lane;
	const struct settings *set = &l->setup->conf->set;
	usec_t now = loop_now(l->loop);
	usec_t most = set->server_login_retry ? set->server_login_retry : USEC_PER_SEC;

	if (!t->failing_since) {
		t->failing_since = now;
		t->retry_wait = RETRY_FIRST;
	} else {
		t->retry_wait = t->retry_wait * 2;
	}
	if (t->retry_wait > most)
		t->retry_wait = most;
	t->last_err = *err;
	t->failed_by_server = server_said;
	timer_in(&t->retry, t->retry_wait / 2 + (usec_t)random_below((uint32_t)(t->retry_wait / 2) + 1));
	if (t->n_servers > t->n_logins || (is_temporary(err) && !t->reads))
		return;
	bool all = server_said || t->reads || now - t->failing_since >= set->server_login_retry;
	hash_each(link, &l->pools) {
		struct pool *p = owner_of(link, struct pool, link);
		if (p->target == t && p->n_waiters)
			refuse_waiters(p, err, all);
	}
}

void target_login_worked(struct target *t)
{
	bool failed = t->failing_since != 0;

	t->failing_since = 0;
	t->retry_wait = 0;
	timer_stop(&t->retry);
	if (failed)
		target_retry(&t->retry);
}

void target_retry(struct timer *timer)
{
	struct target *t = owner_of(timer, struct target, retry);

	hash_each(link, &t->lane->pools) {
		struct pool *p = owner_of(link, struct pool, link);
		if (p->target == t && (p->n_waiters || keeps_minimum(p)))
			pool_serve_soon(p);
	}
}

void pool_counts_sum(struct pool_counts *to, const struct pool_counts *from)
{
#define X(name, unit, help) count_add(&to->name, count_read(&from->name));
	POOL_COUNTERS(X)
#undef X
}
