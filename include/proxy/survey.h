/* A survey: hot_storage_query, run on a pooled server as proxy/lookup runs auth_query: a waiter like any client, in the org "default". In a
 * READ ONLY transaction with a statement_timeout; a survey of thousands of tables may take its time, but not for ever. Its columns are org
 * and bytes. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "conf/conf.h"
#include "loop/loop.h"

struct survey_row {
	char org[ORG_ID_MOST + 1];
	double bytes;
};

struct survey_answer {
	const struct survey_row *rows; /* borrows; several of one org are possible */
	size_t n;
	size_t ignored;                /* rows whose org is no id, or whose bytes are no number; not those with a NULL */
	const struct err *err;         /* NULL: it went well; else rows are worth nothing */
};

struct survey_question {
	const char *entry, *user, *query; /* copied */
	usec_t most;                      /* time that it may take in PostgreSQL, and as much again to wait for a server */
	size_t rows_most;
};

struct survey;
/* In the asker's loop; done is called there, once, not before this has returned. */
struct survey *survey_start(struct loop *asker, const struct survey_question *q, void (*done)(void *arg, const struct survey_answer *a), void *arg);
void survey_forget(struct survey **s); /* done is not called any more */
struct worker;
void surveys_end(struct worker *home); /* at the process's end */
