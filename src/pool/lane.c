/* A lane: what one worker holds of a cluster. Finds and makes targets, flows and pools, follows reloads, and looks again at
 * pools for which something changed in this turn. See pool/pool.h. */
#include <openssl/crypto.h>

#include "pool/blocked.h"
#include "pool/login.h"
#include "pool/order.h"
#include "pool/pool.h"
#include "pool/pool_priv.h"
#include "pool/usage.h"

static void serve_later(struct later *w)
{
	struct lane *l = owner_of(w, struct lane, serve_later);
	struct list todo;

	list_init(&todo);
	while (!list_empty(&l->to_serve)) { /* what is added meanwhile waits for the next turn */
		struct list *link = list_first(&l->to_serve);
		list_take(link);
		list_push(&todo, link);
	}
	while (!list_empty(&todo)) {
		struct pool *p = list_owner(list_first(&todo), struct pool, serve_link);
		list_take(&p->serve_link);
		pool_serve(p);
	}
	lane_serve_logins(l);
	lane_serve_blocked(l);
}

/* What the lane itself has of its cluster's line; when that is gone, what stands holds. */
static void follow_cluster(struct lane *l)
{
	const struct conf_cluster *cc = conf_cluster(l->setup->conf, l->cluster->name);

	if (cc)
		l->priority_max_wait = cc->priority_max_wait;
}

struct lane *lane_new(struct loop *loop, struct cluster *c, const struct setup *setup, struct guc_book *g, struct stmt_book *s,
		      const struct server_user_calls *calls, atomic_ullong *last_server_id)
{
	struct lane *l = mem_make(struct lane);

	l->loop = loop;
	l->cluster = c;
	l->setup = setup;
	l->guc_book = g;
	l->stmt_book = s;
	l->calls = calls;
	l->last_server_id = last_server_id;
	l->word = cluster_word(c);
	l->primary = atomic_load(&c->primary);
	sfq_init(&l->orgs);
	list_init(&l->blocked_scopes);
	follow_cluster(l);
	list_init(&l->orders);
	list_init(&l->idle);
	list_init(&l->to_serve);
	list_init(&l->to_login);
	list_init(&l->cancel_calls);
	list_init(&l->touched);
	later_init(&l->serve_later, serve_later);
	return l;
}

/* ---- targets ---- */

struct target_key {
	const struct tally *entry, *user;
	uintptr_t exempt; /* as wide as the others: the key is hashed as bytes */
};

static bool target_same(const struct hash_link *link, const void *key)
{
	const struct target *t = owner_of(link, struct target, link);
	const struct target_key *k = key;
	return t->entry == k->entry && t->user == k->user && t->exempt == (k->exempt != 0);
}

enum standing { STANDING_PLAIN, STANDING_EXEMPT };

static struct target *target_of(struct lane *l, const struct conf_entry *e, const char *server_user, enum standing standing)
{
	struct target_key key = {tally_entry(e->name), tally_user(server_user), standing == STANDING_EXEMPT};
	uint64_t hash = hash_bytes(&key, sizeof(key));
	struct hash_link *link = hash_find(&l->targets, hash, target_same, &key);

	if (link)
		return owner_of(link, struct target, link);
	struct target *t = mem_make(struct target);
	t->lane = l;
	t->entry = tally_entry(e->name);
	t->user = tally_user(server_user);
	t->entry_scope = scope_of(l, t->entry);
	t->user_scope = scope_of(l, t->user);
	t->exempt = standing == STANDING_EXEMPT;
	if (e->automatic) {
		t->made = conf_entry_make(l->setup->conf, e->name);
		log_log("registered new auto-database: %s", e->name);
	}
	t->reads = e->prefer_replica && e->fallback;
	list_init(&t->idle);
	timer_init(&t->retry, l->loop, target_retry);
	hash_add(&l->targets, &t->link, hash);
	return t;
}

const struct conf_entry *target_entry(const struct target *t)
{
	const struct conf_entry *e = conf_entry(t->lane->setup->conf, t->entry->name);
	return e ? e : t->made;
}

struct guc_value *target_spelling(const struct target *t, int guc, const struct guc_value *asked)
{
	for (int i = 0; i < t->n_spellings; i++)
		if (t->spellings[i].guc == guc && t->spellings[i].asked == asked)
			return t->spellings[i].reported;
	return NULL;
}

