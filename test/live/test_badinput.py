"""What strangers and careless operators send: a clear error or a close, and the next one is served."""

import os
import random
import struct

import pytest

from rig import raw
from rig.limits import rounds, until
from rig.pooler import stand_in
from rig.raw import Q, Raw

pytestmark = pytest.mark.usefixtures("clean")

STARTUP = raw.startup_packet({"user": "app", "database": "app", "application_name": "x"})
SCRAM_FIRST = raw.p(raw.text("SCRAM-SHA-256") + struct.pack("!I", 26) + b"n,,n=,r=abcdefghijklmnopqr")

# Pre-login messages, with what has to be said before them.
PRE_LOGIN = {
	"startup": ([], STARTUP),
	"ssl request": ([], raw.SSL_REQUEST),
	"gssenc request": ([], raw.GSSENC_REQUEST),
	"cancel": ([], raw.cancel_packet(b"12345678")),
	"password": ([STARTUP], raw.p(raw.text("wrong"))),
	"sasl first": ([STARTUP], SCRAM_FIRST),
	"sasl final": ([STARTUP, SCRAM_FIRST], raw.p(b"c=biws,r=abcdefghijklmnopqr,p=" + b"A" * 44)),
}


def way_of(what):
	return "plain" if what == "password" else "scram-sha-256"


@pytest.fixture
def hostile(pg, pooler):
	def make(what="sasl first", **settings):
		weir = pooler(settings={"auth_type": way_of(what), "client_login_timeout": 20,
		                        "max_client_conn": 1000, "tcp_defer_accept": 0, **settings})
		weir.raw().query("select 1")
		return weir
	return make


def send_quietly(client, data):
	try:
		client.send(data)
	except OSError:
		pass  # closed already: that is an answer


def up_to(weir, before):
	client = weir.open()
	for part in before:
		client.send(part)
		if part is STARTUP or part is SCRAM_FIRST:
			assert client.read_message()[0] == "R"
	return client


def is_served(weir):
	return weir.raw().value("select 1") == "1"


@pytest.mark.parametrize("what", PRE_LOGIN)
def test_a_message_cut_at_each_offset_harms_nobody(hostile, what):
	weir = hostile(what)
	fds = weir.fd_count()
	before, data = PRE_LOGIN[what]
	for cut in range(len(data)):
		client = up_to(weir, before)
		client.send(data[:cut])
		client.close() if cut % 2 else client.reset()
	assert is_served(weir)
	until("all are gone", lambda: weir.fd_count() <= fds + 1)


@pytest.mark.parametrize("what", PRE_LOGIN)
def test_a_message_with_each_byte_spoilt_harms_nobody(hostile, what):
	weir = hostile(what)
	before, data = PRE_LOGIN[what]
	for at in range(len(data)):
		for value in (0x00, 0xff, data[at] ^ 0x80):
			client = up_to(weir, before)
			send_quietly(client, data[:at] + bytes([value]) + data[at + 1:])
			client.close()
	assert is_served(weir)


