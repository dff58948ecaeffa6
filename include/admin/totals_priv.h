/* Counters of all pools, summed per database entry: each loop lists what it has, control adds it up. */
#pragma once

#include "loop/gather.h"
#include "pool/pool.h"

struct worker;

struct totals {
	const struct tally *entry; /* borrows: lives as long as the process */
	uint64_t n[TOTALS];
};

void totals_ask(struct worker *w, struct buf *out); /* in w's thread: appends struct totals, several of one entry too */
/* What all parts said, one per entry, by name. Returns how many; *out is the caller's to free. */
int totals_merge(const struct gather *g, struct totals **out);
void totals_add(struct totals *to, const struct totals *more);
/* The console's own queries count for its own entry, as in PgBouncer. Control's thread. */
void totals_count_command(void);
