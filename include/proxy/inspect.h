/* What has to be understood of a message before it is passed on. What goes to the server in its place is put into the worker's to_server
 * parcel, and what will come back is noted in the server's replies. The client is joined to a server. */
#pragma once

#include "proxy/client.h"
#include "wire/frame.h"

#define TEXT_LEAST 4096 /* bytes of a text that is looked at are asked for at once */

enum inspected { INSPECT_DONE, INSPECT_MORE, INSPECT_BAD, INSPECT_HOLD, INSPECT_DROP };

/* p: the message, f->have bytes of it. DONE: *used bytes of it were dealt with; what is left of it is plain and passes. MORE: *want bytes are needed.
 * DROP: it does not pass; something else stands for it. HOLD: what it means depends on the outcome of an earlier batch, which has to come through first. */
enum inspected inspect_message(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *used, uint32_t *want);
