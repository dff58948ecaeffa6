/* A client's way in, a table of steps: what the first bytes are (TLS at once, SSLRequest, GSSENCRequest, startup, cancel), which org,
 * which entry, whether there is room, hand-over to the home loop, authentication, welcome. Until the last step the client
 * costs little and reveals nothing about which users or databases exist (mock SCRAM; "no such database" only after login). */
#pragma once

#include "proxy/client.h"

void greet_begin(struct client *c);                 /* a new connection: sets the login timer */
void greet_first(struct client *c, uint8_t byte);   /* stream_calls.first: TLS that comes without being asked for (0x16) */
size_t greet_bytes(struct client *c, const uint8_t *p, size_t len);
void greet_secured(struct client *c);
bool greet_is_cancel(const struct client *c);       /* it is a cancel request, which is seen through though its sender leaves */
void greet_timeout(struct client *c);               /* client_login_timeout */
void greet_free(struct client *c);

/* As PostgreSQL takes it; the caller's to free. */
char *application_name_clean(const char *name);
/* What the login revealed (SCRAM keys, clear password, auth_query's secret) goes to the target that will need it, but only when
 * its server user is the very user that logged in. Called by client_welcome; c->greet is freed after it. */
void greet_teach(struct client *c, struct target *t);
