/* See base/atomic_file.h. Two processes that write the same file both do so under names of their own. */
#include "base/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

struct atomic_file {
	char *folder, *name; /* owns */
	char *beside;        /* owns: what it is called until it is whole */
	int dir, fd;         /* owns */
	int failed;          /* errno of the first failure; 0: none */
};

static void file_free(struct atomic_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	if (f->dir >= 0)
		close(f->dir);
	mem_free(f->folder);
	mem_free(f->name);
	mem_free(f->beside);
	mem_free(f);
}

static char *name_beside(const char *name)
{
	struct buf b = {0};

	buf_add_fmt(&b, ".%s.%ld", name, (long)getpid());
	buf_add_u8(&b, 0);
	return (char *)b.p;
}

struct atomic_file *atomic_file_begin(const char *folder, const char *name, struct err *err)
{
	struct atomic_file *f = mem_make(struct atomic_file);

	f->folder = mem_str(folder);
	f->name = mem_str(name);
	f->beside = name_beside(name);
	f->fd = -1;
	f->dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->dir >= 0)
		f->fd = openat(f->dir, f->beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (f->fd >= 0)
		return f;
	err_set(err, NULL, "cannot write %s/%s: %m", folder, name);
	file_free(f);
	return NULL;
}

void atomic_file_add(struct atomic_file *f, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len && !f->failed) {
		ssize_t n = write(f->fd, at, len);
		if (n < 0) {
			f->failed = errno == EINTR ? 0 : errno;
			continue;
		}
		at += n;
		len -= (size_t)n;
	}
}

static bool sync_if(enum atomic_how how, int fd)
{
	return how != ATOMIC_SYNCED || fsync(fd) == 0;
}

bool atomic_file_end(struct atomic_file **at, enum atomic_how how, struct err *err)
{
	struct atomic_file *f = *at;

	if (!f->failed && !(sync_if(how, f->fd) && renameat(f->dir, f->beside, f->dir, f->name) == 0 && sync_if(how, f->dir)))
		f->failed = errno;
	if (f->failed) {
		errno = f->failed;
		err_set(err, NULL, "cannot write %s/%s: %m", f->folder, f->name);
		atomic_file_abandon(at);
		return false;
	}
	*at = NULL;
	file_free(f);
	return true;
}

void atomic_file_abandon(struct atomic_file **at)
{
	struct atomic_file *f = *at;

	*at = NULL;
	if (!f)
		return;
	unlinkat(f->dir, f->beside, 0);
	file_free(f);
}

static bool read_all(int fd, size_t most, struct buf *out)
{
	for (;;) {
		buf_need(out, 65536);
		ssize_t n = read(fd, out->p + out->len, 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		out->len += (size_t)n;
		if (out->len > most) {
			errno = EFBIG;
			return false;
		}
	}
}

bool atomic_file_read(const char *folder, const char *name, size_t most, struct buf *out, bool *missing, struct err *err)
{
	int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	bool ok = fd >= 0 && read_all(fd, most, out);

	*missing = dir >= 0 && fd < 0 && errno == ENOENT;
	if (!ok) {
		err_set(err, NULL, "cannot read %s/%s: %m", folder, name);
		buf_free(out);
	}
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
	return ok;
}