LENGTHS = [0, 1, 3, 4, 5, 7, 8, 9, 65536, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_startup_packet_with_a_false_length_is_closed(hostile, length):
	weir = hostile()
	before = weir.rss_kib()
	client = weir.open()
	client.send(struct.pack("!I", length) + STARTUP[4:] + b"\0" * 64)
	if not (stand_in() and 8 < length < 0x7fffffff):
		assert client.read_eof().endswith("EOF")
	assert is_served(weir)
	assert weir.rss_kib() - before < 1024


@pytest.mark.parametrize("length", LENGTHS)
def test_a_sasl_message_with_a_false_length_is_closed(hostile, length):
	weir = hostile("sasl first")
	before = weir.rss_kib()
	client = up_to(weir, [STARTUP])
	send_quietly(client, b"p" + struct.pack("!I", length) + b"SCRAM-SHA-256\0" + b"\xff\xff\xff\xf0" + b"n" * 64)
	client.half_close()
	assert client.read_eof().endswith("EOF")
	assert is_served(weir)
	assert weir.rss_kib() - before < 1024


BAD_STARTUPS = {
	"no user": raw.startup_packet({"database": "app"}),
	"an empty user": raw.startup_packet({"user": "", "database": "app"}),
	"no final zero": struct.pack("!II", 8 + 9, raw.PROTOCOL_3_0) + b"user\0app\0",
	"a key without a value": struct.pack("!II", 8 + 10, raw.PROTOCOL_3_0) + b"user\0app\0x",
	"bytes behind the end": struct.pack("!II", 8 + 14, raw.PROTOCOL_3_0) + b"user\0app\0\0\1\2\3\4",
	"an empty packet": struct.pack("!II", 9, raw.PROTOCOL_3_0) + b"\0",
	"version 0": raw.startup_packet({"user": "app"}, version=0),
	"version 4": raw.startup_packet({"user": "app"}, version=4 << 16),
	"an unknown request code": struct.pack("!II", 8, 80877999),
	"a very long user": raw.startup_packet({"user": "u" * 5000, "database": "app"}),
	"a very long database": raw.startup_packet({"user": "app", "database": "d" * 5000}),
	"a quote in the user": raw.startup_packet({"user": "a'b\"c\\", "database": "app"}),
	"control letters": raw.startup_packet({"user": "a\n\x1b[31m\r", "database": "app"}),
	"20,000 bytes": raw.startup_packet({"user": "app", "x": "y" * 20000}),
}


@pytest.mark.parametrize("what", BAD_STARTUPS)
def test_a_bad_startup_packet_is_refused(hostile, what):
	weir = hostile("password")
	client = weir.open()
	client.send(BAD_STARTUPS[what])
	if what in ("no final zero", "a key without a value"):
		client.half_close()
	letter = client.read(1)
	if letter == "R":
		# An unknown user is asked for a password like a known one.
		send_quietly(client, raw.p(raw.text("wrong")))
		letter = client.read(1)
	assert letter == "EOF" or letter.startswith("E("), letter
	assert client.read_eof().endswith("EOF")
	assert is_served(weir)


def test_control_letters_of_a_peer_do_not_break_log_lines(hostile):
	weir = hostile("password")
	client = weir.open()
	client.send(raw.startup_packet({"user": "evil\n2030-01-01 00:00:00.000 UTC [1] LOG forged",
	                                "database": "app"}))
	client.read(1)
	client.close()
	assert is_served(weir)
	if not stand_in():
		assert not any(line.startswith("2030-01-01") for line in weir.log().splitlines())


def test_many_startup_parameters_are_taken_or_refused(hostile):
	weir = hostile("password", ignore_startup_parameters="x")
	client = weir.open()
	body = struct.pack("!I", raw.PROTOCOL_3_0) + b"user\0app\0database\0app\0" + b"x\0\0" * 2500 + b"\0"
	client.send(struct.pack("!I", len(body) + 4) + body)
	assert client.read(1) in ("R", "EOF") or client.errors
	assert is_served(weir)


SASL = {
	"an unknown mechanism": raw.text("SCRAM-SHA-1") + struct.pack("!I", 4) + b"n,,n",
	"no mechanism": b"\0" + struct.pack("!I", 4) + b"n,,n",
	"no end of the name": b"SCRAM-SHA-256",
	"a length past the end": raw.text("SCRAM-SHA-256") + struct.pack("!I", 1000) + b"n,,n=,r=abc",
	"a negative length": raw.text("SCRAM-SHA-256") + struct.pack("!i", -1),
	"an empty first": raw.text("SCRAM-SHA-256") + struct.pack("!I", 0),
	"channel binding claimed": raw.text("SCRAM-SHA-256") + struct.pack("!I", 14) + b"p=x,,n=,r=abcd",
	"an authzid": raw.text("SCRAM-SHA-256") + struct.pack("!I", 16) + b"n,a=x,n=,r=abcde",
	"no nonce": raw.text("SCRAM-SHA-256") + struct.pack("!I", 5) + b"n,,n=",
	"a mandatory extension": raw.text("SCRAM-SHA-256") + struct.pack("!I", 16) + b"n,,m=x,n=,r=abcd",
	"a zero inside": raw.text("SCRAM-SHA-256") + struct.pack("!I", 12) + b"n,,n=,r=a\0bc",
	"a huge nonce": raw.text("SCRAM-SHA-256") + struct.pack("!I", 60008) + b"n,,n=,r=" + b"n" * 60000,
}


@pytest.mark.pgweir("1.18 waits for more, or dies (CVE-2026-6664)")
@pytest.mark.parametrize("what", SASL)
def test_a_bad_sasl_first_message_is_refused(hostile, what):
	weir = hostile()
	client = up_to(weir, [STARTUP])
	client.send(raw.p(SASL[what]))
	letter = client.read(1)
	if letter == "R":
		client.send(raw.p(b"c=biws,r=x,p=AAAA"))
		letter = client.read(1)
	assert letter == "EOF" or letter.startswith("E("), letter
	assert is_served(weir)


FINALS = [b"", b"c=biws", b"c=biws,r=", b"c=!!!!,r=abc,p=AAAA", b"c=biws,r=abc,p=", b"c=biws,r=abc,p=====",
          b"p=AAAA", b"c=biws,r=" + b"x" * 60000 + b",p=AAAA", b"\0" * 100, b"c=biws,r=abc,p=" + b"A" * 60000]


@pytest.mark.parametrize("place", range(len(FINALS)))
def test_a_bad_sasl_final_message_is_refused(hostile, place):
	weir = hostile()
	client = up_to(weir, [STARTUP, SCRAM_FIRST])
	client.send(raw.p(FINALS[place]))
	letter = client.read(1)
	assert letter == "EOF" or letter.startswith("E("), letter
	assert is_served(weir)


@pytest.mark.pgweir("1.18 waits for more")
def test_a_query_before_the_login_is_refused(hostile):
	weir = hostile()
	for early in (Q("select 1"), raw.X, raw.S, raw.p(b""), b"\0" * 5):
		client = up_to(weir, [STARTUP])
		send_quietly(client, early)
		letter = client.read(1)
		assert letter == "EOF" or letter.startswith("E("), letter
	assert is_served(weir)


def test_random_bytes_harm_nobody_and_hold_no_memory(hostile):
	weir = hostile()
	seed = random.randrange(1 << 30)
	print("seed", seed)
	dice = random.Random(seed)
	fds = weir.fd_count()
	before = weir.rss_kib()
	for _ in range(rounds(300)):
		client = weir.open()
		junk = dice.randbytes(dice.choice([1, 4, 8, 9, 40, 300, 5000]))
		if dice.random() < 0.5:
			junk = struct.pack("!II", len(junk) + 8, raw.PROTOCOL_3_0) + junk
		send_quietly(client, junk)
		client.close() if dice.random() < 0.5 else client.reset()
	assert is_served(weir)
	until("all are gone", lambda: weir.fd_count() <= fds + 1)
	assert weir.rss_kib() - before < 2048


def test_other_protocols_at_the_door_are_closed(hostile):
	weir = hostile()
	for hello in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
	              b"EHLO x\r\n", b"*1\r\n$4\r\nPING\r\n"):
		client = weir.open()
		send_quietly(client, hello)
		client.half_close()
		assert client.read_eof().endswith("EOF")
	assert is_served(weir)


