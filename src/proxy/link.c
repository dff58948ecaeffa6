/* See proxy/link.h. */
#include "proxy/link.h"

#include "proxy/parcel.h"
#include "proxy/place.h"
#include "proxy/relay.h"
#include "proxy/speak.h"
#include "proxy/sweep.h"
#include "proxy/welcome.h"
#include "proxy/worker.h"
#include "wire/reader.h"
#include "wire/report.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

/* ---- getting a server ---- */

static void joined(struct client *c, struct server *s)
{
	c->server = s;
	c->served = true;
	c->link_due = true;
	s->session = c->mode == POOL_SESSION;
}

static void granted(struct waiter *w, struct server *s)
{
	struct client *c = owner_of(w, struct client, waiter);

	c->deadline_wait = c->deadline_notice = 0;
	client_move(c, CLIENT_ACTIVE);
	joined(c, s);
	if (c->welcome_due)
		welcome_has_server(c);
	else
		stream_resume(&c->stream);
}

static bool is_shutting_down(void)
{
	return atomic_load_explicit(&process_stage, memory_order_relaxed) == STAGE_WAIT_SERVERS;
}

/* Its cluster is DEGRADED and nobody can serve it: an error for one who is in, and not its end. */
static bool is_down(const struct client *c, struct err *err)
{
	return !is_shutting_down() && !c->welcome_due && !place_has_fallback(c) && target_is_down(c->pool->target, err);
}

static void refused(struct waiter *w, const struct err *err)
{
	struct client *c = owner_of(w, struct client, waiter);
	struct err down;

	if (place_has_fallback(c) || is_down(c, &down))
		place_fall_soon(c, err); /* one who is in asks once more, and is told at its message's place */
	else
		client_close(c, err, err->text);
}

static void begin_to_wait(struct client *c)
{
	usec_t now = loop_now(c->worker->loop);
	const struct settings *set = &c->worker->setup->conf->set;

	client_move(c, CLIENT_WAIT);
	stream_pause(&c->stream);
	c->deadline_idle = 0;
	c->deadline_wait = c->pool->policy.query_wait_timeout ? now + c->pool->policy.query_wait_timeout : 0;
	c->deadline_notice = set->query_wait_notify ? now + set->query_wait_notify : 0;
	sweep_set(c);
}

void link_init(struct client *c)
{
	list_init(&c->waiter.link);
	list_init(&c->portals);
	c->waiter.user = c;
	c->waiter.granted = granted;
	c->waiter.refused = refused;
}

static enum take ask_pool(struct client *c, struct server **s, struct err *err)
{
	if (is_shutting_down()) {
		err_set(err, SQLSTATE_SHUTDOWN, "server shutting down");
		return TAKE_REFUSED;
	}
	c->waiter.fresh = !c->served;
	return pool_take(c->pool, &c->waiter, s, err);
}

/* Its cluster is down, and it is at rest again: it stays connected. */
static enum got told_down(struct client *c)
{
	place_rise(c);
	speak_visit_end(c);
	return GOT_ERROR;
}

/* Refused: is there another pool for it? Else it is on its way to one, or closed. */
static bool may_go_on(struct client *c, const struct err *why)
{
	switch (place_fall_back(c, why)) {
	case PLACE_HERE:
		return true;
	case PLACE_AWAY:
		return false;
	case PLACE_NONE:
		client_close(c, why, why->text);
		return false;
	}
	never("no such place");
}

void link_get_welcome(struct client *c)
{
	struct server *s;
	struct err err;

	c->welcome_due = true;
	switch (ask_pool(c, &s, &err)) {
	case TAKE_GRANTED:
		client_move(c, CLIENT_WAIT);
		stream_pause(&c->stream);
		granted(&c->waiter, s);
		return;
	case TAKE_WAIT:
		begin_to_wait(c);
		return;
	case TAKE_REFUSED:
		if (may_go_on(c, &err))
			client_welcome(c);
		return;
	}
}

enum got link_get(struct client *c, struct err *err)
{
	struct server *s;

