"""Clients by the thousand in one process, for the scale run (see orgs next to this file).

One epoll loop; a client is a socket, what it awaits and when it goes on. The order comes as JSON on the first line of standard input, the
result goes as JSON to standard output. "open" is said there when all clients are logged in; then a line "go" starts the load, for as long as
the order says. A line "end" ends it before that.

Each transaction of a checked client, which speaks for its org and marks all that it leaves in the session with itself and a number:

	asks whose the server is (org_guc), what mark it has (a custom setting) and which temporary tables: the mark must be the client's own
	last one, or none where it is new; the tables must be those that it left itself
	sets the mark, and makes a temporary table with it, which goes with the transaction (ON COMMIT DROP)
	reads its own mark from that table

Some leave a table behind, which pins them, and find it in their next transaction; some go away with theirs still there, and log in anew. Some
clients speak for another org in each transaction (comments).
"""

import heapq
import json
import random
import select
import socket
import struct
import sys
import time

LEAVES_TABLE, GOES_AWAY, IN_ONE_TEXT = 0.02, 0.1, 0.5 # shares: of transactions, of those, of clients


def message(letter, body):
	return letter + struct.pack("!I", len(body) + 4) + body


def query(sql):
	return message(b"Q", sql.encode() + b"\0")


def rows_and_errors(data):
	rows, errors, at = [], [], 0
	while at < len(data):
		letter, size = data[at:at + 1], struct.unpack_from("!I", data, at + 1)[0]
		if letter == b"D":
			rows.append(row(data, at + 5))
		elif letter == b"E":
			fields = {part[:1]: part[1:].decode() for part in data[at + 5:at + 1 + size].split(b"\0") if part}
			errors.append(f"{fields[b'C']} {fields[b'M']}")
		at += size + 1
	return rows, errors


def row(data, at):
	values, count = [], struct.unpack_from("!H", data, at)[0]
	at += 2
	for _ in range(count):
		size = struct.unpack_from("!i", data, at)[0]
		at += 4
		values.append(data[at:at + size].decode() if size >= 0 else "")
		at += max(size, 0)
	return values


class Refused(Exception):
	pass


class Client:
	"""pace: seconds between two transactions on average; 0: none; None: it stays idle."""

	def __init__(self, load, number, org, pace, visits):
		self.load, self.number, self.org, self.pace = load, number, org, pace
		self.visits = visits # orgs that it speaks for by comments, in any order
		self.in_one_text = random.random() < IN_ONE_TEXT
		self.turn = 0
		self.login()

	def login(self):
		self.sock = socket.socket(socket.AF_UNIX)
		self.sock.settimeout(self.load.order["patience"])
		self.sock.connect(self.load.order["socket"])
		body = struct.pack("!I", 196608) + b"user\0app\0database\0app\0x-org-id\0" + self.org.encode() + b"\0\0"
		self.sock.sendall(struct.pack("!I", len(body) + 4) + body)
		self.got = b""
		while not self.is_ready(1):
			some = self.sock.recv(65536)
			self.got += some
			if not some or b"E\0\0" in self.got[:1]:
				raise Refused(rows_and_errors(self.got)[1] if self.got[:1] == b"E" else "closed")
		self.mark, self.left, self.left_by, self.asked = "", False, "", None
		self.sock.setblocking(False)
		self.load.add(self)

	def is_ready(self, times):
		if times > 1:
			return len(self.got) > 5 and self.count_ready() >= times
		return self.got[-6:-1] == b"Z\0\0\0\5"

	def count_ready(self):
		"""Looks at what has come since the last time only."""
		while self.at + 5 <= len(self.got):
			size = struct.unpack_from("!I", self.got, self.at + 1)[0] + 1
			if self.at + size > len(self.got):
				break
			self.ready += self.got[self.at] == 90 # 'Z'
			self.at += size
		return self.ready

	# --- a transaction

	def begin(self):
		self.turn += 1
		self.got, self.at, self.ready = b"", 0, 0
		self.began = time.monotonic()
		self.sent = self.plain() if self.load.order["plain"] else self.checked()
		self.sock.send(b"".join(self.sent))

	def plain(self):
		org = random.choice(self.visits) if self.visits else None
		self.asked = (org or self.org, "", False)
		return [query(f"select 1 /*org='{org}'*/" if org else "select 1")]

	def checked(self):
		visits = self.visits and not self.left
		org = self.left_by.split("/")[0] if self.left else random.choice(self.visits) if visits else self.org # pinned: the server's
		mark = f"{org}/{self.number}/{self.turn}"
		leaves = not self.left and random.random() < LEAVES_TABLE
		self.asked = (org, mark, leaves)
		who = f"/* of {org} */ "
		texts = [
			who + "begin" + (f" /*org='{org}'*/" if visits else ""),
			who + "select current_setting('app.current_org', true), current_setting('scale.mark', true), (select string_agg(relname, ',') from pg_class"
			" where relnamespace = pg_my_temp_schema() and relkind = 'r')",
			*([who + "select whose from pg_temp.kept", who + "drop table pg_temp.kept"] if self.left else []),
			who + f"set scale.mark = '{mark}'",
			who + f"create temp table mine on commit drop as select '{mark}'::text as whose",
			who + "select whose from pg_temp.mine",
			*([who + f"create temp table kept as select '{mark}'::text as whose"] if leaves else []),
			who + "commit",
		]
		return [query("; ".join(texts))] if self.in_one_text else [query(text) for text in texts]

	def took(self, data):
		self.got += data
		if self.is_ready(len(self.sent)):
			self.finish()

	def finish(self):
		load, (org, mark, leaves) = self.load, self.asked
		rows, errors = rows_and_errors(self.got)
		load.took(self, org, time.monotonic() - self.began)
		if errors:
			load.fault("error", self, errors[0])
		elif not load.order["plain"]:
			self.check(org, mark, rows)
		self.asked = None
		self.left = leaves and not errors
		self.left_by = mark
		if self.left and random.random() < GOES_AWAY:
			load.drop(self)
			try:
				self.login()
			except (Refused, OSError) as failure:
				load.fault("error", self, f"login: {failure}")
				return
			load.count["went_away"] += 1
		load.count["left_a_table"] += leaves
		load.plan(self, 0 if self.left or self.pace == 0 else random.expovariate(1 / self.pace))

	def check(self, org, mark, rows):
		wanted = [[org, self.mark, "kept" if self.left else ""]] + ([[self.left_by]] if self.left else []) + [[mark]]
		if rows != wanted:
			self.load.fault("state", self, f"found {rows}, expected {wanted}")
		self.mark = mark


