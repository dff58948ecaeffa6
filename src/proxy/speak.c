/* See proxy/speak.h.
 *
 * The statement that changes the org is prepared, bound and executed without a server, since the one it could have is the old org's, who
 * may be busy or held back. Only its unnamed or named statement and one portal are remembered; whatever else is in the batch goes
 * to a server as usual. */
#include "proxy/speak.h"

#include <string.h>
#include <strings.h>

#include "proxy/fence.h"
#include "proxy/greet.h"
#include "proxy/link.h"
#include "proxy/parcel.h"
#include "proxy/place.h"
#include "proxy/prepared.h"
#include "proxy/refuse.h"
#include "proxy/worker.h"
#include "sql/statement.h"
#include "tenant/resolve.h"
#include "wire/reader.h"
#include "wire/report.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

#define ORG_SETTING "pgweir.org"
#define NAME_SETTING "application_name"
#define TEXT_MOST 2048 /* of a statement that changes the org; a longer one is none */

struct speak {
	char *portal; /* owns: the name of the one portal; NULL: none */
	char *text;   /* owns: its statement */
	struct org *home;       /* ref: while the client visits another org, its own */
	struct pool *home_pool; /* borrows, counted by pool_client_add */
	enum place home_place;
};

/* ---- what a text says ---- */

/* The org that an application_name tells, by org_pattern. */
enum told { TOLD_NOTHING, TOLD_ORG, TOLD_ILLEGAL };

static enum told name_tells(const struct client *c, const char *name, char id[ORG_ID_MOST + 1])
{
	const struct settings *set = &c->worker->setup->conf->set;
	bool illegal;

	if (!c->worker->setup->org_by_name)
		return TOLD_NOTHING;
	if (org_from_pattern(set->org_pattern, name, id, &illegal))
		return TOLD_ORG;
	return illegal ? TOLD_ILLEGAL : TOLD_NOTHING;
}

static enum told setting_tells(const struct client *c, const char *name, const char *value, char id[ORG_ID_MOST + 1])
{
	if (strcasecmp(name, ORG_SETTING) == 0)
		return org_id_make(value, strlen(value), id) ? TOLD_ORG : TOLD_ILLEGAL;
	return strcasecmp(name, NAME_SETTING) == 0 ? name_tells(c, value, id) : TOLD_NOTHING;
}

static bool begins_with_set(const uint8_t *sql, size_t len)
{
	while (len && (*sql == ' ' || (*sql >= '\t' && *sql <= '\r'))) {
		sql++;
		len--;
	}
	return len > 12 && len < TEXT_MOST && (sql[0] | 0x20) == 's' && (sql[1] | 0x20) == 'e' && (sql[2] | 0x20) == 't';
}

/* The one statement of the text, where it is a SET that tells an org. */
static enum told text_tells(const struct client *c, const uint8_t *sql, size_t len, struct statement *st, char id[ORG_ID_MOST + 1])
{
	struct scan scan = scan_of(sql, len);
	struct statement next;

	if (!begins_with_set(sql, len) || !statement_next(&scan, st) || st->kind != STATEMENT_SET || !st->has_value || statement_next(&scan, &next))
		return TOLD_NOTHING;
	return setting_tells(c, st->name, st->value, id);
}

bool speak_is_change(const struct client *c, const uint8_t *sql, size_t len)
{
	struct statement st;
	char id[ORG_ID_MOST + 1];

	return begins_with_set(sql, len) && text_tells(c, sql, len, &st, id) != TOLD_NOTHING;
}

bool speak_may_set(const struct client *c, const char *name, const char *value, struct err *err)
{
	const char *guc = c->worker->setup->conf->set.org_guc;
	char id[ORG_ID_MOST + 1];

	if (guc[0] && strcasecmp(name, guc) == 0)
		return err_set(err, "42501", "permission denied to set parameter \"%s\": it is set to the client's org (org_guc)", guc);
	if (strcasecmp(name, ORG_SETTING) != 0 && (!value || setting_tells(c, name, value, id) != TOLD_ORG || strcmp(id, c->org->id) == 0))
		return true;
	return err_set(err, "25001", "the org can be changed between transactions only, by a statement that stands alone");
}

/* ---- the change ---- */

