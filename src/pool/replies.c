/* See pool/replies.h. The ring grows by doubling; an idle server's ring is empty and small.
 *
 * Two kinds of entry have no answer of their own and are settled as soon as they reach the front:
 * a reply that is made up (the message was never sent), and COPY_END. */
#include "pool/replies.h"

#include <stddef.h>

#include "base/mem.h"
#include "base/verify.h"

#define RING_START 16

void replies_init(struct replies *r, void *owner, void (*settled)(void *, struct reply *), void (*undone)(void *, struct reply *))
{
	*r = (struct replies){.owner = owner, .settled = settled, .undone = undone};
}

static struct reply *entry_at(struct replies *r, uint32_t i)
{
	return &r->ring[(r->head + i) & (r->room - 1)];
}

static struct reply entry_pop(struct replies *r)
{
	struct reply e = r->ring[r->head];
	r->head = (r->head + 1) & (r->room - 1);
	r->count--;
	return e;
}

static void ring_grow(struct replies *r)
{
	uint32_t room = r->room ? r->room * 2 : RING_START;
	struct reply *ring = mem_new(room * sizeof(*ring));

	for (uint32_t i = 0; i < r->count; i++)
		ring[i] = *entry_at(r, i);
	mem_free(r->ring);
	r->ring = ring;
	r->head = 0;
	r->room = room;
}

static bool needs_no_answer(const struct reply *e)
{
	return e->act == REPLY_MAKE_UP || e->kind == REPLY_COPY_END;
}

static void settle_front(struct replies *r)
{
	struct reply e = entry_pop(r);

	if (e.kind == REPLY_COPY_END)
		r->copy_in = false;
	r->settled(r->owner, &e);
}

void replies_make_up(struct replies *r)
{
	while (r->count && needs_no_answer(&r->ring[r->head]))
		settle_front(r);
}

void replies_push(struct replies *r, enum reply_kind kind, enum reply_act act, uint16_t mark, void *note)
{
	struct reply e = {kind, act, mark, note};

	if (r->skipping && kind != REPLY_SYNC) {
		r->undone(r->owner, &e);
		return;
	}
	if (kind == REPLY_SYNC) {
		if (r->copy_in) { /* read and ignored by the server */
			r->undone(r->owner, &e);
			return;
		}
		r->skipping = false;
	}
	if (r->count == 0 && needs_no_answer(&e)) {
		if (kind == REPLY_COPY_END)
			r->copy_in = false;
		r->settled(r->owner, &e);
		return;
	}
	if (r->count == r->room)
		ring_grow(r);
	*entry_at(r, r->count++) = e;
	if (kind == REPLY_COPY_END)
		r->copy_in = false; /* what is sent behind it is read by the server as usual */
}

/* After an error in the extended protocol the server reads and drops everything up to Sync. Undone last first, so that each finds
 * the names as it left them. */
static void undo_to_sync(struct replies *r)
{
	uint32_t n = 0;

	while (n < r->count && entry_at(r, n)->kind != REPLY_SYNC)
		n++;
	if (n == r->count)
		r->skipping = true;
	for (uint32_t i = n; i-- > 0;) {
		struct reply e = *entry_at(r, i);
		r->undone(r->owner, &e);
	}
	r->head = (r->head + n) & (r->room - 1);
	r->count -= n;
}

/* The server reads copy data now. A Sync that stands before the end of the data is among what it ignores. */
static void copy_in_begins(struct replies *r)
{
	uint32_t kept = 1; /* the Execute or Query at the front */
	bool data_ends = false;

	for (uint32_t i = 1; i < r->count; i++) {
		struct reply e = *entry_at(r, i);
		if (e.kind == REPLY_COPY_END)
			data_ends = true;
		if (e.kind == REPLY_SYNC && !data_ends) {
			r->undone(r->owner, &e);
			continue;
		}
		*entry_at(r, kept++) = e;
	}
	r->count = kept;
	r->copy_in = !data_ends;
}

