/* See tenant/rate.h. */
#include "tenant/rate.h"

#define NS_PER_SEC 1e9
#define NS_PER_USEC 1000

/* Bounds under which no sum of a time, an interval and a depth wraps: three years, thirty years. */
#define INTERVAL_MOST 1e17
#define DEPTH_MOST 1e18

struct rate_limit rate_limit_of(double per_second, double burst)
{
	struct rate_limit l = {0, 0};
	double interval, depth;

	if (!(per_second > 0) || per_second > NS_PER_SEC)
		return l;
	interval = NS_PER_SEC / per_second;
	l.interval = (int64_t)(interval < INTERVAL_MOST ? interval : INTERVAL_MOST);
	if ((double)l.interval < interval && interval < INTERVAL_MOST)
		l.interval++; /* never more than the rate */
	if (!(burst > 0))
		burst = per_second;
	depth = (burst < 1 ? 1 : burst) * (double)l.interval;
	l.depth = (int64_t)(depth < DEPTH_MOST ? depth : DEPTH_MOST);
	return l;
}

/* Threads read the clock at different moments. One that is behind finds the bucket emptier than it is: never more than the rate passes. */
bool rate_take(struct rate *r, struct rate_limit l, usec_t now_us, usec_t *wait_us)
{
	int64_t now = now_us * NS_PER_USEC;
	int64_t full_at = atomic_load_explicit(&r->full_at, memory_order_relaxed), then;

	if (l.interval == 0)
		return true;
	do {
		then = (full_at > now ? full_at : now) + l.interval;
		if (then - now > l.depth) {
			*wait_us = (then - now - l.depth + NS_PER_USEC - 1) / NS_PER_USEC;
			return false;
		}
	} while (!atomic_compare_exchange_weak_explicit(&r->full_at, &full_at, then, memory_order_relaxed, memory_order_relaxed));
	return true;
}
