/* Tracked parameters of one connection: for a client what it asked for (NULL: never asked), for a server what is in force.
 * Values are interned per loop, so that comparing is comparing pointers. */
#pragma once

#include "base/buf.h"
#include "base/hash.h"
#include "cluster/setup.h"

struct guc_value {
	struct hash_link link;
	struct guc_book *book;
	int refs;
	char text[];
};
struct guc_book { /* one per loop */
	struct hash values;
};
struct guc_value *guc_of(struct guc_book *b, const char *text); /* a reference */
struct guc_value *guc_ref(struct guc_value *v); /* NULL stays NULL */
void guc_drop(struct guc_value **v);
void guc_book_free(struct guc_book *b);

/* What makes a session read-only: servers of a fenced cluster get it in their startup packet. */
#define READ_ONLY_SETTING "default_transaction_read_only"

struct gucs {
	struct guc_value *at[GUC_MOST]; /* refs; by setup->guc_names */
	uint32_t set;                   /* bits of those that are not NULL */
	uint32_t firm; /* a server's at login: bits of those that connect_query set, which RESET would not bring back */
};
void gucs_set(struct gucs *g, int i, struct guc_value *v /* ref given over */);
void gucs_copy(struct gucs *to, const struct gucs *from);
void gucs_clear(struct gucs *g);

/* Appends the SQL that brings a server from `now` to what `want` asks for, where `login` is what the server started with:
 * SET name='value' or RESET name, each with its semicolon. Nothing can break out of a value. Returns a bit mask of the parameters changed; 0: nothing appended. */
uint32_t gucs_diff(const struct gucs *want, const struct gucs *now, const struct gucs *login, const struct setup *setup, struct buf *sql);
/* Bits of the parameters whose value differs. */
uint32_t gucs_differ(const struct gucs *a, const struct gucs *b);
void guc_quote(struct buf *sql, const char *value);
void guc_add_name(struct buf *sql, const char *name); /* quoted where it must be */
