/* What control makes of probes and logins: rounds, moves, and what the workers are told. Probes are stand-ins that the test answers; time is
 * moved by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cluster/watch.h"
#include "loop/loop_priv.h"

#define SEC USEC_PER_SEC
#define SYSTEM 7291346u

struct probe {
	int port;
	enum probe_depth depth;
	probe_done_fn done;
	void *owner;
};

static struct scene {
	struct loop *loop;
	struct setup *setup;
	char folder[64];
	struct probe *asked[8]; /* own; NULL: free */
	int n_asked;            /* in all */
	int n_changed;
} sc;

static usec_t now;

static usec_t clock_of_the_test(void)
{
	return now;
}

/* ---- stand-ins ---- */

struct probe *probe_start(struct loop *l, const struct probe_want *w, probe_done_fn done, void *owner)
{
	struct probe *p = mem_make(struct probe);
	int i = 0;

	assert_ptr_equal(l, sc.loop);
	*p = (struct probe){w->port, w->depth, done, owner};
	while (sc.asked[i])
		i++;
	assert_true(i < 8);
	for (int other = 0; other < 8; other++)
		assert_true(!sc.asked[other] || sc.asked[other]->port != w->port); /* never two to one host */
	sc.asked[i] = p;
	sc.n_asked++;
	return p;
}

void probe_stop(struct probe **p)
{
	for (int i = 0; *p && i < 8; i++)
		if (sc.asked[i] == *p)
			sc.asked[i] = NULL;
	mem_free(*p);
	*p = NULL;
}

static void changed(struct cluster *c)
{
	(void)c;
	sc.n_changed++;
}

static void unfenced(void *arg, const struct err *why)
{
	struct err *told = arg;

	*told = why ? *why : (struct err){0};
}

static bool unfence(enum unfence how, struct err *err)
{
	watch_unfence(watch_find("main"), how, unfenced, err);
	return !err->text[0];
}

/* ---- the world ---- */

static void turn(void)
{
	loop_renew(sc.loop);
	for (int i = 0; i < 4; i++)
		loop_turn(sc.loop, EVLOOP_NONBLOCK);
}

static void pass(usec_t time)
{
	now += time;
	turn();
}

static struct probe *probe_of(int port)
{
	for (int i = 0; i < 8; i++)
		if (sc.asked[i] && sc.asked[i]->port == port)
			return sc.asked[i];
	return NULL;
}

static void answer(int port, struct sighting seen)
{
	struct probe *p = probe_of(port);
	struct probe_result r = {.seen = seen};

	if (!p)
		fail_msg("nobody asks %d", port);
	probe_done_fn done = p->done;
	void *owner = p->owner;
	struct probe *gone = p;
	probe_stop(&gone);
	done(owner, &r);
	turn();
}

static struct sighting primary_on(uint32_t timeline)
{
	return (struct sighting){.up = true, .role = ROLE_PRIMARY, .system_id = SYSTEM, .timeline = timeline, .position = 1000};
}

static struct sighting replica_on(uint32_t timeline)
{
	return (struct sighting){.up = true, .role = ROLE_REPLICA, .system_id = SYSTEM, .timeline = timeline, .position = 900};
}

static struct sighting down(void)
{
	return (struct sighting){.err = {"08006", "connect failed: Connection refused"}};
}

static struct setup *setup_of(const char *cluster_line)
{
	struct conf_report report = {0};
	struct buf text = {0};
	struct err err;
	struct conf *conf;
	struct setup *s;

	buf_add_fmt(&text,
		    "[pgweir]\nserver_tls_sslmode=disable\nprobe_user=prober\nprobe_interval=1\nprobe_timeout=2\nstate_dir=%s\n[clusters]\n%s\n[databases]\nplain = host=h\n",
		    sc.folder, cluster_line);
	buf_add_u8(&text, 0);
	conf = conf_load_text((const char *)text.p, &report);
	buf_free(&text);
	if (!conf)
		fail_msg("%.*s", (int)report.errors.len, report.errors.p);
	conf_report_free(&report);
	s = setup_new(conf, NULL, &err);
	assert_non_null(s);
	return s;
}

