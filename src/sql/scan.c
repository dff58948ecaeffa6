/* The token scanner: what PostgreSQL's lexer sees (documentation, chapter 4.1 "Lexical Structure"; where versions 14
 * to 17 differ, the reading is chosen that is right, or an error, in each of them).
 *
 * It has to agree with the server about where a string, a name or a comment ends, because whoever makes the two
 * disagree hides a statement from us. The corners that matter:
 *   - comments nest; a -- comment ends at CR as well as at LF;
 *   - 'a' <newline> 'b' is one string, and -- comments may stand between its parts;
 *   - a dollar sign inside a word belongs to the word (a$$ opens no string), and tags may hold any byte above 127;
 *   - an operator ends where a comment begins, and + or - at its end stand alone (=-1 is = - 1) unless it holds
 *     one of ~ ! @ # % ^ & | ` ?
 *
 * Bytes are read as they come from the client. In an ASCII superset where a second byte may look like a backslash or
 * a semicolon (SJIS, BIG5, GBK, UHC, JOHAB, GB18030 as client_encoding) that is not what the server reads after its
 * conversion; who decides on our word has to know the encoding.
 *
 * One pass, one table look-up per byte, no memory: every loop runs forward and every token takes at least one byte. */
#include "sql/scan.h"

#include "sql/scan_priv.h"

enum class {
	SPACE = 1,   /* \v too: a space from version 16 on, an error before */
	LETTER = 2,  /* begins a word: letters, underscore, bytes above 127 */
	DIGIT = 4,
	DOLLAR = 8,
	OPERATOR = 16,
	MARK = 32,   /* an operator with one of these may end in + or - */
	PREFIX = 64, /* letters that may stand before a quote: B E N U X */
	HEX = 128,

	TAG = LETTER | DIGIT,           /* inside a dollar tag */
	PART = LETTER | DIGIT | DOLLAR, /* inside a word */
};

static const uint8_t class_of[256] = {
	['\t'] = SPACE, ['\n'] = SPACE, ['\v'] = SPACE, ['\f'] = SPACE, ['\r'] = SPACE, [' '] = SPACE,
	['0' ... '9'] = DIGIT | HEX,
	['$'] = DOLLAR,
	['+'] = OPERATOR, ['-'] = OPERATOR, ['*'] = OPERATOR, ['/'] = OPERATOR, ['<'] = OPERATOR, ['>'] = OPERATOR, ['='] = OPERATOR,
	['~'] = OPERATOR | MARK, ['!'] = OPERATOR | MARK, ['@'] = OPERATOR | MARK, ['#'] = OPERATOR | MARK, ['%'] = OPERATOR | MARK,
	['^'] = OPERATOR | MARK, ['&'] = OPERATOR | MARK, ['|'] = OPERATOR | MARK, ['`'] = OPERATOR | MARK, ['?'] = OPERATOR | MARK,
	['_'] = LETTER,
	['a'] = LETTER | HEX, ['b'] = LETTER | HEX | PREFIX, ['c' ... 'd'] = LETTER | HEX, ['e'] = LETTER | HEX | PREFIX, ['f'] = LETTER | HEX,
	['g' ... 'm'] = LETTER, ['n'] = LETTER | PREFIX, ['o' ... 't'] = LETTER, ['u'] = LETTER | PREFIX, ['v' ... 'w'] = LETTER,
	['x'] = LETTER | PREFIX, ['y' ... 'z'] = LETTER,
	['A'] = LETTER | HEX, ['B'] = LETTER | HEX | PREFIX, ['C' ... 'D'] = LETTER | HEX, ['E'] = LETTER | HEX | PREFIX, ['F'] = LETTER | HEX,
	['G' ... 'M'] = LETTER, ['N'] = LETTER | PREFIX, ['O' ... 'T'] = LETTER, ['U'] = LETTER | PREFIX, ['V' ... 'W'] = LETTER,
	['X'] = LETTER | PREFIX, ['Y' ... 'Z'] = LETTER,
	[128 ... 255] = LETTER,
};

enum escape { ESCAPE_NONE, ESCAPE_BACKSLASH };

static inline uint8_t fold(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
}

static inline bool at_is(const uint8_t *p, const uint8_t *end, uint8_t c)
{
	return p < end && *p == c;
}

static inline const uint8_t *run_end(const uint8_t *p, const uint8_t *end, unsigned class)
{
	while (p < end && class_of[*p] & class)
		p++;
	return p;
}

static inline const uint8_t *line_end(const uint8_t *p, const uint8_t *end)
{
	while (p < end && *p != '\n' && *p != '\r')
		p++;
	return p;
}

/* The *_end functions are given the place behind an opening and find the end of what it opened; NULL: it never ends. */

static const uint8_t *block_comment_end(const uint8_t *p, const uint8_t *end)
{
	for (size_t depth = 1; end - p >= 2;) {
		if (p[0] == '*' && p[1] == '/') {
			p += 2;
			if (--depth == 0)
				return p;
		} else if (p[0] == '/' && p[1] == '*') {
			p += 2;
			depth++;
		} else {
			p++;
		}
	}
	return NULL;
}

