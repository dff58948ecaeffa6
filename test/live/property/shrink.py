"""Makes a script that differs small: fewer turns, fewer messages, whole writes.

Every try has a pooler and connections of its own, so that what is printed at
the end differs from a standing start.
"""

import time

import psycopg

from rig import Pooler
from rig.limits import until
from rig.process import end

from . import play
from .script import WHOLE, Confused


class Lab:
	def __init__(self, pg, seconds, settings=play.SETTINGS, say=print):
		self.pg = pg
		self.until = time.monotonic() + seconds
		self.settings = settings
		self.say = say
		self.tries = 0
		self.last = None     # the last Difference seen

	def is_late(self):
		return time.monotonic() > self.until

	def differs(self, turns, how, times=1):
		for _ in range(times):
			if self.is_late():
				return False
			if self.once(turns, how):
				return True
		return False

	def once(self, turns, how):
		self.tries += 1
		weir = Pooler(self.pg, settings=self.settings)
		direct = through = None
		try:
			play.make_tables(self.pg)
			weir.start()
			direct, through = play.Direct(self.pg), play.Through(weir)
			play.play(turns, direct, through, how)
			return False
		except (Confused, psycopg.OperationalError):
			# What was dropped makes it a script that we cannot follow, or one that kills PostgreSQL (see
			# generate.spare_postgresql); that needs a moment then.
			self.pg.drop_own()
			until("PostgreSQL answers again", self.pg.answers, 20)
			return False
		except play.Difference as difference:
			self.last = difference
			return True
		finally:
			for side in (direct, through):
				if side:
					side.close()
			if weir.child:
				end(weir.child, 9, 5)
				weir.child = None
			weir.remove()

	def find(self, rounds):
		"""The fewest of the last rounds that differ again: (turns, how, times to try), or None."""
		for count in (1, 2, 4, 8, 16, 32):
			turns = [turn for turns in rounds[-count:] for turn in turns]
			for how, times in ((play.IN_TURN, 1), (play.AT_ONCE, 4)):
				if self.differs(turns, how, times):
					return turns, how, 1 if how == play.IN_TURN else 4
			if count >= len(rounds):
				break
		return None

	def fewer(self, items, make, how, times):
		"""Delta debugging: drop ever smaller runs of items while the script made of them differs."""
		size = max(1, len(items) // 2)
		while True:
			at = 0
			while at < len(items) and not self.is_late():
				shorter = items[:at] + items[at + size:]
				if shorter and self.differs(make(shorter), how, times):
					items = shorter
				else:
					at += size
			if size == 1 or self.is_late():
				return items
			size = max(1, size // 2)

	def shrink(self, turns, how, times):
		for client in sorted({t.client for t in turns}):
			rest = [t for t in turns if t.client != client]
			if rest and self.differs(rest, how, times):
				turns = rest
		turns = self.fewer(turns, list, how, times)
		if how == play.AT_ONCE and self.differs(turns, play.IN_TURN):
			how, times = play.IN_TURN, 1
		singles = [(t.client, i, m, t.cut) for i, t in enumerate(turns) for m in t.messages]
		singles = self.fewer(singles, joined, how, times)
		turns = joined(singles)
		for i, turn in enumerate(turns):
			whole = [*turns[:i], turn._replace(cut=WHOLE), *turns[i + 1:]]
			if turn.cut != WHOLE and self.differs(whole, how, times):
				turns = whole
		return turns, how


def joined(singles):
	"""Turns again, from (client, number of the turn, message, cut)."""
	turns, last = [], None
	for client, number, message, cut in singles:
		if number == last:
			turns[-1] = turns[-1]._replace(messages=(*turns[-1].messages, message))
		else:
			turns.append(play.Turn(client, (message,), cut))
		last = number
	return turns


def explain(pg, rounds, difference, seconds, say=print, settings=play.SETTINGS):
	"""What to print for a difference: a minimal script if it comes back from a standing start."""
	lab = Lab(pg, seconds, settings)
	found = lab.find(rounds)
	if not found:
		return (f"{difference}\n(does not come back from a standing start in {lab.tries} tries; "
		        f"the round was)\n" + "\n".join(map(repr, rounds[-1])))
	turns, how = lab.shrink(*found)
	lab.until = time.monotonic() + 10
	lab.differs(turns, how, 8)
	return (f"{lab.last or difference}\n{how}, after {lab.tries} tries:\n"
	        + "\n".join(map(repr, turns)))
