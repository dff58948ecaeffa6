/* Epochs on disk: they never go back, whatever happens to the files. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/epoch.h"

static char folder[64];

static int folder_make(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/test_epoch-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int folder_drop(void **state)
{
	DIR *d = opendir(folder);
	struct dirent *e;

	(void)state;
	while (d && (e = readdir(d)))
		unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	return rmdir(folder);
}

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static struct epoch_book *open_good(void)
{
	struct err err = {0};
	struct epoch_book *b = epoch_book_open(folder, &err);

	if (!b)
		fail_msg("%s", err.text);
	return b;
}

static struct epoch_book *open_whole(void)
{
	struct epoch_book *b = open_good();

	assert_null(epoch_book_warning(b));
	return b;
}

static void keep(struct epoch_book *b, const char *cluster, uint64_t epoch, enum cluster_state state, bool fenced)
{
	struct epoch_row row = {.epoch = epoch, .state = state, .fenced = fenced, .system_id = UINT64_MAX, .timeline = 7, .host = "fd00::1:5432"};
	struct err err = {0};

	strcpy(row.cluster, cluster);
	if (!epoch_keep(b, &row, &err))
		fail_msg("%s", err.text);
}

/* What a file holds; its length is returned. */
static size_t slurp(const char *name, char *out, size_t room)
{
	int fd = open(path_of(name), O_RDONLY);
	ssize_t n;

	assert_true(fd >= 0);
	n = read(fd, out, room);
	close(fd);
	assert_true(n >= 0 && (size_t)n < room);
	return (size_t)n;
}

static void spill(const char *name, const char *text, size_t len)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	close(fd);
}

/* The files as they stand, to be put back. */
static struct {
	char text[2][4096];
	size_t len[2];
} saved;

static const char *const slots[2] = {"epochs.0", "epochs.1"};

static void save(void)
{
	for (int i = 0; i < 2; i++)
		saved.len[i] = slurp(slots[i], saved.text[i], sizeof(saved.text[i]));
}

static void put_back(void)
{
	for (int i = 0; i < 2; i++)
		spill(slots[i], saved.text[i], saved.len[i]);
}

static int newest(void)
{
	uint64_t g[2];

	for (int i = 0; i < 2; i++)
		assert_int_equal(sscanf(strstr(saved.text[i], "generation "), "generation %lu", &g[i]), 1);
	return g[1] > g[0];
}

/* Two clusters, whose last change was main's cutover to 9. */
static void fill(void)
{
	struct epoch_book *b = open_whole();

	keep(b, "other", 3, CLUSTER_DEGRADED, false);
	keep(b, "main", 8, CLUSTER_PRIMARY, false);
	keep(b, "main", 8, CLUSTER_RECOVERING, true);
	keep(b, "main", 9, CLUSTER_PRIMARY, false);
	epoch_book_close(&b);
	save();
}

/* ---- the good path ---- */

static void what_was_kept_is_there_after_a_restart(void **state)
{
	struct epoch_book *b = open_whole();
	struct epoch_row row;

	(void)state;
	assert_true(epoch_book_is_kept(b));
	keep(b, "main", 1, CLUSTER_PRIMARY, false);
	keep(b, "eu-1.a_b", EPOCH_MOST - 2, CLUSTER_RECOVERING, true);
	keep(b, "main", 2, CLUSTER_DEGRADED, false);
	epoch_book_close(&b);
	for (int again = 0; again < 3; again++) {
		b = open_whole();
		row = epoch_of(b, "main");
		assert_true(row.epoch == 2 && row.state == CLUSTER_DEGRADED && !row.fenced && row.timeline == 7 && row.system_id == UINT64_MAX);
		assert_string_equal(row.host, "fd00::1:5432");
		row = epoch_of(b, "eu-1.a_b");
		assert_true(row.epoch == EPOCH_MOST - 2 && row.state == CLUSTER_RECOVERING && row.fenced);
		epoch_book_close(&b);
	}
}

static void a_cluster_begins_in_primary_with_epoch_one(void **state)
{
	struct epoch_book *b = open_whole();
	struct epoch_row row = epoch_of(b, "main");

	(void)state;
	assert_string_equal(row.cluster, "main");
	assert_true(row.epoch == 1 && row.state == CLUSTER_PRIMARY && !row.fenced && !row.timeline && !row.system_id && !row.host[0]);
	epoch_book_close(&b);
}

