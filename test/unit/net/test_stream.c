/* Byte streams over socket pairs and loopback TCP, in clear and under TLS. Both ends hang on one loop that the test
 * turns until what it waits for has happened; the alarm ends a test that waits for ever. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
/* after what it needs */
#include <cmocka.h>

#include "base/mem.h"
#include "loop/loop_priv.h"
#include "loop/mail.h"
#include "net/sock.h"
#include "net/stream.h"
#include "net/tls.h"

enum kind { CLEAR, TLS };

/* ---- system calls are counted: these stand before libc's ---- */

static _Thread_local struct {
	int recv, send, sendmsg, epoll_ctl;
} calls;

ssize_t sock_recv(int fd, void *p, size_t len, int flags)
{
	calls.recv++;
	return syscall(SYS_recvfrom, fd, p, len, flags, NULL, NULL);
}

ssize_t sock_send(int fd, const void *p, size_t len, int flags)
{
	calls.send++;
	return syscall(SYS_sendto, fd, p, len, flags, NULL, 0);
}

ssize_t sock_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	calls.sendmsg++;
	return syscall(SYS_sendmsg, fd, msg, flags);
}

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	calls.epoll_ctl++;
	return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
}

/* ---- one end of a connection ---- */

struct end {
	struct stream s;
	struct buf got;                               /* owns: what bytes consumed */
	size_t (*eat)(struct end *e, const uint8_t *p, size_t len); /* NULL: all of it */
	void (*at_end)(struct end *e);
	void (*at_drained)(struct end *e);
	void (*at_bytes)(struct end *e);              /* after each call of bytes */
	struct end *other;
	struct err why;
	int n_bytes, n_ended, n_drained, n_secured, n_first;
	uint8_t first;
	size_t most_out;
	size_t to_send;
	size_t last_offer;
};

static struct loop *loop;
static struct tls_setup *accept_setup, *connect_setup;

static size_t end_bytes(struct stream *s, const uint8_t *p, size_t len)
{
	struct end *e = s->owner;
	size_t eaten = len;

	e->n_bytes++;
	e->last_offer = len;
	if (e->eat)
		eaten = e->eat(e, p, len);
	else
		buf_add(&e->got, p, len);
	if (e->at_bytes)
		e->at_bytes(e);
	return eaten;
}

static void end_ended(struct stream *s, const struct err *why)
{
	struct end *e = s->owner;

	e->n_ended++;
	e->why = *why;
	if (e->at_end)
		e->at_end(e);
}

static void end_drained(struct stream *s)
{
	struct end *e = s->owner;

	e->n_drained++;
	if (e->at_drained)
		e->at_drained(e);
}

static void end_secured(struct stream *s)
{
	((struct end *)s->owner)->n_secured++;
}

static void end_first(struct stream *s, uint8_t byte)
{
	struct end *e = s->owner;

	e->n_first++;
	e->first = byte;
	if (byte == 0x16)
		assert_true(stream_start_tls(s, accept_setup, NULL, NULL));
}

static const struct stream_calls end_calls = {.bytes = end_bytes, .drained = end_drained, .ended = end_ended, .secured = end_secured};
static const struct stream_calls peeking_calls = {.bytes = end_bytes, .ended = end_ended, .secured = end_secured, .first = end_first};

static void end_free(struct end *e)
{
	stream_close(&e->s);
	buf_free(&e->got);
}

static void turn(void)
{
	loop_turn(loop, list_empty(&loop->laters) ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
}

#define turn_until(claim) \
	do { \
		while (!(claim)) \
			turn(); \
	} while (0)

/* As many turns as anything that is still under way could need. */
static void settle(void)
{
	for (int i = 0; i < 20; i++)
		loop_turn(loop, EVLOOP_NONBLOCK);
}

static void make_sockets(int fds[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

static void make_tcp(int fds[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;

	assert_int_equal(bind(l, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&at, &len), 0);
	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fds[0], (struct sockaddr *)&at, sizeof(at)), 0);
	fds[1] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fds[1] >= 0);
	close(l);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fcntl(fds[i], F_SETFL, O_NONBLOCK), 0);
		assert_int_equal(setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)), 0); /* as listen and dial do */
	}
}

static void join_ends(enum kind kind, struct end *a, struct end *b, const int fds[2])
{
	*a = (struct end){.other = b};
	*b = (struct end){.other = a};
	stream_open(&a->s, loop, fds[0], &end_calls, a);
	stream_open(&b->s, loop, fds[1], &end_calls, b);
	if (kind == TLS) {
		assert_true(stream_start_tls(&a->s, connect_setup, NULL, NULL));
		assert_true(stream_start_tls(&b->s, accept_setup, NULL, NULL));
		turn_until(a->n_secured && b->n_secured);
	}
}

/* a is the connecting side */
static void make_pair(enum kind kind, struct end *a, struct end *b)
{
	int fds[2];

	make_sockets(fds);
	join_ends(kind, a, b, fds);
}

static void make_tcp_pair(enum kind kind, struct end *a, struct end *b)
{
	int fds[2];

	make_tcp(fds);
	join_ends(kind, a, b, fds);
}

static void fill(uint8_t *p, size_t len, size_t from)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)((from + i) * 2654435761u >> 13);
}

static void assert_filled(const uint8_t *p, size_t len, size_t from)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (uint8_t)((from + i) * 2654435761u >> 13))
			fail_msg("byte %zu is wrong", from + i);
}

