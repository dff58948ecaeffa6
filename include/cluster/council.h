/* The clusters of this process at their control stores: one session for each distinct store, which is polled each second (that is heartbeat, lease
 * and news in one) and told what the breakers did. Decisions are cluster/agree.c's. Control only.
 *
 * The clock that cannot be set is clock_now. A lease runs from before the poll was sent. */
#pragma once

#include "base/err.h"
#include "base/num.h"
#include "cluster/watch.h"

/* A watch with control=, or whose control= may have changed. Without one it leaves. */
void council_join(struct watch *w);
void council_leave(struct watch *w);
void council_follow(void); /* all have joined under a new configuration */

void council_nudge(struct watch *w);     /* there may be something to tell */
void council_tell_soon(struct watch *w); /* the next poll is due now */
/* UNFENCE. `done` comes once, in a later turn; err NULL: it is cut over. False: it was not asked. */
bool council_unfence(struct watch *w, enum unfence how, watch_done_fn done, void *arg, struct err *err);

const char *council_node(void);              /* this run's name */
usec_t council_heard(const struct watch *w);  /* by clock_now: when the last good poll was sent; 0: none yet */
