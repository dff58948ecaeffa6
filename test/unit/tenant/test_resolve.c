/* Which org a client speaks for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "tenant/resolve.h"

#define ACME "11111111-aaaa-4bbb-8ccc-111111111111"

static struct conf *conf;

/* A configuration for the test at hand. */
static void given(const char *settings, const char *orgs)
{
	struct conf_report r = {0};
	struct buf text = {0};

	buf_add_str(&text, "[pgweir]\n");
	buf_add_str(&text, settings);
	buf_add_str(&text, "\n[databases]\na = host=x\n[orgs]\n");
	buf_add_str(&text, orgs);
	buf_add(&text, "\n", 2);
	conf = conf_load_text((const char *)text.p, &r);
	if (!conf)
		fail_msg("%.*s", (int)r.errors.len, (const char *)r.errors.p);
	conf_report_free(&r);
	buf_free(&text);
}

static int defaults(void **state)
{
	(void)state;
	given("", "");
	return 0;
}

static int drop(void **state)
{
	(void)state;
	if (conf)
		conf_drop(&conf);
	return 0;
}

/* What a client says; NULL: nothing. */
struct saying {
	const char *name, *value; /* a startup parameter */
	const char *options;
	const char *application_name;
	const char *user;
	const char *user_suffix;
	const char *sni;
	char *cert_names[4];      /* up to the first NULL */
};

static struct verdict_org verdict;
static struct err err;

static bool resolve(struct saying s)
{
	struct startup startup = {.n_params = s.name ? 1 : 0, .params = {{s.name, s.value}}};
	struct claims claims = {.startup = &startup, .application_name = s.application_name, .options = s.options, .user = s.user ? s.user : "bob",
				.user_suffix = s.user_suffix, .sni = s.sni, .cert_names = s.cert_names};

	while (claims.n_cert_names < 4 && s.cert_names[claims.n_cert_names])
		claims.n_cert_names++;

	err = (struct err){0};
	return org_resolve(conf, &claims, &verdict, &err);
}

static void speaks_for(struct saying s, const char *id)
{
	if (!resolve(s))
		fail_msg("refused: %s", err.text);
	assert_string_equal(verdict.id, id);
}

static void is_refused(struct saying s)
{
	assert_false(resolve(s));
	assert_string_equal(err.sqlstate, "28000");
	assert_true(err.text[0] != 0);
}

#define PARAM(name_, value_) .name = name_, .value = value_
#define SAYS(...) ((struct saying){__VA_ARGS__})

static void sources_that_are_not_asked_for_say_nothing(void **state)
{
	(void)state;
	speaks_for(SAYS(.user_suffix = "acme", .sni = "globex.example.com", .cert_names = {"initech"}), "default");
}

static void the_users_suffix_is_an_org(void **state)
{
	(void)state;
	given("org_sources = user_suffix", "");
	speaks_for(SAYS(.user_suffix = "acme"), "acme");
	is_refused(SAYS(.user_suffix = "a b"));
}

static void the_first_label_of_the_server_name_is_an_org(void **state)
{
	(void)state;
	given("org_sources = sni", "");
	speaks_for(SAYS(.sni = "acme.db.example.com"), "acme");
	speaks_for(SAYS(.sni = "acme"), "acme");
	is_refused(SAYS(.sni = ".example.com"));
}

static void a_certificate_tells_by_the_pattern_or_by_its_common_name(void **state)
{
	(void)state;
	given("org_sources = cert", "");
	speaks_for(SAYS(.cert_names = {"acme", "app.example.com"}), "acme");
	speaks_for(SAYS(.cert_names = {"app", "urn:x:org=acme"}), "acme");
	speaks_for(SAYS(.cert_names = {"org=acme", "urn:x:org=acme"}), "acme");
	is_refused(SAYS(.cert_names = {"org=acme", "urn:x:org=globex"}));
	is_refused(SAYS(.cert_names = {"not an id"}));
	is_refused(SAYS(.cert_names = {""}));
	speaks_for(SAYS(.user = "bob"), "default");
}

static void sources_of_the_connection_must_agree_with_the_others(void **state)
{
	(void)state;
	given("org_sources = sni, startup, user_suffix", "");
	speaks_for(SAYS(PARAM("x-org-id", "acme"), .sni = "acme.example.com", .user_suffix = "acme"), "acme");
	is_refused(SAYS(PARAM("x-org-id", "acme"), .sni = "globex.example.com"));
	is_refused(SAYS(.sni = "acme.example.com", .user_suffix = "globex"));
}

