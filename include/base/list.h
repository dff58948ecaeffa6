/* Intrusive doubly linked list. A link that is in no list points at itself, so
 * list_take is safe to call twice. One thread. */
#pragma once

#include <stdbool.h>

#include "base/mem.h"

struct list {
	struct list *next;
	struct list *prev;
};

static inline void list_init(struct list *l) { l->next = l->prev = l; }
static inline bool list_empty(const struct list *l) { return l->next == l; }
static inline void list_put_(struct list *link, struct list *prev, struct list *next)
{
	link->prev = prev;
	link->next = next;
	prev->next = link;
	next->prev = link;
}
static inline void list_push(struct list *l, struct list *link) { list_put_(link, l->prev, l); }       /* at the tail */
static inline void list_push_front(struct list *l, struct list *link) { list_put_(link, l, l->next); } /* at the head */
static inline void list_take(struct list *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	list_init(link);
}
/* From the list it is in, if any, to the tail of another. */
static inline void list_move(struct list *l, struct list *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	list_push(l, link);
}
/* to takes over all links of from, which is empty after it. to needs no list_init. */
static inline void list_take_all(struct list *to, struct list *from)
{
	list_put_(to, from->prev, from); /* a second head in the same ring */
	list_take(from);
}
static inline bool list_linked(const struct list *link) { return link->next != link; }
static inline struct list *list_first(struct list *l) { return l->next == l ? NULL : l->next; }
static inline struct list *list_last(struct list *l) { return l->prev == l ? NULL : l->prev; }

#define list_owner(link, type, member) owner_of(link, type, member)
#define list_each(at, l) for (struct list *at = (l)->next; at != (l); at = at->next)
/* The link at hand may be taken out in the body. */
#define list_each_safe(at, l) \
	for (struct list *at = (l)->next, *at##_next = at->next; at != (l); at = at##_next, at##_next = at->next)
