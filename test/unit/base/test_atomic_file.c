/* atomic_file: whole, or not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>

#include "base/atomic_file.h"

static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/test-atomic-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int n_files(void)
{
	DIR *d = opendir(folder);
	int n = 0;

	for (struct dirent *e; (e = readdir(d));)
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	return n;
}

static int remove_folder(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/state", folder);
	unlink(path);
	return rmdir(folder);
}

static void write_it(const char *text, enum atomic_how how)
{
	struct err err;
	struct atomic_file *f = atomic_file_begin(folder, "state", &err);

	assert_non_null(f);
	atomic_file_add(f, text, strlen(text));
	assert_true(atomic_file_end(&f, how, &err));
	assert_null(f);
}

static void it_holds(const char *text)
{
	struct buf b = {0};
	struct err err;
	bool missing;

	assert_true(atomic_file_read(folder, "state", 1000, &b, &missing, &err));
	assert_int_equal(b.len, strlen(text));
	assert_memory_equal(b.p, text, b.len);
	buf_free(&b);
}

static void the_new_file_takes_the_place_of_the_old_one(void **state)
{
	struct stat st;
	char path[128];

	(void)state;
	write_it("first", ATOMIC_SYNCED);
	it_holds("first");
	write_it("second", ATOMIC_WRITTEN);
	it_holds("second");
	assert_int_equal(n_files(), 1);
	snprintf(path, sizeof(path), "%s/state", folder);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void until_it_is_whole_the_old_one_is_there(void **state)
{
	struct err err;

	(void)state;
	write_it("old", ATOMIC_WRITTEN);
	struct atomic_file *f = atomic_file_begin(folder, "state", &err);
	atomic_file_add(f, "half", 4);
	it_holds("old");
	atomic_file_abandon(&f);
	it_holds("old");
	assert_int_equal(n_files(), 1);
}

static void a_write_that_fails_leaves_the_old_one(void **state)
{
	struct rlimit before, small = {10, 10};
	struct err err;

	(void)state;
	write_it("old", ATOMIC_WRITTEN);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	struct atomic_file *f = atomic_file_begin(folder, "state", &err);
	atomic_file_add(f, "far too long for it", 19);
	atomic_file_add(f, "x", 1);
	assert_false(atomic_file_end(&f, ATOMIC_WRITTEN, &err));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_non_null(strstr(err.text, "state"));
	it_holds("old");
	assert_int_equal(n_files(), 1);
}

static void a_folder_that_is_not_there_is_an_error(void **state)
{
	struct buf b = {0};
	struct err err;
	bool missing;

	(void)state;
	assert_null(atomic_file_begin("/no/such/folder", "state", &err));
	assert_non_null(strstr(err.text, "/no/such/folder/state"));
	assert_false(atomic_file_read("/no/such/folder", "state", 10, &b, &missing, &err));
	assert_false(missing);
}

static void a_file_that_is_not_there_is_missing_and_one_too_long_is_not_read(void **state)
{
	struct buf b = {0};
	struct err err;
	bool missing;

	(void)state;
	assert_false(atomic_file_read(folder, "state", 10, &b, &missing, &err));
	assert_true(missing);
	write_it("eleven byte", ATOMIC_WRITTEN);
	assert_false(atomic_file_read(folder, "state", 10, &b, &missing, &err));
	assert_false(missing);
	assert_null(b.p);
	assert_true(atomic_file_read(folder, "state", 11, &b, &missing, &err));
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_new_file_takes_the_place_of_the_old_one, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(until_it_is_whole_the_old_one_is_there, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(a_write_that_fails_leaves_the_old_one, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(a_folder_that_is_not_there_is_an_error, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(a_file_that_is_not_there_is_missing_and_one_too_long_is_not_read, make_folder, remove_folder),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