void target_spelling_add(struct target *t, int guc, struct guc_value *asked, struct guc_value *reported)
{
	if (!asked || !reported || t->n_spellings == SPELLINGS_MOST || target_spelling(t, guc, asked))
		return;
	if (!t->spellings)
		t->spellings = mem_new(SPELLINGS_MOST * sizeof(*t->spellings));
	t->spellings[t->n_spellings++] = (struct spelling){guc, guc_ref(asked), guc_ref(reported)};
}

void target_lore_of(const struct target *t, struct target_lore *out)
{
	*out = (struct target_lore){.user = t->user, .keys = t->keys};
	if (secret_is_set(&t->password))
		secret_copy(&out->password, &t->password);
}

void target_teach(struct target *t, const struct target_lore *lore)
{
	bool fails = t->failing_since != 0;

	if (t->user != lore->user)
		return;
	if (lore->keys.set && (!t->keys.set || fails))
		t->keys = lore->keys;
	if (secret_is_set(&lore->password) && (!secret_is_set(&t->password) || fails))
		secret_copy(&t->password, &lore->password);
}

void target_lore_free(struct target_lore *lore)
{
	OPENSSL_cleanse(&lore->keys, sizeof(lore->keys));
	secret_free(&lore->password);
}

static void target_free(struct target *t)
{
	for (int i = 0; i < t->n_spellings; i++) {
		guc_drop(&t->spellings[i].asked);
		guc_drop(&t->spellings[i].reported);
	}
	mem_free(t->spellings);
	hash_take(&t->lane->targets, &t->link);
	scope_drop(t->lane, &t->entry_scope);
	scope_drop(t->lane, &t->user_scope);
	timer_stop(&t->retry);
	conf_entry_free(&t->made);
	buf_free(&t->welcome.messages);
	secret_free(&t->password);
	OPENSSL_cleanse(&t->keys, sizeof(t->keys));
	mem_free(t);
}

/* ---- flows ---- */

static bool flow_same(const struct hash_link *link, const void *key)
{
	return strcmp(owner_of(link, struct flow, link)->key, key) == 0;
}

struct flow *lane_flow(struct lane *l, const char *org)
{
	struct hash_link *link = hash_find(&l->flows, hash_bytes(org, strlen(org)), flow_same, org);
	return link ? owner_of(link, struct flow, link) : NULL;
}

static struct flow *flow_of(struct lane *l, const char *org)
{
	uint64_t hash = hash_bytes(org, strlen(org));
	struct flow *f = lane_flow(l, org);

	if (f)
		return f;
	f = mem_make(struct flow);
	verify(strlen(org) < sizeof(f->key));
	strcpy(f->key, org);
	f->lane = l;
	sfq_unit_init(&f->unit);
	sfq_init(&f->pools);
	hash_add(&l->flows, &f->link, hash);
	return f;
}

static void flow_free(struct flow *f)
{
	hash_take(&f->lane->flows, &f->link);
	sfq_free(&f->pools);
	mem_free(f);
}

/* ---- pools ---- */

struct pool_key {
	const struct target *target;
	const struct flow *flow;
};

static bool pool_same(const struct hash_link *link, const void *key)
{
	const struct pool *p = owner_of(link, struct pool, link);
	const struct pool_key *k = key;
	return p->target == k->target && p->flow == k->flow;
}

static void pool_resolve(struct pool *p)
{
	const struct conf_entry *e = target_entry(p->target);

	if (!e)
		return; /* removed: what stands holds until the last client is gone */
	conf_policy(p->lane->setup->conf, e, p->target->user->name, p->flow->key, &p->policy);
	usec_t now = loop_now(p->lane->loop);
	sfq_unit_tune(&p->flow->unit, p->policy.weight, (enum sfq_rank)p->policy.priority, now);
	sfq_unit_tune(&p->unit, p->policy.weight, (enum sfq_rank)p->policy.priority, now);
}

static struct pool *pool_of(struct lane *l, const struct conf_entry *entry, const char *server_user, const char *org, enum standing standing)
{
	verify_here(l->loop);
	struct pool_key key = {target_of(l, entry, server_user, standing), flow_of(l, org)};
	uint64_t hash = hash_bytes(&key, sizeof(key));
	struct hash_link *link = hash_find(&l->pools, hash, pool_same, &key);

	if (link)
		return owner_of(link, struct pool, link);
	struct pool *p = mem_make(struct pool);
	p->lane = l;
	p->target = (struct target *)key.target;
	p->flow = (struct flow *)key.flow;
	p->target->n_pools++;
	p->flow->n_pools++;
	for (int i = 0; i < SERVER_STATES; i++)
		list_init(&p->servers[i]);
	list_init(&p->waiters);
	list_init(&p->serve_link);
	list_init(&p->login_link);
	list_init(&p->touched);
	timer_init(&p->timer, l->loop, pool_timer);
	sfq_unit_init(&p->unit);
	pool_resolve(p);
	hash_add(&l->pools, &p->link, hash);
	return p;
}

