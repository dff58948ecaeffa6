/* A server's login: an attempt per host, and within an attempt a table of steps.
 *
 *   DIAL --> TLS_ASKED --> TLS_SHAKE --> AUTH --> WELCOME --> QUERY --> server_ready
 *     \______________________________/^           \__________________/^
 *          no TLS, or the server has none           no connect_query
 *
 * Any failure ends the attempt; then the next host is tried, and only when all have failed server_failed is told, with
 * the words of a server where one has spoken: they say more than "connection refused" does. Where the server's answer
 * would be the same everywhere (wrong password, no such database), the others are not asked.
 *
 * The configuration may be replaced between any two events, so nothing of it is held but a copy of the hosts.
 *
 * server_ready and server_failed end with the login freed: whoever calls them returns at once. */
#include "pool/login.h"

#include <stdio.h>

#include "auth/login_auth.h"
#include "base/mem.h"
#include "cluster/fence.h"
#include "cluster/watch.h"
#include "net/listen.h"
#include "net/tls.h"
#include "pool/pool.h"
#include "pool/server_priv.h"
#include "wire/frame.h"
#include "wire/reader.h"
#include "wire/report.h"
#include "wire/sqlstate.h"
#include "wire/startup.h"
#include "wire/writer.h"

#define MESSAGE_MOST (64 * 1024)  /* of a message in a login */
#define WELCOME_MOST (256 * 1024) /* of all ParameterStatus together; PostgreSQL 17 sends less than 1 KiB */
#define UNIX_DIR "/var/run/postgresql"

enum login_step { STEP_DIAL, STEP_TLS_ASKED, STEP_TLS_SHAKE, STEP_AUTH, STEP_WELCOME, STEP_QUERY, LOGIN_STEPS };

struct login_host {
	char *host; /* owns; NULL: the default Unix socket directory */
	int port;
};

struct login {
	struct server *server; /* borrows: it has us in ->login */
	enum login_step step;
	struct later later; /* a failure found before login_begin has returned */

	struct login_host *hosts; /* owns */
	int n_hosts;
	int n_tried;
	unsigned first; /* the turn of the first one tried */
	usec_t deadline; /* of all attempts; 0: none */

	/* the attempt at hand */
	struct login_auth auth; /* owns */
	struct buf welcome;     /* owns: ParameterStatus messages */
	uint32_t drop_left;     /* bytes of a message of connect_query's result that are to be skipped */
	bool has_key;
	struct err err;         /* why it failed */
	bool server_said;       /* err is the server's own */
	bool unreachable;       /* refused, or no answer in time */

	/* what will be told when all attempts have failed */
	struct err told;
	bool told_server_said;
};

/* What a step or a message comes to. MORE: go on with the bytes there are; WAIT: nothing can be done before something new
 * happens; DONE: logged in; FAIL: login->err says why. */
enum login_result { LOGIN_MORE, LOGIN_WAIT, LOGIN_DONE, LOGIN_FAIL };

#define refuse(g, sqlstate, ...) (err_set(&(g)->err, sqlstate, __VA_ARGS__), LOGIN_FAIL)

static const struct settings *settings_of(const struct login *g)
{
	return &g->server->lane->setup->conf->set;
}

static const struct login_host *host_at_hand(const struct login *g)
{
	return &g->hosts[(g->first + (unsigned)g->n_tried - 1) % (unsigned)g->n_hosts];
}

static void say(const struct login *g, enum log_level level, const char *text)
{
	char peer[ADDR_TEXT];
	struct who who;

	server_who(g->server, &who, peer);
	log_line(level, &who, "%s", text);
}

static void send_wiped(struct login *g, struct buf *b)
{
	if (b->len)
		stream_send(&g->server->stream, b->p, b->len);
	buf_wipe(b);
}

/* ---- the startup packet ---- */

static enum login_result startup(struct login *g)
{
	const struct conf_entry *e = target_entry(g->server->target);
	struct buf b = {0};