static void start(const char *cluster_line)
{
	struct err err;

	sc.setup = setup_of(cluster_line);
	if (!watch_start(sc.loop, sc.setup, changed, &err))
		fail_msg("%s", err.text);
	turn();
}

static void end(void)
{
	watch_stop();
	setup_drop(&sc.setup);
	for (int i = 0; i < 8; i++)
		assert_null(sc.asked[i]);
}

static void reload(const char *cluster_line)
{
	struct setup *next = setup_of(cluster_line);

	watch_adopt(next);
	setup_drop(&sc.setup);
	sc.setup = next;
	turn();
}

#define TWO "main = primary=a:1 replicas=b:2"

static int set_up(void **state)
{
	(void)state;
	sc = (struct scene){0};
	now = 1000 * SEC;
	strcpy(sc.folder, "/tmp/test_watch-XXXXXX");
	assert_non_null(mkdtemp(sc.folder));
	sc.loop = loop_new("control", -1);
	sc.loop->clock = clock_of_the_test;
	loop_renew(sc.loop);
	return 0;
}

static int tear_down(void **state)
{
	DIR *d = opendir(sc.folder);
	struct dirent *e;

	(void)state;
	end();
	while (d && (e = readdir(d)))
		unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	rmdir(sc.folder);
	loop_free(&sc.loop);
	return 0;
}

/* ---- what workers see ---- */

static struct cluster *cluster(void)
{
	return cluster_of("main", 0);
}

static int dialled(void)
{
	return cluster_primary(cluster(), conf_cluster(sc.setup->conf, "main"));
}

static void assert_word(enum cluster_state state, uint64_t epoch)
{
	word_t w = cluster_word(cluster());

	assert_string_equal(cluster_state_name(word_state(w)), cluster_state_name(state));
	assert_int_equal(word_epoch(w), epoch);
}

static bool is_read_from(int port)
{
	const struct conf_cluster *cc = conf_cluster(sc.setup->conf, "main");

	for (int i = 0; i < cc->n_primary + cc->n_replicas; i++)
		if (conf_cluster_host(cc, i)->port == port)
			return cluster_may_read(cluster(), conf_cluster_host(cc, i));
	fail();
	return false;
}

/* One round, with these answers of a:1 and b:2, and the time to the next. */
static void round_of_two(struct sighting a, struct sighting b)
{
	answer(1, a);
	answer(2, b);
	pass(SEC);
}

static void started(void)
{
	start(TWO);
	round_of_two(primary_on(1), replica_on(1));
	assert_word(CLUSTER_PRIMARY, 1);
	assert_int_equal(dialled(), 0);
}

static void degraded(void)
{
	started();
	for (int i = 0; i < 3; i++)
		round_of_two(down(), replica_on(1));
	assert_word(CLUSTER_DEGRADED, 1);
}

static void recovering(void)
{
	degraded();
	answer(2, replica_on(1));
	pass(30 * SEC);
	assert_word(CLUSTER_RECOVERING, 1);
}

/* ---- the start ---- */

static void nobody_is_dialled_before_the_first_round_is_over(void **state)
{
	(void)state;
	start(TWO);
	assert_word(CLUSTER_PRIMARY, 1);
	assert_int_equal(dialled(), PRIMARY_NOBODY);
	answer(1, primary_on(1));
	assert_int_equal(dialled(), PRIMARY_NOBODY); /* the other may say more */
	answer(2, replica_on(1));
	assert_int_equal(dialled(), 0);
	assert_word(CLUSTER_PRIMARY, 1);
}

