/* The value of a token: a word folded to lower case, a name or string without quotes and escapes (chapters 4.1.1 and
 * 4.1.2), a number as it stands. Written where the caller says, as far as there is room.
 *
 * What only the server can know is refused, not guessed: a UESCAPE clause behind a U& constant, an escape that differs
 * between versions (\v), a NUL. Unicode escapes become UTF-8, which is right for clients that speak UTF-8 and for all
 * others as long as they stay within ASCII. */
#include "sql/scan.h"

#include "sql/scan_priv.h"

struct value {
	char *out;   /* borrows */
	size_t room; /* without the NUL */
	size_t len;  /* of the whole value, which may be more than the room */
	bool bad;
};

typedef void (*escape_fn)(struct value *v, const uint8_t **p, const uint8_t *end);

static void add(struct value *v, uint8_t c)
{
	v->bad |= c == '\0';
	if (v->len < v->room)
		v->out[v->len] = (char)c;
	v->len++;
}

/* One byte of a UTF-8 sequence: the six bits of c from that place on, with the mark of a later byte. */
static void add_later(struct value *v, uint32_t c, int shift)
{
	add(v, (uint8_t)(0x80 | (c >> shift & 0x3f)));
}

static void add_point(struct value *v, uint32_t c)
{
	if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
		v->bad = true;
	} else if (c < 0x80) {
		add(v, (uint8_t)c);
	} else if (c < 0x800) {
		add(v, (uint8_t)(0xc0 | c >> 6));
		add_later(v, c, 0);
	} else if (c < 0x10000) {
		add(v, (uint8_t)(0xe0 | c >> 12));
		add_later(v, c, 6);
		add_later(v, c, 0);
	} else {
		add(v, (uint8_t)(0xf0 | c >> 18));
		add_later(v, c, 12);
		add_later(v, c, 6);
		add_later(v, c, 0);
	}
}

