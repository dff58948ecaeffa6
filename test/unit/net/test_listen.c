/* Listening on loopback and in a folder of the test's own. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
/* after what it needs */
#include <cmocka.h>

#include "base/log.h"
#include "loop/loop_priv.h"
#include "net/listen.h"

#define PORT 15610
#define PORT_TEXT "15610"

static struct loop *loop;
static char dir[] = "/tmp/test_listen.XXXXXX";
static char path[64];
static const struct listen_options plain = {.backlog = 128, .unix_mode = 0777};

static struct {
	int n;
	int fd;
	int stop; /* listener_stop at this many */
} taken;

static void accepted(struct listener *l, int fd)
{
	if (taken.n++)
		close(taken.fd);
	taken.fd = fd;
	if (taken.n == taken.stop)
		listener_stop(l);
}

static struct addr tcp(const char *ip)
{
	struct addr a;

	assert_true(addr_from_ip(&a, ip, PORT));
	return a;
}

static struct addr un(void)
{
	struct addr a;

	assert_true(addr_from_unix(&a, dir, PORT));
	return a;
}

static int bind_or_fail(const struct addr *a, const struct listen_options *o)
{
	struct err err = {0};
	int fd = listen_bind(a, o, &err);

	if (fd < 0)
		fail_msg("%s", err.text);
	return fd;
}

static void start(struct listener *l, const struct addr *a, const struct listen_options *o)
{
	memset(&taken, 0, sizeof(taken));
	listener_start(l, loop, bind_or_fail(a, o), accepted, NULL);
}

static void stop(struct listener *l)
{
	listener_stop(l);
	if (taken.n)
		close(taken.fd);
}

static int dial_blocking(const struct addr *a)
{
	int fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, &a->sa, a->len) == 0)
		return fd;
	close(fd);
	return -1;
}

static void turn_until_taken(int n)
{
	while (taken.n < n)
		loop_turn(loop, EVLOOP_ONCE);
}

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
	return value;
}

