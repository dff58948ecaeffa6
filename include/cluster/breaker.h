/* The breaker of a cluster: whether its primary may be used, and under which epoch. Pure: time is a parameter, and who sends probes, keeps
 * epochs and tells the workers is its caller (cluster/watch.c).
 *
 *   PRIMARY ---- failures in a row, or a conflict ----> DEGRADED
 *      | ^                                             |     ^
 *      | | cut over: a new epoch      the window is over     | a bad probe
 *      | |                                             v     |
 *      | +-------------------------------------------- RECOVERING
 *      +--- another host is primary, or an operator's fence --^
 *
 * An answer counts only for the stretch of time it was asked in. A probe has a ticket, which every move makes void; what a
 * login came to counts under the epoch it was begun in, and an epoch is PRIMARY once only. */
#pragma once

#include "base/num.h"
#include "cluster/word.h"

struct breaker_rules {
	int failures; /* breaker_failures */
	int probes;   /* breaker_probes */
	usec_t open;  /* breaker_open */
};

struct breaker {
	enum cluster_state state; /* written by breaker.c's mover only */
	uint64_t epoch;
	bool fenced;              /* by an operator: stays in RECOVERING until breaker_unfence */
	usec_t since;             /* when the state began */

	int failures;             /* PRIMARY: in a row */
	int good;                 /* RECOVERING: probes in a row that found the same primary; counted up to what is needed */

	unsigned ticket;          /* of the probe in flight; 0: none */
	unsigned last_ticket;
};

/* What a probe of the whole cluster came to. */
enum breaker_finding {
	BREAKER_GOOD,     /* the primary that was found last time answers */
	BREAKER_OTHER,    /* another one does: it was promoted, and a new epoch is due before it is written to */
	BREAKER_BAD,      /* no primary answers */
	BREAKER_CONFLICT, /* there are hosts that say so, but none may be served */
};

void breaker_init(struct breaker *b, enum cluster_state state, uint64_t epoch, usec_t now);

/* A ticket for a probe; 0: none may be sent now. One at a time; none while DEGRADED. */
unsigned breaker_probe_begin(struct breaker *b);
void breaker_probe_forget(struct breaker *b); /* it was given up: there will be no answer */

/* These return true when the state moved. */
bool breaker_probe_end(struct breaker *b, const struct breaker_rules *r, unsigned ticket, enum breaker_finding f, usec_t now);
bool breaker_login_failed(struct breaker *b, const struct breaker_rules *r, uint64_t epoch, usec_t now);
void breaker_login_worked(struct breaker *b, uint64_t epoch);
bool breaker_tick(struct breaker *b, const struct breaker_rules *r, usec_t now); /* ends the window when it is over */
bool breaker_fence(struct breaker *b, usec_t now);

void breaker_unfence(struct breaker *b);    /* the probes have their say again: see breaker_is_ready */
void breaker_start_over(struct breaker *b); /* what they have found so far does not count any more */
/* All that the probes can say for a cutover is said. Now the caller begins the next epoch, where it is kept, and then says so. */
bool breaker_is_ready(const struct breaker *b, const struct breaker_rules *r);
void breaker_cut_over(struct breaker *b, const struct breaker_rules *r, uint64_t epoch, usec_t now);
/* What holds by somebody else's word (the control store's): an epoch that is not lower, and PRIMARY in the one at hand only if it is so already. */
void breaker_adopt(struct breaker *b, enum cluster_state state, uint64_t epoch, bool fenced, usec_t now);
