/* Snapshots: made empty, counted, looked up, freed. load.c fills them. */
#include "conf/conf.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "conf/comma_priv.h"
#include "conf/load_priv.h"

static atomic_ulong last_serial;

struct conf *conf_new(const char *file)
{
	struct conf *c = mem_make(struct conf);

	atomic_init(&c->refs, 1);
	c->file = mem_str(file);
	c->serial = atomic_fetch_add(&last_serial, 1) + 1;
	list_init(&c->peers);
	return c;
}

struct conf *conf_ref(struct conf *c)
{
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

static void conf_free(struct conf *c)
{
	hash_each(link, &c->entries) {
		struct conf_entry *e = owner_of(link, struct conf_entry, link);

		conf_entry_free(&e);
	}
	hash_free(&c->entries);
	conf_entry_free(&c->star);
	hash_each(link, &c->clusters)
		cluster_free(owner_of(link, struct conf_cluster, link));
	hash_free(&c->clusters);
	mem_free(c->cluster_at);
	hash_each(link, &c->users)
		user_free(owner_of(link, struct conf_user, link));
	hash_free(&c->users);
	hash_each(link, &c->logins)
		conf_login_free(owner_of(link, struct conf_login, link));
	hash_free(&c->logins);
	for (int i = 0; i < c->n_routes; i++)
		route_free(c->routes[i]);
	mem_free(c->routes);
	hash_free(&c->routes_by_org);
	bindings_free(&c->bindings);
	hash_each(link, &c->orgs)
		org_free(owner_of(link, struct conf_org, link));
	hash_free(&c->orgs);
	org_clear(&c->org_star);
	list_each_safe(at, &c->peers)
		peer_free(list_owner(at, struct conf_peer, link));
	settings_free(&c->set);
	rows_drop(&c->rows);
	mem_free(c->file);
	mem_free(c);
}

void conf_drop(struct conf **c)
{
	struct conf *conf = *c;

	*c = NULL;
	if (conf && atomic_fetch_sub_explicit(&conf->refs, 1, memory_order_acq_rel) == 1)
		conf_free(conf);
}

void conf_report_free(struct conf_report *r)
{
	buf_free(&r->errors);
	buf_free(&r->warnings);
}

static struct hash_link *find(const struct hash *h, const char *name, hash_same_fn same)
{
	return hash_find(h, hash_bytes(name, strlen(name)), same, name);
}

static bool entry_is(const struct hash_link *link, const void *name)
{
	return strcmp(owner_of(link, struct conf_entry, link)->name, name) == 0;
}

const struct conf_entry *conf_entry(const struct conf *c, const char *name)
{
	struct hash_link *link = find(&c->entries, name, entry_is);

	return link ? owner_of(link, struct conf_entry, link) : NULL;
}

static bool cluster_is(const struct hash_link *link, const void *name)
{
	return strcmp(owner_of(link, struct conf_cluster, link)->name, name) == 0;
}

const struct conf_cluster *conf_cluster(const struct conf *c, const char *name)
{
	struct hash_link *link = find(&c->clusters, name, cluster_is);

	return link ? owner_of(link, struct conf_cluster, link) : NULL;
}

static bool user_is(const struct hash_link *link, const void *name)
{
	return strcmp(owner_of(link, struct conf_user, link)->name, name) == 0;
}

const struct conf_user *conf_user(const struct conf *c, const char *name)
{
	struct hash_link *link = find(&c->users, name, user_is);

	return link ? owner_of(link, struct conf_user, link) : NULL;
}

static bool login_is(const struct hash_link *link, const void *name)
{
	return strcmp(owner_of(link, struct conf_login, link)->name, name) == 0;
}

const struct conf_login *conf_login(const struct conf *c, const char *name)
{
	struct hash_link *link = find(&c->logins, name, login_is);

	return link ? owner_of(link, struct conf_login, link) : NULL;
}

static bool org_is(const struct hash_link *link, const void *id)
{
	return strcmp(owner_of(link, struct conf_org, link)->id, id) == 0;
}

const struct conf_org *conf_org(const struct conf *c, const char *id)
{
	struct hash_link *link = find(&c->orgs, id, org_is);

	return link ? owner_of(link, struct conf_org, link) : NULL;
}

const struct conf_org *conf_org_named(const struct conf *c, const char *text, bool *several)
{
	const struct conf_org *found = NULL;
	char id[ORG_ID_MOST + 1];

	*several = false;
	if (org_id_make(text, strlen(text), id))
		found = conf_org(c, id);
	if (found)
		return found;
	hash_each(link, &c->orgs) {
		const struct conf_org *o = owner_of(link, struct conf_org, link);

		if (!o->name || strcmp(o->name, text) != 0)
			continue;
		*several |= found != NULL;
		found = o;
	}
	return found;
}

bool conf_is_admin(const struct conf *c, const char *user)
{
	return conf_in_list(c->set.admin_users, user);
}

bool conf_is_stats(const struct conf *c, const char *user)
{
	return conf_in_list(c->set.stats_users, user);
}

static bool in_list(const char *list, const char *name, int (*compare)(const char *, const char *, size_t))
{
	struct comma at = {list, 0, NULL};
	size_t len = strlen(name);

	while (comma_next(&at))
		if (at.len == len && compare(at.p, name, len) == 0)
			return true;
	return false;
}

bool conf_in_list(const char *comma_list, const char *name)
{
	return in_list(comma_list, name, strncmp);
}

bool conf_in_list_fold(const char *comma_list, const char *name)
{
	return in_list(comma_list, name, strncasecmp);
}
