"""Pipelines of transactions that belong to different orgs: each is served from its own org's pool.

Who asks is told by the server itself: it says its pid, whose org the console has, and the setting that the pooler made there (org_guc).
Nobody shares a server in these tests: no cap makes one change hands."""

import re

import pytest

from rig import Raw
from rig.limits import until
from rig.raw import B, C, D, E, F, H, P, Q, S, f as copy_fail

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.pgweir("no orgs there")]

ASK = "select current_setting('app.current_org') || ':' || pg_backend_pid()"


@pytest.fixture
def weir(pg, pooler):
	return pooler(settings={"org_sources": "startup, application_name, comment", "org_guc": "app.current_org", "default_pool_size": 2})


@pytest.fixture
def a(weir):
	return weir.raw(params={"x-org-id": "home"}, seconds=5)


def said_by(weir, letters):
	"""The letters with each D[org:pid] as D[org], after the console has agreed that the server is that org's."""
	orgs = {row["remote_pid"]: row["org"] for row in weir.show("SERVERS")}
	for org, pid in re.findall(r"D\[(\S+):(\d+)\]", letters):
		assert orgs[int(pid)] == org, (letters, orgs)
	return re.sub(r"D\[(\S+):\d+\]", r"D[\1]", letters)


def of(org):
	return f" /*org='{org}'*/" if org else ""


def simple(org):
	return [Q(ASK + of(org))], "T D[{}] C(SELECT 1) Z(I)"


def extended(org):
	return [P("", ASK + of(org)), B(), E(), S], "1 2 D[{}] C(SELECT 1) Z(I)"


def block(org):
	return [Q("begin" + of(org)), Q(ASK), Q(ASK + of(org)), Q("commit")], "C(BEGIN) Z(T) T D[{0}] C(SELECT 1) Z(T) T D[{0}] C(SELECT 1) Z(T) C(COMMIT) Z(I)"


def extended_block(org):
	parts, said = [], []
	for sql, letters in (("begin" + of(org), "1 2 C(BEGIN) Z(T)"), (ASK, "1 2 D[{0}] C(SELECT 1) Z(T)"), ("commit", "1 2 C(COMMIT) Z(I)")):
		parts += [P("", sql), B(), E(), S]
		said.append(letters)
	return parts, " ".join(said)


def named(org):
	"""Parsed in a batch of its own, and bound in one that says the org by its statement alone."""
	name = f"s_{org}"
	return [C("S", name), P(name, ASK + of(org)), S, B("", name), E(), S], "3 1 Z(I) 2 D[{}] C(SELECT 1) Z(I)"


def described(org):
	name = f"d_{org}"
	return [C("S", name), P(name, ASK + of(org)), D("S", name), S, D("S", name), B("", name), E(), C("S", name), S], \
		"3 1 t T Z(I) t T 2 D[{}] C(SELECT 1) 3 Z(I)"


def failing(org):
	return [P("", "select 1/(random() * 0)" + of(org)), B(), E(), P("", ASK), B(), E(), S, Q("selekt" + of(org))], "1 2 E(22012) Z(I) E(42601) Z(I)"


KINDS = [simple, extended, block, extended_block, named, described, failing]


def pipeline(steps):
	"""(kind, org) in turn: what to send, and what has to come. Without an org it is the client's own."""
	parts, said = [], []
	for kind, org in steps:
		more, letters = kind(org)
		parts += more
		said.append(letters.format(org or "home"))
	return b"".join(parts), " ".join(said)


def runs(weir, client, steps, cuts=()):
	sent, said = pipeline(steps)
	client.send_split(sent, cuts)
	assert said_by(weir, client.read_ready(said.count("Z("), seconds=20)) == said


@pytest.mark.parametrize("kind", KINDS)
def test_pipelined_transactions_of_different_orgs_go_to_their_own_pools(weir, a, kind):
	runs(weir, a, [(kind, org) for org in ("one", "two", None, "two", "two", None, None, "one")])


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_pipelines_of_two_kinds_go_to_their_own_pools(weir, a, first, second):
	runs(weir, a, [(first, "one"), (second, "two"), (first, None), (second, "one"), (second, None), (first, "two")])


