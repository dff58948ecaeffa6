/* See proxy/prepared.h.
 *
 * Names are the client's; on servers a statement is PGWEIR_<serial>, found by its text. A name the client never prepared is passed as it
 * is, so that PostgreSQL itself says that it does not exist; it cannot hit a statement of ours, see foreign_name. */
#include "proxy/prepared.h"

#include "proxy/deallocate.h"
#include "proxy/effect.h"
#include "proxy/expect.h"
#include "proxy/inventory.h"
#include "proxy/refuse.h"
#include "proxy/speak.h"
#include "proxy/worker.h"
#include "wire/reader.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

#define OUR_NAMES "PGWEIR_"

static int statements_most(const struct client *c)
{
	return c->worker->setup->conf->set.max_prepared_statements;
}

/* ---- statements on the server ---- */

static void close_ahead(struct client *c, struct stmt *st)
{
	msg_object(to_server(c), 'C', 'S', st->name);
	expect(c, REPLY_CLOSE, REPLY_SKIP, MARK_EVICT, stmt_ref(st));
}

static void make_room(struct client *c)
{
	struct server *s = c->server;

	while (stmt_set_count(&s->stmts) && (int)stmt_set_count(&s->stmts) >= statements_most(c)) {
		struct stmt *oldest = stmt_ref(stmt_set_oldest(&s->stmts));
		stmt_set_take(&s->stmts, oldest);
		close_ahead(c, oldest);
		stmt_drop(&oldest);
	}
}

/* Whatever names a statement makes it exist on this server first. */
static void ensure(struct client *c, struct stmt *st)
{
	struct server *s = c->server;

	if (s->replies.skipping || stmt_set_use(&s->stmts, st))
		return;
	make_room(c);
	msg_parse(to_server(c), st->name, st->body, st->len);
	count_add(&c->pool->counts.server_parses, 1);
	stmt_set_add(&s->stmts, st);
	expect(c, REPLY_PARSE, REPLY_SKIP, MARK_AHEAD, stmt_ref(st));
}

static void server_has_unnamed(struct client *c)
{
	c->server->unnamed_of = c->id;
	c->server->unnamed_serial = c->unnamed.serial;
}

/* The unnamed statement is the client's own. If the server's is somebody else's, or not known to be this client's last, it is replaced by this
 * client's last, or closed if the client has none, so that PostgreSQL says so. */
static void ensure_unnamed(struct client *c)
{
	struct server *s = c->server;

	if ((c->unnamed.known && s->unnamed_of == c->id && s->unnamed_serial == c->unnamed.serial) || s->replies.skipping)
		return;
	if (c->unnamed.known) {
		msg_parse(to_server(c), "", c->unnamed.body.p, c->unnamed.body.len);
		expect(c, REPLY_PARSE, REPLY_SKIP, MARK_UNNAMED, NULL);
		server_has_unnamed(c);
	} else {
		msg_object(to_server(c), 'C', 'S', "");
		expect(c, REPLY_CLOSE, REPLY_SKIP, MARK_NONE, NULL);
		s->unnamed_of = 0;
	}
}

/* ---- DEALLOCATE of a name that only we know ---- */

#define STANDS_IN STANDS_FOR_DEALLOCATE "\0\0" /* no types */

/* The text of Parse is DEALLOCATE of some name: what stands for it is parsed, and what it comes to is decided when it is run. */
static bool parse_stands_in(const struct client *c, const uint8_t *sql, size_t len, char name[DEALLOCATED_NAME])
{
	return statements_most(c) > 0 && len < DEALLOCATE_MOST && deallocate_reads(sql, len, name);
}

/* ---- Parse ---- */

/* The one before, the client's and the server's, in case what replaces it is skipped; behind nothing it cannot be, and no memory is taken. */
static struct unnamed *unnamed_keep(struct client *c)
{
	struct server *s = c->server;
	struct unnamed *before;

	if (replies_empty(&s->replies))
		return NULL;
	before = mem_make(struct unnamed);
	*before = c->unnamed;
	before->server_of = s->unnamed_of;
	before->server_serial = s->unnamed_serial;
	c->unnamed = (struct unnamed){0};
	return before;
}

