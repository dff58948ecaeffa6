/* control=: where the control store is, as a connection string of PostgreSQL's (documentation, chapter "Connection Strings"), in either form:
 *
 *   host=control port=5432 dbname=control user=weir password='it\'s'
 *   postgresql://weir:secret@control:5432/control
 *
 * What is wrong is told without a word of it, for any may be the password. One host. How TLS is done is a matter of server_tls_*, as for all servers, so there is no sslmode here. */
#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "conf/load_priv.h"

#define PORT_DEFAULT 5432

static bool set(struct conf_control *c, const char *key, const char *value, struct err *err)
{
	char **text = strcmp(key, "host") == 0 || strcmp(key, "hostaddr") == 0 ? &c->host : strcmp(key, "user") == 0 ? &c->user :
		      strcmp(key, "dbname") == 0 ? &c->dbname : NULL;

	if (text) {
		mem_free(*text);
		*text = mem_str(value);
		return true;
	}
	if (strcmp(key, "port") == 0)
		return port_read(value, &c->port, NULL) || err_set(err, "22023", "control: its port is not in the range 1 to 65535");
	if (strcmp(key, "password") == 0) {
		secret_free(&c->password);
		secret_set(&c->password, value, strlen(value));
		return true;
	}
	if (strcmp(key, "sslmode") == 0)
		return err_set(err, "22023", "control: TLS is set by server_tls_sslmode, not by sslmode");
	return err_set(err, "22023", "control: it may have host, port, dbname, user and password, and nothing else");
}

/* ---- key=value ---- */

/* A value, in ' ' or up to a space; \ takes the next letter as it is. */
static bool take_value(const char **at, struct buf *out)
{
	bool quoted = **at == '\'';

	for (*at += quoted; **at && (quoted ? **at != '\'' : !isspace((unsigned char)**at)); ++*at) {
		if (**at == '\\' && (*at)[1])
			++*at;
		buf_add_u8(out, (uint8_t)**at);
	}
	if (quoted && **at != '\'')
		return false;
	*at += quoted;
	buf_add_u8(out, 0);
	return true;
}

static bool read_pairs(struct conf_control *c, const char *at, struct err *err)
{
	for (at += strspn(at, " \t"); *at; at += strspn(at, " \t")) {
		size_t len = strcspn(at, "= \t");
		struct buf value = {0};
		char key[33];
		bool ok;

		if (at[len] != '=' || len == 0 || len >= sizeof(key))
			return err_set(err, "22023", "control: not a connection string (key=value ... or postgresql://...)");
		memcpy(key, at, len);
		key[len] = '\0';
		at += len + 1;
		ok = take_value(&at, &value) ? set(c, key, (const char *)value.p, err) : err_set(err, "22023", "control: a ' is missing");
		buf_wipe(&value);
		if (!ok)
			return false;
	}
	return true;
}

/* ---- postgresql:// ---- */

static int hex(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, tolower((unsigned char)c)) : NULL;

	return at ? (int)(at - digits) : -1;
}

static bool set_decoded(struct conf_control *c, const char *key, const char *p, size_t len, struct err *err)
{
	struct buf text = {0};
	bool ok = true;

	for (size_t i = 0; i < len && ok; i++) {
		int high = i + 2 < len && p[i] == '%' ? hex(p[i + 1]) : -1;
		int low = high >= 0 ? hex(p[i + 2]) : -1;

		if (p[i] != '%')
			buf_add_u8(&text, (uint8_t)p[i]);
		else if (low < 0 || !(high | low))
			ok = err_set(err, "22023", "control: %% stands before two hexadecimal digits");
		else {
			buf_add_u8(&text, (uint8_t)(high << 4 | low));
			i += 2;
		}
	}
	buf_add_u8(&text, 0);
	ok = ok && set(c, key, (const char *)text.p, err);
	buf_wipe(&text);
	return ok;
}

static bool read_host(struct conf_control *c, const char *p, size_t len, struct err *err)
{
	const char *end = p + len, *port = NULL;

	if (len && *p == '[') {
		const char *close = memchr(p, ']', len);

		if (!close)
			return err_set(err, "22023", "control: a ] is missing");
		if (close + 1 < end && close[1] == ':')
			port = close + 2;
		p++;
		len = (size_t)(close - p);
	} else if (len && memchr(p, ':', len)) {
		port = (const char *)memchr(p, ':', len) + 1;
		len = (size_t)(port - 1 - p);
	}
	if (len && !set_decoded(c, "host", p, len, err))
		return false;
	return !port || port == end || set_decoded(c, "port", port, (size_t)(end - port), err);
}

static bool read_query(struct conf_control *c, const char *at, struct err *err)
{
	while (*at) {
		size_t len = strcspn(at, "&"), name = strcspn(at, "=&");
		char key[33];

		if (name >= len || name >= sizeof(key))
			return err_set(err, "22023", "control: behind ? stand key=value&key=value");
		memcpy(key, at, name);
		key[name] = '\0';
		if (!set_decoded(c, key, at + name + 1, len - name - 1, err))
			return false;
		at += len + (at[len] == '&');
	}
	return true;
}

static bool read_uri(struct conf_control *c, const char *at, struct err *err)
{
	size_t len = strcspn(at, "/?");
	const char *sign = memchr(at, '@', len), *rest = at + len;

	if (sign) {
		const char *colon = memchr(at, ':', (size_t)(sign - at));

		if (!set_decoded(c, "user", at, (size_t)((colon ? colon : sign) - at), err))
			return false;
		if (colon && !set_decoded(c, "password", colon + 1, (size_t)(sign - colon - 1), err))
			return false;
		at = sign + 1;
	}
	if (!read_host(c, at, (size_t)(rest - at), err))
		return false;
	if (*rest == '/') {
		size_t name = strcspn(++rest, "?");

		if (name && !set_decoded(c, "dbname", rest, name, err))
			return false;
		rest += name;
	}
	return *rest != '?' || read_query(c, rest + 1, err);
}

/* ---- public ---- */

void control_clear(struct conf_control *c)
{
	mem_free(c->host);
	mem_free(c->user);
	mem_free(c->dbname);
	secret_free(&c->password);
	*c = (struct conf_control){0};
}

bool control_read(const char *text, struct conf_control *out, struct err *err)
{
	const char *at = strncmp(text, "postgresql://", 13) == 0 ? text + 13 : strncmp(text, "postgres://", 11) == 0 ? text + 11 : NULL;
	bool ok;

	*out = (struct conf_control){.port = PORT_DEFAULT};
	ok = at ? read_uri(out, at, err) : read_pairs(out, text, err);
	if (ok && (!out->user || !out->user[0]))
		ok = err_set(err, "22023", "control: it names no user");
	if (ok && out->host && strchr(out->host, ','))
		ok = err_set(err, "22023", "control: one host, not a list");
	if (!ok) {
		control_clear(out);
		return false;
	}
	if (!out->dbname || !out->dbname[0]) {
		mem_free(out->dbname);
		out->dbname = mem_str(out->user);
	}
	if (out->host && !out->host[0]) {
		mem_free(out->host);
		out->host = NULL;
	}
	return true;
}
