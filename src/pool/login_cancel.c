/* A CancelRequest (chapter 55.2.8 "Canceling Requests in Progress") on a connection of its own, to the very address that
 * answered when the server was dialled: another address of the same name may be another PostgreSQL.
 *
 * PostgreSQL closes the connection once it has sent the signal. Until then the server is held, so that no other client's query
 * can be hit. The server may be closed meanwhile; its memory stays until server_cancel_end. */
#include "base/mem.h"
#include "net/listen.h"
#include "net/tls.h"
#include "pool/login.h"
#include "pool/pool.h"
#include "wire/startup.h"
#include "wire/writer.h"

struct cancel_call {
	struct list link;      /* in lane->cancel_calls */
	struct server *server; /* borrows, until server_cancel_end */
	struct loop *loop;     /* borrows */
	void (*done)(void *owner);
	void *owner; /* borrows */
	struct dial *dial;          /* owns, until connected */
	struct stream stream;       /* owns, from then on */
	struct tls_setup *tls;      /* ref; NULL: the server is not on TLS */
	struct timer timer;         /* cancel_wait_timeout */
	struct later later;         /* nothing can be cancelled */
	struct grave grave;
	enum sslmode sslmode;
	uint32_t pid, key;
	char host[128];
	bool asked_tls; /* the one byte that answers SSLRequest is due */
	bool sent;      /* the request is out: from now on it can hit */
};

static void cancel_release(struct grave *grave)
{
	mem_free(owner_of(grave, struct cancel_call, grave));
}

static void cancel_over(struct cancel_call *c)
{
	list_take(&c->link);
	dial_stop(&c->dial);
	stream_close(&c->stream);
	tls_setup_drop(&c->tls);
	timer_stop(&c->timer);
	later_stop(&c->later);
	loop_bury(c->loop, &c->grave, cancel_release);
	server_cancel_end(c->server);
	c->done(c->owner);
}

/* A request that is out, but was not seen to be dealt with, may still hit whatever runs on that server then: nobody may get it. */
static void cancel_failed(struct cancel_call *c, const char *why)
{
	char peer[ADDR_TEXT];
	struct who who = {.kind = 'S', .id = c->server->id};

	if (c->sent)
		c->server->stale = true;
	if (c->server->state != SERVER_CLOSING) /* else its pool may be gone */
		server_who(c->server, &who, peer);
	log_line(LOG_WARNING_, &who, "cancel request failed: %s", why);
	cancel_over(c);
}

static void send_request(struct cancel_call *c)
{
	struct buf b = {0};
	size_t begun = msg_begin(&b, 0);

	msg_u32(&b, CODE_CANCEL);
	msg_u32(&b, c->pid);
	msg_u32(&b, c->key);
	msg_end(&b, begun);
	c->sent = true;
	stream_send(&c->stream, b.p, b.len);
	buf_wipe(&b);
}

static void ask_tls(struct cancel_call *c)
{
	struct buf b = {0};

	msg_ssl_request(&b);
	c->asked_tls = true;
	stream_send(&c->stream, b.p, b.len);
	buf_free(&b);
}

static void take_tls_answer(struct cancel_call *c, struct span in)
{
	struct err err = {0};

	c->asked_tls = false;
	if (in.len > 1 || (in.p[0] == 'S' && stream_has_bytes(&c->stream)))
		cancel_failed(c, "received unencrypted data after SSL response");
	else if (in.p[0] == 'N' && c->sslmode < SSL_REQUIRE)
		send_request(c);
	else if (in.p[0] != 'S')
		cancel_failed(c, "server refused SSL");
	else if (!stream_start_tls(&c->stream, c->tls, c->host, &err))
		cancel_failed(c, err.text);
}

/* After the request the server has nothing to say but its end. */
static size_t on_bytes(struct stream *st, const uint8_t *p, size_t len)
{
	struct cancel_call *c = st->owner;

	if (c->asked_tls)
		take_tls_answer(c, (struct span){p, len});
	return len;
}

static void on_secured(struct stream *st)
{
	send_request(st->owner);
}

static void on_ended(struct stream *st, const struct err *why)
{
	struct cancel_call *c = st->owner;

	if (c->sent && !why->text[0])
		cancel_over(c);
	else
		cancel_failed(c, why->text[0] ? why->text : "server closed the connection");
}

static const struct stream_calls cancel_stream_calls = {.bytes = on_bytes, .ended = on_ended, .secured = on_secured};

static void on_dialled(void *owner, int fd, const struct addr *addr, const struct err *err)
{
	struct cancel_call *c = owner;

	(void)addr;
	c->dial = NULL;
	if (fd < 0) {
		cancel_failed(c, err->text);
		return;
	}
	stream_open(&c->stream, c->loop, fd, &cancel_stream_calls, c);
	if (c->tls)
		ask_tls(c);
	else
		send_request(c);
}

static void on_timeout(struct timer *t)
{
	cancel_failed(owner_of(t, struct cancel_call, timer), "cancel_wait_timeout");
}

static void on_later(struct later *later)
{
	cancel_failed(owner_of(later, struct cancel_call, later), "the server gave no key to cancel with");
}

static void dial_again(struct cancel_call *c, const struct server *s)
{
	char ip[ADDR_TEXT];

	if (addr_is_unix(&s->addr))
		memcpy(ip, s->host, sizeof(s->host));
	else
		addr_print_host(&s->addr, ip);
	c->dial = dial_start(c->loop, &(struct dial_target){ip, s->port}, 0, on_dialled, c);
}

struct cancel_call *login_cancel(struct server *s, void (*done)(void *owner), void *owner)
{
	const struct setup *setup = s->lane->setup;
	usec_t timeout = setup->conf->set.cancel_wait_timeout;
	struct cancel_call *c = mem_make(struct cancel_call);

	verify_here(s->loop);
	list_push(&s->lane->cancel_calls, &c->link);
	c->server = s;
	c->loop = s->loop;
	c->done = done;
	c->owner = owner;
	c->stream.fd = -1;
	c->tls = s->tls && setup->server_tls ? tls_setup_ref(setup->server_tls) : NULL;
	c->sslmode = setup->conf->set.server_tls_sslmode;
	c->pid = s->pid;
	c->key = s->key;
	memcpy(c->host, s->host, sizeof(c->host));
	timer_init(&c->timer, c->loop, on_timeout);
	later_init(&c->later, on_later);
	server_cancel_begin(s);
	if (timeout)
		timer_in(&c->timer, timeout);
	if (c->pid)
		dial_again(c, s);
	else
		loop_later(c->loop, &c->later);
	return c;
}

void login_cancel_end_all(struct lane *l)
{
	struct list *link;

	while ((link = list_first(&l->cancel_calls)))
		cancel_over(list_owner(link, struct cancel_call, link));
}
