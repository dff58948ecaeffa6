"""Accounts, folders, ports and child processes.

PostgreSQL refuses to run as root and so does a pooler, so under root all
children run as the account `postgres`. The account is changed between fork and
exec and not by a wrapper: the pid that we hold is the server's own.
"""

import contextlib
import fcntl
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile

from .limits import limit

ACCOUNT = os.environ.get("PGWEIR_TEST_ACCOUNT", "postgres")


def account():
	"""The account that children run as: None when we are not root."""
	return pwd.getpwnam(ACCOUNT) if os.geteuid() == 0 else None


def give_away(path):
	"""Make the account of our children the owner of a file or folder."""
	who = account()
	if who:
		os.chown(path, who.pw_uid, who.pw_gid)


def new_folder(parent=None, prefix="pgweir-"):
	"""A folder of the children's account. Its path stays short: sockets live in it."""
	folder = tempfile.mkdtemp(prefix=prefix, dir=parent or "/tmp")
	os.chmod(folder, 0o755)
	give_away(folder)
	return folder


def write_file(path, text, mode=0o600):
	"""A file that the children's account can read, there at once or not at all."""
	new = f"{path}.new"
	with open(new, "wb") as out:
		out.write(text if isinstance(text, bytes) else text.encode())
	os.chmod(new, mode)
	give_away(new)
	os.rename(new, path)
	return path


# Below the ports that the kernel gives to clients (32768 and up), so that none of these takes one between our look and its use. Each process that
# runs tests has a thousand of its own, which it holds by a lock as long as it lives, and goes round in them.
PORTS, RANGES = 1000, 20


def _own_range():
	for number in range(RANGES):
		try:
			lock = open(f"{tempfile.gettempdir()}/pgweir-ports-{number}", "a")
			fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
			return 10000 + number * PORTS, lock
		except OSError:
			continue
	raise AssertionError("too many processes run live tests")


_first, _lock = _own_range()
_turn = itertools.count(os.getpid())


def free_port():
	"""A TCP port of 127.0.0.1 that nobody has, and that we gave to nobody of late."""
	for turn in itertools.islice(_turn, PORTS):
		port = _first + turn % PORTS
		with socket.socket() as probe:
			probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
			try:
				probe.bind(("127.0.0.1", port))
			except OSError:
				continue
		return port
	raise AssertionError(f"no port of 127.0.0.1 from {_first} on is free")


@contextlib.contextmanager
def locked(path):
	"""One process at a time."""
	with open(path, "a") as lock:
		fcntl.flock(lock, fcntl.LOCK_EX)
		yield


def spawn(argv, *, env=None, stdout=None, stderr=None, cwd="/"):
	"""Start a child under the children's account."""
	who = account()
	ids = {}
	if who:
		ids = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}
	full = {k: v for k, v in os.environ.items() if not k.startswith("PG") or k.startswith("PGWEIR")}
	full.pop("NOTIFY_SOCKET", None)
	full.update(env or {})
	return subprocess.Popen(argv, env=full, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
	                        cwd=cwd, **ids)


def run(argv, *, env=None, seconds=60, check=True, stdin=None):
	"""Run a tool as ourselves, without the PG* variables of whoever started us."""
	full = {k: v for k, v in os.environ.items() if not k.startswith("PG") or k.startswith("PGWEIR")}
	full.update(env or {})
	done = subprocess.run(argv, env=full, input=stdin, text=True, capture_output=True,
	                      timeout=limit(seconds))
	if check and done.returncode != 0:
		raise AssertionError(f"{' '.join(argv[:3])} ... ended with {done.returncode}\n"
		                     f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
	return done


def run_as_account(argv, *, stdin=None, seconds=60):
	"""Run a tool under the children's account and give what it printed."""
	who = account()
	ids = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []} if who else {}
	done = subprocess.run(argv, input=stdin, text=True, capture_output=True, cwd="/",
	                      timeout=limit(seconds), **ids)
	if done.returncode != 0:
		raise AssertionError(f"{argv[0]} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
	return done.stdout


def end(child, how=signal.SIGTERM, seconds=10):
	"""End a child and give its exit status; None when it had to be killed."""
	if child.poll() is None:
		child.send_signal(how)
	try:
		return child.wait(limit(seconds))
	except subprocess.TimeoutExpired:
		child.kill()
		child.wait()
		return None


def remove(folder):
	shutil.rmtree(folder, ignore_errors=True)
