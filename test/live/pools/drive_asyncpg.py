"""asyncpg with its own pool and statement cache; its pool says RESET ALL whenever a connection is given back."""

import asyncio
import os
import random
import sys
import time

import asyncpg

from mix import POOL, WHO, ZONES, Arguments, Session, Tally, Work, holds, report, same

ROW = "insert into pools.line values ($1, $2, $3, $4, $5)"
OWN = "select worker, n, org, body, sum from pools.line where worker = $1 order by n"
COUNT_UP = "update pools.counter set n = n + 1 where worker = $1 returning n"


def how_to_connect(arguments, org, place):
	rng = random.Random(f"{arguments.seed}/{arguments.database}/{org}")
	start = Session(arguments.application_name(org), zone=rng.choice(list(ZONES)))
	return start, {"host": arguments.host, "port": arguments.port, "user": "app", "password": arguments.password,
	               "database": arguments.database, "ssl": False, "timeout": 60,
	               "statement_cache_size": 4 if place % 2 else 100,
	               "server_settings": {"application_name": start.name, "TimeZone": start.zone}}


class AsyncpgWork(Work):
	errors = asyncpg.PostgresError

	def __init__(self, *more, pool, start, how):
		super().__init__(*more)
		self.pool, self.start, self.how = pool, start, how

	async def work(self, end):
		act = "begin"
		try:
			await self.begin()
			for act in self.plan(end):
				if self.tally.faults:
					break
				self.done += 1
				self.tally.count(act, await getattr(self, f"act_{act}")() or 1)
		except BaseException:
			self.blame(act)

	async def begin(self):
		async with self.pool.acquire() as client:
			await client.execute("insert into pools.counter values ($1, $2, 0)", self.ledger.worker, self.org)

	async def count_up(self, client):
		"""The counter as it must be, and one more; nothing is committed yet."""
		locked = await client.fetchrow("select n, org from pools.counter where worker = $1 for update", self.ledger.worker)
		same(tuple(locked), (self.ledger.counter, self.org), "counter")
		same(await client.fetchval(COUNT_UP, self.ledger.worker), self.ledger.counter + 1, "counter + 1")

	async def is_usable(self, client):
		same(await client.fetchval("select $1::text", self.ledger.worker), self.ledger.worker, "after an error")

	async def act_add(self):
		row = self.ledger.new_row()
		async with self.pool.acquire() as client:
			same(await client.execute(ROW, *row), "INSERT 0 1", "tag")
		self.ledger.keep(row)

	async def act_move(self):
		row = self.ledger.new_row()
		async with self.pool.acquire() as client, client.transaction(isolation=self.rng.choice(
				["read_committed", "serializable", "repeatable_read"])):
			await self.count_up(client)
			await client.execute(ROW, *row)
		self.ledger.counter += 1
		self.ledger.keep(row)

	async def act_undo(self):
		async with self.pool.acquire() as client:
			transaction = client.transaction()
			await transaction.start()
			await self.count_up(client)
			await client.execute(ROW, *self.ledger.new_row())
			await transaction.rollback()

	async def act_save(self):
		first, second = self.ledger.new_rows(2)
		async with self.pool.acquire() as client, client.transaction():
			await client.execute(ROW, *first)
			with self.expect("23505"):
				async with client.transaction():
					await client.execute(ROW, *second)
					await client.execute(ROW, *first)
			async with client.transaction():
				await client.execute(ROW, *second)
		self.ledger.keep(first, second)

	async def act_fail(self):
		async with self.pool.acquire() as client:
			with self.expect("22012"):
				await client.fetchval("select 1 / $1::int", 0)
			with self.expect("42P01"):
				await client.fetch("select * from pools.no_such_table where x = $1", 1)
			with self.expect("22P02"):
				await client.fetchval("select $1::text::int", "no number")
			transaction = client.transaction()
			await transaction.start()
			await client.execute(ROW, *self.ledger.new_row())
			with self.expect("22012"):
				await client.fetchval("select 1 / $1::int", 0)
			with self.expect("25P02"):
				await client.fetchval("select $1::int", 1)
			await transaction.rollback()
			await self.is_usable(client)
		return 5

	async def act_look(self):
		async with self.pool.acquire() as client, client.transaction():
			rows = [row async for row in client.cursor(OWN, self.ledger.worker, prefetch=self.rng.choice([3, 10, 1000]))]
			self.ledger.check(rows)
			row = await client.fetchrow("select n, org from pools.counter where worker = $1", self.ledger.worker)
			same(tuple(row), (self.ledger.counter, self.org), "counter")

	async def see_who(self, client, session):
		same(tuple(await client.fetchrow(WHO)), session.row(), "settings")

	async def act_who(self):
		async with self.pool.acquire() as client:
			await self.see_who(client, self.start)

	async def act_set(self):
		"""For as long as the pool leaves the connection with us: what RESET ALL makes of it, act_who will see."""
		async with self.pool.acquire() as client:
			new = self.start.other(self.rng)
			for command in new.commands():
				await client.execute(command)
			for _ in range(3):
				await self.see_who(client, new)
		await self.act_who()
		return 6

	async def act_tryset(self):
		async with self.pool.acquire() as client:
			for local in ("", "local"):
				new = self.start.other(self.rng)
				transaction = client.transaction()
				await transaction.start()
				for command in new.commands(local):
					await client.execute(command)
				await self.see_who(client, new)
				await (transaction.commit() if local else transaction.rollback())
				await self.see_who(client, self.start)
		return 4

	async def act_copy(self):
		rows = self.ledger.new_rows(self.rng.randrange(1, 8))
		async with self.pool.acquire() as client:
			await client.copy_records_to_table("line", schema_name="pools", records=rows)
			self.ledger.keep(*rows)
			with self.expect("23505"):
				await client.copy_records_to_table("line", schema_name="pools", records=[self.ledger.new_row(), rows[0]])
			pieces = []

			async def take(piece):
				pieces.append(piece)

			await client.copy_from_query("select n, sum from pools.line where worker = $1 order by n", self.ledger.worker,
			                             output=take)
		want = "".join(f"{n}\t{self.ledger.rows[n][4]}\n" for n in sorted(self.ledger.rows))
		same(b"".join(pieces).decode(), want, "COPY out")
		return 3

	async def act_cancel(self):
		"""asyncpg cancels a query whose task is cancelled, or whose time is over."""
		async with self.pool.acquire() as client:
			if self.rng.random() < 0.5:
				try:
					await client.fetchval("select pg_sleep(30)", timeout=0.05)
				except asyncio.TimeoutError:
					self.tally.error("57014")
			else:
				task = asyncio.ensure_future(client.fetchval("select pg_sleep($1)", 30))
				await asyncio.sleep(0.05)
				task.cancel()
				try:
					await task
				except asyncio.CancelledError:
					self.tally.error("57014")
			await self.is_usable(client)
		return 2

	async def act_timeout(self):
		with self.expect("57014"):
			async with self.pool.acquire() as client, client.transaction():
				await client.execute(ROW, *self.ledger.new_row())
				await client.execute("set local statement_timeout = '20ms'")
				await client.fetchval("select pg_sleep(30)")

	async def act_large(self):
		text = self.ledger.text(1000) * 400
		async with self.pool.acquire() as client:
			same(await client.fetchval("select $1::text", text), text, "large value")

	async def act_adhoc(self):
		async with self.pool.acquire() as client:
			for _ in range(8):
				k, x = self.rng.randrange(60), self.rng.randrange(1000)
				got = await client.fetchrow(f"select $1::int + {k}, $2::text", x, self.ledger.worker)
				same(tuple(got), (x + k, self.ledger.worker), "ad hoc query")
		return 8

	async def act_batch(self):
		"""executemany is one transaction: all rows or none."""
		rows = self.ledger.new_rows(20)
		async with self.pool.acquire() as client:
			with self.expect("23505"):
				await client.executemany(ROW, [*rows, rows[0], *rows[5:]])
			await client.executemany(ROW, rows)
			self.ledger.keep(*rows)
			count = await client.fetchval("select count(*) from pools.line where worker = $1", self.ledger.worker)
			same(count, len(self.ledger.rows), "rows")
		return 3

	async def act_hold(self):
		async with self.pool.acquire() as client:
			for command, answer in self.rng.choice(holds(self.ledger.worker)):
				if answer:
					same([tuple(row) for row in await client.fetch(command)], answer, command)
				else:
					await client.execute(command)
		return 4

	async def act_trim(self):
		last, numbers = self.ledger.oldest()
		async with self.pool.acquire() as client:
			statement = await client.prepare("delete from pools.line where worker = $1 and n <= $2 returning n")
			gone = await statement.fetch(self.ledger.worker, last)
		same(sorted(row["n"] for row in gone), numbers, "numbers of deleted rows")
		self.ledger.drop(numbers)

	async def act_leave(self):
		client = await asyncpg.connect(**self.how)
		await client.execute("begin")
		await client.execute(ROW, *self.ledger.new_row())
		if self.rng.random() < 0.5:
			await client.close()
		else:
			client.terminate()


async def drive(arguments, tally):
	works, pools = [], []
	for number, org in enumerate(arguments.orgs):
		start, how = how_to_connect(arguments, org, number)
		pools.append(await asyncpg.create_pool(min_size=POOL, max_size=POOL, max_queries=200, **how))
		works += [AsyncpgWork(arguments, tally, org, place, pool=pools[-1], start=start, how=how)
		          for place in range(arguments.workers)]
	end = time.monotonic() + arguments.seconds
	tasks = {asyncio.ensure_future(work.work(end)): work for work in works}
	_, late = await asyncio.wait(tasks, timeout=arguments.seconds + float(os.environ.get("PGWEIR_SLOW", "1")) * 20)
	for task in late:
		tally.fault(f"{tasks[task].ledger.worker} hangs at {task.get_stack()}, seed {arguments.seed}")
	if not tally.faults:
		for pool in pools:
			await pool.close()
	return report(tally, works)


def main():
	status = asyncio.run(drive(Arguments("asyncpg"), Tally()))
	sys.stdout.flush()
	sys.stderr.flush()
	os._exit(status)


if __name__ == "__main__":
	main()
