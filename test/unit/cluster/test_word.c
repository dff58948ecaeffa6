/* The cluster word. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "cluster/word.h"

static void state_and_epoch_come_out_as_they_went_in(void **state)
{
	(void)state;
	const uint64_t epochs[] = {0, 1, 255, 256, UINT32_MAX, EPOCH_MOST - 1};

	for (size_t i = 0; i < sizeof(epochs) / sizeof(epochs[0]); i++)
		for (int s = 0; s < CLUSTER_STATES; s++) {
			word_t w = word_pack((enum cluster_state)s, epochs[i]);
			assert_int_equal(word_state(w), s);
			assert_true(word_epoch(w) == epochs[i]);
			assert_int_equal(word_is_guarded(w), epochs[i] != 0);
		}
}

static void zero_is_a_cluster_without_a_breaker(void **state)
{
	(void)state;
	assert_int_equal(word_state(0), CLUSTER_PRIMARY);
	assert_false(word_is_guarded(0));
}

static void a_later_epoch_is_the_greater_word_whatever_the_states(void **state)
{
	(void)state;
	for (int a = 0; a < CLUSTER_STATES; a++)
		for (int b = 0; b < CLUSTER_STATES; b++)
			assert_true(word_pack((enum cluster_state)a, 7) < word_pack((enum cluster_state)b, 8));
}

static void names_of_states_are_read_back(void **state)
{
	enum cluster_state found;

	(void)state;
	for (int s = 0; s < CLUSTER_STATES; s++) {
		assert_true(cluster_state_find(cluster_state_name((enum cluster_state)s), &found));
		assert_int_equal(found, s);
	}
	assert_false(cluster_state_find("", &found));
	assert_false(cluster_state_find("PRIMARY", &found));
	assert_string_equal(cluster_state_name(CLUSTER_PRIMARY), "primary");
	assert_string_equal(cluster_state_name(CLUSTER_DEGRADED), "degraded");
	assert_string_equal(cluster_state_name(CLUSTER_RECOVERING), "recovering");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(state_and_epoch_come_out_as_they_went_in),
		cmocka_unit_test(zero_is_a_cluster_without_a_breaker),
		cmocka_unit_test(a_later_epoch_is_the_greater_word_whatever_the_states),
		cmocka_unit_test(names_of_states_are_read_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
