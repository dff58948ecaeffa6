/* The settings table: PgBouncer's names, defaults and restart marks, and how values are read and printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/mem.h"
#include "conf/settings.h"

/* As PgBouncer 1.25 documents them. */
static const struct {
	const char *name, *value;
	bool restart;
} pgbouncer[] = {
	{"admin_users", "", 0},
	{"application_name_add_host", "0", 0},
	{"auth_dbname", "", 0},
	{"auth_file", "", 0},
	{"auth_hba_file", "", 0},
	{"auth_ident_file", "", 0},
	{"auth_ldap_options", "", 0},
	{"auth_query", "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END FROM pg_authid WHERE rolname=$1 AND rolcanlogin", 0},
	{"auth_type", "md5", 0},
	{"auth_user", "", 0},
	{"autodb_idle_timeout", "3600", 0},
	{"cancel_wait_timeout", "10", 0},
	{"client_idle_timeout", "0", 0},
	{"client_login_timeout", "60", 0},
	{"client_tls13_ciphers", "", 0},
	{"client_tls_ca_file", "", 0},
	{"client_tls_cert_file", "", 0},
	{"client_tls_ciphers", "default", 0},
	{"client_tls_dheparams", "auto", 0},
	{"client_tls_ecdhcurve", "auto", 0},
	{"client_tls_key_file", "", 0},
	{"client_tls_protocols", "secure", 0},
	{"client_tls_sslmode", "disable", 0},
	{"conffile", "", 0},
	{"default_pool_size", "20", 0},
	{"disable_pqexec", "0", 1},
	{"dns_max_ttl", "15", 0},
	{"dns_nxdomain_ttl", "15", 0},
	{"dns_zone_check_period", "0", 0},
	{"idle_transaction_timeout", "0", 0},
	{"ignore_startup_parameters", "", 0},
	{"job_name", "pgbouncer", 1},
	{"listen_addr", "", 1},
	{"listen_backlog", "128", 1},
	{"listen_port", "6432", 1},
	{"log_connections", "1", 0},
	{"log_disconnections", "1", 0},
	{"log_pooler_errors", "1", 0},
	{"log_stats", "1", 0},
	{"logfile", "", 0},
	{"login_notify_message", "", 0},
	{"max_client_conn", "100", 0},
	{"max_db_client_connections", "0", 0},
	{"max_db_connections", "0", 0},
	{"max_packet_size", "2147483647", 0},
	{"max_prepared_statements", "200", 0},
	{"max_user_client_connections", "0", 0},
	{"max_user_connections", "0", 0},
	{"min_pool_size", "0", 0},
	{"peer_id", "0", 0},
	{"pidfile", "", 1},
	{"pkt_buf", "4096", 1},
	{"pool_mode", "session", 0},
	{"pool_idle_timeout", "0", 0},
	{"query_timeout", "0", 0},
	{"query_wait_notify", "5", 0},
	{"query_wait_timeout", "120", 0},
	{"reserve_pool_size", "0", 0},
	{"reserve_pool_timeout", "5", 0},
	{"resolv_conf", "", 1},
	{"sbuf_loopcnt", "5", 0},
	{"scram_iterations", "4096", 0},
	{"server_check_delay", "30", 0},
	{"server_check_query", "<empty>", 0},
	{"server_connect_timeout", "15", 0},
	{"server_fast_close", "0", 0},
	{"server_idle_timeout", "600", 0},
	{"server_lifetime", "3600", 0},
	{"server_login_retry", "15", 0},
	{"server_reset_query", "DISCARD ALL", 0},
	{"server_reset_query_always", "0", 0},
	{"server_round_robin", "0", 0},
	{"server_tls13_ciphers", "", 0},
	{"server_tls_ca_file", "", 0},
	{"server_tls_cert_file", "", 0},
	{"server_tls_ciphers", "default", 0},
	{"server_tls_key_file", "", 0},
	{"server_tls_protocols", "secure", 0},
	{"server_tls_sslmode", "prefer", 0},
	{"so_reuseport", "0", 1},
	{"stats_period", "60", 0},
	{"stats_users", "", 0},
	{"suspend_timeout", "10", 0},
	{"syslog", "0", 0},
	{"syslog_facility", "daemon", 0},
	{"syslog_ident", "pgbouncer", 0},
	{"tcp_defer_accept", "1", 0},
	{"tcp_keepalive", "1", 0},
	{"tcp_keepcnt", "0", 0},
	{"tcp_keepidle", "0", 0},
	{"tcp_keepintvl", "0", 0},
	{"tcp_socket_buffer", "0", 0},
	{"tcp_user_timeout", "0", 0},
	{"track_extra_parameters", "IntervalStyle", 1},
	{"transaction_timeout", "0", 0},
	{"unix_socket_dir", "/tmp", 1},
	{"unix_socket_group", "", 1},
	{"unix_socket_mode", "0777", 1},
	{"user", "", 1},
	{"verbose", "0", 0},
};