def test_a_pipeline_in_pieces_of_one_byte_goes_to_its_own_pools(weir, a):
	steps = [(kind, org) for kind in KINDS for org in ("one", "two", None)]
	runs(weir, a, steps, range(1, len(pipeline(steps)[0])))


def test_a_change_of_org_is_pipelined_with_visits(weir, a):
	def sets(org):
		return [Q(f"set pgweir.org = '{org}'"), P("", f"set application_name = 'org={org}'"), B(), E(), S]
	a.send(Q(ASK + of("one")), *sets("two"), Q(ASK), Q(ASK + of("one")), *sets("home"), Q("begin" + of("two")), Q(ASK), Q("rollback"), Q(ASK))
	ask, set_twice = "T D[{}] C(SELECT 1) Z(I) ", "C(SET) Z(I) 1 2 C(SET) Z(I) "
	assert said_by(weir, a.read_ready(11)) == (ask.format("one") + set_twice + ask.format("two") + ask.format("one") + set_twice
	                                           + "C(BEGIN) Z(T) T D[two] C(SELECT 1) Z(T) C(ROLLBACK) Z(I) " + ask.format("home").strip())


def test_a_function_call_behind_a_visit_is_the_clients_own(weir, a):
	a.send(Q(ASK + of("one")), F(2026), Q(ASK)) # pg_backend_pid()
	assert said_by(weir, a.read_ready(3)) == "T D[one] C(SELECT 1) Z(I) V Z(I) T D[home] C(SELECT 1) Z(I)"


@pytest.mark.parametrize("org", ["two", "home"])
def test_one_transaction_cannot_be_of_two_orgs(weir, a, org):
	refused = [
		([P("", ASK + of("one")), B(), E(), P("", ASK + of(org)), B(), E(), S], "1 2 D[one] C(SELECT 1) 1 E(25001) Z(I)"),
		([P("", ASK + of("one")), B(), E(), Q(ASK + of(org))], "1 2 D[one] C(SELECT 1) E(25001) Z(I)"),
		([Q("begin" + of("one")), Q(ASK + of(org)), Q("rollback")], "C(BEGIN) Z(T) E(25001) Z(E) C(ROLLBACK) Z(I)"),
		([Q("begin" + of("one")), P("", ASK + of(org)), B(), E(), S, Q("rollback")], "C(BEGIN) Z(T) 1 E(25001) Z(E) C(ROLLBACK) Z(I)"),
		([P("x", ASK + of("one")), S, P("y", ASK + of(org)), S, B("", "x"), E(), B("", "y"), E(), S, C("S", "x"), C("S", "y"), S],
		 "1 Z(I) 1 Z(I) 2 D[one] C(SELECT 1) E(25001) Z(I) 3 3 Z(I)"),
	]
	for sent, said in refused:
		assert said_by(weir, a.talk(*sent, times=said.count("Z("))) == said
		assert said_by(weir, a.talk(Q(ASK))) == "T D[home] C(SELECT 1) Z(I)"


def test_an_illegal_id_behind_a_visit_is_refused_in_its_turn(weir, a):
	a.send(Q(ASK + of("one")), Q(ASK + of("a b")), P("", ASK + of("a b")), B(), E(), S, Q(ASK + of("two")))
	assert said_by(weir, a.read_ready(4)) == "T D[one] C(SELECT 1) Z(I) E(28000) Z(I) E(28000) Z(I) T D[two] C(SELECT 1) Z(I)"


def test_a_query_into_a_copy_ends_the_session_as_in_postgresql(weir, pg, a):
	"""It must not wait for the end of the COPY, which is the client's to bring."""
	direct = Raw.login(pg.address, user="app", database="app")
	for client in (direct, a):
		client.send(Q("copy t from stdin" + of("one")))
		client.expect("G")
		client.send(Q("select 1" + of("two")))
		assert client.read_eof(seconds=5).startswith("E(08P01)")
	direct.close()


