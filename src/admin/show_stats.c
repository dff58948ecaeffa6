/* SHOW STATS, STATS_TOTALS, STATS_AVERAGES and TOTALS: one row of names per number, so that the four cannot drift apart. */
#include <stdio.h>

#include "admin/show_priv.h"
#include "admin/stats_priv.h"
#include "base/mem.h"

/* As the four call it: STAT(total, STATS total_..., STATS avg_..., STATS_TOTALS, STATS_AVERAGES, TOTALS) */
#define STATS(STAT) \
	STAT(server_assignments, "total_server_assignment_count", "avg_server_assignment_count", "server_assignment_count", "server_assignment_count", "server_assignment_count") \
	STAT(xacts, "total_xact_count", "avg_xact_count", "xact_count", "xact_count", "xact_count") \
	STAT(queries, "total_query_count", "avg_query_count", "query_count", "query_count", "query_count") \
	STAT(received, "total_received", "avg_recv", "bytes_received", "bytes_received", "client_bytes") \
	STAT(sent, "total_sent", "avg_sent", "bytes_sent", "bytes_sent", "server_bytes") \
	STAT(xact_us, "total_xact_time", "avg_xact_time", "xact_time", "xact_time", "xact_time") \
	STAT(query_us, "total_query_time", "avg_query_time", "query_time", "query_time", "query_time") \
	STAT(wait_us, "total_wait_time", "avg_wait_time", "wait_time", "wait_time", "wait_time") \
	STAT(client_parses, "total_client_parse_count", "avg_client_parse_count", "client_parse_count", "avg_client_parse_count", "ps_client_parse_count") \
	STAT(server_parses, "total_server_parse_count", "avg_server_parse_count", "server_parse_count", "avg_server_parse_count", "ps_server_parse_count") \
	STAT(binds, "total_bind_count", "avg_bind_count", "bind_count", "avg_bind_count", "ps_bind_count") \
	STAT(client_logins, "total_client_login_count", "avg_client_login_count", "client_login_count", "avg_client_login_count", "client_login_count")

static const struct stat {
	enum total total;
	const char *name; /* in TOTALS */
} stats[] = {
#define STAT(total, stats_total, stats_average, totals, averages, name) {TOTAL_##total, name},
	STATS(STAT)
#undef STAT
};
#define N_STATS ((int)(sizeof(stats) / sizeof(stats[0])))

static const struct column stats_columns[] = {
	{"database", COL_TEXT},
#define STAT(total, stats_total, stats_average, totals, averages, name) {stats_total, COL_NUMERIC},
	STATS(STAT)
#undef STAT
#define STAT(total, stats_total, stats_average, totals, averages, name) {stats_average, COL_NUMERIC},
	STATS(STAT)
#undef STAT
};
static const struct column totals_columns[] = {
	{"database", COL_TEXT},
#define STAT(total, stats_total, stats_average, totals, averages, name) {totals, COL_NUMERIC},
	STATS(STAT)
#undef STAT
};
static const struct column averages_columns[] = {
	{"database", COL_TEXT},
#define STAT(total, stats_total, stats_average, totals, averages, name) {averages, COL_NUMERIC},
	STATS(STAT)
#undef STAT
};
static const struct column name_value_columns[] = {{"name", COL_TEXT}, {"value", COL_NUMERIC}};

const struct columns columns_stats = COLUMNS_OF(stats_columns);
const struct columns columns_totals = COLUMNS_OF(totals_columns);
const struct columns columns_averages = COLUMNS_OF(averages_columns);
const struct columns columns_name_value = COLUMNS_OF(name_value_columns);

static void row_stats(struct row *r, const struct totals *t)
{
	for (int i = 0; i < N_STATS; i++)
		row_int(r, t ? (int64_t)t->n[stats[i].total] : 0);
}

enum which { WHICH_TOTALS = 1, WHICH_AVERAGES = 2, WHICH_BOTH = 3 };

static void tell(const struct gather *g, struct buf *out, const struct columns *columns, enum which which)
{
	struct totals *all;
	int n = totals_merge(g, &all);
	struct row r;

	for (int i = 0; i < n; i++) {
		row_begin(&r, out, columns->n);
		row_text(&r, all[i].entry->name);
		if (which & WHICH_TOTALS)
			row_stats(&r, &all[i]);
		if (which & WHICH_AVERAGES)
			row_stats(&r, stats_average(all[i].entry));
		row_end(&r);
	}
	mem_free(all);
}

void tell_stats(const struct gather *g, struct buf *out)
{
	tell(g, out, &columns_stats, WHICH_BOTH);
}

void tell_stats_totals(const struct gather *g, struct buf *out)
{
	tell(g, out, &columns_totals, WHICH_TOTALS);
}

void tell_stats_averages(const struct gather *g, struct buf *out)
{
	tell(g, out, &columns_averages, WHICH_AVERAGES);
}

static void name_values(struct buf *out, const char *prefix, const struct totals *t)
{
	for (int i = 0; i < N_STATS; i++) {
		char name[64];
		struct row r;
		snprintf(name, sizeof(name), "%s_%s", prefix, stats[i].name);
		row_begin(&r, out, columns_name_value.n);
		row_text(&r, name);
		row_int(&r, (int64_t)t->n[stats[i].total]);
		row_end(&r);
	}
}

void tell_totals(const struct gather *g, struct buf *out)
{
	struct totals *all, sum = {0};
	int n = totals_merge(g, &all);

	for (int i = 0; i < n; i++)
		totals_add(&sum, &all[i]);
	mem_free(all);
	name_values(out, "total", &sum);
	name_values(out, "avg", stats_average_all());
}
