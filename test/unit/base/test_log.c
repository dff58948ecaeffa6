/* log: the form of a line, what cannot be forged, the limit, and the files lines go to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_priv.h"

/* 2026-11-30 16:05:28.123 */
static const struct log_stamp stamp = {.wall = 1796054728123456ll, .pid = 99};
static const struct who bob = {.kind = 'C', .id = 12, .entry = "app", .user = "bob", .peer = "127.0.0.1:4711", .org = "acme"};

static char line[LOG_LINE_ROOM + 1];

static const char *formatted(const struct log_stamp *s, enum log_level level, const struct who *who, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static const char *formatted(const struct log_stamp *s, enum log_level level, const struct who *who, const char *fmt, ...)
{
	size_t len, level_at;
	va_list ap;

	memset(line, '?', sizeof(line));
	va_start(ap, fmt);
	len = log_format(line, &level_at, s, level, who, fmt, ap);
	va_end(ap);
	assert_true(len > 0 && len <= LOG_LINE_ROOM && level_at < len);
	assert_int_equal(line[LOG_LINE_ROOM], '?');
	line[len] = '\0';
	assert_ptr_equal(strchr(line, '\n'), line + len - 1);
	return line;
}

static void a_line_has_time_pid_level_and_message(void **state)
{
	(void)state;
	assert_string_equal(formatted(&stamp, LOG_WARNING_, NULL, "%d left", 3), "2026-11-30 16:05:28.123 UTC [99] WARNING 3 left\n");
}

static void levels_have_pgbouncers_names(void **state)
{
	(void)state;
	assert_non_null(strstr(formatted(&stamp, LOG_FATAL_, NULL, "x"), "] FATAL x\n"));
	assert_non_null(strstr(formatted(&stamp, LOG_ERROR_, NULL, "x"), "] ERROR x\n"));
	assert_non_null(strstr(formatted(&stamp, LOG_LOG_, NULL, "x"), "] LOG x\n"));
	assert_non_null(strstr(formatted(&stamp, LOG_DEBUG_, NULL, "x"), "] DEBUG x\n"));
	assert_non_null(strstr(formatted(&stamp, LOG_NOISE_, NULL, "x"), "] NOISE x\n"));
}

static void a_connection_stands_before_its_message_and_its_org_behind(void **state)
{
	(void)state;
	assert_string_equal(formatted(&stamp, LOG_LOG_, &bob, "login attempt"),
		"2026-11-30 16:05:28.123 UTC [99] LOG C-12: app/bob@127.0.0.1:4711 login attempt org=acme\n");
}

static void what_is_not_known_yet_is_said_so(void **state)
{
	struct who nobody = {.kind = 'S', .id = 1, .peer = "unix(7):6432", .org = ""};

	(void)state;
	assert_string_equal(formatted(&stamp, LOG_LOG_, &nobody, "hm"),
		"2026-11-30 16:05:28.123 UTC [99] LOG S-1: (nodb)/(nouser)@unix(7):6432 hm\n");
}

static void control_bytes_from_a_peer_cannot_forge_a_line(void **state)
{
	struct who mallory = bob;

	(void)state;
	mallory.user = "x\n2026-11-30 16:05:28.123 UTC [99] FATAL y";
	mallory.org = "a\rb";
	assert_string_equal(formatted(&stamp, LOG_LOG_, &mallory, "bad name \"%s\"", "\033[2J\t\x7f\x01"),
		"2026-11-30 16:05:28.123 UTC [99] LOG C-12: app/x\\n2026-11-30 16:05:28.123 UTC [99] FATAL y@127.0.0.1:4711"
		" bad name \"\\x1b[2J\\t\\x7f\\x01\" org=a\\rb\n");
}

static void letters_beyond_ascii_stay_readable(void **state)
{
	(void)state;
	assert_non_null(strstr(formatted(&stamp, LOG_LOG_, NULL, "j\xc3\xbcrgen"), "LOG j\xc3\xbcrgen\n"));
}

static void an_overlong_message_is_cut_but_keeps_its_org(void **state)
{
	const char *end;

	(void)state;
	formatted(&stamp, LOG_LOG_, &bob, "%0*d", 10000, 0);
	end = line + strlen(line) - strlen("000... org=acme\n");
	assert_string_equal(end, "000... org=acme\n");
	/* Escapes make it four times as long: cut at the line, not in the middle of an escape. */
	memset(line, 0, sizeof(line));
	{
		static char bells[3001];

		memset(bells, '\a', 3000);
		formatted(&stamp, LOG_LOG_, &bob, "%s", bells);
	}
	end = line + strlen(line) - strlen("\\x07... org=acme\n");
	assert_string_equal(end, "\\x07... org=acme\n");
}

static void overlong_names_leave_room_for_the_message(void **state)
{
	static char name[5001];
	struct who giant = {.kind = 'C', .id = UINT64_MAX, .entry = name, .user = name, .peer = name, .org = name};

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	assert_non_null(strstr(formatted(&stamp, LOG_LOG_, &giant, "here I am"), "n...here I am org=nnn"));
}

static void lines_held_back_are_counted_on_the_next(void **state)
{
	struct log_stamp s = stamp;

	(void)state;
	s.held = 7;
	assert_non_null(strstr(formatted(&s, LOG_LOG_, &bob, "x"), "x (7 more like this were held back) org=acme\n"));
}

static void a_limit_passes_ten_a_second(void **state)
{
	struct log_limit limit = {0};
	usec_t now = 50 * USEC_PER_SEC;
	unsigned held = 99;

	(void)state;
	for (int i = 0; i < LOG_LIMIT_PER_SEC; i++) {
		assert_true(log_limit_passes(&limit, now + i, &held));
		assert_int_equal(held, 0);
	}
	for (int i = 0; i < 5; i++)
		assert_false(log_limit_passes(&limit, now + 999999, &held));
	assert_true(log_limit_passes(&limit, now + USEC_PER_SEC, &held));
	assert_int_equal(held, 5);
	assert_true(log_limit_passes(&limit, now + USEC_PER_SEC, &held));
	assert_int_equal(held, 0);
}

/* ---- files ---- */

static char folder[64], file_a[100], file_b[100];

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/pgweir_test_log_XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(file_a, sizeof(file_a), "%s/a", folder);
	snprintf(file_b, sizeof(file_b), "%s/b", folder);
	return 0;
}

