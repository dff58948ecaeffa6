/* See pool/server.h. Opening, the states, closing, and what happens to a server between two users. How it logs in is pool/login's
 * business, our own questions are pool/ask's, who gets it next is pool/pool's. */
#include "pool/server.h"

#include <stdio.h>

#include "base/random.h"
#include "pool/ask.h"
#include "pool/blocked.h"
#include "pool/login.h"
#include "pool/order.h"
#include "pool/pool.h"
#include "pool/server_priv.h"
#include "wire/frame.h"
#include "wire/sqlstate.h"

static const char *const state_names[SERVER_STATES] = {
	[SERVER_DIAL] = "login", [SERVER_LOGIN] = "login", [SERVER_IDLE] = "idle",          [SERVER_ACTIVE] = "active",
	[SERVER_RESET] = "tested", [SERVER_TEST] = "tested", [SERVER_HELD] = "being_canceled", [SERVER_CLOSING] = "closing",
};

#define MAY(state) (1u << SERVER_##state)
static const unsigned legal_moves[SERVER_STATES] = {
	[SERVER_DIAL] = MAY(LOGIN) | MAY(CLOSING),
	[SERVER_LOGIN] = MAY(DIAL) | MAY(IDLE) | MAY(CLOSING), /* DIAL: the next host */
	[SERVER_IDLE] = MAY(ACTIVE) | MAY(TEST) | MAY(RESET) | MAY(CLOSING),
	[SERVER_ACTIVE] = MAY(IDLE) | MAY(RESET) | MAY(HELD) | MAY(CLOSING),
	[SERVER_RESET] = MAY(IDLE) | MAY(RESET) | MAY(HELD) | MAY(CLOSING), /* RESET: behind a ROLLBACK */
	[SERVER_TEST] = MAY(IDLE) | MAY(HELD) | MAY(CLOSING),
	[SERVER_HELD] = MAY(IDLE) | MAY(RESET) | MAY(CLOSING),
	[SERVER_CLOSING] = 0,
};

const char *server_state_name(enum server_state s)
{
	return state_names[s];
}

void server_who(const struct server *s, struct who *out, char peer[ADDR_TEXT])
{
	if (s->addr.len)
		addr_print(&s->addr, peer);
	else
		snprintf(peer, ADDR_TEXT, "%.100s:%d", s->host[0] ? s->host : "unresolved", s->port);
	*out = (struct who){.kind = 'S', .id = s->id, .entry = s->target->entry->name, .user = s->target->user->name, .peer = peer, .org = s->pool->flow->key};
}

static void say(const struct server *s, enum log_level level, const char *text)
{
	struct who who;
	char peer[ADDR_TEXT];

	if (!log_on(level))
		return;
	server_who(s, &who, peer);
	log_line(level, &who, "%s", text);
}

/* ---- the bytes go to whoever the state says ---- */

/* The operator changed a default and the server has read it: that is what RESET leads to from now on. */
static void default_changed(struct server *s, int i)
{
	if (i < 0)
		return;
	gucs_set(&s->gucs_at_login, i, guc_ref(s->gucs.at[i]));
	server_gucs_changed(s);
}

/* What a server says unasked while it rests: parameters and notices; anything else, an error above all, is its end. */
static size_t idle_bytes(struct server *s, const uint8_t *p, size_t len)
{
	size_t used = 0;
	struct frame f;

	while (frame_peek(p + used, len - used, &f) == PARSE_OK && f.have == f.size) {
		if (f.type == 'S')
			default_changed(s, server_parameter(s, p + used + FRAME_HEAD, f.size - FRAME_HEAD));
		else if (f.type != 'N' && f.type != 'A') {
			server_close(s, NULL, f.type == 'E' ? "server ended an idle connection" : "unexpected message from idle server");
			return len;
		}
		used += f.size;
	}
	if (len - used > STREAM_READ_ROOM || server_is_lifted(s)) {
		server_close(s, NULL, server_is_lifted(s) ? "its session was made writable" : "unexpected message from idle server");
		return len;
	}
	return used;
}

