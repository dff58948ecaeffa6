/* What stands at the front of a byte stream: one message's type and length.
 * PostgreSQL documentation, chapter 55.7 "Message Formats". Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum parse { PARSE_OK, PARSE_MORE, PARSE_BAD };

/* How the relay treats a message: hand it through as it comes; hand it through once its first fields are there;
 * only when all of it is there. From messages.def. */
enum treat { TREAT_BAD, TREAT_PASS, TREAT_PEEK, TREAT_WHOLE };

struct frame {
	uint8_t type;
	uint32_t size; /* of the whole message, type byte and length word included: 5 .. 2^30+1 */
	size_t have;   /* so much of it is in the span */
};

#define FRAME_HEAD 5
#define FRAME_MOST (1024u * 1024 * 1024 + 1) /* PostgreSQL's own limit, PQ_LARGE_MESSAGE_LIMIT, MaxAllocSize */

/* Inline: it runs for every message. */
static inline enum parse frame_peek(const uint8_t *p, size_t len, struct frame *f)
{
	if (len < FRAME_HEAD)
		return PARSE_MORE;
	uint32_t n = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
	if (n < 4 || n >= FRAME_MOST)
		return PARSE_BAD;
	f->type = p[0];
	f->size = n + 1;
	f->have = len < f->size ? len : f->size;
	return PARSE_OK;
}

/* Of a message that is not all there, so many bytes are asked for next: twice what there is, `least` at least, and no more than it has. What a peer
 * says a message will be is believed only as far as it has come. */
static inline uint32_t frame_want(const struct frame *f, size_t least)
{
	size_t want = f->have * 2 > least ? f->have * 2 : least;
	return f->size < want ? f->size : (uint32_t)want;
}

extern const uint8_t treat_of_client[256]; /* enum treat by type, what a logged-in client may send */
extern const uint8_t treat_of_server[256]; /* what a server may send after login */
const char *message_name(bool from_client, uint8_t type); /* "Parse"; "unknown" */
