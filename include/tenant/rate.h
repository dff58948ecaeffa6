/* A rate, exact over all threads: one atomic word per rate (the generic cell rate algorithm, ITU-T I.371 appendix A: a token bucket kept
 * as a time). The word is when the bucket would be full again if nobody took anything more; who takes a token moves it on by one
 * interval, and may not move it further ahead than the bucket is deep. Pure. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"

struct rate {
	_Atomic int64_t full_at; /* ns, by the clock of all loops; 0: nothing was ever taken */
};

/* How fast, and how much at once. In ns; interval 0: no limit. */
struct rate_limit {
	int64_t interval, depth;
};

/* burst 0 or less: one second's worth; at least one token. */
struct rate_limit rate_limit_of(double per_second, double burst);
/* True: a token was taken. False: *wait_us is after how long there is one, if nobody else takes it; at least 1. */
bool rate_take(struct rate *r, struct rate_limit l, usec_t now, usec_t *wait_us);
usec_t rate_wait(const struct rate *r, struct rate_limit l, usec_t now); /* that wait, without taking; 0: there is one */
/* The next token, which may not be there yet: after how long it is; 0: now. It is the caller's, and nobody else gets it, until rate_unbook. */
usec_t rate_book(struct rate *r, struct rate_limit l, usec_t now);
void rate_unbook(struct rate *r, struct rate_limit l);