const uint8_t *scan_next_part(const uint8_t *p, const uint8_t *end)
{
	bool newline = false;
	while (p < end) {
		if (class_of[*p] & SPACE)
			newline |= *p == '\n' || *p == '\r', p++;
		else if (*p == '-' && at_is(p + 1, end, '-'))
			p = line_end(p + 2, end);
		else
			break;
	}
	return newline && at_is(p, end, '\'') ? p + 1 : NULL;
}

/* The closing quote of one part. */
static const uint8_t *string_part_end(const uint8_t *p, const uint8_t *end, enum escape escape)
{
	for (; p < end; p++) {
		if (*p == '\'') {
			if (!at_is(p + 1, end, '\''))
				return p;
			p++;
		} else if (*p == '\\' && escape == ESCAPE_BACKSLASH && ++p == end) {
			return NULL;
		}
	}
	return NULL;
}

static const uint8_t *string_end(const uint8_t *p, const uint8_t *end, enum escape escape)
{
	while ((p = string_part_end(p, end, escape)) != NULL) {
		const uint8_t *next = scan_next_part(p + 1, end);
		if (!next)
			return p + 1;
		p = next;
	}
	return NULL;
}

static const uint8_t *name_end(const uint8_t *p, const uint8_t *end)
{
	for (; p < end; p++) {
		if (*p != '"')
			continue;
		if (!at_is(p + 1, end, '"'))
			return p + 1;
		p++;
	}
	return NULL;
}

/* Of "$tag$" the place behind it, of anything else NULL. */
static const uint8_t *dollar_tag_end(const uint8_t *p, const uint8_t *end)
{
	const uint8_t *tag = p + 1;
	if (tag < end && class_of[*tag] & LETTER)
		tag = run_end(tag, end, TAG);
	return at_is(tag, end, '$') ? tag + 1 : NULL;
}

static const uint8_t *dollar_string_end(const uint8_t *begun, const uint8_t *body, const uint8_t *end)
{
	size_t tag_len = (size_t)(body - begun);
	const uint8_t *close = memmem(body, (size_t)(end - body), begun, tag_len);
	return close ? close + tag_len : NULL;
}

/* Numbers as versions up to 15 write them, and with what 16 added: 1_000, 0x1F, 0o17, 0b1. */
enum number { NUMBER_OLD, NUMBER_NEW };

static const uint8_t *digits_end(const uint8_t *p, const uint8_t *end, unsigned class, enum number style)
{
	p = run_end(p, end, class);
	while (style == NUMBER_NEW && end - p >= 2 && *p == '_' && class_of[p[1]] & class)
		p = run_end(p + 1, end, class);
	return p;
}

/* NULL: there is no 0x, 0o or 0b. */
static const uint8_t *radix_end(const uint8_t *p, const uint8_t *end)
{
	if (end - p < 3 || *p != '0')
		return NULL;
	uint8_t radix = fold(p[1]);
	if (radix != 'x' && radix != 'o' && radix != 'b')
		return NULL;
	const uint8_t *digits = digits_end(p + 2, end, radix == 'x' ? HEX : DIGIT, NUMBER_NEW);
	return digits > p + 2 ? digits : NULL;
}

static const uint8_t *exponent_end(const uint8_t *p, const uint8_t *end, enum number style)
{
	if (p == end || fold(*p) != 'e')
		return p;
	const uint8_t *digits = p + 1;
	if (at_is(digits, end, '+') || at_is(digits, end, '-'))
		digits++;
	return digits < end && class_of[*digits] & DIGIT ? digits_end(digits, end, DIGIT, style) : p;
}

/* Two points are a range, not part of a number. */
static const uint8_t *decimal_end(const uint8_t *p, const uint8_t *end, enum number style)
{
	p = digits_end(p, end, DIGIT, style);
	if (at_is(p, end, '.') && !at_is(p + 1, end, '.'))
		p = digits_end(p + 1, end, DIGIT, style);
	return exponent_end(p, end, style);
}

/* p is at the first digit, or at a point with a digit behind it. To a version before 15 a number written in the new
 * way is a number and an alias. That comes to the same, unless more of the word follows, which later versions refuse:
 * in SELECT 0xe$$; DELETE ... the old ones read an alias xe$$ where the new style would see a string begin. */
static const uint8_t *number_end(const uint8_t *p, const uint8_t *end)
{
	const uint8_t *radix = radix_end(p, end);
	const uint8_t *found = radix ? radix : decimal_end(p, end, NUMBER_NEW);
	return found < end && class_of[*found] & PART ? decimal_end(p, end, NUMBER_OLD) : found;
}

static inline bool comment_begins(const uint8_t *p, const uint8_t *end)
{
	return (*p == '-' && at_is(p + 1, end, '-')) || (*p == '/' && at_is(p + 1, end, '*'));
}

/* PostgreSQL refuses an operator longer than a name (63), so more than that need not be looked at to find where a good
 * one ends; without the limit a text of a million plus signs would be read a million times. */
