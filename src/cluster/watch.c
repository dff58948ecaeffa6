/* See cluster/watch.h. What is decided is decided in breaker.c and primary.c; this file has the timers, the order of things, and the log.
 *
 * The order: a fence is told to the workers first and kept then, a cutover is kept first and told then. So the disk never knows a lower epoch
 * than a worker, and a disk that fails leaves a fence up. */
#include "cluster/watch_priv.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/council.h"
#include "loop/mail.h"
#include "wire/sqlstate.h"

struct watch_here watch_here;

#define COMPLAIN_AGAIN (60 * USEC_PER_SEC)

struct breaker_rules watch_rules(const struct watch *w)
{
	return (struct breaker_rules){.failures = w->conf->breaker_failures, .probes = w->conf->breaker_probes, .open = w->conf->breaker_open};
}

static bool observes(const struct watch *w)
{
	return w->conf->breaker == BREAKER_OBSERVE;
}

int watch_host(const struct watch *w, const char *name)
{
	for (int i = 0; i < w->n_hosts; i++)
		if (strcmp(w->hosts[i].name, name) == 0)
			return i;
	return -1;
}

/* ---- the log ---- */

void watch_say(const struct watch *w, enum log_level level, const char *fmt, ...)
{
	char text[800];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_line(level, NULL, "cluster %s%s: %s", w->cluster->name, observes(w) ? " (breaker=observe: nothing is done)" : "", text);
}

void watch_complain(struct watch *w, struct complaint *c, const struct err *what)
{
	usec_t now = loop_now(watch_here.loop);

	if (strcmp(c->text, what->text) == 0 && now - c->at < COMPLAIN_AGAIN)
		return;
	strcpy(c->text, what->text);
	c->at = now;
	watch_say(w, LOG_ERROR_, "%s", what->text);
}

/* ---- telling the workers ---- */

static uint64_t key_to_serve(const struct watch *w)
{
	if (observes(w))
		return KEY_ANY;
	if (w->serving < 0)
		return KEY_NOBODY;
	return watch_is_blind(w) ? KEY_ANY : w->hosts[w->serving].key;
}

static bool may_be_read(const struct watch *w, const struct watched_host *h)
{
	return h->seen.up && h->seen.role == ROLE_REPLICA && (!h->seen.system_id || !w->kept.system_id || h->seen.system_id == w->kept.system_id);
}

void watch_replicas(struct watch *w)
{
	int n = 0;

	for (int i = 0; i < w->n_hosts && n < CLUSTER_REPLICAS_MOST && !observes(w); i++)
		if (may_be_read(w, &w->hosts[i]))
			atomic_store(&w->cluster->replicas[n++], w->hosts[i].key);
	for (; n < CLUSTER_REPLICAS_MOST; n++)
		atomic_store(&w->cluster->replicas[n], 0);
}

/* With a control store PRIMARY is not enough: the store must have said so, and its lease must hold. */
static word_t word_now(const struct watch *w)
{
	enum cluster_state state = w->breaker.state;

	if (observes(w))
		return 0;
	if (w->council && state == CLUSTER_PRIMARY && !agree_may_write(&w->agree, &w->breaker, clock_now()))
		state = CLUSTER_RECOVERING;
	return word_pack(state, w->breaker.epoch);
}

static void log_lease(const struct watch *w, word_t word)
{
	word_t before = atomic_load(&w->cluster->word);

	if (w->breaker.state != CLUSTER_PRIMARY || word_state(word) == word_state(before))
		return;
	if (word_state(word) == CLUSTER_PRIMARY)
		watch_say(w, LOG_LOG_, "the control store is heard: writes pass under epoch %" PRIu64, w->breaker.epoch);
	else if (w->agree.heard)
		watch_say(w, LOG_ERROR_, "fenced under epoch %" PRIu64 ": the control store was not heard for %g s", w->breaker.epoch, (double)w->conf->fence_lease / USEC_PER_SEC);
	else
		watch_say(w, LOG_WARNING_, "fenced under epoch %" PRIu64 " until the control store is heard", w->breaker.epoch);
}

/* Without one there is no lease; with one that has not been heard yet it has been over for ever. */
static void tell_lease(struct watch *w)
{
	usec_t until = w->council ? (w->agree.lease_until ? w->agree.lease_until : 1) : 0, now = clock_now();

	atomic_store(&w->cluster->lease_until, until);
	if (until > now)
		timer_in(&w->lease, until - now);
}

