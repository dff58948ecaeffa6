/* What is counted and ordered by name over the whole process, and outlives a reload: one tally per database entry and one
 * per user. Counts are atomics: taken before the thing is there (tally_take), so that a cap holds at every instant.
 * Found once, at login or when a pool is made; then borrowed for the life of the process (names come from the
 * configuration or from users that logged in, never from strangers). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/hash.h"

struct tally {
	struct hash_link link;
	char *name;           /* owns */
	atomic_int clients;   /* logged in or about to */
	atomic_int servers;   /* open or opening */
	atomic_bool paused;   /* entries only: PAUSE or KILL */
	atomic_bool disabled; /* entries only: DISABLE */
	atomic_ulong fallbacks; /* entries only: transactions that no replica could serve, and that went to fallback= */
	atomic_int starved;   /* pools somewhere that wait for `servers` to fall: whoever gives one back tells the lanes */
};

struct tally *tally_entry(const char *name); /* any thread; made on first use */
struct tally *tally_user(const char *name);
/* Calls row for each, under the book's lock: quick, no blocking. */
void tally_each_entry(void (*row)(void *arg, struct tally *t), void *arg);
void tally_each_user(void (*row)(void *arg, struct tally *t), void *arg);

/* One more, unless that would pass `most` (0: no limit). */
bool tally_take(atomic_int *count, int most);
void tally_give(atomic_int *count);
