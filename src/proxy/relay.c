/* See proxy/relay.h: what both directions share, and the end of a client that is in the middle of something. */
#include "proxy/relay.h"

#include "proxy/inventory.h"
#include "proxy/link.h"
#include "proxy/place.h"
#include "proxy/refuse.h"
#include "proxy/relay_priv.h"
#include "proxy/speak.h"
#include "proxy/sweep.h"
#include "proxy/throttle.h"
#include "proxy/worker.h"
#include "wire/frame.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

APART void relay_begin_query(struct client *c)
{
	const struct policy *policy = &c->pool->policy;

	c->in_query = true;
	c->query_at = loop_now(c->worker->loop);
	if (policy->query_timeout)
		c->deadline_query = c->query_at + policy->query_timeout;
	if (!c->xact_at) {
		c->xact_at = c->query_at;
		if (policy->transaction_timeout)
			c->deadline_xact = c->xact_at + policy->transaction_timeout;
	}
	if (c->deadline_query || c->deadline_xact)
		sweep_set(c);
}

void relay_watch_idle(struct client *c)
{
	struct server *s = c->server;
	usec_t limit = c->pool->policy.idle_transaction_timeout;

	if (c->ties && c->may_part) /* between transactions */
		limit = c->pool->policy.client_idle_timeout;
	if (!limit || c->throttle || (c->mode == POOL_SESSION && s->status == 'I'))
		return;
	if (c->pass_left || c->unflushed || s->replies.copy_in || replies_empty(&s->replies)) {
		if (!c->deadline_idle) {
			c->deadline_idle = loop_now(c->worker->loop) + limit;
			sweep_set(c);
		}
	} else {
		c->deadline_idle = 0;
	}
}

void relay_part_or_stay(struct client *c)
{
	switch (inventory_next(c)) {
	case INVENTORY_PART:
		link_part(c);
		place_rest(c);
		return;
	case INVENTORY_STAY:
		link_stay(c);
		return;
	case INVENTORY_ASKING:
		return;
	}
}

bool relay_is_seen_through(const struct client *c)
{
	const struct server *s = c->server;
	return !s || s->replies.copy_in || !replies_has_end(&s->replies);
}

void relay_part(struct client *c)
{
	struct server *s = c->server;

	c->server = NULL;
	if (s->asker) {
		server_close(s, NULL, "client gone while its session was looked at");
		return;
	}
	if (c->pass_left && !c->pass_drop) {
		server_close(s, NULL, "client gone in the middle of a message");
		return;
	}
	stream_resume(&s->stream);
	server_abandon(s);
}

/* The batch at the front of what the client sent is refused; a simple query with its own ReadyForQuery, an extended batch up to its Sync. */
void relay_cancel_waiting(struct client *c)
{
	struct span left = stream_left(&c->stream);
	struct frame f;
	struct err err;

	pool_give_up(&c->waiter);
	throttle_leave(c);
	place_stay(c);
	place_rise(c);
	speak_visit_end(c);
	c->deadline_wait = c->deadline_notice = 0;
	if (c->welcome_due || frame_peek(left.p, left.len, &f) != PARSE_OK) {
		err_set(&err, SQLSTATE_CANCELED, "canceling statement due to user request");
		client_close(c, &err, err.text);
		return;
	}
	client_move(c, CLIENT_IDLE);
	link_idle(c);
	err_set(&err, SQLSTATE_CANCELED, "canceling statement due to user request");
	client_error(c, "ERROR", &err);
	refuse_drop(c, &f);
	if (f.type == 'Q' || f.type == 'F') {
		struct buf b = {0};
		msg_ready(&b, 'I');
		client_send(c, &b);
		buf_free(&b);
	} else {
		c->refusing = true;
	}
	stream_resume(&c->stream);
}
