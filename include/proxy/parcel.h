/* What is put together for one send: runs of bytes handed through from the read buffer, and messages of our own between them.
 * Runs that touch are joined, so that plain pass-through is one piece and one send. One parcel per direction and worker; it is sent before
 * the read buffer is used again. */
#pragma once

#include "base/buf.h"
#include "net/stream.h"

#define PARCEL_PIECES 64

struct piece {
	const uint8_t *p; /* borrows the read buffer; NULL: stands in made, at `at` */
	size_t at;
	size_t len;
};

struct parcel {
	int n;
	const uint8_t *run_end; /* where the last piece ends, if it is a run: what stands there is joined to it; NULL: it is none */
	struct piece *run;      /* ... and that piece */
	struct buf made; /* owns */
	size_t noted;    /* so much of made is in pieces */
	struct piece pieces[PARCEL_PIECES];
};

static inline bool parcel_empty(const struct parcel *p) { return p->n == 0 && p->made.len == p->noted; }
void parcel_add(struct parcel *p, const uint8_t *bytes, size_t len);
/* Inline: it runs for every message, and nearly always the run goes on. */
static inline void parcel_pass(struct parcel *p, const uint8_t *bytes, size_t len)
{
	if (bytes == p->run_end && p->made.len == p->noted) {
		p->run->len += len;
		p->run_end += len;
	} else {
		parcel_add(p, bytes, len);
	}
}
/* Where messages of our own are appended; they come behind what was passed so far. */
static inline struct buf *parcel_made(struct parcel *p) { return &p->made; }
void parcel_send(struct parcel *p, struct stream *to); /* empties it */
void parcel_drop(struct parcel *p);                    /* empties it unsent */
void parcel_free(struct parcel *p);