def test_a_connection_that_sends_nothing_is_closed_without_a_warning(hostile):
	weir = hostile()
	mark = weir.mark()
	for _ in range(20):
		weir.open().close()
	assert is_served(weir)
	if not stand_in():
		assert "WARNING" not in weir.log(mark)


# --- after the login

@pytest.mark.parametrize("length", [0, 1, 3, 0x80000000, 0xffffffff])
@pytest.mark.parametrize("letter", "QPBDECSpdF")
def test_a_message_with_a_false_length_after_login_is_closed(hostile, letter, length):
	weir = hostile()
	client = weir.raw()
	client.send(letter.encode() + struct.pack("!I", length) + b"x" * 16)
	client.half_close()
	assert client.read_eof().endswith("EOF")
	assert is_served(weir)


BAD_MESSAGES = {
	"a query without its zero": raw.message("Q", b"select 1"),
	"an empty Parse": raw.message("P", b""),
	"a Parse with too many types": raw.message("P", b"\0select 1\0\xff\xff"),
	"a Bind with too many values": raw.message("B", b"\0\0\0\0\xff\xff"),
	"a Bind with a length past its end": raw.message("B", b"\0\0\0\0\0\1\x7f\xff\xff\xff\0\0"),
	"a Describe of nothing": raw.message("D", b"X\0"),
	"a Close of nothing": raw.message("C", b"X\0"),
	"an Execute without its limit": raw.message("E", b"\0"),
	"a name without its end": raw.message("D", b"S" + b"n" * 50),
	"a very long name": raw.P("n" * 20000, "select 1") + raw.S,
}


