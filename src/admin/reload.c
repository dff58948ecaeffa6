/* See admin/reload.h. */
#include "admin/reload.h"

#include <stdio.h>

#include "admin/clients_priv.h"
#include "admin/trail_file.h"
#include "base/mem.h"
#include "cluster/watch.h"
#include "net/resolve.h"
#include "wire/sqlstate.h"

struct reload {
	struct setup *setup; /* ref */
	reload_done_fn done; /* may be NULL */
	void *arg;
};

static bool under_way;

/* What the first load found: told when the log is where the configuration wants it. */
static struct conf_report first_report;

/* What the command line said: it holds over all reloads. */
static struct {
	bool quiet;
	int verbose;
} given;

/* ---- telling ---- */

static void log_lines(enum log_level level, const struct buf *text)
{
	const char *at = (const char *)text->p;
	size_t left = text->len;

	while (left) {
		const char *end = memchr(at, '\n', left);
		size_t len = end ? (size_t)(end - at) : left;
		if (len)
			log_line(level, NULL, "%.*s", (int)len, at);
		len += end ? 1 : 0;
		at += len;
		left -= len;
	}
}

static void log_report(struct conf_report *report)
{
	log_lines(LOG_WARNING_, &report->warnings);
	log_lines(LOG_ERROR_, &report->errors);
	conf_report_free(report);
}

static void tell(const struct reload *r, const struct err *err)
{
	if (r->done)
		r->done(r->arg, err);
}

/* ---- settings that need a restart ---- */

static char *printed(const struct setting *s, const struct settings *from)
{
	struct buf text = {0};

	setting_print(s, from, &text);
	buf_add_u8(&text, 0);
	return (char *)text.p;
}

static void keep_one(const struct setting *s, struct settings *now, const struct settings *before)
{
	char *old = printed(s, before), *new = printed(s, now);
	struct err err;

	if (strcmp(old, new) != 0) {
		log_warning("setting \"%s\" changes only at the next start: it stays \"%s\"", setting_name(s), old);
		if (!setting_parse(s, now, old, &err))
			log_error("setting \"%s\": %s", setting_name(s), err.text);
	}
	mem_free(old);
	mem_free(new);
}

/* The new snapshot is not shared yet, so it may be changed. */
static void keep_until_restart(struct conf *conf, const struct conf *before)
{
	for (int i = 0; i < settings_count(); i++)
		if ((setting_flags(setting_at(i)) & (SETTING_RESTART | SETTING_SECRET)) == SETTING_RESTART)
			keep_one(setting_at(i), &conf->set, &before->set);
}

/* ---- into force ---- */

static bool is_removed(const struct client *c, const void *arg)
{
	const struct conf *conf = arg;
	return c->pool && !conf->star && !conf_entry(conf, c->database);
}

static void adopt(struct part *p)
{
	struct reload *r = p->gather->arg;
	struct worker *w = worker_of(p->loop);
	struct err why;

	if (w->loop) { /* NULL: the process ends */
		worker_adopt(w, r->setup);
		err_set(&why, SQLSTATE_NO_DATABASE, "database removed");
		clients_close(w, is_removed, r->setup->conf, &why);
	}
	part_done(p);
}

static void adopted(struct gather *g)
{
	struct reload *r = g->arg;

	gather_free(&g);
	under_way = false;
	reload_apply(r->setup);
	tell(r, NULL);
	setup_drop(&r->setup);
	mem_free(r);
}

/* A ceiling that rises must be up before lanes look again at who waits. */
static void ceilings_follow(const struct conf *conf)
{
	for (int i = 0; i < conf->n_clusters; i++)
		cluster_of(conf->cluster_at[i]->name, conf->cluster_at[i]->max_server_conn);
}

