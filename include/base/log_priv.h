/* The inside of the log, for its tests and for verify_failed. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "base/log.h"

/* One line with its newline, never longer: what does not fit is cut and marked "...".
 * Within PIPE_BUF, so that lines of several writers to one pipe do not mix. */
#define LOG_LINE_ROOM 4096

/* The parts of a line that are not its message. */
struct log_stamp {
	usec_t wall;
	int pid;
	unsigned held; /* lines of this call site that were held back before it */
};

/* Writes a line into out (LOG_LINE_ROOM bytes) and returns its length; *level_at is where the text behind
 * "time [pid] " begins. */
size_t log_format(char *out, size_t *level_at, const struct log_stamp *stamp, enum log_level level, const struct who *who, const char *fmt, va_list ap);

/* May a line pass now? If so, *held says how many did not since the last that did. */
bool log_limit_passes(struct log_limit *limit, usec_t now, unsigned *held);

/* Text with its newline to the log file and syslog, not to stderr, from a process about to abort. */
void log_last_words(const char *text);
