/* Between pool/server.c and pool/login.c: a server's stream is opened by the login and belongs to the server, which hands its
 * bytes, its end and the end of its TLS handshake to the login while the state is LOGIN. */
#pragma once

#include "pool/server.h"

extern const struct stream_calls server_stream_calls; /* owner is the server */
void login_secured(struct server *s);                 /* the TLS handshake is through */