/* The same text as the one before, as with drivers that prepare one statement again and again: all that is known of it holds. */
static bool is_body(const struct unnamed *u, const uint8_t *body, size_t len)
{
	return !u->deallocates && u->body.len == len && memcmp(u->body.p, body, len) == 0;
}

static void unnamed_read(struct client *c, const uint8_t *body, size_t len, size_t sql_len, const char *gone)
{
	struct unnamed *u = &c->unnamed;

	mem_free(u->deallocates);
	u->deallocates = gone ? mem_str(gone) : NULL;
	u->forgets = deallocate_may_be_all_alone(body, sql_len);
	u->touches = !gone && (inventory_may(body, sql_len) || c->worker->setup->org_by_comment);
	u->changes_org = speak_is_change(c, body, sql_len);
	c->speaks |= u->changes_org;
	u->body.len = 0;
	if (gone)
		buf_add(&u->body, STANDS_IN, sizeof(STANDS_IN));
	else
		buf_add(&u->body, body, len);
}

/* gone: what it deallocates, NULL: nothing, and the message passes as it is. */
static void parse_unnamed(struct client *c, const uint8_t *body, size_t len, size_t sql_len, const char *gone)
{
	struct unnamed *before = unnamed_keep(c);
	struct unnamed *u = &c->unnamed;

	effect_note(c, body, sql_len);
	u->known = c->unnamed_in_batch = true;
	u->serial = ++c->unnamed_serial;
	if (gone || !is_body(u, body, len))
		unnamed_read(c, body, len, sql_len, gone);
	if (gone)
		msg_parse(to_server(c), "", u->body.p, u->body.len);
	server_has_unnamed(c);
	expect(c, REPLY_PARSE, REPLY_FORWARD, MARK_UNNAMED, before);
}

/* In a transaction that has failed PostgreSQL refuses most statements when they are parsed; it may fail yet when a batch is open before this. */
static bool may_have_failed(const struct server *s)
{
	return s->status == 'E' || replies_has_end(&s->replies);
}

/* Something is under way that may be DEALLOCATE ALL or DISCARD ALL: its text is not looked at, and it may hide in a function. */
static bool may_be_gone(struct server *s)
{
	for (uint32_t i = 0; i < s->replies.count; i++) {
		const struct reply *r = replies_at(&s->replies, i);
		if (r->act == REPLY_FORWARD && (r->kind == REPLY_QUERY || r->kind == REPLY_EXECUTE))
			return true;
	}
	return false;
}

/* A hash of what the client asked for under which PostgreSQL would read the constants of a text otherwise, and of the changes of the schema
 * behind which it may have another result; 0: nothing, as with nearly all. */
static uint64_t settings_of_meaning(const struct client *c)
{
	const struct setup *setup = c->worker->setup;
	uint64_t hash = c->named ? c->named->meaning : 0;
	uint64_t schema = c->server->target->schema;

	if (schema)
		hash = hash_join(hash, schema);
	for (uint32_t bits = c->gucs.set; bits; bits &= bits - 1) {
		int i = __builtin_ctz(bits);
		const char *value = c->gucs.at[i]->text;
		if (strcmp(setup->guc_names[i], "application_name") == 0 || strcmp(setup->guc_names[i], "client_encoding") == 0)
			continue;
		hash = hash_join(hash + (uint64_t)i, hash_bytes(value, strlen(value)));
	}
	return hash;
}

/* PostgreSQL's own error, at its place in the batch, with the transaction failing as it must: the server is made to refuse the same. The name
 * it refuses is that of an empty statement, which is the only one that can be prepared in a transaction that has failed. */
