/* Numbers, durations and sizes as people write them. Every reader takes the whole input
 * or nothing, and leaves *out alone when it refuses. */
#include "base/num.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	int64_t size;
};

/* As PostgreSQL writes them in its settings: case counts. */
static const struct unit time_units[] = {
	{"us", 1},
	{"ms", 1000},
	{"", USEC_PER_SEC},
	{"s", USEC_PER_SEC},
	{"min", 60 * USEC_PER_SEC},
	{"h", 3600 * USEC_PER_SEC},
	{"d", 86400 * USEC_PER_SEC},
	{NULL, 0},
};

static const struct unit size_units[] = {
	{"", 1},
	{"B", 1},
	{"kB", 1024},
	{"MB", 1024 * 1024},
	{"GB", 1024 * 1024 * 1024},
	{NULL, 0},
};

static const struct {
	const char *word;
	bool value;
} bool_words[] = {
	{"1", true}, {"on", true}, {"yes", true}, {"true", true},
	{"0", false}, {"off", false}, {"no", false}, {"false", false},
};

static const struct unit *unit_find(const struct unit *units, const char *name)
{
	while (*name == ' ' || *name == '\t')
		name++;
	for (; units->name; units++)
		if (strcmp(units->name, name) == 0)
			return units;
	return NULL;
}

/* strtoll without the white space that it skips in front. */
static bool whole_number(const char *text, int base, int64_t *out, const char **rest)
{
	char *end;
	long long v;

	if (isspace((unsigned char)*text))
		return false;
	errno = 0;
	v = strtoll(text, &end, base);
	if (end == text || errno != 0)
		return false;
	*out = v;
	*rest = end;
	return true;
}

bool num_i64(const char *text, int64_t *out)
{
	const char *rest;
	int64_t v;

	if (!whole_number(text, 0, &v, &rest) || *rest != '\0')
		return false;
	*out = v;
	return true;
}

bool num_octal(const char *text, int64_t *out)
{
	const char *rest;
	int64_t v;

	if (!isdigit((unsigned char)*text) || !whole_number(text, 8, &v, &rest) || *rest != '\0')
		return false;
	*out = v;
	return true;
}

bool num_usec(const char *text, usec_t *out)
{
	const struct unit *unit;
	char *end;
	double v;

	/* No sign, no white space, no "inf" or "nan". */
	if (!isdigit((unsigned char)*text) && *text != '.')
		return false;
	v = strtod(text, &end);
	if (end == text)
		return false;
	unit = unit_find(time_units, end);
	if (!unit)
		return false;
	v = v * (double)unit->size + 0.5;
	if (!(v < 9223372036854775808.0)) /* 2^63; also what strtod could not hold */
		return false;
	*out = (usec_t)v;
	return true;
}

bool num_bytes(const char *text, int64_t *out)
{
	const struct unit *unit;
	const char *rest;
	int64_t v;

	if (!whole_number(text, 0, &v, &rest) || v < 0)
		return false;
	unit = unit_find(size_units, rest);
	if (!unit || __builtin_mul_overflow(v, unit->size, &v))
		return false;
	*out = v;
	return true;
}

bool num_bool(const char *text, bool *out)
{
	for (size_t i = 0; i < sizeof(bool_words) / sizeof(bool_words[0]); i++)
		if (strcasecmp(text, bool_words[i].word) == 0) {
			*out = bool_words[i].value;
			return true;
		}
	return false;
}

size_t num_write(char *out, uint64_t v)
{
	char digits[20];
	size_t n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while ((v /= 10) != 0);
	for (size_t i = 0; i < n; i++)
		out[i] = digits[n - 1 - i];
	return n;
}