/* The org to speak for, and its pool, or NULL and the worker where that is. The client is as before where it fails. */
static bool find_org(struct client *c, const char *id, struct org **org, struct pool **pool, struct worker **home, struct err *err)
{
	const struct conf *conf = c->worker->setup->conf;
	bool listed = strcmp(id, "default") == 0 || conf_org(conf, id);

	if (!org_admit(conf, c->user, id, err))
		return false;
	*org = org_of(id, listed ? 0 : conf->set.max_orgs);
	if (!*org)
		return err_set(err, SQLSTATE_TOO_MANY, "no room for another org (max_orgs)");
	atomic_store(&(*org)->listed, listed);
	*pool = place_pool(c, id, home);
	if (*home)
		return true;
	org_drop(org);
	return err_set(err, SQLSTATE_NO_DATABASE, "no such database: %s", c->database);
}

void speak_name_org(struct client *c)
{
	const char *guc = c->worker->setup->conf->set.org_guc;

	if (guc[0])
		c->named = guc_list_with(c->named, &c->worker->guc_book, guc, c->org->id);
}

void speak_org_is_reset(struct client *c)
{
	const char *guc = c->worker->setup->conf->set.org_guc;

	if (guc[0])
		c->server->named = guc_list_with(c->server->named, &c->worker->guc_book, guc, NULL);
}

static void enter(struct client *c, struct org *org, struct pool *pool)
{
	c->org = org;
	place_enter(c, pool);
	speak_name_org(c);
}

static int most_clients(const struct client *c, const char *id)
{
	struct policy policy;

	conf_policy(c->worker->setup->conf, NULL, c->user, id, &policy);
	return policy.max_org_clients;
}

/* Where its place is on another worker, it goes there when it has something to do. */
static bool change(struct client *c, const char *id, struct err *err)
{
	struct org *org, *old = c->org;
	struct pool *pool, *old_pool = c->pool;
	struct worker *home;

	if (strcmp(id, c->org->id) == 0)
		return true;
	if (!find_org(c, id, &org, &pool, &home, err))
		return false;
	if (!seats_move_org(&c->seats, org, most_clients(c, id), err)) {
		org_drop(&org);
		return false;
	}
	if (pool) {
		pool_client_add(pool);
		enter(c, org, pool);
		pool_client_drop(old_pool);
	} else {
		c->org = org;
		speak_name_org(c);
	}
	c->place = pool ? PLACE_SETTLED : PLACE_LATER;
	org_drop(&old);
	return true;
}

/* ---- messages that need no server ---- */

static struct buf *to_client(struct client *c)
{
	return parcel_made(c->worker->to_client);
}

static struct speak *speak_of(struct client *c)
{
	if (!c->speak)
		c->speak = mem_make(struct speak);
	return c->speak;
}

static void forget_portal(struct client *c)
{
	if (!c->speak)
		return;
	mem_free(c->speak->portal);
	mem_free(c->speak->text);
	c->speak->portal = c->speak->text = NULL;
}

static void set_name(struct client *c, const char *value)
{
	int i = setup_guc(c->worker->setup, NAME_SETTING, strlen(NAME_SETTING));
	char *clean = application_name_clean(value);

	if (i >= 0) {
		link_keep_start(c, i);
		gucs_set(&c->gucs, i, guc_of(&c->worker->guc_book, clean));
	}
	msg_parameter(to_client(c), NAME_SETTING, clean);
	mem_free(clean);
}

/* Does what the text says, and answers for it as PostgreSQL would for a SET. */
static bool obey(struct client *c, const uint8_t *sql, size_t len)
{
	struct statement st;
	struct err err;
	char id[ORG_ID_MOST + 1];
	bool ok = true;

	switch (text_tells(c, sql, len, &st, id)) {
	case TOLD_NOTHING: /* any more: a reload has changed what application_name means */
		break;
	case TOLD_ORG:
		ok = change(c, id, &err);
		break;
	case TOLD_ILLEGAL:
		ok = err_set(&err, SQLSTATE_LOGIN, "illegal org id in \"%.100s\": 1 to %d characters of A-Z a-z 0-9 _ . : - are expected", st.value, ORG_ID_MOST);
		break;
	}
	if (!ok) {
		report_error(to_client(c), "ERROR", err.sqlstate, "%s", err.text);
		return false;
	}
	if (strcasecmp(st.name, NAME_SETTING) == 0)
		set_name(c, st.value);
	msg_complete(to_client(c), "SET");
	return true;
}

