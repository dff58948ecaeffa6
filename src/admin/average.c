/* The averages of PgBouncer's SHOW STATS. Pure. */
#include "admin/stats_priv.h"

static uint64_t per(uint64_t sum, uint64_t count)
{
	return count ? sum / count : 0;
}

void stats_compute(const struct totals *before, const struct totals *now, usec_t passed, struct totals *out)
{
	uint64_t grew[TOTALS];

	for (int i = 0; i < TOTALS; i++) {
		grew[i] = now->n[i] - before->n[i];
		out->n[i] = passed > 0 ? (uint64_t)((double)grew[i] * USEC_PER_SEC / (double)passed) : 0;
	}
	out->entry = now->entry;
	out->n[TOTAL_xact_us] = per(grew[TOTAL_xact_us], grew[TOTAL_xacts]);
	out->n[TOTAL_query_us] = per(grew[TOTAL_query_us], grew[TOTAL_queries]);
	out->n[TOTAL_wait_us] = per(grew[TOTAL_wait_us], grew[TOTAL_server_assignments]);
}
