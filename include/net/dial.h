/* Connects a socket: resolves the name, tries each address in turn until one answers. On one loop. */
#pragma once

#include "base/err.h"
#include "loop/loop.h"
#include "net/addr.h"

struct dial;

/* Called once unless dial_stop came first. fd is -1 on failure and err says why ("connect failed: Connection refused",
 * of the last address tried, or "server DNS lookup failed"). addr: who answered, NULL on failure; borrowed for the call. */
typedef void (*dial_done_fn)(void *owner, int fd, const struct addr *addr, const struct err *err);

struct dial_target {
	const char *host; /* name, IP, /dir or @abstract; NULL: default unix directory /var/run/postgresql; borrowed for the call */
	int port;
};

/* The answer never comes before dial_start has returned. `turn` rotates the addresses of a name (round robin). */
struct dial *dial_start(struct loop *l, const struct dial_target *t, unsigned turn, dial_done_fn done, void *owner);
void dial_stop(struct dial **d);
