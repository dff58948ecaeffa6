/* auth_query (proxy/lookup.h). Two threads see a lookup, one after the other:
 *
 *   asker's loop     lookup_start ................................. done()
 *   the entry's home        begin, wait, ask, read the rows, let go
 *
 * with a mail each way; between them the asker touches nothing but `forgotten`.
 *
 * At home it is a waiter like any client, in the pool of (entry, auth_user, org "default"), so it counts in every limit. The
 * server may have been used by clients that log in as auth_user, so what they set is reset ahead of the query, and nothing
 * the new client said is applied (CVE-2025-12819): the text is the configuration's, the name a bound parameter.
 *
 *   [Query: reset] [Query: RESET ...] [Parse Bind Describe Execute Sync]       sent at once
 *          Z                Z                        Z                         so many are awaited
 *
 * The bytes are read here and not by the relay, and server->replies knows nothing of them: a server is given back only
 * after the last ReadyForQuery with nothing behind it, and closed after anything else. */
#include "proxy/lookup.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
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

#define MESSAGE_MOST (1024 * 1024) /* of a row or an error; more is not a secret */
#define MOVES_MOST 3               /* reloads may move an entry while the mail is under way */

struct lookup {
	/* the asker's, not touched at home */
	struct client *client; /* borrows; NULL: forgotten */
	struct loop *asker_loop;
	lookup_done_fn done;

	struct mail mail;          /* there and back */
	atomic_bool forgotten;     /* nobody waits for the answer: do not bother */

	/* the question */
	char *entry, *auth_user, *auth_query, *user; /* owns */
	bool other_entry;          /* entry is auth_dbname's, not what the client asked for */
	usec_t time_limit;         /* 0: none */
	int moves;

	/* at home */
	struct worker *worker;
	struct pool *pool;         /* borrows, counted by pool_client_add */
	struct waiter waiter;
	struct server *server;     /* borrows, while ACTIVE for us */
	struct asker asker;
	struct timer timer;
	struct later parting;      /* a server that is not needed any more goes back by itself, not from within its grant */
	struct list link;          /* in a crowd's waiting, or in another lookup's followers */
	struct list followers;     /* lookups that share our answer: they came before we asked */
	int readies;               /* ReadyForQuery still to come */
	bool right_shape;          /* the RowDescription has two columns */
	bool has_row;

	/* the answer */
	enum lookup_result result;
	struct secret secret;
	struct err err;
};

static void lookup_free(struct lookup *l)
{
	secret_free(&l->secret);
	mem_free(l->entry);
	mem_free(l->auth_user);
	mem_free(l->auth_query);
	mem_free(l->user);
	mem_free(l);
}

/* ---- the answer ---- */

static void answer_read(struct loop *here, struct mail *m)
{
	struct lookup *l = owner_of(m, struct lookup, mail);

	(void)here;
	if (l->client)
		l->done(l->client, l->result, &l->secret, &l->err);
	lookup_free(l);
}

static void let_go(struct lookup *l)
{
	list_take(&l->link);
	timer_stop(&l->timer);
	later_stop(&l->parting);
	pool_give_up(&l->waiter);
	if (l->pool)
		pool_client_drop(l->pool);
	l->pool = NULL;
	l->server = NULL;
}

static void reply(struct lookup *l)
{
	struct list *link;

	while ((link = list_first(&l->followers))) {
		struct lookup *other = list_owner(link, struct lookup, link);
		other->result = l->result;
		other->err = l->err;
		secret_copy(&other->secret, &l->secret);
		reply(other);
	}
	let_go(l);
	l->mail.read = answer_read;
	mail_send(l->asker_loop, &l->mail);
}

static void fail(struct lookup *l, const struct err *err)
{
	l->result = LOOKUP_FAILED;
	l->err = *err;
	reply(l);
}

/* ---- the rows ---- */

/* The server said something that we cannot make sense of, or that is a mistake in the configuration. */
static void fail_and_close(struct lookup *l, const char *text)
{
	struct server *s = l->server;
	struct err err;

	err_set(&err, SQLSTATE_CONFIG, "auth_query failed: %s", text);
	s->asker = NULL;
	s->user = NULL;
	fail(l, &err);
	server_close(s, NULL, "auth_query failed");
}

