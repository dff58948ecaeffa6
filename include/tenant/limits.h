/* May one more client come in? All caps hold together and at every instant: process, entry, user, org. Atomics; any thread. */
#pragma once

#include "base/err.h"
#include "cluster/tally.h"
#include "conf/conf.h"
#include "tenant/org.h"

/* What a client was counted in: one flag each, so that it is given back exactly once, wherever the client ends. */
struct seats {
	bool process;
	struct tally *entry; /* NULL: not counted */
	struct tally *user;
	struct org *org;     /* borrows: the client holds the reference */
};

bool seats_take_process(struct seats *s, const struct conf *c, struct err *err); /* max_client_conn; 53300 */
bool seats_take_entry(struct seats *s, struct tally *entry, int most, struct err *err); /* max_db_client_connections */
bool seats_take_user(struct seats *s, struct tally *user, int most, struct err *err);
bool seats_take_org(struct seats *s, struct org *org, int most, struct err *err);
bool seats_move_org(struct seats *s, struct org *org, int most, struct err *err); /* from one org to another; as before where it fails */
void seats_give(struct seats *s);
int seats_process_count(void);
