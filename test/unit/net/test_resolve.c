/* Looking up names. The system is not asked: a stand-in for getaddrinfo answers from a table, when the test lets it. */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
/* after what it needs */
#include <cmocka.h>

#include "base/log.h"
#include "loop/loop_priv.h"
#include "loop/mail.h"
#include "net/resolve.h"
#include "net/resolve_priv.h"

static struct loop *loop;

/* ---- the stand-in ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool held;  /* lookups wait */
	int n_asked;
} system_ = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static int stand_in(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
	struct addrinfo numeric = {.ai_socktype = hints->ai_socktype, .ai_flags = AI_NUMERICHOST};
	int failed;

	pthread_mutex_lock(&system_.lock);
	system_.n_asked++;
	pthread_cond_broadcast(&system_.moved);
	while (system_.held)
		pthread_cond_wait(&system_.moved, &system_.lock);
	pthread_mutex_unlock(&system_.lock);
	if (strcmp(host, "none.test") == 0)
		return EAI_NONAME;
	if (strcmp(host, "broken.test") == 0) {
		errno = EIO;
		return EAI_SYSTEM;
	}
	failed = getaddrinfo("10.0.0.1", service, &numeric, found);
	if (!failed && strcmp(host, "two.test") == 0)
		failed = getaddrinfo("2001:db8::2", service, &numeric, &(*found)->ai_next);
	return failed;
}

static void hold(void)
{
	pthread_mutex_lock(&system_.lock);
	system_.held = true;
	pthread_mutex_unlock(&system_.lock);
}

static void let_go(void)
{
	pthread_mutex_lock(&system_.lock);
	system_.held = false;
	pthread_cond_broadcast(&system_.moved);
	pthread_mutex_unlock(&system_.lock);
}

static void wait_until_asked(int n)
{
	pthread_mutex_lock(&system_.lock);
	while (system_.n_asked < n)
		pthread_cond_wait(&system_.moved, &system_.lock);
	pthread_mutex_unlock(&system_.lock);
}

static int n_asked(void)
{
	int n;

	pthread_mutex_lock(&system_.lock);
	n = system_.n_asked;
	pthread_mutex_unlock(&system_.lock);
	return n;
}

/* ---- one who asks ---- */

struct asker {
	struct resolve *resolve;
	struct answer answer;
	int n_told;
	struct resolve **stop; /* stopped from within */
};

static void told(void *owner, const struct answer *a)
{
	struct asker *k = owner;

	k->n_told++;
	k->answer = *a;
	if (k->stop)
		resolve_stop(k->stop);
	k->resolve = NULL;
}

static void ask(struct asker *k, const char *host)
{
	*k = (struct asker){0};
	k->resolve = resolve_start(loop, host, told, k);
	assert_int_equal(k->n_told, 0); /* not before it returns */
}