/* conf is given away. */
static void put_in_force(struct conf *conf, reload_done_fn done, void *arg)
{
	struct reload one = {.done = done, .arg = arg};
	struct loop *loops[WORKERS_MOST + 1];
	struct err err;

	keep_until_restart(conf, control->setup->conf);
	one.setup = setup_new(conf, control->setup, &err);
	if (!one.setup) {
		log_error("%s", err.text);
		tell(&one, &err);
		return;
	}
	struct reload *r = mem_make(struct reload);
	*r = one;
	under_way = true;
	ceilings_follow(r->setup->conf);
	trail_file_follow(r->setup->conf);
	watch_adopt(r->setup);
	gather_start(control->loop, loops, worker_loops(loops), adopt, adopted, r);
}

static bool refuse_second(reload_done_fn done, void *arg)
{
	struct err err;

	if (!under_way)
		return false;
	err_set(&err, SQLSTATE_CONFIG, "a RELOAD or SET is under way already");
	log_warning("%s", err.text);
	tell(&(struct reload){.done = done, .arg = arg}, &err);
	return true;
}

/* ---- public ---- */

void reload_start(reload_done_fn done, void *arg)
{
	const struct conf *now = control->setup->conf;
	const char *path = now->set.conffile[0] ? now->set.conffile : now->file;
	struct conf_report report = {0};
	struct err err;

	verify_here(control->loop);
	if (refuse_second(done, arg))
		return;
	struct conf *conf = conf_load(path, &report);
	log_report(&report);
	if (conf) {
		put_in_force(conf, done, arg);
		return;
	}
	log_error("the configuration stays as it was");
	err_set(&err, SQLSTATE_CONFIG, "%s has errors", path);
	tell(&(struct reload){.done = done, .arg = arg}, &err);
}

void reload_set(const char *name, const char *value, reload_done_fn done, void *arg)
{
	struct err err;

	verify_here(control->loop);
	if (refuse_second(done, arg))
		return;
	struct conf *conf = conf_with(control->setup->conf, name, value, &err);
	if (conf)
		put_in_force(conf, done, arg);
	else
		tell(&(struct reload){.done = done, .arg = arg}, &err);
}

struct setup *reload_first(const char *path, bool quiet, int verbose)
{
	struct conf *conf = conf_load(path, &first_report);
	struct setup *setup = NULL;
	struct err err;

	given.quiet = quiet;
	given.verbose = verbose;
	if (conf) {
		setup = setup_new(conf, NULL, &err);
		if (!setup)
			log_error("%s", err.text);
	}
	if (!setup)
		log_report(&first_report);
	return setup;
}

/* ---- what is process-wide ---- */

static bool keep_text(char **kept, const char *text)
{
	if (*kept && strcmp(*kept, text) == 0)
		return false;
	mem_free(*kept);
	*kept = mem_str(text);
	return true;
}

static void log_follow(const struct settings *set)
{
	static char *logfile, *ident, *facility; /* as they are open; owned for good */
	bool changed = keep_text(&logfile, set->logfile);

	changed |= keep_text(&ident, set->syslog ? set->syslog_ident : "");
	changed |= keep_text(&facility, set->syslog ? set->syslog_facility : "");
	if (changed)
		log_open(logfile[0] ? logfile : NULL, !given.quiet, set->syslog ? ident : NULL, set->syslog ? facility : NULL);
	else
		log_reopen();
	int more = set->verbose + given.verbose;
	log_set_level(more <= 0 ? LOG_LOG_ : more == 1 ? LOG_DEBUG_ : LOG_NOISE_);
}

void reload_apply(const struct setup *setup)
{
	const struct conf *conf = setup->conf;

	log_follow(&conf->set);
	log_report(&first_report);
	resolve_set_ttl(conf->set.dns_max_ttl, conf->set.dns_nxdomain_ttl);
	if (control) /* else clusters have no homes to be given yet: lanes make them on first use */
		ceilings_follow(conf);
	hash_each(link, &conf->entries)
		tally_entry(owner_of(link, struct conf_entry, link)->name);
}
