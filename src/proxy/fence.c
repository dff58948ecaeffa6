/* See proxy/fence.h. */
#include "proxy/fence.h"

#include <string.h>
#include <strings.h>

#include "cluster/fence.h"
#include "proxy/deallocate.h"
#include "proxy/expect.h"
#include "proxy/inspect.h"
#include "proxy/inventory.h"
#include "proxy/link.h"
#include "proxy/mode.h"
#include "proxy/refuse.h"
#include "proxy/relay.h"
#include "proxy/worker.h"
#include "sql/touch.h"
#include "wire/reader.h"
#include "wire/report.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

static struct cluster *cluster_at(const struct client *c)
{
	return c->pool->lane->cluster;
}

/* ---- when the word has moved on ---- */

/* Settings that the transaction changed are as before it. */
static void settings_back(struct client *c, const struct server *s)
{
	const struct setup *setup = c->worker->setup;

	for (int i = 0; c->gucs_before && i < setup->n_gucs; i++) {
		const struct guc_value *v = c->gucs_before->at[i] ? c->gucs_before->at[i] : s->gucs_at_login.at[i];
		if (c->gucs_before->at[i] != c->gucs.at[i] && v)
			msg_parameter(parcel_made(c->worker->to_client), setup->guc_names[i], v->text);
		gucs_set(&c->gucs, i, guc_ref(c->gucs_before->at[i]));
	}
	link_forget_gucs(c);
	c->reset_due = 0;
}

/* The server is closed, the client is between transactions. Nothing is owed but the end of a COPY. */
static void leave_server(struct client *c)
{
	struct server *s = c->server;

	parcel_drop(c->worker->to_server);
	replies_free(&s->replies); /* while it has its client, whose names go back to what they were */
	settings_back(c, s);
	inventory_free(c);
	portals_clear(c);
	c->touched = 0;
	c->unread_text = c->in_query = false;
	c->copy_syncs = 0;
	c->ran = false;
	c->worst = 0;
	c->fence_batch = 0;
	c->fence_sets = c->portal_in_batch = false;
	c->server = NULL;
	server_close(s, NULL, "its epoch is over");
	link_parted(c);
}

static enum fence_step drop(struct client *c, const struct frame *f)
{
	refuse_drop(c, f);
	return FENCE_TOLD;
}

static enum fence_step tell(struct client *c, const struct frame *f, const struct err *err)
{
	mode_tell(c);
	refuse_here(c, f, err);
	return FENCE_TOLD;
}

/* Nothing was sent on it yet, or its transaction is over and the next one has not begun: that nothing is owed and the last ReadyForQuery said idle
 * is not enough, for a batch without its Sync has a transaction open. */
static bool may_change_server(const struct client *c)
{
	return c->mode != POOL_SESSION && !c->ties && (c->may_part || c->link_due) && server_is_clean(c->server);
}

/* The rest of a batch that failed: PostgreSQL would skip it as well, and has told why. */
static enum fence_step skip(struct client *c, const struct frame *f)
{
	if (f->type == 'S') {
		leave_server(c);
		mode_tell(c);
		msg_ready(parcel_made(c->worker->to_client), 'I');
	}
	return drop(c, f);
}

/* COPY FROM the client goes on for as long as the client sends: it ends here. Syncs among its data are answered, for the COPY has failed. */
static enum fence_step cut_copy(struct client *c, const struct frame *f, const struct err *err)
{
	bool simple = replies_front(&c->server->replies)->kind == REPLY_QUERY;
	uint32_t ready = simple + c->copy_syncs + (f->type == 'S');
	struct buf *out = parcel_made(c->worker->to_client);

	leave_server(c);
	mode_tell(c);
	report_error(out, "ERROR", err->sqlstate, "%s", err->text);
	c->refusing = ready == 0;
	while (ready--)
		msg_ready(out, 'I');
	return drop(c, f);
}

/* What its session held is gone, and it must not go on as if it were there. */
static enum fence_step end_with_session(struct client *c, const struct err *err)
{
	struct server *s = c->server;

	parcel_drop(c->worker->to_server);
	c->server = NULL;
	server_close(s, NULL, "its epoch is over");
	client_close(c, err, err->text);
	return FENCE_GONE;
}

enum fence_step fence_moved(struct client *c, const struct frame *f)
{
	struct server *s = c->server;
	struct replies *r = &s->replies;
	word_t now = cluster_word(cluster_at(c));
	struct err err;

