/* A client's way in (proxy/greet.h). The steps are rows of the table below; greet_run goes from one to the next until one
 * wants more bytes, waits for an event, or the client is gone.
 *
 *   PACKET <-> SECURE           on the worker that accepted it, in clear or under TLS
 *   PACKET -> CANCEL            a cancel request takes the same road, see proxy/cancel
 *   PACKET -> ADMIT -> HOME     what can be said without knowing who it is; the journey
 *   SETTINGS -> SECRET -> ASK -> ANSWER -> ENTER     in the home loop
 *
 * What is wrong with the request itself (bad layout, a parameter that we do not know, no room) is told at once. What would
 * tell a stranger which users, databases or orgs there are is noted in g->refusal and told in ENTER, behind the password:
 * no such database, a disabled one, an org's binding. A client of an unknown database stays where it was accepted.
 *
 * Counts by name (tallies, orgs) live as long as the process, so before the password only names that the configuration holds
 * are counted, and orgs that somebody has brought in already; the others are counted in ENTER.
 *
 * Replication connections are not built yet: they log in and are told so. */
#include "proxy/greet.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "net/tls.h"
#include "proxy/cancel.h"
#include "proxy/greet_priv.h"
#include "proxy/home.h"
#include "proxy/lookup.h"
#include "proxy/place.h"
#include "proxy/welcome.h"
#include "proxy/worker.h"
#include "tenant/resolve.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

/* PgBouncer's limits: MAX_DBNAME - 1 and MAX_USERNAME - 1. */
#define DATABASE_MOST 63
#define USER_MOST 127

#define TLS_HANDSHAKE 0x16 /* the content type of a ClientHello's record, RFC 8446 chapter 5.1 */

static void greet_go_on(struct client *c);

/* ---- how it ends ---- */

void greet_log(const struct client *c, enum log_level level, const char *text)
{
	static struct log_limit limits[LOG_NOISE_ + 1]; /* by level: strangers must not crowd out what an operator has to see */
	struct who who;
	char peer[ADDR_TEXT];

	client_who(c, &who, peer);
	log_limited(&limits[level], level, &who, "%s", text);
}

enum greeting greet_refuse(struct client *c, const struct err *err, const char *reason)
{
	struct err copy = {0}; /* err may lie in c->greet, which is freed ahead of the log line */

	if (err)
		copy = *err;
	client_close(c, err ? &copy : NULL, reason ? reason : copy.text);
	return GREETING_GONE;
}

static enum greeting refuse_protocol(struct client *c, const char *text)
{
	struct err err;

	err_set(&err, SQLSTATE_PROTOCOL, "%s", text);
	return greet_refuse(c, &err, NULL);
}

/* To be told once it is proven who asks; the first one counts. */
static void refuse_later(struct greet *g, const struct err *err)
{
	if (!g->refusal.sqlstate[0])
		g->refusal = *err;
}

/* ---- PACKET and SECURE ---- */

static bool is_unix(const struct client *c)
{
	return addr_is_unix(&c->addr);
}

static enum greeting start_tls(struct client *c)
{
	struct err err;

	c->greet->step = STEP_SECURE;
	if (!stream_start_tls(&c->stream, c->greet->setup->client_tls, NULL, &err))
		return greet_refuse(c, NULL, err.text);
	return GREETING_WAIT;
}

/* Nothing may stand behind a request for encryption: it would be taken for part of the session that follows (CVE-2021-3935). */
static bool stands_alone(struct client *c, const struct span *in, size_t size)
{
	return in->len == size && (c->tls || !stream_has_bytes(&c->stream));
}

static enum greeting answer_ssl(struct client *c, struct span *in, size_t size)
{
	struct greet *g = c->greet;
	bool yes = g->setup->client_tls && !is_unix(c);

	if (c->tls || g->asked_ssl)
		return refuse_protocol(c, "unexpected SSL request");
	if (!stands_alone(c, in, size))
		return refuse_protocol(c, "received unencrypted data after SSL request");
	span_take(in, size);
	g->asked_ssl = true;
	stream_send(&c->stream, yes ? "S" : "N", 1);
	return yes ? start_tls(c) : GREETING_MORE;
}

static enum greeting answer_gss(struct client *c, struct span *in, size_t size)
{
	struct greet *g = c->greet;

