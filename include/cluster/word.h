/* The cluster word: what a worker must know of a cluster before it lets a transaction pass, in one atomic load.
 *
 *   63 ....................... 8  7 ..... 0
 *   [ epoch                    ]  [ state ]
 *
 * Control alone writes it (cluster/watch.c), workers read it. An epoch of 0 says that no breaker is in force there (an implicit cluster,
 * breaker=off or observe): the state is PRIMARY then and everything passes. Otherwise epochs begin with 1 and only grow, and
 * each stretch of PRIMARY has one of its own: a transaction that finds the word it began under has missed nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/verify.h"

enum cluster_state { CLUSTER_PRIMARY, CLUSTER_DEGRADED, CLUSTER_RECOVERING, CLUSTER_STATES };

typedef uint64_t word_t;

#define EPOCH_MOST ((uint64_t)1 << 56)

/* No cluster's word: what began under it is over, whatever the cluster's is (FREEZE ORG). */
#define WORD_OVER UINT64_MAX

static inline word_t word_pack(enum cluster_state state, uint64_t epoch)
{
	verify(epoch < EPOCH_MOST);
	return epoch << 8 | (word_t)state;
}
static inline enum cluster_state word_state(word_t w) { return (enum cluster_state)(w & 0xff); }
static inline uint64_t word_epoch(word_t w) { return w >> 8; }
static inline bool word_is_guarded(word_t w) { return word_epoch(w) != 0; }

const char *cluster_state_name(enum cluster_state s); /* "primary", "degraded", "recovering": as SHOW, the log and pgweir.mode say it */
bool cluster_state_find(const char *name, enum cluster_state *out);
