/* Between watch.c, which moves a cluster on and tells the workers, and round.c, which asks its hosts and judges what they say. */
#pragma once

#include "base/log.h"
#include "cluster/watch.h"

struct watch_here {
	struct loop *loop;       /* borrows: control's; NULL: not started */
	struct setup *setup;     /* ref */
	struct epoch_book *book; /* owns */
	watch_changed_fn changed;
	struct list all;         /* watches, by the configuration's order of coming */
};
extern struct watch_here watch_here; /* watch.c writes it */

/* Without a user no probe can tell a primary from a replica: those under primary= are served as they are, all of them, while any of them answers. */
static inline bool watch_is_blind(const struct watch *w) { return !w->conf->probe_user[0]; }
int watch_host(const struct watch *w, const char *name); /* -1: no such host */

void watch_say(const struct watch *w, enum log_level level, const char *fmt, ...) PRINTF_LIKE(3, 4);
void watch_complain(struct watch *w, struct complaint *c, const struct err *what);

/* A round about the primary is over. host: who was found; -1 with BAD and CONFLICT. w->kept has its identity already; news: the disk has not. */
enum news { NEWS_NONE, NEWS_IDENTITY };
void watch_found(struct watch *w, enum breaker_finding f, int host, enum news news);
void watch_replicas(struct watch *w); /* a round is over: tells who may be read from */

void round_fire(struct timer *t); /* w->round: begins one */
void round_stop(struct watch *w); /* its answers will not be heard */

struct breaker_rules watch_rules(const struct watch *w);
void watch_heard(struct watch *w, enum agree_step step); /* the control store has spoken: does what agree.c says */
