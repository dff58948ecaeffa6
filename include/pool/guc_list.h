/* Settings that PostgreSQL does not report (search_path, work_mem, role, app.user ...), as a client or a server connection has them: names and
 * values in the order in which they were set, which matters where one decides whether another may be set (role). Immutable and counted, so
 * that client and server that agree hold the same list; NULL is the empty one. One loop. */
#pragma once

#include "base/buf.h"
#include "pool/gucs.h"

struct guc_item {
	struct guc_value *name, *value; /* refs; interned in the loop's book */
};
struct guc_list {
	int refs;
	int n;
	uint64_t meaning; /* a hash of those that may change what a text means to PostgreSQL's parser; 0: none */
	bool temporary;   /* search_path names pg_temp: what is created without a word about it may be temporary */
	bool wide;        /* a value is not all ASCII, and means one thing in one client_encoding only */
	struct guc_item items[];
};

/* Beyond these a session is not carried from server to server. */
#define GUC_LIST_MOST 200
#define GUC_LIST_BYTES (64 * 1024)

struct guc_list *guc_list_ref(struct guc_list *l); /* NULL stays NULL */
void guc_list_drop(struct guc_list **l);
const struct guc_value *guc_list_find(const struct guc_list *l, const char *name); /* NULL: not in it */
bool guc_list_same(const struct guc_list *a, const struct guc_list *b);
/* A reference to `l` with name at its end (value NULL: without it); l itself if that changes nothing. Takes the reference to l. */
struct guc_list *guc_list_with(struct guc_list *l, struct guc_book *b, const char *name, const char *value);
bool guc_list_is_too_large(const struct guc_list *l);
/* Appends the SQL, each piece with its semicolon, that brings a session from `now` to `want`. Nothing can break out of a name or value.
 * first: SQL that each session of this kind begins with (connect_query), done again where something is reset; NULL: none. */
void guc_list_diff(const struct guc_list *want, const struct guc_list *now, const char *first, struct buf *sql);
