/* Socket addresses: parsing, printing, comparing. Pure. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

struct addr {
	socklen_t len;
	union {
		struct sockaddr sa;
		struct sockaddr_in in4;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	};
};

#define ADDR_TEXT 128 /* room for any printed address */

bool addr_from_ip(struct addr *a, const char *ip, int port);       /* numeric only */
bool addr_from_unix(struct addr *a, const char *dir, int port);    /* dir/.s.PGSQL.port; a leading @ is abstract */
bool addr_is_unix(const struct addr *a);
void addr_print(const struct addr *a, char out[ADDR_TEXT]);        /* "127.0.0.1:5432", "[::1]:5432", "unix:5432" */
void addr_print_host(const struct addr *a, char out[ADDR_TEXT]);   /* without the port; "unix" */
int addr_port(const struct addr *a);
bool addr_of_peer(struct addr *a, int fd);
bool addr_of_self(struct addr *a, int fd);
/* For a Unix socket: pid and uid of the other end; false on TCP. */
bool addr_unix_peer(int fd, int *pid, unsigned *uid);
