/* How an instance and the control store come to one state and one epoch for a cluster: what the store is to be asked next, and what its word means
 * for the breaker here. Pure; the talking is cluster/council.c's, and the moves are made by cluster/watch.c.
 *
 * The breaker moves by itself in one direction only, away from PRIMARY, and what it did becomes a call. PRIMARY comes from the store, with an
 * epoch that is new here, and holds for as long as the lease does. */
#pragma once

#include "cluster/breaker.h"

/* What the store says of a cluster. */
struct standing {
	uint64_t epoch;
	enum cluster_state state;
	bool held; /* by hand */
};

enum agree_call { CALL_NONE, CALL_OPEN, CALL_RECOVER, CALL_CUTOVER, CALL_FENCE, CALL_UNFENCE, CALL_UNFENCE_FORCE, CALLS };

struct agree {
	bool heard;                /* in this run of the process */
	struct standing told;      /* last */
	usec_t lease_until;        /* by clock_now; 0: there was none yet */

	enum agree_call want;      /* what the store must learn; NONE: nothing */
	enum cluster_state failed; /* OPEN: the state in which it did */
	usec_t not_before;         /* the next call */
};

/* What is to be done with the breaker after the store was heard. */
enum agree_step {
	AGREE_STAY,
	AGREE_FENCE,  /* adopt a->told, which is not PRIMARY */
	AGREE_BEGIN,  /* adopt a->told, PRIMARY of an epoch that is new here: when it is kept */
	AGREE_HOLD,   /* a new epoch, but an operator has fenced here since: adopt the epoch, fenced */
	AGREE_AHEAD,  /* the store knows less than we do: fenced in our own epoch until it has caught up */
};

/* The only question that lets a write through. */
bool agree_may_write(const struct agree *a, const struct breaker *b, usec_t now);

bool agree_is_heard(const struct agree *a, const struct breaker *b); /* is the store in our epoch? */

/* What a poll says of the cluster. */
struct standing_told {
	uint64_t epoch;
	const char *state;
};
struct standing_told agree_report(const struct agree *a, const struct breaker *b);

void agree_moved(struct agree *a, const struct breaker *b, enum cluster_state from); /* the breaker did, by itself or by FENCE */
enum agree_step agree_hear(struct agree *a, const struct breaker *b, const struct standing *s);

/* What to ask now. */
enum agree_call agree_next(const struct agree *a, const struct breaker *b, const struct breaker_rules *r, usec_t now);
/* The store has answered a call, with a reason ("": it was done) and what holds now. */
enum agree_step agree_answered(struct agree *a, const struct breaker *b, enum agree_call call, const char *reason, const struct standing *s, usec_t now);
bool agree_may_retry(const char *reason); /* does it pass by itself? */

const char *standing_name(enum cluster_state s); /* "PRIMARY": as the store says it */
bool standing_find(const char *name, enum cluster_state *out);