static const char *read_shape(struct lookup *l, struct reader *r)
{
	if (read_u16(r) != 2)
		return "it must give two columns, name and secret";
	l->right_shape = true;
	return NULL;
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

/* The first row counts. A row without a name is no user: a function with OUT parameters gives one for nobody. One without a
 * secret is a user whom no password lets in. */
static const char *read_row(struct lookup *l, struct reader *r)
{
	struct span name = {0}, secret = {0};

	if (!l->right_shape || read_u16(r) != 2)
		return "unexpected row";
	bool named = read_column(r, &name);
	bool secretive = read_column(r, &secret);
	if (!reader_done(r))
		return "malformed row";
	if (l->has_row || !named)
		return NULL;
	l->has_row = true;
	l->result = LOOKUP_FOUND;
	if (secretive)
		secret_set(&l->secret, secret.p, secret.len);
	return NULL;
}

/* The first error counts; the ReadyForQuery behind it is still awaited. One that ends the connection is the server's and not
 * the query's, so it is told as it is. */
static void read_error(struct lookup *l, struct span body)
{
	struct report report;

	if (l->result == LOOKUP_FAILED)
		return;
	l->result = LOOKUP_FAILED;
	if (!report_read(body.p, body.len, &report))
		err_set(&l->err, SQLSTATE_CONFIG, "auth_query failed: malformed error");
	else if (strcmp(report.severity, "FATAL") == 0 || strcmp(report.severity, "PANIC") == 0)
		err_set(&l->err, report.sqlstate[0] ? report.sqlstate : SQLSTATE_SERVER_LOST, "%s", report.text);
	else
		err_set(&l->err, SQLSTATE_CONFIG, "auth_query failed: %s", report.text);
}

static const char *read_ready(struct lookup *l, struct reader *r)
{
	l->server->status = (char)read_u8(r);
	if (!reader_done(r) || l->server->status != 'I')
		return "the server was left in a transaction";
	l->readies--;
	return NULL;
}

/* One message, all of it there. NULL, or what is wrong with it. */
static const char *read_message(struct lookup *l, uint8_t type, struct span body)
{
	struct reader r = reader_of(body.p, body.len);
	bool own = l->readies == 1; /* of the query itself, not of what goes ahead of it */

	switch (type) {
	case 'S':
		server_parameter(l->server, body.p, body.len);
		return NULL;
	case 'N': case 'A': case 'C': case '1': case '2': case 'I':
		return NULL;
	case 'E':
		read_error(l, body);
		return own ? NULL : "the server could not be reset";
	case 'T':
		return own ? read_shape(l, &r) : NULL; /* a reset query may well be a SELECT */
	case 'D':
		return own ? read_row(l, &r) : NULL;
	case 'n':
		return "it gives no rows";
	case 'Z':
		return read_ready(l, &r);
	default:
		return "unexpected message";
	}
}

static void finish(struct lookup *l)
{
	struct server *s = l->server;

	s->asker = NULL;
	s->user = NULL;
	reply(l);
	server_release(s);
}

static size_t lookup_bytes(struct server *s, const uint8_t *p, size_t len)
{
	struct lookup *l = owner_of(s->asker, struct lookup, asker);
	const char *wrong = NULL;
	size_t used = 0;
	struct frame f;
	enum parse parse;

	while (!wrong && l->readies && (parse = frame_peek(p + used, len - used, &f)) != PARSE_MORE) {
		if (parse == PARSE_BAD || f.size > MESSAGE_MOST) {
			wrong = "message of a bad length";
		} else if (f.have < f.size) {
			break;
		} else {
			wrong = read_message(l, f.type, (struct span){p + used + FRAME_HEAD, f.size - FRAME_HEAD});
			used += f.size;
		}
	}
	if (!wrong && !l->readies && used < len)
		wrong = "more than was asked for";
	if (wrong)
		fail_and_close(l, wrong);
	else if (!l->readies)
		finish(l);
	return used;
}

static void lookup_lost(struct server *s, const struct err *why)
{
	struct lookup *l = owner_of(s->asker, struct lookup, asker);
	struct err err = {0};

	if (l->result == LOOKUP_FAILED)
		err = l->err; /* the server said why ahead of it */
	else if (why)
		err = *why;
	else
		err_set(&err, SQLSTATE_SERVER_LOST, "server lost");
	fail(l, &err);
}

/* ---- the query ---- */

/* Parse, Bind, Describe, Execute, Sync, all unnamed: chapter 55.7. The parameter's type is left to the server. */
static void add_question(struct lookup *l, struct buf *b)
{
	const char *user = l->user;

	msg_parse_sql(b, "", l->auth_query);
	msg_bind(b, "", "", &user, 1);
	msg_object(b, 'D', 'P', "");
	msg_execute(b, "");
	msg_empty(b, 'S');
	l->readies++;
}

static void granted(struct waiter *w, struct server *s)
{
	struct lookup *l = owner_of(w, struct lookup, waiter);
	struct buf b = {0};

	l->server = s;
	s->asker = &l->asker;
	if (atomic_load(&l->forgotten) && list_empty(&l->followers)) {
		loop_later(l->worker->loop, &l->parting);
		return;
	}
	l->readies += clear_ahead(s, l->worker->setup, &b);
	add_question(l, &b);
	stream_send(&s->stream, b.p, b.len);
	buf_free(&b);
}

static void part(struct later *w)
{
	finish(owner_of(w, struct lookup, parting));
}

static void refused(struct waiter *w, const struct err *err)
{
	fail(owner_of(w, struct lookup, waiter), err);
}

static void too_late(struct timer *t)
{
	struct lookup *l = owner_of(t, struct lookup, timer);
	struct err err;

	if (l->server) {
		fail_and_close(l, "no answer in client_login_timeout");
		return;
	}
	err_set(&err, SQLSTATE_CANCELED, "query_wait_timeout");
	fail(l, &err);
}

/* ---- users whose logins fail ----
 *
 * Wrong passwords must not become a load on PostgreSQL. A user who failed lately has a crowd at the entry's home, for as long as its
 * last lookup is younger than a turn: logins that come meanwhile wait there, and the first of them asks for all at the next turn.
 * Their answer is never older than their question. */

#define TURN (USEC_PER_SEC / LOOKUPS_PER_SEC)
#define REMEMBER (2 * USEC_PER_SEC)
#define FAILED_SLOTS 4096 /* users that share a slot are slowed together, by a turn */

static _Atomic(usec_t) failed_at[FAILED_SLOTS];

struct crowd {
	struct list link;    /* in worker->crowds */
	struct pool *pool;   /* borrows: only compared */
	char *user, *auth_query; /* owns */
	struct list waiting; /* lookups */
	struct timer turn;
};

static _Atomic(usec_t) *failed_slot(const char *user)
{
	return &failed_at[hash_bytes(user, strlen(user)) % FAILED_SLOTS];
}

void lookup_login_failed(const char *user)
{
	atomic_store(failed_slot(user), clock_now());
}

static bool failed_lately(const struct lookup *l)
{
	usec_t at = atomic_load(failed_slot(l->user));

	return at && clock_now() - at < REMEMBER;
}

static void crowd_free(struct crowd *w)
{
	timer_stop(&w->turn);
	list_take(&w->link);
	mem_free(w->user);
	mem_free(w->auth_query);
	mem_free(w);
}

static struct crowd *crowd_of(const struct lookup *l)
{
	list_each(at, &l->worker->crowds) {
		struct crowd *w = list_owner(at, struct crowd, link);
		if (w->pool == l->pool && strcmp(w->user, l->user) == 0 && strcmp(w->auth_query, l->auth_query) == 0)
			return w;
	}
	return NULL;
}

static void take(struct lookup *l);

static void crowd_turn(struct timer *t)
{
	struct crowd *w = owner_of(t, struct crowd, turn);
	struct list *first = list_first(&w->waiting);

	if (!first) {
		crowd_free(w);
		return;
	}
	struct lookup *l = list_owner(first, struct lookup, link);
	list_take(first);
	list_take_all(&l->followers, &w->waiting);
	timer_in(&w->turn, TURN);
	take(l);
}

static void crowd_new(struct lookup *l)
{
	struct crowd *w = mem_make(struct crowd);

	w->pool = l->pool;
	w->user = mem_str(l->user);
	w->auth_query = mem_str(l->auth_query);
	list_init(&w->waiting);
	list_push(&l->worker->crowds, &w->link);
	timer_init(&w->turn, l->worker->loop, crowd_turn);
	timer_in(&w->turn, TURN);
}

void lookup_crowds_free(struct worker *home)
{
	struct list *link, *waiting;
	struct err err;

	err_set(&err, "57P01", "server shutting down");
	while ((link = list_first(&home->crowds))) {
		struct crowd *w = list_owner(link, struct crowd, link);
		while ((waiting = list_first(&w->waiting)))
			fail(list_owner(waiting, struct lookup, link), &err);
		crowd_free(w);
	}
}

/* True: its turn comes later. */
static bool waits_its_turn(struct lookup *l)
{
	struct crowd *w = crowd_of(l);

	if (w)
		list_push(&w->waiting, &l->link);
	else if (failed_lately(l))
		crowd_new(l);
	return w;
}

/* ---- at home ---- */

static void take(struct lookup *l)
{
	struct server *s;
	struct err err;

	switch (pool_take(l->pool, &l->waiter, &s, &err)) {
	case TAKE_GRANTED:
		granted(&l->waiter, s);
		break;
	case TAKE_WAIT:
		break;
	case TAKE_REFUSED:
		fail(l, &err);
		break;
	}
}

static void join_pool(struct lookup *l, const struct conf_entry *e)
{
	l->pool = lane_pool(worker_lane(l->worker, e->cluster), e, l->auth_user, "default");
	pool_client_add(l->pool);
	list_init(&l->waiter.link);
	l->waiter.fresh = true;
	l->waiter.granted = granted;
	l->waiter.refused = refused;
	l->waiter.user = l;
	l->asker = (struct asker){.bytes = lookup_bytes, .lost = lookup_lost};
	if (l->time_limit)
		timer_in(&l->timer, l->time_limit);
	if (!waits_its_turn(l))
		take(l);
}

static bool entry_serves(const struct lookup *l, const struct conf_entry *e, struct err *err)
{
	if (!e)
		return err_set(err, SQLSTATE_CONFIG, "authentication database \"%s\" is not configured", l->entry);
	if (l->other_entry && atomic_load(&tally_entry(e->name)->disabled))
		return err_set(err, SQLSTATE_NOT_NOW, "authentication database \"%s\" is disabled", l->entry);
	if (l->moves > MOVES_MOST)
		return err_set(err, SQLSTATE_CONFIG, "database \"%s\" moves from worker to worker", l->entry);
	return true;
}

/* In the thread of what was the entry's home when the mail was sent. */
static void question_read(struct loop *here, struct mail *m)
{
	struct lookup *l = owner_of(m, struct lookup, mail);
	struct err err;

	l->worker = worker_of(here);
	l->moves++;
	timer_init(&l->timer, here, too_late);
	later_init(&l->parting, part);
	list_init(&l->waiter.link);
	list_init(&l->link);
	list_init(&l->followers);

	const struct conf *conf = l->worker->setup->conf;
	const struct conf_entry *line = conf_entry(conf, l->entry);
	struct conf_entry *made = line ? NULL : conf_entry_make(conf, l->entry);
	const struct conf_entry *e = line ? line : made;
	if (!entry_serves(l, e, &err))
		fail(l, &err);
	else if (atomic_load(&l->forgotten))
		reply(l);
	else if (home_of(e->cluster) != l->worker)
		mail_send(home_of(e->cluster)->loop, &l->mail);
	else
		join_pool(l, e);
	conf_entry_free(&made);
}

/* ---- the asker's side ---- */

static struct worker *home_by_name(const struct conf *conf, const char *name)
{
	const struct conf_entry *e = conf_entry(conf, name);
	struct conf_entry *made = e ? NULL : conf_entry_make(conf, name);
	struct worker *home = e || made ? home_of(e ? e->cluster : made->cluster) : workers[0]; /* anybody can say that there is none */

	conf_entry_free(&made);
	return home;
}

static const char *or_global(const char *own, const char *global)
{
	return own ? own : global;
}

struct lookup *lookup_start(struct client *c, const struct conf_entry *entry, const char *user, lookup_done_fn done)
{
	const struct conf *conf = c->worker->setup->conf;
	const char *dbname = or_global(entry->auth_dbname, conf->set.auth_dbname);
	struct lookup *l = mem_make(struct lookup);

	l->client = c;
	l->asker_loop = c->worker->loop;
	l->done = done;
	l->other_entry = dbname[0] != 0;
	l->entry = mem_str(l->other_entry ? dbname : entry->name);
	l->auth_user = mem_str(or_global(entry->auth_user, conf->set.auth_user));
	l->auth_query = mem_str(or_global(entry->auth_query, conf->set.auth_query));
	l->user = mem_str(user);
	l->time_limit = conf->set.client_login_timeout;
	l->result = LOOKUP_UNKNOWN;
	l->mail.read = question_read;
	mail_send(home_by_name(conf, l->entry)->loop, &l->mail);
	return l;
}

void lookup_forget(struct lookup **at)
{
	struct lookup *l = *at;

	*at = NULL;
	l->client = NULL;
	atomic_store(&l->forgotten, true);
}
