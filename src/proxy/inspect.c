/* See proxy/inspect.h.
 *
 * Names are the client's; on servers a statement is PGWEIR_<serial>, found by its text. A name the client never prepared is passed as it
 * is, so that PostgreSQL itself says that it does not exist; it cannot hit a statement of ours, see foreign_name. */
#include "proxy/inspect.h"

#include <strings.h>

#include "proxy/deallocate.h"
#include "proxy/fence.h"
#include "proxy/inventory.h"
#include "proxy/link.h"
#include "proxy/parcel.h"
#include "proxy/speak.h"
#include "proxy/worker.h"
#include "sql/classify.h"
#include "sql/touch.h"
#include "wire/sqlstate.h"
#include "wire/reader.h"
#include "wire/writer.h"

#define OUR_NAMES "PGWEIR_"

static struct buf *to_server(struct client *c)
{
	return parcel_made(c->worker->to_server);
}

static int statements_most(const struct client *c)
{
	return c->worker->setup->conf->set.max_prepared_statements;
}

/* What the server will answer, and what our picture rests on until it has. */
static void expect(struct client *c, enum reply_kind kind, enum reply_act act, enum mark mark, void *note)
{
	struct server *s = c->server;

	if (mark >= MARK_FIRST_NOTE)
		s->notes_open++;
	if (mark == MARK_FORGETS)
		s->forgets++;
	replies_push(&s->replies, kind, act, mark, note);
}

/* ---- what a statement does ---- */

/* Whatever is not known to read is taken to write. */
enum effect inspect_effect(const char first[FIRST_WORD])
{
	static const struct {
		const char *word;
		enum effect effect;
	} words[] = {
		{"select", EFFECT_READS}, {"show", EFFECT_READS}, {"set", EFFECT_READS}, {"begin", EFFECT_READS}, {"start", EFFECT_READS},
		{"values", EFFECT_READS}, {"table", EFFECT_READS}, {"fetch", EFFECT_READS}, {"reset", EFFECT_READS}, {"declare", EFFECT_READS},
		{"close", EFFECT_READS}, {"rollback", EFFECT_READS}, {"abort", EFFECT_READS}, {"commit", EFFECT_ENDS}, {"end", EFFECT_ENDS},
	};
	size_t at = strspn(first, " \t\r\n(");

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strncasecmp(first + at, words[i].word, strlen(words[i].word)) == 0)
			return words[i].effect;
	return EFFECT_WRITES;
}

enum effect inspect_outcome(const struct client *c)
{
	enum effect last = inspect_effect(c->first);
	return last > c->worst ? last : (enum effect)c->worst;
}

/* Called for every statement, so only its first bytes are kept; they are looked at when its server is lost, or when another one follows before
 * all is answered. */
static void note_first(struct client *c, const uint8_t *sql, size_t len)
{
	if (c->ran)
		c->worst = (uint8_t)inspect_outcome(c);
	if (len >= FIRST_WORD - 1) {
		memcpy(c->first, sql, FIRST_WORD - 1); /* the last byte stays 0 */
		return;
	}
	memset(c->first, 0, FIRST_WORD);
	memcpy(c->first, sql, len);
}

/* ---- what must not run ---- */

/* No statement has this name, and no statement begins with it: whatever refers to it fails, at its place among the client's messages, with the
 * transaction failing as it must. The client is told `err` for it. */
#define REFUSED "PGWEIR_refused"

static void expect_refused(struct client *c, enum reply_kind kind, const struct err *err)
{
	struct err *note = mem_make(struct err);

	*note = *err;
	expect(c, kind, REPLY_FORWARD, MARK_REFUSED, note);
}

/* ---- statements on the server ---- */

static void write_object(struct buf *out, uint8_t type, uint8_t what, const char *name)
{
	size_t begun = msg_begin(out, type);

	msg_u8(out, what);
	msg_str(out, name);
	msg_end(out, begun);
}

static void close_ahead(struct client *c, struct stmt *st)
{
	write_object(to_server(c), 'C', 'S', st->name);
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

static void write_parse(struct buf *out, const char *name, const uint8_t *body, size_t len)
{
	size_t begun = msg_begin(out, 'P');

	msg_str(out, name);
	msg_bytes(out, body, len);
	msg_end(out, begun);
}

/* Whatever names a statement makes it exist on this server first. */
static void ensure(struct client *c, struct stmt *st)
{
	struct server *s = c->server;

	if (s->replies.skipping || stmt_set_use(&s->stmts, st))
		return;
	make_room(c);
	write_parse(to_server(c), st->name, st->body, st->len);
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
		write_parse(to_server(c), "", c->unnamed.body.p, c->unnamed.body.len);
		expect(c, REPLY_PARSE, REPLY_SKIP, MARK_UNNAMED, NULL);
		server_has_unnamed(c);
	} else {
		write_object(to_server(c), 'C', 'S', "");
		expect(c, REPLY_CLOSE, REPLY_SKIP, MARK_NONE, NULL);
		s->unnamed_of = 0;
	}
}

