/* See main/sockets.h. */
#include "main/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "main/notify.h"
#include "net/addr.h"

static struct listen_options options_of(const struct settings *set)
{
	return (struct listen_options){
		.backlog = set->listen_backlog,
		.defer_accept = set->tcp_defer_accept,
		.unix_mode = (unsigned)set->unix_socket_mode,
		.unix_group = set->unix_socket_group[0] ? set->unix_socket_group : NULL,
	};
}

static bool listen_on(const struct addr *a, const struct settings *set, int n, struct err *err)
{
	struct listen_options o = options_of(set);
	char text[ADDR_TEXT];

	for (int i = 0; i < n; i++) {
		o.alone = i == 0 && !set->so_reuseport;
		int fd = listen_bind(a, &o, err);
		if (fd < 0)
			return false;
		worker_listen(workers[i], fd);
	}
	addr_print(a, text);
	log_log("listening on %s", text);
	return true;
}

static void with_port(struct addr *a, int port)
{
	if (a->sa.sa_family == AF_INET6)
		a->in6.sin6_port = htons((uint16_t)port);
	else
		a->in4.sin_port = htons((uint16_t)port);
}

/* A name may stand for several addresses; at start it is looked up in the calling thread. */
static bool listen_on_name(const char *name, const struct settings *set, struct err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found, *at;
	bool ok = true;
	int failed = getaddrinfo(name, NULL, &hints, &found);

	if (failed)
		return err_set(err, NULL, "listen_addr: %s: %s", name, gai_strerror(failed));
	for (at = found; at && ok; at = at->ai_next) {
		struct addr a = {.len = at->ai_addrlen};
		memcpy(&a.sa, at->ai_addr, at->ai_addrlen);
		with_port(&a, set->listen_port);
		ok = listen_on(&a, set, n_workers, err);
	}
	freeaddrinfo(found);
	return ok;
}

static bool listen_on_all(const struct settings *set, struct err *err)
{
	struct addr a;
	struct err no_v6;
	bool v4 = addr_from_ip(&a, "0.0.0.0", set->listen_port) && listen_on(&a, set, n_workers, err);

	if (!v4)
		return false;
	if (addr_from_ip(&a, "::", set->listen_port) && !listen_on(&a, set, n_workers, &no_v6))
		log_warning("not listening on IPv6: %s", no_v6.text);
	return true;
}

static bool listen_tcp(const struct settings *set, struct err *err)
{
	char *list = mem_str(set->listen_addr), *rest = list, *name;
	bool ok = true;

	while (ok && (name = strsep(&rest, ","))) {
		name += strspn(name, " \t");
		name[strcspn(name, " \t")] = 0;
		if (name[0])
			ok = strcmp(name, "*") == 0 ? listen_on_all(set, err) : listen_on_name(name, set, err);
	}
	mem_free(list);
	return ok;
}

static bool listen_unix(const struct settings *set, struct err *err)
{
	struct addr a;

	if (!set->unix_socket_dir[0])
		return true;
	if (!addr_from_unix(&a, set->unix_socket_dir, set->listen_port))
		return err_set(err, NULL, "unix_socket_dir is too long: %s", set->unix_socket_dir);
	return listen_on(&a, set, 1, err);
}

bool sockets_listen(const struct conf *conf, struct err *err)
{
	const struct settings *set = &conf->set;
	int fds[NOTIFY_FDS_MOST];
	int n = notify_sockets(fds);

	if (n) {
		log_log("listening on %d socket(s) that systemd handed over", n);
		if (set->listen_addr[0])
			log_warning("listen_addr and unix_socket_dir are not used: systemd hands over the sockets");
		for (int i = 0; i < n; i++)
			worker_listen(workers[i % n_workers], fds[i]);
		return true;
	}
	if (!listen_tcp(set, err) || !listen_unix(set, err))
		return false;
	if (!set->listen_addr[0] && !set->unix_socket_dir[0])
		return err_set(err, NULL, "nowhere to listen: listen_addr and unix_socket_dir are both empty");
	return true;
}
