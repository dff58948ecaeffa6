/* See proxy/throttle.h.
 *
 * Where a batch of the extended protocol has come as a whole, as it nearly always has, its Execute is seen when its first message is looked
 * at, and all of it waits, without a server. Where the Execute comes later, the client may have a server and have sent it Parse and Bind.
 * It then waits with the server in hand: to end the batch there would cost it the portal. A refusal is put among the replies at its
 * place (REPLY_MAKE_UP); the client's own Sync ends the batch on the server.
 *
 * The clients of an org that are held on this worker are a queue with one timer. It books the token for its first one as soon as there is
 * somebody, so that the rate is kept to the full though timers are late; on other workers the same org's tokens are booked in turn. */
#include "proxy/throttle.h"

#include "proxy/link.h"
#include "proxy/parcel.h"
#include "proxy/speak.h"
#include "proxy/sweep.h"
#include "proxy/worker.h"
#include "wire/report.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

struct throttle {
	struct hash_link link; /* in worker->throttles */
	struct worker *worker;
	struct org *org;       /* borrows: those it holds have references */
	struct list held;
	int n_held;
	bool booked;           /* a token, for the first */
	struct timer timer;    /* when it is there */
};

static struct rate_limit limit_of(const struct client *c)
{
	return rate_limit_of(c->pool->policy.tx_rate, c->pool->policy.tx_burst);
}

/* ---- those that are held ---- */

static bool throttle_is_of(const struct hash_link *link, const void *org)
{
	return owner_of(link, struct throttle, link)->org == org;
}

static struct throttle *throttle_of(struct worker *w, const struct org *org)
{
	struct hash_link *link = w->throttles.count ? hash_find(&w->throttles, hash_bytes(&org, sizeof(org)), throttle_is_of, org) : NULL;
	return link ? owner_of(link, struct throttle, link) : NULL;
}

static void pass_next(struct timer *timer);

static struct throttle *throttle_make(struct worker *w, struct org *org)
{
	struct throttle *t = mem_make(struct throttle);

	t->worker = w;
	t->org = org;
	list_init(&t->held);
	timer_init(&t->timer, w->loop, pass_next);
	hash_add(&w->throttles, &t->link, hash_bytes(&org, sizeof(org)));
	return t;
}

static void throttle_free(struct throttle *t)
{
	timer_stop(&t->timer);
	hash_take(&t->worker->throttles, &t->link);
	mem_free(t);
}

static struct client *first_held(const struct throttle *t)
{
	return list_owner(list_first((struct list *)&t->held), struct client, throttle_link);
}

static void book(struct throttle *t)
{
	struct client *c = first_held(t);
	usec_t now = loop_now(t->worker->loop);

	t->booked = true;
	timer_set(&t->timer, now + rate_book(&t->org->tx_rate, limit_of(c), now));
}

void throttle_leave(struct client *c)
{
	struct throttle *t = c->throttle;

	if (!t)
		return;
	c->throttle = NULL;
	c->deadline_rate = 0;
	list_take(&c->throttle_link);
	if (--t->n_held)
		return; /* what is booked is the next one's */
	if (t->booked)
		rate_unbook(&t->org->tx_rate, limit_of(c));
	throttle_free(t);
}

/* What stands at the front of its stream is looked at again. */
static void go_on(struct client *c, enum toll toll)
{
	throttle_leave(c);
	c->toll = toll;
	if (c->state == CLIENT_WAIT)
		client_move(c, CLIENT_IDLE);
	stream_resume(&c->stream);
}

static void pass_next(struct timer *timer)
{
	struct throttle *t = owner_of(timer, struct throttle, timer);
	struct client *c = first_held(t);
	bool last = t->n_held == 1;

	t->booked = false;
	go_on(c, TOLL_PAID);
	if (!last)
		book(t);
}

