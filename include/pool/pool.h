/* Pools. Three nouns:
 *
 *   target  (entry, server user): where server connections lead and how they get in. Connections of one target may change hands
 *           between orgs through a reset; between targets never.
 *   flow    an org in a lane, as far as fairness goes. The pool never looks behind `key`.
 *   pool    (target, flow): its servers, one list per state, and its queue of waiters.
 *
 * All of one lane, all on one loop. */
#pragma once

#include "base/count.h"
#include "base/figure.h"
#include "base/heap.h"
#include "base/hist.h"
#include "cluster/cluster.h"
#include "cluster/tally.h"
#include "pool/server.h"
#include "pool/sfq.h"

struct welcome { /* ParameterStatus messages as the last login of a target brought them */
	struct buf messages;  /* owns */
	bool known;
};

struct target {
	struct hash_link link;
	struct lane *lane;            /* borrows */
	struct tally *entry;          /* borrows: the live database entry */
	struct tally *user;           /* borrows: the server user */
	struct scope *entry_scope, *user_scope; /* counted: where its pools wait for the caps of these two */
	struct conf_entry *made;      /* owns: an entry of the * line; NULL: looked up by name in the lane's setup */
	bool exempt;                  /* for clients that may write while others are fenced */
	bool reads;                   /* its entry has prefer=replica and a fallback: it refuses where no replica can serve */
	int n_pools;
	int n_servers;
	int n_logins;                 /* in DIAL or LOGIN */
	struct list idle;             /* all idle servers of its pools, oldest first */
	struct welcome welcome;
	unsigned host_turn;
	/* credentials learned from clients, for servers that ask for SCRAM when we hold no password */
	struct scram_keys keys;
	struct secret password;       /* what auth_query or the client's clear password gave; auth_file and the entry's line stand above it */
	/* failing logins */
	struct err last_err;
	usec_t failing_since;         /* 0: not failing */
	bool failed_by_server;        /* the last failure was the server's own answer */
	usec_t retry_wait;            /* back-off, doubles up to server_login_retry */
	struct timer retry;
	bool changed;                 /* by the reload at hand */
	uint64_t schema;              /* grows with each change of the schema that its servers have told of: a Parse behind it makes a new statement */
	struct spelling *spellings;   /* owns: settings that its servers have accepted */
	int n_spellings;
};

/* A setting's value as a client wrote it and as PostgreSQL reports it ("ISO" and "ISO, MDY"). */
struct spelling {
	int guc;
	struct guc_value *asked, *reported; /* refs */
};
#define SPELLINGS_MOST 64

struct flow {
	struct hash_link link;
	struct lane *lane;
	char key[ORG_ID_MOST + 1]; /* the org's id */
	int n_pools;
	bool paused;          /* its transactions do not begin (PAUSE ORG) */
	struct sfq_unit unit; /* in lane->orgs while one of its pools is blocked by the cluster's ceiling */
	struct sfq pools;     /* those */
	bool frozen;          /* may not write (FREEZE ORG) */
};

/* Where pools wait for the cap of one entry or one user. */
struct scope {
	struct hash_link link;
	struct list blocked_link; /* in lane->blocked_scopes, while one does */
	const struct tally *of;
	int n_targets;
	struct sfq pools;
};

/* Counters of a pool; one writer. X(name, unit, help). When a pool is freed they are added to the lane's remainder for the entry. SHOW STATS and
 * the metrics of entries and orgs are read out of these rows. */
#define POOL_COUNTERS(X) \
	X(server_assignments, COUNT, "Servers given to clients.") \
	X(xacts, COUNT, "Transactions that ended.") \
	X(queries, COUNT, "Queries that were answered.") \
	X(received, BYTES, "Bytes that clients sent.") \
	X(sent, BYTES, "Bytes that servers sent.") \
	X(xact_us, USEC, "Time spent in transactions.") \
	X(query_us, USEC, "Time spent in queries.") \
	X(wait_us, USEC, "Time that clients waited for a server.") \
	X(slot_us, USEC, "Time that servers were held.") \
	X(client_parses, COUNT, "Prepared statements that clients made.") \
	X(server_parses, COUNT, "Prepared statements made on servers.") \
	X(binds, COUNT, "Prepared statements bound to values.") \
	X(client_logins, COUNT, "Clients that logged in.") \
	X(handovers, COUNT, "Servers that came from another org.")