static void a_cluster_of_a_plain_host_is_left_alone(void **state)
{
	(void)state;
	start(TWO);
	assert_null(watch_find("h:5432"));
	assert_true(cluster_word(cluster_of("h:5432", 0)) == 0);
	assert_int_equal(cluster_primary(cluster_of("h:5432", 0), conf_cluster(sc.setup->conf, "h:5432")), PRIMARY_ANY);
}

static void without_a_user_all_primaries_are_dialled_while_one_answers(void **state)
{
	(void)state;
	start("main = primary=a:1,c:3 replicas=b:2 probe_user=''");
	assert_int_equal(dialled(), PRIMARY_ANY);
	assert_int_equal(probe_of(1)->depth, PROBE_ANSWER);
	for (int i = 0; i < 5; i++) {
		answer(1, down());
		answer(3, (struct sighting){.up = true});
		answer(2, down());
		assert_int_equal(dialled(), PRIMARY_ANY);
		pass(SEC);
	}
	for (int i = 0; i < 3; i++) {
		assert_word(CLUSTER_PRIMARY, 1);
		answer(1, down());
		answer(3, down());
		answer(2, (struct sighting){.up = true});
		pass(SEC);
	}
	assert_word(CLUSTER_DEGRADED, 1);
	assert_int_equal(dialled(), PRIMARY_NOBODY);
	assert_null(probe_of(1));
	assert_null(probe_of(3));
	answer(2, (struct sighting){.up = true});
	assert_false(is_read_from(2)); /* nobody knows whether it is a replica */
	pass(30 * SEC);
	for (int i = 0; i < 2; i++) {
		assert_word(CLUSTER_RECOVERING, 1);
		answer(1, (struct sighting){.up = true});
		answer(3, down());
		answer(2, down());
		assert_int_equal(dialled(), PRIMARY_ANY);
		pass(SEC);
	}
	assert_word(CLUSTER_PRIMARY, 2);
}

/* ---- rounds ---- */

static void a_round_begins_when_the_one_before_it_is_over_and_the_interval_too(void **state)
{
	(void)state;
	started();
	assert_int_equal(sc.n_asked, 4);
	answer(1, primary_on(1));
	pass(5 * SEC);
	assert_int_equal(sc.n_asked, 4); /* b:2 has not answered */
	answer(2, replica_on(1));
	assert_int_equal(sc.n_asked, 6); /* overdue: at once */
	answer(1, primary_on(1));
	answer(2, replica_on(1));
	pass(SEC - 10);
	assert_int_equal(sc.n_asked, 6);
	pass(10);
	assert_int_equal(sc.n_asked, 8);
}

static void a_host_that_does_not_tell_its_identity_is_not_asked_for_it_for_a_minute(void **state)
{
	struct probe_result r = {.seen = {.up = true, .role = ROLE_PRIMARY}, .no_identity = {"42501", "no"}};
	struct probe *p, *gone;

	(void)state;
	start("main = primary=a:1");
	p = gone = probe_of(1);
	assert_int_equal(p->depth, PROBE_IDENTITY);
	probe_done_fn done = p->done;
	void *owner = p->owner;
	probe_stop(&gone);
	done(owner, &r);
	for (int i = 0; i < 59; i++) {
		pass(SEC);
		assert_int_equal(probe_of(1)->depth, PROBE_ROLE);
		answer(1, r.seen);
	}
	pass(SEC);
	assert_int_equal(probe_of(1)->depth, PROBE_IDENTITY);
}

/* ---- the breaker ---- */

static void a_dead_primary_is_left_alone_for_the_window_and_its_replica_is_not(void **state)
{
	(void)state;
	degraded();
	assert_int_equal(dialled(), PRIMARY_NOBODY);
	assert_true(is_read_from(2));
	assert_false(is_read_from(1));
	for (int i = 0; i < 28; i++) { /* the first second is over */
		assert_null(probe_of(1));
		answer(2, replica_on(1));
		pass(SEC);
		assert_word(CLUSTER_DEGRADED, 1);
	}
	pass(SEC);
	assert_word(CLUSTER_RECOVERING, 1);
	assert_non_null(probe_of(1));
	assert_int_equal(dialled(), PRIMARY_NOBODY); /* until a probe has found it */
}

