/* The lines of the files, kept with a snapshot: sections can so be worked off in an order of our choice, and the
 * console's SET can make a new snapshot without reading a file that may have changed since. Counted, immutable once read. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "conf/ini.h"

struct row {
	char *file; /* owns */
	int line;
	char *section, *key, *value; /* owns; key NULL: the section begins */
};

struct rows {
	atomic_int refs;
	struct row *at; /* owns */
	size_t count, room;
};

struct rows *rows_new(void);
void rows_add(struct rows *rows, const struct ini_row *row);
struct rows *rows_ref(struct rows *rows);
void rows_drop(struct rows **rows); /* the last one wipes the values, which hold passwords */
