"""Reload: all of the new file or none of it, and no client notices."""

import os
import re
import signal
import time

import pytest

from rig import process
from rig.limits import limit, until
from rig.load import start_pgbench, watch
from rig.pooler import stand_in
from rig.raw import Q, ServerError

pytestmark = pytest.mark.usefixtures("clean")


def config_value(weir, key):
	return weir.show("CONFIG", key=key)[0]["value"]


@pytest.mark.parametrize("how", ["console", "SIGHUP"])
def test_a_changed_setting_is_in_force(pg, pooler, how):
	weir = pooler()
	weir.settings["query_wait_timeout"] = 77
	if how == "console":
		weir.reload()
	else:
		weir.write()
		weir.signal(signal.SIGHUP)
	until("it is in force", lambda: config_value(weir, "query_wait_timeout") == "77")


def test_a_setting_that_is_gone_goes_back_to_its_default(pg, pooler):
	weir = pooler(settings={"query_wait_timeout": 77})
	assert config_value(weir, "query_wait_timeout") == "77"
	del weir.settings["query_wait_timeout"]
	weir.reload()
	if stand_in():
		return  # 1.18 keeps it
	assert config_value(weir, "query_wait_timeout") == "120"


def test_a_larger_pool_serves_who_waits(pg, pooler):
	weir = pooler(settings={"default_pool_size": 1})
	holder, waiter = weir.raw(), weir.raw()
	holder.query("begin")
	waiter.send(Q("select 1"))
	weir.wait_pool(cl_waiting=1)
	weir.settings["default_pool_size"] = 2
	weir.reload()
	waiter.expect("T D[1] C(SELECT 1) Z(I)")
	holder.query("rollback")


def test_a_new_entry_and_a_new_user_are_served(pg, pooler):
	weir = pooler(databases={"app": {}})
	weir.refusal("fresh")
	weir.databases["fresh"] = weir.database({"dbname": "app2"})
	weir.userlist["newcomer"] = "newcomer-secret"
	weir.reload()
	assert weir.raw("fresh").value("select current_database()") == "app2"
	with pytest.raises(ServerError) as refused:
		weir.raw("app", "newcomer", password="newcomer-secret").query("select 1")
	assert 'role "newcomer" does not exist' in refused.value.message


def test_a_removed_entry_lets_no_one_in_any_more(pg, pooler):
	weir = pooler(databases={"app": {}, "gone": {"dbname": "app2"}})
	client = weir.raw("gone")
	client.query("select 1")
	del weir.databases["gone"]
	weir.reload()
	assert weir.refusal("gone").sqlstate in weir.code("3D000")
	until("its servers are closed", lambda: pg.count("datname = 'app2'") == 0, 4)


def test_a_changed_host_takes_new_transactions_and_leaves_running_ones(own_pg, pg, pooler):
	other = own_pg()
	weir = pooler(pg, settings={"default_pool_size": 2})
	running, idle = weir.raw(), weir.raw()
	running.query("begin")
	idle.query("select 1")
	weir.databases["app"] = {"host": other.host, "port": other.port}
	weir.reload()
	assert running.value("show port") == str(pg.port)
	running.query("commit")
	assert idle.value("show port") == str(other.port)
	assert running.value("show port") == str(other.port)
	until("no server is left at the old place", lambda: pg.count("datname = 'app'") == 0, 4)
	weir.databases["app"] = weir.database({})
	weir.reload()


def test_a_changed_password_file_is_read_again(pg, pooler):
	weir = pooler(settings={"auth_type": "scram-sha-256"})
	client = weir.raw(user="app2")
	weir.userlist["app2"] = "rotated-secret"
	weir.reload()
	assert client.value("select 1") == "1"
	assert weir.refusal(user="app2").sqlstate in weir.code("28P01")
	assert weir.raw(user="app2", password="rotated-secret").value("select 1") == "1"


BROKEN = {
	"an unknown setting": ("no_such_setting = 1\n", "no_such_setting"),
	"a wrong value": ("pool_mode = sometimes\n", "pool_mode"),
	"a wrong number": ("default_pool_size = many\n", "default_pool_size"),
	"a line without a value": ("this is no setting\n", ""),
}