static void without_a_folder_nothing_is_kept_and_nothing_fails(void **state)
{
	struct err err = {0};
	struct epoch_book *b = epoch_book_open("", &err);

	(void)state;
	assert_non_null(b);
	assert_false(epoch_book_is_kept(b));
	keep(b, "main", 4, CLUSTER_PRIMARY, false);
	assert_int_equal(epoch_of(b, "main").epoch, 4);
	epoch_book_close(&b);
}

static void a_host_may_have_blanks_in_its_name(void **state)
{
	struct epoch_row row = {.cluster = "main", .epoch = 1, .host = "/run/a b  c:5432"};
	struct epoch_book *b = open_whole();
	struct err err;

	(void)state;
	assert_true(epoch_keep(b, &row, &err));
	epoch_book_close(&b);
	b = open_whole();
	assert_string_equal(epoch_of(b, "main").host, "/run/a b  c:5432");
	epoch_book_close(&b);
}

static void what_is_known_already_is_not_written_again(void **state)
{
	struct epoch_book *b = open_whole();

	(void)state;
	keep(b, "main", 1, CLUSTER_PRIMARY, false);
	keep(b, "main", 2, CLUSTER_PRIMARY, false);
	save();
	for (int i = 0; i < 3; i++)
		keep(b, "main", 2, CLUSTER_PRIMARY, false);
	for (int i = 0; i < 2; i++) {
		char text[4096];
		assert_int_equal(slurp(slots[i], text, sizeof(text)), saved.len[i]);
		assert_memory_equal(text, saved.text[i], saved.len[i]);
	}
	epoch_book_close(&b);
}

/* The rename may have come through all the same. */
static void after_a_write_that_failed_the_next_one_is_made_though_nothing_changed(void **state)
{
	struct epoch_row row = {.cluster = "main", .epoch = 3};
	struct epoch_book *b = open_whole();
	struct err err;

	(void)state;
	keep(b, "main", 2, CLUSTER_RECOVERING, true);
	assert_int_equal(mkdir(path_of("epochs.new"), 0700), 0);
	assert_false(epoch_keep(b, &row, &err));
	rmdir(path_of("epochs.new"));
	save();
	spill(slots[!newest()], "what the write that failed has left", 10);
	keep(b, "main", 2, CLUSTER_RECOVERING, true);
	epoch_book_close(&b);
	b = open_whole();
	assert_int_equal(epoch_of(b, "main").epoch, 2);
	epoch_book_close(&b);
}

static void two_processes_do_not_share_a_folder(void **state)
{
	struct epoch_book *b = open_whole();
	struct err err = {0};

	(void)state;
	assert_null(epoch_book_open(folder, &err));
	assert_non_null(strstr(err.text, "another process"));
	epoch_book_close(&b);
	b = open_whole();
	epoch_book_close(&b);
}

/* ---- broken files ---- */

/* The file at hand is broken: the other one is gone by, and no epoch is below what was used. */
static void assert_nothing_went_back(void)
{
	struct epoch_book *b = open_good();
	struct epoch_row main = epoch_of(b, "main"), other = epoch_of(b, "other");

	assert_non_null(epoch_book_warning(b));
	assert_true(main.epoch >= 9 && main.fenced && main.state == CLUSTER_RECOVERING);
	assert_true(other.epoch >= 3 && other.fenced && other.state == CLUSTER_RECOVERING);
	assert_true(epoch_of(b, "new").epoch >= 1);
	assert_true(epoch_of(b, "new").fenced);
	epoch_book_close(&b);
	b = open_whole(); /* and after that both files are whole again */
	assert_true(epoch_of(b, "main").epoch == main.epoch && epoch_of(b, "main").fenced);
	epoch_book_close(&b);
}

static void a_file_cut_at_any_byte_takes_no_epoch_back(void **state)
{
	(void)state;
	fill();
	for (int which = 0; which < 2; which++)
		for (size_t len = 0; len < saved.len[which]; len++) {
			put_back();
			spill(slots[which], saved.text[which], len);
			assert_nothing_went_back();
		}
}

