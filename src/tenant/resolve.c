/* Which org a client speaks for. Each source is a row: its word in org_sources and a function that hands every id it
 * finds to claim(). Since two ids that differ refuse the login wherever they came from, the order of the sources decides
 * nothing but which of two is named first in that message.
 *
 * The source `comment` has no row: it speaks for one transaction at a time (proxy/own). */
#include "tenant/resolve.h"

#include <ctype.h>
#include <pthread.h>
#include <regex.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/verify.h"
#include "wire/sqlstate.h"

#define ORG_DEFAULT "default"

/* ---- org_pattern ---- */

/* One compiled pattern per thread: there is one setting, and it changes by reload only. */
struct pattern {
	char *text; /* owns */
	bool works; /* regex is compiled, with a group */
	regex_t regex;
};

static pthread_key_t pattern_key;
static pthread_once_t pattern_once = PTHREAD_ONCE_INIT;

static void pattern_free(void *at)
{
	struct pattern *p = at;

	if (p->works)
		regfree(&p->regex);
	mem_free(p->text);
	mem_free(p);
}

static void pattern_key_make(void)
{
	verify(pthread_key_create(&pattern_key, pattern_free) == 0);
}

static struct pattern *pattern_new(const char *text)
{
	struct pattern *p = mem_make(struct pattern);

	p->text = mem_str(text);
	p->works = regcomp(&p->regex, text, REG_EXTENDED) == 0;
	if (p->works && p->regex.re_nsub < 1) {
		regfree(&p->regex);
		p->works = false;
	}
	return p;
}

static struct pattern *pattern_of(const char *text)
{
	pthread_once(&pattern_once, pattern_key_make);
	struct pattern *p = pthread_getspecific(pattern_key);
	if (p && strcmp(p->text, text) == 0)
		return p;
	if (p)
		pattern_free(p);
	p = pattern_new(text);
	verify(pthread_setspecific(pattern_key, p) == 0);
	return p;
}

/* The first group's place in text; false: no match. */
static bool pattern_find(const char *pattern, const char *text, struct span *found)
{
	struct pattern *p = pattern_of(pattern);
	regmatch_t at[2];

	if (!p->works || regexec(&p->regex, text, 2, at, 0) != 0 || at[1].rm_so < 0)
		return false;
	*found = (struct span){(const uint8_t *)text + at[1].rm_so, (size_t)(at[1].rm_eo - at[1].rm_so)};
	return true;
}

bool org_from_pattern(const char *pattern, const char *text, char out[ORG_ID_MOST + 1], bool *illegal)
{
	struct span found;

	*illegal = false;
	if (!pattern_find(pattern, text, &found))
		return false;
	*illegal = !org_id_make((const char *)found.p, found.len, out);
	return !*illegal;
}

/* ---- the sources ---- */

/* What has been claimed so far. */
struct inquiry {
	const struct conf *conf;
	const struct claims *claims;
	struct verdict_org *out;
	const char *source;      /* at work */
	const char *said_by;     /* who gave out->id */
	struct err *err;
};

static bool claim(struct inquiry *q, struct span id)
{
	char text[ORG_ID_MOST + 1];

	if (!org_id_make((const char *)id.p, id.len, text))
		return err_set(q->err, SQLSTATE_LOGIN, "illegal org id in %s: 1 to %d characters of A-Z a-z 0-9 _ . : - are expected", q->source, ORG_ID_MOST);
	if (q->out->said && strcmp(q->out->id, text) != 0)
		return err_set(q->err, SQLSTATE_LOGIN, "%s says org \"%s\", but %s says \"%s\"", q->said_by, q->out->id, q->source, text);
	if (!q->out->said)
		q->said_by = q->source;
	q->out->said = true;
	strcpy(q->out->id, text);
	return true;
}

static bool from_startup(struct inquiry *q)
{
	const struct startup *s = q->claims->startup;

	for (int i = 0; s && i < s->n_params; i++)
		if (org_is_parameter(s->params[i].name) && !claim(q, span_str(s->params[i].value)))
			return false;
	return true;
}

static bool claim_option(void *arg, const char *name, const char *value, struct err *err)
{
	(void)err;
	return !org_is_parameter(name) || claim(arg, span_str(value));
}

static bool from_options(struct inquiry *q)
{
	struct err *err = q->err, own = {0}, syntax;

	if (!q->claims->options)
		return true;
	/* Bad syntax is not this file's business: whoever reads the other settings in there refuses it. */
	q->err = &own;
	startup_options(q->claims->options, claim_option, q, &syntax);
	q->err = err;
	return !own.sqlstate[0] || err_set(err, own.sqlstate, "%s", own.text);
}

