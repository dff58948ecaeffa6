/* Between pool.c and lane.c. */
#pragma once

#include "pool/pool.h"

void pool_timer(struct timer *t);
void target_retry(struct timer *t);
void lane_serve_blocked(struct lane *l);
void lane_serve_logins(struct lane *l);
bool pool_wants_one_more(struct pool *p); /* a server that comes free: it is not paused, not full, not provided for */
bool pool_may_log_in(struct pool *p);     /* now, as far as the number of logins goes */
bool pool_may_take_over(const struct server *s, const struct pool *p); /* may it change hands to that pool */
bool pool_is_worth_a_login(const struct pool *own, const struct pool *other); /* is one of own's servers ended for it */
void lane_pool_free(struct pool *p); /* nobody uses it; its counters go to the lane's remainders */
