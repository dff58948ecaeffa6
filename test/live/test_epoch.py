"""Epochs and freezes: what began before the fence went up is rolled back, and nothing of it is passed on.

The cluster's word is moved by FENCE and UNFENCE.
"""

import struct
import threading

import pytest

from rig import process
from rig.limits import until
from rig.raw import B, C, D, E, H, P, Q, S, ServerError, c, d, message

pytestmark = pytest.mark.pgweir("fence and epochs")


@pytest.fixture
def weir(pg, pooler, state_dir):
	return weir_of(pg, pooler, state_dir)


def weir_of(pg, pooler, state_dir, settings=None, **how):
	return pooler(pg, settings={"state_dir": state_dir, "probe_interval": "0.1", **(settings or {})},
	              clusters={"main": f"primary={pg.host}:{pg.port} fence_exempt_users=app2"},
	              databases={"app": "cluster=main dbname=app", "as_app": "cluster=main dbname=app user=app"}, **how)


def epoch(weir):
	return weir.admin("SHOW FENCES")[0]["epoch"]


def unfence(weir):
	before = epoch(weir)
	weir.admin("UNFENCE main")
	until("a new epoch has begun", lambda: weir.admin("SHOW FENCES")[0]["state"] == "primary")
	assert epoch(weir) == before + 1


def held(pg):
	return [i for i, in pg.sql("select i from ep order by i", dbname="app")]


def begun(weir, *texts, **more):
	client = weir.raw(**more)
	for text in ("begin", *texts):
		client.query(text)
	return client


@pytest.fixture(autouse=True)
def table(pg):
	pg.sql("drop table if exists ep", dbname="app")
	pg.sql("create table ep (i int)", dbname="app")
	pg.sql("grant all on ep to public", dbname="app")
	yield
	pg.sql("drop table ep", dbname="app")


# --- the next statement

@pytest.mark.parametrize("text", ["commit", "select 1", "insert into ep values (2)", "rollback", ""])
def test_the_next_statement_of_a_transaction_is_refused_and_all_of_it_rolled_back(weir, pg, text):
	client = begun(weir, "insert into ep values (1)")
	weir.admin("FENCE main")
	assert client.talk(Q(text)) == "E(40001) Z(I)"
	assert "epoch 1" in client.errors[-1]["M"] and "recovering" in client.errors[-1]["M"]
	assert held(pg) == []
	assert client.value("select 1") == "1"
	unfence(weir)
	client.query("insert into ep values (3)")
	assert held(pg) == [3]


def test_both_epochs_are_named(weir, pg):
	client = begun(weir, "insert into ep values (1)")
	weir.admin("FENCE main")
	unfence(weir)
	assert client.talk(Q("commit")) == "E(40001) Z(I)"
	assert "epoch 1 " in client.errors[-1]["M"] and "epoch 2 " in client.errors[-1]["M"]
	assert held(pg) == []


@pytest.mark.parametrize("batch", [
	[P("", "commit"), B(), E(), S],
	[B("", "done"), E(), S],
	[D("S", "done"), B("", "done"), E(), S],
	[P("", "insert into ep values (2)"), B(), E(), P("", "commit"), B(), E(), S],
	[C("S", "done"), S],
	[H, P("", "commit"), B(), E(), H, S],
])
def test_an_extended_batch_is_refused_up_to_its_sync(weir, pg, batch):
	client = weir.raw()
	assert client.talk(P("done", "commit"), S) == "1 Z(I)"
	client.query("begin")
	client.query("insert into ep values (1)")
	weir.admin("FENCE main")
	assert client.talk(*batch) == "E(40001) Z(I)"
	assert held(pg) == []
	assert client.talk(P("", "select 1"), B(), E(), S) == "1 2 D[1] C(SELECT 1) Z(I)"


def test_a_sync_commits_nothing_of_what_was_sent_before(weir, pg):
	client = weir.raw()
	client.send(P("", "insert into ep values (1)"), B(), E(), H)
	assert client.read(3) == "1 2 C(INSERT 0 1)"
	weir.admin("FENCE main")
	assert client.talk(S) == "E(40001) Z(I)"
	assert held(pg) == []


