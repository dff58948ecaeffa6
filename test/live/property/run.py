"""Rounds of sequences until the time or the number is up, or until something differs."""

import time

from rig.limits import limit

from . import generate, play, script, shrink

KEPT = 32  # rounds that are remembered for the shrinker


class Found(AssertionError):
	"""Something differs; the text is the report."""

	def __init__(self, text, number):
		super().__init__(text)
		self.number = number  # of the round


def round_seed(seed, number):
	return seed * 1_000_003 + number


def run(pg, weir, *, seed, sequences=None, seconds=None, clients=play.CLIENTS, say=print,
        shrinking=60, every=5000, start=0):
	"""The number of sequences played. Each round of one sequence per client has a seed of its own."""
	writers = [generate.Writer(client, pins=client == play.PINNING) for client in range(clients)]
	play.make_tables(pg)
	direct, through = play.Direct(pg), play.Through(weir)
	began, count, number, recent = time.monotonic(), 0, start, []
	told = 0
	try:
		while (sequences is None or count < sequences) and \
				(seconds is None or time.monotonic() - began < seconds):
			made = generate.Round(round_seed(seed, number), writers)
			turns = play.shuffled(made.sequences, made.order)
			recent = [*recent[1 - KEPT:], turns]
			how = play.AT_ONCE if made.at_once else play.IN_TURN
			try:
				play.play(turns, direct, through, how)
			except play.Difference as difference:
				through.close()
				direct.close()
				pg.end_sessions()  # a pooler that is stuck may keep locks
				raise Found(f"seed {seed}, round {number} ({how}): "
				            + shrink.explain(pg, recent, difference, limit(shrinking),
				                             settings=play.SETTINGS), number) from None
			except script.Confused as confused:
				raise Found(f"seed {seed}, round {number}: a mistake of the test: {confused}", number) from None
			number += 1
			count += clients
			if count // every > told:
				told = count // every
				say(f"{count} sequences, {count / (time.monotonic() - began):.0f} a second")
	finally:
		direct.close()
		through.close()
	return count
