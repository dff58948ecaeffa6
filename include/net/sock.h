/* The three socket calls of the data path, made directly: libc's are cancellation points, which in a process with threads costs a
 * quarter of all the instructions that a stream needs for a query. No thread of ours is ever cancelled. As recv, send and sendmsg. */
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

ssize_t sock_recv(int fd, void *p, size_t room, int flags);
ssize_t sock_send(int fd, const void *p, size_t len, int flags);
ssize_t sock_sendmsg(int fd, const struct msghdr *msg, int flags);
