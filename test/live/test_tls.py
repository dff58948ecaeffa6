"""TLS on both sides."""

import os
import ssl

import pytest

from rig import process, raw
from rig.limits import until
from rig.pooler import stand_in
from rig.raw import Closed, Raw, ServerError

pytestmark = pytest.mark.usefixtures("clean")

MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]


def tls_settings(certs, mode="prefer", **more):
	return {"client_tls_sslmode": mode, "client_tls_cert_file": certs.server_cert,
	        "client_tls_key_file": certs.server_key, "client_tls_ca_file": certs.ca, **more}


@pytest.fixture
def tls_pooler(pg, pooler, certs):
	"""A pooler whose CLEAN check is done over the Unix socket's own rules: plain TCP may be shut."""
	def make(mode="prefer", *, server_mode="disable", auth_type="trust", **more):
		return pooler(settings={**tls_settings(certs, mode), "auth_type": auth_type,
		                        "server_tls_sslmode": server_mode, **more})
	yield make


def open_up(weir):
	"""Let plain clients in again, so that the check of the rest can look."""
	with Raw.login(weir.socket_path, user="admin", database=weir.console_name,
	               password=weir.password("admin")) as console:
		weir.settings["client_tls_sslmode"] = "prefer"
		weir.write()
		console.query("RELOAD")


@pytest.mark.parametrize("mode", MODES)
def test_plain_tcp_is_let_in_below_require_only(tls_pooler, mode):
	weir = tls_pooler(mode)
	if mode in ("disable", "allow", "prefer"):
		assert weir.raw().value("select 1") == "1"
	else:
		refused = weir.refusal()
		assert "SSL required" in refused.message
		assert refused.severity == "FATAL"
	assert weir.raw(unix=True).value("select 1") == "1"
	open_up(weir)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cert", ["none", "good", "other"])
def test_tls_is_let_in_by_mode_and_certificate(tls_pooler, certs, mode, cert):
	if cert == "other" and not mode.startswith("verify"):
		# A certificate that need not be there need not be good either, unless it is looked at:
		# both are safe, so there is no right answer to assert.
		return
	weir = tls_pooler(mode)
	pair = {"none": None, "good": certs.client("app"), "other": certs.other("app")}[cert]
	context = certs.context(cert=pair)
	if mode == "disable":
		with Raw(weir.address) as client:
			assert client.ask_tls() == b"N"
		return
	welcome = cert == "good" or (cert == "none" and mode in ("allow", "prefer", "require"))
	try:
		client = weir.raw(tls=context)
		assert welcome, f"{mode} let in a client with certificate: {cert}"
		assert client.value("select 1") == "1"
	except (ssl.SSLError, Closed, ConnectionResetError, BrokenPipeError):
		assert not welcome
	open_up(weir)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_tls_versions_work(tls_pooler, certs, version):
	weir = tls_pooler("require")
	client = weir.raw(tls=certs.context(lowest=version, highest=version))
	assert client.value("select 1") == "1"
	assert client.sock.version() == {"TLSv1_2": "TLSv1.2", "TLSv1_3": "TLSv1.3"}[version.name]
	open_up(weir)


def test_show_clients_names_the_version_and_the_cipher(tls_pooler, certs):
	weir = tls_pooler("prefer")
	client = weir.raw(tls=certs.context(highest=ssl.TLSVersion.TLSv1_2))
	cipher = client.sock.cipher()[0]
	rows = [row["tls"] for row in weir.show("CLIENTS", database="app")]
	assert len(rows) == 1 and rows[0].startswith(f"TLSv1.2/{cipher}")


def test_scram_works_over_tls(tls_pooler, certs):
	weir = tls_pooler("require", auth_type="scram-sha-256")
	assert weir.raw(tls=certs.context()).value("select 1") == "1"
	with pytest.raises(ServerError) as refused:
		weir.raw(tls=certs.context(), password="wrong")
	assert refused.value.sqlstate in weir.code("28P01")
	open_up(weir)


