/* The inside of net/resolve, for its tests. */
#pragma once

#include <netdb.h>

/* What asks the system; getaddrinfo, unless a test puts another in its place before the first lookup. */
extern int (*resolve_ask)(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found);

void resolve_quiet(void);  /* waits until all lookups are answered and their threads have ended */
void resolve_forget(void); /* the same, and forgets every name */
