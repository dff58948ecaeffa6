/* One command of a console query, taken apart. Pure: what it means is the table's matter (commands.def). */
#pragma once

#include <stdbool.h>

#include "sql/scan.h"

#define COMMAND_WORD_MOST 32
#define COMMAND_ARG_MOST 128
#define COMMAND_VALUE_MOST 4096

/* What stands behind the verb. */
enum args {
	ARGS_NONE,
	ARGS_ONE,   /* a word, a number or a "quoted name" */
	ARGS_TWO,   /* two of them */
	ARGS_VALUE, /* name = value, name TO value */
	ARGS_OTHER, /* anything else */
};

struct command {
	struct span text;             /* as it was sent, without comments around it and without its semicolon */
	char verb[COMMAND_WORD_MOST]; /* in lower case; "": begins with no word, or with a longer one */
	enum args args;
	char arg[COMMAND_ARG_MOST];   /* as it was written: names of databases have their case; "quotes" are taken off */
	char more[COMMAND_ARG_MOST];  /* the second of two */
	char value[COMMAND_VALUE_MOST];
};

/* The next command of a query; those that are empty are skipped. False: there is none. */
bool command_next(struct scan *s, struct command *out);
