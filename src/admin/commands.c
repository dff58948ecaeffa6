/* What the console's commands do: one function per row of commands.def, after the table has said who may. */
#include <stdio.h>
#include <strings.h>

#include "admin/console_priv.h"
#include "admin/reload.h"
#include "base/mem.h"
#include "base/num.h"
#include "cluster/watch.h"
#include "proxy/worker.h"
#include "tenant/org.h"
#include "wire/report.h"
#include "wire/rows.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

enum takes { TAKES_NONE, TAKES_MAYBE, TAKES_ONE, TAKES_MORE, TAKES_VALUE, TAKES_ANY };

/* ---- answers ---- */

static void done(struct console *k, const char *tag)
{
	msg_complete(&k->out, tag);
}

/* The text may be anything, and of any length; the first of it says enough. */
static void invalid(struct console *k, const struct command *c)
{
	int most = c->text.len > 200 ? 200 : (int)c->text.len;

	console_fail(k, SQLSTATE_SYNTAX, "invalid command '%.*s%s', use SHOW HELP;", most, (const char *)c->text.p, c->text.len > 200 ? "..." : "");
}

/* ---- which entry ---- */

static bool is_console(const char *name)
{
	return strcmp(name, CONSOLE_DATABASE) == 0 || strcmp(name, "pgweir") == 0;
}

struct search {
	const char *name;
	struct tally *found;
};

static void find_used(void *arg, struct tally *t)
{
	struct search *s = arg;

	if (strcmp(t->name, s->name) == 0 && (atomic_load(&t->clients) || atomic_load(&t->servers) || atomic_load(&t->paused) || atomic_load(&t->disabled)))
		s->found = t;
}

/* Of the files, or removed from them but still in use, or one that the * line would make. */
static struct tally *entry_find(const char *name)
{
	const struct conf *conf = control->setup->conf;
	struct search s = {.name = name};

	if (conf_entry(conf, name) || conf->star)
		return tally_entry(name);
	tally_each_entry(find_used, &s);
	return s.found;
}

/* The entry that a command names; NULL in *out when it names none. */
static bool entry_of(struct console *k, const struct command *c, const char *what, struct tally **out)
{
	*out = NULL;
	if (c->args == ARGS_NONE)
		return true;
	if (is_console(c->arg)) {
		console_fail(k, SQLSTATE_NOT_ALLOWED, "cannot %s admin db: %s", what, c->arg);
		return false;
	}
	*out = entry_find(c->arg);
	if (*out)
		return true;
	console_fail(k, SQLSTATE_NO_DATABASE, "no such database: %s", c->arg);
	return false;
}

/* ---- which org ---- */

/* What stands behind ORG: an id, of which many are no word of SQL (a UUID), or a name of [orgs]; in quotes or without. */
static struct span behind_org(const struct command *c)
{
	struct scan s = scan_of(c->text.p, c->text.len);

	scan_next(&s);
	if (scan_next(&s) != TOKEN_WORD || !scan_word_is(&s, "org") || scan_next(&s) == TOKEN_END)
		return (struct span){NULL, 0};
	return (struct span){s.text.p, (size_t)(c->text.p + c->text.len - s.text.p)};
}

/* It may have no line and no clients: whether that is a mistake is for whoever gives the order to see. */
static void tell_unknown(struct console *k, const char *id)
{
	struct org *org = org_find(id);
	char text[ORG_ID_MOST + 80];

	if (!org && strcmp(id, "default") != 0) {
		snprintf(text, sizeof(text), "org \"%s\" has no line in [orgs], and no client has spoken for it", id);
		report_notice(&k->out, text);
	}
	org_drop(&org);
}

static bool org_named(struct console *k, const struct command *c, char id[ORG_ID_MOST + 1])
{
	struct span text = behind_org(c);
	char name[COMMAND_ARG_MOST];
	bool several;

	if (text.len >= 2 && (text.p[0] == '"' || text.p[0] == '\'') && text.p[text.len - 1] == text.p[0])
		text = (struct span){text.p + 1, text.len - 2};
	if (!text.len || text.len >= sizeof(name)) {
		invalid(k, c);
		return false;
	}
	memcpy(name, text.p, text.len);
	name[text.len] = 0;
	const struct conf_org *line = conf_org_named(control->setup->conf, name, &several);
	if (several) {
		console_fail(k, SQLSTATE_BAD_VALUE, "several orgs are called %s: say the id", name);
		return false;
	}
	if (line) {
		strcpy(id, line->id);
		return true;
	}
	if (!org_id_make(name, text.len, id)) {
		console_fail(k, SQLSTATE_BAD_VALUE, "no such org: %s", name);
		return false;
	}
	tell_unknown(k, id);
	return true;
}

