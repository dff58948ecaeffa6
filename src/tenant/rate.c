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

/* When the bucket would be full with one token less, and for how long it is too empty for that. */
static int64_t one_more(struct rate_limit l, int64_t full_at, int64_t now, int64_t *lacks)
{
	int64_t then = (full_at > now ? full_at : now) + l.interval;

	*lacks = then - now - l.depth;
	return then;
}

static usec_t usec_up(int64_t ns)
{
	return ns > 0 ? (ns + NS_PER_USEC - 1) / NS_PER_USEC : 0;
}

/* Threads read the clock at different moments. One that is behind finds the bucket emptier than it is: never more than the rate passes. */
bool rate_take(struct rate *r, struct rate_limit l, usec_t now, usec_t *wait_us)
{
	int64_t full_at = atomic_load_explicit(&r->full_at, memory_order_relaxed), then, lacks;

	if (l.interval == 0)
		return true;
	do {
		then = one_more(l, full_at, now * NS_PER_USEC, &lacks);
		if (lacks > 0) {
			*wait_us = usec_up(lacks);
			return false;
		}
	} while (!atomic_compare_exchange_weak_explicit(&r->full_at, &full_at, then, memory_order_relaxed, memory_order_relaxed));
	return true;
}

usec_t rate_wait(const struct rate *r, struct rate_limit l, usec_t now)
{
	int64_t lacks;

	if (l.interval == 0)
		return 0;
	one_more(l, atomic_load_explicit(&r->full_at, memory_order_relaxed), now * NS_PER_USEC, &lacks);
	return usec_up(lacks);
}

usec_t rate_book(struct rate *r, struct rate_limit l, usec_t now)
{
	int64_t full_at = atomic_load_explicit(&r->full_at, memory_order_relaxed), then, lacks;

	if (l.interval == 0)
		return 0;
	do
		then = one_more(l, full_at, now * NS_PER_USEC, &lacks);
	while (!atomic_compare_exchange_weak_explicit(&r->full_at, &full_at, then, memory_order_relaxed, memory_order_relaxed));
	return usec_up(lacks);
}

void rate_unbook(struct rate *r, struct rate_limit l)
{
	atomic_fetch_sub_explicit(&r->full_at, l.interval, memory_order_relaxed);
}
