/* Statements of a text: where each ends, and what the first words of it do to the session.
 *
 * A statement ends at a semicolon that is not inside parentheses (CREATE RULE ... DO (a; b)) and not inside the body
 * of a routine, BEGIN ATOMIC ... END. The END of a body is the one that stands where a statement would begin: no
 * statement inside a body can begin with END, while CASE ... END and columns called "end" stand elsewhere.
 *
 * What the words say is looked up in statement.def. The text is the client's, and may be wrong SQL: then the server
 * refuses the whole text, and nothing we said about it matters. */
#include "sql/statement.h"

#include "sql/scan_priv.h"

enum rest { REST_ANY, REST_STRING, REST_NAME, REST_SETTING, REST_ASSIGNED, REST_VALUE };

struct row {
	const char *words;
	enum statement_kind kind;
	const char *name;
	enum rest rest;
};

static const struct row statement_rows[] = {
#define STATEMENT(words, kind, name, rest) {words, STATEMENT_##kind, name, REST_##rest},
#include "sql/statement.def"
#undef STATEMENT
};

static const struct row set_rows[] = {
#define SET(words, kind, name, rest) {words, STATEMENT_##kind, name, REST_##rest},
#include "sql/statement.def"
#undef SET
};

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* The token at hand, and the scan that stands behind it. */
struct at {
	struct scan scan;
	enum token token;
};

static void advance(struct at *at)
{
	at->token = scan_next(&at->scan);
}

static bool at_word(const struct at *at, const char *lower)
{
	return at->token == TOKEN_WORD && scan_word_is(&at->scan, lower);
}

static bool at_punct(const struct at *at, char c)
{
	return at->token == TOKEN_PUNCT && at->scan.text.len == 1 && *at->scan.text.p == (uint8_t)c;
}

static bool at_name(const struct at *at)
{
	return at->token == TOKEN_WORD || at->token == TOKEN_NAME;
}

/* SET local = 1 sets a parameter that is called local: no key word of ours is one in front of these. */
static bool at_assignment(const struct at *at)
{
	return at_punct(at, '=') || at_punct(at, '.') || at_word(at, "to");
}

/* Steps over one word of a phrase and over the blank behind it. */
static bool word_take(struct at *at, const char **words)
{
	const char *w = *words;
	size_t len = strcspn(w, " ");
	if (at->token != TOKEN_WORD || at->scan.text.len != len)
		return false;
	for (size_t i = 0; i < len; i++)
		if ((at->scan.text.p[i] | 0x20) != (uint8_t)w[i]) /* w is all letters, which only letters fold to */
			return false;
	*words = w[len] ? w + len + 1 : w + len;
	advance(at);
	return true;
}

static bool words_take(struct at *at, const char *words)
{
	while (*words)
		if (!word_take(at, &words))
			return false;
	return true;
}

static bool name_read(struct at *at, struct statement *out)
{
	if (at_punct(at, '*')) /* UNLISTEN */
		strcpy(out->name, "*");
	else if (!at_name(at) || !scan_value_cut(&at->scan, out->name, sizeof(out->name)))
		return false;
	advance(at);
	return true;
}

/* Adds ".part" to a name of several parts; what is too long is cut as a whole. */
static bool part_read(struct at *at, struct statement *out)
{
	size_t len = strlen(out->name);
	char part[sizeof(out->name)];
	if (!at_name(at) || !scan_value_cut(&at->scan, part, sizeof(part)))
		return false;
	if (len + 1 < sizeof(out->name)) {
		out->name[len] = '.';
		size_t room = sizeof(out->name) - len - 2, n = strlen(part);
		n = n <= room ? n : scan_text_cut(part, room);
		memcpy(out->name + len + 1, part, n);
		out->name[len + 1 + n] = '\0';
	}
	advance(at);
	return true;
}

static bool setting_read(struct at *at, struct statement *out)
{
	if (!at_name(at) || !name_read(at, out))
		return false;
	while (at_punct(at, '.')) {
		advance(at);
		if (!part_read(at, out))
			return false;
	}
	return true;
}

/* One constant or word that is all the rest there is. */
static bool constant_read(struct at *at, struct statement *out)
{
	size_t sign = 0;
	if (at_punct(at, '-') || at_punct(at, '+')) {
		sign = at_punct(at, '-');
		out->value[0] = '-';
		advance(at);
		if (at->token != TOKEN_NUMBER)
			return false;
	}
	if (at_word(at, "default") || !scan_value(&at->scan, out->value + sign, sizeof(out->value) - sign))
		return false;
	advance(at);
	return at->token == TOKEN_END;
}

static void value_read(struct at *at, struct statement *out)
{
	struct at next = *at;

	advance(&next);
	out->is_default = at_word(at, "default") && next.token == TOKEN_END;
	out->has_value = constant_read(at, out);
	if (!out->has_value)
		out->value[0] = '\0';
}

static bool assigned_read(struct at *at, struct statement *out)
{
	if (!setting_read(at, out))
		return false;
	if (at_word(at, "from"))
		return true;
	if (!at_punct(at, '=') && !at_word(at, "to"))
		return false;
	advance(at);
	value_read(at, out);
	return true;
}

