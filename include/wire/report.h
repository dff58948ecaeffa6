/* ErrorResponse and NoticeResponse: making ours, reading the server's. Every field of a server's is optional
 * (CVE-2026-6666). Pure. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct report {
	const char *severity; /* FATAL, ERROR, NOTICE ...; reading: the S field, "" if missing */
	const char *sqlstate;
	const char *text;
	const char *detail;   /* may be NULL */
	const char *hint;     /* may be NULL */
};

void report_write(struct buf *b, uint8_t type, const struct report *r); /* type 'E' or 'N' */
void report_error(struct buf *b, const char *severity, const char *sqlstate, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void report_err(struct buf *b, const char *severity, const struct err *err);
void report_notice(struct buf *b, const char *text);
/* Reads a body (without type and length); strings borrow it; missing ones are "" (detail, hint: NULL). False when it is not well formed. */
bool report_read(const uint8_t *body, size_t len, struct report *r);
