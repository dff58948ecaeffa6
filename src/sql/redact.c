/* SQL as the log may show it: the words, names and operators, on one line, with ? for every constant. Comments are left
 * out, for people comment constants out.
 *
 * The text comes without its session, so two things that decide where a string ends are not known: whether
 * standard_conforming_strings is off, and whether the client's encoding has characters that end in a backslash. Where
 * they would matter, at a backslash in front of a quote, the line ends: a log line cut short is better than one in
 * which what we took for words is the inside of a password. */
#include "sql/redact.h"

#include "sql/scan.h"
#include "sql/scan_priv.h"

struct line {
	char *out; /* borrows */
	size_t room; /* without the NUL */
	size_t len;
	bool full;
};

static void put(struct line *l, uint8_t c)
{
	if (l->len == l->room)
		l->full = true;
	else
		l->out[l->len++] = c < ' ' || c == 0x7f ? ' ' : (char)c; /* no name may begin a line of its own */
}

static void put_text(struct line *l, struct span text)
{
	for (size_t i = 0; i < text.len && !l->full; i++)
		put(l, text.p[i]);
}

static bool is_dollar_string(struct span text)
{
	return text.p[0] == '$';
}

static bool is_escape_string(struct span text)
{
	return (text.p[0] | 0x20) == 'e';
}

/* Would another session or encoding end this string elsewhere? */
static bool end_is_doubtful(struct span text)
{
	if (is_dollar_string(text))
		return false;
	for (size_t i = 1; i + 1 < text.len; i++)
		if (text.p[i] == '\\' && text.p[i + 1] == '\'' && (!is_escape_string(text) || text.p[i - 1] >= 0x80))
			return true;
	return false;
}

static bool is_constant(enum token t)
{
	return t == TOKEN_STRING || t == TOKEN_NUMBER || t == TOKEN_PARAM || t == TOKEN_OPEN;
}

void redact_sql(struct span sql, char *out, size_t room)
{
	if (room == 0)
		return;
	struct line line = {out, room - 1, 0, false};
	struct scan s = scan_of(sql.p, sql.len);
	const uint8_t *behind = sql.p;
	enum token t;
	while (!line.full && (t = scan_next(&s)) != TOKEN_END) {
		if (line.len > 0 && s.text.p != behind)
			put(&line, ' ');
		put_text(&line, is_constant(t) ? span_str("?") : s.text);
		if (t == TOKEN_STRING && end_is_doubtful(s.text)) {
			put_text(&line, span_str(" ..."));
			break;
		}
		behind = s.p;
	}
	out[line.full ? scan_text_cut(out, line.len) : line.len] = '\0';
}
