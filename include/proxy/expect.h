/* What goes to the client's server and what it will answer are noted together: each message written to to_server(c) has its expect. */
#pragma once

#include "proxy/link.h"
#include "proxy/parcel.h"
#include "proxy/worker.h"

static inline struct buf *to_server(struct client *c)
{
	return parcel_made(c->worker->to_server);
}

/* What the server will answer, and what our picture rests on until it has. The note is the mark's (pool/replies.h). */
static inline void expect(struct client *c, enum reply_kind kind, enum reply_act act, enum mark mark, void *note)
{
	struct server *s = c->server;

	if (mark >= MARK_FIRST_NOTE)
		s->notes_open++;
	if (mark == MARK_FORGETS)
		s->forgets++;
	replies_push(&s->replies, kind, act, mark, note);
}
