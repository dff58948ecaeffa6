/* The body of a query: which words in its midst make it a write, and what it calls.
 *
 * A write hides in a query as INSERT INTO, MERGE INTO and SELECT INTO (INTO is a key word that no name can be), as
 * DELETE FROM and UPDATE of something, and as FOR UPDATE and its kin. Where one of these words is only a name, as in
 * SELECT delete FROM t, we say write: it could be told apart, but not without knowing SQL's grammar as well as the
 * server does.
 *
 * A call is a name before a parenthesis, unless the name is
 *   - a key word, of those that cannot be a function's name;
 *   - behind AS, WITH or RECURSIVE: an alias with its columns, or the type of a CAST;
 *   - behind a comma, and the parentheses are a list of names, and behind them comes AS and a query: one more of WITH;
 *   - behind :: (a type with its modifiers) or INTO (a table with its columns);
 *   - before SELECT or WITH: no argument begins with these, so it is JOIN (SELECT ...) or the like.
 * An alias without AS, v (a, b), cannot be told from a call and is taken for one.
 *
 * A name behind a point is a call as well, if what is before the point is an expression: (x).f is f(x). Behind a name
 * it is taken for a column, unless a function that writes is called so: f of a row of t, or of the value g in FROM
 * generate_series(1, 3) g, can be written t.f and g.f, and only the catalog tells.
 *
 * Some key words can be the name of a function as well: JOIN, ILIKE, OVER, FILTER, BY. They pass where something stands
 * in front of them that a call cannot follow. A closing parenthesis is such a thing, but for DISTINCT ON (...). */
#include "sql/builtin.h"
#include "sql/classify_priv.h"
#include "sql/scan_priv.h"
#include "sql/word_priv.h"

/* What a token means to the call behind it. */
enum mark {
	MARK_WORD, /* without a row */
	MARK_PLAIN, MARK_PREFIX,
	MARK_AS, MARK_BY, MARK_CHARACTER, MARK_DISTINCT, MARK_FILTER, MARK_FOR, MARK_GROUP, MARK_GROUPING, MARK_INFIX, MARK_INTO,
	MARK_METHOD, MARK_ON, MARK_ORDER, MARK_OVER, MARK_PARTITION, MARK_RECURSIVE, MARK_SETS, MARK_TABLESAMPLE, MARK_VARYING, MARK_WITH,
	MARK_NAME, /* quoted */
	MARK_CONSTANT, MARK_CLOSE, MARK_COMMA, MARK_CAST,
	MARK_OTHER,
};

static const struct word_row words[] = {
#define WORD(text, mark) WORD_ROW(text, MARK_##mark),
#include "sql/classes.def"
#undef WORD
};

/* A token that has gone by. What it means is looked up when a call depends on it, which is seldom. */
struct seen {
	enum token token;
	struct span text;
};

enum chain {
	CHAIN_NONE,
	CHAIN_OF_NAMES,      /* a.b.c has three parts */
	CHAIN_OF_ATTRIBUTES, /* (expression).a.b */
};

struct body {
	struct walk *walk;  /* borrows */
	struct seen before; /* the token before the one at hand */
	struct seen lead;   /* the token before the chain */
	enum chain chain;   /* what the token before belongs to */
	unsigned parts;     /* in a chain of names so far */
	bool catalog;       /* all parts but the last are pg_catalog */
	bool distinct_on;   /* the statement has one */
};

static bool seen_is_punct(const struct seen *t, char c)
{
	return t->token == TOKEN_PUNCT && t->text.len == 1 && *t->text.p == (uint8_t)c;
}

static enum mark punct_mark(const struct seen *t)
{
	if (span_is(t->text, "::"))
		return MARK_CAST;
	if (seen_is_punct(t, ')') || seen_is_punct(t, ']'))
		return MARK_CLOSE;
	return seen_is_punct(t, ',') ? MARK_COMMA : MARK_OTHER;
}

static enum mark seen_mark(const struct seen *t)
{
	switch (t->token) {
	case TOKEN_WORD: return (enum mark)word_find_folded(words, sizeof(words) / sizeof(words[0]), t->text);
	case TOKEN_NAME: return MARK_NAME;
	case TOKEN_STRING: case TOKEN_NUMBER: case TOKEN_PARAM: return MARK_CONSTANT;
	case TOKEN_PUNCT: return punct_mark(t);
	default: return MARK_OTHER;
	}
}

