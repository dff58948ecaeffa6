/* See proxy/survey.h. As a look-up it belongs to two threads, one after the other, with a mail each way: the asker's, then the home of the
 * entry's cluster, then the asker's again. What is sent is four queries at once:
 *
 *   BEGIN READ ONLY     SET LOCAL statement_timeout     the operator's query     COMMIT
 *
 * with resets ahead of them; so many ReadyForQuery are awaited. When the third fails, the COMMIT ends the transaction all the same. */
#include "proxy/survey.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "loop/mail.h"
#include "proxy/clear.h"
#include "proxy/home.h"
#include "proxy/worker.h"
#include "wire/frame.h"
#include "wire/reader.h"
#include "wire/report.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

#define MESSAGE_MOST (64 * 1024) /* an org and a number, or an error */
#define LOOK_EVERY USEC_PER_SEC  /* whether a PAUSE or the end waits for us */
#define MOVES_MOST 3             /* reloads may move an entry while the mail is under way */
#define QUERIES 4
#define BYTES_MOST 1e18          /* an exabyte: more is a mistake */

struct survey {
	/* the asker's, not touched at home */
	struct loop *asker;
	void (*done)(void *arg, const struct survey_answer *a); /* NULL: forgotten */
	void *arg;

	struct mail mail;      /* there and back */
	atomic_bool forgotten;

	/* the question */
	char *entry, *user, *query; /* owns */
	usec_t most;
	size_t rows_most;
	int moves;

	/* at home */
	struct list link;      /* in worker->surveys */
	struct worker *worker;
	struct pool *pool;     /* borrows, counted by pool_client_add */
	struct waiter waiter;
	struct server *server; /* borrows, while ACTIVE for us */
	struct asker as;
	struct timer timer;
	struct later parting;  /* a server that is not needed any more goes back by itself, not from within its grant */
	usec_t until;
	int readies;           /* ReadyForQuery still to come */
	bool right_shape;      /* the RowDescription has two columns */

	/* the answer */
	struct buf rows;       /* owns: survey_row */
	size_t ignored;
	bool failed;
	struct err err;
};

static void survey_free(struct survey *v)
{
	mem_free(v->entry);
	mem_free(v->user);
	mem_free(v->query);
	buf_free(&v->rows);
	mem_free(v);
}

/* ---- the answer ---- */

static void answer_read(struct loop *here, struct mail *m)
{
	struct survey *v = owner_of(m, struct survey, mail);
	struct survey_answer a = {
		.rows = (const struct survey_row *)v->rows.p, .n = v->rows.len / sizeof(struct survey_row), .ignored = v->ignored, .err = v->failed ? &v->err : NULL,
	};

	(void)here;
	if (v->done)
		v->done(v->arg, &a);
	survey_free(v);
}

static void reply(struct survey *v)
{
	list_take(&v->link);
	timer_stop(&v->timer);
	later_stop(&v->parting);
	pool_give_up(&v->waiter);
	if (v->pool)
		pool_client_drop(v->pool);
	v->pool = NULL;
	v->server = NULL;
	v->mail.read = answer_read;
	mail_send(v->asker, &v->mail);
}

static void fail(struct survey *v, const struct err *err)
{
	if (!v->failed)
		v->err = *err;
	v->failed = true;
	reply(v);
}

static void fail_and_close(struct survey *v, const char *text)
{
	struct server *s = v->server;
	struct err err;

	err_set(&err, SQLSTATE_CONFIG, "%s", text);
	s->asker = NULL;
	s->user = NULL;
	fail(v, &err);
	server_close(s, NULL, "hot_storage_query failed");
}

/* ---- the rows ---- */

/* Whole numbers, and PostgreSQL's numeric. */
static bool read_bytes_stored(struct span text, double *out)
{
	char copy[64], *end;

	if (text.len == 0 || text.len >= sizeof(copy))
		return false;
	memcpy(copy, text.p, text.len);
	copy[text.len] = '\0';
	if (strspn(copy, "0123456789.") != text.len)
		return false;
	*out = strtod(copy, &end);
	return !*end && *out <= BYTES_MOST;
}

/* One column; false: NULL, or a bad length, which the reader remembers. */
static bool read_column(struct reader *r, struct span *value)
{
	uint32_t len = read_u32(r);

	if (len == UINT32_MAX)
		return false;
	*value = read_bytes(r, len);
	return !r->bad;
}

