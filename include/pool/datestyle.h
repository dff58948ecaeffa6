/* DateStyle is two settings in one, the style and the order of day, month and year, and SET with one of them leaves the other as it
 * stands. A client that asks for `ISO` at its start means that and the server's default order; said to a server that others have
 * used before, it would mean the order of theirs. Pure. */
#pragma once

#include <stdbool.h>

#define DATESTYLE_MOST 24

/* The whole of what was asked for, as PostgreSQL would report it after a start with the default `base`. False: there are words in it
 * that PostgreSQL shall judge. */
bool datestyle_complete(const char *asked, const char *base, char whole[DATESTYLE_MOST]);