static void parse_duplicate(struct client *c, struct stmt_name *have, const uint8_t *body, size_t len)
{
	struct stmt *taken = stmt_of(&c->worker->stmt_book, (const uint8_t *)"\0\0", 3, 0);

	if (stmt_set_use(&c->server->stmts, taken) && may_be_gone(c->server)) {
		stmt_set_take(&c->server->stmts, taken);
		close_ahead(c, taken);
	}
	ensure(c, taken);
	msg_parse(to_server(c), taken->name, body, len);
	expect(c, REPLY_PARSE, REPLY_FORWARD, MARK_DUPLICATE, mem_str(have->name));
	stmt_drop(&taken);
}

bool prepared_may_name(const struct client *c, const char *name, size_t len, struct err *err)
{
	const struct settings *set = &c->worker->setup->conf->set;

	if (!stmt_names_are_full(&c->stmts, name, len, (size_t)set->max_client_statements, (size_t)set->max_client_statement_bytes))
		return true;
	return err_set(err, SQLSTATE_RATE, "the client has as many prepared statements as it may: %zu, of %zu bytes (max_client_statements %d, max_client_statement_bytes %lld)",
	               stmt_names_count(&c->stmts), c->stmts.bytes, set->max_client_statements, (long long)set->max_client_statement_bytes);
}

static void parse_named(struct client *c, const char *name, const uint8_t *body, size_t len, const char *gone)
{
	struct server *s = c->server;
	struct stmt_name *have = stmt_name_find(&c->stmts, name);
	struct err err;

	if (have) {
		parse_duplicate(c, have, body, len);
		return;
	}
	if (!prepared_may_name(c, name, len, &err)) {
		refuse_parse(c, &err);
		return;
	}
	if (gone) {
		body = (const uint8_t *)STANDS_IN;
		len = sizeof(STANDS_IN);
	}
	struct stmt *st = stmt_of(&c->worker->stmt_book, body, len, settings_of_meaning(c));
	if (st->refs == 1) {
		size_t sql_len = strnlen((const char *)body, len);
		st->forgets = deallocate_may_be_all_alone(body, sql_len);
		st->touches = !gone && (inventory_may(body, sql_len) || c->worker->setup->org_by_comment);
		st->changes_org = speak_is_change(c, body, sql_len);
	}
	st->stands_in |= gone != NULL;
	c->speaks |= st->changes_org;
	struct stmt_name *n = stmt_name_new(name, st);
	n->deallocates = gone ? mem_str(gone) : NULL;
	stmt_name_put(&c->stmts, n);
	bool there = stmt_set_use(&s->stmts, st);
	if (there && (may_be_gone(s) || may_have_failed(s))) {
		stmt_set_take(&s->stmts, st);
		close_ahead(c, st); /* no error if it is gone */
		there = false;
	}
	if (there) {
		expect(c, REPLY_PARSE, REPLY_MAKE_UP, MARK_NAMED, stmt_name_ref(n));
	} else {
		make_room(c);
		msg_parse(to_server(c), st->name, body, len);
		count_add(&c->pool->counts.server_parses, 1);
		stmt_set_add(&s->stmts, st);
		expect(c, REPLY_PARSE, REPLY_FORWARD, MARK_NAMED, stmt_name_ref(n));
	}
	stmt_drop(&st);
}

/* Name, query, count and types: exactly. */
static bool parse_is_sound(const uint8_t *body, size_t len, size_t *name_len, size_t *sql_len)
{
	const uint8_t *name_end = str_end(body, len);
	if (!name_end)
		return false;
	*name_len = (size_t)(name_end - body);
	size_t left = len - *name_len - 1;
	const uint8_t *sql_end = memchr(name_end + 1, 0, left);
	if (!sql_end)
		return false;
	*sql_len = (size_t)(sql_end - name_end) - 1;
	left -= *sql_len + 1;
	return left >= 2 && left - 2 == 4u * ((size_t)sql_end[1] << 8 | sql_end[2]);
}

enum inspected prepared_parse(struct client *c, const uint8_t *body, size_t len, uint32_t *used)
{
	char name[DEALLOCATED_NAME];
	const char *gone;
	size_t name_len, sql_len;
	struct err err;