def test_a_copy_that_fails_lets_the_next_org_have_its_turn(weir, a):
	a.send(Q("copy t from stdin" + of("one")), copy_fail("no"), Q(ASK + of("two")))
	assert said_by(weir, a.read_ready(2)) == "G E(57014) Z(I) T D[two] C(SELECT 1) Z(I)"


def test_a_cancel_reaches_the_visit_and_the_next_one_follows(weir, pg, a):
	a.send(Q("select pg_sleep(30)" + of("one")), Q(ASK + of("two")), P("", ASK), B(), E(), S)
	until("it sleeps", lambda: pg.count("query like 'select pg_sleep(30)%%'"), 3)
	weir.cancel(a.key)
	assert said_by(weir, a.read_ready(3)) == "T E(57014) Z(I) T D[two] C(SELECT 1) Z(I) 1 2 D[home] C(SELECT 1) Z(I)"


def test_the_next_org_waits_in_its_own_queue(weir, a):
	holders = [weir.raw(params={"x-org-id": "two"}) for _ in range(2)]
	for one in holders:
		one.query("begin")
	a.send(Q(ASK + of("one")), Q(ASK + of("two")), Q(ASK))
	assert said_by(weir, a.read_ready()) == "T D[one] C(SELECT 1) Z(I)"
	weir.wait_pool(org="two", cl_waiting=1)
	assert weir.pool(org="one")["sv_active"] == 0
	holders[0].query("commit")
	assert said_by(weir, a.read_ready(2)) == "T D[two] C(SELECT 1) Z(I) T D[home] C(SELECT 1) Z(I)"
	holders[1].query("commit")


def test_a_flush_does_not_end_a_visit(weir, a):
	a.send(P("", ASK + of("one")), B(), E(), H)
	assert said_by(weir, a.read(4)) == "1 2 D[one] C(SELECT 1)"
	a.send(P("", ASK), B(), E(), S, P("", ASK), B(), E(), S)
	assert said_by(weir, a.read_ready(2)) == "1 2 D[one] C(SELECT 1) Z(I) 1 2 D[home] C(SELECT 1) Z(I)"


def test_one_client_pipelines_a_thousand_orgs_on_a_few_servers(pg, pooler):
	weir = pooler(settings={"org_sources": "startup, comment", "org_guc": "app.current_org", "max_db_connections": 3})
	a = weir.raw(params={"x-org-id": "home"}, seconds=20)
	asks = "select current_setting('app.current_org')"
	for first in range(0, 1000, 100):
		orgs = [f"org-{i}" for i in range(first, first + 100)]
		a.send(*[Q(asks + of(org)) if i % 2 else b"".join([P("", asks + of(org)), B(), D("P"), E(), S]) for i, org in enumerate(orgs)])
		assert re.findall(r"D\[(\S+)\]", a.read_ready(100)) == orgs


def test_a_pipeline_goes_from_worker_to_worker(pg, pooler):
	"""Orgs that routes lead to other clusters, whose homes are other workers: the same PostgreSQL under its other names."""
	names = {"one": "localhost", "two": pg.socket_dir}
	weir = pooler(settings={"org_sources": "startup, comment", "org_guc": "app.current_org", "workers": 4},
	              databases={"app": {}, **{f"app_{org}": {"host": host, "dbname": "app"} for org, host in names.items()}},
	              routes={org: {"org": org, "entry": "app", "to": f"app_{org}"} for org in names})
	a = weir.raw(params={"x-org-id": "home"}, seconds=5)
	runs(weir, a, [(kind, org) for kind in KINDS for org in ("one", "two", None, "two")])
	assert {row["database"] for row in weir.show("SERVERS")} == {"app", "app_one", "app_two"}
