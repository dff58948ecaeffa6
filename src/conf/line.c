/* Lines of key=value pairs, read by a table of keys. */
#include "conf/line_priv.h"

#include <stdio.h>
#include <string.h>

#include "conf/ini.h"

static const struct key *find(const struct line *line, const char *name)
{
	for (size_t i = 0; i < line->n_keys; i++)
		if (strcmp(line->keys[i].field.name, name) == 0)
			return &line->keys[i];
	return NULL;
}

static void bad(struct line *line, const char *text)
{
	line->bad = true;
	load_error(line->load, line->row->file, line->row->line, "[%s] %.64s: %s", line->row->section, line->row->key, text);
}

static void unknown(struct line *line, const char *name)
{
	struct near near = {name, NULL, 0};
	char what[160];

	line->bad = true;
	if (line->after_secret) {
		bad(line, "unknown key behind the password, which must be quoted if it holds a blank");
		return;
	}
	for (size_t i = 0; i < line->n_keys; i++)
		near_offer(&near, line->keys[i].field.name);
	if (line->offer)
		line->offer(&near);
	snprintf(what, sizeof(what), "[%s] %.64s: unknown key", line->row->section, line->row->key);
	load_unknown(line->load, line->row, what, name, near.best);
}

static bool take(void *arg, const char *name, const char *value, struct err *err)
{
	struct line *line = arg;
	const struct key *key = find(line, name);
	enum line_taken taken = LINE_TAKEN;

	if (key && key->state == KEY_UNBUILT)
		load_unbuilt(line->load, line->row, "[%s] %s", line->row->section, name);
	if (key)
		taken = field_parse(&key->field, line->into, value, err) ? LINE_TAKEN : LINE_BAD;
	else
		taken = line->other ? line->other(line, name, value, err) : LINE_UNKNOWN;
	if (taken == LINE_BAD)
		bad(line, err->text);
	if (taken == LINE_UNKNOWN)
		unknown(line, name);
	line->after_secret = (key && key->field.kind == KIND_SECRET) || (taken == LINE_UNKNOWN && line->after_secret);
	return true;
}

void line_read(struct line *line)
{
	struct err err = {0};

	if (!pairs_read(line->row->value, take, line, &err))
		bad(line, err.text);
}
