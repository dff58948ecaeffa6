/* See admin/board_priv.h. */
#include "admin/board_priv.h"

#include <stdlib.h>

#include "base/mem.h"

#define FADE_HALF (300.0 * USEC_PER_SEC) /* what was before so long a time counts half */
#define QUERY_WEIGHT 0.001               /* a query counts as so many seconds of a slot, or many small ones would be nothing */
#define RANK_EVERY (60 * USEC_PER_SEC)   /* series that come and go are of no use */
#define STAYS 1.5                        /* who would take a name must be clearly busier than who has it */

static bool line_same(const struct hash_link *link, const void *name)
{
	return strcmp(owner_of(link, struct board_line, link)->name, name) == 0;
}

static bool may_be_named(const struct board_line *l)
{
	return strcmp(l->name, BOARD_REST) != 0;
}

static void name_line(struct board *b, struct board_line *l, bool named)
{
	if (l->named == named)
		return;
	l->named = named;
	b->n_named += named ? 1 : -1;
	if (named && !l->told)
		l->told = mem_make(struct sums);
}

static struct board_line *line_of(struct board *b, const char *name)
{
	uint64_t hash = hash_bytes(name, strlen(name));
	struct hash_link *link = hash_find(&b->lines, hash, line_same, name);

	if (link)
		return owner_of(link, struct board_line, link);
	struct board_line *l = mem_make(struct board_line);
	l->name = mem_str(name);
	if (b->n_named < b->most_named && may_be_named(l))
		name_line(b, l, true);
	hash_add(&b->lines, &l->link, hash);
	return l;
}

static void line_free(struct board_line *l)
{
	mem_free(l->told);
	mem_free(l->name);
	mem_free(l);
}

/* ---- a round ---- */

void board_begin(struct board *b, usec_t now, int most_named)
{
	double fade = b->now ? FADE_HALF / (FADE_HALF + (double)(now - b->now)) : 1;

	b->now = now;
	b->most_named = most_named;
	hash_each(link, &b->lines) {
		struct board_line *l = owner_of(link, struct board_line, link);
		l->busy *= fade;
		l->now[NOW_maxwait] = l->now[NOW_pool_use] = 0; /* whoever has any says so in each round */
	}
}

static void raise_to(int64_t *most, int64_t n)
{
	if (*most < n)
		*most = n;
}

static struct sums *series_of(struct board *b, struct board_line *l)
{
	return l->named ? l->told : &b->rest;
}

void board_add(struct board *b, const char *name, const struct usage *u)
{
	struct board_line *l = line_of(b, name);
	struct sums *to = series_of(b, l);

	l->now[NOW_clients] += u->clients;
	l->now[NOW_servers_active] += u->active;
	l->now[NOW_servers_idle] += u->idle;
	l->now[NOW_servers] += u->servers;
	l->now[NOW_waiting] += u->waiting;
	raise_to(&l->now[NOW_maxwait], u->maxwait);
	raise_to(&l->now[NOW_pool_use], u->pool_use);
	l->busy += (double)u->n[TOTAL_slot_us] / USEC_PER_SEC + (double)u->n[TOTAL_queries] * QUERY_WEIGHT;
	for (int i = 0; i < TOTALS; i++)
		to->n[i] += u->n[i];
	for (int i = 0; i < HIST_SLOTS; i++)
		to->waits[i] += u->waits[i];
}

void board_count(struct board *b, const char *name, enum org_count which, uint64_t n)
{
	series_of(b, line_of(b, name))->of_org[which] += n;
}

/* ---- who is named ---- */

static double rank_of(const struct board_line *l)
{
	return l->named ? l->busy * STAYS : l->busy;
}

static int busiest_first(const void *a, const void *b)
{
	const struct board_line *x = *(struct board_line *const *)a, *y = *(struct board_line *const *)b;

	if (rank_of(x) != rank_of(y))
		return rank_of(x) < rank_of(y) ? 1 : -1;
	return strcmp(x->name, y->name);
}

static struct board_line **all_lines(const struct board *b)
{
	struct board_line **all = mem_new(b->lines.count * sizeof(*all));
	size_t n = 0;

	hash_each(link, &b->lines)
		all[n++] = owner_of(link, struct board_line, link);
	return all;
}

static void rank(struct board *b)
{
	struct board_line **all = all_lines(b);
	int most = b->most_named;

	qsort(all, b->lines.count, sizeof(*all), busiest_first);
	for (size_t i = 0; i < b->lines.count; i++) {
		bool named = most > 0 && may_be_named(all[i]);
		name_line(b, all[i], named);
		most -= named;
	}
	mem_free(all);
}

/* ---- lines that are forgotten ---- */

static bool is_quiet(const struct board_line *l)
{
	for (int i = 0; i < NOWS; i++)
		if (l->now[i])
			return false;
	return !l->named;
}

/* Some more than need be, so that it is not done for each line that comes. */
static void trim(struct board *b, size_t keep)
{
	struct board_line **all = all_lines(b);
	size_t n = b->lines.count, least = keep - keep / 10;

	qsort(all, n, sizeof(*all), busiest_first);
	for (size_t i = n; i-- > 0 && b->lines.count > least;) {
		if (!is_quiet(all[i]))
			continue;
		hash_take(&b->lines, &all[i]->link);
		line_free(all[i]);
	}
	mem_free(all);
}

void board_end(struct board *b, int keep)
{
	if (b->n_named > b->most_named || b->now - b->ranked_at >= RANK_EVERY) {
		rank(b);
		b->ranked_at = b->now;
	}
	if (b->lines.count > (size_t)keep)
		trim(b, (size_t)keep);
}

void board_free(struct board *b)
{
	hash_each(link, &b->lines)
		line_free(owner_of(link, struct board_line, link));
	hash_free(&b->lines);
	*b = (struct board){0};
}

/* ---- the copy ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct sheet_line *)a)->name, ((const struct sheet_line *)b)->name);
}

static void add_to_rest(int64_t rest[NOWS], const int64_t now[NOWS])
{
	for (int i = 0; i < NOWS; i++) {
		if (i == NOW_maxwait || i == NOW_pool_use)
			raise_to(&rest[i], now[i]);
		else
			rest[i] += now[i];
	}
}

void board_sheet(const struct board *b, struct sheet *out)
{
	struct sheet_line rest = {.name = mem_str(BOARD_REST), .sums = b->rest};

	*out = (struct sheet){.lines = mem_new((size_t)(b->n_named + 1) * sizeof(*out->lines))};
	hash_each(link, &b->lines) {
		const struct board_line *l = owner_of(link, struct board_line, link);
		if (!l->named) {
			add_to_rest(rest.now, l->now);
			continue;
		}
		struct sheet_line *to = &out->lines[out->n++];
		to->name = mem_str(l->name);
		memcpy(to->now, l->now, sizeof(to->now));
		to->sums = *l->told;
	}
	qsort(out->lines, (size_t)out->n, sizeof(*out->lines), by_name);
	out->lines[out->n++] = rest;
}

void sheet_free(struct sheet *s)
{
	for (int i = 0; i < s->n; i++)
		mem_free(s->lines[i].name);
	mem_free(s->lines);
	*s = (struct sheet){0};
}
