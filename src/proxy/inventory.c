/* See proxy/inventory.h.
 *
 *   text, tag --> touched, names to ask for      (sent to the server meanwhile)
 *   ReadyForQuery, idle --> the question: one row of ties and values; where no name is known, a row per setting
 *   its answer --> c->named, c->ties; then the two part, or stay together
 *
 * While the question is out the client is not read, and the bytes of the server come here (struct asker). */
#include "proxy/inventory.h"

#include <stdio.h>
#include <string.h>

#include "proxy/link.h"
#include "proxy/parcel.h"
#include "proxy/place.h"
#include "proxy/relay.h"
#include "proxy/speak.h"
#include "proxy/sweep.h"
#include "proxy/worker.h"
#include "sql/touch.h"
#include "wire/frame.h"
#include "wire/reader.h"
#include "wire/report.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

/* Of a value only so much is asked for as tells that it is too large to be carried: characters, of up to four bytes each. */
#define VALUE_MOST "65537"
_Static_assert(GUC_LIST_BYTES < 65537, "a value that was cut must not be carried");
#define MESSAGE_MOST (64 * 1024 * 1024) /* of the answer: as many of them as there may be names */

struct asked {
	struct guc_value *name; /* ref */
	enum touch_how how;
};

struct inventory {
	struct asker asker;
	struct client *client;   /* borrows */
	struct asked names[GUC_LIST_MOST];
	int n;
	bool too_many;           /* names that did not fit */
	int asked;               /* how often; a cancel of the client's, or its statement_timeout, may hit the question */
	/* the answer */
	bool again;              /* it was hit */
	int results;             /* that are complete; -1: the statement_timeout comes first */
	struct guc_value *timeout; /* ref: the statement_timeout, which is off while the question is asked again; NULL: it is not */
	unsigned ties;
	struct guc_list *named;  /* owns: what is put together from the rows */
};

/* ---- what is noted ---- */

bool inventory_watches(const struct client *c)
{
	const struct settings *set = &c->worker->setup->conf->set;

	if (c->mode == POOL_SESSION || set->session_features == FEATURES_ALLOW)
		return false;
	return !set->server_reset_query_always || !set->server_reset_query[0]; /* else nothing outlives a transaction, by the operator's wish */
}

bool inventory_reads(const struct client *c)
{
	const struct conf *conf = c->worker->setup->conf;
	return !conf->pgbouncer || conf->set.org_guc[0] || inventory_watches(c);
}

static struct inventory *inventory_of(struct client *c)
{
	if (!c->inventory) {
		c->inventory = mem_make(struct inventory);
		c->inventory->client = c;
	}
	return c->inventory;
}

/* Settings that PostgreSQL reports follow by that; these have no meaning beyond their transaction, or no value that could be set again. */
static bool is_carried(const struct client *c, const char *name)
{
	static const char *const others[] = {"transaction_isolation", "transaction_read_only", "transaction_deferrable", "seed"};
	int i = setup_guc(c->worker->setup, name, strlen(name));

	if (i >= 0 && c->server->gucs_at_login.at[i])
		return false;
	for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++)
		if (strcmp(name, others[k]) == 0)
			return false;
	return true;
}

static uint32_t bit_of(const struct client *c, const char *name)
{
	int i = setup_guc(c->worker->setup, name, strlen(name));
	return i < 0 ? 0 : 1u << i;
}

static void note_name(struct client *c, const char *name, enum touch_how how)
{
	struct inventory *v = inventory_of(c);

	if (!name) { /* RESET ALL */
		for (int i = 0; c->named && i < c->named->n; i++)
			note_name(c, c->named->items[i].name->text, how);
		c->reset_due = UINT32_MAX;
		return;
	}
	if (!is_carried(c, name)) {
		if (how == TOUCH_RESET)
			c->reset_due |= bit_of(c, name);
		return;
	}
	for (int i = 0; i < v->n; i++)
		if (strcmp(v->names[i].name->text, name) == 0) {
			if (how != v->names[i].how)
				v->names[i].how = TOUCH_SET; /* set and reset, or the other way round: the server says what it has */
			return;
		}
	if (v->n == GUC_LIST_MOST) {
		v->too_many = true;
		return;
	}
	v->names[v->n++] = (struct asked){guc_of(&c->worker->guc_book, name), how};
	if (strcmp(name, "session_authorization") == 0)
		note_name(c, "role", TOUCH_SET); /* it goes with it */
}

