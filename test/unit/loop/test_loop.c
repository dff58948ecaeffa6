/* loop: timers, laters, graves and the edge, with time moved by hand; and one with the real clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "loop/loop.h"
#include "loop/loop_priv.h"

static usec_t test_now;
static int clock_reads;

static usec_t test_clock(void)
{
	clock_reads++;
	return test_now;
}

static struct loop *l;

/* What happened, a letter each, in order. */
static char story[100];

static void tell(char c)
{
	size_t n = strlen(story);

	assert_true(n + 1 < sizeof(story));
	story[n] = c;
	story[n + 1] = '\0';
}

static int begin(void **state)
{
	(void)state;
	test_now = 1000 * USEC_PER_SEC;
	story[0] = '\0';
	l = loop_new("test", 0);
	l->clock = test_clock;
	loop_renew(l);
	return 0;
}

static int end(void **state)
{
	(void)state;
	loop_free(&l);
	return l ? -1 : 0;
}

static void turn_at(usec_t now)
{
	test_now = now;
	loop_turn(l, EVLOOP_NONBLOCK);
}

/* ---- timers ---- */

struct letter {
	struct timer timer;
	char letter;
	usec_t again; /* sets itself again after so much; -1: not */
};

static void letter_fire(struct timer *t)
{
	struct letter *a = owner_of(t, struct letter, timer);

	tell(a->letter);
	if (a->again >= 0)
		timer_in(t, a->again);
}

static void letter_init(struct letter *a, char c)
{
	timer_init(&a->timer, l, letter_fire);
	a->letter = c;
	a->again = -1;
}

static void timers_fire_when_due_and_in_order(void **state)
{
	struct letter a, b, c;
	usec_t start = l->now;

	(void)state;
	letter_init(&a, 'a');
	letter_init(&b, 'b');
	letter_init(&c, 'c');
	timer_in(&c.timer, 300);
	timer_in(&a.timer, 100);
	timer_set(&b.timer, start + 200);
	turn_at(start + 99);
	assert_string_equal(story, "");
	turn_at(start + 100);
	assert_string_equal(story, "a");
	assert_false(timer_is_set(&a.timer));
	turn_at(start + 1000);
	assert_string_equal(story, "abc");
	turn_at(start + 2000);
	assert_string_equal(story, "abc");
}

static void a_stopped_timer_does_not_fire(void **state)
{
	struct letter a;

	(void)state;
	letter_init(&a, 'a');
	timer_stop(&a.timer);
	timer_in(&a.timer, 100);
	assert_true(timer_is_set(&a.timer));
	timer_stop(&a.timer);
	timer_stop(&a.timer);
	turn_at(test_now + 1000);
	assert_string_equal(story, "");
}

static void a_timer_set_again_moves(void **state)
{
	struct letter a;
	usec_t start = test_now;

	(void)state;
	letter_init(&a, 'a');
	timer_set(&a.timer, start + 100);
	timer_set(&a.timer, start + 500);
	turn_at(start + 200);
	assert_string_equal(story, "");
	timer_set(&a.timer, start + 300);
	turn_at(start + 300);
	assert_string_equal(story, "a");
}

static void a_timer_that_sets_itself_to_now_lets_the_turn_end(void **state)
{
	struct letter a;

	(void)state;
	letter_init(&a, 'a');
	a.again = 0;
	timer_in(&a.timer, 0);
	turn_at(test_now);
	assert_string_equal(story, "a");
	turn_at(test_now);
	assert_string_equal(story, "aa");
	timer_stop(&a.timer);
}

static void a_timer_for_ever_does_not_come_round_to_the_past(void **state)
{
	struct letter a;

	(void)state;
	letter_init(&a, 'a');
	timer_in(&a.timer, INT64_MAX);
	turn_at(test_now + 1000000 * USEC_PER_SEC);
	assert_string_equal(story, "");
	timer_stop(&a.timer);
}

static void the_wake_up_is_armed_anew_only_for_an_earlier_timer(void **state)
{
	struct letter a, b;
	usec_t start = test_now;

	(void)state;
	letter_init(&a, 'a');
	letter_init(&b, 'b');
	turn_at(start);
	assert_int_equal(l->timer_armed_for, 0);
	timer_in(&a.timer, 1000 * USEC_PER_SEC);
	turn_at(start);
	assert_int_equal(l->timer_armed_for, start + 1000 * USEC_PER_SEC);
	timer_in(&b.timer, 2000 * USEC_PER_SEC); /* later: nothing to do */
	timer_stop(&a.timer);                    /* nor now: waking for nothing once is cheaper */
	turn_at(start);
	assert_int_equal(l->timer_armed_for, start + 1000 * USEC_PER_SEC);
	timer_in(&a.timer, 500 * USEC_PER_SEC);
	turn_at(start);
	assert_int_equal(l->timer_armed_for, start + 500 * USEC_PER_SEC);
	timer_stop(&a.timer);
	timer_stop(&b.timer);
}