def test_what_was_sent_without_flush_is_answered_before_its_sync_is_refused(weir, pg):
	client = weir.raw()
	client.send(P("", "insert into ep values (1)"), B(), E())
	until("the server has it", lambda: weir.pool()["sv_active"] == 1)
	weir.admin("FENCE main")
	assert client.talk(S) == "1 2 C(INSERT 0 1) E(40001) Z(I)"
	assert held(pg) == []


def test_behind_an_error_of_its_own_a_batch_hears_of_no_other(weir, pg):
	client = begun(weir, "insert into ep values (1)")
	client.send(P("", "select nothing"), H)
	assert client.read(1) == "E(42703)"
	weir.admin("FENCE main")
	assert client.talk(P("", "commit"), B(), E(), S) == "Z(I)"
	assert held(pg) == []


def test_a_statement_under_way_ends_and_the_commit_behind_it_does_not(weir, pg):
	client = begun(weir)
	client.send(Q("insert into ep select 1 from pg_sleep(0.5)"))
	until("it runs", lambda: pg.value("select count(*) from pg_stat_activity where query like 'insert into ep select 1%'") == 1)
	weir.admin("FENCE main")
	client.send(Q("commit"))
	assert client.read_ready(2) == "C(INSERT 0 1) Z(T) E(40001) Z(I)"
	assert held(pg) == []


def test_a_write_under_way_outside_a_transaction_ends_as_it_ends(weir, pg):
	client = weir.raw()
	client.send(Q("insert into ep select 1 from pg_sleep(0.5)"))
	until("it runs", lambda: pg.value("select count(*) from pg_stat_activity where query like 'insert into ep select 1%'") == 1)
	weir.admin("FENCE main")
	client.send(Q("insert into ep values (2)"))
	assert client.read_ready(2) == "C(INSERT 0 1) Z(I) E(25006) Z(I)"
	assert held(pg) == [1]


def test_copy_into_a_table_ends_at_its_next_piece(weir, pg):
	client = weir.raw()
	client.send(Q("copy ep from stdin"))
	assert client.read(1) == "G"
	client.send(d(b"1\n"))
	weir.admin("FENCE main")
	client.send(d(b"2\n"), c)
	assert client.read_ready() == "E(40001) Z(I)"
	assert client.value("select 1") == "1"
	assert held(pg) == []


def test_copy_in_the_extended_protocol_ends_and_skips_to_sync(weir, pg):
	client = weir.raw()
	client.send(P("", "copy ep from stdin"), B(), E(), H)
	assert client.read(3) == "1 2 G"
	client.send(d(b"1\n"))
	weir.admin("FENCE main")
	client.send(c)
	assert client.read(1) == "E(40001)"
	assert client.talk(S) == "Z(I)"
	assert client.talk(P("", "select 1"), B(), E(), S) == "1 2 D[1] C(SELECT 1) Z(I)"
	assert held(pg) == []


def test_a_function_call_by_the_fast_path_is_refused_like_any_statement(weir, pg):
	client = begun(weir, "insert into ep values (1)")
	weir.admin("FENCE main")
	assert client.talk(message("F", struct.pack("!IHHH", 1403, 0, 0, 0))) == "E(40001) Z(I)"
	assert held(pg) == []


# --- what the client has afterwards

def test_settings_are_as_the_transaction_found_them(weir):
	client = weir.raw()
	client.query("set timezone = 'Asia/Tokyo'")
	for text in ("begin", "set local timezone = 'Europe/Berlin'", "set datestyle = 'German'"):
		client.query(text)
	assert client.params["TimeZone"] == "Europe/Berlin"
	weir.admin("FENCE main")
	assert client.talk(Q("commit")) == "E(40001) Z(I)"
	assert (client.params["TimeZone"], client.params["DateStyle"]) == ("Asia/Tokyo", "ISO, MDY")
	assert (client.value("show timezone"), client.value("show datestyle")) == ("Asia/Tokyo", "ISO, MDY")


