/* Which worker and lane a client belongs to, and its journey there: it leaves one loop and joins another, once, in one mail. */
#pragma once

#include "proxy/client.h"

/* The home of an entry's cluster. */
struct worker *home_of(const struct conf_cluster *cc);
/* Hands the client over; `arrived` runs in the new home's thread. Nothing of the client may be touched after it has been called. If the client is there
 * already, arrived runs at once. */
void home_go(struct client *c, struct worker *to, void (*arrived)(struct client *c));