	if (c->tls || g->asked_gss)
		return refuse_protocol(c, "unexpected GSSAPI encryption request");
	if (!stands_alone(c, in, size))
		return refuse_protocol(c, "received unencrypted data after GSSAPI encryption request");
	span_take(in, size);
	g->asked_gss = true;
	stream_send(&c->stream, "N", 1);
	return GREETING_MORE;
}

static enum greeting take_cancel(struct client *c, struct span key)
{
	struct greet *g = c->greet;

	buf_add(&g->packet, key.p, key.len);
	g->step = STEP_CANCEL;
	loop_later(c->worker->loop, &g->go);
	return GREETING_NEXT;
}

static enum greeting take_startup(struct client *c, struct span *in, size_t size)
{
	struct greet *g = c->greet;
	struct err none;

	/* Parsed again in a copy that stays: the names borrow the packet. */
	buf_add(&g->packet, in->p, size);
	g->startup = mem_make(struct startup);
	verify(startup_parse(g->packet.p, g->packet.len, g->startup, &none) == PARSE_OK);
	span_take(in, size);
	c->user = mem_str(g->startup->user);
	c->database = mem_str(g->startup->database);
	g->step = STEP_ADMIT;
	return GREETING_NEXT;
}

static enum greeting step_packet(struct client *c, struct span *in)
{
	struct startup st;
	struct err err;

	switch (startup_parse(in->p, in->len, &st, &err)) {
	case PARSE_MORE:
		return GREETING_MORE;
	case PARSE_BAD:
		return greet_refuse(c, &err, NULL);
	case PARSE_OK:
		break;
	}
	switch (st.kind) {
	case STARTUP_SSL:
		return answer_ssl(c, in, st.size);
	case STARTUP_GSS:
		return answer_gss(c, in, st.size);
	case STARTUP_CANCEL:
		return take_cancel(c, st.key);
	case STARTUP_LOGIN:
		break;
	}
	return take_startup(c, in, st.size);
}

/* ---- ADMIT ---- */

static bool is_console(const char *database)
{
	return strcmp(database, "pgweir") == 0 || strcmp(database, "pgbouncer") == 0;
}

static bool secure_enough(const struct client *c, struct err *err)
{
	if (c->tls || is_unix(c) || c->greet->setup->conf->set.client_tls_sslmode < SSL_REQUIRE)
		return true;
	return err_set(err, SQLSTATE_LOGIN, "SSL required");
}

/* Until the process ends only the console gets in. */
static bool still_open(const struct client *c, struct err *err)
{
	if (c->greet->console || atomic_load_explicit(&process_stage, memory_order_relaxed) < STAGE_WAIT_SERVERS)
		return true;
	return err_set(err, SQLSTATE_SHUTDOWN, "server shutting down");
}

static bool names_fit(const struct client *c, struct err *err)
{
	if (strlen(c->user) > USER_MOST)
		return err_set(err, SQLSTATE_LOGIN, "user name is too long");
	if (strlen(c->database) > DATABASE_MOST)
		return err_set(err, SQLSTATE_NO_DATABASE, "database name is too long");
	return true;
}

/* By the console's own name, with our own uid: whoever can do that could also stop us. */
static bool is_owner(const struct client *c)
{
	int pid;
	unsigned uid;

	return is_unix(c) && is_console(c->user) && addr_unix_peer(c->stream.fd, &pid, &uid) && uid == geteuid();
}

static void find_entry(struct client *c)
{
	struct greet *g = c->greet;
	struct err err;

	conf_entry_free(&g->made);
	g->entry = conf_entry(g->setup->conf, c->database);
	if (!g->entry)
		g->entry = g->made = conf_entry_make(g->setup->conf, c->database);
	if (g->entry)
		return;
	err_set(&err, SQLSTATE_NO_DATABASE, "no such database: %s", c->database);
	refuse_later(g, &err);
}

/* user.org: the name says the org behind its last point, unless it is a user as a whole. */
static void split_user(struct client *c)
{
	struct greet *g = c->greet;
	const struct conf *conf = g->setup->conf;
	char *point = strrchr(c->user, '.');

	if (!conf_in_list_fold(conf->set.org_sources, "user_suffix") || conf_login(conf, c->user) || conf_user(conf, c->user) || !point || point == c->user || !point[1])
		return;
	g->said_user = mem_str(c->user);
	g->user_suffix = g->said_user + (point + 1 - c->user);
	if (strcmp(c->database, c->user) == 0) /* it was not asked for: the user's is meant */
		c->database[point - c->user] = 0;
	*point = 0;
}

