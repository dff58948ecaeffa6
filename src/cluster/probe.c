/* See cluster/probe.h. A login as pool/login.c makes it, cut down to what a probe needs, and two questions:
 *
 *   DIAL -> TLS_ASKED -> TLS_SHAKE -> AUTH -> WELCOME -> ASKED_ROLE -> ASKED_IDENTITY -> told
 *
 * The role is asked for first: a replica that is promoted between the two says "replica, on the new timeline", which misleads
 * nobody. The other way round it would be a primary on the old one. */
#include "cluster/probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

#define MESSAGE_MOST (64 * 1024)
#define ANSWER_MOST (1024 * 1024) /* of all that a host says */

/* The user of probes that have none. Its login need not succeed. */
#define NOBODY "pgweir"

#define ROLE_QUERY "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.pg_last_wal_replay_lsn()"
#define IDENTITY_QUERY "IDENTIFY_SYSTEM" /* chapter 55.4 "Streaming Replication Protocol" */

enum step { STEP_DIAL, STEP_TLS_ASKED, STEP_TLS_SHAKE, STEP_AUTH, STEP_WELCOME, STEP_ROLE, STEP_IDENTITY, STEPS };

struct probe {
	struct loop *loop; /* borrows */
	probe_done_fn done;
	void *owner;       /* borrows */
	struct grave grave;
	struct timer timer;

	char *host, *user, *dbname; /* own */
	int port;
	struct secret password;
	struct tls_setup *tls; /* ref; NULL */
	bool tls_required;
	enum probe_depth depth; /* falls to ROLE when the identity is refused */

	enum step step;
	struct dial *dial;     /* owns, in DIAL */
	struct stream stream;  /* owns, from then on */
	struct login_auth auth;
	bool is_unix;
	bool had_row;          /* of the question at hand */
	size_t answered;       /* bytes */
	struct probe_result result;
};

static void dial(struct probe *p);

/* ---- the end ---- */

static void hang_up(struct probe *p)
{
	dial_stop(&p->dial);
	stream_close(&p->stream);
	login_auth_free(&p->auth);
}

static void release(struct grave *grave)
{
	struct probe *p = owner_of(grave, struct probe, grave);

	mem_free(p->host);
	mem_free(p->user);
	mem_free(p->dbname);
	secret_free(&p->password);
	tls_setup_drop(&p->tls);
	mem_free(p);
}

void probe_stop(struct probe **at)
{
	struct probe *p = *at;

	*at = NULL;
	if (!p)
		return;
	verify_here(p->loop);
	timer_stop(&p->timer);
	hang_up(p);
	loop_bury(p->loop, &p->grave, release);
}

/* Nothing of the probe is touched after it. */
static void tell(struct probe *p)
{
	probe_done_fn done = p->done;
	void *owner = p->owner;
	const struct probe_result result = p->result;

	probe_stop(&p);
	done(owner, &result);
}

static void down(struct probe *p, const char *sqlstate, const char *text)
{
	p->result.seen = (struct sighting){0};
	err_set(&p->result.seen.err, sqlstate, "%s", text);
	tell(p);
}

/* It answered, but not to the question. */
static void up_but(struct probe *p, const char *sqlstate, const char *text)
{
	p->result.seen.up = true;
	err_set(&p->result.seen.err, sqlstate, "%s", text);
	tell(p);
}

static void up(struct probe *p)
{
	static const uint8_t terminate[] = {'X', 0, 0, 0, 4};

	p->result.seen.up = true;
	if (p->step >= STEP_WELCOME)
		stream_send(&p->stream, terminate, sizeof(terminate));
	tell(p);
}

/* ---- what we say ---- */

static void send_wiped(struct probe *p, struct buf *b)
{
	if (b->len)
		stream_send(&p->stream, b->p, b->len);
	buf_wipe(b);
}

