/* The words of enum settings: one row each. */
#include "conf/word_priv.h"

#include <strings.h>

#include "conf/settings.h"

const struct word words_pool_mode[] = {
	{"session", POOL_SESSION, WORD_BUILT},
	{"transaction", POOL_TRANSACTION, WORD_BUILT},
	{"statement", POOL_STATEMENT, WORD_BUILT},
	{NULL, 0, WORD_BUILT},
};

const struct word words_auth_type[] = {
	{"any", AUTH_ANY, WORD_BUILT},
	{"trust", AUTH_TRUST, WORD_BUILT},
	{"plain", AUTH_PLAIN, WORD_BUILT},
	{"md5", AUTH_MD5, WORD_BUILT},
	{"scram-sha-256", AUTH_SCRAM, WORD_BUILT},
	{"cert", AUTH_CERT, WORD_UNBUILT},
	{"hba", AUTH_HBA, WORD_UNBUILT},
	{"ldap", AUTH_LDAP, WORD_UNBUILT},
	{"pam", AUTH_PAM, WORD_UNBUILT},
	{NULL, 0, WORD_BUILT},
};

const struct word words_sslmode[] = {
	{"disable", SSL_DISABLE, WORD_BUILT},
	{"allow", SSL_ALLOW, WORD_BUILT},
	{"prefer", SSL_PREFER, WORD_BUILT},
	{"require", SSL_REQUIRE, WORD_BUILT},
	{"verify-ca", SSL_VERIFY_CA, WORD_BUILT},
	{"verify-full", SSL_VERIFY_FULL, WORD_BUILT},
	{NULL, 0, WORD_BUILT},
};

const struct word words_log_format[] = {
	{"text", LOG_FORMAT_TEXT, WORD_BUILT},
	{"json", LOG_FORMAT_JSON, WORD_BUILT},
	{NULL, 0, WORD_BUILT},
};

const struct word words_org_unknown[] = {
	{"admit", ORG_ADMIT, WORD_BUILT},
	{"reject", ORG_REJECT, WORD_BUILT},
	{NULL, 0, WORD_BUILT},
};

const struct word words_session_features[] = {
	{"pin", FEATURES_PIN, WORD_BUILT},
	{"reject", FEATURES_REJECT, WORD_BUILT},
	{"allow", FEATURES_ALLOW, WORD_BUILT},
	{NULL, 0, WORD_BUILT},
};

const struct word words_breaker_mode[] = {
	{"on", BREAKER_ON, WORD_BUILT},
	{"off", BREAKER_OFF, WORD_BUILT},
	{"observe", BREAKER_OBSERVE, WORD_BUILT},
	{NULL, 0, WORD_BUILT},
};

const struct word words_balance[] = {
	{"round-robin", BALANCE_ROUND_ROBIN, WORD_BUILT},
	{"disable", BALANCE_DISABLE, WORD_BUILT},
	{NULL, 0, WORD_BUILT},
};

const struct word words_prefer[] = {
	{"primary", 0, WORD_BUILT},
	{"replica", 1, WORD_BUILT},
	{NULL, 0, WORD_BUILT},
};

const struct word words_rate_action[] = {
	{"queue", RATE_QUEUE, WORD_BUILT},
	{"reject", RATE_REJECT, WORD_BUILT},
	{NULL, 0, WORD_BUILT},
};

const struct word words_priority[] = {
	{"high", 0, WORD_BUILT},
	{"normal", 1, WORD_BUILT},
	{"low", 2, WORD_BUILT},
	{NULL, 0, WORD_BUILT},
};

const struct word *word_find(const struct word *words, const char *name)
{
	for (; words->name; words++)
		if (strcasecmp(words->name, name) == 0)
			return words;
	return NULL;
}

const char *word_name(const struct word *words, int value)
{
	for (; words->name; words++)
		if (words->value == value)
			return words->name;
	return "?";
}

const char *pool_mode_name(enum pool_mode m)
{
	return word_name(words_pool_mode, (int)m);
}

const char *auth_type_name(enum auth_type t)
{
	return word_name(words_auth_type, (int)t);
}

const char *sslmode_name(enum sslmode m)
{
	return word_name(words_sslmode, (int)m);
}

const char *rate_action_name(enum rate_action a)
{
	return word_name(words_rate_action, (int)a);
}

const char *priority_name(int priority)
{
	return word_name(words_priority, priority);
}
