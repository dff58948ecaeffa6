/* Between heat.c and heat_file.c. */
#pragma once

#include "tenant/heat.h"

enum { HEAT_RING_10S, HEAT_RING_30M, HEAT_RING_12H, HEAT_RINGS };
#define HEAT_BUCKETS 64 /* of a ring; the longest window takes 60 and the one at hand */
extern const usec_t heat_bucket[HEAT_RINGS]; /* how long one is */

/* Buckets are numbered by the time: number n is from n * heat_bucket on. */
struct heat_ring {
	int64_t at;                             /* the number of the one at hand */
	double now[HEAT_STORAGE];               /* queries, and slot time in seconds */
	float past[HEAT_BUCKETS][HEAT_STORAGE]; /* of those before it, at number % HEAT_BUCKETS */
};

struct heat_store {
	struct heat_store *next;
	int cluster;
	unsigned report; /* the last one that named it */
	double bytes;
};

struct heat_org *heat_make(struct heat *h, const char *id); /* found, or new */
void heat_ring_add(struct heat_org *o, int ring, int64_t number, double queries, double slot_seconds);