struct pool *lane_pool(struct lane *l, const struct conf_entry *entry, const char *server_user, const char *org)
{
	return pool_of(l, entry, server_user, org, STANDING_PLAIN);
}

struct pool *lane_pool_exempt(struct lane *l, const struct conf_entry *entry, const char *server_user, const char *org)
{
	return pool_of(l, entry, server_user, org, STANDING_EXEMPT);
}

static bool remainder_same(const struct hash_link *link, const void *key)
{
	return owner_of(link, struct remainder, link)->entry == key;
}

static struct remainder *remainder_of(struct lane *l, struct tally *entry)
{
	uint64_t hash = hash_bytes(&entry, sizeof(entry));
	struct hash_link *link = hash_find(&l->remainders, hash, remainder_same, entry);

	if (link)
		return owner_of(link, struct remainder, link);
	struct remainder *r = mem_make(struct remainder);
	r->entry = entry;
	hash_add(&l->remainders, &r->link, hash);
	return r;
}

void lane_pool_free(struct pool *p)
{
	struct lane *l = p->lane;

	verify(p->n_clients == 0 && p->n_servers == 0 && p->n_waiters == 0);
	pool_counts_sum(&remainder_of(l, p->target->entry)->counts, &p->counts);
	usage_leave(p);
	hash_take(&l->pools, &p->link);
	list_take(&p->serve_link);
	list_take(&p->login_link);
	timer_stop(&p->timer);
	if (--p->flow->n_pools == 0)
		flow_free(p->flow);
	if (--p->target->n_pools == 0)
		target_free(p->target);
	mem_free(p);
}

/* ---- reload ---- */

static bool texts_same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool hosts_same(const struct conf_host *a, int n_a, const struct conf_host *b, int n_b)
{
	if (n_a != n_b)
		return false;
	for (int i = 0; i < n_a; i++)
		if (!texts_same(a[i].host, b[i].host) || a[i].port != b[i].port)
			return false;
	return true;
}

/* Does an entry lead to the same hosts? */
static bool ends_same(const struct conf_entry *a, const struct conf_entry *b)
{
	const struct conf_cluster *c = a->cluster, *d = b->cluster;

	if (a->prefer_replica != b->prefer_replica)
		return false;
	if (a->prefer_replica)
		return hosts_same(c->replicas, c->n_replicas, d->replicas, d->n_replicas);
	return hosts_same(c->primary, c->n_primary, d->primary, d->n_primary);
}

static bool params_same(const struct conf_entry *a, const struct conf_entry *b)
{
	if (a->n_params != b->n_params)
		return false;
	for (int i = 0; i < a->n_params; i++)
		if (!texts_same(a->params[i].name, b->params[i].name) || !texts_same(a->params[i].value, b->params[i].value))
			return false;
	return true;
}

/* Would a server opened under the one do under the other? */
static bool entries_agree(const struct conf_entry *a, const struct conf_entry *b)
{
	return a && b && texts_same(a->dbname, b->dbname) && texts_same(a->user, b->user) && texts_same(a->connect_query, b->connect_query) &&
	       span_same(secret_span(&a->password), secret_span(&b->password)) && texts_same(a->cluster->name, b->cluster->name) &&
	       ends_same(a, b) && params_same(a, b);
}

static void server_adopt(struct server *s, bool changed)
{
	if (!changed && !(s->tls && s->tls_digest != s->lane->setup->server_tls_digest))
		return;
	server_make_stale(s, "database configuration changed");
}

static void pool_adopt(struct pool *p, bool changed)
{
	for (int state = SERVER_DIAL; state < SERVER_CLOSING; state++)
		list_each_safe(link, &p->servers[state])
			server_adopt(list_owner(link, struct server, link), changed);
	pool_resolve(p);
	while (p->n_state[SERVER_IDLE]) { /* a smaller pool_size */
		struct server *s = list_owner(list_last(&p->servers[SERVER_IDLE]), struct server, link);
		const char *overdue = server_overdue(s);
		if (!overdue)
			break;
		server_close(s, NULL, overdue);
	}
	pool_serve_soon(p);
}

