/* SHOW POOLS, LISTS, MEM and WORKERS: what a worker holds, in numbers. */
#include "admin/collect.h"
#include "admin/show_priv.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/resolve.h"
#include "proxy/worker.h"

/* ---- POOLS ---- */

static const struct column pool_columns[] = {
	{"database", COL_TEXT}, {"user", COL_TEXT}, {"cl_active", COL_INT4}, {"cl_waiting", COL_INT4}, {"cl_active_cancel_req", COL_INT4},
	{"cl_waiting_cancel_req", COL_INT4}, {"sv_active", COL_INT4}, {"sv_active_cancel", COL_INT4}, {"sv_being_canceled", COL_INT4}, {"sv_idle", COL_INT4},
	{"sv_used", COL_INT4}, {"sv_tested", COL_INT4}, {"sv_login", COL_INT4}, {"maxwait", COL_INT4}, {"maxwait_us", COL_INT4}, {"pool_mode", COL_TEXT},
	{"load_balance_hosts", COL_TEXT}, {"org", COL_TEXT},
};
const struct columns columns_pools = COLUMNS_OF(pool_columns);

/* The middle of a row; the console's has no pool. */
struct pool_numbers {
	int cl_active, cl_waiting, sv_active, sv_being_canceled, sv_idle, sv_tested, sv_login;
	usec_t maxwait;
};

static void row_numbers(struct row *r, const struct pool_numbers *n)
{
	row_int(r, n->cl_active);
	row_int(r, n->cl_waiting);
	row_int(r, 0); /* cancel requests are no clients here, and their connections no servers of the pool */
	row_int(r, 0);
	row_int(r, n->sv_active);
	row_int(r, 0);
	row_int(r, n->sv_being_canceled);
	row_int(r, n->sv_idle);
	row_int(r, 0); /* sv_used: a server that rested too long is tested when it is wanted */
	row_int(r, n->sv_tested);
	row_int(r, n->sv_login);
	row_int(r, n->maxwait / USEC_PER_SEC);
	row_int(r, n->maxwait % USEC_PER_SEC);
}

static usec_t pool_maxwait(const struct pool *p, usec_t now)
{
	struct list *first = list_first((struct list *)&p->waiters);
	return first ? now - list_owner(first, struct waiter, link)->since : 0;
}

static void put_pool(struct buf *out, const struct pool *p, usec_t now)
{
	const struct conf_entry *e = target_entry(p->target);
	const int *n = p->n_state;
	int served = p->n_clients - p->n_waiters; /* a look-up of a password waits, too, and is no client */
	struct row r;

	row_begin(&r, out, columns_pools.n);
	row_text(&r, p->target->entry->name);
	row_text(&r, p->target->user->name);
	row_numbers(&r, &(struct pool_numbers){
		.cl_active = served > 0 ? served : 0, .cl_waiting = p->n_waiters, .sv_active = n[SERVER_ACTIVE], .sv_being_canceled = n[SERVER_HELD],
		.sv_idle = n[SERVER_IDLE], .sv_tested = n[SERVER_TEST] + n[SERVER_RESET], .sv_login = n[SERVER_DIAL] + n[SERVER_LOGIN],
		.maxwait = pool_maxwait(p, now),
	});
	row_text(&r, pool_mode_name(p->policy.pool_mode));
	row_text(&r, e ? balance_text(e) : NULL);
	row_text(&r, p->flow->key);
	row_end(&r);
}

static void put_console_pool(struct worker *w, struct buf *out)
{
	struct row r;

	row_begin(&r, out, columns_pools.n);
	row_text(&r, CONSOLE_DATABASE);
	row_text(&r, CONSOLE_DATABASE);
	row_numbers(&r, &(struct pool_numbers){.cl_active = w->n_clients[CLIENT_IDLE]});
	row_text(&r, pool_mode_name(POOL_STATEMENT));
	row_null(&r);
	row_null(&r);
	row_end(&r);
}

void ask_pools(struct worker *w, struct buf *out)
{
	usec_t now = loop_now(w->loop);

	if (w->id < 0)
		put_console_pool(w, out);
	hash_each(at, &w->lanes) {
		struct lane *l = owner_of(at, struct lane, link);
		hash_each(link, &l->pools)
			put_pool(out, owner_of(link, struct pool, link), now);
	}
}

/* ---- WORKERS ---- */

static const struct column worker_columns[] = {
	{"worker", COL_TEXT},
#define COLUMN_COUNT_GAUGE(name) {#name, COL_INT4},
#define COLUMN_COUNT_COUNTER(name) {"total_" #name, COL_INT8},
#define COLUMN_SECONDS_GAUGE(name) {#name, COL_INT8},
#define WORKER_FIGURE(name, kind, unit, help) COLUMN_##unit##_##kind(name)
#include "admin/figures.def"
};
const struct columns columns_workers = COLUMNS_OF(worker_columns);

enum count { COUNT_CLIENTS, COUNT_GREETING, COUNT_SERVERS, COUNT_POOLS, COUNT_WAITING, COUNT_STMT_BYTES, COUNTS };

static void count_lane(const struct lane *l, int64_t n[COUNTS])
{
	n[COUNT_POOLS] += (int64_t)l->pools.count;
	hash_each(link, &l->pools) {
		const struct pool *p = owner_of(link, struct pool, link);
		n[COUNT_SERVERS] += p->n_servers;
		n[COUNT_WAITING] += p->n_waiters;
	}
}

