"""Django on psycopg2: a database per org, a connection per thread that is kept for a second of requests."""

import contextlib
import io
import os
import random
import socket
import threading

import django
import psycopg2
from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections, models, transaction
from django.db.backends.signals import connection_created

from mix import WHO, ZONES, Arguments, Session, Tally, Work, holds, run_threads, same

OWN = "select worker, n, org, body, sum from pools.line where worker = %s order by n"


def database(arguments, org):
	rng = random.Random(f"{arguments.seed}/{arguments.database}/{org}")
	return {"ENGINE": "django.db.backends.postgresql", "HOST": arguments.host, "PORT": arguments.port, "USER": "app",
	        "PASSWORD": arguments.password, "NAME": arguments.database, "CONN_MAX_AGE": 1,
	        "TIME_ZONE": rng.choice(list(ZONES)),
	        "OPTIONS": {"application_name": arguments.application_name(org), "sslmode": "disable"}}


def configure(arguments):
	databases = {org: database(arguments, org) for org in arguments.orgs}
	settings.configure(DATABASES={"default": {}, **databases}, USE_TZ=True, TIME_ZONE="UTC")
	django.setup()

	def connected(connection, **_):
		# Django sets the time zone by set_config when the server's is another.
		start = connection.settings_dict
		connection.session = Session(start["OPTIONS"]["application_name"], start["TIME_ZONE"])

	connection_created.connect(connected, weak=False)


ARGUMENTS = Arguments("django")
configure(ARGUMENTS)


class Counter(models.Model):
	worker = models.TextField(primary_key=True)
	org = models.TextField()
	n = models.BigIntegerField()

	class Meta:
		app_label, managed, db_table = "pools", False, 'pools"."counter'


class Line(models.Model):
	"""A key of two columns is beyond Django; the sum is as good as one."""

	worker = models.TextField()
	n = models.BigIntegerField()
	org = models.TextField()
	body = models.TextField()
	sum = models.TextField(primary_key=True)

	class Meta:
		app_label, managed, db_table = "pools", False, 'pools"."line'


def as_line(row):
	return Line(**dict(zip(("worker", "n", "org", "body", "sum"), row)))