static void two_good_rounds_end_it_under_the_next_epoch(void **state)
{
	(void)state;
	recovering();
	round_of_two(primary_on(1), replica_on(1));
	assert_word(CLUSTER_RECOVERING, 1);
	assert_int_equal(dialled(), 0); /* reads pass */
	answer(1, primary_on(1));
	answer(2, replica_on(1));
	assert_word(CLUSTER_PRIMARY, 2);
	assert_int_equal(dialled(), 0);
}

static void a_bad_round_begins_a_fresh_window(void **state)
{
	(void)state;
	recovering();
	round_of_two(primary_on(1), replica_on(1));
	round_of_two(down(), replica_on(1));
	assert_word(CLUSTER_DEGRADED, 1);
	assert_int_equal(dialled(), PRIMARY_NOBODY);
	answer(2, replica_on(1));
	pass(28 * SEC);
	assert_word(CLUSTER_DEGRADED, 1);
	pass(SEC);
	assert_word(CLUSTER_RECOVERING, 1);
}

static void three_failed_logins_open_it_in_the_middle_of_a_round(void **state)
{
	struct err refused = {.sqlstate = "08006", .text = "connect failed: Connection refused"};
	word_t word;

	(void)state;
	started();
	word = cluster_word(cluster());
	answer(1, primary_on(1)); /* which is of no use any more, when the third has come */
	for (int i = 0; i < 3; i++) {
		watch_login_failed(cluster(), word, &refused);
		turn();
	}
	assert_word(CLUSTER_DEGRADED, 1);
	assert_null(probe_of(2));
	assert_string_equal(watch_find("main")->last_err.text, refused.text);
	watch_login_worked(cluster(), word);
	pass(SEC);
	assert_word(CLUSTER_DEGRADED, 1);
}

static void a_login_that_worked_resets_the_count(void **state)
{
	struct err refused = {.sqlstate = "08006", .text = "connect failed: Connection refused"};
	word_t word;

	(void)state;
	started();
	word = cluster_word(cluster());
	for (int i = 0; i < 10; i++) {
		watch_login_failed(cluster(), word, &refused);
		watch_login_failed(cluster(), word, &refused);
		turn();
		watch_login_worked(cluster(), word);
		turn();
	}
	assert_word(CLUSTER_PRIMARY, 1);
}

static void logins_begun_under_another_word_say_nothing(void **state)
{
	struct err refused = {.sqlstate = "08006", .text = "connect failed: Connection refused"};

	(void)state;
	started();
	for (int i = 0; i < 10; i++) {
		watch_login_failed(cluster(), word_pack(CLUSTER_RECOVERING, 1), &refused);
		watch_login_failed(cluster(), word_pack(CLUSTER_PRIMARY, 7), &refused);
		watch_login_failed(cluster(), 0, &refused);
	}
	turn();
	assert_word(CLUSTER_PRIMARY, 1);
}

/* ---- several hosts ---- */

static void a_promoted_replica_is_dialled_when_probes_have_found_it_and_written_to_under_a_new_epoch(void **state)
{
	(void)state;
	started();
	round_of_two(primary_on(1), primary_on(2));
	assert_word(CLUSTER_RECOVERING, 1);
	assert_int_equal(dialled(), PRIMARY_NOBODY);
	round_of_two(primary_on(1), primary_on(2));
	assert_word(CLUSTER_RECOVERING, 1);
	assert_int_equal(dialled(), 1);
	round_of_two(primary_on(1), primary_on(2));
	assert_word(CLUSTER_PRIMARY, 2);
	assert_int_equal(dialled(), 1);
	assert_false(is_read_from(1)); /* it says that it is a primary */
}

