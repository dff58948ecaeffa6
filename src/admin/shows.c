/* How SHOW answers: finds the row, gathers what the loops know, has control add its own, and puts the head in front. */
#include <strings.h>

#include "admin/show_priv.h"
#include "base/mem.h"
#include "proxy/worker.h"
#include "wire/report.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

struct show {
	const char *name;
	enum right right;
	const struct columns *columns;
	show_ask_fn ask;
	show_tell_fn tell;
	show_tell_by_fn tell_by; /* NULL: takes no word behind it */
	const char *words;
};

static const struct show shows[] = {
#define SHOW(name, right, head, ask, tell) {#name, RIGHT_##right, &head, ask, tell, NULL, NULL},
#define SHOW_BY(name, right, head, tell, words) {#name, RIGHT_##right, &head, NULL, NULL, tell, words},
#define SHOW_UNBUILT(name, right) {#name, RIGHT_##right, NULL, NULL, NULL, NULL, NULL},
#include "admin/shows.def"
};
#define N_SHOWS (sizeof(shows) / sizeof(shows[0]))

static const struct fake {
	const char *name, *value;
} fakes[] = {
#define SHOW_FAKE(name, value) {#name, value},
#include "admin/shows.def"
};
#define N_FAKES (sizeof(fakes) / sizeof(fakes[0]))

/* ---- HELP ---- */

#define HELP_LINE 64

static void help_shows(struct buf *out)
{
	size_t line = 0;

	buf_add_str(out, "\n\tSHOW HELP");
	for (size_t i = 0; i < N_SHOWS; i++) {
		if (!shows[i].columns || shows[i].words)
			continue;
		bool wrap = out->len - line > HELP_LINE;
		if (wrap)
			line = out->len;
		buf_add_str(out, wrap ? "\n\tSHOW " : "|");
		buf_add_str(out, shows[i].name);
	}
	for (size_t i = 0; i < N_SHOWS; i++)
		if (shows[i].words)
			buf_add_fmt(out, "\n\tSHOW %s %s", shows[i].name, shows[i].words);
}

static void help(struct console *k)
{
	static const char *const lines[] = {
#define COMMAND(word, right, takes, run, help) help,
#include "admin/commands.def"
	};
	struct buf detail = {0};

	help_shows(&detail);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (lines[i][0])
			buf_add_fmt(&detail, "\n\t%s", lines[i]);
	buf_add_u8(&detail, 0);
	report_write(&k->out, 'N', &(struct report){.severity = "NOTICE", .sqlstate = "00000", .text = "Console usage", .detail = (const char *)detail.p});
	buf_free(&detail);
	msg_complete(&k->out, "SHOW");
}

/* ---- tables ---- */

static void head(struct console *k, const struct show *s)
{
	rows_head(&k->out, s->columns->at, s->columns->n);
}

static void ask(struct part *p)
{
	const struct errand *e = p->gather->arg; /* its show stays as it is; the rest is control's */

	e->show->ask(worker_of(p->loop), &p->rows);
	part_done(p);
}

static void concatenate(const struct gather *g, struct buf *out)
{
	for (int i = 0; i < g->n_parts; i++)
		if (g->parts[i].rows.len)
			buf_add(out, g->parts[i].rows.p, g->parts[i].rows.len);
}

static void gathered(struct gather *g)
{
	struct errand *e = g->arg;
	struct console *k = e->console;

	if (k) {
		head(k, e->show);
		if (e->show->tell)
			e->show->tell(g, &k->out);
		else
			concatenate(g, &k->out);
	}
	gather_free(&g);
	errand_end(e, NULL);
}

static void table(struct console *k, const struct show *s)
{
	struct loop *loops[WORKERS_MOST + 1];
	int n = worker_loops(loops);

	if (!s->ask) {
		head(k, s);
		s->tell(NULL, &k->out);
		msg_complete(&k->out, "SHOW");
		return;
	}
	struct errand *e = errand_begin(k, "SHOW");
	e->show = s;
	gather_start(control->loop, loops, n, ask, gathered, e);
}

static void table_by(struct console *k, const struct show *s, const char *by)
{
	struct buf rows = {0};
	struct err err;

	if (!s->tell_by(by, &rows, &err)) {
		console_fail_err(k, &err);
		return;
	}
	head(k, s);
	if (rows.len)
		buf_add(&k->out, rows.p, rows.len);
	buf_free(&rows);
	msg_complete(&k->out, "SHOW");
}

static bool fake(struct console *k, const char *name)
{
	for (size_t i = 0; i < N_FAKES; i++) {
		if (strcasecmp(fakes[i].name, name) != 0)
			continue;
		struct column column = {fakes[i].name, COL_TEXT};
		struct row r;
		rows_head(&k->out, &column, 1);
		row_begin(&r, &k->out, 1);
		row_text(&r, fakes[i].value);
		row_end(&r);
		msg_complete(&k->out, "SHOW");
		return true;
	}
	return false;
}

static const struct show *find(const char *name)
{
	for (size_t i = 0; i < N_SHOWS; i++)
		if (strcasecmp(shows[i].name, name) == 0)
			return &shows[i];
	return NULL;
}

bool show_run(struct console *k, const char *name, const char *by)
{
	const struct show *s = find(name);

	if (by && (!s || !s->words))
		return false;
	if (strcasecmp(name, "help") == 0) {
		help(k);
		return true;
	}
	if (!s)
		return fake(k, name);
	if (!has_right(k->client, s->right))
		console_fail(k, SQLSTATE_NOT_ALLOWED, "admin access needed");
	else if (!s->columns)
		console_fail(k, SQLSTATE_UNSUPPORTED, "SHOW %s is not built yet", s->name);
	else if (s->tell_by)
		table_by(k, s, by);
	else
		table(k, s);
	return true;
}
