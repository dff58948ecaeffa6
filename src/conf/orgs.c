/* [orgs]: id = name=... pool_size=... users=a,b; "*" has the defaults of all. And which users are bound to which orgs. */
#include <string.h>

#include "base/mem.h"
#include "conf/comma_priv.h"
#include "conf/line_priv.h"

/* The orgs of a bound user. */
struct binding {
	struct hash_link link;
	char *user;                   /* owns */
	const struct conf_org **orgs; /* owns the array, borrows the snapshot's orgs */
	int n_orgs;
};

struct draft {
	struct conf_org org;
	char *users; /* owns */
};

/* An org with weight 0 would never be served; shares are computed with these, so that nothing goes out of range there. */
#define WEIGHT_LEAST 0.001
#define WEIGHT_MOST 1000.0

#define O(name, kind, words, flags) KEY_AT(struct draft, name, org.name, kind, words, 0, 0, flags, KEY_BUILT)
#define OVER(name, kind, words, flags) KEY_AT(struct draft, name, org.over.name, kind, words, 0, 0, flags, KEY_BUILT)
static const struct key keys[] = {
	O(name, KIND_STR, NULL, 0),
	KEY(struct draft, users, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	OVER(pool_size, KIND_INT, NULL, FIELD_NEGATIVE_INHERITS),
	OVER(min_pool_size, KIND_INT, NULL, FIELD_NEGATIVE_INHERITS),
	OVER(reserve_pool_size, KIND_INT, NULL, FIELD_NEGATIVE_INHERITS),
	O(max_client_conn, KIND_INT, NULL, FIELD_NEGATIVE_INHERITS),
	O(tx_rate, KIND_REAL, NULL, 0),
	O(tx_burst, KIND_REAL, NULL, 0),
	O(conn_rate, KIND_REAL, NULL, 0),
	O(rate_action, KIND_WORD, words_rate_action, 0),
	O(rate_wait, KIND_SEC, NULL, 0),
	O(weight, KIND_REAL, NULL, 0),
	O(priority, KIND_WORD, words_priority, 0),
	O(max_pinned, KIND_INT, NULL, FIELD_NEGATIVE_INHERITS),
	/* As in [users]: 0 takes the next level's value, but a query_wait_timeout of 0 waits for ever. */
	OVER(query_timeout, KIND_SEC, NULL, FIELD_ZERO_INHERITS),
	OVER(query_wait_timeout, KIND_SEC, NULL, 0),
	OVER(idle_transaction_timeout, KIND_SEC, NULL, FIELD_ZERO_INHERITS),
	OVER(transaction_timeout, KIND_SEC, NULL, FIELD_ZERO_INHERITS),
	OVER(client_idle_timeout, KIND_SEC, NULL, FIELD_ZERO_INHERITS),
};
#undef O
#undef OVER

static void org_init(struct conf_org *o)
{
	*o = (struct conf_org){
		.max_client_conn = -1, .tx_rate = -1, .tx_burst = -1, .conn_rate = -1, .rate_action = -1, .rate_wait = -1,
		.weight = -1, .priority = -1, .max_pinned = -1,
	};
	overrides_clear(&o->over);
}

void org_clear(struct conf_org *o)
{
	mem_free(o->name);
	for (int i = 0; i < o->n_users; i++)
		mem_free(o->users[i]);
	mem_free(o->users);
}

void org_free(struct conf_org *o)
{
	org_clear(o);
	mem_free(o);
}

static void split_users(struct conf_org *o, const char *text)
{
	struct comma at = {text, 0, NULL};

	while (comma_next(&at)) {
		o->users = mem_grow(o->users, (size_t)(o->n_users + 1) * sizeof(o->users[0]));
		o->users[o->n_users++] = mem_strn(at.p, at.len);
	}
}

static bool settle(struct draft *d, const struct row *row, struct err *err)
{
	bool star = strcmp(row->key, "*") == 0;

	if (!star && !org_id_make(row->key, strlen(row->key), d->org.id))
		return err_set(err, NULL, "an org's id is 1 to %d of A-Za-z0-9_.:-", ORG_ID_MOST);
	if (star && d->users)
		return err_set(err, NULL, "users= binds to one org and has no meaning here");
	if (d->org.weight >= 0 && (d->org.weight < WEIGHT_LEAST || d->org.weight > WEIGHT_MOST))
		return err_set(err, NULL, "weight: not in the range %g to %g", WEIGHT_LEAST, WEIGHT_MOST);
	if (d->users)
		split_users(&d->org, d->users);
	return true;
}

/* Takes the draft's org over, in the place of an earlier line of the same id. */
static void keep(struct conf *conf, const struct conf_org *draft)
{
	struct conf_org *o, *old;

	if (!draft->id[0]) {
		org_clear(&conf->org_star);
		conf->org_star = *draft;
		return;
	}
	o = mem_make(struct conf_org);
	*o = *draft;
	old = (struct conf_org *)conf_org(conf, o->id);
	if (old) {
		hash_take(&conf->orgs, &old->link);
		org_free(old);
	}
	hash_add(&conf->orgs, &o->link, hash_bytes(o->id, strlen(o->id)));
}

void orgs_begin(struct load *l)
{
	org_init(&l->conf->org_star);
}

void orgs_row(struct load *l, const struct row *row)
{
	struct draft d = {0};
	struct line line = {.load = l, .row = row, .keys = keys, .n_keys = sizeof(keys) / sizeof(keys[0]), .into = &d};
	struct err err = {0};
	bool ok;

	org_init(&d.org);
	line_read(&line);
	ok = settle(&d, row, &err);
	if (!ok)
		load_error(l, row->file, row->line, "[orgs] %.64s: %s", row->key, err.text);
	if (ok && !line.bad)
		keep(l->conf, &d.org);
	else
		org_clear(&d.org);
	mem_free(d.users);
}

static bool binding_is(const struct hash_link *link, const void *user)
{
	return strcmp(owner_of(link, struct binding, link)->user, user) == 0;
}

static struct binding *binding_find(const struct hash *bindings, const char *user)
{
	struct hash_link *link = hash_find(bindings, hash_bytes(user, strlen(user)), binding_is, user);

	return link ? owner_of(link, struct binding, link) : NULL;
}

static void bind(struct hash *bindings, const char *user, const struct conf_org *o)
{
	struct binding *b = binding_find(bindings, user);

	if (!b) {
		b = mem_make(struct binding);
		b->user = mem_str(user);
		hash_add(bindings, &b->link, hash_bytes(user, strlen(user)));
	}
	/* A name that stands twice in one list binds once. */
	if (b->n_orgs && b->orgs[b->n_orgs - 1] == o)
		return;
	b->orgs = mem_grow(b->orgs, (size_t)(b->n_orgs + 1) * sizeof(b->orgs[0]));
	b->orgs[b->n_orgs++] = o;
}

void orgs_end(struct load *l)
{
	hash_each(link, &l->conf->orgs) {
		const struct conf_org *o = owner_of(link, struct conf_org, link);

		for (int i = 0; i < o->n_users; i++)
			bind(&l->conf->bindings, o->users[i], o);
	}
}

int conf_bound(const struct conf *c, const char *user, const struct conf_org **out, int most)
{
	const struct binding *b = binding_find(&c->bindings, user);

	if (!b)
		return 0;
	for (int i = 0; i < b->n_orgs && i < most; i++)
		out[i] = b->orgs[i];
	return b->n_orgs;
}

void bindings_free(struct hash *bindings)
{
	hash_each(link, bindings) {
		struct binding *b = owner_of(link, struct binding, link);

		mem_free(b->user);
		mem_free(b->orgs);
		mem_free(b);
	}
	hash_free(bindings);
}
