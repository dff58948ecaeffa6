/* Any bytes as a configuration: read, refused or taken, then asked. Files must not come into it, so inputs that would
 * name one are left alone. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "conf/conf.h"
#include "conf/ini.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void on_row(void *arg, const struct ini_row *row)
{
	*(size_t *)arg += strlen(row->section) + (row->key ? strlen(row->key) + strlen(row->value) : 0);
}

static void on_fault(void *arg, const char *file, int line, const char *text)
{
	*(size_t *)arg += strlen(file) + strlen(text) + (size_t)line;
}

/* A snapshot holds together: every entry and org can be asked for what holds for it. */
static void ask(struct conf *c)
{
	struct policy p;
	struct err err = {0};
	struct conf_entry *made = conf_entry_make(c, "made");
	struct conf *other;

	hash_each(e, &c->entries)
		hash_each(o, &c->orgs)
			conf_policy(c, owner_of(e, struct conf_entry, link), "user", owner_of(o, struct conf_org, link)->id, &p);
	for (int i = 0; i < c->n_clusters; i++)
		if (c->cluster_at[i]->index != i)
			abort();
	conf_entry_free(&made);
	other = conf_with(c, "default_pool_size", "7", &err);
	if (!other)
		abort();
	conf_drop(&other);
}

static bool names_a_file(const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i + 8 <= len; i++)
		if (strncasecmp((const char *)bytes + i, "%include", 8) == 0 || strncasecmp((const char *)bytes + i, "auth_fil", 8) == 0)
			return true;
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct conf_report r = {0};
	struct conf *c;
	size_t sum = 0;
	char *text;

	if (names_a_file(bytes, len))
		return 0;
	ini_read_text("fuzz", (struct span){bytes, len}, on_row, on_fault, &sum);
	text = mem_strn(bytes, len);
	c = conf_load_text(text, &r);
	if (!c != (r.errors.len != 0))
		abort();
	if (c)
		ask(c);
	conf_drop(&c);
	conf_report_free(&r);
	mem_free(text);
	return 0;
}
