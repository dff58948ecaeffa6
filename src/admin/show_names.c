/* SHOW DATABASES and USERS: the configuration's names with the counts of the whole process. Control alone: snapshot and
 * atomics. */
#include <stdlib.h>

#include "admin/show_priv.h"
#include "base/mem.h"
#include "proxy/worker.h"

/* ---- lists of names ---- */

struct names {
	const char **at; /* owns the array */
	int n, room;
	const struct conf *conf;
};

static void names_add(struct names *all, const char *name)
{
	if (all->n == all->room) {
		all->room = all->room ? all->room * 2 : 64;
		all->at = mem_grow(all->at, (size_t)all->room * sizeof(*all->at));
	}
	all->at[all->n++] = name;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int names_sort(struct names *all, const char ***out)
{
	int n = 0;

	if (all->n)
		qsort(all->at, (size_t)all->n, sizeof(*all->at), by_text);
	for (int i = 0; i < all->n; i++)
		if (!n || strcmp(all->at[n - 1], all->at[i]) != 0)
			all->at[n++] = all->at[i];
	*out = all->at;
	return n;
}

static bool in_use(struct tally *t)
{
	return atomic_load(&t->clients) || atomic_load(&t->servers) || atomic_load(&t->paused) || atomic_load(&t->disabled);
}

static void note_entry(void *arg, struct tally *t)
{
	struct names *all = arg;
	if (all->conf->star && in_use(t))
		names_add(all, t->name);
}

int names_of_entries(const struct conf *conf, const char ***out)
{
	struct names all = {.conf = conf};

	hash_each(link, &conf->entries)
		names_add(&all, owner_of(link, struct conf_entry, link)->name);
	tally_each_entry(note_entry, &all);
	return names_sort(&all, out);
}

static void note_user(void *arg, struct tally *t)
{
	names_add(arg, t->name);
}

int names_of_users(const struct conf *conf, const char ***out)
{
	struct names all = {0};

	hash_each(link, &conf->logins)
		names_add(&all, owner_of(link, struct conf_login, link)->name);
	hash_each(link, &conf->users)
		names_add(&all, owner_of(link, struct conf_user, link)->name);
	tally_each_user(note_user, &all);
	return names_sort(&all, out);
}

int names_of_clusters(const struct conf *conf, const char ***out)
{
	struct names all = {0};

	for (int i = 0; i < conf->n_clusters; i++)
		names_add(&all, conf->cluster_at[i]->name);
	return names_sort(&all, out);
}

/* ---- what clusters and entries are called ---- */

const char *hosts_text(const struct conf_cluster *cc, struct buf *out)
{
	out->len = 0;
	for (int i = 0; i < cc->n_primary; i++) {
		if (!cc->primary[i].host)
			continue;
		if (out->len)
			buf_add_str(out, ",");
		buf_add_str(out, cc->primary[i].host);
	}
	if (!out->len)
		return NULL;
	buf_add_u8(out, 0);
	return (const char *)out->p;
}

const char *balance_text(const struct conf_entry *e)
{
	if (e->cluster->n_primary < 2)
		return NULL;
	return e->balance == BALANCE_DISABLE ? "disable" : "round-robin";
}

/* ---- DATABASES ---- */

static const struct column database_columns[] = {
	{"name", COL_TEXT}, {"host", COL_TEXT}, {"port", COL_INT4}, {"database", COL_TEXT}, {"force_user", COL_TEXT}, {"pool_size", COL_INT4},
	{"min_pool_size", COL_INT4}, {"reserve_pool_size", COL_INT4}, {"server_lifetime", COL_INT4}, {"pool_mode", COL_TEXT}, {"load_balance_hosts", COL_TEXT},
	{"max_connections", COL_INT4}, {"current_connections", COL_INT4}, {"max_client_connections", COL_INT4}, {"current_client_connections", COL_INT4},
	{"paused", COL_INT4}, {"disabled", COL_INT4}, {"cluster", COL_TEXT}, {"fallbacks", COL_INT8},
};
const struct columns columns_databases = COLUMNS_OF(database_columns);

static int or_process(int own, int process)
{
	return own >= 0 ? own : process;
}

static bool entry_is_held(struct tally *t)
{
	int stage = atomic_load(&process_stage);
	return atomic_load(&t->paused) || stage == STAGE_PAUSED || stage == STAGE_SUSPENDED;
}

static void put_database(struct buf *out, const struct conf_entry *e)
{
	const struct settings *set = &control->setup->conf->set;
	struct tally *t = tally_entry(e->name);
	usec_t lifetime = e->over.server_lifetime >= 0 ? e->over.server_lifetime : set->server_lifetime;
	struct buf hosts = {0};
	struct row r;

	row_begin(&r, out, columns_databases.n);
	row_text(&r, e->name);
	row_text(&r, hosts_text(e->cluster, &hosts));
	row_int(&r, e->cluster->n_primary ? e->cluster->primary[0].port : 0);
	row_text(&r, e->dbname);
	row_text(&r, e->user);
	row_int(&r, or_process(e->over.pool_size, set->default_pool_size));
	row_int(&r, or_process(e->over.min_pool_size, set->min_pool_size));
	row_int(&r, or_process(e->over.reserve_pool_size, set->reserve_pool_size));
	row_int(&r, lifetime / USEC_PER_SEC);
	row_text(&r, e->over.pool_mode >= 0 ? pool_mode_name((enum pool_mode)e->over.pool_mode) : NULL);
	row_text(&r, balance_text(e));
	row_int(&r, e->max_db_connections);
	row_int(&r, atomic_load(&t->servers));
	row_int(&r, e->max_db_client_connections);
	row_int(&r, atomic_load(&t->clients));
	row_int(&r, entry_is_held(t));
	row_int(&r, atomic_load(&t->disabled));
	row_text(&r, e->cluster->name);
	row_int(&r, (int64_t)atomic_load(&t->fallbacks));
	row_end(&r);
	buf_free(&hosts);
}

static int console_clients(void)
{
	return control->n_clients[CLIENT_IDLE];
}

static void put_console(struct buf *out)
{
	const struct settings *set = &control->setup->conf->set;
	struct row r;

	row_begin(&r, out, columns_databases.n);
	row_text(&r, CONSOLE_DATABASE);
	row_null(&r);
	row_int(&r, set->listen_port);
	row_text(&r, CONSOLE_DATABASE);
	row_text(&r, CONSOLE_DATABASE);
	row_int(&r, 2); /* as PgBouncer's; it has no servers */
	row_int(&r, 0);
	row_int(&r, 0);
	row_int(&r, set->server_lifetime / USEC_PER_SEC);
	row_text(&r, pool_mode_name(POOL_STATEMENT));
	row_null(&r);
	row_int(&r, 0);
	row_int(&r, 0);
	row_int(&r, 0);
	row_int(&r, console_clients());
	row_int(&r, 0);
	row_int(&r, 0);
	row_null(&r);
	row_int(&r, 0);
	row_end(&r);
}

void tell_databases(const struct gather *g, struct buf *out)
{
	const struct conf *conf = control->setup->conf;
	const char **names;
	int n = names_of_entries(conf, &names);
	bool console_due = true;

	(void)g;
	for (int i = 0; i < n; i++) {
		const struct conf_entry *line = conf_entry(conf, names[i]);
		struct conf_entry *made = line ? NULL : conf_entry_make(conf, names[i]);
		if (console_due && strcmp(CONSOLE_DATABASE, names[i]) < 0) {
			put_console(out);
			console_due = false;
		}
		put_database(out, line ? line : made);
		conf_entry_free(&made);
	}
	if (console_due)
		put_console(out);
	mem_free(names);
}

/* ---- USERS ---- */

static const struct column user_columns[] = {
	{"name", COL_TEXT}, {"pool_size", COL_INT4}, {"reserve_pool_size", COL_INT4}, {"pool_mode", COL_TEXT}, {"max_user_connections", COL_INT4},
	{"current_connections", COL_INT4}, {"max_user_client_connections", COL_INT4}, {"current_client_connections", COL_INT4},
};
const struct columns columns_users = COLUMNS_OF(user_columns);

static void row_set(struct row *r, int v)
{
	if (v >= 0)
		row_int(r, v);
	else
		row_null(r);
}

static void put_user(struct buf *out, const char *name, const struct tally *t)
{
	const struct conf *conf = control->setup->conf;
	const struct conf_user *u = conf_user(conf, name);
	int pool_mode = u ? u->over.pool_mode : -1;
	struct row r;

	row_begin(&r, out, columns_users.n);
	row_text(&r, name);
	row_set(&r, u ? u->over.pool_size : -1);
	row_set(&r, u ? u->over.reserve_pool_size : -1);
	row_text(&r, pool_mode >= 0 ? pool_mode_name((enum pool_mode)pool_mode) : NULL);
	row_int(&r, or_process(u ? u->max_user_connections : -1, conf->set.max_user_connections));
	row_int(&r, atomic_load(&t->servers));
	row_int(&r, or_process(u ? u->max_user_client_connections : -1, conf->set.max_user_client_connections));
	row_int(&r, atomic_load(&t->clients));
	row_end(&r);
}

void tell_users(const struct gather *g, struct buf *out)
{
	const char **names;
	int n = names_of_users(control->setup->conf, &names);

	(void)g;
	for (int i = 0; i < n; i++)
		put_user(out, names[i], tally_user(names[i])); /* a name of the files at most: nobody else's is made here */
	mem_free(names);
}
