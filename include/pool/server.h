/* A connection to PostgreSQL: one state, one mover. Its bytes go to whoever the state says: pool/login while it logs in, the
 * pool's own questions (pool/ask) while it is reset or tested, the proxy while it is ACTIVE.
 *
 *   DIAL -> LOGIN -> IDLE <-> ACTIVE -> RESET -> IDLE
 *                      |  <-> TEST       HELD (a cancel is under way)
 *   any -> CLOSING, which frees it at the end of the turn
 */
#pragma once

#include "auth/scram.h"
#include "base/log.h"
#include "cluster/word.h"
#include "loop/loop.h"
#include "net/dial.h"
#include "net/stream.h"
#include "pool/guc_list.h"
#include "pool/gucs.h"
#include "pool/replies.h"
#include "pool/stmt.h"

struct lane;
struct server;
struct pool;
struct target;
struct login;
struct secret;

enum server_state { SERVER_DIAL, SERVER_LOGIN, SERVER_IDLE, SERVER_ACTIVE, SERVER_RESET, SERVER_TEST, SERVER_HELD, SERVER_CLOSING, SERVER_STATES };
const char *server_state_name(enum server_state s); /* as SHOW SERVERS prints it: login, idle, active, ... */

/* Who keeps the server busy, as the proxy sees it; the pool never looks inside. */
struct server_user_calls {
	size_t (*bytes)(struct stream *s, const uint8_t *p, size_t len); /* owner is the server */
	void (*drained)(struct stream *s);
	/* The connection is lost or was told to end; the server is CLOSING already. why: SQLSTATE and text for the client. */
	void (*lost)(struct server *s, const struct err *why);
	/* An entry of s->replies was answered, or never will be; owner is the server. */
	void (*settled)(void *owner, struct reply *r);
	void (*undone)(void *owner, struct reply *r);
	/* A cap over several lanes (a user's) has room again and somebody waits for it. May be NULL. */
	void (*cap_room)(struct lane *l);
	/* Somebody begins to wait for such a cap: lanes where a server of that user rests let it go (lane_make_room). May be NULL. */
	void (*cap_wanted)(struct lane *l);
};

/* Who uses a server in a client's stead, for a question of the proxy's own (proxy/lookup): server->user is not a client then. */
struct asker {
	size_t (*bytes)(struct server *s, const uint8_t *p, size_t len); /* as stream_calls.bytes */
	void (*lost)(struct server *s, const struct err *why);           /* as server_user_calls.lost; why may be NULL */
};

struct server {
	uint64_t id;
	struct loop *loop;        /* borrows */
	struct lane *lane;        /* borrows */
	struct target *target;    /* borrows; the target outlives its servers */
	struct pool *pool;        /* borrows; changes when the server changes hands */
	enum server_state state;
	struct list link;         /* in pool->servers[state]; IDLE: youngest at the head */
	struct list idle_link;    /* in target->idle, oldest at the head, while IDLE */
	struct list lane_link;    /* in lane->idle, the same over all targets */
	struct grave grave;

	struct stream stream;
	struct dial *dial;        /* owns, in DIAL */
	struct login *login;      /* owns, in DIAL and LOGIN: pool/login.c's notes */
	void *user;               /* borrows: the proxy's client while ACTIVE; NULL */
	struct asker *asker;      /* borrows: who uses the server instead of a client: lookup; NULL. Whoever sets it clears it before the server is let go */
	struct replies replies;
	struct gucs gucs;         /* in force now */
	struct gucs gucs_at_login;
	struct guc_list *named;   /* ref: settings in force that PostgreSQL does not report, as its last client had them */
	uint32_t gucs_off;        /* bits of those in force that are not as at login; see server_gucs_changed */
	struct stmt_set stmts;
	uint32_t notes_open;      /* entries of replies on which our picture of its statements and the client's names rests */
	uint32_t forgets;         /* entries that may be DEALLOCATE ALL or DISCARD ALL: until they are through no name is sure */
	uint32_t notes_behind;    /* ... those of them that a Sync closes off: they may fail, and what comes behind that Sync must know */
	size_t parsed_bytes;      /* of texts that were sent to be parsed since nothing was owed */
	uint64_t unnamed_of;      /* whose unnamed statement it holds: client id, 0 none */
	uint64_t unnamed_serial;  /* ... and which of his: he may have had another since, on another server */