static void turn_until_told(struct asker *k)
{
	while (!k->n_told)
		loop_turn(loop, list_empty(&loop->laters) ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
}

static void settle(void)
{
	for (int i = 0; i < 20; i++)
		loop_turn(loop, EVLOOP_NONBLOCK);
}

static void assert_addr(const struct addr *a, const char *want)
{
	char text[ADDR_TEXT];

	addr_print(a, text);
	assert_string_equal(text, want);
}

static void a_number_is_its_own_answer(void **state)
{
	struct asker k;

	(void)state;
	ask(&k, "192.0.2.7");
	turn_until_told(&k);
	assert_int_equal(k.answer.n, 1);
	assert_addr(&k.answer.addrs[0], "192.0.2.7:0");
	ask(&k, "2001:db8::7");
	turn_until_told(&k);
	assert_addr(&k.answer.addrs[0], "[2001:db8::7]:0");
	assert_int_equal(n_asked(), 0);
}

static void a_name_has_addresses_of_both_kinds(void **state)
{
	struct asker k;

	(void)state;
	ask(&k, "two.test");
	turn_until_told(&k);
	assert_int_equal(k.answer.n, 2);
	assert_addr(&k.answer.addrs[0], "10.0.0.1:0");
	assert_addr(&k.answer.addrs[1], "[2001:db8::2]:0");
}

static void a_name_that_is_not_found_has_a_reason(void **state)
{
	struct asker k;

	(void)state;
	ask(&k, "none.test");
	turn_until_told(&k);
	assert_int_equal(k.answer.n, 0);
	assert_string_equal(k.answer.err.text, "Name or service not known");
	ask(&k, "broken.test");
	turn_until_told(&k);
	assert_int_equal(k.answer.n, 0);
	assert_string_equal(k.answer.err.text, "Input/output error");
}

static void a_known_name_is_not_asked_for_again(void **state)
{
	struct asker k;

	(void)state;
	ask(&k, "one.test");
	turn_until_told(&k);
	ask(&k, "ONE.test"); /* names do not know case, RFC 4343 */
	turn_until_told(&k);
	assert_addr(&k.answer.addrs[0], "10.0.0.1:0");
	assert_int_equal(n_asked(), 1);
	ask(&k, "none.test");
	turn_until_told(&k);
	ask(&k, "none.test");
	turn_until_told(&k);
	assert_int_equal(k.answer.n, 0);
	assert_int_equal(n_asked(), 2);
}

static void an_answer_is_good_for_its_ttl_only(void **state)
{
	struct asker k;

	(void)state;
	resolve_set_ttl(0, 60 * USEC_PER_SEC);
	for (int i = 1; i <= 3; i++) {
		ask(&k, "one.test");
		turn_until_told(&k);
		assert_int_equal(n_asked(), i);
	}
	ask(&k, "none.test");
	turn_until_told(&k);
	ask(&k, "none.test");
	turn_until_told(&k);
	assert_int_equal(n_asked(), 4);
	resolve_set_ttl(60 * USEC_PER_SEC, 0);
	ask(&k, "broken.test");
	turn_until_told(&k);
	ask(&k, "broken.test");
	turn_until_told(&k);
	assert_int_equal(n_asked(), 6);
}

static void many_who_wait_cost_one_lookup(void **state)
{
	struct asker k[10];

	(void)state;
	hold();
	for (int i = 0; i < 10; i++)
		ask(&k[i], "one.test");
	wait_until_asked(1);
	let_go();
	for (int i = 0; i < 10; i++) {
		turn_until_told(&k[i]);
		assert_int_equal(k[i].answer.n, 1);
	}
	settle();
	for (int i = 0; i < 10; i++)
		assert_int_equal(k[i].n_told, 1);
	assert_int_equal(n_asked(), 1);
}

static void a_slow_name_does_not_hold_up_another(void **state)
{
	struct asker slow, other;

	(void)state;
	for (int i = 0; i < 2; i++) { /* the second time one helper is there already, perhaps at rest */
		resolve_set_ttl(0, 0);
		hold();
		ask(&slow, "one.test");
		ask(&other, "two.test");
		wait_until_asked(2 + 2 * i); /* both are under way at once */
		let_go();
		turn_until_told(&slow);
		turn_until_told(&other);
		resolve_quiet();
		ask(&slow, "three.test");
		turn_until_told(&slow);
		system_.n_asked--;
	}
}

static void more_names_than_helpers_are_all_answered(void **state)
{
	struct asker k[30];
	char name[20];

	(void)state;
	hold();
	for (int i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "n%d.test", i);
		ask(&k[i], name);
	}
	let_go();
	for (int i = 0; i < 30; i++)
		turn_until_told(&k[i]);
	assert_int_equal(n_asked(), 30);
}

static void a_stopped_one_is_never_told(void **state)
{
	struct asker waiting, mailed, numeric, other;

	(void)state;
	ask(&numeric, "192.0.2.7");
	resolve_stop(&numeric.resolve);
	assert_null(numeric.resolve);
	hold();
	ask(&waiting, "one.test");
	ask(&mailed, "one.test");
	ask(&other, "one.test");
	wait_until_asked(1);
	resolve_stop(&waiting.resolve);
	let_go();
	/* mailed's answer comes any moment now, before or after this: */
	resolve_stop(&mailed.resolve);
	turn_until_told(&other);
	settle();
	assert_int_equal(waiting.n_told + mailed.n_told + numeric.n_told, 0);
}