static void an_accepted_connection_is_ready_for_use(void **state)
{
	struct addr a = tcp("127.0.0.1");
	struct listener l;
	int fd;

	(void)state;
	start(&l, &a, &plain);
	assert_int_equal(addr_port(&l.addr), PORT);
	fd = dial_blocking(&a);
	turn_until_taken(1);
	assert_true(fcntl(taken.fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(taken.fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(option(taken.fd, IPPROTO_TCP, TCP_NODELAY), 1);
	close(fd);
	stop(&l);
}

static void with_defer_accept_a_client_is_accepted_when_it_speaks(void **state)
{
	struct listen_options o = {.backlog = 128, .defer_accept = true};
	struct addr a = tcp("127.0.0.1");
	struct listener l;
	int fd;

	(void)state;
	start(&l, &a, &o);
	fd = dial_blocking(&a);
	for (int i = 0; i < 20; i++)
		loop_turn(loop, EVLOOP_NONBLOCK);
	assert_int_equal(taken.n, 0);
	assert_int_equal(write(fd, "x", 1), 1);
	turn_until_taken(1);
	close(fd);
	stop(&l);
}

static void two_workers_share_an_address(void **state)
{
	struct addr a = tcp("127.0.0.1");
	int one = bind_or_fail(&a, &plain), two = bind_or_fail(&a, &plain);

	(void)state;
	close(one);
	close(two);
}

static void the_first_of_an_address_is_alone_and_then_shares(void **state)
{
	struct listen_options alone = {.backlog = 128, .alone = true};
	struct addr a = tcp("127.0.0.1");
	struct err err = {0};
	int one = bind_or_fail(&a, &alone), two;

	(void)state;
	assert_int_equal(listen_bind(&a, &alone, &err), -1);
	assert_string_equal(err.text, "bind: Address already in use");
	two = bind_or_fail(&a, &plain);
	close(one);
	assert_int_equal(listen_bind(&a, &alone, &err), -1);
	close(two);
	close(bind_or_fail(&a, &alone));
}

static void an_address_taken_by_another_server_is_refused(void **state)
{
	struct addr a = tcp("127.0.0.1");
	int other = socket(AF_INET, SOCK_STREAM, 0);
	struct err err = {0};

	(void)state;
	assert_int_equal(bind(other, &a.sa, a.len), 0);
	assert_int_equal(listen(other, 1), 0);
	assert_int_equal(listen_bind(&a, &plain, &err), -1);
	assert_string_equal(err.text, "bind: Address already in use");
	close(other);
}

static void both_any_addresses_can_be_bound(void **state)
{
	struct addr four = tcp("0.0.0.0"), six = tcp("::");
	int one = bind_or_fail(&four, &plain), two = socket(AF_INET6, SOCK_STREAM, 0);

	(void)state;
	close(two);
	if (two < 0) { /* a system without IPv6 */
		close(one);
		skip();
	}
	two = bind_or_fail(&six, &plain); /* would clash without IPV6_V6ONLY */
	assert_int_equal(option(two, IPPROTO_IPV6, IPV6_V6ONLY), 1);
	close(one);
	close(two);
}

static void a_unix_socket_has_the_mode_that_was_asked_for(void **state)
{
	struct listen_options o = {.backlog = 1, .unix_mode = 0620};
	struct addr a = un();
	struct stat st;
	mode_t mask = umask(0077);
	int fd = bind_or_fail(&a, &o);

	(void)state;
	umask(mask);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0620);
	close(fd);
	unlink(path);
}

static void a_unix_socket_has_the_group_that_was_asked_for(void **state)
{
	char group[32];
	struct listen_options o = {.backlog = 1, .unix_mode = 0777, .unix_group = group};
	struct addr a = un();
	struct stat st;
	gid_t gid = geteuid() == 0 ? 12345 : getegid();
	int fd;

	(void)state;
	snprintf(group, sizeof(group), "%u", (unsigned)gid);
	fd = bind_or_fail(&a, &o);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_gid, gid);
	close(fd);
	unlink(path);
}

static void an_unknown_group_leaves_nothing_behind(void **state)
{
	struct listen_options o = {.backlog = 1, .unix_mode = 0777, .unix_group = "no-such-group"};
	struct addr a = un();
	struct err err = {0};

	(void)state;
	assert_int_equal(listen_bind(&a, &o, &err), -1);
	assert_string_equal(err.text, "group \"no-such-group\" not found");
	assert_int_equal(access(path, F_OK), -1);
}

static void a_stale_unix_socket_is_replaced(void **state)
{
	struct addr a = un();
	int fd;

	(void)state;
	close(bind_or_fail(&a, &plain));
	assert_int_equal(access(path, F_OK), 0);
	fd = bind_or_fail(&a, &plain);
	close(dial_blocking(&a));
	close(fd);
	unlink(path);
}

static void a_live_unix_socket_is_left_alone(void **state)
{
	struct addr a = un();
	struct err err = {0};
	int fd = bind_or_fail(&a, &plain), client;

	(void)state;
	assert_int_equal(listen_bind(&a, &plain, &err), -1);
	assert_string_equal(err.text, "unix socket is in use");
	client = dial_blocking(&a);
	assert_true(client >= 0);
	close(client);
	close(fd);
	unlink(path);
}

static void a_live_unix_socket_with_a_full_backlog_is_left_alone(void **state)
{
	struct listen_options small = {.backlog = 0, .unix_mode = 0777};
	struct addr a = un();
	struct err err = {0};
	int fd = bind_or_fail(&a, &small), client = dial_blocking(&a);

	(void)state;
	assert_int_equal(listen_bind(&a, &plain, &err), -1);
	assert_string_equal(err.text, "unix socket is in use");
	assert_int_equal(access(path, F_OK), 0);
	close(client);
	close(fd);
	unlink(path);
}

static void a_file_that_is_no_socket_is_not_removed(void **state)
{
	struct addr a = un();
	struct err err = {0};
	int file = open(path, O_CREAT | O_WRONLY, 0600);

	(void)state;
	close(file);
	assert_int_equal(listen_bind(&a, &plain, &err), -1);
	assert_string_equal(err.text, "unix socket is in use");
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
}

static void an_abstract_socket_leaves_no_file(void **state)
{
	struct addr a;
	struct listener l;
	int fd;

	(void)state;
	assert_true(addr_from_unix(&a, "@test_listen", PORT));
	start(&l, &a, &plain);
	fd = dial_blocking(&a);
	turn_until_taken(1);
	assert_int_equal(addr_port(&l.addr), PORT);
	close(fd);
	stop(&l);
}

static usec_t test_now;

static usec_t test_clock(void)
{
	return test_now;
}

static void accepting_rests_while_there_are_no_descriptors(void **state)
{
	struct addr a = tcp("127.0.0.1");
	struct rlimit before, none;
	usec_t (*clock_before)(void) = loop->clock;
	struct listener l;
	int fd;

	(void)state;
	test_now = loop->now;
	loop->clock = test_clock;
	start(&l, &a, &plain);
	fd = dial_blocking(&a);
	getrlimit(RLIMIT_NOFILE, &before);
	none = (struct rlimit){3, before.rlim_max}; /* no new one below 3 */
	setrlimit(RLIMIT_NOFILE, &none);
	while (!timer_is_set(&l.retry))
		loop_turn(loop, EVLOOP_ONCE);
	setrlimit(RLIMIT_NOFILE, &before);
	for (int i = 0; i < 20; i++)
		loop_turn(loop, EVLOOP_NONBLOCK);
	assert_int_equal(taken.n, 0); /* resting, though it could */
	test_now += USEC_PER_SEC;
	while (!taken.n)
		loop_turn(loop, EVLOOP_NONBLOCK);
	loop->clock = clock_before;
	close(fd);
	stop(&l);
}

static void a_listener_may_be_stopped_by_what_it_accepts(void **state)
{
	struct addr a = un();
	struct listener l;
	int one, two;

	(void)state;
	start(&l, &a, &plain);
	taken.stop = 1;
	one = dial_blocking(&a);
	two = dial_blocking(&a);
	turn_until_taken(1);
	assert_int_equal(taken.n, 1);
	assert_int_equal(l.fd, -1);
	close(one);
	close(two);
	stop(&l);
	unlink(path);
}

static void a_connection_is_tuned(void **state)
{
	struct sock_options o = {.keepalive = true, .keepcnt = 3, .keepidle = 40, .keepintvl = 5, .user_timeout_ms = 7000, .buffer = 30000};
	int fd = socket(AF_INET, SOCK_STREAM, 0), idle;

	(void)state;
	idle = option(fd, IPPROTO_TCP, TCP_KEEPIDLE);
	sock_tune(fd, &(struct sock_options){.keepalive = true});
	assert_int_equal(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
	assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), idle);
	sock_tune(fd, &o);
	assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPCNT), 3);
	assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 40);
	assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 5);
	assert_int_equal(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 7000);
	assert_int_equal(option(fd, SOL_SOCKET, SO_SNDBUF), 60000); /* the kernel doubles it, socket(7) */
	close(fd);
}