static void a_file_with_any_byte_changed_takes_no_epoch_back(void **state)
{
	(void)state;
	fill();
	for (int which = 0; which < 2; which++)
		for (size_t at = 0; at < saved.len[which]; at++) {
			char text[sizeof(saved.text[0])];

			put_back();
			memcpy(text, saved.text[which], saved.len[which]);
			text[at] = (char)(text[at] ^ (at % 2 ? 1 : 0x80));
			spill(slots[which], text, saved.len[which]);
			assert_nothing_went_back();
		}
}

static void a_file_that_is_gone_takes_no_epoch_back(void **state)
{
	(void)state;
	fill();
	for (int which = 0; which < 2; which++) {
		put_back();
		unlink(path_of(slots[which]));
		assert_nothing_went_back();
	}
}

static void a_file_from_another_time_takes_no_epoch_back(void **state)
{
	struct epoch_book *b;
	char old[4096];
	size_t len;

	(void)state;
	b = open_whole();
	len = slurp("epochs.1", old, sizeof(old));
	epoch_book_close(&b);
	fill();
	for (int which = 0; which < 2; which++) {
		put_back();
		spill(slots[which], old, len);
		assert_nothing_went_back();
		put_back();
		spill(slots[which], saved.text[!which], saved.len[!which]);
		assert_nothing_went_back();
	}
}

static void losing_file_after_file_takes_no_epoch_back(void **state)
{
	uint64_t used = 9;

	(void)state;
	fill();
	for (int round = 0; round < 20; round++) {
		struct epoch_book *b;

		save();
		unlink(path_of(slots[round % 3 ? newest() : !newest()]));
		b = open_good();
		assert_true(epoch_of(b, "main").epoch >= used);
		used = epoch_of(b, "main").epoch + 1;
		keep(b, "main", used, CLUSTER_PRIMARY, false);
		if (round % 2)
			keep(b, "other", epoch_of(b, "other").epoch, CLUSTER_PRIMARY, false);
		epoch_book_close(&b);
	}
}

static void with_both_files_broken_it_does_not_start(void **state)
{
	static const char *const wrecks[] = {"", "\n", "pgweir epochs 1\n", "x"};

	(void)state;
	fill();
	for (size_t i = 0; i < sizeof(wrecks) / sizeof(wrecks[0]); i++) {
		struct err err = {0};

		spill("epochs.0", wrecks[i], strlen(wrecks[i]));
		spill("epochs.1", wrecks[i], strlen(wrecks[i]));
		assert_null(epoch_book_open(folder, &err));
		assert_non_null(strstr(err.text, folder));
		assert_non_null(strstr(err.text, "epochs.0 is broken and epochs.1 is broken"));
		unlink(path_of("epochs.1"));
		assert_null(epoch_book_open(folder, &err));
		assert_non_null(strstr(err.text, "epochs.1 is missing"));
	}
}

static void a_file_with_a_nul_in_it_is_broken(void **state)
{
	(void)state;
	fill();
	saved.text[newest()][saved.len[newest()]++] = '\0';
	put_back();
	assert_nothing_went_back();
}

static void what_a_crash_in_the_middle_of_writing_leaves_is_harmless(void **state)
{
	struct epoch_book *b;

	(void)state;
	fill();
	for (size_t len = 0; len < saved.len[0]; len += 7) {
		put_back();
		spill("epochs.new", saved.text[0], len);
		b = open_whole();
		assert_int_equal(epoch_of(b, "main").epoch, 9);
		assert_false(epoch_of(b, "main").fenced);
		epoch_book_close(&b);
	}
}

static void a_kill_at_any_time_takes_no_epoch_back(void **state)
{
	uint64_t known = 0;

	(void)state;
	for (int round = 0; round < 40; round++) {
		uint64_t told;
		int ends[2];
		pid_t child;

		assert_int_equal(pipe(ends), 0);
		child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			struct epoch_book *b = open_good();

			for (uint64_t epoch = epoch_of(b, "main").epoch + 1;; epoch++) {
				keep(b, "main", epoch, CLUSTER_PRIMARY, false);
				if (write(ends[1], &epoch, sizeof(epoch)) != sizeof(epoch))
					_exit(1);
			}
		}
		close(ends[1]);
		assert_int_equal(read(ends[0], &told, sizeof(told)), sizeof(told)); /* it is at work */
		usleep((useconds_t)(round * 37 % 1000));
		kill(child, SIGKILL);
		known = told;
		while (read(ends[0], &told, sizeof(told)) == sizeof(told))
			known = told;
		close(ends[0]);
		waitpid(child, NULL, 0);
		struct epoch_book *b = open_whole();
		assert_true(epoch_of(b, "main").epoch >= known);
		epoch_book_close(&b);
	}
}

