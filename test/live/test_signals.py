"""Signals, the command line and the start."""

import os
import signal
import subprocess

import pytest

from rig import process
from rig.limits import limit, until
from rig.pooler import reachable_program, stand_in
from rig.raw import Q


def test_sigterm_without_clients_ends_with_status_0(pg, pooler):
	weir = pooler()
	weir.signal(signal.SIGTERM)
	assert weir.wait_end() in ((0, 1) if stand_in() else (0,))


@pytest.mark.pgweir("since 1.23 SIGTERM waits for clients")
def test_sigterm_waits_for_clients(pg, pooler):
	weir = pooler()
	client = weir.raw()
	client.query("select 1")
	weir.signal(signal.SIGTERM)
	until("new ones are refused", lambda: not weir.accepts())
	assert client.value("select 2") == "2"
	client.terminate()
	assert weir.wait_end() == 0


@pytest.mark.pgweir("since 1.23 SIGTERM waits for clients")
def test_a_second_sigterm_ends_at_once(pg, pooler):
	weir = pooler()
	client = weir.raw()
	client.query("begin")
	weir.signal(signal.SIGTERM)
	until("new ones are refused", lambda: not weir.accepts())
	weir.signal(signal.SIGTERM)
	assert weir.wait_end() in (0, 1)
	letters = client.read_eof()
	assert letters in ("EOF", "E(57P01) EOF")
	until("its transaction is gone", lambda: pg.count() == 0)


def test_sigint_waits_for_transactions_only(pg, pooler):
	weir = pooler()
	busy, idle = weir.raw(), weir.raw()
	busy.query("begin")
	idle.query("select 1")
	weir.signal(signal.SIGINT)
	assert busy.value("select 2") == "2"
	assert weir.is_alive()
	busy.query("commit")
	assert weir.wait_end() == 0
	until("no server is left", lambda: pg.count() == 0)


def test_clients_that_wait_are_told_at_sigint(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	busy, waiter = weir.raw(), weir.raw()
	busy.query("begin")
	waiter.send(Q("select 1"))
	weir.wait_pool(cl_waiting=1)
	weir.signal(signal.SIGINT)
	if not stand_in():
		assert waiter.read_eof() == "E(57P01) EOF"
	busy.query("commit")
	assert weir.wait_end() == 0


def test_sigquit_ends_at_once(pg, pooler):
	weir = pooler()
	client = weir.raw()
	client.query("begin")
	weir.signal(signal.SIGQUIT)
	assert weir.wait_end() in ((-signal.SIGQUIT,) if stand_in() else (0, 1))
	assert client.read_eof().endswith("EOF")
	until("no server is left", lambda: pg.count() == 0)


def test_sigusr1_pauses_and_sigusr2_resumes(pg, pooler, clean):
	weir = pooler()
	client = weir.raw()
	client.query("select 1")
	weir.signal(signal.SIGUSR1)
	until("no server is left", lambda: pg.count() == 0)
	client.send(Q("select 'resumed'"))
	weir.wait_pool(cl_waiting=1)
	weir.signal(signal.SIGUSR2)
	client.expect("T D[resumed] C(SELECT 1) Z(I)")


def test_sigpipe_and_a_closed_terminal_do_not_end_it(pg, pooler, clean):
	weir = pooler()
	weir.signal(signal.SIGPIPE)
	assert weir.raw().value("select 1") == "1"


def test_the_version_is_the_first_line_of_dash_v(pooler, pg):
	weir = pooler()
	said = process.run([reachable_program(), "-V"]).stdout
	assert said.splitlines()[0] == weir.admin("SHOW VERSION")[0]["version"]


def test_help_names_the_options():
	said = process.run([reachable_program(), "--help"]).stdout
	assert all(option in said for option in ("-d", "-q", "-v", "-u", "-R", "-V", "-h"))


def test_root_is_refused_without_a_user(pooler):
	if os.geteuid() != 0:
		pytest.skip("only root can try this")
	weir = pooler(start=False)
	weir.write()
	done = subprocess.run([reachable_program(), weir.conf_path], capture_output=True, text=True,
	                      timeout=limit(5), cwd=weir.folder)
	assert done.returncode == 1
	assert "root" in done.stderr + weir.log()


def test_root_may_name_another_account(pg, pooler):
	if os.geteuid() != 0:
		pytest.skip("only root can try this")
	weir = pooler(start=False, settings={"user": process.ACCOUNT, "logfile": None})
	weir.write()
	with open(weir.stderr_path, "wb") as err:
		weir.child = subprocess.Popen([reachable_program(), weir.conf_path], stderr=err, stdout=err,
		                              cwd=weir.folder, env={**os.environ, **weir.sanitizer_env()})
	until("it accepts", weir.accepts, 5)
	assert os.stat(f"/proc/{weir.pid}").st_uid == process.account().pw_uid
	assert weir.raw().value("select 1") == "1"


@pytest.mark.pgweir("a warning only until 1.19")
def test_a_port_in_use_is_an_error_at_start(pg, pooler):
	first = pooler()
	second = pooler(start=False, settings={"listen_port": first.port})
	status, said = second.fails_to_start()
	assert status == 1
	assert "Address already in use" in said or "in use" in said
	assert first.raw().value("select 1") == "1"


def test_quiet_says_nothing_on_stderr(pg, pooler):
	weir = pooler(start=False)
	weir.launch("-q")
	until("it accepts", weir.accepts, 5)
	assert weir.raw().value("select 1") == "1"
	assert weir.stderr() == ""
	assert "login attempt" in weir.log()


def test_a_daemon_writes_its_pid_and_lives_on(pg, pooler):
	weir = pooler(start=False)
	pid_path = f"{weir.folder}/pid"
	weir.settings["pidfile"] = pid_path
	weir.launch("-d")
	assert weir.child.wait(limit(5)) == 0
	weir.expected_death = True
	pid = int(until("the pid file is there", lambda: os.path.exists(pid_path)
	                and open(pid_path).read().strip()))
	assert pid != weir.child.pid
	try:
		def connects():
			try:
				return weir.raw().value("select 1")
			except OSError:
				return None
		assert until("it answers", connects, 5) == "1"
	finally:
		weir.drop_clients()
		os.kill(pid, signal.SIGTERM)
	until("it has ended", lambda: not os.path.exists(pid_path), 5)


def test_a_stale_pid_file_is_no_obstacle_and_a_live_one_is(pg, pooler):
	first = pooler(start=False)
	first.settings["pidfile"] = process.write_file(f"{first.folder}/pid", "999999\n")
	first.start()
	second = pooler(start=False, settings={"pidfile": first.settings["pidfile"]})
	status, said = second.fails_to_start()
	assert status == 1 and "pid" in said.lower()
	assert first.raw().value("select 1") == "1"