static void count(const struct worker *w, int64_t n[COUNTS])
{
	for (int state = CLIENT_IDLE; state < CLIENT_CLOSING; state++)
		n[COUNT_CLIENTS] += w->n_clients[state];
	n[COUNT_GREETING] = w->n_clients[CLIENT_GREET];
	n[COUNT_STMT_BYTES] = (int64_t)w->stmt_book.bytes;
	hash_each(link, &w->lanes)
		count_lane(owner_of(link, struct lane, link), n);
}

void ask_workers(struct worker *w, struct buf *out)
{
	int64_t n[COUNTS] = {0}, figures[WORKER_FIGURES];
	struct row r;

	count(w, n);
	worker_figures(w, figures);
	figures[WORKER_servers] = n[COUNT_SERVERS];
	figures[WORKER_waiting] = n[COUNT_WAITING];
	row_begin(&r, out, columns_workers.n);
	row_text(&r, w->loop->name);
	for (int i = 0; i < WORKER_FIGURES; i++)
		row_int(&r, figures[i]);
	row_end(&r);
}

/* ---- LISTS and MEM, of the same numbers ---- */

static const struct column list_columns[] = {{"list", COL_TEXT}, {"items", COL_INT4}};
static const struct column mem_columns[] = {{"name", COL_TEXT}, {"size", COL_INT4}, {"used", COL_INT4}, {"free", COL_INT4}, {"memtotal", COL_INT4}};
const struct columns columns_lists = COLUMNS_OF(list_columns);
const struct columns columns_mem = COLUMNS_OF(mem_columns);

void ask_counts(struct worker *w, struct buf *out)
{
	int64_t n[COUNTS] = {0};

	count(w, n);
	buf_add(out, n, sizeof(n));
}

static void sum(const struct gather *g, int64_t all[COUNTS])
{
	for (int i = 0; i < g->n_parts; i++) {
		int64_t n[COUNTS];
		verify(g->parts[i].rows.len == sizeof(n));
		memcpy(n, g->parts[i].rows.p, sizeof(n));
		for (int at = 0; at < COUNTS; at++)
			all[at] += n[at];
	}
}

static int how_many(int (*names)(const struct conf *conf, const char ***out))
{
	const char **all;
	int n = names(control->setup->conf, &all);

	mem_free(all);
	return n;
}

static void note_name(void *arg, const char *host, usec_t ttl, const struct answer *a)
{
	(void)host;
	(void)ttl;
	(void)a;
	++*(int *)arg;
}

static int peers(void)
{
	int n = 0;

	list_each(at, &control->setup->conf->peers)
		n++;
	return n;
}

static void list_row(struct buf *out, const char *name, int64_t items)
{
	struct row r;

	row_begin(&r, out, columns_lists.n);
	row_text(&r, name);
	row_int(&r, items);
	row_end(&r);
}

void tell_lists(const struct gather *g, struct buf *out)
{
	int64_t n[COUNTS] = {0};
	int names = 0;

	sum(g, n);
	resolve_each(note_name, &names);
	list_row(out, "databases", how_many(names_of_entries) + 1); /* and the console's */
	list_row(out, "users", how_many(names_of_users));
	list_row(out, "peers", peers());
	list_row(out, "pools", n[COUNT_POOLS] + 1);
	list_row(out, "peer_pools", 0);
	list_row(out, "free_clients", 0); /* PgBouncer's kept memory: there is none */
	list_row(out, "used_clients", n[COUNT_CLIENTS]);
	list_row(out, "login_clients", n[COUNT_GREETING]);
	list_row(out, "free_servers", 0);
	list_row(out, "used_servers", n[COUNT_SERVERS]);
	list_row(out, "dns_names", names);
	list_row(out, "dns_zones", 0);
	list_row(out, "dns_queries", 0);
	list_row(out, "dns_pending", 0);
	list_row(out, "orgs", org_count());
	list_row(out, "clusters", control->setup->conf->n_clusters);
	list_row(out, "workers", n_workers);
}

static void mem_row(struct buf *out, const char *name, size_t size, int64_t used)
{
	struct row r;

	row_begin(&r, out, columns_mem.n);
	row_text(&r, name);
	row_int(&r, (int64_t)size);
	row_int(&r, used);
	row_int(&r, 0);
	row_int(&r, (int64_t)size * used);
	row_end(&r);
}

void tell_mem(const struct gather *g, struct buf *out)
{
	int64_t n[COUNTS] = {0};

	sum(g, n);
	mem_row(out, "user_cache", sizeof(struct tally), how_many(names_of_users));
	mem_row(out, "db_cache", sizeof(struct conf_entry), how_many(names_of_entries));
	mem_row(out, "pool_cache", sizeof(struct pool), n[COUNT_POOLS]);
	mem_row(out, "server_cache", sizeof(struct server), n[COUNT_SERVERS]);
	mem_row(out, "client_cache", sizeof(struct client), n[COUNT_CLIENTS] + n[COUNT_GREETING]);
	mem_row(out, "statement_bytes", 1, n[COUNT_STMT_BYTES]);
	mem_row(out, "org_cache", sizeof(struct org), org_count());
}
