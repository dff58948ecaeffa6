/* An org, process-wide: its id, what is counted of it, how many refer to it. Registry under a lock of its own; counts are atomics. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/count.h"
#include "base/hash.h"
#include "base/list.h"
#include "conf/conf.h"
#include "tenant/rate.h"

struct org {
	struct hash_link link;
	char id[ORG_ID_MOST + 1];
	atomic_int refs;      /* clients and whoever else holds it; at 0 the org is idle and may be forgotten if it has no line */
	atomic_int clients;   /* logged in or about to */
	atomic_int pinned;    /* clients that hold on to their server connections */
	struct rate tx_rate, conn_rate; /* transactions, new connections */
	atomic_ulong throttled;         /* transactions that tx_rate held back or refused */
	atomic_ulong refused;           /* ... those that it refused, and logins by max_client_conn and conn_rate */
	atomic_bool listed;   /* has a line in [orgs], as of the last login: kept when it is idle */
	atomic_bool paused;   /* PAUSE ORG: its transactions do not begin. Its flows know it, too (pool/order) */
	atomic_bool frozen;   /* later issues */
	unsigned long throttled_told, refused_told; /* control's: how many of them it has counted (admin/collect) */
	usec_t idle_since;    /* registry's lock */
	struct list idle_link;
};

/* A reference to the org of that id, which is made if it is new; NULL when max_orgs (0: no limit) are known and none of them
 * can be forgotten. id: 1 to ORG_ID_MOST characters. Any thread. */
struct org *org_of(const char *id, int max_orgs);
struct org *org_find(const char *id); /* the same, but never made; NULL: there is none */
struct org *org_ref(struct org *o);
void org_drop(struct org **o);
int org_count(void);
/* Calls row for each org under the registry's lock: quick. */
void org_each(void (*row)(void *arg, struct org *o), void *arg);
/* The same in slices, so that nobody waits long for the lock: begins at *at = 0, looks at so many slots of the hash, false: it was through. While
 * the registry grows an org may be called twice or left out. */
bool org_each_of(size_t *at, size_t slots, void (*row)(void *arg, struct org *o), void *arg);
