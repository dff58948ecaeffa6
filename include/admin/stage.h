/* The stages of the process and of its database entries: PAUSE, RESUME, SUSPEND, KILL, DISABLE, RECONNECT, WAIT_CLOSE, SHUTDOWN. Commands of the
 * console and signals end here. All in control's loop; what has to be done in the workers goes by gather. */
#pragma once

#include "base/err.h"
#include "cluster/tally.h"
#include "proxy/worker.h"

typedef void (*stage_done_fn)(void *arg, const struct err *err); /* err NULL: it is done */

struct stage_call; /* an order under way */

/* entry NULL: everything. done comes when no server is left, or with an error when RESUME came in between. NULL and err: refused (already paused, shutting down ...). */
struct stage_call *stage_pause(struct tally *entry, stage_done_fn done, void *arg, struct err *err);
bool stage_resume(struct tally *entry, struct err *err);
struct stage_call *stage_wait_close(struct tally *entry, stage_done_fn done, void *arg, struct err *err);
bool stage_reconnect(struct tally *entry, struct err *err);
bool stage_kill(struct tally *entry, struct err *err);          /* drops clients and servers, leaves the entry paused */
bool stage_kill_client(uint64_t id, stage_done_fn done, void *arg);
/* Of one org, by its id. PAUSE: done comes when none of its transactions runs any more. FREEZE: from now on it reads only, and done comes when nothing
 * of it is written any more. RESUME ends both; refused: it is neither. */
struct stage_call *stage_pause_org(const char *org, stage_done_fn done, void *arg, struct err *err);
struct stage_call *stage_freeze_org(const char *org, stage_done_fn done, void *arg, struct err *err);
struct stage_call *stage_resume_org(const char *org, stage_done_fn done, void *arg, struct err *err);
/* The asker went away: done is not called any more; what was ordered goes on. */
void stage_forget(struct stage_call *call);

enum shutdown_how { SHUTDOWN_NOW, SHUTDOWN_WAIT_SERVERS, SHUTDOWN_WAIT_CLIENTS };
/* A second one is immediate. The TCP listeners close at once; when it is through control's loop stops. */
bool stage_shutdown(enum shutdown_how how, struct err *err);
const char *stage_name(void); /* for SHOW STATE and the log */
/* done comes when every loop has carried out what was ordered before: the end of a KILL, RECONNECT or RESUME. */
struct stage_call *stage_settle(stage_done_fn done, void *arg);
struct stage_call *stage_suspend(stage_done_fn done, void *arg, struct err *err); /* transactions end, nothing new begins; until stage_resume(NULL) */
void stage_client_gone(struct worker *w); /* a client ended while the process is shutting down; in w's thread */
