/* Start-time fair queueing over slot time: who gets the next server when there are fewer than are wanted. Pure: no clock, no I/O.
 *
 * Whoever competes is a unit (an org in its lane; a pool in its org, or under a cap of its own). A unit's tag is the slot time it has
 * used over its weight, uses that are still going on included. The waiting unit with the least tag is the next.
 *
 *   rank        high, normal, low: a lower rank is served when no higher one waits. But where one of a lower rank has waited longer
 *               than max_wait, every second slot goes to its rank until none has
 *   no credit   a unit that comes to wait stands at least where the last one served stood: time in which it wanted nothing gives no
 *               claim. Each rank has its own virtual time, for ranks do not compete by tags
 *   debt        nor is it far behind: what it used while nobody else wanted it, or in one endless transaction, is forgotten beyond
 *               a minute
 *
 * A tag grows by itself while a use goes on. The heaps know a tag that may be too low, and the true one is looked at when a
 * unit comes to the top: one that is lower than all the others' low ones is the least. */
#pragma once

#include "base/heap.h"
#include "base/num.h"

enum sfq_rank { SFQ_HIGH, SFQ_NORMAL, SFQ_LOW, SFQ_RANKS };

struct sfq;

struct sfq_unit {
	struct heap_node by_tag, by_wait; /* in the queue's heaps, while it waits */
	struct sfq_unit *passed_before;   /* while sfq_pick goes past it */
	struct sfq *in;                   /* borrows: the queue it waits in; NULL: it does not */
	double pace;                      /* 1 / weight */
	enum sfq_rank rank;
	int n_uses;                       /* slots it holds */
	usec_t begun;                     /* the times at which these uses began, summed */
	double used;                      /* virtual seconds of the uses that are over */
	double tag;                       /* as the heap knows it */
	usec_t since;                     /* its longest waiting client's */
};

struct sfq {
	struct {
		struct heap by_tag, by_wait; /* borrow the units */
		double vtime;                /* the tag at which the last slot was given */
	} ranks[SFQ_RANKS];
	bool lifted; /* the last slot went past a higher rank */
};

void sfq_init(struct sfq *q);
void sfq_free(struct sfq *q); /* nobody waits */
bool sfq_is_empty(const struct sfq *q);
usec_t sfq_oldest(const struct sfq *q); /* since when the longest waiting client of all waits; not of an empty queue */

void sfq_unit_init(struct sfq_unit *u);
void sfq_unit_tune(struct sfq_unit *u, double weight, enum sfq_rank rank, usec_t now);
static inline bool sfq_waits(const struct sfq_unit *u) { return u->in != NULL; }
double sfq_tag(const struct sfq_unit *u, usec_t now);
double sfq_tag_in(const struct sfq *q, const struct sfq_unit *u, usec_t now); /* ... or where it would stand if it came to wait in q now */

void sfq_enter(struct sfq *q, struct sfq_unit *u, usec_t since, usec_t now);
void sfq_leave(struct sfq_unit *u);
void sfq_wait_moved(struct sfq_unit *u, usec_t since); /* another client is its longest waiting one now */

enum sfq_fit {
	SFQ_TAKE, /* this one */
	SFQ_PASS, /* the slot is of no use to it */
	SFQ_DROP, /* it does not wait any more: taken out of the queue */
};
typedef enum sfq_fit (*sfq_fit_fn)(struct sfq_unit *u, void *arg);
/* The first in order that takes it; NULL: none does. It goes on waiting until sfq_leave. max_wait 0: no wait is too long. */
struct sfq_unit *sfq_pick(struct sfq *q, usec_t now, usec_t max_wait, sfq_fit_fn fit, void *arg);

/* A slot is given to u, whether it waited or not: the queue's time goes on. Before sfq_begin, and for each queue in which u might wait. */
void sfq_advance(struct sfq *q, const struct sfq_unit *u, usec_t now);
void sfq_begin(struct sfq_unit *u, usec_t now);
void sfq_end(struct sfq_unit *u, usec_t begun, usec_t now);
