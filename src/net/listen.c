/* Listening sockets.
 *
 * What every accepted connection needs is set on the listening socket, from which Linux hands it down (TCP_NODELAY and
 * the keepalive settings are copied with the socket), so that accepting costs one system call.
 *
 * When the system has no more descriptors or memory, the connection stays in the backlog and the event would fire
 * again at once, for ever: so accepting rests for a second.
 *
 * A listener does not remove the file of its Unix socket: another process may have taken the socket over. */
#include "net/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#define ACCEPT_MOST 64              /* per wake-up: the loop's other work waits meanwhile */
#define ACCEPT_REST USEC_PER_SEC
#define DEFER_SECONDS 45            /* a client that says nothing for so long is accepted all the same */

static struct log_limit accept_limit;

static bool set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

static bool err_errno(struct err *err, const char *what)
{
	return err_set(err, NULL, "%s: %m", what);
}

/* ---- binding ---- */

static bool bind_tcp(int fd, const struct addr *a, const struct listen_options *o, struct err *err)
{
	if (!set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1))
		return err_errno(err, "setsockopt(SO_REUSEADDR)");
	if (a->sa.sa_family == AF_INET6 && !set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1))
		return err_errno(err, "setsockopt(IPV6_V6ONLY)");
	if (!o->alone && !set_int(fd, SOL_SOCKET, SO_REUSEPORT, 1))
		return err_errno(err, "setsockopt(SO_REUSEPORT)");
	if (bind(fd, &a->sa, a->len) != 0)
		return err_errno(err, "bind");
	/* Bound alone, and from now on shared: nobody else is here, but the next workers may come. */
	if (o->alone && !set_int(fd, SOL_SOCKET, SO_REUSEPORT, 1))
		return err_errno(err, "setsockopt(SO_REUSEPORT)");
	if (!set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1))
		return err_errno(err, "setsockopt(TCP_NODELAY)");
	if (o->defer_accept && !set_int(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, DEFER_SECONDS))
		return err_errno(err, "setsockopt(TCP_DEFER_ACCEPT)");
	return true;
}

/* Is it a socket's file that nobody listens on? */
static bool unix_is_stale(const struct addr *a)
{
	struct stat st;
	bool stale;
	int fd;

	if (!a->un.sun_path[0] || lstat(a->un.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	/* A full backlog says EAGAIN: somebody is there. */
	stale = connect(fd, &a->sa, a->len) != 0 && errno == ECONNREFUSED;
	close(fd);
	return stale;
}

static bool group_read(const char *name, gid_t *gid, struct err *err)
{
	char room[4096];
	struct group group, *found = NULL;
	int64_t number;

	if (getgrnam_r(name, &group, room, sizeof(room), &found) == 0 && found) {
		*gid = found->gr_gid;
		return true;
	}
	if (num_i64(name, &number) && number >= 0 && number < UINT32_MAX) {
		*gid = (gid_t)number;
		return true;
	}
	return err_set(err, NULL, "group \"%s\" not found", name);
}

/* Before listen, so that nobody connects to a socket whose rights are not set yet. */
static bool set_rights(const struct addr *a, const struct listen_options *o, struct err *err)
{
	gid_t gid;

	if (!a->un.sun_path[0])
		return true; /* an abstract name has no rights */
	if (o->unix_group && *o->unix_group) {
		if (!group_read(o->unix_group, &gid, err))
			return false;
		if (chown(a->un.sun_path, (uid_t)-1, gid) != 0)
			return err_errno(err, "chown");
	}
	if (chmod(a->un.sun_path, o->unix_mode) != 0)
		return err_errno(err, "chmod");
	return true;
}

static bool bind_unix(int fd, const struct addr *a, const struct listen_options *o, struct err *err)
{
	int failed = bind(fd, &a->sa, a->len);

	if (failed && errno == EADDRINUSE) {
		if (!unix_is_stale(a))
			return err_set(err, NULL, "unix socket is in use");
		if (unlink(a->un.sun_path) != 0)
			return err_errno(err, "unlink");
		failed = bind(fd, &a->sa, a->len);
	}
	if (failed)
		return err_errno(err, "bind");
	if (set_rights(a, o, err))
		return true;
	if (a->un.sun_path[0])
		unlink(a->un.sun_path);
	return false;
}

int listen_bind(const struct addr *a, const struct listen_options *o, struct err *err)
{
	int fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool good;

	if (fd < 0) {
		err_errno(err, "socket");
		return -1;
	}
	good = addr_is_unix(a) ? bind_unix(fd, a, o, err) : bind_tcp(fd, a, o, err);
	if (good && listen(fd, o->backlog) != 0)
		good = err_errno(err, "listen");
	if (good)
		return fd;
	close(fd);
	return -1;
}

/* ---- accepting ---- */

static bool is_shortage(int number)
{
	return number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM;
}

static void rest_a_while(struct listener *l)
{
	char text[ADDR_TEXT];

	addr_print(&l->addr, text);
	log_limited(&accept_limit, LOG_ERROR_, NULL, "accept on %s failed: %m, trying again in %d s", text, (int)(ACCEPT_REST / USEC_PER_SEC));
	event_del(l->event);
	timer_in(&l->retry, ACCEPT_REST);
}

static void on_connection(evutil_socket_t fd, short what, void *arg)
{
	struct listener *l = arg;

	(void)what;
	for (int i = 0; i < ACCEPT_MOST && l->event; i++) {
		int got = accept4((int)fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (got >= 0) {
			l->accepted(l, got);
			continue;
		}
		if (errno == EAGAIN)
			return;
		if (is_shortage(errno)) {
			rest_a_while(l);
			return;
		}
		/* Else it is that connection's own failure (ECONNABORTED and the like, accept(2)): take the next. */
	}
}

static void rested(struct timer *t)
{
	struct listener *l = owner_of(t, struct listener, retry);

	verify(event_add(l->event, NULL) == 0);
}

void listener_start(struct listener *l, struct loop *loop, int fd, void (*accepted)(struct listener *, int), void *owner)
{
	verify_here(loop);
	*l = (struct listener){.loop = loop, .fd = fd, .accepted = accepted, .owner = owner};
	list_init(&l->link);
	addr_of_self(&l->addr, fd);
	timer_init(&l->retry, loop, rested);
	l->event = event_new(loop->base, fd, EV_READ | EV_PERSIST, on_connection, l);
	verify(l->event && event_add(l->event, NULL) == 0);
}

void listener_stop(struct listener *l)
{
	if (!l->event)
		return;
	verify_here(l->loop);
	event_free(l->event);
	l->event = NULL;
	timer_stop(&l->retry);
	close(l->fd);
	l->fd = -1;
}

/* ---- a connection's options ---- */

/* An option that the system refuses is no reason to refuse the connection. */
void sock_tune(int fd, const struct sock_options *o)
{
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, o->keepalive);
	if (o->keepalive && o->keepcnt)
		set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, o->keepcnt);
	if (o->keepalive && o->keepidle)
		set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, o->keepidle);
	if (o->keepalive && o->keepintvl)
		set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, o->keepintvl);
	if (o->user_timeout_ms)
		set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, o->user_timeout_ms);
	if (o->buffer) {
		set_int(fd, SOL_SOCKET, SO_SNDBUF, o->buffer);
		set_int(fd, SOL_SOCKET, SO_RCVBUF, o->buffer);
	}
}
