/* heap: the least first, whatever is added, taken and changed in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/heap.h"
#include "base/mem.h"

enum { N = 500 };

struct item {
	struct heap_node node;
	unsigned key;
};

static struct item items[N];
static struct heap h;

static bool item_before(const struct heap_node *a, const struct heap_node *b)
{
	return owner_of(a, struct item, node)->key < owner_of(b, struct item, node)->key;
}

/* The same numbers in every run: a failure must come again. */
static unsigned next_number(void)
{
	static unsigned v = 12345;

	v = v * 1103515245u + 12345u;
	return (v >> 16) % 1000;
}

static int fill(void **state)
{
	(void)state;
	heap_init(&h, item_before);
	for (int i = 0; i < N; i++) {
		items[i] = (struct item){.key = next_number()};
		heap_add(&h, &items[i].node);
	}
	return 0;
}

static int empty(void **state)
{
	(void)state;
	heap_free(&h);
	return 0;
}

static void assert_comes_out_in_order(size_t count)
{
	struct heap_node *top;
	unsigned last = 0;
	size_t n = 0;

	while ((top = heap_top(&h))) {
		unsigned key = owner_of(top, struct item, node)->key;

		assert_true(key >= last);
		last = key;
		heap_take(&h, top);
		assert_false(heap_has(top));
		n++;
	}
	assert_int_equal(n, count);
}

static void nodes_come_out_least_first(void **state)
{
	(void)state;
	assert_comes_out_in_order(N);
}

static void a_node_may_be_taken_from_the_middle(void **state)
{
	(void)state;
	for (int i = 0; i < N; i += 3)
		heap_take(&h, &items[i].node);
	for (int i = 0; i < N; i++)
		assert_int_equal(heap_has(&items[i].node), i % 3 != 0);
	assert_comes_out_in_order(N - (N + 2) / 3);
}

static void a_changed_key_moves_its_node_up_or_down(void **state)
{
	(void)state;
	for (int i = 0; i < N; i++) {
		items[i].key = next_number();
		heap_fix(&h, &items[i].node);
	}
	assert_comes_out_in_order(N);
}

static void the_least_of_all_goes_to_the_top(void **state)
{
	(void)state;
	for (int i = 0; i < N; i++)
		items[i].key += 10;
	items[N - 1].key = 1;
	heap_fix(&h, &items[N - 1].node);
	assert_ptr_equal(heap_top(&h), &items[N - 1].node);
}

static void an_empty_heap_has_no_top(void **state)
{
	struct heap none;

	(void)state;
	heap_init(&none, item_before);
	assert_null(heap_top(&none));
	heap_free(&none);
}

static void freeing_lets_the_nodes_go(void **state)
{
	(void)state;
	heap_free(&h);
	for (int i = 0; i < N; i++)
		assert_false(heap_has(&items[i].node));
	heap_add(&h, &items[0].node);
	assert_ptr_equal(heap_top(&h), &items[0].node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nodes_come_out_least_first, fill, empty),
		cmocka_unit_test_setup_teardown(a_node_may_be_taken_from_the_middle, fill, empty),
		cmocka_unit_test_setup_teardown(a_changed_key_moves_its_node_up_or_down, fill, empty),
		cmocka_unit_test_setup_teardown(the_least_of_all_goes_to_the_top, fill, empty),
		cmocka_unit_test_setup_teardown(an_empty_heap_has_no_top, fill, empty),
		cmocka_unit_test_setup_teardown(freeing_lets_the_nodes_go, fill, empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
