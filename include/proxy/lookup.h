/* auth_query: asks a pooled connection of auth_user for a name's secret, as a waiter like any client. Runs in the lane's home loop;
 * the answer comes by mail to the asker's. Nothing the client sent but its user name goes to the server, and that as a bound parameter. */
#pragma once

#include "base/secret.h"
#include "proxy/client.h"

struct lookup;
enum lookup_result { LOOKUP_FOUND, LOOKUP_UNKNOWN, LOOKUP_FAILED }; /* FAILED: the client is told "bouncer config error", the log why */
typedef void (*lookup_done_fn)(struct client *c, enum lookup_result result, const struct secret *secret, const struct err *err);

/* entry: where the client wants to go; auth_dbname may name another. Never answers before it has returned.
 * The lookup ends with its answer: done is called once, and the pointer is worth nothing from then on. FAILED with SQLSTATE_CONFIG is a mistake
 * in the configuration, the log's business; with any other code it is the server's or the pool's own error, which the client may be told. */
struct lookup *lookup_start(struct client *c, const struct conf_entry *entry, const char *user, lookup_done_fn done);
void lookup_forget(struct lookup **l); /* the client went away */
/* A login of this user failed, whatever thread it was in: for a while its lookups are begun LOOKUPS_PER_SEC times a second at most, and
 * logins that come in between share the next one's answer. Nothing is kept, so a changed password is good at once. */
#define LOOKUPS_PER_SEC 10
void lookup_login_failed(const char *user);
void lookup_crowds_free(struct worker *home); /* at the process's end */