	if (!e)
		return refuse(g, SQLSTATE_NO_DATABASE, "database configuration changed");
	msg_startup_head(&b, PROTOCOL_3_0);
	msg_pair(&b, "user", g->server->target->user->name);
	msg_pair(&b, "database", e->dbname);
	for (int i = 0; i < e->n_params; i++)
		msg_pair(&b, e->params[i].name, e->params[i].value);
	if (g->server->read_only) /* last: of two of a name PostgreSQL takes the later */
		msg_pair(&b, READ_ONLY_SETTING, "on");
	msg_u8(&b, 0);
	msg_end(&b, 0);
	g->step = STEP_AUTH;
	send_wiped(g, &b);
	return LOGIN_WAIT;
}

/* ---- TLS ---- */

static bool wants_tls(const struct login *g)
{
	return g->server->lane->setup->server_tls && !addr_is_unix(&g->server->addr);
}

static enum login_result tls_ask(struct login *g)
{
	struct buf b = {0};

	msg_ssl_request(&b);
	g->step = STEP_TLS_ASKED;
	send_wiped(g, &b);
	return LOGIN_WAIT;
}

static enum login_result tls_shake(struct login *g)
{
	struct server *s = g->server;
	struct tls_setup *setup = s->lane->setup->server_tls;
	struct err why = {0};

	if (!setup)
		return refuse(g, SQLSTATE_SERVER_LOST, "TLS configuration changed");
	/* Sent before there was a session, by whoever sits in between (CVE-2021-3935). */
	if (stream_has_bytes(&s->stream))
		return refuse(g, SQLSTATE_PROTOCOL, "received unencrypted data after SSL response");
	g->step = STEP_TLS_SHAKE;
	if (!stream_start_tls(&s->stream, setup, host_at_hand(g)->host, &why))
		return refuse(g, SQLSTATE_SERVER_LOST, "TLS handshake failed: %s", why.text);
	return LOGIN_WAIT;
}

static enum login_result tls_answer(struct login *g, struct span in, size_t *used)
{
	*used = in.len;
	if (in.len > 1)
		return refuse(g, SQLSTATE_PROTOCOL, "received unencrypted data after SSL response");
	if (in.p[0] == 'S')
		return tls_shake(g);
	if (in.p[0] != 'N')
		return refuse(g, SQLSTATE_PROTOCOL, "unexpected answer to SSL request");
	if (settings_of(g)->server_tls_sslmode >= SSL_REQUIRE)
		return refuse(g, SQLSTATE_SERVER_LOST, "server refused SSL");
	return startup(g);
}

static void log_secured(const struct login *g)
{
	char text[128], session[64];

	if (!settings_of(g)->log_connections)
		return;
	tls_print(g->server->stream.tls, session);
	snprintf(text, sizeof(text), "SSL established: tls=%s", session);
	say(g, LOG_LOG_, text);
}

/* ---- authentication ---- */

/* The entry's password stands above auth_file, and that above what clients have shown. */
static const struct secret *secret_find(const struct login *g)
{
	const struct target *t = g->server->target;
	const struct conf_entry *e = target_entry(t);
	const struct conf_login *known = conf_login(g->server->lane->setup->conf, t->user->name);

	if (e && e->user && secret_is_set(&e->password))
		return &e->password;
	if (known)
		return &known->secret;
	return e && !e->user && secret_is_set(&t->password) ? &t->password : NULL;
}

static enum login_result take_auth(struct login *g, struct span body)
{
	struct server *s = g->server;
	uint8_t end_point[64];
	struct credentials have = {s->target->user->name, secret_find(g), &s->target->keys, {end_point, 0}};
	struct buf answer = {0};
	enum auth_result result;

	if (s->stream.tls)
		have.end_point.len = tls_end_point(s->stream.tls, end_point);
	result = login_auth_take(&g->auth, &have, body, &answer, &g->err);
	send_wiped(g, &answer);
	if (result == AUTH_RESULT_REFUSED) {
		char text[sizeof(g->err.text) + 32];

		snprintf(text, sizeof(text), "server login failed: %s", g->err.text);
		say(g, LOG_ERROR_, text);
		return LOGIN_FAIL;
	}
	if (result == AUTH_RESULT_OK)
		g->step = STEP_WELCOME;
	return LOGIN_MORE;
}