	switch (ask_pool(c, &s, err)) {
	case TAKE_GRANTED:
		c->deadline_idle = 0;
		client_move(c, CLIENT_ACTIVE);
		joined(c, s);
		return GOT_SERVER;
	case TAKE_WAIT:
		begin_to_wait(c);
		return GOT_LATER;
	case TAKE_REFUSED:
		if (is_down(c, err))
			return told_down(c);
		return may_go_on(c, err) ? link_get(c, err) : GOT_LATER;
	}
	never("no such answer");
}

/* ---- what goes ahead ---- */

static void ahead_query(struct server *s, struct buf *out, const char *sql, enum mark mark, void *note)
{
	msg_query(out, sql);
	replies_push(&s->replies, REPLY_QUERY, REPLY_SKIP, mark, note);
	s->unnamed_of = 0; /* a simple query drops the unnamed statement */
}

static void ahead_reset(struct server *s, struct buf *out)
{
	ahead_query(s, out, "DISCARD ALL", MARK_RESET, NULL);
	server_discarded(s);
	gucs_copy(&s->gucs, &s->gucs_at_login);
	server_gucs_changed(s);
	s->dirty = false;
}

/* Bits of settings that stay as the server has them: a session that is read-only must stay so, whatever the client asked for. */
static uint32_t kept_back(const struct client *c, const struct server *s)
{
	int i = s->read_only ? setup_guc(c->worker->setup, READ_ONLY_SETTING, strlen(READ_ONLY_SETTING)) : -1;
	return i < 0 ? 0 : 1u << i;
}

/* Only what the client asked for or what is not as at login can differ: mostly nothing. */
static bool settings_fit(const struct client *c, const struct server *s)
{
	for (uint32_t bits = (c->gucs.set | s->gucs_off) & ~kept_back(c, s); bits; bits &= bits - 1) {
		int i = __builtin_ctz(bits);
		if ((c->gucs.at[i] ? c->gucs.at[i] : s->gucs_at_login.at[i]) != s->gucs.at[i])
			return false;
	}
	return true;
}

/* From now on the server is taken to be as it was told; what it reports is noted as it comes. */
static void ahead_settings(struct client *c, struct server *s, struct buf *out)
{
	const struct setup *setup = c->worker->setup;
	struct buf *sql = &c->worker->scratch;
	struct gucs want = c->gucs; /* borrows its values */

	sql->len = 0;
	for (uint32_t bits = kept_back(c, s); bits; bits &= bits - 1)
		want.at[__builtin_ctz(bits)] = s->gucs.at[__builtin_ctz(bits)];
	uint32_t mask = gucs_diff(&want, &s->gucs, &s->gucs_at_login, setup, sql);
	if (!mask)
		return;
	buf_add_u8(sql, 0);
	ahead_query(s, out, (const char *)sql->p, MARK_SETTINGS, (void *)(uintptr_t)mask);
	for (int i = 0; i < setup->n_gucs; i++)
		if (mask & (1u << i))
			gucs_set(&s->gucs, i, guc_ref(c->gucs.at[i] ? c->gucs.at[i] : s->gucs_at_login.at[i]));
	server_gucs_changed(s);
}

static const char *connect_query_of(const struct server *s)
{
	const struct conf_entry *e = target_entry(s->target);
	return e ? e->connect_query : NULL;
}

/* A query of its own: what stands in one is read under the client_encoding that was there before it. */
static void ahead_named(struct client *c, struct server *s, struct buf *out)
{
	struct buf *sql = &c->worker->scratch;
	struct guc_list *want = guc_list_ref(c->named);

	if (s->read_only && guc_list_find(want, READ_ONLY_SETTING)) /* of a server that does not report it */
		want = guc_list_with(want, &c->worker->guc_book, READ_ONLY_SETTING, NULL);
	sql->len = 0;
	guc_list_diff(want, s->named, connect_query_of(s), sql);
	if (sql->len) {
		buf_add_u8(sql, 0);
		ahead_query(s, out, (const char *)sql->p, MARK_SETTINGS, NULL);
	}
	guc_list_drop(&s->named);
	s->named = want;
}

