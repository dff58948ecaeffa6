/* See adhoc.h. A verifier is made anew when the password or the number of iterations has changed. What is kept is bounded by
 * the users that have a plain password in auth_file or by auth_query; strangers add nothing. */
#include "proxy/adhoc.h"

#include <pthread.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/verify.h"

#define ADHOC_MOST 10000 /* then we begin again */

struct adhoc {
	struct hash_link link; /* by user */
	char *user;            /* owns */
	struct secret plain;
	int iterations;
	struct scram_verifier verifier;
};

static pthread_key_t book_key;
static pthread_once_t book_once = PTHREAD_ONCE_INIT;

static void adhoc_free(struct adhoc *a)
{
	secret_free(&a->plain);
	scram_verifier_free(&a->verifier);
	mem_free(a->user);
	mem_free(a);
}

static void book_clear(struct hash *book)
{
	hash_each(at, book)
		adhoc_free(owner_of(at, struct adhoc, link));
	hash_free(book);
}

static void book_free(void *at)
{
	book_clear(at);
	mem_free(at);
}

static void book_key_make(void)
{
	verify(pthread_key_create(&book_key, book_free) == 0);
}

static struct hash *book_here(void)
{
	pthread_once(&book_once, book_key_make);
	struct hash *book = pthread_getspecific(book_key);
	if (!book) {
		book = mem_make(struct hash);
		verify(pthread_setspecific(book_key, book) == 0);
	}
	return book;
}

static bool same_user(const struct hash_link *link, const void *user)
{
	return strcmp(owner_of(link, struct adhoc, link)->user, user) == 0;
}

static bool holds(const struct adhoc *a, const struct secret *plain, int iterations)
{
	struct span have = secret_span(&a->plain), want = secret_span(plain);

	return a->iterations == iterations && have.len == want.len && bytes_same_secretly(have.p, want.p, have.len);
}

static struct adhoc *adhoc_new(const char *user, const struct secret *plain, int iterations)
{
	struct adhoc *a = mem_make(struct adhoc);

	a->user = mem_str(user);
	a->iterations = iterations;
	secret_copy(&a->plain, plain);
	if (scram_verifier_make(plain, iterations, &a->verifier))
		return a;
	adhoc_free(a);
	return NULL;
}

const struct scram_verifier *adhoc_verifier(const char *user, const struct secret *plain, int iterations)
{
	struct hash *book = book_here();
	uint64_t hash = hash_bytes(user, strlen(user));
	struct hash_link *link = hash_find(book, hash, same_user, user);

	if (link && holds(owner_of(link, struct adhoc, link), plain, iterations))
		return &owner_of(link, struct adhoc, link)->verifier;
	if (link) {
		hash_take(book, link);
		adhoc_free(owner_of(link, struct adhoc, link));
	}
	if (book->count >= ADHOC_MOST)
		book_clear(book);
	struct adhoc *a = adhoc_new(user, plain, iterations);
	if (!a)
		return NULL;
	hash_add(book, &a->link, hash);
	return &a->verifier;
}
