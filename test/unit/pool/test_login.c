/* A server's login, against a PostgreSQL played by the test over a socket pair. Dialling, the server and its target are
 * stand-ins defined here, so that a test decides who answers, in which order, and what time it is. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "auth/login_auth.h"
#include "auth/scram.h"
#include "base/mem.h"
#include "cluster/watch.h"
#include "loop/loop_priv.h"
#include "pool/login.h"
#include "pool/pool.h"
#include "pool/server_priv.h"
#include "wire/frame.h"
#include "wire/report.h"
#include "wire/writer.h"

/* ---- the scene ---- */

static struct scene {
	struct loop *loop;
	struct setup *setup;
	struct cluster cluster;
	struct lane lane;
	struct guc_book guc_book;
	struct tally entry, user;
	struct target target;
	struct flow flow;
	struct pool pool;
	struct server server;
	bool removed; /* the entry is no longer in the configuration */

	/* the dial under way */
	dial_done_fn dialled;
	void *dial_owner;
	char host[64];
	int port;
	int n_dials, n_stops;

	int peer; /* the other end of the server's socket; -1: closed or none */
	struct buf heard;

	int n_ready, n_failed;
	struct err err;
	bool server_said;

	int n_cancels, n_cancel_begins, n_cancel_ends;

	int n_counted, n_worked; /* logins that the breaker was told of */
	word_t word;             /* under which */
} sc;

static usec_t now;

static usec_t clock_of_the_test(void)
{
	return now;
}

static void turn(void)
{
	for (int i = 0; i < 6; i++)
		loop_turn(sc.loop, EVLOOP_NONBLOCK);
}

static void pass(usec_t time)
{
	now += time;
	loop_renew(sc.loop);
	turn();
}

/* ---- stand-ins for what login.c calls ---- */

struct dial *dial_start(struct loop *l, const struct dial_target *t, unsigned turns, dial_done_fn done, void *owner)
{
	(void)turns;
	assert_ptr_equal(l, sc.loop);
	assert_null(sc.dialled);
	sc.dialled = done;
	sc.dial_owner = owner;
	snprintf(sc.host, sizeof(sc.host), "%s", t->host ? t->host : "(default)");
	sc.port = t->port;
	sc.n_dials++;
	return (struct dial *)&sc.dialled;
}

void dial_stop(struct dial **d)
{
	if (!*d)
		return;
	*d = NULL;
	sc.dialled = NULL;
	sc.n_stops++;
}

const struct conf_entry *target_entry(const struct target *t)
{
	return sc.removed ? NULL : conf_entry(sc.setup->conf, t->entry->name);
}

void server_who(const struct server *s, struct who *out, char peer[ADDR_TEXT])
{
	snprintf(peer, ADDR_TEXT, "%.100s:%d", s->host, s->port);
	*out = (struct who){.kind = 'S', .id = s->id, .entry = "app", .user = "bob", .peer = peer};
}

void server_move(struct server *s, enum server_state to)
{
	assert_true((s->state == SERVER_DIAL && to == SERVER_LOGIN) || (s->state == SERVER_LOGIN && to == SERVER_DIAL));
	s->state = to;
}

void server_ready(struct server *s)
{
	sc.n_ready++;
	assert_int_equal(s->state, SERVER_LOGIN);
	login_free(s);
	timer_stop(&s->timer);
	s->state = SERVER_IDLE;
}

void server_failed(struct server *s, const struct err *err, bool server_said)
{
	sc.n_failed++;
	sc.err = *err;
	sc.server_said = server_said;
	login_free(s);
	timer_stop(&s->timer);
	stream_close(&s->stream);
	s->state = SERVER_CLOSING;
}

int server_parameter(struct server *s, const uint8_t *body, size_t len)
{
	const char *name = (const char *)body, *value = name + strlen(name) + 1;
	int i = setup_guc(sc.setup, name, strlen(name));

	(void)len;
	if (i >= 0)
		gucs_set(&s->gucs, i, guc_of(&sc.guc_book, value));
	return i;
}

bool server_is_lifted(const struct server *s)
{
	int i = setup_guc(sc.setup, READ_ONLY_SETTING, strlen(READ_ONLY_SETTING));
	return s->read_only && s->gucs.at[i] && strcmp(s->gucs.at[i]->text, "on") != 0;
}

void server_cancel_begin(struct server *s)
{
	s->cancels++;
	sc.n_cancel_begins++;
}

void server_cancel_end(struct server *s)
{
	s->cancels--;
	sc.n_cancel_ends++;
}

void watch_login_failed(struct cluster *c, word_t word, const struct err *why)
{
	assert_ptr_equal(c, &sc.cluster);
	assert_true(why->text[0]);
	sc.n_counted++;
	sc.word = word;
}

void watch_login_worked(struct cluster *c, word_t word)
{
	assert_ptr_equal(c, &sc.cluster);
	sc.n_worked++;
	sc.word = word;
}

static size_t on_bytes(struct stream *st, const uint8_t *p, size_t len)
{
	struct server *s = st->owner;

	return s->state == SERVER_LOGIN ? login_bytes(st, p, len) : 0;
}

static void on_ended(struct stream *st, const struct err *why)
{
	struct server *s = st->owner;

	if (s->state == SERVER_LOGIN)
		login_ended(s, why);
}

static void on_secured(struct stream *st)
{
	login_secured(st->owner);
}

const struct stream_calls server_stream_calls = {.bytes = on_bytes, .ended = on_ended, .secured = on_secured};

static void on_timer(struct timer *t)
{
	login_timeout(owner_of(t, struct server, timer));
}

/* ---- making and ending a scene ---- */

static struct setup *setup_of(const char *settings, const char *entry)
{
	struct conf_report report = {0};
	struct err err = {0};
	char text[1024];
	struct conf *conf;
	struct setup *s;

	snprintf(text, sizeof(text), "[pgweir]\nunix_socket_dir=\nlog_connections=0\n%s\n[databases]\napp = %s\n", settings, entry);
	conf = conf_load_text(text, &report);
	if (!conf)
		print_error("%.*s\n", (int)report.errors.len, (char *)report.errors.p);
	conf_report_free(&report);
	assert_non_null(conf);
	s = setup_new(conf, NULL, &err);
	assert_non_null(s);
	return s;
}

static void server_make(void)
{
	struct server *s = &sc.server;

	sc.pool.flow = &sc.flow;
	*s = (struct server){.id = 1, .loop = sc.loop, .lane = &sc.lane, .target = &sc.target, .pool = &sc.pool, .state = SERVER_DIAL, .stream.fd = -1};
	timer_init(&s->timer, sc.loop, on_timer);
}

