/* Rounds: all hosts of a cluster are asked at once, and when each has answered or used up its time, what they said is judged. See
 * cluster/watch.h; who may be the primary is decided in primary.c. */
#include <inttypes.h>

#include "base/mem.h"
#include "cluster/watch_priv.h"
#include "wire/sqlstate.h"

#define PLAIN_FOR (60 * USEC_PER_SEC) /* an identity that was refused is asked for again after this */

/* ---- what they said ---- */

static void log_left_behind(struct watch *w, int primary)
{
	struct err err;

	for (int i = 0; i < w->n_hosts; i++) {
		const struct sighting *s = &w->hosts[i].seen;

		if (i == primary || !s->up || s->role != ROLE_PRIMARY)
			continue;
		err_set(&err, NULL, "%s says that it is the primary too, but on timeline %" PRIu32 " where %s is on %" PRIu32 ": it gets nothing", w->hosts[i].name,
			s->timeline, w->hosts[primary].name, w->hosts[primary].seen.timeline);
		watch_complain(w, &w->hosts[i].left_behind, &err);
	}
}

/* The very same: a host that was promoted, or promoted again, is another primary than it was. What is not told is not held against it. */
static bool is_same(const struct epoch_row *kept, const struct watched_host *h)
{
	if (strcmp(kept->host, h->name) != 0)
		return false;
	return !h->seen.system_id || !kept->system_id || (h->seen.system_id == kept->system_id && h->seen.timeline == kept->timeline);
}

/* What the next choice is measured against: from the moment it is seen, and not only when it is served, for it may be gone by then. */
static enum news remember(struct epoch_row *kept, const struct watched_host *h)
{
	if (is_same(kept, h) && (kept->system_id || !h->seen.system_id))
		return NEWS_NONE;
	kept->host[0] = '\0';
	if (strlen(h->name) <= EPOCH_HOST_MOST)
		strcpy(kept->host, h->name);
	if (h->seen.system_id) {
		kept->system_id = h->seen.system_id;
		kept->timeline = h->seen.timeline;
	}
	return NEWS_IDENTITY;
}

static void judge_blindly(struct watch *w)
{
	for (int i = 0; i < w->conf->n_primary; i++)
		if (w->hosts[i].seen.up) {
			w->last_err = (struct err){0};
			watch_found(w, BREAKER_GOOD, 0, NEWS_NONE);
			return;
		}
	err_set(&w->last_err, SQLSTATE_NOT_NOW, "%s: %s", w->hosts[0].name, w->hosts[0].seen.err.text);
	watch_found(w, BREAKER_BAD, -1, NEWS_NONE);
}

static enum primary_choice choose(struct watch *w, int *host)
{
	const struct primary_known known = {
		.system_id = w->kept.system_id,
		.timeline = w->kept.timeline,
		.last = watch_host(w, w->kept.host),
		.trusted = w->breaker.state == CLUSTER_PRIMARY ? w->serving : -1,
	};
	struct sighting *seen = mem_new((size_t)w->n_hosts * sizeof(*seen));
	const char **names = mem_new((size_t)w->n_hosts * sizeof(*names));
	enum primary_choice choice;

	for (int i = 0; i < w->n_hosts; i++) {
		seen[i] = w->hosts[i].seen;
		names[i] = w->hosts[i].name;
	}
	choice = primary_choose(seen, names, w->n_hosts, &known, host, &w->last_err);
	mem_free(seen);
	mem_free(names);
	return choice;
}

static void log_found(const struct watch *w, const struct watched_host *h)
{
	if (h->seen.system_id)
		watch_say(w, LOG_LOG_, "%s is the primary, on timeline %" PRIu32 " of system %" PRIu64, h->name, h->seen.timeline, h->seen.system_id);
	else
		watch_say(w, LOG_LOG_, "%s is the primary", h->name);
}

static void found(struct watch *w, int host)
{
	const struct watched_host *h = &w->hosts[host];
	bool first = !w->kept.host[0] && w->breaker.state == CLUSTER_PRIMARY; /* ever: there is none that it could have taken the place of */
	enum breaker_finding f = first || is_same(&w->kept, h) ? BREAKER_GOOD : BREAKER_OTHER;
	enum news news = remember(&w->kept, h);

	if (news == NEWS_IDENTITY)
		log_found(w, h);
	w->last_err = (struct err){0};
	if (h->seen.position)
		w->position = h->seen.position;
	log_left_behind(w, host);
	watch_found(w, f, host, news);
}

