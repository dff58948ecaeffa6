/* The loop: turns around libevent's event_base_loop, one epoll_wait each.
 *
 * Timers are ours. A pooler sets and stops one or two per transaction and hardly ever lets one fire, so that must cost a step in a heap
 * and nothing else: one timerfd is looked at once, at the end of a turn, and armed anew only when the first timer of the heap has
 * come before what it is armed for. When the first timer was stopped meanwhile, the loop wakes once for nothing, which is cheaper than
 * re-arming each time. libevent's own timers are not used (but by evhttp, in control's loop): with none in its heap it never asks for the time.
 *
 * What is not here: signals (main), sockets (net). */
#include "loop/loop.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "loop/loop_priv.h"
#include "loop/mail_priv.h"

/* The loop that this thread runs. Thread-local, because a pthread_t kept in the loop would be
 * written by the starter while the new thread reads it. */
_Thread_local const struct loop *loop_running_here;

/* ---- timers ---- */

static bool timer_before(const struct heap_node *a, const struct heap_node *b)
{
	return owner_of(a, struct timer, node)->at < owner_of(b, struct timer, node)->at;
}

static void timer_woke(evutil_socket_t fd, short what, void *arg)
{
	struct loop *l = arg;

	(void)fd; /* never read: each expiry is an edge */
	(void)what;
	l->timer_armed_for = 0;
}

static APART void arm_timer_for(struct loop *l, usec_t at)
{
	usec_t after = at > l->now ? at - l->now : 0;
	struct itimerspec when = {0};

	when.it_value.tv_sec = after / USEC_PER_SEC;
	when.it_value.tv_nsec = after % USEC_PER_SEC * 1000;
	if (after == 0)
		when.it_value.tv_nsec = 1; /* 0 would disarm it */
	verify(timerfd_settime(l->timer_fd, 0, &when, NULL) == 0);
	l->timer_armed_for = at > 0 ? at : 1;
}

static void arm_timer(struct loop *l)
{
	struct heap_node *top = heap_top(&l->timers);
	usec_t at = top ? owner_of(top, struct timer, node)->at : 0;

	if (top && (!l->timer_armed_for || l->timer_armed_for > at))
		arm_timer_for(l, at);
}

/* No more than were set before, or one that sets itself to now would never let go. */
static void fire_timers(struct loop *l)
{
	struct heap_node *top;

	for (size_t n = l->timers.count; n && (top = heap_top(&l->timers)); n--) {
		struct timer *t = owner_of(top, struct timer, node);

		if (t->at > l->now)
			break;
		heap_take(&l->timers, &t->node);
		t->fire(t);
	}
}

void timer_init(struct timer *t, struct loop *l, void (*fire)(struct timer *t))
{
	*t = (struct timer){.loop = l, .fire = fire};
}

void timer_set(struct timer *t, usec_t at)
{
	verify_here(t->loop);
	t->at = at;
	if (timer_is_set(t))
		heap_fix(&t->loop->timers, &t->node);
	else
		heap_add(&t->loop->timers, &t->node);
}

void timer_in(struct timer *t, usec_t after)
{
	usec_t at;

	/* A wait that is set to "for ever" must not come round to the past. */
	if (__builtin_add_overflow(loop_now(t->loop), after, &at))
		at = INT64_MAX;
	timer_set(t, at);
}

void timer_stop(struct timer *t)
{
	if (!timer_is_set(t))
		return;
	verify_here(t->loop);
	heap_take(&t->loop->timers, &t->node);
}

/* ---- the end of a turn ---- */

/* Those that are asked for while these run have their turn in the next one. */
static void run_laters(struct loop *l)
{
	struct list due, *link;

	if (list_empty(&l->laters))
		return;
	list_take_all(&due, &l->laters);
	while ((link = list_first(&due))) {
		struct later *w = list_owner(link, struct later, link);

		list_take(link);
		w->run(w);
	}
}

static void release_graves(struct loop *l)
{
	struct list *link;

	while ((link = list_first(&l->graves))) {
		struct grave *g = list_owner(link, struct grave, link);

		list_take(link);
		g->release(g);
	}
}

void later_init(struct later *w, void (*run)(struct later *w))
{
	list_init(&w->link);
	w->run = run;
}

void loop_later(struct loop *l, struct later *w)
{
	verify_here(l);
	if (!list_linked(&w->link))
		list_push(&l->laters, &w->link);
}

void later_stop(struct later *w)
{
	list_take(&w->link);
}

