/* Clocks: the monotonic one for all that is measured or waited for, the wall clock for
 * people only. Both are read in the vDSO, without a system call. */
#include "base/clock.h"

#include <time.h>

#include "base/verify.h"

static usec_t read_clock(clockid_t which)
{
	struct timespec ts;

	verify(clock_gettime(which, &ts) == 0);
	return (usec_t)ts.tv_sec * USEC_PER_SEC + ts.tv_nsec / 1000;
}

usec_t clock_now(void)
{
	usec_t now = read_clock(CLOCK_MONOTONIC);

	return now ? now : 1; /* 0 means "never" in many a field */
}

usec_t clock_wall(void)
{
	return read_clock(CLOCK_REALTIME);
}

void clock_print(usec_t wall, char out[32])
{
	time_t seconds = (time_t)(wall / USEC_PER_SEC);
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || !strftime(out, 32, "%Y-%m-%d %H:%M:%S UTC", &tm))
		out[0] = '\0';
}
