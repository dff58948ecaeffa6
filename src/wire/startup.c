/* The first packet of a connection (chapter 55.7, StartupMessage and its three relatives) and the `options` startup
 * parameter. A stranger wrote it, so nothing is taken on trust: the length word is judged as soon as it is there and
 * the code as soon as it is there, before a byte more is waited for; then every name and value has to end inside the
 * packet, and the packet has to end with the terminator and nothing behind it.
 *
 *   [length][code][name\0 value\0 ...]\0        code: 3.x, or one of the request codes below
 *
 * The limit is PostgreSQL's 10,000 bytes: what is longer would not be taken by it either. */
#include "wire/startup.h"

#include "base/mem.h"
#include "wire/reader.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

#define HEAD 8 /* length and code */

/* A cancel key is a process id and a secret of 4 bytes, in protocol 3.2 of up to 256. */
#define KEY_LEAST (4 + 4)
#define KEY_MOST (4 + 256)

#define MAJOR(version) ((version) >> 16)
#define MINOR(version) ((version) & 0xffff)

static enum parse bad(struct err *err, const char *text)
{
	err_set(err, SQLSTATE_PROTOCOL, "%s", text);
	return PARSE_BAD;
}

static enum parse bad_version(uint32_t version, struct err *err)
{
	if (MAJOR(version) == 2)
		err_set(err, SQLSTATE_UNSUPPORTED, "old V2 protocol not supported");
	else
		err_set(err, SQLSTATE_UNSUPPORTED, "unsupported frontend protocol %u.%u: server supports 3.0 to 3.0",
			(unsigned)MAJOR(version), (unsigned)MINOR(version));
	return PARSE_BAD;
}

/* What the code means, and whether the length fits it. */
static enum parse head_parse(uint32_t code, struct startup *out, struct err *err)
{
	size_t body = out->size - HEAD;
	switch (code) {
	case CODE_SSL:
	case CODE_GSS:
		out->kind = code == CODE_SSL ? STARTUP_SSL : STARTUP_GSS;
		return body == 0 ? PARSE_OK : bad(err, "invalid length of startup packet");
	case CODE_CANCEL:
		out->kind = STARTUP_CANCEL;
		return body >= KEY_LEAST && body <= KEY_MOST ? PARSE_OK : bad(err, "invalid length of cancel request");
	default:
		out->kind = STARTUP_LOGIN;
		out->version = code;
		return MAJOR(code) == MAJOR(PROTOCOL_3_0) ? PARSE_OK : bad_version(code, err);
	}
}

/* Names are compared with case, as PostgreSQL does; of two values for the same one the last counts. */
static bool param_keep(struct startup *out, const char *name, const char *value)
{
	if (strcmp(name, "user") == 0) {
		out->user = value;
	} else if (strcmp(name, "database") == 0) {
		out->database = value;
	} else if (strcmp(name, "replication") == 0) {
		out->replication = value;
	} else if (strncmp(name, "_pq_.", 5) == 0) {
		if (out->n_extensions == STARTUP_PARAMS_MOST)
			return false;
		out->extensions[out->n_extensions++] = name;
	} else {
		if (out->n_params == STARTUP_PARAMS_MOST)
			return false;
		out->params[out->n_params++] = (struct startup_param){name, value};
	}
	return true;
}

static enum parse login_parse(const uint8_t *p, struct startup *out, struct err *err)
{
	struct reader in = reader_of(p + HEAD, out->size - HEAD);
	const char *name;
	while (*(name = read_str(&in))) {
		const char *value = read_str(&in);
		if (in.bad)
			break;
		if (!param_keep(out, name, value))
			return bad(err, "too many startup parameters");
	}
	if (!reader_done(&in))
		return bad(err, "invalid startup packet layout: expected terminator as last byte");
	if (!out->user || !*out->user)
		return bad(err, "no username supplied");
	if (!out->database || !*out->database)
		out->database = out->user;
	out->negotiate = MINOR(out->version) > 0 || out->n_extensions > 0;
	return PARSE_OK;
}

enum parse startup_parse(const uint8_t *p, size_t len, struct startup *out, struct err *err)
{
	*out = (struct startup){0};
	if (len < 4)
		return PARSE_MORE;
	struct reader in = reader_of(p, len);
	out->size = read_u32(&in);
	if (out->size < HEAD || out->size > STARTUP_MOST)
		return bad(err, "invalid length of startup packet");
	if (len < HEAD)
		return PARSE_MORE;
	enum parse head = head_parse(read_u32(&in), out, err);
	if (head != PARSE_OK)
		return head;
	if (len < out->size)
		return PARSE_MORE;
	if (out->kind == STARTUP_CANCEL)
		out->key = read_bytes(&in, out->size - HEAD);
	return out->kind == STARTUP_LOGIN ? login_parse(p, out, err) : PARSE_OK;
}

void startup_negotiate(struct buf *b, const struct startup *s)
{
	size_t begun = msg_begin(b, 'v');
	msg_u32(b, PROTOCOL_3_0);
	msg_u32(b, (uint32_t)s->n_extensions);
	for (int i = 0; i < s->n_extensions; i++)
		msg_str(b, s->extensions[i]);
	msg_end(b, begun);
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Takes one argument off *at: up to an unescaped blank, unescaped in place. NULL at the end of the text; *lame says
 * that it ended in a backslash with nothing to escape. */
static char *argument(char **at, bool *lame)
{
	char *from = *at;
	while (is_blank(*from))
		from++;
	if (!*from)
		return NULL;
	char *begun = from, *to = from;
	while (*from && !is_blank(*from)) {
		if (*from == '\\' && !*++from) {
			*lame = true;
			break;
		}
		*to++ = *from++;
	}
	*at = *from ? from + 1 : from;
	*to = '\0';
	return begun;
}

/* Cuts "name=value" in two. Dashes stand for underscores in a name, as in PostgreSQL's command line. */
static char *assignment_cut(char *name)
{
	char *equals = strchr(name, '=');
	if (!equals || equals == name)
		return NULL;
	*equals = '\0';
	for (char *c = name; *c; c++)
		if (*c == '-')
			*c = '_';
	return equals + 1;
}

static bool options_bad(struct err *err)
{
	return err_set(err, SQLSTATE_SYNTAX, "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed");
}

static bool options_walk(char *at, bool (*set)(void *arg, const char *name, const char *value, struct err *err), void *arg, struct err *err)
{
	char *word;
	bool lame = false;
	while ((word = argument(&at, &lame)) != NULL) {
		char *name = word + 2;
		if (word[0] != '-' || (word[1] != 'c' && word[1] != '-'))
			return options_bad(err);
		if (word[1] == 'c' && !*name)
			name = argument(&at, &lame);
		char *value = name && !lame ? assignment_cut(name) : NULL;
		if (!value)
			return options_bad(err);
		if (!set(arg, name, value, err))
			return false;
	}
	return true;
}

bool startup_options(const char *options, bool (*set)(void *arg, const char *name, const char *value, struct err *err), void *arg, struct err *err)
{
	char *copy = mem_str(options); /* bounded by STARTUP_MOST */
	bool well = options_walk(copy, set, arg, err);
	mem_free(copy);
	return well;
}
