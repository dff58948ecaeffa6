"""Debian's Prometheus, on loopback, under the children's account: scrapes what it is told to."""

import json
import shutil
import subprocess
import urllib.parse
import urllib.request

import pytest

from . import process
from .limits import limit, until


class Prometheus:
	def __init__(self, target, *, rules=None):
		if not shutil.which("prometheus"):
			pytest.skip("prometheus is not installed")
		self.folder = process.new_folder(prefix="prom-")
		self.port = process.free_port()
		lines = ["global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}",
		         "scrape_configs:",
		         f"  - {{job_name: pgweir, static_configs: [{{targets: ['{target}']}}]}}"]
		if rules:
			path = process.write_file(f"{self.folder}/pgweir.rules.yml", open(rules).read(), 0o644)
			lines.insert(1, f"rule_files: ['{path}']")
		config = process.write_file(f"{self.folder}/prometheus.yml", "\n".join(lines) + "\n", 0o644)
		self.log_path = f"{self.folder}/log"
		with open(self.log_path, "ab") as log:
			self.child = process.spawn(
				["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}/data",
				 f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log, cwd=self.folder)
		until("Prometheus is ready", self._is_ready, 20)

	def _get(self, path):
		with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=limit(5)) as answer:
			return answer.read()

	def _is_ready(self):
		assert self.child.poll() is None, open(self.log_path).read()[-3000:]
		try:
			self._get("/-/ready")
			return True
		except OSError:
			return False

	def targets(self):
		return json.loads(self._get("/api/v1/targets"))["data"]["activeTargets"]

	def query(self, expr):
		"""Rows of (labels, number); an expression that Prometheus does not understand is an error."""
		answer = json.loads(self._get("/api/v1/query?" + urllib.parse.urlencode({"query": expr})))
		return [(row["metric"], float(row["value"][1])) for row in answer["data"]["result"]]

	def metadata(self):
		return json.loads(self._get("/api/v1/metadata"))["data"]

	def stop(self):
		process.end(self.child)
		process.remove(self.folder)

	def __enter__(self):
		return self

	def __exit__(self, *_):
		self.stop()


def promtool(*args, stdin=None):
	"""What promtool says; that it finds anything wrong is a failure."""
	if not shutil.which("promtool"):
		pytest.skip("promtool (Debian: prometheus) is not installed")
	done = subprocess.run(["promtool", *args], input=stdin, text=True, capture_output=True,
	                      timeout=limit(30))
	assert done.returncode == 0, f"promtool {' '.join(args)}:\n{done.stdout}\n{done.stderr}"
	return done.stdout + done.stderr
