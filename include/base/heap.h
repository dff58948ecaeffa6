/* Intrusive binary min-heap: timers and fair queues. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct heap_node {
	size_t place; /* index + 1; 0: in no heap */
};

typedef bool (*heap_before_fn)(const struct heap_node *a, const struct heap_node *b);

struct heap {
	struct heap_node **nodes; /* owns the array, borrows the nodes */
	size_t count;
	size_t room;
	heap_before_fn before;
};

void heap_init(struct heap *h, heap_before_fn before);
void heap_free(struct heap *h);
static inline bool heap_has(const struct heap_node *n) { return n->place != 0; }
static inline struct heap_node *heap_top(const struct heap *h) { return h->count ? h->nodes[0] : NULL; }
void heap_add(struct heap *h, struct heap_node *n);   /* n is in no heap */
void heap_take(struct heap *h, struct heap_node *n);  /* n is in h */
void heap_fix(struct heap *h, struct heap_node *n);   /* after n's key changed */