static void who_says_nothing_belongs_to_default(void **state)
{
	(void)state;
	speaks_for(SAYS(.options = NULL), "default");
	assert_false(verdict.said);
	speaks_for(SAYS(.application_name = "psql", .options = "-c work_mem=1MB"), "default");
	assert_false(verdict.said);
}

static void a_startup_parameter_says_it(void **state)
{
	(void)state;
	speaks_for(SAYS(PARAM("x-org-id", ACME)), ACME);
	assert_true(verdict.said);
	speaks_for(SAYS(PARAM("org_id", "acme")), "acme");
	speaks_for(SAYS(PARAM("pgweir.org", "acme")), "acme");
}

static void options_say_it(void **state)
{
	(void)state;
	speaks_for(SAYS(.options = "-c x-org-id=" ACME), ACME);
	speaks_for(SAYS(.options = "-corg_id=acme"), "acme");
	speaks_for(SAYS(.options = "--pgweir.org=acme"), "acme");
	speaks_for(SAYS(.options = "-c timezone=UTC  -c org_id=acme -c datestyle=ISO"), "acme");
}

static void bad_options_are_somebody_elses_matter(void **state)
{
	(void)state;
	speaks_for(SAYS(.options = "-x"), "default");
	speaks_for(SAYS(.options = "-c org_id=acme -x"), "acme");
}

static void application_name_says_it_anywhere(void **state)
{
	(void)state;
	speaks_for(SAYS(.application_name = "app:org=" ACME ":edge=lead-create"), ACME);
	speaks_for(SAYS(.application_name = "org=acme"), "acme");
	speaks_for(SAYS(.application_name = "x org=acme y"), "acme");
	speaks_for(SAYS(.application_name = "org="), "default");
}

static void header_names_compare_without_case(void **state)
{
	(void)state;
	speaks_for(SAYS(PARAM("X-Org-Id", "acme")), "acme");
	speaks_for(SAYS(PARAM("ORG_ID", "acme")), "acme");
	speaks_for(SAYS(PARAM("PgWeir.Org", "acme")), "acme");
}

static void uuids_compare_without_case_and_others_with_it(void **state)
{
	(void)state;
	speaks_for(SAYS(PARAM("org_id", "11111111-AAAA-4BBB-8CCC-111111111111")), ACME);
	speaks_for(SAYS(PARAM("org_id", "Acme")), "Acme");
	speaks_for(SAYS(PARAM("org_id", "11111111-AAAA-4BBB-8CCC-111111111111"), .application_name = "org=" ACME), ACME);
	is_refused(SAYS(PARAM("org_id", "Acme"), .application_name = "org=acme"));
}

static void sources_that_agree_are_one(void **state)
{
	(void)state;
	speaks_for(SAYS(PARAM("org_id", "acme"), .options = "-c org_id=acme", .application_name = "org=acme"), "acme");
}

static void sources_that_differ_refuse(void **state)
{
	(void)state;
	is_refused(SAYS(PARAM("org_id", "acme"), .application_name = "org=other"));
	is_refused(SAYS(PARAM("org_id", "acme"), .options = "-c org_id=other"));
	is_refused(SAYS(.options = "-c org_id=acme", .application_name = "org=other"));
	is_refused(SAYS(.options = "-c org_id=acme -c x-org-id=other"));
	is_refused(SAYS(PARAM("org_id", "acme"), .application_name = "org=default"));
}

static void two_startup_parameters_that_differ_refuse(void **state)
{
	(void)state;
	struct startup startup = {.n_params = 2, .params = {{"org_id", "acme"}, {"x-org-id", "other"}}};
	struct claims claims = {.startup = &startup, .user = "bob"};

	assert_false(org_resolve(conf, &claims, &verdict, &err));
	assert_string_equal(err.sqlstate, "28000");
}