/* Names and statements as they will be depend on what comes of something that is still open. */
static bool names_are_open(const struct server *s)
{
	return (s->notes_behind || s->forgets) && !s->replies.copy_in; /* then it waits for the client: what is no copy data ends the session */
}

/* What was parsed or dropped may have to come back until the answer is there, and PostgreSQL keeps its answers until a Sync or Flush: of texts
 * only so much is kept for that. */
#define PARSED_MOST (16 * 1024 * 1024)

static bool has_parsed_much(struct server *s, const struct frame *f)
{
	if (f->type != 'P')
		return false;
	if (replies_empty(&s->replies))
		s->parsed_bytes = 0;
	else if (s->parsed_bytes > PARSED_MOST)
		return true;
	s->parsed_bytes += f->size;
	return false;
}

static enum inspected hold_and_flush(struct client *c)
{
	msg_empty(to_server(c), 'H');
	return INSPECT_HOLD;
}

static enum inspected hold_for_names(struct client *c)
{
	if (c->server->forgets)
		msg_empty(to_server(c), 'H'); /* the answer that is waited for may be one that only a Flush brings */
	return INSPECT_HOLD;
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

	note_first(c, body, sql_len);
	u->known = c->unnamed_in_batch = true;
	u->serial = ++c->unnamed_serial;
	if (gone || !is_body(u, body, len))
		unnamed_read(c, body, len, sql_len, gone);
	if (gone)
		write_parse(to_server(c), "", u->body.p, u->body.len);
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
	write_parse(to_server(c), taken->name, body, len);
	expect(c, REPLY_PARSE, REPLY_FORWARD, MARK_DUPLICATE, mem_str(have->name));
	stmt_drop(&taken);
}

/* Describe of a statement that does not exist fails as the Parse must. */
static void refuse_parse(struct client *c, const struct err *err)
{
	write_object(to_server(c), 'D', 'S', REFUSED);
	expect_refused(c, REPLY_DESCRIBE, err);
}

bool inspect_may_name(const struct client *c, const char *name, size_t len, struct err *err)
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
	if (!inspect_may_name(c, name, len, &err)) {
		refuse_parse(c, &err);
		return;
	}
	if (gone) {
		body = (const uint8_t *)STANDS_IN;
		len = sizeof(STANDS_IN);
	}
	struct stmt *st = stmt_of(&c->worker->stmt_book, body, len, settings_of_meaning(c));
	if (st->refs == 1) {
		st->forgets = deallocate_may_be_all_alone(body, strnlen((const char *)body, len));
		st->touches = !gone && (inventory_may(body, strnlen((const char *)body, len)) || c->worker->setup->org_by_comment);
		st->changes_org = speak_is_change(c, body, strnlen((const char *)body, len));
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
		write_parse(to_server(c), st->name, body, len);
		count_add(&c->pool->counts.server_parses, 1);
		stmt_set_add(&s->stmts, st);
		expect(c, REPLY_PARSE, REPLY_FORWARD, MARK_NAMED, stmt_name_ref(n));
	}
	stmt_drop(&st);
}

/* Where the text at p ends: its NUL, NULL if it has none. Mostly it is empty. */
static inline const uint8_t *text_end(const uint8_t *p, size_t len)
{
	return len && *p == 0 ? p : memchr(p, 0, len);
}

