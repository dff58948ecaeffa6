/* Bytes from clients to servers and back. The hot path: see docs/design.md.
 *
 *   client bytes -> frame -> (inspect) -> to_server parcel -> one send
 *   server bytes -> frame -> replies   -> to_client parcel -> one send
 *
 * A message that passes is handed on in pieces as it comes (pass_left counts what is still to come), so that messages of any size need no
 * memory. Backlog at one side pauses the other. */
#pragma once

#include "proxy/client.h"

extern const struct server_user_calls relay_server_calls;
size_t relay_client_bytes(struct client *c, const uint8_t *p, size_t len); /* logged in, not the console */
void relay_client_drained(struct client *c);
/* A ParameterStatus of its server's, whole: into the worker's to_client parcel, where the client is to be told. */
struct frame;
void relay_parameter(struct server *s, struct client *c, const uint8_t *p, const struct frame *f);
/* What the client owes now: it has a server, and the server waits for it or has done all that may be seen. Which time limit runs? */
void relay_watch_idle(struct client *c);
/* The client is thrown out or left: parts it from its server. */
void relay_part(struct client *c);
/* A cancel for a client that waits: its batch is refused with 57014. */
void relay_cancel_waiting(struct client *c);
