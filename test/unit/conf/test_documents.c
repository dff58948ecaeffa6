/* The sample file and the manual say what the settings table says. build-aux/settings-doc writes them; this reads
 * them back with the program's own table. Where the source is comes from make ($srcdir). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/mem.h"
#include "loaded.h"

static char *source_file(const char *name)
{
	const char *srcdir = getenv("srcdir");
	char path[1024];
	struct buf text = {0};
	FILE *f;
	int c;

	snprintf(path, sizeof(path), "%s/%s", srcdir ? srcdir : ".", name);
	f = fopen(path, "r");
	if (!f)
		fail_msg("cannot open %s", path);
	while ((c = getc(f)) != EOF)
		buf_add_u8(&text, (uint8_t)c);
	fclose(f);
	buf_add_u8(&text, '\0');
	return (char *)text.p;
}

static int count(const char *text, const char *what)
{
	int n = 0;

	for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
		n++;
	return n;
}

/* Is the value in the documents the default? They may write it with a unit, so it is read first. */
static void default_is(const struct setting *s, const char *value, size_t len)
{
	struct settings set;
	struct buf want = {0}, is = {0};
	char *text = mem_strn(value, len);
	struct err err = {0};

	settings_init(&set, false);
	if (!setting_parse(s, &set, text, &err))
		fail_msg("%s", err.text);
	setting_print(s, &set, &is);
	setting_print_default(s, false, &want);
	if (!span_same(buf_span(&is), buf_span(&want)))
		fail_msg("%s: the documents have \"%s\"", setting_name(s), text);
	settings_free(&set);
	buf_free(&want);
	buf_free(&is);
	mem_free(text);
}

static void the_sample_file_has_every_setting_once_with_its_default(void **state)
{
	char *text = source_file("etc/pgweir.ini");

	(void)state;
	for (int i = 0; i < settings_count(); i++) {
		const struct setting *s = setting_at(i);
		char line[128];
		const char *at;

		snprintf(line, sizeof(line), "\n;%s =", setting_name(s));
		if (count(text, line) != 1)
			fail_msg("%s stands %d times in etc/pgweir.ini; run build-aux/settings-doc", setting_name(s), count(text, line));
		if (!strstr(text, setting_help(s)))
			fail_msg("the help of %s is not in etc/pgweir.ini; run build-aux/settings-doc", setting_name(s));
		at = strstr(text, line) + strlen(line);
		at += *at == ' ';
		default_is(s, at, strcspn(at, "\n"));
	}
	mem_free(text);
}

static void the_sample_file_loads_as_it_is(void **state)
{
	char *text = source_file("etc/pgweir.ini");
	struct conf *c = loads(text);

	(void)state;
	assert_false(c->pgbouncer);
	conf_drop(&c);
	mem_free(text);
}

static void the_sample_file_loads_with_everything_uncommented(void **state)
{
	char *text = source_file("etc/pgweir.ini");
	struct conf *c;

	(void)state;
	for (char *at = strchr(text, '\n'); at && at[1]; at = strchr(at + 1, '\n'))
		if (at[1] == ';' && at[2] != ';')
			at[1] = ' ';
	c = loads(text);
	assert_non_null(conf_entry(c, "app"));
	assert_non_null(c->star);
	assert_non_null(conf_cluster(c, "main"));
	assert_non_null(conf_org(c, "11111111-1111-1111-1111-111111111111"));
	conf_drop(&c);
	mem_free(text);
}

static void the_manual_has_every_setting_once_with_its_default_and_marks(void **state)
{
	char *text = source_file("docs/configuration.md");

	(void)state;
	for (int i = 0; i < settings_count(); i++) {
		const struct setting *s = setting_at(i);
		char row[128], *line;
		const char *at;

		snprintf(row, sizeof(row), "\n| `%s` | ", setting_name(s));
		if (count(text, row) < 1)
			fail_msg("%s is not in docs/configuration.md; run build-aux/settings-doc", setting_name(s));
		at = strstr(text, row) + strlen(row);
		line = mem_strn(at, strcspn(at, "\n"));
		default_is(s, line + (*line == '`'), *line == '`' ? strcspn(line + 1, "`") : 0);
		if (!strpbrk(setting_help(s), "<|") && !strstr(line, setting_help(s)))
			fail_msg("the help of %s is not in docs/configuration.md; run build-aux/settings-doc", setting_name(s));
		assert_int_equal(strstr(line, "Needs a restart.") != NULL, (setting_flags(s) & SETTING_RESTART) != 0);
		assert_int_equal(strstr(line, "Not built yet.") != NULL, (setting_flags(s) & SETTING_UNBUILT) != 0);
		mem_free(line);
	}
	mem_free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sample_file_has_every_setting_once_with_its_default),
		cmocka_unit_test(the_sample_file_loads_as_it_is),
		cmocka_unit_test(the_sample_file_loads_with_everything_uncommented),
		cmocka_unit_test(the_manual_has_every_setting_once_with_its_default_and_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
