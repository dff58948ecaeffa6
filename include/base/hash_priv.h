/* The inside of the hash function, for its tests: SipHash-1-3 under a given key. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct hash_key {
	uint64_t k0;
	uint64_t k1;
};

uint64_t hash_bytes_by(struct hash_key key, const void *bytes, size_t len);
uint64_t hash_fold_by(struct hash_key key, const void *bytes, size_t len);
