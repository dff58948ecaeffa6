/* The fence and the epochs where messages pass (cluster/fence decides).
 *
 * A transaction is stamped by the server it runs on: server->word is the cluster's word that the server was opened under, and none is handed out
 * under another. When the cluster's word has moved on, nothing more goes to that server: it is closed, so that whatever was open there is
 * rolled back for certain. What the client sent before is answered first, so that no outcome is lost. */
#pragma once

#include "proxy/client.h"
#include "wire/frame.h"

/* Inline: it runs for every message. */
static inline bool fence_has_moved(const struct server *s)
{
	return cluster_word(s->lane->cluster) != s->word;
}

enum fence_step {
	FENCE_GO_ON,   /* with the server, or without one now */
	FENCE_HOLD,    /* the server has to answer first */
	FENCE_TOLD,    /* the message is dropped and its client told why */
	FENCE_GONE,    /* the client is closed */
};
/* fence_has_moved, and a message is about to pass. */
enum fence_step fence_moved(struct client *c, const struct frame *f);
/* The client has come to a server and says it acts under an epoch: refused when that is not the server's. */
enum fence_step fence_check_epoch(struct client *c, const struct frame *f);

/* ---- servers that are read-only from their startup packet on ---- */

enum fence_look {
	FENCE_LOOK_PASS,
	FENCE_LOOK_MORE,   /* *want bytes are needed */
	FENCE_LOOK_HOLD,   /* one batch at a time */
	FENCE_LOOK_REFUSE, /* err says why */
};
/* The message is about to pass. Opens the block that it must run in. */
enum fence_look fence_look(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *want, struct err *err);
/* ReadyForQuery for the client's batch has come, from a server that is read-only. True: it is kept back, for the block that was opened is to be ended first. */
bool fence_keeps_ready(struct client *c);
/* A parameter came, and server_is_lifted: the server and its client are closed. */
void fence_lifted(struct server *s);

/* ---- the client's place ---- */

/* The pool for a client of this org, whose home is here: that of exempt clients if it is one. */
struct pool *fence_pool(const struct client *c, const struct conf_entry *e, const char *org);
/* At login: an epoch that is stale already is refused, for it will not come back. */
bool fence_admits(const struct client *c, struct err *err);
bool fence_epoch_is_parameter(const char *name); /* pgweir.epoch, without case: ours, not to be passed on */