	if (f->type == 'H' || !fence_is_over(s->word, now))
		return FENCE_GO_ON;
	if (!replies_empty(r) && !r->copy_in) {
		msg_empty(to_server(c), 'H'); /* what is waited for may be answered only then */
		return FENCE_HOLD;
	}
	if (may_change_server(c) && c->touched)
		return FENCE_HOLD; /* what its last transaction left in the session is asked for first */
	if (may_change_server(c)) {
		link_part(c);
		return FENCE_GO_ON;
	}
	if (r->skipping)
		return skip(c, f);
	fence_over(&err, cluster_at(c)->name, s->word, now, c->org->id);
	if (c->mode == POOL_SESSION || c->ties)
		return end_with_session(c, &err);
	if (r->copy_in)
		return cut_copy(c, f, &err);
	leave_server(c);
	return tell(c, f, &err);
}

static bool is_exempt(const struct client *c, const struct conf_entry *e)
{
	return c->epoch && conf_in_list(e->cluster->fence_exempt_users, c->user);
}

/* A reload may have taken its right away: then its servers are none of its. */
static bool is_exempt_still(const struct client *c)
{
	const struct conf_entry *e = target_entry(c->server->target);
	return !c->server->target->exempt || !fence_is_up(c->server->word) || (e && is_exempt(c, e));
}

enum fence_step fence_check_epoch(struct client *c, const struct frame *f)
{
	struct server *s = c->server;
	struct err err;

	if (!fence_epoch_fits(s->word, c->epoch))
		fence_epoch_stale(&err, cluster_at(c)->name, s->word, c->epoch);
	else if (!is_exempt_still(c))
		fence_refuse(&err, FENCE_REFUSE_WRITE, cluster_at(c)->name, s->word, NULL);
	else
		return FENCE_GO_ON;
	if (c->mode == POOL_SESSION || c->ties)
		return end_with_session(c, &err);
	link_part(c);
	return tell(c, f, &err);
}

/* ---- what a message runs ---- */

static const struct setup *setup_of(const struct client *c)
{
	return c->worker->setup;
}

/* In some encodings that only clients have, a byte of a character may look like a backslash. Which one is in force is known by what the server has
 * reported, but not behind something in the same batch that may set it. standard_conforming_strings may be either everywhere: a
 * statement is read when it is prepared, and that is long ago perhaps. */
static unsigned reading(const struct client *c)
{
	int i = setup_guc(setup_of(c), "client_encoding", strlen("client_encoding"));
	const struct guc_value *encoding = i < 0 ? NULL : c->server->gucs.at[i];
	bool sure = encoding && classify_reads_encoding(encoding->text) && !c->fence_sets;

	return READING_EITHER | (sure ? 0 : READING_ODD_ENCODING);
}

static bool is_ascii(const uint8_t *sql, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (sql[i] & 0x80)
			return false;
	return true;
}

/* What has no text that is known: a name that was prepared by SQL, or that we do not keep. It may be anything, the end of a transaction included. */
static const struct classified untold = {.class = CLASS_UNKNOWN, .acts = ACT_RUNS_UNKNOWN | ACT_COMMIT, .statements = 1};

/* ---- the verdict ---- */

static bool is_frozen(const struct client *c)
{
	return c->server->frozen;
}

static enum fence_verdict decide(const struct client *c, const struct classified *text)
{
	struct fence_case look = {
		.word = c->server->word,
		.frozen = is_frozen(c),
		.exempt = c->server->target->exempt,
		.in_block = c->server->status != 'I',
		.batch = c->fence_batch,
		.text = *text,
	};
	return fence_decide(&look);
}

static enum fence_look refuse(struct client *c, enum fence_verdict v, struct err *err)
{
	struct cluster *cluster = cluster_at(c);

	atomic_fetch_add_explicit(&cluster->refused_writes, 1, memory_order_relaxed);
	fence_refuse(err, v, cluster->name, c->server->word, c->org->id);
	return FENCE_LOOK_REFUSE;
}

static void note(struct client *c, enum fence_verdict v, const struct classified *text)
{
	c->fence_batch |= (uint8_t)fence_passed(v, text);
}

/* ---- the block around a statement ---- */

#define OUR_BLOCK "PGWEIR_block" /* no client's name begins so */

static void ours(struct client *c, enum reply_kind kind)
{
	replies_push(&c->server->replies, kind, REPLY_SKIP, MARK_NONE, NULL);
}

static void open_by_query(struct client *c)
{
	msg_query(to_server(c), "BEGIN READ ONLY");
	ours(c, REPLY_QUERY);
	c->server->unnamed_of = 0; /* a simple query drops the unnamed statement */
}

