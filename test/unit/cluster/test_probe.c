/* A probe, against a server played by the test over a socket pair. Dialling is a stand-in, so that a test decides who answers, and time is
 * moved by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster/probe.h"
#include "loop/loop_priv.h"
#include "net/dial.h"
#include "net/stream.h"
#include "wire/report.h"
#include "wire/writer.h"

static struct scene {
	struct loop *loop;
	struct probe *probe;
	struct secret password;

	dial_done_fn dialled; /* NULL: no dial is under way */
	void *dial_owner;
	int n_dials;
	char host[64];
	int port;

	int peer;             /* the server's end; -1: none */
	uint8_t heard[8192];
	size_t n_heard;

	int n_done;
	struct probe_result result;
} sc;

static usec_t now;

static usec_t clock_of_the_test(void)
{
	return now;
}

static void turn(void)
{
	for (int i = 0; i < 6; i++)
		loop_turn(sc.loop, EVLOOP_NONBLOCK);
}

struct dial *dial_start(struct loop *l, const struct dial_target *t, unsigned turns, dial_done_fn done, void *owner)
{
	(void)turns;
	assert_ptr_equal(l, sc.loop);
	assert_null(sc.dialled);
	sc.dialled = done;
	sc.dial_owner = owner;
	snprintf(sc.host, sizeof(sc.host), "%s", t->host);
	sc.port = t->port;
	sc.n_dials++;
	return (struct dial *)&sc.dialled;
}

void dial_stop(struct dial **d)
{
	if (*d)
		sc.dialled = NULL;
	*d = NULL;
}

/* ---- the played server ---- */

static void connected(void)
{
	struct addr addr;
	dial_done_fn done = sc.dialled;
	int ends[2];

	assert_non_null(done);
	assert_true(addr_from_ip(&addr, "127.0.0.1", 5432));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
	if (sc.peer >= 0)
		close(sc.peer);
	sc.peer = ends[1];
	sc.n_heard = 0;
	sc.dialled = NULL;
	done(sc.dial_owner, ends[0], &addr, NULL);
	turn();
}

static void refused(void)
{
	struct err err;
	dial_done_fn done = sc.dialled;

	err_set(&err, "08006", "connect failed: Connection refused");
	sc.dialled = NULL;
	done(sc.dial_owner, -1, NULL, &err);
	turn();
}

static void say_bytes(const void *p, size_t n)
{
	assert_int_equal(write(sc.peer, p, n), n);
	turn();
}

static void say(struct buf *b)
{
	say_bytes(b->p, b->len);
	buf_free(b);
}

static bool heard(const char *text, size_t len)
{
	ssize_t n;

	while ((n = read(sc.peer, sc.heard + sc.n_heard, sizeof(sc.heard) - sc.n_heard)) > 0)
		sc.n_heard += (size_t)n;
	return memmem(sc.heard, sc.n_heard, text, len) != NULL;
}

#define assert_heard(text) assert_true(heard(text, sizeof(text) - 1))
#define assert_not_heard(text) assert_false(heard(text, sizeof(text) - 1))

static void say_welcome(void)
{
	struct buf b = {0};

	msg_auth(&b, 0, NULL, 0);
	msg_parameter(&b, "server_version", "15.0");
	msg_key(&b, 1, 2);
	msg_ready(&b, 'I');
	say(&b);
}

static void put_row(struct buf *b, const char *const *fields, int n)
{
	size_t begun = msg_begin(b, 'T');

	msg_u16(b, 0); /* nobody looks at it */
	msg_end(b, begun);
	begun = msg_begin(b, 'D');
	msg_u16(b, (uint16_t)n);
	for (int i = 0; i < n; i++) {
		msg_u32(b, fields[i] ? (uint32_t)strlen(fields[i]) : UINT32_MAX);
		if (fields[i])
			msg_bytes(b, fields[i], strlen(fields[i]));
	}
	msg_end(b, begun);
	begun = msg_begin(b, 'C');
	msg_str(b, "SELECT 1");
	msg_end(b, begun);
}

