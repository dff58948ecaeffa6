/* See cluster/council.h. A session has one statement under way; when it is idle, `go` sends what is due: a poll first, for the lease
 * hangs on it, then what a cluster has to tell. */
#include "cluster/council.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "cluster/store.h"
#include "cluster/watch_priv.h"
#include "wire/sqlstate.h"

#define POLL_EVERY USEC_PER_SEC
#define QUEUE_EVERY (10 * USEC_PER_SEC) /* it counts rows, for metrics */
#define HINT_LEAST (20 * USEC_PER_MSEC) /* between two polls, however many hints there are */
#define PATIENCE_MOST (5 * USEC_PER_SEC)
#define UNFENCE_PATIENCE (3 * USEC_PER_SEC) /* for what passes by itself */

struct council {
	struct list link;
	struct store *store;
	char *key;              /* owns: which store it is */
	struct list seats;      /* watches that have it */
	struct timer timer;
	usec_t poll_at;         /* when one is due */
	usec_t sent_at, lease;  /* of the poll under way */
	usec_t heard;           /* when the last good one was sent */

	char *cluster;          /* owns: whose call is under way; NULL: the poll's */
	enum agree_call call;
	struct complaint trouble;    /* it is not heard */
	struct complaint objection;  /* it is, but does not do what it is asked to */
};

static struct list councils = {&councils, &councils};
static char node[128];

const char *council_node(void)
{
	char host[65] = "";

	if (!node[0]) {
		gethostname(host, sizeof(host) - 1);
		snprintf(node, sizeof(node), "%s:%d:%016" PRIx64, host[0] ? host : "?", (int)getpid(), random_u64());
	}
	return node;
}

/* ---- who sits there ---- */

static struct watch *first_watch(const struct council *c)
{
	return list_empty(&c->seats) ? NULL : list_owner(c->seats.next, struct watch, seat);
}

static void complain(struct council *c, struct complaint *about, const char *what, const struct err *err)
{
	usec_t now = loop_now(watch_here.loop);
	const struct watch *w = first_watch(c);
	struct err said;

	err_set(&said, err->sqlstate, "%s: %s", what, err->text);
	if (!w || (strcmp(about->text, said.text) == 0 && now - about->at < 60 * USEC_PER_SEC))
		return;
	strcpy(about->text, said.text);
	about->at = now;
	log_error("control store of cluster %s: %s (SQLSTATE %s)", w->cluster->name, said.text, said.sqlstate);
}

static void heard_well(struct council *c)
{
	const struct watch *w = first_watch(c);

	if (c->trouble.text[0] && w)
		log_log("control store of cluster %s: it answers again", w->cluster->name);
	c->trouble = (struct complaint){0};
}

static usec_t lease_of(const struct council *c)
{
	usec_t most = 0;

	list_each(at, &c->seats) {
		const struct watch *w = list_owner(at, struct watch, seat);
		if (w->conf->fence_lease > most)
			most = w->conf->fence_lease;
	}
	return most;
}

/* ---- what comes back ---- */

static void go(struct council *c);

static bool is_unfence(enum agree_call call)
{
	return call == CALL_UNFENCE || call == CALL_UNFENCE_FORCE;
}

static void unfence_ends(struct watch *w, const struct err *err)
{
	watch_done_fn done = w->unfence_done;

	w->unfence_done = NULL;
	if (is_unfence(w->agree.want))
		w->agree.want = CALL_NONE;
	if (done)
		done(w->unfence_arg, err);
}

static bool read_u64(const char *text, uint64_t most, uint64_t *out)
{
	int64_t n;

	if (!*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 18 || (text[0] == '0' && text[1]) || !num_i64(text, &n))
		return false;
	*out = (uint64_t)n;
	return *out <= most;
}

static bool standing_read(const char *epoch, const char *state, const char *held, struct standing *out)
{
	if (!read_u64(epoch, EPOCH_MOST - 3, &out->epoch) || out->epoch == 0 || !standing_find(state, &out->state))
		return false;
	if (!held[0] || held[1] || !strchr("01tf", held[0]))
		return false;
	out->held = held[0] == '1' || held[0] == 't';
	if (out->held)
		out->state = CLUSTER_RECOVERING; /* it is nothing else then, whatever is said */
	return true;
}

/* "<cluster> <epoch> <state> <held> <since> <mark> <open_seq>"; what a newer store has behind it is left alone. */
static bool poll_line(struct council *c, char *line)
{
	char *words[4], *rest = line;
	struct standing s;
	struct watch *w;

	for (int i = 0; i < 4; i++)
		if (!(words[i] = strsep(&rest, " ")))
			return false;
	w = watch_find(words[0]);
	if (!w || w->council != c)
		return true;
	if (!standing_read(words[1], words[2], words[3], &s))
		return false;
	usec_t until = c->sent_at + (c->lease < w->conf->fence_lease ? c->lease : w->conf->fence_lease);
	if (until > w->agree.lease_until)
		w->agree.lease_until = until;
	watch_heard(w, agree_hear(&w->agree, &w->breaker, &s));
	return true;
}

