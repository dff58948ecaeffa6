/* Whole configurations: headings, sections, errors and warnings, and SET. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "loaded.h"

static void one_databases_line_is_enough(void **state)
{
	struct conf *c = loads("[databases]\napp = host=10.0.0.1\n");

	(void)state;
	assert_false(c->pgbouncer);
	assert_int_equal(c->set.pool_mode, POOL_TRANSACTION);
	assert_string_equal(c->set.listen_addr, "127.0.0.1");
	assert_non_null(conf_entry(c, "app"));
	assert_string_equal(conf_entry(c, "app")->dbname, "app");
	conf_drop(&c);
	assert_null(c);
}

static void the_heading_decides_the_defaults(void **state)
{
	struct conf *c = loads("[databases]\n* = host=h\n[pgbouncer]\n");

	(void)state;
	assert_true(c->pgbouncer);
	assert_int_equal(c->set.pool_mode, POOL_SESSION);
	assert_string_equal(c->set.listen_addr, "");
	assert_string_equal(c->set.conffile, "test.ini");
	conf_drop(&c);
	c = loads("[pgweir]\n");
	assert_int_equal(c->set.pool_mode, POOL_TRANSACTION);
	conf_drop(&c);
}

static void both_headings_are_an_error(void **state)
{
	(void)state;
	refuses("[pgweir]\n[databases]\n[pgbouncer]\n", "test.ini:3: [pgweir] and [pgbouncer] stand for each other; use one of them\n");
}

static void later_keys_win_and_a_second_heading_resets_nothing(void **state)
{
	struct conf *c = loads("[pgbouncer]\nadmin_users = a\nverbose = 1\n[databases]\nx = host=h\n[pgbouncer]\nverbose = 2\n[databases]\ny = host=h\n");

	(void)state;
	assert_string_equal(c->set.admin_users, "a");
	assert_int_equal(c->set.verbose, 2);
	assert_non_null(conf_entry(c, "x"));
	assert_non_null(conf_entry(c, "y"));
	conf_drop(&c);
}

static void all_errors_are_told_with_file_and_line(void **state)
{
	(void)state;
	refuses("stray = 1\n"
		"[pgweir]\n"
		"default_pool_size = abc\n"
		"max_client_con = 5\n"
		"nonsense_of_some_kind = 5\n"
		"just words\n"
		"[databases]\n"
		"a = host=h pool_size=abc colour=red por=5\n"
		"b = cluster=none\n"
		"c = host=h 'x'\n"
		"[uzers]\n"
		"x = y\n"
		"[orgs]\n"
		"bad/id = pool_size=1\n",
		"test.ini:6: not a setting; expected key = value\n"
		"test.ini:1: \"stray\" stands before the first [section]\n"
		"test.ini:11: unknown section \"uzers\"; did you mean \"users\"?\n"
		"test.ini:3: default_pool_size: \"abc\" is not a whole number\n"
		"test.ini:4: unknown setting \"max_client_con\"; did you mean \"max_client_conn\"?\n"
		"test.ini:5: unknown setting \"nonsense_of_some_kind\"\n"
		"test.ini:8: [databases] a: pool_size: \"abc\" is not a whole number\n"
		"test.ini:8: [databases] a: unknown key \"colour\"\n"
		"test.ini:8: [databases] a: unknown key \"por\"; did you mean \"port\"?\n"
		"test.ini:9: [databases] b: cluster \"none\" is not in [clusters]\n"
		"test.ini:10: [databases] c: expected key=value at character 8 of the value\n"
		"test.ini:14: [orgs] bad/id: an org's id is 1 to 64 of A-Za-z0-9_.:-\n");
}

static void what_is_not_built_is_named_in_a_warning(void **state)
{
	struct conf *c = loads_warning("[pgweir]\n"
				       "dns_zone_check_period = 0\n"
				       "peer_id = 0\n"
				       "log_format = json\n"
				       "auth_hba_file = hba.conf\n"
				       "org_sources = startup, sni\n"
				       "pkt_buf = 2048\n"
				       "so_reuseport = 1\n"
				       "org_unknown = reject\n"
				       "[databases]\n"
				       "a = host=h\n"
				       "b = host=h prefer=replica fallback=a\n"
				       "[orgs]\n"
				       "x = tx_rate=5\n"
				       "y = tx_rate=6 weight=2.5\n"
				       "[routes]\n"
				       "r = org=x entry=b to=a\n"
				       "[peers]\n"
				       "1 = host=h\n"
				       "2 = host=h port=7000\n"
				       "[clusters]\n"
				       "main = primary=h replicas=i:5433 breaker=off degraded_to=q\n",
				       "test.ini:4: log_format is not built yet and has no effect\n"
				       "test.ini:5: auth_hba_file is not built yet and has no effect\n"
				       "test.ini:22: [clusters] degraded_to is not built yet and has no effect\n"
				       "test.ini:19: [peers] is not built yet and has no effect (nor on 1 further lines)\n");

	(void)state;
	assert_true(conf_entry(c, "b")->prefer_replica);
	assert_string_equal(conf_entry(c, "b")->fallback, "a");
	conf_drop(&c);
}

static void an_auth_type_that_is_not_built_does_not_start(void **state)
{
	(void)state;
	refuses("[pgbouncer]\nauth_type = hba\n", "test.ini:2: auth_type hba is not built yet\n");
}

/* No text of the report may hold a secret, however the line is broken. */
static void no_report_shows_a_secret(void **state)
{
	static const char *const lines[] = {
		"[databases]\na = host=h password=hush nothing=1\n",
		"[databases]\na = host=h password=x hush=y\n",
		"[databases]\na = host=h password=x y=1 hush=y\n",
		"[databases]\na = host=h password=first hush\n",
		"[databases]\na = host=h password='hush\n",
		"[databases]\na = host=h password='x'hush\n",
		"[databases]\na password=hush\n",
		"[pgweir]\nprobe_password hush\n",
		"[pgweir]\nprobe_password = hush\nauth_ldap_options = ldapbindpasswd=hush\nxx=1\n",
		"[clusters]\nc = primary=h breaker=on control='user=u password=a hush'\n",
		"[clusters]\nc = primary=h breaker=on control='user=u password=a hush=b'\n",
		"[clusters]\nc = primary=h breaker=on control=postgresql://u:hush/x@h/d\n",
		"[clusters]\nc = primary=h breaker=on control=postgresql://u:x%zzhush@h/d\n",
		"[clusters]\nc = primary=h:99999 control=postgresql://u:hush@h/x probe_password=hush\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct conf_report r = {0};
		char *errors, *warnings;

		assert_null(conf_load_text(lines[i], &r));
		errors = report_text(&r.errors);
		warnings = report_text(&r.warnings);
		if (strstr(errors, "hush") || strstr(warnings, "hush"))
			fail_msg("%s: %s%s", lines[i], errors, warnings);
		free(errors);
		free(warnings);
		conf_report_free(&r);
	}
}

