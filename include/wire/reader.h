/* Reads the fields of one message body. The error is sticky: read all fields, then ask reader_done once,
 * which is true only when nothing was missing and nothing is left over. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

struct reader {
	const uint8_t *p; /* borrows */
	const uint8_t *end;
	bool bad;
};

static inline struct reader reader_of(const void *p, size_t len) { return (struct reader){(const uint8_t *)p, len ? (const uint8_t *)p + len : (const uint8_t *)p, false}; }
uint8_t read_u8(struct reader *r);
uint16_t read_u16(struct reader *r);
uint32_t read_u32(struct reader *r);
const char *read_str(struct reader *r);          /* up to its NUL; "" after an error */
struct span read_bytes(struct reader *r, size_t n);
static inline size_t reader_left(const struct reader *r) { return (size_t)(r->end - r->p); }
static inline bool reader_done(const struct reader *r) { return !r->bad && r->p == r->end; }
/* Where the text at p ends: its NUL, NULL if there is none in len bytes. Mostly a name is empty. */
static inline const uint8_t *str_end(const uint8_t *p, size_t len) { return len && *p == 0 ? p : memchr(p, 0, len); }
/* A command tag, which stands in CommandComplete and perhaps goes on with a count. */
static inline bool tag_is(const uint8_t *tag, size_t len, const char *what)
{
	size_t n = strlen(what);
	return len >= n && memcmp(tag, what, n) == 0;
}