/* More names than this are not looked at. */
#define CERT_NAMES_MOST 32

static int cert_names(const struct client *c, char *names[CERT_NAMES_MOST])
{
	int n = 0;

	while (c->stream.tls && n < CERT_NAMES_MOST && (names[n] = tls_peer_name(c->stream.tls, n)) != NULL)
		n++;
	return n;
}

static const char *options_of(const struct startup *s)
{
	for (int i = s->n_params; i-- > 0;)
		if (strcmp(s->params[i].name, "options") == 0)
			return s->params[i].value;
	return NULL;
}

static void name_org(struct client *c)
{
	struct greet *g = c->greet;
	char *names[CERT_NAMES_MOST];
	struct claims said = {
		.startup = g->startup,
		.application_name = g->application_name,
		.options = options_of(g->startup),
		.user = c->user,
		.user_suffix = g->user_suffix,
		.sni = c->stream.tls ? tls_sni(c->stream.tls) : NULL,
		.cert_names = names,
		.n_cert_names = cert_names(c, names),
	};
	struct verdict_org verdict;
	struct err err;

	if (!org_resolve(g->setup->conf, &said, &verdict, &err))
		refuse_later(g, &err);
	else
		memcpy(g->org_id, verdict.id, sizeof(g->org_id));
	while (said.n_cert_names)
		mem_free(names[--said.n_cert_names]);
}

static void note_replication(struct greet *g)
{
	const char *asked = g->startup->replication;
	bool on = true;
	struct err err;

	if (!asked || (num_bool(asked, &on) && !on))
		return;
	err_set(&err, SQLSTATE_UNSUPPORTED, "replication connections are not built yet");
	refuse_later(g, &err);
}

/* Who asks for a seat: anybody, who is counted under names of the configuration only, or who has proved who it is. */
enum standing { STRANGER, PROVEN };

static bool take_user_seat(struct client *c, enum standing who, struct err *err)
{
	const struct conf *conf = c->greet->setup->conf;
	const struct conf_user *line = conf_user(conf, c->user);
	int most = line && line->max_user_client_connections >= 0 ? line->max_user_client_connections : conf->set.max_user_client_connections;

	if (c->seats.user || c->greet->peer_is_owner || (c->greet->console && conf_is_admin(conf, c->user)))
		return true;
	if (who == STRANGER && !line && !conf_login(conf, c->user))
		return true;
	return seats_take_user(&c->seats, tally_user(c->user), most, err);
}

static bool take_entry_seat(struct client *c, enum standing who, struct err *err)
{
	const struct conf_entry *e = c->greet->entry;

	if (c->seats.entry || (who == STRANGER && e->automatic))
		return true;
	return seats_take_entry(&c->seats, tally_entry(e->name), e->max_db_client_connections, err);
}

/* Before it is known who it is, so that a flood costs no more than this. */
static bool take_conn_token(struct client *c, double rate, struct err *err)
{
	usec_t wait;

	if (rate_take(&c->org->conn_rate, rate_limit_of(rate, 0), loop_now(c->worker->loop), &wait))
		return true;
	long long ms = (long long)((wait + USEC_PER_MSEC - 1) / USEC_PER_MSEC);
	atomic_fetch_add_explicit(&c->org->refused, 1, memory_order_relaxed);
	err_set(err, SQLSTATE_TOO_MANY, "new connections of org \"%s\" exceeded (conn_rate %g per second), retry after %lld ms", c->org->id, rate, ms);
	err_hint(err, "retry after %lld ms", ms);
	return false;
}

static bool take_org_seat(struct client *c, enum standing who, struct err *err)
{
	struct greet *g = c->greet;
	const struct conf *conf = g->setup->conf;
	bool listed = strcmp(g->org_id, "default") == 0 || conf_org(conf, g->org_id);
	struct policy policy;

	if (c->org || !g->org_id[0])
		return true;
	c->org = who == STRANGER && !listed ? org_find(g->org_id) : org_of(g->org_id, listed ? 0 : conf->set.max_orgs);
	if (!c->org)
		return who == STRANGER || err_set(err, SQLSTATE_TOO_MANY, "no room for another org (max_orgs)");
	atomic_store(&c->org->listed, listed);
	conf_policy(conf, g->entry, c->user, g->org_id, &policy);
	return seats_take_org(&c->seats, c->org, policy.max_org_clients, err) && take_conn_token(c, policy.conn_rate, err);
}