static void startup(struct probe *p)
{
	struct buf b = {0};

	msg_startup_head(&b, PROTOCOL_3_0);
	msg_pair(&b, "user", p->user);
	msg_pair(&b, "database", p->dbname);
	msg_pair(&b, "application_name", "pgweir probe");
	if (p->depth == PROBE_IDENTITY)
		msg_pair(&b, "replication", "database");
	msg_u8(&b, 0);
	msg_end(&b, 0);
	p->step = STEP_AUTH;
	send_wiped(p, &b);
}

static void ask(struct probe *p, enum step step, const char *query)
{
	struct buf b = {0};

	msg_query(&b, query);
	p->step = step;
	p->had_row = false;
	send_wiped(p, &b);
}

static void ask_tls(struct probe *p)
{
	struct buf b = {0};

	msg_ssl_request(&b);
	p->step = STEP_TLS_ASKED;
	send_wiped(p, &b);
}

/* ---- what they say. A function returns false when the probe is over: nothing of it may be touched then ---- */

static bool broken(struct probe *p, const char *what)
{
	char text[100];

	snprintf(text, sizeof(text), "broken %s message from the server", what);
	down(p, SQLSTATE_PROTOCOL, text);
	return false;
}

static bool take_auth(struct probe *p, struct span body)
{
	uint8_t end_point[64];
	struct credentials have = {.user = p->user, .secret = &p->password, .end_point = {end_point, 0}};
	struct buf answer = {0};
	struct err err = {0};
	enum auth_result result;

	if (p->depth == PROBE_ANSWER) {
		up(p);
		return false;
	}
	if (p->stream.tls)
		have.end_point.len = tls_end_point(p->stream.tls, end_point);
	result = login_auth_take(&p->auth, &have, body, &answer, &err);
	send_wiped(p, &answer);
	if (result == AUTH_RESULT_REFUSED) {
		up_but(p, err.sqlstate, err.text);
		return false;
	}
	if (result == AUTH_RESULT_OK)
		p->step = STEP_WELCOME;
	return true;
}

static bool take_ready(struct probe *p, struct span body)
{
	if (body.len != 1)
		return broken(p, "ReadyForQuery");
	if (p->step != STEP_WELCOME && !p->had_row)
		return broken(p, "answer to a probe"); /* it ended without a row, and without an error */
	switch (p->step) {
	case STEP_WELCOME:
		ask(p, STEP_ROLE, ROLE_QUERY);
		return true;
	case STEP_ROLE:
		if (p->depth == PROBE_IDENTITY) {
			ask(p, STEP_IDENTITY, IDENTITY_QUERY);
			return true;
		}
		break;
	default:
		break;
	}
	up(p);
	return false;
}

/* The server cannot take anybody now: class 57P, operator intervention. */
static bool is_not_now(const char *sqlstate)
{
	return strncmp(sqlstate, "57P", 3) == 0;
}

/* A walsender is not let in: no right to it, no line in pg_hba.conf, none free. A plain login may be. */
static bool is_no_walsender(const struct probe *p, const char *sqlstate)
{
	return p->depth == PROBE_IDENTITY && p->step <= STEP_WELCOME &&
	       (strcmp(sqlstate, "42501") == 0 || strcmp(sqlstate, "28000") == 0 || strcmp(sqlstate, "53300") == 0);
}

static bool take_error(struct probe *p, struct span body)
{
	struct report r;

	if (!report_read(body.p, body.len, &r))
		return broken(p, "ErrorResponse");
	if (is_no_walsender(p, r.sqlstate)) {
		err_set(&p->result.no_identity, r.sqlstate, "%s", r.text);
		hang_up(p);
		p->depth = PROBE_ROLE;
		dial(p);
		return false;
	}
	if (is_not_now(r.sqlstate))
		down(p, SQLSTATE_NOT_NOW, r.text);
	else if (p->step == STEP_IDENTITY) {
		err_set(&p->result.no_identity, r.sqlstate, "%s", r.text);
		up(p);
	} else if (p->depth == PROBE_ANSWER)
		up(p);
	else
		up_but(p, r.sqlstate, r.text);
	return false;
}

