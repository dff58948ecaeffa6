/* Connecting over loopback and Unix sockets. Names are answered by a stand-in for getaddrinfo. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after what it needs */
#include <cmocka.h>

#include "base/log.h"
#include "loop/loop_priv.h"
#include "net/dial.h"
#include "net/resolve_priv.h"

#define PORT 15620

static struct loop *loop;
static char dir[] = "/tmp/test_dial.XXXXXX";

/* "three.test" is 127.0.0.1, 127.0.0.2 and 127.0.0.3. */
static int stand_in(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
	struct addrinfo numeric = {.ai_socktype = hints->ai_socktype, .ai_flags = AI_NUMERICHOST};
	char ip[] = "127.0.0.1";

	if (strcmp(host, "three.test") != 0)
		return EAI_NONAME;
	for (; ip[8] <= '3'; ip[8]++, found = &(*found)->ai_next)
		if (getaddrinfo(ip, service, &numeric, found) != 0)
			return EAI_FAIL;
	return 0;
}

/* ---- one who dials ---- */

struct caller {
	struct dial *dial;
	int n_told;
	int fd;
	char answered[ADDR_TEXT];
	struct err err;
};

static void told(void *owner, int fd, const struct addr *addr, const struct err *err)
{
	struct caller *c = owner;

	c->n_told++;
	c->fd = fd;
	c->err = *err;
	assert_true((fd >= 0) == (addr != NULL));
	if (addr)
		addr_print(addr, c->answered);
	dial_stop(&c->dial); /* allowed, and nothing is left to stop */
}

static void dial_from(struct caller *c, const char *host, unsigned turn)
{
	struct dial_target t = {.host = host, .port = PORT};

	*c = (struct caller){.fd = -1};
	c->dial = dial_start(loop, &t, turn, told, c);
	assert_int_equal(c->n_told, 0);
}

