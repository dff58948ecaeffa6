"""http_listen: the page of metrics, /healthz, /readyz, and what strangers may try."""

import json
import os
import re
import socket
import threading
import time

import pytest

from rig import http
from rig.limits import SLOW, limit, until
from rig.prometheus import Prometheus, promtool
from rig.raw import Q, ServerError

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.pgweir("metrics are ours")]

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2))
RULES = f"{TOP}/etc/prometheus/pgweir.rules.yml"
DASHBOARD = f"{TOP}/etc/grafana/pgweir.json"


@pytest.fixture
def weir_of(pg, pooler):
	def make(**how):
		settings = {"http_listen": http.listen(), **how.pop("settings", {})}
		return pooler(settings=settings, **how)
	return make


def of_org(org):
	return {"x-org-id": org}


def wait_page(weir, what, check, seconds=5):
	"""A page is a second old at most; until it says so."""
	def look():
		page = http.page(weir)
		return page if check(page) else None
	return until(what, look, seconds)


# --- what the page says

def test_the_page_counts_what_each_org_and_database_did(weir_of):
	weir = weir_of()
	for org, queries in (("a", 3), ("b", 5)):
		client = weir.raw(params=of_org(org))
		for _ in range(queries):
			client.query("select pg_sleep(0.01)")
		client.query("begin")
		client.query("commit")
	page = wait_page(weir, "all is counted", lambda p: p("pgweir_org_queries_total", org="b") == 7)
	assert page("pgweir_org_queries_total", org="a") == 5
	assert page("pgweir_org_xacts_total", org="a") == 4
	assert page("pgweir_org_client_logins_total", org="a") == 1
	assert page("pgweir_database_queries_total", database="app") == 12
	assert 0.03 <= page("pgweir_org_slot_seconds_total", org="a") < 1
	assert 0.03 <= page("pgweir_org_query_seconds_total", org="a") < 1
	assert page("pgweir_org_wait_seconds_count", org="a") == \
		page("pgweir_org_server_assignments_total", org="a")
	assert page("pgweir_org_clients", org="a") == 1
	assert page("pgweir_org_queries_total", org="other") == 0
	assert page("pgweir_ready") == 1
	assert page("process_resident_memory_bytes") > 1 << 20
	assert abs(page("process_open_fds") - weir.fd_count()) <= 3


def test_a_slot_in_use_and_a_waiting_client_show_at_once(weir_of):
	weir = weir_of(orgs={"a": "pool_size=1"})
	holder, waiter = (weir.raw(params=of_org("a")) for _ in range(2))
	holder.query("begin")
	waiter.send(Q("select 1"))
	page = wait_page(weir, "one waits", lambda p: p("pgweir_org_waiting", org="a") == 1)
	assert page("pgweir_org_servers_active", org="a") == 1
	assert page("pgweir_org_pool_use_ratio", org="a") == 1
	later = wait_page(weir, "it waits on", lambda p: p("pgweir_org_maxwait_seconds", org="a") > 1)
	# The transaction still runs: its slot time is told all the same.
	assert later("pgweir_org_slot_seconds_total", org="a") > page("pgweir_org_slot_seconds_total", org="a")
	assert sum(n for n in later.values("pgweir_cluster_servers_active", "cluster").values()) == 1
	assert sum(n for n in later.values("pgweir_worker_waiting", "worker").values()) == 1
	holder.query("rollback")
	waiter.expect("T D[1] C(SELECT 1) Z(I)")
	page = wait_page(weir, "nobody waits", lambda p: p("pgweir_org_waiting", org="a") == 0)
	assert page("pgweir_org_servers_active", org="a") == 0
	assert page("pgweir_org_maxwait_seconds", org="a") == 0
	assert page("pgweir_org_wait_seconds_sum", org="a") > 1
	buckets = {dict(labels)["le"]: n for (name, labels), n in page.series.items()
	           if name == "pgweir_org_wait_seconds_bucket" and ("org", "a") in labels}
	assert buckets["+Inf"] == page("pgweir_org_wait_seconds_count", org="a")
	assert buckets["+Inf"] - buckets["0.262144"] >= 1
	assert list(buckets.values()) == sorted(buckets.values())


def test_logins_that_a_limit_refused_are_counted(weir_of):
	weir = weir_of(orgs={"a": "max_client_conn=1"})
	weir.raw(params=of_org("a"))
	for _ in range(3):
		assert weir.refusal(params=of_org("a")).sqlstate == "53300"
	wait_page(weir, "three refusals", lambda p: p("pgweir_org_refused_total", org="a") == 3)


