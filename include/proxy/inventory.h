/* What a client's session holds beyond its transactions, in transaction and statement mode: settings that PostgreSQL does not report, and what
 * ties a session to its server connection (LISTEN, session advisory locks, temporary tables ..., sql/touch.def).
 *
 * A text that may touch any of it is noted when it goes to the server. When the transaction is over, and before the two part, the server itself
 * is asked what its session holds now: so rollbacks, savepoints, SET LOCAL, counted locks and what hides in several statements all come
 * out as PostgreSQL has them. Settings then follow the client (link_prelude); a tie keeps the two together until it is given up.
 * Nothing is asked of clients that touch nothing, nor with session_features=allow or in session mode. */
#pragma once

#include "proxy/client.h"

struct inventory;

bool inventory_watches(const struct client *c);
/* Are texts looked at, be it only for settings that are not the client's to set? */
bool inventory_reads(const struct client *c);
/* Worth keeping, with a statement that may be run later, perhaps by a client of another entry or under another configuration? */
bool inventory_may(const uint8_t *sql, size_t len);
/* The text is about to go to the client's server. False: it must not, err says why (session_features=reject, max_pinned). */
bool inventory_note(struct client *c, const uint8_t *sql, size_t len, struct err *err);
/* The values that are bound to a text which sets names that are not told: they may be such. p: what stands behind the names of a Bind and the
 * OID of a FunctionCall, format codes and values. False: not the client's to set. */
bool inventory_note_values(struct client *c, const uint8_t *p, const uint8_t *end, struct err *err);
#define VALUES_MOST (64 * 1024) /* bytes: the values of a larger message are not looked at */
/* Of this text the rest passes unread: from now on the tags tell. */
void inventory_note_unread(struct client *c);
void inventory_note_tag(struct client *c, const uint8_t *tag, size_t len); /* a CommandComplete's body */
/* What goes to the server may give up a tie; for a text of ours, which nobody reads. */
void inventory_note_giving(struct client *c);
/* DISCARD ALL has gone through. */
void inventory_discarded(struct client *c);
/* The client is between transactions and its server clean: they part, stay together, or the server is asked first. */
enum inventory_next { INVENTORY_PART, INVENTORY_STAY, INVENTORY_ASKING };
enum inventory_next inventory_next(struct client *c);
void inventory_free(struct client *c); /* the client ends */
/* The ties as SHOW CLIENTS prints them: words with commas, "" for none. */
#define TIES_TEXT 80
void inventory_print_ties(unsigned ties, char out[TIES_TEXT]);