static void server_unmake(void)
{
	struct server *s = &sc.server;

	login_free(s);
	timer_stop(&s->timer);
	stream_close(&s->stream);
	gucs_clear(&s->gucs);
	gucs_clear(&s->gucs_at_login);
	if (sc.peer >= 0)
		close(sc.peer);
	sc.peer = -1;
}

/* Settings and the entry's line; then login_begin. */
static void begin(const char *settings, const char *entry)
{
	sc.setup = setup_of(settings, entry);
	sc.entry.name = "app";
	sc.user.name = "bob";
	sc.lane = (struct lane){.loop = sc.loop, .cluster = &sc.cluster, .setup = sc.setup, .guc_book = &sc.guc_book};
	list_init(&sc.lane.cancel_calls);
	sc.target.lane = &sc.lane;
	sc.target.entry = &sc.entry;
	sc.target.user = &sc.user;
	server_make();
	login_begin(&sc.server);
}

/* md5("sesame" + "bob"), and md5(that + "abcd"), by md5sum. */
#define MD5_STORED "f8e14e51f459960062eb38d48f5dda88"
#define MD5_ANSWER "md571f91c216c361b7c06327098b09ed166"

#define NO_TLS "server_tls_sslmode=disable"
#define ONE_HOST "host=10.0.0.1"

static int scene_make(void **state)
{
	(void)state;
	sc = (struct scene){.peer = -1};
	now = 1000 * USEC_PER_SEC;
	sc.loop = loop_new("test", 0);
	sc.loop->clock = clock_of_the_test;
	loop_renew(sc.loop);
	return 0;
}

static int scene_free(void **state)
{
	(void)state;
	server_unmake();
	buf_free(&sc.heard);
	buf_free(&sc.target.welcome.messages);
	secret_free(&sc.target.password);
	setup_drop(&sc.setup);
	guc_book_free(&sc.guc_book);
	stream_buffers_free(sc.loop);
	loop_free(&sc.loop);
	return 0;
}

/* ---- playing the network and PostgreSQL ---- */

static void dial_answers(int fd, const char *ip, const char *text)
{
	dial_done_fn done = sc.dialled;
	struct err err = {0};
	struct addr addr;

	assert_non_null(done);
	sc.dialled = NULL;
	assert_true(addr_from_ip(&addr, ip, sc.port));
	err_set(&err, "08006", "%s", text);
	done(sc.dial_owner, fd, fd < 0 ? NULL : &addr, &err);
}

static void dial_fails(const char *text)
{
	dial_answers(-1, "10.0.0.1", text);
	turn();
}

static void dial_connects(void)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	if (sc.peer >= 0)
		close(sc.peer);
	sc.peer = ends[1];
	dial_answers(ends[0], "10.0.0.1", "");
	turn();
}

/* The server says so many bytes. */
static void says(const void *bytes, size_t len)
{
	assert_int_equal(write(sc.peer, bytes, len), len);
	turn();
}

static void says_buf(struct buf *b)
{
	says(b->p, b->len);
	buf_free(b);
}

static void says_auth(uint32_t code, const void *p, size_t n)
{
	struct buf b = {0};

	msg_auth(&b, code, p, n);
	says_buf(&b);
}

static void says_parameter(const char *name, const char *value)
{
	struct buf b = {0};

	msg_parameter(&b, name, value);
	says_buf(&b);
}

static void says_ready(char status)
{
	struct buf b = {0};

	msg_ready(&b, status);
	says_buf(&b);
}

static void says_error(const char *severity, const char *sqlstate, const char *text)
{
	struct buf b = {0};

	report_error(&b, severity, sqlstate, "%s", text);
	says_buf(&b);
}

/* All that came to the server since the last time. */
static struct span hears(void)
{
	uint8_t some[4096];
	ssize_t n;

	sc.heard.len = 0;
	while ((n = read(sc.peer, some, sizeof(some))) > 0)
		buf_add(&sc.heard, some, (size_t)n);
	return buf_span(&sc.heard);
}

static bool peer_is_cut(void)
{
	uint8_t byte;

	hears();
	return read(sc.peer, &byte, 1) == 0;
}

static void assert_hears(const void *bytes, size_t len)
{
	struct span got = hears();

	assert_int_equal(got.len, len);
	assert_memory_equal(got.p, bytes, len);
}

static void assert_failed(const char *sqlstate, const char *text, bool server_said)
{
	assert_int_equal(sc.n_failed, 1);
	assert_int_equal(sc.n_ready, 0);
	assert_string_equal(sc.err.text, text);
	assert_string_equal(sc.err.sqlstate, sqlstate);
	assert_int_equal(sc.server_said, server_said);
	assert_null(sc.server.login);
}

static void assert_under_way(void)
{
	assert_int_equal(sc.n_failed, 0);
	assert_int_equal(sc.n_ready, 0);
	assert_non_null(sc.server.login);
}

/* ---- a cluster with a breaker ---- */

#define CLUSTER NO_TLS "\n[clusters]\nmain = primary=10.0.0.1:5432,10.0.0.2:5433 replicas=10.0.0.3:5434"
#define WORD word_pack(CLUSTER_PRIMARY, 7)

static void begin_guarded(uint64_t primary)
{
	atomic_store(&sc.cluster.word, WORD);
	atomic_store(&sc.cluster.primary, primary);
	sc.cluster.name = "main";
	begin(CLUSTER, "cluster=main");
}

static void the_host_that_was_found_is_dialled_and_no_other(void **state)
{
	struct conf_host replica = {"10.0.0.3", 5434};

	(void)state;
	begin_guarded(cluster_host_key(&replica));
	assert_string_equal(sc.host, "10.0.0.3");
	assert_int_equal(sc.port, 5434);
	assert_true(sc.server.word == WORD);
	assert_true(sc.server.primary == cluster_host_key(&replica));
	dial_fails("connect failed: Connection refused");
	assert_int_equal(sc.n_dials, 1);
	assert_failed("08006", "connect failed: Connection refused", false);
}

static void without_a_primary_nobody_is_dialled_and_clients_may_wait(void **state)
{
	(void)state;
	begin_guarded(KEY_NOBODY);
	turn();
	assert_int_equal(sc.n_dials, 0);
	assert_failed("57P03", "cluster main (primary): no host is known to be its primary", false);
	assert_int_equal(sc.n_counted, 0);
}

