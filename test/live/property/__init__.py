"""The property test: random message sequences, to PostgreSQL and through the pooler.

script    messages as values, how they are cut into writes, which reply answers which message
generate  seeded sequences of messages, valid and invalid
play      connections; what PostgreSQL answers; the same through the pooler, compared
shrink    a script that differs made small

A script is a list of turns, each one write of one client. PostgreSQL gets a
client's messages on a connection of its own, all at once: what it answers does
not depend on when it is asked. From that is known which replies must have come
after each turn, and who holds a server then. Through the pooler the turns are
played one after another (the same every time), or by all clients at once.

By hand, from test/live:

	PGWEIR_BIN=... /usr/bin/python3 -m property --seed 7 --seconds 20
"""
