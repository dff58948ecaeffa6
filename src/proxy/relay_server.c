/* See proxy/relay.h: server bytes -> frame -> replies -> to_client parcel -> one send. */
#include "proxy/relay.h"

#include "cluster/fence.h"
#include "pool/order.h"
#include "proxy/deallocate.h"
#include "proxy/effect.h"
#include "proxy/fence.h"
#include "proxy/inventory.h"
#include "proxy/link.h"
#include "proxy/naming.h"
#include "proxy/nudge.h"
#include "proxy/parcel.h"
#include "proxy/place.h"
#include "proxy/relay_priv.h"
#include "proxy/worker.h"
#include "wire/frame.h"
#include "wire/report.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

static size_t bad_server(struct server *s, const char *text, size_t len)
{
	struct client *c = s->user;
	struct err err;

	if (c)
		parcel_send(c->worker->to_client, &c->stream);
	err_set(&err, SQLSTATE_SERVER_LOST, "%s", text);
	server_close(s, &err, text);
	return len;
}

/* The end of a block that was opened for its batch ends the client's own. */
static bool at_our_query(struct replies *r)
{
	return replies_at_own_query(r) && replies_front(r)->mark != MARK_UNWRAP;
}

/* ParameterStatus: for the client if it is the answer to something the client did, or if our SET came out in another spelling. */
void relay_parameter(struct server *s, struct client *c, const uint8_t *p, const struct frame *f)
{
	bool ours = at_our_query(&s->replies);
	struct reply *front = replies_front(&s->replies);
	int i = server_parameter(s, p + FRAME_HEAD, f->size - FRAME_HEAD);

	if (i < 0) {
		if (!ours)
			parcel_pass(c->worker->to_client, p, f->size);
		return;
	}
	if (s->read_only && server_is_lifted(s)) {
		fence_lifted(s);
		return;
	}
	struct guc_value *now = s->gucs.at[i];
	if (c->welcome_due)
		return; /* it is told all when its login is through */
	if (ours && (front->mark != MARK_SETTINGS || !c->gucs.at[i] || c->gucs.at[i] == now))
		return;
	if (!ours || c->gucs.at[i] != now)
		parcel_pass(c->worker->to_client, p, f->size);
	link_keep_gucs(c);
	link_keep_start(c, i);
	gucs_set(&c->gucs, i, now == s->gucs_at_login.at[i] ? NULL : guc_ref(now));
}

/* A tag says that statements are gone: DEALLOCATE ALL and DISCARD ALL, however they were sent. */
static void take_tag(struct server *s, struct client *c, const uint8_t *tag, size_t len)
{
	if (tag[0] != 'L')
		link_note_tag(c, tag, len);
	if (len < 8 || tag[0] != 'D' || tag[1] == 'E' ? len < 15 || memcmp(tag, "DEALLOCATE ALL", 15) != 0 : len < 12 || memcmp(tag, "DISCARD ALL", 12) != 0)
		return;
	if (tag[1] != 'E') {
		server_discarded(s);
		inventory_discarded(c); /* settings that it reports it will say are back */
	}
	link_statements_gone(c);
}

/* Our own SET or reset failed: the server is of no use to this client, and the client cannot have what it asked for. */
static void settings_failed(struct server *s, struct client *c, const struct report *r)
{
	struct err err;

	err_set(&err, r->sqlstate[0] ? r->sqlstate : SQLSTATE_BAD_VALUE, "%s", r->text);
	parcel_drop(c->worker->to_client);
	c->server = NULL;
	server_close(s, NULL, "invalid server parameter");
	client_close(c, &err, "invalid server parameter");
}

static void last_words(struct server *s, const struct report *r)
{
	static struct log_limit limit;
	struct who who;
	char peer[ADDR_TEXT];

	s->said_fatal = true;
	server_who(s, &who, peer);
	log_limited(&limit, LOG_WARNING_, &who, "server said %s %s: %s", r->severity, r->sqlstate, r->text);
}

/* The COPY failed on data that stands before these: the server answers them. */
static void send_kept_syncs(struct server *s, struct client *c, uint32_t n)
{
	struct buf b = {0};

	c->copy_syncs = 0;
	while (n--) {
		msg_empty(&b, 'S');
		replies_push(&s->replies, REPLY_SYNC, REPLY_FORWARD, MARK_NONE, NULL);
	}
	stream_send(&s->stream, b.p, b.len);
	buf_free(&b);
}

