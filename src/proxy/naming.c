/* See proxy/naming.h. Runs for errors only, so names are searched for one by one. */
#include "proxy/naming.h"

#include <string.h>

#include "proxy/link.h"
#include "wire/reader.h"
#include "wire/report.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

static bool is_meant(const struct stmt_name *n, const struct reply *front)
{
	return n && n->stmt->serial == (uintptr_t)front->note && (uint32_t)n->link.hash == front->tag;
}

/* The client's name for the statement; among those, too, whose Close stands behind the error. NULL: it has none. */
static const struct stmt_name *name_meant(struct client *c, const struct reply *front)
{
	struct replies *r = &c->server->replies;

	hash_each(link, &c->stmts.by_name)
		if (is_meant(owner_of(link, struct stmt_name, link), front))
			return owner_of(link, struct stmt_name, link);
	for (uint32_t i = 0; i < r->count; i++) {
		const struct reply *e = replies_at(r, i);
		if ((e->mark == MARK_CLOSED || e->mark == MARK_DEALLOCATE) && is_meant(e->note, front))
			return e->note;
	}
	return NULL;
}

/* Other errors may hold values of the client's that look like a name of ours. */
static bool names_statements(const struct report *r)
{
	return strcmp(r->sqlstate, SQLSTATE_PROTOCOL) == 0 || strcmp(r->sqlstate, SQLSTATE_NO_STATEMENT) == 0;
}

/* Where in the text the statement's name on the server stands; NULL: nowhere. */
static const char *place_of(const char *text, const struct stmt *st)
{
	for (; (text = strstr(text, st->name)) != NULL; text += st->name_len)
		if (text[st->name_len] < '0' || text[st->name_len] > '9')
			return text;
	return NULL;
}

static void write_renamed(struct buf *out, const char *text, const char *place, const struct stmt_name *n)
{
	msg_bytes(out, text, (size_t)(place - text));
	msg_bytes(out, n->name, strlen(n->name));
	msg_str(out, place + n->stmt->name_len);
}

bool naming_error(struct client *c, const uint8_t *body, size_t len, struct buf *out)
{
	const struct reply *front = replies_front(&c->server->replies);
	struct reader in = reader_of(body, len);
	const struct stmt_name *n;
	const char *place;
	struct report r;
	uint8_t code;

	if (!front || front->mark != MARK_PLAN || !report_read(body, len, &r) || !names_statements(&r))
		return false;
	n = name_meant(c, front);
	place = n ? place_of(r.text, n->stmt) : NULL;
	if (!place)
		return false;
	size_t begun = msg_begin(out, 'E');
	while ((code = read_u8(&in)) != 0) {
		const char *text = read_str(&in);
		msg_u8(out, code);
		if (text == r.text)
			write_renamed(out, text, place, n);
		else
			msg_str(out, text);
	}
	msg_u8(out, 0);
	msg_end(out, begun);
	return true;
}
