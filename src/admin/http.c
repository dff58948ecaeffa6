/* See admin/http.h. evhttp reads requests and writes replies; here is what it leaves open to a stranger who means ill:
 *
 *   size       heads of HEAD_MOST bytes, no bodies
 *   time       IDLE_SECONDS without a byte
 *   number     CONNECTIONS_MOST; one more ends the oldest, so whoever holds them open keeps nobody out for long
 *   work       a page is made once a second at most (admin/metrics), in slices
 *
 * evhttp tells nobody of the connections that it holds, but it asks for their bufferevents (evhttp_set_bevcb). A second reference to each
 * one is kept here: one without callbacks is what evhttp has freed, and to one that has to go an end of file is reported, upon which evhttp
 * closes it as if the peer had. A request whose peer is gone stays ours until it is answered.
 *
 * /healthz   200 when control and every worker answer within HEALTH_WAIT
 * /readyz    200 when clients are served: listening (which comes before), not paused, suspended or shutting down. A cluster that is
 *            down is no reason to take the process out of service: others would not reach it either */
#include "admin/http.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

#include "admin/metrics_priv.h"
#include "base/mem.h"
#include "net/listen.h"
#include "proxy/worker.h"

#define HEAD_MOST 8192
#define IDLE_SECONDS 60 /* more than the usual time between two scrapes, which keep their connection */
#define CONNECTIONS_MOST 64
#define HEALTH_WAIT (2 * USEC_PER_SEC)
#define ACCEPT_REST USEC_PER_SEC

static struct {
	struct evhttp *server;                       /* owns; NULL: off */
	struct evconnlistener *listener;             /* borrows: the server's */
	struct timer rest;                           /* accepting rests: there are no descriptors */
	struct bufferevent *bufs[CONNECTIONS_MOST];  /* refs, the oldest first */
	int n_bufs;
} http;

/* ---- how many connections ---- */

static bool is_freed(struct bufferevent *b)
{
	bufferevent_data_cb reads, writes;
	bufferevent_event_cb happens;

	bufferevent_getcb(b, &reads, &writes, &happens, NULL);
	return !reads && !writes && !happens;
}

static void drop_freed(void)
{
	int kept = 0;

	for (int i = 0; i < http.n_bufs; i++) {
		if (is_freed(http.bufs[i]))
			bufferevent_decref(http.bufs[i]);
		else
			http.bufs[kept++] = http.bufs[i];
	}
	http.n_bufs = kept;
}

static void end_oldest(void)
{
	bufferevent_trigger_event(http.bufs[0], BEV_EVENT_READING | BEV_EVENT_EOF, 0);
	drop_freed();
	if (http.n_bufs < CONNECTIONS_MOST)
		return;
	bufferevent_decref(http.bufs[0]); /* it would not go: no longer counted */
	memmove(http.bufs, http.bufs + 1, (size_t)--http.n_bufs * sizeof(http.bufs[0]));
}

/* evhttp has accepted a connection and wants this for it. */
static struct bufferevent *connected(struct event_base *base, void *arg)
{
	struct bufferevent *b;

	(void)arg;
	drop_freed();
	if (http.n_bufs == CONNECTIONS_MOST)
		end_oldest();
	b = bufferevent_socket_new(base, -1, 0);
	verify(b);
	bufferevent_incref(b);
	http.bufs[http.n_bufs++] = b;
	return b;
}

static void rested(struct timer *t)
{
	(void)t;
	evconnlistener_enable(http.listener);
}

/* The connection stays in the backlog, and without a rest the loop would spin. */
static void accept_failed(struct evconnlistener *listener, void *arg)
{
	(void)arg;
	loop_now(control->loop);
	log_error("http_listen: accept failed: %m, trying again in %d s", (int)(ACCEPT_REST / USEC_PER_SEC));
	evconnlistener_disable(listener);
	timer_in(&http.rest, ACCEPT_REST);
}

/* ---- replies ---- */

static void add_header(struct evhttp_request *r, const char *name, const char *value)
{
	evhttp_add_header(evhttp_request_get_output_headers(r), name, value);
}

static void reply_text(struct evhttp_request *r, int status, const char *reason, const char *text)
{
	struct evbuffer *body = evhttp_request_get_output_buffer(r);

	add_header(r, "Content-Type", "text/plain; charset=utf-8");
	add_header(r, "Cache-Control", "no-store");
	evbuffer_add_printf(body, "%s\n", text);
	evhttp_send_reply(r, status, reason, NULL);
}

static void reply_not_now(struct evhttp_request *r, const char *text)
{
	reply_text(r, HTTP_SERVUNAVAIL, "Service Unavailable", text);
}

static void page_sent(const void *bytes, size_t len, void *arg)
{
	struct page *p = arg;

	(void)bytes;
	(void)len;
	page_drop(&p);
}