@pytest.mark.parametrize("what", BAD_MESSAGES)
def test_a_malformed_message_after_login_is_an_error(hostile, what):
	weir = hostile()
	client = weir.raw()
	send_quietly(client, BAD_MESSAGES[what] + raw.S)
	letters = client.read(2)
	assert letters.startswith("E(") or letters.startswith("EOF") or what == "a very long name", letters
	client.close()
	assert is_served(weir)


def test_garbage_on_the_console_is_an_error_and_the_console_goes_on(hostile):
	weir = hostile()
	client = weir.console()
	seed = random.randrange(1 << 30)
	print("seed", seed)
	dice = random.Random(seed)
	words = ["SHOW", "POOLS", "PAUSE", "RESUME", "SET", "=", "'", '"', ";", "--", "/*", "*/", "\\", "%s%n",
	         "RECONNECT", "x" * 80, "'; drop", "1", "app", "nosuch", "\t", "\x01", "ü"]
	for _ in range(rounds(300)):
		text = " ".join(dice.choice(words) for _ in range(dice.randrange(6)))
		if text.upper().startswith(("PAUSE", "RECONNECT")):
			text = "SHOW " + text
		letters = client.talk(Q(text))
		assert letters.endswith("Z(I)") and letters.count("Z(") == 1, (text, letters)
	client.talk(Q("RESUME"))
	client.query("SHOW VERSION")
	assert is_served(weir)


# --- the configuration

NUMBERS = """default_pool_size min_pool_size reserve_pool_size max_client_conn max_db_connections
max_user_connections listen_port listen_backlog scram_iterations tcp_keepcnt tcp_keepidle tcp_keepintvl
max_packet_size peer_id tcp_user_timeout max_prepared_statements max_db_client_connections
max_user_client_connections sbuf_loopcnt pkt_buf verbose""".split()
SECONDS = """query_timeout query_wait_timeout idle_transaction_timeout client_idle_timeout
client_login_timeout server_idle_timeout server_lifetime server_connect_timeout server_login_retry
server_check_delay reserve_pool_timeout suspend_timeout autodb_idle_timeout dns_max_ttl dns_nxdomain_ttl
stats_period transaction_timeout cancel_wait_timeout query_wait_notify pool_idle_timeout""".split()
FLAGS = """log_connections log_disconnections log_pooler_errors log_stats server_round_robin
server_reset_query_always application_name_add_host so_reuseport syslog tcp_keepalive disable_pqexec
server_fast_close tcp_defer_accept""".split()
CHOICES = ["pool_mode", "auth_type", "client_tls_sslmode", "server_tls_sslmode"]
OTHER = [("unix_socket_mode", "0999"), ("unix_socket_mode", "rwx"), ("listen_port", "65536"),
         ("listen_port", "0"), ("listen_port", "-1"), ("default_pool_size", "99999999999999999999"),
         ("default_pool_size", "-1"), ("query_timeout", "-1"), ("peer_id", "16384"),
         ("client_tls_protocols", "sslv2"), ("syslog_facility", "nowhere"),
         ("org_sources", "tea_leaves"), ("org_pattern", "org=(["), ("org_unknown", "perhaps"),
         ("no_such_setting", "1"), ("workers", "many"), ("max_orgs", "0"), ("query_timeout", "1 fortnight")]
