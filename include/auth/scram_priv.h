/* What the two sides of SCRAM share, and what only tests need. Not for other layers. */
#pragma once

#include "auth/scram.h"
#include "base/verify.h"

#define SCRAM_NONCE_RAW 18 /* random bytes of a nonce of ours; 24 characters */

/* RFC 5802 chapter 3. */
void scram_hmac(const uint8_t key[SCRAM_KEY], struct span text, uint8_t out[SCRAM_KEY]);
void scram_stored_key(const uint8_t client_key[SCRAM_KEY], uint8_t out[SCRAM_KEY]);
void scram_derive(struct span password, struct span salt, int iterations, uint8_t client_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY]);
void scram_xor(const uint8_t a[SCRAM_KEY], const uint8_t b[SCRAM_KEY], uint8_t out[SCRAM_KEY]);

/* Takes the next "x=value" and the comma behind it off the front of left. False: none there, or malformed. */
bool scram_take(struct span *left, char *name, struct span *value) MUST_CHECK;
/* The same where only this name will do. */
bool scram_take_named(struct span *left, char name, struct span *value) MUST_CHECK;
bool scram_is_printable(struct span nonce); /* "printable" of RFC 5802 chapter 7, at least one */
bool scram_iterations(struct span text, int *out) MUST_CHECK;

void scram_base64_add(struct buf *out, const void *p, size_t len);
/* Whole and canonical in alphabet and padding, at most `most` bytes when decoded. Adds to out. */
bool scram_base64_decode(struct span text, size_t most, struct buf *out) MUST_CHECK;
bool scram_base64_key(struct span text, uint8_t out[SCRAM_KEY]) MUST_CHECK;
void scram_nonce_add(struct buf *out);

/* Tests: a vector fixes what is random. Before the first message. */
void scram_server_fix(struct scram_server *s, const char *nonce);
void scram_client_fix(struct scram_client *c, const char *user, const char *nonce);