/* Name, query, count and types: exactly. */
static bool parse_is_sound(const uint8_t *body, size_t len, size_t *name_len, size_t *sql_len)
{
	const uint8_t *name_end = text_end(body, len);
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

static enum inspected inspect_parse(struct client *c, const uint8_t *body, size_t len, uint32_t *used)
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
		write_parse(to_server(c), (const char *)body, body + name_len + 1, len - name_len - 1);
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

static void expect_unnamed_gone(struct client *c, enum reply_kind kind)
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
	note_first(c, n->stmt->body, n->stmt->len);
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

#define TOUCHING_BIND_MOST (64 * 1024) /* the values of a larger one are not looked at */

/* Behind the names of a Bind, and the OID of a FunctionCall: format codes, then the values. */
static bool note_values(struct client *c, const uint8_t *p, const uint8_t *end, struct err *err)
{
	struct reader r = reader_of(p, (size_t)(end - p));

	read_bytes(&r, 2u * read_u16(&r));
	for (uint16_t n = read_u16(&r); n > 0 && !r.bad; n--) {
		uint32_t len = read_u32(&r);
		struct span value = read_bytes(&r, len == UINT32_MAX ? 0 : len);
		if (!inventory_note_value(c, value.p, value.len, err))
			return false;
	}
	return true;
}

/* Only the two names at the front are looked at; the values pass as they come. */
static enum inspected inspect_bind(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *used, uint32_t *want)
{
	const uint8_t *end = p + f->have;
	const uint8_t *portal = p + FRAME_HEAD;
	const uint8_t *portal_end = text_end(portal, (size_t)(end - portal));
	const uint8_t *name = portal_end ? portal_end + 1 : NULL;
	const uint8_t *name_end = name ? text_end(name, (size_t)(end - name)) : NULL;
	struct stmt *plan;
	struct err err;

	if (!name_end) {
		*want = f->have * 2 < f->size ? (uint32_t)f->have * 2 : f->size;
		return f->have == f->size ? INSPECT_BAD : INSPECT_MORE;
	}
	const uint8_t *touching = touching_text(c, (const char *)name);
	if (touching && f->have < f->size && f->size <= TOUCHING_BIND_MOST) {
		*want = f->size;
		return INSPECT_MORE;
	}
	count_add(&c->pool->counts.binds, 1);
	const char *to = server_name(c, (const char *)name, &plan);
	note_portal(c, (const char *)portal, (const char *)name, plan);
	if (!touching || (note_values(c, name_end + 1, end, &err) && inventory_note(c, touching, strlen((const char *)touching), &err))) {
		push_plan(c, REPLY_BIND, plan);
	} else {
		plan = NULL;
		expect_refused(c, REPLY_BIND, &err);
		to = REFUSED;
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
	return len >= 2 && (body[0] == 'S' || body[0] == 'P') && text_end(body + 1, len - 1) == body + len - 1;
}

static enum inspected inspect_describe(struct client *c, const uint8_t *body, size_t len, uint32_t *used)
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
		write_object(to_server(c), 'D', body[0], name);
	push_plan(c, REPLY_DESCRIBE, plan);
	return INSPECT_DONE;
}

static enum inspected inspect_close(struct client *c, const uint8_t *body, size_t len)
{
	const char *name = (const char *)body + 1;

	if (!object_is_sound(body, len))
		return INSPECT_BAD;
	if (body[0] == 'S' && name[0] == 0) {
		write_object(to_server(c), 'C', 'S', "");
		expect_unnamed_gone(c, REPLY_CLOSE);
		return INSPECT_DONE;
	}
	if (body[0] == 'P' && !list_empty(&c->portals))
		portal_bound(c, name, NULL, false);
	if (body[0] == 'P' || statements_most(c) == 0) {
		write_object(to_server(c), 'C', body[0], name);
		expect(c, REPLY_CLOSE, REPLY_FORWARD, MARK_NONE, NULL);
		return INSPECT_DONE;
	}
	struct stmt_name *n = stmt_name_find(&c->stmts, name);
	if (n)
		stmt_name_take(&c->stmts, n);
	expect(c, REPLY_CLOSE, REPLY_MAKE_UP, MARK_CLOSED, n);
	return INSPECT_DONE;
}

/* ---- Execute and Query ---- */

static void expect_deallocate(struct client *c, enum reply_kind kind, struct stmt_name *n)
{
	if (n)
		stmt_name_take(&c->stmts, n);
	expect(c, kind, REPLY_FORWARD, MARK_DEALLOCATE, n);
}

/* The client has no such name: it may be one that SQL has prepared, or none. The server is given the real thing in place of this Execute. */
static void execute_real_deallocate(struct client *c, const struct portal *p)
{
	deallocate_write(to_server(c), p);
	inventory_note_giving(c);
	expect(c, REPLY_DESCRIBE, REPLY_SKIP, MARK_NONE, NULL);
	expect(c, REPLY_PARSE, REPLY_SKIP, MARK_NONE, NULL);
	expect(c, REPLY_BIND, REPLY_SKIP, MARK_NONE, NULL);
	expect(c, REPLY_CLOSE, REPLY_SKIP, MARK_NONE, NULL);
	expect(c, REPLY_EXECUTE, REPLY_FORWARD, MARK_NONE, NULL);
	expect(c, REPLY_CLOSE, REPLY_SKIP, MARK_NONE, NULL);
	expect(c, REPLY_EXECUTE, REPLY_SKIP, MARK_NONE, NULL);
}

/* A portal that deallocates a name. */
static enum inspected execute_deallocate(struct client *c, struct portal *p, const struct frame *f, uint32_t *used, uint32_t *want)
{
	struct stmt_name *n;

	if (f->have < f->size) {
		*want = f->size;
		return INSPECT_MORE;
	}
	if (names_are_open(c->server))
		return hold_for_names(c);
	n = stmt_name_find(&c->stmts, p->deallocates);
	p->was_run = true;
	if (n) {
		expect_deallocate(c, REPLY_EXECUTE, n);
		return INSPECT_DONE;
	}
	execute_real_deallocate(c, p);
	*used = f->size;
	return INSPECT_DONE;
}

static enum inspected inspect_execute(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *used, uint32_t *want)
{
	const char *name = (const char *)p + FRAME_HEAD;
	struct portal *portal;

	if (!memchr(name, 0, f->have - FRAME_HEAD)) {
		*want = f->have * 2 < f->size ? (uint32_t)f->have * 2 : f->size;
		return f->have == f->size ? INSPECT_BAD : INSPECT_MORE;
	}
	c->ran = true;
	portal = list_empty(&c->portals) ? NULL : portal_find(c, name);
	if (portal && portal->deallocates && !portal->was_run)
		return execute_deallocate(c, portal, f, used, want);
	expect(c, REPLY_EXECUTE, REPLY_FORWARD, portal && portal->forgets ? MARK_FORGETS : MARK_NONE, NULL);
	return INSPECT_DONE;
}

/* Of several statements the last may be the one that counts. */
static void note_rest(struct client *c, const uint8_t *sql, size_t len)
{
	const uint8_t *point = memchr(sql, ';', len);
	struct classified text;
	enum effect effect;

	if (!point || sql + len - point <= 2)
		return; /* its end, and the NUL */
	text = classify((struct span){sql, strnlen((const char *)sql, len)}, READING_EITHER);
	effect = text.acts & (ACT_COMMIT | ACT_TWO_PHASE) ? EFFECT_ENDS : text.class == CLASS_WRITE ? EFFECT_WRITES : EFFECT_READS;
	if (effect > c->worst)
		c->worst = (uint8_t)effect;
}

static void refuse_query(struct client *c, const struct err *err)
{
	struct unnamed *before = unnamed_drop(c);

	if (before)
		expect(c, REPLY_CLOSE, REPLY_MAKE_UP, MARK_UNNAMED, before); /* nothing is made up for it: it only keeps the note */
	msg_query(to_server(c), REFUSED);
	expect_refused(c, REPLY_QUERY, err);
}

/* Up to its NUL, which is the last byte of every well formed one. */
static size_t text_len(const uint8_t *sql, size_t have)
{
	return have && !sql[have - 1] ? have - 1 : strnlen((const char *)sql, have);
}

/* A text is looked at as far as inspect_bytes goes. DONE: it may pass; *refused: it was dealt with, and must not. */
static enum inspected watch_query(struct client *c, const uint8_t *sql, const struct frame *f, uint32_t *want, bool *refused)
{
	uint32_t most = (uint32_t)c->worker->setup->conf->set.inspect_bytes;
	struct err err;

	*refused = false;
	if (f->have < f->size && f->have < most) {
		uint32_t more = f->have * 2 > 4096 ? (uint32_t)f->have * 2 : 4096;
		*want = more < f->size ? more : f->size;
		return INSPECT_MORE;
	}
	if (f->have < f->size)
		inventory_note_unread(c);
	if (inventory_note(c, sql, text_len(sql, f->have - FRAME_HEAD), &err) || f->have < f->size)
		return INSPECT_DONE;
	refuse_query(c, &err);
	*refused = true;
	return INSPECT_DONE;
}

static enum inspected inspect_query(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *used, uint32_t *want)
{
	struct server *s = c->server;
	const uint8_t *sql = p + FRAME_HEAD;
	size_t len = f->have - FRAME_HEAD;
	struct stmt_name *n = NULL;
	char name[DEALLOCATED_NAME];
	bool refused;

	note_first(c, sql, len);
	note_rest(c, sql, len);
	if (inventory_reads(c)) {
		enum inspected watched = watch_query(c, sql, f, want, &refused);
		if (watched != INSPECT_DONE || refused) {
			*used = f->size;
			return watched;
		}
	}
	if ((stmt_names_count(&c->stmts) || names_are_open(s)) && f->size < DEALLOCATE_MOST) {
		if (f->have < f->size) {
			*want = f->size;
			return INSPECT_MORE;
		}
		if (deallocate_reads(sql, strnlen((const char *)sql, len), name)) {
			if (names_are_open(s))
				return hold_for_names(c);
			n = stmt_name_find(&c->stmts, name);
		}
	}
	c->ran = true;
	bool forgets = !n && stmt_names_count(&c->stmts) && (f->have < f->size ? f->size <= FORGETS_MOST : deallocate_may_be_all(sql, len));
	if (n || forgets) {
		struct unnamed *before = unnamed_drop(c);
		if (before)
			expect(c, REPLY_CLOSE, REPLY_MAKE_UP, MARK_UNNAMED, before); /* nothing is made up for it: it only keeps the note */
	}
	if (n) {
		msg_query(to_server(c), STANDS_FOR_DEALLOCATE);
		*used = f->size;
		expect_deallocate(c, REPLY_QUERY, n);
		s->notes_behind = s->notes_open; /* it may be refused, and then the name is still there for what comes behind it */
	} else if (forgets) {
		expect(c, REPLY_QUERY, REPLY_FORWARD, MARK_FORGETS, NULL);
	} else {
		expect_unnamed_gone(c, REPLY_QUERY);
	}
	return INSPECT_DONE;
}

static void refuse_call(struct client *c, const struct err *err)
{
	struct buf *out = to_server(c);
	size_t begun = msg_begin(out, 'F');

	msg_bytes(out, "\0\0\0\0\0\0\0\0\0\0", 10); /* no function has OID 0; no formats, no values, result as text */
	msg_end(out, begun);
	expect_refused(c, REPLY_CALL, err);
}

/* A function called by its OID has no text, but may set a setting or take a lock like any other. */
static enum inspected inspect_call(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *want)
{
	struct reader r = reader_of(p + FRAME_HEAD, f->have - FRAME_HEAD);
	const char *text = touch_text_of_call(read_u32(&r));
	bool waits = r.bad || (text && f->size <= TOUCHING_BIND_MOST);
	struct err err;

	if (waits && f->have < f->size && inventory_reads(c)) {
		*want = r.bad && f->size > FRAME_HEAD + 4 ? FRAME_HEAD + 4 : f->size;
		return INSPECT_MORE;
	}
	if (text && inventory_reads(c) && !(note_values(c, r.p, r.end, &err) && inventory_note(c, (const uint8_t *)text, strlen(text), &err))) {
		refuse_call(c, &err);
		return INSPECT_DROP;
	}
	expect(c, REPLY_CALL, REPLY_FORWARD, MARK_NONE, NULL);
	return INSPECT_DONE;
}

static bool is_bind_of_unnamed(const struct frame *f, const uint8_t *body)
{
	const uint8_t *portal_end = text_end(body, f->have - FRAME_HEAD);
	return portal_end && portal_end + 1 < body + f->have - FRAME_HEAD && portal_end[1] == 0;
}

static bool must_hold(const struct client *c, const struct frame *f, const uint8_t *body)
{
	bool unnamed_is_sure = c->unnamed_in_batch || c->server->notes_behind == 0;

	if (f->have == FRAME_HEAD)
		return false;
	switch (f->type) {
	case 'P':
		return body[0] != 0; /* a new unnamed statement depends on nothing */
	case 'B':
		return !unnamed_is_sure || !is_bind_of_unnamed(f, body);
	case 'D':
	case 'C':
		return body[0] == 'S' && (!unnamed_is_sure || (f->have > FRAME_HEAD + 1 && body[1] != 0));
	default:
		return false;
	}
}

static enum inspected copy_ends(struct client *c)
{
	c->copy_syncs = 0;
	expect(c, REPLY_COPY_END, REPLY_FORWARD, MARK_NONE, NULL);
	return INSPECT_DONE;
}

/* While the server reads copy data it ignores Sync, and answers it when the COPY has failed meanwhile: which of the two it will do cannot be
 * known from here, so it does not get one. Those behind the last data are sent when the error comes (relay), or when something comes behind
 * them that is no copy data: that ends the session if the COPY has not failed. */
static enum inspected inspect_sync(struct client *c, const struct frame *f, uint32_t *used)
{
	struct server *s = c->server;

	if (s->replies.copy_in) {
		c->copy_syncs++;
		*used = f->size;
		return INSPECT_DONE;
	}
	expect(c, REPLY_SYNC, REPLY_FORWARD, MARK_NONE, NULL);
	c->unnamed_in_batch = false;
	s->notes_behind = s->notes_open;
	return INSPECT_DONE;
}

static bool is_for_copy(uint8_t type)
{
	return type == 'd' || type == 'c' || type == 'f' || type == 'H' || type == 'S';
}

static void send_kept_syncs(struct client *c)
{
	c->server->replies.copy_in = false;
	for (; c->copy_syncs; c->copy_syncs--) {
		msg_empty(to_server(c), 'S');
		expect(c, REPLY_SYNC, REPLY_FORWARD, MARK_NONE, NULL);
	}
}

/* Copy data waits until it is known whether the server reads it as such: what a Sync behind it means hangs on that. */
static enum inspected inspect_copy_data(struct client *c)
{
	struct replies *r = &c->server->replies;

	if (!r->copy_in && !replies_empty(r))
		return hold_and_flush(c);
	c->copy_syncs = 0;
	return INSPECT_DONE;
}

/* What stands for a message that the fence holds back. */
static enum inspected stand_in(struct client *c, const struct frame *f, const struct err *err)
{
	static const uint8_t no_sql[] = REFUSED "\0\0"; /* and no types */
	struct buf *out = to_server(c);
	size_t begun;

	switch (f->type) {
	case 'P':
		write_parse(out, REFUSED, no_sql, sizeof(no_sql));
		expect_refused(c, REPLY_PARSE, err);
		break;
	case 'B':
		begun = msg_begin(out, 'B');
		msg_str(out, "");
		msg_str(out, REFUSED);
		msg_bytes(out, "\0\0\0\0\0\0", 6);
		msg_end(out, begun);
		expect_refused(c, REPLY_BIND, err);
		break;
	case 'E':
		begun = msg_begin(out, 'E');
		msg_str(out, REFUSED);
		msg_u32(out, 0);
		msg_end(out, begun);
		expect_refused(c, REPLY_EXECUTE, err);
		break;
	case 'F':
		refuse_call(c, err);
		break;
	default:
		refuse_query(c, err);
	}
	return INSPECT_DROP;
}

/* DONE: it may pass. */
static enum inspected ask_fence(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *want)
{
	struct err err;

	switch (fence_look(c, p, f, want, &err)) {
	case FENCE_LOOK_PASS:
		return INSPECT_DONE;
	case FENCE_LOOK_MORE:
		return INSPECT_MORE;
	case FENCE_LOOK_HOLD:
		return INSPECT_HOLD;
	case FENCE_LOOK_REFUSE:
		return stand_in(c, f, &err);
	}
	never("no such answer");
}

enum inspected inspect_message(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *used, uint32_t *want)
{
	struct server *s = c->server;
	const uint8_t *body = p + FRAME_HEAD;
	size_t len = f->size - FRAME_HEAD;

	*used = 0;
	if (names_are_open(s) && must_hold(c, f, body))
		return hold_for_names(c);
	if (has_parsed_much(s, f))
		return hold_and_flush(c);
	if (c->copy_syncs && s->replies.copy_in && !is_for_copy(f->type))
		send_kept_syncs(c);
	if (s->replies.skipping && f->type != 'S')
		return INSPECT_DONE; /* behind an error the server reads and drops all up to Sync: it passes as it is, and nothing is noted of it */
	if (s->read_only) {
		enum inspected fenced = ask_fence(c, p, f, want);
		if (fenced != INSPECT_DONE)
			return fenced;
	}
	switch (f->type) {
	case 'Q':
		return inspect_query(c, p, f, used, want);
	case 'P':
		*used = f->size;
		return inspect_parse(c, body, len, used);
	case 'B':
		return inspect_bind(c, p, f, used, want);
	case 'D':
		*used = f->size;
		return inspect_describe(c, body, len, used);
	case 'C':
		*used = f->size;
		return inspect_close(c, body, len);
	case 'E':
		return inspect_execute(c, p, f, used, want);
	case 'S':
		return inspect_sync(c, f, used);
	case 'd':
		return inspect_copy_data(c);
	case 'F':
		return inspect_call(c, p, f, want);
	case 'c':
	case 'f':
		return copy_ends(c);
	default: /* Flush: no answer of its own */
		return INSPECT_DONE;
	}
}
