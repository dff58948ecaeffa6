/* See admin/console.h and admin/console_priv.h. Simple queries only: the extended protocol gets one error, and the connection goes
 * on at Sync. All of it runs in control's loop. */
#include "admin/console.h"

#include <stdarg.h>
#include <stdio.h>

#include "admin/console_priv.h"
#include "admin/totals_priv.h"
#include "base/mem.h"
#include "proxy/address.h"
#include "proxy/worker.h"
#include "wire/frame.h"
#include "wire/reader.h"
#include "wire/report.h"
#include "wire/rows.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

/* The longest message that is read: it is held in memory whole. */
#define QUERY_MOST (256u * 1024)

/* ---- answers ---- */

void console_fail(struct console *k, const char *sqlstate, const char *fmt, ...)
{
	char text[600];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	report_error(&k->out, "ERROR", sqlstate, "%s", text);
	k->failed = true;
}

void console_fail_err(struct console *k, const struct err *err)
{
	console_fail(k, err->sqlstate[0] ? err->sqlstate : SQLSTATE_INTERNAL, "%s", err->text);
}

static void flush(struct console *k)
{
	client_send(k->client, &k->out);
	k->out.len = 0;
}

static void ready(struct console *k)
{
	msg_ready(&k->out, 'I');
	flush(k);
	buf_free(&k->out);
}

/* ---- the query at hand ---- */

static void query_end(struct console *k)
{
	buf_free(&k->sql);
	k->busy = false;
	ready(k);
	stream_resume(&k->client->stream);
}

/* Runs what is left of the query, until something has to be waited for. */
static void query_go_on(struct console *k)
{
	struct command command;

	k->running = true;
	while (!k->errand && !k->failed && command_next(&k->rest, &command)) {
		totals_count_command();
		command_run(k, &command);
	}
	k->running = false;
	if (k->errand)
		stream_pause(&k->client->stream);
	else
		query_end(k);
}

static void query_begin(struct console *k, const char *sql)
{
	struct scan look;
	struct command command;

	k->client->query_at = k->client->request_at = loop_now(k->client->worker->loop);
	k->busy = true;
	k->failed = false;
	buf_add(&k->sql, sql, strlen(sql));
	look = k->rest = scan_of(k->sql.p, k->sql.len);
	if (!command_next(&look, &command))
		msg_empty(&k->out, 'I'); /* EmptyQueryResponse */
	query_go_on(k);
}

/* ---- errands ---- */

struct errand *errand_begin(struct console *k, const char *tag)
{
	struct errand *e = mem_make(struct errand);

	verify(!k->errand);
	e->console = k;
	e->tag = tag;
	k->errand = e;
	return e;
}

static void errand_free(struct errand *e)
{
	mem_free(e->text);
	mem_free(e);
}

void errand_end(struct errand *e, const struct err *err)
{
	struct console *k = e->console;

	if (k) {
		k->errand = NULL;
		if (err)
			console_fail_err(k, err);
		else if (e->tag[0])
			msg_complete(&k->out, e->tag);
	}
	errand_free(e);
	if (k && !k->running)
		query_go_on(k);
}

static void undo(const struct errand *e)
{
	struct err err;

	if (!stage_resume(e->entry, &err))
		log_debug("console: %s", err.text);
}

/* ---- messages ---- */

static void refuse(struct client *c, const char *text)
{
	struct err err;

	err_set(&err, SQLSTATE_PROTOCOL, "%s", text);
	client_close(c, &err, err.text);
}

static void message_query(struct client *c, const uint8_t *body, size_t len)
{
	struct reader r = reader_of(body, len);
	const char *sql = read_str(&r);

	if (!reader_done(&r))
		refuse(c, "broken query message");
	else
		query_begin(c->console, sql);
}

static void extended(struct client *c)
{
	struct console *k = c->console;

	console_fail(k, SQLSTATE_PROTOCOL, "extended query protocol not supported by admin console");
	flush(k);
	c->refusing = true;
}