static int drop_folder(void **state)
{
	(void)state;
	log_set_level(LOG_LOG_);
	log_open(NULL, false, NULL, NULL);
	unlink(file_a);
	unlink(file_b);
	return rmdir(folder);
}

static char contents[1 << 20];

static const char *contents_of(const char *path)
{
	FILE *f = fopen(path, "r");
	size_t n;

	assert_non_null(f);
	n = fread(contents, 1, sizeof(contents) - 1, f);
	contents[n] = '\0';
	fclose(f);
	return contents;
}

static void lines_go_to_the_file_at_once(void **state)
{
	char wanted[40];

	(void)state;
	log_open(file_a, false, NULL, NULL);
	log_line(LOG_LOG_, &bob, "one");
	assert_non_null(strstr(contents_of(file_a), "LOG C-12: app/bob@127.0.0.1:4711 one org=acme\n"));
	snprintf(wanted, sizeof(wanted), " UTC [%d] LOG ", (int)getpid());
	assert_non_null(strstr(contents, wanted));
}

static void only_levels_asked_for_are_written(void **state)
{
	(void)state;
	log_open(file_a, false, NULL, NULL);
	assert_false(log_on(LOG_DEBUG_));
	log_debug("unseen");
	log_set_level(LOG_DEBUG_);
	assert_true(log_on(LOG_DEBUG_));
	assert_false(log_on(LOG_NOISE_));
	log_debug("seen");
	log_set_level(LOG_ERROR_);
	log_warning("unseen");
	assert_null(strstr(contents_of(file_a), "unseen"));
	assert_non_null(strstr(contents, "DEBUG seen\n"));
}

static void errno_is_kept(void **state)
{
	(void)state;
	errno = EDOM;
	log_open(file_a, false, NULL, NULL);
	log_line(LOG_LOG_, NULL, "x");
	log_reopen();
	log_open("/nowhere/at/all", false, NULL, NULL);
	assert_int_equal(errno, EDOM);
}

static void reopening_begins_the_new_file_after_a_rotation(void **state)
{
	(void)state;
	log_open(file_a, false, NULL, NULL);
	log_log("before");
	assert_int_equal(rename(file_a, file_b), 0);
	log_log("meanwhile");
	log_reopen();
	log_log("after");
	assert_non_null(strstr(contents_of(file_b), "before\n"));
	assert_non_null(strstr(contents, "meanwhile\n"));
	assert_null(strstr(contents, "after\n"));
	assert_non_null(strstr(contents_of(file_a), "after\n"));
}

static void a_file_that_cannot_be_reopened_is_kept_open(void **state)
{
	(void)state;
	log_open(file_a, false, NULL, NULL);
	assert_int_equal(rename(file_a, file_b), 0);
	assert_int_equal(mkdir(file_a, 0700), 0);
	log_reopen();
	log_log("still here");
	assert_int_equal(rmdir(file_a), 0);
	assert_non_null(strstr(contents_of(file_b), "cannot reopen the logfile: "));
	assert_non_null(strstr(contents, "still here\n"));
}

