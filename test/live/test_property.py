"""The property test: through the pooler a client sees what a private PostgreSQL would show it.

Random sequences, eight clients on two servers and one more (see property/). The normal run plays for
half a minute, always from the same seed; PGWEIR_LONG=1 plays 100,000 sequences from a seed
of the day. PGWEIR_SEED chooses it: a run is repeated by it, but for what depends on the moment at which
clients that all play at once come to their turns.
"""

import os
import random
import sys

import pytest

from property import play, run
from rig.limits import LONG

pytestmark = [pytest.mark.usefixtures("clean"),
              pytest.mark.pgweir("named statements in transaction mode came with 1.21")]

SEED = int(os.environ.get("PGWEIR_SEED") or (random.randrange(1 << 32) if LONG else 3))
SLICE = 30  # seconds


def say(text):
	print(text, file=sys.__stderr__, flush=True)


@pytest.mark.takes(4 * 3600 if LONG else 600)
def test_random_sequences_are_answered_as_by_a_private_postgresql(pg, pooler):
	weir = pooler(settings=play.SETTINGS)
	count = run.run(pg, weir, seed=SEED, sequences=100_000 if LONG else None, seconds=None if LONG else SLICE,
	                say=say if LONG else lambda text: None, shrinking=300 if LONG else 60)
	if LONG:
		say(f"property test: seed {SEED}, {count} sequences")
