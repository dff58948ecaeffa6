/* [databases]: name = host=... dbname=... pool_size=... statement_timeout=...; "*" stands for all other names. */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "conf/check_priv.h"
#include "conf/line_priv.h"
#include "conf/server_setting_priv.h"

#define NAME_MOST 63      /* PostgreSQL's NAMEDATALEN - 1 */
#define USER_MOST 127     /* as PgBouncer */
#define PASSWORD_MOST 65530

struct draft {
	struct conf_entry entry;
	char *host, *port, *cluster; /* owns; NULL: not given */
	int prefer;
};

static const struct key keys[] = {
	KEY_AT(struct draft, dbname, entry.dbname, KIND_STR, NULL, 0, NAME_MOST, 0, KEY_BUILT),
	KEY(struct draft, host, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY(struct draft, port, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, user, entry.user, KIND_STR, NULL, 0, USER_MOST, 0, KEY_BUILT),
	KEY_AT(struct draft, password, entry.password, KIND_SECRET, NULL, 0, PASSWORD_MOST, 0, KEY_BUILT),
	KEY_AT(struct draft, auth_user, entry.auth_user, KIND_STR, NULL, 0, USER_MOST, 0, KEY_BUILT),
	KEY_AT(struct draft, auth_query, entry.auth_query, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, auth_dbname, entry.auth_dbname, KIND_STR, NULL, 0, NAME_MOST, 0, KEY_BUILT),
	KEY_AT(struct draft, pool_size, entry.over.pool_size, KIND_INT, NULL, 0, 0, FIELD_NEGATIVE_INHERITS, KEY_BUILT),
	KEY_AT(struct draft, min_pool_size, entry.over.min_pool_size, KIND_INT, NULL, 0, 0, FIELD_NEGATIVE_INHERITS, KEY_BUILT),
	KEY_AT(struct draft, reserve_pool_size, entry.over.reserve_pool_size, KIND_INT, NULL, 0, 0, FIELD_NEGATIVE_INHERITS, KEY_BUILT),
	KEY_AT(struct draft, reserve_pool, entry.over.reserve_pool_size, KIND_INT, NULL, 0, 0, FIELD_NEGATIVE_INHERITS, KEY_BUILT),
	KEY_AT(struct draft, max_db_connections, entry.max_db_connections, KIND_INT, NULL, 0, 0, FIELD_ZERO_INHERITS, KEY_BUILT),
	KEY_AT(struct draft, max_db_client_connections, entry.max_db_client_connections, KIND_INT, NULL, 0, 0, FIELD_ZERO_INHERITS, KEY_BUILT),
	KEY_AT(struct draft, pool_mode, entry.over.pool_mode, KIND_WORD, words_pool_mode, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, server_lifetime, entry.over.server_lifetime, KIND_SEC, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, query_wait_timeout, entry.over.query_wait_timeout, KIND_SEC, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, load_balance_hosts, entry.balance, KIND_WORD, words_balance, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, connect_query, entry.connect_query, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY(struct draft, cluster, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY(struct draft, prefer, KIND_WORD, words_prefer, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, fallback, entry.fallback, KIND_STR, NULL, 0, NAME_MOST, 0, KEY_BUILT),
};

void overrides_clear(struct overrides *over)
{
	*over = (struct overrides){
		.pool_size = -1, .min_pool_size = -1, .reserve_pool_size = -1, .pool_mode = -1,
		.query_timeout = -1, .query_wait_timeout = -1, .idle_transaction_timeout = -1, .transaction_timeout = -1,
		.client_idle_timeout = -1, .server_lifetime = -1,
	};
}

static void param_set(struct conf_entry *e, const char *name, const char *value)
{
	struct conf_param *p = NULL;

	for (int i = 0; i < e->n_params; i++)
		if (strcasecmp(e->params[i].name, name) == 0)
			p = &e->params[i];
	if (!p) {
		e->params = mem_grow(e->params, (size_t)(e->n_params + 1) * sizeof(*p));
		p = &e->params[e->n_params++];
		*p = (struct conf_param){.name = mem_str(name)};
	}
	mem_free(p->value);
	p->value = mem_str(value);
}

static enum line_taken take_server_setting(struct line *line, const char *name, const char *value, struct err *err)
{
	struct draft *d = line->into;

	(void)err;
	if (!server_setting_is(name))
		return LINE_UNKNOWN;
	param_set(&d->entry, name, value);
	return LINE_TAKEN;
}

static void entry_clear(struct conf_entry *e)
{
	mem_free(e->name);
	mem_free(e->dbname);
	mem_free(e->user);
	secret_free(&e->password);
	mem_free(e->auth_user);
	mem_free(e->auth_query);
	mem_free(e->auth_dbname);
	mem_free(e->connect_query);
	mem_free(e->fallback);
	for (int i = 0; i < e->n_params; i++) {
		mem_free(e->params[i].name);
		mem_free(e->params[i].value);
	}
	mem_free(e->params);
}

void conf_entry_free(struct conf_entry **e)
{
	if (!*e)
		return;
	entry_clear(*e);
	mem_free(*e);
	*e = NULL;
}

static void empty_is_unset(char **text)
{
	if (!*text || **text)
		return;
	mem_free(*text);
	*text = NULL;
}

static bool find_cluster(struct load *l, struct draft *d, struct err *err)
{
	struct conf_entry *e = &d->entry;

	if (d->cluster && (d->host || d->port))
		return err_set(err, NULL, "cluster= and host= or port= exclude each other");
	if (!d->cluster) {
		e->cluster = cluster_implicit(l, d->host ? d->host : "", d->port ? d->port : "5432", err);
		return e->cluster != NULL;
	}
	e->cluster = (struct conf_cluster *)conf_cluster(l->conf, d->cluster);
	if (!e->cluster || e->cluster->implicit)
		return err_set(err, NULL, "cluster \"%.64s\" is not in [clusters]", d->cluster);
	return true;
}

/* What is wrong with the entry as a whole? */
static bool settle(struct load *l, struct draft *d, struct err *err)
{
	struct conf_entry *e = &d->entry;
	const struct settings *set = &l->conf->set;

	empty_is_unset(&e->dbname);
	empty_is_unset(&e->user);
	empty_is_unset(&e->auth_user);
	empty_is_unset(&e->auth_query);
	empty_is_unset(&e->auth_dbname);
	empty_is_unset(&e->connect_query);
	empty_is_unset(&e->fallback);
	e->prefer_replica = d->prefer == 1;
	if (e->max_db_connections < 0)
		e->max_db_connections = set->max_db_connections;
	if (e->max_db_client_connections < 0)
		e->max_db_client_connections = set->max_db_client_connections;
	if (check_is_console(e->name))
		return err_set(err, NULL, "the name is reserved for the console");
	if (strlen(e->name) > NAME_MOST)
		return err_set(err, NULL, "the name is longer than %d bytes", NAME_MOST);
	if (e->auth_dbname && !check_auth_dbname(e->auth_dbname, err))
		return false;
	return find_cluster(l, d, err);
}

/* Takes the draft's entry over, in the place of an earlier line of the same name. */
static void keep(struct conf *conf, const struct conf_entry *draft)
{
	struct conf_entry *e = mem_make(struct conf_entry);
	struct conf_entry *old;

	*e = *draft;
	if (strcmp(e->name, "*") == 0) {
		conf_entry_free(&conf->star);
		conf->star = e;
		return;
	}
	if (!e->dbname)
		e->dbname = mem_str(e->name);
	old = (struct conf_entry *)conf_entry(conf, e->name);
	if (old) {
		hash_take(&conf->entries, &old->link);
		conf_entry_free(&old);
	}
	hash_add(&conf->entries, &e->link, hash_bytes(e->name, strlen(e->name)));
}

void databases_row(struct load *l, const struct row *row)
{
	struct draft d = {.entry = {.name = mem_str(row->key), .max_db_connections = -1, .max_db_client_connections = -1}};
	struct line line = {.load = l, .row = row, .keys = keys, .n_keys = sizeof(keys) / sizeof(keys[0]), .into = &d, .other = take_server_setting, .offer = server_settings_offer};
	struct err err = {0};
	bool ok;

	overrides_clear(&d.entry.over);
	line_read(&line);
	ok = settle(l, &d, &err);
	if (!ok)
		load_error(l, row->file, row->line, "[databases] %.64s: %s", row->key, err.text);
	if (ok && !line.bad)
		keep(l->conf, &d.entry);
	else
		entry_clear(&d.entry);
	mem_free(d.host);
	mem_free(d.port);
	mem_free(d.cluster);
}

/* The line that an entry came from: the last one of its name. */
static const struct row *row_of(const struct conf *conf, const char *name)
{
	const struct row *row = NULL;

	for (size_t i = 0; i < conf->rows->count; i++) {
		const struct row *at = &conf->rows->at[i];

		if (at->key && strcmp(at->section, "databases") == 0 && strcmp(at->key, name) == 0)
			row = at;
	}
	verify(row);
	return row;
}

/* A chain of fallbacks is gone down one by one, and has to end. */
static bool fallback_comes_round(const struct conf *c, const struct conf_entry *e)
{
	size_t steps = 0;

	while (e && e->prefer_replica && e->fallback && steps++ <= c->entries.count)
		e = conf_entry(c, e->fallback);
	return steps > c->entries.count;
}

static bool check_fallback(const struct conf *c, const struct conf_entry *e, struct err *err)
{
	if (e->fallback && !conf_entry(c, e->fallback))
		return err_set(err, NULL, "fallback \"%s\" is no entry", e->fallback);
	if (e->fallback && !e->prefer_replica)
		return err_set(err, NULL, "fallback= has no meaning without prefer=replica");
	if (e->prefer_replica && !e->fallback && !e->cluster->n_replicas)
		return err_set(err, NULL, "prefer=replica: cluster \"%s\" has no replicas=, and there is no fallback=", e->cluster->name);
	return !fallback_comes_round(c, e) || err_set(err, NULL, "fallback \"%s\" leads back to where it came from", e->fallback);
}

static void check_reader(struct load *l, const struct conf_entry *e)
{
	const struct row *row;
	struct err err;

	if (check_fallback(l->conf, e, &err))
		return;
	row = row_of(l->conf, e->name);
	load_error(l, row->file, row->line, "[databases] %s: %s", e->name, err.text);
}

/* Drops the implicit clusters of lines that a later line has replaced, and closes the gaps. */
static void drop_unused_clusters(struct conf *conf)
{
	bool *used = mem_new((size_t)conf->n_clusters + 1);
	int n = 0;

	hash_each(link, &conf->entries)
		used[owner_of(link, struct conf_entry, link)->cluster->index] = true;
	if (conf->star)
		used[conf->star->cluster->index] = true;
	for (int i = 0; i < conf->n_clusters; i++) {
		struct conf_cluster *c = conf->cluster_at[i];

		if (c->implicit && !used[i]) {
			hash_take(&conf->clusters, &c->link);
			cluster_free(c);
			continue;
		}
		c->index = n;
		conf->cluster_at[n++] = c;
	}
	conf->n_clusters = n;
	mem_free(used);
}

void databases_end(struct load *l)
{
	hash_each(link, &l->conf->entries)
		check_reader(l, owner_of(link, struct conf_entry, link));
	if (l->conf->star)
		check_reader(l, l->conf->star);
	drop_unused_clusters(l->conf);
}

struct conf_entry *conf_entry_make(const struct conf *c, const char *name)
{
	const struct conf_entry *star = c->star;
	struct conf_entry *e;

	if (!star)
		return NULL;
	e = mem_make(struct conf_entry);
	*e = *star;
	e->link = (struct hash_link){0};
	e->name = mem_str(name);
	e->dbname = mem_str(star->dbname ? star->dbname : name);
	e->user = mem_str(star->user);
	e->password = (struct secret){0};
	if (secret_is_set(&star->password))
		secret_copy(&e->password, &star->password);
	e->auth_user = mem_str(star->auth_user);
	e->auth_query = mem_str(star->auth_query);
	e->auth_dbname = mem_str(star->auth_dbname);
	e->connect_query = mem_str(star->connect_query);
	e->fallback = mem_str(star->fallback);
	e->params = NULL;
	e->n_params = 0;
	for (int i = 0; i < star->n_params; i++)
		param_set(e, star->params[i].name, star->params[i].value);
	e->automatic = true;
	return e;
}
