/* See pool/guc_list.h. */
#include "pool/guc_list.h"

#include <string.h>

#include "base/mem.h"
#include "base/verify.h"

struct guc_list *guc_list_ref(struct guc_list *l)
{
	if (l)
		l->refs++;
	return l;
}

void guc_list_drop(struct guc_list **at)
{
	struct guc_list *l = *at;

	*at = NULL;
	if (!l)
		return;
	verify(l->refs > 0);
	if (--l->refs)
		return;
	for (int i = 0; i < l->n; i++) {
		guc_drop(&l->items[i].name);
		guc_drop(&l->items[i].value);
	}
	mem_free(l);
}

static int find(const struct guc_list *l, const char *name)
{
	for (int i = 0; l && i < l->n; i++)
		if (strcmp(l->items[i].name->text, name) == 0)
			return i;
	return -1;
}

const struct guc_value *guc_list_find(const struct guc_list *l, const char *name)
{
	int i = find(l, name);
	return i < 0 ? NULL : l->items[i].value;
}

bool guc_list_same(const struct guc_list *a, const struct guc_list *b)
{
	int n = a ? a->n : 0;

	if (a == b)
		return true;
	if (n != (b ? b->n : 0))
		return false;
	for (int i = 0; i < n; i++)
		if (a->items[i].name != b->items[i].name || a->items[i].value != b->items[i].value)
			return false;
	return true;
}

/* PostgreSQL's parser asks no setting whose name has a point: that is the application's own. */
static uint64_t meaning_of(const struct guc_list *l)
{
	uint64_t hash = 0;

	for (int i = 0; i < l->n; i++) {
		const char *name = l->items[i].name->text, *value = l->items[i].value->text;
		if (!strchr(name, '.'))
			hash = hash_join(hash_join(hash, hash_bytes(name, strlen(name))), hash_bytes(value, strlen(value)));
	}
	return hash;
}

static bool names_pg_temp(const struct guc_list *l)
{
	const struct guc_value *path = guc_list_find(l, "search_path");
	return path && strstr(path->text, "pg_temp");
}

static bool is_wide(const struct guc_list *l)
{
	for (int i = 0; i < l->n; i++)
		for (const char *at = l->items[i].value->text; *at; at++)
			if ((uint8_t)*at >= 0x80)
				return true;
	return false;
}

static void add(struct guc_list *l, struct guc_value *name, struct guc_value *value)
{
	l->items[l->n++] = (struct guc_item){name, value};
}

struct guc_list *guc_list_with(struct guc_list *old, struct guc_book *b, const char *name, const char *value)
{
	int at = find(old, name), n = old ? old->n : 0;
	struct guc_list *l;

	if (at < 0 ? !value : value && strcmp(old->items[at].value->text, value) == 0)
		return old;
	if (n + (value != NULL) - (at >= 0) == 0) {
		guc_list_drop(&old);
		return NULL;
	}
	l = mem_new(sizeof(*l) + (size_t)(n + 1) * sizeof(l->items[0]));
	l->refs = 1;
	for (int i = 0; i < n; i++)
		if (i != at)
			add(l, guc_ref(old->items[i].name), guc_ref(old->items[i].value));
	if (value)
		add(l, guc_of(b, name), guc_of(b, value));
	l->meaning = meaning_of(l);
	l->temporary = names_pg_temp(l);
	l->wide = is_wide(l);
	guc_list_drop(&old);
	return l;
}

bool guc_list_is_too_large(const struct guc_list *l)
{
	size_t bytes = 0;

	if (!l || l->n > GUC_LIST_MOST)
		return l != NULL;
	for (int i = 0; i < l->n; i++)
		bytes += strlen(l->items[i].name->text) + strlen(l->items[i].value->text);
	return bytes > GUC_LIST_BYTES;
}

/* ---- differences ---- */

/* What decides who the session is, and so what else it may set: where one of them differs all of it is set anew. */
static bool is_identity(const char *name)
{
	return strcmp(name, "role") == 0 || strcmp(name, "session_authorization") == 0;
}

static bool identity_differs(const struct guc_list *a, const struct guc_list *b)
{
	return guc_list_find(a, "role") != guc_list_find(b, "role") || guc_list_find(a, "session_authorization") != guc_list_find(b, "session_authorization");
}

static void add_reset(struct buf *sql, const char *name)
{
	if (strcmp(name, "session_authorization") == 0) {
		buf_add_str(sql, "RESET SESSION AUTHORIZATION;");
		return;
	}
	buf_add_str(sql, "RESET ");
	guc_add_name(sql, name);
	buf_add_u8(sql, ';');
}

/* set_config takes a value as SHOW gives it, lists included. */
static void add_set(struct buf *sql, const char *name, const char *value)
{
	buf_add_str(sql, "SELECT pg_catalog.set_config(");
	guc_quote(sql, name);
	buf_add_u8(sql, ',');
	guc_quote(sql, value);
	buf_add_str(sql, ",false);");
}

static void reset_those(const struct guc_list *now, bool identity, struct buf *sql)
{
	for (int i = now ? now->n : 0; i-- > 0;)
		if (is_identity(now->items[i].name->text) == identity)
			add_reset(sql, now->items[i].name->text);
}

static bool has_more(const struct guc_list *now, const struct guc_list *want)
{
	for (int i = 0; now && i < now->n; i++)
		if (!guc_list_find(want, now->items[i].name->text))
			return true;
	return false;
}

void guc_list_diff(const struct guc_list *want, const struct guc_list *now, const char *first, struct buf *sql)
{
	bool more = has_more(now, want);
	bool anew = identity_differs(want, now) || (more && first);

	if (anew) {
		reset_those(now, true, sql);
		reset_those(now, false, sql);
	}
	for (int i = more && !anew ? now->n : 0; i-- > 0;)
		if (!guc_list_find(want, now->items[i].name->text))
			add_reset(sql, now->items[i].name->text);
	if (more && first) {
		buf_add_str(sql, first);
		buf_add_u8(sql, ';');
	}
	for (int i = 0; i < (want ? want->n : 0); i++) {
		const struct guc_item *w = &want->items[i];
		if (anew || guc_list_find(now, w->name->text) != w->value)
			add_set(sql, w->name->text, w->value->text);
	}
}
