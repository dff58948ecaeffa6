/* See main/daemon.h. */
#include "main/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

bool daemon_become(const char *user, struct err *err)
{
	struct passwd *pw;

	if (!user || !user[0]) {
		if (geteuid() == 0)
			return err_set(err, NULL, "pgweir does not run as root: name another account by the setting \"user\" or by -u");
		return true;
	}
	pw = getpwnam(user);
	if (!pw)
		return err_set(err, NULL, "no such account: %s", user);
	if (pw->pw_uid == 0)
		return err_set(err, NULL, "pgweir does not run as root: the account %s is root's", user);
	if (geteuid() != 0)
		return pw->pw_uid == geteuid() ? true : err_set(err, NULL, "only root can become another account (%s)", user);
	if (initgroups(pw->pw_name, pw->pw_gid) != 0 || setgid(pw->pw_gid) != 0 || setuid(pw->pw_uid) != 0)
		return err_set(err, NULL, "cannot become %s: %s", user, strerror(errno));
	return true;
}

static int started_fd = -1;

bool daemon_detach(struct err *err)
{
	int ends[2];
	char byte;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return err_set(err, NULL, "pipe: %s", strerror(errno));
	child = fork();
	if (child < 0)
		return err_set(err, NULL, "fork: %s", strerror(errno));
	if (child > 0) {
		close(ends[1]);
		_exit(read(ends[0], &byte, 1) == 1 ? 0 : 1);
	}
	close(ends[0]);
	started_fd = ends[1];
	setsid();
	return true;
}

void daemon_started(void)
{
	int null;

	if (started_fd < 0)
		return;
	null = open("/dev/null", O_RDWR);
	if (null >= 0) {
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		if (null > 2)
			close(null);
	}
	if (write(started_fd, "", 1) != 1)
		log_warning("the process that started this one is gone");
	close(started_fd);
	started_fd = -1;
}

static char *pidfile_path;

static bool pid_runs(const char *path, long *pid)
{
	FILE *f = fopen(path, "r");
	bool runs;

	if (!f)
		return false;
	runs = fscanf(f, "%ld", pid) == 1 && *pid > 0 && *pid != getpid() && (kill((pid_t)*pid, 0) == 0 || errno == EPERM);
	fclose(f);
	return runs;
}

bool pidfile_write(const char *path, struct err *err)
{
	long pid;
	FILE *f;

	if (!path[0])
		return true;
	if (pid_runs(path, &pid))
		return err_set(err, NULL, "pidfile %s: process %ld is running", path, pid);
	f = fopen(path, "w");
	if (!f || fprintf(f, "%ld\n", (long)getpid()) < 0 || fclose(f) != 0)
		return err_set(err, NULL, "pidfile %s: %s", path, strerror(errno));
	pidfile_path = mem_str(path);
	return true;
}

void pidfile_remove(void)
{
	if (pidfile_path)
		unlink(pidfile_path);
	mem_free(pidfile_path);
	pidfile_path = NULL;
}

void daemon_raise_files(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) != 0)
		return;
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
	getrlimit(RLIMIT_NOFILE, &l);
	log_log("kernel file descriptor limit: %llu (hard: %llu)", (unsigned long long)l.rlim_cur, (unsigned long long)l.rlim_max);
}
