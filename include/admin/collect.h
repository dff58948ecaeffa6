/* Control's picture of who uses what: every now and then, and when somebody asks, all lanes tell what their pools have used since the last
 * time (pool/usage), and it is added up here by org, by entry, by cluster and by worker. Everything is done in slices, in the workers
 * and in control: five thousand orgs with traffic hold up nobody. In control's loop. */
#pragma once

#include "admin/board_priv.h"
#include "proxy/worker.h"
#include "tenant/heat.h"

/* In the order of figures.def. */
enum worker_figure {
#define WORKER_FIGURE(name, kind, unit, help) WORKER_##name,
#include "admin/figures.def"
	WORKER_FIGURES,
};
enum cluster_figure {
#define CLUSTER_FIGURE(name, kind, unit, help) CLUSTER_##name,
#include "admin/figures.def"
	CLUSTER_FIGURES,
};
enum process_figure {
#define PROCESS_FIGURE(name, kind, unit, help) PROCESS_##name,
#include "admin/figures.def"
	PROCESS_FIGURES,
};

struct cluster_sums {
	struct hash_link link;
	const struct cluster *cluster;
	int64_t n[CLUSTER_FIGURES];
};

struct picture {
	struct board orgs, entries;
	struct hash clusters;      /* cluster_sums by pointer: those that had a pool */
	int64_t workers[WORKERS_MOST + 1][WORKER_FIGURES]; /* the last of them is control */
	int64_t process[PROCESS_FIGURES];
	struct heat heat;          /* what orgs did is noted here; judged by admin/hot */
	usec_t wall;               /* the time of the last round, since 1970, as collect_wall tells it */
};

extern struct picture picture; /* to be read while no round is under way: in done(), and behind it until the next turn */

const struct cluster_sums *cluster_sums_find(const struct cluster *c); /* NULL: it had no pool yet */

/* The time since 1970, but one that never goes back: as it was at the start, and what has passed since. */
usec_t collect_wall(void);

void collect_start(void);
void collect_stop(void);
typedef void (*collect_done_fn)(void *arg);
/* A round, or what is left of the one that is under way. done is called once, not before this has returned. */
void collect_now(collect_done_fn done, void *arg);
/* What a worker tells of itself, with servers and waiting left out; for SHOW WORKERS too. In its thread. */
void worker_figures(struct worker *w, int64_t n[WORKER_FIGURES]);
