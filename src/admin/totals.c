/* See admin/totals_priv.h. */
#include "admin/totals_priv.h"

#include <stdlib.h>

#include "admin/console_priv.h"
#include "base/mem.h"
#include "proxy/worker.h"

static struct tally console_entry = {.name = (char *)CONSOLE_DATABASE}; /* in no book: nobody can log in to a pool of it */
static struct pool_counts console_counts;

void totals_count_command(void)
{
	count_add(&console_counts.queries, 1);
	count_add(&console_counts.xacts, 1);
}

static void put(struct buf *out, const struct tally *entry, const struct pool_counts *counts)
{
	struct totals t = {.entry = entry};

#define X(name, unit, help) t.n[TOTAL_##name] = count_read(&counts->name);
	POOL_COUNTERS(X)
#undef X
	buf_add(out, &t, sizeof(t));
}

static void ask_lane(struct lane *l, struct buf *out)
{
	hash_each(link, &l->pools) {
		struct pool *p = owner_of(link, struct pool, link);
		put(out, p->target->entry, &p->counts);
	}
	hash_each(link, &l->remainders) {
		struct remainder *r = owner_of(link, struct remainder, link);
		put(out, r->entry, &r->counts);
	}
}

void totals_ask(struct worker *w, struct buf *out)
{
	hash_each(link, &w->lanes)
		ask_lane(owner_of(link, struct lane, link), out);
	if (w->id < 0)
		put(out, &console_entry, &console_counts);
}

void totals_add(struct totals *to, const struct totals *more)
{
	for (int i = 0; i < TOTALS; i++)
		to->n[i] += more->n[i];
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct totals *)a)->entry->name, ((const struct totals *)b)->entry->name);
}

int totals_merge(const struct gather *g, struct totals **out)
{
	size_t size = 0;
	int n = 0, merged = 0;

	for (int i = 0; i < g->n_parts; i++)
		size += g->parts[i].rows.len;
	struct totals *all = mem_new(size ? size : sizeof(*all));
	for (int i = 0; i < g->n_parts; i++) {
		const struct buf *rows = &g->parts[i].rows;
		if (rows->len)
			memcpy(all + n, rows->p, rows->len);
		n += (int)(rows->len / sizeof(*all));
	}
	qsort(all, (size_t)n, sizeof(*all), by_name);
	for (int i = 0; i < n; i++) {
		if (merged && all[merged - 1].entry == all[i].entry)
			totals_add(&all[merged - 1], &all[i]);
		else
			all[merged++] = all[i];
	}
	*out = all;
	return merged;
}
