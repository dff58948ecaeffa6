/* One line of [databases], [users], [clusters], [orgs], [peers] or [routes]: name = key=value key=value ...
 *
 * Each section has a table of keys, each a field of its struct. Everything wrong with a line is reported, not
 * only the first thing. */
#pragma once

#include "conf/load_priv.h"
#include "conf/near_priv.h"

struct key {
	struct field field;
	enum { KEY_BUILT, KEY_UNBUILT } state;
};

enum line_taken { LINE_TAKEN, LINE_UNKNOWN, LINE_BAD }; /* BAD: err says why */

struct line {
	struct load *load;
	const struct row *row;
	const struct key *keys;
	size_t n_keys;
	void *into; /* the struct that the keys' fields are of */

	/* what is in no table; NULL: nothing is */
	enum line_taken (*other)(struct line *line, const char *key, const char *value, struct err *err);
	void (*offer)(struct near *near); /* further names for "did you mean"; NULL: none */

	bool bad;
	bool after_secret; /* the pair before was a password: the next "key" may be the rest of it */
};

void line_read(struct line *line);

#define KEY(type, name, kind, words, least, most, flags, state) {{#name, kind, words, offsetof(type, name), least, most, flags}, state}
#define KEY_AT(type, name, place, kind, words, least, most, flags, state) {{#name, kind, words, offsetof(type, place), least, most, flags}, state}
