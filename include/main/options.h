/* The command line: pgweir [options] config.ini, as PgBouncer's. */
#pragma once

#include <stdbool.h>

struct options {
	const char *config; /* borrows argv */
	const char *user;
	bool daemon;
	bool quiet;
	int verbose;
	bool reboot;
};

enum options_result { OPTIONS_RUN, OPTIONS_DONE, OPTIONS_BAD };

/* Prints help, version or what is wrong by itself. */
enum options_result options_read(int argc, char **argv, struct options *out);
