/* Orders over a lane's pools, of one entry or all (NULL): PAUSE, RESUME, RECONNECT, KILL, WAIT_CLOSE, SHUTDOWN WAIT_FOR_SERVERS.
 * The flags that last (paused, disabled) are the entry tally's or lane->suspended; here is what has to be done at once, and who
 * waits for the end of it. */
#pragma once

#include "loop/gather.h"
#include "pool/pool.h"

/* Idle servers are closed now, busy ones when they come free. */
void order_pause(struct lane *l, struct tally *entry);
void order_resume(struct lane *l, struct tally *entry);
void order_reconnect(struct lane *l, struct tally *entry); /* all servers go stale */
void order_kill(struct lane *l, struct tally *entry, const struct err *why); /* all servers are closed now */
/* Answers the part (part_done) when no server of the entry is left in the lane (pause, wait_close of stale ones). */
enum order_until {
	ORDER_NO_SERVERS,
	ORDER_NO_BUSY_SERVERS, /* suspend: those that rest stay */
	ORDER_NO_STALE_SERVERS,
	ORDER_NO_WRITES, /* nothing runs any more that was sent before its org was frozen */
};
void order_wait(struct lane *l, struct tally *entry, enum order_until until, struct part *p, void (*done)(struct part *p));
/* PAUSE ORG: no transaction of the org's begins, and done is called when none runs any more; its servers are closed as they come free. */
void order_pause_org(struct lane *l, const char *org, struct part *p, void (*done)(struct part *p));
void order_resume_org(struct lane *l, const char *org); /* RESUME ORG: what waits for it is answered, and who waits is served */
/* RESUME: what waits for a pause or suspend of just this entry (NULL: of everything) is answered now. */
void order_cancel(struct lane *l, struct tally *entry);
void order_forget(struct lane *l, struct part *p); /* the asker went away */
void order_check(struct lane *l); /* a server was closed: called by server_close when lane->orders is not empty */
