/* Files of the configuration: read whole, then taken line by line. */
#include "conf/file_priv.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static bool read_all(int fd, struct buf *out)
{
	ssize_t n;

	do {
		if (out->len > FILE_MOST) {
			errno = EFBIG;
			return false;
		}
		buf_need(out, 16384);
		n = read(fd, out->p + out->len, 16384);
		if (n > 0)
			out->len += (size_t)n;
	} while (n > 0 || (n < 0 && errno == EINTR));
	return n == 0;
}

bool file_read(const char *path, struct buf *out, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return err_set(err, "58030", "cannot open %s: %m", path);
	if (!read_all(fd, out)) {
		err_set(err, "58030", "cannot read %s: %m", path);
		buf_wipe(out); /* it may hold passwords */
		close(fd);
		return false;
	}
	close(fd);
	return true;
}

static struct span trim(struct span s)
{
	while (s.len && isspace(s.p[0])) {
		s.p++;
		s.len--;
	}
	while (s.len && isspace(s.p[s.len - 1]))
		s.len--;
	return s;
}

bool line_next(struct span *rest, struct span *line)
{
	const uint8_t *end;

	if (rest->len == 0)
		return false;
	end = memchr(rest->p, '\n', rest->len);
	line->p = rest->p;
	line->len = end ? (size_t)(end - rest->p) : rest->len;
	rest->p += line->len;
	rest->len -= line->len;
	if (end) {
		rest->p++;
		rest->len--;
	}
	*line = trim(*line);
	return true;
}
