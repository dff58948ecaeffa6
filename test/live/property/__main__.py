"""The property test by hand; see the package's first lines."""

import argparse
import random
import time

from rig import Pooler, Postgres, pooler

from . import generate, play, run


def main():
	options = argparse.ArgumentParser(prog="property")
	options.add_argument("--seed", type=int, default=random.randrange(1 << 32))
	options.add_argument("--seconds", type=float)
	options.add_argument("--sequences", type=int)
	options.add_argument("--start", type=int, default=0, help="number of the first round")
	options.add_argument("--clients", type=int, default=play.CLIENTS)
	options.add_argument("--shrinking", type=float, default=60, help="seconds for that")
	options.add_argument("--keep-going", action="store_true", help="report, and go on behind it")
	given = options.parse_args()
	pg = Postgres(max_connections=60).start()
	began, start = time.monotonic(), given.start
	try:
		while True:
			weir = Pooler(pg, settings=play.SETTINGS).start()
			try:
				count = run.run(pg, weir, seed=given.seed, seconds=given.seconds,
				                sequences=given.sequences, clients=given.clients, start=start,
				                shrinking=given.shrinking)
				print(f"seed {given.seed}: {count} sequences are the same, "
				      f"{count / (time.monotonic() - began):.0f} a second")
				return
			except run.Found as found:
				print(found, flush=True)
				if not given.keep_going or time.monotonic() - began > (given.seconds or 60) * 3:
					raise SystemExit(1) from None
				start = found.number + 1
			finally:
				weir.expected_death = True
				weir.stop()
				weir.remove()
	finally:
		pg.remove()
		Postgres.forget_template()
		pooler.forget_program()


main()