/* The last thing that is owed to the client or to us; the end of copy data belongs to what asked for it. NULL: nothing is. */
static const struct reply *last_owed(struct replies *r)
{
	uint32_t n = r->count;

	while (n && replies_at(r, n - 1)->kind == REPLY_COPY_END)
		n--;
	return n ? replies_at(r, n - 1) : NULL;
}

/* Whatever stands at the front belongs to a batch of its own, and the one before may still be under way. */
static enum spoken not_yet(const struct client *c)
{
	struct replies *r = &c->server->replies;
	const struct reply *last = last_owed(r);

	if (c->mode == POOL_SESSION || c->ties)
		return SPOKEN_NOT; /* it will not part: refused where other settings are looked at */
	if (r->copy_in)
		return SPOKEN_NOT; /* the server waits for the client: what is no copy data ends the session */
	if (last ? last->kind == REPLY_SYNC || last->kind == REPLY_QUERY || last->kind == REPLY_CALL : c->may_part)
		return SPOKEN_HOLD;
	return SPOKEN_NOT;
}

static enum spoken say_query(struct client *c, const uint8_t *sql, const struct frame *f, uint32_t *used)
{
	size_t len = strnlen((const char *)sql, f->size - FRAME_HEAD);

	if (!speak_is_change(c, sql, len))
		return SPOKEN_NOT;
	if (c->server)
		return not_yet(c);
	c->unnamed.known = false; /* a simple query drops it */
	obey(c, sql, len);
	msg_ready(to_client(c), 'I');
	*used = f->size;
	return SPOKEN_DONE;
}

static void keep_unnamed(struct client *c, const uint8_t *body, size_t len)
{
	struct unnamed *u = &c->unnamed;

	u->known = u->touches = u->changes_org = true;
	u->forgets = false;
	mem_free(u->deallocates);
	u->deallocates = NULL;
	u->serial = ++c->unnamed_serial;
	u->body.len = 0;
	buf_add(&u->body, body, len);
}

static enum spoken say_parse(struct client *c, const uint8_t *body, const struct frame *f, uint32_t *used)
{
	size_t len = f->size - FRAME_HEAD;
	size_t name_len = strnlen((const char *)body, len);
	const uint8_t *sql = body + name_len + 1;
	size_t left = name_len < len ? len - name_len - 1 : 0;
	size_t sql_len = begins_with_set(sql, left) ? strnlen((const char *)sql, left) : 0;

	if (!begins_with_set(sql, left) || left != sql_len + 3 || sql[sql_len + 1] || sql[sql_len + 2] || !speak_is_change(c, sql, sql_len))
		return SPOKEN_NOT; /* another, not well formed, or with types of parameters */
	if (c->server)
		return not_yet(c);
	if (name_len) {
		struct err err;
		if (c->worker->setup->conf->set.max_prepared_statements == 0 || stmt_name_find(&c->stmts, (const char *)body)
		    || !prepared_may_name(c, (const char *)body, left, &err))
			return SPOKEN_NOT;
		struct stmt *st = stmt_of(&c->worker->stmt_book, sql, left, 0);
		st->touches = st->changes_org = true;
		stmt_name_put(&c->stmts, stmt_name_new((const char *)body, st));
		stmt_drop(&st);
	} else {
		keep_unnamed(c, sql, left);
	}
	c->speaks = true;
	msg_empty(to_client(c), '1');
	*used = f->size;
	return SPOKEN_DONE;
}

/* The text of a statement of the client's that changes the org; NULL: it is another. */
static const char *change_named(struct client *c, const char *name)
{
	const struct stmt_name *n;

	if (name[0] == 0)
		return c->unnamed.known && c->unnamed.changes_org ? (const char *)c->unnamed.body.p : NULL;
	n = stmt_name_find(&c->stmts, name);
	return n && n->stmt->changes_org ? (const char *)n->stmt->body : NULL;
}

