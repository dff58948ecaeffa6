/* Hash table with chains, and the keyed hash under it.
 *
 * The hash is SipHash (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012) with
 * one round per word and three at the end: names of orgs, users and statements come from
 * peers, and multiply-and-fold hashes that are faster still have had collisions found for
 * them without the key. A word of eight bytes costs 14 instructions.
 *
 * The table doubles when it holds a link per slot. It does not shrink: walks are rare, and
 * a table that was large once will be so again. */
#include "base/hash.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>

#include "base/hash_priv.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/verify.h"

#define HASH_FIRST_SLOTS 8

static struct hash_key process_key;
static pthread_once_t process_key_once = PTHREAD_ONCE_INIT;

static void process_key_make(void)
{
	random_bytes(&process_key, sizeof(process_key));
}

struct sip {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t turn_left(uint64_t v, int bits)
{
	return (v << bits) | (v >> (64 - bits));
}

static inline void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = turn_left(s->v1, 13) ^ s->v0;
	s->v3 = turn_left(s->v3, 16) ^ s->v2;
	s->v0 = turn_left(s->v0, 32);
	s->v2 += s->v1;
	s->v0 += s->v3;
	s->v1 = turn_left(s->v1, 17) ^ s->v2;
	s->v3 = turn_left(s->v3, 21) ^ s->v0;
	s->v2 = turn_left(s->v2, 32);
}

static inline uint64_t word_plain(uint64_t w)
{
	return w;
}

/* Lower-cases the ASCII letters of eight bytes at once. Added to the low seven bits of a
 * byte, the two constants carry into its top bit from 'A' on and from behind 'Z' on. */
static inline uint64_t word_folded(uint64_t w)
{
	const uint64_t each = 0x0101010101010101ull;
	uint64_t low = w & (each * 0x7f);
	uint64_t from_a = low + each * (0x80 - 'A');
	uint64_t behind_z = low + each * (0x80 - 'Z' - 1);
	uint64_t upper = (from_a ^ behind_z) & ~w & (each * 0x80);

	return w | (upper >> 2);
}

static inline __attribute__((always_inline)) uint64_t sip_hash(struct hash_key key, const uint8_t *p, size_t len, uint64_t (*seen)(uint64_t))
{
	struct sip s = {
		key.k0 ^ 0x736f6d6570736575ull, key.k1 ^ 0x646f72616e646f6dull,
		key.k0 ^ 0x6c7967656e657261ull, key.k1 ^ 0x7465646279746573ull,
	};
	size_t rest = len & 7;
	uint64_t w;

	for (const uint8_t *end = p + (len - rest); p != end; p += 8) {
		memcpy(&w, p, 8);
		w = seen(le64toh(w));
		s.v3 ^= w;
		sip_round(&s);
		s.v0 ^= w;
	}
	w = 0;
	for (size_t i = 0; i < rest; i++)
		w |= (uint64_t)p[i] << (8 * i);
	/* The last word has the length in its top byte; that one is not folded. */
	w = seen(w) | (uint64_t)len << 56;
	s.v3 ^= w;
	sip_round(&s);
	s.v0 ^= w;
	s.v2 ^= 0xff;
	sip_round(&s);
	sip_round(&s);
	sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

uint64_t hash_bytes_by(struct hash_key key, const void *bytes, size_t len)
{
	return sip_hash(key, len ? bytes : "", len, word_plain);
}

uint64_t hash_fold_by(struct hash_key key, const void *bytes, size_t len)
{
	return sip_hash(key, len ? bytes : "", len, word_folded);
}

uint64_t hash_bytes(const void *bytes, size_t len)
{
	pthread_once(&process_key_once, process_key_make);
	return hash_bytes_by(process_key, bytes, len);
}

uint64_t hash_fold(const void *bytes, size_t len)
{
	pthread_once(&process_key_once, process_key_make);
	return hash_fold_by(process_key, bytes, len);
}

/* Both halves count, since hash_join leaves less in the low bits than in the high ones. */
static inline size_t slot_of(const struct hash *h, uint64_t hash)
{
	return (hash ^ (hash >> 32)) & (h->n_slots - 1);
}

static void hash_grow(struct hash *h)
{
	struct hash old = *h;

	h->n_slots = old.n_slots ? old.n_slots * 2 : HASH_FIRST_SLOTS;
	h->slots = mem_new(h->n_slots * sizeof(h->slots[0]));
	hash_each(link, &old) {
		struct hash_link **slot = &h->slots[slot_of(h, link->hash)];

		link->next = *slot;
		*slot = link;
	}
	mem_free(old.slots);
}

struct hash_link *hash_find(const struct hash *h, uint64_t hash, hash_same_fn same, const void *key)
{
	if (!h->count)
		return NULL;
	for (struct hash_link *at = h->slots[slot_of(h, hash)]; at; at = at->next)
		if (at->hash == hash && same(at, key))
			return at;
	return NULL;
}

void hash_add(struct hash *h, struct hash_link *link, uint64_t hash)
{
	struct hash_link **slot;

	if (h->count >= h->n_slots)
		hash_grow(h);
	slot = &h->slots[slot_of(h, hash)];
	link->hash = hash;
	link->next = *slot;
	*slot = link;
	h->count++;
}

void hash_take(struct hash *h, struct hash_link *link)
{
	struct hash_link **at;

	verify(h->count > 0);
	at = &h->slots[slot_of(h, link->hash)];
	while (*at && *at != link)
		at = &(*at)->next;
	verify(*at == link);
	*at = link->next;
	link->next = NULL;
	h->count--;
}

void hash_free(struct hash *h)
{
	mem_free(h->slots);
	*h = (struct hash){0};
}
