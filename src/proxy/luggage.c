/* See proxy/luggage.h. */
#include "proxy/luggage.h"

#include "base/mem.h"
#include "proxy/worker.h"

struct packed_stmt {
	char *name, *deallocates; /* own */
	uint8_t *body; /* owns */
	size_t len;
	uint64_t settings;
	bool forgets, changes_org, touches, stands_in;
};

struct luggage {
	char *gucs[GUC_MOST];    /* own; NULL: not set */
	struct buf named, start; /* own: name NUL value NUL ... */
	struct packed_stmt *stmts; /* owns */
	size_t n_stmts;
};

/* ---- packing ---- */

static void pack_gucs(struct luggage *l, struct gucs *g)
{
	for (int i = 0; i < GUC_MOST; i++)
		if (g->at[i])
			l->gucs[i] = mem_str(g->at[i]->text);
	gucs_clear(g);
}

static void pack_list(struct buf *out, struct guc_list **list)
{
	for (int i = 0; *list && i < (*list)->n; i++) {
		const struct guc_item *item = &(*list)->items[i];
		buf_add(out, item->name->text, strlen(item->name->text) + 1);
		buf_add(out, item->value->text, strlen(item->value->text) + 1);
	}
	guc_list_drop(list);
}

static void pack_stmts(struct luggage *l, struct stmt_names *names)
{
	l->stmts = mem_new(stmt_names_count(names) * sizeof(*l->stmts) + 1);
	hash_each(link, &names->by_name) {
		const struct stmt_name *n = owner_of(link, struct stmt_name, link);
		const struct stmt *st = n->stmt;

		verify(n->refs == 1); /* no server owes it an answer */
		l->stmts[l->n_stmts++] = (struct packed_stmt){
			.name = mem_str(n->name), .deallocates = mem_str(n->deallocates), .body = (uint8_t *)mem_strn((const char *)st->body, st->len), .len = st->len, .settings = st->settings,
			.forgets = st->forgets, .changes_org = st->changes_org, .touches = st->touches, .stands_in = st->stands_in,
		};
	}
	stmt_names_clear(names);
}

struct luggage *luggage_pack(struct client *c)
{
	struct luggage *l = mem_make(struct luggage);

	verify_here(c->worker->loop);
	verify(!c->server && !c->inventory && !c->gucs_before);
	pack_gucs(l, &c->gucs);
	pack_list(&l->named, &c->named);
	pack_list(&l->start, &c->start);
	pack_stmts(l, &c->stmts);
	return l;
}

/* ---- unpacking ---- */

static void unpack_list(const struct buf *in, struct guc_list **list, struct guc_book *book)
{
	for (size_t at = 0; at < in->len;) {
		const char *name = (const char *)in->p + at, *value = name + strlen(name) + 1;

		*list = guc_list_with(*list, book, name, value);
		at += strlen(name) + 1 + strlen(value) + 1;
	}
}

static void unpack_stmt(struct packed_stmt *p, struct client *c)
{
	struct stmt *st = stmt_of(&c->worker->stmt_book, p->body, p->len, p->settings);

	if (st->refs == 1) {
		st->forgets = p->forgets;
		st->changes_org = p->changes_org;
		st->touches = p->touches;
		st->stands_in = p->stands_in;
	}
	struct stmt_name *n = stmt_name_new(p->name, st);
	n->deallocates = p->deallocates;
	p->deallocates = NULL;
	stmt_name_put(&c->stmts, n);
	stmt_drop(&st);
}

void luggage_unpack(struct luggage **at, struct client *c)
{
	struct luggage *l = *at;
	struct guc_book *book = &c->worker->guc_book;

	verify_here(c->worker->loop);
	for (int i = 0; i < GUC_MOST; i++)
		if (l->gucs[i])
			gucs_set(&c->gucs, i, guc_of(book, l->gucs[i]));
	unpack_list(&l->named, &c->named, book);
	unpack_list(&l->start, &c->start, book);
	for (size_t i = 0; i < l->n_stmts; i++)
		unpack_stmt(&l->stmts[i], c);
	luggage_free(at);
}

void luggage_free(struct luggage **at)
{
	struct luggage *l = *at;

	*at = NULL;
	if (!l)
		return;
	for (int i = 0; i < GUC_MOST; i++)
		mem_free(l->gucs[i]);
	buf_wipe(&l->named);
	buf_wipe(&l->start);
	for (size_t i = 0; i < l->n_stmts; i++) {
		mem_free(l->stmts[i].name);
		mem_free(l->stmts[i].deallocates);
		mem_free(l->stmts[i].body);
	}
	mem_free(l->stmts);
	mem_free(l);
}
