/* Startup parameters, sent one by one or inside `options`. Each is one of
 *
 *   ours      names the org (tenant/resolve reads it) or the epoch; the server never sees it
 *   tracked   follows the client from server to server
 *   ignored   named in ignore_startup_parameters, which may hold `options` for all that stands in there
 *   unknown   refuses the login: the client would believe it to be in force
 *
 * They are walked twice: to check them before the client is worth a journey, and to fill c->gucs in its home loop, whose
 * book interns the values. `options` comes first, so that a parameter of the packet stands above it, as in PostgreSQL. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/num.h"
#include "proxy/fence.h"
#include "proxy/greet_priv.h"
#include "proxy/worker.h"
#include "tenant/resolve.h"
#include "wire/sqlstate.h"

#define NAME_MOST 63 /* PostgreSQL's NAMEDATALEN - 1 */

enum kind { KIND_OURS, KIND_TRACKED, KIND_IGNORED, KIND_UNKNOWN };

struct walk {
	struct client *c;
	bool in_options;
	bool (*visit)(struct walk *w, const char *name, const char *value, struct err *err);
};

static bool is_ignored(const struct greet *g, const char *name)
{
	return conf_in_list_fold(g->setup->conf->set.ignore_startup_parameters, name);
}

static enum kind kind_of(const struct greet *g, const char *name)
{
	if (org_is_parameter(name) || fence_epoch_is_parameter(name))
		return KIND_OURS;
	if (setup_guc(g->setup, name, strlen(name)) >= 0)
		return KIND_TRACKED;
	return is_ignored(g, name) ? KIND_IGNORED : KIND_UNKNOWN;
}

static bool visit_option(void *arg, const char *name, const char *value, struct err *err)
{
	struct walk *w = arg;

	return w->visit(w, name, value, err);
}

static bool walk_options(struct walk *w, const char *options, struct err *err)
{
	bool well;

	w->in_options = true;
	well = startup_options(options, visit_option, w, err);
	w->in_options = false;
	/* Ignored options may be anything, but those that we know and that stand ahead of the fault apply. */
	return well || is_ignored(w->c->greet, "options");
}

static bool walk_all(struct walk *w, struct err *err)
{
	const struct startup *s = w->c->greet->startup;

	for (int i = 0; i < s->n_params; i++)
		if (strcmp(s->params[i].name, "options") == 0 && !walk_options(w, s->params[i].value, err))
			return false;
	for (int i = 0; i < s->n_params; i++)
		if (strcmp(s->params[i].name, "options") != 0 && !w->visit(w, s->params[i].name, s->params[i].value, err))
			return false;
	return true;
}

static bool check(struct walk *w, const char *name, const char *value, struct err *err)
{
	struct greet *g = w->c->greet;

	if (strcasecmp(name, "application_name") == 0) {
		mem_free(g->application_name);
		g->application_name = mem_str(value);
	}
	if (fence_epoch_is_parameter(name)) {
		int64_t epoch;
		if (!num_i64(value, &epoch) || epoch <= 0)
			return err_set(err, SQLSTATE_BAD_VALUE, "pgweir.epoch is no epoch: \"%.40s\"", value);
		w->c->epoch = (uint64_t)epoch;
	}
	if (kind_of(g, name) != KIND_UNKNOWN || (w->in_options && is_ignored(g, "options")))
		return true;
	return err_set(err, SQLSTATE_PROTOCOL, "unsupported startup parameter%s: %s", w->in_options ? " in options" : "", name);
}

static bool apply(struct walk *w, const char *name, const char *value, struct err *err)
{
	struct client *c = w->c;
	int i = setup_guc(c->greet->setup, name, strlen(name));

	(void)err;
	if (i >= 0 && strcasecmp(name, "application_name") != 0)
		gucs_set(&c->gucs, i, guc_of(&c->worker->guc_book, value));
	return true;
}

/* As PostgreSQL takes it: only printable ASCII, cut to the size of a name (guc.c up to version 15). */
char *application_name_clean(const char *name)
{
	char *clean = mem_strn(name, strnlen(name, NAME_MOST));

	for (char *at = clean; *at; at++)
		if (*at < 32 || *at > 126)
			*at = '?';
	return clean;
}

static char *name_with_host(const struct client *c, const char *name)
{
	char peer[ADDR_TEXT], text[NAME_MOST + 1];
	char *clean = application_name_clean(name ? name : "app");

	addr_print(&c->addr, peer);
	snprintf(text, sizeof(text), "%s - %.60s", clean, peer);
	mem_free(clean);
	return application_name_clean(text);
}

bool greet_params_check(struct client *c, struct err *err)
{
	struct walk w = {.c = c, .visit = check};
	struct greet *g = c->greet;

	if (!walk_all(&w, err))
		return false;
	if (g->setup->conf->set.application_name_add_host)
		c->application_name = name_with_host(c, g->application_name);
	else if (g->application_name)
		c->application_name = application_name_clean(g->application_name);
	return true;
}

void greet_params_apply(struct client *c)
{
	struct walk w = {.c = c, .visit = apply};
	int i = setup_guc(c->greet->setup, "application_name", strlen("application_name"));
	struct err none;

	walk_all(&w, &none); /* cannot fail: it was checked */
	if (c->application_name && i >= 0)
		gucs_set(&c->gucs, i, guc_of(&c->worker->guc_book, c->application_name));
}
