/* See proxy/inspect.h. What has to do with names of statements is in proxy/prepared. */
#include "proxy/inspect.h"

#include "proxy/deallocate.h"
#include "proxy/effect.h"
#include "proxy/expect.h"
#include "proxy/fence.h"
#include "proxy/inventory.h"
#include "proxy/prepared.h"
#include "proxy/refuse.h"
#include "proxy/worker.h"
#include "sql/touch.h"
#include "wire/reader.h"
#include "wire/writer.h"

/* ---- what has to wait ---- */

/* Names and statements as they will be depend on what comes of something that is still open. */
static bool names_are_open(const struct server *s)
{
	return (s->notes_behind || s->forgets) && !s->replies.copy_in; /* then it waits for the client: what is no copy data ends the session */
}

static bool is_bind_of_unnamed(const struct frame *f, const uint8_t *body)
{
	const uint8_t *portal_end = str_end(body, f->have - FRAME_HEAD);
	return portal_end && portal_end + 1 < body + f->have - FRAME_HEAD && portal_end[1] == 0;
}

static bool must_hold(const struct client *c, const struct frame *f, const uint8_t *body)
{
	bool unnamed_is_sure = c->unnamed_in_batch || c->server->notes_behind == 0;

	if (f->have == FRAME_HEAD)
		return false;
	switch (f->type) {
	case 'P':
		return body[0] != 0; /* a new unnamed statement depends on nothing */
	case 'B':
		return !unnamed_is_sure || !is_bind_of_unnamed(f, body);
	case 'D':
	case 'C':
		return body[0] == 'S' && (!unnamed_is_sure || (f->have > FRAME_HEAD + 1 && body[1] != 0));
	default:
		return false;
	}
}

/* What was parsed or dropped may have to come back until the answer is there, and PostgreSQL keeps its answers until a Sync or Flush: of texts
 * only so much is kept for that. */
#define PARSED_MOST (16 * 1024 * 1024)

static bool has_parsed_much(struct server *s, const struct frame *f)
{
	if (f->type != 'P')
		return false;
	if (replies_empty(&s->replies))
		s->parsed_bytes = 0;
	else if (s->parsed_bytes > PARSED_MOST)
		return true;
	s->parsed_bytes += f->size;
	return false;
}

static enum inspected hold_and_flush(struct client *c)
{
	msg_empty(to_server(c), 'H');
	return INSPECT_HOLD;
}

static enum inspected hold_for_names(struct client *c)
{
	if (c->server->forgets)
		msg_empty(to_server(c), 'H'); /* the answer that is waited for may be one that only a Flush brings */
	return INSPECT_HOLD;
}

/* ---- Execute and Query ---- */

static void expect_deallocate(struct client *c, enum reply_kind kind, struct stmt_name *n)
{
	if (n)
		stmt_name_take(&c->stmts, n);
	expect(c, kind, REPLY_FORWARD, MARK_DEALLOCATE, n);
}

/* The client has no such name: it may be one that SQL has prepared, or none. The server is given the real thing in place of this Execute. */
static void execute_real_deallocate(struct client *c, const struct portal *p)
{
	deallocate_write(to_server(c), p);
	inventory_note_giving(c);
	expect(c, REPLY_DESCRIBE, REPLY_SKIP, MARK_NONE, NULL);
	expect(c, REPLY_PARSE, REPLY_SKIP, MARK_NONE, NULL);
	expect(c, REPLY_BIND, REPLY_SKIP, MARK_NONE, NULL);
	expect(c, REPLY_CLOSE, REPLY_SKIP, MARK_NONE, NULL);
	expect(c, REPLY_EXECUTE, REPLY_FORWARD, MARK_NONE, NULL);
	expect(c, REPLY_CLOSE, REPLY_SKIP, MARK_NONE, NULL);
	expect(c, REPLY_EXECUTE, REPLY_SKIP, MARK_NONE, NULL);
}

/* A portal that deallocates a name. */
static enum inspected execute_deallocate(struct client *c, struct portal *p, const struct frame *f, uint32_t *used, uint32_t *want)
{
	struct stmt_name *n;

	if (f->have < f->size) {
		*want = f->size;
		return INSPECT_MORE;
	}
	if (names_are_open(c->server))
		return hold_for_names(c);
	n = stmt_name_find(&c->stmts, p->deallocates);
	p->was_run = true;
	if (n) {
		expect_deallocate(c, REPLY_EXECUTE, n);
		return INSPECT_DONE;
	}
	execute_real_deallocate(c, p);
	*used = f->size;
	return INSPECT_DONE;
}

