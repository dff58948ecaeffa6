/* A prepared statement's text and parameter types, one per worker for all clients and servers that use it: found by content,
 * counted. Its name on servers is PGWEIR_<serial>. One loop. */
#pragma once

#include "base/buf.h"
#include "base/hash.h"
#include "base/list.h"

struct stmt {
	struct hash_link link;   /* in book->by_content, unless retired */
	struct stmt_book *book;
	int refs;
	uint64_t settings;       /* see stmt_of */
	bool forgets;            /* it may be DEALLOCATE ALL or DISCARD ALL; the proxy's */
	bool changes_org;        /* it is a change of org (proxy/speak); the proxy's */
	bool touches;            /* it may touch what the session holds (proxy/inventory); the proxy's */
	bool stands_in;          /* for a DEALLOCATE of a name (stmt_name); the proxy's */
	bool retired;            /* 0A000 was seen: a Parse of the same text makes a new one */
	uint64_t serial;         /* 64 bits: a name must not come round while an old server still has it */
	uint8_t name_len;
	char name[28];
	size_t len;
	uint8_t body[];          /* what stands behind the name in Parse: query, NUL, count, type OIDs */
};

struct stmt_book { /* one per worker */
	struct hash by_content;
	uint64_t last_serial;
	size_t bytes; /* held by all statements, for SHOW MEM */
};

/* A reference. settings: a hash of what the client asked for that changes what a text means (DateStyle, TimeZone ...), 0: nothing. Clients
 * that differ in it have statements of their own, since PostgreSQL reads constants when it parses. */
struct stmt *stmt_of(struct stmt_book *b, const uint8_t *body, size_t len, uint64_t settings);
struct stmt *stmt_ref(struct stmt *s);
void stmt_drop(struct stmt **s);
void stmt_retire(struct stmt *s);
void stmt_book_free(struct stmt_book *b);

/* The statements that exist on one server, least recently used first. */
struct stmt_copy {
	struct hash_link link; /* by serial */
	struct list lru;
	struct stmt *stmt;     /* ref */
};
struct stmt_set {
	struct hash by_serial;
	struct list lru;
};
void stmt_set_init(struct stmt_set *s);
bool stmt_set_use(struct stmt_set *s, const struct stmt *st);  /* is it there? moves it to the young end */
void stmt_set_add(struct stmt_set *s, struct stmt *st);        /* takes a reference of its own */
void stmt_set_take(struct stmt_set *s, const struct stmt *st); /* may be absent */
struct stmt *stmt_set_find(const struct stmt_set *s, uint64_t serial); /* NULL: it is not there; borrowed */
struct stmt *stmt_set_oldest(const struct stmt_set *s);        /* NULL: empty; borrowed */
void stmt_set_clear(struct stmt_set *s);
static inline size_t stmt_set_count(const struct stmt_set *s) { return s->by_serial.count; }

/* The names one client gave. Counted: the client's table holds one, and so does each Parse that is not answered yet, which may
 * fail when the name is no longer in the table. */
struct stmt_name {
	struct hash_link link;
	struct stmt *stmt; /* ref */
	char *deallocates; /* owns: the name, if the statement stands for a DEALLOCATE of one; NULL */
	int refs;
	size_t bytes;      /* what it comes to, with its statement, be it shared or not */
	char name[];
};
struct stmt_names {
	struct hash by_name;
	size_t bytes;           /* of those in the table */
	struct stmt_name *last; /* borrows: found or put last, if it is in the table yet */
};
struct stmt_name *stmt_name_find(struct stmt_names *names, const char *name);
struct stmt_name *stmt_name_new(const char *name, struct stmt *s); /* a reference, in no hash; takes a reference of its own to s */
struct stmt_name *stmt_name_ref(struct stmt_name *n);
void stmt_name_put(struct stmt_names *names, struct stmt_name *n);  /* the reference goes to the table */
void stmt_name_take(struct stmt_names *names, struct stmt_name *n); /* ... and comes back */
void stmt_name_free(struct stmt_name **n);                          /* a reference */
void stmt_names_clear(struct stmt_names *names);
void stmt_names_clear_settled(struct stmt_names *names);            /* all but those whose Parse is not answered yet */
/* Would one more be beyond these limits? 0: there is none. body_len: as in stmt_of. */
bool stmt_names_are_full(const struct stmt_names *names, const char *name, size_t body_len, size_t most, size_t most_bytes);
static inline size_t stmt_names_count(const struct stmt_names *names) { return names->by_name.count; }
