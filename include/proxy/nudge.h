/* A cap over several lanes (a user's) concerns servers and waiters of other workers: their lanes are told by mail to look again. */
#pragma once

#include "pool/pool.h"

void nudge_cap_room(struct lane *l);   /* it has room again: lane_cap_room */
void nudge_cap_wanted(struct lane *l); /* somebody waits for it: lane_make_room */