/* An UNFENCE that waited for a better moment: somebody else was first, or fenced again. No call is under way. */
static void unfences_settle(struct council *c)
{
	list_each(at, &c->seats) {
		struct watch *w = list_owner(at, struct watch, seat);
		struct err err;

		if (!w->unfence_done || is_unfence(w->agree.want))
			continue;
		err_set(&err, SQLSTATE_NOT_NOW, "cluster %s was fenced again, or has moved on to epoch %" PRIu64, w->cluster->name, w->breaker.epoch);
		unfence_ends(w, w->breaker.state == CLUSTER_PRIMARY ? NULL : &err);
	}
}

static void polled(void *owner, const struct store_answer *a)
{
	struct council *c = owner;
	struct err odd;
	bool good = a->n == 2;

	if (a->err) {
		if (!a->lost)
			complain(c, &c->trouble, "poll", a->err);
		go(c);
		return;
	}
	char *lines = mem_str(good ? a->field[1] : ""), *rest = lines, *line;
	while (good && *lines && (line = strsep(&rest, "\n")))
		good = poll_line(c, line);
	mem_free(lines);
	unfences_settle(c);
	if (good) {
		c->heard = c->sent_at;
		heard_well(c);
	} else {
		err_set(&odd, SQLSTATE_PROTOCOL, "its answer is not understood");
		complain(c, &c->trouble, "poll", &odd);
	}
	go(c);
}

static void call_refused(struct council *c, struct watch *w, const char *reason)
{
	static const char *const texts[][2] = {
		{"undrained", "commands are left in its queue"},
		{"unseen", "an instance may not know of the fence yet"},
		{"busy", "somebody is queuing a command right now"},
		{"held", "it is fenced by an operator"},
		{"epoch", "another epoch has begun"},
		{"state", "it is in another state by now"},
	};
	const char *text = reason;
	struct err err;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (strcmp(texts[i][0], reason) == 0)
			text = texts[i][1];
	err_set(&err, SQLSTATE_NOT_NOW, "the control store does not begin a new epoch of cluster %s: %s (%s)", w->cluster->name, text, reason);
	if (c->call == CALL_CUTOVER && strcmp(reason, "unseen") != 0)
		watch_complain(w, &w->refusal, &err);
	if (!is_unfence(c->call))
		return;
	if ((strcmp(reason, "unseen") == 0 || strcmp(reason, "busy") == 0) && loop_now(watch_here.loop) < w->unfence_until)
		return;
	unfence_ends(w, &err);
}

static void called(void *owner, const struct store_answer *a)
{
	struct council *c = owner;
	struct watch *w = c->cluster ? watch_find(c->cluster) : NULL;
	enum agree_call call = c->call;
	struct standing s = {0};
	usec_t now = loop_now(watch_here.loop);

	mem_free(c->cluster);
	c->cluster = NULL;
	if (!w || w->council != c) {
		go(c);
		return;
	}
	if (a->err) {
		w->agree.not_before = now + POLL_EVERY;
		if (!a->lost)
			complain(c, &c->objection, "call", a->err);
		if (is_unfence(call))
			unfence_ends(w, a->err);
	} else if (a->n == 5 && standing_read(a->field[3], a->field[2], a->field[4], &s)) {
		enum agree_step step = agree_answered(&w->agree, &w->breaker, call, a->field[1], &s, now);
		bool ok = a->field[0][0] == 't';

		watch_heard(w, step);
		if (!ok)
			call_refused(c, w, a->field[1]);
		else if (is_unfence(call))
			unfence_ends(w, NULL);
	} else {
		w->agree.not_before = now + POLL_EVERY;
		if (is_unfence(call)) {
			struct err err;
			err_set(&err, SQLSTATE_BAD_VALUE, "the control store does not know cluster %s", w->cluster->name);
			unfence_ends(w, &err);
		}
	}
	go(c);
}

/* ---- what goes out ---- */

static void poll(struct council *c)
{
	struct buf told = {0};
	char lease[24];

	c->sent_at = clock_now();
	c->lease = lease_of(c);
	c->poll_at = loop_now(watch_here.loop) + POLL_EVERY;
	snprintf(lease, sizeof(lease), "%" PRId64, c->lease / USEC_PER_MSEC);
	list_each(at, &c->seats) {
		const struct watch *w = list_owner(at, struct watch, seat);
		struct standing_told t = agree_report(&w->agree, &w->breaker);

		buf_add_fmt(&told, "%s%s %" PRIu64 " %s", told.len ? "\n" : "", w->cluster->name, t.epoch, t.state);
	}
	buf_add_u8(&told, 0);
	store_ask(c->store, "SELECT at_us, clusters FROM pgweir.poll($1, $2, $3)", (const char *[]){council_node(), lease, (const char *)told.p}, 3, polled);
	buf_free(&told);
}

