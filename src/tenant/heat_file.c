/* The windows of hot orgs as text, for the file that outlives a restart. Numbers in decimal, times in microseconds since 1970:
 *
 *   pgweir hot orgs 1
 *   began 1790000000000000
 *   org acme 1790000100000000 0 1790000000000000 000000000000      id, active, hot, since, severities (4 windows of 3 measures)
 *   bucket 0 179000010 5120 12250000                               ring, number, queries, slot time: those that are not empty
 *   stored 1073741824 main                                         bytes, cluster
 *   end 1                                                          how many orgs there were
 *
 * A text that does not end like this was cut short. Anything else that is not as above makes it worthless as a whole: half of the windows
 * would make a median that never was. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tenant/heat_priv.h"

#define HEADING "pgweir hot orgs 1"
#define COUNT_MOST 1000000000000000   /* of queries or microseconds in a bucket: far from what cannot be added up any more */
#define BYTES_MOST 1000000000000000000

/* ---- saving ---- */

void heat_save_head(const struct heat *h, usec_t now, struct buf *out)
{
	buf_add_fmt(out, HEADING "\nbegan %" PRId64 "\n", h->began ? h->began : now);
}

static void save_bucket(int ring, int64_t number, double queries, double slots, struct buf *out)
{
	if (queries > 0 || slots > 0)
		buf_add_fmt(out, "bucket %d %" PRId64 " %" PRId64 " %" PRId64 "\n", ring, number, (int64_t)queries, (int64_t)(slots * USEC_PER_SEC));
}

static void save_ring(const struct heat_org *o, int ring, struct buf *out)
{
	const struct heat_ring *r = &o->rings[ring];

	for (int64_t i = r->at - HEAT_BUCKETS + 1; i < r->at; i++)
		if (i >= 0)
			save_bucket(ring, i, r->past[i % HEAT_BUCKETS][HEAT_QUERIES], r->past[i % HEAT_BUCKETS][HEAT_SLOTS], out);
	save_bucket(ring, r->at, r->now[HEAT_QUERIES], r->now[HEAT_SLOTS], out);
}

static void save_org(const struct heat *h, const struct heat_org *o, struct buf *out)
{
	buf_add_fmt(out, "org %s %" PRId64 " %d %" PRId64 " ", o->id, o->active_at, o->hot, o->since);
	for (int w = 0; w < HEAT_WINDOWS; w++)
		for (int m = 0; m < HEAT_MEASURES; m++)
			buf_add_u8(out, (uint8_t)('0' + o->severity[w][m]));
	buf_add_u8(out, '\n');
	for (int ring = 0; o->rings && ring < HEAT_RINGS; ring++)
		save_ring(o, ring, out);
	for (const struct heat_store *s = o->stores; s; s = s->next)
		buf_add_fmt(out, "stored %" PRId64 " %s\n", (int64_t)s->bytes, h->clusters[s->cluster]);
}

bool heat_save_some(const struct heat *h, size_t *at, size_t most, struct buf *out)
{
	for (; most && *at < h->n; most--, ++*at)
		save_org(h, h->all[*at], out);
	return *at < h->n;
}

void heat_save_end(size_t n, struct buf *out)
{
	buf_add_fmt(out, "end %zu\n", n);
}

/* ---- loading ---- */

struct loading {
	struct heat *heat;
	usec_t now;
	const char *at, *end;
	char line[512];  /* the one at hand */
	char *rest;      /* what of it is not read yet */
	struct heat_org *org;
	size_t n_orgs;
	int64_t last[HEAT_RINGS]; /* numbers of the org's buckets grow */
};

static bool next_line(struct loading *l)
{
	const char *end = memchr(l->at, '\n', (size_t)(l->end - l->at));
	size_t len = end ? (size_t)(end - l->at) : 0;

	if (!end || len >= sizeof(l->line) || memchr(l->at, '\0', len))
		return false;
	memcpy(l->line, l->at, len);
	l->line[len] = '\0';
	l->rest = l->line;
	l->at = end + 1;
	return true;
}