#define N_PGBOUNCER (sizeof(pgbouncer) / sizeof(pgbouncer[0]))

static const struct setting *find(const char *name)
{
	const struct setting *s = setting_find(name);

	if (!s)
		fail_msg("no setting %s", name);
	return s;
}

/* Prints through a buffer that lives until the next call. */
static const char *printed(const struct setting *s, const struct settings *set)
{
	static char text[512];
	struct buf out = {0};

	setting_print(s, set, &out);
	assert_true(out.len < sizeof(text));
	memcpy(text, out.len ? out.p : (uint8_t *)"", out.len);
	text[out.len] = '\0';
	buf_free(&out);
	return text;
}

static void parses(const char *name, const char *value, const char *want)
{
	const struct setting *s = find(name);
	struct settings set;
	struct err err = {0};

	settings_init(&set, false);
	if (!setting_parse(s, &set, value, &err))
		fail_msg("%s = %s: %s", name, value, err.text);
	assert_string_equal(printed(s, &set), want);
	settings_free(&set);
}

static void refuses(const char *name, const char *value, const char *why)
{
	const struct setting *s = find(name);
	struct settings set;
	struct err err = {0};
	char before[512];

	settings_init(&set, false);
	strcpy(before, printed(s, &set));
	assert_false(setting_parse(s, &set, value, &err));
	assert_string_equal(err.text, why);
	assert_string_equal(printed(s, &set), before);
	settings_free(&set);
}

static void every_setting_of_pgbouncer_is_known_with_its_default(void **state)
{
	struct settings set;

	(void)state;
	settings_init(&set, true);
	for (size_t i = 0; i < N_PGBOUNCER; i++)
		if (strcmp(printed(find(pgbouncer[i].name), &set), pgbouncer[i].value) != 0)
			fail_msg("%s: \"%s\", PgBouncer has \"%s\"", pgbouncer[i].name, printed(find(pgbouncer[i].name), &set), pgbouncer[i].value);
	settings_free(&set);
}

static void pgbouncers_restart_marks_are_ours(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_PGBOUNCER; i++)
		if (((setting_flags(find(pgbouncer[i].name)) & SETTING_RESTART) != 0) != pgbouncer[i].restart)
			fail_msg("%s: restart mark differs", pgbouncer[i].name);
}

static void what_pgbouncer_does_not_know_is_marked_ours(void **state)
{
	(void)state;
	for (int i = 0; i < settings_count(); i++) {
		bool theirs = false;

		for (size_t j = 0; j < N_PGBOUNCER; j++)
			theirs |= strcmp(pgbouncer[j].name, setting_name(setting_at(i))) == 0;
		if (((setting_flags(setting_at(i)) & SETTING_OURS) != 0) == theirs)
			fail_msg("%s: is it ours or PgBouncer's?", setting_name(setting_at(i)));
	}
}

static void settings_come_in_alphabetical_order(void **state)
{
	(void)state;
	for (int i = 1; i < settings_count(); i++)
		assert_true(strcmp(setting_name(setting_at(i - 1)), setting_name(setting_at(i))) < 0);
}

static void every_setting_has_a_help_of_one_sentence(void **state)
{
	(void)state;
	for (int i = 0; i < settings_count(); i++) {
		const char *help = setting_help(setting_at(i));

		assert_true(strlen(help) > 10 && help[strlen(help) - 1] == '.');
	}
}

static void names_are_found_in_any_case_and_by_alias(void **state)
{
	(void)state;
	assert_ptr_equal(setting_find("Pool_Mode"), find("pool_mode"));
	assert_ptr_equal(setting_find("service_name"), find("job_name"));
	assert_null(setting_find("pool_modes"));
	assert_null(setting_find(""));
}