/* ---- what a server says about itself ---- */

static enum login_result take_parameter(struct login *g, struct span body)
{
	struct server *s = g->server;
	struct reader r = reader_of(body.p, body.len);
	const char *name = read_str(&r), *value = read_str(&r);
	int i;

	if (!reader_done(&r))
		return refuse(g, SQLSTATE_PROTOCOL, "broken ParameterStatus message from the server");
	if (g->welcome.len + body.len > WELCOME_MOST)
		return refuse(g, SQLSTATE_PROTOCOL, "too many ParameterStatus messages from the server");
	msg_parameter(&g->welcome, name, value);
	if (strcmp(name, "server_version") == 0)
		snprintf(s->welcome_version, sizeof(s->welcome_version), "%s", value);
	i = server_parameter(s, body.p, body.len);
	if (i >= 0 && g->step == STEP_QUERY)
		s->gucs_at_login.firm |= 1u << i;
	return LOGIN_MORE;
}

static enum login_result take_key(struct login *g, struct span body)
{
	struct reader r = reader_of(body.p, body.len);

	g->server->pid = read_u32(&r);
	g->server->key = read_u32(&r);
	if (!reader_done(&r) || g->has_key)
		return refuse(g, SQLSTATE_PROTOCOL, "broken BackendKeyData message from the server");
	g->has_key = true;
	return LOGIN_MORE;
}

/* We asked for 3.0 and for no extension: there is nothing to negotiate. */
static enum login_result take_negotiate(struct login *g, struct span body)
{
	struct reader r = reader_of(body.p, body.len);
	uint32_t version = read_u32(&r), n_refused = read_u32(&r);

	if (!reader_done(&r) || n_refused != 0 || (version != PROTOCOL_3_0 && version != 0))
		return refuse(g, SQLSTATE_PROTOCOL, "the server does not speak protocol 3.0");
	return LOGIN_MORE;
}

/* ---- errors and notices ---- */

