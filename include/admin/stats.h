/* Counters over time: every stats_period the totals of all pools are gathered, the averages are what they grew by, and the log gets
 * PgBouncer's stats line. In control's loop. */
#pragma once

#include "proxy/worker.h"

void stats_start(void);
void stats_stop(void);
/* What is told each stats_period beside the log: main hands it to systemd as STATUS. May be NULL. */
extern void (*stats_said)(const char *line);
