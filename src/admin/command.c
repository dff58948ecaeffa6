/* See admin/command_priv.h. The tokens are SQL's, so comments, semicolons in quotes and nested quotes are where PostgreSQL sees them. Names
 * are not folded: to PgBouncer the database Db and the database db are two, quoted or not. */
#include "admin/command_priv.h"

#include <ctype.h>
#include <string.h>

/* The tokens of one command, read ahead of the scanner. */
struct reading {
	struct scan scan;
	enum token token;
};

static void advance(struct reading *r)
{
	r->token = scan_next(&r->scan);
}

static bool at_end(const struct reading *r)
{
	return r->token == TOKEN_END || r->token == TOKEN_SEMICOLON;
}

static bool is_bare(enum token t)
{
	return t == TOKEN_WORD || t == TOKEN_NUMBER;
}

static bool copy(struct span from, char *out, size_t room)
{
	if (from.len >= room)
		return false;
	memcpy(out, from.p, from.len);
	out[from.len] = '\0';
	return true;
}

static void read_verb(struct reading *r, struct command *c)
{
	if (r->token != TOKEN_WORD || !copy(r->scan.text, c->verb, sizeof(c->verb))) {
		c->verb[0] = '\0';
		return;
	}
	for (char *p = c->verb; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	advance(r);
}

/* A name, or a word with digits in front (7db), which SQL takes for two tokens. */
static bool read_arg(struct reading *r, char out[COMMAND_ARG_MOST])
{
	struct span text = r->scan.text;

	if (r->token == TOKEN_NAME) {
		bool fits = scan_value(&r->scan, out, COMMAND_ARG_MOST);
		advance(r);
		return fits;
	}
	if (!is_bare(r->token))
		return false;
	advance(r);
	while (is_bare(r->token) && r->scan.text.p == text.p + text.len) {
		text.len += r->scan.text.len;
		advance(r);
	}
	return copy(text, out, COMMAND_ARG_MOST);
}

static bool is_assignment(const struct reading *r)
{
	return (r->token == TOKEN_PUNCT && span_is(r->scan.text, "=")) || (r->token == TOKEN_WORD && scan_word_is(&r->scan, "to"));
}

/* One quoted constant, or whatever stands there up to the end: paths, lists and durations need no quotes. */
static bool read_value(struct reading *r, struct command *c)
{
	const struct span first = r->scan.text;
	struct span last = first;
	int n = 0;

	c->value[0] = '\0';
	if (r->token == TOKEN_STRING || r->token == TOKEN_NAME) {
		bool fits = scan_value(&r->scan, c->value, sizeof(c->value));
		advance(r);
		return fits && at_end(r);
	}
	for (; !at_end(r); n++) {
		if (r->token == TOKEN_OPEN)
			return false;
		last = r->scan.text;
		advance(r);
	}
	return n > 0 && copy((struct span){first.p, (size_t)(last.p + last.len - first.p)}, c->value, sizeof(c->value));
}

static enum args read_args(struct reading *r, struct command *c)
{
	if (at_end(r))
		return ARGS_NONE;
	if (!read_arg(r, c->arg))
		return ARGS_OTHER;
	if (at_end(r))
		return ARGS_ONE;
	if (!is_assignment(r))
		return read_arg(r, c->more) && at_end(r) ? ARGS_TWO : ARGS_OTHER;
	advance(r);
	return read_value(r, c) ? ARGS_VALUE : ARGS_OTHER;
}

/* Up to the end of the command, whatever it holds. */
static void skip_rest(struct reading *r, struct command *c)
{
	while (!at_end(r)) {
		c->text.len = (size_t)(r->scan.text.p + r->scan.text.len - c->text.p);
		advance(r);
	}
}

bool command_next(struct scan *s, struct command *out)
{
	struct reading r = {.scan = *s};

	do
		advance(&r);
	while (r.token == TOKEN_SEMICOLON);
	memset(out, 0, offsetof(struct command, value));
	if (r.token == TOKEN_END) {
		*s = r.scan;
		return false;
	}
	out->text.p = r.scan.text.p;
	struct reading again = r;
	skip_rest(&again, out);
	read_verb(&r, out);
	out->args = read_args(&r, out);
	*s = again.scan;
	return true;
}
