/* mail: order, wake-ups, and what is left over when a loop is freed. Worth running under ThreadSanitizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "loop/loop_priv.h"
#include "loop/mail.h"

struct letter {
	struct mail mail;
	int sender;
	int number;
};

static struct letter *letter_new(void (*read)(struct loop *, struct mail *), int sender, int number)
{
	struct letter *a = mem_make(struct letter);

	a->mail.read = read;
	a->sender = sender;
	a->number = number;
	return a;
}

static char story[100];

static void letter_tell(struct loop *here, struct mail *m)
{
	struct letter *a = owner_of(m, struct letter, mail);
	size_t n = strlen(story);

	assert_true(loop_is_here(here));
	assert_true(n + 1 < sizeof(story));
	story[n] = (char)('0' + a->number);
	story[n + 1] = '\0';
	mem_free(a);
}

static void letter_tell_and_send_another(struct loop *here, struct mail *m)
{
	int number = owner_of(m, struct letter, mail)->number;

	letter_tell(here, m);
	mail_send(here, &letter_new(letter_tell, 0, number + 5)->mail);
}

static void mail_to_oneself_is_read_in_order_in_the_next_turn(void **state)
{
	struct loop *l = loop_new("test", 0);

	(void)state;
	story[0] = '\0';
	for (int i = 1; i <= 3; i++)
		mail_send(l, &letter_new(letter_tell, 0, i)->mail);
	assert_string_equal(story, "");
	loop_turn(l, EVLOOP_NONBLOCK);
	assert_string_equal(story, "123");
	loop_free(&l);
}

static void mail_wakes_the_loop_every_time(void **state)
{
	struct loop *l = loop_new("test", 0);

	(void)state;
	story[0] = '\0';
	for (int i = 1; i <= 3; i++) {
		mail_send(l, &letter_new(letter_tell, 0, i)->mail);
		loop_turn(l, EVLOOP_ONCE); /* would sleep for ever were the edge lost */
	}
	assert_string_equal(story, "123");
	loop_free(&l);
}

static void mail_sent_while_reading_is_read_in_the_next_turn(void **state)
{
	struct loop *l = loop_new("test", 0);

	(void)state;
	story[0] = '\0';
	mail_send(l, &letter_new(letter_tell_and_send_another, 0, 1)->mail);
	mail_send(l, &letter_new(letter_tell, 0, 2)->mail);
	loop_turn(l, EVLOOP_ONCE);
	assert_string_equal(story, "12");
	loop_turn(l, EVLOOP_ONCE);
	assert_string_equal(story, "126");
	loop_free(&l);
}

static void mail_left_over_is_read_when_the_loop_is_freed(void **state)
{
	struct loop *l = loop_new("test", 0);

	(void)state;
	story[0] = '\0';
	loop_start(l);
	loop_stop(l);
	loop_join(l);
	mail_send(l, &letter_new(letter_tell_and_send_another, 0, 1)->mail);
	mail_send(l, &letter_new(letter_tell, 0, 2)->mail);
	assert_string_equal(story, "");
	loop_free(&l);
	assert_string_equal(story, "126");
}

enum { SENDERS = 4, LETTERS = 5000 };
static struct loop *receiver;
static int last_read[SENDERS]; /* the receiver's thread only */
static int n_read;

static void letter_count(struct loop *here, struct mail *m)
{
	struct letter *a = owner_of(m, struct letter, mail);

	verify(loop_is_here(here));
	verify(a->number == last_read[a->sender] + 1);
	last_read[a->sender] = a->number;
	mem_free(a);
	if (++n_read == SENDERS * LETTERS)
		loop_stop(here);
}

static void *send_letters(void *arg)
{
	for (int i = 1; i <= LETTERS; i++)
		mail_send(receiver, &letter_new(letter_count, (int)(intptr_t)arg, i)->mail);
	return NULL;
}

static void mail_of_many_threads_comes_whole_and_in_order_per_sender(void **state)
{
	pthread_t threads[SENDERS];

	(void)state;
	n_read = 0;
	memset(last_read, 0, sizeof(last_read));
	receiver = loop_new("receiver", 0);
	loop_start(receiver);
	for (int i = 0; i < SENDERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, send_letters, (void *)(intptr_t)i), 0);
	for (int i = 0; i < SENDERS; i++)
		pthread_join(threads[i], NULL);
	loop_join(receiver);
	assert_int_equal(n_read, SENDERS * LETTERS);
	loop_free(&receiver);
}

/* One letter to and fro between two threads, so that each send finds an empty box. */
enum { ROUNDS = 2000 };
static struct loop *left, *right;

static void ball_return(struct loop *here, struct mail *m)
{
	struct letter *ball = owner_of(m, struct letter, mail);

	if (++ball->number < ROUNDS) {
		mail_send(here == left ? right : left, m);
		return;
	}
	mem_free(ball);
	loop_stop(left);
	loop_stop(right);
}

static void a_letter_goes_to_and_fro_without_a_lost_wake_up(void **state)
{
	(void)state;
	left = loop_new("left", 0);
	right = loop_new("right", 1);
	loop_start(left);
	loop_start(right);
	mail_send(left, &letter_new(ball_return, 0, 0)->mail);
	loop_join(left);
	loop_join(right);
	loop_free(&left);
	loop_free(&right);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mail_to_oneself_is_read_in_order_in_the_next_turn),
		cmocka_unit_test(mail_wakes_the_loop_every_time),
		cmocka_unit_test(mail_sent_while_reading_is_read_in_the_next_turn),
		cmocka_unit_test(mail_left_over_is_read_when_the_loop_is_freed),
		cmocka_unit_test(mail_of_many_threads_comes_whole_and_in_order_per_sender),
		cmocka_unit_test(a_letter_goes_to_and_fro_without_a_lost_wake_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
