/* See cluster/store.h.
 *
 *   WAIT -> DIAL -> TLS_ASKED -> TLS_SHAKE -> AUTH -> WELCOME -> LISTEN -> IDLE <-> ASKED
 *
 * and back to WAIT whenever it is lost. The statements go by the extended protocol (chapter 55.2.3), with their parameters as text, so that
 * nothing is ever quoted. */
#include "cluster/store.h"

#include <stdio.h>
#include <string.h>

#include "auth/login_auth.h"
#include "base/mem.h"
#include "net/dial.h"
#include "net/stream.h"
#include "net/tls.h"
#include "wire/frame.h"
#include "wire/reader.h"
#include "wire/report.h"
#include "wire/sqlstate.h"
#include "wire/startup.h"
#include "wire/writer.h"

#define MESSAGE_MOST (1024 * 1024)
#define BACK_OFF_LEAST (50 * USEC_PER_MSEC)
#define BACK_OFF_MOST USEC_PER_SEC

enum step { STEP_WAIT, STEP_DIAL, STEP_TLS_ASKED, STEP_TLS_SHAKE, STEP_AUTH, STEP_WELCOME, STEP_LISTEN, STEP_IDLE, STEP_ASKED };

struct store {
	struct loop *loop; /* borrows */
	const struct store_calls *calls;
	void *owner;       /* borrows */
	struct store_place at; /* strings borrowed; tls is a ref */

	enum step step;
	bool closed;           /* by store_close: what is left is the grave's */
	usec_t back_off;
	struct dial *dial;     /* owns, in DIAL */
	struct stream stream;  /* owns, behind DIAL */
	struct login_auth auth;
	struct timer timer;    /* WAIT: dials; else: its patience is over */
	struct grave grave;

	store_done_fn done;    /* ASKED */
	bool has_row, refused;
	struct buf row;        /* fields with their NULs */
	int n_fields;
	struct err err;        /* of the statement */
};

static void dial(struct store *s);

/* ---- the end of a session, and of a statement ---- */

static void answer(struct store *s, const struct err *err, bool lost)
{
	struct store_answer a = {.err = err, .lost = lost};
	store_done_fn done = s->done;
	struct buf row = s->row;
	const char *at = (const char *)row.p;

	for (; !err && a.n < s->n_fields; a.n++) {
		a.field[a.n] = at;
		at += strlen(at) + 1;
	}
	s->done = NULL;
	s->row = (struct buf){0};
	s->n_fields = 0;
	done(s->owner, &a);
	buf_free(&row);
}

static void hang_up(struct store *s)
{
	dial_stop(&s->dial);
	stream_close(&s->stream);
	login_auth_free(&s->auth);
	s->auth = (struct login_auth){0};
	s->step = STEP_WAIT;
	timer_stop(&s->timer);
}

static void lose(struct store *s, const char *sqlstate, const char *text)
{
	struct err err;

	err_set(&err, sqlstate, "%s", text);
	hang_up(s);
	timer_in(&s->timer, s->back_off);
	s->back_off = s->back_off * 2 < BACK_OFF_MOST ? s->back_off * 2 : BACK_OFF_MOST;
	if (s->done)
		answer(s, &err, true);
	if (!s->closed)
		s->calls->down(s->owner, &err);
}

/* ---- what we say ---- */

static void send_wiped(struct store *s, struct buf *b)
{
	if (b->len)
		stream_send(&s->stream, b->p, b->len);
	buf_wipe(b);
}

static void startup(struct store *s)
{
	struct buf b = {0};

	msg_startup_head(&b, PROTOCOL_3_0);
	msg_pair(&b, "user", s->at.user);
	msg_pair(&b, "database", s->at.dbname);
	msg_pair(&b, "application_name", "pgweir");
	msg_pair(&b, "client_encoding", "UTF8");
	msg_pair(&b, "default_transaction_isolation", "read committed"); /* anything else the store refuses */
	msg_u8(&b, 0);
	msg_end(&b, 0);
	s->step = STEP_AUTH;
	send_wiped(s, &b);
}

static void ask_tls(struct store *s)
{
	struct buf b = {0};

	msg_ssl_request(&b);
	s->step = STEP_TLS_ASKED;
	send_wiped(s, &b);
}

/* ---- what the server says. False: the session is over ---- */

static bool broken(struct store *s, const char *what)
{
	char text[100];

	snprintf(text, sizeof(text), "broken %s message from the server", what);
	lose(s, SQLSTATE_PROTOCOL, text);
	return false;
}