/* The console has no limit but the user's, and that not for admins: somebody must be able to see what is going on. */
static bool take_seats(struct client *c, enum standing who, struct err *err)
{
	struct greet *g = c->greet;

	if (g->console)
		return take_user_seat(c, who, err);
	if (!c->seats.process && !seats_take_process(&c->seats, g->setup->conf, err))
		return false;
	if (!g->entry)
		return true;
	return take_entry_seat(c, who, err) && take_user_seat(c, who, err) && take_org_seat(c, who, err);
}

static enum greeting step_admit(struct client *c, struct span *in)
{
	struct greet *g = c->greet;
	struct err err;

	(void)in;
	g->console = is_console(c->database);
	if (!g->console)
		split_user(c);
	if (!secure_enough(c, &err) || !still_open(c, &err) || !names_fit(c, &err) || !greet_params_check(c, &err))
		return greet_refuse(c, &err, NULL);
	if (g->console)
		g->peer_is_owner = is_owner(c);
	else
		find_entry(c);
	if (g->entry)
		name_org(c);
	note_replication(g);
	if (!take_seats(c, STRANGER, &err))
		return greet_refuse(c, &err, NULL);
	g->step = STEP_HOME;
	return GREETING_NEXT;
}

/* ---- HOME and SETTINGS ---- */

/* Where it will be served: what it asked for, or where a route leads it. NULL: nowhere, or it is the console's. */
static const struct conf_entry *served_from(const struct client *c, struct conf_entry **made)
{
	const struct greet *g = c->greet;

	*made = NULL;
	return g->entry ? place_entry(c, g->setup->conf, g->org_id, made) : NULL;
}

static struct worker *home_for(const struct client *c)
{
	struct conf_entry *made;
	const struct conf_entry *e = served_from(c, &made);
	struct worker *home = e ? home_of(e->cluster) : c->worker;

	conf_entry_free(&made);
	return c->greet->console ? control : home;
}

static enum greeting step_home(struct client *c, struct span *in)
{
	struct greet *g = c->greet;

	(void)in;
	if (home_for(c) == c->worker) {
		g->step = STEP_SETTINGS;
		return GREETING_NEXT;
	}
	/* A stream cannot leave its loop from within its own call. */
	stream_pause(&c->stream);
	loop_later(c->worker->loop, &g->go);
	return GREETING_WAIT;
}

static void arrived(struct client *c)
{
	stream_resume(&c->stream);
	c->greet->step = STEP_SETTINGS;
	greet_go_on(c);
}

static void leave_or_cancel(struct later *w)
{
	struct greet *g = owner_of(w, struct greet, go);
	struct client *c = g->client;

	if (g->step == STEP_CANCEL) {
		cancel_run(c, buf_span(&g->packet));
		return;
	}
	gucs_clear(&c->gucs); /* the values belong to this worker's book */
	home_go(c, home_for(c), arrived);
}

static enum greeting step_settings(struct client *c, struct span *in)
{
	(void)in;
	if (!c->greet->console)
		greet_params_apply(c);
	c->greet->step = c->greet->proven ? STEP_ENTER : STEP_SECRET;
	return GREETING_NEXT;
}

/* ---- SECRET ---- */

static void looked_up(struct client *c, enum lookup_result result, const struct secret *secret, const struct err *err)
{
	struct greet *g = c->greet;
	struct err told;

	g->lookup = NULL;
	g->step = STEP_ASK;
	stream_resume(&c->stream);
	switch (result) {
	case LOOKUP_FOUND:
		g->known = g->looked_up = true;
		secret_copy(&g->secret, secret);
		break;
	case LOOKUP_UNKNOWN:
		break;
	case LOOKUP_FAILED:
		/* The operator's mistake is the log's; that the database cannot be reached may be told. */
		told = *err;
		if (strcmp(err->sqlstate, SQLSTATE_CONFIG) == 0) {
			greet_log(c, LOG_ERROR_, err->text);
			err_set(&told, SQLSTATE_CONFIG, "bouncer config error");
		}
		greet_refuse(c, &told, NULL);
		return;
	}
	greet_go_on(c);
}

