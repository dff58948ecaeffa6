/* Splits SQL text into tokens, as PostgreSQL's lexer does (chapter 4.1): comments nest, strings '' E'' U&'' B'' X'' N'' $tag$,
 * "quoted names", numbers, operators, parameters. No allocation; never reads past the end; every input ends.
 * standard_conforming_strings is a property of the session: off, a plain '...' string knows backslash escapes. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum token {
	TOKEN_END,
	TOKEN_WORD,      /* unquoted identifier or keyword */
	TOKEN_NAME,      /* "quoted"; the span includes the quotes */
	TOKEN_STRING,    /* any string constant, with its quotes and prefix */
	TOKEN_NUMBER,
	TOKEN_PARAM,     /* $1 */
	TOKEN_COMMENT,   /* only from scan_next_all */
	TOKEN_SEMICOLON,
	TOKEN_PUNCT,     /* ( ) , [ ] . : and each operator, one token */
	TOKEN_OPEN,      /* a string, name or comment that never ends: the rest of the text */
};

struct scan {
	const uint8_t *p; /* borrows */
	const uint8_t *end;
	bool backslash;   /* standard_conforming_strings = off */
	struct span text; /* of the last token */
};

static inline struct scan scan_of(const void *sql, size_t len) { return (struct scan){(const uint8_t *)sql, len ? (const uint8_t *)sql + len : (const uint8_t *)sql, false, {0, 0}}; }
enum token scan_next(struct scan *s);     /* skips white space and comments */
enum token scan_next_all(struct scan *s); /* comments are tokens */
bool scan_word_is(const struct scan *s, const char *lower); /* the last token, ASCII case folded */
/* The value of the last token when it is a word, name, string or number: unescaped into out, NUL behind it. False: does not fit or is not such a token. */
bool scan_value(const struct scan *s, char *out, size_t room);
