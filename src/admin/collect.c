/* See admin/collect.h. A round:
 *
 *   each loop      its own figures, then its lanes' usage, POOLS_AT_ONCE a turn       (gather)
 *   control        adds up, USAGES_AT_ONCE a turn; counts of the registry, SLOTS_AT_ONCE a turn;
 *                  open descriptors, FDS_AT_ONCE a turn; ranks; calls who waits
 */
#include "admin/collect.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/cluster.h"

#define POOLS_AT_ONCE 256
#define USAGES_AT_ONCE 512
#define SLOTS_AT_ONCE 512
#define FDS_AT_ONCE 1024
#define WAITERS_MOST 4 /* the page, and whoever else of this layer wants a round */

struct picture picture;

struct waiting {
	collect_done_fn done;
	void *arg;
};

static struct {
	bool started;
	usec_t wall_at_start, clock_at_start;
	bool round;               /* one is under way */
	struct later later;       /* the next slice of it in control */
	size_t step;
	struct gather *answers;   /* owns, while they are added up */
	int part;                 /* where that stands: which part, and how much of its rows */
	size_t at;
	size_t slot;              /* of the registry */
	DIR *fds;                 /* owns */
	int64_t n_fds;
	struct waiting waiting[WAITERS_MOST];
	int n_waiting;
} collect;

/* ---- in the loops ---- */

void worker_figures(struct worker *w, int64_t n[WORKER_FIGURES])
{
	memset(n, 0, sizeof(*n) * WORKER_FIGURES);
	for (int state = CLIENT_IDLE; state < CLIENT_CLOSING; state++)
		n[WORKER_clients] += w->n_clients[state];
	n[WORKER_logging_in] = w->n_clients[CLIENT_GREET];
	n[WORKER_lanes] = (int64_t)w->lanes.count;
	hash_each(link, &w->lanes)
		n[WORKER_pools] += (int64_t)owner_of(link, struct lane, link)->pools.count;
	n[WORKER_logins] = (int64_t)count_read(&w->logins);
	n[WORKER_refused_logins] = (int64_t)count_read(&w->refused_logins);
	n[WORKER_uptime] = (loop_now(w->loop) - w->started_at) / USEC_PER_SEC;
}

struct slice {
	struct mail mail;
	struct part *part;
};

static bool take_some(struct worker *w, struct buf *out)
{
	hash_each(link, &w->lanes)
		if (usage_take(owner_of(link, struct lane, link), POOLS_AT_ONCE, out))
			return true;
	return false;
}

/* The rest goes by mail to the same loop: it is read in the next turn, and also when the loop ends meanwhile. */
static void go_on(struct part *p, struct slice *s)
{
	struct worker *w = worker_of(p->loop);

	if (!w->loop || !take_some(w, &p->rows)) { /* no loop: the process ends */
		mem_free(s);
		part_done(p);
		return;
	}
	mail_send(p->loop, &s->mail);
}

static void slice_read(struct loop *here, struct mail *m)
{
	struct slice *s = owner_of(m, struct slice, mail);

	(void)here;
	go_on(s->part, s);
}

static void ask(struct part *p)
{
	struct worker *w = worker_of(p->loop);
	struct slice *s = mem_make(struct slice);
	int64_t n[WORKER_FIGURES] = {0};

	s->mail.read = slice_read;
	s->part = p;
	if (w->loop)
		worker_figures(w, n);
	buf_add(&p->rows, n, sizeof(n));
	hash_each(link, &w->lanes)
		usage_begin(owner_of(link, struct lane, link));
	go_on(p, s);
}

/* ---- adding up ---- */

static bool cluster_same(const struct hash_link *link, const void *cluster)
{
	return owner_of(link, struct cluster_sums, link)->cluster == cluster;
}

static uint64_t cluster_hash(const struct cluster *c)
{
	return hash_bytes(&c, sizeof(c));
}

const struct cluster_sums *cluster_sums_find(const struct cluster *c)
{
	struct hash_link *link = hash_find(&picture.clusters, cluster_hash(c), cluster_same, c);

	return link ? owner_of(link, struct cluster_sums, link) : NULL;
}

static struct cluster_sums *cluster_sums_of(const struct cluster *c)
{
	const struct cluster_sums *found = cluster_sums_find(c);

	if (found)
		return (struct cluster_sums *)found;
	struct cluster_sums *s = mem_make(struct cluster_sums);
	s->cluster = c;
	hash_add(&picture.clusters, &s->link, cluster_hash(c));
	return s;
}

static void add_usage(int worker, const struct usage *u)
{
	struct cluster_sums *c = cluster_sums_of(u->cluster);

	board_add(&picture.orgs, u->org, u);
	board_add(&picture.entries, u->entry->name, u);
	heat_note(&picture.heat, u->org, picture.wall, u->n[TOTAL_queries], (usec_t)u->n[TOTAL_slot_us]);
	c->n[CLUSTER_servers_active] += u->active;
	c->n[CLUSTER_waiting] += u->waiting;
	picture.workers[worker][WORKER_servers] += u->servers;
	picture.workers[worker][WORKER_waiting] += u->waiting;
}

static void add_worker(int worker, const struct buf *rows)
{
	int64_t servers = picture.workers[worker][WORKER_servers], waiting = picture.workers[worker][WORKER_waiting];

	memcpy(picture.workers[worker], rows->p, sizeof(picture.workers[worker]));
	picture.workers[worker][WORKER_servers] = servers;
	picture.workers[worker][WORKER_waiting] = waiting;
}