/* A fence goes up before another host can be dialled, and comes down after. */
static void tell(struct watch *w)
{
	struct cluster *c = w->cluster;
	word_t word = word_now(w);
	uint64_t key = key_to_serve(w);
	bool changed = atomic_load(&c->word) != word || atomic_load(&c->primary) != key;

	if (w->council && changed)
		log_lease(w, word);
	tell_lease(w);
	if (word_state(word) == CLUSTER_PRIMARY)
		atomic_store(&c->primary, key);
	atomic_store(&c->word, word);
	atomic_store(&c->primary, key);
	atomic_store(&c->failures, w->breaker.failures);
	if (changed)
		watch_here.changed(c);
}

static void tell_nothing(struct cluster *c)
{
	atomic_store(&c->primary, KEY_ANY);
	atomic_store(&c->word, 0);
	atomic_store(&c->lease_until, 0);
	for (int i = 0; i < CLUSTER_REPLICAS_MOST; i++)
		atomic_store(&c->replicas[i], 0);
	watch_here.changed(c);
}

/* ---- keeping ---- */

static bool keep(struct watch *w, struct err *err)
{
	w->kept.epoch = w->breaker.epoch;
	w->kept.state = w->breaker.state;
	w->kept.fenced = w->breaker.fenced;
	return observes(w) || epoch_keep(watch_here.book, &w->kept, err);
}

static void keep_or_complain(struct watch *w)
{
	struct err err;

	if (!keep(w, &err))
		watch_complain(w, &w->disk, &err);
}

/* ---- moves ---- */

static void log_move(const struct watch *w, enum cluster_state from)
{
	const struct breaker *b = &w->breaker;
	const char *why = w->last_err.text[0] ? w->last_err.text : "no answer";

	switch (b->state) {
	case CLUSTER_PRIMARY:
		watch_say(w, LOG_WARNING_, "PRIMARY under epoch %" PRIu64 ": %s is served", b->epoch, w->serving >= 0 ? w->hosts[w->serving].name : "nobody");
		return;
	case CLUSTER_DEGRADED:
		watch_say(w, LOG_ERROR_, "%s -> DEGRADED: the primary is not tried for %g s: %s", from == CLUSTER_PRIMARY ? "PRIMARY" : "RECOVERING",
			  (double)w->conf->breaker_open / USEC_PER_SEC, why);
		return;
	case CLUSTER_RECOVERING:
		if (b->fenced)
			watch_say(w, LOG_WARNING_, "RECOVERING: fenced by an operator under epoch %" PRIu64, b->epoch);
		else if (from == CLUSTER_PRIMARY)
			watch_say(w, LOG_WARNING_, "PRIMARY -> RECOVERING: another host is the primary now");
		else
			watch_say(w, LOG_LOG_, "DEGRADED -> RECOVERING: the primary is tried again");
		return;
	default:
		never("no such state");
	}
}

/* After any move but a cutover; keeping it is left to the caller. The round at hand was begun in another state. */
static void follow(struct watch *w, enum cluster_state from)
{
	struct breaker *b = &w->breaker;

	log_move(w, from);
	if (b->state == CLUSTER_DEGRADED)
		timer_in(&w->window, w->conf->breaker_open);
	else
		timer_stop(&w->window);
	if (b->state == CLUSTER_DEGRADED || (!b->fenced && from == CLUSTER_PRIMARY))
		w->serving = -1;
	tell(w);
	round_stop(w);
	timer_in(&w->round, from == CLUSTER_DEGRADED ? 0 : w->conf->probe_interval);
}

static void moved(struct watch *w, enum cluster_state from)
{
	follow(w, from);
	keep_or_complain(w);
	agree_moved(&w->agree, &w->breaker, from);
	council_nudge(w);
}

/* ---- cutover ---- */

/* `epoch` is begun: what is kept here is all that says so. */
static bool cut_over_under(struct watch *w, uint64_t epoch, struct err *err)
{
	const struct breaker_rules rules = watch_rules(w);
	struct epoch_row row = w->kept;

	row.epoch = epoch;
	row.state = CLUSTER_PRIMARY;
	row.fenced = false;
	if (!observes(w) && !epoch_keep(watch_here.book, &row, err))
		return false;
	w->kept = row;
	breaker_cut_over(&w->breaker, &rules, epoch, loop_now(watch_here.loop));
	log_move(w, CLUSTER_RECOVERING);
	tell(w);
	return true;
}