def test_prepared_statements_go_on_working(weir):
	client = weir.raw()
	assert client.talk(P("one", "select 1"), S) == "1 Z(I)"
	client.query("begin")
	assert client.talk(P("two", "select 2"), S) == "1 Z(T)"
	weir.admin("FENCE main")
	assert client.talk(Q("commit")) == "E(40001) Z(I)"
	for name in ("one", "two"):
		assert client.talk(B("", name), E(), S).endswith("C(SELECT 1) Z(I)")


def test_a_reader_between_transactions_notices_nothing(weir):
	client = weir.raw()
	client.query("set work_mem = '5MB'")
	for step in ("FENCE main", "UNFENCE main") * 3:
		weir.admin(step)
		assert client.value("show work_mem") == "5MB"


def test_a_client_that_pools_by_session_is_told_and_ended(weir, pg, pooler, state_dir):
	weir = weir_of(pg, pooler, process.new_folder(prefix="state-"), {"pool_mode": "session"})
	client = weir.raw()
	client.query("create temp table mine (i int)")
	weir.admin("FENCE main")
	client.send(Q("select * from mine"))
	assert client.read_eof() == "E(40001) EOF"
	assert client.errors[-1]["S"] == "FATAL"


def test_a_pinned_client_is_told_and_ended(weir):
	client = weir.raw()
	client.query("listen ch")
	until("it is pinned", lambda: weir.show("CLIENTS", pinned="listen"))
	weir.admin("FENCE main")
	client.send(Q("select 1"))
	assert client.read_eof() == "E(40001) EOF"


# --- the fence, from a client's side

def test_a_write_prepared_before_the_fence_does_not_run_behind_it(weir, pg):
	client = weir.raw()
	assert client.talk(P("w", "insert into ep values ($1)"), B("", "w", "1"), E(), S) == "1 2 C(INSERT 0 1) Z(I)"
	assert client.talk(P("", "insert into ep values (2)"), B(), E(), S) == "1 2 C(INSERT 0 1) Z(I)"
	weir.admin("FENCE main")
	assert client.talk(B("", "w", "3"), E(), S) == "E(25006) Z(I)"
	assert client.talk(B(), E(), S) == "E(25006) Z(I)"
	assert client.talk(P("later", "insert into ep values (4)"), D("S", "later"), S) == "1 t n Z(I)"
	assert client.talk(B("", "later"), E(), S) == "E(25006) Z(I)"
	unfence(weir)
	for name in ("w", "later"):
		assert client.talk(B("", name, *(["5"] if name == "w" else [])), E(), S) == "2 C(INSERT 0 1) Z(I)"
	assert held(pg) == [1, 2, 4, 5]


def test_what_a_client_asked_for_at_its_login_does_not_make_its_session_writable(weir):
	wish = {"options": "-c default_transaction_read_only=off"}
	early = weir.raw(params=wish)
	early.query("begin")
	early.query("commit")
	weir.admin("FENCE main")
	for client in (early, weir.raw(params=wish), weir.raw(params={"default_transaction_read_only": "off"})):
		assert client.value("show default_transaction_read_only") == "on"
		assert client.value("show transaction_read_only") == "on"
		for text in ("reset all", "discard all"):
			client.query(text)
			assert client.value("show default_transaction_read_only") == "on"
	unfence(weir)
	assert early.value("show default_transaction_read_only") == "off"


def test_a_wish_to_read_only_outlives_the_fence(weir, pg):
	client = weir.raw()
	client.query("set default_transaction_read_only = on")
	weir.admin("FENCE main")
	assert client.value("show transaction_read_only") == "on"
	unfence(weir)
	assert client.talk(Q("insert into ep values (1)")) == "E(25006) Z(I)"
	client.query("set default_transaction_read_only = off")
	client.query("insert into ep values (2)")
	assert held(pg) == [2]


