"""SQLAlchemy on psycopg2: an engine and its QueuePool per org, tested with pre-ping and renewed all the time."""

import io
import os
import random
import socket
import threading

import psycopg2
import sqlalchemy
from sqlalchemy import BigInteger, Column, MetaData, Table, Text, bindparam, delete, insert, select, text, update

from mix import POOL, WHO, ZONES, Arguments, Session, Tally, Work, holds, run_threads, same

TABLES = MetaData(schema="pools")
COUNTER = Table("counter", TABLES, Column("worker", Text, primary_key=True), Column("org", Text), Column("n", BigInteger))
LINE = Table("line", TABLES, Column("worker", Text, primary_key=True), Column("n", BigInteger, primary_key=True),
             Column("org", Text), Column("body", Text), Column("sum", Text))
COLUMNS = [column.name for column in LINE.columns]


def named(row):
	return dict(zip(COLUMNS, row))


def make_engine(arguments, org, place):
	rng = random.Random(f"{arguments.seed}/{arguments.database}/{org}")
	start = Session(arguments.application_name(org), zone=rng.choice(list(ZONES)))
	engine = sqlalchemy.create_engine(
		sqlalchemy.engine.URL.create("postgresql+psycopg2", "app", arguments.password, arguments.host, arguments.port,
		                             arguments.database),
		future=True, pool_size=POOL - 1, max_overflow=1, pool_timeout=60, pool_pre_ping=True, pool_recycle=1,
		executemany_mode="values_plus_batch" if place % 2 else "values_only",
		connect_args={"application_name": start.name, "options": f"-c TimeZone={start.zone}", "sslmode": "disable"})

	@sqlalchemy.event.listens_for(engine, "connect")
	def connected(_, record):
		record.info["session"] = Session(start.name, start.zone)

	return engine