/* The probes have said all they can. With a control store it is asked next, and begins the epoch; without one they suffice. */
static bool cut_over(struct watch *w, struct err *err)
{
	if (!w->council)
		return cut_over_under(w, w->breaker.epoch + 1, err);
	council_nudge(w);
	return true;
}

static void cut_over_if_ready(struct watch *w)
{
	const struct breaker_rules rules = watch_rules(w);
	struct err err;

	if (breaker_is_ready(&w->breaker, &rules) && !cut_over(w, &err))
		watch_complain(w, &w->disk, &err);
}

/* ---- the control store ---- */

/* Whoever the probes find next is the primary of this epoch; until then nobody is served, if none was found since the fence. */
static void begin_told(struct watch *w)
{
	const struct standing *s = &w->agree.told;
	struct epoch_row row = w->kept;
	struct err err;

	row.epoch = s->epoch;
	row.state = CLUSTER_PRIMARY;
	row.fenced = false;
	if (w->breaker.good < w->conf->breaker_probes && !watch_is_blind(w))
		row.host[0] = '\0';
	if (!epoch_keep(watch_here.book, &row, &err)) {
		watch_complain(w, &w->disk, &err); /* the next poll tries it again: the breaker's epoch is still the old one */
		return;
	}
	w->kept = row;
	breaker_adopt(&w->breaker, CLUSTER_PRIMARY, s->epoch, false, loop_now(watch_here.loop));
	if (w->serving < 0 && watch_is_blind(w))
		w->serving = 0;
	timer_stop(&w->window);
	log_move(w, CLUSTER_RECOVERING);
	tell(w);
	round_stop(w);
	timer_in(&w->round, w->serving < 0 ? 0 : w->conf->probe_interval);
}

static void adopt(struct watch *w, enum cluster_state state, uint64_t epoch, bool fenced)
{
	enum cluster_state before = w->breaker.state;

	breaker_adopt(&w->breaker, state, epoch, fenced, loop_now(watch_here.loop));
	watch_say(w, LOG_WARNING_, "the control store says %s under epoch %" PRIu64 "%s", standing_name(w->agree.told.state), w->agree.told.epoch,
		  w->agree.told.held ? ", fenced by an operator" : "");
	follow(w, before);
	keep_or_complain(w);
	council_tell_soon(w);
}

void watch_heard(struct watch *w, enum agree_step step)
{
	const struct standing *s = &w->agree.told;

	switch (step) {
	case AGREE_STAY:
		tell(w);
		return;
	case AGREE_FENCE:
		adopt(w, s->state, s->epoch, s->held);
		return;
	case AGREE_BEGIN:
		begin_told(w);
		return;
	case AGREE_HOLD:
		adopt(w, CLUSTER_RECOVERING, s->epoch, true);
		return;
	case AGREE_AHEAD:
		if (w->breaker.state == CLUSTER_PRIMARY)
			adopt(w, CLUSTER_RECOVERING, w->breaker.epoch, false);
		return;
	}
	never("no such step");
}

static void lease_over(struct timer *t)
{
	struct watch *w = owner_of(t, struct watch, lease);

	tell(w);
}

/* ---- what happens to it ---- */

void watch_found(struct watch *w, enum breaker_finding f, int host, enum news news)
{
	const struct breaker_rules rules = watch_rules(w);
	enum cluster_state before = w->breaker.state;
	unsigned ticket = w->ticket;

	w->ticket = 0;
	if (f == BREAKER_CONFLICT)
		w->serving = -1;
	if (breaker_probe_end(&w->breaker, &rules, ticket, f, loop_now(watch_here.loop))) {
		moved(w, before); /* and keeps the news with the move, for a primary that is new must not be known as the one of this epoch */
		return;
	}
	if (host >= 0)
		w->serving = host;
	if (news == NEWS_IDENTITY)
		keep_or_complain(w);
	tell(w);
	cut_over_if_ready(w);
}