static void a_conflict_takes_the_primary_away_at_once(void **state)
{
	(void)state;
	started();
	answer(1, primary_on(1));
	answer(2, primary_on(1));
	assert_word(CLUSTER_DEGRADED, 1);
	assert_int_equal(dialled(), PRIMARY_NOBODY);
}

static void the_old_primary_does_not_come_back_though_the_promoted_one_was_never_served(void **state)
{
	(void)state;
	degraded();
	answer(2, primary_on(2));
	pass(30 * SEC);
	assert_word(CLUSTER_RECOVERING, 1);
	round_of_two(down(), primary_on(2)); /* seen once, and then it dies as well */
	answer(1, primary_on(1));
	answer(2, down());
	assert_word(CLUSTER_DEGRADED, 1);
	pass(SEC);
	end();
	start(TWO); /* not even when it was the process that died */
	answer(1, primary_on(1));
	answer(2, down());
	assert_int_not_equal(word_state(cluster_word(cluster())), CLUSTER_PRIMARY);
	assert_int_equal(dialled(), PRIMARY_NOBODY);
}

static void a_replica_of_another_system_is_not_read_from(void **state)
{
	struct sighting foreign = replica_on(1);

	(void)state;
	foreign.system_id++;
	start(TWO);
	round_of_two(primary_on(1), foreign);
	assert_int_equal(dialled(), 0);
	assert_false(is_read_from(2));
	round_of_two(primary_on(1), replica_on(1));
	assert_true(is_read_from(2));
	round_of_two(primary_on(1), down());
	assert_false(is_read_from(2));
}

static void the_lag_of_a_replica_is_what_it_is_behind_the_primary(void **state)
{
	struct watch *w;

	(void)state;
	started();
	w = watch_find("main");
	assert_int_equal(watch_lag(w, &w->hosts[1]), 100);
	assert_int_equal(watch_lag(w, &w->hosts[0]), -1);
}

/* ---- fences and restarts ---- */

static void a_fence_leaves_the_primary_to_read_from_and_stands_after_a_restart(void **state)
{
	struct err err;

	(void)state;
	started();
	assert_true(watch_fence(watch_find("main"), &err));
	assert_word(CLUSTER_RECOVERING, 1);
	assert_int_equal(dialled(), 0);
	end();
	start(TWO);
	assert_word(CLUSTER_RECOVERING, 1);
	for (int i = 0; i < 5; i++) {
		round_of_two(primary_on(1), replica_on(1));
		assert_word(CLUSTER_RECOVERING, 1);
	}
	assert_true(unfence(UNFENCE_BY_RULES, &err));
	assert_word(CLUSTER_PRIMARY, 2);
	end();
	start(TWO);
	assert_word(CLUSTER_PRIMARY, 2);
}

static void a_process_that_ended_in_degraded_begins_in_recovering(void **state)
{
	(void)state;
	degraded();
	end();
	start(TWO);
	assert_word(CLUSTER_RECOVERING, 1);
	assert_int_equal(dialled(), PRIMARY_NOBODY);
	round_of_two(primary_on(1), replica_on(1));
	round_of_two(primary_on(1), replica_on(1));
	assert_word(CLUSTER_PRIMARY, 2);
}

static void a_disk_that_fails_leaves_the_fence_up_and_the_epoch_unused(void **state)
{
	char path[128];
	struct err err;

	(void)state;
	recovering();
	snprintf(path, sizeof(path), "%s/epochs.new", sc.folder);
	assert_int_equal(mkdir(path, 0700), 0);
	for (int i = 0; i < 5; i++) {
		round_of_two(primary_on(1), replica_on(1));
		assert_word(CLUSTER_RECOVERING, 1);
	}
	assert_false(watch_fence(watch_find("main"), &err));
	assert_non_null(strstr(err.text, "will not outlive"));
	assert_word(CLUSTER_RECOVERING, 1);
	rmdir(path);
	assert_true(unfence(UNFENCE_BY_RULES, &err));
	assert_word(CLUSTER_PRIMARY, 2);
}

