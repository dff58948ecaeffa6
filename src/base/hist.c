/* Histogram of durations: 32 powers of two reach from a microsecond to 18 minutes, which
 * is as exact as a dashboard needs and costs one add. */
#include "base/hist.h"

#include "base/count.h"

static unsigned slot_of(usec_t duration)
{
	unsigned slot;

	if (duration <= 0)
		return 0;
	slot = 64 - (unsigned)__builtin_clzll((unsigned long long)duration);
	return slot < HIST_SLOTS ? slot : HIST_SLOTS - 1;
}

void hist_add(struct hist *h, usec_t duration)
{
	count_add(&h->slots[slot_of(duration)], 1);
}

uint64_t hist_take(struct hist *h, uint64_t out[HIST_SLOTS])
{
	uint64_t total = 0;

	for (unsigned i = 0; i < HIST_SLOTS; i++) {
		out[i] = count_read(&h->slots[i]);
		if (out[i])
			atomic_store_explicit(&h->slots[i], 0, memory_order_relaxed);
		total += out[i];
	}
	return total;
}

usec_t hist_percentile(const struct hist *h, double share)
{
	uint64_t seen[HIST_SLOTS], total = 0, below = 0;
	double wanted;

	for (unsigned i = 0; i < HIST_SLOTS; i++)
		total += seen[i] = count_read(&h->slots[i]);
	if (!total)
		return 0;
	wanted = share * (double)total;
	for (unsigned i = 0; i < HIST_SLOTS - 1; i++) {
		below += seen[i];
		if (below && (double)below >= wanted)
			return (usec_t)1 << i;
	}
	return (usec_t)1 << (HIST_SLOTS - 1);
}