/* What a text is read with. */
struct reading {
	struct client *client;
	struct err *err;
	bool refused; /* it sets what is not the client's to set */
	bool perhaps; /* the text may be read so: asking costs little, refusing would be wrong */
};

static void read_name(void *arg, const char *name, const char *value, enum touch_how how)
{
	struct reading *r = arg;

	if (!name)
		speak_org_is_reset(r->client);
	else if (!r->perhaps && !r->refused && !speak_may_set(r->client, name, value, r->err))
		r->refused = true;
	if (!r->refused && how != TOUCH_LOCAL && inventory_watches(r->client))
		note_name(r->client, name, how);
}

static enum touch_look look_of(const struct client *c)
{
	return c->ties ? TOUCH_LOOK_FOR_GIVING_TOO : TOUCH_LOOK_FOR_TAKING;
}

bool inventory_may(const uint8_t *sql, size_t len)
{
	return touch_may(sql, len, TOUCH_LOOK_FOR_GIVING_TOO);
}

void inventory_print_ties(unsigned ties, char out[TIES_TEXT])
{
	size_t n = 0;

	out[0] = 0;
	for (int i = 0; i < TOUCH_TIES; i++)
		if (ties & 1u << i)
			n += (size_t)snprintf(out + n, TIES_TEXT - n, "%s%s", n ? "," : "", touch_tie_word(i));
}

static bool refuse_feature(unsigned ties, struct err *err)
{
	char words[TIES_TEXT];

	inventory_print_ties(ties, words);
	return err_set(err, SQLSTATE_UNSUPPORTED, "a session feature that cannot be kept in transaction pooling is refused: %s (session_features)", words);
}

static bool refuse_one_more(const struct client *c, struct err *err)
{
	return err_set(err, SQLSTATE_TOO_MANY, "org \"%s\" holds as many pinned server connections as it may (max_pinned %d)", c->org->id, c->pool->policy.max_pinned);
}

static bool may_take(const struct client *c, unsigned ties, struct err *err)
{
	int most = c->pool->policy.max_pinned;

	if (!ties)
		return true;
	if (c->worker->setup->conf->set.session_features == FEATURES_REJECT)
		return refuse_feature(ties, err);
	if (!c->ties && most > 0 && atomic_load_explicit(&c->org->pinned, memory_order_relaxed) >= most)
		return refuse_one_more(c, err);
	return true;
}

static void touch(struct client *c, unsigned what)
{
	c->touched |= (uint16_t)what;
	if (what & ~TOUCH(GIVES))
		c->server->unsure = true;
}

static bool reads_backslashes(const struct client *c)
{
	static const char name[] = "standard_conforming_strings";
	int i = setup_guc(c->worker->setup, name, sizeof(name) - 1);
	const struct guc_value *now = i < 0 ? NULL : c->gucs.at[i] ? c->gucs.at[i] : c->server->gucs.at[i];

	return now && strcmp(now->text, "off") == 0;
}

bool inventory_note(struct client *c, const uint8_t *sql, size_t len, struct err *err)
{
	struct reading r = {c, err, false, false};
	struct scan text = scan_of(sql, len);

	if (!speak_may_run(c, sql, len, err))
		return false;
	if (!touch_may(sql, len, look_of(c)))
		return true;
	text.backslash = reads_backslashes(c);
	struct touches t = touch_find(text, read_name, &r);
	if (r.refused)
		return false;
	if (!inventory_watches(c))
		return true;
	if (!may_take(c, t.takes, err))
		return false;
	touch(c, t.asks);
	if (memchr(sql, '\\', len)) { /* what is in force when it runs may be set by what is still under way */
		r.perhaps = true;
		text.backslash = !text.backslash;
		touch(c, touch_find(text, read_name, &r).asks);
	}
	return true;
}