static void a_login_that_is_refused_at_all_hosts_counts_once(void **state)
{
	(void)state;
	begin_guarded(KEY_ANY);
	assert_string_equal(sc.host, "10.0.0.1");
	dial_fails("connect failed: Connection refused");
	assert_int_equal(sc.n_counted, 0);
	assert_string_equal(sc.host, "10.0.0.2");
	dial_fails("connect failed: Connection refused");
	assert_int_equal(sc.n_counted, 1);
	assert_true(sc.word == WORD);
	assert_int_equal(sc.n_dials, 2);
}

static void a_login_without_an_answer_or_with_not_now_counts(void **state)
{
	(void)state;
	begin_guarded(KEY_ANY);
	pass(100 * USEC_PER_SEC);
	pass(100 * USEC_PER_SEC);
	assert_int_equal(sc.n_counted, 1);
	server_unmake();
	setup_drop(&sc.setup);
	sc.n_failed = 0;
	begin_guarded(KEY_ANY);
	dial_fails("connect failed: Connection refused");
	dial_connects();
	says_error("FATAL", "57P03", "the database system is starting up");
	assert_int_equal(sc.n_counted, 2);
}

static void a_login_that_is_refused_by_a_server_that_is_there_does_not_count(void **state)
{
	static const char *const reasons[] = {"53300", "28P01", "3D000"};

	(void)state;
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		struct conf_host first = {"10.0.0.1", 5432};

		begin_guarded(cluster_host_key(&first));
		dial_connects();
		says_error("FATAL", reasons[i], "no");
		assert_int_equal(sc.n_failed, 1);
		assert_int_equal(sc.n_counted, 0);
		server_unmake();
		setup_drop(&sc.setup);
		sc.n_failed = 0;
	}
	begin_guarded(KEY_ANY);
}

static void a_login_that_worked_is_told(void **state)
{
	(void)state;
	begin_guarded(KEY_ANY);
	dial_connects();
	says_auth(0, NULL, 0);
	says_ready('I');
	assert_int_equal(sc.n_ready, 1);
	assert_int_equal(sc.n_worked, 1);
	assert_true(sc.word == WORD);
}

/* ---- a fence ---- */

static bool asks_read_only(void)
{
	static const char asked[] = "default_transaction_read_only\0on\0"; /* and the NUL that ends the packet */
	struct span said = hears();

	return said.len >= sizeof(asked) && memcmp(said.p + said.len - sizeof(asked), asked, sizeof(asked)) == 0;
}

static void behind_a_fence_the_session_is_asked_to_be_read_only_whatever_the_entry_says(void **state)
{
	(void)state;
	atomic_store(&sc.cluster.word, word_pack(CLUSTER_RECOVERING, 7));
	begin(NO_TLS, ONE_HOST " default_transaction_read_only=off");
	dial_connects();
	assert_true(sc.server.read_only);
	assert_true(asks_read_only());
}

static void a_frozen_orgs_session_is_too(void **state)
{
	(void)state;
	sc.flow.frozen = true;
	begin(NO_TLS, ONE_HOST);
	dial_connects();
	assert_true(sc.server.read_only && sc.server.frozen);
	assert_true(asks_read_only());
}

static void an_exempt_ones_is_not(void **state)
{
	(void)state;
	atomic_store(&sc.cluster.word, word_pack(CLUSTER_RECOVERING, 7));
	sc.target.exempt = true;
	begin(NO_TLS, ONE_HOST);
	dial_connects();
	assert_false(sc.server.read_only);
	assert_false(asks_read_only());
}

static void a_session_that_comes_out_writable_is_not_used(void **state)
{
	(void)state;
	atomic_store(&sc.cluster.word, word_pack(CLUSTER_RECOVERING, 7));
	begin(NO_TLS, ONE_HOST " connect_query='SET default_transaction_read_only=off'");
	dial_connects();
	says_auth(0, NULL, 0);
	says_parameter("default_transaction_read_only", "on");
	says_ready('I');
	says_parameter("default_transaction_read_only", "off");
	says_ready('I');
	assert_int_equal(sc.n_ready, 0);
	assert_failed("25006", "the session is not read-only after its login, though writes are fenced (connect_query?)", false);
}

/* ---- the good road ---- */

static void a_trusted_login_fills_in_the_server_and_the_welcome(void **state)
{
	(void)state;
	static const uint8_t key[] = {'K', 0, 0, 0, 12, 0, 0, 0x12, 0x67, 1, 2, 3, 4};
	struct server *s = &sc.server;
	struct buf welcome = {0};

	begin(NO_TLS, ONE_HOST " port=5433 dbname=real application_name=writer work_mem=5MB");
	assert_string_equal(sc.host, "10.0.0.1");
	assert_int_equal(sc.port, 5433);
	dial_connects();
	assert_int_equal(s->state, SERVER_LOGIN);
	/* length, 3.0, pairs, NUL */
	assert_hears("\0\0\0\x45\0\3\0\0user\0bob\0database\0real\0application_name\0writer\0work_mem\0005MB\0\0", 0x45);
	says_auth(0, NULL, 0);
	says_parameter("server_version", "15.4 (Debian)");
	says_parameter("TimeZone", "Europe/Oslo");
	says(key, sizeof(key));
	assert_under_way();
	assert_false(sc.target.welcome.known);
	says_ready('I');
	assert_int_equal(sc.n_ready, 1);
	assert_int_equal(s->status, 'I');
	assert_int_equal(s->pid, 0x1267);
	assert_int_equal(s->key, 0x01020304);
	assert_string_equal(s->welcome_version, "15.4 (Debian)");
	assert_string_equal(s->gucs.at[2]->text, "Europe/Oslo");
	assert_ptr_equal(s->gucs_at_login.at[2], s->gucs.at[2]);
	assert_false(s->tls);
	msg_parameter(&welcome, "server_version", "15.4 (Debian)");
	msg_parameter(&welcome, "TimeZone", "Europe/Oslo");
	assert_true(sc.target.welcome.known);
	assert_true(span_same(buf_span(&welcome), buf_span(&sc.target.welcome.messages)));
	buf_free(&welcome);
}

static void a_login_that_comes_byte_by_byte_is_the_same(void **state)
{
	(void)state;
	struct buf b = {0};

	begin(NO_TLS, ONE_HOST);
	dial_connects();
	msg_auth(&b, 0, NULL, 0);
	msg_parameter(&b, "TimeZone", "UTC");
	msg_key(&b, 7, 8);
	report_notice(&b, "welcome");
	msg_ready(&b, 'I');
	for (size_t i = 0; i < b.len; i++) {
		assert_under_way();
		says(b.p + i, 1);
	}
	buf_free(&b);
	assert_int_equal(sc.n_ready, 1);
	assert_int_equal(sc.server.pid, 7);
}

