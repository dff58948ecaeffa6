"""Node scripts of the tests, with their packages in a folder outside the source tree."""

import os
import shutil

import pytest

from . import process

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.environ.get("PGWEIR_TEST_CACHE", "/var/tmp/pgweir-test-cache")
PACKAGES = ["pg", "pg-copy-streams", "pg-cursor", "postgres"]


def modules():
	"""The folder of the npm packages; installs those that are missing."""
	if not shutil.which("node") or not shutil.which("npm"):
		pytest.skip("node and npm are not installed")
	folder = f"{CACHE}/node"
	os.makedirs(folder, exist_ok=True)
	with process.locked(f"{folder}/lock"):
		shutil.copy(f"{HERE}/../node/package.json", folder)
		if not all(os.path.isdir(f"{folder}/node_modules/{name}") for name in PACKAGES):
			process.run(["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--no-package-lock"],
			            seconds=120)
	return f"{folder}/node_modules"


def run(weir, script, *more, seconds=30):
	"""What a script printed; its first argument is the URL of the pooler."""
	url = f"postgresql://app:{weir.password('app')}@{weir.host}:{weir.port}/app"
	done = process.run(["node", f"{HERE}/../node/{script}", url, *more],
	                   env={"NODE_PATH": modules()}, seconds=seconds)
	return done.stdout.splitlines()