static bool note_value(struct client *c, const uint8_t *value, size_t len, struct err *err)
{
	struct reading r = {c, err, false, false};
	char name[64];

	if (!touch_is_own_name(value, len))
		return true;
	memcpy(name, value, len);
	name[len] = 0;
	read_name(&r, name, NULL, TOUCH_SET);
	return !r.refused;
}

bool inventory_note_values(struct client *c, const uint8_t *p, const uint8_t *end, struct err *err)
{
	struct reader r = reader_of(p, (size_t)(end - p));

	read_bytes(&r, 2u * read_u16(&r));
	for (uint16_t n = read_u16(&r); n > 0 && !r.bad; n--) {
		uint32_t len = read_u32(&r);
		struct span value = read_bytes(&r, len == UINT32_MAX ? 0 : len);
		if (!note_value(c, value.p, value.len, err))
			return false;
	}
	return true;
}

void inventory_note_unread(struct client *c)
{
	c->unread_text = true;
}

void inventory_note_tag(struct client *c, const uint8_t *tag, size_t len)
{
	if (tag_is(tag, len, "LOAD")) {
		c->loaded = true;
		touch(c, TOUCH(LOAD));
	}
	if (!c->unread_text)
		return;
	if (tag_is(tag, len, "SET") || tag_is(tag, len, "RESET"))
		touch(c, TOUCH(SETTINGS));
	else if (tag_is(tag, len, "LISTEN"))
		touch(c, TOUCH(LISTEN));
	else if (tag_is(tag, len, "PREPARE"))
		touch(c, TOUCH(PREPARE));
	else if (tag_is(tag, len, "DECLARE CURSOR"))
		touch(c, TOUCH(HOLD));
	else if (tag_is(tag, len, "CREATE"))
		touch(c, TOUCH(TEMP));
	else if (tag_is(tag, len, "SELECT"))
		touch(c, TOUCH(LOCK) | TOUCH(TEMP));
}

void inventory_note_giving(struct client *c)
{
	if (c->ties)
		touch(c, TOUCH(GIVES));
}

void inventory_discarded(struct client *c)
{
	guc_list_drop(&c->named);
	speak_name_org(c);
	c->unlisted = false;
	c->reset_due = UINT32_MAX;
	inventory_note_giving(c);
}

static void inventory_end(struct client *c)
{
	struct inventory *v = c->inventory;

	if (!v)
		return;
	c->inventory = NULL;
	for (int i = 0; i < v->n; i++)
		guc_drop(&v->names[i].name);
	guc_list_drop(&v->named);
	guc_drop(&v->timeout);
	mem_free(v);
}

/* ---- the question ---- */

static const char *const tie_questions[TOUCH_TIES] = {
#define TIE(NAME, word, exists) [TOUCH_BIT_##NAME] = exists,
#include "sql/touch.def"
#undef TIE
};

/* Ahead of a question that is asked again: its first result. Of several statements in one text each begins under the limit of its time. */
#define WITHOUT_TIMEOUT "SELECT pg_catalog.current_setting('statement_timeout'),pg_catalog.set_config('statement_timeout','0',true);"

static bool is_again(const struct inventory *v)
{
	return v->asked > 1;
}

static void write_question(struct client *c, struct buf *sql)
{
	struct inventory *v = c->inventory;

	buf_add_str(sql, is_again(v) ? WITHOUT_TIMEOUT : "");
	buf_add_str(sql, "SELECT ");
	for (int i = 0; i < TOUCH_TIES; i++) {
		buf_add_str(sql, i ? "," : "");
		buf_add_str(sql, c->ties || c->touched & 1u << i ? tie_questions[i] : "false");
	}
	for (int i = 0; i < v->n; i++) {
		buf_add_str(sql, ",pg_catalog.left(pg_catalog.current_setting(");
		guc_quote(sql, v->names[i].name->text);
		buf_add_str(sql, ",true)," VALUE_MOST ")");
	}
	if (c->touched & TOUCH(SETTINGS))
		buf_add_str(sql, ";SELECT name,pg_catalog.left(pg_catalog.current_setting(name,true)," VALUE_MOST
				 ") FROM pg_catalog.pg_settings WHERE source OPERATOR(pg_catalog.=) 'session'");
	buf_add_u8(sql, 0);
}

