/* Result sets of the console, in text format. The types are PostgreSQL's own OIDs (pg_type), with the sizes it
 * reports for them; a driver that trusts the type must be able to parse the text. */
#include "wire/rows.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/verify.h"
#include "wire/writer.h"

#define NULL_LENGTH UINT32_MAX /* -1 */
#define ANY_LENGTH UINT16_MAX  /* -1: typlen of a varlena */

static uint16_t length_of(enum column_type type)
{
	switch (type) {
	case COL_INT4: return 4;
	case COL_INT8: return 8;
	case COL_TEXT:
	case COL_NUMERIC:
	case COL_BYTEA: return ANY_LENGTH;
	}
	never("a column type without a length");
}

static void column_write(struct buf *b, const struct column *c)
{
	msg_str(b, c->name);
	msg_u32(b, 0); /* of no table */
	msg_u16(b, 0); /* and no attribute of one */
	msg_u32(b, (uint32_t)c->type);
	msg_u16(b, length_of(c->type));
	msg_u32(b, UINT32_MAX); /* typmod -1 */
	msg_u16(b, 0);          /* text */
}

void rows_head(struct buf *b, const struct column *columns, int n)
{
	verify(n >= 0 && n <= INT16_MAX);
	size_t begun = msg_begin(b, 'T');
	msg_u16(b, (uint16_t)n);
	for (int i = 0; i < n; i++)
		column_write(b, &columns[i]);
	msg_end(b, begun);
}

void row_begin(struct row *r, struct buf *b, int n_columns)
{
	verify(n_columns >= 0 && n_columns <= INT16_MAX);
	r->buf = b;
	r->begun = msg_begin(b, 'D');
	r->count_at = b->len;
	r->n = n_columns;
	r->filled = 0;
	msg_u16(b, (uint16_t)n_columns);
}

static void value(struct row *r, const char *text, size_t len)
{
	verify(r->filled < r->n);
	r->filled++;
	msg_u32(r->buf, (uint32_t)len);
	msg_bytes(r->buf, text, len);
}

void row_text(struct row *r, const char *text)
{
	if (text)
		value(r, text, strlen(text));
	else
		row_null(r);
}

void row_int(struct row *r, int64_t v)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "%" PRId64, v);
	value(r, text, (size_t)len);
}

void row_null(struct row *r)
{
	verify(r->filled < r->n);
	r->filled++;
	msg_u32(r->buf, NULL_LENGTH);
}

void row_end(struct row *r)
{
	verify(r->filled == r->n);
	msg_end(r->buf, r->begun);
}
