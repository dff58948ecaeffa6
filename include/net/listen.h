/* Listening sockets: TCP with SO_REUSEPORT, one per worker and address, and Unix sockets. */
#pragma once

#include "base/err.h"
#include "loop/loop.h"
#include "net/addr.h"

struct listen_options {
	int backlog;
	bool defer_accept;
	bool alone;              /* TCP: fail when any other socket is bound there, even one with SO_REUSEPORT; for the first of an address */
	unsigned unix_mode;      /* 0777 */
	const char *unix_group;  /* NULL: unchanged */
};

struct listener {
	struct list link;
	struct loop *loop;
	struct addr addr;
	int fd;                 /* owns */
	struct event *event;    /* owns */
	struct timer retry;     /* accepting rests for a while after EMFILE and its like */
	void (*accepted)(struct listener *l, int fd); /* fd is non-blocking, close-on-exec, and the callee's */
	void *owner;
};

/* Binds; fails when the address is in use (another server on it, a live Unix socket). A stale Unix socket is replaced. */
int listen_bind(const struct addr *a, const struct listen_options *o, struct err *err); /* fd or -1 */
void listener_start(struct listener *l, struct loop *loop, int fd, void (*accepted)(struct listener *, int), void *owner);
void listener_stop(struct listener *l);  /* closes the fd */
/* keepalive, user timeout and so on for a TCP connection; 0 leaves the system's value. */
struct sock_options {
	bool keepalive;
	int keepcnt, keepidle, keepintvl; /* seconds */
	int user_timeout_ms;
	int buffer;
};
void sock_tune(int fd, const struct sock_options *o);
