/* The inside of the relay, for relay_client.c (what comes from clients), relay_server.c (what comes from servers) and relay.c. */
#pragma once

#include "proxy/client.h"

/* The client has sent something that is answered: its time limits run. */
void relay_begin_query(struct client *c);
static inline void relay_query_begins(struct client *c)
{
	if (!c->in_query)
		relay_begin_query(c);
}
/* Between two transactions: client and server part, or stay together. */
void relay_part_or_stay(struct client *c);
/* A client that said Terminate has nothing more to wait for: what no Sync ends would never be answered, and is never committed. */
bool relay_is_seen_through(const struct client *c);