static void say_row(const char *const *fields, int n)
{
	struct buf b = {0};

	put_row(&b, fields, n);
	msg_ready(&b, 'I');
	say(&b);
}

#define SAY_ROW(...) say_row((const char *const[]){__VA_ARGS__}, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static void say_error(const char *severity, const char *sqlstate, const char *text)
{
	struct buf b = {0};

	report_error(&b, severity, sqlstate, "%s", text);
	say(&b);
}

/* ---- the probe ---- */

static void done(void *owner, const struct probe_result *r)
{
	assert_ptr_equal(owner, &sc);
	sc.n_done++;
	sc.result = *r;
	sc.probe = NULL;
}

static void start(enum probe_depth depth)
{
	struct probe_want want = {.host = "db", .port = 5433, .depth = depth, .user = "prober", .dbname = "postgres", .password = &sc.password, .timeout = 2 * USEC_PER_SEC};

	sc.n_done = sc.n_dials = 0;
	sc.probe = probe_start(sc.loop, &want, done, &sc);
	assert_int_equal(sc.n_done, 0);
	assert_int_equal(sc.n_dials, 1);
}

/* ... and it is connected and let in. */
static void begin(enum probe_depth depth)
{
	start(depth);
	connected();
	say_welcome();
}

static void assert_down(const char *why)
{
	assert_int_equal(sc.n_done, 1);
	assert_false(sc.result.seen.up);
	assert_int_equal(sc.result.seen.role, ROLE_UNKNOWN);
	assert_true(sc.result.seen.system_id == 0);
	if (!strstr(sc.result.seen.err.text, why))
		fail_msg("says: %s", sc.result.seen.err.text);
}

static int set_up(void **state)
{
	(void)state;
	sc = (struct scene){.peer = -1};
	now = USEC_PER_SEC;
	sc.loop = loop_new("test", 0);
	sc.loop->clock = clock_of_the_test;
	loop_renew(sc.loop);
	secret_set(&sc.password, "sesame", 6);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	probe_stop(&sc.probe);
	turn();
	assert_null(sc.dialled);
	if (sc.peer >= 0)
		close(sc.peer);
	secret_free(&sc.password);
	stream_buffers_free(sc.loop);
	loop_free(&sc.loop);
	return 0;
}

/* ---- what it finds ---- */

static void a_primary_tells_role_system_timeline_and_position(void **state)
{
	(void)state;
	begin(PROBE_IDENTITY);
	assert_string_equal(sc.host, "db");
	assert_int_equal(sc.port, 5433);
	assert_heard("user\0prober\0database\0postgres\0");
	assert_heard("replication\0database\0");
	assert_heard("pg_is_in_recovery()");
	assert_not_heard("IDENTIFY_SYSTEM");
	SAY_ROW("f", NULL);
	assert_heard("IDENTIFY_SYSTEM");
	SAY_ROW("7291346012345678901", "12", "16/B374D848", "postgres");
	assert_int_equal(sc.n_done, 1);
	assert_true(sc.result.seen.up);
	assert_int_equal(sc.result.seen.role, ROLE_PRIMARY);
	assert_true(sc.result.seen.system_id == 7291346012345678901u);
	assert_int_equal(sc.result.seen.timeline, 12);
	assert_true(sc.result.seen.position == 0x16B374D848u);
	assert_string_equal(sc.result.seen.err.text, "");
	assert_heard("X\0\0\0\4");
}

static void a_system_identifier_uses_all_its_bits(void **state)
{
	(void)state;
	begin(PROBE_IDENTITY);
	SAY_ROW("f", NULL);
	SAY_ROW("18446744073709551615", "4294967295", "FFFFFFFF/FFFFFFFF", NULL);
	assert_true(sc.result.seen.system_id == UINT64_MAX);
	assert_true(sc.result.seen.timeline == UINT32_MAX);
	assert_true(sc.result.seen.position == UINT64_MAX);
}