/* Looks ahead from where the walk stands. */

static bool next_is(const struct body *b, const char *lower)
{
	struct scan ahead = walk_ahead(b->walk);
	return scan_next(&ahead) == TOKEN_WORD && scan_word_is(&ahead, lower);
}

static bool next_are(const struct body *b, const char *lower, const char *second)
{
	struct scan ahead = walk_ahead(b->walk);
	return scan_next(&ahead) == TOKEN_WORD && scan_word_is(&ahead, lower) && scan_next(&ahead) == TOKEN_WORD && scan_word_is(&ahead, second);
}

static bool next_is_name(const struct body *b)
{
	struct scan ahead = walk_ahead(b->walk);
	enum token t = scan_next(&ahead);
	return t == TOKEN_WORD || t == TOKEN_NAME;
}

static bool is_punct(const struct scan *s, enum token t, char c)
{
	return t == TOKEN_PUNCT && s->text.len == 1 && *s->text.p == (uint8_t)c;
}

/* SELECT and WITH are reserved, VALUES is not: as a column it is not followed by a parenthesis. */
static bool query_begins(struct scan ahead)
{
	if (scan_next(&ahead) != TOKEN_WORD)
		return false;
	if (scan_word_is(&ahead, "select") || scan_word_is(&ahead, "with"))
		return true;
	bool values = scan_word_is(&ahead, "values");
	return values && is_punct(&ahead, scan_next(&ahead), '(');
}

/* Behind the opening parenthesis: names and commas, then AS [NOT] [MATERIALIZED] ( and a query. The last is what tells it
 * from FROM f (a, b) AS (c int). Whatever else comes ends the look, so that no byte is looked at for two names. */
static bool with_list_follows(const struct body *b)
{
	struct scan ahead = walk_ahead(b->walk);
	enum token t;
	while ((t = scan_next(&ahead)) == TOKEN_WORD || t == TOKEN_NAME || is_punct(&ahead, t, ','))
		;
	if (!is_punct(&ahead, t, ')') || scan_next(&ahead) != TOKEN_WORD || !scan_word_is(&ahead, "as"))
		return false;
	t = scan_next(&ahead);
	if (t == TOKEN_WORD && scan_word_is(&ahead, "not"))
		t = scan_next(&ahead);
	if (t == TOKEN_WORD && scan_word_is(&ahead, "materialized"))
		t = scan_next(&ahead);
	return is_punct(&ahead, t, '(') && query_begins(ahead);
}

/* Whether a call cannot stand behind this, so that a word which may be an operator is one. */
static bool operand_ended(const struct body *b, enum mark lead)
{
	return lead == MARK_WORD || lead == MARK_NAME || lead == MARK_CONSTANT || (lead == MARK_CLOSE && !b->distinct_on);
}

static bool over_is_called(const struct body *b, enum mark lead)
{
	if (next_is(b, "order") || next_are(b, "partition", "by"))
		return false;
	return lead != MARK_CLOSE || b->distinct_on;
}

/* Whether the one word before the parenthesis may be a function's name behind this lead. */
static bool word_is_called(const struct body *b, enum mark lead)
{
	switch (seen_mark(&b->before)) {
	case MARK_PLAIN: case MARK_AS: case MARK_CHARACTER: case MARK_DISTINCT: case MARK_FOR: case MARK_GROUP: case MARK_GROUPING:
	case MARK_ON: case MARK_WITH:
		return false;
	case MARK_BY: return lead != MARK_GROUP && lead != MARK_ORDER && lead != MARK_PARTITION;
	case MARK_FILTER: return !next_is(b, "where");
	case MARK_INFIX: return !operand_ended(b, lead);
	case MARK_METHOD: return lead != MARK_TABLESAMPLE;
	case MARK_OVER: return over_is_called(b, lead);
	case MARK_SETS: return lead != MARK_GROUPING;
	case MARK_VARYING: return lead != MARK_CHARACTER;
	default: return true;
	}
}

static bool name_is_called(const struct body *b, enum mark lead)
{
	switch (lead) {
	case MARK_AS: case MARK_CAST: case MARK_WITH: case MARK_RECURSIVE: case MARK_INTO: return false;
	default: return b->parts > 1 || word_is_called(b, lead);
	}
}

