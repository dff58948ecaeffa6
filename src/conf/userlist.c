/* auth_file, in PgBouncer's format: "user" "secret" on a line, "" for a quote within quotes, and whatever stands behind
 * is not looked at. A line that cannot be read costs a warning and that user only: a pooler that would not start for
 * it is worse. The warning shows nothing of the line. */
#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "conf/file_priv.h"
#include "conf/load_priv.h"

#define USER_MOST 127 /* as PgBouncer */

void conf_login_free(struct conf_login *login)
{
	mem_free(login->name);
	secret_free(&login->secret);
	mem_free(login);
}

static void keep(struct conf *conf, const char *name, struct span secret)
{
	struct conf_login *login = mem_make(struct conf_login);
	struct conf_login *old = (struct conf_login *)conf_login(conf, name);

	if (old) {
		hash_take(&conf->logins, &old->link);
		conf_login_free(old);
	}
	login->name = mem_str(name);
	secret_set(&login->secret, secret.p ? secret.p : (const uint8_t *)"", secret.len);
	hash_add(&conf->logins, &login->link, hash_bytes(name, strlen(name)));
}

/* A quoted word: copies it to out and leaves the line behind its closing quote. */
static bool word_next(struct span *line, struct buf *out)
{
	size_t i = 0;

	while (i < line->len && isspace(line->p[i]))
		i++;
	if (i == line->len || line->p[i] != '"')
		return false;
	for (i++; i < line->len; i++) {
		if (line->p[i] != '"') {
			buf_add_u8(out, line->p[i]);
			continue;
		}
		if (i + 1 == line->len || line->p[i + 1] != '"')
			break;
		buf_add_u8(out, '"');
		i++;
	}
	if (i == line->len)
		return false;
	line->p += i + 1;
	line->len -= i + 1;
	return true;
}

/* What is wrong with the line; NULL: nothing. */
static const char *take_line(struct conf *conf, struct span line)
{
	struct buf user = {0}, secret = {0};
	const char *wrong = NULL;

	if (memchr(line.p, '\0', line.len))
		wrong = "the line holds a NUL byte";
	else if (!word_next(&line, &user) || !word_next(&line, &secret))
		wrong = "expected \"user\" \"secret\"";
	else if (user.len == 0)
		wrong = "the user's name is empty";
	else if (user.len > USER_MOST)
		wrong = "the user's name is longer than 127 bytes";
	buf_add_u8(&user, '\0');
	if (!wrong)
		keep(conf, (const char *)user.p, buf_span(&secret));
	buf_wipe(&secret);
	buf_wipe(&user); /* of a bad line it may be the secret */
	return wrong;
}

void userlist_load(struct load *l, const char *path)
{
	struct buf text = {0};
	struct err err = {0};
	struct span rest, line;

	if (!file_read(path, &text, &err)) {
		load_error(l, path, 0, "auth_file: %s", err.text);
		return;
	}
	rest = buf_span(&text);
	if (rest.len >= 3 && memcmp(rest.p, "\xef\xbb\xbf", 3) == 0) {
		rest.p += 3;
		rest.len -= 3;
	}
	for (int n = 1; line_next(&rest, &line); n++) {
		const char *wrong = line.len == 0 || line.p[0] == ';' || line.p[0] == '#' ? NULL : take_line(l->conf, line);

		if (wrong)
			load_warning(l, path, n, "%s; the line is left out", wrong);
	}
	buf_wipe(&text);
}

void userlist_copy(struct conf *to, const struct conf *from)
{
	hash_each(link, &from->logins) {
		const struct conf_login *login = owner_of(link, struct conf_login, link);

		keep(to, login->name, secret_span(&login->secret));
	}
}
