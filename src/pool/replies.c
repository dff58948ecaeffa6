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

#define KIND(name) (1u << REPLY_##name)
#define ENDS_BATCH (KIND(SYNC) | KIND(QUERY) | KIND(CALL)) /* ReadyForQuery follows */

static void ring_grow(struct replies *r)
{
	uint32_t room = r->room ? r->room * 2 : RING_START;
	struct reply *ring = mem_new(room * sizeof(*ring));

	for (uint32_t i = 0; i < r->count; i++)
		ring[i] = *replies_at(r, i);
	mem_free(r->ring);
	r->ring = ring;
	r->head = 0;
	r->room = room;
}

static void front_out(struct replies *r)
{
	r->head = (r->head + 1) & (r->room - 1);
	r->count--;
}

static void tell_settled(struct replies *r, struct reply *e)
{
	if (e->mark >= REPLY_MARK_TOLD)
		r->settled(r->owner, e);
}

static void tell_undone(struct replies *r, struct reply *e)
{
	if (e->mark >= REPLY_MARK_TOLD)
		r->undone(r->owner, e);
}

static APART void settle_told(struct replies *r)
{
	struct reply e = *replies_at(r, 0);

	front_out(r);
	r->settled(r->owner, &e);
}

static void settle_front(struct replies *r)
{
	const struct reply *front = &r->ring[r->head];

	if (front->kind != REPLY_COPY_END)
		r->open = !(ENDS_BATCH & 1u << front->kind);
	if (front->mark < REPLY_MARK_TOLD)
		front_out(r);
	else
		settle_told(r);
}

void replies_make_up_(struct replies *r)
{
	while (r->count && !r->midway && reply_needs_no_answer(replies_at(r, 0))) {
		r->unanswered--;
		if (replies_at(r, 0)->kind == REPLY_COPY_END)
			r->copy_in = false;
		settle_front(r);
	}
}

static void push(struct replies *r, struct reply e)
{
	if (r->count == r->room)
		ring_grow(r);
	*replies_at(r, r->count++) = e;
}

/* The server skips or reads copy data, or there is no message behind the entry that it would answer, or the ring is full. */
SELDOM void replies_push_unusual(struct replies *r, struct reply e)
{
	if (r->skipping && e.kind != REPLY_SYNC) {
		tell_undone(r, &e);
		return;
	}
	if (e.kind == REPLY_SYNC) {
		if (r->copy_in) { /* read and ignored by the server */
			tell_undone(r, &e);
			return;
		}
		r->skipping = false;
	}
	if (e.kind == REPLY_COPY_END)
		r->copy_in = false; /* what is sent behind it is read by the server as usual */
	if (!reply_needs_no_answer(&e)) {
		push(r, e);
	} else if (r->count || r->midway) {
		r->unanswered++;
		push(r, e);
	} else {
		tell_settled(r, &e);
	}
}

/* After an error in the extended protocol the server reads and drops everything up to Sync. Undone last first, so that each finds
 * the names as it left them. */
static void undo_to_sync(struct replies *r)
{
	uint32_t n = 0;

	while (n < r->count && replies_at(r, n)->kind != REPLY_SYNC)
		n++;
	if (n == r->count)
		r->skipping = true;
	for (uint32_t i = n; i-- > 0;) {
		struct reply e = *replies_at(r, i);
		r->unanswered -= reply_needs_no_answer(&e);
		tell_undone(r, &e);
	}
	r->head = (r->head + n) & (r->room - 1);
	r->count -= n;
}

/* The server reads copy data now. A Sync that stands before the end of the data is among what it ignores. */
static SELDOM void copy_in_begins(struct replies *r)
{
	uint32_t kept = 1; /* the Execute or Query at the front */
	bool data_ends = false;

	for (uint32_t i = 1; i < r->count; i++) {
		struct reply e = *replies_at(r, i);
		if (e.kind == REPLY_COPY_END)
			data_ends = true;
		if (e.kind == REPLY_SYNC && !data_ends) {
			tell_undone(r, &e);
			continue;
		}
		*replies_at(r, kept++) = e;
	}
	r->count = kept;
	r->copy_in = !data_ends;
	r->copying = true;
}

/* The COPY of a Query has come through: the end of its data is used up, what stands behind it may be for the next COPY of the same Query. */
static void copy_in_is_over(struct replies *r)
{
	struct reply end = {0};
	uint32_t kept = 0;
	bool found = false;

	for (uint32_t i = 0; i < r->count; i++) {
		struct reply e = *replies_at(r, i);
		if (e.kind == REPLY_COPY_END && !found) {
			found = true;
			end = e;
			continue;
		}
		*replies_at(r, kept++) = e;
	}
	r->count = kept;
	r->copying = false;
	if (!found)
		return;
	r->unanswered--;
	tell_settled(r, &end);
}

static enum reply_verdict verdict_of(const struct reply *e)
{
	return e->act == REPLY_SKIP ? VERDICT_SKIP : VERDICT_FORWARD;
}

const struct reply_meaning reply_meanings[256] = {
	['1'] = {.ends = KIND(PARSE)},
	['2'] = {.ends = KIND(BIND)},
	['3'] = {.ends = KIND(CLOSE)},
	['t'] = {.part = KIND(DESCRIBE)},
	['T'] = {.ends = KIND(DESCRIBE), .part = KIND(QUERY)},
	['n'] = {.ends = KIND(DESCRIBE)},
	['D'] = {.part = KIND(QUERY) | KIND(EXECUTE)},
	['H'] = {.part = KIND(QUERY) | KIND(EXECUTE)},
	['W'] = {.part = KIND(QUERY) | KIND(EXECUTE)},
	['d'] = {.part = KIND(QUERY) | KIND(EXECUTE)},
	['c'] = {.part = KIND(QUERY) | KIND(EXECUTE)},
	['G'] = {.part = KIND(QUERY) | KIND(EXECUTE)},
	['C'] = {.ends = KIND(EXECUTE), .part = KIND(QUERY)},
	['I'] = {.ends = KIND(EXECUTE), .part = KIND(QUERY)},
	['s'] = {.ends = KIND(EXECUTE)},
	['V'] = {.part = KIND(CALL)},
	['Z'] = {.ends = ENDS_BATCH},
};

static SELDOM enum reply_verdict take_error(struct replies *r)
{
	struct reply *front = replies_front(r);
	if (!front)
		return VERDICT_FORWARD; /* the server says why it ends */
	r->copy_in = r->copying = false;
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

enum reply_verdict replies_take(struct replies *r, uint8_t type)
{
	struct reply *front = replies_front(r);

	if (type == 'E')
		return take_error(r);
	if (!front)
		return VERDICT_BAD;
	uint32_t kind = 1u << front->kind;
	enum reply_verdict v = verdict_of(front);
	if (reply_meanings[type].part & kind) {
		if (type == 'G')
			copy_in_begins(r);
		if (type == 'C' && r->copying)
			copy_in_is_over(r);
		return v;
	}
	if (!(reply_meanings[type].ends & kind))
		return VERDICT_BAD;
	if (type == 'Z')
		r->copy_in = false;
	r->copying = false;
	settle_front(r);
	return v;
}

bool replies_has_end(const struct replies *r)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (ENDS_BATCH & 1u << r->ring[(r->head + i) & (r->room - 1)].kind)
			return true;
	return false;
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
		struct reply e = *replies_at(r, --r->count);
		tell_undone(r, &e);
	}
	mem_free(r->ring);
	r->ring = NULL;
	r->room = r->head = r->unanswered = 0;
	r->open = r->skipping = r->copy_in = r->copying = r->midway = false;
}