@pytest.mark.pgweir("direct TLS came with 1.25")
def test_direct_tls_needs_no_ssl_request(tls_pooler, certs):
	weir = tls_pooler("require")
	client = weir.raw(direct_tls=certs.context(alpn="postgresql"))
	assert client.sock.selected_alpn_protocol() == "postgresql"
	assert client.value("select 1") == "1"
	open_up(weir)


@pytest.mark.pgweir("direct TLS came with 1.25")
@pytest.mark.parametrize("alpn", [None, "http/1.1"])
def test_direct_tls_without_the_right_alpn_is_refused(tls_pooler, certs, alpn):
	"""PostgreSQL 17 asks for ALPN with direct TLS, against protocol confusion."""
	weir = tls_pooler("prefer")
	with pytest.raises((ssl.SSLError, Closed, ConnectionResetError, BrokenPipeError)):
		weir.raw(direct_tls=certs.context(alpn=alpn))


@pytest.mark.pgweir("direct TLS came with 1.25")
def test_direct_tls_is_refused_where_tls_is_off(pg, pooler, certs):
	weir = pooler()
	with pytest.raises((ssl.SSLError, Closed, ConnectionResetError)):
		weir.raw(direct_tls=certs.context(alpn="postgresql"))


def test_any_server_name_is_taken(tls_pooler, certs):
	"""SNI is noted and asks for nothing: libpq sends whatever host= says."""
	weir = tls_pooler("prefer")
	context = certs.context(verify=False)
	client = weir.open()
	assert client.ask_tls() == b"S"
	client.start_tls(context, name="acme.pooler.example")
	client.startup(user="app", database="app")
	client.authenticate("app", weir.password("app"))
	assert client.value("select 1") == "1"


def test_bytes_behind_the_ssl_request_are_refused(tls_pooler):
	"""Plain bytes before the handshake could be an attacker's (CVE-2021-23214's class)."""
	client = tls_pooler("prefer").open()
	client.send(raw.SSL_REQUEST, raw.startup_packet({"user": "app", "database": "app"}))
	rest = client.read_eof()
	assert rest.endswith("EOF"), rest
	assert "Z" not in rest and "R" not in rest


def test_a_second_ssl_request_inside_tls_is_refused(tls_pooler, certs):
	client = tls_pooler("prefer").open()
	assert client.ask_tls() == b"S"
	client.start_tls(certs.context())
	client.send(raw.SSL_REQUEST)
	assert client.read_eof().endswith("EOF")


def test_a_gssenc_request_is_answered_no_and_then_tls_works(tls_pooler, certs):
	client = tls_pooler("prefer").open()
	client.send(raw.GSSENC_REQUEST)
	assert client.sock.recv(1) == b"N"
	assert client.ask_tls() == b"S"
	client.start_tls(certs.context())
	client.startup(user="app", database="app")
	client.authenticate("app", "unused")
	assert client.value("select 1") == "1"


def test_psql_with_sslmode_verify_full_trusts_the_pooler(tls_pooler, certs):
	weir = tls_pooler("require")
	out = process.run(["psql", "-XAtc", "select 6*7", weir.dsn(
		host="localhost", hostaddr="127.0.0.1", sslmode="verify-full", sslrootcert=certs.ca)])
	assert out.stdout.strip() == "42"
	open_up(weir)


@pytest.mark.parametrize("mode,encrypted", [("disable", False), ("prefer", True),
                                            ("require", True), ("verify-ca", True)])
def test_server_connections_are_encrypted_as_the_mode_says(pg, pooler, certs, mode, encrypted):
	weir = pooler(settings={"server_tls_sslmode": mode, "server_tls_ca_file": certs.ca})
	client = weir.raw()
	assert client.value("select 1") == "1"
	pid = client.value("select pg_backend_pid()")
	assert pg.value("select ssl from pg_stat_ssl where pid = %s", [int(pid)]) is encrypted
	tls = weir.show("SERVERS")[0]["tls"]
	assert bool(tls) == encrypted and (not tls or tls.startswith("TLSv1.3/"))


