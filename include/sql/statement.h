/* What one statement does to the session, as far as its first words tell. One row per kind in statement.def. Pure. */
#pragma once

#include "sql/scan.h"

enum statement_kind {
	STATEMENT_EMPTY,
	STATEMENT_OTHER,
	STATEMENT_BEGIN,          /* BEGIN, START TRANSACTION */
	STATEMENT_END,            /* COMMIT, END, ROLLBACK, ABORT (not ROLLBACK TO, not ... PREPARED) */
	STATEMENT_SET,            /* SET [SESSION] name = value | TO value; name in .name, value in .value (one constant or word) */
	STATEMENT_SET_LOCAL,
	STATEMENT_SET_CHARACTERISTICS, /* SET SESSION CHARACTERISTICS AS TRANSACTION */
	STATEMENT_SET_OTHER,      /* SET TRANSACTION, SET ROLE, SET SESSION AUTHORIZATION, SET CONSTRAINTS, SET XML OPTION */
	STATEMENT_RESET,          /* RESET name */
	STATEMENT_RESET_ALL,
	STATEMENT_SHOW,
	STATEMENT_DEALLOCATE,     /* DEALLOCATE [PREPARE] name */
	STATEMENT_DEALLOCATE_ALL,
	STATEMENT_DISCARD_ALL,
	STATEMENT_DISCARD,        /* PLANS, SEQUENCES, TEMP */
	STATEMENT_PREPARE,        /* PREPARE name (not PREPARE TRANSACTION) */
	STATEMENT_EXECUTE,
	STATEMENT_LISTEN,
	STATEMENT_UNLISTEN,
	STATEMENT_LOAD,
	STATEMENT_COPY,
};

struct statement {
	enum statement_kind kind;
	char name[64];   /* folded to lower case unless it was quoted; cut at 63 */
	char value[256]; /* SET: unescaped; "" and has_value false for DEFAULT, a list, or what does not fit */
	bool has_value;
	bool is_default; /* SET name TO DEFAULT */
	struct span text; /* the statement, without its semicolon */
};

/* The next statement of a text. False at the end. Empty statements between semicolons are skipped. */
bool statement_next(struct scan *s, struct statement *out);