static void a_replica_s_position_is_what_it_has_replayed(void **state)
{
	(void)state;
	begin(PROBE_IDENTITY);
	SAY_ROW("t", "0/300");
	SAY_ROW("7", "1", "0/500", "postgres");
	assert_int_equal(sc.result.seen.role, ROLE_REPLICA);
	assert_true(sc.result.seen.position == 0x300);
	begin(PROBE_IDENTITY); /* one that has replayed nothing yet */
	SAY_ROW("t", NULL);
	SAY_ROW("7", "1", "0/500", "postgres");
	assert_true(sc.result.seen.position == 0x500);
}

static void without_the_right_to_replicate_it_logs_in_again_and_finds_the_role(void **state)
{
	static const char *const refusals[] = {"42501", "28000", "53300"};

	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		start(PROBE_IDENTITY);
		connected();
		say_error("FATAL", refusals[i], "no walsender for you");
		assert_int_equal(sc.n_done, 0);
		assert_int_equal(sc.n_dials, 2);
		connected();
		assert_heard("user\0prober\0");
		assert_not_heard("replication");
		say_welcome();
		SAY_ROW("f", NULL);
		assert_int_equal(sc.n_done, 1);
		assert_int_equal(sc.result.seen.role, ROLE_PRIMARY);
		assert_true(sc.result.seen.system_id == 0);
		assert_string_equal(sc.result.no_identity.text, "no walsender for you");
	}
}

static void a_second_refusal_is_an_answer_and_not_the_beginning_of_a_third_login(void **state)
{
	(void)state;
	start(PROBE_IDENTITY);
	connected();
	say_error("FATAL", "53300", "no more walsenders");
	connected();
	say_error("FATAL", "53300", "too many clients");
	assert_int_equal(sc.n_done, 1);
	assert_true(sc.result.seen.up);
	assert_int_equal(sc.result.seen.role, ROLE_UNKNOWN);
	assert_string_equal(sc.result.seen.err.text, "too many clients");
}

static void a_server_that_does_not_know_identify_system_tells_its_role(void **state)
{
	(void)state;
	begin(PROBE_IDENTITY);
	SAY_ROW("t", "0/1");
	say_error("ERROR", "42601", "syntax error");
	assert_int_equal(sc.n_done, 1);
	assert_true(sc.result.seen.up);
	assert_int_equal(sc.result.seen.role, ROLE_REPLICA);
	assert_string_equal(sc.result.no_identity.text, "syntax error");
}

static void the_role_alone_takes_one_question(void **state)
{
	(void)state;
	begin(PROBE_ROLE);
	assert_not_heard("replication");
	SAY_ROW("f", NULL);
	assert_int_equal(sc.n_done, 1);
	assert_not_heard("IDENTIFY_SYSTEM");
}

static void the_password_is_sent_when_it_is_asked_for(void **state)
{
	struct buf b = {0};

	(void)state;
	start(PROBE_ROLE);
	connected();
	msg_auth(&b, 3, NULL, 0);
	say(&b);
	assert_heard("p\0\0\0\x0bsesame\0");
	say_welcome();
	SAY_ROW("f", NULL);
	assert_true(sc.result.seen.up);
}

static void a_wrong_password_is_an_answer(void **state)
{
	(void)state;
	start(PROBE_IDENTITY);
	connected();
	say_error("FATAL", "28P01", "password authentication failed");
	assert_int_equal(sc.n_done, 1);
	assert_int_equal(sc.n_dials, 1);
	assert_true(sc.result.seen.up);
	assert_int_equal(sc.result.seen.role, ROLE_UNKNOWN);
}

/* ---- a mere answer ---- */

static void for_an_answer_any_request_for_a_password_will_do(void **state)
{
	struct buf b = {0};

	(void)state;
	start(PROBE_ANSWER);
	connected();
	assert_heard("user\0pgweir\0");
	msg_auth(&b, 10, "SCRAM-SHA-256\0", 15);
	say(&b);
	assert_int_equal(sc.n_done, 1);
	assert_true(sc.result.seen.up);
	assert_not_heard("SCRAM");
}

static void for_an_answer_a_refusal_will_do_but_not_now_will_not(void **state)
{
	(void)state;
	start(PROBE_ANSWER);
	connected();
	say_error("FATAL", "28000", "role \"pgweir\" does not exist");
	assert_true(sc.result.seen.up);
	start(PROBE_ANSWER);
	connected();
	say_error("FATAL", "57P03", "the database system is starting up");
	assert_down("starting up");
}

