/* Connection strings: key=value pairs with blanks between them and, at will, around the '='.
 *
 * Read as PgBouncer reads them, which differs from libpq in one thing: a backslash is a character like any other,
 * so that a password with one in it stays what it is. A quote within quotes is written twice. An empty value
 * must be written ''. No error text shows any of the string, since it may be half of a password. */
#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "conf/ini.h"

static void skip_blanks(const char **at)
{
	while (isspace((unsigned char)**at))
		++*at;
}

/* A value behind its opening quote: copies it to out (with its NUL) and leaves *at behind the closing one. */
static bool quoted(const char **at, struct buf *out)
{
	const char *p = *at;

	for (; *p; p++) {
		if (*p == '\'' && *++p != '\'') {
			*at = p;
			buf_add_u8(out, '\0');
			return true;
		}
		buf_add_u8(out, (uint8_t)*p);
	}
	return false;
}

static bool bare(const char **at, struct buf *out)
{
	size_t n = 0;

	while ((*at)[n] && !isspace((unsigned char)(*at)[n]))
		n++;
	buf_add(out, *at, n);
	buf_add_u8(out, '\0');
	*at += n;
	return n > 0;
}

static bool bad(const char *text, const char *at, struct err *err, const char *why)
{
	return err_set(err, "22023", "%s at character %zu of the value", why, (size_t)(at - text) + 1);
}

bool pairs_read(const char *text, bool (*pair)(void *arg, const char *key, const char *value, struct err *err), void *arg, struct err *err)
{
	struct buf value = {0};
	const char *at = text;
	bool ok = true;

	for (skip_blanks(&at); ok && *at; skip_blanks(&at)) {
		const char *key_at = at;
		size_t key_len = strcspn(at, "= \t\r\n\v\f");
		char *key;

		at += key_len;
		skip_blanks(&at);
		if (key_len == 0 || *at != '=') {
			ok = bad(text, key_at, err, "expected key=value");
			break;
		}
		at++;
		skip_blanks(&at);
		if (*at == '\'') {
			const char *quote = at++;

			ok = quoted(&at, &value) || bad(text, quote, err, "no closing quote for the one");
			if (ok && *at && !isspace((unsigned char)*at))
				ok = bad(text, at, err, "expected a blank behind the quote");
		} else {
			ok = bare(&at, &value) || bad(text, key_at, err, "no value for the key");
		}
		if (!ok)
			break;
		key = mem_strn(key_at, key_len);
		ok = pair(arg, key, (const char *)value.p, err);
		mem_free(key);
		buf_wipe(&value);
	}
	buf_wipe(&value);
	return ok;
}
