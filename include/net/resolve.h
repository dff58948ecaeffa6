/* Names to addresses without blocking a loop: getaddrinfo_a in libc's own threads, with a cache
 * (dns_max_ttl, dns_nxdomain_ttl) shared by all loops under a lock of its own. */
#pragma once

#include "base/err.h"
#include "loop/loop.h"
#include "net/addr.h"

#define RESOLVE_MOST 16

struct answer {
	int n; /* 0: not found; err says why */
	struct addr addrs[RESOLVE_MOST]; /* port 0 */
	struct err err;
};

struct resolve;
typedef void (*resolve_done_fn)(void *owner, const struct answer *a);

void resolve_set_ttl(usec_t max_ttl, usec_t nxdomain_ttl); /* any thread */
/* Numeric addresses and cached names are answered at the end of the turn, never before the call returns. */
struct resolve *resolve_start(struct loop *l, const char *host, resolve_done_fn done, void *owner);
void resolve_stop(struct resolve **r);
/* For SHOW DNS_HOSTS: calls row for each cached name. */
void resolve_each(void (*row)(void *arg, const char *host, usec_t ttl, const struct answer *a), void *arg);
