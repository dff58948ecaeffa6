/* Rates: what passes in a time is what the rate says, from one thread or from many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>

#include "base/clock.h"
#include "tenant/rate.h"

#define SEC USEC_PER_SEC
#define BEGIN (1000 * SEC)

static int take_all(struct rate *r, struct rate_limit l, usec_t now)
{
	usec_t wait;
	int n = 0;

	while (rate_take(r, l, now, &wait))
		n++;
	return n;
}

static void a_fresh_bucket_is_full(void **state)
{
	struct rate r = {0};

	(void)state;
	assert_int_equal(take_all(&r, rate_limit_of(10, 25), BEGIN), 25);
}

static void without_a_burst_it_is_one_seconds_worth_and_at_least_one(void **state)
{
	struct rate a = {0}, b = {0}, c = {0};

	(void)state;
	assert_int_equal(take_all(&a, rate_limit_of(10, -1), BEGIN), 10);
	assert_int_equal(take_all(&b, rate_limit_of(0.1, 0), BEGIN), 1);
	assert_int_equal(take_all(&c, rate_limit_of(100, 0.5), BEGIN), 1);
}

static void tokens_come_back_at_the_rate(void **state)
{
	struct rate r = {0};
	struct rate_limit l = rate_limit_of(10, 5);

	(void)state;
	assert_int_equal(take_all(&r, l, BEGIN), 5);
	assert_int_equal(take_all(&r, l, BEGIN + 99999), 0);
	assert_int_equal(take_all(&r, l, BEGIN + 100000), 1);
	assert_int_equal(take_all(&r, l, BEGIN + 400000), 3);
	assert_int_equal(take_all(&r, l, BEGIN + 100 * SEC), 5); /* no more than it holds */
}

static void the_wait_is_exactly_when_the_next_token_comes(void **state)
{
	struct rate r = {0};
	struct rate_limit l = rate_limit_of(3, 1); /* an interval that is no whole number of microseconds */
	usec_t wait = 0;

	(void)state;
	assert_true(rate_take(&r, l, BEGIN, &wait));
	assert_false(rate_take(&r, l, BEGIN, &wait));
	assert_int_equal(wait, 333334);
	assert_false(rate_take(&r, l, BEGIN + wait - 1, &wait));
	assert_int_equal(wait, 1);
	assert_true(rate_take(&r, l, BEGIN + 333334, &wait));
}

static void in_a_long_time_as_many_pass_as_the_rate_says(void **state)
{
	static const double rates[] = {0.3, 1, 7, 333, 12345.6};

	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		struct rate r = {0};
		struct rate_limit l = rate_limit_of(rates[i], 2); /* one more, for what is lost by waiting whole microseconds */
		usec_t now = BEGIN, wait;
		int n = 0;
		while (now < BEGIN + 100 * SEC) {
			if (rate_take(&r, l, now, &wait))
				n++;
			else
				now += wait;
		}
		assert_in_range(n, (int)(rates[i] * 100 * 0.99998), (int)(rates[i] * 100) + 2); /* never more; an interval is whole nanoseconds */
	}
}

static void no_rate_is_no_limit(void **state)
{
	struct rate r = {0};
	usec_t wait;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		assert_true(rate_take(&r, rate_limit_of(0, 5), BEGIN, &wait));
		assert_true(rate_take(&r, rate_limit_of(-1, -1), BEGIN, &wait));
	}
}

static void the_smallest_and_the_largest_numbers_do_no_harm(void **state)
{
	static const double wild[] = {1e-300, 1e-12, 1e-9, 1e9, 1e18, 1e300};

	(void)state;
	for (size_t i = 0; i < 6; i++) {
		for (size_t j = 0; j < 6; j++) {
			struct rate r = {0};
			struct rate_limit l = rate_limit_of(wild[i], wild[j]);
			usec_t wait = 1;
			assert_true(l.interval >= 0 && l.depth >= l.interval);
			for (int n = 0; n < 100; n++)
				if (!rate_take(&r, l, BEGIN, &wait))
					assert_true(wait > 0);
		}
	}
}

/* A reload changes the numbers under a word that stays. */
static void another_rate_goes_on_where_the_last_one_stood(void **state)
{
	struct rate r = {0};

	(void)state;
	assert_int_equal(take_all(&r, rate_limit_of(10, 10), BEGIN), 10);
	assert_int_equal(take_all(&r, rate_limit_of(100, 100), BEGIN), 0); /* full in a second */
	assert_int_equal(take_all(&r, rate_limit_of(100, 100), BEGIN + SEC / 2), 50);
}