/* ---- down ---- */

static void a_server_that_cannot_take_anybody_now_is_down(void **state)
{
	static const char *const reasons[] = {"57P01", "57P02", "57P03"};

	(void)state;
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		start(PROBE_IDENTITY);
		connected();
		say_error("FATAL", reasons[i], "not now");
		assert_down("not now");
	}
}

static void one_that_cannot_be_reached_is_down(void **state)
{
	(void)state;
	start(PROBE_IDENTITY);
	refused();
	assert_down("connect failed: Connection refused");
}

static void one_that_hangs_up_is_down_at_whatever_step(void **state)
{
	(void)state;
	for (int step = 0; step < 3; step++) {
		start(PROBE_IDENTITY);
		connected();
		if (step > 0)
			say_welcome();
		if (step > 1)
			SAY_ROW("f", NULL);
		heard("", 0); /* else the kernel makes a reset of it */
		close(sc.peer);
		sc.peer = -1;
		turn();
		assert_down("server closed the connection");
	}
}

static void one_that_is_mute_is_down_when_its_time_is_over_at_whatever_step(void **state)
{
	(void)state;
	for (int step = 0; step < 4; step++) {
		start(PROBE_IDENTITY);
		if (step > 0)
			connected();
		if (step > 1)
			say_welcome();
		if (step > 2)
			SAY_ROW("f", NULL);
		now += 2 * USEC_PER_SEC - 1;
		turn();
		assert_int_equal(sc.n_done, 0);
		now += 5000;
		turn();
		assert_down("no answer in probe_timeout");
	}
}

static void a_second_login_has_no_more_time_than_was_left(void **state)
{
	(void)state;
	start(PROBE_IDENTITY);
	connected();
	now += USEC_PER_SEC;
	turn();
	say_error("FATAL", "42501", "no");
	now += USEC_PER_SEC + 5000;
	turn();
	assert_down("no answer in probe_timeout");
}

static void a_probe_that_is_stopped_tells_nothing(void **state)
{
	(void)state;
	for (int step = 0; step < 3; step++) {
		start(PROBE_IDENTITY);
		if (step > 0)
			connected();
		if (step > 1)
			say_welcome();
		probe_stop(&sc.probe);
		assert_null(sc.probe);
		now += 10 * USEC_PER_SEC;
		turn();
		assert_int_equal(sc.n_done, 0);
	}
}

/* ---- nonsense ---- */

static void bytes_in_small_pieces_make_the_same_answer(void **state)
{
	struct buf b = {0};

	(void)state;
	start(PROBE_IDENTITY);
	connected();
	msg_auth(&b, 0, NULL, 0);
	msg_ready(&b, 'I');
	put_row(&b, (const char *const[]){"f", NULL}, 2);
	msg_ready(&b, 'I');
	put_row(&b, (const char *const[]){"7", "3", "0/9", NULL}, 4);
	msg_ready(&b, 'I');
	for (size_t i = 0; i < b.len && !sc.n_done; i++)
		say_bytes(b.p + i, 1);
	buf_free(&b);
	assert_int_equal(sc.n_done, 1);
	assert_int_equal(sc.result.seen.timeline, 3);
}

static void what_is_no_message_is_down(void **state)
{
	static const struct {
		const char *text;
		size_t len;
	} nonsense[] = {
		{"R\0\0\0\3", 5}, {"R\377\377\377\377", 5}, {"R\0\0\0\4", 5}, {"R\0\1\0\1", 5}, {"E\0\0\0\4", 5}, {"Z\0\0\0\5I", 6},
		{"D\0\0\0\6\0\0", 7}, {"\0\0\0\0\0", 5}, {"HTTP/1.1 400", 12}, {"K\0\0\0\x0c\0\0\0\0\0\0\0\0", 13},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		start(PROBE_IDENTITY);
		connected();
		say_bytes(nonsense[i].text, nonsense[i].len);
		assert_int_equal(sc.n_done, 1);
		assert_int_equal(sc.result.seen.role, ROLE_UNKNOWN);
		if (sc.result.seen.up) /* a request to prove itself that cannot be answered */
			assert_true(nonsense[i].text[0] == 'R');
	}
}