/* Of all that may have been set by functions whose arguments were not seen, pg_settings does not list the application's own names. */
static void ask_for_own_names(struct client *c)
{
	for (int i = 0; c->named && i < c->named->n; i++)
		if (strchr(c->named->items[i].name->text, '.') || strcmp(c->named->items[i].name->text, "role") == 0)
			note_name(c, c->named->items[i].name->text, TOUCH_SET);
	note_name(c, "role", TOUCH_SET);
}

static const struct asker inventory_asker;

static void ask(struct client *c)
{
	struct server *s = c->server;
	struct inventory *v = inventory_of(c);
	usec_t limit = c->worker->setup->conf->set.server_check_timeout;
	struct buf sql = {0}, b = {0};

	if (c->ties)
		c->touched |= TOUCH(SETTINGS);
	if (c->touched & TOUCH(SETTINGS))
		ask_for_own_names(c);
	v->asked++;
	write_question(c, &sql);
	msg_query(&b, (const char *)sql.p);
	v->asker = inventory_asker;
	v->again = false;
	v->results = is_again(v) ? -1 : 0;
	v->ties = 0;
	guc_list_drop(&v->named);
	v->named = guc_list_ref(c->named);
	s->asker = &v->asker;
	s->unnamed_of = 0; /* a simple query drops the unnamed statement */
	stream_pause(&c->stream);
	stream_send(&s->stream, b.p, b.len);
	buf_free(&b);
	buf_free(&sql);
	c->deadline_inventory = limit ? loop_now(c->worker->loop) + limit : 0;
	sweep_set(c);
}

/* Which touches the server is to be asked about before anything else. Settings stay with the server of a pinned client, and are asked for when
 * the last tie is given up; unless they are themselves one. */
static unsigned due_of(const struct client *c)
{
	unsigned settings = TOUCH(NAMED) | TOUCH(SETTINGS);

	if (!c->ties)
		return ~TOUCH(GIVES);
	return TOUCH_ALL_TIES | TOUCH(GIVES) | (c->ties & TOUCH(MANY) ? settings : 0);
}

/* Values are kept as they come, in the client's encoding. Those that are not all ASCII are only carried in UTF-8: in another one a byte may look like
 * a backslash, and what was set under one encoding would be read under the next. */
static bool may_carry(const struct client *c, const struct guc_list *l)
{
	int i = setup_guc(c->worker->setup, "client_encoding", strlen("client_encoding"));
	const struct guc_value *encoding = i < 0 ? NULL : c->server->gucs.at[i];

	return !guc_list_is_too_large(l) && (!l || !l->wide || (encoding && strcmp(encoding->text, "UTF8") == 0));
}

enum inventory_next inventory_next(struct client *c)
{
	if (c->named && c->named->temporary)
		touch(c, TOUCH(TEMP));
	if (c->named && c->named->wide && !c->ties && !may_carry(c, c->named))
		touch(c, TOUCH(SETTINGS)); /* the encoding has changed */
	if (c->touched & due_of(c)) {
		ask(c);
		return INVENTORY_ASKING;
	}
	if (c->ties)
		return INVENTORY_STAY;
	if (c->touched) {
		c->touched = 0;
		inventory_end(c);
	}
	c->unread_text = false;
	return INVENTORY_PART;
}

/* ---- the answer ---- */

/* The question is over, one way or another. */
static void let_go(struct client *c)
{
	if (c->server)
		c->server->asker = NULL;
	inventory_end(c);
	c->touched = 0;
	c->unread_text = false;
	c->deadline_inventory = 0;
}

/* Where the server cannot be asked, nobody knows what the client's session holds. */
static void failed(struct client *c, const struct err *err)
{
	struct server *s = c->server;

	let_go(c);
	c->server = NULL;
	if (s)
		server_close(s, NULL, "what the session holds could not be asked");
	client_close(c, err, err->text);
}

