/* Clocks. A loop keeps its own copy of clock_now, renewed once per turn; call
 * these only where that is not enough. */
#pragma once

#include "base/num.h"

usec_t clock_now(void);  /* monotonic; never 0 */
usec_t clock_wall(void); /* since 1970, UTC */
/* "2026-11-30 16:05:28 UTC" into out, which holds at least 32 bytes. */
void clock_print(usec_t wall, char out[32]);
