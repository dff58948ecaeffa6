/* Loading: the files' lines are gathered first, then worked off section by section in an order of our own, so that
 * it does not matter where in the files a section stands. Nothing stops at an error; a snapshot with errors is
 * thrown away at the end. */
#include "conf/load_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "conf/check_priv.h"
#include "conf/ini.h"
#include "conf/near_priv.h"

static const struct section {
	const char *name;
	void (*begin)(struct load *l);
	void (*row)(struct load *l, const struct row *row);
	void (*end)(struct load *l);
} sections[] = {
	/* in the order in which they are read: a section may look up what is in those above */
	{"clusters", NULL, clusters_row, NULL},
	{"databases", NULL, databases_row, databases_end},
	{"users", NULL, users_row, NULL},
	{"orgs", orgs_begin, orgs_row, orgs_end},
	{"routes", NULL, routes_row, routes_end},
	{"peers", NULL, peers_row, NULL},
};

#define N_SECTIONS (sizeof(sections) / sizeof(sections[0]))

static const char *const headings[] = {"pgweir", "pgbouncer"}; /* of the process section */

static void __attribute__((format(printf, 4, 0))) report(struct buf *out, const char *file, int line, const char *fmt, va_list ap)
{
	char text[1024];

	vsnprintf(text, sizeof(text), fmt, ap);
	/* One line each, whatever a name may hold. */
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < ' ')
			*p = '?';
	if (line > 0)
		buf_add_fmt(out, "%s:%d: %s\n", file, line, text);
	else
		buf_add_fmt(out, "%s: %s\n", file, text);
}

void load_error(struct load *l, const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	report(&l->report->errors, file, line, fmt, ap);
	va_end(ap);
}

void load_warning(struct load *l, const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	report(&l->report->warnings, file, line, fmt, ap);
	va_end(ap);
}

