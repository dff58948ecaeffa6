/* The log. PgBouncer's line form: "time [pid] LEVEL prefix message", one write per line,
 * to stderr, a file and syslog as set. Any thread. errno is kept. No secret can get here:
 * struct secret has no printf form, and SQL text goes through redact_sql first. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"

enum log_level { LOG_FATAL_, LOG_ERROR_, LOG_WARNING_, LOG_LOG_, LOG_DEBUG_, LOG_NOISE_ };

/* Makes the prefix of a connection's lines: "C-12: app/bob@127.0.0.1:4711 ... org=acme". */
struct who {
	char kind;         /* 'C' client, 'S' server */
	uint64_t id;
	const char *entry; /* borrows; NULL: (nodb) */
	const char *user;  /* borrows; NULL: (nouser) */
	const char *peer;  /* borrows; host:port or unix(pid):port */
	const char *org;   /* borrows; NULL or "": none appended */
};

/* Holds back lines that a peer can cause at will: at most `per_sec` a second pass,
 * and the next that passes says how many did not. Static at the call site. */
struct log_limit {
	usec_t second;
	unsigned passed;
	unsigned held;
};
#define LOG_LIMIT_PER_SEC 10

void log_open(const char *logfile, bool to_stderr, const char *syslog_ident, const char *syslog_facility); /* NULL: not there; may be called again */
void log_reopen(void);             /* after logrotate */
void log_set_level(enum log_level most); /* DEBUG lines are off by default */
extern atomic_int log_most_level; /* written by log_set_level only */
static inline bool log_on(enum log_level level) { return (int)level <= atomic_load_explicit(&log_most_level, memory_order_relaxed); }

void log_line(enum log_level level, const struct who *who, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same behind a limit. */
void log_limited(struct log_limit *limit, enum log_level level, const struct who *who, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#define log_fatal(...) log_line(LOG_FATAL_, NULL, __VA_ARGS__)
#define log_error(...) log_line(LOG_ERROR_, NULL, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING_, NULL, __VA_ARGS__)
#define log_log(...) log_line(LOG_LOG_, NULL, __VA_ARGS__)
#define log_debug(...) (log_on(LOG_DEBUG_) ? log_line(LOG_DEBUG_, NULL, __VA_ARGS__) : (void)0)
