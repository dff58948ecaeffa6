/* Reads an INI file with inih, defeating what Debian's build would do to real files: its 200-byte lines,
 * " ;" as an inline comment, and indented lines as continuations. Knows %include (10 levels, relative to the working directory).
 * Calls row() for each section header (key NULL) and each key; line counts from 1. Values end at the end of the line. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct ini_row {
	const char *file;
	int line;
	const char *section;
	const char *key;   /* NULL: the section begins */
	const char *value;
};
typedef void (*ini_row_fn)(void *arg, const struct ini_row *row);
/* Every fault is reported through fault(); true when there was none. */
typedef void (*ini_fault_fn)(void *arg, const char *file, int line, const char *text);

bool ini_read_file(const char *path, ini_row_fn row, ini_fault_fn fault, void *arg);
bool ini_read_text(const char *name, struct span text, ini_row_fn row, ini_fault_fn fault, void *arg);

/* libpq connection-string quoting: key=value key='va''l ue' key = value. Calls pair() for each; false with err->text on bad syntax. */
bool pairs_read(const char *text, bool (*pair)(void *arg, const char *key, const char *value, struct err *err), void *arg, struct err *err);
