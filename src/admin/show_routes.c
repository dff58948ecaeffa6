/* SHOW ROUTES: a row per line of [routes], in their order: whom it matches, where it leads, and what is still done at the places that it
 * leads away from. */
#include <stdlib.h>

#include "admin/show_priv.h"
#include "base/clock.h"
#include "base/mem.h"
#include "proxy/place.h"
#include "proxy/trail.h"
#include "proxy/worker.h"

static const struct column route_columns[] = {
	{"name", COL_TEXT}, {"matches", COL_TEXT}, {"to", COL_TEXT}, {"clients", COL_INT4}, {"old_running", COL_INT4}, {"old_last_used", COL_TEXT},
	{"old_quiet_seconds", COL_INT8},
};
const struct columns columns_routes = COLUMNS_OF(route_columns);

/* By name, as a worker may go by another configuration than control for a moment. */
struct note {
	char name[ROUTE_NAME_MOST + 1];
	int clients; /* that it leads */
	int running; /* that have a server at an old place of it */
};

struct tally_of_routes {
	const struct conf *conf;
	struct note *notes; /* owns: as many as there are routes */
};

static void note_running(void *arg, const struct conf_route *r)
{
	struct tally_of_routes *t = arg;
	t->notes[r->place].running++;
}

static void note_client(struct tally_of_routes *t, const struct client *c)
{
	const struct conf_route *r = place_route(c);

	if (r)
		t->notes[r->place].clients++;
	if (c->server)
		place_each_away(c, note_running, t);
}

void ask_routes(struct worker *w, struct buf *out)
{
	struct tally_of_routes t = {.conf = w->setup->conf};

	if (!t.conf->n_routes)
		return;
	t.notes = mem_new((size_t)t.conf->n_routes * sizeof(*t.notes));
	for (int i = 0; i < t.conf->n_routes; i++)
		strcpy(t.notes[i].name, t.conf->routes[i]->name);
	for (int state = CLIENT_IDLE; state < CLIENT_CLOSING; state++)
		list_each(link, &w->clients[state]) {
			struct client *c = list_owner(link, struct client, link);
			if (c->pool)
				note_client(&t, c);
		}
	buf_add(out, t.notes, (size_t)t.conf->n_routes * sizeof(*t.notes));
	mem_free(t.notes);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct note *)a)->name, ((const struct note *)b)->name);
}

/* All notes, sorted by name. */
static size_t collect(const struct gather *g, struct buf *all)
{
	for (int i = 0; i < g->n_parts; i++)
		if (g->parts[i].rows.len)
			buf_add(all, g->parts[i].rows.p, g->parts[i].rows.len);
	size_t n = all->len / sizeof(struct note);
	if (n)
		qsort(all->p, n, sizeof(struct note), by_name);
	return n;
}

static struct note sum_of(const struct note *notes, size_t n, const char *name)
{
	struct note sum = {0};
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (strcmp(notes[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < n && strcmp(notes[low].name, name) == 0; low++) {
		sum.clients += notes[low].clients;
		sum.running += notes[low].running;
	}
	return sum;
}

static void add_match(struct buf *out, const char *key, const char *value)
{
	if (value)
		buf_add_fmt(out, "%s%s=%s", out->len ? " " : "", key, value);
}

static void put(struct buf *out, const struct conf_route *r, const struct note *sum)
{
	usec_t now = clock_wall(), last = sum->running ? now : trails_last_use(r);
	struct buf matches = {0};
	char text[32];
	struct row row;

	add_match(&matches, "org", r->org[0] ? r->org : NULL);
	add_match(&matches, "application_name", r->application_name);
	add_match(&matches, "user", r->user);
	add_match(&matches, "entry", r->entry);
	buf_add_u8(&matches, 0);
	clock_print(last, text);
	row_begin(&row, out, columns_routes.n);
	row_text(&row, r->name);
	row_text(&row, (const char *)matches.p);
	row_text(&row, r->to);
	row_int(&row, sum->clients);
	row_int(&row, sum->running);
	row_text(&row, text);
	row_int(&row, now > last ? (now - last) / USEC_PER_SEC : 0);
	row_end(&row);
	buf_free(&matches);
}

void tell_routes(const struct gather *g, struct buf *out)
{
	const struct conf *conf = control->setup->conf;
	struct buf all = {0};
	size_t n = collect(g, &all);

	for (int i = 0; i < conf->n_routes; i++) {
		struct note sum = sum_of((const struct note *)all.p, n, conf->routes[i]->name);
		put(out, conf->routes[i], &sum);
	}
	buf_free(&all);
}