#define OPERATOR_MOST 64

static const uint8_t *operator_end(const uint8_t *begun, const uint8_t *end)
{
	const uint8_t *p = begun, *most = end - begun > OPERATOR_MOST ? begun + OPERATOR_MOST : end;
	const uint8_t *solid = begun + 1; /* behind the last one that is neither + nor -, but never empty */
	unsigned seen = 0;
	for (; p < most && class_of[*p] & OPERATOR && !comment_begins(p, end); p++) {
		seen |= class_of[*p];
		if (*p != '+' && *p != '-')
			solid = p + 1;
	}
	return seen & MARK ? p : solid;
}

static inline enum token closed(const uint8_t *found, const struct scan *s, enum token t, const uint8_t **after)
{
	*after = found ? found : s->end;
	return found ? t : TOKEN_OPEN;
}

static enum token string_token(const struct scan *s, const uint8_t *body, enum escape escape, const uint8_t **after)
{
	return closed(string_end(body, s->end, escape), s, TOKEN_STRING, after);
}

static inline enum escape plain_escape(const struct scan *s)
{
	return s->backslash ? ESCAPE_BACKSLASH : ESCAPE_NONE;
}

/* At a letter that may be a string's prefix: E'' B'' X'' N'' U&'' U&"". TOKEN_WORD when it is not. */
static enum token prefixed_token(const struct scan *s, const uint8_t *p, const uint8_t **after)
{
	uint8_t letter = fold(*p++);
	if (letter == 'u') {
		if (!at_is(p, s->end, '&'))
			return TOKEN_WORD;
		p++;
		if (at_is(p, s->end, '"'))
			return closed(name_end(p + 1, s->end), s, TOKEN_NAME, after);
	}
	if (!at_is(p, s->end, '\''))
		return TOKEN_WORD;
	enum escape escape = letter == 'e' ? ESCAPE_BACKSLASH : letter == 'n' ? plain_escape(s) : ESCAPE_NONE;
	return string_token(s, p + 1, escape, after);
}

static enum token dollar_token(const struct scan *s, const uint8_t *p, const uint8_t **after)
{
	const uint8_t *body = dollar_tag_end(p, s->end);
	if (body)
		return closed(dollar_string_end(p, body, s->end), s, TOKEN_STRING, after);
	*after = run_end(p + 1, s->end, DIGIT);
	return *after > p + 1 ? TOKEN_PARAM : TOKEN_PUNCT;
}

/* Everything that begins with neither a letter nor a digit. */
static enum token mark_token(const struct scan *s, const uint8_t *p, const uint8_t **after)
{
	const uint8_t *end = s->end, *next = p + 1;
	*after = next;
	switch (*p) {
	case '\'': return string_token(s, next, plain_escape(s), after);
	case '"': return closed(name_end(next, end), s, TOKEN_NAME, after);
	case '$': return dollar_token(s, p, after);
	case ';': return TOKEN_SEMICOLON;
	case '.':
		if (next < end && class_of[*next] & DIGIT) {
			*after = number_end(p, end);
			return TOKEN_NUMBER;
		}
		*after += at_is(next, end, '.');
		return TOKEN_PUNCT;
	case ':':
		*after += at_is(next, end, ':') || at_is(next, end, '=');
		return TOKEN_PUNCT;
	case '-':
		if (at_is(next, end, '-')) {
			*after = line_end(next + 1, end);
			return TOKEN_COMMENT;
		}
		break;
	case '/':
		if (at_is(next, end, '*'))
			return closed(block_comment_end(next + 1, end), s, TOKEN_COMMENT, after);
		break;
	default: break;
	}
	if (class_of[*p] & OPERATOR)
		*after = operator_end(p, end);
	return TOKEN_PUNCT;
}

static inline enum token token_at(const struct scan *s, const uint8_t *p, const uint8_t **after)
{
	unsigned class = class_of[*p];
	if (class & LETTER) {
		if (class & PREFIX) {
			enum token t = prefixed_token(s, p, after);
			if (t != TOKEN_WORD)
				return t;
		}
		*after = run_end(p + 1, s->end, PART);
		return TOKEN_WORD;
	}
	if (class & DIGIT) {
		*after = number_end(p, s->end);
		return TOKEN_NUMBER;
	}
	return mark_token(s, p, after);
}

enum token scan_next_all(struct scan *s)
{
	const uint8_t *p = run_end(s->p, s->end, SPACE);
	enum token t = TOKEN_END;
	s->p = p;
	if (p < s->end)
		t = token_at(s, p, &s->p);
	s->text = (struct span){p, (size_t)(s->p - p)};
	return t;
}

enum token scan_next(struct scan *s)
{
	enum token t;
	do
		t = scan_next_all(s);
	while (t == TOKEN_COMMENT);
	return t;
}

bool scan_word_is(const struct scan *s, const char *lower)
{
	for (size_t i = 0; i < s->text.len; i++)
		if (!lower[i] || fold(s->text.p[i]) != (uint8_t)lower[i])
			return false;
	return lower[s->text.len] == '\0';
}