static void window_over(struct timer *t)
{
	struct watch *w = owner_of(t, struct watch, window);
	const struct breaker_rules rules = watch_rules(w);
	usec_t now = loop_now(watch_here.loop);

	if (breaker_tick(&w->breaker, &rules, now))
		moved(w, CLUSTER_DEGRADED);
	else if (w->breaker.state == CLUSTER_DEGRADED)
		timer_in(&w->window, w->breaker.since + rules.open - now);
}

struct login_news {
	struct mail mail;
	struct cluster *cluster; /* borrows: for good */
	uint64_t epoch;
	bool worked;
	struct err why;
};

static struct watch *watch_of(const struct cluster *c)
{
	list_each(at, &watch_here.all)
		if (list_owner(at, struct watch, link)->cluster == c)
			return list_owner(at, struct watch, link);
	return NULL;
}

static void login_news_take(struct watch *w, const struct login_news *n)
{
	const struct breaker_rules rules = watch_rules(w);
	int before = w->breaker.failures;

	if (n->worked)
		breaker_login_worked(&w->breaker, n->epoch);
	else if (breaker_login_failed(&w->breaker, &rules, n->epoch, loop_now(watch_here.loop))) {
		w->last_err = n->why;
		moved(w, CLUSTER_PRIMARY);
	} else if (w->breaker.failures != before)
		w->last_err = n->why;
	atomic_store(&w->cluster->failures, w->breaker.failures);
}

static void login_news_read(struct loop *l, struct mail *m)
{
	struct login_news *n = owner_of(m, struct login_news, mail);
	struct watch *w = watch_here.loop ? watch_of(n->cluster) : NULL;

	(void)l;
	if (w)
		login_news_take(w, n);
	mem_free(n);
}

static void login_news_send(const struct login_news *what)
{
	struct login_news *n = mem_make(struct login_news);

	*n = *what;
	n->mail.read = login_news_read;
	mail_send(watch_here.loop, &n->mail);
}

static bool is_of_now(const struct cluster *c, word_t word)
{
	return word_is_guarded(word) && word_state(word) == CLUSTER_PRIMARY && cluster_word(c) == word;
}

void watch_login_failed(struct cluster *c, word_t word, const struct err *why)
{
	if (is_of_now(c, word))
		login_news_send(&(struct login_news){.cluster = c, .epoch = word_epoch(word), .why = *why});
}

void watch_login_worked(struct cluster *c, word_t word)
{
	if (is_of_now(c, word) && atomic_load(&c->failures))
		login_news_send(&(struct login_news){.cluster = c, .epoch = word_epoch(word), .worked = true});
}

/* ---- a watch's life ---- */

static void hosts_free_all(struct watch *w)
{
	for (int i = 0; i < w->n_hosts; i++)
		mem_free(w->hosts[i].name);
	mem_free(w->hosts);
	w->hosts = NULL;
	w->n_hosts = 0;
}

static void hosts_make(struct watch *w)
{
	w->n_hosts = w->conf->n_primary + w->conf->n_replicas;
	w->hosts = mem_new((size_t)w->n_hosts * sizeof(*w->hosts));
	for (int i = 0; i < w->n_hosts; i++) {
		struct watched_host *h = &w->hosts[i];
		const struct conf_host *conf = conf_cluster_host(w->conf, i);
		struct buf name = {0};

		buf_add_fmt(&name, strchr(conf->host, ':') ? "[%s]:%d" : "%s:%d", conf->host, conf->port);
		*h = (struct watched_host){.watch = w, .name = mem_strn(name.p, name.len), .conf = conf, .key = cluster_host_key(conf)};
		buf_free(&name);
	}
}

/* Who is served is so still, though its number may have changed. */
static void hosts_follow(struct watch *w)
{
	struct watched_host *old = w->hosts;
	int n_old = w->n_hosts, serving = w->serving;

	round_stop(w);
	hosts_make(w);
	if (!watch_is_blind(w))
		w->serving = serving >= 0 ? watch_host(w, old[serving].name) : -1;
	for (int i = 0; i < n_old; i++) {
		int now = watch_host(w, old[i].name);
		if (now >= 0)
			w->hosts[now].seen = old[i].seen;
		mem_free(old[i].name);
	}
	mem_free(old);
}

/* As it was left. What was not PRIMARY then has to be found good by probes first, for nobody has looked since. Who is served is known when the
 * first round is over; a cluster whose probes cannot tell is served as it stands. */
