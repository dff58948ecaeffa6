"""psycopg 3 with psycopg_pool: every second org prepares at once and keeps few names, pipelines in all."""

import logging
import os
import random
import socket
import threading

import psycopg
import psycopg_pool

from mix import POOL, WHO, Arguments, Session, Tally, Work, holds, run_threads, same

ROW = "insert into pools.line values (%s, %s, %s, %s, %s)"
OWN = "select worker, n, org, body, sum from pools.line where worker = %s order by n"
COUNT_UP = "update pools.counter set n = n + 1 where worker = %s returning n"


def conninfo(arguments, org):
	return psycopg.conninfo.make_conninfo(
		host=arguments.host, port=arguments.port, dbname=arguments.database, user="app",
		password=arguments.password, sslmode="disable", application_name=arguments.application_name(org))


def make_pool(arguments, org, place):
	rng = random.Random(f"{arguments.seed}/{arguments.database}/{org}")

	def configure(connection):
		connection.session = Session(arguments.application_name(org))
		if place % 2 == 0:
			connection.prepare_threshold = 0
			connection.prepared_max = rng.choice([3, 20])

	return psycopg_pool.ConnectionPool(conninfo(arguments, org), min_size=POOL, max_size=POOL, configure=configure,
	                                   kwargs={"autocommit": True}, timeout=60, open=True)


