/* Walks a comma list: the parts without the blanks around them, empty ones left out. */
#pragma once

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct comma {
	const char *p; /* the part at hand, in the text; before the first call: the text */
	size_t len;
	const char *rest; /* NULL before the first call */
};

static inline bool comma_next(struct comma *c)
{
	const char *at = c->rest ? c->rest : c->p;

	while (*at) {
		size_t len = strcspn(at, ",");
		const char *end = at + len;

		c->rest = *end ? end + 1 : end;
		while (at < end && isspace((unsigned char)*at))
			at++;
		while (end > at && isspace((unsigned char)end[-1]))
			end--;
		if (end > at) {
			c->p = at;
			c->len = (size_t)(end - at);
			return true;
		}
		at = c->rest;
	}
	c->rest = at;
	return false;
}

/* false: it does not fit into room bytes with its NUL. */
static inline bool comma_copy(const struct comma *c, char *out, size_t room)
{
	if (c->len >= room)
		return false;
	memcpy(out, c->p, c->len);
	out[c->len] = '\0';
	return true;
}
