/* A client and its server: joined for a transaction, parted after it. What has to go ahead of the client's first message when they are
 * joined: the reset when the server changed hands between orgs, and the settings that differ, in the same send. */
#pragma once

#include "proxy/client.h"

/* What an entry in a server's replies stands for, beside its kind. */
enum mark {
	MARK_NONE,
	MARK_RESET,      /* our DISCARD ALL */
	MARK_SETTINGS,   /* our SET ...: note is the mask of parameters */
	MARK_AHEAD,      /* our Parse of a statement the server lacked: note is the statement (reference) */
	MARK_EVICT,      /* our Close of one it had too many: the same */
	MARK_NAMED,      /* the client's Parse of a name: note is the stmt_name, which the client's table owns */
	MARK_CLOSED,     /* the client's Close of a name: note is the stmt_name, owned */
	MARK_DUPLICATE,  /* Parse of a name it has: will fail; note is the name (owned text) */
	MARK_UNNAMED,    /* Parse of the unnamed statement */
	MARK_PLAN,       /* Bind or Describe of a statement: note is the statement (reference) */
	MARK_DEALLOCATE, /* Query or Execute that stands for a DEALLOCATE: its EmptyQueryResponse becomes that tag */
};

void link_init(struct client *c); /* a new client */
/* Asks the pool for a server. True: joined. False: it waits or is closed. */
bool link_get(struct client *c);
/* The same for a client that logs in and needs a server for it (proxy/welcome). */
void link_get_welcome(struct client *c);
/* Once, before the first message to a new server: puts what has to go ahead into the worker's to_server parcel. */
void link_prelude(struct client *c);
/* The transaction is over: the server goes back, the client is idle. */
void link_part(struct client *c);
void link_settled(void *owner, struct reply *r);
void link_undone(void *owner, struct reply *r);
