/* Tables of words, searched without memory: rows in order of length, then by the alphabet. For this layer only. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/buf.h"

struct word_row {
	const char *text; /* lower case */
	uint8_t len;
	uint8_t means;
};

#define WORD_ROW(text, means) {text, sizeof(text) - 1, means}
#define WORD_MOST 63 /* no word of ours is longer */

/* A to Z become a to z, whatever the locale. What is too long is cut. */
static inline size_t word_fold(char out[WORD_MOST], const uint8_t *text, size_t len)
{
	size_t n = len <= WORD_MOST ? len : WORD_MOST;
	for (size_t i = 0; i < n; i++)
		out[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] | 0x20 : text[i]);
	return n;
}

/* Two words of one length. Most differ in their first letters, and a call costs more than these. */
static inline int word_order(const char *a, const char *b, size_t len)
{
	int order = a[0] - b[0];
	if (order == 0 && len > 1)
		order = a[1] - b[1];
	return order != 0 ? order : memcmp(a, b, len);
}

/* What the word means; 0 if it has no row. text is in lower case. */
static inline uint8_t word_find(const struct word_row *rows, size_t n, const char *text, size_t len)
{
	while (n > 0) {
		const struct word_row *middle = rows + n / 2;
		int order = len != middle->len ? (int)len - middle->len : word_order(text, middle->text, len);
		if (order == 0)
			return middle->means;
		if (order > 0) {
			rows = middle + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	return 0;
}

/* The same, in any case. */
static inline uint8_t word_find_folded(const struct word_row *rows, size_t n, struct span text)
{
	char lower[WORD_MOST];
	return text.len <= WORD_MOST ? word_find(rows, n, lower, word_fold(lower, text.p, text.len)) : 0;
}