static size_t server_bytes(struct stream *st, const uint8_t *p, size_t len)
{
	struct server *s = st->owner;

	switch (s->state) {
	case SERVER_LOGIN:
		return login_bytes(st, p, len);
	case SERVER_RESET:
	case SERVER_TEST:
		return ask_bytes(s, p, len);
	case SERVER_ACTIVE:
		if (s->asker)
			return s->asker->bytes(s, p, len);
		return s->lane->calls->bytes(st, p, len);
	case SERVER_IDLE:
		return idle_bytes(s, p, len);
	case SERVER_HELD:
		return s->idle_after_cancel ? idle_bytes(s, p, len) : len;
	default:
		return len;
	}
}

static void server_drained(struct stream *st)
{
	struct server *s = st->owner;
	if (s->state == SERVER_ACTIVE && !s->asker)
		s->lane->calls->drained(st);
}

static void server_ended(struct stream *st, const struct err *why)
{
	struct server *s = st->owner;
	struct err lost;

	if (s->state == SERVER_LOGIN) {
		login_ended(s, why);
		return;
	}
	if (s->state == SERVER_CLOSING) {
		server_gone(s);
		return;
	}
	err_set(&lost, SQLSTATE_SERVER_LOST, "server conn crashed?");
	server_close(s, &lost, s->state == SERVER_IDLE ? "server closed the connection" : "server conn crashed?");
}

static void server_secured(struct stream *st)
{
	login_secured(st->owner);
}

const struct stream_calls server_stream_calls = {.bytes = server_bytes, .drained = server_drained, .ended = server_ended, .secured = server_secured};

bool server_is_lifted(const struct server *s)
{
	int i;

	if (!s->read_only)
		return false;
	i = setup_guc(s->lane->setup, READ_ONLY_SETTING, strlen(READ_ONLY_SETTING));
	return i >= 0 && s->gucs.at[i] && strcmp(s->gucs.at[i]->text, "on") != 0;
}

void server_gucs_changed(struct server *s)
{
	s->gucs_off = gucs_differ(&s->gucs, &s->gucs_at_login);
}

int server_parameter(struct server *s, const uint8_t *body, size_t len)
{
	const uint8_t *end = memchr(body, 0, len);
	if (!end || end + 1 >= body + len || body[len - 1] != 0)
		return -1;
	int i = setup_guc(s->lane->setup, (const char *)body, (size_t)(end - body));
	if (i < 0)
		return -1;
	gucs_set(&s->gucs, i, guc_of(s->lane->guc_book, (const char *)end + 1));
	server_gucs_changed(s);
	return i;
}

void server_discarded(struct server *s)
{
	stmt_set_clear(&s->stmts); /* the unnamed statement is not among what DISCARD ALL drops */
	guc_list_drop(&s->named);
	s->discarded = true;
	for (int i = 0; i < s->lane->setup->n_gucs; i++) /* those that the server reports say so themselves */
		if (!s->gucs_at_login.at[i])
			gucs_set(&s->gucs, i, NULL);
	server_gucs_changed(s);
}

bool server_is_clean(const struct server *s)
{
	return s->status == 'I' && replies_empty(&s->replies) && !s->replies.open && !s->replies.skipping && s->pass_left == 0;
}

/* ---- states ---- */

static void lists_enter(struct server *s)
{
	struct pool *p = s->pool;

	p->n_state[s->state]++;
	pool_touch(p);
	if (s->state != SERVER_IDLE) {
		list_push(&p->servers[s->state], &s->link);
		return;
	}
	list_push_front(&p->servers[SERVER_IDLE], &s->link);
	list_push(&s->target->idle, &s->idle_link);
	list_push(&s->lane->idle, &s->lane_link);
}

static void lists_leave(struct server *s)
{
	list_take(&s->link);
	s->pool->n_state[s->state]--;
	if (s->state != SERVER_IDLE)
		return;
	list_take(&s->idle_link);
	list_take(&s->lane_link);
}

static SELDOM void log_move(const struct server *s, enum server_state to)
{
	struct who who;
	char peer[ADDR_TEXT];

	server_who(s, &who, peer);
	log_line(LOG_DEBUG_, &who, "%s -> %s", state_names[s->state], state_names[to]);
}

