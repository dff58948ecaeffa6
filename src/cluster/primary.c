/* See cluster/primary.h. */
#include "cluster/primary.h"

#include <inttypes.h>

#include "wire/sqlstate.h"

struct choice {
	const struct sighting *seen;
	const char *const *names;
	int n;
	const struct primary_known *known;
	struct err *why;
	int best;  /* of those who say that they are the primary; -1: nobody does */
	int rival; /* a second one that cannot be told from it; -1: there is none */
};

#define conflict(c, ...) (err_set((c)->why, SQLSTATE_NOT_NOW, __VA_ARGS__), PRIMARY_CONFLICT)

static bool says_so(const struct sighting *s)
{
	return s->up && s->role == ROLE_PRIMARY;
}

/* Can the two be put in order by their timelines? */
static bool are_comparable(const struct sighting *a, const struct sighting *b)
{
	return a->system_id && a->system_id == b->system_id && a->timeline != b->timeline;
}

/* A rival stays one even when a third has a higher timeline than both: there is more wrong than we can judge, unless it is comparable to
 * the best as well. */
static void find_best(struct choice *c)
{
	c->best = c->rival = -1;
	for (int i = 0; i < c->n; i++)
		if (says_so(&c->seen[i]) && (c->best < 0 || c->seen[i].timeline > c->seen[c->best].timeline))
			c->best = i;
	for (int i = 0; i < c->n; i++)
		if (i != c->best && says_so(&c->seen[i]) && !are_comparable(&c->seen[i], &c->seen[c->best]))
			c->rival = i;
}

static enum primary_choice nobody_says_so(struct choice *c, int *host)
{
	int trusted = c->n == 1 ? 0 : c->known->trusted;

	if (trusted >= 0 && c->seen[trusted].up && c->seen[trusted].role == ROLE_UNKNOWN) {
		*host = trusted;
		return PRIMARY_FOUND;
	}
	if (c->n == 1 && c->seen[0].err.text[0])
		err_set(c->why, SQLSTATE_NOT_NOW, "%s: %s", c->names[0], c->seen[0].err.text);
	else
		err_set(c->why, SQLSTATE_NOT_NOW, c->n == 1 ? "%s is a replica" : "no host says that it is the primary", c->names[0]);
	return PRIMARY_NONE;
}

static enum primary_choice rivalry(struct choice *c)
{
	const struct sighting *a = &c->seen[c->best], *b = &c->seen[c->rival];
	const char *best = c->names[c->best], *rival = c->names[c->rival];

	if (!a->system_id || !b->system_id)
		return conflict(c, "%s and %s both say that they are the primary, and do not say on which timeline", best, rival);
	if (a->system_id != b->system_id)
		return conflict(c, "%s and %s are primaries of two different systems (system identifiers %" PRIu64 " and %" PRIu64 ")", best, rival, a->system_id, b->system_id);
	return conflict(c, "%s and %s both say that they are the primary, on the same timeline %" PRIu32, best, rival, a->timeline);
}

/* The one that is left, against what was served before. */
static enum primary_choice compare_with_before(struct choice *c)
{
	const struct sighting *s = &c->seen[c->best];
	const struct primary_known *known = c->known;
	const char *name = c->names[c->best];

	if (!known->system_id || (!s->system_id && known->last == c->best))
		return PRIMARY_FOUND;
	if (!s->system_id)
		return conflict(c, "%s says that it is the primary, but not on which timeline, and it was another host that was served last", name);
	if (s->system_id != known->system_id)
		return conflict(c, "%s is the primary of another system (system identifier %" PRIu64 ", it was %" PRIu64 ")", name, s->system_id, known->system_id);
	if (s->timeline < known->timeline)
		return conflict(c, "%s says that it is the primary on timeline %" PRIu32 ", but there was one on %" PRIu32 " already", name, s->timeline, known->timeline);
	if (s->timeline == known->timeline && known->last >= 0 && known->last != c->best)
		return conflict(c, "%s says that it is the primary on timeline %" PRIu32 ", which is %s's: it was not promoted", name, s->timeline, c->names[known->last]);
	return PRIMARY_FOUND;
}

enum primary_choice primary_choose(const struct sighting *seen, const char *const *names, int n, const struct primary_known *known, int *host, struct err *why)
{
	struct choice c = {.seen = seen, .names = names, .n = n, .known = known, .why = why};

	find_best(&c);
	if (c.best < 0)
		return nobody_says_so(&c, host);
	if (c.rival >= 0)
		return rivalry(&c);
	*host = c.best;
	return compare_with_before(&c);
}
