/* Tallies: the counts that caps are held against, one per database entry and one per user. Two books under a lock
 * each; the lock covers finding and making only. The counts are atomics, because every worker changes them with each
 * login, and a cap that one thread looked at and another one passed would not be a cap. */
#include "cluster/tally.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/verify.h"

struct book {
	pthread_mutex_t lock;
	struct hash tallies; /* by name; they live as long as the process */
};

static struct book entries = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct book users = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool tally_is(const struct hash_link *link, const void *name)
{
	return strcmp(owner_of(link, struct tally, link)->name, name) == 0;
}

static struct tally *book_find_or_make(struct book *b, const char *name)
{
	uint64_t hash = hash_bytes(name, strlen(name));
	struct hash_link *link = hash_find(&b->tallies, hash, tally_is, name);
	struct tally *t;

	if (link)
		return owner_of(link, struct tally, link);
	t = mem_make(struct tally);
	t->name = mem_str(name);
	hash_add(&b->tallies, &t->link, hash);
	return t;
}

static struct tally *book_of(struct book *b, const char *name)
{
	struct tally *t;

	pthread_mutex_lock(&b->lock);
	t = book_find_or_make(b, name);
	pthread_mutex_unlock(&b->lock);
	return t;
}

static void book_each(struct book *b, void (*row)(void *arg, struct tally *t), void *arg)
{
	pthread_mutex_lock(&b->lock);
	hash_each(link, &b->tallies)
		row(arg, owner_of(link, struct tally, link));
	pthread_mutex_unlock(&b->lock);
}

struct tally *tally_entry(const char *name)
{
	return book_of(&entries, name);
}

struct tally *tally_user(const char *name)
{
	return book_of(&users, name);
}

void tally_each_entry(void (*row)(void *arg, struct tally *t), void *arg)
{
	book_each(&entries, row, arg);
}

void tally_each_user(void (*row)(void *arg, struct tally *t), void *arg)
{
	book_each(&users, row, arg);
}

bool tally_take(atomic_int *count, int most)
{
	int now = atomic_load(count);

	do {
		if (most > 0 && now >= most)
			return false;
	} while (!atomic_compare_exchange_weak(count, &now, now + 1));
	return true;
}

void tally_give(atomic_int *count)
{
	int before = atomic_fetch_sub(count, 1);

	verify(before > 0);
}
