/* See admin/stats.h. Two generations of totals are enough: what came between them is the average. */
#include "admin/stats.h"

#include <inttypes.h>
#include <stdio.h>

#include "admin/stats_priv.h"
#include "base/mem.h"

void (*stats_said)(const char *line);

static struct {
	struct timer timer;
	bool running;
	usec_t taken_at;         /* of `last` */
	struct totals *last;     /* owns: by name */
	int n_last;
	struct totals *averages; /* owns: as many, in the same order */
	struct totals last_all, average_all;
} stats;

static const struct totals *find(const struct totals *in, int n, const struct tally *entry)
{
	for (int i = 0; i < n; i++)
		if (in[i].entry == entry)
			return &in[i];
	return NULL;
}

const struct totals *stats_average(const struct tally *entry)
{
	return find(stats.averages, stats.averages ? stats.n_last : 0, entry);
}

const struct totals *stats_average_all(void)
{
	return &stats.average_all;
}

static void say(const struct totals *a)
{
	char line[400];

	snprintf(line, sizeof(line),
		 "stats: %" PRIu64 " xacts/s, %" PRIu64 " queries/s, %" PRIu64 " client parses/s, %" PRIu64 " server parses/s, %" PRIu64 " binds/s, %" PRIu64
		 " client logins/s, in %" PRIu64 " B/s, out %" PRIu64 " B/s, xact %" PRIu64 " us, query %" PRIu64 " us, wait %" PRIu64 " us",
		 a->n[TOTAL_xacts], a->n[TOTAL_queries], a->n[TOTAL_client_parses], a->n[TOTAL_server_parses], a->n[TOTAL_binds], a->n[TOTAL_client_logins],
		 a->n[TOTAL_received], a->n[TOTAL_sent], a->n[TOTAL_xact_us], a->n[TOTAL_query_us], a->n[TOTAL_wait_us]);
	if (control->setup->conf->set.log_stats)
		log_log("%s", line);
	if (stats_said)
		stats_said(line);
}

static void generation_free(void)
{
	mem_free(stats.last);
	mem_free(stats.averages);
	stats.last = stats.averages = NULL;
	stats.n_last = 0;
}

/* Both lists are in order of names, so each search begins where the last one ended. */
static void averages_of(const struct totals *now, int n, usec_t passed, struct totals *out)
{
	static const struct totals nothing;
	int at = 0;

	for (int i = 0; i < n; i++) {
		const struct totals *before = &nothing;
		while (at < stats.n_last && strcmp(stats.last[at].entry->name, now[i].entry->name) < 0)
			at++;
		if (at < stats.n_last && stats.last[at].entry == now[i].entry)
			before = &stats.last[at];
		stats_compute(before, &now[i], passed, &out[i]);
	}
}

static void next_timer(void)
{
	timer_in(&stats.timer, control->setup->conf->set.stats_period);
}

static void gathered(struct gather *g)
{
	struct totals *now, all = {0};
	int n = 0;

	if (!stats.running) { /* the process ends */
		gather_free(&g);
		return;
	}
	n = totals_merge(g, &now);
	gather_free(&g);
	usec_t at = loop_now(control->loop);
	struct totals *averages = mem_new((size_t)(n ? n : 1) * sizeof(*averages));
	averages_of(now, n, at - stats.taken_at, averages);
	for (int i = 0; i < n; i++)
		totals_add(&all, &now[i]);
	stats_compute(&stats.last_all, &all, at - stats.taken_at, &stats.average_all);
	generation_free();
	stats.last = now;
	stats.n_last = n;
	stats.averages = averages;
	stats.last_all = all;
	stats.taken_at = at;
	say(&stats.average_all);
	next_timer();
}

static void ask(struct part *p)
{
	totals_ask(worker_of(p->loop), &p->rows);
	part_done(p);
}

static void period_over(struct timer *t)
{
	struct loop *loops[WORKERS_MOST + 1];
	int n = worker_loops(loops);

	(void)t;
	gather_start(control->loop, loops, n, ask, gathered, NULL);
}

void stats_start(void)
{
	timer_init(&stats.timer, control->loop, period_over);
	stats.taken_at = loop_now(control->loop);
	stats.running = true;
	next_timer();
}

void stats_stop(void)
{
	timer_stop(&stats.timer);
	stats.running = false;
	generation_free();
}