void server_move(struct server *s, enum server_state to)
{
	verify_here(s->loop);
	verify(legal_moves[s->state] & (1u << to));
	if (log_on(LOG_DEBUG_))
		log_move(s, to);
	if (s->used_since && (to == SERVER_IDLE || to == SERVER_CLOSING)) {
		count_add(&s->pool->counts.slot_us, (uint64_t)(loop_now(s->loop) - s->used_since));
		s->used_since = 0;
	}
	lists_leave(s);
	s->state = to;
	lists_enter(s);
}

void server_change_pool(struct server *s, struct pool *to)
{
	verify(s->state == SERVER_IDLE && to->target == s->target);
	lists_leave(s);
	s->pool->n_servers--;
	pool_touch(s->pool);
	s->pool = to;
	to->n_servers++;
	lists_enter(s);
}

/* ---- life ---- */

static usec_t spread_lifetime(usec_t lifetime)
{
	return lifetime ? lifetime - (usec_t)random_below((uint32_t)(lifetime / 10 / USEC_PER_MSEC) + 1) * USEC_PER_MSEC : 0;
}

static void server_bury(struct grave *g)
{
	mem_free(owner_of(g, struct server, grave));
}

void server_gone(struct server *s)
{
	struct pool *p = s->pool;

	verify(s->state == SERVER_CLOSING && !s->gone);
	s->gone = true;
	timer_stop(&s->timer);
	stream_close(&s->stream);
	list_take(&s->link);
	p->n_state[SERVER_CLOSING]--;
	p->n_servers--;
	pool_touch(p);
	s->target->n_servers--;
	tally_give(&s->target->entry->servers);
	tally_give(&s->target->user->servers);
	ledger_give(s->lane->cluster);
	pool_server_gone(s);
	if (s->cancels == 0)
		loop_bury(s->loop, &s->grave, server_bury);
}

static usec_t rest_before_look(const struct server *s)
{
	usec_t idle = s->lane->setup->conf->set.server_idle_timeout;
	return idle && idle < 60 * USEC_PER_SEC ? idle : 60 * USEC_PER_SEC;
}

/* Idle time and lifetime, looked at lazily: nothing is paid per transaction. */
static void rest_timer(struct timer *t)
{
	struct server *s = owner_of(t, struct server, timer);
	const struct settings *set = &s->lane->setup->conf->set;
	usec_t now = loop_now(s->loop);
	usec_t next = now + rest_before_look(s);

	switch (s->state) {
	case SERVER_DIAL:
	case SERVER_LOGIN:
		login_timeout(s);
		return;
	case SERVER_RESET:
	case SERVER_TEST:
		ask_timeout(s);
		return;
	case SERVER_HELD:
		server_close(s, NULL, "cancel_wait_timeout");
		return;
	case SERVER_CLOSING:
		server_gone(s);
		return;
	case SERVER_IDLE:
		if (set->server_idle_timeout && pool_live_servers(s->pool) > s->pool->policy.min_pool_size) {
			usec_t ends = s->idle_since + set->server_idle_timeout;
			if (ends <= now) {
				server_close(s, NULL, "server idle timeout");
				return;
			}
			next = ends < next ? ends : next;
		}
		break;
	default:
		break;
	}
	if (s->lifetime) {
		usec_t ends = s->ready_at + s->lifetime;
		if (ends <= now && s->state == SERVER_IDLE) {
			server_close(s, NULL, "server lifetime over");
			return;
		}
		if (ends > now && ends < next)
			next = ends;
	}
	timer_set(&s->timer, next);
}

struct server *server_open(struct pool *p)
{
	struct server *s = mem_make(struct server);
	struct lane *l = p->lane;