static void what_follows_the_first_ready_is_left_to_the_server(void **state)
{
	(void)state;
	struct buf b = {0};

	begin(NO_TLS, ONE_HOST);
	dial_connects();
	msg_auth(&b, 0, NULL, 0);
	msg_ready(&b, 'I');
	report_notice(&b, "later");
	says_buf(&b);
	assert_int_equal(sc.n_ready, 1);
	assert_int_equal(stream_left(&sc.server.stream).p[0], 'N');
}

static void the_welcome_of_the_last_login_replaces_the_one_before(void **state)
{
	(void)state;
	struct buf b = {0};

	begin(NO_TLS, ONE_HOST);
	msg_parameter(&sc.target.welcome.messages, "old", "1");
	dial_connects();
	says_auth(0, NULL, 0);
	says_parameter("new", "2");
	says_ready('I');
	msg_parameter(&b, "new", "2");
	assert_true(span_same(buf_span(&b), buf_span(&sc.target.welcome.messages)));
	buf_free(&b);
}

/* ---- connect_query ---- */

static void connect_query_runs_before_the_server_is_ready(void **state)
{
	(void)state;
	struct buf b = {0};
	static uint8_t row[200 * 1024] = {'D', 0, 3, 0x1f, 0xff}; /* 200 KiB: dropped as it comes */

	begin(NO_TLS, ONE_HOST " connect_query='SET TimeZone=x'");
	dial_connects();
	says_auth(0, NULL, 0);
	says_parameter("TimeZone", "UTC");
	hears();
	says_ready('I');
	assert_under_way();
	assert_hears("Q\0\0\0\x13SET TimeZone=x\0", 20);
	says_parameter("TimeZone", "Asia/Tokyo");
	for (size_t at = 0; at < sizeof(row); at += 8192)
		says(row + at, 8192);
	msg_begin(&b, 'C');
	b.p[4] = 8;
	buf_add(&b, "SET", 4);
	says_buf(&b);
	assert_under_way();
	says_ready('I');
	assert_int_equal(sc.n_ready, 1);
	assert_string_equal(sc.server.gucs_at_login.at[2]->text, "Asia/Tokyo");
	assert_int_equal(sc.server.gucs_at_login.firm, 1u << 2);
}

static void a_failing_connect_query_is_passed_over(void **state)
{
	(void)state;
	begin(NO_TLS, ONE_HOST " connect_query='boo'");
	dial_connects();
	says_auth(0, NULL, 0);
	says_ready('I');
	says_error("ERROR", "42601", "syntax error");
	assert_under_way();
	says_ready('I');
	assert_int_equal(sc.n_ready, 1);
}

static void a_connect_query_that_leaves_a_transaction_open_fails(void **state)
{
	(void)state;
	begin(NO_TLS, ONE_HOST " connect_query='BEGIN'");
	dial_connects();
	says_auth(0, NULL, 0);
	says_ready('I');
	says_ready('T');
	assert_failed("08P01", "connect_query left a transaction open", false);
}

/* ---- authentication ---- */

static void a_cleartext_request_gets_the_plain_password(void **state)
{
	(void)state;
	begin(NO_TLS, ONE_HOST " user=bob password=sesame");
	dial_connects();
	hears();
	says_auth(3, NULL, 0);
	assert_hears("p\0\0\0\x0bsesame\0", 12);
	says_auth(0, NULL, 0);
	says_ready('I');
	assert_int_equal(sc.n_ready, 1);
}

static void an_md5_request_gets_the_salted_hash(void **state)
{
	(void)state;
	begin(NO_TLS, ONE_HOST " user=bob password=sesame");
	dial_connects();
	hears();
	says_auth(5, "abcd", 4);
	assert_hears("p\0\0\0\x28" MD5_ANSWER "\0", 41);
	says_auth(0, NULL, 0);
	says_ready('I');
	assert_int_equal(sc.n_ready, 1);
}

static void without_a_password_the_login_fails_at_once_and_says_why(void **state)
{
	(void)state;
	begin(NO_TLS, ONE_HOST);
	dial_connects();
	says_auth(3, NULL, 0);
	assert_failed("28000", "cannot do cleartext password authentication as \"bob\": no password is known", false);
}

static void a_password_that_a_client_gave_serves_where_none_is_configured(void **state)
{
	(void)state;
	begin(NO_TLS, ONE_HOST);
	secret_set(&sc.target.password, "fromclient", 10);
	dial_connects();
	hears();
	says_auth(3, NULL, 0);
	assert_hears("p\0\0\0\x0f" "fromclient\0", 16);
}

/* The clients of a forced user logged in as somebody else: what they know is not its password. */
static void a_forced_user_never_gets_a_clients_password(void **state)
{
	(void)state;
	begin(NO_TLS, ONE_HOST " user=bob");
	secret_set(&sc.target.password, "fromclient", 10);
	dial_connects();
	says_auth(3, NULL, 0);
	assert_failed("28000", "cannot do cleartext password authentication as \"bob\": no password is known", false);
}

static void a_scram_secret_alone_cannot_log_in(void **state)
{
	(void)state;
	struct scram_verifier v;
	const char *text = "SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

	assert_true(scram_verifier_parse(text, &v));
	scram_verifier_free(&v);
	begin(NO_TLS, ONE_HOST);
	secret_set(&sc.target.password, text, strlen(text));
	dial_connects();
	says_auth(10, "SCRAM-SHA-256\0", 15);
	assert_failed("28000", "cannot do SCRAM authentication as \"bob\": the password is a SCRAM secret and no client has logged in with it", false);
}

static void an_md5_secret_cannot_do_scram(void **state)
{
	(void)state;
	begin(NO_TLS, ONE_HOST);
	secret_set(&sc.target.password, "md5" MD5_STORED, 35);
	dial_connects();
	says_auth(10, "SCRAM-SHA-256\0", 15);
	assert_failed("28000", "cannot do SCRAM authentication as \"bob\": the password is known as an md5 hash only", false);
}

/* Plays SCRAM's server. Takes the client's message apart, gives the next one. */
static struct scram_server *scram;

static void scram_begins(const char *password)
{
	struct buf server_first = {0};
	struct scram_verifier v;
	struct secret secret = {0};
	struct err err = {0};
	struct span got;

	secret_set(&secret, password, strlen(password));
	assert_true(scram_verifier_make(&secret, 4096, &v));
	scram = scram_server_new(&v);
	scram_verifier_free(&v);
	secret_free(&secret);
	hears();
	says_auth(10, "SCRAM-SHA-256\0", 15);
	got = hears();
	assert_true(got.len > 23);
	assert_memory_equal(got.p + 5, "SCRAM-SHA-256", 14); /* its NUL as well */
	assert_int_equal(got.p[0], 'p');
	if (!scram_server_first(scram, (struct span){got.p + 23, got.len - 23}, false, false, (struct span){0}, &server_first, &err))
		fail_msg("%s", err.text);
	says_auth(11, server_first.p, server_first.len);
	buf_free(&server_first);
}