void load_unbuilt(struct load *l, const struct row *row, const char *fmt, ...)
{
	struct unbuilt *u;
	char what[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	list_each(at, &l->unbuilt) {
		u = list_owner(at, struct unbuilt, link);
		if (strcmp(u->what, what) == 0) {
			u->more++;
			return;
		}
	}
	u = mem_make(struct unbuilt);
	u->what = mem_str(what);
	u->file = mem_str(row->file);
	u->line = row->line;
	list_push(&l->unbuilt, &u->link);
}

static void tell_unbuilt(struct load *l)
{
	list_each_safe(at, &l->unbuilt) {
		struct unbuilt *u = list_owner(at, struct unbuilt, link);

		if (u->more)
			load_warning(l, u->file, u->line, "%s is not built yet and has no effect (nor on %lu further lines)", u->what, u->more);
		else
			load_warning(l, u->file, u->line, "%s is not built yet and has no effect", u->what);
		list_take(&u->link);
		mem_free(u->what);
		mem_free(u->file);
		mem_free(u);
	}
}

void load_unknown(struct load *l, const struct row *row, const char *what, const char *name, const char *near)
{
	if (near)
		load_error(l, row->file, row->line, "%s \"%.64s\"; did you mean \"%s\"?", what, name, near);
	else
		load_error(l, row->file, row->line, "%s \"%.64s\"", what, name);
}

static bool is_heading(const char *section)
{
	return strcmp(section, headings[0]) == 0 || strcmp(section, headings[1]) == 0;
}

/* Which heading do the files have? It decides the defaults, and there is no middle way between the two. */
static void find_heading(struct load *l)
{
	const struct rows *rows = l->conf->rows;
	const char *seen = NULL;

	for (size_t i = 0; i < rows->count; i++) {
		const struct row *row = &rows->at[i];

		if (row->key || !is_heading(row->section))
			continue;
		if (seen && strcmp(seen, row->section) != 0) {
			load_error(l, row->file, row->line, "[%s] and [%s] stand for each other; use one of them", seen, row->section);
			return;
		}
		seen = row->section;
		l->conf->pgbouncer = strcmp(seen, "pgbouncer") == 0;
	}
}

static void unknown_setting(struct load *l, const struct row *row)
{
	struct near near = {row->key, NULL, 0};

	for (int i = 0; i < settings_count(); i++)
		near_offer(&near, setting_name(setting_at(i)));
	load_unknown(l, row, "unknown setting", row->key, near.best);
}

/* Is the value another one than the default's? */
static bool is_changed(const struct conf *c, const struct setting *s)
{
	struct buf is = {0}, was = {0};
	bool changed;

	setting_print(s, &c->set, &is);
	setting_print_default(s, c->pgbouncer, &was);
	changed = !span_same(buf_span(&is), buf_span(&was));
	buf_free(&is);
	buf_free(&was);
	return changed;
}

static void setting_row(struct load *l, const struct row *row)
{
	const struct setting *s = setting_find(row->key);
	struct err err = {0};

	if (!s) {
		unknown_setting(l, row);
		return;
	}
	if (!setting_parse(s, &l->conf->set, row->value, &err)) {
		load_error(l, row->file, row->line, "%s", err.text);
		return;
	}
	if (setting_flags(s) & SETTING_UNBUILT && is_changed(l->conf, s))
		load_unbuilt(l, row, "%s", setting_name(s));
}

static void read_settings(struct load *l)
{
	const struct rows *rows = l->conf->rows;

	find_heading(l);
	settings_init(&l->conf->set, l->conf->pgbouncer);
	for (size_t i = 0; i < rows->count; i++)
		if (rows->at[i].key && is_heading(rows->at[i].section))
			setting_row(l, &rows->at[i]);
	if (!l->conf->set.conffile[0]) {
		mem_free(l->conf->set.conffile);
		l->conf->set.conffile = mem_str(l->conf->file);
	}
}

static const struct section *section_find(const char *name)
{
	for (size_t i = 0; i < N_SECTIONS; i++)
		if (strcmp(sections[i].name, name) == 0)
			return &sections[i];
	return NULL;
}

/* An unknown section is told once, where it begins, and not for each of its lines. */
static void check_sections(struct load *l)
{
	const struct rows *rows = l->conf->rows;

	for (size_t i = 0; i < rows->count; i++) {
		const struct row *row = &rows->at[i];
		struct near near = {row->section, NULL, 0};

		if (!row->section[0])
			load_error(l, row->file, row->line, "\"%.64s\" stands before the first [section]", row->key);
		if (row->key || is_heading(row->section) || section_find(row->section))
			continue;
		for (size_t j = 0; j < N_SECTIONS; j++)
			near_offer(&near, sections[j].name);
		near_offer(&near, headings[0]);
		near_offer(&near, headings[1]);
		load_unknown(l, row, "unknown section", row->section, near.best);
	}
}

static void read_section(struct load *l, const struct section *s)
{
	const struct rows *rows = l->conf->rows;

	if (s->begin)
		s->begin(l);
	for (size_t i = 0; i < rows->count; i++)
		if (rows->at[i].key && strcmp(rows->at[i].section, s->name) == 0)
			s->row(l, &rows->at[i]);
	if (s->end)
		s->end(l);
}

static void read_sections(struct load *l)
{
	for (size_t i = 0; i < N_SECTIONS; i++)
		read_section(l, &sections[i]);
}

static void on_row(void *arg, const struct ini_row *row)
{
	struct load *l = arg;

	rows_add(l->conf->rows, row);
}

static void on_fault(void *arg, const char *file, int line, const char *text)
{
	load_error(arg, file, line, "%s", text);
}

static void load_begin(struct load *l, const char *file, struct conf_report *r)
{
	l->conf = conf_new(file);
	l->conf->rows = rows_new();
	l->report = r;
	list_init(&l->unbuilt);
}

/* The lines are there: makes the snapshot of them. */
static struct conf *load_end(struct load *l)
{
	check_sections(l);
	read_settings(l);
	read_sections(l);
	if (l->conf->set.auth_file[0])
		userlist_load(l, l->conf->set.auth_file);
	tell_unbuilt(l);
	if (l->report->errors.len)
		conf_drop(&l->conf);
	return l->conf;
}

struct conf *conf_load(const char *path, struct conf_report *r)
{
	struct load l;

	load_begin(&l, path, r);
	(void)ini_read_file(path, on_row, on_fault, &l); /* its faults are in the report */
	return load_end(&l);
}

struct conf *conf_load_text(const char *text, struct conf_report *r)
{
	struct load l;

	load_begin(&l, "test.ini", r);
	(void)ini_read_text("test.ini", span_str(text), on_row, on_fault, &l);
	return load_end(&l);
}

/* Puts the first line of the errors into err. */
static void first_error(const struct conf_report *r, struct err *err)
{
	const uint8_t *end = memchr(r->errors.p, '\n', r->errors.len);

	err_set(err, "22023", "%.*s", (int)(end - r->errors.p), (const char *)r->errors.p);
}

static bool set_one(struct conf *c, const struct setting *s, const char *value, struct err *err)
{
	if (!setting_parse(s, &c->set, value, err))
		return false;
	if (setting_flags(s) & SETTING_UNBUILT && is_changed(c, s))
		return err_set(err, "0A000", "%s is not built yet", setting_name(s));
	return true;
}

/* The sections hold values that were taken from the settings, so they are made anew; the users' secrets are not, unless
 * it is auth_file that changes. */
struct conf *conf_with(const struct conf *c, const char *name, const char *value, struct err *err)
{
	const struct setting *s = setting_find(name);
	struct conf_report r = {0};
	struct load l = {.report = &r};

	if (!s) {
		err_set(err, "42704", "unknown setting \"%.64s\"", name);
		return NULL;
	}
	l.conf = conf_new(c->file);
	list_init(&l.unbuilt);
	l.conf->pgbouncer = c->pgbouncer;
	l.conf->rows = rows_ref(c->rows);
	settings_copy(&l.conf->set, &c->set);
	if (!set_one(l.conf, s, value, err)) {
		conf_drop(&l.conf);
		return NULL;
	}
	read_sections(&l);
	if (strcmp(c->set.auth_file, l.conf->set.auth_file) == 0)
		userlist_copy(l.conf, c);
	else if (l.conf->set.auth_file[0])
		userlist_load(&l, l.conf->set.auth_file);
	tell_unbuilt(&l);
	if (r.errors.len) {
		first_error(&r, err);
		conf_drop(&l.conf);
	}
	conf_report_free(&r);
	return l.conf;
}
