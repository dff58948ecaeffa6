/* What pools have used, told in differences: control asks each lane now and then (admin/collect) and adds up what it hears, by org, by
 * entry, by cluster. Each difference is told exactly once, also that of a pool which was freed in between, so no sum ever goes
 * back. Only pools that were touched since the last time have something to tell: thousands of quiet ones cost nothing.
 * In the lane's thread. */
#pragma once

#include "pool/pool.h"

struct usage {
	char org[ORG_ID_MOST + 1];
	const struct tally *entry;     /* borrows: for the process's life, as the cluster */
	const struct cluster *cluster;
	uint64_t n[TOTALS];            /* slot_us includes uses that go on */
	uint64_t waits[HIST_SLOTS];    /* how long clients waited for a server; those that did not wait count as 0 us */
	int clients, active, idle, servers, waiting; /* differences of what is there now */

	/* not differences: as it is now. Whoever has any tells it each time */
	usec_t maxwait;
	int pool_use; /* servers in use per thousand of pool_size; 0: there is no limit */
};

/* One round of asking: begin, then take until it says that there is no more, at most so many pools at a time. Appends struct usage. */
void usage_begin(struct lane *l);
bool usage_take(struct lane *l, int most, struct buf *out);
/* The pool is about to be freed: what it has not told yet is kept for the next round. */
void usage_leave(struct pool *p);