struct pool_counts {
#define X(name, unit, help) count_t name;
	POOL_COUNTERS(X)
#undef X
};
enum total {
#define X(name, unit, help) TOTAL_##name,
	POOL_COUNTERS(X)
#undef X
	TOTALS,
};
void pool_counts_sum(struct pool_counts *to, const struct pool_counts *from);

struct waiter {
	struct list link;  /* in pool->waiters */
	struct pool *pool;
	usec_t since;
	bool fresh;        /* was never served: a failing login is its answer at once */
	void (*granted)(struct waiter *w, struct server *s); /* s is ACTIVE with w's user */
	void (*refused)(struct waiter *w, const struct err *err);
	void *user;        /* what server_take is given */
};

/* What keeps a pool from opening one more server. */
enum cap { CAP_NONE, CAP_POOL, CAP_USER, CAP_ENTRY, CAP_CLUSTER, CAP_LATER };

struct pool {
	struct hash_link link;
	struct target *target; /* borrows */
	struct flow *flow;     /* borrows */
	struct lane *lane;
	struct policy policy;  /* resolved when the pool is made and at each reload */

	struct list servers[SERVER_STATES];
	int n_servers;         /* in all states: what the caps count */
	int n_state[SERVER_STATES];
	struct list waiters;   /* first come, first served */
	int n_waiters;
	int n_evictions;       /* servers of other pools that are closing to make room for one of this */
	int n_clients;         /* clients that call this pool theirs (proxy) */
	bool left;             /* its last client was led elsewhere: nothing is kept here */
	struct sfq_unit unit;  /* in the queue of what it is blocked by (pool/blocked.h) */
	enum cap blocked_by;   /* CAP_NONE: it is not */
	struct list serve_link; /* in lane->to_serve */
	struct list login_link; /* in lane->to_login */
	struct timer timer;    /* reserve_pool_timeout, min_pool_size, and the end of a pool that nobody uses */
	usec_t empty_since;    /* 0: in use */
	struct pool_counts counts;
	struct hist waits;     /* since control was told; clients that did not wait are not in it */

	/* what control was told (pool/usage) */
	struct list touched;   /* in lane->touched: something changed since */
	unsigned usage_round;
	struct pool_told {
		uint64_t n[TOTALS];
		int clients, active, idle, servers, waiting;
	} told;
};

static inline int pool_live_servers(const struct pool *p) { return p->n_servers - p->n_state[SERVER_CLOSING]; }

/* What one worker holds of a cluster. */
struct lane {
	struct hash_link link;  /* in the worker's lanes */
	struct loop *loop;
	struct cluster *cluster;
	const struct setup *setup; /* borrows: the worker's; follows reloads by lane_adopt */
	struct guc_book *guc_book; /* borrows: the worker's */
	struct stmt_book *stmt_book;
	const struct server_user_calls *calls; /* the proxy's */
	atomic_ullong *last_server_id; /* borrows: process-wide */
	struct hash targets, flows, pools;
	struct hash scopes;        /* by tally */
	struct sfq orgs;           /* flows with pools that the cluster's ceiling blocks */
	struct list blocked_scopes; /* scopes with pools that their cap blocks */
	int n_blocked;             /* pools, in all of these */
	usec_t priority_max_wait;
	int n_logins;
	struct list orders;        /* pending PAUSE, WAIT_CLOSE ... (pool/order.h) */
	struct hash remainders;    /* counters of freed pools by entry: struct remainder */
	struct list idle;          /* all idle servers, oldest first */
	struct list to_serve;      /* pools to look at in this turn's end */
	struct list to_login;      /* pools that want one more server as soon as fewer logins are under way */
	bool login_room;           /* a login is over: look at those */
	bool cap_room;             /* a server is gone, or a login is over: look at blocked pools */
	struct later serve_later;
	struct list cancel_calls;  /* cancel connections under way (pool/login_cancel.c) */
	bool suspended;            /* whole lane: PAUSE without a name, shutdown */
	word_t word;               /* the cluster's word and primary as of the last lane_follow */
	uint64_t primary;

	/* what control is still to be told (pool/usage) */
	struct list touched;       /* pools */
	struct buf usage_left;     /* owns: of pools that are freed */
	unsigned usage_round;
};

/* Something changed that control is told of the next time it asks (pool/usage). */
static inline void pool_touch(struct pool *p)
{
	if (!list_linked(&p->touched))
		list_push(&p->lane->touched, &p->touched);
}

struct remainder {
	struct hash_link link;
	struct tally *entry;
	struct pool_counts counts;
};