/* Among the client's extended messages a simple query would drop the statement it has just parsed; and its unnamed portal must stay, too. */
static void open_by_names(struct client *c)
{
	struct buf *out = to_server(c);

	msg_object(out, 'C', 'S', OUR_BLOCK);
	ours(c, REPLY_CLOSE);
	msg_parse_sql(out, OUR_BLOCK, "BEGIN READ ONLY");
	ours(c, REPLY_PARSE);
	msg_bind(out, OUR_BLOCK, OUR_BLOCK, NULL, 0);
	ours(c, REPLY_BIND);
	msg_execute(out, OUR_BLOCK);
	ours(c, REPLY_EXECUTE);
}

bool fence_keeps_ready(struct client *c)
{
	struct server *s = c->server;
	bool wrapped = c->fence_batch & FENCE_WRAPPED;
	struct buf b = {0};

	c->fence_batch = 0;
	c->fence_sets = c->portal_in_batch = false;
	if (!wrapped || s->status == 'I')
		return false;
	msg_query(&b, s->status == 'E' ? "ROLLBACK" : "COMMIT");
	stream_send(&s->stream, b.p, b.len);
	buf_free(&b);
	replies_push(&s->replies, REPLY_QUERY, REPLY_SKIP, MARK_UNWRAP, NULL);
	s->unnamed_of = 0;
	return true;
}

/* ---- messages ---- */

/* Is a ReadyForQuery of the client's to come yet, or the end of a block that was opened for it? */
static bool batch_is_open(struct server *s)
{
	for (uint32_t i = 0; i < s->replies.count; i++) {
		const struct reply *r = replies_at(&s->replies, i);
		bool ends = r->kind == REPLY_SYNC || r->kind == REPLY_QUERY || r->kind == REPLY_CALL;
		if (r->mark == MARK_UNWRAP || (ends && r->act != REPLY_SKIP))
			return true;
	}
	return false;
}

static enum fence_look look_at_query(struct client *c, const uint8_t *sql, const struct frame *f, uint32_t *want, struct err *err)
{
	size_t len = f->have - FRAME_HEAD;

	if (f->have < f->size) {
		if (f->size - FRAME_HEAD > setup_of(c)->conf->set.inspect_bytes)
			return refuse(c, FENCE_REFUSE_LONG, err);
		*want = frame_want(f, TEXT_LEAST);
		return FENCE_LOOK_MORE;
	}
	struct classified text = classify((struct span){sql, strnlen((const char *)sql, len)}, reading(c));
	enum fence_verdict v = decide(c, &text);
	if (v >= FENCE_REFUSE_WRITE)
		return refuse(c, v, err);
	if (v == FENCE_WRAP)
		open_by_query(c);
	note(c, v, &text);
	return FENCE_LOOK_PASS;
}

/* To prepare a text does nothing yet, so a write is refused when it is bound. But how it is read is settled now. */
static enum fence_look look_at_parse(struct client *c, const uint8_t *body, size_t len, struct err *err)
{
	size_t name_len = strnlen((const char *)body, len);
	bool kept = name_len == 0 || setup_of(c)->conf->set.max_prepared_statements > 0;

	if (name_len == len)
		return FENCE_LOOK_PASS; /* not well formed */
	const uint8_t *sql = body + name_len + 1;
	size_t sql_len = strnlen((const char *)sql, len - name_len - 1);
	unsigned how = reading(c);
	if (kept && (how == READING_EITHER || is_ascii(sql, sql_len)))
		return FENCE_LOOK_PASS;
	struct classified text = classify((struct span){sql, sql_len}, how);
	if (text.class == CLASS_WRITE || text.acts & ACT_LIFT)
		return refuse(c, text.acts & ACT_LIFT ? FENCE_REFUSE_LIFT : FENCE_REFUSE_WRITE, err);
	return FENCE_LOOK_PASS;
}

/* sets: may it change how texts are read behind it? */
static struct classified bound_text(const struct client *c, const char *name, bool *sets)
{
	const struct stmt_name *n;
	const uint8_t *sql;

	*sets = false;
	if (name[0] == 0) {
		if (!c->unnamed.known)
			return (struct classified){0}; /* there is none, and PostgreSQL says so */
		sql = c->unnamed.body.p;
	} else {
		n = setup_of(c)->conf->set.max_prepared_statements > 0 ? stmt_name_find(&((struct client *)c)->stmts, name) : NULL;
		if (!n)
			return untold;
		sql = n->stmt->body;
	}
	*sets = touch_may(sql, strlen((const char *)sql), TOUCH_LOOK_FOR_TAKING);
	return classify(span_str((const char *)sql), reading(c));
}

static bool is_control(const struct classified *text)
{
	return text->acts & (ACT_BEGIN | ACT_COMMIT | ACT_ROLLBACK);
}

/* Planning may run code already, so the block is opened ahead of a Bind. Transactions begin and end when a portal is executed, and the unnamed one
 * alone is remembered: no other may do that. */
