"""PostgreSQL itself says what is right.

The same bytes go to PostgreSQL and through the pooler, and the reply letters
must be the same. Where a test also writes the letters down, both must match
them: an expectation that PostgreSQL does not share is a mistake of the test.
"""

from .raw import Raw, tokens


def play(client, steps):
	"""Send each step in one write and read its letters.

	A step is (messages, letters) or (messages, number of ReadyForQuery): with
	letters as many are read as are written there.
	"""
	got = []
	for messages, wanted in steps:
		client.send(*messages)
		if isinstance(wanted, int):
			got.append(client.read_ready(wanted))
		else:
			got.append(client.read(len(tokens(wanted))))
		if client.buffer:
			got[-1] += f" + {bytes(client.buffer[:60])!r}"
	return got


def same_as_direct(pg, pooler, steps, *, database="app", user="app", client=None):
	"""Play the steps on PostgreSQL and through the pooler; assert, and give the letters."""
	with Raw.login(pg.address, user=user, database=database,
	               params={"application_name": "rig"}) as direct:
		right = play(direct, steps)
	for step, (letters, (_, wanted)) in enumerate(zip(right, steps)):
		if not isinstance(wanted, int):
			assert letters == " ".join(tokens(wanted)), \
				f"step {step}: the test wants {wanted}\n     PostgreSQL says {letters}"
	through = play(client or pooler.raw(database, user), steps)
	for step, (want, got) in enumerate(zip(right, through)):
		assert got == want, f"step {step}: PostgreSQL says {want}\n         the pooler says {got}"
	return through