static void begin(struct watch *w)
{
	struct breaker *b = &w->breaker;

	w->kept = epoch_of(watch_here.book, w->conf->name);
	breaker_init(b, w->kept.state == CLUSTER_PRIMARY || observes(w) ? CLUSTER_PRIMARY : CLUSTER_RECOVERING, w->kept.epoch, loop_now(watch_here.loop));
	b->fenced = w->kept.fenced && !observes(w);
	w->serving = watch_is_blind(w) && b->state == CLUSTER_PRIMARY ? 0 : -1;
	w->last_err = (struct err){0};
	if (b->state != CLUSTER_PRIMARY)
		watch_say(w, LOG_WARNING_, "RECOVERING under epoch %" PRIu64 ", as it was left%s", b->epoch, b->fenced ? ": an operator's fence stands" : "");
	timer_stop(&w->window);
	tell(w);
	round_stop(w);
	timer_in(&w->round, 0);
}

static struct watch *watch_new(const struct conf_cluster *conf)
{
	struct watch *w = mem_make(struct watch);

	w->cluster = cluster_of(conf->name, conf->max_server_conn);
	w->conf = conf;
	timer_init(&w->round, watch_here.loop, round_fire);
	timer_init(&w->window, watch_here.loop, window_over);
	timer_init(&w->lease, watch_here.loop, lease_over);
	list_push(&watch_here.all, &w->link);
	hosts_make(w);
	council_join(w);
	begin(w);
	return w;
}

static void watch_free(struct watch *w)
{
	council_leave(w);
	round_stop(w);
	timer_stop(&w->round);
	timer_stop(&w->window);
	timer_stop(&w->lease);
	list_take(&w->link);
	hosts_free_all(w);
	mem_free(w);
}

static void watch_end(struct watch *w)
{
	if (w->breaker.state != CLUSTER_PRIMARY)
		log_warning("cluster %s: its breaker is off now: it was %s, and is not any more", w->cluster->name, cluster_state_name(w->breaker.state));
	tell_nothing(w->cluster);
	watch_free(w);
}

static bool is_watched(const struct conf_cluster *c)
{
	return c && !c->implicit && c->breaker != BREAKER_OFF;
}

static void watch_follow(struct watch *w, const struct conf_cluster *conf)
{
	bool another_way = conf->breaker != w->conf->breaker || !conf->probe_user[0] != !w->conf->probe_user[0];

	w->conf = conf;
	council_join(w);
	hosts_follow(w);
	if (another_way) {
		begin(w);
		return;
	}
	if (w->breaker.state == CLUSTER_DEGRADED) {
		timer_in(&w->window, 0); /* which looks at the rules of now */
		timer_in(&w->round, conf->probe_interval);
	} else {
		timer_in(&w->round, 0);
	}
	tell(w);
}

/* ---- public ---- */

static bool keep_all(struct err *err)
{
	list_each(at, &watch_here.all)
		if (!keep(list_owner(at, struct watch, link), err))
			return false;
	return true;
}

static void warn(const struct epoch_book *book)
{
	if (epoch_book_warning(book))
		log_error("state_dir: %s", epoch_book_warning(book));
	else if (!epoch_book_is_kept(book) && !list_empty(&watch_here.all))
		log_warning("state_dir is not set: after a restart, epochs begin anew and fences are forgotten");
}

bool watch_start(struct loop *control, const struct setup *setup, watch_changed_fn changed, struct err *err)
{
	struct epoch_book *book = epoch_book_open(setup->conf->set.state_dir, err);

	if (!book)
		return false;
	watch_here.loop = control;
	watch_here.setup = setup_ref((struct setup *)setup);
	watch_here.book = book;
	watch_here.changed = changed;
	list_init(&watch_here.all);
	for (int i = 0; i < setup->conf->n_clusters; i++)
		if (is_watched(setup->conf->cluster_at[i]))
			watch_new(setup->conf->cluster_at[i]);
	warn(book);
	return keep_all(err);
}

void watch_adopt(const struct setup *setup)
{
	const struct conf *conf = setup->conf;
	struct setup *old = watch_here.setup;

	verify_here(watch_here.loop);
	watch_here.setup = setup_ref((struct setup *)setup);
	list_each_safe(at, &watch_here.all) {
		struct watch *w = list_owner(at, struct watch, link);
		const struct conf_cluster *now = conf_cluster(conf, w->cluster->name);
		if (is_watched(now))
			watch_follow(w, now);
		else
			watch_end(w);
	}
	for (int i = 0; i < conf->n_clusters; i++)
		if (is_watched(conf->cluster_at[i]) && !watch_find(conf->cluster_at[i]->name))
			keep_or_complain(watch_new(conf->cluster_at[i]));
	council_follow();
	setup_drop(&old);
}