/* ---- orders that are waited for ---- */

static void order_ended(void *arg, const struct err *err)
{
	errand_end(arg, err);
}

static struct errand *order_begin(struct console *k, const char *tag, struct tally *entry, enum errand_undo undo)
{
	struct errand *e = errand_begin(k, tag);

	e->entry = entry;
	e->undo = undo;
	return e;
}

/* stage: what the order returned; NULL: refused, err says why. */
static void order_begun(struct errand *e, struct stage_call *stage, const struct err *err)
{
	e->stage = stage;
	if (!stage)
		errand_end(e, err);
}

static void settle(struct console *k, const char *tag)
{
	struct errand *e = errand_begin(k, tag);
	e->stage = stage_settle(order_ended, e);
}

static void pause_org(struct console *k, const struct command *c)
{
	char id[ORG_ID_MOST + 1];
	struct err err;

	if (!org_named(k, c, id))
		return;
	struct errand *e = order_begin(k, "PAUSE", NULL, UNDO_WAIT);
	order_begun(e, stage_pause_org(id, order_ended, e, &err), &err);
}

static bool is_about_org(const struct command *c)
{
	return c->args != ARGS_NONE && c->args != ARGS_ONE;
}

static void run_pause(struct console *k, const struct command *c)
{
	struct tally *entry;
	struct err err;

	if (is_about_org(c)) {
		pause_org(k, c);
		return;
	}
	if (!entry_of(k, c, "pause", &entry))
		return;
	struct errand *e = order_begin(k, "PAUSE", entry, UNDO_ON_CANCEL);
	order_begun(e, stage_pause(entry, order_ended, e, &err), &err);
}

static void run_suspend(struct console *k, const struct command *c)
{
	struct errand *e = order_begin(k, "SUSPEND", NULL, UNDO_ALWAYS);
	struct err err;

	(void)c;
	order_begun(e, stage_suspend(order_ended, e, &err), &err);
}

static void run_wait_close(struct console *k, const struct command *c)
{
	struct tally *entry;
	struct err err;

	if (!entry_of(k, c, "wait in", &entry))
		return;
	struct errand *e = order_begin(k, "WAIT_CLOSE", entry, UNDO_WAIT);
	order_begun(e, stage_wait_close(entry, order_ended, e, &err), &err);
}

static void run_kill_client(struct console *k, const struct command *c)
{
	int64_t id;

	if (!num_i64(c->arg, &id) || id <= 0) {
		console_fail(k, SQLSTATE_BAD_VALUE, "invalid client pointer supplied");
		return;
	}
	struct errand *e = order_begin(k, "KILL_CLIENT", NULL, UNDO_NOTHING);
	stage_kill_client((uint64_t)id, order_ended, e);
}

/* ---- orders that are given, and carried out when all loops have had them ---- */

static void give(struct console *k, const struct command *c, const char *what, const char *tag, bool (*order)(struct tally *entry, struct err *err))
{
	struct tally *entry;
	struct err err;

	if (!entry_of(k, c, what, &entry))
		return;
	if (order(entry, &err))
		settle(k, tag);
	else
		console_fail_err(k, &err);
}

static void run_freeze(struct console *k, const struct command *c)
{
	char id[ORG_ID_MOST + 1];
	struct err err;

	if (!org_named(k, c, id))
		return;
	struct errand *e = order_begin(k, "FREEZE", NULL, UNDO_WAIT);
	order_begun(e, stage_freeze_org(id, order_ended, e, &err), &err);
}

static void resume_org(struct console *k, const struct command *c)
{
	char id[ORG_ID_MOST + 1];
	struct err err;

	if (!org_named(k, c, id))
		return;
	struct errand *e = order_begin(k, "RESUME", NULL, UNDO_NOTHING);
	order_begun(e, stage_resume_org(id, order_ended, e, &err), &err);
}

static void run_resume(struct console *k, const struct command *c)
{
	if (is_about_org(c)) {
		resume_org(k, c);
		return;
	}
	give(k, c, "resume", "RESUME", stage_resume);
}

