/* SHOW CLUSTERS and FENCES: the configuration's clusters, and what control's watches know of those with a breaker. Control alone. */
#include <inttypes.h>

#include "admin/show_priv.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cluster/council.h"
#include "proxy/worker.h"

static const struct column cluster_columns[] = {
	{"cluster", COL_TEXT}, {"home", COL_TEXT}, {"max_server_conn", COL_INT4}, {"servers", COL_INT4}, {"max_server_login", COL_INT4},
	{"entries", COL_INT4}, {"hosts", COL_TEXT}, {"implicit", COL_INT4}, {"breaker", COL_TEXT}, {"state", COL_TEXT}, {"since", COL_TEXT},
	{"epoch", COL_INT8}, {"failures", COL_INT4}, {"probes", COL_INT4}, {"primary", COL_TEXT}, {"seen", COL_TEXT}, {"last_error", COL_TEXT},
};
const struct columns columns_clusters = COLUMNS_OF(cluster_columns);

static const struct column fence_columns[] = {
	{"cluster", COL_TEXT}, {"fenced", COL_INT4}, {"by", COL_TEXT}, {"state", COL_TEXT}, {"since", COL_TEXT}, {"epoch", COL_INT8},
	{"refused", COL_INT8}, {"control", COL_TEXT}, {"lease_ms", COL_INT8}, {"silence_ms", COL_INT8}, {"node", COL_TEXT},
};
const struct columns columns_fences = COLUMNS_OF(fence_columns);

/* ---- what both say ---- */

/* What the workers go by: a lease that is over fences, whatever the breaker's state is. */
static enum cluster_state state_of(const struct watch *w)
{
	word_t word = cluster_word(w->cluster);

	return word_is_guarded(word) ? word_state(word) : w->breaker.state;
}

static void row_since(struct row *r, const struct watch *w)
{
	char text[32];

	clock_print(clock_wall() - (loop_now(control->loop) - w->breaker.since), text);
	row_text(r, text);
}

static void row_or_null(struct row *r, const char *text)
{
	if (text[0])
		row_text(r, text);
	else
		row_null(r);
}

/* ---- CLUSTERS ---- */

static int entries_of(const struct conf *conf, const struct conf_cluster *cc)
{
	int n = 0;

	hash_each(link, &conf->entries)
		n += owner_of(link, struct conf_entry, link)->cluster == cc;
	return n;
}

static const char *breaker_text(const struct conf_cluster *cc)
{
	static const char *const texts[] = {[BREAKER_OFF] = "off", [BREAKER_ON] = "on", [BREAKER_OBSERVE] = "observe"};
	return texts[cc->breaker];
}

static void put_host(struct buf *out, const struct watch *w, const struct watched_host *h)
{
	static const char *const roles[] = {[ROLE_UNKNOWN] = "up", [ROLE_PRIMARY] = "primary", [ROLE_REPLICA] = "replica"};
	int64_t lag = watch_lag(w, h);

	buf_add_fmt(out, "%s%s ", out->len ? "; " : "", h->name);
	if (!h->seen.up) {
		buf_add_str(out, h->seen.err.text[0] ? "down" : "not asked yet");
		return;
	}
	buf_add_str(out, roles[h->seen.role]);
	if (h->seen.system_id)
		buf_add_fmt(out, " timeline=%" PRIu32, h->seen.timeline);
	if (lag >= 0)
		buf_add_fmt(out, " lag=%" PRId64, lag);
}

static void row_watch(struct row *r, const struct watch *w)
{
	const struct breaker *b = &w->breaker;
	struct buf seen = {0};

	for (int i = 0; i < w->n_hosts; i++)
		put_host(&seen, w, &w->hosts[i]);
	buf_add_u8(&seen, 0);
	row_text(r, cluster_state_name(state_of(w)));
	row_since(r, w);
	row_int(r, (int64_t)b->epoch);
	row_int(r, b->failures);
	row_int(r, b->good);
	row_text(r, w->serving >= 0 ? w->hosts[w->serving].name : NULL);
	row_text(r, (const char *)seen.p);
	row_or_null(r, w->last_err.text);
	buf_free(&seen);
}

static void put_cluster(struct buf *out, const struct conf_cluster *cc)
{
	struct cluster *c = cluster_of(cc->name, cc->max_server_conn);
	const struct watch *w = watch_find(cc->name);
	struct buf hosts = {0};
	struct row r;

	row_begin(&r, out, columns_clusters.n);
	row_text(&r, cc->name);
	row_text(&r, workers[c->home]->loop->name);
	row_int(&r, cc->max_server_conn);
	row_int(&r, atomic_load(&c->lent));
	row_int(&r, cc->max_server_login);
	row_int(&r, entries_of(control->setup->conf, cc));
	row_text(&r, hosts_text(cc, &hosts));
	row_int(&r, cc->implicit);
	row_text(&r, breaker_text(cc));
	if (w)
		row_watch(&r, w);
	for (int i = 0; !w && i < 8; i++)
		row_null(&r);
	row_end(&r);
	buf_free(&hosts);
}

void tell_clusters(const struct gather *g, struct buf *out)
{
	const struct conf *conf = control->setup->conf;
	const char **names;
	int n = names_of_clusters(conf, &names);

	(void)g;
	for (int i = 0; i < n; i++)
		put_cluster(out, conf_cluster(conf, names[i]));
	mem_free(names);
}

/* ---- FENCES ---- */

static const char *fenced_by(const struct watch *w)
{
	if (w->breaker.fenced)
		return "operator";
	return w->breaker.state == CLUSTER_PRIMARY ? "lease" : "breaker";
}

static void row_control(struct row *r, const struct watch *w)
{
	usec_t now = clock_now(), heard = council_heard(w), lease = w->agree.lease_until;

	if (!w->council) {
		for (int i = 0; i < 4; i++)
			row_null(r);
		return;
	}
	row_text(r, w->agree.heard ? cluster_state_name(w->agree.told.state) : "not heard yet");
	row_int(r, lease > now ? (lease - now) / USEC_PER_MSEC : 0);
	if (heard)
		row_int(r, (now - heard) / USEC_PER_MSEC);
	else
		row_null(r);
	row_text(r, council_node());
}

static void put_fence(struct buf *out, const struct watch *w)
{
	const struct breaker *b = &w->breaker;
	bool fenced = state_of(w) != CLUSTER_PRIMARY && w->conf->breaker == BREAKER_ON;
	struct row r;

	row_begin(&r, out, columns_fences.n);
	row_text(&r, w->cluster->name);
	row_int(&r, fenced);
	row_text(&r, fenced ? fenced_by(w) : NULL);
	row_text(&r, cluster_state_name(state_of(w)));
	row_since(&r, w);
	row_int(&r, (int64_t)b->epoch);
	row_int(&r, (int64_t)atomic_load(&w->cluster->refused_writes));
	row_control(&r, w);
	row_end(&r);
}

void tell_fences(const struct gather *g, struct buf *out)
{
	const struct conf *conf = control->setup->conf;
	const char **names;
	int n = names_of_clusters(conf, &names);

	(void)g;
	for (int i = 0; i < n; i++) {
		const struct watch *w = watch_find(names[i]);
		if (w)
			put_fence(out, w);
	}
	mem_free(names);
}