static void judge(struct watch *w)
{
	int host = -1;

	switch (choose(w, &host)) {
	case PRIMARY_FOUND:
		found(w, host);
		return;
	case PRIMARY_NONE:
		watch_found(w, BREAKER_BAD, -1, NEWS_NONE);
		return;
	case PRIMARY_CONFLICT:
		watch_complain(w, &w->conflict, &w->last_err);
		watch_found(w, BREAKER_CONFLICT, -1, NEWS_NONE);
		return;
	}
	never("no such choice");
}

/* ---- rounds ---- */

static void round_over(struct watch *w)
{
	usec_t next = w->began + w->conf->probe_interval, now = loop_now(watch_here.loop);

	timer_in(&w->round, next > now ? next - now : 0);
	if (w->ticket && watch_is_blind(w))
		judge_blindly(w);
	else if (w->ticket)
		judge(w);
	watch_replicas(w);
}

static void note_identity(struct watched_host *h, const struct err *refused)
{
	if (h->seen.system_id)
		h->plain_until = 0;
	if (!refused->text[0])
		return;
	if (!h->plain_until)
		watch_say(h->watch, LOG_WARNING_, "%s does not tell its timeline (%s): only its role is known. Give the probes' user the REPLICATION attribute", h->name, refused->text);
	h->plain_until = loop_now(watch_here.loop) + PLAIN_FOR;
}

static void on_probed(void *owner, const struct probe_result *r)
{
	struct watched_host *h = owner;

	h->probe = NULL;
	h->seen = r->seen;
	note_identity(h, &r->no_identity);
	if (--h->watch->n_open == 0)
		round_over(h->watch);
}

/* While the breaker is open: who was found last; where that is not known, all that may have been. */
static bool is_left_alone(const struct watch *w, int i)
{
	int last;

	if (w->breaker.state != CLUSTER_DEGRADED)
		return false;
	last = watch_is_blind(w) ? -1 : watch_host(w, w->kept.host);
	return last < 0 ? i < w->conf->n_primary : i == last;
}

static enum probe_depth depth_for(const struct watched_host *h)
{
	if (watch_is_blind(h->watch))
		return PROBE_ANSWER;
	return h->plain_until > loop_now(watch_here.loop) ? PROBE_ROLE : PROBE_IDENTITY;
}

static const struct secret *password_for(const struct watch *w)
{
	const struct conf_login *known = conf_login(watch_here.setup->conf, w->conf->probe_user);

	return secret_is_set(&w->conf->probe_password) ? &w->conf->probe_password : known ? &known->secret : NULL;
}

static void ask(struct watched_host *h)
{
	const struct watch *w = h->watch;
	struct probe_want want = {
		.host = h->conf->host,
		.port = h->conf->port,
		.depth = depth_for(h),
		.user = w->conf->probe_user,
		.dbname = w->conf->probe_dbname,
		.password = password_for(w),
		.tls = watch_here.setup->server_tls,
		.tls_required = watch_here.setup->conf->set.server_tls_sslmode >= SSL_REQUIRE,
		.timeout = w->conf->probe_timeout,
	};

	h->probe = probe_start(watch_here.loop, &want, on_probed, h);
}

void round_stop(struct watch *w)
{
	for (int i = 0; i < w->n_hosts; i++)
		probe_stop(&w->hosts[i].probe);
	w->n_open = 0;
	w->ticket = 0;
	breaker_probe_forget(&w->breaker);
}

void round_fire(struct timer *t)
{
	struct watch *w = owner_of(t, struct watch, round);

	round_stop(w);
	w->began = loop_now(watch_here.loop);
	w->ticket = breaker_probe_begin(&w->breaker);
	for (int i = 0; i < w->n_hosts; i++)
		if (!is_left_alone(w, i)) {
			w->n_open++;
			ask(&w->hosts[i]);
		}
	if (!w->n_open)
		timer_in(&w->round, w->conf->probe_interval);
}
