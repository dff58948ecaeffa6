/* Which entry a client is served from: the first line of [routes] that matches it leads there, and without one it is the entry that it
 * asked for. Lines are not chained: what one leads to is not looked up again. Pure. */
#pragma once

#include "conf/conf.h"

/* What lines look at. */
struct route_facts {
	const char *org;              /* id */
	const char *application_name; /* as the client sent it; "": it sent none */
	const char *user;             /* the client's */
	const char *entry;            /* the one it asked for */
};

const struct conf_route *route_choose(const struct conf *c, const struct route_facts *f); /* NULL: none matches */

/* The lines that lead away from a place: those that would match there, if it was asked for, and go elsewhere. f->entry is the place. What is
 * still done at the place is what such a line waits for before its old place may be cleaned up. Calls fn for each. */
void route_each_away(const struct conf *c, const struct route_facts *f, void (*fn)(void *arg, const struct conf_route *r), void *arg);
