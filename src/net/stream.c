/* Byte streams: the hottest file of the product (net/stream.h has the picture of the buffers).
 *
 * What a transaction costs here is one recv and one send on each side, and no epoll_ctl. That rests on three rules:
 *
 *   1. The event is edge-triggered and added once. Since a wake-up for input reports output as well, output is
 *      looked at only when something is queued. What is queued is queued because the kernel said EAGAIN, and then the
 *      kernel owes us an edge.
 *   2. A recv that returns less than it was asked for has drained the socket; whatever comes later is a new edge. Not so
 *      when the peer has hung up (EV_CLOSED): the FIN may have been there already when its last bytes were read, and it
 *      gives no second edge. From then on we read until recv says 0.
 *   3. Calls to the owner are made from two places only, the event and the later (both end in go), never from
 *      within stream_send and its like. So an owner may call anything from anywhere, and the loop's one read
 *      buffer is never in use twice.
 *
 * Where bytes are read to:
 *   - nothing left over, or a little: the loop's buffer, with the left over bytes copied in front
 *   - much left over, or a large message wanted as a whole: straight behind the left over bytes in `in`, which grows
 *     by doubling or to the wanted size at once, so that no byte is copied a second time for each piece that comes
 *
 * Owner, by turns: go = first byte, TLS handshake, drained, bytes, ended. Each step looks whether the one before
 * has closed the stream; the struct itself lives until the end of the turn (loop_bury). */
#include "net/stream.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "net/sock.h"
#include "net/tls.h"

#define LEFT_SMALL 4096        /* so many left over bytes are moved to the read buffer rather than read behind */
#define WANT_SLACK 4096        /* read past a wanted message: what follows it is usually short (a Sync) */
#define RECORD_MOST (16 * 1024) /* plain bytes in a TLS record, RFC 8446 section 5.1 */

/* What the streams of a loop share. */
struct room {
	bool busy; /* bytes are being handed out */
	struct list unsure;
	struct timer unsure_timer;
	usec_t shake_turn, shaken; /* a turn, and the time that handshakes took in it */
	uint8_t read[LEFT_SMALL + STREAM_READ_ROOM];
	uint8_t record[RECORD_MOST];
};

static void look_at_unsure(struct timer *t);

/* It is there as soon as the loop has a stream. */
static inline struct room *room_of(struct loop *l)
{
	return l->stream_room;
}

static void room_make(struct loop *l)
{
	struct room *r;

	if (l->stream_room)
		return;
	r = l->stream_room = mem_make(struct room);
	list_init(&r->unsure);
	timer_init(&r->unsure_timer, l, look_at_unsure);
}

void stream_buffers_free(struct loop *l)
{
	struct room *r = l->stream_room;

	verify(!r || !r->busy);
	if (r)
		timer_stop(&r->unsure_timer);
	mem_free(r);
	l->stream_room = NULL;
}

/* How a stream ends. */

static void go_later(struct stream *s)
{
	loop_later(s->loop, &s->again);
}

/* The first reason stays. */
static void blame(struct stream *s, const struct err *why)
{
	if (s->why)
		return;
	s->why = mem_make(struct err);
	*s->why = *why;
}

static void blame_errno(struct stream *s, int number)
{
	struct err why = {0};

	errno = number;
	err_set(&why, "08006", "%m");
	blame(s, &why);
}

/* No byte will come any more. */
static void end(struct stream *s)
{
	s->at_end = true;
	s->readable = false;
}

static void end_errno(struct stream *s, int number)
{
	blame_errno(s, number);
	s->dead = true;
	end(s);
}

/* Nothing can be sent any more, and why is known; but the peer's last words may still stand in the socket. */
static void die(struct stream *s)
{
	s->dead = true;
	s->readable = true;
	s->tell_sent = false; /* full stays until drained was called: somebody may have been paused for it */
	s->out_at = 0;
	buf_free(&s->out);
	go_later(s);
}