static enum fence_look look_at_bind(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *want, struct err *err)
{
	struct reader r = reader_of(p + FRAME_HEAD, f->have - FRAME_HEAD);
	const char *portal = read_str(&r), *name = read_str(&r);

	if (r.bad) {
		*want = frame_want(f, 0);
		return f->have < f->size ? FENCE_LOOK_MORE : FENCE_LOOK_PASS;
	}
	bool sets;
	struct classified text = bound_text(c, name, &sets), now = text;
	if (!portal[0] && !(text.acts & ACT_RUNS_UNKNOWN))
		now.acts &= ~(unsigned)(ACT_BEGIN | ACT_COMMIT | ACT_ROLLBACK);
	enum fence_verdict v = decide(c, &now);
	if (v < FENCE_REFUSE_WRITE && portal[0] && is_control(&text))
		v = FENCE_REFUSE_BESIDE;
	if (v >= FENCE_REFUSE_WRITE)
		return refuse(c, v, err);
	if (v == FENCE_WRAP)
		open_by_names(c);
	if (!portal[0])
		c->portal_acts = (uint16_t)text.acts;
	c->portal_in_batch |= !portal[0];
	c->fence_sets |= sets || now.acts & ACT_RUNS_UNKNOWN;
	note(c, v, &now);
	return FENCE_LOOK_PASS;
}

/* A named portal may be one of an earlier batch, and is not known any more; a transaction it does not end. */
static enum fence_look look_at_execute(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *want, struct err *err)
{
	if (f->have == FRAME_HEAD) {
		*want = f->size;
		return f->size == FRAME_HEAD ? FENCE_LOOK_PASS : FENCE_LOOK_MORE;
	}
	bool named = p[FRAME_HEAD] != 0;
	unsigned acts = named ? (c->server->status != 'I' ? (unsigned)ACT_RUNS_UNKNOWN : 0) : c->portal_acts;
	struct classified text = {.class = acts ? CLASS_UNKNOWN : CLASS_READ, .acts = acts, .statements = 1};
	if (!named && acts & ACT_RUNS_UNKNOWN && c->portal_in_batch)
		return FENCE_LOOK_PASS; /* judged as it was bound */
	enum fence_verdict v = decide(c, &text);
	if (v >= FENCE_REFUSE_WRITE)
		return refuse(c, v, err);
	if (v == FENCE_WRAP)
		open_by_names(c);
	note(c, v, &text);
	return FENCE_LOOK_PASS;
}

enum fence_look fence_look(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *want, struct err *err)
{
	const uint8_t *body = p + FRAME_HEAD;

	if (f->type == 'H' || f->type == 'd' || f->type == 'c' || f->type == 'f' || c->server->replies.copy_in)
		return FENCE_LOOK_PASS;
	if (batch_is_open(c->server))
		return FENCE_LOOK_HOLD;
	switch (f->type) {
	case 'Q':
		return look_at_query(c, body, f, want, err);
	case 'P':
		return look_at_parse(c, body, f->size - FRAME_HEAD, err);
	case 'B':
		return look_at_bind(c, p, f, want, err);
	case 'E':
		return look_at_execute(c, p, f, want, err);
	case 'F': /* large objects, mostly; the server's own net does not hold it */
		return refuse(c, FENCE_REFUSE_WRITE, err);
	default:
		return FENCE_LOOK_PASS;
	}
}

void fence_lifted(struct server *s)
{
	struct client *c = s->user;
	struct cluster *cluster = s->lane->cluster;
	struct err err;

	atomic_fetch_add_explicit(&cluster->refused_writes, 1, memory_order_relaxed);
	if (c)
		parcel_send(c->worker->to_client, &c->stream);
	fence_refuse(&err, FENCE_REFUSE_LIFT, cluster->name, s->word, s->pool->flow->key);
	server_close(s, &err, "its session was made writable");
}

/* ---- the client's place ---- */

struct pool *fence_pool(const struct client *c, const struct conf_entry *e, const char *org)
{
	struct lane *l = worker_lane(c->worker, e->cluster);
	const char *server_user = e->user ? e->user : c->user;

	return is_exempt(c, e) ? lane_pool_exempt(l, e, server_user, org) : lane_pool(l, e, server_user, org);
}

bool fence_admits(const struct client *c, struct err *err)
{
	word_t now = cluster_word(cluster_at(c));
	return fence_epoch_fits(now, c->epoch) || fence_epoch_stale(err, cluster_at(c)->name, now, c->epoch);
}

bool fence_epoch_is_parameter(const char *name)
{
	return strcasecmp(name, "pgweir.epoch") == 0;
}