static bool take_auth(struct store *s, struct span body)
{
	uint8_t end_point[64];
	struct credentials have = {.user = s->at.user, .secret = s->at.password, .end_point = {end_point, 0}};
	struct buf out = {0};
	struct err err = {0};
	enum auth_result result;

	if (s->stream.tls)
		have.end_point.len = tls_end_point(s->stream.tls, end_point);
	result = login_auth_take(&s->auth, &have, body, &out, &err);
	send_wiped(s, &out);
	if (result == AUTH_RESULT_REFUSED) {
		lose(s, err.sqlstate, err.text);
		return false;
	}
	if (result == AUTH_RESULT_OK)
		s->step = STEP_WELCOME;
	return true;
}

static void become_idle(struct store *s)
{
	s->step = STEP_IDLE;
	s->back_off = BACK_OFF_LEAST;
	timer_stop(&s->timer);
}

static bool take_ready(struct store *s, struct span body)
{
	struct buf b = {0};
	struct err err = s->err;

	if (body.len != 1)
		return broken(s, "ReadyForQuery");
	switch (s->step) {
	case STEP_WELCOME:
		msg_query(&b, "LISTEN pgweir");
		s->step = STEP_LISTEN;
		send_wiped(s, &b);
		return true;
	case STEP_LISTEN:
		become_idle(s);
		s->calls->up(s->owner);
		return !s->closed;
	default:
		if (!s->refused && !s->has_row)
			return broken(s, "answer"); /* it ended without a row, and without an error */
		become_idle(s);
		answer(s, s->refused ? &err : NULL, false);
		return !s->closed;
	}
}

static bool take_error(struct store *s, struct span body)
{
	struct report r;

	if (!report_read(body.p, body.len, &r))
		return broken(s, "ErrorResponse");
	if (s->step == STEP_ASKED && strcmp(r.severity, "FATAL") != 0) {
		err_set(&s->err, r.sqlstate, "%s", r.text);
		s->refused = true;
		return true;
	}
	lose(s, r.sqlstate, r.text);
	return false;
}

static bool take_row(struct store *s, struct span body)
{
	struct reader r = reader_of(body.p, body.len);
	int columns = read_u16(&r);

	if (s->has_row || columns > STORE_FIELDS_MOST)
		return broken(s, "DataRow");
	for (int i = 0; i < columns && !r.bad; i++) {
		uint32_t len = read_u32(&r);
		struct span text = {0};

		if (len != UINT32_MAX)
			text = read_bytes(&r, len);
		if (!r.bad && text.len && memchr(text.p, 0, text.len))
			r.bad = true;
		if (!r.bad && text.len)
			buf_add(&s->row, text.p, text.len);
		buf_add_u8(&s->row, 0);
	}
	if (!reader_done(&r))
		return broken(s, "DataRow");
	s->has_row = true;
	s->n_fields = columns;
	return true;
}

static bool take_notification(struct store *s, struct span body)
{
	(void)body;
	if (s->step == STEP_IDLE || s->step == STEP_ASKED)
		s->calls->hint(s->owner);
	return !s->closed;
}

#define IN(step) (1u << STEP_##step)
#define ANY (IN(AUTH) | IN(WELCOME) | IN(LISTEN) | IN(IDLE) | IN(ASKED))

/* What may come when. Without `take` the message is dropped. */
static const struct message {
	char type;
	unsigned steps;
	bool (*take)(struct store *s, struct span body);
} messages[] = {
	{'R', IN(AUTH), take_auth},
	{'E', ANY, take_error},
	{'N', ANY, NULL},
	{'S', ANY, NULL},
	{'K', IN(WELCOME), NULL},
	{'Z', IN(WELCOME) | IN(LISTEN) | IN(ASKED), take_ready},
	{'A', ANY, take_notification},
	{'C', IN(LISTEN) | IN(ASKED), NULL},
	{'1', IN(ASKED), NULL},
	{'2', IN(ASKED), NULL},
	{'D', IN(ASKED), take_row},
};

static bool message_take(struct store *s, const struct frame *f, const uint8_t *at)
{
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		const struct message *m = &messages[i];

		if ((uint8_t)m->type == f->type && m->steps & (1u << s->step))
			return !m->take || m->take(s, (struct span){at + FRAME_HEAD, f->size - FRAME_HEAD});
	}
	lose(s, SQLSTATE_PROTOCOL, "unexpected message from the server");
	return false;
}