void loop_bury(struct loop *l, struct grave *g, void (*release)(struct grave *g))
{
	verify_here(l);
	g->release = release;
	list_push(&l->graves, &g->link);
}

/* ---- turns ---- */

void loop_renew(struct loop *l)
{
	l->now = l->clock();
	l->now_is_fresh = true;
}

void loop_turn(struct loop *l, int event_flags)
{
	l->now_is_fresh = false;
	verify(event_base_loop(l->base, event_flags) == 0);
	loop_now(l);
	fire_timers(l);
	run_laters(l);
	release_graves(l);
	if (l->edge)
		l->edge(l);
	arm_timer(l);
}

static void run_until_stopped(struct loop *l)
{
	const struct loop *outer = loop_running_here;

	loop_running_here = l;
	loop_renew(l); /* it may have been made long ago */
	arm_timer(l);
	while (!l->stopping)
		loop_turn(l, list_empty(&l->laters) ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
	l->stopping = false;
	loop_running_here = outer;
}

static void *thread_main(void *arg)
{
	run_until_stopped(arg);
	return NULL;
}

/* ---- a loop's life ---- */

/* Without the change list, which libevent would use for epoll if the environment asked for it:
 * our events are added once and stay. */
static struct event_base *base_new(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base;

	verify(config);
	verify(event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) == 0);
	verify(event_config_set_flag(config, EVENT_BASE_FLAG_IGNORE_ENV) == 0);
	verify(event_config_set_flag(config, EVENT_BASE_FLAG_NO_CACHE_TIME) == 0);
	verify(event_config_require_features(config, EV_FEATURE_ET | EV_FEATURE_O1) == 0);
	base = event_base_new_with_config(config);
	event_config_free(config);
	return base;
}

struct loop *loop_new(const char *name, int id)
{
	struct loop *l = mem_make(struct loop);

	l->name = name;
	l->id = id;
	l->base = base_new();
	verify(l->base);
	l->maker = pthread_self();
	l->clock = clock_now;
	heap_init(&l->timers, timer_before);
	list_init(&l->laters);
	list_init(&l->graves);
	l->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	verify(l->timer_fd >= 0);
	l->timer_event = event_new(l->base, l->timer_fd, EV_READ | EV_ET | EV_PERSIST, timer_woke, l);
	verify(l->timer_event && event_add(l->timer_event, NULL) == 0);
	l->mailbox = mailbox_new(l);
	loop_renew(l);
	return l;
}

/* Mail that came after the last turn still has its owner's memory in it, and what it does may
 * ask for laters and bury things, so all three are worked off. Laters that ask for themselves
 * again are only unlinked in the end. */
void loop_free(struct loop **at)
{
	struct loop *l = *at;
	struct list *link;

	if (!l)
		return;
	*at = NULL;
	verify_here(l);
	verify(!l->running);
	loop_renew(l);
	run_laters(l);
	while (!mailbox_is_empty(l->mailbox))
		mailbox_read(l->mailbox);
	release_graves(l);
	while ((link = list_first(&l->laters)))
		list_take(link);
	mailbox_free(&l->mailbox);
	event_free(l->timer_event);
	close(l->timer_fd);
	event_base_free(l->base);
	heap_free(&l->timers);
	mem_free(l);
}

void loop_run(struct loop *l)
{
	verify_here(l);
	verify(!l->running);
	l->running = true;
	run_until_stopped(l);
	l->running = false;
}

void loop_start(struct loop *l)
{
	sigset_t all, before;

	verify_here(l);
	verify(!l->running);
	l->running = true; /* from here on it is the new thread's */
	sigfillset(&all);
	verify(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
	verify(pthread_create(&l->thread, NULL, thread_main, l) == 0);
	verify(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	pthread_setname_np(l->thread, l->name); /* for top and gdb; a name over 15 bytes is not taken */
}

void loop_join(struct loop *l)
{
	verify(l->running);
	verify(pthread_join(l->thread, NULL) == 0);
	l->running = false;
}

struct stop {
	struct mail mail;
};

static void stop_read(struct loop *here, struct mail *m)
{
	here->stopping = true;
	mem_free(owner_of(m, struct stop, mail));
}

void loop_stop(struct loop *l)
{
	struct stop *stop;

	if (loop_is_here(l)) {
		l->stopping = true;
		return;
	}
	stop = mem_make(struct stop);
	stop->mail.read = stop_read;
	mail_send(l, &stop->mail);
}

bool loop_is_made_here(const struct loop *l)
{
	return !l->running && pthread_equal(l->maker, pthread_self());
}
