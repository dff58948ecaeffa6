/* How a server connection is made: dial the target's next host, TLS by server_tls_sslmode, startup packet, authentication,
 * ParameterStatus and BackendKeyData, the first ReadyForQuery, connect_query. A table of steps. Servers are as hostile as clients
 * (CVE-2026-6665, -6666): all lengths checked, anything unasked is the end.
 *
 * It reports by server_ready or server_failed, each once. On the way it fills s->pid, key, gucs, gucs_at_login, status, tls, addr,
 * and target's welcome. Tries the target's hosts in turn, all of them, before it fails. */
#pragma once

#include "pool/server.h"

void login_begin(struct server *s);  /* state DIAL; never reports before it has returned */
size_t login_bytes(struct stream *st, const uint8_t *p, size_t len); /* state LOGIN */
void login_ended(struct server *s, const struct err *why);
void login_timeout(struct server *s); /* server_connect_timeout */
void login_free(struct server *s);    /* when the server closes, or is ready */

/* Dials the server's address and sends it a CancelRequest, over TLS if the server is on TLS; done once PostgreSQL has closed the
 * connection, or it failed, or cancel_wait_timeout is over. Holds the server for that time (server_cancel_begin/end). */
struct cancel_call;
struct cancel_call *login_cancel(struct server *s, void (*done)(void *owner), void *owner);
void login_cancel_end_all(struct lane *l); /* the process ends: nobody waits for PostgreSQL any more */
