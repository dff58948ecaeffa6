/* See tenant/heat.h. */
#include "tenant/heat_priv.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/verify.h"

#define MINUTE (60 * USEC_PER_SEC)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

const usec_t heat_bucket[HEAT_RINGS] = {10 * USEC_PER_SEC, 30 * MINUTE, 12 * HOUR};

static const struct window {
	const char *name;
	int ring;
	int buckets;
} windows[HEAT_WINDOWS] = {
	[HEAT_1M] = {"1m", HEAT_RING_10S, 6},
	[HEAT_5M] = {"5m", HEAT_RING_10S, 30},
	[HEAT_24H] = {"24h", HEAT_RING_30M, 48},
	[HEAT_30D] = {"30d", HEAT_RING_12H, 60},
};

const char *heat_measure_name(enum heat_measure m)
{
	static const char *const names[] = {"queries", "slots", "storage"};
	return names[m];
}

const char *heat_severity_name(enum heat_severity s)
{
	static const char *const names[] = {"OK", "WARN", "CRITICAL"};
	return names[s];
}

const char *heat_window_name(enum heat_window w)
{
	return windows[w].name;
}

bool heat_window_find(const char *name, enum heat_window *out)
{
	for (int w = 0; w < HEAT_WINDOWS; w++)
		if (strcasecmp(windows[w].name, name) == 0) {
			*out = (enum heat_window)w;
			return true;
		}
	return false;
}

/* ---- orgs ---- */

static bool same_id(const struct hash_link *link, const void *id)
{
	return strcmp(owner_of(link, struct heat_org, link)->id, id) == 0;
}

struct heat_org *heat_find(const struct heat *h, const char *id)
{
	struct hash_link *link = hash_find(&h->by_id, hash_bytes(id, strlen(id)), same_id, id);

	return link ? owner_of(link, struct heat_org, link) : NULL;
}

struct heat_org *heat_make(struct heat *h, const char *id)
{
	struct heat_org *o = heat_find(h, id);

	if (o)
		return o;
	o = mem_make(struct heat_org);
	verify(strlen(id) < sizeof(o->id));
	strcpy(o->id, id);
	o->storage = -1;
	if (h->n == h->room) {
		h->room = h->room ? h->room * 2 : 64;
		h->all = mem_grow(h->all, h->room * sizeof(*h->all));
	}
	o->place = (int)h->n;
	h->all[h->n++] = o;
	hash_add(&h->by_id, &o->link, hash_bytes(id, strlen(id)));
	return o;
}

static void org_free(struct heat *h, struct heat_org *o)
{
	struct heat_org *last = h->all[--h->n];

	h->all[o->place] = last;
	last->place = o->place;
	hash_take(&h->by_id, &o->link);
	for (struct heat_store *s = o->stores, *next; s; s = next) {
		next = s->next;
		mem_free(s);
	}
	mem_free(o->rings);
	mem_free(o);
}

static void values_free(struct heat *h)
{
	for (int w = 0; w < HEAT_WINDOWS; w++)
		for (int m = 0; m < HEAT_MEASURES; m++) {
			mem_free(h->values[w][m]);
			h->values[w][m] = NULL;
		}
}

void heat_free(struct heat *h)
{
	while (h->n)
		org_free(h, h->all[h->n - 1]);
	hash_free(&h->by_id);
	mem_free(h->all);
	values_free(h);
	for (int i = 0; i < h->n_clusters; i++)
		mem_free(h->clusters[i]);
	mem_free(h->clusters);
	mem_free(h->reports);
	*h = (struct heat){0};
}

/* ---- rings ---- */

static float *past_of(struct heat_ring *r, int64_t number)
{
	return r->past[number % HEAT_BUCKETS];
}

/* Time goes on to another bucket; those that are passed over were empty. */
static void ring_advance(struct heat_ring *r, int64_t number)
{
	if (number <= r->at)
		return;
	for (int m = 0; m < HEAT_STORAGE; m++) {
		past_of(r, r->at)[m] = (float)r->now[m];
		r->now[m] = 0;
	}
	int64_t first = number - r->at > HEAT_BUCKETS ? number - HEAT_BUCKETS : r->at + 1;
	for (int64_t i = first; i < number; i++)
		memset(past_of(r, i), 0, sizeof(r->past[0]));
	r->at = number;
}

void heat_ring_add(struct heat_org *o, int ring, int64_t number, double queries, double slot_seconds)
{
	if (!o->rings)
		o->rings = mem_new(HEAT_RINGS * sizeof(*o->rings));
	struct heat_ring *r = &o->rings[ring];
	ring_advance(r, number);
	r->now[HEAT_QUERIES] += queries;
	r->now[HEAT_SLOTS] += slot_seconds;
}

/* The sum over the bucket of that number and the n before it. */
static double ring_sum(struct heat_ring *r, int64_t number, int n, enum heat_measure m)
{
	double sum = 0;

	if (number < r->at)
		number = r->at; /* time does not go back */
	if (number - n <= r->at)
		sum = r->now[m];
	for (int64_t i = number - n; i < r->at; i++)
		if (i >= 0 && i > r->at - HEAT_BUCKETS)
			sum += past_of(r, i)[m];
	return sum;
}