static bool from_application_name(struct inquiry *q)
{
	const char *name = q->claims->application_name;
	struct span found;

	return !name || !pattern_find(q->conf->set.org_pattern, name, &found) || claim(q, found);
}

static bool from_user_suffix(struct inquiry *q)
{
	return !q->claims->user_suffix || claim(q, span_str(q->claims->user_suffix));
}

static bool from_sni(struct inquiry *q)
{
	const char *name = q->claims->sni;

	return !name || claim(q, (struct span){(const uint8_t *)name, strcspn(name, ".")});
}

/* A name in which org_pattern finds an org; where it finds none, the common name is the org's. */
static bool from_cert(struct inquiry *q)
{
	bool found_one = false;
	struct span found;

	for (int i = 0; i < q->claims->n_cert_names; i++) {
		if (!pattern_find(q->conf->set.org_pattern, q->claims->cert_names[i], &found))
			continue;
		found_one = true;
		if (!claim(q, found))
			return false;
	}
	return found_one || !q->claims->n_cert_names || claim(q, span_str(q->claims->cert_names[0]));
}

static const struct {
	const char *name;
	bool (*ask)(struct inquiry *q);
} sources[] = {
	{"startup", from_startup},
	{"options", from_options},
	{"application_name", from_application_name},
	{"user_suffix", from_user_suffix},
	{"sni", from_sni},
	{"cert", from_cert},
};

/* Asks the sources in the order in which the setting names them. */
static bool ask_all(struct inquiry *q)
{
	for (const char *at = q->conf->set.org_sources; *at;) {
		at += strspn(at, ", \t");
		size_t len = strcspn(at, ", \t");
		for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
			if (strlen(sources[i].name) != len || strncasecmp(sources[i].name, at, len) != 0)
				continue;
			q->source = sources[i].name;
			if (!sources[i].ask(q))
				return false;
		}
		at += len;
	}
	return true;
}

/* ---- bindings ---- */

/* The orgs a user is bound to; the array is the caller's to free. */
static const struct conf_org **bound_to(const struct conf *c, const char *user, int *n)
{
	*n = user ? conf_bound(c, user, NULL, 0) : 0;
	if (!*n)
		return NULL;
	const struct conf_org **orgs = mem_new((size_t)*n * sizeof(*orgs));
	conf_bound(c, user, orgs, *n);
	return orgs;
}

static bool binding_allows(const struct conf *c, const char *user, const char *id)
{
	int n;
	const struct conf_org **orgs = bound_to(c, user, &n);
	bool allowed = n == 0;

	for (int i = 0; i < n; i++)
		allowed = allowed || strcmp(orgs[i]->id, id) == 0;
	mem_free(orgs);
	return allowed;
}

bool org_admit(const struct conf *c, const char *user, const char *id, struct err *err)
{
	if (!binding_allows(c, user, id))
		return err_set(err, SQLSTATE_LOGIN, "user \"%s\" may not speak for org \"%s\"", user, id);
	if (c->set.org_unknown == ORG_REJECT && strcmp(id, ORG_DEFAULT) != 0 && !conf_org(c, id))
		return err_set(err, SQLSTATE_LOGIN, "org \"%s\" is not known", id);
	return true;
}

/* Nobody said anything: the binding may, or the org is the default one. */
static bool assume(struct inquiry *q)
{
	int n;
	const struct conf_org **orgs = bound_to(q->conf, q->claims->user, &n);

	strcpy(q->out->id, n == 1 ? orgs[0]->id : ORG_DEFAULT);
	q->out->said = n == 1;
	mem_free(orgs);
	if (n > 1)
		return err_set(q->err, SQLSTATE_LOGIN, "user \"%s\" is bound to several orgs and must say for which one it speaks", q->claims->user);
	if (!q->out->said && q->conf->set.org_required)
		return err_set(q->err, SQLSTATE_LOGIN, "the client must say for which org it speaks (org_required)");
	return true;
}

/* ---- public ---- */

bool org_resolve(const struct conf *c, const struct claims *cl, struct verdict_org *out, struct err *err)
{
	struct inquiry q = {.conf = c, .claims = cl, .out = out, .err = err};

	*out = (struct verdict_org){0};
	if (!ask_all(&q) || (!out->said && !assume(&q)))
		return false;
	return org_admit(c, cl->user, out->id, err);
}

/* Dashes and underscores are one here: `options` turns the former into the latter. */
bool org_is_parameter(const char *name)
{
	static const char *const names[] = {"x_org_id", "org_id", "pgweir.org"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *a = name, *b = names[i];
		while (*a && *b && (tolower((unsigned char)*a) == *b || (*a == '-' && *b == '_')))
			a++, b++;
		if (!*a && !*b)
			return true;
	}
	return false;
}