/* A field of a DataRow as text; "" for SQL null, or where the row is at its end. */
static const char *read_field(struct reader *r, char *out, size_t room)
{
	uint32_t len = read_u32(r);
	struct span text = {0};

	if (len != UINT32_MAX)
		text = read_bytes(r, len);
	if (r->bad || text.len >= room)
		text.len = 0;
	if (text.len)
		memcpy(out, text.p, text.len);
	out[text.len] = '\0';
	return out;
}

/* "16/B374D848" */
static bool read_position(const char *text, uint64_t *out)
{
	unsigned high, low;
	char end;

	if (strlen(text) > 17 || sscanf(text, "%8X/%8X%c", &high, &low, &end) != 2)
		return false;
	*out = (uint64_t)high << 32 | low;
	return true;
}

/* Unlike all other numbers it uses all of its 64 bits. */
static bool read_system_id(const char *text, uint64_t *out)
{
	char *end;

	if (!*text || strspn(text, "0123456789") != strlen(text))
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return !errno && *out;
}

static bool take_role(struct probe *p, struct reader *r)
{
	char in_recovery[2], replayed[24];

	read_field(r, in_recovery, sizeof(in_recovery));
	read_field(r, replayed, sizeof(replayed));
	if (!reader_done(r) || (in_recovery[0] != 't' && in_recovery[0] != 'f'))
		return broken(p, "DataRow");
	p->result.seen.role = in_recovery[0] == 't' ? ROLE_REPLICA : ROLE_PRIMARY;
	if (p->result.seen.role == ROLE_REPLICA && !read_position(replayed, &p->result.seen.position))
		p->result.seen.position = 0; /* it has replayed nothing yet */
	return true;
}

static bool take_identity(struct probe *p, struct reader *r)
{
	struct sighting *s = &p->result.seen;
	char system_id[24], timeline[16], position[24], dbname[2];
	int64_t number;
	uint64_t at;

	read_field(r, system_id, sizeof(system_id));
	read_field(r, timeline, sizeof(timeline));
	read_field(r, position, sizeof(position));
	read_field(r, dbname, sizeof(dbname));
	if (!reader_done(r) || !read_position(position, &at) || !num_i64(timeline, &number) || number < 1 || number > UINT32_MAX ||
	    !read_system_id(system_id, &s->system_id))
		return broken(p, "DataRow");
	s->timeline = (uint32_t)number;
	if (s->role == ROLE_PRIMARY || !s->position)
		s->position = at;
	return true;
}

static bool take_row(struct probe *p, struct span body)
{
	struct reader r = reader_of(body.p, body.len);
	int columns = read_u16(&r);

	if (p->had_row || columns != (p->step == STEP_ROLE ? 2 : 4))
		return broken(p, "DataRow");
	p->had_row = true;
	return p->step == STEP_ROLE ? take_role(p, &r) : take_identity(p, &r);
}

#define IN(step) (1u << STEP_##step)

/* What may come when. Without `take` the message is dropped. */
static const struct message {
	char type;
	unsigned steps;
	bool (*take)(struct probe *p, struct span body);
} messages[] = {
	{'R', IN(AUTH), take_auth},
	{'E', IN(AUTH) | IN(WELCOME) | IN(ROLE) | IN(IDENTITY), take_error},
	{'N', IN(AUTH) | IN(WELCOME) | IN(ROLE) | IN(IDENTITY), NULL},
	{'S', IN(WELCOME) | IN(ROLE) | IN(IDENTITY), NULL},
	{'K', IN(WELCOME), NULL},
	{'Z', IN(WELCOME) | IN(ROLE) | IN(IDENTITY), take_ready},
	{'T', IN(ROLE) | IN(IDENTITY), NULL},
	{'D', IN(ROLE) | IN(IDENTITY), take_row},
	{'C', IN(ROLE) | IN(IDENTITY), NULL},
};

