"""The classifier against PostgreSQL: what it calls a read changes nothing.

Each text of classify/tricks.py runs in sessions of its own, one plain and one read-only. That something changed is seen
in the next transaction id, in a sequence, in advisory locks; that a fence was lifted in the session's own settings.
"""

import glob
import os
import re
import subprocess

import pytest

from classify.tricks import BACKSLASH_WRITES, HARMLESS, LIFTS, LIMITS, READS, SETUP, WRITES
from rig import Postgres, process
from rig.raw import Q, Raw, X

pytestmark = pytest.mark.apart

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), os.pardir, os.pardir))

READING_BACKSLASH = 1
READING_EITHER = 2


@pytest.fixture(scope="module")
def class_of():
	"""class_of(text): one word."""
	folder = process.new_folder(prefix="classes-")
	program = f"{folder}/classes_of"
	subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-iquote", f"{TOP}/include",
	                "-o", program, f"{TOP}/test/live/classify/classes_of.c",
	                *glob.glob(f"{TOP}/src/sql/*.c")], check=True)

	def ask(text, reading=0):
		out = subprocess.run([program, str(reading)], input=text.encode() + b"\0", capture_output=True, check=True)
		return out.stdout.split()[0].decode()

	yield ask
	process.remove(folder)


@pytest.fixture(scope="module")
def server():
	made = Postgres(name="pg-classify").start()
	made.sql("DROP TABLE t", dbname="app")
	for statement in SETUP:
		made.sql(statement, dbname="app")
	yield made
	made.remove()


class Session:
	"""A session of the superuser's in which a text is run, however it ends."""

	def __init__(self, server, options):
		self.client = Raw.login(server.address, user="postgres", database="app", params={"options": options})

	def run(self, text):
		self.client.send(Q(text))
		return self.client.read_ready(1)

	def shows(self, name):
		return self.run(f"SHOW {name}").split("D[")[1].split("]")[0]

	def is_writable(self):
		"""Whether a write would now go through, in this transaction or in the next."""
		here = self.shows("transaction_read_only")
		return "off" in (here, self.shows("default_transaction_read_only"))

	def close(self):
		"""Until the server's process is gone: its last act may be a write, the drop of temporary tables."""
		self.client.send(X)
		self.client.expect("EOF")
		self.client.close()


def state_of(server):
	"""What a write cannot leave as it was. Asked in a transaction that writes nothing."""
	return server.sql("""select pg_snapshot_xmax(pg_current_snapshot())::text,
		(select (last_value, is_called)::text from s),
		(select count(*) from pg_locks where locktype = 'advisory'),
		(select count(*) from pg_prepared_xacts)""", dbname="app")


def changes(server, text, options=""):
	"""Whether the text changes anything in a session that may write, its transaction committed."""
	before = state_of(server)
	session = Session(server, options)
	try:
		letters = session.run(text)
		session.run("COMMIT")
		return before != state_of(server), letters
	finally:
		session.close()


def lifts(server, text):
	"""Whether a session that began read-only may write behind the text."""
	session = Session(server, "-c default_transaction_read_only=on")
	try:
		assert not session.is_writable()
		letters = session.run(text)
		if letters.endswith("Z(E)"):
			session.run("ROLLBACK")
		return session.is_writable(), letters
	finally:
		session.close()


@pytest.mark.parametrize("text", WRITES)
def test_what_writes_is_not_called_a_read(server, class_of, text):
	changed, letters = changes(server, text)
	assert changed, f"the trick is none: {letters}"
	assert class_of(text) != "read"
	assert class_of(text, READING_EITHER) != "read"


@pytest.mark.parametrize("text", BACKSLASH_WRITES)
def test_what_writes_where_strings_know_backslashes_is_not_called_a_read(server, class_of, text):
	changed, letters = changes(server, text, "-c standard_conforming_strings=off")
	assert changed, f"the trick is none: {letters}"
	assert class_of(text, READING_BACKSLASH) != "read"
	assert class_of(text, READING_EITHER) != "read"


@pytest.mark.parametrize("text", LIFTS)
def test_what_lifts_the_fence_is_not_called_a_read(server, class_of, text):
	lifted, letters = lifts(server, text)
	if text.startswith("UPDATE"):
		# A rule of pg_settings would set the parameter, but a read-only session refuses any UPDATE.
		assert "E(25006)" in letters
	else:
		assert lifted, f"the trick is none: {letters}"
	assert class_of(text) != "read"


@pytest.mark.parametrize("text", READS)
def test_a_plain_read_is_called_one_and_changes_nothing(server, class_of, text):
	changed, letters = changes(server, text)
	assert "E(" not in letters, f"no read of PostgreSQL's: {letters}"
	assert not changed
	lifted, letters = lifts(server, text)
	assert not lifted, letters
	assert class_of(text) == "read"


@pytest.mark.parametrize("text", HARMLESS)
def test_whatever_is_called_a_read_changes_nothing(server, class_of, text):
	changed, letters = changes(server, text)
	lifted, _ = lifts(server, text)
	assert class_of(text) != "read" or not (changed or lifted), letters


@pytest.mark.parametrize("text", LIMITS)
def test_what_no_text_tells_is_called_a_read(server, class_of, text):
	changed, letters = changes(server, text)
	assert changed, f"no limit: {letters}"
	assert class_of(text) == "read"


def rows(name, macro):
	"""The rows of a table of the classifier's: the word, and what it means."""
	with open(f"{TOP}/include/sql/{name}") as table:
		found = re.findall(rf'^{macro}\("(\w+)", (\w+)\)$', table.read(), re.MULTILINE)
	assert found
	return found


def test_words_that_are_no_calls_before_a_parenthesis_cannot_be_functions(server):
	plain = {"PLAIN", "AS", "CHARACTER", "DISTINCT", "FOR", "GROUP", "GROUPING", "ON", "WITH"}
	for word, mark in rows("classes.def", "WORD"):
		if mark in plain:
			code = server.value("select catcode from pg_get_keywords() where word = %s", [word])
			assert code in ("R", "C"), f"{word} can be a function"


def test_functions_that_may_change_something_were_judged_one_by_one(server):
	with open(f"{TOP}/test/unit/sql/volatile.tsv") as table:
		judged = {line.split("\t")[0] for line in table if not line.startswith("#")}
	kinds = dict(rows("builtins.def", "BUILTIN"))
	found = server.sql("select distinct proname, provolatile = 'v' from pg_proc where pronamespace = 'pg_catalog'::regnamespace")
	assert set(kinds) <= {name for name, _ in found}
	for name, volatile in found:
		assert not volatile or name in judged or kinds.get(name) != "READ", f"{name} is VOLATILE and passes for a read"
