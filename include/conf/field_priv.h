/* A named, typed place in a struct: how its value is read from text, printed, copied and freed. The settings
 * of the process and the keys of a line of [databases] and its like are all fields, so that a number is read
 * in one way only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/verify.h"
#include "conf/word_priv.h"

enum field_kind {
	KIND_STR,    /* char *, owned; "" when unset */
	KIND_INT,    /* int */
	KIND_BOOL,   /* bool, of a word or any number; prints as 0 or 1 */
	KIND_SEC,    /* usec_t; prints as seconds */
	KIND_WORD,   /* int or enum */
	KIND_OCTAL,  /* int */
	KIND_SIZE,   /* int64_t; prints as bytes */
	KIND_REAL,   /* double */
	KIND_SECRET, /* struct secret */
};

enum field_flag {
	FIELD_HIDDEN = 1,            /* its value stands in no error text */
	FIELD_NEGATIVE_INHERITS = 2, /* a number below 0 means "not set here" and is stored as -1 */
	FIELD_ZERO_INHERITS = 4,     /* the same for a number below 1 */
};

struct field {
	const char *name;
	enum field_kind kind;
	const struct word *words; /* of a KIND_WORD */
	size_t offset;
	int64_t least, most;      /* of a KIND_SEC in seconds; most 0: as large as the type holds */
	unsigned flags;
};

MUST_CHECK bool field_parse(const struct field *f, void *into, const char *value, struct err *err);
void field_print(const struct field *f, const void *from, struct buf *out);
void field_copy(const struct field *f, void *to, const void *from); /* to is zeroed or holds a value */
void field_free(const struct field *f, void *in);