static void unfence_by_force_takes_whichever_primary_is_there(void **state)
{
	struct err err;

	(void)state;
	started();
	round_of_two(primary_on(1), primary_on(2));
	round_of_two(primary_on(1), primary_on(2));
	round_of_two(primary_on(1), primary_on(2));
	assert_word(CLUSTER_PRIMARY, 2);
	answer(1, primary_on(1));
	answer(2, down());
	assert_word(CLUSTER_DEGRADED, 2);
	assert_true(watch_fence(watch_find("main"), &err));
	assert_true(unfence(UNFENCE_FORCE, &err));
	turn();
	round_of_two(primary_on(1), down());
	round_of_two(primary_on(1), down());
	assert_word(CLUSTER_PRIMARY, 3);
	assert_int_equal(dialled(), 0);
}

static void a_host_that_was_promoted_again_while_nobody_looked_is_another_primary(void **state)
{
	(void)state;
	started();
	end();
	start(TWO);
	round_of_two(primary_on(3), replica_on(3));
	assert_word(CLUSTER_RECOVERING, 1);
	round_of_two(primary_on(3), replica_on(3));
	assert_word(CLUSTER_RECOVERING, 1);
	round_of_two(primary_on(3), replica_on(3));
	assert_word(CLUSTER_PRIMARY, 2);
}

static void a_primary_is_not_known_as_the_one_of_an_epoch_it_did_not_have(void **state)
{
	char path[128];

	(void)state;
	started();
	snprintf(path, sizeof(path), "%s/epochs.new", sc.folder);
	assert_int_equal(mkdir(path, 0700), 0); /* nothing is kept from here on, as if it died */
	round_of_two(primary_on(1), primary_on(2));
	assert_word(CLUSTER_RECOVERING, 1);
	end();
	rmdir(path);
	start(TWO);
	assert_word(CLUSTER_PRIMARY, 1);
	answer(1, down());
	answer(2, primary_on(2));
	assert_word(CLUSTER_RECOVERING, 1);
	assert_int_equal(dialled(), PRIMARY_NOBODY);
}

/* ---- observe, reload ---- */

static void observing_tells_the_workers_nothing(void **state)
{
	(void)state;
	start(TWO " breaker=observe");
	for (int i = 0; i < 3; i++) {
		assert_true(cluster_word(cluster()) == 0);
		assert_int_equal(dialled(), PRIMARY_ANY);
		round_of_two(down(), replica_on(1));
	}
	assert_int_equal(watch_find("main")->breaker.state, CLUSTER_DEGRADED);
	assert_true(cluster_word(cluster()) == 0);
	assert_int_equal(dialled(), PRIMARY_ANY);
	assert_false(is_read_from(2));
	reload(TWO); /* and now in earnest, from the beginning */
	assert_word(CLUSTER_PRIMARY, 1);
	assert_int_equal(dialled(), PRIMARY_NOBODY);
}

static void a_reload_keeps_state_and_window(void **state)
{
	(void)state;
	degraded();
	pass(10 * SEC);
	reload(TWO);
	assert_word(CLUSTER_DEGRADED, 1);
	assert_null(probe_of(1));
	pass(18 * SEC);
	assert_word(CLUSTER_DEGRADED, 1);
	pass(SEC);
	assert_word(CLUSTER_RECOVERING, 1);
}

static void a_reload_may_shorten_the_window(void **state)
{
	(void)state;
	degraded();
	pass(5 * SEC);
	reload(TWO " breaker_open=3");
	assert_word(CLUSTER_RECOVERING, 1);
}

static void a_reload_that_turns_the_hosts_round_keeps_who_is_served(void **state)
{
	(void)state;
	started();
	reload("main = primary=b:2 replicas=a:1");
	assert_word(CLUSTER_PRIMARY, 1);
	assert_int_equal(dialled(), 1);
	answer(1, primary_on(1));
	answer(2, replica_on(1));
	assert_word(CLUSTER_PRIMARY, 1);
	assert_int_equal(dialled(), 1);
}