/* The text is not copied: many who ask at once share one page. */
static void page_done(void *arg, struct page *p)
{
	struct evhttp_request *r = arg;
	struct evbuffer *body = evhttp_request_get_output_buffer(r);

	if (!p) {
		reply_not_now(r, "shutting down");
		return;
	}
	add_header(r, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
	if (evbuffer_add_reference(body, p->text.p, p->text.len, page_sent, page_ref(p)) != 0)
		page_drop(&p);
	evhttp_send_reply(r, HTTP_OK, "OK", NULL);
}

static void on_metrics(struct evhttp_request *r, void *arg)
{
	(void)arg;
	loop_now(control->loop);
	if (metrics_waiting() >= METRICS_WAITING_MOST) /* peers come and go while a worker does not answer */
		reply_not_now(r, "too many are waiting");
	else
		metrics_page(page_done, r);
}

/* ---- ready ---- */

static const char *stage_word(int stage)
{
	switch ((enum stage)stage) {
	case STAGE_RUNNING:
		return "ready";
	case STAGE_SUSPENDED:
		return "suspended";
	case STAGE_PAUSED:
		return "paused";
	case STAGE_WAIT_SERVERS:
	case STAGE_WAIT_CLIENTS:
		return "shutting down";
	}
	return "unknown";
}

static void on_ready(struct evhttp_request *r, void *arg)
{
	int stage = atomic_load(&process_stage);

	(void)arg;
	if (stage == STAGE_RUNNING)
		reply_text(r, HTTP_OK, "OK", stage_word(stage));
	else
		reply_not_now(r, stage_word(stage));
}

/* ---- health ----
 *
 * One question to all loops is under way at a time; all who ask meanwhile get its answer, or after HEALTH_WAIT the bad news. */

static struct {
	struct gather *question; /* borrows: it frees itself; NULL: none is under way */
	struct timer wait;
	struct evhttp_request *asking[CONNECTIONS_MOST];
	int n_asking;
} health;

static void health_tell(const char *wrong)
{
	int n = health.n_asking;

	health.n_asking = 0;
	timer_stop(&health.wait);
	for (int i = 0; i < n; i++) {
		if (wrong)
			reply_not_now(health.asking[i], wrong);
		else
			reply_text(health.asking[i], HTTP_OK, "OK", "ok");
	}
}

static void health_late(struct timer *t)
{
	(void)t;
	health_tell("a worker does not answer");
}

static void health_ask(struct part *p)
{
	part_done(p);
}

static void health_answered(struct gather *g)
{
	health.question = NULL;
	gather_free(&g);
	health_tell(NULL);
}

static void on_health(struct evhttp_request *r, void *arg)
{
	struct loop *loops[WORKERS_MOST + 1];

	(void)arg;
	loop_now(control->loop);
	if (health.n_asking == CONNECTIONS_MOST) {
		reply_not_now(r, "too many are asking");
		return;
	}
	health.asking[health.n_asking++] = r;
	if (!timer_is_set(&health.wait))
		timer_in(&health.wait, HEALTH_WAIT);
	if (!health.question)
		health.question = gather_start(control->loop, loops, worker_loops(loops), health_ask, health_answered, NULL);
}

/* ---- start and stop ---- */

static void on_other(struct evhttp_request *r, void *arg)
{
	(void)arg;
	reply_text(r, HTTP_NOTFOUND, "Not Found", "there is /metrics, /healthz and /readyz");
}

/* "host:port", "[::1]:port", ":port" and "*:port" for all addresses. */
static bool split(const char *text, char *host, size_t room, const char **port)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	int64_t number;

	if (!colon || !num_i64(colon + 1, &number) || number < 1 || number > UINT16_MAX)
		return false;
	*port = colon + 1;
	if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	} else if (memchr(text, ':', len)) {
		return false;
	}
	if (len >= room)
		return false;
	memcpy(host, text, len);
	host[len] = '\0';
	if (strcmp(host, "*") == 0)
		host[0] = '\0';
	return true;
}

static int bind_to(const char *text, struct err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found;
	const struct listen_options options = {.backlog = CONNECTIONS_MOST, .alone = true};
	char host[256];
	const char *port;
	struct addr a = {0};

	if (!split(text, host, sizeof(host), &port)) {
		err_set(err, NULL, "http_listen: \"%.100s\" is not host:port", text);
		return -1;
	}
	int failed = getaddrinfo(host[0] ? host : NULL, port, &hints, &found);
	if (failed) {
		err_set(err, NULL, "http_listen: %.100s: %s", text, gai_strerror(failed));
		return -1;
	}
	a.len = found->ai_addrlen;
	memcpy(&a.sa, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	struct err why;
	int fd = listen_bind(&a, &options, &why);
	if (fd < 0)
		err_set(err, NULL, "http_listen: %.100s: %.300s", text, why.text);
	return fd;
}

bool http_start(const struct conf *conf, struct err *err)
{
	const char *text = conf->set.http_listen;
	struct evhttp_bound_socket *bound;
	int fd;

	if (!text[0])
		return true;
	fd = bind_to(text, err);
	if (fd < 0)
		return false;
	http.server = evhttp_new(control->loop->base);
	verify(http.server);
	evhttp_set_allowed_methods(http.server, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
	evhttp_set_max_headers_size(http.server, HEAD_MOST);
	evhttp_set_max_body_size(http.server, 0);
	evhttp_set_timeout(http.server, IDLE_SECONDS);
	evhttp_set_bevcb(http.server, connected, NULL);
	evhttp_set_cb(http.server, "/metrics", on_metrics, NULL);
	evhttp_set_cb(http.server, "/healthz", on_health, NULL);
	evhttp_set_cb(http.server, "/readyz", on_ready, NULL);
	evhttp_set_gencb(http.server, on_other, NULL);
	timer_init(&http.rest, control->loop, rested);
	timer_init(&health.wait, control->loop, health_late);
	bound = evhttp_accept_socket_with_handle(http.server, fd);
	verify(bound);
	http.listener = evhttp_bound_socket_get_listener(bound);
	evconnlistener_set_error_cb(http.listener, accept_failed);
	log_log("metrics on http://%s/metrics", text);
	return true;
}

void http_stop(void)
{
	if (!http.server)
		return;
	metrics_stop();
	health_tell("shutting down"); /* a request that lost its peer is freed by its answer only */
	timer_stop(&http.rest);
	evhttp_free(http.server);
	http.server = NULL;
	drop_freed();
}