static const char *read_row(struct survey *v, struct reader *r)
{
	struct span org = {0}, bytes = {0};
	struct survey_row row = {0};

	if (!v->right_shape || read_u16(r) != 2)
		return "unexpected row";
	bool has_org = read_column(r, &org);
	bool has_bytes = read_column(r, &bytes);
	if (!reader_done(r))
		return "malformed row";
	if (!has_org || !has_bytes)
		return NULL;
	if (!org_id_make((const char *)org.p, org.len, row.org) || !read_bytes_stored(bytes, &row.bytes))
		v->ignored++;
	else if (v->rows.len / sizeof(row) >= v->rows_most)
		return "it gives more rows than max_orgs";
	else
		buf_add(&v->rows, &row, sizeof(row));
	return NULL;
}

static const char *read_shape(struct survey *v, struct reader *r)
{
	if (read_u16(r) != 2)
		return "it must give two columns, org and bytes";
	v->right_shape = true;
	return NULL;
}

/* The first error counts; what is still to come is awaited. */
static void read_error(struct survey *v, struct span body)
{
	struct report report;

	if (v->failed)
		return;
	v->failed = true;
	if (report_read(body.p, body.len, &report))
		err_set(&v->err, report.sqlstate, "%s", report.text);
	else
		err_set(&v->err, SQLSTATE_CONFIG, "malformed error");
}

static const char *read_ready(struct survey *v, struct reader *r)
{
	v->server->status = (char)read_u8(r);
	if (!reader_done(r))
		return "malformed ReadyForQuery";
	v->readies--;
	return v->readies || v->server->status == 'I' ? NULL : "the server was left in a transaction";
}

/* One message, all of it there. NULL, or what is wrong with it. */
static const char *read_message(struct survey *v, uint8_t type, struct span body)
{
	struct reader r = reader_of(body.p, body.len);
	bool own = v->readies == 2; /* of the operator's query, not of what stands around it */

	switch (type) {
	case 'S':
		server_parameter(v->server, body.p, body.len);
		return NULL;
	case 'N': case 'A': case 'C': case 'I':
		return NULL;
	case 'E':
		read_error(v, body);
		return v->readies > QUERIES ? "the server could not be reset" : NULL;
	case 'T':
		return own ? read_shape(v, &r) : NULL; /* a reset query may well be a SELECT */
	case 'D':
		return own ? read_row(v, &r) : NULL;
	case 'Z':
		return read_ready(v, &r);
	default:
		return "unexpected message";
	}
}

static void finish(struct survey *v)
{
	struct server *s = v->server;

	if (!v->failed && !v->right_shape && v->readies == 0)
		v->failed = !err_set(&v->err, SQLSTATE_CONFIG, "it gives no rows");
	s->asker = NULL;
	s->user = NULL;
	reply(v);
	server_release(s);
}

static size_t survey_bytes_came(struct server *s, const uint8_t *p, size_t len)
{
	struct survey *v = owner_of(s->asker, struct survey, as);
	const char *wrong = NULL;
	size_t used = 0;
	struct frame f;
	enum parse parse;

	while (!wrong && v->readies && (parse = frame_peek(p + used, len - used, &f)) != PARSE_MORE) {
		if (parse == PARSE_BAD || f.size > MESSAGE_MOST) {
			wrong = "message of a bad length";
		} else if (f.have < f.size) {
			break;
		} else {
			wrong = read_message(v, f.type, (struct span){p + used + FRAME_HEAD, f.size - FRAME_HEAD});
			used += f.size;
		}
	}
	if (!wrong && !v->readies && used < len)
		wrong = "more than was asked for";
	if (wrong)
		fail_and_close(v, wrong);
	else if (!v->readies)
		finish(v);
	return used;
}

static void survey_lost(struct server *s, const struct err *why)
{
	struct survey *v = owner_of(s->asker, struct survey, as);
	struct err err;

	if (!why)
		err_set(&err, SQLSTATE_SERVER_LOST, "server lost");
	fail(v, why ? why : &err);
}

/* ---- the query ---- */

static void send_question(struct survey *v)
{
	struct server *s = v->server;
	struct buf b = {0};
	char limit[64];

	snprintf(limit, sizeof(limit), "SET LOCAL statement_timeout = %lld", (long long)(v->most / USEC_PER_MSEC));
	v->readies = clear_ahead(s, v->worker->setup, &b) + QUERIES;
	msg_query(&b, "BEGIN READ ONLY");
	msg_query(&b, limit);
	msg_query(&b, v->query);
	msg_query(&b, "COMMIT");
	stream_send(&s->stream, b.p, b.len);
	buf_free(&b);
}