static void a_reload_that_takes_the_primary_away_serves_nobody_until_another_is_found(void **state)
{
	(void)state;
	started();
	reload("main = primary=c:3 replicas=b:2");
	assert_int_equal(dialled(), PRIMARY_NOBODY);
	for (int i = 0; i < 3; i++) {
		answer(3, primary_on(1));
		answer(2, replica_on(1));
		pass(SEC);
	}
	assert_word(CLUSTER_PRIMARY, 2); /* for all we know, it is another server */
	assert_int_equal(dialled(), 0);
}

static void turning_the_breaker_off_and_on_lifts_the_fence_and_puts_it_back(void **state)
{
	struct err err;

	(void)state;
	started();
	watch_fence(watch_find("main"), &err);
	reload(TWO " breaker=off");
	assert_true(cluster_word(cluster()) == 0);
	assert_int_equal(dialled(), PRIMARY_ANY);
	assert_null(watch_find("main"));
	assert_null(probe_of(1));
	reload(TWO);
	assert_word(CLUSTER_RECOVERING, 1);
	assert_true(watch_find("main")->breaker.fenced);
}

static void who_waits_is_told_of_each_change_and_of_nothing_else(void **state)
{
	int before;

	(void)state;
	started();
	before = sc.n_changed;
	for (int i = 0; i < 5; i++)
		round_of_two(primary_on(1), replica_on(1));
	assert_int_equal(sc.n_changed, before);
	answer(1, primary_on(1));
	answer(2, primary_on(1));
	assert_int_equal(sc.n_changed, before + 1);
}

#define test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(nobody_is_dialled_before_the_first_round_is_over),
		test(a_cluster_of_a_plain_host_is_left_alone),
		test(without_a_user_all_primaries_are_dialled_while_one_answers),
		test(a_round_begins_when_the_one_before_it_is_over_and_the_interval_too),
		test(a_host_that_does_not_tell_its_identity_is_not_asked_for_it_for_a_minute),
		test(a_dead_primary_is_left_alone_for_the_window_and_its_replica_is_not),
		test(two_good_rounds_end_it_under_the_next_epoch),
		test(a_bad_round_begins_a_fresh_window),
		test(three_failed_logins_open_it_in_the_middle_of_a_round),
		test(a_login_that_worked_resets_the_count),
		test(logins_begun_under_another_word_say_nothing),
		test(a_promoted_replica_is_dialled_when_probes_have_found_it_and_written_to_under_a_new_epoch),
		test(a_conflict_takes_the_primary_away_at_once),
		test(the_old_primary_does_not_come_back_though_the_promoted_one_was_never_served),
		test(a_replica_of_another_system_is_not_read_from),
		test(the_lag_of_a_replica_is_what_it_is_behind_the_primary),
		test(a_fence_leaves_the_primary_to_read_from_and_stands_after_a_restart),
		test(a_process_that_ended_in_degraded_begins_in_recovering),
		test(a_disk_that_fails_leaves_the_fence_up_and_the_epoch_unused),
		test(unfence_by_force_takes_whichever_primary_is_there),
		test(a_host_that_was_promoted_again_while_nobody_looked_is_another_primary),
		test(a_primary_is_not_known_as_the_one_of_an_epoch_it_did_not_have),
		test(observing_tells_the_workers_nothing),
		test(a_reload_keeps_state_and_window),
		test(a_reload_may_shorten_the_window),
		test(a_reload_that_turns_the_hosts_round_keeps_who_is_served),
		test(a_reload_that_takes_the_primary_away_serves_nobody_until_another_is_found),
		test(turning_the_breaker_off_and_on_lifts_the_fence_and_puts_it_back),
		test(who_waits_is_told_of_each_change_and_of_nothing_else),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