static void the_defaults_of_the_two_headings_differ_where_they_should(void **state)
{
	struct settings ours, theirs;

	(void)state;
	settings_init(&ours, false);
	settings_init(&theirs, true);
	assert_int_equal(ours.pool_mode, POOL_TRANSACTION);
	assert_int_equal(theirs.pool_mode, POOL_SESSION);
	assert_string_equal(ours.listen_addr, "127.0.0.1");
	assert_string_equal(theirs.listen_addr, "");
	assert_int_equal(ours.auth_type, AUTH_MD5);
	assert_int_equal(ours.server_check_timeout, 5 * USEC_PER_SEC);
	settings_free(&ours);
	settings_free(&theirs);
}

static void every_default_prints_and_parses_back_to_itself(void **state)
{
	(void)state;
	for (int i = 0; i < settings_count(); i++) {
		const struct setting *s = setting_at(i);
		struct settings set;
		struct err err = {0};
		struct buf text = {0};

		if (setting_flags(s) & SETTING_SECRET)
			continue;
		settings_init(&set, false);
		setting_print_default(s, false, &text);
		buf_add_u8(&text, '\0');
		assert_string_equal(printed(s, &set), (char *)text.p);
		assert_true(setting_parse(s, &set, (char *)text.p, &err));
		assert_string_equal(printed(s, &set), (char *)text.p);
		buf_free(&text);
		settings_free(&set);
	}
}

static void numbers_may_be_hexadecimal_or_octal(void **state)
{
	(void)state;
	parses("default_pool_size", "0x10", "16");
	parses("default_pool_size", "010", "8");
	parses("default_pool_size", "0", "0");
	parses("unix_socket_mode", "770", "0770");
	parses("unix_socket_mode", "0700", "0700");
}

static void durations_take_fractions_and_units(void **state)
{
	(void)state;
	parses("query_timeout", "1.5", "1.5");
	parses("query_timeout", "500ms", "0.5");
	parses("query_timeout", "2min", "120");
	parses("query_timeout", "0", "0");
	parses("query_wait_notify", "250us", "0.00025");
}

static void switches_take_any_number_and_words(void **state)
{
	(void)state;
	parses("log_stats", "0", "0");
	parses("tcp_defer_accept", "45", "1");
	parses("log_stats", "-1", "1");
	parses("log_stats", "off", "0");
	parses("org_required", "yes", "1");
}

static void words_are_read_in_any_case_and_printed_small(void **state)
{
	(void)state;
	parses("pool_mode", "Session", "session");
	parses("client_tls_sslmode", "verify-full", "verify-full");
	parses("auth_type", "scram-sha-256", "scram-sha-256");
}

static void sizes_take_units_and_print_as_bytes(void **state)
{
	(void)state;
	parses("max_packet_size", "1MB", "1048576");
	parses("pkt_buf", "4096", "4096");
}

static void a_wrong_value_is_refused_by_name_value_and_limits(void **state)
{
	(void)state;
	refuses("default_pool_size", "abc", "default_pool_size: \"abc\" is not a whole number");
	refuses("default_pool_size", "", "default_pool_size: \"\" is not a whole number");
	refuses("default_pool_size", "5 5", "default_pool_size: \"5 5\" is not a whole number");
	refuses("default_pool_size", "-1", "default_pool_size: \"-1\" is not in the range 0 to 2147483647");
	refuses("default_pool_size", "2147483648", "default_pool_size: \"2147483648\" is not in the range 0 to 2147483647");
	refuses("listen_port", "65536", "listen_port: \"65536\" is not in the range 1 to 65535");
	refuses("unix_socket_mode", "0999", "unix_socket_mode: \"0999\" is not an octal number");
	refuses("unix_socket_mode", "10000", "unix_socket_mode: \"10000\" is not in the range 00 to 07777");
	refuses("log_stats", "maybe", "log_stats: \"maybe\" is not 0 or 1");
	refuses("query_timeout", "soon", "query_timeout: \"soon\" is not a duration (seconds, or with us ms s min h d)");
	refuses("query_timeout", "-1", "query_timeout: \"-1\" is not a duration (seconds, or with us ms s min h d)");
	refuses("query_timeout", "99999999999", "query_timeout: \"99999999999\" is not in the range 0 to 2147483647");
	refuses("stats_period", "0", "stats_period: \"0\" is not in the range 1 to 2147483647");
	refuses("pool_mode", "fast", "pool_mode: \"fast\" is not one of session transaction statement");
	refuses("max_packet_size", "3GB", "max_packet_size: \"3GB\" is not in the range 1 to 2147483647");
	refuses("hot_floor_slots", "nan", "hot_floor_slots: \"nan\" is not a number");
	refuses("hot_floor_slots", "1.2.3", "hot_floor_slots: \"1.2.3\" is not a number");
	refuses("syslog_facility", "nowhere", "syslog_facility: \"nowhere\" is not one of auth authpriv daemon user local0 ... local7");
	refuses("org_sources", "startup, magic", "org_sources: \"magic\" is no source of an org");
	refuses("org_pattern", "org=.*", "org_pattern: the pattern has no group ( ) to take the org from");
	refuses("auth_dbname", "pgbouncer", "cannot use the reserved \"pgbouncer\" database as an auth_dbname");
	refuses("auth_dbname", "pgweir", "cannot use the reserved \"pgweir\" database as an auth_dbname");
}