static void set_named(struct client *c, const char *name, const char *value)
{
	struct inventory *v = c->inventory;

	if (v->timeout && value && strcmp(name, "statement_timeout") == 0)
		value = v->timeout->text;
	v->named = guc_list_with(v->named, &c->worker->guc_book, name, value);
}

/* A name that was only reset, and has another value than before, is as the server has it by itself. */
static void take_value(struct client *c, const struct asked *a, const char *value)
{
	const struct guc_value *before = guc_list_find(c->named, a->name->text);
	bool is_none = value && strcmp(a->name->text, "role") == 0 && strcmp(value, "none") == 0;

	if (!value || is_none || (a->how == TOUCH_RESET && (!before || strcmp(before->text, value) != 0)))
		set_named(c, a->name->text, NULL);
	else
		set_named(c, a->name->text, value);
}

/* A field of a DataRow: its text in `text`, NULL for NULL. */
static const char *read_field(struct reader *r, struct buf *text)
{
	uint32_t len = read_u32(r);

	if (len == UINT32_MAX)
		return NULL;
	struct span s = read_bytes(r, len);
	text->len = 0;
	buf_add(text, s.p, s.len);
	buf_add_u8(text, 0);
	return (const char *)text->p;
}

static bool take_ties(struct client *c, struct reader *r)
{
	struct inventory *v = c->inventory;
	struct buf text = {0};
	const char *field;

	if (read_u16(r) != TOUCH_TIES + v->n)
		return false;
	for (int i = 0; i < TOUCH_TIES; i++)
		if ((field = read_field(r, &text)) != NULL && field[0] == 't')
			v->ties |= 1u << i;
	for (int i = 0; i < v->n && !r->bad; i++)
		take_value(c, &v->names[i], read_field(r, &text));
	buf_free(&text);
	return reader_done(r);
}

static bool take_setting(struct client *c, struct reader *r)
{
	struct buf name = {0}, value = {0};
	const char *n, *t;
	bool ok;

	ok = read_u16(r) == 2;
	n = read_field(r, &name);
	t = read_field(r, &value);
	ok = ok && reader_done(r) && n && t;
	if (ok && is_carried(c, n))
		set_named(c, n, t);
	buf_free(&name);
	buf_free(&value);
	return ok;
}

static bool take_timeout(struct client *c, struct reader *r)
{
	struct buf text = {0};
	bool two = read_u16(r) == 2;
	const char *value = read_field(r, &text);

	guc_drop(&c->inventory->timeout);
	c->inventory->timeout = value ? guc_of(&c->worker->guc_book, value) : NULL;
	buf_free(&text);
	return two && !r->bad && value;
}

/* Which of the results: the one row of ties and values, or a row for each setting. */
static bool take_row(struct client *c, const uint8_t *body, size_t len)
{
	struct reader r = reader_of(body, len);

	if (c->inventory->results < 0)
		return take_timeout(c, &r);
	return c->inventory->results == 0 ? take_ties(c, &r) : take_setting(c, &r);
}

/* pg_settings lists all but the application's own: what is not among them is not set any more. They come first, and then what was asked by name. */
static void begin_settings(struct client *c)
{
	struct inventory *v = c->inventory;

	for (int i = 0; c->named && i < c->named->n; i++) {
		const char *name = c->named->items[i].name->text;
		bool asked = false;
		for (int k = 0; k < v->n; k++)
			asked |= v->names[k].name == c->named->items[i].name;
		if (!asked)
			set_named(c, name, NULL);
	}
}

static bool count_pinned(struct client *c, unsigned ties, struct err *err)
{
	if (ties && !c->ties && !tally_take(&c->org->pinned, c->pool->policy.max_pinned))
		return refuse_one_more(c, err);
	if (!ties && c->ties)
		tally_give(&c->org->pinned);
	c->ties = (uint16_t)ties;
	return true;
}

