/* Checks of single settings whose values have a syntax of their own: one row each in `checks`. */
#include "conf/check_priv.h"

#include <regex.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "conf/comma_priv.h"
#include "conf/word_priv.h"

static const struct word org_sources[] = {
	{"startup", 0, WORD_BUILT},
	{"options", 0, WORD_BUILT},
	{"application_name", 0, WORD_BUILT},
	{"user_suffix", 0, WORD_BUILT},
	{"sni", 0, WORD_BUILT},
	{"cert", 0, WORD_BUILT},
	{"comment", 0, WORD_BUILT},
	{NULL, 0, WORD_BUILT},
};

static const char *const syslog_facilities[] = {
	"auth", "authpriv", "daemon", "user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
};

static bool check_org_sources(const char *value, struct err *err)
{
	struct comma at = {value, 0, NULL};

	while (comma_next(&at)) {
		char name[32];

		if (!comma_copy(&at, name, sizeof(name)) || !word_find(org_sources, name))
			return err_set(err, "22023", "org_sources: \"%.*s\" is no source of an org", at.len > 64 ? 64 : (int)at.len, at.p);
	}
	return true;
}

/* Only a name with a point is the application's own; a setting of PostgreSQL's would be set for every client. */
static bool check_org_guc(const char *value, struct err *err)
{
	const char *point = strchr(value, '.');

	if (!*value || (point && point != value && point[1] && strlen(value) < 64))
		return true;
	return err_set(err, "22023", "org_guc: a custom setting is expected, with a point in its name, as in app.current_org");
}

static bool check_org_pattern(const char *value, struct err *err)
{
	regex_t re;
	int rc = regcomp(&re, value, REG_EXTENDED);
	bool grouped;

	if (rc != 0) {
		char why[128];

		regerror(rc, &re, why, sizeof(why));
		return err_set(err, "22023", "org_pattern: %s", why);
	}
	grouped = re.re_nsub >= 1;
	regfree(&re);
	return grouped || err_set(err, "22023", "org_pattern: the pattern has no group ( ) to take the org from");
}

static bool check_syslog_facility(const char *value, struct err *err)
{
	for (size_t i = 0; i < sizeof(syslog_facilities) / sizeof(syslog_facilities[0]); i++)
		if (strcasecmp(value, syslog_facilities[i]) == 0)
			return true;
	return err_set(err, "22023", "syslog_facility: \"%.64s\" is not one of auth authpriv daemon user local0 ... local7", value);
}

static const struct word tls_versions[] = {
	{"secure", 0, WORD_BUILT}, {"default", 0, WORD_BUILT}, {"all", 0, WORD_BUILT}, {"legacy", 0, WORD_BUILT}, {"tlsv1", 0, WORD_BUILT},
	{"tlsv1.0", 0, WORD_BUILT}, {"tlsv1.1", 0, WORD_BUILT}, {"tlsv1.2", 0, WORD_BUILT}, {"tlsv1.3", 0, WORD_BUILT},
	{NULL, 0, WORD_BUILT},
};

/* PgBouncer's list: parted by commas or colons, "!" takes a version away. */
static bool check_tls_protocols(const char *setting, const char *value, struct err *err)
{
	const char *at = value;

	for (;;) {
		char word[16] = "";
		at += strspn(at, ",:! \t");
		size_t len = strcspn(at, ",: \t");
		if (len == 0)
			return true;
		if (len < sizeof(word))
			memcpy(word, at, len);
		if (!word_find(tls_versions, word))
			return err_set(err, "22023", "%s: \"%.*s\" is not one of secure all tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3", setting, len > 64 ? 64 : (int)len, at);
		at += len;
	}
}

static bool check_client_tls_protocols(const char *value, struct err *err)
{
	return check_tls_protocols("client_tls_protocols", value, err);
}

static bool check_server_tls_protocols(const char *value, struct err *err)
{
	return check_tls_protocols("server_tls_protocols", value, err);
}

bool check_is_console(const char *dbname)
{
	return strcmp(dbname, "pgbouncer") == 0 || strcmp(dbname, "pgweir") == 0;
}

bool check_auth_dbname(const char *value, struct err *err)
{
	return !check_is_console(value) || err_set(err, "22023", "cannot use the reserved \"%s\" database as an auth_dbname", value);
}

static const struct {
	const char *name;
	bool (*check)(const char *value, struct err *err);
} checks[] = {
	{"auth_dbname", check_auth_dbname},
	{"client_tls_protocols", check_client_tls_protocols},
	{"server_tls_protocols", check_server_tls_protocols},
	{"org_guc", check_org_guc},
	{"org_pattern", check_org_pattern},
	{"org_sources", check_org_sources},
	{"syslog_facility", check_syslog_facility},
};

bool check_setting(const char *name, const char *value, struct err *err)
{
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
		if (strcmp(checks[i].name, name) == 0)
			return checks[i].check(value, err);
	return true;
}