/* Every test is written once and run in clear and under TLS. */
#define IN_BOTH(name) \
	static void name##_in_clear(void **state) { (void)state; name(CLEAR); } \
	static void name##_under_tls(void **state) { (void)state; name(TLS); }
#define BOTH(name) cmocka_unit_test(name##_in_clear), cmocka_unit_test(name##_under_tls)

/* ---- bytes ---- */

/* Messages of a length byte and so many bytes; whole ones only. */
static size_t eat_messages(struct end *e, const uint8_t *p, size_t len)
{
	size_t at = 0;

	while (at < len && at + 1 + p[at] <= len) {
		buf_add(&e->got, p + at, 1u + p[at]);
		at += 1u + p[at];
	}
	return at;
}

static void messages_cut_at_any_byte_come_whole(enum kind kind)
{
	static const char sent[] = "\x05" "hello" "\x00" "\x0a" "0123456789" "\x01" "x";
	size_t len = sizeof(sent) - 1;
	struct end a, b;

	make_pair(kind, &a, &b);
	b.eat = eat_messages;
	for (size_t cut = 0; cut <= len; cut++) {
		int before = b.n_bytes;

		b.got.len = 0;
		stream_send(&a.s, sent, cut);
		turn_until(cut == 0 || b.n_bytes > before);
		stream_send(&a.s, sent + cut, len - cut);
		turn_until(b.got.len == len);
		assert_memory_equal(b.got.p, sent, len);
		assert_int_equal(stream_left(&b.s).len, 0);
	}
	assert_int_equal(b.s.received, a.s.sent);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(messages_cut_at_any_byte_come_whole)

static void messages_in_single_bytes_come_whole(enum kind kind)
{
	struct end a, b;
	uint8_t message[201] = {200};

	make_pair(kind, &a, &b);
	b.eat = eat_messages;
	fill(message + 1, 200, 0);
	for (size_t i = 0; i < sizeof(message); i++) {
		int before = b.n_bytes;

		stream_send(&a.s, message + i, 1);
		turn_until(b.n_bytes > before);
		assert_int_equal(b.last_offer, i + 1); /* those left over first */
	}
	assert_memory_equal(b.got.p, message, sizeof(message));
	end_free(&a);
	end_free(&b);
}
IN_BOTH(messages_in_single_bytes_come_whole)

/* Consumes nothing before all of to_send is there. */
static size_t eat_at_once(struct end *e, const uint8_t *p, size_t len)
{
	if (len < e->to_send)
		return 0;
	buf_add(&e->got, p, len);
	return len;
}

static void what_is_left_over_may_grow_large(enum kind kind)
{
	enum { LEN = 1000 * 1000 };
	struct end a, b;
	uint8_t *sent = mem_new(LEN);

	make_pair(kind, &a, &b);
	b.eat = eat_at_once;
	b.to_send = LEN;
	fill(sent, LEN, 0);
	stream_send(&a.s, sent, LEN);
	turn_until(b.got.len);
	assert_int_equal(b.got.len, LEN);
	assert_memory_equal(b.got.p, sent, LEN);
	assert_null(b.s.in.p);
	mem_free(sent);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(what_is_left_over_may_grow_large)

/* The first four bytes say how long a message is. */
static size_t eat_wanted(struct end *e, const uint8_t *p, size_t len)
{
	size_t at = 0;
	uint32_t whole;

	while (len - at >= 4) {
		memcpy(&whole, p + at, 4);
		if (len - at < whole) {
			stream_want(&e->s, whole);
			break;
		}
		buf_add(&e->got, p + at, whole);
		at += whole;
	}
	return at;
}

static void a_wanted_message_comes_whole_in_one_call(enum kind kind)
{
	enum { LEN = 10 * 1024 * 1024 };
	struct end a, b;
	uint8_t *sent = mem_new(LEN + 5);
	uint32_t len = LEN, tail = 5;

	make_pair(kind, &a, &b);
	b.eat = eat_wanted;
	fill(sent, LEN, 0);
	memcpy(sent, &len, 4);
	memcpy(sent + LEN, &tail, 4);
	stream_send(&a.s, sent, LEN + 5);
	turn_until(b.got.len == LEN + 5);
	assert_memory_equal(b.got.p, sent, LEN + 5);
	assert_true(b.n_bytes <= 4); /* its head, the whole, and what follows, which may come in two pieces */
	assert_null(b.s.in.p);
	mem_free(sent);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(a_wanted_message_comes_whole_in_one_call)

static void a_wanted_message_that_is_cut_short_is_offered_before_the_end(enum kind kind)
{
	struct end a, b;
	uint32_t len = 100 * 1000;

	make_pair(kind, &a, &b);
	b.eat = eat_wanted;
	stream_send(&a.s, &len, 4);
	turn_until(b.n_bytes == 1);
	stream_send(&a.s, "abc", 3);
	settle();
	assert_int_equal(b.n_bytes, 1); /* held back */
	stream_close(&a.s);
	turn_until(b.n_ended);
	assert_int_equal(b.n_bytes, 2);
	assert_int_equal(b.last_offer, 7);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(a_wanted_message_that_is_cut_short_is_offered_before_the_end)

static void pieces_of_one_sendv_come_in_order(enum kind kind)
{
	enum { N = 100, ROOM = 3000 };
	struct end a, b;
	uint8_t *sent = mem_new(N * ROOM);
	struct iovec iov[N];
	size_t len = 0;

	make_pair(kind, &a, &b);
	for (int i = 0; i < N; i++) {
		iov[i] = (struct iovec){sent + len, (size_t)(i * 29 % ROOM)};
		len += iov[i].iov_len;
	}
	fill(sent, len, 0);
	for (int n = 1; n <= N; n += 11) {
		size_t total = 0;

		for (int i = 0; i < n; i++)
			total += iov[i].iov_len;
		b.got.len = 0;
		settle(); /* no edge is under way that could help */
		stream_sendv(&a.s, iov, n);
		turn_until(b.got.len == total);
		assert_memory_equal(b.got.p, sent, total);
	}
	mem_free(sent);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(pieces_of_one_sendv_come_in_order)

/* ---- what it costs ---- */

static void answer_query(struct end *e)
{
	stream_send(&e->s, "answer", 6);
}

static void a_query_costs_one_recv_and_one_send_a_side(void **state)
{
	struct end a, b;

	(void)state;
	make_tcp_pair(CLEAR, &a, &b);
	b.at_bytes = answer_query;
	settle();
	memset(&calls, 0, sizeof(calls));
	for (int i = 1; i <= 10; i++) {
		stream_send(&a.s, "query", 5);
		turn_until(a.n_bytes == i);
	}
	assert_int_equal(calls.recv, 20);
	assert_int_equal(calls.send, 20);
	assert_int_equal(calls.sendmsg, 0);
	assert_int_equal(calls.epoll_ctl, 0);
	end_free(&a);
	end_free(&b);
}

static void a_sendv_of_many_is_one_call(void **state)
{
	struct iovec iov[2] = {{"ab", 2}, {"cd", 2}};
	struct end a, b;

	(void)state;
	make_pair(CLEAR, &a, &b);
	memset(&calls, 0, sizeof(calls));
	stream_sendv(&a.s, iov, 2);
	stream_sendv(&a.s, iov, 1);
	assert_int_equal(calls.sendmsg, 1);
	assert_int_equal(calls.send, 1);
	turn_until(b.got.len == 6);
	assert_memory_equal(b.got.p, "abcdab", 6);
	end_free(&a);
	end_free(&b);
}

static void an_idle_stream_holds_no_buffer(enum kind kind)
{
	struct end a, b;
	uint8_t *sent = mem_new(1 << 20);

	make_pair(kind, &a, &b);
	b.eat = eat_messages;
	stream_send(&a.s, "\x03" "a", 2);
	turn_until(b.n_bytes);
	stream_send(&a.s, "bc", 2);
	turn_until(b.got.len == 4);
	assert_null(b.s.in.p);
	stream_send(&a.s, sent, 1 << 20); /* empty messages */
	assert_non_null(a.s.out.p);
	turn_until(b.got.len == 4 + (1 << 20));
	assert_null(a.s.out.p);
	assert_null(b.s.in.p);
	mem_free(sent);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(an_idle_stream_holds_no_buffer)

/* ---- back-pressure ---- */

enum { CHUNK = 10000, ALL = 64 * 1000 * 1000 };

/* A well-behaved owner: stops when full, goes on when drained. */
static void pour(struct end *e)
{
	uint8_t chunk[CHUNK];

	assert_true(stream_backlog(&e->s) <= STREAM_LOW_WATER);
	while (e->to_send && !stream_is_full(&e->s)) {
		size_t n = e->to_send < CHUNK ? e->to_send : CHUNK;

		fill(chunk, n, ALL - e->to_send);
		stream_send(&e->s, chunk, n);
		e->to_send -= n;
		if (e->s.out.len > e->most_out)
			e->most_out = e->s.out.len;
	}
}

static size_t eat_and_check(struct end *e, const uint8_t *p, size_t len)
{
	assert_filled(p, len, e->s.received - len);
	return len;
}

static void sixty_four_megabytes_pass_in_bounded_memory(enum kind kind)
{
	struct end a, b;

	make_tcp_pair(kind, &a, &b);
	b.eat = eat_and_check;
	a.at_drained = pour;
	a.to_send = ALL;
	pour(&a);
	turn_until(b.s.received == ALL);
	assert_true(a.n_drained > 0);
	/* Sent bytes may still stand in front of what is queued, but never more than that. */
	assert_true(a.most_out <= 2 * (STREAM_HIGH_WATER + CHUNK));
	assert_int_equal(stream_backlog(&a.s), 0);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(sixty_four_megabytes_pass_in_bounded_memory)

/* The socket takes so little at a time that out is never empty. */
static void a_slow_reader_does_not_make_out_grow(enum kind kind)
{
	struct end a, b;
	uint8_t some[1000];
	int least = 1, fds[2];

	make_sockets(fds);
	setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
	join_ends(kind, &a, &b, fds);
	stream_leave(&b.s); /* read by hand */
	a.at_drained = pour;
	a.to_send = ALL;
	pour(&a);
	for (size_t got = 0; got < 1000 * 1000;) {
		ssize_t n = recv(b.s.fd, some, sizeof(some), 0);

		if (n > 0)
			got += (size_t)n;
		loop_turn(loop, EVLOOP_NONBLOCK);
		assert_true(stream_backlog(&a.s) > 0);
	}
	assert_true(a.most_out <= 2 * (STREAM_HIGH_WATER + CHUNK));
	end_free(&a);
	end_free(&b);
}
IN_BOTH(a_slow_reader_does_not_make_out_grow)

static void a_reader_that_stops_stops_the_writer(enum kind kind)
{
	struct end a, b;
	uint64_t stuck;

	make_pair(kind, &a, &b);
	b.eat = eat_and_check;
	a.at_drained = pour;
	a.to_send = ALL / 8;
	b.s.received = ALL - a.to_send; /* where pour begins */
	stream_pause(&b.s);
	pour(&a);
	settle();
	stuck = a.to_send;
	assert_true(stuck > 0);
	assert_true(stream_is_full(&a.s));
	assert_int_equal(a.n_drained, 0);
	assert_int_equal(b.n_bytes, 0);
	assert_true(stream_backlog(&a.s) <= STREAM_HIGH_WATER + CHUNK);
	settle();
	assert_int_equal(a.to_send, stuck);
	stream_resume(&b.s);
	turn_until(b.s.received == ALL);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(a_reader_that_stops_stops_the_writer)

static void when_sent_is_told_once(enum kind kind)
{
	struct end a, b;
	uint8_t *sent = mem_new(ALL / 64);

	make_pair(kind, &a, &b);
	stream_when_sent(&a.s);
	assert_int_equal(a.n_drained, 0); /* not from within */
	turn_until(a.n_drained == 1);
	stream_send(&a.s, sent, STREAM_HIGH_WATER);
	stream_when_sent(&a.s);
	turn_until(a.n_drained == 2);
	assert_int_equal(stream_backlog(&a.s), 0);
	turn_until(b.got.len == STREAM_HIGH_WATER);
	settle();
	assert_int_equal(a.n_drained, 2);
	mem_free(sent);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(when_sent_is_told_once)

static void one_turn_reads_a_budget_only(enum kind kind)
{
	struct end a, b;
	uint8_t *sent = mem_new(4 << 20);
	int room = 4 << 20;
	int fds[2];

	make_sockets(fds);
	setsockopt(fds[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
	join_ends(kind, &a, &b, fds);
	stream_pause(&b.s);
	stream_send(&a.s, sent, 4 << 20);
	settle();
	stream_resume(&b.s);
	for (uint64_t before = 0; b.s.received < 4 << 20; before = b.s.received) {
		turn();
		/* twice: an event and a later may fall into one turn */
		assert_true(b.s.received - before <= 2 * STREAM_BUDGET);
	}
	mem_free(sent);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(one_turn_reads_a_budget_only)

/* ---- pausing ---- */

static void a_paused_stream_is_silent_until_resumed(enum kind kind)
{
	struct end a, b;

	make_pair(kind, &a, &b);
	stream_pause(&b.s);
	stream_send(&a.s, "abc", 3);
	settle();
	assert_int_equal(b.n_bytes, 0);
	stream_resume(&b.s);
	assert_int_equal(b.n_bytes, 0); /* not from within */
	turn_until(b.got.len == 3);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(a_paused_stream_is_silent_until_resumed)

/* One byte a call, then waits. */
static size_t eat_one_and_pause(struct end *e, const uint8_t *p, size_t len)
{
	(void)len;
	buf_add(&e->got, p, 1);
	stream_pause(&e->s);
	return 1;
}

static void left_over_bytes_come_again_after_each_resume(enum kind kind)
{
	struct end a, b;

	make_pair(kind, &a, &b);
	b.eat = eat_one_and_pause;
	stream_send(&a.s, "abcdef", 6);
	for (size_t i = 1; i <= 6; i++) {
		turn_until(b.got.len == i);
		settle();
		assert_int_equal(b.got.len, i);
		assert_int_equal(stream_left(&b.s).len, 6 - i);
		stream_resume(&b.s);
	}
	assert_memory_equal(b.got.p, "abcdef", 6);
	settle();
	assert_int_equal(b.n_bytes, 6);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(left_over_bytes_come_again_after_each_resume)

static size_t eat_none_and_pause(struct end *e, const uint8_t *p, size_t len)
{
	(void)p;
	(void)len;
	stream_pause(&e->s);
	return 0;
}

static void left_over_bytes_can_be_consumed_outside_of_the_call(void **state)
{
	struct end a, b;

	(void)state;
	make_pair(CLEAR, &a, &b);
	b.eat = eat_none_and_pause;
	stream_send(&a.s, "abcdef", 6);
	turn_until(b.n_bytes);
	assert_true(span_is(stream_left(&b.s), "abcdef"));
	stream_consume(&b.s, 4);
	assert_true(span_is(stream_left(&b.s), "ef"));
	b.eat = NULL;
	stream_resume(&b.s);
	turn_until(b.got.len == 2);
	assert_memory_equal(b.got.p, "ef", 2);
	end_free(&a);
	end_free(&b);
}

/* ---- the end ---- */

static void last_bytes_and_the_end_come_together(enum kind kind)
{
	struct end a, b;

	make_tcp_pair(kind, &a, &b);
	settle();
	stream_send(&a.s, "bye", 3);
	stream_close(&a.s);
	turn_until(b.n_ended);
	assert_int_equal(b.got.len, 3);
	assert_string_equal(b.why.text, "");
	settle();
	assert_int_equal(b.n_ended, 1);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(last_bytes_and_the_end_come_together)

static void left_over_bytes_do_not_hide_the_end(enum kind kind)
{
	struct end a, b;

	make_pair(kind, &a, &b);
	b.eat = eat_messages;
	stream_send(&a.s, "\x05" "ab", 3);
	turn_until(b.n_bytes);
	stream_close(&a.s);
	turn_until(b.n_ended);
	assert_int_equal(stream_left(&b.s).len, 3);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(left_over_bytes_do_not_hide_the_end)

static void a_reset_is_told_with_its_reason(enum kind kind)
{
	struct end a, b;

	make_tcp_pair(kind, &a, &b);
	settle();
	stream_cut(&a.s);
	turn_until(b.n_ended);
	assert_non_null(strstr(b.why.text, "Connection reset by peer"));
	end_free(&a);
	end_free(&b);
}
IN_BOTH(a_reset_is_told_with_its_reason)

static void a_reset_is_told_while_paused(enum kind kind)
{
	struct end a, b;

	make_tcp_pair(kind, &a, &b);
	stream_pause(&b.s);
	stream_send(&a.s, "unread", 6);
	settle();
	assert_int_equal(b.n_ended, 0);
	stream_cut(&a.s);
	turn_until(b.n_ended);
	assert_string_equal(b.why.text, "Connection reset by peer");
	assert_int_equal(b.n_bytes, 0);
	stream_resume(&b.s);
	settle();
	assert_int_equal(b.n_bytes, 0);
	assert_int_equal(b.n_ended, 1);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(a_reset_is_told_while_paused)

/* The end of a connection without a close_notify in front of it. */
static void drop_without_a_word(struct end *e)
{
	assert_int_equal(shutdown(e->s.fd, SHUT_WR), 0);
}

static void a_waiting_client_that_leaves_is_told_while_paused(enum kind kind)
{
	struct end a, b;

	make_tcp_pair(kind, &a, &b);
	b.eat = eat_none_and_pause;
	stream_send(&a.s, "query", 5);
	turn_until(b.n_bytes);
	settle();
	assert_int_equal(b.n_ended, 0);
	drop_without_a_word(&a);
	turn_until(b.n_ended);
	assert_string_equal(b.why.text, "");
	assert_true(span_is(stream_left(&b.s), "query"));
	stream_resume(&b.s);
	settle();
	assert_int_equal(b.n_bytes, 1); /* none after the end */
	end_free(&a);
	end_free(&b);
}
IN_BOTH(a_waiting_client_that_leaves_is_told_while_paused)

/* The reset and the last bytes are one edge, and libevent does not say that it was one. */
static void a_reset_that_comes_with_the_last_bytes_is_told(void **state)
{
	struct end b;
	struct linger none = {.l_onoff = 1};
	int fds[2];

	(void)state;
	make_tcp(fds);
	assert_int_equal(write(fds[0], "half a", 6), 6);
	setsockopt(fds[0], SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fds[0]);
	memset(&b, 0, sizeof(b));
	stream_open(&b.s, loop, fds[1], &end_calls, &b);
	turn_until(b.got.len == 6);
	turn_until(b.n_ended);
	assert_string_equal(b.why.text, strerror(ECONNRESET));
	end_free(&b);
}

/* ... and a FIN between them hides even that: the socket then reads as ended, with no edge of its own. */
static void an_end_and_a_reset_that_come_with_the_last_bytes_are_told(void **state)
{
	struct end b;
	struct linger none = {.l_onoff = 1};
	int fds[2];

	(void)state;
	make_tcp(fds);
	assert_int_equal(write(fds[1], "unread", 6), 6);
	assert_int_equal(write(fds[0], "half a", 6), 6);
	shutdown(fds[0], SHUT_WR);
	setsockopt(fds[0], SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fds[0]);
	memset(&b, 0, sizeof(b));
	stream_open(&b.s, loop, fds[1], &end_calls, &b);
	turn_until(b.got.len == 6);
	turn_until(b.n_ended);
	end_free(&b);
}

static void a_query_and_the_end_at_once_are_both_told_while_paused(void **state)
{
	struct end a, b;
	int fds[2];

	(void)state;
	make_tcp(fds);
	assert_int_equal(write(fds[0], "query", 5), 5);
	shutdown(fds[0], SHUT_WR);
	join_ends(CLEAR, &a, &b, fds);
	b.eat = eat_none_and_pause;
	turn_until(b.n_ended);
	assert_int_equal(b.n_bytes, 1);
	assert_true(span_is(stream_left(&b.s), "query"));
	end_free(&a);
	end_free(&b);
}

static void the_end_behind_unread_bytes_waits_for_the_resume(enum kind kind)
{
	struct end a, b;

	make_tcp_pair(kind, &a, &b);
	stream_pause(&b.s);
	stream_send(&a.s, "query", 5);
	stream_close(&a.s);
	settle();
	assert_int_equal(b.n_ended, 0);
	stream_resume(&b.s);
	turn_until(b.n_ended);
	assert_int_equal(b.got.len, 5);
	assert_string_equal(b.why.text, "");
	end_free(&a);
	end_free(&b);
}
IN_BOTH(the_end_behind_unread_bytes_waits_for_the_resume)

static void a_half_closed_peer_still_gets_its_answer(enum kind kind)
{
	struct end a, b;

	make_tcp_pair(kind, &a, &b);
	drop_without_a_word(&a);
	turn_until(b.n_ended);
	stream_send(&b.s, "answer", 6);
	turn_until(a.got.len == 6);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(a_half_closed_peer_still_gets_its_answer)

static void last_words_are_read_though_sending_fails(void **state)
{
	struct end b = {0};
	int fds[2];

	(void)state;
	make_sockets(fds);
	assert_int_equal(write(fds[0], "FATAL", 5), 5);
	close(fds[0]);
	stream_open(&b.s, loop, fds[1], &end_calls, &b);
	stream_send(&b.s, "query", 5); /* EPIPE */
	assert_int_equal(b.n_ended, 0);
	turn_until(b.n_ended);
	assert_int_equal(b.got.len, 5);
	assert_string_equal(b.why.text, "Broken pipe");
	stream_send(&b.s, "more", 4); /* nobody is there, and nobody minds */
	settle();
	assert_int_equal(b.n_ended, 1);
	end_free(&b);
}

static void a_dead_peer_is_told_while_paused_when_sending_fails(void **state)
{
	struct end b = {0};
	int fds[2];

	(void)state;
	make_sockets(fds);
	stream_open(&b.s, loop, fds[1], &end_calls, &b);
	stream_pause(&b.s);
	assert_int_equal(write(fds[0], "x", 1), 1);
	close(fds[0]);
	stream_send(&b.s, "query", 5);
	turn_until(b.n_ended);
	assert_int_equal(b.n_bytes, 0);
	assert_string_equal(b.why.text, "Broken pipe");
	end_free(&b);
}

/* ---- closing from within ---- */

static void close_me(struct end *e)
{
	stream_close(&e->s);
}

static void a_stream_may_be_closed_by_its_own_bytes(enum kind kind)
{
	struct end a, b;

	make_pair(kind, &a, &b);
	b.at_bytes = close_me;
	stream_send(&a.s, "abc", 3);
	turn_until(a.n_ended);
	settle();
	assert_int_equal(b.n_bytes, 1);
	assert_int_equal(b.n_ended, 0);
	assert_int_equal(b.s.fd, -1);
	assert_null(b.s.in.p);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(a_stream_may_be_closed_by_its_own_bytes)

/* p stands in `in` here; it must be readable until the call returns. */
static size_t close_and_eat(struct end *e, const uint8_t *p, size_t len)
{
	if (len < e->to_send)
		return 0;
	stream_close(&e->s);
	buf_add(&e->got, p, len);
	return 0;
}

static void bytes_stay_readable_after_closing_within_the_call(enum kind kind)
{
	struct end a, b;
	uint8_t *sent = mem_new(20000);

	make_pair(kind, &a, &b);
	b.eat = close_and_eat;
	b.to_send = 20000;
	fill(sent, 20000, 0);
	stream_send(&a.s, sent, 15000);
	turn_until(b.n_bytes && stream_left(&b.s).len == 15000);
	stream_send(&a.s, sent + 15000, 5000);
	turn_until(b.got.len);
	assert_memory_equal(b.got.p, sent, 20000);
	assert_null(b.s.in.p);
	mem_free(sent);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(bytes_stay_readable_after_closing_within_the_call)

static void a_stream_may_be_closed_by_drained_and_ended(enum kind kind)
{
	struct end a, b;

	make_pair(kind, &a, &b);
	a.at_drained = close_me;
	b.at_end = close_me;
	stream_when_sent(&a.s);
	turn_until(b.n_ended);
	settle();
	assert_int_equal(a.s.fd, -1);
	assert_int_equal(a.n_ended, 0);
	assert_int_equal(b.s.fd, -1);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(a_stream_may_be_closed_by_drained_and_ended)

static void close_the_other(struct end *e)
{
	stream_close(&e->other->s);
}

static void a_stream_may_be_closed_by_another_one(enum kind kind)
{
	struct end a, b;

	make_pair(kind, &a, &b);
	stream_send(&a.s, "abc", 3);
	stream_send(&b.s, "abc", 3); /* both have an event in the same turn */
	a.at_bytes = b.at_bytes = close_the_other;
	turn_until(a.n_bytes || b.n_bytes);
	settle();
	assert_int_equal(a.n_bytes + b.n_bytes, 1);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(a_stream_may_be_closed_by_another_one)

static void cutting_is_seen_as_a_reset_and_not_as_an_end(enum kind kind)
{
	struct end a, b;
	uint8_t byte;

	make_tcp_pair(kind, &a, &b);
	stream_leave(&b.s); /* read by hand */
	stream_cut(&a.s);
	assert_int_equal(syscall(SYS_recvfrom, b.s.fd, &byte, 1, 0, NULL, NULL), -1);
	assert_int_equal(errno, ECONNRESET);
	end_free(&a);
	end_free(&b);
}
IN_BOTH(cutting_is_seen_as_a_reset_and_not_as_an_end)

/* ---- TLS ---- */

static void bytes_sent_during_the_handshake_go_out_behind_it(void **state)
{
	struct end a = {0}, b = {0};
	int fds[2];

	(void)state;
	make_tcp(fds);
	stream_open(&a.s, loop, fds[0], &end_calls, &a);
	stream_open(&b.s, loop, fds[1], &end_calls, &b);
	assert_true(stream_start_tls(&a.s, connect_setup, NULL, NULL));
	stream_send(&a.s, "early", 5);
	assert_true(stream_start_tls(&b.s, accept_setup, NULL, NULL));
	turn_until(b.got.len == 5);
	assert_int_equal(a.n_secured, 1);
	assert_int_equal(b.n_secured, 1);
	end_free(&a);
	end_free(&b);
}

static void a_handshake_that_fails_ends_the_stream(void **state)
{
	struct end a = {0}, b = {0};
	int fds[2];

	(void)state;
	make_sockets(fds);
	stream_open(&a.s, loop, fds[0], &end_calls, &a);
	stream_open(&b.s, loop, fds[1], &end_calls, &b);
	assert_true(stream_start_tls(&b.s, accept_setup, NULL, NULL));
	stream_send(&a.s, "this is no ClientHello", 22);
	turn_until(b.n_ended);
	assert_string_not_equal(b.why.text, "");
	assert_int_equal(b.n_bytes, 0);
	assert_int_equal(b.n_secured, 0);
	end_free(&a);
	end_free(&b);
}

static void tls_can_begin_with_the_first_byte(void **state)
{
	struct end a = {0}, b = {0};
	int fds[2];

	(void)state;
	make_sockets(fds);
	stream_open(&a.s, loop, fds[0], &end_calls, &a);
	stream_open(&b.s, loop, fds[1], &peeking_calls, &b);
	settle();
	assert_int_equal(b.n_first, 0);
	assert_true(stream_start_tls(&a.s, connect_setup, NULL, NULL));
	stream_send(&a.s, "hello", 5);
	turn_until(b.got.len == 5);
	assert_int_equal(b.n_first, 1);
	assert_int_equal(b.first, 0x16);
	end_free(&a);
	end_free(&b);
}

static void a_first_byte_that_is_not_tls_is_read_as_any_other(void **state)
{
	struct end a = {0}, b = {0};
	int fds[2];

	(void)state;
	make_sockets(fds);
	stream_open(&a.s, loop, fds[0], &end_calls, &a);
	stream_open(&b.s, loop, fds[1], &peeking_calls, &b);
	stream_send(&a.s, "\0hello", 6);
	turn_until(b.got.len == 6);
	stream_send(&a.s, "x", 1);
	turn_until(b.got.len == 7);
	assert_int_equal(b.n_first, 1);
	assert_int_equal(b.first, 0);
	end_free(&a);
	end_free(&b);
}

static void bytes_before_the_handshake_are_seen(void **state)
{
	struct end a, b;

	(void)state;
	make_pair(CLEAR, &a, &b);
	assert_false(stream_has_bytes(&b.s));
	stream_send(&a.s, "x", 1);
	assert_true(stream_has_bytes(&b.s)); /* in the socket */
	b.eat = eat_none_and_pause;
	turn_until(b.n_bytes);
	assert_true(stream_has_bytes(&b.s)); /* left over */
	end_free(&a);
	end_free(&b);
}

/* A record is a type, a version and a length of two bytes before its contents: RFC 8446 section 5.1. */
static void pieces_of_one_sendv_make_one_record(void **state)
{
	struct iovec iov[3] = {{"abc", 3}, {"", 0}, {"defg", 4}};
	struct end a, b;
	uint8_t raw[1000];
	ssize_t n;

	(void)state;
	make_pair(TLS, &a, &b);
	stream_leave(&b.s); /* read by hand */
	stream_sendv(&a.s, iov, 3);
	n = recv(b.s.fd, raw, sizeof(raw), 0);
	assert_true(n > 5 + 7);
	assert_int_equal(raw[0], 0x17);
	assert_int_equal(n, 5 + (raw[3] << 8 | raw[4]));
	end_free(&a);
	end_free(&b);
}

/* ---- moving to another thread ---- */

struct move {
	struct mail mail;
	struct end *end;
};

static void moved_in(struct loop *here, struct mail *m)
{
	struct end *e = owner_of(m, struct move, mail)->end;

	stream_join(&e->s, here);
	e->eat = NULL;
	stream_resume(&e->s);
	mem_free(owner_of(m, struct move, mail));
}

static void move_to(struct loop *to, struct end *e)
{
	struct move *m = mem_make(struct move);

	m->mail.read = moved_in;
	m->end = e;
	stream_leave(&e->s);
	mail_send(to, &m->mail);
}

static void echo(struct end *e)
{
	stream_send(&e->s, e->got.p, e->got.len);
	e->got.len = 0;
}

static void a_stream_goes_on_in_another_thread_with_all_its_bytes(enum kind kind)
{
	struct loop *far = loop_new("far", 1);
	struct end a, b;

	make_tcp_pair(kind, &a, &b);
	loop_start(far);
	b.eat = eat_none_and_pause;
	stream_send(&a.s, "left over ", 10);
	turn_until(b.n_bytes);
	stream_send(&a.s, "unread ", 7);
	settle();
	b.at_bytes = echo;
	b.at_end = close_me;
	move_to(far, &b);
	stream_send(&a.s, "new", 3);
	turn_until(a.got.len == 20);
	assert_memory_equal(a.got.p, "left over unread new", 20);
	stream_close(&a.s);
	loop_stop(far);
	loop_join(far);
	end_free(&a);
	end_free(&b);
	stream_buffers_free(far);
	loop_free(&far);
}
IN_BOTH(a_stream_goes_on_in_another_thread_with_all_its_bytes)

static void what_was_not_sent_goes_along(enum kind kind)
{
	struct loop *far = loop_new("far", 1);
	struct end a, b;
	uint8_t *sent = mem_new(ALL / 8);

	make_pair(kind, &a, &b);
	loop_start(far);
	fill(sent, ALL / 8, 0);
	stream_send(&b.s, sent, ALL / 8);
	assert_true(stream_backlog(&b.s) > 0);
	b.at_end = close_me;
	move_to(far, &b);
	turn_until(a.got.len == ALL / 8);
	assert_memory_equal(a.got.p, sent, ALL / 8);
	stream_close(&a.s);
	loop_stop(far);
	loop_join(far);
	mem_free(sent);
	end_free(&a);
	end_free(&b);
	stream_buffers_free(far);
	loop_free(&far);
}
IN_BOTH(what_was_not_sent_goes_along)

static void a_stream_that_has_left_is_silent(void **state)
{
	struct end a, b;

	(void)state;
	make_pair(CLEAR, &a, &b);
	stream_pause(&b.s);
	stream_send(&a.s, "abc", 3);
	settle();
	stream_resume(&b.s);
	stream_leave(&b.s);
	settle();
	assert_int_equal(b.n_bytes, 0);
	stream_join(&b.s, loop);
	turn_until(b.got.len == 3);
	end_free(&a);
	end_free(&b);
}

static void a_closed_stream_leaves_nothing_with_the_loop(void **state)
{
	struct end *b = mem_make(struct end);
	int fds[2];

	(void)state;
	make_sockets(fds);
	stream_open(&b->s, loop, fds[1], &end_calls, b);
	stream_when_sent(&b->s); /* to be told later */
	close(fds[0]);           /* an event is under way */
	stream_close(&b->s);
	mem_free(b);
	settle();
}

static void a_stream_that_has_left_can_be_closed(void **state)
{
	struct end a, b;

	(void)state;
	make_pair(CLEAR, &a, &b);
	stream_leave(&b.s);
	stream_close(&b.s);
	turn_until(a.n_ended);
	end_free(&a);
}

/* ---- a certificate for the accepting side ---- */

static void write_cert(const char *cert_path, const char *key_path)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	FILE *f;

	X509_set_version(cert, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	X509_set_pubkey(cert, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1, 0);
	X509_set_issuer_name(cert, X509_get_subject_name(cert));
	assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
	assert_non_null(f = fopen(cert_path, "w"));
	PEM_write_X509(f, cert);
	fclose(f);
	assert_non_null(f = fopen(key_path, "w"));
	PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL);
	fclose(f);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static int set_up(void **state)
{
	char dir[] = "/tmp/test_stream.XXXXXX", cert[64], key[64];
	struct tls_want want = {.side = TLS_ACCEPT, .cert_file = cert, .key_file = key};
	struct err err = {0};

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	alarm(60);
	loop = loop_new("test", 0);
	assert_non_null(mkdtemp(dir));
	snprintf(cert, sizeof(cert), "%s/cert", dir);
	snprintf(key, sizeof(key), "%s/key", dir);
	write_cert(cert, key);
	accept_setup = tls_setup_new(&want, &err);
	want = (struct tls_want){.side = TLS_CONNECT};
	connect_setup = tls_setup_new(&want, &err);
	unlink(cert);
	unlink(key);
	rmdir(dir);
	return accept_setup && connect_setup ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	tls_setup_drop(&accept_setup);
	tls_setup_drop(&connect_setup);
	stream_buffers_free(loop);
	loop_free(&loop);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(messages_cut_at_any_byte_come_whole),
		BOTH(messages_in_single_bytes_come_whole),
		BOTH(what_is_left_over_may_grow_large),
		BOTH(a_wanted_message_comes_whole_in_one_call),
		BOTH(a_wanted_message_that_is_cut_short_is_offered_before_the_end),
		BOTH(pieces_of_one_sendv_come_in_order),
		cmocka_unit_test(a_query_costs_one_recv_and_one_send_a_side),
		cmocka_unit_test(a_sendv_of_many_is_one_call),
		BOTH(an_idle_stream_holds_no_buffer),
		BOTH(sixty_four_megabytes_pass_in_bounded_memory),
		BOTH(a_slow_reader_does_not_make_out_grow),
		BOTH(a_reader_that_stops_stops_the_writer),
		BOTH(when_sent_is_told_once),
		BOTH(one_turn_reads_a_budget_only),
		BOTH(a_paused_stream_is_silent_until_resumed),
		BOTH(left_over_bytes_come_again_after_each_resume),
		cmocka_unit_test(left_over_bytes_can_be_consumed_outside_of_the_call),
		BOTH(last_bytes_and_the_end_come_together),
		BOTH(left_over_bytes_do_not_hide_the_end),
		BOTH(a_reset_is_told_with_its_reason),
		BOTH(a_reset_is_told_while_paused),
		BOTH(a_waiting_client_that_leaves_is_told_while_paused),
		cmocka_unit_test(a_query_and_the_end_at_once_are_both_told_while_paused),
		cmocka_unit_test(a_reset_that_comes_with_the_last_bytes_is_told),
		cmocka_unit_test(an_end_and_a_reset_that_come_with_the_last_bytes_are_told),
		BOTH(the_end_behind_unread_bytes_waits_for_the_resume),
		BOTH(a_half_closed_peer_still_gets_its_answer),
		cmocka_unit_test(last_words_are_read_though_sending_fails),
		cmocka_unit_test(a_dead_peer_is_told_while_paused_when_sending_fails),
		BOTH(a_stream_may_be_closed_by_its_own_bytes),
		BOTH(bytes_stay_readable_after_closing_within_the_call),
		BOTH(a_stream_may_be_closed_by_drained_and_ended),
		BOTH(a_stream_may_be_closed_by_another_one),
		BOTH(cutting_is_seen_as_a_reset_and_not_as_an_end),
		cmocka_unit_test(bytes_sent_during_the_handshake_go_out_behind_it),
		cmocka_unit_test(a_handshake_that_fails_ends_the_stream),
		cmocka_unit_test(tls_can_begin_with_the_first_byte),
		cmocka_unit_test(a_first_byte_that_is_not_tls_is_read_as_any_other),
		cmocka_unit_test(bytes_before_the_handshake_are_seen),
		cmocka_unit_test(pieces_of_one_sendv_make_one_record),
		BOTH(a_stream_goes_on_in_another_thread_with_all_its_bytes),
		BOTH(what_was_not_sent_goes_along),
		cmocka_unit_test(a_stream_that_has_left_is_silent),
		cmocka_unit_test(a_closed_stream_leaves_nothing_with_the_loop),
		cmocka_unit_test(a_stream_that_has_left_can_be_closed),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