static void hold(struct client *c, struct throttle *t)
{
	usec_t now = loop_now(c->worker->loop);
	bool first = !t;

	if (first)
		t = throttle_make(c->worker, c->org);
	c->throttle = t;
	list_push(&t->held, &c->throttle_link);
	t->n_held++;
	if (first)
		book(t);
	c->deadline_idle = 0;
	c->deadline_rate = now + c->pool->policy.rate_wait;
	sweep_set(c);
	if (!c->server)
		client_move(c, CLIENT_WAIT);
}

void throttle_timeout(struct client *c)
{
	go_on(c, TOLL_REFUSED);
}

void throttle_cancel(struct client *c)
{
	go_on(c, TOLL_CANCELED);
}

void throttle_adopt(struct worker *w)
{
	hash_each(link, &w->throttles) {
		struct throttle *t = owner_of(link, struct throttle, link);
		if (first_held(t)->pool->policy.tx_rate <= 0)
			timer_in(&t->timer, 0);
	}
}

void throttle_each(const struct worker *w, void (*row)(void *arg, const struct org *o, int held), void *arg)
{
	hash_each(link, &w->throttles) {
		const struct throttle *t = owner_of(link, struct throttle, link);
		row(arg, t->org, t->n_held);
	}
}

/* ---- what begins a transaction ---- */

static bool is_simple(uint8_t type)
{
	return type == 'Q' || type == 'F';
}

static bool runs(uint8_t type)
{
	return type == 'E' || is_simple(type);
}

/* Is there an Execute in what has come of the batch? One without Sync ends with a Query, which is looked at when its turn comes. */
static bool batch_runs(const uint8_t *p, size_t len)
{
	struct frame f;

	while (frame_peek(p, len, &f) == PARSE_OK && f.type != 'S' && !is_simple(f.type)) {
		if (f.type == 'E')
			return true;
		if (f.have < f.size)
			break;
		p += f.size;
		len -= f.size;
	}
	return false;
}

/* What has come is looked through once: an Execute that comes later is seen when it is there. */
static bool will_run(struct client *c, const uint8_t *p, size_t len, uint8_t type)
{
	if (runs(type) || type == 'S')
		c->looked_ahead = false;
	if (runs(type))
		return true;
	if (c->looked_ahead || (type != 'P' && type != 'B' && type != 'D' && type != 'C'))
		return false;
	c->looked_ahead = !batch_runs(p, len);
	return !c->looked_ahead;
}

/* Something of the client's that may begin or end a transaction is not answered yet. */
static bool end_is_open(struct server *s)
{
	for (uint32_t i = 0; i < s->replies.count; i++) {
		const struct reply *r = replies_at(&s->replies, i);
		if (r->act == REPLY_FORWARD && (r->kind == REPLY_SYNC || r->kind == REPLY_QUERY || r->kind == REPLY_CALL))
			return true;
	}
	return false;
}

/* ---- refusing ---- */

static void refuse_alone(struct client *c, const struct frame *f, const struct err *err)
{
	struct buf *out = parcel_made(c->worker->to_client);

	report_err(out, "ERROR", err);
	if (is_simple(f->type))
		msg_ready(out, 'I');
	if (!c->server)
		speak_visit_end(c);
}

/* Behind the answers to what its server was sent. */
static void refuse_in_batch(struct client *c, const struct frame *f, const struct err *err)
{
	struct server *s = c->server;
	struct err *note = mem_make(struct err);

	struct buf *out = parcel_made(c->worker->to_server);

	*note = *err;
	replies_push(&s->replies, REPLY_EXECUTE, REPLY_MAKE_UP, MARK_REFUSED, note);
	if (!is_simple(f->type)) {
		if (!replies_empty(&s->replies))
			msg_empty(out, 'H'); /* PostgreSQL does not keep an error back, nor what stands before it */
		return;
	}
	msg_empty(out, 'S'); /* in the place of the Query, which would have ended the batch as well */
	replies_push(&s->replies, REPLY_SYNC, REPLY_FORWARD, MARK_NONE, NULL);
}

