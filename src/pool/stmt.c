/* Prepared statements: texts found by content, sets of copies on servers, names of clients.
 *
 *   client's name --> stmt_name --\
 *   client's name --> stmt_name ---> stmt (one per text and worker) <--- stmt_copy <-- stmt_set of a server
 *
 * All arrows to a stmt are references; with the last one it is gone. A retired stmt has left the hash, so nobody finds it
 * any more, but whoever holds it keeps it. */
#include "pool/stmt.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/verify.h"

/* ---- statements ---- */

struct stmt_key {
	struct span body;
	uint64_t settings;
};

static bool stmt_is(const struct hash_link *link, const void *key)
{
	const struct stmt *s = owner_of(link, struct stmt, link);
	const struct stmt_key *k = key;

	return s->settings == k->settings && s->len == k->body.len && memcmp(s->body, k->body.p, s->len) == 0;
}

static struct stmt *stmt_new(struct stmt_book *b, struct span body)
{
	struct stmt *s = mem_new(sizeof(*s) + body.len);

	s->book = b;
	s->refs = 1;
	s->serial = ++b->last_serial;
	s->name_len = (uint8_t)snprintf(s->name, sizeof(s->name), "PGWEIR_%llu", (unsigned long long)s->serial);
	s->len = body.len;
	memcpy(s->body, body.p, body.len);
	b->bytes += sizeof(*s) + body.len;
	return s;
}

struct stmt *stmt_of(struct stmt_book *b, const uint8_t *body, size_t len, uint64_t settings)
{
	struct stmt_key key = {{body, len}, settings};
	uint64_t hash = settings ? hash_join(hash_bytes(body, len), settings) : hash_bytes(body, len);
	struct hash_link *link;
	struct stmt *s;

	verify(len > 0); /* a query's NUL at least */
	link = hash_find(&b->by_content, hash, stmt_is, &key);
	if (link)
		return stmt_ref(owner_of(link, struct stmt, link));
	s = stmt_new(b, key.body);
	s->settings = settings;
	hash_add(&b->by_content, &s->link, hash);
	return s;
}

struct stmt *stmt_ref(struct stmt *s)
{
	verify(s->refs > 0);
	s->refs++;
	return s;
}

void stmt_retire(struct stmt *s)
{
	if (s->retired)
		return;
	s->retired = true;
	hash_take(&s->book->by_content, &s->link);
}

void stmt_drop(struct stmt **at)
{
	struct stmt *s = *at;

	*at = NULL;
	if (!s)
		return;
	verify(s->refs > 0);
	if (--s->refs)
		return;
	stmt_retire(s);
	s->book->bytes -= sizeof(*s) + s->len;
	mem_free(s);
}

void stmt_book_free(struct stmt_book *b)
{
	verify(b->bytes == 0);
	hash_free(&b->by_content);
}

/* ---- copies on a server ---- */

static uint64_t serial_hash(uint64_t serial)
{
	return hash_join(0, serial);
}

static bool copy_is_of(const struct hash_link *link, const void *serial)
{
	return owner_of(link, struct stmt_copy, link)->stmt->serial == *(const uint64_t *)serial;
}

static struct stmt_copy *copy_find(const struct stmt_set *s, uint64_t serial)
{
	struct hash_link *link = hash_find(&s->by_serial, serial_hash(serial), copy_is_of, &serial);

	return link ? owner_of(link, struct stmt_copy, link) : NULL;
}

static void copy_free(struct stmt_set *s, struct stmt_copy *copy)
{
	hash_take(&s->by_serial, &copy->link);
	list_take(&copy->lru);
	stmt_drop(&copy->stmt);
	mem_free(copy);
}

void stmt_set_init(struct stmt_set *s)
{
	*s = (struct stmt_set){0};
	list_init(&s->lru);
}

static struct stmt_copy *youngest(const struct stmt_set *s)
{
	return list_empty(&s->lru) ? NULL : list_owner(s->lru.prev, struct stmt_copy, lru);
}

bool stmt_set_use(struct stmt_set *s, const struct stmt *st)
{
	struct stmt_copy *copy = youngest(s);

	if (copy && copy->stmt == st) /* the same as the last time, as often: nothing moves */
		return true;
	copy = copy_find(s, st->serial);
	if (!copy)
		return false;
	list_take(&copy->lru);
	list_push(&s->lru, &copy->lru);
	return true;
}

