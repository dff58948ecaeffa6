/* [databases] and [clusters]. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "loaded.h"

static void host_is(const struct conf_host *h, const char *host, int port)
{
	if (host)
		assert_string_equal(h->host, host);
	else
		assert_null(h->host);
	assert_int_equal(h->port, port);
}

static void every_key_of_pgbouncer_is_read(void **state)
{
	struct conf *c = loads("[databases]\n"
			       "a = dbname=d host=h port=5433 user=u password='p w' auth_user=au auth_query='select 1' auth_dbname=ad "
			       "pool_size=1 min_pool_size=2 reserve_pool_size=3 max_db_connections=4 max_db_client_connections=5 pool_mode=statement "
			       "server_lifetime=6 query_wait_timeout=7 load_balance_hosts=disable connect_query='set x' "
			       "client_encoding=UTF8 datestyle=ISO timezone=UTC application_name=app\n"
			       "b = reserve_pool=9\n");
	const struct conf_entry *e = conf_entry(c, "a");

	(void)state;
	assert_string_equal(e->dbname, "d");
	assert_string_equal(e->user, "u");
	assert_string_equal(secret_text(&e->password), "p w");
	assert_string_equal(e->auth_user, "au");
	assert_string_equal(e->auth_query, "select 1");
	assert_string_equal(e->auth_dbname, "ad");
	assert_int_equal(e->over.pool_size, 1);
	assert_int_equal(e->over.min_pool_size, 2);
	assert_int_equal(e->over.reserve_pool_size, 3);
	assert_int_equal(e->max_db_connections, 4);
	assert_int_equal(e->max_db_client_connections, 5);
	assert_int_equal(e->over.pool_mode, POOL_STATEMENT);
	assert_int_equal(e->over.server_lifetime, 6 * USEC_PER_SEC);
	assert_int_equal(e->over.query_wait_timeout, 7 * USEC_PER_SEC);
	assert_int_equal(e->over.query_timeout, -1);
	assert_int_equal(e->balance, BALANCE_DISABLE);
	assert_string_equal(e->connect_query, "set x");
	assert_int_equal(e->n_params, 4);
	assert_string_equal(e->params[3].name, "application_name");
	assert_string_equal(e->params[3].value, "app");
	host_is(&e->cluster->primary[0], "h", 5433);
	e = conf_entry(c, "b");
	assert_int_equal(e->over.reserve_pool_size, 9);
	assert_int_equal(e->over.pool_size, -1);
	assert_null(e->user);
	assert_false(secret_is_set(&e->password));
	conf_drop(&c);
}

static void settings_of_the_server_are_handed_on(void **state)
{
	struct conf *c = loads("[databases]\na = host=h statement_timeout=30s work_mem='64 MB' Work_Mem=1GB app.current_org=x search_path=a,b\n");
	const struct conf_entry *e = conf_entry(c, "a");

	(void)state;
	assert_int_equal(e->n_params, 4);
	assert_string_equal(e->params[0].name, "statement_timeout");
	assert_string_equal(e->params[0].value, "30s");
	assert_string_equal(e->params[1].value, "1GB");
	assert_string_equal(e->params[2].name, "app.current_org");
	assert_string_equal(e->params[3].value, "a,b");
	conf_drop(&c);
}

static void an_unknown_key_is_refused_and_the_one_meant_is_named(void **state)
{
	(void)state;
	refuses("[databases]\na = host=h statement_timeot=30s\nb = host=h .x=1\nc = host=h 1a.b=1\n",
		"test.ini:2: [databases] a: unknown key \"statement_timeot\"; did you mean \"statement_timeout\"?\n"
		"test.ini:3: [databases] b: unknown key \".x\"\n"
		"test.ini:4: [databases] c: unknown key \"1a.b\"\n");
}

static void without_host_the_socket_is_used(void **state)
{
	struct conf *c = loads("[databases]\na =\nb = host=/run/pg port=5433\nc = host=@abs\n");

	(void)state;
	host_is(&conf_entry(c, "a")->cluster->primary[0], NULL, 5432);
	assert_string_equal(conf_entry(c, "a")->cluster->name, "unix:5432");
	host_is(&conf_entry(c, "b")->cluster->primary[0], "/run/pg", 5433);
	host_is(&conf_entry(c, "c")->cluster->primary[0], "@abs", 5432);
	conf_drop(&c);
}

static void entries_with_one_host_and_port_share_a_cluster(void **state)
{
	struct conf *c = loads("[databases]\na = host=h\nb = host=h port=5432 dbname=x\nc = host=h port=5433\n* = host=h\n");

	(void)state;
	assert_ptr_equal(conf_entry(c, "a")->cluster, conf_entry(c, "b")->cluster);
	assert_ptr_equal(conf_entry(c, "a")->cluster, c->star->cluster);
	assert_ptr_not_equal(conf_entry(c, "a")->cluster, conf_entry(c, "c")->cluster);
	assert_int_equal(c->n_clusters, 2);
	for (int i = 0; i < c->n_clusters; i++) {
		assert_int_equal(c->cluster_at[i]->index, i);
		assert_true(c->cluster_at[i]->implicit);
	}
	assert_string_equal(conf_cluster(c, "h:5432")->name, "h:5432");
	conf_drop(&c);
}

static void a_host_list_has_one_port_for_all_or_one_each(void **state)
{
	struct conf *c = loads("[databases]\na = host=h,i port=5433\nb = host='h, i' port=1,2\nc = host=::1\nd = host=h,i port=7,7\n");
	const struct conf_cluster *k = conf_entry(c, "a")->cluster;

	(void)state;
	assert_int_equal(k->n_primary, 2);
	host_is(&k->primary[0], "h", 5433);
	host_is(&k->primary[1], "i", 5433);
	assert_string_equal(k->name, "h,i:5433");
	k = conf_entry(c, "b")->cluster;
	host_is(&k->primary[0], "h", 1);
	host_is(&k->primary[1], "i", 2);
	assert_string_equal(k->name, "h:1,i:2");
	assert_string_equal(conf_entry(c, "c")->cluster->name, "[::1]:5432");
	assert_string_equal(conf_entry(c, "d")->cluster->name, "h,i:7");
	conf_drop(&c);
	refuses("[databases]\na = host=h,i,j port=1,2\nb = host=h port=x\nc = host=h port=65536\nd = host=h port=','\n",
		"test.ini:2: [databases] a: port: 2 ports for 3 hosts\n"
		"test.ini:3: [databases] b: port: \"x\" is not in the range 1 to 65535\n"
		"test.ini:4: [databases] c: port: \"65536\" is not in the range 1 to 65535\n"
		"test.ini:5: [databases] d: port: 0 ports for 1 hosts\n");
}

static void a_cluster_has_hosts_with_ports(void **state)
{
	struct conf *c = loads("[databases]\napp = cluster=main dbname=d\n"
				       "[clusters]\nmain = primary='10.0.0.1:5433,[::1]:5434, ::2, /run/pg:5435,@abs' replicas=r breaker=off max_server_conn=80 max_server_login=3 priority_max_wait=2 org_reset_query='RESET ALL'\n"
				       "spare = primary=h\n");
	const struct conf_cluster *k = conf_entry(c, "app")->cluster;

	(void)state;
	assert_string_equal(k->name, "main");
	assert_false(k->implicit);
	assert_int_equal(k->n_primary, 5);
	host_is(&k->primary[0], "10.0.0.1", 5433);
	host_is(&k->primary[1], "::1", 5434);
	host_is(&k->primary[2], "::2", 5432);
	host_is(&k->primary[3], "/run/pg", 5435);
	host_is(&k->primary[4], "@abs", 5432);
	host_is(&k->replicas[0], "r", 5432);
	assert_int_equal(k->max_server_conn, 80);
	assert_int_equal(k->max_server_login, 3);
	assert_int_equal(k->priority_max_wait, 2 * USEC_PER_SEC);
	assert_string_equal(k->org_reset_query, "RESET ALL");
	assert_int_equal(conf_cluster(c, "spare")->max_server_conn, 0);
	assert_int_equal(conf_cluster(c, "spare")->max_server_login, 16);
	assert_int_equal(conf_cluster(c, "spare")->priority_max_wait, 5 * USEC_PER_SEC);
	assert_string_equal(conf_cluster(c, "spare")->org_reset_query, "DISCARD ALL");
	assert_int_equal(c->n_clusters, 2);
	conf_drop(&c);
}

static void a_cluster_has_a_breaker_of_its_own_and_takes_the_rest_from_the_process(void **state)
{
	struct conf *c = loads("[pgweir]\nbreaker_failures=5\nprobe_user=prober\nprobe_password=hush\nprobe_interval=500ms\n"
			       "[clusters]\nmain = primary=h\nother = primary=h breaker=observe breaker_failures=1 breaker_open=1min breaker_probes=4 probe_interval=3 "
			       "probe_timeout=250ms probe_user=eve probe_password=other probe_dbname=probes\n"
			       "[databases]\nplain = host=h\n");
	const struct conf_cluster *main = conf_cluster(c, "main"), *other = conf_cluster(c, "other");

	(void)state;
	assert_int_equal(main->breaker, BREAKER_ON);
	assert_int_equal(main->breaker_failures, 5);
	assert_int_equal(main->breaker_probes, 2);
	assert_true(main->breaker_open == 30 * USEC_PER_SEC);
	assert_true(main->probe_interval == USEC_PER_SEC / 2);
	assert_true(main->probe_timeout == 2 * USEC_PER_SEC);
	assert_string_equal(main->probe_user, "prober");
	assert_string_equal(secret_text(&main->probe_password), "hush");
	assert_string_equal(main->probe_dbname, "postgres");
	assert_int_equal(other->breaker, BREAKER_OBSERVE);
	assert_int_equal(other->breaker_failures, 1);
	assert_int_equal(other->breaker_probes, 4);
	assert_true(other->breaker_open == 60 * USEC_PER_SEC);
	assert_true(other->probe_interval == 3 * USEC_PER_SEC);
	assert_true(other->probe_timeout == USEC_PER_SEC / 4);
	assert_string_equal(other->probe_user, "eve");
	assert_string_equal(secret_text(&other->probe_password), "other");
	assert_string_equal(other->probe_dbname, "probes");
	assert_int_equal(conf_cluster(c, "h:5432")->breaker, BREAKER_OFF);
	conf_drop(&c);
}

static void several_hosts_without_a_user_for_the_probes_are_warned_of(void **state)
{
	struct conf *c = loads_warning("[clusters]\na = primary=h,i\nb = primary=h replicas=i\nc = primary=h\nd = primary=h,i breaker=off\n[databases]\n",
				       "test.ini:2: [clusters] a: without probe_user no probe can tell which of its hosts is the primary, and none is followed\n"
				       "test.ini:3: [clusters] b: without probe_user no probe can tell which of its hosts is the primary, and none is followed\n");

	(void)state;
	conf_drop(&c);
}

static void probes_without_time_are_refused(void **state)
{
	(void)state;
	refuses("[clusters]\na = primary=h probe_interval=0\nb = primary=h probe_timeout=9ms\nc = primary=h probe_timeout=0 breaker=off\nd = primary=h probe_timeout=10ms\n"
		"e = primary=h breaker_failures=0\nf = primary=h breaker_probes=0\n[databases]\n",
		"test.ini:2: [clusters] a: probe_interval and probe_timeout are 10 milliseconds at least\n"
		"test.ini:3: [clusters] b: probe_interval and probe_timeout are 10 milliseconds at least\n"
		"test.ini:6: [clusters] e: breaker_failures: \"0\" is not in the range 1 to 2147483647\n"
		"test.ini:7: [clusters] f: breaker_probes: \"0\" is not in the range 1 to 2147483647\n");
}

static void a_bad_cluster_is_refused(void **state)
{
	(void)state;
	refuses("[clusters]\na =\nb = primary=''\nc = primary=h:x\n\"d:1\" = primary=h\ne = primary=[::1\nf = primary=h breaker=maybe\ng = primary=h max_server_con=1\nh = primary=:5432\n"
		"[databases]\nx = cluster=h host=h\n",
		"test.ini:2: [clusters] a: a cluster needs primary=host:port\n"
		"test.ini:3: [clusters] b: the list of hosts is empty\n"
		"test.ini:4: [clusters] c: port: \"x\" is not in the range 1 to 65535\n"
		"test.ini:5: [clusters] d:1: a cluster's name is 1 to 64 of A-Za-z0-9_.-\n"
		"test.ini:6: [clusters] e: a host of the list is not host, host:port or [address]:port\n"
		"test.ini:7: [clusters] f: breaker: \"maybe\" is not one of on off observe\n"
		"test.ini:8: [clusters] g: unknown key \"max_server_con\"; did you mean \"max_server_conn\"?\n"
		"test.ini:9: [clusters] h: a host of the list is not host, host:port or [address]:port\n"
		"test.ini:11: [databases] x: cluster= and host= or port= exclude each other\n");
}

static void an_implicit_cluster_is_not_named_by_cluster(void **state)
{
	(void)state;
	refuses("[databases]\na = host=h\nb = cluster=h:5432\n", "test.ini:3: [databases] b: cluster \"h:5432\" is not in [clusters]\n");
}

static void a_later_line_replaces_an_entry_and_its_cluster(void **state)
{
	struct conf *c = loads("[databases]\na = host=old password=x\n* = host=old2\nb = host=b\na = host=new\n* = host=new\n");

	(void)state;
	host_is(&conf_entry(c, "a")->cluster->primary[0], "new", 5432);
	assert_false(secret_is_set(&conf_entry(c, "a")->password));
	assert_int_equal(c->n_clusters, 2);
	assert_null(conf_cluster(c, "old:5432"));
	assert_ptr_equal(c->cluster_at[conf_entry(c, "a")->cluster->index], conf_entry(c, "a")->cluster);
	assert_int_equal(c->entries.count, 2);
	conf_drop(&c);
}

static void limits_of_0_or_less_are_the_processs(void **state)
{
	struct conf *c = loads("[databases]\na = host=h max_db_connections=0 max_db_client_connections=-1 pool_size=-1\nb = host=h max_db_connections=2 pool_size=0\n[pgweir]\nmax_db_connections = 7\nmax_db_client_connections = 8\n");

	(void)state;
	assert_int_equal(conf_entry(c, "a")->max_db_connections, 7);
	assert_int_equal(conf_entry(c, "a")->max_db_client_connections, 8);
	assert_int_equal(conf_entry(c, "a")->over.pool_size, -1);
	assert_int_equal(conf_entry(c, "b")->max_db_connections, 2);
	assert_int_equal(conf_entry(c, "b")->over.pool_size, 0);
	conf_drop(&c);
}

static void the_consoles_names_are_reserved(void **state)
{
	(void)state;
	refuses("[databases]\npgbouncer = host=h\npgweir = host=h\na = host=h auth_dbname=pgbouncer\n",
		"test.ini:2: [databases] pgbouncer: the name is reserved for the console\n"
		"test.ini:3: [databases] pgweir: the name is reserved for the console\n"
		"test.ini:4: [databases] a: cannot use the reserved \"pgbouncer\" database as an auth_dbname\n");
}

static void a_name_may_have_63_bytes(void **state)
{
	struct conf *c = loads("[databases]\n012345678901234567890123456789012345678901234567890123456789012 = host=h\n");

	(void)state;
	conf_drop(&c);
	refuses("[databases]\n0123456789012345678901234567890123456789012345678901234567890123 = host=h\n",
		"test.ini:2: [databases] 0123456789012345678901234567890123456789012345678901234567890123: the name is longer than 63 bytes\n");
}

static void the_star_line_makes_entries(void **state)
{
	struct conf *c = loads("[databases]\n* = host=h user=u password=p pool_size=3 work_mem=1MB auth_user=au\n"), *none = loads("[databases]\na = host=h\n");
	struct conf_entry *e = conf_entry_make(c, "shop");

	(void)state;
	assert_string_equal(e->name, "shop");
	assert_string_equal(e->dbname, "shop");
	assert_string_equal(e->user, "u");
	assert_string_equal(e->auth_user, "au");
	assert_string_equal(secret_text(&e->password), "p");
	assert_int_equal(e->over.pool_size, 3);
	assert_int_equal(e->n_params, 1);
	assert_true(e->automatic);
	assert_ptr_equal(e->cluster, c->star->cluster);
	assert_null(conf_entry(c, "shop"));
	assert_null(conf_entry(c, "*"));
	conf_entry_free(&e);
	assert_null(e);
	assert_null(conf_entry_make(none, "shop"));
	conf_drop(&none);
	conf_drop(&c);
	c = loads("[databases]\n* = host=h dbname=fixed\n");
	e = conf_entry_make(c, "shop");
	assert_string_equal(e->dbname, "fixed");
	conf_entry_free(&e);
	conf_drop(&c);
}

static void a_fallback_must_be_an_entry(void **state)
{
	(void)state;
	refuses("[databases]\na = host=h fallback=none\n", "test.ini:2: [databases] a: fallback \"none\" is no entry\n");
}

#define CLUSTERS "[clusters]\nmain = primary=h replicas=i,j:5433 breaker=off\nsole = primary=h\n[databases]\n"

static void a_read_pool_has_replicas_or_a_fallback(void **state)
{
	struct conf *c = loads(CLUSTERS "app = cluster=main\nread = cluster=main prefer=replica fallback=app\nalso = cluster=main prefer=replica\nlast = cluster=sole prefer=replica fallback=read\n");

	(void)state;
	assert_true(conf_entry(c, "read")->prefer_replica);
	assert_string_equal(conf_entry(c, "read")->fallback, "app");
	assert_null(conf_entry(c, "also")->fallback);
	assert_int_equal(conf_entry(c, "read")->cluster->n_replicas, 2);
	conf_drop(&c);
	refuses(CLUSTERS "a = cluster=sole prefer=replica\n", "test.ini:5: [databases] a: prefer=replica: cluster \"sole\" has no replicas=, and there is no fallback=\n");
	refuses(CLUSTERS "a = host=h prefer=replica\n", "test.ini:5: [databases] a: prefer=replica: cluster \"h:5432\" has no replicas=, and there is no fallback=\n");
	refuses(CLUSTERS "app = cluster=main\nc = cluster=main fallback=app\n", "test.ini:6: [databases] c: fallback= has no meaning without prefer=replica\n");
}

static void fallbacks_do_not_come_round(void **state)
{
	struct conf_report r = {0};
	struct conf *c;

	(void)state;
	refuses(CLUSTERS "a = cluster=main prefer=replica fallback=a\n", "test.ini:5: [databases] a: fallback \"a\" leads back to where it came from\n");
	c = conf_load_text(CLUSTERS "a = cluster=main prefer=replica fallback=b\nb = cluster=main prefer=replica fallback=a\n", &r);
	assert_null(c);
	conf_report_free(&r);
}

static void a_long_password_is_whole(void **state)
{
	static char text[70000];
	struct conf *c;
	size_t n = (size_t)sprintf(text, "[databases]\na = host=h password=");

	(void)state;
	memset(text + n, 'x', 65530);
	c = loads(text);
	assert_int_equal(secret_span(&conf_entry(c, "a")->password).len, 65530);
	conf_drop(&c);
	text[n + 65530] = 'x';
	refuses(text, "test.ini:2: [databases] a: password: the value is longer than 65530 bytes\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_of_pgbouncer_is_read),
		cmocka_unit_test(settings_of_the_server_are_handed_on),
		cmocka_unit_test(an_unknown_key_is_refused_and_the_one_meant_is_named),
		cmocka_unit_test(without_host_the_socket_is_used),
		cmocka_unit_test(entries_with_one_host_and_port_share_a_cluster),
		cmocka_unit_test(a_host_list_has_one_port_for_all_or_one_each),
		cmocka_unit_test(a_cluster_has_hosts_with_ports),
		cmocka_unit_test(a_cluster_has_a_breaker_of_its_own_and_takes_the_rest_from_the_process),
		cmocka_unit_test(several_hosts_without_a_user_for_the_probes_are_warned_of),
		cmocka_unit_test(probes_without_time_are_refused),
		cmocka_unit_test(a_bad_cluster_is_refused),
		cmocka_unit_test(an_implicit_cluster_is_not_named_by_cluster),
		cmocka_unit_test(a_later_line_replaces_an_entry_and_its_cluster),
		cmocka_unit_test(limits_of_0_or_less_are_the_processs),
		cmocka_unit_test(the_consoles_names_are_reserved),
		cmocka_unit_test(a_name_may_have_63_bytes),
		cmocka_unit_test(the_star_line_makes_entries),
		cmocka_unit_test(a_fallback_must_be_an_entry),
		cmocka_unit_test(a_read_pool_has_replicas_or_a_fallback),
		cmocka_unit_test(fallbacks_do_not_come_round),
		cmocka_unit_test(a_long_password_is_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
