/* Fields: one reader and one printer per kind. */
#include "conf/field_priv.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/secret.h"

/* A duration is added to a clock: sixty years are for ever, and cannot wrap. */
#define SEC_MOST INT32_MAX

/* An enum is stored through an int. */
_Static_assert(sizeof(enum word_state) == sizeof(int), "enums are as wide as int");

static void *place(const struct field *f, void *in)
{
	return (char *)in + f->offset;
}

static const void *place_of(const struct field *f, const void *in)
{
	return (const char *)in + f->offset;
}

/* "default_pool_size: "abc" is not a whole number": the value stands there unless it is to be hidden, or long. */
static bool refuse(const struct field *f, const char *value, struct err *err, const char *why)
{
	if (f->flags & FIELD_HIDDEN || f->kind == KIND_SECRET)
		return err_set(err, "22023", "%s: the value is not %s", f->name, why);
	return err_set(err, "22023", "%s: \"%.64s\" is not %s", f->name, value, why);
}

static bool refuse_limits(const struct field *f, const char *value, struct err *err, int64_t least, int64_t most)
{
	char why[80];

	snprintf(why, sizeof(why), f->kind == KIND_OCTAL ? "in the range 0%" PRIo64 " to 0%" PRIo64 : "in the range %" PRId64 " to %" PRId64, least, most);
	return refuse(f, value, err, why);
}

/* Takes a number that was read: the limits, and what "not set here" means to the field. */
static bool settle(const struct field *f, const char *value, struct err *err, int64_t most_of_type, int64_t *n)
{
	int64_t most = f->most ? f->most : most_of_type;

	if ((f->flags & FIELD_NEGATIVE_INHERITS && *n < 0) || (f->flags & FIELD_ZERO_INHERITS && *n <= 0)) {
		*n = -1;
		return true;
	}
	return (*n >= f->least && *n <= most) || refuse_limits(f, value, err, f->least, most);
}

static bool parse_int(const struct field *f, int *into, const char *value, struct err *err)
{
	int64_t n;

	if (f->kind == KIND_OCTAL ? !num_octal(value, &n) : !num_i64(value, &n))
		return refuse(f, value, err, f->kind == KIND_OCTAL ? "an octal number" : "a whole number");
	if (!settle(f, value, err, INT_MAX, &n))
		return false;
	*into = (int)n;
	return true;
}

static bool parse_bool(const struct field *f, bool *into, const char *value, struct err *err)
{
	int64_t n;

	/* PgBouncer's switches are numbers: anything but 0 is on. */
	if (num_bool(value, into))
		return true;
	if (!num_i64(value, &n))
		return refuse(f, value, err, "0 or 1");
	*into = n != 0;
	return true;
}

static bool parse_sec(const struct field *f, usec_t *into, const char *value, struct err *err)
{
	int64_t most = f->most ? f->most : SEC_MOST;
	usec_t v;

	if (!num_usec(value, &v))
		return refuse(f, value, err, "a duration (seconds, or with us ms s min h d)");
	if (v < f->least * USEC_PER_SEC || v > most * USEC_PER_SEC)
		return refuse_limits(f, value, err, f->least, most);
	*into = f->flags & FIELD_ZERO_INHERITS && v == 0 ? -1 : v;
	return true;
}

static bool parse_word(const struct field *f, int *into, const char *value, struct err *err)
{
	const struct word *word = word_find(f->words, value);
	struct buf list = {0};

	if (word && word->state == WORD_UNBUILT)
		return err_set(err, "0A000", "%s %s is not built yet", f->name, word->name);
	if (word) {
		*into = word->value;
		return true;
	}
	buf_add_str(&list, "one of");
	for (word = f->words; word->name; word++)
		buf_add_fmt(&list, " %s", word->name);
	buf_add_u8(&list, '\0');
	refuse(f, value, err, (const char *)list.p);
	buf_free(&list);
	return false;
}

static bool parse_size(const struct field *f, int64_t *into, const char *value, struct err *err)
{
	int64_t n;

	if (!num_bytes(value, &n))
		return refuse(f, value, err, "a size (bytes, or with B kB MB GB)");
	if (!settle(f, value, err, INT64_MAX, &n))
		return false;
	*into = n;
	return true;
}

/* A plain decimal: what strtod takes besides (inf, nan, hexadecimal) is no sensible setting. */
static bool parse_real(const struct field *f, double *into, const char *value, struct err *err)
{
	double most = f->most ? (double)f->most : INT_MAX;
	char *end;
	double v;

	if (!*value || strspn(value, "0123456789.") != strlen(value) || strpbrk(value, "0123456789") == NULL)
		return refuse(f, value, err, "a number");
	v = strtod(value, &end);
	if (*end)
		return refuse(f, value, err, "a number");
	if (v < (double)f->least || v > most)
		return refuse_limits(f, value, err, f->least, (int64_t)most);
	*into = v;
	return true;
}

