/* [clusters]: name = primary=host:port max_server_conn=80 ...; and the implicit clusters of entries with a plain host=. */
#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "conf/comma_priv.h"
#include "conf/line_priv.h"

#define CLUSTER_NAME_MOST 64

struct draft {
	struct conf_cluster cluster;
	char *primary, *replicas, *control; /* owns */
};

static const struct key keys[] = {
	KEY(struct draft, primary, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY(struct draft, replicas, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, max_server_conn, cluster.max_server_conn, KIND_INT, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, max_server_login, cluster.max_server_login, KIND_INT, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, priority_max_wait, cluster.priority_max_wait, KIND_SEC, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, org_reset_query, cluster.org_reset_query, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, breaker, cluster.breaker, KIND_WORD, words_breaker_mode, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, breaker_failures, cluster.breaker_failures, KIND_INT, NULL, 1, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, breaker_open, cluster.breaker_open, KIND_SEC, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, breaker_probes, cluster.breaker_probes, KIND_INT, NULL, 1, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, probe_interval, cluster.probe_interval, KIND_SEC, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, probe_timeout, cluster.probe_timeout, KIND_SEC, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, probe_user, cluster.probe_user, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, probe_password, cluster.probe_password, KIND_SECRET, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, fence_exempt_users, cluster.fence_exempt_users, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, probe_dbname, cluster.probe_dbname, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY(struct draft, control, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, fence_lease, cluster.fence_lease, KIND_SEC, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, hot_storage_query, cluster.hot_storage_query, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY_AT(struct draft, hot_storage_entry, cluster.hot_storage_entry, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
};

/* Settings of the process that a cluster may have its own value of. Read here to be checked; whoever builds one
 * gives it a field and moves it up. */
static const char *const process_keys[] = {
	"degraded_to", "degraded_functions",
};

static bool is_process_key(const char *name)
{
	for (size_t i = 0; i < sizeof(process_keys) / sizeof(process_keys[0]); i++)
		if (strcmp(process_keys[i], name) == 0)
			return true;
	return false;
}

static void offer(struct near *near)
{
	for (size_t i = 0; i < sizeof(process_keys) / sizeof(process_keys[0]); i++)
		near_offer(near, process_keys[i]);
}

static enum line_taken take_process_key(struct line *line, const char *name, const char *value, struct err *err)
{
	const struct setting *s = is_process_key(name) ? setting_find(name) : NULL;
	struct settings scratch = {0};
	bool ok;

	if (!s)
		return LINE_UNKNOWN;
	if (setting_flags(s) & SETTING_UNBUILT)
		load_unbuilt(line->load, line->row, "[clusters] %s", name);
	ok = setting_parse(s, &scratch, value, err);
	settings_free(&scratch);
	return ok ? LINE_TAKEN : LINE_BAD;
}

/* No ':' in it, so that it is never the name of an implicit one. */
static bool name_is_good(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("_.-", name[i]))
			return false;
	return len >= 1 && len <= CLUSTER_NAME_MOST;
}

static void cluster_clear(struct conf_cluster *c)
{
	mem_free(c->name);
	hosts_free(&c->primary, c->n_primary);
	hosts_free(&c->replicas, c->n_replicas);
	mem_free(c->org_reset_query);
	mem_free(c->probe_user);
	mem_free(c->probe_dbname);
	mem_free(c->fence_exempt_users);
	secret_free(&c->probe_password);
	control_clear(&c->control);
	mem_free(c->hot_storage_query);
	mem_free(c->hot_storage_entry);
}

void cluster_free(struct conf_cluster *c)
{
	cluster_clear(c);
	mem_free(c);
}

/* Puts the cluster into the snapshot, in the place of one of the same name. */
static struct conf_cluster *keep(struct conf *conf, const struct conf_cluster *draft)
{
	struct conf_cluster *c = mem_make(struct conf_cluster);
	struct conf_cluster *old = (struct conf_cluster *)conf_cluster(conf, draft->name);

	*c = *draft;
	if (old) {
		c->index = old->index;
		hash_take(&conf->clusters, &old->link);
		cluster_free(old);
	} else {
		c->index = conf->n_clusters++;
		conf->cluster_at = mem_grow(conf->cluster_at, (size_t)conf->n_clusters * sizeof(conf->cluster_at[0]));
	}
	conf->cluster_at[c->index] = c;
	hash_add(&conf->clusters, &c->link, hash_bytes(c->name, strlen(c->name)));
	return c;
}

static struct conf_cluster defaults(const struct settings *set, const char *name)
{
	struct conf_cluster c = {
		.name = mem_str(name),
		.max_server_conn = set->max_server_conn,
		.max_server_login = set->max_server_login,
		.priority_max_wait = set->priority_max_wait,
		.org_reset_query = mem_str(set->org_reset_query),
		.breaker = set->breaker,
		.breaker_failures = set->breaker_failures,
		.breaker_probes = set->breaker_probes,
		.breaker_open = set->breaker_open,
		.probe_interval = set->probe_interval,
		.probe_timeout = set->probe_timeout,
		.fence_lease = set->fence_lease,
		.probe_user = mem_str(set->probe_user),
		.probe_dbname = mem_str(set->probe_dbname),
		.hot_storage_query = mem_str(set->hot_storage_query),
		.hot_storage_entry = mem_str(set->hot_storage_entry),
		.fence_exempt_users = mem_str(set->fence_exempt_users),
	};

	if (set->probe_password[0])
		secret_set(&c.probe_password, set->probe_password, strlen(set->probe_password));
	return c;
}

#define PROBE_LEAST (10 * USEC_PER_MSEC)

static bool check_probes(struct load *l, const struct row *row, const struct conf_cluster *c, struct err *err)
{
	if (c->breaker == BREAKER_OFF)
		return true;
	if (c->probe_interval < PROBE_LEAST || c->probe_timeout < PROBE_LEAST)
		return err_set(err, NULL, "probe_interval and probe_timeout are 10 milliseconds at least");
	if (!c->probe_user[0] && c->n_primary + c->n_replicas > 1)
		load_warning(l, row->file, row->line, "[clusters] %s: without probe_user no probe can tell which of its hosts is the primary, and none is followed", c->name);
	return true;
}

/* Both sides read a lease on clocks of their own, and a poll goes out each second. */
#define LEASE_LEAST (2 * USEC_PER_SEC)
#define LEASE_MOST (3600 * USEC_PER_SEC)

static bool read_control(struct conf_cluster *c, const char *text, struct err *err)
{
	if (!text[0] || c->breaker != BREAKER_ON)
		return true;
	if (c->fence_lease < LEASE_LEAST || c->fence_lease > LEASE_MOST)
		return err_set(err, NULL, "fence_lease is 2 seconds to an hour");
	return control_read(text, &c->control, err);
}

void clusters_row(struct load *l, const struct row *row)
{
	struct draft d = {.cluster = defaults(&l->conf->set, row->key), .control = mem_str(l->conf->set.control)};
	struct conf_cluster *c = &d.cluster;
	struct line line = {.load = l, .row = row, .keys = keys, .n_keys = sizeof(keys) / sizeof(keys[0]), .into = &d, .other = take_process_key, .offer = offer};
	struct err err = {0};
	bool ok = true;

	line_read(&line);
	if (!name_is_good(row->key))
		ok = err_set(&err, NULL, "a cluster's name is 1 to 64 of A-Za-z0-9_.-");
	else if (!line.bad && !d.primary)
		ok = err_set(&err, NULL, "a cluster needs primary=host:port");
	if (ok && d.primary)
		ok = hosts_read(d.primary, 5432, &c->primary, &c->n_primary, &err);
	if (ok && d.replicas)
		ok = hosts_read(d.replicas, 5432, &c->replicas, &c->n_replicas, &err);
	if (ok && !line.bad)
		ok = check_probes(l, row, c, &err) && read_control(c, d.control, &err);
	if (!ok)
		load_error(l, row->file, row->line, "[clusters] %.64s: %s", row->key, err.text);
	if (ok && !line.bad)
		keep(l->conf, c);
	else
		cluster_clear(c);
	mem_free(d.primary);
	mem_free(d.replicas);
	mem_free(d.control);
}

static int comma_count(const char *text)
{
	struct comma at = {text, 0, NULL};
	int n = 0;

	while (comma_next(&at))
		n++;
	return n;
}

/* A list of hosts without ports and a list of ports, one for all or one each. */
static bool plain_hosts(const char *hosts, const char *ports, struct conf_cluster *c, struct err *err)
{
	struct comma host = {hosts, 0, NULL}, port = {ports, 0, NULL};
	int n_hosts = comma_count(hosts), n_ports = comma_count(ports);

	if (n_ports != 1 && n_ports != (n_hosts ? n_hosts : 1))
		return err_set(err, "22023", "port: %d ports for %d hosts", n_ports, n_hosts ? n_hosts : 1);
	c->n_primary = n_hosts ? n_hosts : 1;
	c->primary = mem_new((size_t)c->n_primary * sizeof(c->primary[0]));
	for (int i = 0; i < c->n_primary; i++) {
		char text[32];

		if ((i == 0 || n_ports > 1) && !(comma_next(&port) && comma_copy(&port, text, sizeof(text))))
			return err_set(err, "22023", "port: not in the range 1 to 65535");
		if (!port_read(text, &c->primary[i].port, err))
			return false;
		if (n_hosts && comma_next(&host))
			c->primary[i].host = mem_strn(host.p, host.len);
	}
	return true;
}

/* "a,b:5432", "unix:5432", "[::1]:5432", or with a port each "a:1,b:2". */
static char *implicit_name(const struct conf_cluster *c)
{
	struct buf name = {0};
	bool one_port = true;
	char *text;

	for (int i = 1; i < c->n_primary; i++)
		one_port &= c->primary[i].port == c->primary[0].port;
	for (int i = 0; i < c->n_primary; i++) {
		const char *host = c->primary[i].host ? c->primary[i].host : "unix";

		buf_add_fmt(&name, strchr(host, ':') ? "%s[%s]" : "%s%s", i ? "," : "", host);
		if (!one_port || i == c->n_primary - 1)
			buf_add_fmt(&name, ":%d", c->primary[i].port);
	}
	text = mem_strn(name.p, name.len);
	buf_free(&name);
	return text;
}

struct conf_cluster *cluster_implicit(struct load *l, const char *hosts, const char *ports, struct err *err)
{
	struct conf_cluster c = defaults(&l->conf->set, NULL), *kept;

	c.implicit = true;
	c.breaker = BREAKER_OFF;
	if (!plain_hosts(hosts, ports, &c, err)) {
		cluster_clear(&c);
		return NULL;
	}
	c.name = implicit_name(&c);
	kept = (struct conf_cluster *)conf_cluster(l->conf, c.name);
	if (!kept)
		return keep(l->conf, &c);
	cluster_clear(&c);
	return kept;
}