void heat_note(struct heat *h, const char *id, usec_t now, uint64_t queries, usec_t slot_time)
{
	struct heat_org *o;

	if (!h->began || h->began > now)
		h->began = now;
	if (!queries && slot_time <= 0)
		return;
	o = heat_make(h, id);
	o->active_at = now;
	for (int i = 0; i < HEAT_RINGS; i++)
		heat_ring_add(o, i, now / heat_bucket[i], (double)queries, (double)slot_time / USEC_PER_SEC);
}

/* ---- measuring ---- */

/* What a window covers: whole buckets and the one at hand; of a young process less. */
static usec_t window_span(const struct heat *h, const struct window *w, usec_t now)
{
	usec_t bucket = heat_bucket[w->ring];
	usec_t span = w->buckets * bucket + now % bucket;
	usec_t age = now - h->began;

	if (age < span)
		span = age;
	return span < MINUTE ? MINUTE : span;
}

static double sum_of(struct heat_org *o, const struct window *w, usec_t now, enum heat_measure m)
{
	return o->rings ? ring_sum(&o->rings[w->ring], now / heat_bucket[w->ring], w->buckets, m) : 0;
}

static double stored(const struct heat_org *o)
{
	double bytes = -1;

	for (const struct heat_store *s = o->stores; s; s = s->next)
		bytes = (bytes < 0 ? 0 : bytes) + s->bytes;
	return bytes;
}

static void add_value(struct heat *h, int w, int m, double v)
{
	h->values[w][m][h->n_values[w][m]++] = v;
}

static void measure(struct heat *h, struct heat_org *o, usec_t now)
{
	o->storage = stored(o);
	for (int w = 0; w < HEAT_WINDOWS; w++) {
		double seconds = (double)window_span(h, &windows[w], now) / USEC_PER_SEC;
		o->rate[w][HEAT_QUERIES] = sum_of(o, &windows[w], now, HEAT_QUERIES) * 60 / seconds;
		o->rate[w][HEAT_SLOTS] = sum_of(o, &windows[w], now, HEAT_SLOTS) / seconds;
		if (!heat_is_active(o, (enum heat_window)w))
			continue;
		add_value(h, w, HEAT_QUERIES, o->rate[w][HEAT_QUERIES]);
		add_value(h, w, HEAT_SLOTS, o->rate[w][HEAT_SLOTS]);
		if (o->storage >= 0)
			add_value(h, w, HEAT_STORAGE, o->storage);
	}
}

void heat_judge_begin(struct heat *h, const double floors[HEAT_MEASURES])
{
	values_free(h);
	for (int w = 0; w < HEAT_WINDOWS; w++)
		for (int m = 0; m < HEAT_MEASURES; m++) {
			h->values[w][m] = mem_new((h->n + 1) * sizeof(double));
			h->n_values[w][m] = 0;
		}
	memcpy(h->floors, floors, sizeof(h->floors));
	h->n_judged = h->n;
	h->at = 0;
}

bool heat_measure_some(struct heat *h, usec_t now, size_t most)
{
	for (; most && h->at < h->n_judged; most--, h->at++)
		measure(h, h->all[h->at], now);
	return h->at < h->n_judged;
}

/* ---- the median ---- */

static void swap(double *a, double *b)
{
	double t = *a;
	*a = *b;
	*b = t;
}

/* The k-th of n, in the order of their size: Hoare's FIND (CACM 4, 1961), which takes time in proportion to n. */
static double select_kth(double *v, long n, long k)
{
	long from = 0, to = n - 1;

	while (from < to) {
		double pivot = v[k];
		long i = from, j = to;
		do {
			while (v[i] < pivot)
				i++;
			while (pivot < v[j])
				j--;
			if (i <= j)
				swap(&v[i++], &v[j--]);
		} while (i <= j);
		if (j < k)
			from = i;
		if (k < i)
			to = j;
	}
	return v[k];
}

void heat_weigh(struct heat *h)
{
	for (int w = 0; w < HEAT_WINDOWS; w++)
		for (int m = 0; m < HEAT_MEASURES; m++) {
			long n = (long)h->n_values[w][m];
			h->p50[w][m] = n ? select_kth(h->values[w][m], n, (n - 1) / 2) : 0;
		}
	values_free(h);
	h->at = 0;
}

/* ---- severities and verdicts ---- */

#define WARN_ABOVE 3.0
#define CRITICAL_ABOVE 10.0
#define DOWN_BELOW(threshold) ((threshold) * 8 / 10)
#define RATIO_MOST 1e9 /* without a divisor */