/* False: server and client are closed. */
static bool take_error(struct server *s, struct client *c, const uint8_t *p, const struct frame *f)
{
	struct reply *front = replies_front(&s->replies);
	struct buf *made = parcel_made(c->worker->to_client);
	struct report r;

	if (!report_read(p + FRAME_HEAD, f->size - FRAME_HEAD, &r)) {
		bad_server(s, "malformed error from server", 0);
		return false;
	}
	if (strcmp(r.severity, "FATAL") == 0 || strcmp(r.severity, "PANIC") == 0)
		last_words(s, &r);
	if (at_our_query(&s->replies)) {
		settings_failed(s, c, &r);
		return false;
	}
	uint64_t plan = front && front->mark == MARK_PLAN ? (uintptr_t)front->note : 0;
	if (front && front->mark == MARK_REFUSED)
		report_error(made, "ERROR", ((struct err *)front->note)->sqlstate, "%s", ((struct err *)front->note)->text);
	else if (front && front->mark == MARK_DUPLICATE && strcmp(r.sqlstate, SQLSTATE_STATEMENT_EXISTS) == 0)
		report_error(made, "ERROR", SQLSTATE_STATEMENT_EXISTS, "prepared statement \"%s\" already exists", (const char *)front->note);
	else if (!naming_error(c, p + FRAME_HEAD, f->size - FRAME_HEAD, made))
		parcel_pass(c->worker->to_client, p, f->size);
	if (front && front->mark == MARK_DEALLOCATE && front->kind == REPLY_QUERY)
		link_deallocate_failed(c, front);
	if (front && front->mark == MARK_UNNAMED)
		link_unnamed_failed(front);
	uint32_t syncs = s->replies.copy_in ? c->copy_syncs : 0;
	replies_take(&s->replies, 'E'); /* which also takes back what was noted of statements behind the error */
	if (plan)
		link_plan_refused(c, plan, r.sqlstate);
	if (syncs)
		send_kept_syncs(s, c, syncs);
	return true;
}

static void count_query(struct client *c, char status)
{
	struct pool_counts *n = &c->pool->counts;
	usec_t now = loop_now(c->worker->loop);

	c->in_query = false;
	c->deadline_query = 0;
	count_add(&n->queries, 1);
	count_add(&n->query_us, (uint64_t)(now - c->query_at));
	if (status != 'I')
		return;
	c->toll = TOLL_NONE;
	if (c->stray)
		place_note_use(c);
	count_add(&n->xacts, 1);
	count_add(&n->xact_us, (uint64_t)(now - c->xact_at));
	c->xact_at = 0;
	c->deadline_xact = 0;
	if (c->gucs_before)
		link_forget_gucs(c);
}

/* ReadyForQuery that was for the client. True: the two may part. */
static bool client_ready(struct server *s, struct client *c)
{
	count_query(c, s->status);
	if (!replies_empty(&s->replies)) {
		relay_query_begins(c);
		return false;
	}
	c->ran = false;
	c->worst = EFFECT_READS;
	if (s->status == 'I')
		portals_clear(c);
	if (c->mode == POOL_SESSION) {
		c->link_due = s->status == 'I' && c->named != s->named; /* org_guc, since a RESET ALL */
		return false;
	}
	return server_is_clean(s);
}

/* In a block that was opened for its batch, or is being ended. */
static bool is_wrapped(const struct server *s, const struct client *c)
{
	const struct reply *front = replies_front((struct replies *)&s->replies);
	return c->fence_batch & FENCE_WRAPPED || (front && front->mark == MARK_UNWRAP);
}

static bool breaks_statement_mode(const struct server *s, const struct client *c)
{
	return c->mode == POOL_STATEMENT && s->status != 'I' && !is_wrapped(s, c);
}