/* Where auth_query can be asked; NULL: nowhere. It is asked where the client will be served, so that what it reveals opens that door. The console
 * and names that do not exist are served from nowhere, but auth_dbname may answer for them. */
static const struct conf_entry *lookup_entry(const struct client *c, struct conf_entry **made)
{
	const struct conf *conf = c->greet->setup->conf;
	const struct conf_entry *e = served_from(c, made);

	if (!e && conf->set.auth_dbname[0])
		e = conf_entry(conf, conf->set.auth_dbname);
	return e && (e->auth_user || conf->set.auth_user[0]) ? e : NULL;
}

/* Settings of a user ([users]) say nothing about its password: only auth_file and auth_query do. */
static enum greeting step_secret(struct client *c, struct span *in)
{
	struct greet *g = c->greet;
	const struct conf *conf = g->setup->conf;
	const struct conf_login *login = conf_login(conf, c->user);
	struct conf_entry *made;
	const struct conf_entry *where = lookup_entry(c, &made);

	(void)in;
	g->step = STEP_ASK;
	if (login) {
		g->known = true;
		secret_copy(&g->secret, &login->secret);
	} else if (where && conf->set.auth_type != AUTH_ANY && !g->peer_is_owner) {
		stream_pause(&c->stream);
		g->lookup = lookup_start(c, where, c->user, looked_up);
	}
	conf_entry_free(&made);
	return g->lookup ? GREETING_WAIT : GREETING_NEXT;
}

/* ---- ENTER ---- */

/* A reload came while it logged in: the entry may be gone, or live elsewhere. */
static void follow_reload(struct client *c)
{
	struct greet *g = c->greet;

	if (g->setup == c->worker->setup)
		return;
	conf_entry_free(&g->made);
	g->entry = NULL;
	setup_drop(&g->setup);
	g->setup = setup_ref(c->worker->setup);
	if (!g->console)
		find_entry(c);
}

static bool entry_is_enabled(const struct client *c, struct err *err)
{
	if (!atomic_load(&c->seats.entry->disabled))
		return true;
	return err_set(err, SQLSTATE_NOT_NOW, "database \"%s\" is disabled", c->database);
}

static bool give_rights(struct client *c, struct err *err)
{
	const struct conf *conf = c->greet->setup->conf;

	c->admin = c->greet->peer_is_owner || conf->set.auth_type == AUTH_ANY || conf_is_admin(conf, c->user);
	c->stats = c->admin || conf_is_stats(conf, c->user);
	return c->stats || err_set(err, SQLSTATE_LOGIN, "not allowed");
}

static void log_login(const struct client *c)
{
	struct who who;
	char peer[ADDR_TEXT], tls[64] = "no";

	if (!c->greet->setup->conf->set.log_connections)
		return;
	if (c->stream.tls)
		tls_print(c->stream.tls, tls);
	client_who(c, &who, peer);
	log_line(LOG_LOG_, &who, "login attempt: db=%s user=%s tls=%s", c->database, c->user, tls);
}

static void welcome(struct client *c)
{
	struct greet *g = c->greet;

	msg_auth(&g->answer, 0, NULL, 0); /* AuthenticationOk */
	client_send(c, &g->answer);
	buf_free(&g->answer);
	timer_stop(&c->timer);
	c->logged_in = true;
	count_add(&c->worker->logins, 1);
	/* What it sent already is looked at again, by whoever reads it from now on. */
	stream_pause(&c->stream);
	stream_resume(&c->stream);
	if (!g->console) {
		client_welcome(c);
		return;
	}
	console_calls->open(c);
	if (c->state == CLIENT_GREET)
		client_move(c, CLIENT_IDLE);
	greet_free(c);
}

static enum greeting step_enter(struct client *c, struct span *in)
{
	struct greet *g = c->greet;
	struct err err;

	(void)in;
	follow_reload(c);
	if (g->refusal.sqlstate[0])
		return greet_refuse(c, &g->refusal, NULL);
	if (home_for(c) != c->worker) {
		g->step = STEP_HOME;
		return GREETING_NEXT;
	}
	if (!take_seats(c, PROVEN, &err) || !(g->console ? give_rights(c, &err) : entry_is_enabled(c, &err)))
		return greet_refuse(c, &err, NULL);
	log_login(c);
	welcome(c);
	return GREETING_GONE;
}