static void turn_until_told(struct caller *c)
{
	while (!c->n_told)
		loop_turn(loop, list_empty(&loop->laters) ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
	assert_null(c->dial);
}

static int listen_on(const struct addr *a, int backlog)
{
	int fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	assert_int_equal(bind(fd, &a->sa, a->len), 0);
	assert_int_equal(listen(fd, backlog), 0);
	return fd;
}

static int listen_on_ip(const char *ip)
{
	struct addr a;

	assert_true(addr_from_ip(&a, ip, PORT));
	return listen_on(&a, 10);
}

static bool has_ipv6(void)
{
	struct addr a;
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	bool has;

	assert_true(addr_from_ip(&a, "::1", 0));
	has = fd >= 0 && bind(fd, &a.sa, a.len) == 0;
	close(fd);
	return has;
}

static void a_connected_socket_is_ready_for_use(void **state)
{
	int l = listen_on_ip("127.0.0.1"), value = 0;
	socklen_t len = sizeof(value);
	struct caller c;

	(void)state;
	dial_from(&c, "127.0.0.1", 0);
	turn_until_told(&c);
	assert_true(c.fd >= 0);
	assert_string_equal(c.answered, "127.0.0.1:15620");
	assert_string_equal(c.err.text, "");
	assert_true(fcntl(c.fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(c.fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(getsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &value, &len), 0);
	assert_int_equal(value, 1);
	assert_int_equal(write(c.fd, "x", 1), 1);
	close(c.fd);
	close(l);
}

static void ipv6_is_dialled_too(void **state)
{
	struct caller c;
	int l;

	(void)state;
	if (!has_ipv6())
		skip();
	l = listen_on_ip("::1");
	dial_from(&c, "::1", 0);
	turn_until_told(&c);
	assert_string_equal(c.answered, "[::1]:15620");
	close(c.fd);
	close(l);
}

static void nobody_there_is_told_with_its_reason(void **state)
{
	struct caller c;

	(void)state;
	dial_from(&c, "127.0.0.1", 0);
	turn_until_told(&c);
	assert_int_equal(c.fd, -1);
	assert_string_equal(c.err.text, "connect failed: Connection refused");
	assert_string_equal(c.err.sqlstate, "08006");
}

static void a_name_that_is_not_found_is_told(void **state)
{
	struct caller c;

	(void)state;
	dial_from(&c, "none.test", 0);
	turn_until_told(&c);
	assert_int_equal(c.fd, -1);
	assert_string_equal(c.err.text, "server DNS lookup failed");
}

static void turns_go_round_the_addresses(void **state)
{
	static const struct { unsigned turn; const char *answered; } rows[] = {
		{0, "127.0.0.1:15620"}, {1, "127.0.0.2:15620"}, {2, "127.0.0.3:15620"}, {3, "127.0.0.1:15620"},
		{UINT32_MAX, "127.0.0.1:15620"}, /* 2^32 - 1 is a multiple of 3 */
	};
	int l[3] = {listen_on_ip("127.0.0.1"), listen_on_ip("127.0.0.2"), listen_on_ip("127.0.0.3")};
	struct caller c;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		dial_from(&c, "three.test", rows[i].turn);
		turn_until_told(&c);
		assert_string_equal(c.answered, rows[i].answered);
		close(c.fd);
	}
	for (int i = 0; i < 3; i++)
		close(l[i]);
}

static void an_address_that_is_down_is_passed_over(void **state)
{
	int l = listen_on_ip("127.0.0.2");
	struct caller c;

	(void)state;
	for (unsigned turn = 0; turn < 3; turn++) {
		dial_from(&c, "three.test", turn);
		turn_until_told(&c);
		assert_string_equal(c.answered, "127.0.0.2:15620");
		close(c.fd);
	}
	close(l);
	dial_from(&c, "three.test", UINT32_MAX - 1);
	turn_until_told(&c);
	assert_string_equal(c.err.text, "connect failed: Connection refused");
}

static void unix_sockets_are_dialled_by_folder_or_abstract_name(void **state)
{
	static const char *const hosts[] = {dir, "@test_dial"};
	struct caller c;
	struct addr a;

	(void)state;
	for (int i = 0; i < 2; i++) {
		int l;

		assert_true(addr_from_unix(&a, hosts[i], PORT));
		l = listen_on(&a, 10);
		dial_from(&c, hosts[i], 0);
		turn_until_told(&c);
		assert_true(c.fd >= 0);
		assert_string_equal(c.answered, "unix:15620");
		close(c.fd);
		close(l);
		unlink(a.un.sun_path);
	}
	dial_from(&c, dir, 0);
	turn_until_told(&c);
	assert_string_equal(c.err.text, "connect failed: No such file or directory");
}

static void a_unix_socket_with_a_full_backlog_is_a_failure(void **state)
{
	struct caller one, two;
	struct addr a;
	int l;

	(void)state;
	assert_true(addr_from_unix(&a, "@test_dial", PORT));
	l = listen_on(&a, 0);
	dial_from(&one, "@test_dial", 0);
	turn_until_told(&one);
	assert_true(one.fd >= 0);
	dial_from(&two, "@test_dial", 0);
	turn_until_told(&two);
	assert_string_equal(two.err.text, "connect failed: Resource temporarily unavailable");
	close(one.fd);
	close(l);
}

static void a_unix_path_that_is_too_long_is_told(void **state)
{
	char host[200];
	struct caller c;

	(void)state;
	memset(host, 'x', sizeof(host));
	host[0] = '/';
	host[199] = '\0';
	dial_from(&c, host, 0);
	turn_until_told(&c);
	assert_string_equal(c.err.text, "connect failed: unix socket path is too long");
}

static void a_stopped_dial_is_never_told_and_keeps_no_socket(void **state)
{
	static const char *const hosts[] = {"127.0.0.1", "three.test", "@test_dial"};
	int l = listen_on_ip("127.0.0.1"), before = dup(0);

	(void)state;
	close(before);
	for (int i = 0; i < 3; i++) {
		for (int turns = 0; turns < 2; turns++) {
			struct caller c;

			dial_from(&c, hosts[i], 0);
			for (int t = 0; t < turns && c.dial; t++)
				loop_turn(loop, EVLOOP_NONBLOCK);
			if (!c.dial) { /* was through already */
				close(c.fd);
				continue;
			}
			dial_stop(&c.dial);
			for (int t = 0; t < 10; t++)
				loop_turn(loop, EVLOOP_NONBLOCK);
			assert_int_equal(c.n_told, 0);
		}
	}
	assert_int_equal(dup(0), before); /* the lowest free number is the same as ever */
	close(before);
	close(l);
}

static int set_up(void **state)
{
	(void)state;
	alarm(60);
	log_open(NULL, false, NULL, NULL);
	resolve_ask = stand_in;
	loop = loop_new("test", 0);
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	resolve_forget();
	loop_free(&loop);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connected_socket_is_ready_for_use),
		cmocka_unit_test(ipv6_is_dialled_too),
		cmocka_unit_test(nobody_there_is_told_with_its_reason),
		cmocka_unit_test(a_name_that_is_not_found_is_told),
		cmocka_unit_test(turns_go_round_the_addresses),
		cmocka_unit_test(an_address_that_is_down_is_passed_over),
		cmocka_unit_test(unix_sockets_are_dialled_by_folder_or_abstract_name),
		cmocka_unit_test(a_unix_socket_with_a_full_backlog_is_a_failure),
		cmocka_unit_test(a_unix_path_that_is_too_long_is_told),
		cmocka_unit_test(a_stopped_dial_is_never_told_and_keeps_no_socket),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