def test_verify_full_checks_the_host_that_was_dialled(pg, pooler, certs):
	weir = pooler(settings={"server_tls_sslmode": "verify-full", "server_tls_ca_file": certs.ca},
	              databases={"app": {"host": "localhost"}})
	assert weir.raw().value("select 1") == "1"


@pytest.mark.pgweir("1.18 lets the client wait")
def test_a_server_certificate_of_a_stranger_is_refused(pg, pooler, certs):
	weir = pooler(settings={"server_tls_sslmode": "verify-ca", "server_tls_ca_file": certs.other_ca,
	                        "server_login_retry": 1})
	with pytest.raises((ServerError, Closed)):
		weir.raw(seconds=8).query("select 1")
	weir.wait_log("certificate verify failed")
	weir.settings["server_tls_sslmode"] = "disable"
	weir.reload()
	until("it serves again", lambda: serves(weir), 5)


def serves(weir):
	try:
		return weir.raw().value("select 1") == "1"
	except (ServerError, Closed):
		return False


def test_a_user_that_postgresql_lets_in_over_tls_only_is_served(pg, pooler):
	weir = pooler(settings={"server_tls_sslmode": "require"})
	assert weir.raw(user="tls_u").value("select current_user") == "tls_u"


def test_large_rows_pass_through_tls_on_both_sides(tls_pooler, certs):
	weir = tls_pooler("require", server_mode="require")
	client = weir.raw(tls=certs.context(), seconds=10)
	assert len(client.value("select repeat('x', 4000000)")) == 4000000
	client.send(raw.Q(f"select length('{'y' * 3000000}')"))
	assert client.read(4) == "T D[3000000] C(SELECT 1) Z(I)"
	open_up(weir)


def test_reload_takes_a_new_certificate_for_new_connections(pg, pooler, certs):
	cert, key = certs.issue("rotating", "localhost", names="DNS:localhost")
	weir = pooler(settings={**tls_settings(certs, "prefer"), "client_tls_cert_file": cert,
	                        "client_tls_key_file": key})
	old = weir.raw(tls=certs.context())
	before = old.sock.getpeercert()["serialNumber"]
	certs.issue("rotating", "localhost", names="DNS:localhost")
	weir.admin("RELOAD")
	new = weir.raw(tls=certs.context())
	assert new.sock.getpeercert()["serialNumber"] != before
	assert old.value("select 1") == "1"


@pytest.mark.pgweir("fixed in 1.24")
def test_reload_without_a_tls_change_keeps_the_servers(pg, pooler, certs):
	weir = pooler(settings={"server_tls_sslmode": "require"})
	client = weir.raw()
	pid = client.value("select pg_backend_pid()")
	weir.admin("RELOAD")
	assert client.value("select pg_backend_pid()") == pid


def test_a_missing_certificate_file_is_an_error_at_start(pooler, certs):
	weir = pooler(start=False, settings={**tls_settings(certs, "require"),
	                                     "client_tls_cert_file": "/nonexistent/cert.pem"})
	status, said = weir.fails_to_start()
	assert status == 1
	assert "No such file or directory" in said or stand_in()


def test_a_handshake_cut_at_each_quarter_harms_nobody(tls_pooler, certs):
	weir = tls_pooler("prefer")
	hello, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
	tls = certs.context().wrap_bio(hello, outgoing, server_hostname="localhost")
	with pytest.raises(ssl.SSLWantReadError):
		tls.do_handshake()
	flight = outgoing.read()
	for cut in range(0, len(flight), max(1, len(flight) // 16)):
		client = weir.open()
		assert client.ask_tls() == b"S"
		client.send(flight[:cut])
		client.reset()
	for junk in (b"\x16\x03\x01\xff\xff" + os.urandom(200), os.urandom(64), b"GET / HTTP/1.0\r\n\r\n"):
		client = weir.open()
		assert client.ask_tls() == b"S"
		client.send(junk)
		client.half_close()
		assert client.read_eof().endswith("EOF")
	assert weir.raw(tls=certs.context()).value("select 1") == "1"
