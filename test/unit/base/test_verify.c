/* verify: silent when true; says what, where, and aborts when not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/verify.h"

/* Runs body in a child, with its stderr in out; returns the wait status. */
static int run_in_child(void (*body)(void), char *out, size_t room)
{
	int ends[2], status;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL); /* cmocka catches it */
		setrlimit(RLIMIT_CORE, &(struct rlimit){0});
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		body();
		_exit(0);
	}
	close(ends[1]);
	while ((n = read(ends[0], out + len, room - 1 - len)) > 0)
		len += (size_t)n;
	out[len] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void claim_what_is_true(void)
{
	verify(1 + 1 == 2);
}

static void claim_what_is_not(void)
{
	int legs = 3;

	verify(legs == 4);
}

static void reach_the_unreachable(void)
{
	never("a fifth leg");
}

static char log_path[64];

static void fail_as_a_daemon(void)
{
	log_open(log_path, false, NULL, NULL);
	never("nobody reads stderr");
}

static void a_true_claim_says_nothing(void **state)
{
	char out[1024];
	int status = run_in_child(claim_what_is_true, out, sizeof(out));

	(void)state;
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_string_equal(out, "");
}

static void a_false_claim_aborts_and_names_itself(void **state)
{
	char out[1024];
	int status = run_in_child(claim_what_is_not, out, sizeof(out));

	(void)state;
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(strstr(out, "legs == 4"));
	assert_non_null(strstr(out, "test_verify.c:"));
	assert_non_null(strstr(out, "claim_what_is_not"));
}

static void never_aborts_with_its_text(void **state)
{
	char out[1024];
	int status = run_in_child(reach_the_unreachable, out, sizeof(out));

	(void)state;
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(strstr(out, "a fifth leg"));
}

static void the_last_words_stand_in_the_log_file_too(void **state)
{
	char out[1024], logged[1024];
	ssize_t n;
	int fd;

	(void)state;
	strcpy(log_path, "/tmp/pgweir_test_verify_XXXXXX");
	fd = mkstemp(log_path);
	assert_true(fd >= 0);
	run_in_child(fail_as_a_daemon, out, sizeof(out));
	n = read(fd, logged, sizeof(logged) - 1);
	assert_true(n > 0);
	logged[n] = '\0';
	assert_non_null(strstr(logged, "nobody reads stderr"));
	close(fd);
	unlink(log_path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_true_claim_says_nothing),
		cmocka_unit_test(a_false_claim_aborts_and_names_itself),
		cmocka_unit_test(never_aborts_with_its_text),
		cmocka_unit_test(the_last_words_stand_in_the_log_file_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
