/* A session on a control store: it dials, logs in as any server's client does (TLS as for servers), listens on the channel pgweir, and runs one
 * statement with text parameters at a time. When it is lost it comes back by itself, after a second at most. Control only.
 *
 * What is asked and what the answers mean is the owner's matter (cluster/council.c). */
#pragma once

#include "base/err.h"
#include "base/secret.h"
#include "loop/loop.h"

#define STORE_FIELDS_MOST 8
#define STORE_PARAMS_MOST 8

struct store;

/* The only row of an answer, or why there is none. Borrowed for the call. */
struct store_answer {
	const struct err *err; /* NULL: it was answered */
	bool lost;             /* with err: the session ended, and what came of the statement is not known */
	int n;
	const char *field[STORE_FIELDS_MOST]; /* "" for SQL null */
};

struct store_calls {
	void (*up)(void *owner);                         /* it may be asked now */
	void (*down)(void *owner, const struct err *why); /* it was lost, or could not be had; comes again with each try */
	void (*hint)(void *owner);                       /* a NOTIFY */
};

/* Where it is, for the next dial. Strings are borrowed, until store_close or the next store_follow. */
struct store_place {
	const char *host; /* as dial_target's */
	int port;
	const char *user, *dbname;
	const struct secret *password; /* as stored; NULL: none */
	struct tls_setup *tls;         /* NULL: in clear */
	bool tls_required;
	usec_t patience;               /* for a login, and for an answer */
};

struct store *store_open(struct loop *l, const struct store_place *at, const struct store_calls *calls, void *owner);
void store_follow(struct store *s, const struct store_place *at); /* a reload */
void store_close(struct store **s); /* no call comes after it */

bool store_is_idle(const struct store *s); /* it is up, and no statement is under way */
typedef void (*store_done_fn)(void *owner, const struct store_answer *a);
/* It is idle. `done` comes once, later, unless store_close comes first. */
void store_ask(struct store *s, const char *statement, const char *const *params, int n, store_done_fn done);
