/* The settings table: the rows of settings.def as fields of struct settings. */
#include "conf/settings.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/verify.h"
#include "conf/check_priv.h"
#include "conf/field_priv.h"

struct setting {
	struct field field;
	const char *default_text;
	unsigned flags; /* enum setting_flag */
	const char *help;
};

/* The kinds of the rows, with the words of the enum ones. */
#define KIND_OF_STR KIND_STR, NULL
#define KIND_OF_INT KIND_INT, NULL
#define KIND_OF_BOOL KIND_BOOL, NULL
#define KIND_OF_SEC KIND_SEC, NULL
#define KIND_OF_OCTAL KIND_OCTAL, NULL
#define KIND_OF_SIZE KIND_SIZE, NULL
#define KIND_OF_REAL KIND_REAL, NULL
#define KIND_OF_ENUM_pool_mode KIND_WORD, words_pool_mode
#define KIND_OF_ENUM_auth_type KIND_WORD, words_auth_type
#define KIND_OF_ENUM_sslmode KIND_WORD, words_sslmode
#define KIND_OF_ENUM_log_format KIND_WORD, words_log_format
#define KIND_OF_ENUM_org_unknown KIND_WORD, words_org_unknown
#define KIND_OF_ENUM_session_features KIND_WORD, words_session_features
#define KIND_OF_ENUM_breaker_mode KIND_WORD, words_breaker_mode

enum { PLAIN = SETTING_PLAIN, RESTART = SETTING_RESTART, SECRET = SETTING_SECRET, UNBUILT = SETTING_UNBUILT, OURS = SETTING_OURS };

static const struct setting rows[] = {
#define SETTING(name, kind, field_type, default_text, least, most, flags, help) \
	{{#name, KIND_OF_##kind, offsetof(struct settings, name), least, most, (flags) & SECRET ? FIELD_HIDDEN : 0}, default_text, flags, help},
#include "conf/settings.def"
#undef SETTING
};

#define N_ROWS ((int)(sizeof(rows) / sizeof(rows[0])))

static const struct {
	const char *name, *default_text;
} pgbouncer_defaults[] = {
#define SETTING(name, kind, field_type, default_text, least, most, flags, help)
#define UNDER_PGBOUNCER(name, default_text) {#name, default_text},
#include "conf/settings.def"
#undef SETTING
};

static const struct {
	const char *alias, *name;
} aliases[] = {
	{"service_name", "job_name"},
};

static const struct setting *sorted[sizeof(rows) / sizeof(rows[0])];
static pthread_once_t sorted_once = PTHREAD_ONCE_INIT;

static int by_name(const void *a, const void *b)
{
	return strcmp((*(const struct setting *const *)a)->field.name, (*(const struct setting *const *)b)->field.name);
}

static void sort(void)
{
	for (int i = 0; i < N_ROWS; i++)
		sorted[i] = &rows[i];
	qsort(sorted, N_ROWS, sizeof(sorted[0]), by_name);
}

int settings_count(void)
{
	return N_ROWS;
}

const struct setting *setting_at(int i)
{
	verify(i >= 0 && i < N_ROWS);
	pthread_once(&sorted_once, sort);
	return sorted[i];
}

const struct setting *setting_find(const char *name)
{
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (strcasecmp(aliases[i].alias, name) == 0)
			name = aliases[i].name;
	for (int i = 0; i < N_ROWS; i++)
		if (strcasecmp(rows[i].field.name, name) == 0)
			return &rows[i];
	return NULL;
}

const char *setting_name(const struct setting *s)
{
	return s->field.name;
}

const char *setting_help(const struct setting *s)
{
	return s->help;
}

unsigned setting_flags(const struct setting *s)
{
	return s->flags;
}

bool setting_parse(const struct setting *s, struct settings *into, const char *value, struct err *err)
{
	return check_setting(s->field.name, value, err) && field_parse(&s->field, into, value, err);
}

void setting_print(const struct setting *s, const struct settings *from, struct buf *out)
{
	const char *text;

	if (!(s->flags & SETTING_SECRET)) {
		field_print(&s->field, from, out);
		return;
	}
	text = *(char *const *)((const char *)from + s->field.offset);
	buf_add_str(out, text && *text ? "<set>" : "");
}

static const char *default_of(const struct setting *s, bool pgbouncer)
{
	for (size_t i = 0; pgbouncer && i < sizeof(pgbouncer_defaults) / sizeof(pgbouncer_defaults[0]); i++)
		if (strcmp(pgbouncer_defaults[i].name, s->field.name) == 0)
			return pgbouncer_defaults[i].default_text;
	return s->default_text;
}

static void put_default(const struct setting *s, struct settings *into, bool pgbouncer)
{
	struct err err = {0};

	if (!field_parse(&s->field, into, default_of(s, pgbouncer), &err))
		never(err.text);
}

void setting_print_default(const struct setting *s, bool pgbouncer, struct buf *out)
{
	struct settings one = {0};

	put_default(s, &one, pgbouncer);
	setting_print(s, &one, out);
	field_free(&s->field, &one);
}

void settings_init(struct settings *s, bool pgbouncer)
{
	memset(s, 0, sizeof(*s));
	for (int i = 0; i < N_ROWS; i++)
		put_default(&rows[i], s, pgbouncer);
}

void settings_copy(struct settings *to, const struct settings *from)
{
	memset(to, 0, sizeof(*to));
	for (int i = 0; i < N_ROWS; i++)
		field_copy(&rows[i].field, to, from);
}

void settings_free(struct settings *s)
{
	for (int i = 0; i < N_ROWS; i++)
		field_free(&rows[i].field, s);
}