void link_prelude(struct client *c)
{
	struct server *s = c->server;
	struct buf *out = parcel_made(c->worker->to_server);

	c->link_due = false;
	if (s->dirty)
		ahead_reset(s, out);
	if (s->discarded && connect_query_of(s))
		ahead_query(s, out, connect_query_of(s), MARK_RESET, NULL);
	s->discarded = false;
	if (!settings_fit(c, s))
		ahead_settings(c, s, out);
	if (c->named != s->named)
		ahead_named(c, s, out);
}

void link_keep_gucs(struct client *c)
{
	if (c->gucs_before)
		return;
	c->gucs_before = mem_make(struct gucs);
	gucs_copy(c->gucs_before, &c->gucs);
}

void link_forget_gucs(struct client *c)
{
	if (!c->gucs_before)
		return;
	gucs_clear(c->gucs_before);
	mem_free(c->gucs_before);
	c->gucs_before = NULL;
}

void link_keep_start(struct client *c, int i)
{
	const char *name = c->worker->setup->guc_names[i];

	if (c->start_bits & 1u << i && c->gucs.at[i] && !guc_list_find(c->start, name))
		c->start = guc_list_with(c->start, &c->worker->guc_book, name, c->gucs.at[i]->text);
}

void link_start_values(struct client *c)
{
	struct server *s = c->server;
	struct buf *out = parcel_made(c->worker->to_client);

	for (int k = 0; c->start && k < c->start->n; k++) {
		struct guc_item *item = &c->start->items[k];
		int i = setup_guc(c->worker->setup, item->name->text, strlen(item->name->text));
		if (!(c->reset_due & 1u << i) || s->gucs.at[i] != s->gucs_at_login.at[i] || c->gucs.at[i] == item->value)
			continue;
		gucs_set(&c->gucs, i, guc_ref(item->value));
		msg_parameter(out, item->name->text, item->value->text);
	}
	c->reset_due = 0;
}

/* ---- parting ---- */

void link_idle(struct client *c)
{
	usec_t idle = c->pool->policy.client_idle_timeout;

	c->deadline_idle = idle ? loop_now(c->worker->loop) + idle : 0;
	if (idle)
		sweep_set(c);
}

void link_stay(struct client *c)
{
	c->link_due = c->gucs.set != 0 || c->named != c->server->named; /* they may be other than the server's since a RESET */
	relay_watch_idle(c);
}

void link_parted(struct client *c)
{
	c->server = NULL;
	c->link_due = false;
	c->unnamed_in_batch = false;
	c->holding = false;
	c->xact_at = 0;
	c->deadline_query = c->deadline_xact = 0;
	speak_sync(c);
	place_rise(c);
	speak_visit_end(c);
	link_idle(c);
	client_move(c, CLIENT_IDLE);
	/* Either may be paused for the backlog of the other, who will not tell it any more. */
	stream_resume(&c->stream);
}

void link_part(struct client *c)
{
	struct server *s = c->server;

	link_parted(c);
	stream_resume(&s->stream);
	server_release(s);
}

/* ---- statements that are gone ---- */

/* What a Parse that is not answered yet makes; NULL: it is none. */
static struct stmt *made_by(const struct reply *r)
{
	if (r->mark == MARK_AHEAD)
		return r->note;
	return r->mark == MARK_NAMED && r->act == REPLY_FORWARD ? ((struct stmt_name *)r->note)->stmt : NULL;
}

/* What is parsed or closed behind it. */
static void still_to_come(struct server *s, struct reply *r)
{
	if (made_by(r))
		stmt_set_add(&s->stmts, made_by(r));
	else if (r->mark == MARK_EVICT && stmt_set_use(&s->stmts, r->note))
		stmt_set_take(&s->stmts, r->note);
	else if (r->mark == MARK_EVICT)
		r->mark = MARK_EVICT_GONE; /* if it is skipped the statement is not there for all that */
}