static int set_up(void **state)
{
	(void)state;
	alarm(60);
	log_open(NULL, false, NULL, NULL);
	loop = loop_new("test", 0);
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/.s.PGSQL." PORT_TEXT, dir);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	loop_free(&loop);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_accepted_connection_is_ready_for_use),
		cmocka_unit_test(with_defer_accept_a_client_is_accepted_when_it_speaks),
		cmocka_unit_test(two_workers_share_an_address),
		cmocka_unit_test(the_first_of_an_address_is_alone_and_then_shares),
		cmocka_unit_test(an_address_taken_by_another_server_is_refused),
		cmocka_unit_test(both_any_addresses_can_be_bound),
		cmocka_unit_test(a_unix_socket_has_the_mode_that_was_asked_for),
		cmocka_unit_test(a_unix_socket_has_the_group_that_was_asked_for),
		cmocka_unit_test(an_unknown_group_leaves_nothing_behind),
		cmocka_unit_test(a_stale_unix_socket_is_replaced),
		cmocka_unit_test(a_live_unix_socket_is_left_alone),
		cmocka_unit_test(a_live_unix_socket_with_a_full_backlog_is_left_alone),
		cmocka_unit_test(a_file_that_is_no_socket_is_not_removed),
		cmocka_unit_test(an_abstract_socket_leaves_no_file),
		cmocka_unit_test(accepting_rests_while_there_are_no_descriptors),
		cmocka_unit_test(a_listener_may_be_stopped_by_what_it_accepts),
		cmocka_unit_test(a_connection_is_tuned),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
