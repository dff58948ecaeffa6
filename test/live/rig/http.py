"""What the HTTP port says: its answers, and the page of metrics as numbers."""

import http.client
import re

from . import process
from .limits import limit

LINE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)')
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Answer:
	def __init__(self, status, headers, body):
		self.status, self.headers, self.body = status, headers, body
		self.text = body.decode()


def listen():
	"""A value for http_listen."""
	return f"127.0.0.1:{process.free_port()}"


def get(weir, path, *, method="GET", body=None, headers=None):
	link = http.client.HTTPConnection(weir.settings["http_listen"], timeout=limit(5))
	try:
		link.request(method, path, body=body, headers=headers or {})
		answer = link.getresponse()
		return Answer(answer.status, answer.headers, answer.read())
	finally:
		link.close()


class Page:
	"""All series: name and labels to number. A line that is none, or one that is there twice, is a failure."""

	def __init__(self, text):
		self.text = text
		self.series = {}
		for line in text.splitlines():
			if line.startswith("#"):
				continue
			match = LINE.match(line)
			assert match, f"no line of the format: {line!r}"
			labels = LABEL.findall(match[2] or "")
			key = (match[1], tuple((k, re.sub(r"\\.", lambda m: ESCAPES[m[0]], v)) for k, v in labels))
			assert key not in self.series, f"twice on the page: {line}"
			self.series[key] = float(match[3])

	def __call__(self, name, **labels):
		"""The number of one series; None: it is not there."""
		return self.series.get((name, tuple(labels.items())))

	def values(self, name, label):
		"""All series of a name that have one label: its value to the number."""
		return {dict(labels)[label]: number for (found, labels), number in self.series.items()
		        if found == name and len(labels) == 1}

	def names(self):
		return {name for name, _ in self.series}


def page(weir):
	answer = get(weir, "/metrics")
	assert answer.status == 200
	return Page(answer.text)
