/* See proxy/trail.h. The text, with times in seconds since 1970 and what the route says behind them, each part escaped as in a URL:
 *
 *   pgweir routes 1
 *   1764537600 acme 1111-2222 - - app app_acme */
#include "proxy/trail.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/verify.h"

#define HEADING "pgweir routes 1\n"

struct trail {
	struct hash_link link; /* by what it says */
	char *says;            /* owns */
	usec_t last_use;
	bool stays;            /* in trails_follow */
};

static struct {
	pthread_mutex_t lock; /* over all of it */
	struct hash by_says;
	bool changed;
} trails = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- what a route says ---- */

static void add_part(struct buf *out, const char *text)
{
	if (out->len)
		buf_add_u8(out, ' ');
	if (!text)
		buf_add_u8(out, '-');
	else if (!*text || strcmp(text, "-") == 0)
		buf_add_str(out, *text ? "%2D" : "%");
	for (; text && *text && strcmp(text, "-") != 0; text++) {
		if (*text > ' ' && *text < 127 && *text != '%')
			buf_add_u8(out, (uint8_t)*text);
		else
			buf_add_fmt(out, "%%%02X", (unsigned char)*text);
	}
}

static char *says_of(const struct conf_route *r)
{
	struct buf b = {0};

	add_part(&b, r->name);
	add_part(&b, r->org[0] ? r->org : NULL);
	add_part(&b, r->application_name);
	add_part(&b, r->user);
	add_part(&b, r->entry);
	add_part(&b, r->to);
	buf_add_u8(&b, 0);
	return (char *)b.p;
}

static bool says(const struct hash_link *link, const void *text)
{
	return strcmp(owner_of(link, struct trail, link)->says, text) == 0;
}

static struct trail *find(const char *text)
{
	struct hash_link *link = hash_find(&trails.by_says, hash_bytes(text, strlen(text)), says, text);
	return link ? owner_of(link, struct trail, link) : NULL;
}

static void trail_free(struct trail *t)
{
	hash_take(&trails.by_says, &t->link);
	mem_free(t->says);
	mem_free(t);
}

/* ---- in force ---- */

static void follow_one(const struct conf_route *r, usec_t now)
{
	char *text = says_of(r);
	struct trail *t = find(text);

	if (!t) {
		t = mem_make(struct trail);
		t->says = text;
		t->last_use = now;
		hash_add(&trails.by_says, &t->link, hash_bytes(text, strlen(text)));
		trails.changed = true;
	} else {
		mem_free(text);
	}
	t->stays = true;
}

void trails_follow(const struct conf *c, usec_t now)
{
	pthread_mutex_lock(&trails.lock);
	for (int i = 0; i < c->n_routes; i++)
		follow_one(c->routes[i], now);
	hash_each(link, &trails.by_says) {
		struct trail *t = owner_of(link, struct trail, link);
		bool stays = t->stays;
		t->stays = false;
		if (stays)
			continue;
		trail_free(t);
		trails.changed = true;
	}
	pthread_mutex_unlock(&trails.lock);
}

void trails_use(const struct conf_route *r, usec_t now)
{
	char *text = says_of(r);
	struct trail *t;

	pthread_mutex_lock(&trails.lock);
	t = find(text);
	if (t && t->last_use < now) {
		t->last_use = now;
		trails.changed = true;
	}
	pthread_mutex_unlock(&trails.lock);
	mem_free(text);
}

usec_t trails_last_use(const struct conf_route *r)
{
	char *text = says_of(r);
	const struct trail *t;

	pthread_mutex_lock(&trails.lock);
	t = find(text);
	usec_t last = t ? t->last_use : 0;
	pthread_mutex_unlock(&trails.lock);
	mem_free(text);
	return last;
}

/* ---- as text ---- */

bool trails_changed(void)
{
	pthread_mutex_lock(&trails.lock);
	bool changed = trails.changed;
	pthread_mutex_unlock(&trails.lock);
	return changed;
}

void trails_print(struct buf *out)
{
	buf_add_str(out, HEADING);
	pthread_mutex_lock(&trails.lock);
	hash_each(link, &trails.by_says) {
		const struct trail *t = owner_of(link, struct trail, link);
		buf_add_fmt(out, "%lld %s\n", (long long)(t->last_use / USEC_PER_SEC), t->says);
	}
	trails.changed = false;
	pthread_mutex_unlock(&trails.lock);
}

/* Cuts a line in two where its number ends. */
static bool read_line(char *line, int64_t *seconds, char **rest)
{
	char *blank = strchr(line, ' ');

	if (!blank)
		return false;
	*blank = '\0';
	*rest = blank + 1;
	return num_i64(line, seconds) && *seconds > 0 && *seconds < INT64_MAX / USEC_PER_SEC;
}

static bool read_lines(char *text, bool take)
{
	for (char *line = text, *end; *line; line = end + 1) {
		int64_t seconds;
		char *rest;
		struct trail *t;

		end = strchr(line, '\n');
		if (!end)
			return false;
		*end = '\0';
		if (!read_line(line, &seconds, &rest))
			return false;
		t = take ? find(rest) : NULL;
		if (t)
			t->last_use = seconds * USEC_PER_SEC;
	}
	return true;
}

bool trails_read(struct span text)
{
	size_t head = strlen(HEADING);
	char *copy;
	bool good;

	if (text.len < head || memcmp(text.p, HEADING, head) != 0 || memchr(text.p, 0, text.len))
		return false;
	copy = mem_strn(text.p + head, text.len - head);
	good = read_lines(copy, false);
	mem_free(copy);
	if (!good)
		return false;
	copy = mem_strn(text.p + head, text.len - head);
	pthread_mutex_lock(&trails.lock);
	read_lines(copy, true);
	pthread_mutex_unlock(&trails.lock);
	mem_free(copy);
	return true;
}

void trails_free(void)
{
	hash_each(link, &trails.by_says)
		trail_free(owner_of(link, struct trail, link));
	hash_free(&trails.by_says);
}
