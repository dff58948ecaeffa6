/* Prepared statements: the messages that make, name and close them. Names are the client's own, servers know statements by their text, and
 * each exists where it is used (pool/stmt.h). The unnamed statement is the client's own too. See proxy/inspect.h for what the calls return. */
#pragma once

#include "proxy/inspect.h"

enum inspected prepared_parse(struct client *c, const uint8_t *body, size_t len, uint32_t *used);
enum inspected prepared_bind(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *used, uint32_t *want);
enum inspected prepared_describe(struct client *c, const uint8_t *body, size_t len, uint32_t *used);
enum inspected prepared_close(struct client *c, const uint8_t *body, size_t len);
/* A message that drops the unnamed statement if it is not skipped, as each Query is, and its answer is expected. */
void prepared_expect_unnamed_gone(struct client *c, enum reply_kind kind);
/* The same for a message whose answer keeps another note. */
void prepared_unnamed_goes(struct client *c);
/* May the client name one more statement (max_client_statements, max_client_statement_bytes)? len: of what stands behind the name in its Parse. */
bool prepared_may_name(const struct client *c, const char *name, size_t len, struct err *err);
