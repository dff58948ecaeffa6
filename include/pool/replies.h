/* What a server still owes, in order. Each message that the server will answer is an entry, marked forward (the client's),
 * skip (ours) or make up (never sent: we answer in its place). Errors, skipped messages up to Sync, COPY and Flush are all
 * settled here, so that reply k belongs to request k, always. Pure: no I/O; the notes are given back to the caller.
 * Protocol: PostgreSQL chapter 55.2. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum reply_kind {
	REPLY_PARSE,
	REPLY_BIND,
	REPLY_DESCRIBE,  /* statement or portal: 't' may come before 'T' or 'n' */
	REPLY_CLOSE,
	REPLY_EXECUTE,
	REPLY_SYNC,
	REPLY_QUERY,
	REPLY_CALL,      /* fast-path function call */
	REPLY_COPY_END,  /* CopyDone or CopyFail: no answer of its own, marks where copy data ends */
};

enum reply_act { REPLY_FORWARD, REPLY_SKIP, REPLY_MAKE_UP };

struct reply {
	uint8_t kind;
	uint8_t act;
	uint16_t mark;   /* the caller's, e.g. which query of ours this is */
	uint32_t tag;    /* the caller's: set after replies_push, 0 else */
	void *note;      /* the caller's; handed back in settled or undone, exactly once */
};

/* An entry with a mark below this is not handed back: there is nothing to do for it. Most are such. */
#define REPLY_MARK_TOLD 2

struct replies {
	struct reply *ring; /* owns; NULL while never used */
	uint32_t head, count, room; /* room is a power of two */
	uint32_t unanswered; /* entries that need no answer of the server, see replies_make_up */
	bool open;      /* what was answered last is in a batch that no Sync has ended yet: its effect hangs on what comes next */
	bool skipping;  /* an extended-protocol error is out and the Sync that ends the skipping was not sent yet */
	bool copy_in;   /* the server reads copy data: it ignores Sync and Flush until CopyDone or CopyFail */
	bool copying;   /* the entry at the front asked for the data, and its COPY is not over */
	bool midway;    /* the owner's: a message is being passed on in pieces, nothing can be made up until it is through */
	/* set by the owner once */
	void (*settled)(void *owner, struct reply *r);            /* answered, or made up now: emit the made-up message if act says so */
	void (*undone)(void *owner, struct reply *r);             /* will never be answered: an earlier message of its batch failed */
	void *owner;
};

void replies_init(struct replies *r, void *owner, void (*settled)(void *, struct reply *), void (*undone)(void *, struct reply *));
void replies_free(struct replies *r); /* undoes what is left */
static inline bool replies_empty(const struct replies *r) { return r->count == 0; }

static inline struct reply *replies_at(struct replies *r, uint32_t i) { return &r->ring[(r->head + i) & (r->room - 1)]; } /* i < count */
/* The entry at the front, NULL: none. */
static inline struct reply *replies_front(struct replies *r) { return r->count ? &r->ring[r->head] : 0; }
/* The entry that was pushed last; there is one. */
static inline struct reply *replies_last(struct replies *r) { return replies_at(r, r->count - 1); }
static inline bool reply_needs_no_answer(const struct reply *e) { return e->act == REPLY_MAKE_UP || e->kind == REPLY_COPY_END; }

/* A message goes out (or is made up). If the server is skipping it is undone at once, but for Sync, which ends the skipping. */
void replies_push_unusual(struct replies *r, struct reply e);
static inline void replies_push(struct replies *r, enum reply_kind kind, enum reply_act act, uint16_t mark, void *note)
{
	struct reply e = {.kind = kind, .act = act, .mark = mark, .note = note};

	if (r->skipping || r->copy_in || reply_needs_no_answer(&e) || r->count == r->room)
		replies_push_unusual(r, e);
	else
		*replies_at(r, r->count++) = e;
}

/* What a server's message may be to the entry at the front, as bits of kinds: its end, or a part of it. */
struct reply_meaning {
	uint16_t ends, part;
};
extern const struct reply_meaning reply_meanings[256];

enum reply_verdict {
	VERDICT_FORWARD,
	VERDICT_SKIP,
	VERDICT_BAD, /* the server said something that nobody asked for: close it */
};
/* The server's message of this type has come (its header at least). Settles what it answers. ErrorResponse: undoes what the
 * server will skip. For asynchronous messages (N A S) it must not be called. replies_make_up is called next, once the message is passed on. */
enum reply_verdict replies_take(struct replies *r, uint8_t type);
/* The same for a message that calls for nothing but being forwarded, as most do. False: it is none of these, and nothing was taken. */
static inline bool replies_take_plain(struct replies *r, uint8_t type)
{
	const struct reply *front = replies_front(r);
	const struct reply_meaning *m = &reply_meanings[type];

	if (!front || front->act != REPLY_FORWARD || r->unanswered || type == 'G' || type == 'Z') /* with these two copy data begins or is over */
		return false;
	if (m->part >> front->kind & 1)
		return front->mark < REPLY_MARK_TOLD || type == 'D'; /* the owner may have a tag of its own for it, but no row */
	if (!(m->ends >> front->kind & 1) || front->mark >= REPLY_MARK_TOLD)
		return false;
	r->open = true; /* none of those that a ReadyForQuery ends */
	r->head = (r->head + 1) & (r->room - 1);
	r->count--;
	return true;
}
/* Settles what stands at the front and needs no answer of the server. Called after the message that replies_take judged was passed on,
 * so that what is made up comes behind it. */
void replies_make_up_(struct replies *r);
static inline void replies_make_up(struct replies *r)
{
	if (r->unanswered)
		replies_make_up_(r);
}
/* Is the server at a query of ours, which ends with a ReadyForQuery of its own? What we put into a batch of the client's (Close, Parse)
 * is a part of that: PostgreSQL keeps the answers to it back until the batch has something to say. */
static inline bool replies_at_own_query(struct replies *r)
{
	const struct reply *front = replies_front(r);
	return front && front->act == REPLY_SKIP && front->kind == REPLY_QUERY;
}
bool replies_has_end(const struct replies *r); /* is a Sync, Query or function call among them: will a ReadyForQuery come */
bool replies_has_forward(const struct replies *r); /* does the client await anything */