def test_counts_outlive_the_clients_servers_and_pools_they_came_from(weir_of):
	weir = weir_of(settings={"pool_idle_timeout": 1, "server_idle_timeout": 1})
	client = weir.raw(params=of_org("a"))
	for _ in range(4):
		client.query("select 1")
	client.close()
	until("the pool is gone", lambda: not weir.show("POOLS", org="a"), 10)
	page = wait_page(weir, "nobody is left", lambda p: p("pgweir_org_servers", org="a") == 0)
	assert page("pgweir_org_queries_total", org="a") == 4
	assert page("pgweir_org_clients", org="a") == 0
	weir.raw(params=of_org("a")).query("select 1")
	wait_page(weir, "they go on", lambda p: p("pgweir_org_queries_total", org="a") == 5)


def test_a_client_that_is_thrown_out_in_a_transaction_takes_no_slot_time_back(weir_of):
	weir = weir_of()
	client = weir.raw(params=of_org("a"))
	client.query("begin")
	page = wait_page(weir, "it runs", lambda p: (p("pgweir_org_slot_seconds_total", org="a") or 0) > 0.5)
	weir.admin("KILL app")
	weir.admin("RESUME app")
	after = wait_page(weir, "it ended", lambda p: p("pgweir_org_servers_active", org="a") == 0)
	assert after("pgweir_org_slot_seconds_total", org="a") >= page("pgweir_org_slot_seconds_total", org="a")


# --- bounded

def test_the_busiest_orgs_are_named_and_the_others_are_summed_without_loss(weir_of):
	weir = weir_of(settings={"metrics_top_orgs": 2, "default_pool_size": 2})
	names = [f"org-{n}" for n in range(6)]
	clients = {name: weir.raw(params=of_org(name)) for name in names}
	seen, done = {}, 0
	for favourite in names:
		for name, client in clients.items():
			for _ in range(20 if name == favourite else 1):
				client.query("select 1")
				done += 1
		page = http.page(weir)
		found = page.values("pgweir_org_queries_total", "org")
		assert len(found) <= 3 and "other" in found
		for name, number in found.items():
			assert number >= seen.get(name, 0), f"{name} went back"
		seen.update(found)
	wait_page(weir, "all queries are told", lambda p: sum(p.values("pgweir_org_queries_total", "org").values()) == done)
	assert sum(http.page(weir).values("pgweir_org_clients", "org").values()) == 6


def test_an_org_called_other_is_one_of_the_others(weir_of):
	weir = weir_of()
	weir.raw(params=of_org("other")).query("select 1")
	weir.raw(params=of_org("a")).query("select 1")
	page = wait_page(weir, "both are counted", lambda p: p("pgweir_org_queries_total", org="other") == 1)
	assert page("pgweir_org_queries_total", org="a") == 1


def test_metrics_top_orgs_of_0_names_nobody(weir_of):
	weir = weir_of(settings={"metrics_top_orgs": 0})
	weir.raw(params=of_org("a")).query("select 1")
	page = wait_page(weir, "it is counted", lambda p: p("pgweir_org_queries_total", org="other") == 1)
	assert page.values("pgweir_org_queries_total", "org").keys() == {"other"}


def test_names_of_databases_may_be_anything(weir_of):
	weir = weir_of(databases={"app": {}, "*": {}})
	odd = 'o"d\\d é\n'
	with pytest.raises(ServerError):
		weir.raw(odd).query("select 1")
	page = wait_page(weir, "it is named", lambda p: p("pgweir_database_servers", database=odd) is not None)
	promtool("check", "metrics", stdin=page.text)