void stmt_set_add(struct stmt_set *s, struct stmt *st)
{
	struct stmt_copy *copy;

	if (stmt_set_use(s, st))
		return;
	copy = mem_make(struct stmt_copy);
	copy->stmt = stmt_ref(st);
	list_push(&s->lru, &copy->lru);
	hash_add(&s->by_serial, &copy->link, serial_hash(st->serial));
}

void stmt_set_take(struct stmt_set *s, const struct stmt *st)
{
	struct stmt_copy *copy = copy_find(s, st->serial);

	if (copy)
		copy_free(s, copy);
}

struct stmt *stmt_set_find(const struct stmt_set *s, uint64_t serial)
{
	struct stmt_copy *copy = copy_find(s, serial);

	return copy ? copy->stmt : NULL;
}

struct stmt *stmt_set_oldest(const struct stmt_set *s)
{
	if (list_empty(&s->lru))
		return NULL;
	return list_owner(s->lru.next, struct stmt_copy, lru)->stmt;
}

void stmt_set_clear(struct stmt_set *s)
{
	hash_each(link, &s->by_serial)
		copy_free(s, owner_of(link, struct stmt_copy, link));
	hash_free(&s->by_serial);
}

/* ---- names ---- */

#define NAME_MOST 63 /* so many bytes tell names apart (NAMEDATALEN) */

static uint64_t name_hash(const char *name)
{
	return hash_bytes(name, strnlen(name, NAME_MOST));
}

static bool name_is(const struct hash_link *link, const void *name)
{
	return strncmp(owner_of(link, struct stmt_name, link)->name, name, NAME_MOST) == 0;
}

struct stmt_name *stmt_name_find(struct stmt_names *names, const char *name)
{
	struct hash_link *link;

	if (!names->by_name.count)
		return NULL; /* most clients name nothing: spare them the hash */
	if (names->last && strcmp(names->last->name, name) == 0)
		return names->last; /* the same as the last time, as often */
	link = hash_find(&names->by_name, name_hash(name), name_is, name);
	if (!link)
		return NULL;
	names->last = owner_of(link, struct stmt_name, link);
	return names->last;
}

static size_t name_bytes(size_t name_len, size_t body_len)
{
	return sizeof(struct stmt_name) + name_len + 1 + sizeof(struct stmt) + body_len;
}

bool stmt_names_are_full(const struct stmt_names *names, const char *name, size_t body_len, size_t most, size_t most_bytes)
{
	if (most && stmt_names_count(names) >= most)
		return true;
	return most_bytes && names->bytes + name_bytes(strlen(name), body_len) > most_bytes;
}

struct stmt_name *stmt_name_new(const char *name, struct stmt *s)
{
	size_t len = strlen(name);
	struct stmt_name *n = mem_new(sizeof(*n) + len + 1);

	memcpy(n->name, name, len + 1);
	n->stmt = stmt_ref(s);
	n->bytes = name_bytes(len, s->len);
	n->refs = 1;
	return n;
}

struct stmt_name *stmt_name_ref(struct stmt_name *n)
{
	verify(n->refs > 0);
	n->refs++;
	return n;
}

void stmt_name_put(struct stmt_names *names, struct stmt_name *n)
{
	hash_add(&names->by_name, &n->link, name_hash(n->name));
	names->bytes += n->bytes;
	names->last = n;
}

void stmt_name_take(struct stmt_names *names, struct stmt_name *n)
{
	hash_take(&names->by_name, &n->link);
	names->bytes -= n->bytes;
	if (names->last == n)
		names->last = NULL;
}

void stmt_name_free(struct stmt_name **at)
{
	struct stmt_name *n = *at;

	*at = NULL;
	if (!n)
		return;
	verify(n->refs > 0);
	if (--n->refs)
		return;
	stmt_drop(&n->stmt);
	mem_free(n->deallocates);
	mem_free(n);
}

void stmt_names_clear_settled(struct stmt_names *names)
{
	hash_each(link, &names->by_name) {
		struct stmt_name *n = owner_of(link, struct stmt_name, link);

		if (n->refs > 1)
			continue;
		stmt_name_take(names, n);
		stmt_name_free(&n);
	}
}

void stmt_names_clear(struct stmt_names *names)
{
	hash_each(link, &names->by_name) {
		struct stmt_name *n = owner_of(link, struct stmt_name, link);

		stmt_name_take(names, n);
		stmt_name_free(&n);
	}
	hash_free(&names->by_name);
}
