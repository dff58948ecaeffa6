"""How a client gets in, and how it is kept out."""

import pytest

from rig import raw
from rig.pooler import stand_in
from rig.postgres import PASSWORDS
from rig.raw import Raw, ServerError

pytestmark = pytest.mark.usefixtures("clean")

LOGIN_WAYS = ["trust", "plain", "md5", "scram-sha-256"]


def secret_for(way, user, password):
	"""The strongest secret in auth_file that this method can check."""
	if way == "md5":
		return raw.md5_secret(user, password)
	if way == "scram-sha-256":
		return raw.scram_secret(password)
	return password


def with_secret(way):
	from rig.pooler import CONSOLE_PASSWORDS
	return {user: secret_for(way, user, word)
	        for user, word in {**PASSWORDS, **CONSOLE_PASSWORDS}.items()}


@pytest.mark.parametrize("way", LOGIN_WAYS)
def test_a_client_logs_in_over_tcp_and_queries(pg, pooler, way):
	weir = pooler(settings={"auth_type": way})
	assert weir.raw().value("select current_user") == "app"
	assert weir.connect().execute("select current_database()").fetchone() == ("app",)


@pytest.mark.parametrize("way", LOGIN_WAYS)
def test_a_client_logs_in_over_a_unix_socket(pg, pooler, way):
	weir = pooler(settings={"auth_type": way})
	assert weir.raw(unix=True).value("select 1") == "1"
	with weir.connect(host=weir.folder) as client:
		assert client.execute("select 2").fetchone() == (2,)


@pytest.mark.parametrize("way", ["md5", "scram-sha-256"])
def test_a_hashed_secret_in_auth_file_is_enough(pg, pooler, way):
	weir = pooler(settings={"auth_type": way}, userlist=with_secret(way))
	assert weir.raw().value("select 1") == "1"


def test_auth_type_md5_asks_for_scram_where_the_secret_is_scram(pg, pooler):
	weir = pooler(settings={"auth_type": "md5"}, userlist=with_secret("scram-sha-256"))
	client = weir.raw()
	assert client.mechanisms == ["SCRAM-SHA-256"]
	assert client.value("select 1") == "1"


@pytest.mark.parametrize("way", ["plain", "md5", "scram-sha-256"])
def test_a_wrong_password_is_28P01_and_fatal(pg, pooler, way):
	weir = pooler(settings={"auth_type": way})
	refused = weir.refusal(password="not-the-password")
	assert refused.sqlstate in weir.code("28P01")
	assert refused.severity == "FATAL"
	assert "authentication failed" in refused.message


@pytest.mark.parametrize("way", ["plain", "md5", "scram-sha-256"])
def test_an_unknown_user_is_refused_like_a_wrong_password(pg, pooler, way):
	"""Same dialogue, same code, same words but for the name: nothing tells who exists."""
	weir = pooler(settings={"auth_type": way})

	def dialogue(user):
		client = weir.open()
		client.startup(user=user, database="app")
		kinds = []
		try:
			while True:
				letter, body = client.read_message()
				kinds.append((letter, body[:4] if letter == "R" else b""))
				if letter == "E":
					report = raw.report(body)
					return kinds, report["C"], report["M"].replace(user, "<user>")
				if body[:4] == b"\0\0\0\x03":
					client.send(raw.p(raw.text("wrong")))
				elif body[:4] == b"\0\0\0\x05":
					client.send(raw.p(raw.text(raw.md5_answer(user, "wrong", body[4:8]))))
				elif body[:4] == b"\0\0\0\x0a":
					scram = raw.Scram("wrong")
					client.send(raw.p(raw.text("SCRAM-SHA-256")
					            + len(scram.first).to_bytes(4, "big") + scram.first))
				elif body[:4] == b"\0\0\0\x0b":
					client.send(raw.p(scram.final(body[4:])))
		finally:
			client.close()

	known, unknown = dialogue("app"), dialogue("nobody_here")
	assert known == unknown