/* A string that goes out as a NUL-ended field of the protocol, or a whole line: its length is all there is to check. */
static bool parse_str(const struct field *f, char **into, const char *value, struct err *err)
{
	if (f->most && strlen(value) > (size_t)f->most)
		return err_set(err, "22023", "%s: the value is longer than %" PRId64 " bytes", f->name, f->most);
	mem_free(*into);
	*into = mem_str(value);
	return true;
}

static bool parse_secret(const struct field *f, struct secret *into, const char *value, struct err *err)
{
	if (f->most && strlen(value) > (size_t)f->most)
		return err_set(err, "22023", "%s: the value is longer than %" PRId64 " bytes", f->name, f->most);
	secret_set(into, value, strlen(value));
	return true;
}

bool field_parse(const struct field *f, void *into, const char *value, struct err *err)
{
	void *at = place(f, into);

	switch (f->kind) {
	case KIND_STR:
		return parse_str(f, at, value, err);
	case KIND_INT:
	case KIND_OCTAL:
		return parse_int(f, at, value, err);
	case KIND_BOOL:
		return parse_bool(f, at, value, err);
	case KIND_SEC:
		return parse_sec(f, at, value, err);
	case KIND_WORD:
		return parse_word(f, at, value, err);
	case KIND_SIZE:
		return parse_size(f, at, value, err);
	case KIND_REAL:
		return parse_real(f, at, value, err);
	case KIND_SECRET:
		return parse_secret(f, at, value, err);
	}
	never("a field without a kind");
}

/* "15", "0.5": seconds with as many decimals as are needed, as PgBouncer prints them. */
static void print_sec(usec_t v, struct buf *out)
{
	usec_t part = v % USEC_PER_SEC;

	buf_add_fmt(out, "%" PRId64, v / USEC_PER_SEC);
	if (part == 0)
		return;
	buf_add_fmt(out, ".%06" PRId64, part);
	while (out->p[out->len - 1] == '0')
		out->len--;
}

void field_print(const struct field *f, const void *from, struct buf *out)
{
	const void *at = place_of(f, from);

	switch (f->kind) {
	case KIND_STR:
		buf_add_str(out, *(char *const *)at ? *(char *const *)at : "");
		return;
	case KIND_INT:
		buf_add_fmt(out, "%d", *(const int *)at);
		return;
	case KIND_OCTAL:
		buf_add_fmt(out, "0%03o", (unsigned)*(const int *)at);
		return;
	case KIND_BOOL:
		buf_add_u8(out, *(const bool *)at ? '1' : '0');
		return;
	case KIND_SEC:
		print_sec(*(const usec_t *)at, out);
		return;
	case KIND_WORD:
		buf_add_str(out, word_name(f->words, *(const int *)at));
		return;
	case KIND_SIZE:
		buf_add_fmt(out, "%" PRId64, *(const int64_t *)at);
		return;
	case KIND_REAL:
		buf_add_fmt(out, "%g", *(const double *)at);
		return;
	case KIND_SECRET:
		buf_add_str(out, secret_is_set(at) ? "<set>" : "");
		return;
	}
	never("a field without a kind");
}

static size_t plain_size(enum field_kind kind)
{
	switch (kind) {
	case KIND_BOOL:
		return sizeof(bool);
	case KIND_SEC:
	case KIND_SIZE:
		return sizeof(int64_t);
	case KIND_REAL:
		return sizeof(double);
	default:
		return sizeof(int);
	}
}

void field_copy(const struct field *f, void *to, const void *from)
{
	void *at = place(f, to);
	const void *src = place_of(f, from);

	if (f->kind == KIND_STR) {
		mem_free(*(char **)at);
		*(char **)at = mem_str(*(char *const *)src);
	} else if (f->kind == KIND_SECRET) {
		secret_copy(at, src);
	} else {
		memcpy(at, src, plain_size(f->kind));
	}
}

void field_free(const struct field *f, void *in)
{
	void *at = place(f, in);
	char **text = at;

	if (f->kind == KIND_SECRET)
		secret_free(at);
	if (f->kind != KIND_STR || !*text)
		return;
	if (f->flags & FIELD_HIDDEN)
		explicit_bzero(*text, strlen(*text));
	mem_free(*text);
	*text = NULL;
}