class SqlalchemyWork(Work):
	errors = (sqlalchemy.exc.DBAPIError, psycopg2.Error)

	def __init__(self, *more, engine):
		super().__init__(*more)
		self.engine = engine

	def code_of(self, error):
		return getattr(error, "orig", error).pgcode

	def autocommit(self):
		return self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")

	def begin(self):
		with self.engine.begin() as client:
			client.execute(insert(COUNTER).values(worker=self.ledger.worker, org=self.org, n=0))

	def count_up(self, client):
		"""The counter as it must be, and one more; nothing is committed yet."""
		own = COUNTER.c.worker == self.ledger.worker
		locked = client.execute(select(COUNTER.c.n, COUNTER.c.org).where(own).with_for_update()).one()
		same(tuple(locked), (self.ledger.counter, self.org), "counter")
		raised = client.execute(update(COUNTER).where(own).values(n=COUNTER.c.n + 1).returning(COUNTER.c.n)).scalar_one()
		same(raised, self.ledger.counter + 1, "counter + 1")

	def act_add(self):
		row = self.ledger.new_row()
		with self.autocommit() as client:
			client.execute(insert(LINE), named(row))
		self.ledger.keep(row)

	def act_move(self):
		row = self.ledger.new_row()
		level = self.rng.choice(["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
		with self.engine.connect().execution_options(isolation_level=level) as client, client.begin():
			self.count_up(client)
			client.execute(insert(LINE), named(row))
		self.ledger.counter += 1
		self.ledger.keep(row)

	def act_undo(self):
		with self.engine.connect() as client, client.begin() as transaction:
			self.count_up(client)
			client.execute(insert(LINE), named(self.ledger.new_row()))
			transaction.rollback()

	def act_save(self):
		first, second = self.ledger.new_rows(2)
		with self.engine.begin() as client:
			client.execute(insert(LINE), named(first))
			with self.expect("23505"), client.begin_nested():
				client.execute(insert(LINE), named(second))
				client.execute(insert(LINE), named(first))
			with client.begin_nested() as savepoint:
				client.execute(insert(LINE), named(second))
				savepoint.rollback()
			with client.begin_nested():
				client.execute(insert(LINE), named(second))
		self.ledger.keep(first, second)

	def act_fail(self):
		with self.autocommit() as client:
			with self.expect("22012"):
				client.execute(text("select 1 / :x"), {"x": 0})
			with self.expect("42P01"):
				client.execute(text("select * from pools.no_such_table where x = :x"), {"x": 1})
			with self.expect("22P02"):
				client.execute(text("select cast(:x as int)"), {"x": "no number"})
			same(client.execute(text("select :x"), {"x": self.ledger.worker}).scalar(), self.ledger.worker, "after errors")
		with self.engine.connect() as client:
			client.execute(insert(LINE), named(self.ledger.new_row()))
			with self.expect("22012"):
				client.execute(text("select 1 / :x"), {"x": 0})
			with self.expect("25P02"):
				client.execute(text("select 1"))
		return 5

	def act_look(self):
		with self.engine.connect() as client, client.begin():
			streamed = client.execution_options(stream_results=True, max_row_buffer=self.rng.choice([3, 10, 1000]))
			query = select(LINE).where(LINE.c.worker == self.ledger.worker).order_by(LINE.c.n)
			self.ledger.check(streamed.execute(query))
			row = client.execute(select(COUNTER.c.n, COUNTER.c.org).where(COUNTER.c.worker == self.ledger.worker)).one()
			same(tuple(row), (self.ledger.counter, self.org), "counter")

	def see_who(self, client, session=None):
		same(tuple(client.execute(text(WHO.replace("::", "\\:\\:"))).one()), (session or client.info["session"]).row(), "settings")

	def act_who(self):
		with self.autocommit() as client:
			self.see_who(client)

	def act_set(self):
		with self.autocommit() as client:
			new = client.info["session"].other(self.rng)
			for command in new.commands(self.rng.choice(["", "session"])):
				client.exec_driver_sql(command)
			client.info["session"].become(new)
			self.see_who(client)
		return 4

	def act_tryset(self):
		for local in ("", "local"):
			with self.engine.connect() as client:
				transaction = client.begin()
				new = client.info["session"].other(self.rng)
				for command in new.commands(local):
					client.exec_driver_sql(command)
				self.see_who(client, new)
				(transaction.commit if local else transaction.rollback)()
				self.see_who(client)
		return 4

	def act_copy(self):
		"""By the driver's own connection below, as applications do."""
		rows = self.ledger.new_rows(self.rng.randrange(1, 8))

		def lines(rows):
			return io.StringIO("".join("\t".join(map(str, row)) + "\n" for row in rows))

		with self.engine.connect() as client:
			inner = client.connection.dbapi_connection
			with inner.cursor() as cursor:
				cursor.copy_expert("copy pools.line from stdin", lines(rows))
				inner.commit()
				self.ledger.keep(*rows)
				with self.expect("23505"):
					cursor.copy_expert("copy pools.line from stdin", lines([self.ledger.new_row(), rows[0]]))
				inner.rollback()
				out = io.StringIO()
				cursor.copy_expert(cursor.mogrify("copy (select worker, n, org, body, sum from pools.line where worker = %s "
				                                  "order by n) to stdout", [self.ledger.worker]).decode(), out)
				inner.rollback()
		got = [line.split("\t") for line in out.getvalue().split("\n")[:-1]]
		self.ledger.check((worker, int(n), *rest) for worker, n, *rest in got)
		return 3

	def act_cancel(self):
		with self.engine.connect() as client:
			inner = client.connection.dbapi_connection
			over = threading.Event()

			def cancel():
				# Until the query has ended: a cancel that came too early hit nothing.
				while not over.wait(0.05):
					inner.cancel()

			canceller = threading.Thread(target=cancel)
			canceller.start()
			try:
				with self.expect("57014"):
					client.execute(text("select pg_sleep(30)"))
			finally:
				over.set()
				canceller.join()
			client.rollback()
			same(client.execute(text("select :x"), {"x": self.ledger.worker}).scalar(), self.ledger.worker, "after a cancel")
		return 2

	def act_timeout(self):
		with self.expect("57014"), self.engine.begin() as client:
			client.execute(insert(LINE), named(self.ledger.new_row()))
			client.execute(text("set local statement_timeout = '20ms'"))
			client.execute(text("select pg_sleep(30)"))

	def act_large(self):
		value = self.ledger.text(1000) * 400
		with self.engine.connect() as client:
			same(client.execute(text("select :x"), {"x": value}).scalar(), value, "large value")

	def act_adhoc(self):
		with self.autocommit() as client:
			for _ in range(8):
				k, x = self.rng.randrange(60), self.rng.randrange(1000)
				got = client.execute(text(f"select :x + {k}, :worker"), {"x": x, "worker": self.ledger.worker}).one()
				same(tuple(got), (x + k, self.ledger.worker), "ad hoc query")
		return 8

	def act_batch(self):
		"""executemany by execute_values, and by many statements in one simple query."""
		rows = self.ledger.new_rows(20)
		with self.engine.begin() as client:
			client.execute(insert(LINE), [named(row) for row in rows])
			touch = update(LINE).where(LINE.c.worker == bindparam("w"), LINE.c.n == bindparam("at")).values(org=bindparam("o"))
			client.execute(touch, [{"w": row[0], "at": row[1], "o": self.org} for row in rows])
		self.ledger.keep(*rows)
		with self.expect("23505"), self.engine.begin() as client:
			client.execute(insert(LINE), [named(row) for row in [*self.ledger.new_rows(5), rows[0]]])
		return 2

	def act_hold(self):
		with self.autocommit() as client:
			for command, answer in self.rng.choice(holds(self.ledger.worker)):
				result = client.exec_driver_sql(command)
				same(answer and [tuple(row) for row in result], answer, command)
		return 4

	def act_trim(self):
		last, numbers = self.ledger.oldest()
		with self.engine.begin() as client:
			gone = client.execute(delete(LINE).where(LINE.c.worker == self.ledger.worker, LINE.c.n <= last).returning(LINE.c.n))
			same(sorted(gone.scalars()), numbers, "numbers of deleted rows")
		self.ledger.drop(numbers)

	def act_leave(self):
		with self.engine.connect() as client:
			client.execute(insert(LINE), named(self.ledger.new_row()))
			inner = client.connection.dbapi_connection
			with socket.socket(fileno=os.dup(inner.fileno())) as below:
				below.shutdown(socket.SHUT_RDWR)
			client.invalidate()


def main():
	arguments = Arguments("sqlalchemy")
	tally = Tally()
	works = []
	for number, org in enumerate(arguments.orgs):
		engine = make_engine(arguments, org, number)
		works += [SqlalchemyWork(arguments, tally, org, place, engine=engine) for place in range(arguments.workers)]
	run_threads(arguments, works, tally)


if __name__ == "__main__":
	main()
