/* Intrusive hash table with chains; grows by itself. Hashes are keyed with a
 * per-process random seed, so that a peer cannot choose names that collide.
 * One thread, but for hash_bytes and hash_fold. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_link {
	struct hash_link *next;
	uint64_t hash;
};

struct hash {
	struct hash_link **slots; /* owns; NULL until the first add */
	size_t n_slots;           /* a power of two */
	size_t count;
};

typedef bool (*hash_same_fn)(const struct hash_link *link, const void *key);

uint64_t hash_bytes(const void *bytes, size_t len);
uint64_t hash_fold(const void *bytes, size_t len); /* the same for names that differ only in ASCII case */
static inline uint64_t hash_join(uint64_t a, uint64_t b) { return (a ^ (b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdull; }

struct hash_link *hash_find(const struct hash *h, uint64_t hash, hash_same_fn same, const void *key);
void hash_add(struct hash *h, struct hash_link *link, uint64_t hash);
void hash_take(struct hash *h, struct hash_link *link); /* link must be in h */
void hash_free(struct hash *h);                         /* the slots; links belong to their owners */

/* Walks all links; the link at hand may be taken out and freed in the body. */
#define hash_each(at, h) \
	for (size_t at##_i = 0; at##_i < (h)->n_slots; at##_i++) \
		for (struct hash_link *at = (h)->slots[at##_i], *at##_next; at && (at##_next = at->next, 1); at = at##_next)