@pytest.mark.pgweir("the mock exchange of 1.18 has a new salt each time")
def test_the_mock_salt_of_an_unknown_user_does_not_change(pg, pooler):
	"""A salt that differs between two tries would tell that the user does not exist."""
	weir = pooler(settings={"auth_type": "scram-sha-256"}, userlist=with_secret("scram-sha-256"))

	def salt(user):
		client = weir.open()
		client.startup(user=user, database="app")
		client.read_message()
		scram = raw.Scram("wrong")
		client.send(raw.p(raw.text("SCRAM-SHA-256") + len(scram.first).to_bytes(4, "big")
		            + scram.first))
		first = client.read_message()[1][4:].decode()
		return first.split(",s=")[1]

	assert salt("nobody_here") == salt("nobody_here")
	assert salt("nobody_here") != salt("somebody_else")
	assert salt("app") == salt("app")


def test_an_empty_password_is_refused(pg, pooler):
	weir = pooler(settings={"auth_type": "plain"}, userlist={**with_secret("plain"), "empty": ""})
	assert weir.refusal(user="empty", password="").sqlstate in weir.code("28P01")


def test_trust_still_wants_a_user_that_exists(pg, pooler):
	weir = pooler()
	assert weir.refusal(user="nobody_here").sqlstate in weir.code("28P01") + weir.code("28000")


def test_auth_type_any_lets_all_in_as_the_forced_user(pg, pooler):
	weir = pooler(settings={"auth_type": "any"}, databases={"app": {"user": "app"}})
	assert weir.raw(user="whoever").value("select current_user") == "app"


def test_an_unknown_database_is_3D000_after_the_login(pg, pooler):
	weir = pooler(settings={"auth_type": "scram-sha-256"})
	refused = weir.refusal("no_such_entry")
	assert refused.sqlstate in weir.code("3D000")
	assert refused.severity == "FATAL"
	assert "no_such_entry" in refused.message


def test_a_wrong_password_tells_nothing_about_the_database(pg, pooler):
	weir = pooler(settings={"auth_type": "scram-sha-256"})
	good = weir.refusal("app", password="wrong")
	bad = weir.refusal("no_such_entry", password="wrong")
	assert (good.sqlstate, good.message) == (bad.sqlstate, bad.message)


def test_a_database_that_the_server_lacks_gets_the_server_s_own_error(pg, pooler):
	weir = pooler(databases={"app": {}, "ghost": {"dbname": "no_such_db"}})
	with pytest.raises(ServerError) as refused:
		weir.raw("ghost").query("select 1")
	assert refused.value.sqlstate in weir.code("3D000")
	assert 'database "no_such_db" does not exist' in refused.value.message


def test_the_star_entry_serves_any_name(pg, pooler):
	weir = pooler(databases={"*": {}})
	assert weir.raw("app2").value("select current_database()") == "app2"
	assert weir.raw("app").value("select current_database()") == "app"


def test_the_database_name_defaults_to_the_user(pg, pooler):
	weir = pooler()
	client = Raw.login(weir.address, user="app", database=None, password=weir.password("app"))
	assert weir.keep(client).value("select current_database()") == "app"


AUTH_QUERY = "select usename, passwd from public.lookup($1)"


def looked_up(way, **entry):
	return {
		"settings": {"auth_type": way, "auth_user": "lookup", "auth_query": AUTH_QUERY},
		"databases": {"app": entry, "app2": {}},
		"userlist": {"lookup": PASSWORDS["lookup"], "admin": "admin-secret-a"},
	}


def test_auth_query_finds_scram_users(pg, pooler):
	weir = pooler(**looked_up("scram-sha-256"))
	assert weir.raw(user="app2").value("select current_user") == "app2"
	assert weir.refusal(user="app2", password="wrong").sqlstate in weir.code("28P01")


def test_auth_query_finds_md5_users(pg, pooler):
	weir = pooler(**looked_up("md5"))
	assert weir.raw(user="md5_u").value("select current_user") == "md5_u"


