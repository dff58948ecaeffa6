/* A growable byte buffer. It doubles, so that adding byte by byte stays linear. */
#include "base/buf.h"

#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/verify.h"

#define BUF_FIRST_ROOM 64

void buf_need(struct buf *b, size_t more)
{
	size_t want;

	if (b->room - b->len >= more)
		return;
	verify(more <= SIZE_MAX / 4 && b->len <= SIZE_MAX / 4);
	want = b->room ? b->room * 2 : BUF_FIRST_ROOM;
	if (want < b->len + more)
		want = b->len + more;
	b->p = mem_grow(b->p, want);
	b->room = want;
}

uint8_t *buf_more(struct buf *b, size_t n)
{
	uint8_t *at;

	buf_need(b, n);
	at = b->p + b->len;
	b->len += n;
	return at;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
	if (n)
		memcpy(buf_more(b, n), p, n);
}

void buf_add_str(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}

void buf_add_fmt(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	verify(n >= 0);
	buf_need(b, (size_t)n + 1); /* vsnprintf writes a NUL, which is not counted */
	va_start(ap, fmt);
	vsnprintf((char *)b->p + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

void buf_cut(struct buf *b, size_t n)
{
	verify(n <= b->len);
	b->len -= n;
	if (n && b->len)
		memmove(b->p, b->p + n, b->len);
}

void buf_free(struct buf *b)
{
	mem_free(b->p);
	*b = (struct buf){0};
}

void buf_wipe(struct buf *b)
{
	if (b->p)
		OPENSSL_cleanse(b->p, b->room);
	buf_free(b);
}