	if (!parse_is_sound(body, len, &name_len, &sql_len))
		return INSPECT_BAD;
	const uint8_t *sql = body + name_len + 1;
	gone = parse_stands_in(c, sql, sql_len, name) ? name : NULL;
	count_add(&c->pool->counts.client_parses, 1);
	if (name_len == 0) {
		parse_unnamed(c, body + 1, len - 1, sql_len, gone);
		*used = gone ? *used : 0;
	} else if (statements_most(c) > 0) {
		parse_named(c, (const char *)body, sql, len - name_len - 1, gone);
	} else if (!inventory_reads(c) || inventory_note(c, sql, sql_len, &err)) { /* it is not known any more when it is bound */
		msg_parse(to_server(c), (const char *)body, body + name_len + 1, len - name_len - 1);
		expect(c, REPLY_PARSE, REPLY_FORWARD, MARK_NONE, NULL);
	} else {
		refuse_parse(c, &err);
	}
	return INSPECT_DONE;
}

/* A Query or Close drops the unnamed statement, if it is not skipped. */
static struct unnamed *unnamed_drop(struct client *c)
{
	struct unnamed *before = unnamed_keep(c);

	c->unnamed.known = false;
	c->server->unnamed_of = 0;
	return before;
}

void prepared_unnamed_goes(struct client *c)
{
	struct unnamed *before = unnamed_drop(c);

	if (before)
		expect(c, REPLY_CLOSE, REPLY_MAKE_UP, MARK_UNNAMED, before); /* nothing is made up for it: it only keeps the note */
}

void prepared_expect_unnamed_gone(struct client *c, enum reply_kind kind)
{
	struct unnamed *before = unnamed_drop(c);
	expect(c, kind, REPLY_FORWARD, before ? MARK_UNNAMED : MARK_NONE, before);
}

/* ---- messages that name a statement ---- */

/* A name the client did not prepare may look like one of ours: it must not hit it. */
static const char *foreign_name(const struct client *c, const char *name)
{
	return statements_most(c) > 0 && strncmp(name, OUR_NAMES, strlen(OUR_NAMES)) == 0 ? "no such statement" : name;
}

/* The statement's name on the server, made to exist there. *plan: the statement, NULL when there is none of ours. */
static const char *server_name(struct client *c, const char *name, struct stmt **plan)
{
	*plan = NULL;
	if (name[0] == 0) {
		ensure_unnamed(c);
		return name;
	}
	struct stmt_name *n = statements_most(c) > 0 ? stmt_name_find(&c->stmts, name) : NULL;
	if (!n)
		return foreign_name(c, name);
	ensure(c, n->stmt);
	effect_note(c, n->stmt->body, n->stmt->len);
	*plan = n->stmt;
	return n->stmt->name;
}

/* The name by which the client knows the plan is the last that was looked up; its hash tells it from others for the same plan. */
static void push_plan(struct client *c, enum reply_kind kind, const struct stmt *plan)
{
	expect(c, kind, REPLY_FORWARD, plan ? MARK_PLAN : MARK_NONE, plan ? (void *)(uintptr_t)plan->serial : NULL);
	if (plan)
		replies_last(&c->server->replies)->tag = (uint32_t)c->stmts.last->link.hash;
}

static void note_portal(struct client *c, const char *portal, const char *name, const struct stmt *plan)
{
	const char *gone = NULL;
	bool forgets = plan && plan->forgets;

	if (name[0] == 0) {
		gone = c->unnamed.known ? c->unnamed.deallocates : NULL;
		forgets = c->unnamed.known && c->unnamed.forgets;
	} else if (plan && plan->stands_in) {
		gone = stmt_name_find(&c->stmts, name)->deallocates;
	}
	if (gone || forgets || !list_empty(&c->portals))
		portal_bound(c, portal, gone, forgets);
}

/* The text of a statement that may touch what the session holds; NULL: it does not. */
static const uint8_t *touching_text(struct client *c, const char *name)
{
	const struct stmt_name *n;

	if (name[0] == 0)
		return c->unnamed.known && c->unnamed.touches && inventory_reads(c) ? c->unnamed.body.p : NULL;
	n = stmt_name_find(&c->stmts, name);
	return n && n->stmt->touches && inventory_reads(c) ? n->stmt->body : NULL;
}