static enum spoken say_bind(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *used, uint32_t *want)
{
	struct reader r = reader_of(p + FRAME_HEAD, f->have - FRAME_HEAD);
	const char *portal = read_str(&r), *name = read_str(&r);
	const char *text;

	if (r.bad) {
		*want = f->size;
		return f->have < f->size && f->size < TEXT_MOST ? SPOKEN_MORE : SPOKEN_NOT;
	}
	text = change_named(c, name);
	if (!text || f->size >= TEXT_MOST)
		return SPOKEN_NOT;
	if (f->have < f->size) {
		*want = f->size;
		return SPOKEN_MORE;
	}
	if (c->server)
		return not_yet(c);
	read_bytes(&r, 2u * read_u16(&r));
	if (read_u16(&r) != 0 || r.bad)
		return SPOKEN_NOT; /* with values: the server says what it thinks of that */
	forget_portal(c);
	speak_of(c)->portal = mem_str(portal);
	c->speak->text = mem_str(text);
	msg_empty(to_client(c), '2');
	*used = f->size;
	return SPOKEN_DONE;
}

static bool is_our_portal(const struct client *c, const char *name)
{
	return c->speak && c->speak->portal && strcmp(c->speak->portal, name) == 0;
}

static enum spoken say_describe(struct client *c, const uint8_t *body, const struct frame *f, uint32_t *used)
{
	struct reader r = reader_of(body, f->size - FRAME_HEAD);
	uint8_t what = read_u8(&r);
	const char *name = read_str(&r);

	if (!reader_done(&r) || c->server || (what == 'P' ? !is_our_portal(c, name) : what != 'S' || !change_named(c, name)))
		return SPOKEN_NOT;
	if (what == 'S') {
		size_t begun = msg_begin(to_client(c), 't');
		msg_u16(to_client(c), 0);
		msg_end(to_client(c), begun);
	}
	msg_empty(to_client(c), 'n');
	*used = f->size;
	return SPOKEN_DONE;
}

static enum spoken say_execute(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *used, uint32_t *want)
{
	struct reader r = reader_of(p + FRAME_HEAD, f->have - FRAME_HEAD);
	const char *name;

	if (f->have < f->size && f->size < TEXT_MOST) {
		*want = f->size;
		return SPOKEN_MORE;
	}
	name = read_str(&r);
	if (r.bad || c->server || !is_our_portal(c, name))
		return SPOKEN_NOT;
	if (!obey(c, (const uint8_t *)c->speak->text, strlen(c->speak->text)))
		c->refusing = true;
	forget_portal(c);
	*used = f->size;
	return SPOKEN_DONE;
}

enum spoken speak_message(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *used, uint32_t *want)
{
	const uint8_t *body = p + FRAME_HEAD;

	switch (f->type) {
	case 'Q':
		if (f->size >= TEXT_MOST || !begins_with_set(body, f->have - FRAME_HEAD))
			return SPOKEN_NOT;
		*want = f->size;
		return f->have < f->size ? SPOKEN_MORE : say_query(c, body, f, used);
	case 'P': /* it is there as a whole, as is a Describe */
		return f->size < TEXT_MOST ? say_parse(c, body, f, used) : SPOKEN_NOT;
	case 'B':
		return say_bind(c, p, f, used, want);
	case 'D':
		return say_describe(c, body, f, used);
	case 'E':
		return say_execute(c, p, f, used, want);
	default:
		return SPOKEN_NOT;
	}
}

void speak_sync(struct client *c)
{
	forget_portal(c);
}

/* ---- visits ---- */

/* In the form of sqlcommenter: key='value' pairs with commas between, values URL-encoded, which no legal id needs but for the colon. */
static bool comment_org(struct span comment, char id[ORG_ID_MOST + 1], bool *illegal)
{
	const uint8_t *end = comment.p + comment.len;

	for (const uint8_t *at = comment.p; (at = memmem(at, (size_t)(end - at), "org='", 5)) != NULL; at += 5) {
		const uint8_t *value = at + 5;
		const uint8_t *quote = memchr(value, '\'', (size_t)(end - value));
		if (at > comment.p && at[-1] != ',' && at[-1] != ' ' && at[-1] != '*')
			continue;
		if (!quote)
			return false;
		char text[3 * ORG_ID_MOST + 1];
		size_t n = 0;
		for (const uint8_t *v = value; v < quote && n < sizeof(text); n++) {
			bool colon = quote - v >= 3 && v[0] == '%' && v[1] == '3' && (v[2] | 0x20) == 'a';
			text[n] = colon ? ':' : (char)*v;
			v += colon ? 3 : 1;
		}
		*illegal = !org_id_make(text, n, id);
		return true;
	}
	return false;
}

