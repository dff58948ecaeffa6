/* A connection from an application, or to the console. One state, one mover.
 *
 *   GREET -> IDLE <-> WAIT -> ACTIVE -> IDLE         any -> CLOSING
 *
 * Until its startup packet is read it lives on the worker that accepted it; then it is handed over once, to the worker that is
 * home of its entry's cluster (proxy/home), or to control's loop for the console. */
#pragma once

#include "loop/loop.h"
#include "net/stream.h"
#include "pool/pool.h"
#include "tenant/limits.h"
#include "tenant/org.h"

struct worker;
struct greet;
struct console;
struct lookup;
struct inventory;
struct speak;
struct move;

#define FIRST_WORD 16 /* bytes of a statement that are remembered */

/* A client's unnamed statement. */
struct unnamed {
	struct buf body; /* owns: query and types, as in Parse */
	uint64_t serial;  /* which of the client's unnamed statements it is */
	bool known;
	char *deallocates; /* owns: the name, if it stands for a DEALLOCATE of one; NULL */
	bool forgets;     /* it may be DEALLOCATE ALL or DISCARD ALL */
	bool changes_org; /* it is a change of org (proxy/speak) */
	bool touches;     /* it may touch what the session holds (proxy/inventory) */
	/* in a note: what the server had then */
	uint64_t server_of, server_serial;
};

/* Of its org's tx_rate, for the transaction at hand (proxy/throttle). */
enum toll {
	TOLL_NONE,
	TOLL_PAID,
	TOLL_REFUSED,  /* it waited for one in vain: what stands at the front is to be refused */
	TOLL_CANCELED, /* the same, by a cancel request */
};

/* Is it where its transactions are to go (proxy/place)? */
enum place {
	PLACE_SETTLED,
	PLACE_LATER, /* to be looked at before its next transaction */
	PLACE_NOW,   /* a reload has moved it, perhaps: as soon as it has no server */
};

enum client_state { CLIENT_GREET, CLIENT_IDLE, CLIENT_WAIT, CLIENT_ACTIVE, CLIENT_CLOSING, CLIENT_STATES };

struct client {
	uint64_t id;
	struct worker *worker;     /* borrows */
	enum client_state state;
	struct list link;          /* in worker->clients[state] */
	struct grave grave;
	struct stream stream;
	struct timer timer;        /* login timeout, then whichever time limit comes first (proxy/sweep) */
	usec_t deadline_query, deadline_xact, deadline_idle, deadline_wait, deadline_notice, deadline_inventory, deadline_rate; /* 0: none */

	/* who it is */
	char *user;                /* owns; NULL before the startup packet */
	char *database;            /* owns; as asked for */
	char *application_name;    /* owns; as asked for, may be NULL */
	struct org *org;           /* ref; NULL before it is resolved, and on the console */
	struct addr addr;
	bool tls;
	bool logged_in;
	bool admin;                /* may give console commands */
	bool stats;                /* may SHOW */
	struct seats seats;
	struct greet *greet;       /* owns; NULL after login (proxy/greet) */
	struct console *console;   /* owns; console clients only (admin) */

	/* its pooling */
	struct pool *pool;         /* borrows, counted by pool_client_add; NULL on the console */
	struct waiter waiter;
	struct server *server;     /* borrows, while ACTIVE */
	enum pool_mode mode;
	enum place place;
	struct pool *fallen_from;  /* borrows, counted by pool_client_add: its own, while it is served from a fallback; NULL: it is not */
	enum place fallen_place;
	struct move *move;         /* owns: it is on its way to its place on another worker (proxy/place); NULL: it is not */
	struct guc_value *routed_name; /* ref: the application_name by which its place was chosen, ... */
	bool stray;                /* it is at a place that a route leads away from: what it does there is noted (proxy/trail) */
	bool routed_name_matters;  /* ... where a route looks at that */
	enum toll toll;
	struct throttle *throttle; /* borrows: where it is held for want of a token; NULL: it is not */
	struct list throttle_link;
	bool looked_ahead;         /* in what has come of the batch at hand: there is no Execute */
	struct gucs gucs;          /* what it asked for */
	uint32_t start_bits;       /* bits of gucs: its startup packet gave them */
	struct guc_list *start;    /* ref: ... and what they were, of those that it changed since: to them RESET leads */
	uint32_t reset_due;        /* bits of gucs: the transaction at hand may have reset them */
	struct guc_list *named;    /* ref: the same of settings that PostgreSQL does not report */
	struct speak *speak;       /* owns: a change of org half done, or a visit to another org (proxy/speak); NULL: none */
	bool speaks;               /* it has prepared a change of org at least once */
	struct inventory *inventory; /* owns: what of its session the server is to be asked for (proxy/inventory); NULL: nothing */
	uint16_t touched;          /* TOUCH() bits: what that may be */
	uint16_t ties;             /* TOUCH() bits: what ties it to its server; it counts in org->pinned then */
	bool loaded;               /* a library: tied for good */
	bool unlisted;             /* it set more than can be remembered by name: tied until DISCARD ALL */
	bool unread_text;          /* a text passed of which the end was not looked at */
	struct stmt_names stmts;   /* the names it gave */
	struct unnamed unnamed;    /* the last unnamed Parse, for replay */
	uint64_t unnamed_serial;   /* of the latest */
	bool served;               /* has had a server at least once */