static int digit_of(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads up to most hexadecimal digits; returns how many there were. */
static int hex_read(const uint8_t **p, const uint8_t *end, int most, uint32_t *out)
{
	int n = 0;
	*out = 0;
	for (; n < most && *p < end && digit_of(**p) >= 0; n++)
		*out = *out << 4 | (uint32_t)digit_of(*(*p)++);
	return n;
}

/* Steps over the introduction of a Unicode escape, of either kind, and says how many digits must follow; 0: it is none. */
typedef int (*point_intro_fn)(const uint8_t **p, const uint8_t *end);

static int c_point_intro(const uint8_t **p, const uint8_t *end)
{
	if (end - *p < 2 || **p != '\\' || ((*p)[1] != 'u' && (*p)[1] != 'U'))
		return 0;
	*p += 2;
	return (*p)[-1] == 'u' ? 4 : 8;
}

static int u_point_intro(const uint8_t **p, const uint8_t *end)
{
	if (end - *p < 2 || **p != '\\' || (*p)[1] == '\\')
		return 0;
	*p += (*p)[1] == '+' ? 2 : 1;
	return (*p)[-1] == '+' ? 6 : 4;
}

static bool is_high_half(uint32_t c)
{
	return c >= 0xd800 && c <= 0xdbff;
}

static bool is_low_half(uint32_t c)
{
	return c >= 0xdc00 && c <= 0xdfff;
}

/* A code point, or the two halves of a surrogate pair in one escape behind the other. False: it is no Unicode escape. */
static bool point_escape(struct value *v, const uint8_t **p, const uint8_t *end, point_intro_fn intro)
{
	uint32_t c, low;
	int n = intro(p, end);
	if (n == 0)
		return false;
	if (hex_read(p, end, n, &c) != n) {
		v->bad = true;
	} else if (is_high_half(c)) {
		n = intro(p, end);
		v->bad |= n == 0 || hex_read(p, end, n, &low) != n || !is_low_half(low);
		if (!v->bad)
			add_point(v, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
	} else {
		add_point(v, c);
	}
	return true;
}

static uint8_t octal_read(const uint8_t **p, const uint8_t *end)
{
	unsigned c = 0;
	for (int n = 0; n < 3 && *p < end && **p >= '0' && **p <= '7'; n++)
		c = c << 3 | (unsigned)(*(*p)++ - '0');
	return (uint8_t)c;
}

/* E'' escapes, table 4.1. *p is at the backslash; the scanner has seen that a byte follows. */
static void c_escape(struct value *v, const uint8_t **p, const uint8_t *end)
{
	if (point_escape(v, p, end, c_point_intro))
		return;
	uint8_t c = (*p)[1];
	uint32_t hex;
	*p += c >= '0' && c <= '7' ? 1 : 2;
	switch (c) {
	case '0' ... '7': c = octal_read(p, end); break;
	case 'b': c = '\b'; break;
	case 'f': c = '\f'; break;
	case 'n': c = '\n'; break;
	case 'r': c = '\r'; break;
	case 't': c = '\t'; break;
	case 'v': v->bad = true; break; /* v up to version 15, a vertical tab since */
	case 'x': c = hex_read(p, end, 2, &hex) > 0 ? (uint8_t)hex : 'x'; break;
	default: break;
	}
	add(v, c);
}

/* U&'' and U&"" escapes with the usual backslash; two of them are one. At least the closing quote follows *p. */
static void u_escape(struct value *v, const uint8_t **p, const uint8_t *end)
{
	if (point_escape(v, p, end, u_point_intro))
		return;
	*p += 2;
	add(v, '\\');
}

/* p is behind the opening quote; the constant is known to be closed and nothing follows its last quote. */
static void quoted_read(struct value *v, const uint8_t *p, const uint8_t *end, escape_fn escape)
{
	uint8_t quote = p[-1];
	while (p < end) {
		if (*p == '\\' && escape) {
			escape(v, &p, end);
		} else if (*p != quote) {
			add(v, *p++);
		} else if (end - p >= 2 && p[1] == quote) {
			add(v, quote);
			p += 2;
		} else {
			p = end - p >= 2 ? scan_next_part(p + 1, end) : end;
		}
	}
}

static void dollar_read(struct value *v, struct span text)
{
	const uint8_t *second = memchr(text.p + 1, '$', text.len - 1);
	size_t tag_len = (size_t)(second + 1 - text.p);
	for (size_t i = tag_len; i < text.len - tag_len; i++)
		add(v, text.p[i]);
}

/* U& constants may name another escape character behind them. */
static bool uescape_follows(const struct scan *s)
{
	struct scan ahead = *s;
	return scan_next(&ahead) == TOKEN_WORD && scan_word_is(&ahead, "uescape");
}

static void constant_read(struct value *v, const struct scan *s)
{
	const uint8_t *p = s->text.p, *end = p + s->text.len;
	escape_fn plain = s->backslash ? c_escape : NULL;
	switch (*p) {
	case '$': dollar_read(v, s->text); break;
	case '"': quoted_read(v, p + 1, end, NULL); break;
	case '\'': quoted_read(v, p + 1, end, plain); break;
	case 'n': case 'N': quoted_read(v, p + 2, end, plain); break;
	case 'e': case 'E': quoted_read(v, p + 2, end, c_escape); break;
	case 'u': case 'U':
		v->bad = uescape_follows(s);
		quoted_read(v, p + 3, end, u_escape);
		break;
	default: quoted_read(v, p + 2, end, NULL); break; /* B'' X'' */
	}
}

static void text_read(struct value *v, struct span text)
{
	for (size_t i = 0; i < text.len; i++)
		add(v, text.p[i]);
}

static void word_read(struct value *v, struct span text)
{
	for (size_t i = 0; i < text.len; i++)
		add(v, text.p[i] >= 'A' && text.p[i] <= 'Z' ? text.p[i] | 0x20 : text.p[i]);
}

/* The scanner does not keep what kind the token was, and need not: read alone, it is the same again. */
static struct value value_read(const struct scan *s, char *out, size_t room)
{
	struct value v = {out, room - 1, 0, false};
	struct scan alone = scan_of(s->text.p, s->text.len);
	alone.backslash = s->backslash;
	switch (scan_next_all(&alone)) {
	case TOKEN_WORD: word_read(&v, s->text); break;
	case TOKEN_NUMBER: text_read(&v, s->text); break;
	case TOKEN_NAME:
	case TOKEN_STRING: constant_read(&v, s); break;
	default: v.bad = true; break;
	}
	return v;
}

bool scan_value(const struct scan *s, char *out, size_t room)
{
	if (room == 0)
		return false;
	struct value v = value_read(s, out, room);
	bool well = !v.bad && v.len <= v.room;
	out[well ? v.len : 0] = '\0';
	return well;
}

static size_t utf8_size(uint8_t first)
{
	return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
}

size_t scan_text_cut(const char *text, size_t len)
{
	for (size_t back = 1; back <= 3 && back <= len; back++) {
		uint8_t c = (uint8_t)text[len - back];
		if ((c & 0xc0) != 0x80)
			return utf8_size(c) > back ? len - back : len;
	}
	return len;
}

bool scan_value_cut(const struct scan *s, char *out, size_t room)
{
	if (room == 0)
		return false;
	struct value v = value_read(s, out, room);
	size_t len = v.bad ? 0 : v.len <= v.room ? v.len : scan_text_cut(out, v.room);
	out[len] = '\0';
	return !v.bad;
}
