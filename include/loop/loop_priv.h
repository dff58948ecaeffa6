/* The inside of the loop, for mail.c and for tests. */
#pragma once

#include "loop/loop.h"

/* One turn. EVLOOP_ONCE sleeps until there is something to do, EVLOOP_NONBLOCK does not; with
 * the latter and a loop->clock of its own a test moves time by hand. */
void loop_turn(struct loop *l, int event_flags);
