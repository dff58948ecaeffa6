/* Statements that drop prepared statements. The names of a client are known here only, so its DEALLOCATE of one is done here: the server
 * gets a statement in its place that has no effect, and the name goes when that is run. Which portals do such things is kept here too. */
#pragma once

#include "proxy/client.h"

#define DEALLOCATE_MOST 200 /* a DEALLOCATE is short; a longer text passes unread */

/* It is refused where DEALLOCATE is (in a transaction that has failed), and only there. */
#define STANDS_FOR_DEALLOCATE "SET pgweir.deallocated = ''"

#define DEALLOCATED_NAME 64
/* Is the text one statement, a DEALLOCATE of a name? */
bool deallocate_reads(const uint8_t *sql, size_t len, char name[DEALLOCATED_NAME]);
/* May it be DEALLOCATE ALL or DISCARD ALL, alone or among others? */
bool deallocate_may_be_all(const uint8_t *sql, size_t len);
bool deallocate_may_be_all_alone(const uint8_t *sql, size_t len); /* the text of Parse, which is one statement */
#define FORGETS_MOST 1024 /* a longer text is not looked through: it is taken to keep the statements */

/* A portal whose Execute drops statements. Few clients have any; of more than PORTALS_MOST the oldest is forgotten. */
#define PORTALS_MOST 64
struct portal {
	struct list link;  /* in client->portals */
	char *deallocates; /* owns: the name; NULL: none */
	bool forgets;      /* its text may be DEALLOCATE ALL or DISCARD ALL */
	bool was_run;      /* once is all that it can be run */
	char name[];
};
struct portal *portal_find(const struct client *c, const char *name); /* NULL: it does nothing of the kind */
void portal_bound(struct client *c, const char *name, const char *deallocates, bool forgets);
/* The messages that deallocate the name on the server: Describe of the portal, which fails if there is no such portal, then Parse, Bind, Close
 * of the statement, Execute, Close of the portal, under a name of ours; then Execute of the portal itself, which can be run once only. */
void deallocate_write(struct buf *out, const struct portal *p);
void portals_clear(struct client *c); /* they end with their transaction */
