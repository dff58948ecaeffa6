/* What the parts of the classifier share: the token at hand, and the words they say about the statement. For this layer
 * only. */
#pragma once

#include "sql/classify.h"

enum planning {
	PLAN_AND_RUN,
	PLAN_ONLY, /* behind EXPLAIN: what is written when a query runs is not written */
};

struct walk {
	struct scan scan; /* stands behind the token */
	enum token token;
	enum planning planning;
	struct classified *out; /* borrows */
};

void walk_step(struct walk *w); /* to the next token, but not beyond the statement; one that never ends raises the class */
void walk_raise(struct walk *w, enum sql_class class, unsigned acts);
void walk_write(struct walk *w); /* a write of the query that is looked at, unless it is only planned */

static inline bool walk_is_word(const struct walk *w, const char *lower)
{
	return w->token == TOKEN_WORD && scan_word_is(&w->scan, lower);
}

static inline bool walk_is_punct(const struct walk *w, char c)
{
	return w->token == TOKEN_PUNCT && w->scan.text.len == 1 && *w->scan.text.p == (uint8_t)c;
}

static inline bool walk_is_name(const struct walk *w)
{
	return w->token == TOKEN_WORD || w->token == TOKEN_NAME;
}

/* The statement ends where a semicolon stands, parentheses or not: between them the server refuses it, but in CREATE RULE. */
static inline bool walk_is_at_end(const struct walk *w)
{
	return w->token == TOKEN_END || w->token == TOKEN_SEMICOLON || w->token == TOKEN_OPEN;
}

/* A look ahead from where w stands, whose steps say nothing. */
static inline struct scan walk_ahead(const struct walk *w)
{
	return w->scan;
}

enum body_end { BODY_STATEMENT, BODY_PARENTHESIS };

/* A query, from the token at hand to the statement's end, or to behind the parenthesis at hand. */
void body_walk(struct walk *w, enum body_end end);

/* Whether a setting of this name makes transactions read-only, or not. Case does not matter. */
bool setting_is_fence(const char *name);