/* ---- where it cannot be written ---- */

static void a_folder_that_is_not_there_is_named(void **state)
{
	struct err err = {0};

	(void)state;
	assert_null(epoch_book_open("/nowhere/at/all", &err));
	assert_string_equal(err.text, "state_dir /nowhere/at/all: No such file or directory");
	spill("file", "", 0);
	assert_null(epoch_book_open(path_of("file"), &err));
	assert_non_null(strstr(err.text, "Not a directory"));
}

static void a_folder_that_cannot_be_written_to_is_found_at_start(void **state)
{
	struct err err = {0};

	(void)state;
	assert_int_equal(mkdir(path_of("epochs.new"), 0700), 0); /* root may write into any folder, but not over a folder */
	assert_null(epoch_book_open(folder, &err));
	assert_non_null(strstr(err.text, "cannot write"));
	rmdir(path_of("epochs.new"));
}

static void a_file_that_cannot_be_read_is_not_taken_for_none(void **state)
{
	struct err err = {0};

	(void)state;
	assert_int_equal(symlink("/dev/null", path_of("epochs.0")), 0);
	assert_null(epoch_book_open(folder, &err));
	assert_non_null(strstr(err.text, "cannot read"));
}

static void a_full_disk_leaves_the_book_and_the_files_as_they_were(void **state)
{
	const struct rlimit full = {50, RLIM_INFINITY}, roomy = {RLIM_INFINITY, RLIM_INFINITY};
	struct epoch_row row = {.cluster = "main", .epoch = 10, .state = CLUSTER_PRIMARY};
	struct err err = {0};
	struct epoch_book *b;

	(void)state;
	fill();
	signal(SIGXFSZ, SIG_IGN);
	b = open_whole();
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
	assert_false(epoch_keep(b, &row, &err));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &roomy), 0);
	assert_non_null(strstr(err.text, "cannot write"));
	assert_non_null(strstr(err.text, strerror(EFBIG)));
	assert_int_equal(epoch_of(b, "main").epoch, 9);
	assert_int_equal(access(path_of("epochs.new"), F_OK), -1);
	epoch_book_close(&b);
	b = open_whole();
	assert_int_equal(epoch_of(b, "main").epoch, 9);
	assert_true(epoch_keep(b, &row, &err)); /* there is room again */
	epoch_book_close(&b);
	b = open_whole();
	assert_int_equal(epoch_of(b, "main").epoch, 10);
	epoch_book_close(&b);
}

#define test_in_folder(f) cmocka_unit_test_setup_teardown(f, folder_make, folder_drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_in_folder(what_was_kept_is_there_after_a_restart),
		test_in_folder(a_cluster_begins_in_primary_with_epoch_one),
		test_in_folder(without_a_folder_nothing_is_kept_and_nothing_fails),
		test_in_folder(a_host_may_have_blanks_in_its_name),
		test_in_folder(what_is_known_already_is_not_written_again),
		test_in_folder(after_a_write_that_failed_the_next_one_is_made_though_nothing_changed),
		test_in_folder(two_processes_do_not_share_a_folder),
		test_in_folder(a_file_cut_at_any_byte_takes_no_epoch_back),
		test_in_folder(a_file_with_any_byte_changed_takes_no_epoch_back),
		test_in_folder(a_file_that_is_gone_takes_no_epoch_back),
		test_in_folder(a_file_from_another_time_takes_no_epoch_back),
		test_in_folder(losing_file_after_file_takes_no_epoch_back),
		test_in_folder(with_both_files_broken_it_does_not_start),
		test_in_folder(a_file_with_a_nul_in_it_is_broken),
		test_in_folder(what_a_crash_in_the_middle_of_writing_leaves_is_harmless),
		test_in_folder(a_kill_at_any_time_takes_no_epoch_back),
		test_in_folder(a_folder_that_is_not_there_is_named),
		test_in_folder(a_folder_that_cannot_be_written_to_is_found_at_start),
		test_in_folder(a_file_that_cannot_be_read_is_not_taken_for_none),
		test_in_folder(a_full_disk_leaves_the_book_and_the_files_as_they_were),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
