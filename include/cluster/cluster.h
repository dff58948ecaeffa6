/* The live part of a cluster: which worker is its home, and its ledger, which lends server slots to lanes.
 * Made on first use, by name; lives as long as the process. Any thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/hash.h"

struct cluster {
	struct hash_link link;
	char *name;             /* owns */
	int home;               /* the worker that holds its one lane */
	atomic_int ceiling;     /* max_server_conn; 0: none. Follows the configuration */
	atomic_int lent;        /* permits out */
	atomic_uint host_turn;  /* round robin over the hosts */
};

void cluster_set_workers(int n); /* once, before the first cluster is made */
struct cluster *cluster_of(const char *name, int ceiling);
void cluster_each(void (*row)(void *arg, struct cluster *c), void *arg);

/* The ledger: the only way to a server connection. A permit is held from before the dial until the socket is closed. */
bool ledger_take(struct cluster *c);
void ledger_give(struct cluster *c);
