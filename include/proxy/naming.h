/* PostgreSQL's errors name a statement as it is called on the server (PGWEIR_<serial>); the client is told its own name for it. */
#pragma once

#include "proxy/client.h"

/* The ErrorResponse with this body, to the entry at the front of the server's replies. True: it named a statement of the client's, and was written to
 * `out` with the client's name in it. False: it may pass as it is. */
bool naming_error(struct client *c, const uint8_t *body, size_t len, struct buf *out);
