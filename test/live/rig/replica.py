"""Further servers of a cluster, and such as only say so.

Replica   streams from its primary until it is promoted
Twin      the same data, started as a primary on the same timeline: what a careless restore leaves
Stranger  a primary with a system identifier of its own
"""

import os

from . import process
from .postgres import BIN, Postgres, make_template, superuser


class Copy(Postgres):
	def __init__(self, primary, *, name, **how):
		super().__init__(name=name, **how)
		self.primary = primary
		self.settings.update({key: primary.settings[key] for key in
		                      ("max_connections", "max_wal_senders", "max_worker_processes",
		                       "max_prepared_transactions")})

	def start(self):
		if not os.path.isdir(self.data):
			self.copy()
		return super().start()

	def copy(self):
		process.run_as_account([f"{BIN}/pg_basebackup", "-D", self.data, "-h", self.primary.host,
		                        "-p", str(self.primary.port), "-U", superuser(), "--no-sync",
		                        "--checkpoint=fast", "--wal-method=fetch"])


class Replica(Copy):
	def __init__(self, primary, **how):
		super().__init__(primary, **{"name": "replica", **how})
		self.follow(primary)

	def follow(self, primary):
		self.settings["primary_conninfo"] = \
			f"host={primary.host} port={primary.port} user={superuser()} application_name=rig"

	def copy(self):
		super().copy()
		process.write_file(f"{self.data}/standby.signal", "")

	def promote(self):
		assert self.value("select pg_promote()")
		return self


class Twin(Copy):
	def __init__(self, primary, **how):
		super().__init__(primary, **{"name": "twin", **how})


class Stranger(Copy):
	"""All others of a run come of one initdb."""

	def __init__(self, primary, **how):
		super().__init__(primary, **{"name": "stranger", **how})

	def copy(self):
		make_template(self.data)
