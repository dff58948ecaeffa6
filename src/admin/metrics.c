/* See admin/metrics_priv.h. A page is a list of sections, a section some families (a figure each), a family a line per item: the order that the
 * format asks for. The three counters of where it stands make it easy to stop anywhere and go on in the next turn. */
#include <inttypes.h>
#include <stdlib.h>

#include "admin/collect.h"
#include "admin/metrics_priv.h"
#include "base/clock.h"
#include "base/figure.h"
#include "base/mem.h"
#include "cluster/council.h"
#include "config.h"

#define LINES_AT_ONCE 512
#define FRESH USEC_PER_SEC

struct figure {
	const char *name;
	enum figure_kind kind;
	enum figure_unit unit;
	const char *help;
};
#define ROW(name, kind, unit, help) {#name, FIGURE_##kind, FIGURE_##unit, help},

static const struct figure now_figures[] = {
#define NOW_FIGURE ROW
#include "admin/figures.def"
};
static const struct figure org_figures[] = {
#define ORG_FIGURE ROW
#include "admin/figures.def"
};
static const struct figure hot_rows[] = {
#define HOT_FIGURE ROW
#include "admin/figures.def"
};
static const struct figure heat_rows[] = {
#define HEAT_FIGURE ROW
#include "admin/figures.def"
};
static const struct figure worker_rows[] = {
#define WORKER_FIGURE ROW
#include "admin/figures.def"
};
static const struct figure cluster_rows[] = {
#define CLUSTER_FIGURE ROW
#include "admin/figures.def"
};
static const struct figure process_rows[] = {
#define PROCESS_FIGURE ROW
#include "admin/figures.def"
};
static const struct figure own_rows[] = {
#define OWN_FIGURE ROW
#include "admin/figures.def"
};
static const struct figure total_rows[] = {
#define X(name, unit, help) ROW(name, COUNTER, unit, help)
	POOL_COUNTERS(X)
#undef X
};
static const struct figure wait_rows[] = {{"wait", FIGURE_GAUGE, FIGURE_USEC, "How long clients waited for a server, at each assignment."}};
static const struct figure build_rows[] = {{"build_info", FIGURE_GAUGE, FIGURE_COUNT, "The version, as a label."}};
enum own {
#define OWN_FIGURE(name, kind, unit, help) OWN_##name,
#include "admin/figures.def"
	OWNS,
};

enum heat_figure {
#define HEAT_FIGURE(name, kind, unit, help) HEAT_FIGURE_##name,
#include "admin/figures.def"
	HEAT_FIGURES,
};

/* Verdict and measures of one line of the orgs; of the rest the worst. */
struct draft_heat {
	bool hot;
	int64_t n[HEAT_MEASURES][HEAT_FIGURES];
};

/* What a page is made from: a copy, since rounds go on while it is written. */
struct draft {
	struct page *page; /* ref */
	struct sheet orgs, entries;
	struct draft_heat *heat; /* owns: by line of orgs */
	struct draft_cluster {
		char *name; /* owns */
		int64_t n[CLUSTER_FIGURES];
	} *clusters; /* owns */
	int n_clusters;
	int64_t workers[WORKERS_MOST + 1][WORKER_FIGURES];
	int64_t process[PROCESS_FIGURES];
	int64_t own[OWNS];
	size_t section;
	int family, item;
};

/* ---- the sections ---- */

static int one(const struct draft *d)
{
	(void)d;
	return 1;
}

static int n_of_workers(const struct draft *d)
{
	(void)d;
	return n_workers + 1;
}

static int n_of_clusters(const struct draft *d)
{
	return d->n_clusters;
}

static int n_of_orgs(const struct draft *d)
{
	return d->orgs.n;
}

static int n_of_entries(const struct draft *d)
{
	return d->entries.n;
}

static const char *worker_label(const struct draft *d, int item)
{
	(void)d;
	return item < n_workers ? workers[item]->loop->name : control->loop->name;
}

static const char *cluster_label(const struct draft *d, int item)
{
	return d->clusters[item].name;
}

static const char *org_label(const struct draft *d, int item)
{
	return d->orgs.lines[item].name;
}

static int n_of_heats(const struct draft *d)
{
	return d->orgs.n * HEAT_MEASURES;
}

static const char *heat_label(const struct draft *d, int item)
{
	return org_label(d, item / HEAT_MEASURES);
}

static const char *measure_label(int item)
{
	return heat_measure_name((enum heat_measure)(item % HEAT_MEASURES));
}

static const char *entry_label(const struct draft *d, int item)
{
	return d->entries.lines[item].name;
}

static const char *version_label(const struct draft *d, int item)
{
	(void)d;
	(void)item;
	return PACKAGE_VERSION;
}

static int64_t build_value(const struct draft *d, int item, int family)
{
	(void)d;
	(void)item;
	(void)family;
	return 1;
}

