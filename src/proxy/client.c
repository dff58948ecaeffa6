/* See proxy/client.h: a client's life. Its way in is proxy/greet's, its queries are proxy/relay's. */
#include "proxy/client.h"

#include <stdio.h>

#include "proxy/address.h"
#include "proxy/deallocate.h"
#include "proxy/greet.h"
#include "proxy/inventory.h"
#include "proxy/link.h"
#include "proxy/place.h"
#include "proxy/relay.h"
#include "proxy/speak.h"
#include "proxy/sweep.h"
#include "proxy/throttle.h"
#include "proxy/welcome.h"
#include "proxy/worker.h"
#include "wire/report.h"

#define MAY(state) (1u << CLIENT_##state)
static const unsigned legal_moves[CLIENT_STATES] = {
	[CLIENT_GREET] = MAY(IDLE) | MAY(WAIT) | MAY(CLOSING), /* WAIT: for a first server, to learn the welcome */
	[CLIENT_IDLE] = MAY(WAIT) | MAY(ACTIVE) | MAY(CLOSING),
	[CLIENT_WAIT] = MAY(ACTIVE) | MAY(IDLE) | MAY(CLOSING),
	[CLIENT_ACTIVE] = MAY(IDLE) | MAY(CLOSING),
	[CLIENT_CLOSING] = 0,
};
static const char *const state_names[CLIENT_STATES] = {"login", "idle", "waiting", "active", "closing"};

const char *client_state_name(const struct client *c)
{
	return state_names[c->state];
}

void client_who(const struct client *c, struct who *out, char peer[ADDR_TEXT])
{
	int pid;
	unsigned uid;

	if (addr_is_unix(&c->addr) && c->stream.fd >= 0 && addr_unix_peer(c->stream.fd, &pid, &uid))
		snprintf(peer, ADDR_TEXT, "unix(%d):%d", pid, c->worker->setup->conf->set.listen_port);
	else
		addr_print(&c->addr, peer);
	*out = (struct who){.kind = 'C', .id = c->id, .entry = c->database, .user = c->user, .peer = peer, .org = c->org ? c->org->id : NULL};
}

static size_t client_bytes(struct stream *s, const uint8_t *p, size_t len)
{
	struct client *c = s->owner;

	if (__builtin_expect(c->state == CLIENT_GREET, 0))
		return greet_bytes(c, p, len);
	if (__builtin_expect(c->console != NULL, 0))
		return console_calls->bytes(c, p, len);
	return relay_client_bytes(c, p, len);
}

static void client_drained(struct stream *s)
{
	relay_client_drained(s->owner);
}

static void client_ended(struct stream *s, const struct err *why)
{
	struct client *c = s->owner;
	char reason[120];

	if (c->leaving) { /* it said so; what it sent before is seen through, and nobody is waited for who will read no answer */
		relay_client_drained(c);
		return;
	}
	if (greet_is_cancel(c) && !why->text[0])
		return; /* many senders do not wait for the end, and PostgreSQL obeys them too */
	if (c->state == CLIENT_GREET && !c->logged_in && s->received == 0) {
		client_leave(c, NULL); /* a health check: silent */
		return;
	}
	snprintf(reason, sizeof(reason), "client unexpected eof%s%.80s", why->text[0] ? ": " : "", why->text);
	client_leave(c, reason);
}

static void client_secured(struct stream *s)
{
	greet_secured(s->owner);
}

static void client_first(struct stream *s, uint8_t byte)
{
	greet_first(s->owner, byte);
}

static const struct stream_calls client_calls = {.first = client_first, .bytes = client_bytes, .drained = client_drained, .ended = client_ended, .secured = client_secured};

struct client *client_new(struct worker *w, int fd, const struct addr *peer)
{
	struct client *c = mem_make(struct client);

	c->id = atomic_fetch_add(&last_connection_id, 1) + 1;
	c->worker = w;
	c->state = CLIENT_GREET;
	c->addr = *peer;
	c->connected_at = loop_now(w->loop);
	link_init(c);
	list_init(&c->throttle_link);
	list_push(&w->clients[CLIENT_GREET], &c->link);
	w->n_clients[CLIENT_GREET]++;
	timer_init(&c->timer, w->loop, sweep_fire);
	later_init(&c->welcome_later, welcome_go_on);
	stream_open(&c->stream, w->loop, fd, &client_calls, c);
	return c;
}