void lane_adopt(struct lane *l, const struct setup *setup)
{
	const struct conf *old = l->setup->conf;

	verify_here(l->loop);
	hash_each(link, &l->targets) {
		struct target *t = owner_of(link, struct target, link);
		/* A line that is gone leaves its name to the * line, and one that comes takes it away. */
		struct conf_entry *made = conf_entry(setup->conf, t->entry->name) ? NULL : conf_entry_make(setup->conf, t->entry->name);
		const struct conf_entry *before = conf_entry(old, t->entry->name) ? conf_entry(old, t->entry->name) : t->made;
		const struct conf_entry *after = conf_entry(setup->conf, t->entry->name) ? conf_entry(setup->conf, t->entry->name) : made;
		t->changed = !entries_agree(before, after);
		conf_entry_free(&t->made);
		t->made = made;
		t->reads = after && after->prefer_replica && after->fallback;
	}
	l->setup = setup;
	follow_cluster(l);
	hash_each(link, &l->pools) {
		struct pool *p = owner_of(link, struct pool, link);
		pool_adopt(p, p->target->changed);
	}
	hash_each(link, &l->targets) {
		struct target *t = owner_of(link, struct target, link);
		timer_stop(&t->retry); /* the new configuration may be the cure */
		t->failing_since = 0;
		if (t->changed)
			t->welcome.known = false;
	}
}

static void server_follow(struct server *s)
{
	if (server_is_of_now(s))
		return;
	if (s->state == SERVER_DIAL || s->state == SERVER_LOGIN)
		server_close(s, NULL, "cluster has moved on");
	else
		server_make_stale(s, "cluster has moved on");
}

void lane_follow(struct lane *l)
{
	verify_here(l->loop);
	l->word = cluster_word(l->cluster);
	l->primary = atomic_load(&l->cluster->primary);
	hash_each(link, &l->targets) {
		struct target *t = owner_of(link, struct target, link);
		timer_stop(&t->retry); /* what failed may work now */
		t->failing_since = 0;
		t->welcome.known = false; /* it says whether sessions are read-only */
	}
	hash_each(link, &l->pools) {
		struct pool *p = owner_of(link, struct pool, link);
		for (int state = SERVER_DIAL; state < SERVER_CLOSING; state++)
			list_each_safe(at, &p->servers[state])
				server_follow(list_owner(at, struct server, link));
		pool_serve_soon(p);
	}
}

/* ---- frozen orgs ---- */

/* Servers of the other kind: in use they are closed when they come free, others now. */
static void flow_turn(struct flow *f, const char *reason)
{
	hash_each(link, &f->lane->pools) {
		struct pool *p = owner_of(link, struct pool, link);
		if (p->flow != f)
			continue;
		p->target->welcome.known = false;
		for (int state = SERVER_DIAL; state < SERVER_CLOSING; state++)
			list_each_safe(at, &p->servers[state]) {
				struct server *s = list_owner(at, struct server, link);
				if (s->frozen == f->frozen)
					continue;
				if (f->frozen && !s->read_only)
					s->word = WORD_OVER;
				if (s->state == SERVER_DIAL || s->state == SERVER_LOGIN)
					server_close(s, NULL, reason);
				else
					server_make_stale(s, reason);
			}
		pool_serve_soon(p);
	}
}

void flow_freeze(struct flow *f)
{
	verify_here(f->lane->loop);
	if (f->frozen)
		return;
	f->frozen = true;
	flow_turn(f, "org is frozen");
}

void flow_thaw(struct flow *f)
{
	verify_here(f->lane->loop);
	if (!f->frozen)
		return;
	f->frozen = false;
	flow_turn(f, "org is not frozen any more");
}

void lane_free(struct lane **lp)
{
	struct lane *l = *lp;

	*lp = NULL;
	if (!l)
		return;
	login_cancel_end_all(l);
	hash_each(link, &l->pools) {
		struct pool *p = owner_of(link, struct pool, link);
		for (int state = SERVER_DIAL; state < SERVER_CLOSING; state++)
			list_each_safe(at, &p->servers[state])
				server_close(list_owner(at, struct server, link), NULL, "server shutting down");
		list_each_safe(at, &p->servers[SERVER_CLOSING])
			server_gone(list_owner(at, struct server, link));
	}
	hash_each(link, &l->pools)
		lane_pool_free(owner_of(link, struct pool, link));
	later_stop(&l->serve_later);
	hash_each(link, &l->remainders)
		mem_free(owner_of(link, struct remainder, link));
	hash_free(&l->remainders);
	hash_free(&l->targets);
	hash_free(&l->flows);
	hash_free(&l->pools);
	hash_free(&l->scopes);
	sfq_free(&l->orgs);
	buf_free(&l->usage_left);
	mem_free(l);
}