/* The first statement's comments, wherever in it they stand. */
static bool text_visits(const uint8_t *sql, size_t len, char id[ORG_ID_MOST + 1], bool *illegal)
{
	struct scan scan = scan_of(sql, len);
	enum token token;

	if (!memmem(sql, len, "org='", 5))
		return false;
	while ((token = scan_next_all(&scan)) != TOKEN_END)
		if (token == TOKEN_COMMENT && comment_org(scan.text, id, illegal))
			return true;
	return false;
}

/* What a message that may begin a transaction says of whose it is. */
enum claim {
	CLAIM_NONE,
	CLAIM_ORG,     /* by a comment */
	CLAIM_ILLEGAL,
	CLAIM_MORE,    /* *want bytes, from the message on, are needed to know */
};

#define CLOSES_MOST (64 * 1024) /* bytes of Closes that are looked past */

static enum claim more_of(size_t at, const struct frame *f, uint32_t *want)
{
	*want = (uint32_t)at + frame_want(f, TEXT_LEAST);
	return CLAIM_MORE;
}

/* The text of a statement that has been parsed; NULL: there is none such. */
static const char *text_named(struct client *c, const char *name)
{
	const struct stmt_name *n;

	if (!name[0])
		return c->unnamed.known ? (const char *)c->unnamed.body.p : NULL;
	n = stmt_name_find(&c->stmts, name);
	return n ? (const char *)n->stmt->body : NULL;
}

static const uint8_t *behind_string(const uint8_t *p, size_t len)
{
	const uint8_t *end = str_end(p, len);
	return end ? end + 1 : NULL;
}

/* The statement's text; empty: it has none that could say anything. False: more of the message is needed. */
static bool text_of(struct client *c, const uint8_t *body, const struct frame *f, struct span *text)
{
	size_t len = f->have - FRAME_HEAD;
	const uint8_t *end = body + len, *at;
	const char *named = NULL;

	*text = (struct span){0};
	switch (f->type) {
	case 'Q':
		*text = (struct span){body, strnlen((const char *)body, len)};
		return f->have == f->size || (int64_t)f->have >= c->worker->setup->conf->set.inspect_bytes;
	case 'P':
		at = behind_string(body, len);
		if (at)
			*text = (struct span){at, strnlen((const char *)at, (size_t)(end - at))};
		return true;
	case 'B':
		at = behind_string(body, len);
		if (!at || !behind_string(at, (size_t)(end - at)))
			return f->have == f->size;
		named = text_named(c, (const char *)at);
		break;
	case 'D':
		if (len > 1 && body[0] == 'S' && behind_string(body, len) == end)
			named = text_named(c, (const char *)body + 1);
		break;
	default:
		break;
	}
	if (named)
		*text = span_str(named);
	return true;
}

/* What stands at the front; a Close says nothing, but what comes behind it in its batch does. */
static enum claim claim_of(struct client *c, const uint8_t *p, size_t len, uint32_t *want, char id[ORG_ID_MOST + 1])
{
	size_t at = 0;
	struct frame f;
	struct span text;
	bool illegal;

	for (;; at += f.size) {
		enum parse parsed = frame_peek(p + at, len - at, &f);
		if (parsed == PARSE_MORE && at < CLOSES_MOST) {
			*want = (uint32_t)at + FRAME_HEAD;
			return CLAIM_MORE;
		}
		if (parsed != PARSE_OK)
			return CLAIM_NONE;
		if (f.type != 'C' || at >= CLOSES_MOST || f.size > CLOSES_MOST)
			break;
		if (f.have < f.size)
			return more_of(at, &f, want);
	}
	if (!text_of(c, p + at + FRAME_HEAD, &f, &text))
		return more_of(at, &f, want);
	if (!text.len || !text_visits(text.p, text.len, id, &illegal))
		return f.type == 'P' && f.have < f.size ? more_of(at, &f, want) : CLAIM_NONE;
	return illegal ? CLAIM_ILLEGAL : CLAIM_ORG;
}