void link_statements_gone(struct client *c)
{
	struct server *s = c->server;

	stmt_names_clear_settled(&c->stmts);
	stmt_set_clear(&s->stmts);
	for (uint32_t i = 0; i < s->replies.count; i++)
		still_to_come(s, replies_at(&s->replies, i));
}

static bool is_to_come(struct server *s, const struct stmt *st)
{
	for (uint32_t i = 0; i < s->replies.count; i++)
		if (made_by(replies_at(&s->replies, i)) == st)
			return true;
	return false;
}

void link_plan_refused(struct client *c, uint64_t serial, const char *sqlstate)
{
	struct server *s = c->server;
	struct stmt *st = stmt_set_find(&s->stmts, serial);

	if (!st)
		return;
	if (strcmp(sqlstate, SQLSTATE_UNSUPPORTED) == 0) {
		stmt_retire(st);
	} else if (strcmp(sqlstate, SQLSTATE_NO_STATEMENT) == 0 && !is_to_come(s, st)) {
		stmt_set_take(&s->stmts, st);
		if (c->mode != POOL_SESSION)
			server_make_stale(s, "its prepared statements were dropped");
	}
}

void link_note_tag(struct client *c, const uint8_t *tag, size_t len)
{
	static const char *const changes[] = {"ALTER ", "DROP ", "CREATE VIEW", "CREATE FUNCTION"}; /* ... OR REPLACE */

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		if (tag_is(tag, len, changes[i])) {
			c->changes_schema = true;
			c->server->target->schema++; /* for the client itself, who sees it now */
			return;
		}
}

void link_schema_changed(struct client *c)
{
	c->changes_schema = false;
	c->server->target->schema++;
}

/* ---- what becomes of the entries ---- */

/* Our SET went through: the client's value takes the server's spelling, or every transaction would set it again. */
static void settings_hold(struct client *c, struct server *s, uint32_t mask)
{
	for (int i = 0; c && i < c->worker->setup->n_gucs; i++)
		if (mask & (1u << i) && c->gucs.at[i]) {
			target_spelling_add(s->target, i, c->gucs.at[i], s->gucs.at[i]);
			gucs_set(&c->gucs, i, guc_ref(s->gucs.at[i]));
		}
}

static void drop_stmt(void *note)
{
	struct stmt *st = note;
	stmt_drop(&st);
}

static void free_name(void *note)
{
	struct stmt_name *n = note;
	stmt_name_free(&n);
}

static void free_unnamed(void *note)
{
	struct unnamed *u = note;

	if (!u)
		return;
	buf_free(&u->body);
	mem_free(u->deallocates);
	mem_free(u);
}

/* One note fewer; the oldest ones stand before the Sync that closes them off. */
static void note_is_over(struct server *s, const struct reply *r)
{
	if (r->mark == MARK_FORGETS)
		s->forgets--;
	if (r->mark < MARK_FIRST_NOTE)
		return;
	s->notes_open--;
	if (s->notes_behind)
		s->notes_behind--;
}

void link_settled(void *owner, struct reply *r)
{
	struct server *s = owner;
	struct client *c = s->asker ? NULL : s->user;

	note_is_over(s, r);
	switch ((enum mark)r->mark) {
	case MARK_SETTINGS:
		settings_hold(c, s, (uint32_t)(uintptr_t)r->note);
		break;
	case MARK_AHEAD:
	case MARK_EVICT:
	case MARK_EVICT_GONE:
		drop_stmt(r->note);
		break;
	case MARK_NAMED:
		if (c && r->act == REPLY_MAKE_UP)
			msg_empty(parcel_made(c->worker->to_client), '1');
		free_name(r->note);
		break;
	case MARK_CLOSED:
		if (c && r->act == REPLY_MAKE_UP)
			msg_empty(parcel_made(c->worker->to_client), '3');
		free_name(r->note);
		break;
	case MARK_DEALLOCATE:
		free_name(r->note);
		break;
	case MARK_REFUSED:
		if (c && r->act == REPLY_MAKE_UP)
			report_err(parcel_made(c->worker->to_client), "ERROR", r->note);
		mem_free(r->note);
		break;
	case MARK_DUPLICATE:
		mem_free(r->note);
		break;
	case MARK_UNNAMED:
		free_unnamed(r->note);
		break;
	case MARK_NONE:
	case MARK_PLAN:
	case MARK_UNWRAP:
	case MARK_RESET:
	case MARK_FORGETS:
		break;
	}
}

