/* gather: every loop answers once, at once or later; the asker hears when all have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "loop/gather.h"

enum { WORKERS = 4 };

static struct loop *control, *workers[WORKERS];

static int begin(void **state)
{
	static const char *const names[WORKERS] = {"worker-0", "worker-1", "worker-2", "worker-3"};

	(void)state;
	control = loop_new("control", -1);
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = loop_new(names[i], i);
		loop_start(workers[i]);
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < WORKERS; i++)
		loop_stop(workers[i]);
	for (int i = 0; i < WORKERS; i++) {
		loop_join(workers[i]);
		loop_free(&workers[i]);
	}
	loop_free(&control);
	return 0;
}

struct question {
	int factor;
	int asked_done; /* how often done was called */
	bool forgotten;
	char rows[100];
	int64_t sum;
};

static void answer_at_once(struct part *p)
{
	const struct question *q = p->gather->arg;

	verify_here(p->loop);
	buf_add_fmt(&p->rows, "%s;", p->loop->name);
	p->number = q->factor * p->loop->id;
	part_done(p);
}

struct slow {
	struct timer timer;
	struct part *part;
};

static void slow_fire(struct timer *t)
{
	struct slow *slow = owner_of(t, struct slow, timer);
	struct part *p = slow->part;

	verify(p->hold == slow);
	buf_add_fmt(&p->rows, "slow %s;", p->loop->name);
	mem_free(slow);
	part_done(p);
}

static void answer_later(struct part *p)
{
	struct slow *slow;

	if (p->loop->id % 2 == 0) {
		answer_at_once(p);
		return;
	}
	slow = mem_make(struct slow);
	slow->part = p;
	p->hold = slow;
	timer_init(&slow->timer, p->loop, slow_fire);
	timer_in(&slow->timer, 2 * USEC_PER_MSEC);
}

static void collect(struct gather *g)
{
	struct question *q = g->arg;
	struct buf all = {0};

	verify_here(g->asker);
	q->asked_done++;
	q->forgotten = g->forgotten;
	for (int i = 0; i < g->n_parts; i++) {
		buf_add(&all, g->parts[i].rows.p, g->parts[i].rows.len);
		q->sum += g->parts[i].number;
	}
	buf_add_u8(&all, 0);
	assert_true(all.len <= sizeof(q->rows));
	memcpy(q->rows, all.p, all.len);
	buf_free(&all);
	loop_stop(g->asker);
	gather_free(&g);
	assert_null(g);
}

static void every_loop_answers_and_parts_stand_in_their_order(void **state)
{
	struct question q = {.factor = 10};

	(void)state;
	gather_start(control, workers, WORKERS, answer_at_once, collect, &q);
	loop_run(control);
	assert_int_equal(q.asked_done, 1);
	assert_string_equal(q.rows, "worker-0;worker-1;worker-2;worker-3;");
	assert_int_equal(q.sum, 60);
	assert_false(q.forgotten);
}

static void late_answers_are_waited_for(void **state)
{
	struct question q = {.factor = 1};

	(void)state;
	gather_start(control, workers, WORKERS, answer_later, collect, &q);
	loop_run(control);
	assert_int_equal(q.asked_done, 1);
	assert_string_equal(q.rows, "worker-0;slow worker-1;worker-2;slow worker-3;");
}

static void a_forgotten_question_is_still_brought_to_its_end(void **state)
{
	struct question q = {.factor = 1};

	(void)state;
	gather_forget(gather_start(control, workers, WORKERS, answer_later, collect, &q));
	loop_run(control);
	assert_int_equal(q.asked_done, 1);
	assert_true(q.forgotten);
}

static void the_asker_may_ask_itself(void **state)
{
	struct question q = {.factor = 1};
	struct loop *loops[2] = {workers[3], control};

	(void)state;
	gather_start(control, loops, 2, answer_at_once, collect, &q);
	loop_run(control);
	assert_string_equal(q.rows, "worker-3;control;");
	assert_int_equal(q.sum, 2);
}

static void answer_nothing(struct part *p)
{
	part_done(p);
}

static void many_done(struct gather *g)
{
	int *left = g->arg;

	if (--*left == 0)
		loop_stop(g->asker);
	gather_free(&g);
}

static void many_questions_may_be_under_way(void **state)
{
	int left = 200;

	(void)state;
	for (int i = 0; i < 200; i++)
		gather_start(control, workers, WORKERS, answer_nothing, many_done, &left);
	loop_run(control);
	assert_int_equal(left, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_loop_answers_and_parts_stand_in_their_order, begin, end),
		cmocka_unit_test_setup_teardown(late_answers_are_waited_for, begin, end),
		cmocka_unit_test_setup_teardown(a_forgotten_question_is_still_brought_to_its_end, begin, end),
		cmocka_unit_test_setup_teardown(the_asker_may_ask_itself, begin, end),
		cmocka_unit_test_setup_teardown(many_questions_may_be_under_way, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
