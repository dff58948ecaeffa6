/* Histogram of durations in powers of two of a microsecond, one writer and any reader. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/num.h"

#define HIST_SLOTS 32

struct hist {
	_Atomic uint64_t slots[HIST_SLOTS]; /* slot i counts durations below 2^i us; the last one takes the rest */
};

void hist_add(struct hist *h, usec_t duration);
uint64_t hist_take(struct hist *h, uint64_t out[HIST_SLOTS]); /* moves what was counted out; by the writer. Returns how many */
usec_t hist_percentile(const struct hist *h, double share); /* upper edge of the slot; 0 when empty */