static const char *word(struct loading *l)
{
	return l->rest ? strsep(&l->rest, " ") : "";
}

static bool number(struct loading *l, int64_t least, int64_t most, int64_t *out)
{
	const char *text = word(l);
	char *end;

	if (!*text || strspn(text, "0123456789") != strlen(text))
		return false;
	errno = 0;
	*out = strtoll(text, &end, 10);
	return !errno && *out >= least && *out <= most;
}

static bool load_org(struct loading *l)
{
	char id[ORG_ID_MOST + 1];
	const char *text = word(l);
	int64_t active, hot, since;

	if (!org_id_make(text, strlen(text), id) || strcmp(id, text) != 0 || heat_find(l->heat, id))
		return false;
	/* A clock that was set back makes times of the future, which cannot be placed. */
	if (!number(l, 0, l->now, &active) || !number(l, 0, 1, &hot) || !number(l, 0, l->now, &since))
		return false;
	l->org = heat_make(l->heat, id);
	l->org->active_at = active;
	l->org->hot = hot;
	l->org->since = since;
	text = word(l);
	if (strlen(text) != HEAT_WINDOWS * HEAT_MEASURES || strspn(text, "012") != HEAT_WINDOWS * HEAT_MEASURES)
		return false;
	for (int i = 0; i < HEAT_WINDOWS * HEAT_MEASURES; i++)
		l->org->severity[i / HEAT_MEASURES][i % HEAT_MEASURES] = (uint8_t)(text[i] - '0');
	memset(l->last, 0, sizeof(l->last));
	l->n_orgs++;
	return true;
}

static bool load_bucket(struct loading *l)
{
	int64_t ring, at, queries, slot_time;

	if (!l->org || !number(l, 0, HEAT_RINGS - 1, &ring) || !number(l, l->last[ring] + 1, l->now / heat_bucket[ring], &at) ||
	    !number(l, 0, COUNT_MOST, &queries) || !number(l, 0, COUNT_MOST, &slot_time))
		return false;
	l->last[ring] = at;
	heat_ring_add(l->org, (int)ring, at, (double)queries, (double)slot_time / USEC_PER_SEC);
	return true;
}

static bool load_stored(struct loading *l)
{
	int64_t bytes;

	if (!l->org || !number(l, 0, BYTES_MOST, &bytes) || !l->rest || !*l->rest)
		return false;
	int i = 0;
	while (i < l->heat->n_clusters && strcmp(l->heat->clusters[i], l->rest) != 0)
		i++;
	heat_report(l->heat, i < l->heat->n_clusters ? i : heat_report_begin(l->heat, l->rest), l->org->id, (double)bytes);
	l->rest = NULL;
	return true;
}

static bool load_line(struct loading *l)
{
	const char *what = word(l);

	if (strcmp(what, "org") == 0)
		return load_org(l) && !l->rest;
	if (strcmp(what, "bucket") == 0)
		return load_bucket(l) && !l->rest;
	return strcmp(what, "stored") == 0 && load_stored(l);
}

static const char *load(struct loading *l)
{
	int64_t n;

	if (!next_line(l) || strcmp(l->line, HEADING) != 0)
		return "it does not begin with \"" HEADING "\"";
	if (!next_line(l) || strcmp(word(l), "began") != 0 || !number(l, 1, l->now, &l->heat->began) || l->rest)
		return "its second line is wrong, or from the future";
	while (next_line(l)) {
		if (strncmp(l->line, "end ", 4) != 0) {
			if (!load_line(l))
				return "a line is wrong, or from the future";
			continue;
		}
		word(l);
		return number(l, 0, INT64_MAX, &n) && !l->rest && (size_t)n == l->n_orgs && l->at == l->end ? NULL : "its end is wrong";
	}
	return "it was cut short";
}

bool heat_load(struct heat *h, usec_t now, const char *text, size_t len, const char **why)
{
	struct loading l = {.heat = h, .now = now, .at = text, .end = text + len};

	*why = load(&l);
	if (*why)
		heat_free(h);
	return !*why;
}
