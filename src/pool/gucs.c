/* Tracked parameters: values interned, differences as SQL.
 *
 * A parameter that a client never asked for is to be as a fresh connection has it. That is what RESET does, and not what
 * SET to the value seen at login would do: when an operator has set default_transaction_read_only for the whole server
 * meanwhile, an old connection must not be talked out of it. Only what connect_query had set is set again. */
#include "pool/gucs.h"

#include <strings.h>

#include "base/mem.h"
#include "base/verify.h"

_Static_assert(GUC_MOST <= 32, "gucs_diff returns a mask of 32 bits");

/* ---- values ---- */

static bool value_is(const struct hash_link *link, const void *text)
{
	return strcmp(owner_of(link, struct guc_value, link)->text, text) == 0;
}

struct guc_value *guc_of(struct guc_book *b, const char *text)
{
	size_t len = strlen(text);
	uint64_t hash = hash_bytes(text, len);
	struct hash_link *link = hash_find(&b->values, hash, value_is, text);
	struct guc_value *v;

	if (link)
		return guc_ref(owner_of(link, struct guc_value, link));
	v = mem_new(sizeof(*v) + len + 1);
	v->book = b;
	v->refs = 1;
	memcpy(v->text, text, len + 1);
	hash_add(&b->values, &v->link, hash);
	return v;
}

struct guc_value *guc_ref(struct guc_value *v)
{
	if (v)
		v->refs++;
	return v;
}

void guc_drop(struct guc_value **at)
{
	struct guc_value *v = *at;

	*at = NULL;
	if (!v)
		return;
	verify(v->refs > 0);
	if (--v->refs)
		return;
	hash_take(&v->book->values, &v->link);
	mem_free(v);
}

void guc_book_free(struct guc_book *b)
{
	verify(b->values.count == 0);
	hash_free(&b->values);
}

/* ---- a connection's ---- */

void gucs_set(struct gucs *g, int i, struct guc_value *v)
{
	verify(i >= 0 && i < GUC_MOST);
	guc_drop(&g->at[i]);
	g->at[i] = v;
	if (v)
		g->set |= 1u << i;
	else
		g->set &= ~(1u << i);
}

void gucs_copy(struct gucs *to, const struct gucs *from)
{
	if (to == from)
		return;
	for (int i = 0; i < GUC_MOST; i++)
		if (to->at[i] != from->at[i])
			gucs_set(to, i, guc_ref(from->at[i]));
	to->firm = from->firm;
}

void gucs_clear(struct gucs *g)
{
	for (int i = 0; i < GUC_MOST; i++)
		guc_drop(&g->at[i]);
	g->set = 0;
	g->firm = 0;
}

/* ---- differences ---- */

/* What PostgreSQL does with a parameter's value (flags of its guc_tables.c). LIST: the value is a list of names, each quoted
 * by itself; SET name='a, b' would make one name of it. EXACT: upper and lower case differ. All others fold. */
enum nature { NATURE_FOLD, NATURE_EXACT, NATURE_LIST };

static const struct {
	const char *name;
	enum nature nature;
} natures[] = {
	{"client_encoding", NATURE_FOLD},
	{"DateStyle", NATURE_FOLD},
	{"TimeZone", NATURE_FOLD},
	{"standard_conforming_strings", NATURE_FOLD},
	{"default_transaction_read_only", NATURE_FOLD},
	{"IntervalStyle", NATURE_FOLD},
	{"search_path", NATURE_LIST},
	{"temp_tablespaces", NATURE_LIST},
	{"local_preload_libraries", NATURE_LIST},
	{"session_preload_libraries", NATURE_LIST},
};

static enum nature nature_of(const char *name)
{
	for (size_t i = 0; i < sizeof(natures) / sizeof(natures[0]); i++)
		if (strcasecmp(natures[i].name, name) == 0)
			return natures[i].nature;
	return NATURE_EXACT;
}

/* A client says utf8 where the server says UTF8: no reason for a SET per transaction. */
static bool values_agree(const struct guc_value *a, const struct guc_value *b, const char *name)
{
	if (a == b)
		return true;
	return a && b && nature_of(name) == NATURE_FOLD && strcasecmp(a->text, b->text) == 0;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_plain_name(const char *name)
{
	if (!is_letter(*name))
		return false;
	for (; *name; name++)
		if (!is_letter(*name) && !(*name >= '0' && *name <= '9'))
			return false;
	return true;
}

/* Quoting changes nothing for PostgreSQL, which finds parameters without case; a dotted name is quoted part by part. */
void guc_add_name(struct buf *sql, const char *name)
{
	if (is_plain_name(name)) {
		buf_add_str(sql, name);
		return;
	}
	buf_add_u8(sql, '"');
	for (; *name; name++) {
		if (*name == '.')
			buf_add_str(sql, "\".\"");
		else if (*name == '"')
			buf_add_str(sql, "\"\"");
		else
			buf_add_u8(sql, (uint8_t)*name);
	}
	buf_add_u8(sql, '"');
}

/* A quote is doubled, which is right in any string. A backslash means one thing or another by standard_conforming_strings, but
 * not in E'', and there it is written as \134 rather than doubled: where client_encoding lets a character end in the byte of a
 * backslash (SJIS, BIG5, GBK), a doubled one would leave half of it behind to swallow the quote that ends the string.
 * No encoding has characters that end in the byte of a quote, and text that is not valid PostgreSQL refuses as a whole
 * before it looks for tokens. */
void guc_quote(struct buf *sql, const char *value)
{
	buf_add_str(sql, strchr(value, '\\') ? "E'" : "'");
	for (; *value; value++) {
		if (*value == '\'')
			buf_add_str(sql, "''");
		else if (*value == '\\')
			buf_add_str(sql, "\\134");
		else
			buf_add_u8(sql, (uint8_t)*value);
	}
	buf_add_u8(sql, '\'');
}

static void add_set(struct buf *sql, const char *name, const char *value)
{
	if (nature_of(name) == NATURE_LIST) {
		buf_add_str(sql, "SELECT pg_catalog.set_config(");
		guc_quote(sql, name);
		buf_add_u8(sql, ',');
		guc_quote(sql, value);
		buf_add_str(sql, ",false);");
		return;
	}
	buf_add_str(sql, "SET ");
	guc_add_name(sql, name);
	buf_add_u8(sql, '=');
	guc_quote(sql, value);
	buf_add_u8(sql, ';');
}

static void add_reset(struct buf *sql, const char *name)
{
	buf_add_str(sql, "RESET ");
	guc_add_name(sql, name);
	buf_add_u8(sql, ';');
}

uint32_t gucs_differ(const struct gucs *a, const struct gucs *b)
{
	uint32_t bits = 0;

	for (int i = 0; i < GUC_MOST; i++)
		bits |= (uint32_t)(a->at[i] != b->at[i]) << i;
	return bits;
}

uint32_t gucs_diff(const struct gucs *want, const struct gucs *now, const struct gucs *login, const struct setup *setup, struct buf *sql)
{
	uint32_t changed = 0;

	for (int i = 0; i < setup->n_gucs; i++) {
		const char *name = setup->guc_names[i];
		const struct guc_value *goal = want->at[i] ? want->at[i] : login->at[i];

		if (goal == now->at[i] || values_agree(goal, now->at[i], name))
			continue;
		if (want->at[i] || (goal && login->firm & (1u << i)))
			add_set(sql, name, goal->text);
		else
			add_reset(sql, name);
		changed |= 1u << i;
	}
	return changed;
}