static bool is_sqlstate(const char *text)
{
	return strlen(text) == 5 && strspn(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5;
}

static bool is_fatal(const struct report *r)
{
	return strcmp(r->severity, "FATAL") == 0 || strcmp(r->severity, "PANIC") == 0;
}

static enum login_result take_error(struct login *g, struct span body)
{
	char text[600];
	struct report r;

	if (!report_read(body.p, body.len, &r))
		return refuse(g, SQLSTATE_PROTOCOL, "broken ErrorResponse message from the server");
	if (g->step == STEP_QUERY && !is_fatal(&r)) {
		snprintf(text, sizeof(text), "connect_query failed: %.500s", r.text);
		say(g, LOG_WARNING_, text);
		return LOGIN_MORE;
	}
	snprintf(text, sizeof(text), "server login failed: %.20s %.500s", r.severity[0] ? r.severity : "FATAL", r.text);
	say(g, LOG_WARNING_, text);
	g->server_said = true;
	return refuse(g, is_sqlstate(r.sqlstate) ? r.sqlstate : SQLSTATE_SERVER_LOST, "%s", r.text[0] ? r.text : "server login failed");
}

static enum login_result take_notice(struct login *g, struct span body)
{
	static _Thread_local struct log_limit limit;
	char peer[ADDR_TEXT];
	struct report r;
	struct who who;

	if (!report_read(body.p, body.len, &r))
		return refuse(g, SQLSTATE_PROTOCOL, "broken NoticeResponse message from the server");
	server_who(g->server, &who, peer);
	log_limited(&limit, LOG_LOG_, &who, "server says: %.20s %.500s", r.severity, r.text);
	return LOGIN_MORE;
}

/* ---- ReadyForQuery and connect_query ---- */

static enum login_result query_begin(struct login *g, const char *sql)
{
	struct buf b = {0};

	msg_query(&b, sql);
	g->step = STEP_QUERY;
	send_wiped(g, &b);
	return LOGIN_MORE;
}

static enum login_result take_ready(struct login *g, struct span body)
{
	const struct conf_entry *e = target_entry(g->server->target);

	if (body.len != 1)
		return refuse(g, SQLSTATE_PROTOCOL, "broken ReadyForQuery message from the server");
	if (body.p[0] != 'I')
		return refuse(g, SQLSTATE_PROTOCOL, g->step == STEP_QUERY ? "connect_query left a transaction open" : "login ended inside a transaction");
	if (g->step == STEP_WELCOME && e && e->connect_query)
		return query_begin(g, e->connect_query);
	return LOGIN_DONE;
}

static enum login_result take_copy(struct login *g, struct span body)
{
	(void)body;
	return refuse(g, SQLSTATE_UNSUPPORTED, "connect_query must not be a COPY from the client");
}

/* ---- messages ---- */

#define IN(step) (1u << STEP_##step)

/* What may come when. Without `take` the message is dropped, of whatever size. */
static const struct message {
	char type;
	unsigned steps;
	enum login_result (*take)(struct login *g, struct span body);
} messages[] = {
	{'R', IN(AUTH), take_auth},
	{'E', IN(AUTH) | IN(WELCOME) | IN(QUERY), take_error},
	{'N', IN(AUTH) | IN(WELCOME) | IN(QUERY), take_notice},
	{'v', IN(AUTH), take_negotiate},
	{'S', IN(WELCOME) | IN(QUERY), take_parameter},
	{'K', IN(WELCOME), take_key},
	{'Z', IN(WELCOME) | IN(QUERY), take_ready},
	{'G', IN(QUERY), take_copy},
	{'W', IN(QUERY), take_copy},
	{'T', IN(QUERY), NULL},
	{'D', IN(QUERY), NULL},
	{'C', IN(QUERY), NULL},
	{'I', IN(QUERY), NULL},
	{'A', IN(QUERY), NULL},
	{'H', IN(QUERY), NULL},
	{'d', IN(QUERY), NULL},
	{'c', IN(QUERY), NULL},
};

static const struct message *message_find(uint8_t type, enum login_step step)
{
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++)
		if ((uint8_t)messages[i].type == type && messages[i].steps & (1u << step))
			return &messages[i];
	return NULL;
}

static enum login_result message_take(struct login *g, struct span in, size_t *used)
{
	const struct message *m;
	struct frame f;

	if (g->drop_left) {
		*used = in.len < g->drop_left ? in.len : g->drop_left;
		g->drop_left -= (uint32_t)*used;
		return LOGIN_MORE;
	}
	switch (frame_peek(in.p, in.len, &f)) {
	case PARSE_MORE:
		return LOGIN_WAIT;
	case PARSE_BAD:
		return refuse(g, SQLSTATE_PROTOCOL, "bad message length from the server");
	case PARSE_OK:
		break;
	}
	m = message_find(f.type, g->step);
	if (!m)
		return refuse(g, SQLSTATE_PROTOCOL, "unexpected message from the server in login: %s (0x%02x)", message_name(false, f.type), f.type);
	if (!m->take) {
		*used = f.have;
		g->drop_left = f.size - (uint32_t)f.have;
		return LOGIN_MORE;
	}
	if (f.size > MESSAGE_MOST)
		return refuse(g, SQLSTATE_PROTOCOL, "too long a message from the server in login: %s", message_name(false, f.type));
	if (f.have < f.size)
		return LOGIN_WAIT;
	*used = f.size;
	return m->take(g, (struct span){in.p + FRAME_HEAD, f.size - FRAME_HEAD});
}

/* ---- the table of steps: what becomes of bytes ---- */

static enum login_result out_of_turn(struct login *g, struct span in, size_t *used)
{
	*used = in.len;
	return refuse(g, SQLSTATE_PROTOCOL, "unexpected bytes from the server");
}

