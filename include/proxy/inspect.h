/* Messages that have to be understood before they are passed on: prepared statements and their names. Each puts what goes to the server into
 * the worker's to_server parcel and notes in the server's replies what will come back. The client is joined to a server. */
#pragma once

#include "proxy/client.h"
#include "wire/frame.h"

/* What a statement does, as far as its first word tells: enough to say what the loss of its answer means. */
enum effect { EFFECT_READS, EFFECT_WRITES, EFFECT_ENDS /* a transaction */ };
enum effect inspect_effect(const char first[FIRST_WORD]);
/* The worst of all that is under way. */
enum effect inspect_outcome(const struct client *c);

enum inspected { INSPECT_DONE, INSPECT_MORE, INSPECT_BAD, INSPECT_HOLD, INSPECT_DROP };

/* p: the message, f->have bytes of it. DONE: *used bytes of it were dealt with; what is left of it is plain and passes. MORE: *want bytes are needed.
 * DROP: it does not pass; something else stands for it. HOLD: what it means depends on the outcome of an earlier batch, which has to come through first. */
enum inspected inspect_message(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *used, uint32_t *want);
/* May the client name one more statement (max_client_statements, max_client_statement_bytes)? len: of what stands behind the name in its Parse. */
bool inspect_may_name(const struct client *c, const char *name, size_t len, struct err *err);