bool speak_may_run(const struct client *c, const uint8_t *sql, size_t len, struct err *err)
{
	char id[ORG_ID_MOST + 1];
	bool illegal;

	if (!c->worker->setup->org_by_comment || !text_visits(sql, len, id, &illegal) || illegal || strcmp(id, c->org->id) == 0)
		return true;
	return err_set(err, "25001", "a comment names org \"%s\" in a transaction of org \"%s\"", id, c->org->id);
}

static void begin_visit(struct client *c, struct org *org, struct pool *pool)
{
	speak_of(c)->home = c->org;
	c->speak->home_pool = c->pool;
	c->speak->home_place = c->place;
	c->place = PLACE_SETTLED;
	pool_client_add(pool);
	enter(c, org, pool);
}

enum spoken speak_visit(struct client *c, const uint8_t *p, size_t len, const struct frame *f, uint32_t *used, uint32_t *want)
{
	char id[ORG_ID_MOST + 1];
	struct org *org;
	struct pool *pool;
	struct worker *home;
	struct err err;
	enum claim claim = claim_of(c, p, len, want, id);

	if (claim == CLAIM_MORE)
		return SPOKEN_MORE;
	if (claim == CLAIM_NONE || (claim == CLAIM_ORG && strcmp(id, c->org->id) == 0))
		return SPOKEN_NOT;
	if (claim == CLAIM_ILLEGAL)
		err_set(&err, SQLSTATE_LOGIN, "illegal org id in a comment: 1 to %d characters of A-Z a-z 0-9 _ . : - are expected", ORG_ID_MOST);
	if (claim == CLAIM_ILLEGAL || !find_org(c, id, &org, &pool, &home, &err)) {
		refuse_here(c, f, &err);
		*used = 0;
		return SPOKEN_DONE;
	}
	if (!pool) {
		org_drop(&org);
		place_go(c, home, id);
		return SPOKEN_AWAY;
	}
	begin_visit(c, org, pool);
	return SPOKEN_NOT;
}

enum spoken speak_follow(struct client *c, const uint8_t *p, size_t len, uint32_t *want)
{
	char id[ORG_ID_MOST + 1];

	if (c->link_due || c->server->replies.skipping || not_yet(c) != SPOKEN_HOLD) /* link_due: it was given its server for this message */
		return SPOKEN_NOT;
	switch (claim_of(c, p, len, want, id)) {
	case CLAIM_MORE:
		return SPOKEN_MORE;
	case CLAIM_NONE:
		return speak_is_visiting(c) ? SPOKEN_HOLD : SPOKEN_NOT;
	case CLAIM_ILLEGAL:
		return SPOKEN_HOLD;
	case CLAIM_ORG:
		return strcmp(id, c->org->id) == 0 ? SPOKEN_NOT : SPOKEN_HOLD;
	}
	never("no such claim");
}

void speak_visit_here(struct client *c, const char *id, struct pool *pool)
{
	bool listed = strcmp(id, "default") == 0 || conf_org(c->worker->setup->conf, id);

	begin_visit(c, org_of(id, 0), pool);
	atomic_store(&c->org->listed, listed);
}

bool speak_is_visiting(const struct client *c)
{
	return c->speak && c->speak->home;
}

void speak_visit_end(struct client *c)
{
	struct org *visited = c->org;
	struct pool *pool = c->pool;

	if (!speak_is_visiting(c))
		return;
	enter(c, c->speak->home, c->speak->home_pool);
	if (c->speak->home_place > c->place)
		c->place = c->speak->home_place;
	if (c->place == PLACE_SETTLED && c->routed_name_matters)
		c->place = PLACE_LATER; /* the name may be another by now */
	c->speak->home = NULL;
	c->speak->home_pool = NULL;
	pool_client_drop(pool);
	org_drop(&visited);
}

void speak_free(struct client *c)
{
	speak_visit_end(c);
	forget_portal(c);
	mem_free(c->speak);
	c->speak = NULL;
}