static bool peer_sends_no_more(struct stream *s)
{
	uint8_t byte;

	return !(s->tls && tls_pending(s->tls)) && sock_recv(s->fd, &byte, 1, MSG_PEEK) == 0;
}

/* A paused stream leaves bytes in the socket, but its owner must hear of it when nobody is left at the other end: when the
 * socket has failed, or when the peer has hung up and nothing is unread. */
static void look(struct stream *s)
{
	int failed = 0;
	socklen_t len = sizeof(failed);

	if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &failed, &len) == 0 && failed)
		end_errno(s, failed);
	else if (s->dead || (s->hung_up && peer_sends_no_more(s)))
		end(s);
}

/* Sending. */

static size_t put_clear(struct stream *s, const struct iovec *iov, int n)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n};
	ssize_t done;

	do
		done = n == 1 ? sock_send(s->fd, iov->iov_base, iov->iov_len, MSG_NOSIGNAL) : sock_sendmsg(s->fd, &msg, MSG_NOSIGNAL);
	while (done < 0 && errno == EINTR);
	if (done >= 0)
		return (size_t)done;
	if (errno != EAGAIN) {
		blame_errno(s, errno);
		die(s);
	}
	return 0;
}

static size_t put_tls(struct stream *s, const uint8_t *p, size_t len)
{
	struct err why; /* set by a failure only */
	size_t all = 0;

	while (all < len) {
		size_t n = 0;
		enum tls_step step = tls_write(s->tls, p + all, len - all, &n, &why);
		if (step == TLS_FAIL)
			blame(s, &why);
		if (step == TLS_FAIL || step == TLS_EOF)
			die(s);
		if (step != TLS_DONE)
			break; /* READ or WRITE: any edge makes us try again */
		all += n;
	}
	return all;
}

/* Several short pieces make one TLS record, not one each. */
static size_t put_tls_gathered(struct stream *s, const struct iovec *iov, int n)
{
	uint8_t *record = room_of(s->loop)->record;
	size_t len = 0;

	for (int i = 0; i < n; i++) {
		memcpy(record + len, iov[i].iov_base, iov[i].iov_len);
		len += iov[i].iov_len;
	}
	return put_tls(s, record, len);
}

/* Returns what the socket took: all, or some, or 0 when it takes nothing now. */
static size_t put(struct stream *s, const struct iovec *iov, int n, size_t total)
{
	size_t done;

	if (!s->tls)
		done = put_clear(s, iov, n);
	else if (n == 1)
		done = put_tls(s, iov->iov_base, total);
	else if (total <= RECORD_MOST)
		done = put_tls_gathered(s, iov, n);
	else
		done = 0; /* goes through out, which gathers it */
	s->sent += done;
	return done;
}

/* Sends from out until the socket takes no more. Tells nobody. */
static void flush(struct stream *s)
{
	while (stream_backlog(s)) {
		struct iovec rest = {s->out.p + s->out_at, stream_backlog(s)};
		size_t n = put(s, &rest, 1, rest.iov_len);
		if (!n || s->dead)
			break;
		s->out_at += n;
	}
	if (!stream_backlog(s)) {
		s->out_at = 0;
		buf_free(&s->out);
	}
}

static void queue(struct stream *s, const uint8_t *p, size_t len)
{
	/* Move the rest to the front rather than grow, if that costs at most two bytes moved for each one sent. */
	if (s->out_at && s->out.room - s->out.len < len && s->out_at >= stream_backlog(s) / 2) {
		buf_cut(&s->out, s->out_at);
		s->out_at = 0;
	}
	buf_add(&s->out, p, len);
}

static void queue_rest(struct stream *s, const struct iovec *iov, int n, size_t skip)
{
	for (int i = 0; i < n; i++) {
		size_t gone = skip < iov[i].iov_len ? skip : iov[i].iov_len;
		skip -= gone;
		if (gone < iov[i].iov_len)
			queue(s, (const uint8_t *)iov[i].iov_base + gone, iov[i].iov_len - gone);
	}
}

