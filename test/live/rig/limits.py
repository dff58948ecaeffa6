"""How long a test may wait.

Every wait of the live tests has a limit, so that a hang is a failure and not a
stuck run. PGWEIR_SLOW multiplies all limits: a sanitizer build needs about 3.
It never stretches the settings of the pooler, only our patience. PGWEIR_LONG
asks for ten times as many rounds of what is random.
"""

import os
import time

SLOW = float(os.environ.get("PGWEIR_SLOW", "1"))


LONG = bool(os.environ.get("PGWEIR_LONG"))


def rounds(count):
	"""How often to try what depends on chance: fewer times on a slow build, more on request."""
	if LONG:
		return count * 10
	return count if SLOW == 1 else max(1, count // 3)


def limit(seconds=2.0):
	"""A number of seconds of patience, on this build."""
	return seconds * SLOW


def until(what, check, seconds=2.0):
	"""Ask check() until it says something true, and return that.

	For states that nobody announces (a row of pg_stat_activity, a line of a
	log). Where an event can be awaited, await the event instead.
	"""
	end = time.monotonic() + limit(seconds)
	pause = 0.002
	while True:
		found = check()
		if found:
			return found
		if time.monotonic() > end:
			raise AssertionError(f"waited {limit(seconds):g} s in vain: {what} (last: {found!r})")
		time.sleep(pause)
		pause = min(pause * 1.5, 0.05)