static void stopping_is_safe_while_the_answer_is_in_the_mailbox(void **state)
{
	struct asker k;

	(void)state;
	ask(&k, "one.test");
	resolve_quiet();
	resolve_stop(&k.resolve);
	settle();
	assert_int_equal(k.n_told, 0);
}

static void stopping_is_safe_from_within(void **state)
{
	struct asker k;

	(void)state;
	ask(&k, "192.0.2.7");
	k.stop = &k.resolve;
	turn_until_told(&k);
	assert_null(k.resolve);
	settle();
	assert_int_equal(k.n_told, 1);
}

static void a_loop_may_go_while_its_question_is_under_way(void **state)
{
	struct loop *gone = loop_new("gone", 1), *kept = loop;
	struct asker k, other;

	(void)state;
	hold();
	loop = gone;
	ask(&k, "one.test");
	loop = kept;
	ask(&other, "one.test");
	resolve_stop(&k.resolve);
	loop_free(&gone);
	let_go();
	turn_until_told(&other);
	assert_int_equal(k.n_told, 0);
}

/* ---- many threads ---- */

struct far {
	struct mail mail;
	struct loop *loop;
	struct asker askers[4];
	int n_open;
};

static void far_told(void *owner, const struct answer *a)
{
	struct far *f = owner;

	assert_int_equal(a->n, 1);
	if (--f->n_open == 0)
		loop_stop(f->loop);
}

static void far_begins(struct loop *here, struct mail *m)
{
	static const char *const names[] = {"one.test", "three.test", "one.test", "192.0.2.1"};
	struct far *f = owner_of(m, struct far, mail);

	for (int i = 0; i < 4; i++)
		f->askers[i].resolve = resolve_start(here, names[i], far_told, f);
	resolve_stop(&f->askers[0].resolve);
	f->n_open = 3;
}

static void loops_ask_at_the_same_time(void **state)
{
	struct far fars[4] = {0};

	(void)state;
	for (int i = 0; i < 4; i++) {
		fars[i].loop = loop_new("far", i);
		fars[i].mail.read = far_begins;
		loop_start(fars[i].loop);
	}
	for (int i = 0; i < 4; i++)
		mail_send(fars[i].loop, &fars[i].mail);
	for (int i = 0; i < 4; i++) {
		loop_join(fars[i].loop);
		loop_free(&fars[i].loop);
	}
	assert_int_equal(n_asked(), 2);
}

static void count_row(void *arg, const char *host, usec_t ttl, const struct answer *a)
{
	int *n = arg;

	assert_true(ttl > 0 && ttl <= 60 * USEC_PER_SEC);
	assert_int_equal(a->n, strcmp(host, "one.test") == 0);
	++*n;
}

static void the_cache_can_be_shown(void **state)
{
	struct asker k;
	int n = 0;

	(void)state;
	resolve_each(count_row, &n);
	assert_int_equal(n, 0);
	ask(&k, "one.test");
	turn_until_told(&k);
	ask(&k, "none.test");
	turn_until_told(&k);
	resolve_each(count_row, &n);
	assert_int_equal(n, 2);
}

static int before_each(void **state)
{
	(void)state;
	resolve_forget();
	resolve_set_ttl(60 * USEC_PER_SEC, 60 * USEC_PER_SEC);
	system_.n_asked = 0; /* no helper is left */
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	alarm(60);
	log_open(NULL, false, NULL, NULL);
	resolve_ask = stand_in;
	loop = loop_new("test", 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	resolve_forget();
	loop_free(&loop);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, before_each)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_number_is_its_own_answer),
		TEST(a_name_has_addresses_of_both_kinds),
		TEST(a_name_that_is_not_found_has_a_reason),
		TEST(a_known_name_is_not_asked_for_again),
		TEST(an_answer_is_good_for_its_ttl_only),
		TEST(many_who_wait_cost_one_lookup),
		TEST(a_slow_name_does_not_hold_up_another),
		TEST(more_names_than_helpers_are_all_answered),
		TEST(a_stopped_one_is_never_told),
		TEST(stopping_is_safe_while_the_answer_is_in_the_mailbox),
		TEST(stopping_is_safe_from_within),
		TEST(a_loop_may_go_while_its_question_is_under_way),
		TEST(loops_ask_at_the_same_time),
		TEST(the_cache_can_be_shown),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
