/* What stats.c keeps for the tables. Control's thread. */
#pragma once

#include "admin/totals_priv.h"

/* The averages of the last period; NULL: none of that entry yet. Counts are per second, times per transaction, query and
 * server assignment. */
const struct totals *stats_average(const struct tally *entry);
const struct totals *stats_average_all(void);
/* How the averages come about; pure. */
void stats_compute(const struct totals *before, const struct totals *now, usec_t passed, struct totals *out);