static bool message_take(struct probe *p, const struct frame *f, const uint8_t *at)
{
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		const struct message *m = &messages[i];

		if ((uint8_t)m->type == f->type && m->steps & (1u << p->step))
			return !m->take || m->take(p, (struct span){at + FRAME_HEAD, f->size - FRAME_HEAD});
	}
	down(p, SQLSTATE_PROTOCOL, "unexpected message from the server");
	return false;
}

static bool tls_answer(struct probe *p, struct span in)
{
	struct err err = {0};

	if (in.len > 1 || stream_has_bytes(&p->stream))
		down(p, SQLSTATE_PROTOCOL, "received unencrypted data after SSL response"); /* CVE-2021-3935 */
	else if (in.p[0] == 'N' && !p->tls_required) {
		startup(p);
		return true;
	} else if (in.p[0] != 'S')
		down(p, SQLSTATE_SERVER_LOST, "server refused SSL");
	else {
		p->step = STEP_TLS_SHAKE;
		if (stream_start_tls(&p->stream, p->tls, p->host, &err))
			return true;
		down(p, SQLSTATE_SERVER_LOST, err.text);
	}
	return false;
}

/* ---- the stream's calls ---- */

static size_t on_bytes(struct stream *st, const uint8_t *at, size_t len)
{
	struct probe *p = st->owner;
	size_t used = 0;

	p->answered += len;
	if (p->step == STEP_TLS_ASKED) {
		tls_answer(p, (struct span){at, len});
		return len;
	}
	for (;;) {
		struct frame f;
		enum parse parse = frame_peek(at + used, len - used, &f);

		if (parse == PARSE_BAD || (parse == PARSE_OK && f.size > MESSAGE_MOST) || p->answered > ANSWER_MOST) {
			down(p, SQLSTATE_PROTOCOL, "bad message length from the server");
			return len;
		}
		if (parse == PARSE_MORE || f.have < f.size)
			return used;
		if (!message_take(p, &f, at + used))
			return len;
		used += f.size;
	}
}

static void on_ended(struct stream *st, const struct err *why)
{
	down(st->owner, SQLSTATE_SERVER_LOST, why->text[0] ? why->text : "server closed the connection");
}

static void on_secured(struct stream *st)
{
	startup(st->owner);
}

static const struct stream_calls calls = {.bytes = on_bytes, .ended = on_ended, .secured = on_secured};

/* ---- its life ---- */

static void on_dialled(void *owner, int fd, const struct addr *addr, const struct err *err)
{
	struct probe *p = owner;

	p->dial = NULL;
	if (fd < 0) {
		down(p, SQLSTATE_SERVER_LOST, err->text);
		return;
	}
	stream_open(&p->stream, p->loop, fd, &calls, p);
	if (p->tls && !addr_is_unix(addr))
		ask_tls(p);
	else
		startup(p);
}

static void dial(struct probe *p)
{
	p->step = STEP_DIAL;
	p->dial = dial_start(p->loop, &(struct dial_target){p->host, p->port}, 0, on_dialled, p);
}

static void on_timeout(struct timer *t)
{
	struct probe *p = owner_of(t, struct probe, timer);

	down(p, SQLSTATE_SERVER_LOST, "no answer in probe_timeout");
}

struct probe *probe_start(struct loop *l, const struct probe_want *w, probe_done_fn done, void *owner)
{
	struct probe *p = mem_make(struct probe);
	bool somebody = w->depth != PROBE_ANSWER;

	verify_here(l);
	p->loop = l;
	p->done = done;
	p->owner = owner;
	p->host = mem_str(w->host);
	p->port = w->port;
	p->user = mem_str(somebody ? w->user : NOBODY);
	p->dbname = mem_str(somebody ? w->dbname : "postgres");
	if (w->password)
		secret_copy(&p->password, w->password);
	p->tls = w->tls ? tls_setup_ref(w->tls) : NULL;
	p->tls_required = w->tls_required;
	p->depth = w->depth;
	p->stream.fd = -1;
	timer_init(&p->timer, l, on_timeout);
	timer_in(&p->timer, w->timeout);
	dial(p);
	return p;
}