void stream_sendv(struct stream *s, const struct iovec *iov, int n)
{
	size_t total = 0, done = 0;
	bool first = !stream_backlog(s) && !s->handshake;

	if (!s->open || s->dead)
		return;
	verify_here(s->loop);
	verify(n <= IOV_MAX);
	for (int i = 0; i < n; i++)
		total += iov[i].iov_len;
	if (total && first)
		done = put(s, iov, n, total);
	if (done == total || s->dead)
		return;
	queue_rest(s, iov, n, done);
	/* Not all was taken: only an EAGAIN makes the kernel owe us an edge, so ask until it says so. */
	if (done || (first && s->tls))
		flush(s);
	if (stream_backlog(s) > STREAM_HIGH_WATER)
		s->full = true;
}

/* What one plain send has left. */
static SELDOM void send_rest(struct stream *s, const uint8_t *p, size_t len, ssize_t done)
{
	size_t gone = done > 0 ? (size_t)done : 0;
	struct iovec rest = {(void *)(p + gone), len - gone};

	s->sent += gone;
	stream_sendv(s, &rest, 1);
}

void stream_send(struct stream *s, const void *p, size_t len)
{
	ssize_t done = 0;

	if (s->open && !s->tls && !stream_backlog(s) && !s->dead) { /* nearly always: one call takes it all */
		done = sock_send(s->fd, p, len, MSG_NOSIGNAL);
		if (done == (ssize_t)len) {
			s->sent += len;
			return;
		}
	}
	send_rest(s, p, len, done);
}

void stream_when_sent(struct stream *s)
{
	s->tell_sent = true;
	if (!stream_backlog(s))
		go_later(s);
}

static void tell_drained(struct stream *s)
{
	bool low = s->full && stream_backlog(s) <= STREAM_LOW_WATER;
	bool empty = s->tell_sent && !stream_backlog(s);

	if (!low && !empty)
		return;
	if (low)
		s->full = false;
	if (empty)
		s->tell_sent = false;
	if (s->calls->drained)
		s->calls->drained(s);
}

/* A reset that comes together with the last bytes is one edge with them, and libevent reports it without EV_CLOSED. A short read
 * then looks like a drained socket, and no second edge comes. Sending would find out, and nearly always something is sent
 * soon; streams to which nothing was sent for a while are looked at once. */
#define UNSURE_FOR USEC_PER_SEC

static void note_unsure(struct stream *s)
{
	struct room *r = room_of(s->loop);

	s->unsure_sent = s->sent;
	if (list_linked(&s->unsure))
		return;
	list_push(&r->unsure, &s->unsure);
	if (!timer_is_set(&r->unsure_timer))
		timer_in(&r->unsure_timer, UNSURE_FOR);
}

/* Receiving. take reads once, up to len bytes, and notes what it learned about the socket. */

static inline size_t take_clear(struct stream *s, uint8_t *p, size_t len)
{
	ssize_t n;

	do
		n = sock_recv(s->fd, p, len, 0);
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		if ((size_t)n < len && !s->hung_up) {
			s->readable = false;
			note_unsure(s);
		}
		return (size_t)n;
	}
	if (n == 0 || (errno == EAGAIN && s->dead))
		end(s);
	else if (errno == EAGAIN)
		s->readable = false;
	else
		end_errno(s, errno);
	return 0;
}

/* Record after record until the session has no more: what it holds itself would give no edge. */
static APART size_t take_tls(struct stream *s, uint8_t *p, size_t len)
{
	struct err why; /* set by a failure only */
	size_t all = 0;

	if (s->dead)
		end(s); /* a session that cannot write is broken both ways */
	while (all < len && s->readable) {
		size_t n = 0;
		switch (tls_read(s->tls, p + all, len - all, &n, &why)) {
		case TLS_DONE:
			all += n;
			break;
		case TLS_WRITE:
			s->crossed = true;
			/* fall through */
		case TLS_READ:
			s->readable = false;
			break;
		case TLS_FAIL:
			blame(s, &why);
			s->dead = true;
			/* fall through */
		case TLS_EOF:
			end(s);
			break;
		}
	}
	return all;
}