class Load:
	def __init__(self, order):
		self.order = order
		self.poll = select.epoll()
		self.clients = {}
		self.due = []
		self.tie = 0
		self.faults = []
		self.count = {"done": 0, "state": 0, "error": 0, "refused": 0, "left_a_table": 0, "went_away": 0}
		self.by_org = {}
		self.waits = []
		random.seed(order["seed"])

	def add(self, client):
		self.clients[client.sock.fileno()] = client
		self.poll.register(client.sock.fileno(), select.EPOLLIN)

	def drop(self, client):
		del self.clients[client.sock.fileno()]
		self.poll.unregister(client.sock.fileno())
		client.sock.close()

	def plan(self, client, seconds):
		self.tie += 1
		heapq.heappush(self.due, (time.monotonic() + seconds, self.tie, client))

	def took(self, client, org, seconds):
		self.count["done"] += 1
		self.by_org[org] = self.by_org.get(org, 0) + 1
		if client.pace: # quiet ones: how long a client of theirs waits beside the hot ones
			self.waits.append(seconds)

	def fault(self, kind, client, text):
		self.count[kind] += 1
		if len(self.faults) < 20:
			self.faults.append(f"{kind}: client {client.number} of {client.org}: {text}")

	def open(self):
		for number, org, pace, visits in self.order["clients"]:
			try:
				client = Client(self, number, org, pace, visits)
			except Refused as why:
				self.count["refused"] += 1
				if "53300" not in str(why):
					self.faults.append(f"login: {why}")
					self.count["error"] += 1
				continue
			if pace is not None:
				self.plan(client, 0 if pace == 0 else random.uniform(0, 2 * pace))

	def turn(self, wait, may_begin):
		for fd, _ in self.poll.poll(wait, 1024):
			if fd == 0:
				self.poll.unregister(0)
				return False
			client = self.clients[fd]
			try:
				some = client.sock.recv(65536)
			except OSError as failure:
				some = b""
				self.fault("error", client, str(failure))
			if some and client.asked:
				client.took(some)
				continue
			self.fault("error", client, f"told {client.got[:200] + some!r} and closed")
			self.drop(client)
		while may_begin and self.due and self.due[0][0] <= time.monotonic():
			client = heapq.heappop(self.due)[2]
			if client.sock.fileno() >= 0 and client.sock.fileno() in self.clients:
				client.begin()
		return True

	def run(self, seconds):
		began = time.monotonic()
		self.poll.register(0, select.EPOLLIN)
		going = True
		while going and time.monotonic() < began + seconds:
			now = time.monotonic()
			until_due = max(0.0, self.due[0][0] - now) if self.due else 1.0
			going = self.turn(min(until_due, max(0.0, began + seconds - now), 1.0), True)
		end = time.monotonic() + self.order["patience"]
		while any(c.asked for c in self.clients.values()) and time.monotonic() < end:
			self.turn(0.5, False)
		for client in self.clients.values():
			if client.asked:
				self.fault("error", client, f"no answer for {self.order['patience']} s")
		return time.monotonic() - began # up to the last answer


def main():
	load = Load(json.loads(sys.stdin.readline()))
	load.open()
	print("open", load.count["refused"], flush=True)
	if sys.stdin.readline().strip() != "go":
		return
	took = load.run(load.order["seconds"])
	load.waits.sort()
	waits = [load.waits[int(len(load.waits) * share)] if load.waits else 0 for share in (0.5, 0.99)]
	print(json.dumps({"count": load.count, "faults": load.faults, "by_org": load.by_org, "seconds": took, "waits": waits}), flush=True)
	sys.stdin.readline() # stays connected until it is told to go


if __name__ == "__main__":
	main()
