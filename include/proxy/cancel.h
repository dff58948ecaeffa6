/* Cancel requests: never another client's query. A key is looked up on the worker that it names (proxy/address) and compared in constant time. A waiting client's query is refused and never run; a running one's server gets a
 * CancelRequest and is kept from everyone else until PostgreSQL has closed that connection. */
#pragma once

#include "proxy/client.h"

/* c is a connection in GREET that sent a CancelRequest with this key; it ends when the cancel is through. */
void cancel_run(struct client *c, struct span key);