	char status;              /* of the last ReadyForQuery: I T E; 0 before the first */
	bool stale;               /* opened under another configuration, or RECONNECT: closed when it comes free */
	bool session;             /* the client that has it, or had it last, pools by session: server_reset_query is due before anybody else gets it */
	bool was_reset;           /* by server_reset_query or its like, since it was last used */
	bool unsure;              /* the session may hold what only a full reset clears, and nobody has asked */
	bool discarded;           /* by DISCARD ALL or its like: what connect_query did is to be done again */
	bool dirty;               /* changed hands: the reset is due ahead of the next query */
	bool gone;                /* CLOSING is over: only its memory is left, for a cancel call to end with */
	struct pool *evicted_for; /* borrows, CLOSING: whose waiter gets the slot; it stays while its n_evictions is not 0 */
	bool said_fatal;          /* its own last words went to the client: nothing is added to them */
	bool in_use;              /* from when it is given to a user until it comes free: slot time (pool/blocked.h) */
	uint8_t cancels;          /* cancel connections under way for it */
	bool idle_after_cancel;   /* HELD: becomes free, not closed, when the cancels end */
	uint32_t pid, key;        /* BackendKeyData */
	char host[128];           /* what was dialled, for verify-full, cancel and SHOW SERVERS */
	struct addr addr;         /* who answered */
	int port;
	bool tls;
	uint64_t tls_digest;
	word_t word;              /* the cluster's, and who its primary was, when it was dialled: see server_is_of_now. It is what its transactions are stamped with */
	uint64_t primary;
	bool read_only;           /* its session is, from its startup packet on: the fence was up, or the org frozen */
	bool frozen;              /* it was opened for a frozen org */
	bool reader;              /* opened to a replica (prefer=replica): it says nothing about the primary */
	uint32_t pass_left;       /* bytes of the message at hand still to be handed through */
	bool pass_drop;           /* ... or to be dropped */

	usec_t opened_at;         /* dial began */
	usec_t ready_at;          /* logged in */
	usec_t request_at;        /* last given to a client */
	usec_t used_since;        /* the same, while the slot is in use: until it rests or is closed; else 0 */
	usec_t idle_since;
	usec_t lifetime;          /* with its spread; 0: use once */
	struct timer timer;       /* DIAL/LOGIN: connect timeout; RESET/TEST: check timeout; else idle time and lifetime, lazily */
	char welcome_version[32]; /* server_version, for SHOW */
};

/* Begins a connection for a pool; tallies and permit are taken by the caller (lane). */
struct server *server_open(struct pool *p);
/* The only writer of `state`. Checks the move, moves the lists, logs at DEBUG. */
void server_move(struct server *s, enum server_state to);
/* Ends it: Terminate is sent if it is at rest, the log says why, a user is told by calls->lost if `why` is not NULL. Tallies and permit go back
 * when PostgreSQL has closed its side too, so that no cap is passed on the server either. */
void server_close(struct server *s, const struct err *why, const char *reason);
/* ... which is here; by force at the end of the process. */
void server_gone(struct server *s);
/* Logged in (pool/login says so, once): becomes IDLE and serves the first waiter. */
void server_ready(struct server *s);
/* Login failed: err has the server's own SQLSTATE and text when it gave one. */
void server_failed(struct server *s, const struct err *err, bool server_said);
/* An idle server changes hands to another org's pool of the same target; the caller sees to the reset. */
void server_change_pool(struct server *s, struct pool *to);
/* Given to a user: IDLE to ACTIVE. */
void server_take(struct server *s, void *user);
/* The user is done with it, at a message boundary with nothing owed: goes to the next waiter, is reset, is closed or rests. */
void server_release(struct server *s);
/* The user vanished or is thrown out while the server is busy: it is cancelled, held, and closed; a mere open transaction is rolled back and it lives on. */
void server_abandon(struct server *s);
/* A cancel connection for it begins or ends. While there is one, nobody else gets the server. */
void server_cancel_begin(struct server *s);
void server_cancel_end(struct server *s);
/* A ParameterStatus body: notes a tracked value. Returns its index, or -1 when it is not tracked or not well formed. */
int server_parameter(struct server *s, const uint8_t *body, size_t len);
/* Its session was to be read-only, and is not any more: nobody may use it. */
bool server_is_lifted(const struct server *s);
/* After any change of s->gucs or s->gucs_at_login. */
void server_gucs_changed(struct server *s);
/* DISCARD ALL has gone through or will before anything else: statements are gone, unreported settings are back. */
void server_discarded(struct server *s);
/* It is to be closed when it comes free: at once if it is, and under server_fast_close also where a session that pools by session
 * has nothing under way (see server_is_fast_closed). */
void server_make_stale(struct server *s, const char *reason);
bool server_is_fast_closed(const struct server *s);
/* Has its time come: another configuration, lifetime over, pool too large, entry paused? NULL: it may go on; else why not. */
const char *server_overdue(const struct server *s);
bool server_is_clean(const struct server *s); /* nothing owed, status I, no batch open, no half message */
void server_who(const struct server *s, struct who *out, char peer[ADDR_TEXT]);