	/* the fence (proxy/fence) */
	uint8_t mode_told;         /* enum cluster_state: the last pgweir.mode (proxy/mode) */
	uint64_t epoch;            /* that it says it acts under; 0: none */
	struct gucs *gucs_before;  /* owns: gucs as its transaction found them; NULL: as they are now */
	uint8_t fence_batch;       /* FENCE_ bits of what it has passed on since the last ReadyForQuery; while the server is read-only */
	bool fence_sets;           /* ... among it something that may change how texts are read */
	bool portal_in_batch;      /* ... and a Bind of the unnamed portal */
	uint16_t portal_acts;      /* ACT_ bits of what the unnamed portal runs */

	/* the message at hand */
	uint32_t pass_left;        /* bytes still to be handed through */
	bool pass_drop;            /* ... or dropped */
	bool in_query;             /* something was sent that is not answered */
	bool link_due;             /* a server was granted: settings go ahead of the first message */
	bool welcome_due;          /* wants a server only to log in: to learn the welcome, to have its settings tried */
	bool verify_due;           /* ... asked for settings that no server of the target has accepted yet */
	bool may_part;             /* ReadyForQuery was passed on and nothing came from the client since */
	bool unflushed;            /* the last message is answered only when a Flush or Sync comes: nothing can be awaited yet */
	bool leaving;              /* said Terminate behind something that is not answered yet */
	bool changes_schema;       /* in the transaction at hand */
	char first[FIRST_WORD];    /* how the last statement begins: what its loss means (inspect_outcome) */
	bool ran;                  /* something was run since all was answered */
	uint8_t worst;             /* enum effect, of what was run before the last statement, or stands in its text behind its beginning */
	struct later welcome_later;
	uint32_t copy_syncs;       /* Syncs behind the last data of the COPY that the server reads, kept back */
	bool unnamed_in_batch;     /* it was parsed since the last Sync */
	bool holding;              /* what stands at the front waits until what a Sync closes off has come through (server->notes_behind) */
	struct list portals;       /* those that drop statements (proxy/deallocate) */

	uint32_t address;          /* what its cancel key says (proxy/address); 0: it has none yet */
	uint32_t slot;             /* in worker->slots, where it is now; 0: none */
	uint32_t cancel_secret;
	bool refusing;             /* skips to Sync after an error of ours */

	usec_t connected_at;
	usec_t request_at;         /* the query at hand began; or the wait for a server */
	usec_t xact_at;            /* the transaction at hand began; 0: none */
	usec_t query_at;
	usec_t canceled_at;        /* query_at of the one that PostgreSQL was asked to cancel */
};

struct client *client_new(struct worker *w, int fd, const struct addr *peer); /* state GREET */
void client_move(struct client *c, enum client_state to);
/* Ends it. What the client is told (why->sqlstate set: FATAL; NULL: nothing) and what the log says. Its server is released or abandoned. */
void client_close(struct client *c, const struct err *why, const char *reason);
/* An orderly goodbye: X or EOF. */
void client_leave(struct client *c, const char *reason);
/* Sends ready-made messages. */
void client_send(struct client *c, const struct buf *messages);
void client_error(struct client *c, const char *severity, const struct err *err); /* ErrorResponse only */
void client_who(const struct client *c, struct who *out, char peer[ADDR_TEXT]);
const char *client_state_name(const struct client *c); /* as SHOW CLIENTS: active, waiting, idle, ... */

