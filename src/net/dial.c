/* Connecting. The addresses of a name are tried one after the other, beginning with a different one each time (turn);
 * the first that answers is it. There is no timer here: who waits for a server knows how long (server_connect_timeout)
 * and calls dial_stop. */
#include "net/dial.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/resolve.h"

#define UNIX_DIR_DEFAULT "/var/run/postgresql"

struct dial {
	struct loop *loop;       /* borrows */
	dial_done_fn done;
	void *owner;             /* borrows */

	struct resolve *resolve; /* owns, while the name is looked up */
	struct event *event;     /* owns, while a connect is under way */
	struct later later;      /* the first try, so that no answer comes before dial_start has returned */
	int fd;                  /* owns; -1: none */

	struct addr *addrs;      /* owns: all of a name, or the one */
	int n_addrs;
	int n_tried;
	unsigned turn;
	int port;
	bool telling;            /* inside done */
	struct err err;          /* of the last try */
};

static struct addr *addr_at_hand(struct dial *d)
{
	unsigned n = (unsigned)d->n_addrs;

	return &d->addrs[(d->turn % n + (unsigned)d->n_tried) % n];
}

static void drop_event(struct dial *d)
{
	if (d->event)
		event_free(d->event);
	d->event = NULL;
}

static void free_dial(struct dial *d)
{
	resolve_stop(&d->resolve);
	later_stop(&d->later);
	drop_event(d);
	if (d->fd >= 0)
		close(d->fd);
	mem_free(d->addrs);
	mem_free(d);
}

static void tell(struct dial *d, int fd, const struct addr *addr)
{
	d->telling = true;
	d->fd = -1; /* the owner's now */
	d->done(d->owner, fd, addr, &d->err);
	free_dial(d);
}

static void connected(struct dial *d)
{
	drop_event(d);
	d->err = (struct err){0};
	tell(d, d->fd, addr_at_hand(d));
}

static void try_failed(struct dial *d, int number)
{
	drop_event(d);
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
	errno = number;
	err_set(&d->err, "08006", "connect failed: %m");
	d->n_tried++;
}

static void try_on(struct dial *d);

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct dial *d = arg;
	int failed = 0;
	socklen_t len = sizeof(failed);

	(void)what;
	if (getsockopt((int)fd, SOL_SOCKET, SO_ERROR, &failed, &len) != 0)
		failed = errno;
	if (!failed) {
		connected(d);
		return;
	}
	try_failed(d, failed);
	try_on(d);
}

/* Returns 0, EINPROGRESS or why not. A Unix socket whose backlog is full says EAGAIN, and there is no event to wait for. */
static int try_one(struct dial *d)
{
	const struct addr *a = addr_at_hand(d);
	int yes = 1;

	d->fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (d->fd < 0)
		return errno;
	if (!addr_is_unix(a))
		setsockopt(d->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	return connect(d->fd, &a->sa, a->len) == 0 ? 0 : errno;
}

/* Goes on until a connect is under way, has succeeded, or none is left. */
static void try_on(struct dial *d)
{
	while (d->n_tried < d->n_addrs) {
		int failed = try_one(d);

		if (failed == EINPROGRESS || failed == EINTR) {
			d->event = event_new(d->loop->base, d->fd, EV_WRITE, on_event, d);
			verify(d->event && event_add(d->event, NULL) == 0);
			return;
		}
		if (!failed) {
			connected(d);
			return;
		}
		try_failed(d, failed);
	}
	tell(d, -1, NULL);
}

static void on_later(struct later *w)
{
	try_on(owner_of(w, struct dial, later));
}

static void on_answer(void *owner, const struct answer *a)
{
	struct dial *d = owner;

	resolve_stop(&d->resolve);
	if (!a->n) {
		err_set(&d->err, "08006", "server DNS lookup failed"); /* resolve has logged why */
		tell(d, -1, NULL);
		return;
	}
	d->n_addrs = a->n;
	d->addrs = mem_new((size_t)a->n * sizeof(*d->addrs));
	for (int i = 0; i < a->n; i++) {
		d->addrs[i] = a->addrs[i];
		if (a->addrs[i].sa.sa_family == AF_INET6)
			d->addrs[i].in6.sin6_port = htons((uint16_t)d->port);
		else
			d->addrs[i].in4.sin_port = htons((uint16_t)d->port);
	}
	try_on(d);
}

static void start_unix(struct dial *d, const char *dir)
{
	d->addrs = mem_make(struct addr);
	d->n_addrs = addr_from_unix(d->addrs, dir, d->port);
	if (!d->n_addrs)
		err_set(&d->err, "08006", "connect failed: unix socket path is too long");
	loop_later(d->loop, &d->later);
}

struct dial *dial_start(struct loop *l, const struct dial_target *t, unsigned turn, dial_done_fn done, void *owner)
{
	struct dial *d = mem_make(struct dial);
	const char *host = t->host ? t->host : UNIX_DIR_DEFAULT;

	verify_here(l);
	*d = (struct dial){.loop = l, .done = done, .owner = owner, .fd = -1, .turn = turn, .port = t->port};
	later_init(&d->later, on_later);
	if (*host == '/' || *host == '@')
		start_unix(d, host);
	else
		d->resolve = resolve_start(l, host, on_answer, d);
	return d;
}

void dial_stop(struct dial **at)
{
	struct dial *d = *at;

	*at = NULL;
	if (!d || d->telling)
		return;
	verify_here(d->loop);
	free_dial(d);
}
