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

static void settle_front(struct replies *r)
{
	struct reply e = entry_pop(r);

	if (e.kind == REPLY_COPY_END)
		r->copy_in = false;
	r->settled(r->owner, &e);
}

void replies_make_up_(struct replies *r)
{
	do
		settle_front(r);
	while (r->count && reply_needs_no_answer(&r->ring[r->head]));
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
	if (r->count == 0 && !r->midway && reply_needs_no_answer(&e)) {
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

/* What a server's message may be to the entry at the front: its end, or a part of it, by kinds. */
#define KIND(name) (1u << REPLY_##name)
static const struct {
	uint16_t ends, part;
} meanings[256] = {
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
	['Z'] = {.ends = KIND(SYNC) | KIND(QUERY) | KIND(CALL)},
};

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

enum reply_verdict replies_take(struct replies *r, uint8_t type)
{
	struct reply *front = replies_front(r);

	if (type == 'E')
		return take_error(r);
	if (!front)
		return VERDICT_BAD;
	uint32_t kind = 1u << front->kind;
	enum reply_verdict v = verdict_of(front);
	if (meanings[type].part & kind) {
		if (type == 'G')
			copy_in_begins(r);
		return v;
	}
	if (!(meanings[type].ends & kind))
		return VERDICT_BAD;
	if (type == 'Z')
		r->copy_in = false;
	settle_front(r);
	return v;
}

bool replies_has_end(const struct replies *r)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (meanings['Z'].ends & 1u << r->ring[(r->head + i) & (r->room - 1)].kind)
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
		struct reply e = *entry_at(r, --r->count);
		r->undone(r->owner, &e);
	}
	mem_free(r->ring);
	r->ring = NULL;
	r->room = r->head = 0;
	r->skipping = r->copy_in = r->midway = false;
}
