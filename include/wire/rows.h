/* Result rows for the console: RowDescription, DataRow, CommandComplete. Text format. Pure. */
#pragma once

#include "base/buf.h"

enum column_type { COL_TEXT = 25, COL_INT4 = 23, COL_INT8 = 20, COL_NUMERIC = 1700, COL_BYTEA = 17 };

struct column {
	const char *name;
	enum column_type type;
};

void rows_head(struct buf *b, const struct column *columns, int n);

/* One row: begin, then a value per column in order, then end (which verifies the count). */
struct row {
	struct buf *buf;
	size_t begun;
	size_t count_at;
	int n;
	int filled;
};
void row_begin(struct row *r, struct buf *b, int n_columns);
void row_text(struct row *r, const char *text); /* NULL: SQL null */
void row_int(struct row *r, int64_t v);
void row_null(struct row *r);
void row_end(struct row *r);