static enum login_result (*const steps[LOGIN_STEPS])(struct login *g, struct span in, size_t *used) = {
	[STEP_DIAL] = out_of_turn,
	[STEP_TLS_ASKED] = tls_answer,
	[STEP_TLS_SHAKE] = out_of_turn, /* the stream itself reads the handshake */
	[STEP_AUTH] = message_take,
	[STEP_WELCOME] = message_take,
	[STEP_QUERY] = message_take,
};

/* ---- attempts ---- */

/* Another host would say the same: 28 wrong credentials, 3D no such database, 42 not allowed. All others may pass: 53300 too
 * many connections, 57P03 starting up. */
static bool is_final(const struct err *err)
{
	return strncmp(err->sqlstate, "28", 2) == 0 || strncmp(err->sqlstate, "3D", 2) == 0 || strncmp(err->sqlstate, "42", 2) == 0;
}

static void attempt_clear(struct login *g)
{
	struct server *s = g->server;

	dial_stop(&s->dial);
	stream_close(&s->stream);
	login_auth_free(&g->auth);
	buf_free(&g->welcome);
	gucs_clear(&s->gucs);
	s->gucs_at_login.firm = 0;
	s->pid = s->key = 0;
	s->tls = false;
	s->addr = (struct addr){0};
	g->has_key = g->server_said = g->unreachable = false;
	g->drop_left = 0;
	g->step = STEP_DIAL;
}

/* Each of the hosts left has an equal share of the time left, so that a mute one does not use up what is the others'. */
static void timer_share(struct login *g)
{
	usec_t left;

	if (!g->deadline)
		return;
	left = g->deadline - loop_now(g->server->loop);
	timer_in(&g->server->timer, left > 0 ? left / (g->n_hosts - g->n_tried) : 0);
}

static void dialled(void *owner, int fd, const struct addr *addr, const struct err *err);

static void attempt_begin(struct login *g)
{
	struct server *s = g->server;
	const struct login_host *h;

	if (s->state == SERVER_LOGIN)
		server_move(s, SERVER_DIAL);
	timer_share(g);
	g->n_tried++;
	h = host_at_hand(g);
	snprintf(s->host, sizeof(s->host), "%s", h->host ? h->host : UNIX_DIR);
	s->port = h->port;
	s->tls_digest = s->lane->setup->server_tls_digest;
	s->dial = dial_start(s->loop, &(struct dial_target){h->host, h->port}, atomic_fetch_add(&s->lane->cluster->host_turn, 1), dialled, g);
}

static void log_next_host(const struct login *g)
{
	char text[sizeof(g->err.text) + 64];

	snprintf(text, sizeof(text), "%s, trying the next host", g->err.text);
	say(g, LOG_WARNING_, text);
}

/* The breaker counts these; anything else says that the server is there. */
static bool counts_as_down(const struct login *g)
{
	if (g->server->reader)
		return false;
	return g->unreachable || (g->server_said && strcmp(g->err.sqlstate, SQLSTATE_NOT_NOW) == 0);
}

static void attempt_failed(struct login *g)
{
	bool over = g->n_tried >= g->n_hosts || (g->server_said && is_final(&g->err));
	struct server *s = g->server;
	struct err told;

	if (g->server_said || !g->told_server_said) {
		g->told = g->err;
		g->told_server_said = g->server_said;
	}
	if (!over) {
		log_next_host(g);
		attempt_clear(g);
		attempt_begin(g);
		return;
	}
	if (counts_as_down(g))
		watch_login_failed(s->lane->cluster, s->word, &g->err);
	told = g->told;
	server_failed(s, &told, g->told_server_said);
}

/* connect_query has made it writable again: the operator's mistake, but no reason to let writes through. */
static void finish_lifted(struct login *g)
{
	err_set(&g->err, SQLSTATE_READ_ONLY, "the session is not read-only after its login, though writes are fenced (connect_query?)");
	attempt_failed(g);
}