static void run_reconnect(struct console *k, const struct command *c)
{
	give(k, c, "reconnect", "RECONNECT", stage_reconnect);
}

static void run_kill(struct console *k, const struct command *c)
{
	give(k, c, "kill", "KILL", stage_kill);
}

static void run_disable(struct console *k, const struct command *c)
{
	struct tally *entry;

	if (!entry_of(k, c, "disable", &entry))
		return;
	atomic_store(&entry->disabled, true);
	done(k, "DISABLE");
}

static void run_enable(struct console *k, const struct command *c)
{
	struct tally *entry;

	if (!entry_of(k, c, "enable", &entry))
		return;
	atomic_store(&entry->disabled, false);
	done(k, "ENABLE");
}

static void run_shutdown(struct console *k, const struct command *c)
{
	enum shutdown_how how = SHUTDOWN_NOW;
	struct err err;

	if (c->args == ARGS_ONE && strcasecmp(c->arg, "wait_for_servers") == 0)
		how = SHUTDOWN_WAIT_SERVERS;
	else if (c->args == ARGS_ONE && strcasecmp(c->arg, "wait_for_clients") == 0)
		how = SHUTDOWN_WAIT_CLIENTS;
	else if (c->args != ARGS_NONE) {
		invalid(k, c);
		return;
	}
	if (stage_shutdown(how, &err))
		done(k, "SHUTDOWN");
	else
		console_fail_err(k, &err);
}

/* ---- fences ---- */

static struct watch *watch_named(struct console *k, const char *name)
{
	struct watch *w = watch_find(name);

	if (w)
		return w;
	if (conf_cluster(control->setup->conf, name))
		console_fail(k, SQLSTATE_UNSUPPORTED, "cluster %s has no breaker, and so no fence", name);
	else
		console_fail(k, SQLSTATE_BAD_VALUE, "no such cluster: %s", name);
	return NULL;
}

static void run_fence(struct console *k, const struct command *c)
{
	struct watch *w = watch_named(k, c->arg);
	struct err err;

	if (!w)
		return;
	if (watch_fence(w, &err))
		done(k, "FENCE");
	else
		console_fail_err(k, &err);
}

static void run_unfence(struct console *k, const struct command *c)
{
	enum unfence how = c->args == ARGS_TWO ? UNFENCE_FORCE : UNFENCE_BY_RULES;
	struct watch *w;

	if (how == UNFENCE_FORCE && strcasecmp(c->more, "force") != 0) {
		invalid(k, c);
		return;
	}
	w = watch_named(k, c->arg);
	if (!w)
		return;
	if (!w->council && w->breaker.fenced && (how == UNFENCE_FORCE || w->breaker.good < w->conf->breaker_probes))
		report_notice(&k->out, "the cluster is cut over as soon as probes find its primary good: see SHOW FENCES");
	watch_unfence(w, how, order_ended, errand_begin(k, "UNFENCE"));
}

/* ---- the configuration ---- */

static void reloaded(void *arg, const struct err *err)
{
	struct err told;

	if (err)
		err_set(&told, SQLSTATE_CONFIG, "RELOAD failed, see logs for additional details");
	errand_end(arg, err ? &told : NULL);
}

static void run_reload(struct console *k, const struct command *c)
{
	(void)c;
	reload_start(reloaded, errand_begin(k, "RELOAD"));
}

static bool is_faked(const char *name)
{
	static const char *const names[] = {
#define SHOW_FAKE(name, value) #name,
#define SHOW_UNSHOWN(name) #name,
#include "admin/shows.def"
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcasecmp(names[i], name) == 0)
			return true;
	return false;
}

#define TLS_FAILED "TLS setup failed" /* how setup_new's text begins then */

/* TLS settings that do not work (yet): the old ones stay, and that is no error, because they can only be SET one by one. */
static void set_ended(void *arg, const struct err *err)
{
	struct errand *e = arg;
	struct err told;

	if (err && strncmp(err->text, TLS_FAILED, strlen(TLS_FAILED)) == 0) {
		if (e->console)
			report_notice(&e->console->out, "TLS settings could not be applied, still using old configuration");
		err = NULL;
	}
	if (err) {
		log_warning("SET failed: %s", err->text);
		err_set(&told, SQLSTATE_BAD_VALUE, "SET failed");
		err = &told;
	}
	errand_end(e, err);
}

