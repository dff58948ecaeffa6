/* Our own questions to a server that nobody uses: the check query (TEST), server_reset_query and ROLLBACK (RESET). Each has
 * server_check_timeout; a mute or failing server is closed. When it is answered the server rests or serves the next waiter. */
#pragma once

#include "pool/server.h"

void ask_check(struct server *s);    /* IDLE -> TEST */
void ask_reset(struct server *s);    /* ACTIVE -> RESET: server_reset_query; DISCARD ALL where that might not do */
void ask_org_reset(struct server *s, const char *sql); /* IDLE -> RESET: it changes hands */
void ask_rollback(struct server *s); /* ACTIVE -> RESET */
size_t ask_bytes(struct server *s, const uint8_t *p, size_t len);
void ask_timeout(struct server *s);
