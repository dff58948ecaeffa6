"""The third net: the trigger that refuses rows of another epoch. And the note of applied commands beside it."""

import itertools
import uuid

import psycopg
import pytest
from psycopg import errors

from rig.cases import in_threads
from rig.limits import rounds, until
from rig.store import install, make_logins

pytestmark = pytest.mark.apart

_number = itertools.count()


class Protected:
	def __init__(self, server):
		self.server = server
		self.dbname = f"fenced_{next(_number)}"
		for role in ("owner", "writer"):
			if not server.sql("select 1 from pg_roles where rolname = %s", [role]):
				server.sql(f"create role {role} login")
		server.sql(f"create database {self.dbname} owner owner")
		install(server, self.dbname, "fence-trigger")
		install(server, self.dbname, "applied")
		make_logins(server)
		with self.session("owner", None) as owner:
			owner.execute("create table orders (id int primary key, v text); grant all on orders to writer")
			owner.execute("insert into orders values (0, 'old')")
			owner.execute("select pgweir_local.protect('orders')")

	def session(self, user="writer", epoch=1, **how):
		options = "" if epoch is None else f"-c pgweir.epoch={epoch}"
		return psycopg.connect(self.server.dsn(self.dbname, user), options=options, **{"autocommit": True, **how})

	def sql(self, query):
		return self.server.sql(query, dbname=self.dbname)

	def advance(self, epoch, on=None):
		if on:
			return on.execute("select pgweir_local.advance(%s)", [epoch]).fetchone()[0]
		with self.session("store_drain", None) as own:
			return self.advance(epoch, own)


@pytest.fixture
def fenced(shared_pg):
	made = Protected(shared_pg)
	yield made
	shared_pg.drop(made.dbname)


WRITES = ["insert into orders values (1, 'x')", "update orders set v = 'x'", "delete from orders", "truncate orders",
          "insert into orders values (0, 'x') on conflict (id) do update set v = 'x'",
          "with w as (delete from orders returning *) select * from w", "copy orders (id) from program 'echo 5'",
          # Of PostgreSQL 15.
          "merge into orders using (values (0)) w (id) on w.id = orders.id when matched then delete"]


def test_under_the_current_epoch_a_table_is_written_and_under_another_it_is_not(fenced):
	for epoch, ours in ((1, 1), (2, 1), (2, 3), (2, "x"), (2, " 2"), (2, "02")):
		fenced.advance(epoch)
		for write in WRITES:
			with fenced.session("postgres" if "program" in write else "writer", None, autocommit=False) as own:
				own.execute("select set_config('pgweir.epoch', %s, false)", [str(ours)])
				if epoch == ours:
					own.execute(write)
					own.rollback()
					continue
				with pytest.raises(errors.SerializationFailure, match=f"epoch {epoch} is current.* under {ours}"):
					own.execute(write)
	assert fenced.sql("select * from orders") == [(0, "old")]


def test_a_session_that_names_no_epoch_is_refused_unless_the_table_says_it_passes(fenced):
	with fenced.session(epoch=None) as own, fenced.session("owner", None) as owner:
		for name_none in ("select", "set pgweir.epoch = ''", "reset pgweir.epoch"):
			own.execute(name_none)
			with pytest.raises(errors.SerializationFailure, match="under none"):
				own.execute(WRITES[0])
		owner.execute("select pgweir_local.protect('orders', 'passes')")
		own.execute("insert into orders values (1, 'x'); delete from orders where id = 1; truncate orders")
		own.execute("set pgweir.epoch = 7")
		with pytest.raises(errors.SerializationFailure, match="under 7"):
			own.execute(WRITES[0])
		owner.execute("select pgweir_local.unprotect('orders')")
		own.execute(WRITES[0])
		with pytest.raises(errors.InvalidParameterValue):
			owner.execute("select pgweir_local.protect('orders', 'perhaps')")


def test_reading_is_free(fenced):
	with fenced.session(epoch=99) as own:
		assert own.execute("select * from orders").fetchall() == [(0, "old")]


def test_partitions_are_protected_by_whichever_name_they_are_written(fenced):
	with fenced.session("owner", 1) as owner, fenced.session("owner", 9) as stale:
		owner.execute("create table parts (id int) partition by range (id)")
		owner.execute("create table p1 partition of parts for values from (0) to (10)")
		owner.execute("select pgweir_local.protect('parts')")
		owner.execute("create table p2 partition of parts for values from (10) to (20)")
		owner.execute("insert into parts values (1), (11); insert into p2 values (12)")
		for write in ("insert into parts values (2)", "insert into p1 values (2)", "insert into p2 values (13)", "delete from p1",
		              "truncate parts"):
			with pytest.raises(errors.SerializationFailure):
				stale.execute(write)


def test_a_cascade_from_a_table_that_is_not_protected_is_refused(fenced):
	with fenced.session("owner", None) as owner:
		owner.execute("create table customers (id int primary key); insert into customers values (1)")
		owner.execute("create table bills (c int references customers on delete cascade); insert into bills values (1)")
		owner.execute("select pgweir_local.protect('bills')")
		with pytest.raises(errors.SerializationFailure):
			owner.execute("delete from customers")
		assert owner.execute("select count(*) from bills").fetchone() == (1,)


