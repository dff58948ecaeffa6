/* A loop: one thread's libevent base (EVENT_BASE_FLAG_NOLOCK), its clock, its timers, its
 * mailbox and its grave. Everything that hangs on a loop is touched by its thread only;
 * functions that change such a thing begin with verify_here(x->loop). Other threads reach
 * a loop by mail (loop/mail.h). Timers live in one heap under one timerfd.
 *
 * A turn: events (mail among them), due timers, laters, graves, edge. All but raw events find
 * loop->now right. libevent runs those before the loop itself knows that it woke, so a callback
 * of a raw event asks for loop_now(l) first; from then on loop->now is right for the rest of
 * the turn. The clock is read once per turn, however often it is asked for. */
#pragma once

#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/num.h"
#include "base/verify.h"

struct loop;
struct mailbox;

struct timer {
	struct heap_node node;
	usec_t at; /* when it fires, by loop->now */
	struct loop *loop;
	void (*fire)(struct timer *t);
};

/* Work for the end of the turn, before the loop sleeps again. */
struct later {
	struct list link;
	void (*run)(struct later *l);
};

struct loop {
	const char *name; /* borrows: "control", "worker-0" */
	int id;           /* workers 0.., control -1 */
	struct event_base *base; /* owns */
	pthread_t maker;         /* whose loop it is while it does not run */
	pthread_t thread;        /* for loop_join */
	atomic_bool running;
	bool stopping;
	bool now_is_fresh;       /* has now been renewed in this turn? */
	usec_t now;              /* monotonic, renewed when the loop wakes */
	usec_t (*clock)(void);   /* clock_now; a test puts its own */

	struct heap timers;
	int timer_fd;                /* owns */
	struct event *timer_event; /* owns */
	usec_t timer_armed_for;     /* what it is armed for; 0: not */
	struct list laters;
	struct list graves;
	struct mailbox *mailbox; /* owns */

	void (*edge)(struct loop *l); /* called at the end of each turn; may be NULL */
	void *owner;                  /* borrows: the worker or control */
	void *stream_room;            /* owns: net/stream's shared buffers, freed by stream_buffers_free */
};

struct loop *loop_new(const char *name, int id); /* aborts when the system has no more descriptors */
void loop_free(struct loop **l);
void loop_run(struct loop *l);    /* in the calling thread, until loop_stop */
void loop_start(struct loop *l);  /* in a new thread with all signals blocked */
void loop_join(struct loop *l);
void loop_stop(struct loop *l);   /* from its own thread; from another: by mail */
extern _Thread_local const struct loop *loop_running_here; /* written by loop.c only */
bool loop_is_made_here(const struct loop *l);
/* Is this the loop's thread (or is the loop not running yet, and this is the thread that made it)? */
static inline bool loop_is_here(const struct loop *l) { return __builtin_expect(loop_running_here == l, 1) || loop_is_made_here(l); }

#define verify_here(l) verify(loop_is_here(l))

void loop_renew(struct loop *l); /* reads the clock into now; for what runs long enough to care */
static inline usec_t loop_now(struct loop *l)
{
	if (!l->now_is_fresh)
		loop_renew(l);
	return l->now;
}

void timer_init(struct timer *t, struct loop *l, void (*fire)(struct timer *t));
void timer_set(struct timer *t, usec_t at);     /* sets or moves; at is by l->now */
void timer_in(struct timer *t, usec_t after);   /* the same, from loop_now on; exact to a few ms, never early */
void timer_stop(struct timer *t);               /* may be called when not set */
static inline bool timer_is_set(const struct timer *t) { return heap_has(&t->node); }

void later_init(struct later *w, void (*run)(struct later *w));
void loop_later(struct loop *l, struct later *w); /* once, however often asked; runs in this turn or the next */
void later_stop(struct later *w);

/* Two-phase closing: what is buried is freed at the end of the turn. */
struct grave {
	struct list link;
	void (*release)(struct grave *g);
};
void loop_bury(struct loop *l, struct grave *g, void (*release)(struct grave *g));