/* One message that is there as a whole. False: stop, the two have parted or are closed. */
static bool server_message(struct server *s, struct client *c, const uint8_t *p, const struct frame *f)
{
	struct parcel *out = c->worker->to_client;
	struct reply *front = replies_front(&s->replies);
	bool stands_in = front && front->mark == MARK_DEALLOCATE;
	bool unwraps = front && front->mark == MARK_UNWRAP && f->type == 'Z';

	switch (f->type) {
	case 'S':
		relay_parameter(s, c, p, f);
		return s->state == SERVER_ACTIVE;
	case 'E':
		if (!take_error(s, c, p, f))
			return false;
		replies_make_up(&s->replies);
		return true;
	case 'C':
		if (front && front->act == REPLY_FORWARD) {
			take_tag(s, c, p + FRAME_HEAD, f->size - FRAME_HEAD);
			if (c->unread_text || p[FRAME_HEAD] == 'L')
				inventory_note_tag(c, p + FRAME_HEAD, f->size - FRAME_HEAD);
		}
		break;
	case 'Z':
		if (f->size != FRAME_HEAD + 1)
			return bad_server(s, "malformed ReadyForQuery from server", 0);
		s->status = (char)p[FRAME_HEAD];
		if (c->changes_schema && s->status == 'I')
			link_schema_changed(c);
		if (c->reset_due && s->status == 'I' && front && front->act == REPLY_FORWARD)
			link_start_values(c);
		break;
	default:
		break;
	}
	switch (replies_take(&s->replies, f->type)) {
	case VERDICT_BAD:
		bad_server(s, "unexpected message from server", 0);
		return false;
	case VERDICT_SKIP:
		if (unwraps)
			break;
		replies_make_up(&s->replies);
		return true;
	case VERDICT_FORWARD:
		if (s->read_only && f->type == 'Z' && fence_keeps_ready(c))
			return true;
		break;
	}
	if (stands_in && f->type == 'C')
		msg_complete(parcel_made(out), "DEALLOCATE");
	else
		parcel_pass(out, p, f->size);
	replies_make_up(&s->replies);
	if (f->type == 'Z')
		c->may_part = client_ready(s, c);
	return true;
}

/* A notice is about the message at the front. A Parse that has one is the client's own: whoever parses that text next is told as well. */
static enum reply_verdict notice_verdict(struct reply *front)
{
	if (front && front->mark == MARK_NAMED)
		stmt_retire(((struct stmt_name *)front->note)->stmt);
	return front && front->act == REPLY_SKIP ? VERDICT_SKIP : VERDICT_FORWARD;
}

/* A message that passes as it comes: its first piece is judged, and handed on if the message is there as a whole; else the pieces follow. */
static bool server_passes(struct server *s, struct client *c, const uint8_t *p, const struct frame *f)
{
	enum reply_verdict v;

	if (f->type == 'N')
		v = notice_verdict(replies_front(&s->replies));
	else if (f->type == 'A')
		v = at_our_query(&s->replies) ? VERDICT_SKIP : VERDICT_FORWARD;
	else
		v = replies_take(&s->replies, f->type);
	if (v == VERDICT_BAD) {
		bad_server(s, "unexpected message from server", 0);
		return false;
	}
	if (f->have < f->size) {
		s->pass_left = f->size;
		s->pass_drop = v == VERDICT_SKIP;
		s->replies.midway = true;
		return true;
	}
	if (v == VERDICT_FORWARD)
		parcel_pass(c->worker->to_client, p, f->size);
	replies_make_up(&s->replies);
	return true;
}

static size_t pass_server(struct server *s, struct client *c, const uint8_t *p, size_t len)
{
	uint32_t n = len < s->pass_left ? (uint32_t)len : s->pass_left;

	if (!s->pass_drop)
		parcel_pass(c->worker->to_client, p, n);
	s->pass_left -= n;
	if (s->pass_left == 0) {
		s->replies.midway = false;
		replies_make_up(&s->replies);
	}
	return n;
}

/* Is it a tag that has to be read: DEALLOCATE, DISCARD, LOAD, those that change the schema (ALTER, DROP, CREATE), or any behind a text
 * that was not? */
static inline bool is_telling_tag(const struct client *c, const struct frame *f, const uint8_t *p)
{
	uint8_t first = f->type == 'C' && f->size > FRAME_HEAD + 1 ? p[FRAME_HEAD] : 0;
	return f->type == 'C' && (first == 0 || first == 'D' || first == 'L' || first == 'A' || (first == 'C' && p[FRAME_HEAD + 1] == 'R') || c->unread_text);
}