static enum reply_verdict verdict_of(const struct reply *e)
{
	return e->act == REPLY_SKIP ? VERDICT_SKIP : VERDICT_FORWARD;
}

/* The message answers the front entry if that is of this kind, and is its last. */
static enum reply_verdict answer(struct replies *r, enum reply_kind kind)
{
	struct reply *front = replies_front(r);
	if (!front || front->kind != kind)
		return VERDICT_BAD;
	enum reply_verdict v = verdict_of(front);
	settle_front(r);
	return v;
}

/* The message is part of the answer to a front entry of one of two kinds, of which the first goes on. */
static enum reply_verdict part_of(struct replies *r, enum reply_kind a, enum reply_kind b)
{
	struct reply *front = replies_front(r);
	if (!front || (front->kind != a && front->kind != b))
		return VERDICT_BAD;
	return verdict_of(front);
}

static enum reply_verdict take_error(struct replies *r)
{
	struct reply *front = replies_front(r);
	if (!front)
		return VERDICT_FORWARD; /* the server says why it ends */
	r->copy_in = false;
	switch (front->kind) {
	case REPLY_QUERY:
	case REPLY_CALL:
	case REPLY_SYNC:
		return verdict_of(front); /* ReadyForQuery follows */
	default: {
		/* Also when the message was ours (a statement prepared ahead): its error stands for the client's. */
		undo_to_sync(r);
		return VERDICT_FORWARD;
	}
	}
}

static enum reply_verdict take_ready(struct replies *r)
{
	struct reply *front = replies_front(r);
	if (!front || (front->kind != REPLY_SYNC && front->kind != REPLY_QUERY && front->kind != REPLY_CALL))
		return VERDICT_BAD;
	enum reply_verdict v = verdict_of(front);
	r->copy_in = false;
	settle_front(r);
	return v;
}

enum reply_verdict replies_take(struct replies *r, uint8_t type, struct reply *failed)
{
	struct reply *front = replies_front(r);

	switch (type) {
	case '1':
		return answer(r, REPLY_PARSE);
	case '2':
		return answer(r, REPLY_BIND);
	case '3':
		return answer(r, REPLY_CLOSE);
	case 't':
		return part_of(r, REPLY_DESCRIBE, REPLY_DESCRIBE);
	case 'T':
	case 'n':
		if (front && front->kind == REPLY_DESCRIBE)
			return answer(r, REPLY_DESCRIBE);
		return type == 'T' ? part_of(r, REPLY_QUERY, REPLY_QUERY) : VERDICT_BAD;
	case 'D':
	case 'H':
	case 'W':
	case 'd':
	case 'c':
		return part_of(r, REPLY_QUERY, REPLY_EXECUTE);
	case 'G':
		if (part_of(r, REPLY_QUERY, REPLY_EXECUTE) == VERDICT_BAD)
			return VERDICT_BAD;
		copy_in_begins(r);
		return verdict_of(replies_front(r));
	case 'C':
	case 'I':
		if (front && front->kind == REPLY_QUERY)
			return verdict_of(front);
		return answer(r, REPLY_EXECUTE);
	case 's':
		return answer(r, REPLY_EXECUTE);
	case 'V':
		return part_of(r, REPLY_CALL, REPLY_CALL);
	case 'E':
		if (failed)
			*failed = front ? *front : (struct reply){0};
		return take_error(r);
	case 'Z':
		return take_ready(r);
	default:
		return VERDICT_BAD;
	}
}

bool replies_has_forward(const struct replies *r)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (r->ring[(r->head + i) & (r->room - 1)].act != REPLY_SKIP)
			return true;
	return false;
}

void replies_free(struct replies *r)
{
	while (r->count) {
		struct reply e = *entry_at(r, --r->count);
		r->undone(r->owner, &e);
	}
	mem_free(r->ring);
	r->ring = NULL;
	r->room = r->head = 0;
	r->skipping = r->copy_in = false;
}
