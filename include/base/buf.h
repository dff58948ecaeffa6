/* A growable byte buffer, and a span of bytes that somebody else owns. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct span {
	const uint8_t *p; /* borrows */
	size_t len;
};

struct buf {
	uint8_t *p; /* owns; NULL while empty */
	size_t len;
	size_t room;
};

void buf_need(struct buf *b, size_t more);            /* room for so many more; aborts when there is none */
uint8_t *buf_more(struct buf *b, size_t n);           /* n more bytes, for the caller to fill in at once */
void buf_add(struct buf *b, const void *p, size_t n);
void buf_add_str(struct buf *b, const char *text);    /* without its NUL */
void buf_add_fmt(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_cut(struct buf *b, size_t n);                /* drop n bytes from the front */
void buf_free(struct buf *b);                         /* gives the memory back; b is empty and usable after it */
void buf_wipe(struct buf *b);                         /* the same, overwritten first */

static inline void buf_add_u8(struct buf *b, uint8_t v) { buf_add(b, &v, 1); }
static inline struct span buf_span(const struct buf *b) { return (struct span){b->p, b->len}; }
static inline struct span span_str(const char *text) { return (struct span){(const uint8_t *)text, strlen(text)}; }
static inline bool span_is(struct span s, const char *text) { return s.len == strlen(text) && memcmp(s.p, text, s.len) == 0; }
static inline bool span_same(struct span a, struct span b) { return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0); }