def test_who_makes_its_session_writable_is_ended_and_told_why(weir, pg):
	pg.sql("""create or replace function lift() returns text language sql as
		$$select set_config('default_transaction_read_only', 'off', false)$$""", dbname="app")
	weir.admin("FENCE main")
	client = weir.raw()
	client.send(Q("select lift()"))
	assert client.read_eof() == "T D[off] C(SELECT 1) E(25006) EOF"
	assert client.errors[-1]["S"] == "FATAL" and "main" in client.errors[-1]["M"]
	pg.sql("drop function lift()", dbname="app")
	assert weir.raw().value("show transaction_read_only") == "on"


def test_refusals_are_counted(weir):
	weir.admin("FENCE main")
	client = weir.raw()
	for _ in range(3):
		client.talk(Q("insert into ep values (1)"))
	client.talk(Q("select 1"))
	assert weir.admin("SHOW FENCES")[0]["refused"] == 3


def test_an_entry_whose_connect_query_makes_sessions_writable_serves_nobody_behind_a_fence(pg, pooler, state_dir):
	weir = weir_of(pg, pooler, state_dir, {"server_login_retry": "0.2"})
	weir.databases["app"] += " connect_query='set default_transaction_read_only = off'"
	weir.reload()
	weir.admin("FENCE main")
	refused = weir.refusal()
	assert refused.sqlstate == "25006"


def test_a_setting_of_the_entry_does_not_either(pg, pooler, state_dir):
	weir = weir_of(pg, pooler, state_dir)
	weir.databases["app"] += " default_transaction_read_only=off"
	weir.reload()
	weir.admin("FENCE main")
	assert weir.raw().value("show transaction_read_only") == "on"


# --- who may write under an epoch

def exempt(weir, number, **more):
	return weir.raw(user="app2", params={"options": f"-c pgweir.epoch={number}"}, **more)


def test_an_exempt_user_with_the_epoch_of_now_writes_through_the_fence(weir, pg):
	weir.admin("FENCE main")
	client = exempt(weir, 1)
	client.query("insert into ep values (1)")
	assert client.talk(Q("begin"), Q("insert into ep values (2)"), Q("commit"), times=3).endswith("C(COMMIT) Z(I)")
	assert held(pg) == [1, 2]


def test_its_parameter_does_not_reach_the_server(weir):
	client = exempt(weir, 1)
	assert client.value("select current_setting('pgweir.epoch', true)") is None


def test_without_an_epoch_it_is_as_any_other(weir, pg):
	weir.admin("FENCE main")
	client = weir.raw(user="app2")
	assert client.talk(Q("insert into ep values (1)")) == "E(25006) Z(I)"
	exempt(weir, 1).query("insert into ep values (2)")
	assert client.talk(Q("insert into ep values (3)")) == "E(25006) Z(I)"
	assert held(pg) == [2]


def test_another_user_gains_nothing_by_the_epoch(weir, pg):
	weir.admin("FENCE main")
	client = weir.raw(user="app", params={"options": "-c pgweir.epoch=1"})
	assert client.talk(Q("insert into ep values (1)")) == "E(25006) Z(I)"
	assert held(pg) == []


@pytest.mark.parametrize("number", ["2", "7"])
def test_an_epoch_that_is_not_now_is_refused_at_login(weir, number):
	with pytest.raises(ServerError) as refused:
		exempt(weir, number)
	assert refused.value.fields["C"] == "40001"
	assert f"pgweir.epoch is {number}" in refused.value.fields["M"] and "epoch 1" in refused.value.fields["M"]


@pytest.mark.parametrize("number", ["0", "-1", "x", "", "99999999999999999999"])
def test_what_is_no_epoch_is_refused_at_login(weir, number):
	with pytest.raises(ServerError) as refused:
		exempt(weir, number)
	assert refused.value.fields["C"] == "22023"


def test_an_epoch_that_is_over_is_refused_from_then_on(weir, pg):
	weir.admin("FENCE main")
	client = exempt(weir, 1)
	client.query("begin")
	client.query("insert into ep values (1)")
	unfence(weir)
	assert client.talk(Q("commit")) == "E(40001) Z(I)"
	for _ in range(2):
		assert client.talk(Q("insert into ep values (2)")) == "E(40001) Z(I)"
		assert client.talk(P("", "insert into ep values (2)"), B(), E(), S) == "E(40001) Z(I)"
	assert held(pg) == []