static void tls_answer(struct store *s, struct span in)
{
	struct err err = {0};

	if (in.len > 1 || stream_has_bytes(&s->stream))
		lose(s, SQLSTATE_PROTOCOL, "received unencrypted data after SSL response"); /* CVE-2021-3935 */
	else if (in.p[0] == 'N' && !s->at.tls_required)
		startup(s);
	else if (in.p[0] != 'S')
		lose(s, SQLSTATE_SERVER_LOST, "server refused SSL");
	else {
		s->step = STEP_TLS_SHAKE;
		if (!stream_start_tls(&s->stream, s->at.tls, s->at.host, &err))
			lose(s, SQLSTATE_SERVER_LOST, err.text);
	}
}

static size_t on_bytes(struct stream *st, const uint8_t *at, size_t len)
{
	struct store *s = st->owner;
	size_t used = 0;

	if (s->step == STEP_TLS_ASKED) {
		tls_answer(s, (struct span){at, len});
		return len;
	}
	for (;;) {
		struct frame f;
		enum parse parse = frame_peek(at + used, len - used, &f);

		if (parse == PARSE_BAD || (parse == PARSE_OK && f.size > MESSAGE_MOST)) {
			lose(s, SQLSTATE_PROTOCOL, "bad message length from the server");
			return len;
		}
		if (parse == PARSE_MORE || f.have < f.size)
			return used;
		if (!message_take(s, &f, at + used))
			return len;
		used += f.size;
	}
}

static void on_ended(struct stream *st, const struct err *why)
{
	lose(st->owner, SQLSTATE_SERVER_LOST, why->text[0] ? why->text : "server closed the connection");
}

static void on_secured(struct stream *st)
{
	startup(st->owner);
}

static const struct stream_calls calls = {.bytes = on_bytes, .ended = on_ended, .secured = on_secured};

/* ---- its life ---- */

static void on_dialled(void *owner, int fd, const struct addr *addr, const struct err *err)
{
	struct store *s = owner;

	s->dial = NULL;
	if (fd < 0) {
		lose(s, SQLSTATE_SERVER_LOST, err->text);
		return;
	}
	stream_open(&s->stream, s->loop, fd, &calls, s);
	if (s->at.tls && !addr_is_unix(addr))
		ask_tls(s);
	else
		startup(s);
}

static void dial(struct store *s)
{
	s->step = STEP_DIAL;
	s->dial = dial_start(s->loop, &(struct dial_target){s->at.host, s->at.port}, 0, on_dialled, s);
	timer_in(&s->timer, s->at.patience);
}

static void on_timer(struct timer *t)
{
	struct store *s = owner_of(t, struct store, timer);

	if (s->step == STEP_WAIT)
		dial(s);
	else
		lose(s, SQLSTATE_SERVER_LOST, s->step == STEP_ASKED ? "no answer in time" : "no login in time");
}

static void place_set(struct store *s, const struct store_place *at)
{
	struct tls_setup *old = s->at.tls;

	s->at = *at;
	s->at.tls = at->tls ? tls_setup_ref(at->tls) : NULL;
	tls_setup_drop(&old);
}

struct store *store_open(struct loop *l, const struct store_place *at, const struct store_calls *of, void *owner)
{
	struct store *s = mem_make(struct store);

	verify_here(l);
	s->loop = l;
	s->calls = of;
	s->owner = owner;
	s->stream.fd = -1;
	s->back_off = BACK_OFF_LEAST;
	place_set(s, at);
	timer_init(&s->timer, l, on_timer);
	dial(s);
	return s;
}

void store_follow(struct store *s, const struct store_place *at)
{
	place_set(s, at);
}

static void release(struct grave *g)
{
	struct store *s = owner_of(g, struct store, grave);

	buf_free(&s->row);
	tls_setup_drop(&s->at.tls);
	mem_free(s);
}

void store_close(struct store **at)
{
	static const uint8_t terminate[] = {'X', 0, 0, 0, 4};
	struct store *s = *at;

	*at = NULL;
	if (!s)
		return;
	if (s->step == STEP_IDLE)
		stream_send(&s->stream, terminate, sizeof(terminate));
	s->closed = true;
	s->done = NULL;
	hang_up(s);
	loop_bury(s->loop, &s->grave, release);
}

bool store_is_idle(const struct store *s)
{
	return s->step == STEP_IDLE;
}

void store_ask(struct store *s, const char *statement, const char *const *params, int n, store_done_fn done)
{
	struct buf b = {0};

	verify(store_is_idle(s) && n <= STORE_PARAMS_MOST);
	s->step = STEP_ASKED;
	s->done = done;
	s->has_row = s->refused = false;
	s->row.len = 0;
	s->n_fields = 0;
	msg_parse_sql(&b, "", statement);
	msg_bind(&b, "", "", params, n);
	msg_execute(&b, "");
	msg_empty(&b, 'S');
	timer_in(&s->timer, s->at.patience);
	send_wiped(s, &b);
}
