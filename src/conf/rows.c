/* The lines of the files, copied. */
#include "conf/rows_priv.h"

#include <string.h>

#include "base/mem.h"

struct rows *rows_new(void)
{
	struct rows *rows = mem_make(struct rows);

	atomic_init(&rows->refs, 1);
	return rows;
}

void rows_add(struct rows *rows, const struct ini_row *row)
{
	struct row *at;

	if (rows->count == rows->room) {
		rows->room = rows->room ? rows->room * 2 : 64;
		rows->at = mem_grow(rows->at, rows->room * sizeof(rows->at[0]));
	}
	at = &rows->at[rows->count++];
	at->file = mem_str(row->file);
	at->line = row->line;
	at->section = mem_str(row->section);
	at->key = mem_str(row->key);
	at->value = mem_str(row->value);
}

struct rows *rows_ref(struct rows *rows)
{
	atomic_fetch_add(&rows->refs, 1);
	return rows;
}

void rows_drop(struct rows **rows)
{
	struct rows *r = *rows;

	*rows = NULL;
	if (!r || atomic_fetch_sub(&r->refs, 1) != 1)
		return;
	for (size_t i = 0; i < r->count; i++) {
		struct row *at = &r->at[i];

		if (at->value)
			explicit_bzero(at->value, strlen(at->value));
		mem_free(at->file);
		mem_free(at->section);
		mem_free(at->key);
		mem_free(at->value);
	}
	mem_free(r->at);
	mem_free(r);
}
