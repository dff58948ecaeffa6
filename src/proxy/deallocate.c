/* See proxy/deallocate.h. */
#include "proxy/deallocate.h"

#include <string.h>
#include <strings.h>

#include "sql/statement.h"
#include "wire/writer.h"

static void skip_space(const uint8_t **sql, size_t *len)
{
	while (*len && (**sql == ' ' || **sql == '\t' || **sql == '\n' || **sql == '\r' || **sql == ';')) {
		(*sql)++;
		(*len)--;
	}
}

/* Most texts are something else: that is seen at their first letter. */
static bool may_deallocate(const uint8_t *sql, size_t len)
{
	skip_space(&sql, &len);
	return len > 10 && (*sql == '/' || *sql == '-' || strncasecmp((const char *)sql, "deallocate", 10) == 0);
}

bool deallocate_reads(const uint8_t *sql, size_t len, char name[DEALLOCATED_NAME])
{
	struct scan scan = scan_of(sql, len);
	struct statement st, next;

	if (!may_deallocate(sql, len) || !statement_next(&scan, &st) || st.kind != STATEMENT_DEALLOCATE || statement_next(&scan, &next))
		return false;
	memcpy(name, st.name, DEALLOCATED_NAME);
	return true;
}

bool deallocate_may_be_all(const uint8_t *sql, size_t len)
{
	for (const uint8_t *at = sql; len >= 7 && len <= FORGETS_MOST;) {
		const uint8_t *all = memchr(at, 'l', len - (size_t)(at - sql)); /* ALL, in any case */
		const uint8_t *big = memchr(at, 'L', len - (size_t)(at - sql));
		if (!all || (big && big < all))
			all = big;
		if (!all)
			return false;
		if (all > sql && (all[-1] | 0x20) == 'a' && all + 1 < sql + len && (all[1] | 0x20) == 'l')
			return true;
		at = all + 1;
	}
	return false;
}

bool deallocate_may_be_all_alone(const uint8_t *sql, size_t len)
{
	const uint8_t *at = sql;
	size_t left = len;

	skip_space(&at, &left);
	return left && ((*at | 0x20) == 'd' || *at == '/' || *at == '-') && deallocate_may_be_all(at, left);
}

/* ---- portals ---- */

static void portal_free(struct portal *p)
{
	list_take(&p->link);
	mem_free(p->deallocates);
	mem_free(p);
}

struct portal *portal_find(const struct client *c, const char *name)
{
	list_each(l, &c->portals) {
		struct portal *p = list_owner(l, struct portal, link);
		if (strcmp(p->name, name) == 0)
			return p;
	}
	return NULL;
}

void portal_bound(struct client *c, const char *name, const char *deallocates, bool forgets)
{
	struct portal *p = portal_find(c, name);
	size_t len, count = 0;

	if (p)
		portal_free(p);
	if (!deallocates && !forgets)
		return;
	len = strlen(name);
	p = mem_new(sizeof(*p) + len + 1);
	memcpy(p->name, name, len + 1);
	p->deallocates = deallocates ? mem_str(deallocates) : NULL;
	p->forgets = forgets;
	list_push(&c->portals, &p->link);
	list_each(l, &c->portals)
		count++;
	if (count > PORTALS_MOST)
		portal_free(list_owner(c->portals.next, struct portal, link));
}

void portals_clear(struct client *c)
{
	while (!list_empty(&c->portals))
		portal_free(list_owner(c->portals.next, struct portal, link));
}

static void write_text(struct buf *out, const char *name)
{
	buf_add_str(out, "DEALLOCATE \"");
	for (; *name; name++) {
		if (*name == '"')
			buf_add_u8(out, '"');
		buf_add_u8(out, (uint8_t)*name);
	}
	buf_add(out, "\"", 2);
}

void deallocate_write(struct buf *out, const struct portal *p)
{
	static const char own[] = "PGWEIR_deallocates";
	size_t begun;

	msg_object(out, 'D', 'P', p->name);
	begun = msg_begin(out, 'P');
	msg_str(out, own);
	write_text(out, p->deallocates);
	msg_bytes(out, "\0\0", 2); /* no types */
	msg_end(out, begun);
	msg_bind(out, own, own, NULL, 0);
	msg_object(out, 'C', 'S', own);
	msg_execute(out, own);
	msg_object(out, 'C', 'P', own);
	msg_execute(out, p->name);
}
