/* Setups: the list of tracked parameters, and TLS kept or built anew over a reload. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cluster/setup.h"

static struct conf *conf_of(const char *settings)
{
	struct conf_report report = {0};
	struct conf *c;
	char text[2048];

	snprintf(text, sizeof(text), "[pgweir]\nunix_socket_dir=\n%s\n[databases]\napp = host=127.0.0.1\n", settings);
	c = conf_load_text(text, &report);
	if (!c)
		print_error("%.*s\n", (int)report.errors.len, (char *)report.errors.p);
	conf_report_free(&report);
	assert_non_null(c);
	return c;
}

static struct setup *setup_of(const char *settings, const struct setup *old)
{
	struct err err = {0};
	struct setup *s = setup_new(conf_of(settings), old, &err);

	if (!s)
		fail_msg("%s", err.text);
	return s;
}

static void the_usual_parameters_come_first_in_a_fixed_order(void **state)
{
	(void)state;
	struct setup *s = setup_of("track_extra_parameters = search_path, Role", NULL);
	const char *expected[] = {"client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings", "application_name",
	                          "default_transaction_read_only", "IntervalStyle", "search_path", "Role"};

	assert_int_equal(s->n_gucs, 9);
	for (int i = 0; i < 9; i++)
		assert_string_equal(s->guc_names[i], expected[i]);
	setup_drop(&s);
}

static void parameters_are_found_without_case_and_as_a_whole(void **state)
{
	(void)state;
	struct setup *s = setup_of("track_extra_parameters = search_path", NULL);

	assert_int_equal(setup_guc(s, "datestyle", 9), 1);
	assert_int_equal(setup_guc(s, "SEARCH_PATH", 11), 7);
	assert_int_equal(setup_guc(s, "DateStylex", 9), 1); /* the length counts */
	assert_int_equal(setup_guc(s, "DateStylex", 10), -1);
	assert_int_equal(setup_guc(s, "DateStyl", 8), -1);
	assert_int_equal(setup_guc(s, "", 0), -1);
	setup_drop(&s);
}

static void a_parameter_named_twice_is_tracked_once(void **state)
{
	(void)state;
	struct setup *s = setup_of("track_extra_parameters = intervalstyle, work_mem,,WORK_MEM , TimeZone", NULL);

	assert_int_equal(s->n_gucs, 8);
	assert_string_equal(s->guc_names[7], "work_mem");
	setup_drop(&s);
}

static void more_parameters_than_fit_are_an_error(void **state)
{
	(void)state;
	char text[1024] = "track_extra_parameters = x0";
	struct err err = {0};

	for (int i = 1; i < GUC_MOST; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), ", x%d", i);
	assert_null(setup_new(conf_of(text), NULL, &err));
	assert_non_null(strstr(err.text, "track_extra_parameters"));
}

static void a_reload_keeps_the_parameters_of_the_start(void **state)
{
	(void)state;
	struct setup *old = setup_of("track_extra_parameters = search_path", NULL);
	struct setup *s = setup_of("track_extra_parameters = work_mem", old);

	setup_drop(&old); /* the new one owns its own copies */
	assert_int_equal(s->n_gucs, 8);
	assert_string_equal(s->guc_names[7], "search_path");
	setup_drop(&s);
}

static void disable_builds_no_tls(void **state)
{
	(void)state;
	struct setup *s = setup_of("server_tls_sslmode = disable", NULL);

	assert_null(s->client_tls);
	assert_null(s->server_tls);
	assert_int_equal(s->server_tls_digest, 0);
	setup_drop(&s);
}

static void servers_tls_is_kept_while_nothing_has_changed(void **state)
{
	(void)state;
	struct setup *a = setup_of("server_tls_sslmode = prefer", NULL);
	struct setup *b = setup_of("server_tls_sslmode = prefer\nquery_timeout = 7", a);

	assert_non_null(a->server_tls);
	assert_ptr_equal(b->server_tls, a->server_tls);
	assert_true(b->server_tls_digest == a->server_tls_digest);
	setup_drop(&a);
	setup_drop(&b);
}

static void a_stricter_mode_is_another_tls(void **state)
{
	(void)state;
	struct setup *a = setup_of("server_tls_sslmode = prefer", NULL);
	struct setup *b = setup_of("server_tls_sslmode = require", a);
	struct setup *c = setup_of("server_tls_sslmode = disable", b);

	assert_true(b->server_tls_digest != a->server_tls_digest);
	assert_true(c->server_tls_digest != b->server_tls_digest);
	assert_null(c->server_tls);
	setup_drop(&a);
	setup_drop(&b);
	setup_drop(&c);
}

static void a_missing_file_is_named_with_the_systems_reason(void **state)
{
	(void)state;
	struct err err = {0};

	assert_null(setup_new(conf_of("client_tls_sslmode = require\nclient_tls_key_file = /nonexistent/k\nclient_tls_cert_file = /nonexistent/c"), NULL, &err));
	assert_ptr_equal(strstr(err.text, "TLS setup failed:"), err.text);
	assert_non_null(strstr(err.text, "No such file or directory"));
}

static void the_last_reference_frees_it(void **state)
{
	(void)state;
	struct setup *s = setup_of("", NULL), *again = setup_ref(s);

	setup_drop(&s);
	assert_null(s);
	assert_int_equal(again->refs, 1);
	setup_drop(&again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_usual_parameters_come_first_in_a_fixed_order),
		cmocka_unit_test(parameters_are_found_without_case_and_as_a_whole),
		cmocka_unit_test(a_parameter_named_twice_is_tracked_once),
		cmocka_unit_test(more_parameters_than_fit_are_an_error),
		cmocka_unit_test(a_reload_keeps_the_parameters_of_the_start),
		cmocka_unit_test(disable_builds_no_tls),
		cmocka_unit_test(servers_tls_is_kept_while_nothing_has_changed),
		cmocka_unit_test(a_stricter_mode_is_another_tls),
		cmocka_unit_test(a_missing_file_is_named_with_the_systems_reason),
		cmocka_unit_test(the_last_reference_frees_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