enum heat_severity heat_next(enum heat_severity before, double ratio)
{
	if (ratio > CRITICAL_ABOVE || (before == HEAT_CRITICAL && ratio >= DOWN_BELOW(CRITICAL_ABOVE)))
		return HEAT_CRITICAL;
	if (ratio > WARN_ABOVE || (before >= HEAT_WARN && ratio >= DOWN_BELOW(WARN_ABOVE)))
		return HEAT_WARN;
	return HEAT_OK;
}

bool heat_is_active(const struct heat_org *o, enum heat_window w)
{
	return o->rate[w][HEAT_QUERIES] > 0 || o->rate[w][HEAT_SLOTS] > 0;
}

double heat_value(const struct heat_org *o, enum heat_window w, enum heat_measure m)
{
	return m == HEAT_STORAGE ? o->storage : o->rate[w][m];
}

double heat_ratio(const struct heat *h, const struct heat_org *o, enum heat_window w, enum heat_measure m)
{
	double value = heat_value(o, w, m), divisor = h->p50[w][m] > h->floors[m] ? h->p50[w][m] : h->floors[m];

	if (value <= 0)
		return 0;
	return divisor > 0 && value / divisor < RATIO_MOST ? value / divisor : RATIO_MOST;
}

static bool is_hot(const struct heat_org *o)
{
	int n = 0;

	for (int m = 0; m < HEAT_MEASURES; m++)
		n += o->severity[HEAT_1M][m] >= HEAT_WARN;
	return n >= 2;
}

bool heat_decide_some(struct heat *h, usec_t now, size_t most, void (*changed)(const struct heat *h, const struct heat_org *o))
{
	for (; most && h->at < h->n_judged; most--, h->at++) {
		struct heat_org *o = h->all[h->at];
		for (int w = 0; w < HEAT_WINDOWS; w++)
			for (int m = 0; m < HEAT_MEASURES; m++)
				o->severity[w][m] = heat_next(o->severity[w][m], heat_ratio(h, o, (enum heat_window)w, (enum heat_measure)m));
		bool hot = is_hot(o);
		if (hot == o->hot && o->since)
			continue;
		bool was_hot = o->hot;
		o->hot = hot;
		o->since = now;
		if (hot != was_hot)
			changed(h, o);
	}
	return h->at < h->n_judged;
}

/* ---- storage ---- */

int heat_report_begin(struct heat *h, const char *cluster)
{
	int i = 0;

	while (i < h->n_clusters && strcmp(h->clusters[i], cluster) != 0)
		i++;
	if (i == h->n_clusters) {
		h->clusters = mem_grow(h->clusters, (size_t)(i + 1) * sizeof(*h->clusters));
		h->reports = mem_grow(h->reports, (size_t)(i + 1) * sizeof(*h->reports));
		h->clusters[i] = mem_str(cluster);
		h->reports[i] = 0;
		h->n_clusters++;
	}
	h->reports[i]++;
	return i;
}

void heat_report(struct heat *h, int report, const char *id, double bytes)
{
	struct heat_org *o = heat_make(h, id);
	struct heat_store *s = o->stores;

	while (s && s->cluster != report)
		s = s->next;
	if (!s) {
		s = mem_make(struct heat_store);
		s->cluster = report;
		s->next = o->stores;
		o->stores = s;
	}
	if (s->report != h->reports[report])
		s->bytes = 0;
	s->report = h->reports[report];
	s->bytes += bytes;
}

void heat_report_end(struct heat *h, int report)
{
	for (size_t i = 0; i < h->n; i++)
		for (struct heat_store **at = &h->all[i]->stores; *at;) {
			struct heat_store *s = *at;
			if (s->cluster == report && s->report != h->reports[report]) {
				*at = s->next;
				mem_free(s);
			} else {
				at = &s->next;
			}
		}
}

/* ---- forgetting ---- */

static int quiet_first(const void *a, const void *b)
{
	const struct heat_org *x = *(struct heat_org *const *)a, *y = *(struct heat_org *const *)b;

	return (x->active_at > y->active_at) - (x->active_at < y->active_at);
}

void heat_forget(struct heat *h, usec_t now, int most)
{
	usec_t longest = windows[HEAT_30D].buckets * heat_bucket[HEAT_RING_12H];

	for (size_t i = h->n; i-- > 0;) {
		struct heat_org *o = h->all[i];
		if (now - o->active_at <= longest + heat_bucket[HEAT_RING_12H])
			continue;
		mem_free(o->rings);
		o->rings = NULL;
		if (!o->stores && !o->hot)
			org_free(h, o);
	}
	if (h->n <= (size_t)most)
		return;
	qsort(h->all, h->n, sizeof(*h->all), quiet_first);
	for (size_t i = 0; i < h->n; i++)
		h->all[i]->place = (int)i;
	/* A tenth more, so that it is not done for each org that comes. */
	size_t keep = (size_t)most - (size_t)most / 10, drop = h->n - keep;
	struct heat_org **gone = mem_new(drop * sizeof(*gone));
	memcpy(gone, h->all, drop * sizeof(*gone));
	for (size_t i = 0; i < drop; i++)
		org_free(h, gone[i]);
	mem_free(gone);
}