static bool scram_ends(struct buf *server_final, struct scram_keys *keys)
{
	struct span got = hears();
	struct err err = {0};
	bool right;

	assert_int_equal(got.p[0], 'p');
	right = scram_server_final(scram, (struct span){got.p + 5, got.len - 5}, server_final, keys, &err);
	scram_server_free(&scram);
	return right;
}

static void scram_with_a_password_proves_both_sides(void **state)
{
	(void)state;
	struct scram_keys keys = {0};
	struct buf final = {0};

	begin(NO_TLS, ONE_HOST " user=bob password=sesame");
	dial_connects();
	scram_begins("sesame");
	assert_true(scram_ends(&final, &keys));
	says_auth(12, final.p, final.len);
	says_auth(0, NULL, 0);
	says_ready('I');
	assert_int_equal(sc.n_ready, 1);
	buf_free(&final);
}

static void scram_goes_by_a_clients_keys_when_there_is_no_password(void **state)
{
	(void)state;
	struct scram_verifier v;
	struct secret secret = {0};
	struct buf first = {0}, server_first = {0}, final = {0}, server_final = {0};
	struct scram_client *client;
	struct scram_server *server;
	struct err err = {0};

	/* A client logs in with its password; what it reveals are the keys. */
	secret_set(&secret, "sesame", 6);
	assert_true(scram_verifier_make(&secret, 4096, &v));
	client = scram_client_new(&secret, NULL);
	server = scram_server_new(&v);
	scram_client_first(client, false, false, (struct span){0}, &first);
	assert_true(scram_server_first(server, buf_span(&first), false, false, (struct span){0}, &server_first, &err));
	assert_true(scram_client_next(client, buf_span(&server_first), &final, &err));
	begin(NO_TLS, ONE_HOST);
	assert_true(scram_server_final(server, buf_span(&final), &server_final, &sc.target.keys, &err));
	assert_true(sc.target.keys.set);
	scram_client_free(&client);
	scram_server_free(&server);
	buf_free(&first);
	buf_free(&server_first);
	buf_free(&final);
	buf_free(&server_final);

	/* The same verifier on the server, and the keys do. */
	struct scram_keys seen = {0};
	struct span got;

	dial_connects();
	hears();
	says_auth(10, "SCRAM-SHA-256\0", 15);
	scram = scram_server_new(&v);
	got = hears();
	assert_true(scram_server_first(scram, (struct span){got.p + 23, got.len - 23}, false, false, (struct span){0}, &server_first, &err));
	says_auth(11, server_first.p, server_first.len);
	assert_true(scram_ends(&server_final, &seen));
	says_auth(12, server_final.p, server_final.len);
	says_auth(0, NULL, 0);
	says_ready('I');
	assert_int_equal(sc.n_ready, 1);
	scram_verifier_free(&v);
	secret_free(&secret);
	buf_free(&server_first);
	buf_free(&server_final);
}

static void a_server_that_ends_scram_early_is_refused(void **state)
{
	(void)state;
	struct scram_keys keys = {0};
	struct buf final = {0};

	begin(NO_TLS, ONE_HOST " user=bob password=sesame");
	dial_connects();
	scram_begins("sesame");
	scram_ends(&final, &keys);
	buf_free(&final);
	says_auth(0, NULL, 0); /* without its own proof */
	assert_failed("08P01", "the server ended SCRAM authentication before it proved that it knows the password", false);
}

static void a_server_with_a_wrong_signature_is_refused(void **state)
{
	(void)state;
	struct scram_keys keys = {0};
	struct buf final = {0};

	begin(NO_TLS, ONE_HOST " user=bob password=sesame");
	dial_connects();
	scram_begins("sesame");
	assert_true(scram_ends(&final, &keys));
	final.p[3] = final.p[3] == 'A' ? 'B' : 'A';
	says_auth(12, final.p, final.len);
	buf_free(&final);
	assert_int_equal(sc.n_failed, 1);
	assert_string_equal(sc.err.sqlstate, "28P01");
}

static void a_nonce_of_ten_thousand_letters_does_no_harm(void **state)
{
	(void)state;
	static char first[10100] = "r=";
	struct span got;

	begin(NO_TLS, ONE_HOST " user=bob password=sesame");
	dial_connects();
	hears();
	says_auth(10, "SCRAM-SHA-256\0", 15);
	got = hears();
	const char *nonce = memmem(got.p, got.len, "r=", 2);
	size_t len = (size_t)((const char *)got.p + got.len - nonce);
	memcpy(first, nonce, len);
	memset(first + len, 'x', 10000);
	strcpy(first + len + 10000, ",s=c2FsdA==,i=4096");
	says_auth(11, first, strlen(first));
	got = hears();
	assert_true(sc.n_failed == 1 || got.len > 10000); /* refused, or answered whole */
}

/* ---- errors of the server's ---- */

static void the_servers_own_words_are_passed_on(void **state)
{
	(void)state;
	begin(NO_TLS, ONE_HOST);
	dial_connects();
	says_auth(0, NULL, 0);
	says_error("FATAL", "3D000", "database \"app\" does not exist");
	assert_failed("3D000", "database \"app\" does not exist", true);
	assert_true(peer_is_cut());
}

static void an_error_without_a_sqlstate_or_any_field_is_an_error_all_the_same(void **state)
{
	(void)state;
	begin(NO_TLS, ONE_HOST);
	dial_connects();
	says("E\0\0\0\x05\0", 6);
	assert_failed("08006", "server login failed", true);
}

static void a_sqlstate_that_is_none_is_not_passed_on(void **state)
{
	(void)state;
	begin(NO_TLS, ONE_HOST);
	dial_connects();
	says("E\0\0\0\x10" "C<b>x\0Mboo\0\0", 17);
	assert_failed("08006", "boo", true);
}

/* ---- odd servers: each row is sent after the startup packet ---- */

