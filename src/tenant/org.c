/* The registry of orgs: a hash under a lock.
 *
 *   in use   refs > 0, in the hash only
 *   idle     refs = 0, in the hash and at the young end of `idle`; forgotten from the old end when max_orgs are known.
 *            One with a line in [orgs] is in the hash only, and stays.
 *
 * The lock is taken when a client logs in, leaves as the last one of its org, or changes org; never per query. A reference
 * that is not the last one is given back without it. What an idle org would lose by being forgotten are its counters,
 * so one that an operator holds back (PAUSE, FREEZE) is kept. */
#include "tenant/org.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/verify.h"

static struct {
	pthread_mutex_t lock;
	struct hash by_id;
	struct list idle; /* oldest at the head */
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER, .idle = {&registry.idle, &registry.idle}};

static bool same_id(const struct hash_link *link, const void *id)
{
	return strcmp(owner_of(link, struct org, link)->id, id) == 0;
}

static struct org *org_new(const char *id, uint64_t hash)
{
	struct org *o = mem_make(struct org);

	strcpy(o->id, id);
	list_init(&o->idle_link);
	hash_add(&registry.by_id, &o->link, hash);
	return o;
}

static bool may_be_forgotten(const struct org *o)
{
	return !atomic_load(&o->paused) && !atomic_load(&o->frozen);
}

static bool forget_one(void)
{
	list_each(at, &registry.idle) {
		struct org *o = list_owner(at, struct org, idle_link);
		if (!may_be_forgotten(o))
			continue;
		list_take(&o->idle_link);
		hash_take(&registry.by_id, &o->link);
		mem_free(o);
		return true;
	}
	return false;
}

/* make: may it be made, with so many known at most; -1: it may not. */
static struct org *find(const char *id, int make)
{
	size_t len = strlen(id);
	uint64_t hash = hash_bytes(id, len);
	struct org *o = NULL;

	verify(len >= 1 && len <= ORG_ID_MOST);
	pthread_mutex_lock(&registry.lock);
	struct hash_link *link = hash_find(&registry.by_id, hash, same_id, id);
	if (link) {
		o = owner_of(link, struct org, link);
		list_take(&o->idle_link);
	} else if (make == 0 || (make > 0 && (registry.by_id.count < (size_t)make || forget_one()))) {
		o = org_new(id, hash);
	}
	if (o)
		atomic_fetch_add(&o->refs, 1);
	pthread_mutex_unlock(&registry.lock);
	return o;
}

struct org *org_of(const char *id, int max_orgs)
{
	return find(id, max_orgs);
}

struct org *org_find(const char *id)
{
	return find(id, -1);
}

struct org *org_ref(struct org *o)
{
	verify(atomic_fetch_add(&o->refs, 1) > 0);
	return o;
}

/* Gives a reference back if it is not the last one. */
static bool drop_light(struct org *o)
{
	int refs = atomic_load(&o->refs);

	while (refs > 1)
		if (atomic_compare_exchange_weak(&o->refs, &refs, refs - 1))
			return true;
	return false;
}

void org_drop(struct org **at)
{
	struct org *o = *at;

	*at = NULL;
	if (!o || drop_light(o))
		return;
	pthread_mutex_lock(&registry.lock);
	int before = atomic_fetch_sub(&o->refs, 1);
	verify(before > 0);
	if (before == 1) { /* else somebody has found it by its id meanwhile */
		o->idle_since = clock_now();
		if (!atomic_load(&o->listed))
			list_push(&registry.idle, &o->idle_link);
	}
	pthread_mutex_unlock(&registry.lock);
}

int org_count(void)
{
	pthread_mutex_lock(&registry.lock);
	int n = (int)registry.by_id.count;
	pthread_mutex_unlock(&registry.lock);
	return n;
}

void org_each(void (*row)(void *arg, struct org *o), void *arg)
{
	pthread_mutex_lock(&registry.lock);
	hash_each(at, &registry.by_id)
		row(arg, owner_of(at, struct org, link));
	pthread_mutex_unlock(&registry.lock);
}

bool org_each_of(size_t *at, size_t slots, void (*row)(void *arg, struct org *o), void *arg)
{
	struct hash *h = &registry.by_id;

	pthread_mutex_lock(&registry.lock);
	for (; slots && *at < h->n_slots; slots--, ++*at)
		for (struct hash_link *link = h->slots[*at]; link; link = link->next)
			row(arg, owner_of(link, struct org, link));
	bool more = *at < h->n_slots;
	pthread_mutex_unlock(&registry.lock);
	return more;
}
