"""Orgs that TLS tells: by the server name that a client asks for, and by its certificate."""

import pytest

from rig.raw import Raw, ServerError

pytestmark = pytest.mark.pgweir("no orgs there")


def org_of(client):
	return client.value("select current_setting('app.current_org')")


def tls(pooler, certs, **more):
	return pooler(settings={"org_guc": "app.current_org", "client_tls_sslmode": "verify-full", "client_tls_cert_file": certs.server_cert,
	                        "client_tls_key_file": certs.server_key, "client_tls_ca_file": certs.ca, **more})


def tls_login(one, certs, *, cert, name="localhost", **more):
	raw = Raw(one.address)
	one.keep(raw)
	assert raw.ask_tls() == b"S"
	context = certs.context(cert=cert)
	context.check_hostname = False
	raw.start_tls(context, name)
	raw.startup(user="app", database="app", **more)
	raw.authenticate("app", "")
	return raw


def test_the_server_name_of_tls_says_the_org(pg, pooler, certs):
	one = tls(pooler, certs, org_sources="sni")
	assert org_of(tls_login(one, certs, cert=certs.client("x"), name="acme.db.example.com")) == "acme"


def test_a_certificate_says_the_org(pg, pooler, certs):
	one = tls(pooler, certs, org_sources="cert")
	assert org_of(tls_login(one, certs, cert=certs.client("acme"))) == "acme"
	by_name = certs.issue("c1", "app", names="DNS:app.example.com,URI:urn:x:org=globex")
	assert org_of(tls_login(one, certs, cert=by_name)) == "globex"
	both = certs.issue("c2", "org=one", names="URI:urn:x:org=two")
	for wrong in (both, certs.client("not an id")):
		with pytest.raises(ServerError) as refused:
			tls_login(one, certs, cert=wrong)
		assert refused.value.sqlstate == "28000"