static void granted(struct waiter *w, struct server *s)
{
	struct survey *v = owner_of(w, struct survey, waiter);

	v->server = s;
	s->asker = &v->as;
	v->until = loop_now(v->worker->loop) + v->most + 10 * LOOK_EVERY; /* PostgreSQL's own limit comes first */
	if (atomic_load(&v->forgotten))
		loop_later(v->worker->loop, &v->parting);
	else
		send_question(v);
}

static void part(struct later *w)
{
	finish(owner_of(w, struct survey, parting));
}

static void refused(struct waiter *w, const struct err *err)
{
	fail(owner_of(w, struct survey, waiter), err);
}

/* Nobody is to wait for a survey: not a PAUSE, not the end of the process. */
static bool is_in_the_way(const struct survey *v)
{
	return pool_is_held(v->pool) || atomic_load(&process_stage) == STAGE_WAIT_SERVERS || atomic_load(&v->forgotten);
}

static void look(struct timer *t)
{
	struct survey *v = owner_of(t, struct survey, timer);
	const char *text = is_in_the_way(v) ? "it was in the way of a pause or of the end" : "it took too long";
	struct err err;

	if (!is_in_the_way(v) && loop_now(v->worker->loop) < v->until) {
		timer_in(t, LOOK_EVERY);
		return;
	}
	if (v->server) {
		fail_and_close(v, text);
		return;
	}
	err_set(&err, SQLSTATE_CANCELED, "it waited too long for a server");
	fail(v, &err);
}

/* ---- at home ---- */

static void join_pool(struct survey *v, const struct conf_entry *e)
{
	struct server *s;
	struct err err;

	v->pool = lane_pool(worker_lane(v->worker, e->cluster), e, v->user, "default");
	pool_client_add(v->pool);
	list_push(&v->worker->surveys, &v->link);
	v->waiter.fresh = true;
	v->waiter.granted = granted;
	v->waiter.refused = refused;
	v->waiter.user = v;
	v->as = (struct asker){.bytes = survey_bytes_came, .lost = survey_lost};
	v->until = loop_now(v->worker->loop) + v->most;
	timer_in(&v->timer, LOOK_EVERY);
	switch (pool_take(v->pool, &v->waiter, &s, &err)) {
	case TAKE_GRANTED:
		granted(&v->waiter, s);
		break;
	case TAKE_WAIT:
		break;
	case TAKE_REFUSED:
		fail(v, &err);
		break;
	}
}

/* In the thread of what was the entry's home when the mail was sent. */
static void question_read(struct loop *here, struct mail *m)
{
	struct survey *v = owner_of(m, struct survey, mail);
	const struct conf_entry *e;
	struct err err;

	v->worker = worker_of(here);
	v->moves++;
	timer_init(&v->timer, here, look);
	later_init(&v->parting, part);
	list_init(&v->waiter.link);
	list_init(&v->link);
	e = v->worker->loop ? conf_entry(v->worker->setup->conf, v->entry) : NULL; /* no loop: the process ends */
	if (!e || v->moves > MOVES_MOST) {
		err_set(&err, SQLSTATE_CONFIG, "there is no database entry \"%s\"", v->entry);
		fail(v, &err);
	} else if (home_of(e->cluster) != v->worker) {
		mail_send(home_of(e->cluster)->loop, &v->mail);
	} else {
		join_pool(v, e);
	}
}

void surveys_end(struct worker *home)
{
	struct list *link;

	while ((link = list_first(&home->surveys))) {
		struct survey *v = list_owner(link, struct survey, link);
		struct err err;
		err_set(&err, SQLSTATE_SHUTDOWN, "server shutting down");
		if (v->server)
			fail_and_close(v, err.text);
		else
			fail(v, &err);
	}
}

/* ---- the asker's side ---- */

struct survey *survey_start(struct loop *asker, const struct survey_question *q, void (*done)(void *arg, const struct survey_answer *a), void *arg)
{
	struct survey *v = mem_make(struct survey);

	verify_here(asker);
	v->asker = asker;
	v->done = done;
	v->arg = arg;
	v->entry = mem_str(q->entry);
	v->user = mem_str(q->user);
	v->query = mem_str(q->query);
	v->most = q->most;
	v->rows_most = q->rows_most;
	v->mail.read = question_read;
	mail_send(workers[0]->loop, &v->mail);
	return v;
}

void survey_forget(struct survey **at)
{
	struct survey *v = *at;

	*at = NULL;
	if (!v)
		return;
	v->done = NULL;
	atomic_store(&v->forgotten, true);
}