static void a_row_that_is_none_is_down(void **state)
{
	(void)state;
	begin(PROBE_IDENTITY);
	SAY_ROW("f");
	assert_down("broken DataRow");
	begin(PROBE_IDENTITY);
	SAY_ROW("x", NULL);
	assert_down("broken DataRow");
	begin(PROBE_IDENTITY);
	SAY_ROW("f", NULL, NULL);
	assert_down("broken DataRow");
	begin(PROBE_IDENTITY);
	say_bytes("Z\0\0\0\5I", 6);
	assert_down("broken answer to a probe");
	const char *const broken[][4] = {
		{"", "1", "0/1", NULL}, {"0", "1", "0/1", NULL}, {"-7", "1", "0/1", NULL}, {"99999999999999999999", "1", "0/1", NULL}, {"7", "0", "0/1", NULL},
		{"7", "4294967296", "0/1", NULL}, {"7", "1", "", NULL}, {"7", "1", "1", NULL}, {"7", "1", "0/1x", NULL}, {"7", "1", "123456789/123456789", NULL},
		{NULL, NULL, NULL, NULL},
	};
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		begin(PROBE_IDENTITY);
		SAY_ROW("f", NULL);
		say_row(broken[i], 4);
		assert_down("broken DataRow");
	}
}

static void a_field_that_says_it_is_longer_than_its_row_is_down(void **state)
{
	(void)state;
	begin(PROBE_IDENTITY);
	say_bytes("D\0\0\0\x0f\0\2\0\0\0\1f\x7f\xff\xff\xff", 16);
	assert_down("broken DataRow");
}

static void two_rows_are_one_too_many(void **state)
{
	struct buf b = {0};

	(void)state;
	begin(PROBE_IDENTITY);
	put_row(&b, (const char *const[]){"f", NULL}, 2);
	put_row(&b, (const char *const[]){"t", NULL}, 2);
	say(&b);
	assert_down("broken DataRow");
}

static void one_that_talks_without_end_is_down(void **state)
{
	struct buf b = {0};

	(void)state;
	start(PROBE_IDENTITY);
	connected();
	report_notice(&b, "la la la la la la la la la la la la la la la la la la la la la la la la la la la la la la la");
	for (int i = 0; i < 100000 && !sc.n_done; i++)
		if (write(sc.peer, b.p, b.len) < 0 || i % 100 == 0)
			turn();
	buf_free(&b);
	assert_down("bad message length");
}

#define test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(a_primary_tells_role_system_timeline_and_position),
		test(a_system_identifier_uses_all_its_bits),
		test(a_replica_s_position_is_what_it_has_replayed),
		test(without_the_right_to_replicate_it_logs_in_again_and_finds_the_role),
		test(a_second_refusal_is_an_answer_and_not_the_beginning_of_a_third_login),
		test(a_server_that_does_not_know_identify_system_tells_its_role),
		test(the_role_alone_takes_one_question),
		test(the_password_is_sent_when_it_is_asked_for),
		test(a_wrong_password_is_an_answer),
		test(for_an_answer_any_request_for_a_password_will_do),
		test(for_an_answer_a_refusal_will_do_but_not_now_will_not),
		test(a_server_that_cannot_take_anybody_now_is_down),
		test(one_that_cannot_be_reached_is_down),
		test(one_that_hangs_up_is_down_at_whatever_step),
		test(one_that_is_mute_is_down_when_its_time_is_over_at_whatever_step),
		test(a_second_login_has_no_more_time_than_was_left),
		test(a_probe_that_is_stopped_tells_nothing),
		test(bytes_in_small_pieces_make_the_same_answer),
		test(what_is_no_message_is_down),
		test(a_row_that_is_none_is_down),
		test(a_field_that_says_it_is_longer_than_its_row_is_down),
		test(two_rows_are_one_too_many),
		test(one_that_talks_without_end_is_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