static enum inspected inspect_execute(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *used, uint32_t *want)
{
	const char *name = (const char *)p + FRAME_HEAD;
	struct portal *portal;

	if (!memchr(name, 0, f->have - FRAME_HEAD)) {
		*want = frame_want(f, 0);
		return f->have == f->size ? INSPECT_BAD : INSPECT_MORE;
	}
	c->ran = true;
	portal = list_empty(&c->portals) ? NULL : portal_find(c, name);
	if (portal && portal->deallocates && !portal->was_run)
		return execute_deallocate(c, portal, f, used, want);
	expect(c, REPLY_EXECUTE, REPLY_FORWARD, portal && portal->forgets ? MARK_FORGETS : MARK_NONE, NULL);
	return INSPECT_DONE;
}

/* Up to its NUL, which is the last byte of every well formed one. */
static size_t text_len(const uint8_t *sql, size_t have)
{
	return have && !sql[have - 1] ? have - 1 : strnlen((const char *)sql, have);
}

/* A text is looked at as far as inspect_bytes goes. DONE: it may pass; *refused: it was dealt with, and must not. */
static enum inspected watch_query(struct client *c, const uint8_t *sql, const struct frame *f, uint32_t *want, bool *refused)
{
	uint32_t most = (uint32_t)c->worker->setup->conf->set.inspect_bytes;
	struct err err;

	*refused = false;
	if (f->have < f->size && f->have < most) {
		*want = frame_want(f, TEXT_LEAST);
		return INSPECT_MORE;
	}
	if (f->have < f->size)
		inventory_note_unread(c);
	if (inventory_note(c, sql, text_len(sql, f->have - FRAME_HEAD), &err) || f->have < f->size)
		return INSPECT_DONE;
	refuse_query(c, &err);
	*refused = true;
	return INSPECT_DONE;
}

static enum inspected inspect_query(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *used, uint32_t *want)
{
	struct server *s = c->server;
	const uint8_t *sql = p + FRAME_HEAD;
	size_t len = f->have - FRAME_HEAD;
	struct stmt_name *n = NULL;
	char name[DEALLOCATED_NAME];
	bool refused;

	if (inventory_reads(c)) {
		enum inspected watched = watch_query(c, sql, f, want, &refused);
		if (watched != INSPECT_DONE || refused) {
			*used = f->size;
			return watched;
		}
	}
	if ((stmt_names_count(&c->stmts) || names_are_open(s)) && f->size < DEALLOCATE_MOST) {
		if (f->have < f->size) {
			*want = f->size;
			return INSPECT_MORE;
		}
		if (deallocate_reads(sql, strnlen((const char *)sql, len), name)) {
			if (names_are_open(s))
				return hold_for_names(c);
			n = stmt_name_find(&c->stmts, name);
		}
	}
	effect_note(c, sql, len);
	effect_note_all(c, sql, len);
	c->ran = true;
	bool forgets = !n && stmt_names_count(&c->stmts) && (f->have < f->size ? f->size <= FORGETS_MOST : deallocate_may_be_all(sql, len));
	if (n || forgets)
		prepared_unnamed_goes(c);
	if (n) {
		msg_query(to_server(c), STANDS_FOR_DEALLOCATE);
		*used = f->size;
		expect_deallocate(c, REPLY_QUERY, n);
		s->notes_behind = s->notes_open; /* it may be refused, and then the name is still there for what comes behind it */
	} else if (forgets) {
		expect(c, REPLY_QUERY, REPLY_FORWARD, MARK_FORGETS, NULL);
	} else {
		prepared_expect_unnamed_gone(c, REPLY_QUERY);
	}
	return INSPECT_DONE;
}

/* A function called by its OID has no text, but may set a setting or take a lock like any other. */
static enum inspected inspect_call(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *want)
{
	struct reader r = reader_of(p + FRAME_HEAD, f->have - FRAME_HEAD);
	const char *text = touch_text_of_call(read_u32(&r));
	bool waits = r.bad || (text && f->size <= VALUES_MOST);
	struct err err;