static SELDOM void log_move(const struct client *c, enum client_state to)
{
	struct who who;
	char peer[ADDR_TEXT];

	client_who(c, &who, peer);
	log_line(LOG_DEBUG_, &who, "%s -> %s", state_names[c->state], state_names[to]);
}

void client_move(struct client *c, enum client_state to)
{
	struct worker *w = c->worker;

	verify_here(w->loop);
	verify(legal_moves[c->state] & (1u << to));
	if (log_on(LOG_DEBUG_))
		log_move(c, to);
	w->n_clients[c->state]--;
	c->state = to;
	list_move(&w->clients[to], &c->link);
	w->n_clients[to]++;
}

void client_send(struct client *c, const struct buf *messages)
{
	stream_send(&c->stream, messages->p, messages->len);
}

void client_error(struct client *c, const char *severity, const struct err *err)
{
	struct buf b = {0};

	report_err(&b, severity, err);
	client_send(c, &b);
	buf_free(&b);
}

static void client_bury(struct grave *g)
{
	mem_free(owner_of(g, struct client, grave));
}

static void log_end(const struct client *c, const char *reason)
{
	struct who who;
	char peer[ADDR_TEXT];

	if (!reason || !c->worker->setup->conf->set.log_disconnections)
		return;
	client_who(c, &who, peer);
	log_line(LOG_LOG_, &who, "closing because: %s (age=%llds)", reason, (long long)((loop_now(c->worker->loop) - c->connected_at) / USEC_PER_SEC));
}

/* Gives back all it holds, whatever state it is in. */
static void let_go(struct client *c)
{
	pool_give_up(&c->waiter);
	throttle_leave(c);
	if (c->server)
		relay_part(c);
	if (c->console)
		console_calls->close(c);
	greet_free(c);
	timer_stop(&c->timer);
	later_stop(&c->welcome_later);
	stream_close(&c->stream);
	address_give(c);
	stmt_names_clear(&c->stmts);
	buf_free(&c->unnamed.body);
	mem_free(c->unnamed.deallocates);
	portals_clear(c);
	gucs_clear(&c->gucs);
	link_forget_gucs(c);
	inventory_free(c);
	place_rise(c);
	speak_free(c);
	place_free(c);
	guc_list_drop(&c->named);
	guc_list_drop(&c->start);
	seats_give(&c->seats);
	org_drop(&c->org);
	mem_free(c->user);
	mem_free(c->database);
	mem_free(c->application_name);
	c->user = c->database = c->application_name = NULL;
}

static void client_end(struct client *c, const char *reason)
{
	struct worker *w = c->worker;

	log_end(c, reason);
	let_go(c);
	client_move(c, CLIENT_CLOSING);
	list_take(&c->link);
	w->n_clients[CLIENT_CLOSING]--;
	loop_bury(w->loop, &c->grave, client_bury);
	if (atomic_load_explicit(&process_stage, memory_order_relaxed) >= STAGE_WAIT_SERVERS && console_calls->client_gone)
		console_calls->client_gone(w);
}

/* Half a message of the server's stands before it: last words would be taken for the rest of that. */
static bool is_mid_message(const struct client *c)
{
	return c->server && c->server->pass_left && !c->server->pass_drop;
}

void client_close(struct client *c, const struct err *why, const char *reason)
{
	if (c->state == CLIENT_CLOSING)
		return;
	if (why && why->sqlstate[0]) {
		if (!is_mid_message(c))
			client_error(c, "FATAL", why);
		if (!c->logged_in)
			count_add(&c->worker->refused_logins, 1);
		if (c->worker->setup->conf->set.log_pooler_errors && reason != why->text) {
			static struct log_limit limit[8];
			struct who who;
			char peer[ADDR_TEXT];
			client_who(c, &who, peer);
			log_limited(&limit[(unsigned)c->worker->id & 7], LOG_WARNING_, &who, "pooler error: %s", why->text);
		}
	}
	client_end(c, reason);
}

void client_leave(struct client *c, const char *reason)
{
	if (c->state != CLIENT_CLOSING)
		client_end(c, reason);
}