static void a_missing_auth_file_is_an_error(void **state)
{
	(void)state;
	refuses("[pgweir]\nauth_file = /nowhere/userlist.txt\n",
		"/nowhere/userlist.txt: auth_file: cannot open /nowhere/userlist.txt: No such file or directory\n");
}

static void a_missing_main_file_is_an_error(void **state)
{
	struct conf_report r = {0};
	char *errors;

	(void)state;
	assert_null(conf_load("/nowhere/pgweir.ini", &r));
	errors = report_text(&r.errors);
	assert_string_equal(errors, "/nowhere/pgweir.ini: cannot open /nowhere/pgweir.ini: No such file or directory\n");
	free(errors);
	conf_report_free(&r);
}

static void a_set_makes_a_new_snapshot_and_leaves_the_old(void **state)
{
	struct conf *a = loads("[pgweir]\nmax_db_connections = 3\n[databases]\napp = host=h\nown = host=h max_db_connections=9\n* = host=h\n[users]\nu = pool_size=4\n[orgs]\nx = users=u\n");
	struct err err = {0};
	struct conf *b = conf_with(a, "max_db_connections", "7", &err);
	struct conf *c = conf_with(b, "max_server_conn", "50", &err);
	unsigned long serial = a->serial;

	(void)state;
	assert_int_equal(conf_entry(a, "app")->max_db_connections, 3);
	conf_drop(&a);
	assert_int_equal(conf_entry(b, "app")->max_db_connections, 7);
	assert_int_equal(conf_entry(b, "own")->max_db_connections, 9);
	assert_int_equal(b->cluster_at[0]->max_server_conn, 0);
	conf_drop(&b);
	assert_int_equal(c->set.max_db_connections, 7);
	assert_int_equal(c->cluster_at[0]->max_server_conn, 50);
	assert_non_null(c->star);
	assert_int_equal(conf_user(c, "u")->over.pool_size, 4);
	assert_int_equal(conf_bound(c, "u", NULL, 0), 1);
	assert_true(c->serial > serial);
	conf_drop(&c);
}