static void queue_told(void *owner, const struct store_answer *a)
{
	struct council *c = owner;
	struct watch *w = c->cluster ? watch_find(c->cluster) : NULL;
	uint64_t depth, oldest_ms;

	mem_free(c->cluster);
	c->cluster = NULL;
	if (a->err && !a->lost)
		complain(c, &c->objection, "queue", a->err);
	else if (w && w->council == c && a->n == 2 && read_u64(a->field[0], INT64_MAX, &depth) && read_u64(a->field[1], INT64_MAX / USEC_PER_MSEC, &oldest_ms)) {
		w->queue = (int64_t)depth;
		w->queue_age = (usec_t)oldest_ms * USEC_PER_MSEC;
	}
	go(c);
}

static void ask_queue(struct council *c, struct watch *w)
{
	const char *name = w->cluster->name;

	w->queue_at = loop_now(watch_here.loop) + QUEUE_EVERY;
	c->cluster = mem_str(name);
	store_ask(c->store, "SELECT depth, oldest_ms FROM pgweir.queue($1)", &name, 1, queue_told);
}

#define ROW "SELECT ok, reason, state, epoch, held FROM pgweir."

static void call(struct council *c, struct watch *w, enum agree_call what)
{
	const char *name = w->cluster->name, *me = council_node(), *why = w->last_err.text[0] ? w->last_err.text : "the probes say so";
	char epoch[24];

	snprintf(epoch, sizeof(epoch), "%" PRIu64, w->breaker.epoch);
	c->cluster = mem_str(name);
	c->call = what;
	switch (what) {
	case CALL_OPEN:
		store_ask(c->store, ROW "open($1, $2, $3, $4, $5)", (const char *[]){name, epoch, standing_name(w->agree.failed), me, why}, 5, called);
		return;
	case CALL_RECOVER:
		store_ask(c->store, ROW "recover($1, $2, $3)", (const char *[]){name, epoch, me}, 3, called);
		return;
	case CALL_CUTOVER:
		store_ask(c->store, ROW "cutover($1, $2, $3)", (const char *[]){name, epoch, me}, 3, called);
		return;
	case CALL_FENCE:
		store_ask(c->store, ROW "fence($1, $2, $3)", (const char *[]){name, me, "FENCE on an instance's console"}, 3, called);
		return;
	case CALL_UNFENCE:
	case CALL_UNFENCE_FORCE:
		store_ask(c->store, ROW "unfence($1, $2, $3, $4)", (const char *[]){name, epoch, me, what == CALL_UNFENCE ? "drained" : "force"}, 4, called);
		return;
	default:
		never("no such call");
	}
}

static void go(struct council *c)
{
	usec_t now = loop_now(watch_here.loop), next = c->poll_at;
	struct watch *queue_due = NULL;

	if (list_empty(&c->seats) || !store_is_idle(c->store))
		return;
	if (now >= c->poll_at) {
		poll(c);
		return;
	}
	list_each(at, &c->seats) {
		struct watch *w = list_owner(at, struct watch, seat);
		const struct breaker_rules rules = watch_rules(w);
		enum agree_call what = agree_next(&w->agree, &w->breaker, &rules, now);

		if (what != CALL_NONE) {
			call(c, w, what);
			return;
		}
		if (w->agree.heard && now >= w->queue_at)
			queue_due = w;
		if (w->agree.want != CALL_NONE && w->agree.not_before > now && w->agree.not_before < next)
			next = w->agree.not_before;
	}
	if (queue_due)
		ask_queue(c, queue_due);
	else
		timer_in(&c->timer, next - now);
}

static void on_timer(struct timer *t)
{
	go(owner_of(t, struct council, timer));
}

static void on_up(void *owner)
{
	struct council *c = owner;

	c->poll_at = 0;
	timer_in(&c->timer, 0);
}

static void on_down(void *owner, const struct err *why)
{
	struct council *c = owner;

	complain(c, &c->trouble, "not reached", why);
	list_each(at, &c->seats)
		unfence_ends(list_owner(at, struct watch, seat), why);
}

static void on_hint(void *owner)
{
	struct council *c = owner;
	usec_t now = loop_now(watch_here.loop);

	if (c->poll_at > now + HINT_LEAST)
		c->poll_at = now + HINT_LEAST;
	timer_in(&c->timer, c->poll_at > now ? c->poll_at - now : 0);
}