/* ---- the table ---- */

static enum greeting step_secure(struct client *c, struct span *in)
{
	(void)c;
	(void)in;
	return GREETING_WAIT;
}

/* Whatever stands behind a cancel request is of no interest. */
static enum greeting step_cancel(struct client *c, struct span *in)
{
	(void)c;
	span_take(in, in->len);
	return GREETING_MORE;
}

static enum greeting step_answer(struct client *c, struct span *in)
{
	struct worker *w = c->worker;
	usec_t begun;

	if (!in->len)
		return GREETING_MORE;
	if (!gate_passes(c))
		return GREETING_WAIT;
	begun = clock_now();
	enum greeting then = greet_answer(c, in);
	gate_took(w, clock_now() - begun);
	return then;
}

static enum greeting (*const steps[GREET_STEPS])(struct client *c, struct span *in) = {
	[STEP_PACKET] = step_packet, [STEP_SECURE] = step_secure, [STEP_ADMIT] = step_admit, [STEP_HOME] = step_home,
	[STEP_SETTINGS] = step_settings, [STEP_SECRET] = step_secret, [STEP_ASK] = greet_ask, [STEP_ANSWER] = step_answer,
	[STEP_ENTER] = step_enter, [STEP_CANCEL] = step_cancel,
};

static void run(struct client *c, struct span *in)
{
	while (steps[c->greet->step](c, in) == GREETING_NEXT)
		;
}

static void greet_go_on(struct client *c)
{
	struct span nothing = {NULL, 0};

	run(c, &nothing);
}

/* ---- public ---- */

void greet_begin(struct client *c)
{
	struct greet *g = mem_make(struct greet);
	usec_t most = c->worker->setup->conf->set.client_login_timeout;

	g->client = c;
	list_init(&g->gate_link);
	g->setup = setup_ref(c->worker->setup);
	later_init(&g->go, leave_or_cancel);
	c->greet = g;
	if (most)
		timer_in(&c->timer, most);
}

void greet_first(struct client *c, uint8_t byte)
{
	if (byte != TLS_HANDSHAKE || is_unix(c) || !c->greet->setup->client_tls)
		return; /* read as a startup packet, which it cannot be: too long */
	c->greet->direct = true;
	start_tls(c);
}

size_t greet_bytes(struct client *c, const uint8_t *p, size_t len)
{
	struct span in = {p, len};

	if (c->logged_in || !c->greet)
		return 0; /* waits for its welcome; whoever reads it then reads this too */
	run(c, &in);
	return len - in.len;
}

void greet_secured(struct client *c)
{
	struct greet *g = c->greet;

	/* Without an SSLRequest only ALPN says that PostgreSQL's protocol is meant (chapter 55.2.11). */
	if (g->direct && !tls_alpn_is_postgresql(c->stream.tls)) {
		greet_refuse(c, NULL, "direct TLS without ALPN \"postgresql\"");
		return;
	}
	c->tls = true;
	g->step = STEP_PACKET;
}

bool greet_is_cancel(const struct client *c)
{
	return c->greet && c->greet->step == STEP_CANCEL;
}

void greet_timeout(struct client *c)
{
	struct greet *g = c->greet;
	struct err err;
	bool deaf = !g || g->step == STEP_SECURE || g->step == STEP_CANCEL || c->stream.received == 0;

	/* PostgreSQL's code for authentication_timeout. */
	err_set(&err, SQLSTATE_CANCELED, "client_login_timeout");
	client_close(c, deaf ? NULL : &err, err.text);
}

void greet_free(struct client *c)
{
	struct greet *g = c->greet;

	if (!g)
		return;
	gate_leave(c);
	c->greet = NULL;
	later_stop(&g->go);
	if (g->lookup)
		lookup_forget(&g->lookup);
	if (g->cancel)
		cancel_forget(&g->cancel);
	scram_server_free(&g->scram);
	secret_free(&g->secret);
	secret_free(&g->clear);
	conf_entry_free(&g->made);
	setup_drop(&g->setup);
	mem_free(g->application_name);
	mem_free(g->said_user);
	mem_free(g->startup);
	buf_free(&g->packet);
	buf_free(&g->answer);
	explicit_bzero(&g->keys, sizeof(g->keys));
	mem_free(g);
}
