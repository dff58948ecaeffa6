/* See pool/ask.h. */
#include "pool/ask.h"

#include "pool/pool.h"
#include "wire/frame.h"
#include "wire/report.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

static void ask(struct server *s, enum server_state state, const char *sql)
{
	usec_t most = s->lane->setup->conf->set.server_check_timeout;
	struct buf b = {0};

	server_move(s, state);
	msg_query(&b, sql);
	replies_push(&s->replies, REPLY_QUERY, REPLY_SKIP, 0, NULL);
	s->unnamed_of = 0; /* a simple query drops the unnamed statement */
	stream_send(&s->stream, b.p, b.len);
	buf_free(&b);
	timer_stop(&s->timer);
	if (most)
		timer_in(&s->timer, most);
}

void ask_check(struct server *s)
{
	const char *sql = s->lane->setup->conf->set.server_check_query;
	ask(s, SERVER_TEST, strcmp(sql, "<empty>") == 0 ? "" : sql);
}

void ask_reset(struct server *s)
{
	const char *sql = s->unsure ? "DISCARD ALL" : s->lane->setup->conf->set.server_reset_query;
	s->was_reset = true;
	ask(s, SERVER_RESET, sql);
	server_discarded(s);
}

void ask_org_reset(struct server *s, const char *sql)
{
	s->was_reset = true;
	ask(s, SERVER_RESET, sql);
	server_discarded(s);
}

void ask_rollback(struct server *s)
{
	ask(s, SERVER_RESET, "ROLLBACK");
}

void ask_timeout(struct server *s)
{
	server_close(s, NULL, s->state == SERVER_TEST ? "server check timeout" : "server reset timeout");
}

static const char *failed_reason(const struct server *s)
{
	return s->state == SERVER_TEST ? "server check query failed" : "server reset query failed";
}

static void answered(struct server *s, char status)
{
	s->status = status;
	if (status != 'I') {
		server_close(s, NULL, failed_reason(s));
		return;
	}
	timer_stop(&s->timer);
	server_release(s);
}

/* One whole message. False: the server is closed or given away. */
static bool take_message(struct server *s, uint8_t type, const uint8_t *body, size_t len)
{
	if (type == 'S') {
		server_parameter(s, body, len);
		return true;
	}
	if (type == 'N' || type == 'A')
		return true;
	if (replies_take(&s->replies, type) == VERDICT_BAD) {
		server_close(s, NULL, "unexpected message from server");
		return false;
	}
	if (type == 'E') {
		struct report r;
		struct who who;
		char peer[ADDR_TEXT];
		server_who(s, &who, peer);
		if (report_read(body, len, &r))
			log_line(LOG_WARNING_, &who, "%s: %s", failed_reason(s), r.text);
		server_close(s, NULL, failed_reason(s));
		return false;
	}
	if (type == 'Z' && len == 1) {
		answered(s, (char)body[0]);
		return false;
	}
	return true;
}

size_t ask_bytes(struct server *s, const uint8_t *p, size_t len)
{
	size_t used = 0;
	struct frame f;

	while (used < len) {
		enum parse parsed = frame_peek(p + used, len - used, &f);
		if (parsed == PARSE_MORE)
			break;
		if (parsed == PARSE_BAD || f.size > STREAM_READ_ROOM) { /* a check query has no large answer */
			server_close(s, NULL, "bad message from server");
			return len;
		}
		if (f.have < f.size)
			break;
		used += f.size;
		if (!take_message(s, f.type, p + used - f.size + FRAME_HEAD, f.size - FRAME_HEAD))
			return used;
	}
	return used;
}
