/* Proving to a server who we are: what the logins of pools and of probes have in common. Bytes in, bytes out: no socket, no
 * configuration. */
#pragma once

#include "auth/scram.h"
#include "base/secret.h"

/* What we can prove ourselves with. Borrowed for the call. */
struct credentials {
	const char *user;
	const struct secret *secret;   /* as stored: plain, md5 or a SCRAM verifier; NULL or unset: none */
	const struct scram_keys *keys; /* of a client that logged in with SCRAM; NULL or not set: none */
	struct span end_point;         /* hash of the server's certificate for channel binding; empty: none, or no TLS */
};

/* How far the proof has come. Each request of the server's is legal in one of these only. */
enum proof {
	PROOF_UNASKED,
	PROOF_SENT,        /* password or md5 sent, or the server's own proof is right: only AuthenticationOk may follow */
	PROOF_SCRAM_FIRST, /* client-first sent */
	PROOF_SCRAM_FINAL, /* client-final sent: the server still has to prove itself */
};

struct login_auth {
	enum proof proof;
	struct scram_client *scram; /* owns; NULL: no SCRAM under way */
};

enum auth_result { AUTH_RESULT_WAIT, AUTH_RESULT_OK, AUTH_RESULT_REFUSED };

/* An Authentication message's body. WAIT: what was appended to `answer`, if anything, is to be sent (and wiped). OK: the server has
 * let us in. REFUSED: err says why; SQLSTATE 28000 where we have nothing to prove ourselves with, 08P01 where the server broke the rules. */
enum auth_result login_auth_take(struct login_auth *a, const struct credentials *c, struct span body, struct buf *answer, struct err *err);
void login_auth_free(struct login_auth *a);
