/* The log: formats a line and writes it with one write(2), so that lines of several
 * threads never mix and nothing is lost in a buffer when the process dies.
 *
 * Writers hold the lock shared while they write; log_open and log_reopen hold it alone
 * while they change where lines go. A file that cannot be opened is reported, and the one
 * that was open before goes on being used.
 *
 * Everything that came from a peer passes put_text, which escapes control bytes: a user
 * name with a newline in it must not forge a line. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <syslog.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log_priv.h"
#include "base/mem.h"
#include "base/verify.h"

#define MESSAGE_ROOM 3500 /* leaves the rest of a line to time, prefix and org */
#define ORG_ROOM 200      /* " org=" and an id of at most 64 characters, all escaped */

static const struct {
	const char *name;
	int priority; /* syslog's */
} levels[] = {
	[LOG_FATAL_] = {"FATAL", LOG_CRIT},
	[LOG_ERROR_] = {"ERROR", LOG_ERR},
	[LOG_WARNING_] = {"WARNING", LOG_WARNING},
	[LOG_LOG_] = {"LOG", LOG_INFO},
	[LOG_DEBUG_] = {"DEBUG", LOG_DEBUG},
	[LOG_NOISE_] = {"NOISE", LOG_DEBUG},
};

static const struct {
	const char *name;
	int facility;
} facilities[] = {
	{"daemon", LOG_DAEMON}, {"auth", LOG_AUTH}, {"authpriv", LOG_AUTHPRIV}, {"user", LOG_USER},
	{"local0", LOG_LOCAL0}, {"local1", LOG_LOCAL1}, {"local2", LOG_LOCAL2}, {"local3", LOG_LOCAL3},
	{"local4", LOG_LOCAL4}, {"local5", LOG_LOCAL5}, {"local6", LOG_LOCAL6}, {"local7", LOG_LOCAL7},
};

/* Where lines go. Guarded by sinks_lock. */
static struct {
	char *path;         /* owns; NULL: no file. What fd was opened as */
	int fd;             /* owns; -1: no file */
	bool to_stderr;
	char *syslog_ident; /* owns, openlog borrows it; NULL: no syslog */
	int facility;
} sinks = {.fd = -1, .to_stderr = true};
static pthread_rwlock_t sinks_lock = PTHREAD_RWLOCK_INITIALIZER;

atomic_int log_most_level = LOG_LOG_;

static pthread_mutex_t limits_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- a line ---- */

struct line {
	char *out;
	size_t len;
	size_t room; /* what a part may use; the end of the line is kept free for the parts behind */
	bool cut;
};

static void put_raw(struct line *l, const char *text, size_t n)
{
	if (n > l->room - l->len) {
		l->cut = true;
		l->room = l->len; /* nothing may follow that would hide the cut */
		return;
	}
	memcpy(l->out + l->len, text, n);
	l->len += n;
}

/* Backslashes stay as they are: the log is for people, and names like DOMAIN\user are theirs. */
static void put_text(struct line *l, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		char escape[8];

		if (c >= 0x20 && c != 0x7f)
			put_raw(l, text, 1);
		else if (c == '\n' || c == '\r' || c == '\t')
			put_raw(l, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t", 2);
		else
			put_raw(l, escape, (size_t)snprintf(escape, sizeof(escape), "\\x%02x", c));
	}
}

/* Gives the next part its room, and marks the last one if it was cut. */
static void line_part(struct line *l, size_t room)
{
	if (l->cut) {
		l->room = l->len + 3;
		put_raw(l, "...", 3);
	}
	l->cut = false;
	l->room = room;
}

static void put_stamp(struct line *l, const struct log_stamp *stamp)
{
	char time[32], text[80];

	clock_print(stamp->wall, time);
	/* The milliseconds go between the seconds and " UTC". */
	snprintf(text, sizeof(text), "%.19s.%03d UTC [%d] ", time, (int)(stamp->wall / 1000 % 1000), stamp->pid);
	put_raw(l, text, strlen(text));
}

static void put_who(struct line *l, const struct who *who)
{
	char text[32];

	snprintf(text, sizeof(text), "%c-%llu: ", who->kind, (unsigned long long)who->id);
	put_raw(l, text, strlen(text));
	put_text(l, who->entry ? who->entry : "(nodb)");
	put_raw(l, "/", 1);
	put_text(l, who->user ? who->user : "(nouser)");
	if (who->peer) {
		put_raw(l, "@", 1);
		put_text(l, who->peer);
	}
	put_raw(l, " ", 1);
}

size_t log_format(char *out, size_t *level_at, const struct log_stamp *stamp, enum log_level level, const struct who *who, const char *fmt, va_list ap)
{
	char message[MESSAGE_ROOM];
	char held[64];
	struct line l = {.out = out, .room = LOG_LINE_ROOM};
	int n;

	put_stamp(&l, stamp);
	*level_at = l.len;
	put_raw(&l, levels[level].name, strlen(levels[level].name));
	put_raw(&l, " ", 1);
	if (who) {
		line_part(&l, l.len + 512);
		put_who(&l, who);
	}
	line_part(&l, LOG_LINE_ROOM - ORG_ROOM - sizeof(held) - 8);
	n = vsnprintf(message, sizeof(message), fmt, ap);
	put_text(&l, n < 0 ? fmt : message);
	if (n >= (int)sizeof(message))
		l.cut = true;
	line_part(&l, LOG_LINE_ROOM - ORG_ROOM - 8);
	if (stamp->held) {
		snprintf(held, sizeof(held), " (%u more like this were held back)", stamp->held);
		put_raw(&l, held, strlen(held));
	}
	line_part(&l, LOG_LINE_ROOM - 8);
	if (who && who->org && who->org[0]) {
		put_raw(&l, " org=", 5);
		put_text(&l, who->org);
	}
	line_part(&l, LOG_LINE_ROOM);
	put_raw(&l, "\n", 1);
	return l.len;
}

