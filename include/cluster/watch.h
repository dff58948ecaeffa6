/* What control does for each cluster with a breaker: it probes the hosts, feeds the breaker, keeps epochs, and tells the workers by the
 * cluster's word, its primary and its replicas. The rest of the process may not write those.
 *
 * A round asks all hosts at once, and is over when each has answered or used up its time; the next begins probe_interval after it began.
 * While the breaker is open the primary is left alone. All functions are control's, but for the two about logins. */
#pragma once

#include "cluster/agree.h"
#include "cluster/breaker.h"
#include "cluster/cluster.h"
#include "cluster/epoch.h"
#include "cluster/probe.h"
#include "cluster/setup.h"

struct watch;
struct council;

enum unfence { UNFENCE_BY_RULES, UNFENCE_FORCE };

typedef void (*watch_done_fn)(void *arg, const struct err *err); /* NULL: it went well */

/* What comes again with each round is logged once, and then once a minute while it stays. */
struct complaint {
	char text[sizeof(((struct err *)0)->text)];
	usec_t at;
};

struct watched_host {
	struct watch *watch;    /* borrows: its own */
	char *name;             /* owns: host:port */
	const struct conf_host *conf; /* borrows: the setup's */
	uint64_t key;
	struct probe *probe;    /* owns; NULL: not under way */
	struct sighting seen;   /* by the last probe that ended; nothing yet: neither up nor an error */
	usec_t plain_until;     /* it does not tell its identity: until then it is asked for its role alone */
	struct complaint left_behind;
};

struct watch {
	struct list link;
	struct cluster *cluster;         /* borrows */
	const struct conf_cluster *conf; /* borrows: the setup's */
	struct breaker breaker;
	struct epoch_row kept;           /* what is on the disk, or is to be */
	struct watched_host *hosts;      /* owns */
	int n_hosts;
	int serving;                     /* host that is dialled as the primary; -1: none */

	/* the round under way */
	unsigned ticket;                 /* 0: none of its answers is about the primary */
	int n_open;
	usec_t began;

	struct timer round, window;
	uint64_t position;               /* the primary's, when it last told it; 0: it did not */
	struct err last_err;             /* of the last failure of the primary; "" */
	struct complaint conflict, disk, refusal;

	/* with a control store */
	struct council *council;   /* borrows; NULL: none */
	struct list seat;          /* in the council's, with one */
	struct agree agree;
	struct timer lease;        /* ends it */
	usec_t queue_at;           /* when the queue is asked for next */
	int64_t queue;             /* commands in it */
	usec_t queue_age;          /* of the oldest */
	watch_done_fn unfence_done; /* NULL: none under way */
	void *unfence_arg;
	usec_t unfence_until;
};

/* Called when word or primary of a cluster changed. */
typedef void (*watch_changed_fn)(struct cluster *c);

/* Before any worker runs. False and err: do not start. */
bool watch_start(struct loop *control, const struct setup *setup, watch_changed_fn changed, struct err *err) MUST_CHECK;
void watch_adopt(const struct setup *setup); /* a reload: before the workers have it */
void watch_stop(void);

struct watch *watch_find(const char *cluster); /* NULL: no such cluster, or its breaker is off */

bool watch_fence(struct watch *w, struct err *err);
/* FORCE: whichever primary is found is right, whatever was served before, and the queue is not asked for. `done` comes once, at once or later, when it is cut over
 * or refused; without a control store it is done when it will be as soon as the probes are good (see w->breaker). */
void watch_unfence(struct watch *w, enum unfence how, watch_done_fn done, void *arg);

int64_t watch_lag(const struct watch *w, const struct watched_host *h); /* bytes of WAL that a replica is behind; -1: not known */

/* From any worker: what a login to the primary came to, and the word it was begun under. Failed: refused, timed out, or answered "not now". */
void watch_login_failed(struct cluster *c, word_t word, const struct err *why);
void watch_login_worked(struct cluster *c, word_t word);
