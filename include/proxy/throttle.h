/* Transactions come no faster than their org's tx_rate. The first Query or Execute of a transaction takes a token; what needs one and finds
 * none is held back, first come first served, or refused (rate_action). A transaction that has begun is never held up.
 *
 *   rate_action=queue    until there is a token; after rate_wait it is refused
 *   rate_action=reject   refused at once
 *
 * Whether a message begins a transaction is known when all before it is answered: clients of an org with a rate are held to one transaction
 * under way, however they pipeline. */
#pragma once

#include "proxy/client.h"
#include "wire/frame.h"

struct throttle;

enum admission {
	ADMIT_PASS,
	ADMIT_LATER,   /* the stream is paused: the message comes again */
	ADMIT_REFUSED, /* it was answered, and is to be dropped */
};
/* The message at p: f->have bytes of it, and len of all that has come. */
enum admission throttle_admit(struct client *c, const uint8_t *p, size_t len, const struct frame *f);
static inline bool throttle_concerns(const struct client *c) { return __builtin_expect(c->pool->policy.tx_rate > 0, 0) || c->toll > TOLL_PAID; }
void throttle_leave(struct client *c);   /* it is held no more: it ends, or its batch is refused for another reason. Safe when it is not held */
void throttle_timeout(struct client *c); /* rate_wait is over */
void throttle_cancel(struct client *c);  /* a cancel for one that is held with a server in hand */
void throttle_adopt(struct worker *w);   /* after a reload */
void throttle_each(const struct worker *w, void (*row)(void *arg, const struct org *o, int held), void *arg);
