/* What a text of SQL does, as far as the text itself tells: the first of the fence's nets (docs/design.md, "The
 * classifier"). Pure, one pass, no allocation.
 *
 * In doubt it is never CLASS_READ: a text that is taken for a read and writes is a lost order. What no text tells, and
 * so passes for a read: what views, operators, casts, functions written as columns (row.f), and functions of the
 * user's own that bear a built-in's name hide. */
#pragma once

#include "sql/scan.h"

/* From harmless to harmful: of several statements the highest holds. */
enum sql_class {
	CLASS_READ,    /* changes nothing in the database */
	CLASS_UNKNOWN, /* may do anything: runs code that the text does not show, or we do not know the statement; COMMIT */
	CLASS_FLIP,    /* touches what makes a transaction read-only; the acts tell in which direction */
	CLASS_WRITE,
};

/* What else the caller has to know. Bits, each set if any statement does it. */
enum sql_act {
	ACT_BEGIN = 1 << 0,         /* BEGIN, START TRANSACTION */
	ACT_COMMIT = 1 << 1,        /* COMMIT, END */
	ACT_ROLLBACK = 1 << 2,      /* ROLLBACK, ABORT */
	ACT_CHAIN = 1 << 3,         /* ... AND CHAIN: a transaction begins where one ends */
	ACT_SAVEPOINT = 1 << 4,     /* SAVEPOINT, RELEASE, ROLLBACK TO */
	ACT_TWO_PHASE = 1 << 5,     /* PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED */
	ACT_READ_ONLY = 1 << 6,     /* says READ ONLY: BEGIN READ ONLY, SET TRANSACTION READ ONLY */
	ACT_LIFT = 1 << 7,          /* may make the transaction or the session writable: READ WRITE, a setting of that kind */
	ACT_RESET_ALL = 1 << 8,
	ACT_DISCARD_ALL = 1 << 9,
	ACT_RUNS_UNKNOWN = 1 << 10, /* runs code that is not seen; without this bit CLASS_UNKNOWN is a COMMIT's */
};

/* How the session reads text: which must be known, or a string ends elsewhere than we think. */
enum sql_reading {
	READING_CONFORMING = 0,   /* standard_conforming_strings is on */
	READING_BACKSLASH = 1,    /* it is off */
	READING_EITHER = 2,       /* it may be either: both are tried, the worse counts */
	READING_ODD_ENCODING = 4, /* a bit for any of these: see classify_reads_encoding */
};

struct classified {
	enum sql_class class;
	unsigned acts;
	unsigned statements; /* empty ones do not count */
};

/* Whether bytes in this client_encoding can be told apart as we do it. False: SJIS, BIG5, GBK and their like, where the
 * second byte of a character may look like a backslash, and names that we do not know. */
bool classify_reads_encoding(const char *name);

struct classified classify(struct span sql, unsigned reading);

/* One statement after the other, s as from scan_of; false at the end. out->statements is 1. */
bool classify_next(struct scan *s, struct classified *out);

/* Whether the text calls one of these functions or procedures: names as in the catalog ("enqueue", "app.enqueue"), in the
 * order of strcmp. A name without a schema fits calls with any schema or none, one with a schema those with that schema. */
bool classify_calls(struct span sql, unsigned reading, const char *const *names, size_t n);
