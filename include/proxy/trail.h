/* What is still done at the places that routes lead away from, and when it was done last: the evidence for cleaning up there. A trail per
 * route, process-wide, any thread; kept over restarts in the file `routes` of state_dir, as text.
 *
 * A trail belongs to what its route says: a line that is changed, or taken out and put in again, begins a new one, with the moment it came into
 * force as the last use. For what was done there before nobody can tell. */
#pragma once

#include "base/clock.h"
#include "conf/conf.h"

void trails_follow(const struct conf *c, usec_t now);       /* control: the routes there are now; before the workers go by them */
void trails_use(const struct conf_route *r, usec_t now);    /* something was done at a place that r leads away from. now: clock_wall() */
usec_t trails_last_use(const struct conf_route *r);         /* 0: the route is not in force */
bool trails_changed(void);                                  /* since the last trails_print */
void trails_print(struct buf *out);
/* What an earlier process has printed, for the routes that are the same still. False: it is not such a text, and nothing was taken. */
bool trails_read(struct span text);
void trails_free(void);