/* Messages that are there as a whole and call for nothing but being passed on, as most do, pass at once. Returns their size. */
static inline size_t pass_plain(struct server *s, struct client *c, const uint8_t *p, size_t len)
{
	size_t n = 0;
	struct frame f;

	while (frame_peek(p + n, len - n, &f) == PARSE_OK && f.have == f.size && !is_telling_tag(c, &f, p + n) && replies_take_plain(&s->replies, f.type))
		n += f.size;
	if (n)
		parcel_pass(c->worker->to_client, p, n);
	return n;
}

static void send_back(struct server *s, struct client *c)
{
	if (parcel_empty(c->worker->to_client))
		return;
	parcel_send(c->worker->to_client, &c->stream);
	if (stream_is_full(&c->stream))
		stream_pause(&s->stream);
}

/* What follows from the bytes that were passed on. Anything of the server's that is left over keeps the two together: an idle server
 * has nothing to say. */
static void settle_link(struct server *s, struct client *c, bool all)
{
	if (c->holding) { /* it looks again */
		c->holding = false;
		stream_resume(&c->stream);
	}
	if (c->welcome_due) {
		if (all && server_is_clean(s))
			loop_later(c->worker->loop, &c->welcome_later);
	} else if (c->leaving && all && s->pass_left == 0 && relay_is_seen_through(c)) {
		client_leave(c, "client close request");
	} else if (c->mode == POOL_SESSION && s->stale && server_is_fast_closed(s)) {
		server_make_stale(s, "database configuration changed");
	} else if (c->may_part && all && c->pass_left == 0) {
		relay_part_or_stay(c);
	} else {
		if (s->word == WORD_OVER) /* who freezes its org waits for what it was doing */
			order_check(s->lane);
		relay_watch_idle(c);
	}
}

static size_t relay_server_bytes(struct stream *st, const uint8_t *p, size_t len)
{
	struct server *s = st->owner;
	struct client *c = s->user;
	size_t used = 0;
	struct frame f;

	stream_want(st, 0);
	while (used < len) {
		if (s->pass_left) {
			used += pass_server(s, c, p + used, len - used);
			continue;
		}
		used += pass_plain(s, c, p + used, len - used);
		enum parse parsed = frame_peek(p + used, len - used, &f);
		if (parsed == PARSE_MORE)
			break;
		uint8_t treat = parsed == PARSE_BAD ? TREAT_BAD : treat_of_server[f.type];
		if (treat == TREAT_BAD)
			return bad_server(s, "bad message from server", len);
		if (treat == TREAT_PASS) {
			if (!server_passes(s, c, p + used, &f))
				return len;
			used += s->pass_left ? 0 : f.size;
			continue;
		}
		if (f.have < f.size) {
			stream_want(st, f.size);
			break;
		}
		if (!server_message(s, c, p + used, &f))
			return len;
		used += f.size;
	}
	count_add(&s->pool->counts.sent, used);
	send_back(s, c);
	if (breaks_statement_mode(s, c)) {
		struct err err;
		err_set(&err, SQLSTATE_PROTOCOL, "transaction blocks not allowed in statement pooling mode");
		client_close(c, &err, err.text);
		return used;
	}
	settle_link(s, c, used == len);
	return used;
}

static void relay_server_drained(struct stream *st)
{
	struct server *s = st->owner;
	struct client *c = s->user;

	if (c && c->state == CLIENT_ACTIVE)
		stream_resume(&c->stream);
}

/* Was something sent whose effect may have become lasting, and no answer has told? */
static bool outcome_is_unknown(const struct server *s, const struct client *c)
{
	enum effect effect = effect_outcome(c);

	return effect == EFFECT_ENDS || (s->status == 'I' && effect == EFFECT_WRITES);
}

static void relay_lost(struct server *s, const struct err *why)
{
	struct client *c = s->user;

	struct err lost = *why;

	c->server = NULL;
	parcel_drop(c->worker->to_server);
	if (strcmp(why->sqlstate, SQLSTATE_SERVER_LOST) == 0 && c->in_query && outcome_is_unknown(s, c))
		err_set(&lost, SQLSTATE_OUTCOME_UNKNOWN, "%s (the outcome of the last statement is unknown)", why->text);
	client_close(c, s->said_fatal ? NULL : &lost, why->text);
}

const struct server_user_calls relay_server_calls = {
	.bytes = relay_server_bytes,
	.drained = relay_server_drained,
	.lost = relay_lost,
	.settled = link_settled,
	.undone = link_undone,
	.cap_room = nudge_cap_room,
	.cap_wanted = nudge_cap_wanted,
};
