/* Distance between words: how many letters must be put in, taken out or changed (Levenshtein). */
#include "conf/near_priv.h"

#include <ctype.h>
#include <string.h>

#define NEAR_LONGEST 64

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static unsigned distance(const char *a, size_t n, const char *b, size_t m)
{
	unsigned row[NEAR_LONGEST + 1];

	for (size_t j = 0; j <= m; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		unsigned slant = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			unsigned up = row[j];
			unsigned change = slant + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));

			row[j] = least(change, least(up, row[j - 1]) + 1);
			slant = up;
		}
	}
	return row[m];
}

void near_offer(struct near *n, const char *name)
{
	size_t word_len = strlen(n->word), name_len = strlen(name);
	unsigned d;

	if (word_len > NEAR_LONGEST || name_len > NEAR_LONGEST)
		return;
	d = distance(n->word, word_len, name, name_len);
	/* One slip in three letters at most, or short names are all near each other. */
	if (d > 3 || d * 3 > name_len || (n->best && d >= n->distance))
		return;
	n->best = name;
	n->distance = d;
}
