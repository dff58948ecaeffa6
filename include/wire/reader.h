/* Reads the fields of one message body. The error is sticky: read all fields, then ask reader_done once,
 * which is true only when nothing was missing and nothing is left over. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

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
