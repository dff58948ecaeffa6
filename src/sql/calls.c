/* Which functions a text calls, by name. Looser than the classifier in what it takes for a call: a name before a
 * parenthesis, unless it is a table's (behind INTO), an alias or a type (behind AS and ::). */
#include "sql/classify.h"

#include "sql/scan_priv.h"

#define NAME_ROOM 64 /* PostgreSQL's names have 63 bytes at most */

/* schema.name( : the schema is "" where none is written. */
struct chain {
	char schema[NAME_ROOM];
	char name[NAME_ROOM];
	unsigned parts;
	bool is_no_call; /* by what stands before it */
};

static bool is_listed(const char *name, const char *const *names, size_t n)
{
	while (n > 0) {
		int order = strcmp(name, names[n / 2]);
		if (order == 0)
			return true;
		if (order > 0) {
			names += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	return false;
}

/* A point inside of a quoted name is none between a schema and a name. */
static bool chain_is_listed(const struct chain *c, const char *const *names, size_t n)
{
	char both[2 * NAME_ROOM];
	size_t schema_len = strlen(c->schema);
	if (strchr(c->name, '.') || strchr(c->schema, '.'))
		return false;
	if (is_listed(c->name, names, n))
		return true;
	if (schema_len == 0)
		return false;
	memcpy(both, c->schema, schema_len);
	both[schema_len] = '.';
	strcpy(both + schema_len + 1, c->name);
	return is_listed(both, names, n);
}

static void chain_grow(struct chain *c, const struct scan *s)
{
	if (c->parts++ > 0)
		strcpy(c->schema, c->name);
	else
		c->schema[0] = '\0';
	scan_value_cut(s, c->name, sizeof(c->name));
}

static bool is_punct(const struct scan *s, enum token t, const char *text)
{
	return t == TOKEN_PUNCT && span_is(s->text, text);
}

static bool calls_as(struct span sql, bool backslash, const char *const *names, size_t n)
{
	struct scan s = scan_of(sql.p, sql.len);
	struct chain chain = {.parts = 0};
	bool behind_dot = false, bars_call = false; /* bars_call: the last token is one that makes the next name no call */
	enum token t;
	s.backslash = backslash;
	while ((t = scan_next(&s)) != TOKEN_END) {
		bool is_name = t == TOKEN_WORD || t == TOKEN_NAME;
		if (is_name && !behind_dot)
			chain = (struct chain){.parts = 0, .is_no_call = bars_call};
		if (is_name)
			chain_grow(&chain, &s);
		else if (is_punct(&s, t, "(") && chain.parts > 0 && !chain.is_no_call && chain_is_listed(&chain, names, n))
			return true;
		behind_dot = chain.parts > 0 && is_punct(&s, t, ".");
		if (!is_name && !behind_dot)
			chain.parts = 0;
		bars_call = is_punct(&s, t, "::") || (t == TOKEN_WORD && (scan_word_is(&s, "as") || scan_word_is(&s, "into")));
	}
	return false;
}

bool classify_calls(struct span sql, unsigned reading, const char *const *names, size_t n)
{
	bool backslash = reading & READING_BACKSLASH;
	if (n == 0)
		return false;
	if (calls_as(sql, backslash, names, n))
		return true;
	return reading & READING_EITHER && calls_as(sql, !backslash, names, n);
}