def test_exempt_and_other_clients_of_one_server_user_have_servers_of_their_own(weir, pg):
	weir.admin("FENCE main")
	client = exempt(weir, 1, database="as_app")
	other = weir.raw(user="app", database="as_app")
	for _ in range(3):
		client.query("insert into ep values (1)")
		assert other.talk(Q("insert into ep values (2)")) == "E(25006) Z(I)"
		assert other.value("show transaction_read_only") == "on"
	assert held(pg) == [1, 1, 1]


def test_a_reload_that_takes_the_right_away_takes_it_from_those_who_are_in(weir, pg):
	weir.admin("FENCE main")
	client = exempt(weir, 1)
	client.query("insert into ep values (1)")
	weir.clusters["main"] = weir.clusters["main"].replace("app2", "app3")
	weir.reload()
	assert client.talk(Q("insert into ep values (2)")) == "E(25006) Z(I)"
	assert held(pg) == [1]


# --- frozen orgs

def org_row(weir, org):
	return weir.show("ORGS", org=org)[0]


@pytest.fixture
def orgs(pg, pooler, state_dir):
	return weir_of(pg, pooler, state_dir, orgs={"11111111-1111-1111-1111-111111111111": "name=acme"})


ACME = "11111111-1111-1111-1111-111111111111"


def of_org(weir, org, **more):
	return weir.raw(params={"x-org-id": org}, **more)


@pytest.mark.parametrize("how", [ACME, f'"{ACME}"', "acme", "'acme'"])
def test_a_frozen_org_reads_and_does_not_write(orgs, pg, how):
	client, other = of_org(orgs, ACME), of_org(orgs, "other")
	client.query("insert into ep values (1)")
	orgs.admin(f"FREEZE ORG {how}")
	assert client.talk(Q("insert into ep values (2)")) == "E(25006) Z(I)"
	assert ACME in client.errors[-1]["M"] and "frozen" in client.errors[-1]["M"]
	assert client.talk(P("", "insert into ep values (2)"), B(), E(), S) == "1 E(25006) Z(I)"
	assert client.value("select count(*) from ep") == "1"
	assert client.value("show transaction_read_only") == "on"
	other.query("insert into ep values (3)")
	assert (org_row(orgs, ACME)["frozen"], org_row(orgs, "other")["frozen"]) == (1, 0)
	orgs.admin(f"RESUME ORG {how}")
	client.query("insert into ep values (4)")
	assert held(pg) == [1, 3, 4]
	assert org_row(orgs, ACME)["frozen"] == 0


def test_a_transaction_of_an_org_that_is_frozen_meanwhile_is_rolled_back(orgs, pg):
	client = of_org(orgs, ACME)
	client.query("begin")
	client.query("insert into ep values (1)")
	orgs.admin("FREEZE ORG acme")
	assert client.talk(Q("commit")) == "E(40001) Z(I)"
	assert ACME in client.errors[-1]["M"]
	assert held(pg) == []


def test_a_transaction_that_reads_goes_on_when_its_org_is_resumed(orgs):
	orgs.admin("FREEZE ORG acme")
	client = of_org(orgs, ACME)
	client.query("begin")
	client.query("select 1")
	orgs.admin("RESUME ORG acme")
	assert client.talk(Q("select 2"), Q("commit"), times=2) == "T D[2] C(SELECT 1) Z(T) C(COMMIT) Z(I)"
	client.query("insert into ep values (1)")


def test_freeze_answers_when_what_was_being_written_is_through(orgs, pg):
	client = of_org(orgs, ACME)
	client.send(Q("insert into ep select 1 from pg_sleep(0.7)"))
	until("it runs", lambda: pg.value("select count(*) from pg_stat_activity where query like 'insert into ep select 1%'") == 1)
	orgs.admin("FREEZE ORG acme")
	assert held(pg) == [1]
	assert client.read_ready() == "C(INSERT 0 1) Z(I)"