void watch_stop(void)
{
	if (!watch_here.loop)
		return;
	list_each_safe(at, &watch_here.all)
		watch_free(list_owner(at, struct watch, link));
	epoch_book_close(&watch_here.book);
	setup_drop(&watch_here.setup);
	watch_here.loop = NULL;
}

struct watch *watch_find(const char *cluster)
{
	list_each(at, &watch_here.all)
		if (strcmp(list_owner(at, struct watch, link)->cluster->name, cluster) == 0)
			return list_owner(at, struct watch, link);
	return NULL;
}

static bool refuse_to_observe(const struct watch *w, struct err *err)
{
	return observes(w) && !err_set(err, SQLSTATE_UNSUPPORTED, "cluster %s is observed only (breaker=observe): it has no fence", w->cluster->name);
}

bool watch_fence(struct watch *w, struct err *err)
{
	enum cluster_state before = w->breaker.state;
	struct err why;

	if (refuse_to_observe(w, err))
		return false;
	if (breaker_fence(&w->breaker, loop_now(watch_here.loop)))
		follow(w, before);
	else
		watch_say(w, LOG_WARNING_, "fenced by an operator under epoch %" PRIu64, w->breaker.epoch);
	agree_moved(&w->agree, &w->breaker, before);
	council_nudge(w);
	return keep(w, &why) || err_set(err, SQLSTATE_INTERNAL, "cluster %s is fenced, but the fence will not outlive this process: %s", w->cluster->name, why.text);
}

/* Whatever stands in the way of the primary that is there now is forgotten, and so is what probes have found so far. */
static void forget(struct watch *w)
{
	breaker_start_over(&w->breaker);
	w->kept.system_id = 0;
	w->kept.timeline = 0;
	w->kept.host[0] = '\0';
	round_stop(w);
	timer_in(&w->round, 0);
}

static bool unfence_here(struct watch *w, enum unfence how, struct err *err)
{
	const struct breaker_rules rules = watch_rules(w);

	watch_say(w, LOG_WARNING_, "unfenced by an operator");
	breaker_unfence(&w->breaker);
	if (how == UNFENCE_FORCE)
		forget(w);
	if (breaker_is_ready(&w->breaker, &rules))
		return cut_over(w, err);
	return keep(w, err);
}

/* By the rules a primary has to be found first, for the store's answer is PRIMARY. */
static bool unfence_there(struct watch *w, enum unfence how, watch_done_fn done, void *arg, struct err *err)
{
	if (how == UNFENCE_BY_RULES && w->breaker.good < w->conf->breaker_probes)
		return err_set(err, SQLSTATE_NOT_NOW, "cluster %s: its primary was not found good by %d probes in a row yet%s%s", w->cluster->name, w->conf->breaker_probes,
			       w->last_err.text[0] ? ": " : "", w->last_err.text);
	if (!council_unfence(w, how, done, arg, err))
		return false;
	if (how == UNFENCE_FORCE)
		forget(w);
	return true;
}

void watch_unfence(struct watch *w, enum unfence how, watch_done_fn done, void *arg)
{
	struct err err = {0};

	if (refuse_to_observe(w, &err)) {
		done(arg, &err);
		return;
	}
	if (!w->breaker.fenced && !(w->council && w->agree.told.held)) {
		err_set(&err, SQLSTATE_BAD_VALUE, "cluster %s is not fenced by an operator", w->cluster->name);
		done(arg, &err);
		return;
	}
	if (w->council) {
		if (!unfence_there(w, how, done, arg, &err))
			done(arg, &err);
		return;
	}
	done(arg, unfence_here(w, how, &err) ? NULL : &err);
}

int64_t watch_lag(const struct watch *w, const struct watched_host *h)
{
	if (!h->seen.up || h->seen.role != ROLE_REPLICA || !h->seen.position || !w->position)
		return -1;
	return w->position > h->seen.position ? (int64_t)(w->position - h->seen.position) : 0;
}