static size_t take(struct stream *s, uint8_t *p, size_t len, size_t *budget)
{
	size_t most = len < *budget ? len : *budget;
	size_t n = s->tls ? take_tls(s, p, most) : take_clear(s, p, most);

	*budget -= n;
	s->received += n;
	return n;
}

/* Hands bytes to the owner; false when that closed the stream. */
static inline bool offer(struct stream *s, const uint8_t *p, size_t len, size_t *eaten)
{
	struct room *r = room_of(s->loop);

	verify(!r->busy);
	s->untold = false;
	s->want = 0;
	s->busy = r->busy = true;
	*eaten = s->calls->bytes(s, p, len);
	s->busy = r->busy = false;
	if (!s->open) {
		buf_free(&s->in); /* p may have pointed there, so stream_close left it */
		return false;
	}
	verify(*eaten <= len);
	verify(!s->tls || !s->handshake || *eaten == len); /* clear bytes must not slip into a TLS session */
	return true;
}

static void drop(struct stream *s, size_t n)
{
	s->in_at += n;
	if (s->in_at == s->in.len) {
		s->in_at = 0;
		buf_free(&s->in);
	}
}

static APART bool offer_left(struct stream *s)
{
	struct span left = stream_left(s);
	size_t eaten;

	if (!left.len) {
		s->untold = false;
		return true;
	}
	if (!offer(s, left.p, left.len, &eaten))
		return false;
	drop(s, eaten);
	return true;
}

/* Room in `in` for so many more bytes. What was consumed makes place first, when moving the rest is the smaller part. */
static void in_need(struct stream *s, size_t more)
{
	if (s->in.room - s->in.len >= more)
		return;
	if (s->in_at && s->in_at >= stream_left(s).len) {
		buf_cut(&s->in, s->in_at);
		s->in_at = 0;
	}
	buf_need(&s->in, more);
}

static APART void read_behind(struct stream *s, size_t more, size_t *budget)
{
	in_need(s, more);

	size_t n = take(s, s->in.p + s->in.len, s->in.room - s->in.len, budget);
	if (!n)
		return;
	s->in.len += n;
	s->untold = true;
	if (stream_left(s).len >= s->want)
		offer_left(s);
}

static void read_shared(struct stream *s, size_t *budget)
{
	struct span left = stream_left(s);
	uint8_t *p = room_of(s->loop)->read;
	size_t eaten;

	if (left.len)
		memcpy(p, left.p, left.len);

	size_t n = take(s, p + left.len, STREAM_READ_ROOM, budget);
	if (!n)
		return;
	s->in.len = s->in_at = 0; /* its memory stays: the next rest often fits again */
	if (!offer(s, p, left.len + n, &eaten))
		return;

	size_t rest = left.len + n - eaten;
	if (s->want > rest)
		buf_need(&s->in, s->want + WANT_SLACK); /* at once, so that the rest is not moved again */
	if (rest)
		buf_add(&s->in, p + eaten, rest);
	else if (s->in.room && !s->want)
		buf_free(&s->in);
}

static void read_on(struct stream *s)
{
	size_t budget = STREAM_BUDGET;

	if (s->untold && !s->paused && !s->told_end && stream_left(s).len >= s->want && !offer_left(s))
		return;
	while (s->readable && !s->paused && !s->handshake) {
		size_t left = stream_left(s).len;
		if (!budget) {
			go_later(s);
			return;
		}
		if (s->want > left)
			read_behind(s, s->want - left + WANT_SLACK, &budget);
		else if (left > LEFT_SMALL)
			read_behind(s, STREAM_READ_ROOM, &budget);
		else
			read_shared(s, &budget);
	}
}

