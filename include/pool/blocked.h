/* Blocked pools: those that have waiters and room below their pool_size, but a cap over several pools stands in the way. They wait in
 * fair queues (pool/sfq) for a server that comes free, or for room under the cap.
 *
 *   the cluster's ceiling   lane->orgs: orgs, and in each org (flow->pools) its pools
 *   an entry's, a user's    scope->pools: pools, each by what it has used itself
 */
#pragma once

#include "pool/pool.h"

struct scope *scope_of(struct lane *l, const struct tally *t); /* for a target: found or made; given back by scope_drop */
void scope_drop(struct lane *l, struct scope **s);

static inline bool pool_is_blocked(const struct pool *p) { return sfq_waits(&p->unit); }
/* True: the cap was met for the first time, and is to be tried once more. Whoever gave back between that and our being counted has
 * told nobody. */
bool pool_block(struct pool *p, enum cap cap);
void pool_unblock(struct pool *p);       /* may be called when it is not */
void pool_wait_moved(struct pool *p);    /* its first waiter is another now */

/* Whose turn it is when s has come free: its own pool's, or a blocked one's that s can help, directly if it is of the same target,
 * else by its end. NULL: nobody waits whom it could help. */
struct pool *blocked_next(struct server *s);
/* The first that could open a server, of those under the cluster's ceiling (scope NULL) or under a scope's cap. */
struct pool *blocked_first(struct lane *l, struct scope *scope);

/* Slot time. */
void use_begin(struct server *s); /* it was given to a user */
void use_end(struct server *s);   /* it came free or is closed; may be called when it was not in use */
