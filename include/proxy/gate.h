/* The gate of a worker: what clients answer to the request for their password is judged for about a millisecond per turn of the loop, and
 * what is more waits, org by org in turn. So a flood of logins, whatever one costs, holds up neither the queries of this worker nor the
 * logins of other orgs. */
#pragma once

#include "proxy/client.h"

struct gate {
	struct hash by_org;    /* queues */
	struct list round;     /* the same, whose turn it is first */
	usec_t turn;           /* by loop_now */
	int passed;            /* in this turn */
	usec_t cost;           /* of one, as of late */
	struct later let_pass;
};

struct gate_queue;

void gate_init(struct gate *g);
void gate_free(struct gate *g); /* nobody waits */
/* False: the client's stream is paused, and it is asked again when its turn has come. */
bool gate_passes(struct client *c);
void gate_took(struct worker *w, usec_t time); /* one that passed */
void gate_leave(struct client *c);             /* it ends; safe when it does not wait */