static void tell_end(struct stream *s)
{
	/* What was held back for a wanted message that will never be whole. */
	if (s->untold && !s->paused && !offer_left(s))
		return;

	struct err why = s->why ? *s->why : (struct err){0}; /* ended may close the stream, which frees s->why */
	s->told_end = true;
	s->calls->ended(s, &why);
}

/* The peer's first byte decides who reads it: TLS without a request before it begins with 0x16. */
static void look_at_first(struct stream *s)
{
	uint8_t byte;

	if (sock_recv(s->fd, &byte, 1, MSG_PEEK) != 1)
		return; /* the end or an error, which reading will find; or nothing */
	s->first_due = false;
	s->calls->first(s, byte);
}

/* A handshake costs up to some milliseconds. Where many are due they share two milliseconds of a turn, so that a flood of connections
 * does not hold up what else the loop has to do. */
#define SHAKE_BUDGET (2 * USEC_PER_MSEC)

static bool may_shake(struct stream *s)
{
	struct room *r = room_of(s->loop);

	if (r->shake_turn != loop_now(s->loop)) {
		r->shake_turn = loop_now(s->loop);
		r->shaken = 0;
	}
	return r->shaken < SHAKE_BUDGET;
}

static enum tls_step shake_timed(struct stream *s, struct err *why)
{
	usec_t begun = clock_now();
	enum tls_step step = tls_handshake(s->tls, why);

	room_of(s->loop)->shaken += clock_now() - begun;
	return step;
}

static void shake(struct stream *s)
{
	struct err why; /* set by a failure only */

	if (!may_shake(s)) {
		go_later(s);
		return;
	}
	switch (shake_timed(s, &why)) {
	case TLS_DONE:
		s->handshake = false;
		s->readable = true; /* the session may hold what came with the last flight */
		flush(s);
		if (s->calls->secured)
			s->calls->secured(s);
		break;
	case TLS_READ:
	case TLS_WRITE:
		break;
	case TLS_FAIL:
		blame(s, &why);
		/* fall through */
	case TLS_EOF:
		s->handshake = false;
		s->dead = true;
		end(s);
		break;
	}
}

/* What may be due before and behind the reading, only where something is unusual. */

static SELDOM void go_before(struct stream *s)
{
	if (s->first_due && s->readable && !s->paused)
		look_at_first(s);
	if (s->open && s->handshake)
		shake(s);
	if (s->open && !s->handshake)
		tell_drained(s);
}

static SELDOM void go_behind(struct stream *s)
{
	if (s->open && s->paused && s->readable && !s->handshake)
		look(s);
	if (s->open && s->at_end && !s->told_end)
		tell_end(s);
}

/* All that may be due, in order. */
static void go(struct stream *s)
{
	s->calling = true;
	if (s->unusual)
		go_before(s);
	if (s->open && !s->handshake)
		read_on(s);
	if (s->unusual)
		go_behind(s);
	s->calling = false;
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct stream *s = arg;

	(void)fd;
	verify_here(s->loop);
	if (what & EV_CLOSED)
		s->hung_up = true;
	if (((what & (EV_READ | EV_CLOSED)) || s->crossed) && !s->at_end) {
		s->readable = true;
		s->crossed = false;
	}
	if (stream_backlog(s) && ((what & EV_WRITE) || s->tls) && !s->handshake)
		flush(s);
	go(s);
}

static void on_later(struct later *w)
{
	go(owner_of(w, struct stream, again));
}

