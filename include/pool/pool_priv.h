/* Between pool.c and lane.c. */
#pragma once

#include "pool/pool.h"

void pool_timer(struct timer *t);
void target_retry(struct timer *t);
void lane_serve_blocked(struct lane *l);
void lane_serve_logins(struct lane *l);
void lane_pool_free(struct pool *p); /* nobody uses it; its counters go to the lane's remainders */