@pytest.mark.pgweir("reload of 1.18 is not atomic")
@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_changes_nothing_and_is_told(pg, pooler, what):
	lines, named = BROKEN[what]
	weir = pooler(settings={"query_wait_timeout": 77})
	client = weir.raw()
	client.query("select 1")
	weir.settings["query_wait_timeout"] = 55
	del weir.databases["app2"]
	weir.userlist["app"] = "changed-too"
	weir.write()
	text = weir.config().replace("[databases]", f"{lines}\n[databases]", 1)
	process.write_file(weir.conf_path, text)
	line = 1 + text[:text.index(lines)].count("\n")
	mark = weir.mark()
	with pytest.raises(ServerError) as refused:
		weir.admin("RELOAD")
	assert "RELOAD failed, see logs for additional details" in refused.value.message
	assert refused.value.sqlstate == "F0000"
	log = weir.log(mark)
	assert named in log and weir.conf_path in log and str(line) in log, log
	assert config_value(weir, "query_wait_timeout") == "77"
	assert weir.raw("app2").value("select 1") == "1"
	assert client.value("select 1") == "1"


@pytest.mark.pgweir("a missing file does not stop 1.18")
def test_a_missing_file_changes_nothing(pg, pooler):
	weir = pooler()
	os.unlink(weir.conf_path)
	with pytest.raises(ServerError):
		weir.admin("RELOAD")
	assert weir.raw().value("select 1") == "1"
	weir.write()
	weir.admin("RELOAD")


def test_settings_that_need_a_restart_stay(pg, pooler):
	weir = pooler()
	weir.settings["listen_port"] = weir.port + 1
	process.write_file(weir.conf_path, weir.config())
	weir.admin("RELOAD")
	assert config_value(weir, "listen_port") == str(weir.port)
	assert weir.raw().value("select 1") == "1"


def test_many_reloads_under_traffic_cost_no_client_anything(pg, pooler):
	weir = pooler(settings={"default_pool_size": 3})
	bench = start_pgbench(weir, "begin;\nselect 1;\nselect 2;\ncommit;\n", clients=8, seconds=2)
	sizes = iter(range(10 ** 6))

	def change():
		weir.settings["default_pool_size"] = 2 + next(sizes) % 3
		weir.reload()

	assert watch(bench, change) > 5


def test_the_log_file_is_opened_again(pg, pooler):
	weir = pooler()
	moved = weir.log_path + ".1"
	os.rename(weir.log_path, moved)
	weir.signal(signal.SIGHUP)
	until("a login is logged in a new one",
	      lambda: weir.raw().value("select 1") and "login attempt" in weir.log())


@pytest.mark.pgweir("1.18 resolves includes otherwise")
def test_an_included_file_is_read_and_its_errors_name_it(pg, pooler):
	weir = pooler(start=False)
	included = process.write_file(f"{weir.folder}/more.ini", "query_wait_timeout = 66\n")
	original = weir.config

	def with_include():
		return original().replace("[databases]", f"%include {included}\n[databases]", 1)

	weir.config = with_include
	weir.start()
	assert config_value(weir, "query_wait_timeout") == "66"
	process.write_file(included, "\nquery_wait_timeout = 67\nno_such_setting = 1\n")
	mark = weir.mark()
	with pytest.raises(ServerError):
		weir.admin("RELOAD")
	log = weir.log(mark)
	assert included in log and "3" in log and "no_such_setting" in log
	process.write_file(included, "query_wait_timeout = 68\n")
	weir.admin("RELOAD")
	assert config_value(weir, "query_wait_timeout") == "68"


def test_memory_stays_flat_over_many_reloads(pg, pooler):
	weir = pooler()
	weir.raw().query("select 1")
	for _ in range(50):
		weir.admin("RELOAD")
	before = weir.rss_kib()
	for _ in range(300):
		weir.admin("RELOAD")
	assert weir.rss_kib() - before < 1024


@pytest.mark.pgweir("warnings about what is not built are ours")
def test_a_setting_that_is_not_built_yet_is_named_in_a_warning(pg, pooler):
	weir = pooler(settings={"log_format": "json"})
	# At start the log file may not be open yet; at reload it is.
	assert re.search(r"WARNING .*log_format", weir.log() + weir.stderr())
	mark = weir.mark()
	weir.admin("RELOAD")
	weir.wait_log(r"WARNING .*log_format", mark)


def test_the_time_of_a_reload_is_short(pg, pooler):
	weir = pooler(databases={f"db{n}": {"dbname": "app"} for n in range(500)} | {"app": {}})
	began = time.monotonic()
	weir.admin("RELOAD")
	assert time.monotonic() - began < limit(1)