static void look_at_unsure(struct timer *t)
{
	struct room *r = owner_of(t, struct room, unsure_timer);
	struct list due, *link;

	list_take_all(&due, &r->unsure);
	while ((link = list_first(&due))) {
		struct stream *s = list_owner(link, struct stream, unsure);
		uint8_t byte;
		list_take(link);
		if (s->sent != s->unsure_sent || s->readable || s->at_end)
			continue;
		ssize_t n = sock_recv(s->fd, &byte, 1, MSG_PEEK);
		if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
			continue;
		if (n == 0) /* a FIN, and the reset behind it hid that there was one */
			end(s);
		else
			end_errno(s, errno);
		go_later(s);
	}
}

/* Life. */

static void attach(struct stream *s, struct loop *l)
{
	s->loop = l;
	verify_here(l);
	room_make(l);
	verify(event_assign(&s->event, l->base, s->fd, EV_READ | EV_WRITE | EV_CLOSED | EV_ET | EV_PERSIST, on_event, s) == 0);
	/* Adding to epoll reports what is ready already, as an edge: none is lost before it or between two loops. */
	verify(event_add(&s->event, NULL) == 0);
}

void stream_open(struct stream *s, struct loop *l, int fd, const struct stream_calls *calls, void *owner)
{
	*s = (struct stream){.calls = calls, .owner = owner, .fd = fd, .open = true, .first_due = calls->first != NULL};
	later_init(&s->again, on_later);
	list_init(&s->unsure);
	attach(s, l);
}

void stream_close(struct stream *s)
{
	if (!s->open)
		return;
	if (s->loop) {
		verify_here(s->loop);
		event_del(&s->event);
		later_stop(&s->again);
		list_take(&s->unsure);
	}
	tls_free(&s->tls);
	close(s->fd);
	s->fd = -1;
	s->open = s->readable = s->handshake = s->full = false;
	s->out_at = 0;
	buf_free(&s->out);
	mem_free(s->why);
	s->why = NULL;
	if (!s->busy) {
		s->in_at = 0;
		buf_free(&s->in);
	}
}

bool stream_finish(struct stream *s)
{
	return s->open && !s->dead && shutdown(s->fd, SHUT_WR) == 0;
}

void stream_cut(struct stream *s)
{
	struct linger none = {.l_onoff = 1, .l_linger = 0};
	struct sockaddr nowhere = {.sa_family = AF_UNSPEC};

	if (!s->open)
		return;
	setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	/* Resets at once, so that no close_notify of the TLS session can make this look like an orderly end. */
	if (s->tls)
		connect(s->fd, &nowhere, sizeof(nowhere));
	stream_close(s);
}

void stream_pause(struct stream *s)
{
	s->paused = true;
}

void stream_resume(struct stream *s)
{
	if (!s->paused || !s->open)
		return;
	s->paused = false;
	s->untold = true;
	go_later(s);
}

void stream_want(struct stream *s, size_t bytes)
{
	s->want = bytes;
}

void stream_consume(struct stream *s, size_t n)
{
	verify(!s->busy);
	verify(n <= stream_left(s).len);
	drop(s, n);
}

bool stream_start_tls(struct stream *s, struct tls_setup *setup, const char *host, struct err *err)
{
	verify_here(s->loop);
	verify(!s->tls);
	if (stream_backlog(s))
		return err_set(err, "08P01", "the peer did not take the answer to its TLS request");
	s->tls = tls_new(setup, s->fd, host, err);
	if (!s->tls)
		return false;
	s->handshake = true;
	go_later(s);
	return true;
}

bool stream_has_bytes(struct stream *s)
{
	uint8_t byte;

	return stream_left(s).len > 0 || sock_recv(s->fd, &byte, 1, MSG_PEEK) > 0;
}

void stream_leave(struct stream *s)
{
	verify_here(s->loop);
	verify(s->open && !s->calling && !s->handshake);
	event_del(&s->event);
	later_stop(&s->again);
	list_take(&s->unsure);
	s->loop = NULL;
}

void stream_join(struct stream *s, struct loop *l)
{
	verify(s->open && !s->loop);
	attach(s, l);
	go_later(s);
}
