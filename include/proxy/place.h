/* The place of a client's transactions: the entry that [routes] gives for what it asked for (proxy/route), and there the pool of its org. It
 * is chosen at login, when the org changes, when application_name does (where a route looks at it), and after a reload that moves anything;
 * never inside a transaction.
 *
 * A place is on the worker that is the home of its entry's cluster. A client whose new place is on another worker goes there with all that its
 * session holds; meanwhile it is in WAIT, has c->move, and is read by nobody. */
#pragma once

#include "proxy/client.h"

struct conf_route;
struct worker;

/* What an org of this client's is served from: a line, or *made, which is the caller's to free. NULL: no such database. */
const struct conf_entry *place_entry(const struct client *c, const struct conf *conf, const char *org, struct conf_entry **made);
/* Its pool there. NULL: it is elsewhere, at *home; and where that is NULL too, there is no such database. */
struct pool *place_pool(struct client *c, const char *org, struct worker **home);

bool place_join(struct client *c);     /* at login, in the home loop: it has a pool from now on. False: no such database */
void place_enter(struct client *c, struct pool *pool); /* c->pool is another one from now on; who counts it there is the caller's matter */

enum placed {
	PLACE_HERE, /* it is at its place */
	PLACE_AWAY, /* it is on its way there: c->state is WAIT */
	PLACE_NONE, /* there is none any more: it is closed */
};
/* A client without a server goes to its own place. */
enum placed place_settle(struct client *c);
/* It has parted from its server, and nothing more is done for it in this call: if a reload has moved it, it goes now. */
static inline void place_rest(struct client *c)
{
	if (__builtin_expect(c->place == PLACE_NOW, 0))
		place_settle(c);
}
/* It goes to where that org is served, for one transaction: the message at the front is looked at again there. */
void place_go(struct client *c, struct worker *home, const char *org);
void place_stay(struct client *c);     /* it does not go after all, as it has something to do here first */

/* No replica can serve what it has to do: until it has no server again it is served from the entry's fallback=. HERE: c->pool is that;
 * NONE: there is none. */
enum placed place_fall_back(struct client *c, const struct err *why);
bool place_has_fallback(const struct client *c);
void place_fall_soon(struct client *c, const struct err *why); /* the same, at the end of the turn, for one that waits; it begins again then */
void place_rise(struct client *c);     /* its transaction is over; safe when it was not at a fallback */

bool place_name_changed(const struct client *c);
/* Has a transaction that is about to begin to look for its place? */
static inline bool place_is_due(const struct client *c) { return c->place != PLACE_SETTLED || (c->routed_name_matters && place_name_changed(c)); }

const struct conf_route *place_route(const struct client *c); /* what leads it; NULL: it is served from what it asked for */
/* The routes that would lead away from where it is, if that was asked for: see proxy/route.h. */
void place_each_away(const struct client *c, void (*fn)(void *arg, const struct conf_route *r), void *arg);
void place_note_use(const struct client *c); /* c->stray: a transaction of its is over */

void place_adopt(struct worker *w, const struct conf *before); /* after a reload */
void place_free(struct client *c);     /* the client ends */