/* ::text and ::varchar leave a constant as it is; other types may make another name of it. */
static enum token casts_skip(struct scan *ahead)
{
	enum token t = scan_next(ahead);
	while (t == TOKEN_PUNCT && span_is(ahead->text, "::")) {
		if (scan_next(ahead) != TOKEN_WORD || (!scan_word_is(ahead, "text") && !scan_word_is(ahead, "varchar")))
			return TOKEN_END;
		t = scan_next(ahead);
	}
	return t;
}

/* set_config. A constant tells which setting, a parameter does when it is bound, anything else never does. */
static void setting_call(const struct body *b)
{
	char name[WORD_MOST + 1];
	struct scan ahead = walk_ahead(b->walk);
	enum token first = scan_next(&ahead);
	bool constant = first == TOKEN_STRING && scan_value(&ahead, name, sizeof(name));
	enum token behind = casts_skip(&ahead);
	bool alone = is_punct(&ahead, behind, ',');
	if (alone && first == TOKEN_PARAM)
		walk_raise(b->walk, CLASS_UNKNOWN, ACT_RUNS_UNKNOWN);
	else if (!alone || !constant || setting_is_fence(name))
		walk_raise(b->walk, CLASS_FLIP, ACT_LIFT);
}

/* A quoted name as it is meant; false where that cannot be told. */
static bool quoted_read(const struct body *b, const struct seen *t, char out[WORD_MOST + 1])
{
	struct scan s = walk_ahead(b->walk);
	s.p = t->text.p + t->text.len;
	s.text = t->text;
	return scan_value(&s, out, WORD_MOST + 1);
}

static enum builtin seen_find(const struct body *b, const struct seen *t)
{
	char name[WORD_MOST + 1];
	if (t->token == TOKEN_NAME)
		return quoted_read(b, t, name) ? builtin_find(name, strlen(name)) : BUILTIN_NONE;
	return t->text.len <= WORD_MOST ? builtin_find(name, word_fold(name, t->text.p, t->text.len)) : BUILTIN_NONE;
}

/* The function that the chain names. */
static enum builtin chain_find(const struct body *b)
{
	return b->parts == 1 || b->catalog ? seen_find(b, &b->before) : BUILTIN_NONE;
}

static void unknown_call(const struct body *b, enum mark lead)
{
	if (b->walk->out->acts & ACT_RUNS_UNKNOWN)
		return; /* said already */
	if (query_begins(walk_ahead(b->walk)) || (lead == MARK_COMMA && b->parts == 1 && with_list_follows(b)))
		return;
	walk_raise(b->walk, CLASS_UNKNOWN, ACT_RUNS_UNKNOWN);
}

/* At the parenthesis behind a name. What is harmless when called need not be told from what is not called. */
static void parenthesis_read(const struct body *b)
{
	enum builtin found = chain_find(b);
	if (found == BUILTIN_READ)
		return;
	enum mark lead = seen_mark(&b->lead);
	if (!name_is_called(b, lead))
		return;
	switch (found) {
	case BUILTIN_READ: break;
	case BUILTIN_WRITE: walk_write(b->walk); break;
	case BUILTIN_XID: walk_raise(b->walk, CLASS_WRITE, 0); break;
	case BUILTIN_SETTING: setting_call(b); break;
	case BUILTIN_NONE: unknown_call(b, lead); break;
	}
}

static bool before_is(const struct body *b, const char *lower)
{
	const struct scan at = {.text = b->before.text};
	return b->before.token == TOKEN_WORD && scan_word_is(&at, lower);
}

static bool lock_follows(const struct body *b)
{
	return next_is(b, "update") || next_is(b, "share") || next_is(b, "no") || next_is(b, "key");
}

