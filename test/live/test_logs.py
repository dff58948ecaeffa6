"""The log: its form, and what must never be in it."""

import re

import pytest

from rig import raw
from rig.pooler import stand_in
from rig.raw import B, E, P, Q, S, ServerError

pytestmark = pytest.mark.usefixtures("clean")

# time [pid] LEVEL prefix message, as PgBouncer writes it.
LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [A-Z0-9+:-]+ \[(\d+)\] "
                  r"(FATAL|ERROR|WARNING|LOG|DEBUG|NOISE) \S")
CLIENT = re.compile(r" C-[0-9a-fx]+: ([^/ ]+)/([^@ ]+)@(127\.0\.0\.1:\d+|unix\(\d+\):\d+) ")
SERVER = re.compile(r" S-[0-9a-fx]+: ([^/ ]+)/([^@ ]+)@127\.0\.0\.1:\d+ ")

SECRET_SQL = "4111-1111-1111-1111"


def busy(weir):
	"""A bit of all that is logged."""
	client = weir.raw()
	client.query(f"select '{SECRET_SQL}'")
	client.talk(P("", f"select $1::text || '{SECRET_SQL}'"), B("", "", SECRET_SQL), E(), S)
	client.talk(Q(f"select nonsense('{SECRET_SQL}')"))
	weir.raw(unix=True).query("select 1")
	for refused in ({"password": "wrong-" + SECRET_SQL}, {"user": "nobody_here"}):
		with pytest.raises(ServerError):
			weir.raw(**refused)
	with pytest.raises(ServerError):
		weir.raw("no_such_entry")
	weir.admin("SHOW POOLS")
	weir.admin("RELOAD")


@pytest.fixture(params=[0, 2], ids=["plain", "verbose"])
def busy_pooler(pg, pooler, request):
	def make(**settings):
		weir = pooler(settings={"auth_type": "scram-sha-256", "verbose": request.param, **settings})
		busy(weir)
		return weir
	return make


def test_every_line_has_pgbouncers_form(busy_pooler):
	weir = busy_pooler()
	lines = weir.log().splitlines()
	assert len(lines) > 10
	bad = [line for line in lines if not LINE.match(line)]
	assert bad == []
	assert {LINE.match(line)[1] for line in lines} == {str(weir.pid)}


def test_lines_of_connections_say_whose_they_are(busy_pooler):
	log = busy_pooler().log()
	assert CLIENT.search(log)
	assert SERVER.search(log)
	assert re.search(r" C-\S+ app/app@127\.0\.0\.1:\d+ login attempt: db=app user=app tls=no", log)
	assert re.search(r" C-\S+ app/app@unix\(\d+\):\d+ login attempt", log)
	assert re.search(r" S-\S+ app/app@127\.0\.0\.1:\d+ new connection to server \(from 127\.0\.0\.1:\d+\)", log)


@pytest.mark.pgweir("1.18 logs passwords with -v")
@pytest.mark.parametrize("way", ["plain", "md5", "scram-sha-256"])
def test_no_secret_is_ever_logged(pg, pooler, way):
	weir = pooler(settings={"auth_type": way, "verbose": 2},
	              databases={"app": {}, "forced": {"dbname": "app", "user": "plain_u",
	                                               "password": "plain-secret-6"}})
	busy(weir)
	weir.raw("forced").query("select 1")
	weir.raw(user="md5_u").query("select 1")
	weir.raw(user="scram_u").query("select 1")
	said = weir.log() + weir.stderr()
	words = [*weir.userlist.values(), "wrong-" + SECRET_SQL,
	         *(raw.md5_secret(user, word)[3:] for user, word in weir.userlist.items())]
	assert [word for word in words if word in said] == []
	assert "SCRAM-SHA-256$" not in said


def test_no_literal_of_a_query_is_ever_logged(busy_pooler):
	weir = busy_pooler()
	assert SECRET_SQL not in weir.log() + weir.stderr()


def test_a_disconnect_is_one_line_with_its_reason_and_age(pg, pooler):
	weir = pooler()
	mark = weir.mark()
	weir.raw().terminate()
	weir.wait_log(r"closing because: client close request \(age=\d+s\)", mark)
	mark = weir.mark()
	weir.raw().reset()
	weir.wait_log(r"closing because: .* \(age=\d+s\)", mark)
	lines = [line for line in weir.log(mark).splitlines() if "closing because" in line and " C-" in line]
	assert len(lines) == 1
	assert "client disconnected with query in progress" not in weir.log()


def test_connections_are_not_logged_where_the_operator_says_so(pg, pooler):
	weir = pooler(settings={"log_connections": 0, "log_disconnections": 0, "log_pooler_errors": 0})
	weir.raw().terminate()
	weir.refusal("no_such_entry")
	said = weir.log()
	assert "login attempt" not in said and "closing because" not in said


def test_the_line_of_totals_has_pgbouncers_form(pg, pooler):
	weir = pooler(settings={"stats_period": 1})
	weir.raw().query("select 1")
	pattern = (r"LOG stats: \d+ xacts/s, \d+ queries/s, in \d+ B/s, out \d+ B/s, xact \d+ us, "
	           r"query \d+ us, wait \d+ us") if stand_in() else (
		r"LOG stats: \d+ xacts/s, \d+ queries/s, \d+ client parses/s, \d+ server parses/s, \d+ binds/s, "
		r"\d+ client logins/s, in \d+ B/s, out \d+ B/s, xact \d+ us, query \d+ us, wait \d+ us")
	weir.wait_log(pattern, seconds=4)


@pytest.mark.pgweir("1.18 has no limit of rate")
def test_lines_that_a_peer_causes_at_will_are_limited_and_counted(pg, pooler):
	weir = pooler(settings={"tcp_defer_accept": 0})
	mark = weir.mark()
	for _ in range(500):
		with raw.Raw(weir.address) as client:
			client.send(b"\0\0\0\0junk")
			client.read(1)
	weir.raw().query("select 1")
	lines = [line for line in weir.log(mark).splitlines() if "WARNING" in line]
	assert len(lines) < 400


def test_a_log_that_cannot_be_written_does_not_stop_the_pooler(pg, pooler):
	weir = pooler(settings={"logfile": "/dev/full"})
	assert weir.raw().value("select 1") == "1"