/* Only the two names at the front are looked at; the values pass as they come. */
enum inspected prepared_bind(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *used, uint32_t *want)
{
	const uint8_t *end = p + f->have;
	const uint8_t *portal = p + FRAME_HEAD;
	const uint8_t *portal_end = str_end(portal, (size_t)(end - portal));
	const uint8_t *name = portal_end ? portal_end + 1 : NULL;
	const uint8_t *name_end = name ? str_end(name, (size_t)(end - name)) : NULL;
	struct stmt *plan;
	struct err err;

	if (!name_end) {
		*want = frame_want(f, 0);
		return f->have == f->size ? INSPECT_BAD : INSPECT_MORE;
	}
	const uint8_t *touching = touching_text(c, (const char *)name);
	if (touching && f->have < f->size && f->size <= VALUES_MOST) {
		*want = f->size;
		return INSPECT_MORE;
	}
	count_add(&c->pool->counts.binds, 1);
	const char *to = server_name(c, (const char *)name, &plan);
	note_portal(c, (const char *)portal, (const char *)name, plan);
	if (!touching || (inventory_note_values(c, name_end + 1, end, &err) && inventory_note(c, touching, strlen((const char *)touching), &err))) {
		push_plan(c, REPLY_BIND, plan);
	} else {
		plan = NULL;
		to = refuse_bind(c, &err);
	}
	if (to == (const char *)name) {
		*used = 0;
		return INSPECT_DONE;
	}
	size_t portal_len = (size_t)(name - portal), old_len = (size_t)(name_end + 1 - name);
	size_t to_len = (plan ? plan->name_len : strlen(to)) + 1;
	uint8_t *out = msg_head(to_server(c), 'B', f->size - 1 - (uint32_t)old_len + (uint32_t)to_len, portal_len + to_len);
	memcpy(out, portal, portal_len);
	memcpy(out + portal_len, to, to_len);
	*used = FRAME_HEAD + (uint32_t)(portal_len + old_len);
	return INSPECT_DONE;
}

/* Body of Describe and Close: a letter and a name, exactly. */
static bool object_is_sound(const uint8_t *body, size_t len)
{
	return len >= 2 && (body[0] == 'S' || body[0] == 'P') && str_end(body + 1, len - 1) == body + len - 1;
}

enum inspected prepared_describe(struct client *c, const uint8_t *body, size_t len, uint32_t *used)
{
	struct stmt *plan = NULL;
	const char *name = (const char *)body + 1;

	if (!object_is_sound(body, len))
		return INSPECT_BAD;
	if (body[0] == 'S')
		name = server_name(c, name, &plan);
	if (name == (const char *)body + 1)
		*used = 0; /* it passes as it is */
	else
		msg_object(to_server(c), 'D', body[0], name);
	push_plan(c, REPLY_DESCRIBE, plan);
	return INSPECT_DONE;
}

enum inspected prepared_close(struct client *c, const uint8_t *body, size_t len)
{
	const char *name = (const char *)body + 1;

	if (!object_is_sound(body, len))
		return INSPECT_BAD;
	if (body[0] == 'S' && name[0] == 0) {
		msg_object(to_server(c), 'C', 'S', "");
		prepared_expect_unnamed_gone(c, REPLY_CLOSE);
		return INSPECT_DONE;
	}
	if (body[0] == 'P' && !list_empty(&c->portals))
		portal_bound(c, name, NULL, false);
	if (body[0] == 'P' || statements_most(c) == 0) {
		msg_object(to_server(c), 'C', body[0], name);
		expect(c, REPLY_CLOSE, REPLY_FORWARD, MARK_NONE, NULL);
		return INSPECT_DONE;
	}
	struct stmt_name *n = stmt_name_find(&c->stmts, name);
	if (n)
		stmt_name_take(&c->stmts, n);
	expect(c, REPLY_CLOSE, REPLY_MAKE_UP, MARK_CLOSED, n);
	return INSPECT_DONE;
}