class PsycopgWork(Work):
	errors = psycopg.Error

	def __init__(self, *more, pool):
		super().__init__(*more)
		self.pool = pool

	def begin(self):
		with self.pool.connection() as client:
			client.execute("insert into pools.counter values (%s, %s, 0)", [self.ledger.worker, self.org])

	def count_up(self, client):
		"""The counter as it must be, and one more; nothing is committed yet."""
		locked = client.execute("select n, org from pools.counter where worker = %s for update",
		                        [self.ledger.worker]).fetchone()
		same(locked, (self.ledger.counter, self.org), "counter")
		raised = client.execute(COUNT_UP, [self.ledger.worker]).fetchone()
		same(raised, (self.ledger.counter + 1,), "counter + 1")

	def act_add(self):
		row = self.ledger.new_row()
		with self.pool.connection() as client:
			client.execute(ROW, row)
		self.ledger.keep(row)

	def act_move(self):
		row = self.ledger.new_row()
		with self.pool.connection() as client, client.transaction():
			self.count_up(client)
			client.execute(ROW, row)
		self.ledger.counter += 1
		self.ledger.keep(row)

	def act_undo(self):
		with self.pool.connection() as client, client.transaction(force_rollback=True):
			self.count_up(client)
			client.execute(ROW, self.ledger.new_row())

	def act_save(self):
		first, second = self.ledger.new_rows(2)
		with self.pool.connection() as client, client.transaction():
			client.execute(ROW, first)
			with self.expect("23505"), client.transaction():
				client.execute(ROW, second)
				client.execute(ROW, first)
			with client.transaction(force_rollback=True):
				client.execute(ROW, second)
			with client.transaction():
				client.execute(ROW, second)
		self.ledger.keep(first, second)

	def act_fail(self):
		with self.pool.connection() as client:
			with self.expect("22012"):
				client.execute("select 1 / %s::int", [0])
			with self.expect("42P01"):
				client.execute("select * from pools.no_such_table where x = %s", [1])
			with self.expect("22P02"):
				client.execute("select %s::int", ["no number"])
			with self.expect("25P02"), client.transaction():
				client.execute(ROW, self.ledger.new_row())
				with self.expect("22012"):
					client.execute("select 1 / %s::int", [0])
				client.execute("select %s::int", [1])
			same(client.execute("select %s::text", [self.ledger.worker]).fetchone(), (self.ledger.worker,), "after errors")
		return 5

	def act_look(self):
		with self.pool.connection() as client, client.transaction():
			with client.cursor(f"c{self.rng.randrange(3)}") as cursor:
				cursor.itersize = self.rng.choice([3, 10, 1000])
				cursor.execute(OWN, [self.ledger.worker])
				self.ledger.check(cursor)
			row = client.execute("select n, org from pools.counter where worker = %s", [self.ledger.worker]).fetchone()
			same(row, (self.ledger.counter, self.org), "counter")

	def see_who(self, client):
		same(client.execute(WHO).fetchone(), client.session.row(), "settings")

	def act_who(self):
		with self.pool.connection() as client:
			self.see_who(client)

	def act_set(self):
		with self.pool.connection() as client:
			new = client.session.other(self.rng)
			for command in new.commands(self.rng.choice(["", "session"])):
				client.execute(command)
			client.session.become(new)
			self.see_who(client)
		return 4

	def act_tryset(self):
		with self.pool.connection() as client:
			for local in ("", "local"):
				new = client.session.other(self.rng)
				with client.transaction(force_rollback=not local):
					for command in new.commands(local):
						client.execute(command)
					same(client.execute(WHO).fetchone(), new.row(), "settings of the transaction")
				self.see_who(client)
		return 4

	def act_copy(self):
		rows = self.ledger.new_rows(self.rng.randrange(1, 8))
		with self.pool.connection() as client, client.cursor() as cursor:
			with cursor.copy("copy pools.line from stdin") as copy:
				for row in rows:
					copy.write_row(row)
			self.ledger.keep(*rows)
			with self.expect("23505"), cursor.copy("copy pools.line from stdin") as copy:
				copy.write_row(self.ledger.new_row())
				copy.write_row(rows[0])
			with cursor.copy(f"copy ({OWN}) to stdout", [self.ledger.worker]) as copy:
				copy.set_types(["text", "int8", "text", "text", "text"])
				self.ledger.check(copy.rows())
		return 3

	def act_cancel(self):
		with self.pool.connection() as client:
			over = threading.Event()

			def cancel():
				# Until the query has ended: a cancel that came too early hit nothing.
				while not over.wait(0.05):
					client.cancel()

			canceller = threading.Thread(target=cancel)
			canceller.start()
			try:
				with self.expect("57014"):
					client.execute("select pg_sleep(30)")
			finally:
				over.set()
				canceller.join()
			same(client.execute("select %s::text", [self.ledger.worker]).fetchone(), (self.ledger.worker,), "after a cancel")
		return 2

	def act_timeout(self):
		with self.pool.connection() as client, self.expect("57014"), client.transaction():
			client.execute(ROW, self.ledger.new_row())
			client.execute("set local statement_timeout = '20ms'")
			client.execute("select pg_sleep(30)")

	def act_large(self):
		text = self.ledger.text(1000) * 400
		with self.pool.connection() as client:
			got = client.execute("select %s::text, md5(%s::text)", [text, text]).fetchone()
		same(got[0], text, "large value")

	def act_adhoc(self):
		with self.pool.connection() as client:
			for _ in range(8):
				k, x = self.rng.randrange(60), self.rng.randrange(1000)
				got = client.execute(f"select %s::int + {k}, %s::text", [x, self.ledger.worker]).fetchone()
				same(got, (x + k, self.ledger.worker), "ad hoc query")
		return 8

	def pipeline_of_rows(self, client):
		rows = self.ledger.new_rows(20)
		with client.pipeline() as pipeline:
			cursors = []
			for row in rows:
				cursors.append(client.execute(ROW + " returning n", row))
				if self.rng.random() < 0.1:
					pipeline.sync()
		same([cursor.fetchone()[0] for cursor in cursors], [row[1] for row in rows], "numbers of a pipeline")
		self.ledger.keep(*rows)

	def pipeline_with_error(self, client):
		"""Without a sync all of it is one transaction, and the error undoes it.

		Not prepared by name: psycopg 3.1 takes the statements behind the error for prepared (26000, without a pooler too).
		"""
		with self.expect("23505", "22012"), client.pipeline():
			for row in self.ledger.new_rows(5):
				client.execute(ROW, row, prepare=False)
			if self.rng.random() < 0.5:
				client.execute("select 1 / %s::int", [0], prepare=False)
			else:
				client.execute(ROW, self.ledger.new_row(), prepare=False)
			for row in self.ledger.new_rows(5):
				client.execute(ROW, row, prepare=False)

	def pipeline_of_transactions(self, client):
		kept, undone = self.ledger.new_row(), self.ledger.new_row(ahead=1)
		with client.pipeline():
			with client.transaction():
				client.execute(ROW, kept)
			self.ledger.keep(kept)
			with client.transaction(force_rollback=True):
				client.execute(ROW, undone)
			cursor = client.execute("select count(*) from pools.line where worker = %s", [self.ledger.worker])
			same(cursor.fetchone(), (len(self.ledger.rows),), "rows behind two transactions")

	def many_at_once(self, client):
		rows = self.ledger.new_rows(20)
		with client.cursor() as cursor:
			cursor.executemany(ROW + " returning n", rows, returning=True)
			got = [cursor.fetchone()[0]]
			while cursor.nextset():
				got.append(cursor.fetchone()[0])
		same(got, [row[1] for row in rows], "numbers of executemany")
		self.ledger.keep(*rows)

	def act_batch(self):
		ways = [self.pipeline_of_rows, self.pipeline_with_error, self.pipeline_of_transactions, self.many_at_once]
		with self.pool.connection() as client:
			for way in self.rng.sample(ways, 2):
				way(client)
		return 3

	def act_hold(self):
		with self.pool.connection() as client:
			for command, answer in self.rng.choice(holds(self.ledger.worker)):
				cursor = client.execute(command)
				same(answer and cursor.fetchall(), answer, command)
		return 4

	def act_trim(self):
		last, numbers = self.ledger.oldest()
		with self.pool.connection() as client:
			gone = client.execute("delete from pools.line where worker = %s and n <= %s returning n",
			                      [self.ledger.worker, last]).fetchall()
		same(sorted(n for n, in gone), numbers, "numbers of deleted rows")
		self.ledger.drop(numbers)

	def act_leave(self):
		client = psycopg.connect(conninfo(self.arguments, self.org))
		client.execute(ROW, self.ledger.new_row())
		if self.rng.random() < 0.5:
			client.close()
			return
		with socket.socket(fileno=os.dup(client.fileno())) as inner:
			inner.shutdown(socket.SHUT_RDWR)
		client.close()


def main():
	logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # it warns of each pipeline that an error ended
	arguments = Arguments("psycopg")
	tally = Tally()
	works = []
	for number, org in enumerate(arguments.orgs):
		pool = make_pool(arguments, org, number)
		works += [PsycopgWork(arguments, tally, org, place, pool=pool) for place in range(arguments.workers)]
	run_threads(arguments, works, tally)


if __name__ == "__main__":
	main()
