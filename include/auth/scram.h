/* SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677; PostgreSQL chapter 55.3), both sides. Bytes in, bytes out:
 * no sockets, no policy. Peers on either side are hostile: all sizes come from lengths, all base64 is checked. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/secret.h"

#define SCRAM_KEY 32
#define SCRAM_SALT_MOST 1024
#define SCRAM_ITERATIONS_MOST 10000000

/* What a server stores, "SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey". */
struct scram_verifier {
	int iterations;
	struct buf salt; /* owns; raw bytes */
	uint8_t stored_key[SCRAM_KEY];
	uint8_t server_key[SCRAM_KEY];
};
bool scram_verifier_parse(const char *text, struct scram_verifier *v); /* false: it is something else; v is empty then */
bool scram_verifier_make(const struct secret *password, int iterations, struct scram_verifier *v); /* random salt, SASLprep */
/* For a name that does not exist: a verifier that no password matches, the same each time for the same name and seed. */
void scram_verifier_mock(const char *user, const uint8_t seed[32], int iterations, struct scram_verifier *v);
void scram_verifier_free(struct scram_verifier *v);

/* Keys that log in elsewhere without the password: the ClientKey that the client's proof revealed. */
struct scram_keys {
	bool set;
	uint8_t client_key[SCRAM_KEY];
	uint8_t server_key[SCRAM_KEY];
};

/* The accepting side. */
struct scram_server; /* owns its buffers */
struct scram_server *scram_server_new(const struct scram_verifier *v); /* copies v */
void scram_server_free(struct scram_server **s);
/* cb: tls-server-end-point hash for -PLUS; empty when TLS is off. plus: the client chose the -PLUS mechanism. cb_offered: we offered -PLUS.
 * client-first in, server-first out. False: malformed or not acceptable, err says (08P01; 28000 a downgrade; 0A000 an extension). */
bool scram_server_first(struct scram_server *s, struct span client_first, bool plus, bool cb_offered, struct span cb, struct buf *server_first, struct err *err);
/* client-final in. False: wrong proof or malformed (err->sqlstate 28P01 or 08P01; 28000: channel binding differs). Right: server-final out, keys filled. */
bool scram_server_final(struct scram_server *s, struct span client_final, struct buf *server_final, struct scram_keys *keys, struct err *err);

/* The connecting side. Either password or keys (then salt and iterations are the server's business). */
struct scram_client;
struct scram_client *scram_client_new(const struct secret *password, const struct scram_keys *keys); /* copies; one of them */
void scram_client_free(struct scram_client **c);
/* cb: empty: no channel binding (gs2 "n", or "y" when cb_possible but the server did not offer it). */
void scram_client_first(struct scram_client *c, bool plus, bool cb_possible, struct span cb, struct buf *client_first);
bool scram_client_next(struct scram_client *c, struct span server_first, struct buf *client_final, struct err *err);
bool scram_client_check(struct scram_client *c, struct span server_final, struct err *err); /* the server proves that it knows us */
