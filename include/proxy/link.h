/* A client and its server: joined for a transaction, parted after it. What has to go ahead of the client's first message when they are
 * joined: the reset when the server changed hands between orgs, and the settings that differ, in the same send. */
#pragma once

#include "proxy/client.h"

/* What an entry in a server's replies stands for, beside its kind. */
enum mark {
	MARK_NONE,
	MARK_PLAN,       /* Bind or Describe of a statement: note is its serial, tag the hash of the client's name for it */
	/* from here on: what link_settled and link_undone are told of */
	MARK_RESET,      /* our DISCARD ALL */
	MARK_SETTINGS,   /* our SET ...: note is the mask of parameters */
	MARK_UNWRAP,     /* our COMMIT or ROLLBACK of a block that was opened for the client's batch: its ReadyForQuery is the client's (proxy/fence) */
	MARK_REFUSED,    /* stands for a message of the client's that must not run, and fails or is never sent (REPLY_MAKE_UP); note is the struct err the client is told (owned) */
	/* from here on: what our picture of statements and names rests on */
	MARK_UNNAMED,    /* Parse of the unnamed statement, or what drops it: note is the one before (struct unnamed, owned); NULL: the Parse is ours, or nothing
	                  * stands before it for which it could be skipped */
	MARK_AHEAD,      /* our Parse of a statement the server lacked: note is the statement (reference) */
	MARK_EVICT,      /* our Close of one it had too many: the same */
	MARK_EVICT_GONE, /* ... and it has not got it any more: the same */
	MARK_NAMED,      /* the client's Parse of a name: note is the stmt_name (reference) */
	MARK_CLOSED,     /* the client's Close of a name: note is the stmt_name, owned */
	MARK_DUPLICATE,  /* Parse of a name it has: will fail; note is the name (owned text) */
	MARK_FORGETS,    /* Query or Execute whose text may be DEALLOCATE ALL or DISCARD ALL */
	MARK_DEALLOCATE, /* Query or Execute that stands for a DEALLOCATE: its tag becomes that; note is the stmt_name, owned */
};

_Static_assert(MARK_RESET == REPLY_MARK_TOLD, "replies tells of the marks from MARK_RESET on");
#define MARK_FIRST_NOTE MARK_UNNAMED

void link_init(struct client *c); /* a new client */
enum got {
	GOT_SERVER, /* joined */
	GOT_LATER,  /* it waits, or is closed */
	GOT_ERROR,  /* nobody can serve it while its cluster is down: err is for the client, who stays */
};
/* Asks the pool for a server. */
enum got link_get(struct client *c, struct err *err);
/* The same for a client that logs in and needs a server for it (proxy/welcome). */
void link_get_welcome(struct client *c);
/* Once, before the first message to a new server: puts what has to go ahead into the worker's to_server parcel. */
void link_prelude(struct client *c);
/* The client's settings are about to change inside a transaction: what they are is kept, until link_forget_gucs. */
void link_keep_gucs(struct client *c);
void link_forget_gucs(struct client *c);
/* The client's value of setting i is about to change: if it is the one of its startup packet, that is kept. */
void link_keep_start(struct client *c, int i);
/* Its transaction is over, in which it reset settings that its startup packet gave: RESET on the server led to the server's default, and for the
 * client they are what the packet said. Tells it so, ahead of the ReadyForQuery. */
void link_start_values(struct client *c);
/* The client has no server and nothing to do: client_idle_timeout runs. */
void link_idle(struct client *c);
/* The transaction is over, and the two stay together: the client is pinned. */
void link_stay(struct client *c);
/* The transaction is over: the server goes back, the client is idle. */
void link_part(struct client *c);
/* ... the client's part of it: it has no server any more. */
void link_parted(struct client *c);
/* The server says that its statements are gone: DEALLOCATE ALL, DISCARD ALL. Those whose Parse stands behind it are not. */
void link_statements_gone(struct client *c);
/* The server refused a message that names one of our statements. What was dropped where nobody could see it, in a function, comes back when it is
 * used next; a server that is shared is closed when it comes free, for others will be missing there too. What may not be used any more as it
 * is (0A000: cached plan must not change result type) is a new statement for who parses its text next. */
void link_plan_refused(struct client *c, uint64_t serial, const char *sqlstate);
/* A command tag: does it say that tables, views or functions have changed? Then what was prepared before may have another result or other
 * parameters than the text would have now. */
void link_note_tag(struct client *c, const uint8_t *tag, size_t len);
/* The transaction is over, and others see the change. */
void link_schema_changed(struct client *c);
/* The entry at the front, a DEALLOCATE in the simple protocol, fails: the name stays. */
void link_deallocate_failed(struct client *c, struct reply *front);
/* The entry at the front, which replaces the unnamed statement, fails and is not merely skipped: PostgreSQL has dropped the one before as well. */
void link_unnamed_failed(struct reply *front);
void link_settled(void *owner, struct reply *r);
void link_undone(void *owner, struct reply *r);
