/* SHOW VERSION, CONFIG, STATE, PEERS, PEER_POOLS, DNS_HOSTS and DNS_ZONES: what control knows of the process. */
#include "admin/show_priv.h"
#include "net/resolve.h"
#include "proxy/worker.h"

static const struct column version_columns[] = {{"version", COL_TEXT}};
static const struct column config_columns[] = {{"key", COL_TEXT}, {"value", COL_TEXT}, {"default", COL_TEXT}, {"changeable", COL_TEXT}};
static const struct column state_columns[] = {{"key", COL_TEXT}, {"value", COL_TEXT}};
static const struct column peer_columns[] = {{"peer_id", COL_INT4}, {"host", COL_TEXT}, {"port", COL_INT4}, {"pool_size", COL_INT4}};
static const struct column peer_pool_columns[] = {
	{"peer_id", COL_INT4}, {"cl_active_cancel_req", COL_INT4}, {"cl_waiting_cancel_req", COL_INT4}, {"sv_active_cancel", COL_INT4}, {"sv_login", COL_INT4},
};
static const struct column dns_host_columns[] = {{"hostname", COL_TEXT}, {"ttl", COL_INT8}, {"addrs", COL_TEXT}};
static const struct column dns_zone_columns[] = {{"zonename", COL_TEXT}, {"serial", COL_INT8}, {"count", COL_INT4}};

const struct columns columns_version = COLUMNS_OF(version_columns);
const struct columns columns_config = COLUMNS_OF(config_columns);
const struct columns columns_state = COLUMNS_OF(state_columns);
const struct columns columns_peers = COLUMNS_OF(peer_columns);
const struct columns columns_peer_pools = COLUMNS_OF(peer_pool_columns);
const struct columns columns_dns_hosts = COLUMNS_OF(dns_host_columns);
const struct columns columns_dns_zones = COLUMNS_OF(dns_zone_columns);

/* The version whose tables and texts these are: tools compare it. Our own stands in -V and in the log. */
#define PGBOUNCER_VERSION "PgBouncer 1.25.2"

void tell_nothing(const struct gather *g, struct buf *out)
{
	(void)g;
	(void)out;
}

void tell_version(const struct gather *g, struct buf *out)
{
	struct row r;

	(void)g;
	row_begin(&r, out, columns_version.n);
	row_text(&r, PGBOUNCER_VERSION);
	row_end(&r);
}

/* ---- CONFIG ---- */

static const char *finished(struct buf *b)
{
	buf_add_u8(b, 0);
	return (const char *)b->p;
}

static void put_setting(struct buf *out, const struct setting *s)
{
	const struct conf *conf = control->setup->conf;
	struct buf value = {0}, usual = {0};
	struct row r;

	setting_print(s, &conf->set, &value);
	setting_print_default(s, conf->pgbouncer, &usual);
	if (!value.len && strcmp(setting_name(s), "conffile") == 0)
		buf_add_str(&value, conf->file);
	row_begin(&r, out, columns_config.n);
	row_text(&r, setting_name(s));
	row_text(&r, finished(&value));
	row_text(&r, finished(&usual));
	row_text(&r, setting_flags(s) & SETTING_RESTART ? "no" : "yes");
	row_end(&r);
	buf_free(&value);
	buf_free(&usual);
}

void tell_config(const struct gather *g, struct buf *out)
{
	(void)g;
	for (int i = 0; i < settings_count(); i++)
		put_setting(out, setting_at(i));
}

/* ---- STATE ---- */

static void put_state(struct buf *out, const char *key, bool yes)
{
	struct row r;

	row_begin(&r, out, columns_state.n);
	row_text(&r, key);
	row_text(&r, yes ? "yes" : "no");
	row_end(&r);
}

void tell_state(const struct gather *g, struct buf *out)
{
	int stage = atomic_load(&process_stage);

	(void)g;
	put_state(out, "active", stage == STAGE_RUNNING);
	put_state(out, "paused", stage == STAGE_PAUSED);
	put_state(out, "suspended", stage == STAGE_SUSPENDED);
}

/* ---- PEERS ---- */

void tell_peers(const struct gather *g, struct buf *out)
{
	(void)g;
	list_each(at, &control->setup->conf->peers) {
		const struct conf_peer *p = list_owner(at, struct conf_peer, link);
		struct row r;
		row_begin(&r, out, columns_peers.n);
		row_int(&r, p->id);
		row_text(&r, p->host);
		row_int(&r, p->port);
		row_int(&r, p->pool_size);
		row_end(&r);
	}
}

/* ---- DNS_HOSTS ---- */

static void put_host(void *arg, const char *host, usec_t ttl, const struct answer *a)
{
	struct buf addrs = {0};
	struct row r;

	for (int i = 0; i < a->n; i++) {
		char text[ADDR_TEXT];
		addr_print_host(&a->addrs[i], text);
		if (i)
			buf_add_str(&addrs, ",");
		buf_add_str(&addrs, text);
	}
	row_begin(&r, arg, columns_dns_hosts.n);
	row_text(&r, host);
	row_int(&r, ttl / USEC_PER_SEC);
	row_text(&r, finished(&addrs));
	row_end(&r);
	buf_free(&addrs);
}

void tell_dns_hosts(const struct gather *g, struct buf *out)
{
	(void)g;
	resolve_each(put_host, out);
}