/* ---- where it goes ---- */

static void write_all(int fd, const char *p, size_t len)
{
	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return; /* a full disk or a closed pipe: there is nobody left to tell */
		p += n;
		len -= (size_t)n;
	}
}

/* Writes a finished line to the sinks; the caller holds the lock. */
static void sinks_write(enum log_level level, const char *line, size_t len, size_t level_at)
{
	if (sinks.fd >= 0)
		write_all(sinks.fd, line, len);
	if (sinks.to_stderr)
		write_all(STDERR_FILENO, line, len);
	if (sinks.syslog_ident)
		syslog(levels[level].priority | sinks.facility, "%.*s", (int)(len - level_at - 1), line + level_at);
}

static void line_write(enum log_level level, const struct who *who, unsigned held, const char *fmt, va_list ap)
{
	struct log_stamp stamp = {.wall = clock_wall(), .pid = getpid(), .held = held};
	char line[LOG_LINE_ROOM];
	int kept_errno = errno;
	size_t len, level_at;

	len = log_format(line, &level_at, &stamp, level, who, fmt, ap);
	pthread_rwlock_rdlock(&sinks_lock);
	sinks_write(level, line, len, level_at);
	pthread_rwlock_unlock(&sinks_lock);
	errno = kept_errno;
}

static int facility_of(const char *name)
{
	for (size_t i = 0; name && i < sizeof(facilities) / sizeof(facilities[0]); i++)
		if (strcasecmp(facilities[i].name, name) == 0)
			return facilities[i].facility;
	return LOG_DAEMON;
}

/* Lines go to path from now on, if it opens; returns 0 or errno. The caller holds the lock alone. */
static int file_switch(const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);

	if (fd < 0)
		return errno;
	if (sinks.fd >= 0)
		close(sinks.fd);
	sinks.fd = fd;
	if (path != sinks.path) {
		mem_free(sinks.path);
		sinks.path = mem_str(path);
	}
	return 0;
}

static void file_forget(void)
{
	if (sinks.fd >= 0)
		close(sinks.fd);
	sinks.fd = -1;
	mem_free(sinks.path);
	sinks.path = NULL;
}

static void syslog_set(const char *ident, const char *facility)
{
	closelog();
	mem_free(sinks.syslog_ident);
	sinks.syslog_ident = mem_str(ident);
	sinks.facility = facility_of(facility);
	if (ident)
		openlog(sinks.syslog_ident, LOG_PID | LOG_NDELAY, sinks.facility);
}

/* ---- public ---- */

void log_open(const char *logfile, bool to_stderr, const char *syslog_ident, const char *syslog_facility)
{
	int kept_errno = errno, failed = 0;

	pthread_rwlock_wrlock(&sinks_lock);
	if (logfile && logfile[0])
		failed = file_switch(logfile);
	else
		file_forget();
	/* Better not quiet than without any log. */
	sinks.to_stderr = to_stderr || (failed && sinks.fd < 0);
	syslog_set(syslog_ident, syslog_facility);
	pthread_rwlock_unlock(&sinks_lock);
	if (failed)
		log_error("cannot open logfile \"%s\": %s", logfile, strerror(failed));
	errno = kept_errno;
}

void log_reopen(void)
{
	int kept_errno = errno, failed = 0;

	pthread_rwlock_wrlock(&sinks_lock);
	if (sinks.path)
		failed = file_switch(sinks.path);
	pthread_rwlock_unlock(&sinks_lock);
	if (failed)
		log_error("cannot reopen the logfile: %s", strerror(failed));
	errno = kept_errno;
}

void log_set_level(enum log_level most)
{
	atomic_store_explicit(&log_most_level, (int)most, memory_order_relaxed);
}

void log_line(enum log_level level, const struct who *who, const char *fmt, ...)
{
	va_list ap;

	if (!log_on(level))
		return;
	va_start(ap, fmt);
	line_write(level, who, 0, fmt, ap);
	va_end(ap);
}

bool log_limit_passes(struct log_limit *limit, usec_t now, unsigned *held)
{
	usec_t second = now / USEC_PER_SEC;

	if (limit->second != second) {
		limit->second = second;
		limit->passed = 0;
	}
	if (limit->passed >= LOG_LIMIT_PER_SEC) {
		limit->held++;
		return false;
	}
	limit->passed++;
	*held = limit->held;
	limit->held = 0;
	return true;
}

void log_limited(struct log_limit *limit, enum log_level level, const struct who *who, const char *fmt, ...)
{
	unsigned held = 0;
	bool passes;
	va_list ap;

	if (!log_on(level))
		return;
	/* One lock for all limits: several workers share a call site, and the lock is
	 * held for a few instructions. */
	pthread_mutex_lock(&limits_lock);
	passes = log_limit_passes(limit, clock_now(), &held);
	pthread_mutex_unlock(&limits_lock);
	if (!passes)
		return;
	va_start(ap, fmt);
	line_write(level, who, held, fmt, ap);
	va_end(ap);
}

void log_last_words(const char *text)
{
	/* Without the lock if this very thread holds it: a torn line is better than none. */
	bool locked = pthread_rwlock_tryrdlock(&sinks_lock) == 0;

	if (sinks.fd >= 0)
		write_all(sinks.fd, text, strlen(text));
	if (sinks.syslog_ident)
		syslog(LOG_CRIT | sinks.facility, "%s", text);
	if (locked)
		pthread_rwlock_unlock(&sinks_lock);
}