/* After an error in the extended protocol all is skipped up to Sync, simple queries too (chapter 55.2.3). */
static void message(struct client *c, const struct frame *f, const uint8_t *p)
{
	if (f->type == 'X') {
		client_leave(c, "client close request");
		return;
	}
	if (f->type == 'S') {
		c->refusing = false;
		ready(c->console);
		return;
	}
	if (c->refusing)
		return;
	switch (f->type) {
	case 'Q':
		message_query(c, p + FRAME_HEAD, f->size - FRAME_HEAD);
		break;
	case 'P':
	case 'B':
	case 'D':
	case 'E':
	case 'C':
		extended(c);
		break;
	case 'F':
		console_fail(c->console, SQLSTATE_PROTOCOL, "function calls are not supported by admin console");
		ready(c->console);
		break;
	case 'H':
	case 'd':
	case 'c':
	case 'f': /* the end of a COPY that never began: PostgreSQL ignores it, too */
		break;
	default:
		refuse(c, "unknown message on the console");
	}
}

size_t console_bytes(struct client *c, const uint8_t *p, size_t len)
{
	size_t used = 0;
	struct frame f;
	enum parse got = PARSE_MORE;

	while (!c->console->errand && (got = frame_peek(p + used, len - used, &f)) == PARSE_OK && f.size <= QUERY_MOST) {
		if (f.have < f.size) {
			stream_want(&c->stream, f.size);
			return used;
		}
		message(c, &f, p + used);
		used += f.size;
		if (c->state == CLIENT_CLOSING)
			return len;
	}
	if (c->console->errand || got == PARSE_MORE)
		return used;
	refuse(c, got == PARSE_BAD ? "broken message" : "message too long for the console");
	return len;
}

/* ---- a console's life ---- */

static const struct parameter {
	const char *name, *value;
} greeting[] = {
	{"server_version", "1.25.2/bouncer"},
	{"client_encoding", "UTF8"},
	{"server_encoding", "UTF8"},
	{"DateStyle", "ISO"},
	{"TimeZone", "GMT"},
	{"is_superuser", "on"},
	{"standard_conforming_strings", "on"},
	{"integer_datetimes", "on"},
};

void console_open(struct client *c)
{
	struct console *k = mem_make(struct console);
	uint32_t pid, key;

	verify_here(control->loop);
	verify(c->worker == control);
	k->client = c;
	c->console = k;
	address_take(c);
	client_move(c, CLIENT_IDLE);
	for (size_t i = 0; i < sizeof(greeting) / sizeof(greeting[0]); i++)
		msg_parameter(&k->out, greeting[i].name, greeting[i].value);
	if (c->application_name)
		msg_parameter(&k->out, "application_name", c->application_name);
	address_key(c, &pid, &key);
	msg_key(&k->out, pid, key);
	ready(k);
}

void console_close(struct client *c)
{
	struct console *k = c->console;

	c->console = NULL;
	if (!k)
		return;
	if (k->errand) {
		k->errand->console = NULL;
		if (k->errand->undo == UNDO_ALWAYS && control) /* NULL: the process ends */
			undo(k->errand);
	}
	buf_free(&k->sql);
	buf_free(&k->out);
	mem_free(k);
}

/* What can be taken back is: the answer then comes as for anybody else's RESUME. */
static void console_cancel(struct client *c)
{
	struct errand *e = c->console->errand;
	struct err err;

	if (!e)
		return;
	switch (e->undo) {
	case UNDO_ON_CANCEL:
	case UNDO_ALWAYS:
		undo(e);
		break;
	case UNDO_WAIT:
		stage_forget(e->stage);
		err_set(&err, SQLSTATE_CANCELED, "canceling statement due to user request");
		errand_end(e, &err);
		break;
	case UNDO_NOTHING: /* is answered at once */
		break;
	}
}

static const struct console_calls calls = {
	.open = console_open,
	.bytes = console_bytes,
	.close = console_close,
	.cancel = console_cancel,
	.client_gone = stage_client_gone,
};

void console_register(void)
{
	console_calls = &calls;
}
