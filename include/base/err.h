/* What went wrong, for the caller to pass on: an SQLSTATE and a sentence.
 * Fallible calls return bool and fill a struct err that the caller gave. */
#pragma once

#include <stdbool.h>

struct err {
	char sqlstate[6]; /* "" until set */
	char text[506];
	char hint[64];    /* what to do about it; "": nothing */
};

/* Always returns false, so that a caller can say: return err_set(...). sqlstate NULL: XX000. err may be NULL. */
bool err_set(struct err *err, const char *sqlstate, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void err_hint(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* after err_set, which clears it */