struct lane *lane_new(struct loop *l, struct cluster *c, const struct setup *setup, struct guc_book *g, struct stmt_book *s, const struct server_user_calls *calls,
		      atomic_ullong *last_server_id);
void lane_free(struct lane **l);   /* at the end of the process: closes all servers */
/* After a reload: policies are resolved anew, servers of changed entries go stale, surplus ones are closed as they come free. */
void lane_adopt(struct lane *l, const struct setup *setup);
/* The cluster's word or primary changed: servers from before are closed at once, those in use when they come free, and who waits is looked at again. */
void lane_follow(struct lane *l);
/* Asked before a server is handed out. Only so no old one ever is: the mail that tells of a change may come a moment later. */
static inline void lane_keep_up(struct lane *l)
{
	if (cluster_word(l->cluster) != l->word || atomic_load_explicit(&l->cluster->primary, memory_order_acquire) != l->primary)
		lane_follow(l);
}
/* Was it dialled under the word that is in force, and to the primary of now? */
static inline bool server_is_of_now(const struct server *s)
{
	return cluster_word(s->lane->cluster) == s->word && atomic_load_explicit(&s->lane->cluster->primary, memory_order_acquire) == s->primary;
}

/* The pool for a client: made on first use. entry: the configuration's, or one made from the * line (copied by conf_entry_make by name if needed).
 * server_user: the entry's forced user or the client's own name. org: the id, "default" for none. */
struct pool *lane_pool(struct lane *l, const struct conf_entry *entry, const char *server_user, const char *org);
/* The same for a client that may write while others are fenced: its servers are its kind's alone. */
struct pool *lane_pool_exempt(struct lane *l, const struct conf_entry *entry, const char *server_user, const char *org);
/* From now on the flow's servers are opened read-only, or not any more. What began on one that may write is over; what reads goes on to its end. */
void flow_freeze(struct flow *f);
void flow_thaw(struct flow *f);
struct flow *lane_flow(struct lane *l, const char *org); /* NULL: the lane has none */
const struct conf_entry *target_entry(const struct target *t); /* by the lane's setup; NULL: removed by a reload */

enum take { TAKE_GRANTED, TAKE_WAIT, TAKE_REFUSED };
/* A server for w, now if there is one (w->granted is not called then), or later. Refused: err says why. */
enum take pool_take(struct pool *p, struct waiter *w, struct server **out, struct err *err);
void pool_give_up(struct waiter *w); /* stops waiting; safe when not waiting */
/* Serves what can be served: called after anything changed for the pool. */
void pool_serve(struct pool *p);
void lane_cap_room(struct lane *l);   /* a cap may have room again: blocked pools are looked at, at the end of the turn */
void lane_make_room(struct lane *l);  /* one idle server ends if a pool of another lane waits for a cap that it counts in */
void lane_login_over(struct lane *l); /* the same for those that wait until fewer logins are under way */
/* Hints from the proxy. */
void pool_client_add(struct pool *p);
void pool_client_drop(struct pool *p);
void pool_left(struct pool *p); /* one that was led elsewhere has been dropped: no more servers are kept than clients */
/* Gives a server that came free to whom it is due: its own pool's first waiter, a waiter of another pool that a cap holds back, or nobody: then it rests. */
void pool_give(struct server *s);
void pool_server_gone(struct server *s); /* it was closed: caps have room, waiters may need another */
void pool_serve_soon(struct pool *p); /* at the end of the turn */
bool pool_is_held(const struct pool *p); /* paused */
/* Its cluster is DEGRADED, and nobody stands in: nothing is waited for. err is the answer. */
bool target_is_down(const struct target *t, struct err *err);
/* Logins of this target fail: err is the answer for clients, in full. False: they do not, or other servers of it are alive. */
bool target_refuses(const struct target *t, bool fresh, struct err *err);
struct guc_value *target_spelling(const struct target *t, int guc, const struct guc_value *asked); /* borrowed; NULL: not tried yet */
void target_spelling_add(struct target *t, int guc, struct guc_value *asked, struct guc_value *reported);
void target_login_failed(struct target *t, const struct err *err, bool server_said);
void target_login_worked(struct target *t);
/* What clients have taught a target, for another one that they are led to. It is of use where the server user is the same. */
struct target_lore {
	const struct tally *user;
	struct scram_keys keys;
	struct secret password;
};
void target_lore_of(const struct target *t, struct target_lore *out);
void target_teach(struct target *t, const struct target_lore *lore); /* what it knows itself stays, unless its logins fail */
void target_lore_free(struct target_lore *lore);
