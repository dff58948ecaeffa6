/* What must not run. With a server at work: a message that refers to what does not exist goes to the server in its place. So it fails at its place among the client's
 * messages, with the transaction failing as it must, and the client is told `err` for it. */
#pragma once

#include "proxy/client.h"
#include "wire/frame.h"

/* The message at the front is thrown away as it comes. */
static inline void refuse_drop(struct client *c, const struct frame *f)
{
	c->pass_left = f->size;
	c->pass_drop = true;
}
/* Without a server, or with none any more: told here at once. A simple one has its ReadyForQuery, behind an extended one the rest is skipped up to
 * Sync. The message is dropped. */
void refuse_here(struct client *c, const struct frame *f, const struct err *err);

void refuse_parse(struct client *c, const struct err *err);
/* The caller passes what is behind the names of a Bind: its new head names this statement, and its answer is expected. */
const char *refuse_bind(struct client *c, const struct err *err);
void refuse_query(struct client *c, const struct err *err);
void refuse_call(struct client *c, const struct err *err);
/* A message of this type as a whole. */
void refuse_message(struct client *c, uint8_t type, const struct err *err);