/* At a word that is not behind a point. Most words are told by their length and their first letter. */
static void word_read(struct body *b)
{
	const struct scan *s = &b->walk->scan;
	if (s->text.len > 7)
		return;
	switch (*s->text.p | 0x20) {
	case 'd':
		if (s->text.len == 6 && scan_word_is(s, "delete") && next_is(b, "from"))
			walk_write(b->walk);
		break;
	case 'f':
		if (s->text.len == 3 && scan_word_is(s, "for") && lock_follows(b))
			walk_write(b->walk);
		break;
	case 'i':
		if (s->text.len == 4 && scan_word_is(s, "into"))
			walk_write(b->walk);
		break;
	case 'o':
		if (s->text.len == 2 && scan_word_is(s, "on") && before_is(b, "distinct"))
			b->distinct_on = true;
		break;
	case 'u':
		if (s->text.len == 6 && scan_word_is(s, "update") && next_is_name(b))
			walk_write(b->walk);
		else if (s->text.len == 7 && scan_word_is(s, "uescape")) /* another escape character may hide a name */
			walk_raise(b->walk, CLASS_UNKNOWN, ACT_RUNS_UNKNOWN);
		break;
	default: break;
	}
}

/* (x).f, $1.f and x[1].f may be fields, but are calls of f where x is no row. */
static void attribute_read(const struct body *b)
{
	struct seen name = {b->walk->token, b->walk->scan.text};
	switch (seen_find(b, &name)) {
	case BUILTIN_READ: break;
	case BUILTIN_WRITE: walk_write(b->walk); break;
	case BUILTIN_XID: walk_raise(b->walk, CLASS_WRITE, 0); break;
	case BUILTIN_SETTING:
	case BUILTIN_NONE: walk_raise(b->walk, CLASS_UNKNOWN, ACT_RUNS_UNKNOWN); break;
	}
}

/* Most columns are no functions that write by their length or their first letter already: a look-up would cost more than
 * all else here. test_builtin.c holds this against the table. */
static bool may_be_writer(const struct seen *name)
{
	if (name->token == TOKEN_NAME)
		return true;
	return name->text.len >= 6 && strchr("bglnpst", *name->text.p | 0x20);
}

/* g.f is a column of g, or a call of f where g is a function in FROM. No column has the name of one that writes. */
static void column_read(const struct body *b)
{
	struct seen name = {b->walk->token, b->walk->scan.text};
	enum builtin found = may_be_writer(&name) ? seen_find(b, &name) : BUILTIN_READ;
	if (found == BUILTIN_WRITE)
		walk_write(b->walk);
	else if (found == BUILTIN_XID)
		walk_raise(b->walk, CLASS_WRITE, 0);
}

/* Behind a point any word is a name. */
static void name_read(struct body *b)
{
	bool behind_point = seen_is_punct(&b->before, '.');
	if (behind_point && b->chain != CHAIN_OF_NAMES) {
		b->chain = CHAIN_OF_ATTRIBUTES;
		attribute_read(b);
	} else if (behind_point) {
		b->parts++;
		column_read(b);
	} else {
		if (b->walk->token == TOKEN_WORD)
			word_read(b);
		b->chain = CHAIN_OF_NAMES;
		b->lead = b->before;
		b->parts = 1;
		b->catalog = false;
	}
}

static bool before_is_catalog(const struct body *b)
{
	char name[WORD_MOST + 1];
	if (b->before.token == TOKEN_NAME)
		return quoted_read(b, &b->before, name) && strcmp(name, "pg_catalog") == 0;
	return before_is(b, "pg_catalog");
}

static void punct_read(struct body *b)
{
	if (walk_is_punct(b->walk, '.')) {
		if (b->chain == CHAIN_OF_NAMES)
			b->catalog = b->parts == 1 && before_is_catalog(b);
		return;
	}
	if (walk_is_punct(b->walk, '(') && b->chain == CHAIN_OF_NAMES)
		parenthesis_read(b);
	b->chain = CHAIN_NONE;
}

static void token_read(struct body *b)
{
	if (walk_is_name(b->walk))
		name_read(b);
	else if (b->walk->token == TOKEN_PUNCT)
		punct_read(b);
	else
		b->chain = CHAIN_NONE;
	b->before = (struct seen){b->walk->token, b->walk->scan.text};
}

void body_walk(struct walk *w, enum body_end end)
{
	struct body b = {.walk = w};
	size_t depth = 0;
	while (!walk_is_at_end(w)) {
		token_read(&b);
		depth += walk_is_punct(w, '(');
		depth -= depth > 0 && walk_is_punct(w, ')');
		walk_step(w);
		if (end == BODY_PARENTHESIS && depth == 0)
			return;
	}
}
