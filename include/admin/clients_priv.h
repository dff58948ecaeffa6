/* Walks over a worker's clients in its own thread, for orders that end some of them. */
#pragma once

#include "proxy/client.h"

/* Closes all logged-in clients that match; why is what they are told. Closing one may move others from list to list (its server is given
 * on), so they are picked first and closed then. Returns how many. */
int clients_close(struct worker *w, bool (*match)(const struct client *c, const void *arg), const void *arg, const struct err *why);