static void run_set(struct console *k, const struct command *c)
{
	struct buf tag = {0};

	if (is_faked(c->arg)) {
		report_notice(&k->out, "SET ignored");
		done(k, "SET");
		return;
	}
	if (!has_right(k->client, RIGHT_ADMIN)) {
		console_fail(k, SQLSTATE_NOT_ALLOWED, "admin access needed");
		return;
	}
	buf_add_fmt(&tag, "SET %s=%s", c->arg, c->value);
	struct errand *e = errand_begin(k, "SET");
	e->text = mem_strn(tag.p, tag.len);
	e->tag = e->text;
	buf_free(&tag);
	reload_set(c->arg, c->value, set_ended, e);
}

/* ---- the rest ---- */

static void run_show(struct console *k, const struct command *c)
{
	if (!show_run(k, c->arg, c->args == ARGS_TWO ? c->more : NULL))
		invalid(k, c);
}

static void run_begin(struct console *k, const struct command *c)
{
	(void)c;
	done(k, "BEGIN");
}

static void run_start(struct console *k, const struct command *c)
{
	struct scan s = scan_of(c->text.p, c->text.len);

	scan_next(&s);
	if (scan_next(&s) == TOKEN_WORD && scan_word_is(&s, "transaction"))
		done(k, "START TRANSACTION");
	else
		invalid(k, c);
}

static void run_commit(struct console *k, const struct command *c)
{
	(void)c;
	done(k, "COMMIT");
}

static void run_rollback(struct console *k, const struct command *c)
{
	(void)c;
	done(k, "ROLLBACK");
}

/* ---- the table ---- */

static const struct row_of_command {
	const char *word;
	enum right right;
	enum takes takes;
	void (*run)(struct console *k, const struct command *c);
} rows[] = {
#define COMMAND(word, right, takes, run, help) {#word, RIGHT_##right, TAKES_##takes, run},
#include "admin/commands.def"
};

static const struct row_of_command *row_find(const char *verb)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcmp(rows[i].word, verb) == 0)
			return &rows[i];
	return NULL;
}

static bool fits(enum args args, enum takes takes)
{
	switch (takes) {
	case TAKES_NONE:
		return args == ARGS_NONE;
	case TAKES_MAYBE:
		return args == ARGS_NONE || args == ARGS_ONE;
	case TAKES_ONE:
		return args == ARGS_ONE;
	case TAKES_MORE:
		return args == ARGS_ONE || args == ARGS_TWO;
	case TAKES_VALUE:
		return args == ARGS_VALUE;
	case TAKES_ANY:
		return true;
	}
	never("no such kind of arguments");
}

bool has_right(const struct client *c, enum right right)
{
	switch (right) {
	case RIGHT_ALL:
		return true;
	case RIGHT_STATS:
		return c->stats || c->admin;
	case RIGHT_ADMIN:
		return c->admin;
	}
	never("no such right");
}

/* Who gave which order; a value may be a secret. */
static void log_order(const struct console *k, const struct command *c)
{
	struct who who;
	char peer[ADDR_TEXT], verb[COMMAND_WORD_MOST];
	size_t i;

	for (i = 0; c->verb[i]; i++)
		verb[i] = (char)(c->verb[i] >= 'a' && c->verb[i] <= 'z' ? c->verb[i] - 'a' + 'A' : c->verb[i]);
	verb[i] = '\0';
	client_who(k->client, &who, peer);
	if (c->args == ARGS_NONE)
		log_line(LOG_LOG_, &who, "%s command issued", verb);
	else if (c->args == ARGS_TWO)
		log_line(LOG_LOG_, &who, "%s '%s' %s command issued", verb, c->arg, c->more);
	else if (c->args == ARGS_OTHER)
		log_line(LOG_LOG_, &who, "%.*s command issued", (int)(c->text.len < 200 ? c->text.len : 200), (const char *)c->text.p);
	else
		log_line(LOG_LOG_, &who, "%s '%s' command issued", verb, c->arg);
}

void command_run(struct console *k, const struct command *c)
{
	const struct row_of_command *row = row_find(c->verb);

	if (!row || !fits(c->args, row->takes)) {
		invalid(k, c);
		return;
	}
	if (!has_right(k->client, row->right)) {
		console_fail(k, SQLSTATE_NOT_ALLOWED, "admin access needed");
		return;
	}
	if (row->right == RIGHT_ADMIN || (row->takes == TAKES_VALUE && !is_faked(c->arg)))
		log_order(k, c);
	row->run(k, c);
}