def test_auth_query_refuses_who_is_not_found(pg, pooler):
	weir = pooler(**looked_up("scram-sha-256"))
	weir.raw(user="app2")
	assert weir.refusal(user="nobody_here").sqlstate in weir.code("28P01") + weir.code("28000")


@pytest.mark.pgweir("auth_dbname came with 1.19")
def test_auth_query_runs_in_auth_dbname(pg, pooler):
	how = looked_up("scram-sha-256")
	how["settings"]["auth_dbname"] = "app2"
	weir = pooler(**how)
	weir.raw(user="app3")
	assert pg.count("usename = 'lookup' and datname = 'app2'") == 1
	assert pg.count("usename = 'lookup' and datname = 'app'") == 0


def test_a_broken_auth_query_is_the_operators_error_and_not_the_clients(pg, pooler):
	how = looked_up("scram-sha-256")
	how["settings"]["auth_query"] = "select usename, passwd from not_a_table where usename = $1"
	how["userlist"]["app"] = PASSWORDS["app"]
	weir = pooler(**how)
	refused = weir.refusal(user="app2")
	assert "not_a_table" not in refused.message
	assert refused.message == "bouncer config error"
	if not stand_in():
		weir.wait_log('not_a_table" does not exist')


@pytest.mark.pgweir("1.18 has this very fault")
def test_a_user_with_a_users_line_is_still_looked_up(pg, pooler):
	"""Settings and credentials are separate things (pgbouncer #613)."""
	weir = pooler(**looked_up("scram-sha-256"), users={"app2": {"max_user_connections": 5}})
	assert weir.raw(user="app2").value("select 1") == "1"


def test_scram_keys_of_the_client_open_the_server(pg, pooler):
	"""Pass-through: the pooler has the verifier only, and never the password."""
	verifier = pg.value("select rolpassword from pg_authid where rolname = 'scram_u'")
	weir = pooler(settings={"auth_type": "scram-sha-256"},
	              userlist={"scram_u": verifier, "app": PASSWORDS["app"], "admin": "admin-secret-a"})
	client = weir.raw(user="scram_u")
	assert client.value("select current_user") == "scram_u"


def test_passed_through_scram_keys_survive_a_reconnect(pg, pooler):
	verifier = pg.value("select rolpassword from pg_authid where rolname = 'scram_u'")
	weir = pooler(settings={"auth_type": "scram-sha-256"},
	              userlist={"scram_u": verifier, "app": PASSWORDS["app"], "admin": "admin-secret-a"})
	client = weir.raw(user="scram_u")
	first = client.value("select pg_backend_pid()")
	weir.admin("RECONNECT app")
	assert client.value("select pg_backend_pid()") != first
	assert weir.raw(user="scram_u").value("select 1") == "1"


@pytest.mark.parametrize("user", ["scram_u", "md5_u", "plain_u"])
def test_the_pooler_answers_each_way_a_server_asks_for_a_password(pg, pooler, user):
	weir = pooler(settings={"auth_type": "plain"})
	assert weir.raw(user=user).value("select current_user") == user


@pytest.mark.parametrize("user", ["scram_u", "md5_u", "plain_u"])
def test_a_forced_user_and_password_come_from_the_entry(pg, pooler, user):
	weir = pooler(databases={"app": {"user": user, "password": PASSWORDS[user]}})
	assert weir.raw(user="app").value("select current_user") == user
	assert weir.raw(user="app2").value("select current_user") == user


def test_a_server_password_that_is_wrong_is_told_to_the_client(pg, pooler):
	weir = pooler(databases={"app": {}, "bad": {"dbname": "app", "user": "scram_u",
	                                            "password": "wrong"}})
	with pytest.raises(ServerError) as refused:
		weir.raw("bad").query("select 1")
	assert "password authentication failed" in refused.value.message


@pytest.mark.parametrize("size", [63, 64, 127, 128, 996] + ([] if stand_in() else
                                 [1023, 1024, 2047, 2048, 5000, 60000]))
