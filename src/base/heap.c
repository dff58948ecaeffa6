/* Binary min-heap of nodes that live inside their owners. A node knows its place, so that
 * one anywhere in the heap is taken out or moved in log n steps, without a search. */
#include "base/heap.h"

#include "base/mem.h"
#include "base/verify.h"

#define HEAP_FIRST_ROOM 16

static void heap_put(struct heap *h, size_t i, struct heap_node *n)
{
	h->nodes[i] = n;
	n->place = i + 1;
}

/* Both sifts move a hole, not the node: one store per level. */
static void sift_up(struct heap *h, size_t i, struct heap_node *n)
{
	while (i > 0) {
		size_t parent = (i - 1) / 2;

		if (!h->before(n, h->nodes[parent]))
			break;
		heap_put(h, i, h->nodes[parent]);
		i = parent;
	}
	heap_put(h, i, n);
}

static void sift_down(struct heap *h, size_t i, struct heap_node *n)
{
	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= h->count)
			break;
		if (child + 1 < h->count && h->before(h->nodes[child + 1], h->nodes[child]))
			child++;
		if (!h->before(h->nodes[child], n))
			break;
		heap_put(h, i, h->nodes[child]);
		i = child;
	}
	heap_put(h, i, n);
}

static void sift(struct heap *h, size_t i, struct heap_node *n)
{
	if (i > 0 && h->before(n, h->nodes[(i - 1) / 2]))
		sift_up(h, i, n);
	else
		sift_down(h, i, n);
}

void heap_init(struct heap *h, heap_before_fn before)
{
	*h = (struct heap){.before = before};
}

void heap_free(struct heap *h)
{
	for (size_t i = 0; i < h->count; i++)
		h->nodes[i]->place = 0;
	mem_free(h->nodes);
	heap_init(h, h->before);
}

void heap_add(struct heap *h, struct heap_node *n)
{
	verify(!heap_has(n));
	if (h->count == h->room) {
		h->room = h->room ? h->room * 2 : HEAP_FIRST_ROOM;
		h->nodes = mem_grow(h->nodes, h->room * sizeof(h->nodes[0]));
	}
	sift_up(h, h->count++, n);
}

void heap_take(struct heap *h, struct heap_node *n)
{
	size_t i = n->place - 1;
	struct heap_node *last;

	verify(heap_has(n) && n->place <= h->count && h->nodes[i] == n);
	last = h->nodes[--h->count];
	n->place = 0;
	if (last != n)
		sift(h, i, last);
}

void heap_fix(struct heap *h, struct heap_node *n)
{
	verify(heap_has(n) && n->place <= h->count && h->nodes[n->place - 1] == n);
	sift(h, n->place - 1, n);
}
