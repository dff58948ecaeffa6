/* See proxy/refuse.h. */
#include "proxy/refuse.h"

#include "proxy/expect.h"
#include "proxy/prepared.h"
#include "wire/report.h"
#include "wire/writer.h"

/* No statement has this name, and no statement begins with it. */
#define REFUSED "PGWEIR_refused"

void refuse_here(struct client *c, const struct frame *f, const struct err *err)
{
	struct buf *out = parcel_made(c->worker->to_client);

	report_err(out, "ERROR", err);
	if (f->type == 'Q' || f->type == 'F' || f->type == 'S')
		msg_ready(out, 'I');
	else
		c->refusing = true;
	refuse_drop(c, f);
}

static void expect_refused(struct client *c, enum reply_kind kind, const struct err *err)
{
	struct err *note = mem_make(struct err);

	*note = *err;
	expect(c, kind, REPLY_FORWARD, MARK_REFUSED, note);
}

/* Describe of a statement that does not exist fails as the Parse must. */
void refuse_parse(struct client *c, const struct err *err)
{
	msg_object(to_server(c), 'D', 'S', REFUSED);
	expect_refused(c, REPLY_DESCRIBE, err);
}

const char *refuse_bind(struct client *c, const struct err *err)
{
	expect_refused(c, REPLY_BIND, err);
	return REFUSED;
}

void refuse_query(struct client *c, const struct err *err)
{
	prepared_unnamed_goes(c);
	msg_query(to_server(c), REFUSED);
	expect_refused(c, REPLY_QUERY, err);
}

void refuse_call(struct client *c, const struct err *err)
{
	struct buf *out = to_server(c);
	size_t begun = msg_begin(out, 'F');

	msg_bytes(out, "\0\0\0\0\0\0\0\0\0\0", 10); /* no function has OID 0; no formats, no values, result as text */
	msg_end(out, begun);
	expect_refused(c, REPLY_CALL, err);
}

void refuse_message(struct client *c, uint8_t type, const struct err *err)
{
	struct buf *out = to_server(c);

	switch (type) {
	case 'P':
		msg_parse_sql(out, REFUSED, REFUSED);
		expect_refused(c, REPLY_PARSE, err);
		break;
	case 'B':
		msg_bind(out, "", refuse_bind(c, err), NULL, 0);
		break;
	case 'E':
		msg_execute(out, REFUSED);
		expect_refused(c, REPLY_EXECUTE, err);
		break;
	case 'F':
		refuse_call(c, err);
		break;
	default:
		refuse_query(c, err);
	}
}

