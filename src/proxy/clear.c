/* See proxy/clear.h. */
#include "proxy/clear.h"

#include "pool/pool.h"
#include "wire/writer.h"

static const char *org_reset_query(const struct conf_entry *e, const struct setup *setup)
{
	return e->cluster->org_reset_query ? e->cluster->org_reset_query : setup->conf->set.org_reset_query;
}

int clear_ahead(struct server *s, const struct setup *setup, struct buf *out)
{
	static const struct gucs nothing_asked;
	const struct conf_entry *e = target_entry(s->target);
	struct buf sql = {0};
	int n = 0;

	s->unnamed_of = 0; /* a client's unnamed statement is gone now */
	if (s->dirty && e) {
		msg_query(out, org_reset_query(e, setup));
		n++;
		server_discarded(s);
		gucs_copy(&s->gucs, &s->gucs_at_login);
		s->dirty = false;
	}
	uint32_t reset = gucs_diff(&nothing_asked, &s->gucs, &s->gucs_at_login, setup, &sql);
	guc_list_diff(NULL, s->named, e ? e->connect_query : NULL, &sql);
	if (sql.len) {
		buf_add_u8(&sql, 0);
		msg_query(out, (const char *)sql.p);
		n++;
	}
	guc_list_drop(&s->named);
	buf_free(&sql);
	/* As after a RESET; what the server reports is noted as it comes. */
	for (int i = 0; i < GUC_MOST; i++)
		if (reset & 1u << i)
			gucs_set(&s->gucs, i, guc_ref(s->gucs_at_login.at[i]));
	return n;
}
