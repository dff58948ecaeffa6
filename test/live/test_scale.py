"""The scale run (test/scale/orgs) in small: many orgs on one cluster, kept apart and below their limits. The full one takes five minutes."""

import os
import sys

import pytest

from rig import process
from rig.pooler import program

pytestmark = pytest.mark.pgweir("no orgs there")

ORGS = os.path.join(os.path.dirname(__file__), os.pardir, "scale", "orgs")


def run(*options):
	return process.run([sys.executable, ORGS, "--pgweir", program(), "--only", "apart", *options], seconds=100, check=False)


def claims(said):
	"""What is claimed, and whether it held."""
	rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in said.split("\nClaims\n")[1].splitlines() if line.startswith("|")]
	return {row[0]: row[3] for row in rows[2:]}


@pytest.mark.takes(200)
def test_many_orgs_are_kept_apart_and_below_their_limits():
	done = run("--orgs", "300", "--clients", "1000", "--seconds", "10")
	assert done.returncode == 0, done.stdout + done.stderr
	assert set(claims(done.stdout).values()) == {"yes"}


@pytest.mark.takes(200)
def test_the_scale_run_sees_what_one_client_leaves_to_another():
	done = run("--orgs", "60", "--clients", "200", "--seconds", "3", "--setting", "session_features=allow")
	assert done.returncode == 1, done.stdout + done.stderr
	assert claims(done.stdout)["transactions that found another's state"] == "NO"
