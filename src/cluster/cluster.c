/* Clusters by name, their homes and their ledgers.
 *
 * All orgs that compete for a cluster's slots must meet in one queue, so a cluster has one lane, on one worker: its
 * home. A new cluster goes to the worker that has the fewest; it stays there, for a lane cannot move. The ledger is one
 * count of permits against one ceiling: with one lane per cluster there is nothing to share out yet, but the
 * lane asks for each permit, so that more lanes can come without a change up there. */
#include "cluster/cluster.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/verify.h"
#include "cluster/tally.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over all that follows */
static struct hash clusters;                             /* by name; they live as long as the process */
static int n_workers = 1;
static int *homed; /* owns: clusters per worker */

void cluster_set_workers(int n)
{
	verify(n > 0);
	pthread_mutex_lock(&lock);
	verify(clusters.count == 0);
	n_workers = n;
	mem_free(homed);
	homed = NULL;
	pthread_mutex_unlock(&lock);
}

static int home_choose(void)
{
	int least = 0;

	if (!homed)
		homed = mem_new((size_t)n_workers * sizeof(*homed));
	for (int i = 1; i < n_workers; i++)
		if (homed[i] < homed[least])
			least = i;
	homed[least]++;
	return least;
}

static bool cluster_is(const struct hash_link *link, const void *name)
{
	return strcmp(owner_of(link, struct cluster, link)->name, name) == 0;
}

static struct cluster *find_or_make(const char *name)
{
	uint64_t hash = hash_bytes(name, strlen(name));
	struct hash_link *link = hash_find(&clusters, hash, cluster_is, name);
	struct cluster *c;

	if (link)
		return owner_of(link, struct cluster, link);
	c = mem_make(struct cluster);
	c->name = mem_str(name);
	c->home = home_choose();
	hash_add(&clusters, &c->link, hash);
	return c;
}

struct cluster *cluster_of(const char *name, int ceiling)
{
	struct cluster *c;

	pthread_mutex_lock(&lock);
	c = find_or_make(name);
	atomic_store(&c->ceiling, ceiling);
	pthread_mutex_unlock(&lock);
	return c;
}

void cluster_each(void (*row)(void *arg, struct cluster *c), void *arg)
{
	pthread_mutex_lock(&lock);
	hash_each(link, &clusters)
		row(arg, owner_of(link, struct cluster, link));
	pthread_mutex_unlock(&lock);
}

/* ---- its word ---- */

word_t cluster_word_leased(const struct cluster *c, word_t word)
{
	if (!word_is_guarded(word) || word_state(word) != CLUSTER_PRIMARY || clock_now() < atomic_load_explicit(&c->lease_until, memory_order_acquire))
		return word;
	return word_pack(CLUSTER_RECOVERING, word_epoch(word));
}

/* ---- hosts ---- */

uint64_t cluster_host_key(const struct conf_host *h)
{
	const char *host = h->host ? h->host : "";
	uint64_t key = hash_join(hash_bytes(host, strlen(host)), (uint64_t)h->port);

	return key < KEY_FIRST ? KEY_FIRST : key;
}

int cluster_primary(const struct cluster *c, const struct conf_cluster *cc)
{
	uint64_t key = atomic_load_explicit(&c->primary, memory_order_acquire);

	if (key == KEY_ANY)
		return PRIMARY_ANY;
	for (int i = 0; key != KEY_NOBODY && i < cc->n_primary + cc->n_replicas; i++)
		if (cluster_host_key(conf_cluster_host(cc, i)) == key)
			return i;
	return PRIMARY_NOBODY;
}

bool cluster_may_read(const struct cluster *c, const struct conf_host *h)
{
	uint64_t key = cluster_host_key(h);

	for (int i = 0; i < CLUSTER_REPLICAS_MOST; i++)
		if (atomic_load_explicit(&c->replicas[i], memory_order_acquire) == key)
			return true;
	return false;
}

bool cluster_has_stand_in(const struct cluster *c, const struct conf_cluster *cc)
{
	for (int i = 0; i < cc->n_primary + cc->n_replicas; i++)
		if (cluster_may_read(c, conf_cluster_host(cc, i)))
			return true;
	return false;
}

bool cluster_replica_serves(const struct cluster *c, const struct conf_cluster *cc, int i)
{
	return atomic_load_explicit(&c->primary, memory_order_acquire) == KEY_ANY || cluster_may_read(c, &cc->replicas[i]);
}

/* ---- the ledger ---- */

/* A ceiling that was lowered below what is lent gives no permit until enough came back; it takes none away. */
bool ledger_take(struct cluster *c)
{
	return tally_take(&c->lent, atomic_load(&c->ceiling));
}

void ledger_give(struct cluster *c)
{
	tally_give(&c->lent);
}