/* ---- the end of a turn ---- */

struct chore {
	struct later later;
	char letter;
	struct chore *then; /* asked for while this runs */
	struct chore *drop; /* stopped while this runs */
};

static void chore_run(struct later *w)
{
	struct chore *c = owner_of(w, struct chore, later);

	tell(c->letter);
	if (c->then)
		loop_later(l, &c->then->later);
	if (c->drop)
		later_stop(&c->drop->later);
}

static void chore_init(struct chore *c, char letter)
{
	*c = (struct chore){.letter = letter};
	later_init(&c->later, chore_run);
}

static void a_later_runs_once_however_often_asked_for(void **state)
{
	struct chore a, b;

	(void)state;
	chore_init(&a, 'a');
	chore_init(&b, 'b');
	loop_later(l, &a.later);
	loop_later(l, &b.later);
	loop_later(l, &a.later);
	turn_at(test_now);
	assert_string_equal(story, "ab");
	turn_at(test_now);
	assert_string_equal(story, "ab");
}

static void a_later_asked_for_by_a_later_runs_in_the_next_turn(void **state)
{
	struct chore a, b;

	(void)state;
	chore_init(&a, 'a');
	chore_init(&b, 'b');
	a.then = &b;
	b.then = &b;
	loop_later(l, &a.later);
	turn_at(test_now);
	assert_string_equal(story, "a");
	turn_at(test_now);
	assert_string_equal(story, "ab");
	turn_at(test_now);
	assert_string_equal(story, "abb");
	later_stop(&b.later);
}

static void a_later_may_stop_another_that_is_due_in_the_same_turn(void **state)
{
	struct chore a, b, c;

	(void)state;
	chore_init(&a, 'a');
	chore_init(&b, 'b');
	chore_init(&c, 'c');
	a.drop = &b;
	loop_later(l, &a.later);
	loop_later(l, &b.later);
	loop_later(l, &c.later);
	turn_at(test_now);
	turn_at(test_now);
	assert_string_equal(story, "ac");
}

struct corpse {
	struct grave grave;
	struct corpse *next;
};

static void corpse_release(struct grave *g)
{
	struct corpse *c = owner_of(g, struct corpse, grave);

	tell('g');
	if (c->next)
		loop_bury(l, &c->next->grave, corpse_release);
	mem_free(c);
}

static struct corpse *corpse_new(struct corpse *next)
{
	struct corpse *c = mem_make(struct corpse);

	c->next = next;
	return c;
}

static void edge_tell(struct loop *at)
{
	assert_ptr_equal(at, l);
	tell('e');
}

static void a_turn_goes_timers_laters_graves_edge(void **state)
{
	struct letter t;
	struct chore a;

	(void)state;
	l->edge = edge_tell;
	loop_bury(l, &corpse_new(NULL)->grave, corpse_release);
	chore_init(&a, 'a');
	loop_later(l, &a.later);
	letter_init(&t, 't');
	timer_in(&t.timer, 10);
	turn_at(test_now + 10);
	assert_string_equal(story, "tage");
}

static void what_a_release_buries_is_released_in_the_same_turn(void **state)
{
	(void)state;
	loop_bury(l, &corpse_new(corpse_new(corpse_new(NULL)))->grave, corpse_release);
	assert_string_equal(story, "");
	turn_at(test_now);
	assert_string_equal(story, "ggg");
}

static void freeing_a_loop_releases_what_is_buried_and_lets_the_rest_go(void **state)
{
	struct loop *other = loop_new("other", 1);
	struct timer t;
	struct chore a;

	(void)state;
	loop_bury(other, &corpse_new(NULL)->grave, corpse_release);
	timer_init(&t, other, letter_fire);
	timer_in(&t, 5);
	chore_init(&a, 'a');
	a.then = &a;
	loop_later(other, &a.later);
	loop_free(&other);
	assert_null(other);
	assert_string_equal(story, "ag");
	assert_false(timer_is_set(&t));
	later_stop(&a.later);
}

/* ---- the clock ---- */

static void the_clock_is_read_once_per_turn(void **state)
{
	struct letter a;

	(void)state;
	letter_init(&a, 'a');
	timer_in(&a.timer, 10);
	clock_reads = 0;
	turn_at(test_now + 10);
	timer_in(&a.timer, 10);
	assert_int_equal(loop_now(l), test_now);
	assert_int_equal(clock_reads, 1);
	timer_stop(&a.timer);
}

static usec_t seen_by_event;

static void socket_woke(evutil_socket_t fd, short what, void *arg)
{
	char byte;

	(void)what;
	(void)arg;
	assert_int_equal(read(fd, &byte, 1), 1);
	seen_by_event = loop_now(l);
	tell('s');
}

