"""Load by pgbench, and a look at the servers while it runs."""

import itertools
import subprocess
import time

from . import process
from .limits import limit


_number = itertools.count()


def start_pgbench(weir, script, *, clients, seconds, database="app", user="app", more=()):
	path = process.write_file(f"{weir.folder}/bench-{next(_number)}.sql", script, 0o644)
	return subprocess.Popen(["pgbench", "-n", "-h", weir.host, "-p", str(weir.port), "-U", user,
	                         "-c", str(clients), "-j", "2", "-T", str(seconds), "-f", path,
	                         *more, database], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
	                        text=True, env={"PGPASSWORD": weir.password(user), "PATH": "/usr/bin:/bin",
	                                        "PGSSLMODE": "disable"})


def watch(bench, look, seconds=15):
	"""Call look() again and again while the load runs; the load must end well."""
	end = time.monotonic() + limit(seconds)
	samples = 0
	while bench.poll() is None:
		look()
		samples += 1
		assert time.monotonic() < end, "the load does not end"
	said = bench.stdout.read()
	assert bench.returncode == 0 and "aborted" not in said, said
	return samples