static void a_new_file_that_cannot_be_opened_leaves_the_old_one(void **state)
{
	(void)state;
	log_open(file_a, false, NULL, NULL);
	log_open("/nowhere/at/all", false, NULL, NULL);
	log_log("still here");
	log_reopen();
	log_log("and here");
	assert_non_null(strstr(contents_of(file_a), "cannot open logfile \"/nowhere/at/all\": "));
	assert_non_null(strstr(contents, "still here\n"));
	assert_non_null(strstr(contents, "and here\n"));
}

static void another_file_takes_over(void **state)
{
	(void)state;
	log_open(file_a, false, NULL, NULL);
	log_log("in a");
	log_open(file_b, false, NULL, NULL);
	log_log("in b");
	log_open("", false, NULL, NULL);
	log_log("nowhere");
	assert_null(strstr(contents_of(file_a), "in b"));
	assert_non_null(strstr(contents_of(file_b), "in b"));
	assert_null(strstr(contents, "nowhere"));
}

static void a_flood_is_held_back(void **state)
{
	static struct log_limit limit;
	int lines = 0;

	(void)state;
	log_open(file_a, false, NULL, NULL);
	for (int i = 0; i < 1000; i++)
		log_limited(&limit, LOG_LOG_, &bob, "knock");
	contents_of(file_a);
	for (const char *at = contents; (at = strstr(at, "knock")); at++)
		lines++;
	/* Ten, or a few times that if a second or two ended meanwhile. */
	assert_in_range(lines, LOG_LIMIT_PER_SEC, 20 * LOG_LIMIT_PER_SEC);
}

enum { WRITERS = 4, LINES = 500 };
static atomic_int writers_left;

static void *write_lines(void *arg)
{
	for (int i = 0; i < LINES; i++)
		log_line(LOG_LOG_, &bob, "writer %d line %d end", (int)(intptr_t)arg, i);
	atomic_fetch_sub(&writers_left, 1);
	return NULL;
}

static void lines_of_many_threads_stay_whole_while_files_change(void **state)
{
	pthread_t threads[WRITERS];
	int lines = 0;

	(void)state;
	log_open(file_a, false, NULL, NULL);
	atomic_store(&writers_left, WRITERS);
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_lines, (void *)(intptr_t)i), 0);
	while (atomic_load(&writers_left)) {
		log_reopen();
		log_open(file_b, false, NULL, NULL);
		log_open(file_a, false, NULL, NULL);
	}
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	for (int f = 0; f < 2; f++) {
		char *at = (char *)contents_of(f ? file_b : file_a), *next;

		for (; *at; at = next) {
			next = strchr(at, '\n');
			assert_non_null(next);
			*next++ = '\0';
			assert_non_null(strstr(at, "LOG C-12: app/bob@127.0.0.1:4711 writer "));
			assert_string_equal(at + strlen(at) - strlen(" end org=acme"), " end org=acme");
			lines++;
		}
	}
	assert_int_equal(lines, WRITERS * LINES);
}

#define WITH_FILES(test) cmocka_unit_test_setup_teardown(test, make_folder, drop_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_has_time_pid_level_and_message),
		cmocka_unit_test(levels_have_pgbouncers_names),
		cmocka_unit_test(a_connection_stands_before_its_message_and_its_org_behind),
		cmocka_unit_test(what_is_not_known_yet_is_said_so),
		cmocka_unit_test(control_bytes_from_a_peer_cannot_forge_a_line),
		cmocka_unit_test(letters_beyond_ascii_stay_readable),
		cmocka_unit_test(an_overlong_message_is_cut_but_keeps_its_org),
		cmocka_unit_test(overlong_names_leave_room_for_the_message),
		cmocka_unit_test(lines_held_back_are_counted_on_the_next),
		cmocka_unit_test(a_limit_passes_ten_a_second),
		WITH_FILES(lines_go_to_the_file_at_once),
		WITH_FILES(only_levels_asked_for_are_written),
		WITH_FILES(errno_is_kept),
		WITH_FILES(reopening_begins_the_new_file_after_a_rotation),
		WITH_FILES(a_file_that_cannot_be_reopened_is_kept_open),
		WITH_FILES(a_new_file_that_cannot_be_opened_leaves_the_old_one),
		WITH_FILES(another_file_takes_over),
		WITH_FILES(a_flood_is_held_back),
		WITH_FILES(lines_of_many_threads_stay_whole_while_files_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
