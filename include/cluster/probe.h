/* One look at one host of a cluster: it is dialled and logged in to, as any server, and asked what it is. A connection of its own each
 * time: a server that lets nobody new in is down for those who need it, however well its old sessions are.
 *
 * With a user, the login is that of a walsender (replication=database), which can be asked by SQL for its role and by IDENTIFY_SYSTEM for system
 * identifier, timeline and position; one who may not do that is logged in again as a plain client and asked for the role alone.
 * Without a user, any answer to the startup packet but "not now" means that the server is up. */
#pragma once

#include "base/secret.h"
#include "cluster/primary.h"
#include "loop/loop.h"

struct tls_setup;

enum probe_depth { PROBE_ANSWER, PROBE_ROLE, PROBE_IDENTITY };

/* Borrowed for the call of probe_start. */
struct probe_want {
	const char *host; /* as dial_target's */
	int port;
	enum probe_depth depth;
	const char *user, *dbname;     /* of no meaning for PROBE_ANSWER */
	const struct secret *password; /* as stored; NULL: none */
	struct tls_setup *tls;         /* NULL: in clear */
	bool tls_required;
	usec_t timeout;
};

struct probe_result {
	struct sighting seen;
	struct err no_identity; /* PROBE_IDENTITY: why only the role is known; "" */
};

struct probe;
typedef void (*probe_done_fn)(void *owner, const struct probe_result *r);

/* done comes once, after probe_start has returned; not after probe_stop. */
struct probe *probe_start(struct loop *l, const struct probe_want *w, probe_done_fn done, void *owner);
void probe_stop(struct probe **p);
