/* The inside of the console, for console.c (the protocol), commands.c (what the commands do) and shows.c (the tables).
 *
 * A query is run command by command. One that cannot be answered at once leaves an errand: meanwhile nothing more is read from the
 * client. Whoever ends the errand answers it, and the console goes on; if the client left first, the errand is an orphan and
 * only freed. */
#pragma once

#include "admin/command_priv.h"
#include "admin/stage.h"
#include "proxy/client.h"

enum right { RIGHT_ALL, RIGHT_STATS, RIGHT_ADMIN };

struct show;

/* What a client's leaving, or its cancel, means for what it waits for. */
enum errand_undo {
	UNDO_NOTHING,
	UNDO_ON_CANCEL, /* a pending PAUSE: is resumed by a cancel, and stays when the client leaves */
	UNDO_ALWAYS,    /* a pending SUSPEND: nobody would resume it */
	UNDO_WAIT,      /* a mere wait: a cancel ends it */
};

struct errand {
	struct console *console;  /* borrows; NULL: the client is gone */
	const char *tag;          /* borrows: the answer when it went well */
	const struct show *show;  /* borrows: what is gathered; NULL */
	struct stage_call *stage; /* borrows: the order that is waited for; NULL */
	struct tally *entry;      /* borrows: whose order it is */
	enum errand_undo undo;
	char *text;               /* owns: a tag that is not constant; NULL */
};

struct console {
	struct client *client;  /* borrows: it owns us */
	struct buf sql;         /* owns: the query at hand */
	struct scan rest;       /* what of it is not run yet */
	struct buf out;         /* owns: answers that are not sent yet */
	struct errand *errand;  /* borrows: whoever ends it frees it; NULL: none */
	bool busy;              /* a query is at hand */
	bool failed;            /* ... the rest of which is skipped */
	bool running;           /* inside a command */
};

void console_fail(struct console *k, const char *sqlstate, const char *fmt, ...) PRINTF_LIKE(3, 4);
void console_fail_err(struct console *k, const struct err *err);
struct errand *errand_begin(struct console *k, const char *tag);
void errand_end(struct errand *e, const struct err *err); /* err NULL: the tag is the answer; "": what stands in out is */

/* commands.c, shows.c */
void command_run(struct console *k, const struct command *c);
bool show_run(struct console *k, const char *name, const char *by); /* by: a word behind it, or NULL. False: there is no such SHOW */
bool has_right(const struct client *c, enum right right);

/* The console's own pool and entry, which PgBouncer's tools see in its tables: counted, but no client of the pools. */
#define CONSOLE_DATABASE "pgbouncer"