static void an_event_finds_the_time_of_its_own_turn(void **state)
{
	struct event *event;
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	event = event_new(l->base, fds[0], EV_READ | EV_PERSIST, socket_woke, NULL);
	assert_int_equal(event_add(event, NULL), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	turn_at(test_now + 12345);
	assert_string_equal(story, "s");
	assert_int_equal(seen_by_event, test_now);
	event_free(event);
	close(fds[0]);
	close(fds[1]);
}

/* ---- running ---- */

static void timer_stops_loop(struct timer *t)
{
	tell('t');
	loop_stop(t->loop);
}

static void a_running_loop_sleeps_until_its_timer_and_is_never_early(void **state)
{
	struct loop *real = loop_new("real", 2);
	struct timer t;
	usec_t due;

	(void)state;
	timer_init(&t, real, timer_stops_loop);
	timer_in(&t, 20 * USEC_PER_MSEC);
	due = t.at;
	loop_run(real);
	assert_string_equal(story, "t");
	assert_true(real->now >= due);
	assert_true(real->now < due + 5 * USEC_PER_SEC);
	assert_true(loop_is_here(real));
	loop_free(&real);
}

static void later_stops_loop(struct later *w)
{
	(void)w;
	tell('l');
	loop_stop(l);
}

static void a_later_set_before_the_run_does_not_wait_for_an_event(void **state)
{
	struct later w;

	(void)state;
	later_init(&w, later_stops_loop);
	loop_later(l, &w);
	loop_run(l);
	assert_string_equal(story, "l");
}

static void a_loop_can_be_run_again(void **state)
{
	struct later w;

	(void)state;
	later_init(&w, later_stops_loop);
	for (int i = 0; i < 3; i++) {
		loop_later(l, &w);
		loop_run(l);
	}
	assert_string_equal(story, "lll");
}

struct seen_in_thread {
	struct timer timer;
	bool here;
	bool term_blocked;
	bool hup_blocked;
};

static void look_around(struct timer *t)
{
	struct seen_in_thread *seen = owner_of(t, struct seen_in_thread, timer);
	sigset_t blocked;

	seen->here = loop_is_here(t->loop);
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	seen->term_blocked = sigismember(&blocked, SIGTERM) == 1;
	seen->hup_blocked = sigismember(&blocked, SIGHUP) == 1;
	loop_stop(t->loop);
}

static void a_started_loop_is_its_threads_and_takes_no_signals(void **state)
{
	struct loop *worker = loop_new("worker-0", 0);
	struct seen_in_thread seen = {0};
	sigset_t blocked;

	(void)state;
	assert_true(loop_is_here(worker));
	timer_init(&seen.timer, worker, look_around);
	timer_in(&seen.timer, 0);
	loop_start(worker);
	assert_false(loop_is_here(worker));
	loop_join(worker);
	assert_true(loop_is_here(worker));
	assert_true(seen.here && seen.term_blocked && seen.hup_blocked);
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	assert_int_equal(sigismember(&blocked, SIGTERM), 0);
	loop_free(&worker);
}

static void another_thread_stops_a_loop(void **state)
{
	struct loop *worker = loop_new("worker-0", 0);

	(void)state;
	loop_start(worker);
	loop_stop(worker);
	loop_join(worker);
	loop_free(&worker);
}

#define WITH_LOOP(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_LOOP(timers_fire_when_due_and_in_order),
		WITH_LOOP(a_stopped_timer_does_not_fire),
		WITH_LOOP(a_timer_set_again_moves),
		WITH_LOOP(a_timer_that_sets_itself_to_now_lets_the_turn_end),
		WITH_LOOP(a_timer_for_ever_does_not_come_round_to_the_past),
		WITH_LOOP(the_wake_up_is_armed_anew_only_for_an_earlier_timer),
		WITH_LOOP(a_later_runs_once_however_often_asked_for),
		WITH_LOOP(a_later_asked_for_by_a_later_runs_in_the_next_turn),
		WITH_LOOP(a_later_may_stop_another_that_is_due_in_the_same_turn),
		WITH_LOOP(a_turn_goes_timers_laters_graves_edge),
		WITH_LOOP(what_a_release_buries_is_released_in_the_same_turn),
		WITH_LOOP(freeing_a_loop_releases_what_is_buried_and_lets_the_rest_go),
		WITH_LOOP(the_clock_is_read_once_per_turn),
		WITH_LOOP(an_event_finds_the_time_of_its_own_turn),
		WITH_LOOP(a_running_loop_sleeps_until_its_timer_and_is_never_early),
		WITH_LOOP(a_later_set_before_the_run_does_not_wait_for_an_event),
		WITH_LOOP(a_loop_can_be_run_again),
		WITH_LOOP(a_started_loop_is_its_threads_and_takes_no_signals),
		WITH_LOOP(another_thread_stops_a_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
