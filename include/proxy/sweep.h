/* Time limits of clients: one timer each, set lazily: it may fire early, looks at the deadlines and is set again. */
#pragma once

#include "proxy/client.h"

void sweep_set(struct client *c);  /* after a deadline was set: makes sure the timer fires in time. Cheap. */
void sweep_fire(struct timer *t);