static void a_bad_set_says_why(void **state)
{
	struct conf *c = loads("[pgweir]\n");
	struct err err = {0};

	(void)state;
	assert_null(conf_with(c, "no_such", "7", &err));
	assert_string_equal(err.text, "unknown setting \"no_such\"");
	assert_null(conf_with(c, "default_pool_size", "many", &err));
	assert_string_equal(err.text, "default_pool_size: \"many\" is not a whole number");
	assert_null(conf_with(c, "log_format", "json", &err));
	assert_string_equal(err.text, "log_format is not built yet");
	assert_null(conf_with(c, "auth_file", "/nowhere", &err));
	assert_string_equal(err.text, "/nowhere: auth_file: cannot open /nowhere: No such file or directory");
	conf_drop(&c);
}

static void admins_are_those_of_the_list_exactly(void **state)
{
	struct conf *c = loads("[pgweir]\nadmin_users = root , bob\nstats_users=stats\nignore_startup_parameters = Extra_Float_Digits,options\n");

	(void)state;
	assert_true(conf_is_admin(c, "root"));
	assert_true(conf_is_admin(c, "bob"));
	assert_false(conf_is_admin(c, "Bob"));
	assert_false(conf_is_admin(c, "bo"));
	assert_false(conf_is_admin(c, ""));
	assert_false(conf_is_admin(c, "stats"));
	assert_true(conf_is_stats(c, "stats"));
	assert_false(conf_is_stats(c, "root"));
	assert_true(conf_in_list_fold(c->set.ignore_startup_parameters, "extra_float_digits"));
	assert_false(conf_in_list(c->set.ignore_startup_parameters, "extra_float_digits"));
	conf_drop(&c);
}

static void a_snapshot_lives_as_long_as_its_last_holder(void **state)
{
	struct conf *a = loads("[databases]\napp = host=h\n");
	struct conf *b = conf_ref(a);

	(void)state;
	conf_drop(&a);
	assert_non_null(conf_entry(b, "app"));
	conf_drop(&b);
}

static void peers_are_checked(void **state)
{
	(void)state;
	refuses("[peers]\nx = host=h\n1 = port=5\n2 = host=h port=0\n",
		"test.ini:2: [peers] x: a peer's name is its peer_id, 1 to 65535\n"
		"test.ini:3: [peers] 1: a peer needs host=\n"
		"test.ini:4: [peers] 2: port: \"0\" is not in the range 1 to 65535\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_databases_line_is_enough),
		cmocka_unit_test(the_heading_decides_the_defaults),
		cmocka_unit_test(both_headings_are_an_error),
		cmocka_unit_test(later_keys_win_and_a_second_heading_resets_nothing),
		cmocka_unit_test(all_errors_are_told_with_file_and_line),
		cmocka_unit_test(what_is_not_built_is_named_in_a_warning),
		cmocka_unit_test(an_auth_type_that_is_not_built_does_not_start),
		cmocka_unit_test(no_report_shows_a_secret),
		cmocka_unit_test(a_missing_auth_file_is_an_error),
		cmocka_unit_test(a_missing_main_file_is_an_error),
		cmocka_unit_test(a_set_makes_a_new_snapshot_and_leaves_the_old),
		cmocka_unit_test(a_bad_set_says_why),
		cmocka_unit_test(admins_are_those_of_the_list_exactly),
		cmocka_unit_test(a_snapshot_lives_as_long_as_its_last_holder),
		cmocka_unit_test(peers_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