static const struct odd {
	const char *bytes;
	size_t len;
	const char *text;
} odd[] = {
#define ODD(bytes, text) {bytes, sizeof(bytes) - 1, text}
	ODD("R\0\0\0\x03", "bad message length from the server"),
	ODD("R\0\0\0\0", "bad message length from the server"),
	ODD("R\xff\xff\xff\xff", "bad message length from the server"),
	ODD("R\0\0\0\4", "broken authentication message from the server: bad length"),
	ODD("R\0\0\0\x06\0\0", "broken authentication message from the server: bad length"),
	ODD("R\0\0\0\x09\0\0\0\0\0", "broken authentication message from the server: bad length"),
	ODD("R\0\0\0\x08\0\0\0\x63", "unknown authentication request 99 from the server"),
	ODD("R\0\0\0\x08\0\0\0\x07", "cannot do GSSAPI authentication as \"bob\": it is not supported"),
	ODD("R\0\0\0\x09\0\0\0\x0a\0", "broken authentication message from the server: no SASL mechanism is offered"),
	ODD("R\0\0\0\x08\0\0\0\x0a", "broken authentication message from the server: malformed list of SASL mechanisms"),
	ODD("R\0\0\0\x0b\0\0\0\x0a" "abc", "broken authentication message from the server: malformed list of SASL mechanisms"),
	ODD("R\0\0\0\x0e\0\0\0\x0a" "PLAIN\0", "broken authentication message from the server: malformed list of SASL mechanisms"),
	ODD("R\0\0\0\x0f\0\0\0\x0a" "PLAIN\0\0", "the server offers no SASL mechanism that is supported (SCRAM-SHA-256)"),
	ODD("R\0\0\0\x0b\0\0\0\x0b" "r=x", "broken authentication message from the server: out of turn"),
	ODD("R\0\0\0\x0b\0\0\0\x0c" "v=x", "broken authentication message from the server: out of turn"),
	ODD("R\0\0\0\x0b\0\0\0\x05" "abc", "broken authentication message from the server: bad length"),
	ODD("Z\0\0\0\x05I", "unexpected message from the server in login: ReadyForQuery (0x5a)"),
	ODD("K\0\0\0\x0c\0\0\0\1\0\0\0\2", "unexpected message from the server in login: BackendKeyData (0x4b)"),
	ODD("S\0\0\0\x08" "a\0b\0", "unexpected message from the server in login: ParameterStatus (0x53)"),
	ODD("D\0\0\0\x06\0\0", "unexpected message from the server in login: DataRow (0x44)"),
	ODD("HTTP/1.1 400 Bad Request\r\n", "bad message length from the server"),
	ODD("\0\0\0\0\4", "unexpected message from the server in login: unknown (0x00)"),
	ODD("E\0\0\0\x04", "broken ErrorResponse message from the server"),
	ODD("E\0\0\0\x07" "Mab", "broken ErrorResponse message from the server"),
	ODD("N\0\0\0\x04", "broken NoticeResponse message from the server"),
	ODD("E\0\1\0\0", "too long a message from the server in login: ErrorResponse"),
	ODD("v\0\0\0\x0c\0\3\0\2\0\0\0\0", "the server does not speak protocol 3.0"),
	ODD("v\0\0\0\x0c\0\3\0\0\0\0\0\1", "the server does not speak protocol 3.0"),
	/* behind AuthenticationOk */
#define OK_ "R\0\0\0\x08\0\0\0\0"
	ODD(OK_ OK_, "unexpected message from the server in login: Authentication (0x52)"),
	ODD(OK_ "K\0\0\0\x08\0\0\0\1", "broken BackendKeyData message from the server"),
	ODD(OK_ "K\0\0\0\x10\0\0\0\1\0\0\0\2\0\0\0\3", "broken BackendKeyData message from the server"),
	ODD(OK_ "K\0\0\0\x0c\0\0\0\1\0\0\0\2K\0\0\0\x0c\0\0\0\1\0\0\0\2", "broken BackendKeyData message from the server"),
	ODD(OK_ "S\0\0\0\x06" "a\0", "broken ParameterStatus message from the server"),
	ODD(OK_ "S\0\0\0\x07" "a\0b", "broken ParameterStatus message from the server"),
	ODD(OK_ "S\0\0\0\x0a" "a\0b\0c\0", "broken ParameterStatus message from the server"),
	ODD(OK_ "Z\0\0\0\x05T", "login ended inside a transaction"),
	ODD(OK_ "Z\0\0\0\x04", "broken ReadyForQuery message from the server"),
	ODD(OK_ "Z\0\0\0\x06I\0", "broken ReadyForQuery message from the server"),
	ODD(OK_ "T\0\0\0\x06\0\0", "unexpected message from the server in login: RowDescription (0x54)"),
};

static void odd_messages_end_the_login_with_a_clear_reason(void **state)
{
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		if (i) {
			scene_free(state);
			scene_make(state);
		}
		begin(NO_TLS, ONE_HOST " user=bob password=sesame");
		dial_connects();
		says(odd[i].bytes, odd[i].len);
		assert_int_equal(sc.n_failed, 1);
		assert_string_equal(sc.err.text, odd[i].text);
		assert_false(sc.server_said);
		assert_true(peer_is_cut());
	}
}

static void an_unfinished_message_waits_and_then_is_an_end(void **state)
{
	(void)state;
	begin(NO_TLS, ONE_HOST);
	dial_connects();
	says("R\0\0\0", 4);
	assert_under_way();
	hears(); /* what is unread at a close makes it a reset */
	close(sc.peer);
	sc.peer = -1;
	turn();
	assert_failed("08006", "server conn crashed?", false);
}

static void endless_parameters_are_cut_off(void **state)
{
	(void)state;
	static char value[60 * 1024];

	memset(value, 'x', sizeof(value) - 1);
	begin(NO_TLS, ONE_HOST);
	dial_connects();
	says_auth(0, NULL, 0);
	for (int i = 0; i < 5 && !sc.n_failed; i++)
		says_parameter("a", value);
	assert_failed("08P01", "too many ParameterStatus messages from the server", false);
}

/* ---- TLS ---- */

#define SSL_REQUEST_BYTES "\0\0\0\x08\x04\xd2\x16\x2f"

static void prefer_goes_on_in_clear_when_the_server_has_no_tls(void **state)
{
	(void)state;
	begin("server_tls_sslmode=prefer", ONE_HOST);
	dial_connects();
	assert_hears(SSL_REQUEST_BYTES, 8);
	says("N", 1);
	assert_int_equal(hears().p[5], 3); /* the startup packet */
	assert_under_way();
	assert_false(sc.server.tls);
}

static void require_does_not(void **state)
{
	(void)state;
	begin("server_tls_sslmode=require", ONE_HOST);
	dial_connects();
	hears();
	says("N", 1);
	assert_failed("08006", "server refused SSL", false);
	assert_int_equal(hears().len, 0); /* nothing went out in clear */
}

