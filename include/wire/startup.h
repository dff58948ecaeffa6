/* The first packet of a connection: StartupMessage, SSLRequest, GSSENCRequest or CancelRequest
 * (chapter 55.7). It comes from strangers: exact layout, exact lengths. Pure. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "wire/frame.h"

#define STARTUP_MOST 10004 /* PostgreSQL's limit: 10,000 bytes behind the length word */
#define PROTOCOL_3_0 0x00030000u
#define CODE_CANCEL 80877102u /* in the place of the version */
#define CODE_SSL 80877103u
#define CODE_GSS 80877104u
#define STARTUP_PARAMS_MOST 128

enum startup_kind { STARTUP_LOGIN, STARTUP_SSL, STARTUP_GSS, STARTUP_CANCEL };

struct startup_param {
	const char *name;  /* borrows the packet */
	const char *value;
};

struct startup {
	enum startup_kind kind;
	size_t size;          /* bytes of the packet */
	uint32_t version;     /* LOGIN: as asked for */
	const char *user;     /* borrow the packet; user is never NULL or empty, database defaults to user */
	const char *database;
	const char *replication; /* NULL: not asked for; as sent otherwise */
	int n_params;         /* all others in order, `options` included, _pq_. excluded */
	struct startup_param params[STARTUP_PARAMS_MOST];
	int n_extensions;     /* _pq_.* names */
	const char *extensions[STARTUP_PARAMS_MOST];
	bool negotiate;       /* a NegotiateProtocolVersion is due: minor above 0, or extensions */
	struct span key;      /* CANCEL: the whole key after the code, 8 bytes for protocol 3.0 */
};

/* PARSE_BAD fills err (08P01; 0A000 for a protocol version we do not speak). Refuses lengths at the 8th byte, before the rest is there. */
enum parse startup_parse(const uint8_t *p, size_t len, struct startup *out, struct err *err);
void startup_negotiate(struct buf *b, const struct startup *s); /* NegotiateProtocolVersion: 3.0 and the unknown names */

/* The `options` startup parameter as PostgreSQL splits it: "-c name=value", "-cname=value", "--name=value", backslash escapes.
 * Calls set(arg, name, value) for each; in a name dashes become underscores. False with err->text
 * "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed" for anything else. */
bool startup_options(const char *options, bool (*set)(void *arg, const char *name, const char *value, struct err *err), void *arg, struct err *err);
