/* The settings of the process section, one row each in settings.def:
 *
 *   SETTING(name, kind, field_type, default, least, most, flags, help)
 *
 *   kind   STR INT BOOL SEC ENUM_<x> OCTAL SIZE REAL; decides how a value is read, printed and stored
 *   least  and most: limits of a number, of a SEC in seconds; most is not looked at where it is 0
 *   flags  RESTART  changes only at start (a reload that finds another value warns by name)
 *          SECRET   SHOW CONFIG and the log print <set>
 *          UNBUILT  known, but not built yet: a warning names it when the file sets it to anything but its default
 *          OURS     not one of PgBouncer's
 * The defaults are those under a [pgweir] heading; PgBouncer's where they differ stand in pgbouncer_defaults (settings.c).
 * SHOW CONFIG, SET, the sample file and the docs are read out of these rows. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/num.h"
#include "base/secret.h"

enum pool_mode { POOL_SESSION, POOL_TRANSACTION, POOL_STATEMENT };
enum auth_type { AUTH_ANY, AUTH_TRUST, AUTH_PLAIN, AUTH_MD5, AUTH_SCRAM, AUTH_CERT, AUTH_HBA, AUTH_LDAP, AUTH_PAM };
enum sslmode { SSL_DISABLE, SSL_ALLOW, SSL_PREFER, SSL_REQUIRE, SSL_VERIFY_CA, SSL_VERIFY_FULL };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };
enum rate_action { RATE_QUEUE, RATE_REJECT };
enum org_unknown { ORG_ADMIT, ORG_REJECT };
enum session_features { FEATURES_PIN, FEATURES_REJECT, FEATURES_ALLOW };
enum breaker_mode { BREAKER_OFF, BREAKER_ON, BREAKER_OBSERVE };
enum balance { BALANCE_ROUND_ROBIN, BALANCE_DISABLE };

const char *pool_mode_name(enum pool_mode m);
const char *auth_type_name(enum auth_type t);
const char *sslmode_name(enum sslmode m);
const char *rate_action_name(enum rate_action a);
const char *priority_name(int priority);

/* One field per row: `usec_t query_timeout;`, `int default_pool_size;`, `char *auth_file;` (owns, never NULL: "" when unset). */
struct settings {
#define SETTING(name, kind, field_type, default_text, least, most, flags, help) field_type name;
#include "conf/settings.def"
#undef SETTING
};

enum setting_flag { SETTING_PLAIN = 0, SETTING_RESTART = 1, SETTING_SECRET = 2, SETTING_UNBUILT = 4, SETTING_OURS = 8 };

struct setting; /* a row */
int settings_count(void);
const struct setting *setting_at(int i); /* in alphabetical order */
const struct setting *setting_find(const char *name); /* case folded; aliases too; NULL: unknown */
const char *setting_name(const struct setting *s);
const char *setting_help(const struct setting *s);
unsigned setting_flags(const struct setting *s);
bool setting_parse(const struct setting *s, struct settings *into, const char *value, struct err *err); /* err->text names setting, value and limits */
void setting_print(const struct setting *s, const struct settings *from, struct buf *out);        /* as SHOW CONFIG prints it; secrets as <set> */
void setting_print_default(const struct setting *s, bool pgbouncer, struct buf *out);

void settings_init(struct settings *s, bool pgbouncer); /* all defaults */
void settings_copy(struct settings *to, const struct settings *from);
void settings_free(struct settings *s);
