/* SHOW HOT_ORGS: the orgs that were active in a window, the hottest first, as of the last verdict. */
#include <stdio.h>
#include <stdlib.h>

#include "admin/hot.h"
#include "admin/show_priv.h"
#include "base/clock.h"
#include "base/mem.h"
#include "proxy/worker.h"
#include "wire/sqlstate.h"

static const struct column hot_columns[] = {
	{"org", COL_TEXT}, {"name", COL_TEXT},
	{"queries_per_min", COL_NUMERIC}, {"queries_p50", COL_NUMERIC}, {"queries_ratio", COL_NUMERIC}, {"queries_severity", COL_TEXT},
	{"slots", COL_NUMERIC}, {"slots_p50", COL_NUMERIC}, {"slots_ratio", COL_NUMERIC}, {"slots_severity", COL_TEXT},
	{"storage", COL_INT8}, {"storage_p50", COL_INT8}, {"storage_ratio", COL_NUMERIC}, {"storage_severity", COL_TEXT},
	{"verdict", COL_TEXT}, {"since", COL_TEXT},
};
const struct columns columns_hot_orgs = COLUMNS_OF(hot_columns);

struct hottest {
	const struct heat_org *org;
	double ratio; /* of its worst measure */
};

static int hottest_first(const void *a, const void *b)
{
	const struct hottest *x = a, *y = b;

	if (x->org->hot != y->org->hot)
		return x->org->hot ? -1 : 1;
	if (x->ratio != y->ratio)
		return x->ratio > y->ratio ? -1 : 1;
	return strcmp(x->org->id, y->org->id);
}

static double worst(const struct heat *h, const struct heat_org *o, enum heat_window w)
{
	double most = 0;

	for (int m = 0; m < HEAT_MEASURES; m++)
		if (heat_ratio(h, o, w, (enum heat_measure)m) > most)
			most = heat_ratio(h, o, w, (enum heat_measure)m);
	return most;
}

static void row_number(struct row *r, double v, int digits)
{
	char text[64];

	snprintf(text, sizeof(text), "%.*f", digits, v);
	row_text(r, text);
}

static void row_measure(struct row *r, const struct heat *h, const struct heat_org *o, enum heat_window w, enum heat_measure m)
{
	static const int digits[HEAT_MEASURES] = {[HEAT_QUERIES] = 1, [HEAT_SLOTS] = 3, [HEAT_STORAGE] = 0};

	if (heat_value(o, w, m) < 0) { /* storage is not known: no number, no judgement */
		row_null(r);
		row_number(r, h->p50[w][m], digits[m]);
		row_null(r);
		row_null(r);
		return;
	}
	row_number(r, heat_value(o, w, m), digits[m]);
	row_number(r, h->p50[w][m], digits[m]);
	row_number(r, heat_ratio(h, o, w, m), 2);
	row_text(r, heat_severity_name((enum heat_severity)o->severity[w][m]));
}

static void put(struct buf *out, const struct heat *h, const struct heat_org *o, enum heat_window w)
{
	const struct conf_org *line = conf_org(control->setup->conf, o->id);
	char since[32];
	struct row r;

	row_begin(&r, out, columns_hot_orgs.n);
	row_text(&r, o->id);
	row_text(&r, line ? line->name : NULL);
	for (int m = 0; m < HEAT_MEASURES; m++)
		row_measure(&r, h, o, w, (enum heat_measure)m);
	row_text(&r, hot_verdict(o));
	if (o->since)
		clock_print(o->since, since);
	row_text(&r, o->since ? since : NULL);
	row_end(&r);
}

bool tell_hot_orgs(const char *by, struct buf *out, struct err *err)
{
	const struct heat *h = hot_heat();
	enum heat_window w = HEAT_1M;

	if (by && !heat_window_find(by, &w))
		return err_set(err, SQLSTATE_BAD_VALUE, "no such window: \"%.64s\"; there are 1m, 5m, 24h and 30d", by);
	struct hottest *all = mem_new((h->n + 1) * sizeof(*all));
	size_t n = 0;
	for (size_t i = 0; i < h->n; i++)
		if (heat_is_active(h->all[i], w) || h->all[i]->hot)
			all[n++] = (struct hottest){h->all[i], worst(h, h->all[i], w)};
	qsort(all, n, sizeof(*all), hottest_first);
	for (size_t i = 0; i < n; i++)
		put(out, h, all[i].org, w);
	mem_free(all);
	return true;
}
