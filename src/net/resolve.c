/* Names to addresses. getaddrinfo blocks, so it runs in helper threads that are made when there is something
 * to look up and go when there is not. (getaddrinfo_a would do the same in threads of libc's own making, but ThreadSanitizer
 * does not see those being made and crashes in them.)
 *
 *   resolve_start --> name (cache, one lookup however many wait) --> helper: getaddrinfo --> mail to each waiter's loop
 *
 * Everything shared is guarded by the one lock below, which is held for a few instructions and for sending mail: a waiter
 * that is stopped has either no mail under way or mail that already is in its loop's box, so the loop may be
 * freed afterwards. A request belongs to its loop's thread; only `link` and `mailed` are the lock's.
 *
 * Names come from the configuration, so the cache needs no bound. */
#include "net/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "loop/mail.h"
#include "net/resolve_priv.h"

#define HELPERS_MOST 8
#define HELPER_RESTS_SECONDS 10

struct name {
	struct hash_link link; /* in book.names */
	struct list queued;    /* in book.queue while no helper has taken it */
	struct list waiters;   /* resolve.link */
	char *host;            /* owns */
	bool asked;            /* a lookup is wanted or under way */
	bool known;            /* answer holds something */
	usec_t until;          /* and is good until then */
	struct answer answer;
};

struct resolve {
	struct list link;      /* in name.waiters; lock */
	bool mailed;           /* lock */

	struct mail mail;
	struct later later;
	struct loop *loop;     /* borrows */
	resolve_done_fn done;
	void *owner;           /* borrows */
	bool stopped;          /* its mail has nobody to go to */
	bool telling;          /* inside done */
	struct answer answer;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t work; /* queue has grown, or closing */
	pthread_cond_t gone; /* a helper has ended */
	struct hash names;
	struct list queue;
	int queued;          /* names in queue */
	int helpers;
	int resting;         /* helpers that wait, or are about to wake for one of queued */
	bool closing;
	usec_t max_ttl;
	usec_t nxdomain_ttl;
} book = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.work = PTHREAD_COND_INITIALIZER,
	.gone = PTHREAD_COND_INITIALIZER,
	.queue = {&book.queue, &book.queue},
	.max_ttl = 15 * USEC_PER_SEC,
	.nxdomain_ttl = 15 * USEC_PER_SEC,
};

static struct log_limit failed_limit; /* guarded by book.lock */

int (*resolve_ask)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = getaddrinfo;

void resolve_set_ttl(usec_t max_ttl, usec_t nxdomain_ttl)
{
	pthread_mutex_lock(&book.lock);
	book.max_ttl = max_ttl;
	book.nxdomain_ttl = nxdomain_ttl;
	pthread_mutex_unlock(&book.lock);
}

/* ---- the helpers ---- */

static void answer_add(struct answer *a, const struct addrinfo *found)
{
	struct addr *to = &a->addrs[a->n];

	if (a->n == RESOLVE_MOST || (found->ai_family != AF_INET && found->ai_family != AF_INET6))
		return;
	*to = (struct addr){.len = found->ai_addrlen};
	memcpy(&to->sa, found->ai_addr, found->ai_addrlen);
	a->n++;
}

static void look_up(const char *host, struct answer *a)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
	struct addrinfo *found = NULL;
	int failed = resolve_ask(host, NULL, &hints, &found);

	*a = (struct answer){0};
	if (failed == EAI_SYSTEM)
		err_set(&a->err, "08001", "%m");
	else if (failed)
		err_set(&a->err, "08001", "%s", gai_strerror(failed));
	if (failed)
		return;
	for (struct addrinfo *at = found; at; at = at->ai_next)
		answer_add(a, at);
	freeaddrinfo(found);
	if (!a->n)
		err_set(&a->err, "08001", "no address");
}

static void tell(struct resolve *r)
{
	r->telling = true;
	r->done(r->owner, &r->answer);
	mem_free(r);
}

static void mail_came(struct loop *here, struct mail *m)
{
	struct resolve *r = owner_of(m, struct resolve, mail);

	(void)here;
	if (r->stopped)
		mem_free(r);
	else
		tell(r);
}

/* Under the lock. */
static void deliver(struct name *n, const struct answer *a)
{
	struct list *link;

	n->asked = false;
	n->known = true;
	n->answer = *a;
	n->until = clock_now() + (a->n ? book.max_ttl : book.nxdomain_ttl);
	if (!a->n)
		log_limited(&failed_limit, LOG_WARNING_, NULL, "DNS lookup of \"%s\" failed: %s", n->host, a->err.text);
	while ((link = list_first(&n->waiters))) {
		struct resolve *r = list_owner(link, struct resolve, link);

		list_take(link);
		r->mailed = true;
		r->answer = *a;
		r->mail.read = mail_came;
		mail_send(r->loop, &r->mail);
	}
}

/* Under the lock, which is given up meanwhile. The name stays: nobody forgets one that is asked for. */
static void work_off(struct name *n)
{
	struct answer a;

	list_take(&n->queued);
	book.queued--;
	pthread_mutex_unlock(&book.lock);
	look_up(n->host, &a);
	pthread_mutex_lock(&book.lock);
	deliver(n, &a);
}