def test_freeze_waits_for_a_statement_in_a_block_but_not_for_the_block(orgs, pg):
	client, idle = of_org(orgs, ACME), of_org(orgs, ACME)
	idle.query("begin")
	idle.query("insert into ep values (2)")
	client.query("begin")
	client.send(Q("insert into ep select 1 from pg_sleep(0.7)"))
	until("it runs", lambda: pg.value("select count(*) from pg_stat_activity where query like 'insert into ep select 1%'") == 1)
	orgs.admin("FREEZE ORG acme")
	assert client.read_ready() == "C(INSERT 0 1) Z(T)"
	for one in (client, idle):
		assert one.talk(Q("commit")) == "E(40001) Z(I)"
	assert held(pg) == []


def test_a_client_that_comes_to_a_frozen_org_finds_it_so(orgs, pg):
	orgs.admin("FREEZE ORG never-seen")
	client = of_org(orgs, "never-seen")
	assert client.talk(Q("insert into ep values (1)")) == "E(25006) Z(I)"
	client.query("set pgweir.org = 'other'")
	client.query("insert into ep values (2)")
	client.query("set pgweir.org = 'never-seen'")
	assert client.talk(Q("insert into ep values (3)")) == "E(25006) Z(I)"
	assert held(pg) == [2]


def test_servers_of_frozen_orgs_and_others_do_not_change_hands(pg, pooler, state_dir):
	weir = weir_of(pg, pooler, state_dir, {"max_user_connections": "1"})
	frozen, free = of_org(weir, "cold"), of_org(weir, "warm")
	weir.admin("FREEZE ORG cold")
	for n in range(5):
		assert frozen.talk(Q("insert into ep values (0)")) == "E(25006) Z(I)"
		assert frozen.value("show transaction_read_only") == "on"
		assert free.value("show transaction_read_only") == "off"
		free.query(f"insert into ep values ({n})")
	assert held(pg) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("command, code", [
	("FREEZE", "42601"), ("FREEZE app", "42601"), ("FREEZE ORG", "42601"), ("FREEZE ORG 'no id!'", "22023"),
	("FREEZE ORG a b", "22023"), ("RESUME ORG cold", "57P03"), ("RESUME a b", "42601"), ("RESUME a = b", "42601"),
])
def test_what_is_no_order_to_an_org_is_refused(weir, command, code):
	with pytest.raises(ServerError) as refused:
		weir.admin(command)
	assert refused.value.fields["C"] == code


def test_writers_of_a_thousand_transactions_lose_none_that_was_acknowledged(orgs, pg):
	"""Fence, unfence, freeze and resume under load: what a writer was told is there, is there, once."""
	told, failed = set(), []
	stop = threading.Event()

	def write(number):
		with of_org(orgs, ACME) as client:
			n = 0
			while not stop.is_set():
				n += 1
				value = number * 1_000_000 + n
				letters = client.talk(Q("begin"), Q(f"insert into ep values ({value})"), Q("commit"), times=3)
				if letters == "C(BEGIN) Z(T) C(INSERT 0 1) Z(T) C(COMMIT) Z(I)":
					told.add(value)
				elif "EOF" in letters or "<" in letters:
					failed.append(letters)
					return
				elif letters.endswith("Z(T)") or letters.endswith("Z(E)"):
					client.query("rollback")

	writers = [threading.Thread(target=write, args=[n]) for n in range(1, 5)]
	for one in writers:
		one.start()
	for _ in range(6):
		for step in ("FENCE main", "UNFENCE main", "FREEZE ORG acme", "RESUME ORG acme"):
			orgs.admin(step)
			if step == "UNFENCE main":
				until("it is served again", lambda: orgs.admin("SHOW FENCES")[0]["state"] == "primary")
			before = len(told)
			if step in ("UNFENCE main", "RESUME ORG acme"):
				until("there are writes again", lambda: len(told) > before + 20, 5)
			elif step == "FREEZE ORG acme": # its answer says that nothing is written any more
				assert pg.value("select count(*) from ep", dbname="app") == pg.value("select count(*) from ep", dbname="app")
	stop.set()
	for one in writers:
		one.join()
	assert not failed
	assert set(held(pg)) == told
	assert len(held(pg)) == len(told)
