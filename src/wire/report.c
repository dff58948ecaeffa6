/* Error and notice reports (chapter 55.8 "Error and Notice Message Fields"). Ours have the fields PostgreSQL always
 * sends, in its order: S V C M, then D and H where there are any. V is the severity that is never translated; ours
 * is not either, so they are equal. */
#include "wire/report.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/verify.h"
#include "wire/reader.h"
#include "wire/writer.h"

static void field(struct buf *b, uint8_t code, const char *text)
{
	if (!text)
		return;
	msg_u8(b, code);
	msg_str(b, text);
}

void report_write(struct buf *b, uint8_t type, const struct report *r)
{
	verify(type == 'E' || type == 'N');
	size_t begun = msg_begin(b, type);
	field(b, 'S', r->severity);
	field(b, 'V', r->severity);
	field(b, 'C', r->sqlstate);
	field(b, 'M', r->text);
	field(b, 'D', r->detail);
	field(b, 'H', r->hint);
	msg_u8(b, 0);
	msg_end(b, begun);
}

/* The text may hold a server's message or a client's name of any length, so it is measured first. */
void report_error(struct buf *b, const char *severity, const char *sqlstate, const char *fmt, ...)
{
	va_list args, again;
	va_start(args, fmt);
	va_copy(again, args);
	int len = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	verify(len >= 0);
	char *text = mem_new((size_t)len + 1);
	vsnprintf(text, (size_t)len + 1, fmt, again);
	va_end(again);
	report_write(b, 'E', &(struct report){.severity = severity, .sqlstate = sqlstate, .text = text});
	mem_free(text);
}

void report_err(struct buf *b, const char *severity, const struct err *err)
{
	report_write(b, 'E', &(struct report){.severity = severity, .sqlstate = err->sqlstate, .text = err->text, .hint = err->hint[0] ? err->hint : NULL});
}

void report_notice(struct buf *b, const char *text)
{
	report_write(b, 'N', &(struct report){.severity = "NOTICE", .sqlstate = "00000", .text = text});
}

static void keep(struct report *r, uint8_t code, const char *text)
{
	switch (code) {
	case 'S': r->severity = text; break;
	case 'C': r->sqlstate = text; break;
	case 'M': r->text = text; break;
	case 'D': r->detail = text; break;
	case 'H': r->hint = text; break;
	default: break; /* "frontends should silently ignore fields of unrecognized type" */
	}
}

bool report_read(const uint8_t *body, size_t len, struct report *r)
{
	*r = (struct report){.severity = "", .sqlstate = "", .text = ""};
	struct reader in = reader_of(body, len);
	uint8_t code;
	while ((code = read_u8(&in)) != 0)
		keep(r, code, read_str(&in));
	return reader_done(&in);
}