static void finish(struct login *g)
{
	struct server *s = g->server;
	struct target *t = s->target;
	const struct conf_entry *e = target_entry(t);
	uint32_t firm = s->gucs_at_login.firm;

	buf_free(&t->welcome.messages);
	t->welcome.messages = g->welcome;
	t->welcome.known = true;
	g->welcome = (struct buf){0};
	gucs_copy(&s->gucs_at_login, &s->gucs);
	s->gucs_at_login.firm = firm;
	s->status = 'I';
	if (!s->reader)
		watch_login_worked(s->lane->cluster, s->word);
	if (e && e->balance == BALANCE_DISABLE)
		t->host_turn = (g->first + (unsigned)g->n_tried - 1) % (unsigned)g->n_hosts;
	server_ready(s);
}

/* The last thing its caller does: the login may be gone after it. */
static void settle(struct login *g, enum login_result result)
{
	switch (result) {
	case LOGIN_MORE:
	case LOGIN_WAIT:
		break;
	case LOGIN_DONE:
		if (server_is_lifted(g->server))
			finish_lifted(g);
		else
			finish(g);
		break;
	case LOGIN_FAIL:
		attempt_failed(g);
		break;
	}
}

/* ---- connected ---- */

static void tune(const struct login *g, int fd)
{
	const struct settings *set = settings_of(g);

	if (addr_is_unix(&g->server->addr))
		return;
	sock_tune(fd, &(struct sock_options){
		.keepalive = set->tcp_keepalive,
		.keepcnt = set->tcp_keepcnt,
		.keepidle = set->tcp_keepidle,
		.keepintvl = set->tcp_keepintvl,
		.user_timeout_ms = set->tcp_user_timeout,
		.buffer = set->tcp_socket_buffer,
	});
}

static void log_connected(const struct login *g, int fd)
{
	char text[ADDR_TEXT + 64] = "new connection to server", self[ADDR_TEXT];
	struct addr from;

	if (!settings_of(g)->log_connections)
		return;
	if (!addr_is_unix(&g->server->addr) && addr_of_self(&from, fd)) {
		addr_print(&from, self);
		snprintf(text, sizeof(text), "new connection to server (from %s)", self);
	}
	say(g, LOG_LOG_, text);
}

static void dialled(void *owner, int fd, const struct addr *addr, const struct err *err)
{
	struct login *g = owner;
	struct server *s = g->server;

	s->dial = NULL;
	if (fd < 0) {
		g->err = *err;
		g->unreachable = true;
		attempt_failed(g);
		return;
	}
	s->addr = *addr;
	tune(g, fd);
	server_move(s, SERVER_LOGIN);
	stream_open(&s->stream, s->loop, fd, &server_stream_calls, s);
	log_connected(g, fd);
	settle(g, wants_tls(g) ? tls_ask(g) : startup(g));
}

/* ---- public ---- */

static void host_add(struct login *g, const struct conf_host *h)
{
	g->hosts = mem_grow(g->hosts, (size_t)(g->n_hosts + 1) * sizeof(*g->hosts));
	g->hosts[g->n_hosts++] = (struct login_host){mem_str(h->host), h->port};
}

/* Degraded service: no primary is known, and what is opened can only read. The word of such servers keeps them apart from the primary's. What they
 * say is nothing about the primary. */
static void stand_ins_add(struct login *g, const struct conf_cluster *c)
{
	for (int i = 0; i < c->n_primary + c->n_replicas; i++)
		if (cluster_may_read(g->server->lane->cluster, conf_cluster_host(c, i)))
			host_add(g, conf_cluster_host(c, i));
	g->server->reader = g->n_hosts > 0;
}

/* For a read pool the replicas that may serve. Else the one that the probes have found, or all under primary=, or who stands in. The tag of the
 * server is what was read before: when that is no longer so, it is closed again. */