static const struct store_calls calls = {.up = on_up, .down = on_down, .hint = on_hint};

/* ---- joining ---- */

static struct store_place place_of(const struct watch *w)
{
	const struct conf_control *at = &w->conf->control;
	const struct conf_login *known = conf_login(watch_here.setup->conf, at->user);

	return (struct store_place){
		.host = at->host,
		.port = at->port,
		.user = at->user,
		.dbname = at->dbname,
		.password = secret_is_set(&at->password) ? &at->password : known ? &known->secret : NULL,
		.tls = watch_here.setup->server_tls,
		.tls_required = watch_here.setup->conf->set.server_tls_sslmode >= SSL_REQUIRE,
		.patience = w->conf->fence_lease / 2 < PATIENCE_MOST ? w->conf->fence_lease / 2 : PATIENCE_MOST, /* time for another try within the lease */
	};
}

/* host, port, database and user; a password that changes is no other store. */
static char *key_of(const struct conf_control *at)
{
	struct buf key = {0};
	char *text;

	buf_add_fmt(&key, "%s\n%d\n%s\n%s", at->host ? at->host : "", at->port, at->dbname, at->user);
	text = mem_strn(key.p, key.len);
	buf_free(&key);
	return text;
}

/* Takes the key. */
static struct council *council_at(const struct watch *w, char *key)
{
	struct store_place place;
	struct council *c;

	list_each(at, &councils) {
		c = list_owner(at, struct council, link);
		if (strcmp(c->key, key) == 0) {
			mem_free(key);
			return c;
		}
	}
	place = place_of(w);
	c = mem_make(struct council);
	c->key = key;
	list_init(&c->seats);
	timer_init(&c->timer, watch_here.loop, on_timer);
	list_push(&councils, &c->link);
	c->store = store_open(watch_here.loop, &place, &calls, c);
	return c;
}

static void council_free(struct council *c)
{
	list_take(&c->link);
	timer_stop(&c->timer);
	store_close(&c->store);
	mem_free(c->cluster);
	mem_free(c->key);
	mem_free(c);
}

void council_leave(struct watch *w)
{
	struct council *c = w->council;
	struct err err;

	if (!c)
		return;
	err_set(&err, SQLSTATE_NOT_NOW, "cluster %s has no control store any more", w->cluster->name);
	unfence_ends(w, &err);
	w->council = NULL;
	list_take(&w->seat);
	w->agree = (struct agree){0};
	if (list_empty(&c->seats))
		council_free(c);
}

void council_join(struct watch *w)
{
	char *key = w->conf->control.user && w->conf->breaker == BREAKER_ON ? key_of(&w->conf->control) : NULL;

	if (w->council && key && strcmp(key, w->council->key) == 0) {
		mem_free(key);
		return;
	}
	council_leave(w);
	if (!key)
		return;
	w->agree = (struct agree){0};
	w->council = council_at(w, key);
	list_push(&w->council->seats, &w->seat);
	council_tell_soon(w);
}

void council_follow(void)
{
	list_each(at, &councils) {
		struct council *c = list_owner(at, struct council, link);
		const struct watch *w = first_watch(c);
		struct store_place place = place_of(w);

		store_follow(c->store, &place);
	}
}

void council_nudge(struct watch *w)
{
	if (w->council)
		timer_in(&w->council->timer, 0);
}

/* What was adopted is told at once: others may be waiting for it. */
void council_tell_soon(struct watch *w)
{
	w->council->poll_at = 0;
	council_nudge(w);
}

bool council_unfence(struct watch *w, enum unfence how, watch_done_fn done, void *arg, struct err *err)
{
	if (!store_is_idle(w->council->store) && !w->council->heard)
		return err_set(err, SQLSTATE_NOT_NOW, "the control store of cluster %s is not reached", w->cluster->name);
	if (w->unfence_done)
		return err_set(err, SQLSTATE_NOT_NOW, "cluster %s: another UNFENCE is under way", w->cluster->name);
	if (w->agree.want == CALL_FENCE || !agree_is_heard(&w->agree, &w->breaker))
		return err_set(err, SQLSTATE_NOT_NOW, "cluster %s: the control store does not know of the fence yet", w->cluster->name);
	w->unfence_done = done;
	w->unfence_arg = arg;
	w->unfence_until = loop_now(watch_here.loop) + UNFENCE_PATIENCE;
	w->agree.want = how == UNFENCE_FORCE ? CALL_UNFENCE_FORCE : CALL_UNFENCE;
	w->agree.not_before = 0;
	council_nudge(w);
	return true;
}

usec_t council_heard(const struct watch *w)
{
	return w->council ? w->council->heard : 0;
}