static void answered(struct client *c, bool all)
{
	struct inventory *v = c->inventory;
	struct server *s = c->server;
	unsigned ties = v->ties;
	struct err err;

	if (c->loaded)
		ties |= TOUCH(LOAD);
	c->unlisted |= v->too_many;
	if (c->unlisted || !may_carry(c, v->named))
		ties |= TOUCH(MANY);
	guc_list_drop(&c->named);
	c->named = guc_list_ref(v->named);
	speak_name_org(c);
	guc_list_drop(&s->named);
	s->named = guc_list_ref(v->named);
	if (ties && c->worker->setup->conf->set.session_features == FEATURES_REJECT && !refuse_feature(ties, &err)) {
		failed(c, &err);
		return;
	}
	if (!count_pinned(c, ties, &err)) {
		failed(c, &err);
		return;
	}
	let_go(c);
	s->unsure = ties != 0;
	if (c->loaded)
		s->stale = true; /* nothing unloads a library */
	stream_resume(&c->stream);
	if (ties) {
		link_stay(c);
	} else if (all) {
		link_part(c);
		place_rest(c);
	} else {
		c->may_part = true;
	}
}

#define ASKS_MOST 5

static bool may_ask_again(const struct inventory *v, const struct report *r)
{
	return v->asked < ASKS_MOST && strcmp(r->sqlstate, SQLSTATE_CANCELED) == 0;
}

/* False: the question is over. */
static bool take_message(struct client *c, const struct frame *f, const uint8_t *p)
{
	const uint8_t *body = p + FRAME_HEAD;
	size_t len = f->size - FRAME_HEAD;
	struct report r;
	struct err err;

	switch (f->type) {
	case 'S':
		relay_parameter(c->server, c, p, f);
		if (c->state == CLIENT_CLOSING)
			return false;
		parcel_send(c->worker->to_client, &c->stream);
		return true;
	case 'A':
		stream_send(&c->stream, p, f->size);
		return true;
	case 'T':
		if (c->inventory->results == 1)
			begin_settings(c);
		return true;
	case 'C':
		c->inventory->results++;
		return true;
	case 'N':
		return true;
	case 'D':
		if (take_row(c, body, len))
			return true;
		break;
	case 'E':
		if (!report_read(body, len, &r))
			break;
		if (may_ask_again(c->inventory, &r)) {
			c->inventory->again = true;
			return true;
		}
		err_set(&err, r.sqlstate, "what the session holds could not be asked: %s", r.text);
		failed(c, &err);
		return false;
	default:
		break;
	}
	err_set(&err, SQLSTATE_SERVER_LOST, "unexpected message from server");
	failed(c, &err);
	return false;
}

static size_t inventory_bytes(struct server *s, const uint8_t *p, size_t len)
{
	struct inventory *v = owner_of(s->asker, struct inventory, asker);
	struct client *c = v->client;
	size_t used = 0;
	struct frame f;
	struct err err;

	stream_want(&s->stream, 0);
	while (used < len) {
		enum parse parsed = frame_peek(p + used, len - used, &f);
		if (parsed == PARSE_MORE)
			break;
		if (parsed == PARSE_BAD || f.size > MESSAGE_MOST) {
			err_set(&err, SQLSTATE_SERVER_LOST, "bad message from server");
			failed(c, &err);
			return len;
		}
		if (f.have < f.size) {
			stream_want(&s->stream, f.size);
			break;
		}
		used += f.size;
		if (f.type == 'Z' && v->again) {
			ask(c);
			continue;
		}
		if (f.type == 'Z' && f.size == FRAME_HEAD + 1 && p[used - 1] == 'I' && v->results > 0) {
			answered(c, used == len);
			return used;
		}
		if (!take_message(c, &f, p + used - f.size))
			return len;
	}
	return used;
}

static void inventory_lost(struct server *s, const struct err *why)
{
	struct client *c = owner_of(s->asker, struct inventory, asker)->client;

	c->server = NULL;
	let_go(c);
	client_close(c, why, why->text);
}

static const struct asker inventory_asker = {.bytes = inventory_bytes, .lost = inventory_lost};

void inventory_free(struct client *c)
{
	if (c->ties)
		tally_give(&c->org->pinned);
	c->ties = 0;
	inventory_end(c);
}
