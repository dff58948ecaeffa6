"""Java programs of the tests, compiled into a folder outside the source tree."""

import os

from . import process
from .node import CACHE


def compiled(source, class_path):
	"""The class path with the source's classes on it; compiles it if it is newer than they are."""
	name = os.path.splitext(os.path.basename(source))[0]
	folder = f"{CACHE}/java/{name}"
	os.makedirs(folder, exist_ok=True)
	made = f"{folder}/{name}.class"
	with process.locked(f"{folder}/lock"):
		if not os.path.exists(made) or os.path.getmtime(made) < os.path.getmtime(source):
			process.run(["javac", "-encoding", "UTF-8", "-cp", class_path, "-d", folder, source])
	return f"{class_path}:{folder}"
