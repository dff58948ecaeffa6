/* Socket addresses. A Unix socket's name and port are those of libpq: <dir>/.s.PGSQL.<port>, and a directory that begins
 * with @ lies in the abstract namespace (unix(7)), where the length counts and no NUL ends the name. */
#include "net/addr.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

#define UNIX_NAME "/.s.PGSQL."

/* "%eth0" or "%2" behind a link-local address, RFC 4007 section 11. */
static bool scope_read(const char *text, uint32_t *scope)
{
	int64_t number;

	*scope = if_nametoindex(text);
	if (*scope)
		return true;
	if (!num_i64(text, &number) || number < 1 || number > UINT32_MAX)
		return false;
	*scope = (uint32_t)number;
	return true;
}

static bool in6_read(struct sockaddr_in6 *in6, const char *ip)
{
	char bare[INET6_ADDRSTRLEN];
	size_t len = strcspn(ip, "%");

	if (len >= sizeof(bare))
		return false;
	memcpy(bare, ip, len);
	bare[len] = '\0';
	if (inet_pton(AF_INET6, bare, &in6->sin6_addr) != 1)
		return false;
	return ip[len] == '\0' || scope_read(ip + len + 1, &in6->sin6_scope_id);
}

bool addr_from_ip(struct addr *a, const char *ip, int port)
{
	*a = (struct addr){0};
	if (port < 0 || port > UINT16_MAX)
		return false;
	if (inet_pton(AF_INET, ip, &a->in4.sin_addr) == 1) {
		a->in4.sin_family = AF_INET;
		a->in4.sin_port = htons((uint16_t)port);
		a->len = sizeof(a->in4);
		return true;
	}
	if (in6_read(&a->in6, ip)) {
		a->in6.sin6_family = AF_INET6;
		a->in6.sin6_port = htons((uint16_t)port);
		a->len = sizeof(a->in6);
		return true;
	}
	return false;
}

bool addr_from_unix(struct addr *a, const char *dir, int port)
{
	int n;

	*a = (struct addr){0};
	a->un.sun_family = AF_UNIX;
	n = snprintf(a->un.sun_path, sizeof(a->un.sun_path), "%s" UNIX_NAME "%d", dir, port);
	if (!*dir || n < 0 || (size_t)n >= sizeof(a->un.sun_path))
		return false;
	a->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n);
	if (*dir == '@')
		a->un.sun_path[0] = '\0';
	else
		a->len++; /* the NUL */
	return true;
}

bool addr_is_unix(const struct addr *a)
{
	return a->sa.sa_family == AF_UNIX;
}

/* The name may be missing (a client's end) or not be one of ours. */
static int unix_port(const struct addr *a)
{
	size_t start = offsetof(struct sockaddr_un, sun_path);
	char name[sizeof(a->un.sun_path) + 1] = "";
	const char *dot;
	int64_t port;

	if (a->len <= start)
		return 0;
	memcpy(name, a->un.sun_path, a->len - start);
	if (!*name)
		*name = '@';
	dot = strrchr(name, '.');
	return dot && num_i64(dot + 1, &port) && port >= 0 && port <= UINT16_MAX ? (int)port : 0;
}

int addr_port(const struct addr *a)
{
	switch (a->sa.sa_family) {
	case AF_INET:
		return ntohs(a->in4.sin_port);
	case AF_INET6:
		return ntohs(a->in6.sin6_port);
	case AF_UNIX:
		return unix_port(a);
	}
	return 0;
}

void addr_print_host(const struct addr *a, char out[ADDR_TEXT])
{
	size_t len;

	switch (a->sa.sa_family) {
	case AF_INET:
		inet_ntop(AF_INET, &a->in4.sin_addr, out, ADDR_TEXT);
		return;
	case AF_INET6:
		inet_ntop(AF_INET6, &a->in6.sin6_addr, out, ADDR_TEXT);
		len = strlen(out);
		if (a->in6.sin6_scope_id)
			snprintf(out + len, ADDR_TEXT - len, "%%%u", a->in6.sin6_scope_id);
		return;
	case AF_UNIX:
		snprintf(out, ADDR_TEXT, "unix");
		return;
	}
	snprintf(out, ADDR_TEXT, "?");
}

void addr_print(const struct addr *a, char out[ADDR_TEXT])
{
	char host[ADDR_TEXT];

	addr_print_host(a, host);
	snprintf(out, ADDR_TEXT, a->sa.sa_family == AF_INET6 ? "[%.*s]:%d" : "%.*s:%d", ADDR_TEXT - 16, host, addr_port(a));
}

bool addr_of_peer(struct addr *a, int fd)
{
	*a = (struct addr){.len = sizeof(a->un)};
	return getpeername(fd, &a->sa, &a->len) == 0;
}

bool addr_of_self(struct addr *a, int fd)
{
	*a = (struct addr){.len = sizeof(a->un)};
	return getsockname(fd, &a->sa, &a->len) == 0;
}

bool addr_unix_peer(int fd, int *pid, unsigned *uid)
{
	struct sockaddr_storage self = {0};
	struct ucred peer;
	socklen_t len = sizeof(self);

	/* A TCP socket answers too, with pid 0 and uid -1. */
	if (getsockname(fd, (struct sockaddr *)&self, &len) != 0 || self.ss_family != AF_UNIX)
		return false;
	len = sizeof(peer);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
		return false;
	*pid = peer.pid;
	*uid = peer.uid;
	return true;
}
