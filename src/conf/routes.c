/* [routes]: name = org=... application_name=... user=... entry=... to=entry. Read and checked; what they do is not built yet. */
#include <string.h>

#include "base/mem.h"
#include "conf/line_priv.h"

struct draft {
	char *org, *application_name, *user, *entry, *to; /* owns */
};

static const struct key keys[] = {
	KEY(struct draft, org, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY(struct draft, application_name, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY(struct draft, user, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY(struct draft, entry, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY(struct draft, to, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
};

static bool settle(const struct load *l, const struct draft *d, struct err *err)
{
	char id[ORG_ID_MOST + 1];

	if (!d->to)
		return err_set(err, NULL, "a route needs to=entry");
	if (!conf_entry(l->conf, d->to))
		return err_set(err, NULL, "\"%.63s\" is no entry", d->to);
	if (d->org && !org_id_make(d->org, strlen(d->org), id))
		return err_set(err, NULL, "an org's id is 1 to %d of A-Za-z0-9_.:-", ORG_ID_MOST);
	return true;
}

void routes_row(struct load *l, const struct row *row)
{
	struct draft d = {0};
	struct line line = {.load = l, .row = row, .keys = keys, .n_keys = sizeof(keys) / sizeof(keys[0]), .into = &d};
	struct err err = {0};

	line_read(&line);
	if (!line.bad && !settle(l, &d, &err))
		load_error(l, row->file, row->line, "[routes] %.64s: %s", row->key, err.text);
	load_warning(l, row->file, row->line, "[routes] %.64s: routes are not built yet; the line has no effect", row->key);
	for (size_t i = 0; i < line.n_keys; i++)
		field_free(&keys[i].field, &d);
}
