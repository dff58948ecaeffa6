/* Addresses: texts in and out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
/* after what it needs */
#include <cmocka.h>

#include "net/addr.h"

static void assert_prints(const struct addr *a, const char *want)
{
	char text[ADDR_TEXT];

	addr_print(a, text);
	assert_string_equal(text, want);
}

static void addresses_are_read_and_printed(void **state)
{
	static const struct { const char *ip; int port; const char *printed; } rows[] = {
		{"127.0.0.1", 5432, "127.0.0.1:5432"},
		{"0.0.0.0", 0, "0.0.0.0:0"},
		{"255.255.255.255", 65535, "255.255.255.255:65535"},
		{"::1", 6432, "[::1]:6432"},
		{"::", 1, "[::]:1"},
		{"2001:DB8:0:0::1", 2, "[2001:db8::1]:2"}, /* RFC 5952 */
		{"::ffff:10.0.0.1", 3, "[::ffff:10.0.0.1]:3"},
		{"fe80::1%1", 4, "[fe80::1%1]:4"},
		{"fe80::1%lo", 5, "[fe80::1%1]:5"},
		{"ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255%4294967295", 65535, "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct addr a;

		assert_true(addr_from_ip(&a, rows[i].ip, rows[i].port));
		assert_prints(&a, rows[i].printed);
		assert_int_equal(addr_port(&a), rows[i].port);
		assert_false(addr_is_unix(&a));
	}
}

static void what_is_no_number_is_no_address(void **state)
{
	static const char *const rows[] = {
		"", "localhost", "127.1", "127.0.0.256", "127.0.0.1 ", "[::1]", "::1%", "::1%nosuchdevice", "::1%0", "::1%-1",
		"::1%4294967296", "1:2:3:4:5:6:7:8:9", "0x7f000001", "127.0.0.1%1",
		"00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000::1",
	};
	struct addr a;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (addr_from_ip(&a, rows[i], 1))
			fail_msg("\"%s\" was read", rows[i]);
	assert_false(addr_from_ip(&a, "127.0.0.1", -1));
	assert_false(addr_from_ip(&a, "127.0.0.1", 65536));
}

static void a_unix_socket_is_named_as_libpq_does(void **state)
{
	struct addr a;

	(void)state;
	assert_true(addr_from_unix(&a, "/tmp", 5432));
	assert_true(addr_is_unix(&a));
	assert_string_equal(a.un.sun_path, "/tmp/.s.PGSQL.5432");
	assert_int_equal(addr_port(&a), 5432);
	assert_prints(&a, "unix:5432");
}

static void an_at_sign_means_abstract(void **state)
{
	struct addr a;

	(void)state;
	assert_true(addr_from_unix(&a, "@pool", 6432));
	assert_int_equal(a.len, offsetof(struct sockaddr_un, sun_path) + strlen("@pool/.s.PGSQL.6432"));
	assert_memory_equal(a.un.sun_path, "\0pool/.s.PGSQL.6432", strlen("@pool/.s.PGSQL.6432"));
	assert_int_equal(addr_port(&a), 6432);
	assert_prints(&a, "unix:6432");
}

static void a_unix_path_must_fit(void **state)
{
	char dir[200];
	struct addr a;

	(void)state;
	memset(dir, 'd', sizeof(dir));
	dir[0] = '/';
	dir[107 - strlen("/.s.PGSQL.1")] = '\0';
	assert_true(addr_from_unix(&a, dir, 1)); /* 107 and a NUL: unix(7) */
	assert_false(addr_from_unix(&a, dir, 10));
	assert_false(addr_from_unix(&a, "", 1));
}

static void a_client_end_without_a_name_has_port_0(void **state)
{
	int fds[2], pid;
	unsigned uid;
	struct addr a;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_true(addr_of_peer(&a, fds[0]));
	assert_prints(&a, "unix:0");
	assert_true(addr_of_self(&a, fds[0]));
	assert_true(addr_is_unix(&a));
	assert_true(addr_unix_peer(fds[0], &pid, &uid));
	assert_int_equal(pid, getpid());
	assert_int_equal(uid, getuid());
	close(fds[0]);
	close(fds[1]);
}

static void a_tcp_socket_has_no_unix_peer(void **state)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), pid;
	unsigned uid;
	struct addr a;

	(void)state;
	assert_false(addr_unix_peer(fd, &pid, &uid));
	assert_false(addr_of_peer(&a, fd)); /* not connected */
	assert_true(addr_of_self(&a, fd));
	assert_prints(&a, "0.0.0.0:0");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_read_and_printed),
		cmocka_unit_test(what_is_no_number_is_no_address),
		cmocka_unit_test(a_unix_socket_is_named_as_libpq_does),
		cmocka_unit_test(an_at_sign_means_abstract),
		cmocka_unit_test(a_unix_path_must_fit),
		cmocka_unit_test(a_client_end_without_a_name_has_port_0),
		cmocka_unit_test(a_tcp_socket_has_no_unix_peer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
