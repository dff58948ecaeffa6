/* See proxy/route.h. Two chains are gone through side by side: the lines of the client's org, and those that ask for none. */
#include "proxy/route.h"

#include <fnmatch.h>
#include <string.h>

static bool org_is(const struct hash_link *link, const void *org)
{
	return strcmp(owner_of(link, struct conf_route, link)->org, org) == 0;
}

struct walk {
	const struct conf_route *own, *any;
};

static struct walk walk_begin(const struct conf *c, const char *org)
{
	struct walk w = {NULL, c->routes_of_any};
	struct hash_link *link = c->routes_by_org.count ? hash_find(&c->routes_by_org, hash_bytes(org, strlen(org)), org_is, org) : NULL;

	if (link)
		w.own = owner_of(link, struct conf_route, link);
	return w;
}

static const struct conf_route *walk_next(struct walk *w)
{
	const struct conf_route **first = !w->any || (w->own && w->own->place < w->any->place) ? &w->own : &w->any;
	const struct conf_route *r = *first;

	if (r)
		*first = r->next;
	return r;
}

/* Its org is the walk's matter. */
static bool matches(const struct conf_route *r, const struct route_facts *f)
{
	return (!r->entry || strcmp(r->entry, f->entry) == 0) && (!r->user || strcmp(r->user, f->user) == 0) &&
	       (!r->application_name || fnmatch(r->application_name, f->application_name, 0) == 0);
}

const struct conf_route *route_choose(const struct conf *c, const struct route_facts *f)
{
	struct walk w = walk_begin(c, f->org);
	const struct conf_route *r;

	while ((r = walk_next(&w)) != NULL)
		if (matches(r, f))
			return r;
	return NULL;
}

void route_each_away(const struct conf *c, const struct route_facts *f, void (*fn)(void *arg, const struct conf_route *r), void *arg)
{
	struct walk w = walk_begin(c, f->org);
	const struct conf_route *r;

	while ((r = walk_next(&w)) != NULL)
		if (strcmp(r->to, f->entry) != 0 && matches(r, f))
			fn(arg, r);
}
