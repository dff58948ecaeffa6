"""What the tests of real-world cases have in common.

loops               how often: a slice in a normal run, the whole under PGWEIR_LONG
on_another_server   the client's next transactions land on a server it did not use last
backend             the pid of the server that a client is on
Background          a thread that repeats its work and tells its failure
dice                a random generator that prints its seed
"""

import contextlib
import os
import random
import threading

from .limits import LONG, SLOW, limit


def loops(short, whole):
	"""How many rounds: few enough for every run, or all of them on request."""
	if LONG:
		return whole
	return short if SLOW == 1 else max(1, short // 3)


def backend(client):
	return int(client.value("select pg_backend_pid()"))


@contextlib.contextmanager
def on_another_server(weir, client, database="app", user="app"):
	"""Inside, the client's transactions land on another server than its last one.

	Needs a pool of two: of two helpers that open a transaction, the one on the
	client's server keeps it. Gives the pid that the client will be on.
	"""
	before = backend(client)
	helpers = [weir.raw(database, user), weir.raw(database, user)]
	for helper in helpers:
		helper.query("begin")
	pids = {helper: backend(helper) for helper in helpers}
	assert before in pids.values() and len(set(pids.values())) == 2, \
		f"the client was on {before}, the helpers are on {sorted(pids.values())}"
	for helper in helpers:
		if pids[helper] != before:
			helper.query("rollback")
			other = pids[helper]
	try:
		yield other
	finally:
		for helper in helpers:
			if pids[helper] == before:
				helper.query("rollback")
			helper.terminate()


def dice():
	"""A random generator; PGWEIR_SEED plays one run again."""
	seed = int(os.environ.get("PGWEIR_SEED") or random.randrange(1 << 30))
	print("seed", seed)
	return random.Random(seed)


class Background:
	"""work(round) again and again in a thread, until the block ends or it fails.

	With `times` it ends by itself, and the end of the block waits for it.
	"""

	def __init__(self, *works, times=None, seconds=10):
		self.failures = []
		self.rounds = [0] * len(works)
		self.seconds = seconds
		self.times = times
		self._ended = threading.Event()
		self._threads = [threading.Thread(target=self._repeat, args=(place, work), daemon=True)
		                 for place, work in enumerate(works)]

	def _repeat(self, place, work):
		try:
			while not self._ended.is_set() and self.rounds[place] != self.times:
				work(self.rounds[place])
				self.rounds[place] += 1
		except BaseException as failure:  # told to the main thread
			self.failures.append(failure)

	def __enter__(self):
		for thread in self._threads:
			thread.start()
		return self

	def __exit__(self, kind, *_):
		if self.times is None or kind:
			self._ended.set()
		for thread in self._threads:
			thread.join(limit(self.seconds))
		stuck = [thread for thread in self._threads if thread.is_alive()]
		self._ended.set()
		if kind is None:
			if self.failures:
				raise self.failures[0]
			assert not stuck, f"{len(stuck)} of the threads are stuck at round {self.rounds}"


def in_threads(*tasks, seconds=60):
	"""Run them side by side; the first failure is the test's."""
	failures = []

	def guarded(task):
		try:
			task()
		except BaseException as failure:  # told to the main thread
			failures.append(failure)

	threads = [threading.Thread(target=guarded, args=(task,), daemon=True) for task in tasks]
	for thread in threads:
		thread.start()
	for thread in threads:
		thread.join(limit(seconds))
		assert not thread.is_alive(), f"still at work; failures so far: {failures}"
	if failures:
		raise failures[0]