class DjangoWork(Work):
	errors = (DatabaseError, psycopg2.Error)  # those of COPY come as the driver's own

	def code_of(self, error):
		return getattr(error, "pgcode", None) or error.__cause__.pgcode

	@property
	def client(self):
		return connections[self.org]

	def atomic(self):
		return transaction.atomic(using=self.org)

	def lines(self):
		return Line.objects.using(self.org)

	def ask(self, query, *values):
		with self.client.cursor() as cursor:
			cursor.execute(query, values)
			return cursor.fetchall() if cursor.description else None

	def plan(self, end):
		for act in super().plan(end):
			close_old_connections()
			yield act

	def begin(self):
		Counter.objects.using(self.org).create(worker=self.ledger.worker, org=self.org, n=0)

	def finish(self):
		connections.close_all()

	def count_up(self):
		"""The counter as it must be, and one more; nothing is committed yet."""
		own = Counter.objects.using(self.org).filter(worker=self.ledger.worker)
		locked = own.select_for_update().get()
		same((locked.n, locked.org), (self.ledger.counter, self.org), "counter")
		same(own.update(n=models.F("n") + 1), 1, "updated counters")
		same(own.get().n, self.ledger.counter + 1, "counter + 1")

	def insert(self, row):
		as_line(row).save(using=self.org, force_insert=True)

	def act_add(self):
		row = self.ledger.new_row()
		self.insert(row)
		self.ledger.keep(row)

	def act_move(self):
		row = self.ledger.new_row()
		with self.atomic():
			self.count_up()
			self.insert(row)
		self.ledger.counter += 1
		self.ledger.keep(row)

	def act_undo(self):
		with self.atomic():
			self.count_up()
			self.insert(self.ledger.new_row())
			transaction.set_rollback(True, using=self.org)

	def act_save(self):
		first, second = self.ledger.new_rows(2)
		with self.atomic():
			self.insert(first)
			with self.expect("23505"), self.atomic():
				self.insert(second)
				self.insert(first)
			savepoint = transaction.savepoint(using=self.org)
			self.insert(second)
			transaction.savepoint_rollback(savepoint, using=self.org)
			with self.atomic():
				self.insert(second)
		self.ledger.keep(first, second)

	def act_fail(self):
		with self.expect("22012"):
			self.ask("select 1 / %s", 0)
		with self.expect("42P01"):
			self.ask("select * from pools.no_such_table where x = %s", 1)
		with self.expect("22P02"):
			self.ask("select cast(%s as int)", "no number")
		same(self.ask("select %s", self.ledger.worker), [(self.ledger.worker,)], "after errors")
		with self.atomic():
			self.insert(self.ledger.new_row())
			with self.expect("22012"):
				self.ask("select 1 / %s", 0)
			with self.expect("25P02"):
				self.ask("select 1")
			transaction.set_rollback(True, using=self.org)
		return 5

	def act_look(self):
		"""Inside a transaction iterator() is a server-side cursor."""
		with self.atomic():
			rows = self.lines().filter(worker=self.ledger.worker).order_by("n")
			rows = rows.values_list("worker", "n", "org", "body", "sum")
			self.ledger.check(rows.iterator(chunk_size=self.rng.choice([3, 10, 1000])))
			counter = Counter.objects.using(self.org).get(worker=self.ledger.worker)
			same((counter.n, counter.org), (self.ledger.counter, self.org), "counter")

	def see_who(self, session=None):
		got = self.ask(WHO)[0]
		same(tuple(got), (session or self.client.session).row(), "settings")

	def act_who(self):
		self.see_who()

	def act_set(self):
		self.client.ensure_connection()
		new = self.client.session.other(self.rng)
		for command in new.commands(self.rng.choice(["", "session"])):
			self.ask(command)
		self.client.session.become(new)
		self.see_who()
		return 4

	def act_tryset(self):
		for local in ("", "local"):
			with self.atomic():
				new = self.client.session.other(self.rng)
				for command in new.commands(local):
					self.ask(command)
				self.see_who(new)
				transaction.set_rollback(not local, using=self.org)
			self.see_who()
		return 4

	def act_copy(self):
		rows = self.ledger.new_rows(self.rng.randrange(1, 8))

		def lines(rows):
			return io.StringIO("".join("\t".join(map(str, row)) + "\n" for row in rows))

		with self.client.cursor() as cursor:
			cursor.copy_expert("copy pools.line from stdin", lines(rows))
			self.ledger.keep(*rows)
			with self.expect("23505"):
				cursor.copy_expert("copy pools.line from stdin", lines([self.ledger.new_row(), rows[0]]))
			out = io.StringIO()
			cursor.copy_expert(cursor.mogrify(f"copy ({OWN}) to stdout", [self.ledger.worker]).decode(), out)
		got = [line.split("\t") for line in out.getvalue().split("\n")[:-1]]
		self.ledger.check((worker, int(n), *rest) for worker, n, *rest in got)
		return 3

	def act_cancel(self):
		self.client.ensure_connection()
		inner = self.client.connection
		over = threading.Event()

		def cancel():
			# Until the query has ended: a cancel that came too early hit nothing.
			while not over.wait(0.05):
				inner.cancel()

		canceller = threading.Thread(target=cancel)
		canceller.start()
		try:
			with self.expect("57014"), self.atomic() if self.rng.random() < 0.5 else contextlib.nullcontext():
				self.ask("select pg_sleep(30)")
		finally:
			over.set()
			canceller.join()
		same(self.ask("select %s", self.ledger.worker), [(self.ledger.worker,)], "after a cancel")
		return 2

	def act_timeout(self):
		with self.expect("57014"), self.atomic():
			self.insert(self.ledger.new_row())
			self.ask("set local statement_timeout = '20ms'")
			self.ask("select pg_sleep(30)")

	def act_large(self):
		value = self.ledger.text(1000) * 400
		same(self.ask("select %s", value), [(value,)], "large value")

	def act_adhoc(self):
		for _ in range(8):
			k, x = self.rng.randrange(60), self.rng.randrange(1000)
			same(self.ask(f"select %s + {k}, %s", x, self.ledger.worker), [(x + k, self.ledger.worker)], "ad hoc query")
		return 8

	def act_batch(self):
		rows = self.ledger.new_rows(20)
		lines = [as_line(row) for row in rows]
		self.lines().bulk_create(lines, batch_size=7)
		self.ledger.keep(*rows)
		self.lines().bulk_update(lines, ["org"], batch_size=10)
		with self.expect("23505"):
			self.lines().bulk_create([as_line(row) for row in [*self.ledger.new_rows(5), rows[0]]], batch_size=4)
		return 3

	def act_hold(self):
		for command, answer in self.rng.choice(holds(self.ledger.worker)):
			got = self.ask(command)
			same(answer and got, answer, command)
		return 4

	def act_trim(self):
		last, numbers = self.ledger.oldest()
		gone, _ = self.lines().filter(worker=self.ledger.worker, n__lte=last).delete()
		same(gone, len(numbers), "deleted rows")
		self.ledger.drop(numbers)

	def act_leave(self):
		transaction.set_autocommit(False, using=self.org)
		self.insert(self.ledger.new_row())
		with socket.socket(fileno=os.dup(self.client.connection.fileno())) as below:
			below.shutdown(socket.SHUT_RDWR)
		self.client.close()


def main():
	tally = Tally()
	works = [DjangoWork(ARGUMENTS, tally, org, place) for org in ARGUMENTS.orgs for place in range(ARGUMENTS.workers)]
	run_threads(ARGUMENTS, works, tally)


if __name__ == "__main__":
	main()