static void bytes_behind_the_answer_are_refused(void **state)
{
	(void)state;
	begin("server_tls_sslmode=prefer", ONE_HOST);
	dial_connects();
	says("SE\0\0\0\x05\0", 7);
	assert_failed("08P01", "received unencrypted data after SSL response", false);
}

static void an_answer_that_is_neither_yes_nor_no_is_refused(void **state)
{
	(void)state;
	begin("server_tls_sslmode=prefer", ONE_HOST);
	dial_connects();
	says("E", 1);
	assert_failed("08P01", "unexpected answer to SSL request", false);
}

static void a_yes_begins_a_handshake(void **state)
{
	(void)state;
	struct span got;

	begin("server_tls_sslmode=require", ONE_HOST);
	dial_connects();
	hears();
	says("S", 1);
	got = hears();
	assert_true(got.len > 5);
	assert_int_equal(got.p[0], 0x16); /* a TLS handshake record, RFC 8446 section 5.1 */
	says("garbage that is no TLS", 22);
	assert_int_equal(sc.n_failed, 1);
	assert_ptr_equal(strstr(sc.err.text, "TLS handshake failed: "), sc.err.text);
}

/* ---- hosts and time ---- */

static void all_hosts_are_tried_before_it_fails(void **state)
{
	(void)state;
	begin(NO_TLS, "host=10.0.0.1,10.0.0.2,10.0.0.3");
	assert_string_equal(sc.host, "10.0.0.1");
	dial_fails("connect failed: Connection refused");
	assert_string_equal(sc.host, "10.0.0.2");
	dial_fails("connect failed: No route to host");
	assert_under_way();
	assert_string_equal(sc.host, "10.0.0.3");
	dial_fails("connect failed: Connection refused");
	assert_failed("08006", "connect failed: Connection refused", false);
	assert_int_equal(sc.n_dials, 3);
}

static void the_next_host_serves_when_one_breaks_in_the_login(void **state)
{
	(void)state;
	begin(NO_TLS, "host=10.0.0.1,10.0.0.2");
	dial_connects();
	says_auth(0, NULL, 0);
	says_parameter("TimeZone", "Mars");
	says_error("FATAL", "57P03", "the database system is starting up");
	assert_under_way();
	assert_string_equal(sc.host, "10.0.0.2");
	assert_int_equal(sc.server.state, SERVER_DIAL);
	assert_null(sc.server.gucs.at[2]); /* nothing of the first is left */
	dial_connects();
	says_auth(0, NULL, 0);
	says_ready('I');
	assert_int_equal(sc.n_ready, 1);
	assert_int_equal(sc.target.welcome.messages.len, 0);
}

static void a_servers_answer_is_told_rather_than_a_refused_connection(void **state)
{
	(void)state;
	begin(NO_TLS, "host=10.0.0.1,10.0.0.2");
	dial_connects();
	says_error("FATAL", "57P03", "the database system is starting up");
	dial_fails("connect failed: Connection refused");
	assert_failed("57P03", "the database system is starting up", true);
}

static void a_wrong_password_is_not_tried_elsewhere(void **state)
{
	(void)state;
	begin(NO_TLS, "host=10.0.0.1,10.0.0.2");
	dial_connects();
	says_error("FATAL", "28P01", "password authentication failed for user \"bob\"");
	assert_failed("28P01", "password authentication failed for user \"bob\"", true);
	assert_int_equal(sc.n_dials, 1);
}

static void a_new_connection_begins_with_the_next_host(void **state)
{
	(void)state;
	begin(NO_TLS, "host=10.0.0.1,10.0.0.2");
	assert_string_equal(sc.host, "10.0.0.1");
	server_unmake();
	server_make();
	login_begin(&sc.server);
	assert_string_equal(sc.host, "10.0.0.2");
	server_unmake();
	server_make();
	sc.target.host_turn = UINT32_MAX; /* comes round */
	login_begin(&sc.server);
	assert_string_equal(sc.host, "10.0.0.2");
}

static void without_balance_the_host_that_worked_comes_first(void **state)
{
	(void)state;
	begin(NO_TLS, "host=10.0.0.1,10.0.0.2 load_balance_hosts=disable");
	dial_fails("connect failed: Connection refused");
	dial_connects();
	says_auth(0, NULL, 0);
	says_ready('I');
	assert_int_equal(sc.n_ready, 1);
	for (int i = 0; i < 2; i++) {
		server_unmake();
		server_make();
		login_begin(&sc.server);
		assert_string_equal(sc.host, "10.0.0.2");
	}
}

static void a_mute_server_ends_with_connect_timeout(void **state)
{
	(void)state;
	begin(NO_TLS "\nserver_connect_timeout=15", ONE_HOST);
	dial_connects();
	says_auth(0, NULL, 0);
	pass(14 * USEC_PER_SEC);
	assert_under_way();
	pass(1 * USEC_PER_SEC);
	assert_failed("08006", "connect timeout", false);
}

static void a_mute_host_leaves_time_for_the_others(void **state)
{
	(void)state;
	begin(NO_TLS "\nserver_connect_timeout=15", "host=10.0.0.1,10.0.0.2,10.0.0.3");
	pass(5 * USEC_PER_SEC);
	assert_string_equal(sc.host, "10.0.0.2");
	assert_int_equal(sc.n_stops, 1);
	dial_fails("connect failed: Connection refused");
	assert_string_equal(sc.host, "10.0.0.3");
	pass(9 * USEC_PER_SEC); /* the last one has all that is left */
	assert_under_way();
	pass(1 * USEC_PER_SEC);
	assert_failed("08006", "connect timeout", false);
}

static void without_a_timeout_it_waits_for_ever(void **state)
{
	(void)state;
	begin(NO_TLS "\nserver_connect_timeout=0", ONE_HOST);
	pass(100000 * USEC_PER_SEC);
	assert_under_way();
}

static void an_entry_that_was_removed_fails_but_not_before_begin_has_returned(void **state)
{
	(void)state;
	sc.removed = true;
	begin(NO_TLS, ONE_HOST);
	assert_under_way();
	turn();
	assert_failed("3D000", "database configuration changed", false);
	assert_int_equal(sc.n_dials, 0);
}

static void an_entry_removed_during_the_dial_fails(void **state)
{
	(void)state;
	begin(NO_TLS, ONE_HOST);
	sc.removed = true;
	dial_connects();
	assert_failed("3D000", "database configuration changed", false);
}

/* ---- cancel requests ---- */

static void on_cancelled(void *owner)
{
	assert_ptr_equal(owner, &sc);
	sc.n_cancels++;
}