def waits(fenced, connection):
	return fenced.server.value("select count(*) from pg_locks where pid = %s and not granted", [connection.info.backend_pid])


def test_the_epoch_moves_on_only_when_the_old_ones_writers_are_done(fenced):
	with fenced.session(autocommit=False) as writer, fenced.session("store_drain", None) as drain:
		writer.execute(WRITES[0])
		moved = []

		def commit_later():
			until("advance waits", lambda: waits(fenced, drain))
			assert fenced.sql("select epoch from pgweir_local.current")[0][0] == 1
			writer.commit()

		in_threads(commit_later, lambda: moved.append(fenced.advance(2, drain)))
		assert moved == [2]
		with pytest.raises(errors.SerializationFailure):
			writer.execute("update orders set v = 'late'")


def test_a_writer_that_does_not_end_keeps_the_epoch_and_others_waiting_for_three_seconds_at_most(fenced):
	with fenced.session(autocommit=False) as writer, fenced.session("store_drain", None) as drain:
		writer.execute(WRITES[0])
		with pytest.raises(errors.LockNotAvailable):
			fenced.advance(2, drain)
		writer.rollback()
		assert fenced.advance(2, drain) == 2


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_transaction_whose_snapshot_shows_the_old_epoch_is_refused(fenced, level):
	with fenced.session(autocommit=False) as writer:
		writer.execute(f"set transaction isolation level {level}")
		writer.execute("select * from orders")
		fenced.advance(2)
		with pytest.raises(errors.SerializationFailure):
			writer.execute(WRITES[0])
	with fenced.session(epoch=2, autocommit=False) as writer:
		writer.execute(f"set transaction isolation level {level}")
		writer.execute(WRITES[0])
		writer.commit()


def test_what_passed_before_a_savepoint_that_is_rolled_back_is_looked_at_again(fenced):
	with fenced.session(autocommit=False) as writer:
		writer.execute("savepoint s")
		writer.execute(WRITES[0])
		writer.execute("rollback to s")
		assert fenced.advance(2) == 2 # nothing of the writer's is left to wait for
		with pytest.raises(errors.SerializationFailure, match="epoch 2 is current"):
			writer.execute(WRITES[0])


def test_a_transaction_that_passed_has_not_passed_for_the_next_one(fenced):
	with fenced.session() as writer:
		writer.execute(WRITES[0])
		fenced.advance(2)
		with pytest.raises(errors.SerializationFailure):
			writer.execute("update orders set v = 'x'")


def test_a_prepared_transaction_is_waited_for_too(fenced):
	with fenced.session(autocommit=False) as writer:
		writer.execute(WRITES[0])
		writer.execute("prepare transaction 'old'")
	with pytest.raises(errors.LockNotAvailable):
		fenced.advance(2)
	fenced.sql("rollback prepared 'old'")
	assert fenced.advance(2) == 2


def test_the_epoch_never_goes_back(fenced):
	assert fenced.advance(5) == 5
	assert fenced.advance(4) == 5
	assert fenced.advance(None) == 5
	for change in ("update pgweir_local.current set epoch = 4", "delete from pgweir_local.current", "truncate pgweir_local.current"):
		with pytest.raises(errors.ObjectNotInPrerequisiteState):
			fenced.sql(change)
	install(fenced.server, fenced.dbname, "fence-trigger")
	assert fenced.sql("select epoch from pgweir_local.current")[0][0] == 5


def test_only_the_drain_side_moves_the_epoch_and_notes_commands(fenced):
	with fenced.session() as own:
		for call in ("advance(9)", f"apply_once('{uuid.uuid4()}', 1)", "forget()"):
			with pytest.raises(errors.InsufficientPrivilege):
				own.execute(f"select pgweir_local.{call}")
		for write in ("insert into pgweir_local.current values (true, 9)", "update pgweir_local.current set epoch = 9",
		              "begin; lock pgweir_local.current in exclusive mode"):
			with pytest.raises(errors.InsufficientPrivilege):
				own.execute(write)
			own.rollback()
		assert own.execute("select epoch from pgweir_local.current").fetchone() == (1,)


# --- the note of applied commands

def test_of_many_who_apply_a_command_at_once_one_does(fenced):
	for _ in range(rounds(10)):
		command, first = uuid.uuid4(), []

		def worker():
			with fenced.session("store_drain", None) as own:
				first.append(own.execute("select pgweir_local.apply_once(%s, 1)", [command]).fetchone()[0])

		in_threads(*[worker] * 4)
		assert sorted(first) == [False] * 3 + [True]


def test_a_note_that_was_rolled_back_was_not_made(fenced):
	command = uuid.uuid4()
	with fenced.session("store_drain", None, autocommit=False) as own:
		for _ in range(2):
			assert own.execute("select pgweir_local.apply_once(%s, 1)", [command]).fetchone() == (True,)
			own.rollback()


def test_old_notes_are_forgotten_on_request(fenced):
	with fenced.session("store_drain", None) as own:
		own.execute("select pgweir_local.apply_once(%s, 1)", [uuid.uuid4()])
		assert own.execute("select pgweir_local.forget()").fetchone() == (0,)
		fenced.sql("update pgweir_local.applied set applied_at = applied_at - interval '91 d'")
		assert own.execute("select pgweir_local.forget()").fetchone() == (1,)