static int64_t own_value(const struct draft *d, int item, int family)
{
	(void)item;
	return d->own[family];
}

static int64_t process_value(const struct draft *d, int item, int family)
{
	(void)item;
	return d->process[family];
}

static int64_t worker_value(const struct draft *d, int item, int family)
{
	return d->workers[item][family];
}

static int64_t cluster_value(const struct draft *d, int item, int family)
{
	return d->clusters[item].n[family];
}

static int64_t org_now(const struct draft *d, int item, int family)
{
	return d->orgs.lines[item].now[family];
}

static int64_t org_total(const struct draft *d, int item, int family)
{
	return (int64_t)d->orgs.lines[item].sums.n[family];
}

static int64_t org_event(const struct draft *d, int item, int family)
{
	return (int64_t)d->orgs.lines[item].sums.of_org[family];
}

static int64_t hot_value(const struct draft *d, int item, int family)
{
	(void)family;
	return d->heat[item].hot;
}

static int64_t heat_value_of(const struct draft *d, int item, int family)
{
	return d->heat[item / HEAT_MEASURES].n[item % HEAT_MEASURES][family];
}

static int64_t entry_now(const struct draft *d, int item, int family)
{
	return d->entries.lines[item].now[family];
}

static int64_t entry_total(const struct draft *d, int item, int family)
{
	return (int64_t)d->entries.lines[item].sums.n[family];
}

static const struct sums *org_sums(const struct draft *d, int item)
{
	return &d->orgs.lines[item].sums;
}

static const struct sums *entry_sums(const struct draft *d, int item)
{
	return &d->entries.lines[item].sums;
}

static const struct section {
	const char *scope;
	const struct figure *rows;
	int n_rows;
	int (*items)(const struct draft *d);
	const char *label_name; /* NULL: no label, one item */
	const char *(*label)(const struct draft *d, int item);
	int64_t (*value)(const struct draft *d, int item, int family);
	const struct sums *(*sums)(const struct draft *d, int item); /* a histogram, of these waits; NULL: a plain value */
	const char *(*measure)(int item); /* of a second label, "measure"; NULL: there is none */
} sections[] = {
#define ROWS(array) array, (int)(sizeof(array) / sizeof((array)[0]))
	{"pgweir", ROWS(build_rows), one, "version", version_label, build_value, NULL, NULL},
	{"pgweir", ROWS(own_rows), one, NULL, NULL, own_value, NULL, NULL},
	{"process", ROWS(process_rows), one, NULL, NULL, process_value, NULL, NULL},
	{"pgweir_worker", ROWS(worker_rows), n_of_workers, "worker", worker_label, worker_value, NULL, NULL},
	{"pgweir_cluster", ROWS(cluster_rows), n_of_clusters, "cluster", cluster_label, cluster_value, NULL, NULL},
	{"pgweir_database", ROWS(now_figures), n_of_entries, "database", entry_label, entry_now, NULL, NULL},
	{"pgweir_database", ROWS(total_rows), n_of_entries, "database", entry_label, entry_total, NULL, NULL},
	{"pgweir_database", ROWS(wait_rows), n_of_entries, "database", entry_label, NULL, entry_sums, NULL},
	{"pgweir_org", ROWS(now_figures), n_of_orgs, "org", org_label, org_now, NULL, NULL},
	{"pgweir_org", ROWS(org_figures), n_of_orgs, "org", org_label, org_event, NULL, NULL},
	{"pgweir_org", ROWS(hot_rows), n_of_orgs, "org", org_label, hot_value, NULL, NULL},
	{"pgweir_org", ROWS(heat_rows), n_of_heats, "org", heat_label, heat_value_of, NULL, measure_label},
	{"pgweir_org", ROWS(total_rows), n_of_orgs, "org", org_label, org_total, NULL, NULL},
	{"pgweir_org", ROWS(wait_rows), n_of_orgs, "org", org_label, NULL, org_sums, NULL},
};
#define N_SECTIONS (sizeof(sections) / sizeof(sections[0]))

/* ---- lines ---- */

static void put_head(struct buf *out, const struct section *s, const struct figure *f)
{
	struct buf name = {0};

	metric_name(&name, s->scope, f->name, f->kind, f->unit);
	buf_add_fmt(out, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)name.len, (const char *)name.p, f->help, (int)name.len, (const char *)name.p,
		    s->sums ? "histogram" : f->kind == FIGURE_COUNTER ? "counter" : "gauge");
	buf_free(&name);
}

static void put_label(struct buf *out, const char *name, const char *value)
{
	buf_add_fmt(out, "%s=", name);
	metric_label(out, value);
}