static bool add_some(void)
{
	const struct gather *g = collect.answers;
	struct usage u;

	for (int n = 0; n < USAGES_AT_ONCE && collect.part < g->n_parts; n++) {
		const struct buf *rows = &g->parts[collect.part].rows;
		if (!collect.at) {
			add_worker(collect.part, rows);
			collect.at = sizeof(picture.workers[0]);
		} else if (collect.at < rows->len) {
			memcpy(&u, rows->p + collect.at, sizeof(u));
			add_usage(collect.part, &u);
			collect.at += sizeof(u);
		} else {
			collect.part++;
			collect.at = 0;
		}
	}
	if (collect.part < g->n_parts)
		return true;
	gather_free(&collect.answers);
	return false;
}

/* ---- the registry's counts ---- */

static void count_grown(struct org *o, enum org_count which, unsigned long now, unsigned long *told)
{
	if (now != *told)
		board_count(&picture.orgs, o->id, which, now - *told);
	*told = now;
}

static void count_org(void *arg, struct org *o)
{
	(void)arg;
	count_grown(o, ORG_throttled, atomic_load_explicit(&o->throttled, memory_order_relaxed), &o->throttled_told);
	count_grown(o, ORG_refused, atomic_load_explicit(&o->refused, memory_order_relaxed), &o->refused_told);
}

static bool count_orgs(void)
{
	return org_each_of(&collect.slot, SLOTS_AT_ONCE, count_org, NULL);
}

/* ---- the process ---- */

static bool count_fds(void)
{
	struct dirent *at = NULL;

	if (!collect.fds)
		return false;
	for (int i = 0; i < FDS_AT_ONCE && (at = readdir(collect.fds)); i++)
		collect.n_fds += at->d_name[0] != '.';
	if (at)
		return true;
	closedir(collect.fds);
	collect.fds = NULL;
	picture.process[PROCESS_open_fds] = collect.n_fds - 1; /* but for the one that looks */
	return false;
}

static void read_memory(void)
{
	long long pages_virtual, pages_resident;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f)
		return;
	if (fscanf(f, "%lld %lld", &pages_virtual, &pages_resident) == 2) {
		picture.process[PROCESS_virtual_memory] = pages_virtual * sysconf(_SC_PAGESIZE);
		picture.process[PROCESS_resident_memory] = pages_resident * sysconf(_SC_PAGESIZE);
	}
	fclose(f);
}

static usec_t usec_of(struct timeval t)
{
	return (usec_t)t.tv_sec * USEC_PER_SEC + t.tv_usec;
}

static bool read_process(void)
{
	struct rusage used;
	struct rlimit files;

	read_memory();
	if (getrusage(RUSAGE_SELF, &used) == 0)
		picture.process[PROCESS_cpu] = usec_of(used.ru_utime) + usec_of(used.ru_stime);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
		picture.process[PROCESS_max_fds] = (int64_t)files.rlim_cur;
	collect.n_fds = 0;
	collect.fds = opendir("/proc/self/fd");
	return false;
}

/* ---- the round ---- */

static void call_waiting(void)
{
	struct waiting all[WAITERS_MOST];
	int n = collect.n_waiting;

	memcpy(all, collect.waiting, sizeof(all)); /* they may ask for the next round */
	collect.n_waiting = 0;
	for (int i = 0; i < n; i++)
		all[i].done(all[i].arg);
}

static bool finish(void)
{
	int keep = control->setup->conf->set.max_orgs;

	board_end(&picture.orgs, keep);
	board_end(&picture.entries, keep);
	collect.round = false;
	call_waiting();
	return false;
}

static bool (*const steps[])(void) = {add_some, count_orgs, read_process, count_fds, finish};
#define N_STEPS (sizeof(steps) / sizeof(steps[0]))

static void next_slice(struct later *w)
{
	bool more = steps[collect.step]();

	if (!more)
		collect.step = (collect.step + 1) % N_STEPS;
	if (more || collect.step)
		loop_later(control->loop, w);
}

static void answered(struct gather *g)
{
	if (!collect.started) { /* the process ends */
		gather_free(&g);
		return;
	}
	collect.answers = g;
	collect.part = 0;
	collect.at = collect.slot = 0;
	picture.wall = collect_wall();
	board_begin(&picture.orgs, loop_now(control->loop), control->setup->conf->set.metrics_top_orgs);
	board_begin(&picture.entries, loop_now(control->loop), control->setup->conf->set.metrics_top_orgs);
	loop_later(control->loop, &collect.later);
}

static void begin(void)
{
	struct loop *loops[WORKERS_MOST + 1];
	int n = worker_loops(loops);

	collect.round = true;
	gather_start(control->loop, loops, n, ask, answered, NULL);
}

void collect_now(collect_done_fn done, void *arg)
{
	verify_here(control->loop);
	verify(collect.n_waiting < WAITERS_MOST);
	collect.waiting[collect.n_waiting++] = (struct waiting){done, arg};
	if (!collect.round)
		begin();
}

usec_t collect_wall(void)
{
	return collect.wall_at_start + loop_now(control->loop) - collect.clock_at_start;
}

void collect_start(void)
{
	collect.started = true;
	picture.process[PROCESS_start_time] = clock_wall() / USEC_PER_SEC;
	collect.wall_at_start = clock_wall();
	collect.clock_at_start = loop_now(control->loop);
	later_init(&collect.later, next_slice);
}

void collect_stop(void)
{
	collect.started = false;
	later_stop(&collect.later);
	gather_free(&collect.answers);
	if (collect.fds)
		closedir(collect.fds);
	board_free(&picture.orgs);
	board_free(&picture.entries);
	heat_free(&picture.heat);
	hash_each(link, &picture.clusters)
		mem_free(owner_of(link, struct cluster_sums, link));
	hash_free(&picture.clusters);
}