static void an_illegal_id_is_refused(void **state)
{
	(void)state;
	is_refused(SAYS(PARAM("org_id", "")));
	is_refused(SAYS(PARAM("org_id", "a b")));
	is_refused(SAYS(PARAM("org_id", "a'b")));
	is_refused(SAYS(PARAM("org_id", "\xc3\xa4")));
	speaks_for(SAYS(PARAM("org_id", "0123456789012345678901234567890123456789012345678901234567890123")), "0123456789012345678901234567890123456789012345678901234567890123");
	is_refused(SAYS(PARAM("org_id", "01234567890123456789012345678901234567890123456789012345678901234")));
	is_refused(SAYS(.options = "-c org_id=a/b"));
	is_refused(SAYS(.application_name = "org=01234567890123456789012345678901234567890123456789012345678901234"));
}

static void only_the_sources_named_are_asked(void **state)
{
	(void)state;
	given("org_sources = options", "");
	speaks_for(SAYS(PARAM("org_id", "acme"), .application_name = "org=other"), "default");
	speaks_for(SAYS(PARAM("org_id", "acme"), .options = "-c org_id=third"), "third");
}

static void the_pattern_is_the_operators(void **state)
{
	(void)state;
	given("org_pattern = tenant-([a-z]+)", "");
	speaks_for(SAYS(.application_name = "org=acme"), "default");
	speaks_for(SAYS(.application_name = "web tenant-acme 7"), "acme");
}

static void a_pattern_may_find_what_is_not_an_id(void **state)
{
	(void)state;
	char out[ORG_ID_MOST + 1];
	bool illegal;

	assert_false(org_from_pattern("org=(.*)", "org=a b", out, &illegal));
	assert_true(illegal);
	assert_false(org_from_pattern("org=(.*)", "none", out, &illegal));
	assert_false(illegal);
	assert_true(org_from_pattern("org=(.*)", "org=a", out, &illegal));
	assert_string_equal(out, "a");
	assert_false(illegal);
}

static void a_group_that_took_no_part_finds_nothing(void **state)
{
	(void)state;
	char out[ORG_ID_MOST + 1];
	bool illegal;

	assert_false(org_from_pattern("none|org=(.+)", "none", out, &illegal));
	assert_false(illegal);
}

static void a_pattern_without_a_group_or_sense_finds_nothing(void **state)
{
	(void)state;
	char out[ORG_ID_MOST + 1];
	bool illegal;

	assert_false(org_from_pattern("org=.+", "org=a", out, &illegal));
	assert_false(org_from_pattern("org=(", "org=a", out, &illegal));
	assert_true(org_from_pattern("org=(.+)", "org=a", out, &illegal));
}

static void *match_in_a_thread(void *arg)
{
	char out[ORG_ID_MOST + 1];
	bool illegal;

	for (int i = 0; i < 100; i++)
		if (!org_from_pattern(arg, "org=acme", out, &illegal) || strcmp(out, "acme") != 0)
			return "wrong";
	return NULL;
}

static void each_thread_has_its_pattern(void **state)
{
	(void)state;
	static char *const patterns[] = {"org=([a-z]+)", "o.g=(....)"};
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, match_in_a_thread, patterns[i]), 0);
	for (int i = 0; i < 2; i++) {
		void *wrong;
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
}

#define BOUND ACME " = users=acme_app,both\nother = users=both\n"

static void a_bound_user_need_not_say_it(void **state)
{
	(void)state;
	given("", BOUND);
	speaks_for(SAYS(.user = "acme_app"), ACME);
	assert_true(verdict.said);
	speaks_for(SAYS(PARAM("org_id", ACME), .user = "acme_app"), ACME);
}

static void a_bound_user_speaks_for_no_other_org(void **state)
{
	(void)state;
	given("", BOUND);
	is_refused(SAYS(PARAM("org_id", "other"), .user = "acme_app"));
	is_refused(SAYS(PARAM("org_id", "default"), .user = "acme_app"));
	is_refused(SAYS(.application_name = "org=third", .user = "acme_app"));
}

static void a_user_bound_to_several_must_say_which(void **state)
{
	(void)state;
	given("", BOUND);
	is_refused(SAYS(.user = "both"));
	speaks_for(SAYS(PARAM("org_id", "other"), .user = "both"), "other");
	speaks_for(SAYS(PARAM("org_id", ACME), .user = "both"), ACME);
	is_refused(SAYS(PARAM("org_id", "third"), .user = "both"));
}

