/* A byte stream over a socket, in clear or under TLS, on one loop.
 *
 * Events are raw and edge-triggered, added once per connection: no epoll_ctl per transaction.
 * All streams of a loop share its one read buffer: bytes are handed to calls->bytes where they
 * were read, and only what the owner leaves over is copied into the stream's own `in`. What the
 * peer does not take at once is copied into `out`. An idle stream holds no buffer.
 *
 *   read buffer (the loop's)      in (own, usually empty)        out (own, usually empty)
 *   [ bytes just read ........ ]  [ left over, not consumed ]    [ not yet taken by the peer ]
 *
 * A stream that may not be read (paused) remembers that it is readable. One turn reads at most
 * STREAM_BUDGET bytes from a stream, then goes on in the next turn.
 * Under TLS the same, but what SSL_pending holds gives no edge, so the stream asks for it. */
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "loop/loop.h"
#include "net/addr.h"

struct stream;
struct tls;
struct tls_setup;

#define STREAM_READ_ROOM (64 * 1024) /* the loop's read buffer */
#define STREAM_BUDGET (256 * 1024)   /* bytes a stream may read per turn */
#define STREAM_HIGH_WATER (64 * 1024) /* out above this: stream_is_full */
#define STREAM_LOW_WATER (16 * 1024)

struct stream_calls {
	/* New bytes stand at p, those left over first. Returns how many are consumed; the rest comes again with more
	 * behind it, or after a resume, not by itself: consume all whole messages or pause. May pause or close the stream. */
	size_t (*bytes)(struct stream *s, const uint8_t *p, size_t len);
	/* Out has fallen to STREAM_LOW_WATER after stream_is_full was true, or is empty (see stream_when_sent). May be NULL. */
	void (*drained)(struct stream *s);
	/* The peer ended, or the socket or TLS failed (err->text says how; "" for an orderly end). All bytes that came
	 * before were handed out. A paused stream is told too, so that its owner learns that a waiting client has left:
	 *   - a failed or reset socket: at once; what it had not read is lost
	 *   - a FIN with nothing unread in the socket: at once; what the owner left over still stands in stream_left
	 *   - a FIN behind unread bytes: when it is resumed and they were handed out
	 * Called once, and no bytes are after it; what is sent still goes out if the peer only closed its own direction. */
	void (*ended)(struct stream *s, const struct err *why);
	/* The handshake begun by stream_start_tls is through. May be NULL. */
	void (*secured)(struct stream *s);
	/* The first byte the peer sends on this connection, still in the socket: the place to start TLS that comes without an
	 * SSLRequest (0x16). May be NULL, then nobody peeks. */
	void (*first)(struct stream *s, uint8_t byte);
};

struct stream {
	struct loop *loop;               /* borrows */
	const struct stream_calls *calls;
	void *owner;                     /* borrows: client or server */
	int fd;                          /* owns; -1 when closed */
	struct tls *tls;                 /* owns; NULL in clear */
	struct event event;
	struct later again;              /* reads on in the next turn, or after a resume */
	struct buf in;
	struct buf out;
	size_t in_at;                    /* so many bytes of in are consumed */
	size_t out_at;                   /* so many bytes of out are sent */
	size_t want;                     /* see stream_want */
	uint64_t received;               /* bytes, in clear */
	uint64_t sent;
	struct list unsure;  /* in the loop's list of sockets that may have died unseen, see stream.c */
	uint64_t unsure_sent; /* `sent` when it came there */
	bool open;      /* between stream_open and stream_close */
	bool readable;  /* the socket may have more; never when closed */
	bool busy;      /* inside calls->bytes */
	bool calling;   /* inside any of the calls */
	bool told_end;
	bool dead;      /* nothing can be sent any more */
	bool crossed;   /* TLS wants to write before it can read on */
	union {
		struct {
			bool at_end;    /* EOF or error seen, not told yet or told */
			bool paused;
			bool full;      /* went above high water, not below low water yet */
			bool handshake; /* TLS handshake under way */
			bool tell_sent; /* stream_when_sent was asked */
			bool hung_up;   /* the peer's FIN was seen by epoll: bytes may stand before it */
			bool untold;    /* in holds bytes that calls->bytes is to see (again) */
			bool first_due; /* calls->first was not called yet */
		};
		uint64_t unusual; /* all of these at once: 0 at nearly every event */
	};
	struct err *why; /* owns; NULL: none, or an orderly end. A pointer because there are many streams and few fail */
};

/* fd is non-blocking and belongs to the stream from now on. Reading begins at once. */
void stream_open(struct stream *s, struct loop *l, int fd, const struct stream_calls *calls, void *owner);
/* Stops events and closes the fd at once (a TLS close_notify is tried). No call comes after it. May be called from within a call. */
void stream_close(struct stream *s);
/* Nothing is sent any more; what the peer still says goes to the owner until it ends. False: the socket is of no use, close it. */
bool stream_finish(struct stream *s);
/* Closes with a TCP reset: the peer must see that the stream was cut. */
void stream_cut(struct stream *s);

/* Sends now what the socket takes and keeps the rest. Never fails and calls nobody: a dead peer is told by ended, later. */
void stream_send(struct stream *s, const void *p, size_t len);
void stream_sendv(struct stream *s, const struct iovec *iov, int n); /* n <= IOV_MAX; one sendmsg in clear */
static inline size_t stream_backlog(const struct stream *s) { return s->out.len - s->out_at; }
static inline bool stream_is_full(const struct stream *s) { return s->full; }
/* Calls drained once when the out queue is empty, even if it never was full; at once in the next later-run if it is empty now. */
void stream_when_sent(struct stream *s);

void stream_pause(struct stream *s);  /* bytes is not called until resume; cheap */
void stream_resume(struct stream *s); /* goes on at the end of this turn, left over bytes first */
/* The message at the front needs so many bytes in all: bytes is not called again before they are there (or the end is),
 * and they are read straight into `in`. Holds for the next call of bytes only. 0: as they come. Bounded by the caller. */
void stream_want(struct stream *s, size_t bytes);
/* Bytes held back in `in`. */
static inline struct span stream_left(const struct stream *s) { return (struct span){s->in_at ? s->in.p + s->in_at : s->in.p, s->in.len - s->in_at}; }
/* Drop n bytes of `in`: for an owner that consumes left over bytes outside of calls->bytes. */
void stream_consume(struct stream *s, size_t n);

/* The handshake: as the accepting side or the connecting one. `host` (connecting side) is the name for SNI and for
 * verify-full, may be NULL. Bytes already read in clear must have been refused by the caller (CVE-2021-3935). */
bool stream_start_tls(struct stream *s, struct tls_setup *setup, const char *host, struct err *err) MUST_CHECK;
/* Are there bytes in `in` or in the socket that came before the handshake? (peeks at the socket) */
bool stream_has_bytes(struct stream *s);

/* Leaves its loop: no event, no timer; then another thread may stream_join it. Not while inside a TLS handshake, and not
 * from within a call: pause, and leave from a later. Left over bytes go along (and come again after a resume). */
void stream_leave(struct stream *s);
void stream_join(struct stream *s, struct loop *l);

/* The loop's shared buffers; made on first use, freed by the loop's owner at the end. */
void stream_buffers_free(struct loop *l);
