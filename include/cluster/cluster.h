/* The live part of a cluster: which worker is its home, its ledger, which lends server slots to lanes, its word, and who is served as its
 * primary. Made on first use, by name; lives as long as the process. Any thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/hash.h"
#include "cluster/word.h"
#include "conf/conf.h"

#define CLUSTER_REPLICAS_MOST 16

struct cluster {
	struct hash_link link;
	char *name;             /* owns */
	int home;               /* the worker that holds its one lane */
	atomic_int ceiling;     /* max_server_conn; 0: none. Follows the configuration */
	atomic_int lent;        /* permits out */
	atomic_uint host_turn;  /* round robin over the hosts */
	atomic_ulong refused_writes; /* by the fence, of frozen orgs' too */

	/* written by control (cluster/watch) only */
	_Atomic word_t word;    /* state and epoch; 0: no breaker in force */
	_Atomic usec_t lease_until; /* by clock_now: until when PRIMARY holds, by the control store's word; 0: for as long as it is said */
	_Atomic uint64_t primary; /* key of the host that is dialled as the primary, or one of the two below */
	_Atomic uint64_t replicas[CLUSTER_REPLICAS_MOST]; /* keys of hosts that may be read from; 0: none */
	atomic_int failures;    /* of the primary in a row: while there are none nobody asks for a success */
};

/* Keys instead of places in a list: a worker may go by another snapshot of the configuration than control. */
enum { KEY_ANY = 0, KEY_NOBODY = 1, KEY_FIRST = 2 };
uint64_t cluster_host_key(const struct conf_host *h);

void cluster_set_workers(int n); /* once, before the first cluster is made */
struct cluster *cluster_of(const char *name, int ceiling);
/* With a control store the lease is looked at here, too: a process that was asleep must not write before control has woken. */
word_t cluster_word_leased(const struct cluster *c, word_t word);
static inline word_t cluster_word(const struct cluster *c)
{
	word_t word = atomic_load_explicit(&c->word, memory_order_acquire);
	return __builtin_expect(atomic_load_explicit(&c->lease_until, memory_order_relaxed) == 0, 1) ? word : cluster_word_leased(c, word);
}
/* Who is to be dialled as the primary: a place in the list of all its hosts (conf_cluster_host), PRIMARY_ANY of those under primary=, or
 * PRIMARY_NOBODY. */
enum { PRIMARY_ANY = -1, PRIMARY_NOBODY = -2 };
int cluster_primary(const struct cluster *c, const struct conf_cluster *cc);
bool cluster_may_read(const struct cluster *c, const struct conf_host *h); /* is it a replica that is up, of the same data? */
/* While writes are fenced and no primary is known: is there a replica, of all its hosts, that reads may go to? */
bool cluster_has_stand_in(const struct cluster *c, const struct conf_cluster *cc);
/* May the i-th of replicas= be dialled for reading, as far as the probes know? Where they know nothing, all may. */
bool cluster_replica_serves(const struct cluster *c, const struct conf_cluster *cc, int i);
void cluster_each(void (*row)(void *arg, struct cluster *c), void *arg);

/* The ledger: the only way to a server connection. A permit is held from before the dial until the socket is closed. */
bool ledger_take(struct cluster *c);
void ledger_give(struct cluster *c);
