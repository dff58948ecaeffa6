"""The property test: through the pooler a client sees what a private PostgreSQL would show it.

Random sequences, eight clients on two servers (see property/). In the normal
run it is skipped; PGWEIR_LONG=1 plays 100,000.
PGWEIR_SEED repeats a run.
"""

import os
import random
import sys

import pytest

from property import play, run
from rig.limits import LONG, SLOW

pytestmark = [pytest.mark.usefixtures("clean"),
              pytest.mark.pgweir("named statements in transaction mode came with 1.21")]

SEED = int(os.environ.get("PGWEIR_SEED") or random.randrange(1 << 32))


def say(text):
	print(text, file=sys.__stderr__, flush=True)


@pytest.mark.skipif(not LONG, reason="random traffic: runs with --long; it can still meet what docs/transaction-pooling.md lists as open, and a fault of "
                                     "PostgreSQL 15.20 that ends its backend")
def test_random_sequences_are_answered_as_by_a_private_postgresql(pg, pooler):
	weir = pooler(settings=play.SETTINGS)
	count = run.run(pg, weir, seed=SEED, sequences=100_000 if LONG else None,
	                seconds=None if LONG else 10, say=say if LONG else lambda text: None,
	                shrinking=60 / SLOW if not LONG else 300)
	say(f"property test: seed {SEED}, {count} sequences")