static void a_clock_that_is_behind_lets_nothing_through(void **state)
{
	struct rate r = {0};
	struct rate_limit l = rate_limit_of(10, 5);

	(void)state;
	assert_int_equal(take_all(&r, l, BEGIN), 5);
	assert_int_equal(take_all(&r, l, BEGIN - SEC), 0);
	assert_int_equal(take_all(&r, l, BEGIN + 100000), 1);
}

/* Who waits for a token has it from when he began to wait, so that nothing is lost when he comes late for it. */
static void a_booked_token_is_nobody_elses(void **state)
{
	struct rate r = {0};
	struct rate_limit l = rate_limit_of(10, 1);
	usec_t wait;

	(void)state;
	assert_int_equal(rate_wait(&r, l, BEGIN), 0);
	assert_int_equal(rate_book(&r, l, BEGIN), 0);
	assert_int_equal(rate_wait(&r, l, BEGIN), 100000);
	assert_int_equal(rate_book(&r, l, BEGIN), 100000);
	assert_int_equal(rate_book(&r, l, BEGIN + 50000), 150000);
	assert_false(rate_take(&r, l, BEGIN + 250000, &wait));
	assert_int_equal(wait, 50000);
	assert_true(rate_take(&r, l, BEGIN + 300000, &wait));
	assert_int_equal(rate_book(&r, rate_limit_of(0, 0), BEGIN), 0);
	assert_int_equal(rate_wait(&r, rate_limit_of(0, 0), BEGIN), 0);
}

static void a_booking_that_is_given_back_is_there_for_others(void **state)
{
	struct rate r = {0};
	struct rate_limit l = rate_limit_of(10, 1);
	usec_t wait;

	(void)state;
	assert_true(rate_take(&r, l, BEGIN, &wait));
	assert_int_equal(rate_book(&r, l, BEGIN), 100000);
	rate_unbook(&r, l);
	assert_false(rate_take(&r, l, BEGIN, &wait));
	assert_true(rate_take(&r, l, BEGIN + 100000, &wait));
}

/* ---- many threads ---- */

#define THREADS 8

static struct rate shared;
static struct rate_limit shared_limit;
static usec_t shared_end;
static atomic_int taken;

static void *taker(void *arg)
{
	usec_t now, wait;

	(void)arg;
	while ((now = clock_now()) < shared_end)
		if (rate_take(&shared, shared_limit, now, &wait))
			atomic_fetch_add(&taken, 1);
	return NULL;
}

static void many_threads_take_exactly_what_one_could(void **state)
{
	pthread_t threads[THREADS];
	usec_t begun = clock_now();

	(void)state;
	shared_limit = rate_limit_of(20000, 500);
	shared_end = begun + SEC / 2;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, taker, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	/* 500 at once and 20000 a second for half a second. The bucket may fill again when nobody runs for 25 ms, and what does not fit in is lost. */
	assert_in_range(atomic_load(&taken), 9000, 10501);
}

static void *greedy(void *arg)
{
	usec_t wait;

	(void)arg;
	for (int i = 0; i < 100000; i++)
		if (rate_take(&shared, shared_limit, BEGIN, &wait))
			atomic_fetch_add(&taken, 1);
	return NULL;
}

/* The clock stands still: the burst, not one more and not one less. */
static void many_threads_at_one_moment_take_exactly_the_burst(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	shared = (struct rate){0};
	shared_limit = rate_limit_of(100000, 123456);
	atomic_store(&taken, 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, greedy, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&taken), 123456);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fresh_bucket_is_full),
		cmocka_unit_test(without_a_burst_it_is_one_seconds_worth_and_at_least_one),
		cmocka_unit_test(tokens_come_back_at_the_rate),
		cmocka_unit_test(the_wait_is_exactly_when_the_next_token_comes),
		cmocka_unit_test(in_a_long_time_as_many_pass_as_the_rate_says),
		cmocka_unit_test(no_rate_is_no_limit),
		cmocka_unit_test(the_smallest_and_the_largest_numbers_do_no_harm),
		cmocka_unit_test(another_rate_goes_on_where_the_last_one_stood),
		cmocka_unit_test(a_clock_that_is_behind_lets_nothing_through),
		cmocka_unit_test(a_booked_token_is_nobody_elses),
		cmocka_unit_test(a_booking_that_is_given_back_is_there_for_others),
		cmocka_unit_test(many_threads_take_exactly_what_one_could),
		cmocka_unit_test(many_threads_at_one_moment_take_exactly_the_burst),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