/* Under the lock; false when it is time to go. */
static bool rest(void)
{
	struct timespec until;
	int late;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += HELPER_RESTS_SECONDS;
	book.resting++;
	late = pthread_cond_timedwait(&book.work, &book.lock, &until);
	book.resting--;
	return !list_empty(&book.queue) || (!late && !book.closing);
}

static void *helper_main(void *arg)
{
	struct list *link;

	(void)arg;
	pthread_mutex_lock(&book.lock);
	do
		while ((link = list_first(&book.queue)))
			work_off(list_owner(link, struct name, queued));
	while (!book.closing && rest());
	book.helpers--;
	pthread_cond_signal(&book.gone);
	pthread_mutex_unlock(&book.lock);
	return NULL;
}

/* Under the lock. Signals stay with the threads that wait for them. */
static bool helper_start(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	int failed;

	sigfillset(&all);
	verify(pthread_attr_init(&attr) == 0);
	verify(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0);
	verify(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
	failed = pthread_create(&thread, &attr, helper_main, NULL);
	verify(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	pthread_attr_destroy(&attr);
	if (!failed)
		book.helpers++;
	return !failed;
}

/* ---- the names ---- */

static bool name_is(const struct hash_link *link, const void *host)
{
	return strcasecmp(owner_of((struct hash_link *)link, struct name, link)->host, host) == 0;
}

/* Under the lock. */
static struct name *name_find(const char *host)
{
	uint64_t hash = hash_fold(host, strlen(host));
	struct hash_link *link = hash_find(&book.names, hash, name_is, host);
	struct name *n;

	if (link)
		return owner_of(link, struct name, link);
	n = mem_make(struct name);
	n->host = mem_str(host);
	list_init(&n->queued);
	list_init(&n->waiters);
	hash_add(&book.names, &n->link, hash);
	return n;
}

/* Under the lock. Each name gets a helper of its own up to HELPERS_MOST: one slow zone must not hold up the others. */
static void name_ask(struct name *n)
{
	struct answer none = {0};

	if (n->asked)
		return;
	n->asked = true;
	list_push(&book.queue, &n->queued);
	book.queued++;
	if (book.queued <= book.resting) {
		pthread_cond_signal(&book.work);
	} else if (book.helpers < HELPERS_MOST && !helper_start() && !book.helpers) {
		list_take(&n->queued);
		book.queued--;
		err_set(&none.err, "08001", "no thread to look it up");
		deliver(n, &none);
	}
}

/* ---- requests ---- */

static void later_came(struct later *w)
{
	tell(owner_of(w, struct resolve, later));
}

struct resolve *resolve_start(struct loop *l, const char *host, resolve_done_fn done, void *owner)
{
	struct resolve *r = mem_make(struct resolve);
	struct name *n;

	verify_here(l);
	list_init(&r->link);
	later_init(&r->later, later_came);
	r->loop = l;
	r->done = done;
	r->owner = owner;
	if (addr_from_ip(&r->answer.addrs[0], host, 0)) {
		r->answer.n = 1;
		loop_later(l, &r->later);
		return r;
	}
	pthread_mutex_lock(&book.lock);
	n = name_find(host);
	if (n->known && clock_now() < n->until) {
		r->answer = n->answer;
		loop_later(l, &r->later);
	} else {
		list_push(&n->waiters, &r->link);
		name_ask(n);
	}
	pthread_mutex_unlock(&book.lock);
	return r;
}

void resolve_stop(struct resolve **at)
{
	struct resolve *r = *at;
	bool mailed;

	*at = NULL;
	if (!r || r->telling)
		return;
	verify_here(r->loop);
	pthread_mutex_lock(&book.lock);
	list_take(&r->link);
	mailed = r->mailed;
	pthread_mutex_unlock(&book.lock);
	later_stop(&r->later);
	if (mailed)
		r->stopped = true;
	else
		mem_free(r);
}

void resolve_each(void (*row)(void *arg, const char *host, usec_t ttl, const struct answer *a), void *arg)
{
	usec_t now = clock_now();

	pthread_mutex_lock(&book.lock);
	hash_each(at, &book.names) {
		struct name *n = owner_of(at, struct name, link);

		if (n->known && now < n->until)
			row(arg, n->host, n->until - now, &n->answer);
	}
	pthread_mutex_unlock(&book.lock);
}

/* Under the lock. */
static void end_helpers(void)
{
	book.closing = true;
	pthread_cond_broadcast(&book.work);
	while (book.helpers)
		pthread_cond_wait(&book.gone, &book.lock);
	book.closing = false;
}

void resolve_quiet(void)
{
	pthread_mutex_lock(&book.lock);
	end_helpers();
	pthread_mutex_unlock(&book.lock);
}

void resolve_forget(void)
{
	pthread_mutex_lock(&book.lock);
	end_helpers();
	hash_each(at, &book.names) {
		struct name *n = owner_of(at, struct name, link);

		verify(!n->asked);
		hash_take(&book.names, at);
		mem_free(n->host);
		mem_free(n);
	}
	hash_free(&book.names);
	pthread_mutex_unlock(&book.lock);
}
