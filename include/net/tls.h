/* TLS by OpenSSL: settings for one side, and one connection's session. OpenSSL's error queue is cleared before
 * each call that is asked about. A session moves between threads only at rest. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/verify.h"

enum tls_side { TLS_ACCEPT, TLS_CONNECT };
enum tls_verify { TLS_VERIFY_NONE, TLS_VERIFY_CA, TLS_VERIFY_FULL, TLS_VERIFY_OPTIONAL };

/* Strings are borrowed for the call only; NULL or "": not set. PgBouncer's values (client_tls_*, server_tls_*). */
struct tls_want {
	enum tls_side side;
	enum tls_verify verify;
	const char *ca_file, *cert_file, *key_file;
	const char *protocols;   /* secure, all, tlsv1.2, tlsv1.3, comma list */
	const char *ciphers, *tls13_ciphers, *ecdhcurve, *dheparams;
	bool alpn_postgresql;    /* answer or offer ALPN "postgresql" */
};

struct tls_setup; /* immutable, counted */
struct tls_setup *tls_setup_new(const struct tls_want *want, struct err *err); /* NULL and err->text with OpenSSL's or the system's reason */
struct tls_setup *tls_setup_ref(struct tls_setup *s);
void tls_setup_drop(struct tls_setup **s);
/* Are two wants the same, contents of their files included? RELOAD recycles nothing when they are. */
uint64_t tls_want_digest(const struct tls_want *want);

enum tls_step { TLS_DONE, TLS_READ, TLS_WRITE, TLS_EOF, TLS_FAIL };

struct tls; /* one session */
struct tls *tls_new(struct tls_setup *setup, int fd, const char *host, struct err *err); /* host: connecting side only */
void tls_free(struct tls **t); /* sends close_notify if it can */
enum tls_step tls_handshake(struct tls *t, struct err *err);
/* As read and write; *n is what was moved when TLS_DONE. */
enum tls_step tls_read(struct tls *t, void *p, size_t room, size_t *n, struct err *err);
enum tls_step tls_write(struct tls *t, const void *p, size_t len, size_t *n, struct err *err);
size_t tls_pending(const struct tls *t);

const char *tls_sni(const struct tls *t);              /* the name the client asked for, or NULL; borrowed */
bool tls_alpn_is_postgresql(const struct tls *t);
void tls_print(const struct tls *t, char out[64]);     /* "TLSv1.3/TLS_AES_256_GCM_SHA384" */
bool tls_peer_has_cert(const struct tls *t);
/* The peer certificate's i-th name: its CN, then DNS names and URIs of the SAN; the caller's to free, NULL: there are no more. */
char *tls_peer_name(const struct tls *t, int i);
bool tls_peer_names(const struct tls *t, const char *name); /* is name the CN or a DNS SAN of the peer's certificate */
/* Channel binding tls-server-end-point (RFC 5929): the server certificate's hash; 0 when there is none. */
size_t tls_end_point(const struct tls *t, uint8_t out[64]);