def test_many_orgs_with_a_series_each_hold_up_nobody(weir_of):
	count = 600 if SLOW == 1 else 200
	weir = weir_of(settings={"metrics_top_orgs": 5000, "max_server_conn": 4, "default_pool_size": 1})
	for n in range(count):
		client = weir.raw(params=of_org(f"org-{n}"), seconds=10)
		client.query("select 1")
		client.close()
	client = weir.raw(params=of_org("quiet"))

	def slow_one(seconds):
		"""How long one in twenty queries takes at least: a busy machine may stop any single one."""
		times = []
		end = time.monotonic() + seconds
		while time.monotonic() < end:
			began = time.monotonic()
			client.query("select 1")
			times.append(time.monotonic() - began)
		return sorted(times)[len(times) * 95 // 100]

	alone = slow_one(1.5)
	ended = threading.Event()
	pages = []

	def scrape():
		while not ended.is_set():
			pages.append(http.page(weir))

	thread = threading.Thread(target=scrape, daemon=True)
	thread.start()
	scraped = slow_one(3)
	ended.set()
	thread.join(limit(20))
	assert len(pages[-1].values("pgweir_org_queries_total", "org")) == count + 2
	assert scraped < 4 * alone + limit(0.03), f"{scraped:.3f} s, and {alone:.3f} s without scrapes"


# --- Prometheus itself

def test_promtool_finds_nothing_wrong_with_the_page(weir_of):
	weir = weir_of()
	weir.raw(params=of_org("a")).query("select 1")
	page = wait_page(weir, "an org is there", lambda p: p("pgweir_org_queries_total", org="a"))
	assert promtool("check", "metrics", stdin=page.text).strip() == ""


def test_promtool_finds_nothing_wrong_with_the_rules(tmp_path):
	assert "SUCCESS" in promtool("check", "rules", RULES)
	for path in (RULES, f"{TOP}/test/live/prometheus/rules.test.yml"):
		with open(path) as text:
			(tmp_path / os.path.basename(path)).write_text(text.read())
	assert "SUCCESS" in promtool("test", "rules", str(tmp_path / "rules.test.yml"))


def expressions():
	"""Those of the dashboard, with its variables filled in, and those of the rules."""
	with open(DASHBOARD) as text:
		board = json.load(text)
	found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
	found = [e.replace("$__rate_interval", "1m").replace("$instance", ".*").replace("$org", ".*")
	         .replace("$job", ".*") for e in found]
	with open(RULES) as text:
		found += re.findall(r"^\s+expr: (.*)$", text.read(), re.M)
	return found


def test_prometheus_scrapes_the_page_and_the_dashboard_finds_its_series(weir_of):
	weir = weir_of()
	client = weir.raw(params=of_org("acme"))
	with Prometheus(weir.settings["http_listen"], rules=RULES) as prometheus:
		until("the target is up", lambda: [t["health"] for t in prometheus.targets()] == ["up"], 20)
		def rate():
			client.query("select 1")
			rows = prometheus.query('rate(pgweir_org_queries_total{org="acme"}[1m]) > 0')
			return rows and rows[0][0]["job"] == "pgweir"
		until("queries have a rate", rate, 20)
		quantile = "histogram_quantile(0.9, rate(pgweir_org_wait_seconds_bucket{org='acme'}[1m])) >= 0"
		until("waits have a percentile", lambda: prometheus.query(quantile), 20)
		page = http.page(weir)
		for expr in expressions():
			prometheus.query(expr)
			for name in re.findall(r"\b(?:pgweir|process)_\w+", re.sub(r'"[^"]*"', "", expr)):
				assert name in page.names(), f"{expr}: no such metric on the page: {name}"
		told = prometheus.metadata()
		assert told["pgweir_org_xact_seconds_total"][0]["type"] == "counter"
		assert told["pgweir_org_wait_seconds"][0]["type"] == "histogram"
		assert all(entry["help"] for name in told if name.startswith("pgweir") for entry in told[name])


# --- health

def test_healthz_and_readyz_say_yes_while_clients_are_served(weir_of):
	weir = weir_of()
	assert http.get(weir, "/healthz").status == 200
	answer = http.get(weir, "/readyz")
	assert (answer.status, answer.text.strip()) == (200, "ready")


def test_readyz_says_no_while_paused_or_suspended(weir_of):
	weir = weir_of()
	for command, word in (("PAUSE", "paused"), ("SUSPEND", "suspended")):
		weir.admin(command)
		answer = http.get(weir, "/readyz")
		assert (answer.status, answer.text.strip()) == (503, word)
		assert http.get(weir, "/healthz").status == 200
		weir.admin("RESUME")
		assert http.get(weir, "/readyz").status == 200


def test_readyz_says_no_while_it_waits_for_clients_to_leave(pg, pooler):
	weir = pooler(settings={"http_listen": http.listen()})
	client = weir.raw()
	client.query("begin")
	weir.signal(15)
	until("it is not ready", lambda: http.get(weir, "/readyz").status == 503)
	assert http.get(weir, "/readyz").text.strip() == "shutting down"
	assert http.get(weir, "/healthz").status == 200
	assert http.page(weir)("pgweir_ready") == 0
	client.query("commit")
	client.terminate()
	assert weir.wait_end() == 0
	weir.expected_death = True


# --- what strangers may try

def say(weir, data, seconds=5):
	"""Send bytes, and give all that comes back until the other side ends."""
	host, port = weir.settings["http_listen"].split(":")
	with socket.create_connection((host, int(port)), timeout=limit(seconds)) as link:
		got = b""
		try:
			link.sendall(data)
			link.shutdown(socket.SHUT_WR)
		except OSError:
			pass  # it has ended the connection already; what it said can still be read
		try:
			while piece := link.recv(65536):
				got += piece
		except ConnectionError:
			pass
		return got


def test_only_get_and_head_of_the_three_pages(weir_of):
	weir = weir_of()
	assert http.get(weir, "/").status == 404
	assert http.get(weir, "/metrics/x").status == 404
	assert http.get(weir, "/metrics?x=1").status == 200
	head = http.get(weir, "/metrics", method="HEAD")
	assert head.status == 200 and head.body == b""
	assert head.headers["Content-Type"].startswith("text/plain; version=0.0.4")
	for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
		assert http.get(weir, "/metrics", method=method).status in (405, 501)


@pytest.mark.parametrize("data", [
	b"", b"\r\n\r\n", b"nonsense\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 1000,
	b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 20000 + b"\r\n\r\n",
	b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n",
	b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
	b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n" + b"a" * 1000,
	b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + b"a" * 1000,
	b"GET /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde",
	b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x5a" * 500,
], ids=lambda data: repr(data[:24]))
def test_nonsense_is_refused_and_harms_nobody(weir_of, data):
	weir = weir_of()
	got = say(weir, data)
	assert not got.startswith(b"HTTP/1.1 200"), got[:200]
	assert http.get(weir, "/metrics").status == 200


def test_many_open_connections_keep_nobody_out(weir_of):
	weir = weir_of()
	host, port = weir.settings["http_listen"].split(":")
	before = weir.fd_count()
	links = [socket.create_connection((host, int(port)), timeout=limit(5)) for _ in range(300)]
	for place, link in enumerate(links):
		try:
			link.sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: " if place % 2 else b"G")
		except ConnectionError:
			pass  # it was ended for a newer one
	assert http.get(weir, "/metrics").status == 200
	assert http.get(weir, "/healthz").status == 200
	assert weir.fd_count() - before <= 70
	for link in links:
		link.close()
	until("their descriptors are free", lambda: weir.fd_count() - before <= 2)


def test_peers_that_leave_before_their_answer_harm_nobody(weir_of):
	weir = weir_of()
	host, port = weir.settings["http_listen"].split(":")
	before = weir.fd_count()
	for path in (b"/metrics", b"/healthz", b"/readyz") * 30:
		link = socket.create_connection((host, int(port)), timeout=limit(5))
		link.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
		link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
		link.close()
	assert http.get(weir, "/metrics").status == 200
	until("their descriptors are free", lambda: weir.fd_count() - before <= 1)


def test_one_connection_serves_many_scrapes(weir_of):
	weir = weir_of()
	host, port = weir.settings["http_listen"].split(":")
	with socket.create_connection((host, int(port)), timeout=limit(5)) as link:
		reader = link.makefile("rb")
		for _ in range(20):
			link.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
			assert reader.readline() == b"HTTP/1.1 200 OK\r\n"
			size = 0
			while (line := reader.readline()) != b"\r\n":
				if line.lower().startswith(b"content-length:"):
					size = int(line.split(b":")[1])
			assert len(reader.read(size)) == size > 1000


@pytest.mark.parametrize("value", ["nonsense", "127.0.0.1", "127.0.0.1:", "::1:9187", "127.0.0.1:99999",
                                   "no.such.host.invalid:9187"])
def test_an_address_that_is_none_fails_the_start(pg, pooler, value):
	weir = pooler(settings={"http_listen": value}, start=False)
	status, said = weir.fails_to_start(10)
	assert status == 1 and "http_listen" in said


def test_an_address_that_is_taken_fails_the_start(pg, pooler):
	with socket.create_server(("127.0.0.1", 0)) as other:
		weir = pooler(settings={"http_listen": "127.0.0.1:%d" % other.getsockname()[1]}, start=False)
		status, said = weir.fails_to_start()
	assert status == 1 and "http_listen" in said