	s->id = atomic_fetch_add(l->last_server_id, 1) + 1;
	s->loop = l->loop;
	s->lane = l;
	s->target = p->target;
	s->pool = p;
	s->state = SERVER_DIAL;
	s->stream.fd = -1;
	s->opened_at = loop_now(l->loop);
	s->lifetime = spread_lifetime(p->policy.server_lifetime);
	list_init(&s->link);
	list_init(&s->idle_link);
	list_init(&s->lane_link);
	stmt_set_init(&s->stmts);
	replies_init(&s->replies, s, l->calls->settled, l->calls->undone);
	timer_init(&s->timer, l->loop, rest_timer);
	p->n_servers++;
	p->target->n_servers++;
	p->target->n_logins++;
	l->n_logins++;
	lists_enter(s);
	login_begin(s);
	return s;
}

static void login_over(struct server *s)
{
	s->target->n_logins--;
	s->lane->n_logins--;
	lane_login_over(s->lane);
	login_free(s);
}

void server_failed(struct server *s, const struct err *err, bool server_said)
{
	struct target *t = s->target;

	server_close(s, NULL, server_said ? "login failed" : err->text);
	target_login_failed(t, err, server_said);
}

void server_take(struct server *s, void *user)
{
	s->user = user;
	s->request_at = s->used_since = loop_now(s->loop);
	server_move(s, SERVER_ACTIVE);
}

const char *server_overdue(const struct server *s)
{
	const struct pool *p = s->pool;

	if (!server_is_of_now(s))
		return "cluster has moved on";
	if (server_is_lifted(s))
		return "its session was made writable";
	if (s->stale)
		return "database configuration changed";
	if (p->left)
		return "clients were led elsewhere";
	if (pool_is_held(p))
		return "pooler paused";
	if (s->status != 'I')
		return "server was left in a transaction";
	if (s->lifetime == 0 && s->request_at)
		return "server used once";
	if (s->lifetime && loop_now(s->loop) - s->ready_at >= s->lifetime)
		return "server lifetime over";
	if (p->policy.pool_size && pool_live_servers(p) > p->policy.pool_size + p->policy.reserve_pool_size)
		return "pool is smaller now";
	return NULL;
}

bool server_is_fast_closed(const struct server *s)
{
	return s->stale && s->session && s->lane->setup->conf->set.server_fast_close && server_is_clean(s);
}

void server_make_stale(struct server *s, const char *reason)
{
	struct err why;

	s->stale = true;
	if (s->state == SERVER_IDLE) {
		server_close(s, NULL, reason);
	} else if (s->state == SERVER_ACTIVE && server_is_fast_closed(s)) {
		err_set(&why, SQLSTATE_SHUTDOWN, "database configuration changed");
		server_close(s, &why, reason);
	}
}

/* Rests, or goes to the next who waits. */
static void free_up(struct server *s)
{
	const char *overdue = server_overdue(s);

	s->user = NULL;
	s->asker = NULL;
	s->session = s->was_reset = s->unsure = false;
	if (overdue) {
		server_close(s, NULL, overdue);
		return;
	}
	s->idle_since = loop_now(s->loop);
	server_move(s, SERVER_IDLE);
	if (!timer_is_set(&s->timer))
		timer_in(&s->timer, rest_before_look(s));
	pool_give(s);
}

void server_ready(struct server *s)
{
	usec_t now = loop_now(s->loop);

	login_over(s);
	timer_stop(&s->timer);
	s->ready_at = now;
	target_login_worked(s->target);
	server_gucs_changed(s);
	for (int i = 0; i < s->lane->setup->n_gucs; i++)
		target_spelling_add(s->target, i, s->gucs_at_login.at[i], s->gucs_at_login.at[i]);
	free_up(s);
}

/* Whatever lies between its last use and now: a ROLLBACK, a cancel. */
static bool reset_is_due(const struct server *s, const struct settings *set)
{
	if (s->was_reset || s->state == SERVER_TEST)
		return false;
	if (s->unsure)
		return !server_overdue(s);
	if (!set->server_reset_query[0])
		return false;
	return (s->session || set->server_reset_query_always) && !server_overdue(s);
}

/* A little longer than the cancel connection may take; without a limit on that it is waited for. */
static void hold_timer(struct server *s)
{
	usec_t limit = s->lane->setup->conf->set.cancel_wait_timeout;

	if (limit)
		timer_in(&s->timer, limit + USEC_PER_SEC);
	else
		timer_stop(&s->timer);
}