static void cancel_begins(const char *settings, bool tls)
{
	begin(settings, ONE_HOST " port=5433");
	server_unmake();
	dial_stop(&sc.server.dial);
	sc.server.pid = 0x1267;
	sc.server.key = 0x01020304;
	sc.server.tls = tls;
	addr_from_ip(&sc.server.addr, "10.0.0.9", 5433);
	login_cancel(&sc.server, on_cancelled, &sc);
}

#define CANCEL_BYTES "\0\0\0\x10\x04\xd2\x16\x2e\0\0\x12\x67\1\2\3\4"

static void a_cancel_goes_to_the_address_that_answered_and_holds_the_server(void **state)
{
	(void)state;
	cancel_begins(NO_TLS, false);
	assert_string_equal(sc.host, "10.0.0.9");
	assert_int_equal(sc.port, 5433);
	dial_connects();
	assert_hears(CANCEL_BYTES, 16);
	assert_int_equal(sc.server.cancels, 1);
	assert_int_equal(sc.n_cancels, 0);
	close(sc.peer);
	sc.peer = -1;
	turn();
	assert_int_equal(sc.server.cancels, 0);
	assert_int_equal(sc.n_cancels, 1);
	assert_false(sc.server.stale);
}

static void a_cancel_that_cannot_connect_is_over(void **state)
{
	(void)state;
	cancel_begins(NO_TLS, false);
	dial_fails("connect failed: Connection refused");
	assert_int_equal(sc.n_cancels, 1);
	assert_int_equal(sc.n_cancel_ends, 1);
	assert_false(sc.server.stale); /* nothing was sent */
}

/* It may still hit whatever runs there next. */
static void a_cancel_without_an_answer_spoils_the_server(void **state)
{
	(void)state;
	cancel_begins(NO_TLS "\ncancel_wait_timeout=10", false);
	dial_connects();
	pass(9 * USEC_PER_SEC);
	assert_int_equal(sc.n_cancels, 0);
	pass(1 * USEC_PER_SEC);
	assert_int_equal(sc.n_cancels, 1);
	assert_int_equal(sc.n_cancel_ends, 1);
	assert_true(sc.server.stale);
}

static void a_cancel_of_a_server_on_tls_asks_for_tls(void **state)
{
	(void)state;
	cancel_begins("server_tls_sslmode=require", true);
	dial_connects();
	assert_hears(SSL_REQUEST_BYTES, 8);
	says("N", 1);
	assert_int_equal(hears().len, 0); /* the key does not go out in clear */
	assert_int_equal(sc.n_cancels, 1);
	assert_int_equal(sc.n_cancel_ends, 1);
}

static void without_a_key_there_is_nothing_to_cancel(void **state)
{
	(void)state;
	begin(NO_TLS, ONE_HOST);
	server_unmake();
	login_cancel(&sc.server, on_cancelled, &sc);
	assert_int_equal(sc.n_cancels, 0);
	turn();
	assert_int_equal(sc.n_cancels, 1);
	assert_int_equal(sc.n_cancel_ends, 1);
	assert_int_equal(sc.n_dials, 1);
}

#define test(name) cmocka_unit_test_setup_teardown(name, scene_make, scene_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(a_trusted_login_fills_in_the_server_and_the_welcome),
		test(a_login_that_comes_byte_by_byte_is_the_same),
		test(what_follows_the_first_ready_is_left_to_the_server),
		test(the_welcome_of_the_last_login_replaces_the_one_before),
		test(connect_query_runs_before_the_server_is_ready),
		test(a_failing_connect_query_is_passed_over),
		test(a_connect_query_that_leaves_a_transaction_open_fails),
		test(a_cleartext_request_gets_the_plain_password),
		test(an_md5_request_gets_the_salted_hash),
		test(without_a_password_the_login_fails_at_once_and_says_why),
		test(a_password_that_a_client_gave_serves_where_none_is_configured),
		test(a_forced_user_never_gets_a_clients_password),
		test(a_scram_secret_alone_cannot_log_in),
		test(an_md5_secret_cannot_do_scram),
		test(scram_with_a_password_proves_both_sides),
		test(scram_goes_by_a_clients_keys_when_there_is_no_password),
		test(a_server_that_ends_scram_early_is_refused),
		test(a_server_with_a_wrong_signature_is_refused),
		test(a_nonce_of_ten_thousand_letters_does_no_harm),
		test(the_servers_own_words_are_passed_on),
		test(an_error_without_a_sqlstate_or_any_field_is_an_error_all_the_same),
		test(a_sqlstate_that_is_none_is_not_passed_on),
		test(odd_messages_end_the_login_with_a_clear_reason),
		test(an_unfinished_message_waits_and_then_is_an_end),
		test(endless_parameters_are_cut_off),
		test(prefer_goes_on_in_clear_when_the_server_has_no_tls),
		test(require_does_not),
		test(bytes_behind_the_answer_are_refused),
		test(an_answer_that_is_neither_yes_nor_no_is_refused),
		test(a_yes_begins_a_handshake),
		test(all_hosts_are_tried_before_it_fails),
		test(the_next_host_serves_when_one_breaks_in_the_login),
		test(a_servers_answer_is_told_rather_than_a_refused_connection),
		test(a_wrong_password_is_not_tried_elsewhere),
		test(a_new_connection_begins_with_the_next_host),
		test(without_balance_the_host_that_worked_comes_first),
		test(the_host_that_was_found_is_dialled_and_no_other),
		test(without_a_primary_nobody_is_dialled_and_clients_may_wait),
		test(a_login_that_is_refused_at_all_hosts_counts_once),
		test(a_login_without_an_answer_or_with_not_now_counts),
		test(a_login_that_is_refused_by_a_server_that_is_there_does_not_count),
		test(a_login_that_worked_is_told),
		test(behind_a_fence_the_session_is_asked_to_be_read_only_whatever_the_entry_says),
		test(a_frozen_orgs_session_is_too),
		test(an_exempt_ones_is_not),
		test(a_session_that_comes_out_writable_is_not_used),
		test(a_mute_server_ends_with_connect_timeout),
		test(a_mute_host_leaves_time_for_the_others),
		test(without_a_timeout_it_waits_for_ever),
		test(an_entry_that_was_removed_fails_but_not_before_begin_has_returned),
		test(an_entry_removed_during_the_dial_fails),
		test(a_cancel_goes_to_the_address_that_answered_and_holds_the_server),
		test(a_cancel_that_cannot_connect_is_over),
		test(a_cancel_without_an_answer_spoils_the_server),
		test(a_cancel_of_a_server_on_tls_asks_for_tls),
		test(without_a_key_there_is_nothing_to_cancel),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