static enum admission refuse(struct client *c, const struct frame *f, const struct err *err)
{
	if (c->server && c->in_query)
		refuse_in_batch(c, f, err);
	else
		refuse_alone(c, f, err);
	c->toll = TOLL_NONE;
	c->looked_ahead = false;
	c->refusing = !is_simple(f->type);
	return ADMIT_REFUSED;
}

static void log_refusal(const struct client *c, const struct err *err)
{
	static struct log_limit limit[8];
	struct who who;
	char peer[ADDR_TEXT];

	if (!c->worker->setup->conf->set.log_pooler_errors)
		return;
	client_who(c, &who, peer);
	log_limited(&limit[(unsigned)c->worker->id & 7], LOG_WARNING_, &who, "pooler error: %s", err->text);
}

static enum admission refuse_rate(struct client *c, const struct frame *f, usec_t wait)
{
	struct err err;
	long long ms = (long long)((wait + USEC_PER_MSEC - 1) / USEC_PER_MSEC);

	atomic_fetch_add_explicit(&c->org->refused, 1, memory_order_relaxed);
	err_set(&err, SQLSTATE_RATE, "transactions of org \"%s\" exceeded (tx_rate %g per second), retry after %lld ms", c->org->id, c->pool->policy.tx_rate, ms);
	err_hint(&err, "retry after %lld ms", ms);
	log_refusal(c, &err);
	return refuse(c, f, &err);
}

static enum admission refuse_canceled(struct client *c, const struct frame *f)
{
	struct err err;

	err_set(&err, SQLSTATE_CANCELED, "canceling statement due to user request");
	return refuse(c, f, &err);
}

/* When one who comes then would have a token, those that are held served first. */
static usec_t wait_behind(const struct client *c, const struct throttle *t)
{
	struct rate_limit l = limit_of(c);

	return rate_wait(&c->org->tx_rate, l, loop_now(c->worker->loop)) + (t ? t->n_held * (usec_t)(l.interval / 1000) : 0);
}

/* ---- taking ---- */

static enum admission held_back(struct client *c)
{
	stream_pause(&c->stream);
	return ADMIT_LATER;
}

/* A transaction begins. */
static enum admission take(struct client *c, const struct frame *f)
{
	const struct policy *policy = &c->pool->policy;
	struct throttle *t = throttle_of(c->worker, c->org);
	usec_t wait;

	if (!t && rate_take(&c->org->tx_rate, limit_of(c), loop_now(c->worker->loop), &wait)) {
		c->toll = TOLL_PAID;
		return ADMIT_PASS;
	}
	atomic_fetch_add_explicit(&c->org->throttled, 1, memory_order_relaxed);
	if (policy->rate_action == RATE_REJECT || policy->rate_wait == 0)
		return refuse_rate(c, f, wait_behind(c, t));
	hold(c, t);
	return held_back(c);
}

/* Until the server has answered what may change what this message is. */
static enum admission until_answered(struct client *c)
{
	c->holding = true;
	return held_back(c);
}

enum admission throttle_admit(struct client *c, const uint8_t *p, size_t len, const struct frame *f)
{
	struct server *s = c->server;

	if (c->throttle)
		return held_back(c); /* resumed for another reason */
	if (s && (s->replies.copy_in || s->replies.skipping))
		return ADMIT_PASS;
	if (!will_run(c, p, len, f->type))
		return ADMIT_PASS;
	if (s && end_is_open(s))
		return until_answered(c);
	if ((s && s->status != 'I') || c->toll == TOLL_PAID)
		return ADMIT_PASS;
	if (s && is_simple(f->type) && !replies_empty(&s->replies)) {
		/* A Query behind a batch that no Sync ends: PostgreSQL drops it when that has failed. */
		msg_empty(parcel_made(c->worker->to_server), 'H');
		return until_answered(c);
	}
	switch (c->toll) {
	case TOLL_REFUSED:
		return refuse_rate(c, f, wait_behind(c, throttle_of(c->worker, c->org)));
	case TOLL_CANCELED:
		return refuse_canceled(c, f);
	default:
		return take(c, f);
	}
}
