/* Seats: caps hold, and what was taken is given back exactly once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "tenant/limits.h"

static struct conf *conf_of(const char *text)
{
	struct conf_report r = {0};
	struct conf *c = conf_load_text(text, &r);

	if (!c)
		fail_msg("%.*s", (int)r.errors.len, (const char *)r.errors.p);
	conf_report_free(&r);
	return c;
}

static void the_process_has_max_client_conn_seats(void **state)
{
	(void)state;
	struct conf *c = conf_of("[pgweir]\nmax_client_conn = 2\n[databases]\na = host=x\n");
	struct seats one = {0}, two = {0}, three = {0};
	struct err err;

	assert_true(seats_take_process(&one, c, &err));
	assert_true(seats_take_process(&two, c, &err));
	assert_false(seats_take_process(&three, c, &err));
	assert_string_equal(err.sqlstate, "53300");
	assert_non_null(strstr(err.text, "max_client_conn"));
	assert_int_equal(seats_process_count(), 2);
	seats_give(&three); /* had none */
	assert_int_equal(seats_process_count(), 2);
	seats_give(&one);
	assert_true(seats_take_process(&three, c, &err));
	seats_give(&two);
	seats_give(&three);
	seats_give(&three);
	assert_int_equal(seats_process_count(), 0);
	conf_drop(&c);
}

static void the_message_of_each_cap_names_its_setting(void **state)
{
	(void)state;
	struct tally *entry = tally_entry("entry"), *user = tally_user("user");
	struct org *org = org_of("some-org", 0);
	struct seats in = {0}, out = {0};
	struct err err;

	assert_true(seats_take_entry(&in, entry, 1, &err));
	assert_true(seats_take_user(&in, user, 1, &err));
	assert_true(seats_take_org(&in, org, 1, &err));
	assert_false(seats_take_entry(&out, entry, 1, &err));
	assert_string_equal(err.sqlstate, "53300");
	assert_non_null(strstr(err.text, "max_db_client_connections"));
	assert_false(seats_take_user(&out, user, 1, &err));
	assert_string_equal(err.sqlstate, "53300");
	assert_non_null(strstr(err.text, "max_user_client_connections"));
	assert_false(seats_take_org(&out, org, 1, &err));
	assert_string_equal(err.sqlstate, "53300");
	assert_non_null(strstr(err.text, "max_client_conn"));
	assert_non_null(strstr(err.text, "some-org"));
	seats_give(&out);
	assert_int_equal(atomic_load(&entry->clients), 1);
	assert_int_equal(atomic_load(&user->clients), 1);
	assert_int_equal(atomic_load(&org->clients), 1);
	seats_give(&in);
	assert_int_equal(atomic_load(&entry->clients), 0);
	assert_int_equal(atomic_load(&user->clients), 0);
	assert_int_equal(atomic_load(&org->clients), 0);
	org_drop(&org);
}

static void a_refused_login_is_counted_for_its_org(void **state)
{
	(void)state;
	struct org *org = org_of("refusing", 0);
	struct seats in = {0}, out = {0};
	struct err err;

	assert_true(seats_take_org(&in, org, 1, &err));
	assert_int_equal(atomic_load(&org->refused), 0);
	assert_false(seats_take_org(&out, org, 1, &err));
	assert_int_equal(atomic_load(&org->refused), 1);
	seats_give(&in);
	org_drop(&org);
}

static void a_cap_of_0_is_none_but_counts(void **state)
{
	(void)state;
	struct tally *entry = tally_entry("open");
	struct seats many[100] = {{0}};
	struct err err;

	for (int i = 0; i < 100; i++)
		assert_true(seats_take_entry(&many[i], entry, 0, &err));
	assert_int_equal(atomic_load(&entry->clients), 100);
	for (int i = 0; i < 100; i++)
		seats_give(&many[i]);
	assert_int_equal(atomic_load(&entry->clients), 0);
}

static struct tally *pressed;
static atomic_int over;

static void *press(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20000; i++) {
		struct seats s = {0};
		struct err err;
		if (seats_take_user(&s, pressed, 2, &err) && atomic_load(&pressed->clients) > 2)
			atomic_fetch_add(&over, 1);
		seats_give(&s);
	}
	return NULL;
}

static void a_cap_holds_at_every_instant(void **state)
{
	(void)state;
	pthread_t threads[4];

	pressed = tally_user("pressed");
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, press, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&over), 0);
	assert_int_equal(atomic_load(&pressed->clients), 0);
}

static void a_seat_moves_to_another_org_or_stays(void **state)
{
	(void)state;
	struct org *one = org_of("one", 0), *two = org_of("two", 0);
	struct seats a = {0}, b = {0};
	struct err err;

	assert_true(seats_take_org(&a, one, 0, &err));
	assert_true(seats_take_org(&b, two, 1, &err));
	assert_false(seats_move_org(&a, two, 1, &err));
	assert_string_equal(err.sqlstate, "53300");
	assert_ptr_equal(a.org, one);
	assert_int_equal(one->clients, 1);
	assert_true(seats_move_org(&b, one, 2, &err));
	assert_int_equal(one->clients, 2);
	assert_int_equal(two->clients, 0);
	seats_give(&a);
	seats_give(&b);
	assert_int_equal(one->clients, 0);
	org_drop(&one);
	org_drop(&two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_process_has_max_client_conn_seats),
		cmocka_unit_test(the_message_of_each_cap_names_its_setting),
		cmocka_unit_test(a_refused_login_is_counted_for_its_org),
		cmocka_unit_test(a_cap_of_0_is_none_but_counts),
		cmocka_unit_test(a_seat_moves_to_another_org_or_stays),
		cmocka_unit_test(a_cap_holds_at_every_instant),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
