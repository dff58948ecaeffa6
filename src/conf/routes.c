/* [routes]: name = org=... application_name=... user=... entry=... to=entry. Who has all that a line asks for goes to its entry; the first line
 * that matches wins.
 *
 * Lines are found by org, so that a thousand orgs with a line each cost no login more than one does: those of one org are chained in
 * their order, and so are those that ask for no org. */
#include <string.h>

#include "base/mem.h"
#include "conf/line_priv.h"

struct draft {
	struct conf_route route;
	char *org; /* owns */
};

static const struct key keys[] = {
	KEY(struct draft, org, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, application_name, route.application_name, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, user, route.user, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, entry, route.entry, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, to, route.to, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
};

static void route_clear(struct conf_route *r)
{
	mem_free(r->name);
	mem_free(r->application_name);
	mem_free(r->user);
	mem_free(r->entry);
	mem_free(r->to);
}

void route_free(struct conf_route *r)
{
	route_clear(r);
	mem_free(r);
}

/* An id or a name. What no line of [orgs] has may be the id of an org that needs none, or a mistake. */
static bool find_org(struct load *l, const struct row *row, const char *text, char out[ORG_ID_MOST + 1], struct err *err)
{
	bool several;
	const struct conf_org *org = conf_org_named(l->conf, text, &several);

	if (several)
		return err_set(err, NULL, "several orgs are called \"%.64s\": say the id", text);
	if (org) {
		strcpy(out, org->id);
		return true;
	}
	if (!org_id_make(text, strlen(text), out))
		return err_set(err, NULL, "no org is called \"%.64s\", and an id is 1 to %d of A-Za-z0-9_.:-", text, ORG_ID_MOST);
	if (strcmp(out, "default") != 0)
		load_warning(l, row->file, row->line, "[routes] %.64s: \"%s\" is neither id nor name of a line in [orgs]; it is taken for an id", row->key, out);
	return true;
}

static bool name_is_taken(const struct conf *c, const char *name)
{
	for (int i = 0; i < c->n_routes; i++)
		if (strcmp(c->routes[i]->name, name) == 0)
			return true;
	return false;
}

static bool settle(struct load *l, const struct row *row, struct draft *d, struct err *err)
{
	struct conf_route *r = &d->route;

	if (strlen(r->name) > ROUTE_NAME_MOST)
		return err_set(err, NULL, "the name is longer than %d bytes", ROUTE_NAME_MOST);
	if (!r->to)
		return err_set(err, NULL, "a route needs to=entry");
	if (!conf_entry(l->conf, r->to))
		return err_set(err, NULL, "\"%.63s\" is no entry", r->to);
	if (r->entry && !conf_entry(l->conf, r->entry) && !l->conf->star)
		return err_set(err, NULL, "\"%.63s\" is no entry", r->entry);
	if (name_is_taken(l->conf, r->name))
		return err_set(err, NULL, "there is another route of this name");
	return !d->org || find_org(l, row, d->org, r->org, err);
}

static void keep(struct conf *c, const struct conf_route *draft)
{
	struct conf_route *r = mem_make(struct conf_route);

	*r = *draft;
	r->place = c->n_routes++;
	c->routes = mem_grow(c->routes, (size_t)c->n_routes * sizeof(c->routes[0]));
	c->routes[r->place] = r;
	c->routes_by_name |= r->application_name != NULL;
}

void routes_row(struct load *l, const struct row *row)
{
	struct draft d = {.route.name = mem_str(row->key)};
	struct line line = {.load = l, .row = row, .keys = keys, .n_keys = sizeof(keys) / sizeof(keys[0]), .into = &d};
	struct err err = {0};
	bool ok;

	line_read(&line);
	ok = !line.bad && settle(l, row, &d, &err);
	if (!line.bad && !ok)
		load_error(l, row->file, row->line, "[routes] %.64s: %s", row->key, err.text);
	if (ok)
		keep(l->conf, &d.route);
	else
		route_clear(&d.route);
	mem_free(d.org);
}

static bool org_is(const struct hash_link *link, const void *org)
{
	return strcmp(owner_of(link, struct conf_route, link)->org, org) == 0;
}

/* From the last one to the first, so that each only has to be put ahead of what is there. */
void routes_end(struct load *l)
{
	struct conf *c = l->conf;

	for (int i = c->n_routes - 1; i >= 0; i--) {
		struct conf_route *r = c->routes[i];
		uint64_t hash = hash_bytes(r->org, strlen(r->org));
		struct hash_link *later = r->org[0] ? hash_find(&c->routes_by_org, hash, org_is, r->org) : NULL;

		if (!r->org[0]) {
			r->next = c->routes_of_any;
			c->routes_of_any = r;
			continue;
		}
		if (later) {
			r->next = owner_of(later, struct conf_route, link);
			hash_take(&c->routes_by_org, later);
		}
		hash_add(&c->routes_by_org, &r->link, hash);
	}
}