/* The client's Parse failed or was skipped: the name is free again, and the server does not have the statement. */
static void undo_named(struct client *c, struct server *s, struct reply *r)
{
	struct stmt_name *n = r->note;

	if (r->act == REPLY_FORWARD)
		stmt_set_take(&s->stmts, n->stmt);
	if (c && stmt_name_find(&c->stmts, n->name) == n) {
		stmt_name_take(&c->stmts, n);
		free_name(n);
	}
	free_name(n);
}

static void undo_closed(struct client *c, struct stmt_name *n)
{
	if (c && n && !stmt_name_find(&c->stmts, n->name))
		stmt_name_put(&c->stmts, n);
	else
		free_name(n);
}

/* What the client's unnamed statement was before it was replaced or dropped behind the Sync that ends the skipping. NULL: it was not. */
static struct unnamed *unnamed_behind(struct replies *r)
{
	bool behind = false;

	for (uint32_t i = 0; i < r->count; i++) {
		struct reply *e = replies_at(r, i);
		if (behind && e->mark == MARK_UNNAMED && e->note)
			return e->note;
		behind |= e->kind == REPLY_SYNC;
	}
	return NULL;
}

/* At that place the client's unnamed statement is the one before, and so is the server's; what has replaced them since stays. It must be
 * known what the server has: in a transaction that has failed it cannot be given it again. */
static void undo_unnamed(struct client *c, struct server *s, struct reply *r)
{
	struct unnamed *before = r->note;
	struct unnamed *behind = unnamed_behind(&s->replies);
	struct unnamed *now = behind ? behind : c ? &c->unnamed : NULL;
	uint64_t *server_of = behind ? &behind->server_of : &s->unnamed_of;
	uint64_t *server_serial = behind ? &behind->server_serial : &s->unnamed_serial;

	if (!now || !before || r->act == REPLY_SKIP) {
		*server_of = 0;
		if (now && r->act != REPLY_SKIP)
			now->known = false; /* it was the first, so it has failed: PostgreSQL has none */
		return;
	}
	struct unnamed undone = *now;
	*now = *before;
	*before = undone; /* freed with the note */
	*server_of = now->server_of;
	*server_serial = now->server_serial;
}

void link_unnamed_failed(struct reply *front)
{
	struct unnamed *before = front->note;

	if (before) {
		before->known = false;
		before->server_of = 0;
	}
}

void link_deallocate_failed(struct client *c, struct reply *front)
{
	undo_closed(c, front->note);
	front->note = NULL;
}

void link_undone(void *owner, struct reply *r)
{
	struct server *s = owner;
	struct client *c = s->asker ? NULL : s->user;

	note_is_over(s, r);
	switch ((enum mark)r->mark) {
	case MARK_AHEAD:
		stmt_set_take(&s->stmts, r->note);
		drop_stmt(r->note);
		break;
	case MARK_EVICT:
		stmt_set_add(&s->stmts, r->note);
		drop_stmt(r->note);
		break;
	case MARK_EVICT_GONE:
		drop_stmt(r->note);
		break;
	case MARK_NAMED:
		undo_named(c, s, r);
		break;
	case MARK_CLOSED:
	case MARK_DEALLOCATE:
		undo_closed(c, r->note);
		break;
	case MARK_DUPLICATE:
	case MARK_REFUSED:
		mem_free(r->note);
		break;
	case MARK_UNNAMED:
		undo_unnamed(c, s, r);
		free_unnamed(r->note);
		break;
	case MARK_NONE:
	case MARK_PLAN:
	case MARK_UNWRAP:
	case MARK_RESET:
	case MARK_SETTINGS:
	case MARK_FORGETS:
		break;
	}
}