static bool rest_read(struct at *at, enum rest rest, struct statement *out)
{
	switch (rest) {
	case REST_ANY: return !at_assignment(at);
	case REST_STRING: return at->token == TOKEN_STRING;
	case REST_NAME: return name_read(at, out);
	case REST_SETTING: return setting_read(at, out);
	case REST_ASSIGNED: return assigned_read(at, out);
	case REST_VALUE:
		if (at_assignment(at))
			return false;
		value_read(at, out);
		return true;
	}
	return false;
}

static bool row_read(const struct row *row, const struct at *begun, struct statement *out)
{
	struct at at = *begun;
	if (!words_take(&at, row->words))
		return false;
	out->kind = row->kind;
	strcpy(out->name, row->name);
	return rest_read(&at, row->rest, out);
}

static void statement_clear(struct statement *out)
{
	out->kind = STATEMENT_OTHER;
	out->name[0] = out->value[0] = '\0';
	out->has_value = out->is_default = false;
}

static void rows_read(const struct row *rows, size_t n, const struct at *begun, struct statement *out)
{
	uint8_t letter = begun->scan.text.len ? *begun->scan.text.p | 0x20 : 0;
	for (size_t i = 0; i < n; i++) {
		if (rows[i].words[0] && (uint8_t)rows[i].words[0] != letter)
			continue;
		if (row_read(&rows[i], begun, out))
			return;
		statement_clear(out);
	}
}

/* Whether the word at hand is LOCAL or SESSION as the scope of a SET, and not part of what is set. */
static bool at_scope(const struct at *at)
{
	struct at next = *at;
	if (!at_word(at, "local") && !at_word(at, "session"))
		return false;
	advance(&next);
	if (at_word(at, "session") && (at_word(&next, "authorization") || at_word(&next, "characteristics")))
		return false;
	return !at_assignment(&next) && !at_word(&next, "from");
}

/* at stands on SET. */
static void set_read(struct at *at, struct statement *out)
{
	advance(at);
	bool local = at_word(at, "local") && at_scope(at);
	if (at_scope(at))
		advance(at);
	rows_read(set_rows, COUNT(set_rows), at, out);
	if (local && out->name[0])
		out->kind = STATEMENT_SET_LOCAL;
}

/* at stands on the first token and sees no further than the statement's end. */
static void words_read(struct at *at, struct statement *out)
{
	statement_clear(out);
	if (at_word(at, "set"))
		set_read(at, out);
	else if (at->token == TOKEN_WORD)
		rows_read(statement_rows, COUNT(statement_rows), at, out);
}

/* begun stands on the first token: is this CREATE [OR REPLACE] FUNCTION or PROCEDURE? */
static bool is_routine(const struct at *begun)
{
	struct at at = *begun;
	if (!words_take(&at, "create"))
		return false;
	if (at_word(&at, "or") && !words_take(&at, "or replace"))
		return false;
	return at_word(&at, "function") || at_word(&at, "procedure");
}

static size_t depth_after(size_t depth, const struct at *at)
{
	if (at_punct(at, '('))
		return depth + 1;
	return depth > 0 && at_punct(at, ')') ? depth - 1 : depth;
}

/* at stands on BEGIN ATOMIC's second word; afterwards on the END of the body, or at the end of the text. */
static void body_skip(struct at *at)
{
	size_t depth = 0;
	bool fresh = true; /* a statement may begin here */
	for (advance(at); at->token != TOKEN_END; advance(at)) {
		if (fresh && at_word(at, "end"))
			return;
		depth = depth_after(depth, at);
		fresh = depth == 0 && at->token == TOKEN_SEMICOLON;
	}
}

static bool at_body(const struct at *at, struct at *atomic)
{
	if (!at_word(at, "begin"))
		return false;
	*atomic = *at;
	advance(atomic);
	return at_word(atomic, "atomic");
}

/* Moves at from the first token to the semicolon or the end of the text; returns the end of the last token before it. */
static const uint8_t *end_find(struct at *at)
{
	struct at atomic;
	bool routine = is_routine(at);
	size_t depth = 0;
	const uint8_t *end = at->scan.p;
	while (at->token != TOKEN_END && (depth > 0 || at->token != TOKEN_SEMICOLON)) {
		if (routine && depth == 0 && at_body(at, &atomic)) {
			*at = atomic;
			body_skip(at);
		}
		depth = depth_after(depth, at);
		end = at->scan.text.p + at->scan.text.len;
		advance(at);
	}
	return end;
}

bool statement_next(struct scan *s, struct statement *out)
{
	struct at at = {.scan = *s};
	do
		advance(&at);
	while (at.token == TOKEN_SEMICOLON);
	bool found = at.token != TOKEN_END;
	if (found) {
		struct at first = at;
		first.scan.end = end_find(&at);
		out->text = (struct span){first.scan.text.p, (size_t)(first.scan.end - first.scan.text.p)};
		words_read(&first, out);
	}
	*s = at.scan;
	return found;
}