static void a_broken_pattern_is_refused(void **state)
{
	struct settings set;
	struct err err = {0};

	(void)state;
	settings_init(&set, false);
	assert_false(setting_parse(find("org_pattern"), &set, "org=(", &err));
	assert_memory_equal(err.text, "org_pattern: ", 13);
	settings_free(&set);
}

static void an_auth_type_that_is_not_built_is_refused(void **state)
{
	(void)state;
	refuses("auth_type", "hba", "auth_type hba is not built yet");
	refuses("auth_type", "cert", "auth_type cert is not built yet");
	refuses("auth_type", "ldap", "auth_type ldap is not built yet");
	refuses("auth_type", "pam", "auth_type pam is not built yet");
	refuses("auth_type", "magic", "auth_type: \"magic\" is not one of any trust plain md5 scram-sha-256 cert hba ldap pam");
}

static void a_secret_is_never_printed(void **state)
{
	(void)state;
	parses("probe_password", "hush", "<set>");
	parses("probe_password", "", "");
	parses("control", "postgresql://pgweir:hush@h/control", "<set>");
}

static void a_copy_is_its_own(void **state)
{
	struct settings a, b;
	struct err err = {0};

	(void)state;
	settings_init(&a, true);
	settings_copy(&b, &a);
	for (int i = 0; i < settings_count(); i++) {
		char text[512];

		strcpy(text, printed(setting_at(i), &a));
		assert_string_equal(printed(setting_at(i), &b), text);
	}
	assert_true(setting_parse(find("admin_users"), &b, "root", &err));
	assert_string_equal(a.admin_users, "");
	settings_free(&a);
	assert_string_equal(b.admin_users, "root");
	settings_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_setting_of_pgbouncer_is_known_with_its_default),
		cmocka_unit_test(pgbouncers_restart_marks_are_ours),
		cmocka_unit_test(what_pgbouncer_does_not_know_is_marked_ours),
		cmocka_unit_test(settings_come_in_alphabetical_order),
		cmocka_unit_test(every_setting_has_a_help_of_one_sentence),
		cmocka_unit_test(names_are_found_in_any_case_and_by_alias),
		cmocka_unit_test(the_defaults_of_the_two_headings_differ_where_they_should),
		cmocka_unit_test(every_default_prints_and_parses_back_to_itself),
		cmocka_unit_test(numbers_may_be_hexadecimal_or_octal),
		cmocka_unit_test(durations_take_fractions_and_units),
		cmocka_unit_test(switches_take_any_number_and_words),
		cmocka_unit_test(words_are_read_in_any_case_and_printed_small),
		cmocka_unit_test(sizes_take_units_and_print_as_bytes),
		cmocka_unit_test(a_wrong_value_is_refused_by_name_value_and_limits),
		cmocka_unit_test(a_broken_pattern_is_refused),
		cmocka_unit_test(an_auth_type_that_is_not_built_is_refused),
		cmocka_unit_test(a_secret_is_never_printed),
		cmocka_unit_test(a_copy_is_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