	if (waits && f->have < f->size && inventory_reads(c)) {
		*want = r.bad && f->size > FRAME_HEAD + 4 ? FRAME_HEAD + 4 : f->size;
		return INSPECT_MORE;
	}
	if (text && inventory_reads(c) && !(inventory_note_values(c, r.p, r.end, &err) && inventory_note(c, (const uint8_t *)text, strlen(text), &err))) {
		refuse_call(c, &err);
		return INSPECT_DROP;
	}
	expect(c, REPLY_CALL, REPLY_FORWARD, MARK_NONE, NULL);
	return INSPECT_DONE;
}

static enum inspected copy_ends(struct client *c)
{
	c->copy_syncs = 0;
	expect(c, REPLY_COPY_END, REPLY_FORWARD, MARK_NONE, NULL);
	return INSPECT_DONE;
}

/* While the server reads copy data it ignores Sync, and answers it when the COPY has failed meanwhile: which of the two it will do cannot be
 * known from here, so it does not get one. Those behind the last data are sent when the error comes (relay), or when something comes behind
 * them that is no copy data: that ends the session if the COPY has not failed. */
static enum inspected inspect_sync(struct client *c, const struct frame *f, uint32_t *used)
{
	struct server *s = c->server;

	if (s->replies.copy_in) {
		c->copy_syncs++;
		*used = f->size;
		return INSPECT_DONE;
	}
	expect(c, REPLY_SYNC, REPLY_FORWARD, MARK_NONE, NULL);
	c->unnamed_in_batch = false;
	s->notes_behind = s->notes_open;
	return INSPECT_DONE;
}

static bool is_for_copy(uint8_t type)
{
	return type == 'd' || type == 'c' || type == 'f' || type == 'H' || type == 'S';
}

static void send_kept_syncs(struct client *c)
{
	c->server->replies.copy_in = false;
	for (; c->copy_syncs; c->copy_syncs--) {
		msg_empty(to_server(c), 'S');
		expect(c, REPLY_SYNC, REPLY_FORWARD, MARK_NONE, NULL);
	}
}

/* Copy data waits until it is known whether the server reads it as such: what a Sync behind it means hangs on that. */
static enum inspected inspect_copy_data(struct client *c)
{
	struct replies *r = &c->server->replies;

	if (!r->copy_in && !replies_empty(r))
		return hold_and_flush(c);
	c->copy_syncs = 0;
	return INSPECT_DONE;
}

/* DONE: it may pass. */
static enum inspected ask_fence(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *want)
{
	struct err err;

	switch (fence_look(c, p, f, want, &err)) {
	case FENCE_LOOK_PASS:
		return INSPECT_DONE;
	case FENCE_LOOK_MORE:
		return INSPECT_MORE;
	case FENCE_LOOK_HOLD:
		return INSPECT_HOLD;
	case FENCE_LOOK_REFUSE:
		refuse_message(c, f->type, &err);
		return INSPECT_DROP;
	}
	never("no such answer");
}

enum inspected inspect_message(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *used, uint32_t *want)
{
	struct server *s = c->server;
	const uint8_t *body = p + FRAME_HEAD;
	size_t len = f->size - FRAME_HEAD;

	*used = 0;
	if (names_are_open(s) && must_hold(c, f, body))
		return hold_for_names(c);
	if (has_parsed_much(s, f))
		return hold_and_flush(c);
	if (c->copy_syncs && s->replies.copy_in && !is_for_copy(f->type))
		send_kept_syncs(c);
	if (s->replies.skipping && f->type != 'S')
		return INSPECT_DONE; /* behind an error the server reads and drops all up to Sync: it passes as it is, and nothing is noted of it */
	if (s->read_only) {
		enum inspected fenced = ask_fence(c, p, f, want);
		if (fenced != INSPECT_DONE)
			return fenced;
	}
	switch (f->type) {
	case 'Q':
		return inspect_query(c, p, f, used, want);
	case 'P':
		*used = f->size;
		return prepared_parse(c, body, len, used);
	case 'B':
		return prepared_bind(c, p, f, used, want);
	case 'D':
		*used = f->size;
		return prepared_describe(c, body, len, used);
	case 'C':
		*used = f->size;
		return prepared_close(c, body, len);
	case 'E':
		return inspect_execute(c, p, f, used, want);
	case 'S':
		return inspect_sync(c, f, used);
	case 'd':
		return inspect_copy_data(c);
	case 'F':
		return inspect_call(c, p, f, want);
	case 'c':
	case 'f':
		return copy_ends(c);
	default: /* Flush: no answer of its own */
		return INSPECT_DONE;
	}
}