void server_release(struct server *s)
{
	const struct settings *set = &s->lane->setup->conf->set;

	verify_here(s->loop);
	if (!server_is_clean(s)) {
		server_close(s, NULL, "server was not clean when it came free");
		return;
	}
	s->user = NULL;
	s->asker = NULL;
	if (s->cancels) {
		s->idle_after_cancel = true;
		server_move(s, SERVER_HELD);
		hold_timer(s);
		return;
	}
	if (reset_is_due(s, set)) {
		ask_reset(s);
		return;
	}
	free_up(s);
}

static void abandoned_cancel_done(void *owner)
{
	(void)owner; /* server_cancel_end, which came before, has closed it */
}

void server_abandon(struct server *s)
{
	s->user = NULL;
	s->asker = NULL;
	if (s->pass_left == 0 && replies_empty(&s->replies) && !s->replies.skipping && !s->replies.copy_in) {
		if (s->status == 'I' && !s->replies.open)
			server_release(s);
		else
			ask_rollback(s); /* also where only a Sync was missing: it would commit what the client has not */
		return;
	}
	/* It may work on for hours: PostgreSQL notices a closed socket only when it writes. Its slot stays taken until it has been told. */
	s->idle_after_cancel = false;
	server_move(s, SERVER_HELD);
	hold_timer(s);
	login_cancel(s, abandoned_cancel_done, NULL);
}

void server_cancel_begin(struct server *s)
{
	verify(s->cancels < UINT8_MAX);
	s->cancels++;
}

void server_cancel_end(struct server *s)
{
	verify(s->cancels > 0);
	if (--s->cancels)
		return;
	if (s->state == SERVER_CLOSING) {
		if (s->gone)
			loop_bury(s->loop, &s->grave, server_bury);
		return;
	}
	if (s->state != SERVER_HELD)
		return;
	timer_stop(&s->timer);
	if (!s->idle_after_cancel) {
		server_close(s, NULL, "client gone with a query in hand");
		return;
	}
	s->idle_after_cancel = false;
	server_release(s);
}

/* PostgreSQL's process lives on until it has read the end, and counts as a connection of its own until then. So must ours: the slot is
 * given back when PostgreSQL has closed its side, or after a while that no healthy server needs. */
#define LINGER_MOST USEC_PER_SEC

/* Says goodbye; true when the other side's end is worth waiting for. */
static bool say_goodbye(struct server *s)
{
	static const uint8_t terminate[] = {'X', 0, 0, 0, 4};

	if (!s->stream.open || s->stream.at_end || !s->ready_at || stream_backlog(&s->stream))
		return false;
	if (!s->user && !s->asker && server_is_clean(s)) /* else it may stand in the middle of a message */
		stream_send(&s->stream, terminate, sizeof(terminate));
	return stream_finish(&s->stream);
}

static void log_end(const struct server *s, const char *reason)
{
	char text[300];

	if (!s->lane->setup->conf->set.log_disconnections)
		return;
	snprintf(text, sizeof(text), "closing because: %s (age=%llds)", reason, (long long)((loop_now(s->loop) - s->opened_at) / USEC_PER_SEC));
	say(s, LOG_LOG_, text);
}

void server_close(struct server *s, const struct err *why, const char *reason)
{
	verify_here(s->loop);
	if (s->state == SERVER_CLOSING)
		return;
	log_end(s, reason);
	use_end(s);
	timer_stop(&s->timer);
	if (s->state == SERVER_DIAL || s->state == SERVER_LOGIN)
		login_over(s);
	bool lingers = say_goodbye(s);
	server_move(s, SERVER_CLOSING);
	if (why && s->asker)
		s->asker->lost(s, why);
	else if (why && s->user)
		s->lane->calls->lost(s, why);
	s->user = NULL;
	s->asker = NULL;
	replies_free(&s->replies);
	stmt_set_clear(&s->stmts);
	gucs_clear(&s->gucs);
	gucs_clear(&s->gucs_at_login);
	guc_list_drop(&s->named);
	if (lingers)
		timer_in(&s->timer, LINGER_MOST);
	else
		server_gone(s);
}