WRONG = [*((name, "abc") for name in NUMBERS), *((name, "abc") for name in SECONDS),
         *((name, "12x") for name in NUMBERS[:3]), *((name, "maybe") for name in FLAGS),
         *((name, "sideways") for name in CHOICES), *OTHER]


@pytest.mark.pgweir("1.18 takes abc for 0")
@pytest.mark.parametrize("name,value", WRONG, ids=lambda x: str(x)[:24])
def test_a_wrong_value_is_an_error_at_start_with_file_and_line(pooler, name, value):
	weir = pooler(start=False, settings={name: value})
	status, said = weir.fails_to_start()
	assert status == 1
	line = 1 + [text.split(" =")[0] for text in weir.config().splitlines()].index(name)
	assert name in said and f"{weir.conf_path}:{line}" in said, said


BROKEN_FILES = {
	"an unknown section": "[pgweir]\n[nonsense]\na = 1\n",
	"a setting before any section": "listen_port = 1\n",
	"a section without its bracket": "[pgweir\nlisten_port = 1\n",
	"an entry with an unknown key": "[pgweir]\n[databases]\napp = hostess=x\n",
	"an entry with an open quote": "[pgweir]\n[databases]\napp = password='x\n",
	"an entry with a wrong port": "[pgweir]\n[databases]\napp = host=x port=99999\n",
	"an entry of a reserved name": "[pgweir]\n[databases]\npgbouncer = host=x\n",
	"a user with an unknown key": "[pgweir]\n[users]\nu = poolsize=1\n",
	"an org with an unknown key": "[pgweir]\n[orgs]\na = pools=1\n",
	"an org with an illegal id": "[pgweir]\n[orgs]\na/b = pool_size=1\n",
	"an org with a wrong number": "[pgweir]\n[orgs]\na = pool_size=lots\n",
	"a missing include": "[pgweir]\n%include /nonexistent/file.ini\n",
}


@pytest.mark.pgweir("1.18 lets some of this pass")
@pytest.mark.parametrize("what", BROKEN_FILES)
def test_a_broken_file_is_an_error_at_start_with_file_and_line(pooler, what):
	weir = pooler(start=False)
	weir.config = lambda: BROKEN_FILES[what]
	status, said = weir.fails_to_start()
	assert status == 1
	line = BROKEN_FILES[what].count("\n")
	lines = [line - 1, line] if what == "a section without its bracket" else \
		[line - 1, line] if what == "an unknown section" else [line]
	assert any(f"{weir.conf_path}:{n}" in said for n in lines), said


def test_a_file_of_random_bytes_does_not_start_anything(pooler):
	weir = pooler(start=False)
	weir.config = lambda: "[pgweir]\nx" + "".join(chr(33 + b % 90) for b in os.urandom(5000))
	status, _ = weir.fails_to_start()
	assert status == 1


def test_a_missing_file_is_status_1(pooler):
	weir = pooler(start=False)
	weir.conf_path += ".not-there"
	weir.write = lambda: None
	status, said = weir.fails_to_start()
	assert status == 1 and ("No such file" in said or stand_in())


def test_a_broken_userlist_does_not_let_anyone_in(pg, pooler):
	weir = pooler(settings={"auth_type": "plain"},
	              userlist='"app" "app-secret-1"\n"admin" "admin-secret-a"\n"half\nnonsense\n"x" "y\n')
	with Raw(weir.address) as client:
		client.startup(user="half", database="app")
		letter = client.read(1)
		if letter == "R":
			client.send(raw.p(raw.text("nonsense")))
			letter = client.read(1)
		assert letter.startswith("E(") or letter == "EOF"
