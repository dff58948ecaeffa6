/* Cancel requests (proxy/cancel.h).
 *
 * A key is an address and 32 random bits (proxy/address).
 *
 * A request travels to the worker that it names, like any client, and looks there for the slot, and on to where the client has moved. Wrong, stale and late keys
 * are all answered alike: the connection is closed and nothing is said.
 *
 *   not there, idle     nothing to cancel
 *   waiting             the batch is refused, and never runs
 *   active              PostgreSQL is asked, if it is the client's own query that it works on. While it is at something of
 *                       ours (a SET ahead of the query) a cancel would hit that, so the request is kept and tried again. A
 *                       request is for the query that ran when it came: if another one has begun since, it is over
 *
 * The server that is cancelled goes to nobody else until PostgreSQL has closed the cancel connection (login_cancel). */
#include "proxy/cancel.h"

#include "base/mem.h"
#include "pool/login.h"
#include "proxy/address.h"
#include "proxy/greet_priv.h"
#include "proxy/home.h"
#include "proxy/relay.h"
#include "proxy/throttle.h"
#include "proxy/worker.h"
#include "wire/reader.h"

#define RETRY_AFTER (2 * USEC_PER_MSEC)
#define CALLS_AT_ONCE 4 /* for one server: whoever has a key may send it as often as he likes */

struct cancel {
	struct client *client;  /* borrows: who asks; NULL when it left */
	struct timer retry;
	uint32_t pid, secret;
	usec_t gives_up_at;     /* 0: never */

	uint64_t target_id;     /* what it is for: this client, on this server, in this query; 0: not looked up yet */
	uint64_t server_id;
	usec_t query_at;

	bool calling;           /* PostgreSQL is being asked */
};

/* The request is through: its connection closes without a word. */
static void end(struct cancel *x, const char *reason)
{
	struct client *c = x->client;

	if (!c) {
		mem_free(x);
		return;
	}
	client_leave(c, reason); /* which forgets, and so frees, x */
}

static void arrived(struct client *c);

/* Who it is for. NULL: nobody, or it goes on to where that client is now. */
static struct client *find(struct cancel *x)
{
	uint32_t moved_to;
	struct client *target = address_find(x->client->worker, x->pid, x->secret, &moved_to);
	struct worker *to = moved_to ? address_worker(moved_to) : NULL;

	if (target && target != x->client && target->logged_in)
		return target;
	if (!to || x->target_id) {
		end(x, "failed cancel request");
		return NULL;
	}
	timer_stop(&x->retry);
	x->pid = moved_to;
	home_go(x->client, to, arrived);
	return NULL;
}

/* Is it still about the same query? */
static bool same_query(struct cancel *x, const struct client *target, const struct server *s)
{
	if (!x->target_id) {
		x->target_id = target->id;
		x->server_id = s->id;
		x->query_at = target->query_at;
	}
	return x->target_id == target->id && x->server_id == s->id && x->query_at == target->query_at;
}

static void called(void *owner)
{
	struct cancel *x = owner;

	x->calling = false;
	end(x, "cancel request done");
}

static void try_again(struct cancel *x)
{
	usec_t now = loop_now(x->client->worker->loop);

	if (x->gives_up_at && now >= x->gives_up_at) {
		end(x, "cancel_wait_timeout");
		return;
	}
	timer_set(&x->retry, now + RETRY_AFTER);
}

static void cancel_active(struct cancel *x, struct client *target)
{
	struct server *s = target->server;

	if (!same_query(x, target, s) || !replies_has_forward(&s->replies)) {
		end(x, "cancel request for a query that is over");
		return;
	}
	if (s->cancels && target->canceled_at == target->query_at) {
		end(x, "cancel request for a query that is being canceled");
		return;
	}
	if (replies_at_own_query(&s->replies) || s->cancels >= CALLS_AT_ONCE) {
		try_again(x);
		return;
	}
	x->calling = true;
	target->canceled_at = target->query_at;
	login_cancel(s, called, x);
}

static void attempt(struct cancel *x)
{
	struct client *target = find(x);

	if (!target)
		return;
	if (target->console) {
		console_calls->cancel(target);
		end(x, "cancel request for the console");
	} else if (target->throttle && target->server) {
		throttle_cancel(target);
		end(x, "cancel request for a client that its rate holds back");
	} else if (target->state == CLIENT_WAIT && !x->target_id) {
		relay_cancel_waiting(target);
		end(x, "cancel request for a waiting client");
	} else if (target->state == CLIENT_ACTIVE && target->server) {
		cancel_active(x, target);
	} else {
		end(x, "cancel request for an idle client");
	}
}

static void retry(struct timer *t)
{
	attempt(owner_of(t, struct cancel, retry));
}

static void arrived(struct client *c)
{
	struct cancel *x = c->greet->cancel;
	struct loop *l = c->worker->loop;
	usec_t most = c->worker->setup->conf->set.cancel_wait_timeout;

	timer_init(&x->retry, l, retry);
	x->gives_up_at = most ? loop_now(l) + most : 0;
	attempt(x);
}

void cancel_run(struct client *c, struct span key)
{
	struct reader r = reader_of(key.p, key.len);
	struct cancel *x = mem_make(struct cancel);
	struct worker *to;

	x->client = c;
	x->pid = read_u32(&r);
	x->secret = read_u32(&r);
	timer_init(&x->retry, c->worker->loop, retry);
	c->greet->cancel = x;
	to = address_worker(x->pid);
	if (!reader_done(&r) || !to) { /* ours have 8 bytes */
		end(x, "failed cancel request");
		return;
	}
	home_go(c, to, arrived);
}

void cancel_forget(struct cancel **at)
{
	struct cancel *x = *at;

	*at = NULL;
	timer_stop(&x->retry);
	x->client = NULL;
	if (!x->calling) /* else called() frees it */
		mem_free(x);
}
