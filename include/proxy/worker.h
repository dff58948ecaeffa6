/* A worker: a loop with its listeners, clients, lanes, statements and values. Control is one too, with no lanes and no listeners: it
 * holds the console's clients. */
#pragma once

#include "cluster/setup.h"
#include "loop/gather.h"
#include "loop/loop.h"
#include "net/listen.h"
#include "proxy/client.h"
#include "proxy/gate.h"

#define WORKERS_MOST 128

struct parcel;

struct worker {
	int id;               /* 0 ..; control: -1 */
	struct loop *loop;    /* owns */
	struct setup *setup;  /* ref */
	struct list listeners;
	struct list clients[CLIENT_STATES];
	int n_clients[CLIENT_STATES];
	struct hash lanes;    /* by cluster */
	struct hash throttles; /* by org (proxy/throttle) */
	struct gate gate;     /* of logins */
	struct guc_book guc_book;
	struct stmt_book stmt_book;
	struct client **slots; /* owns the array: clients by slot, for cancel keys; NULL: free */
	uint32_t *next_slots;  /* owns: the free slot behind a free one */
	uint32_t n_slots, room_slots, free_slot;
	struct hash forwards; /* of clients that have left, by slot (proxy/address) */
	struct parcel *to_server, *to_client; /* own: what is being put together for one send */
	struct buf scratch;
	struct later warm_later;
	struct list crowds;   /* lookups of users whose logins fail (proxy/lookup) */
	struct list surveys;  /* in pools of this worker (proxy/survey) */
	count_t logins, refused_logins;
	usec_t started_at;
};

extern struct worker *workers[WORKERS_MOST]; /* set up by main before any loop runs, never changed after */
extern int n_workers;
extern struct worker *control;
extern atomic_ullong last_connection_id; /* clients and servers share one row of ids */

/* The process's stage, read by all, written by control. */
enum stage { STAGE_RUNNING, STAGE_SUSPENDED, STAGE_PAUSED, STAGE_WAIT_SERVERS, STAGE_WAIT_CLIENTS };
extern atomic_int process_stage;

struct worker *worker_new(int id, struct setup *setup); /* takes a reference of its own */
void worker_free(struct worker **w);
void worker_adopt(struct worker *w, struct setup *setup); /* in its thread: the new configuration is in force */
void worker_listen(struct worker *w, int fd); /* from now on accepts on it; before the loop runs, or in its thread */
struct lane *worker_lane(struct worker *w, const struct conf_cluster *cc); /* made on first use; only on the cluster's home */
void worker_follow(struct cluster *c); /* control's thread: word or primary of the cluster changed, its home is to look at once */
/* How the console is reached from below: admin registers itself at start (admin is above proxy). */
struct console_calls {
	void (*open)(struct client *c);
	size_t (*bytes)(struct client *c, const uint8_t *p, size_t len);
	void (*close)(struct client *c);
	void (*cancel)(struct client *c); /* a CancelRequest with its key */
	void (*client_gone)(struct worker *w); /* a client ended while the process is shutting down; in w's thread; may be NULL */
};
extern const struct console_calls *console_calls;
/* All loops that hold clients: workers, then control. Fills out, returns how many. */
int worker_loops(struct loop *out[WORKERS_MOST + 1]);
static inline struct worker *worker_of(struct loop *l) { return (struct worker *)l->owner; }
