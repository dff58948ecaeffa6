/* hash: the function against OpenSSL's SipHash, the table against what was put in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <endian.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/hash.h"
#include "base/hash_priv.h"
#include "base/mem.h"

static const struct hash_key key = {0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};

/* SipHash-1-3 by another's hand. */
static uint64_t openssl_siphash13(struct hash_key k, const uint8_t *p, size_t len)
{
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
	EVP_MAC_CTX *at = EVP_MAC_CTX_new(mac);
	uint64_t words[2] = {htole64(k.k0), htole64(k.k1)}, out;
	unsigned c = 1, d = 3, size = 8;
	size_t out_len;
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_SIZE, &size),
		OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_C_ROUNDS, &c),
		OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_D_ROUNDS, &d),
		OSSL_PARAM_construct_end(),
	};

	assert_true(EVP_MAC_init(at, (uint8_t *)words, sizeof(words), params));
	assert_true(EVP_MAC_update(at, p, len));
	assert_true(EVP_MAC_final(at, (uint8_t *)&out, &out_len, sizeof(out)));
	assert_int_equal(out_len, 8);
	EVP_MAC_CTX_free(at);
	EVP_MAC_free(mac);
	return le64toh(out);
}

static void bytes_hash_as_siphash_1_3_does(void **state)
{
	uint8_t bytes[300];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + 3);
	for (size_t len = 0; len <= sizeof(bytes); len++)
		assert_true(hash_bytes_by(key, bytes, len) == openssl_siphash13(key, bytes, len));
}

static void folding_lowers_ascii_letters_and_nothing_else(void **state)
{
	uint8_t as_is[256 + 9], lowered[256 + 9];

	(void)state;
	/* Every byte value at every place of a word, and in the rest behind the last word. */
	for (size_t shift = 0; shift < 9; shift++) {
		for (size_t i = 0; i < 256 + shift; i++) {
			uint8_t c = (uint8_t)(i - shift);

			as_is[i] = c;
			lowered[i] = c >= 'A' && c <= 'Z' ? (uint8_t)(c + 'a' - 'A') : c;
		}
		assert_true(hash_fold_by(key, as_is, 256 + shift) == hash_bytes_by(key, lowered, 256 + shift));
	}
}

static void folding_does_not_touch_the_length(void **state)
{
	uint8_t text[0x41];

	(void)state;
	/* The length stands in the last word's top byte: 'A' there is no letter. */
	memset(text, 'x', sizeof(text));
	assert_true(hash_fold_by(key, text, sizeof(text)) == hash_bytes_by(key, text, sizeof(text)));
}

static void names_that_differ_in_case_fold_together_only_under_fold(void **state)
{
	(void)state;
	assert_true(hash_fold("X-Org-Id", 8) == hash_fold("x-oRG-iD", 8));
	assert_false(hash_bytes("X-Org-Id", 8) == hash_bytes("x-oRG-iD", 8));
	assert_false(hash_fold("X-Org-Id", 8) == hash_fold("X-Org-Ie", 8));
}

static void another_key_gives_another_hash(void **state)
{
	struct hash_key other = {key.k0 ^ 1, key.k1};

	(void)state;
	assert_false(hash_bytes_by(key, "org", 3) == hash_bytes_by(other, "org", 3));
}

static void joined_hashes_depend_on_their_order(void **state)
{
	(void)state;
	assert_false(hash_join(1, 2) == hash_join(2, 1));
}

struct item {
	struct hash_link link;
	uint64_t number;
};

static bool item_is(const struct hash_link *link, const void *number)
{
	return owner_of(link, struct item, link)->number == *(const uint64_t *)number;
}

static uint64_t hash_of(uint64_t number)
{
	return hash_bytes(&number, sizeof(number));
}

static void what_was_added_is_found_until_it_is_taken(void **state)
{
	enum { N = 3000 };
	struct item *items = mem_new(N * sizeof(*items));
	struct hash h = {0};

	(void)state;
	for (uint64_t i = 0; i < N; i++) {
		assert_null(hash_find(&h, hash_of(i), item_is, &i));
		items[i].number = i;
		hash_add(&h, &items[i].link, hash_of(i));
	}
	assert_int_equal(h.count, N);
	for (uint64_t i = 0; i < N; i += 2)
		hash_take(&h, &items[i].link);
	assert_int_equal(h.count, N / 2);
	for (uint64_t i = 0; i < N; i++) {
		struct hash_link *found = hash_find(&h, hash_of(i), item_is, &i);

		assert_ptr_equal(found, i % 2 ? &items[i].link : NULL);
	}
	hash_free(&h);
	mem_free(items);
}

static void equal_hashes_are_told_apart_by_the_key(void **state)
{
	struct item a = {.number = 1}, b = {.number = 2};
	struct hash h = {0};
	uint64_t number = 3;

	(void)state;
	hash_add(&h, &a.link, 42);
	hash_add(&h, &b.link, 42);
	assert_ptr_equal(hash_find(&h, 42, item_is, &a.number), &a.link);
	assert_ptr_equal(hash_find(&h, 42, item_is, &b.number), &b.link);
	assert_null(hash_find(&h, 42, item_is, &number));
	hash_free(&h);
}

static void a_walk_sees_each_once_and_may_free_it(void **state)
{
	enum { N = 100 };
	struct hash h = {0};
	uint64_t seen = 0;

	(void)state;
	for (uint64_t i = 0; i < N; i++) {
		struct item *item = mem_make(struct item);

		item->number = i;
		hash_add(&h, &item->link, hash_of(i));
	}
	hash_each(link, &h) {
		struct item *item = owner_of(link, struct item, link);

		seen += item->number + 1;
		hash_take(&h, link);
		mem_free(item);
	}
	assert_int_equal(seen, N * (N + 1) / 2);
	assert_int_equal(h.count, 0);
	hash_free(&h);
}

static void an_empty_table_is_searched_walked_and_freed(void **state)
{
	struct hash h = {0};
	uint64_t number = 1;

	(void)state;
	assert_null(hash_find(&h, 1, item_is, &number));
	hash_each(link, &h)
		fail();
	hash_free(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_hash_as_siphash_1_3_does),
		cmocka_unit_test(folding_lowers_ascii_letters_and_nothing_else),
		cmocka_unit_test(folding_does_not_touch_the_length),
		cmocka_unit_test(names_that_differ_in_case_fold_together_only_under_fold),
		cmocka_unit_test(another_key_gives_another_hash),
		cmocka_unit_test(joined_hashes_depend_on_their_order),
		cmocka_unit_test(what_was_added_is_found_until_it_is_taken),
		cmocka_unit_test(equal_hashes_are_told_apart_by_the_key),
		cmocka_unit_test(a_walk_sees_each_once_and_may_free_it),
		cmocka_unit_test(an_empty_table_is_searched_walked_and_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