static void hosts_choose(struct login *g, const struct conf_entry *e)
{
	const struct conf_cluster *c = e->cluster;
	int chosen = cluster_primary(g->server->lane->cluster, c);

	g->server->reader = e->prefer_replica;
	if (g->server->reader) {
		for (int i = 0; i < c->n_replicas; i++)
			if (cluster_replica_serves(g->server->lane->cluster, c, i))
				host_add(g, &c->replicas[i]);
		return;
	}
	if (chosen >= 0)
		host_add(g, conf_cluster_host(c, chosen));
	for (int i = 0; chosen == PRIMARY_ANY && i < c->n_primary; i++)
		host_add(g, &c->primary[i]);
	if (chosen == PRIMARY_NOBODY && fence_is_up(g->server->word) && !g->server->target->exempt)
		stand_ins_add(g, c);
}

static void no_host(struct later *later)
{
	struct login *g = owner_of(later, struct login, later);
	const struct server *s = g->server;

	if (s->reader)
		err_set(&g->err, SQLSTATE_NOT_NOW, "no replica of cluster %s can serve", s->lane->cluster->name);
	else if (word_is_guarded(s->word))
		err_set(&g->err, SQLSTATE_NOT_NOW, "cluster %s (%s): no host is known to be its primary", s->lane->cluster->name, cluster_state_name(word_state(s->word)));
	else
		err_set(&g->err, SQLSTATE_NO_DATABASE, "database configuration changed");
	attempt_failed(g);
}

void login_begin(struct server *s)
{
	const struct conf_entry *e = target_entry(s->target);
	struct login *g = mem_make(struct login);
	usec_t timeout;

	verify_here(s->loop);
	verify(!s->login && s->state == SERVER_DIAL);
	s->login = g;
	g->server = s;
	later_init(&g->later, no_host);
	s->word = cluster_word(s->lane->cluster);
	s->primary = atomic_load(&s->lane->cluster->primary);
	s->frozen = s->pool->flow->frozen;
	s->read_only = s->frozen || (fence_is_up(s->word) && !s->target->exempt);
	if (e)
		hosts_choose(g, e);
	if (!g->n_hosts) {
		loop_later(s->loop, &g->later);
		return;
	}
	g->first = e->balance == BALANCE_DISABLE ? s->target->host_turn : s->target->host_turn++;
	timeout = settings_of(g)->server_connect_timeout;
	g->deadline = timeout ? loop_now(s->loop) + timeout : 0;
	attempt_begin(g);
}

size_t login_bytes(struct stream *st, const uint8_t *p, size_t len)
{
	struct server *s = st->owner;
	struct login *g = s->login;
	enum login_result result = LOGIN_MORE;
	size_t used = 0;

	verify_here(s->loop);
	while (result == LOGIN_MORE && used < len) {
		size_t n = 0;

		result = steps[g->step](g, (struct span){p + used, len - used}, &n);
		used += n;
	}
	settle(g, result);
	return used;
}

void login_secured(struct server *s)
{
	struct login *g = s->login;

	verify(g && g->step == STEP_TLS_SHAKE);
	s->tls = true;
	log_secured(g);
	settle(g, startup(g));
}

void login_ended(struct server *s, const struct err *why)
{
	struct login *g = s->login;

	if (g->step == STEP_TLS_SHAKE)
		err_set(&g->err, SQLSTATE_SERVER_LOST, "TLS handshake failed: %s", why->text[0] ? why->text : "unexpected eof while reading");
	else if (why->text[0])
		err_set(&g->err, SQLSTATE_SERVER_LOST, "server conn crashed? (%.400s)", why->text);
	else
		err_set(&g->err, SQLSTATE_SERVER_LOST, "server conn crashed?");
	attempt_failed(g);
}

void login_timeout(struct server *s)
{
	err_set(&s->login->err, SQLSTATE_SERVER_LOST, "connect timeout");
	s->login->unreachable = true;
	attempt_failed(s->login);
}

void login_free(struct server *s)
{
	struct login *g = s->login;

	if (!g)
		return;
	s->login = NULL;
	dial_stop(&s->dial);
	later_stop(&g->later);
	login_auth_free(&g->auth);
	buf_free(&g->welcome);
	for (int i = 0; i < g->n_hosts; i++)
		mem_free(g->hosts[i].host);
	mem_free(g->hosts);
	mem_free(g);
}
