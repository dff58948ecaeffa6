/* See net/sock.h. */
#include "net/sock.h"

#include <sys/syscall.h>
#include <unistd.h>

ssize_t sock_recv(int fd, void *p, size_t room, int flags)
{
	return syscall(SYS_recvfrom, fd, p, room, flags, NULL, NULL);
}

ssize_t sock_send(int fd, const void *p, size_t len, int flags)
{
	return syscall(SYS_sendto, fd, p, len, flags, NULL, 0);
}

ssize_t sock_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return syscall(SYS_sendmsg, fd, msg, flags);
}
