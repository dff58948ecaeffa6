/* SASLprep (RFC 4013) in PostgreSQL's reading of it: map, refuse, check the direction, normalise.
 *
 * Two things differ from the letter of the RFC, and must, since client and server have to arrive at the same bytes:
 * PostgreSQL looks for prohibited and right-to-left characters before it normalises, not after, and an ASCII password
 * is never looked at, control characters or not. Where the RFC says "error", the password is used raw.
 * NFKC comes from libunistring: every character that is let through existed in Unicode 3.2, and Unicode promises that
 * their normal forms never change, so the version of its tables does not matter. */
#include "auth/saslprep.h"

#include <stdlib.h>
#include <uninorm.h>
#include <unistr.h>

#include <openssl/crypto.h>

enum kind { OTHER, SPACE, NOTHING, PROHIBITED, UNASSIGNED, RIGHT, LEFT };

static const struct range {
	uint32_t first;
	uint32_t last;
	enum kind kind;
} ranges[] = {
#define RANGE(first, last, kind) {first, last, kind},
#include "auth/saslprep.def"
#undef RANGE
};

static int range_compare(const void *key, const void *row)
{
	uint32_t code = *(const uint32_t *)key;
	const struct range *r = row;

	if (code < r->first)
		return -1;
	return code > r->last;
}

static enum kind kind_of(uint32_t code)
{
	const struct range *r = bsearch(&code, ranges, sizeof ranges / sizeof *ranges, sizeof *ranges, range_compare);

	return r ? r->kind : OTHER;
}

static bool is_ascii(struct span in)
{
	for (size_t i = 0; i < in.len; i++)
		if (in.p[i] & 0x80)
			return false;
	return true;
}

/* RFC 4013 chapter 2.1, in place; returns the new length. */
static size_t map(uint32_t *codes, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		enum kind kind = kind_of(codes[i]);

		if (kind != NOTHING)
			codes[kept++] = kind == SPACE ? ' ' : codes[i];
	}
	return kept;
}

/* Chapters 2.3 to 2.5: nothing prohibited or unassigned; with right-to-left letters no left-to-right ones, and a
 * right-to-left one at either end. */
static bool acceptable(const uint32_t *codes, size_t n)
{
	bool right = false, left = false;

	for (size_t i = 0; i < n; i++) {
		enum kind kind = kind_of(codes[i]);

		if (kind == PROHIBITED || kind == UNASSIGNED)
			return false;
		right |= kind == RIGHT;
		left |= kind == LEFT;
	}
	if (!right)
		return true;
	return !left && kind_of(codes[0]) == RIGHT && kind_of(codes[n - 1]) == RIGHT;
}

/* UTF-8 in, UTF-8 out; NULL when it may not be prepared. The caller frees. */
static uint8_t *prepare(const uint32_t *codes, size_t n, size_t *len)
{
	size_t n_normal = 0;
	uint32_t *normal;
	uint8_t *text;

	if (n == 0 || !acceptable(codes, n))
		return NULL;
	normal = u32_normalize(UNINORM_NFKC, codes, n, NULL, &n_normal);
	if (!normal)
		return NULL;
	text = u32_to_u8(normal, n_normal, NULL, len);
	OPENSSL_cleanse(normal, n_normal * sizeof *normal);
	free(normal);
	return text;
}

/* Replaces out by the prepared form of in; false and out untouched when in is to be used raw. */
static bool prepared(struct span in, struct buf *out)
{
	size_t n = 0, len = 0;
	uint32_t *codes = u8_to_u32(in.p, in.len, NULL, &n); /* NULL: not valid UTF-8 (surrogates and overlong forms included) */
	uint8_t *text;

	if (!codes)
		return false;
	text = prepare(codes, map(codes, n), &len);
	OPENSSL_cleanse(codes, n * sizeof *codes);
	free(codes);
	if (!text)
		return false;
	buf_add(out, text, len);
	OPENSSL_cleanse(text, len);
	free(text);
	return true;
}

void saslprep(struct span in, struct buf *out)
{
	buf_wipe(out);
	if (is_ascii(in) || !prepared(in, out))
		buf_add(out, in.p, in.len);
}