static void an_unbound_user_speaks_for_any_org(void **state)
{
	(void)state;
	given("", BOUND);
	speaks_for(SAYS(PARAM("org_id", ACME), .user = "bob"), ACME);
	speaks_for(SAYS(.user = "bob"), "default");
}

static void org_required_refuses_who_says_nothing(void **state)
{
	(void)state;
	given("org_required = 1", BOUND);
	is_refused(SAYS(.options = NULL));
	speaks_for(SAYS(PARAM("org_id", "any")), "any");
	speaks_for(SAYS(PARAM("org_id", "default")), "default");
	speaks_for(SAYS(.user = "acme_app"), ACME);
}

static void org_unknown_reject_refuses_orgs_without_a_line(void **state)
{
	(void)state;
	given("org_unknown = reject", ACME " = name=acme\n* = pool_size=3\n");
	is_refused(SAYS(PARAM("org_id", "any")));
	is_refused(SAYS(PARAM("org_id", "acme"))); /* its name is not its id */
	speaks_for(SAYS(PARAM("org_id", ACME)), ACME);
	speaks_for(SAYS(.options = NULL), "default");
	speaks_for(SAYS(PARAM("org_id", "default")), "default");
}

static void a_switch_is_checked_as_a_login_is(void **state)
{
	(void)state;
	given("org_unknown = reject", BOUND);
	assert_true(org_admit(conf, "acme_app", ACME, &err));
	assert_false(org_admit(conf, "acme_app", "other", &err));
	assert_string_equal(err.sqlstate, "28000");
	assert_true(org_admit(conf, "bob", "other", &err));
	assert_false(org_admit(conf, "bob", "third", &err));
	assert_string_equal(err.sqlstate, "28000");
	assert_true(org_admit(conf, "bob", "default", &err));
}

static void the_parameters_that_name_an_org_are_ours(void **state)
{
	(void)state;
	assert_true(org_is_parameter("x-org-id"));
	assert_true(org_is_parameter("x_org_id")); /* what startup_options makes of it */
	assert_true(org_is_parameter("X-ORG-ID"));
	assert_true(org_is_parameter("org_id"));
	assert_true(org_is_parameter("pgweir.org"));
	assert_false(org_is_parameter("org"));
	assert_false(org_is_parameter("org_id2"));
	assert_false(org_is_parameter("org_i"));
	assert_false(org_is_parameter("pgweir-org"));
	assert_false(org_is_parameter(""));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, defaults, drop)
#define TEST_WITH(name) cmocka_unit_test_teardown(name, drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(who_says_nothing_belongs_to_default),
		TEST(sources_that_are_not_asked_for_say_nothing),
		TEST_WITH(the_users_suffix_is_an_org),
		TEST_WITH(the_first_label_of_the_server_name_is_an_org),
		TEST_WITH(a_certificate_tells_by_the_pattern_or_by_its_common_name),
		TEST_WITH(sources_of_the_connection_must_agree_with_the_others),
		TEST(a_startup_parameter_says_it),
		TEST(options_say_it),
		TEST(bad_options_are_somebody_elses_matter),
		TEST(application_name_says_it_anywhere),
		TEST(header_names_compare_without_case),
		TEST(uuids_compare_without_case_and_others_with_it),
		TEST(sources_that_agree_are_one),
		TEST(sources_that_differ_refuse),
		TEST(two_startup_parameters_that_differ_refuse),
		TEST(an_illegal_id_is_refused),
		TEST_WITH(only_the_sources_named_are_asked),
		TEST_WITH(the_pattern_is_the_operators),
		TEST(a_pattern_may_find_what_is_not_an_id),
		TEST(a_group_that_took_no_part_finds_nothing),
		TEST(a_pattern_without_a_group_or_sense_finds_nothing),
		TEST(each_thread_has_its_pattern),
		TEST_WITH(a_bound_user_need_not_say_it),
		TEST_WITH(a_bound_user_speaks_for_no_other_org),
		TEST_WITH(a_user_bound_to_several_must_say_which),
		TEST_WITH(an_unbound_user_speaks_for_any_org),
		TEST_WITH(org_required_refuses_who_says_nothing),
		TEST_WITH(org_unknown_reject_refuses_orgs_without_a_line),
		TEST_WITH(a_switch_is_checked_as_a_login_is),
		TEST(the_parameters_that_name_an_org_are_ours),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