static void put_value(struct buf *out, const struct draft *d, const struct section *s, const struct figure *f, int item)
{
	metric_name(out, s->scope, f->name, f->kind, f->unit);
	if (s->label_name) {
		buf_add_u8(out, '{');
		put_label(out, s->label_name, s->label(d, item));
		if (s->measure)
			buf_add_fmt(out, ",measure=\"%s\"", s->measure(item));
		buf_add_u8(out, '}');
	}
	buf_add_u8(out, ' ');
	metric_value(out, s->value(d, item, (int)(f - s->rows)), f->unit);
	buf_add_u8(out, '\n');
}

/* Of the 32 slots of a histogram (base/hist.h) every other one, from a quarter of a millisecond to over a minute, is an edge on the page. */
#define EDGE_FIRST 8
#define EDGE_LAST 26

static void put_bucket(struct buf *out, const struct draft *d, const struct section *s, const struct figure *f, int item, int64_t edge, uint64_t count)
{
	metric_name(out, s->scope, f->name, f->kind, f->unit);
	buf_add_str(out, "_bucket{");
	put_label(out, s->label_name, s->label(d, item));
	buf_add_str(out, ",le=\"");
	if (edge)
		metric_value(out, edge, f->unit);
	else
		buf_add_str(out, "+Inf");
	buf_add_fmt(out, "\"} %" PRIu64 "\n", count);
}

static void put_histogram(struct buf *out, const struct draft *d, const struct section *s, const struct figure *f, int item)
{
	const struct sums *sums = s->sums(d, item);
	struct buf label = {0};
	uint64_t below = 0;

	for (int slot = 0; slot < HIST_SLOTS; slot++) {
		below += sums->waits[slot];
		if (slot >= EDGE_FIRST && slot <= EDGE_LAST && slot % 2 == 0)
			put_bucket(out, d, s, f, item, (int64_t)1 << slot, below);
	}
	put_bucket(out, d, s, f, item, 0, below);
	put_label(&label, s->label_name, s->label(d, item));
	metric_name(out, s->scope, f->name, f->kind, f->unit);
	buf_add_fmt(out, "_sum{%.*s} ", (int)label.len, (const char *)label.p);
	metric_value(out, (int64_t)sums->n[TOTAL_wait_us], f->unit);
	buf_add_u8(out, '\n');
	metric_name(out, s->scope, f->name, f->kind, f->unit);
	buf_add_fmt(out, "_count{%.*s} %" PRIu64 "\n", (int)label.len, (const char *)label.p, below);
	buf_free(&label);
}

static void put_item(struct draft *d)
{
	const struct section *s = &sections[d->section];
	const struct figure *f = &s->rows[d->family];
	struct buf *out = &d->page->text;

	if (d->item == 0)
		put_head(out, s, f);
	if (s->sums)
		put_histogram(out, d, s, f, d->item);
	else
		put_value(out, d, s, f, d->item);
}

/* The next item. False: that was the last. */
static bool step(struct draft *d)
{
	const struct section *s = &sections[d->section];

	if (d->item < s->items(d)) {
		put_item(d);
		d->item++;
		return true;
	}
	d->item = 0;
	if (++d->family < s->n_rows)
		return true;
	d->family = 0;
	return ++d->section < N_SECTIONS;
}

/* ---- drafts ---- */

static void copy_continuity(struct cluster *c, int64_t n[CLUSTER_FIGURES])
{
	const struct watch *w = watch_find(c->name);
	word_t word = cluster_word(c);
	usec_t left;

	n[CLUSTER_state] = word_state(word);
	n[CLUSTER_epoch] = (int64_t)word_epoch(word);
	n[CLUSTER_refused_writes] = (int64_t)atomic_load(&c->refused_writes);
	if (!w || !w->council)
		return;
	left = w->agree.lease_until - clock_now();
	n[CLUSTER_lease] = left > 0 ? left : 0;
	n[CLUSTER_queue] = w->queue;
	n[CLUSTER_queue_age] = w->queue_age;
}

static void copy_clusters(struct draft *d)
{
	const struct conf *conf = control->setup->conf;

	d->clusters = mem_new((size_t)conf->n_clusters * sizeof(*d->clusters));
	for (int i = 0; i < conf->n_clusters; i++) {
		const struct conf_cluster *cc = conf->cluster_at[i];
		struct cluster *c = cluster_of(cc->name, cc->max_server_conn);
		struct draft_cluster *to = &d->clusters[d->n_clusters++];
		const struct cluster_sums *sums = cluster_sums_find(c);
		to->name = mem_str(cc->name);
		if (sums)
			memcpy(to->n, sums->n, sizeof(to->n));
		to->n[CLUSTER_max_server_conn] = cc->max_server_conn;
		to->n[CLUSTER_servers] = atomic_load(&c->lent);
		copy_continuity(c, to->n);
	}
}