@pytest.mark.parametrize("way", ["plain", "md5", "scram-sha-256"])
def test_a_long_password_works(pg, pooler, way, size):
	"""Cloud tokens are passwords of some KB (pgbouncer #1310, #1520)."""
	word = "Tk" + "x9" * (size // 2 - 1) + "z" * (size % 2)
	assert len(word) == size
	weir = pooler(settings={"auth_type": way}, userlist={
		"app": word, "admin": "admin-secret-a"})
	# CLEAN logs in with the usual password: under trust, after a reload, it may again.
	assert weir.raw(password=word).value("select 1") == "1"
	assert weir.refusal(password=word[:-1] + "?").sqlstate in weir.code("28P01")
	weir.userlist["app"] = PASSWORDS["app"]
	weir.reload()


@pytest.mark.pgweir("1.18 knows 3.0 in one packet only")
def test_a_login_in_the_protocol_3_2_is_negotiated_down(pg, pooler):
	weir = pooler()
	client = weir.open()
	client.startup(user="app", database="app", version=raw.PROTOCOL_3_2,
	               params={"_pq_.no_such_option": "1"})
	client.authenticate("app", weir.password("app"))
	assert client.protocol in (raw.PROTOCOL_3_0, raw.PROTOCOL_3_2)
	assert client.refused_options == ["_pq_.no_such_option"]
	assert client.value("select 1") == "1"


@pytest.mark.pgweir("1.18 knows 3.0 in one packet only")
def test_negotiation_matches_postgresql_for_a_minor_version_of_the_future(pg, pooler):
	"""PostgreSQL answers NegotiateProtocolVersion with the newest minor it has."""
	version = (3 << 16) | 9000
	weir = pooler()
	got = []
	for address in (pg.address, weir.address):
		with Raw(address) as client:
			client.startup(user="app", database="app", version=version)
			client.authenticate("app", weir.password("app"))
			got.append(client.protocol is not None)
			assert client.value("select 1") == "1"
	assert got[0]
	assert got[1]


def test_protocol_2_is_refused(pg, pooler):
	client = pooler().open()
	client.send(raw.startup_packet({"user": "app"}, version=2 << 16))
	assert client.read_eof().endswith("EOF")


@pytest.mark.pgweir("1.18 knows 3.0 in one packet only")
def test_a_login_byte_by_byte_works(pg, pooler):
	weir = pooler(settings={"auth_type": "plain"})
	client = weir.open(seconds=10)
	for byte in raw.GSSENC_REQUEST:
		client.send(bytes([byte]))
	assert client.sock.recv(1) == b"N"
	for byte in raw.startup_packet({"user": "app", "database": "app"}):
		client.send(bytes([byte]))
	letter, body = client.read_message()
	assert (letter, body) == ("R", b"\0\0\0\x03")
	for byte in raw.p(raw.text(PASSWORDS["app"])):
		client.send(bytes([byte]))
	client.authenticate("app", None)
	assert client.value("select 1") == "1"


@pytest.mark.parametrize("size", [200, 3000, 9000])
def test_a_long_application_name_is_cut_as_postgresql_cuts_it(pg, pooler, size):
	name = "n" * size
	weir = pooler()
	if stand_in() and size > 127:
		pytest.skip("stand-in: 1.18 drops a long value")
	with Raw.login(pg.address, user="app", database="app", params={"application_name": name}) as c:
		right = c.value("show application_name")
	client = weir.raw(params={"application_name": name})
	assert client.value("show application_name") == right == name[:63]


def test_every_client_has_a_cancel_key_of_its_own(pg, pooler):
	weir = pooler()
	keys = {weir.raw().key for _ in range(20)}
	assert len(keys) == 20 and all(len(key) >= 8 for key in keys)


def test_the_welcome_tells_what_postgresql_tells(pg, pooler):
	weir = pooler()
	with Raw.login(pg.address, user="app", database="app") as direct:
		right = direct.params
	got = weir.raw().params
	assert {k: got.get(k) for k in right} == right


def test_a_client_that_logs_in_costs_no_server_after_the_first(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	weir.raw().value("select 1")
	for _ in range(30):
		weir.raw()
	assert pg.count() <= 1
