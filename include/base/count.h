/* Counters with one writer and any reader: relaxed, so that they cost an add. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t count_t;

static inline void count_add(count_t *c, uint64_t n)
{
	atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}
static inline uint64_t count_read(const count_t *c) { return atomic_load_explicit(c, memory_order_relaxed); }