static int line_by_name(const void *name, const void *line)
{
	return strcmp(name, ((const struct sheet_line *)line)->name);
}

/* The line that an org is on: its own, or the last one, of the rest. */
static size_t line_of(const struct sheet *s, const char *org)
{
	size_t rest = (size_t)s->n - 1;
	const struct sheet_line *found = bsearch(org, s->lines, rest, sizeof(*s->lines), line_by_name);

	return found ? (size_t)(found - s->lines) : rest;
}

static void raise_to(int64_t *most, int64_t n)
{
	if (*most < n)
		*most = n;
}

static void copy_heat(struct draft *d)
{
	const struct heat *h = &picture.heat;

	d->heat = mem_new((size_t)d->orgs.n * sizeof(*d->heat));
	for (size_t i = 0; i < h->n; i++) {
		const struct heat_org *o = h->all[i];
		struct draft_heat *to = &d->heat[line_of(&d->orgs, o->id)];
		to->hot |= o->hot;
		d->own[OWN_hot_orgs] += o->hot;
		for (int m = 0; m < HEAT_MEASURES; m++) {
			raise_to(&to->n[m][HEAT_FIGURE_hot_ratio], (int64_t)(heat_ratio(h, o, HEAT_1M, (enum heat_measure)m) * 1000));
			raise_to(&to->n[m][HEAT_FIGURE_hot_severity], o->severity[HEAT_1M][m]);
		}
	}
}

static void draft_begin(struct draft *d)
{
	*d = (struct draft){.page = mem_make(struct page)};
	d->page->refs = 1;
	board_sheet(&picture.orgs, &d->orgs);
	board_sheet(&picture.entries, &d->entries);
	copy_clusters(d);
	copy_heat(d);
	memcpy(d->workers, picture.workers, sizeof(d->workers));
	memcpy(d->process, picture.process, sizeof(d->process));
	d->own[OWN_ready] = atomic_load(&process_stage) == STAGE_RUNNING;
	d->own[OWN_orgs] = org_count();
}

static void draft_free(struct draft *d)
{
	page_drop(&d->page);
	mem_free(d->heat);
	sheet_free(&d->orgs);
	sheet_free(&d->entries);
	for (int i = 0; i < d->n_clusters; i++)
		mem_free(d->clusters[i].name);
	mem_free(d->clusters);
	*d = (struct draft){0};
}

/* ---- pages ---- */

struct page_waiter {
	page_done_fn done;
	void *arg;
};

static struct {
	bool busy;          /* a page is being made */
	struct draft draft;
	struct later later;
	struct page *fresh; /* ref: the last one; NULL */
	struct page_waiter waiting[METRICS_WAITING_MOST];
	int n_waiting;
} metrics;

struct page *page_ref(struct page *p)
{
	p->refs++;
	return p;
}

void page_drop(struct page **at)
{
	struct page *p = *at;

	*at = NULL;
	if (!p || --p->refs)
		return;
	buf_free(&p->text);
	mem_free(p);
}

/* Nobody who is told asks again before this is through. */
static void tell_waiting(struct page *p)
{
	int n = metrics.n_waiting;

	metrics.busy = false;
	metrics.n_waiting = 0;
	for (int i = 0; i < n; i++)
		metrics.waiting[i].done(metrics.waiting[i].arg, p);
}

static void page_ready(void)
{
	page_drop(&metrics.fresh);
	metrics.fresh = page_ref(metrics.draft.page);
	metrics.fresh->made_at = loop_now(control->loop);
	draft_free(&metrics.draft);
	tell_waiting(metrics.fresh);
}

static void write_some(struct later *w)
{
	for (int i = 0; i < LINES_AT_ONCE; i++) {
		if (step(&metrics.draft))
			continue;
		page_ready();
		return;
	}
	loop_later(control->loop, w);
}

static void collected(void *arg)
{
	(void)arg;
	if (!metrics.busy)
		return;
	draft_begin(&metrics.draft);
	later_init(&metrics.later, write_some);
	loop_later(control->loop, &metrics.later);
}

void metrics_page(page_done_fn done, void *arg)
{
	verify_here(control->loop);
	if (metrics.fresh && loop_now(control->loop) - metrics.fresh->made_at < FRESH) {
		done(arg, metrics.fresh);
		return;
	}
	verify(metrics.n_waiting < METRICS_WAITING_MOST);
	metrics.waiting[metrics.n_waiting++] = (struct page_waiter){done, arg};
	if (metrics.busy)
		return;
	metrics.busy = true;
	collect_now(collected, NULL);
}

int metrics_waiting(void)
{
	return metrics.n_waiting;
}

void metrics_stop(void)
{
	if (metrics.draft.page) {
		later_stop(&metrics.later);
		draft_free(&metrics.draft);
	}
	page_drop(&metrics.fresh);
	tell_waiting(NULL);
}
