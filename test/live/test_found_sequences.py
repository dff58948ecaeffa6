"""Sequences that the property test has found once, each the smallest that showed its fault.

Rows of a script: (client, messages sent in one write). PostgreSQL itself says
what is right (property/play.py).
"""

import pytest

from property import play
from property.script import B, C, D, E, H, P, Q, S, c, d, f, gone
from rig.raw import Raw

pytestmark = [pytest.mark.usefixtures("clean"),
              pytest.mark.pgweir("named statements in transaction mode came with 1.21")]


@pytest.fixture
def same(pg, pooler):
	weir = pooler(settings=play.SETTINGS)

	def play_it(*rows):
		play.same(pg, weir, rows)

	return play_it


def test_a_name_parsed_behind_deallocate_all_in_the_same_write_may_fail(same):
	same((0, [P("a", "select 1"), S]),
	     (0, [Q("deallocate all"), P("b", "selekt"), S]),
	     (0, [P("a", "select 2"), P("b", "select 3"), B("", "b"), E(), S]))


def test_nobody_meets_the_unnamed_statement_of_a_client_that_discarded_all(same):
	same((0, [P("", "discard all"), B("", ""), E(), S]),
	     (1, [D("S", ""), S]), (2, [B("", ""), E(), S]))


def test_discard_all_spares_the_unnamed_statement(same):
	same((0, [P("", "discard all"), B("", ""), E(), S]), (0, [B("", ""), E(), S]),
	     (1, [Q("select 1")]), (0, [D("S", ""), S]))


def test_nobody_meets_an_unnamed_statement_behind_a_skipped_parse(same):
	same((0, [P("", "select 'mine'"), S]),
	     (1, [D("S", "nosuch"), P("", "select 1"), S]), (1, [B("", ""), E(), S]),
	     (2, [D("S", "nosuch"), Q("select 1"), S]), (2, [B("", ""), E(), S]),
	     (0, [B("", ""), E(), S]))


def test_a_skipped_parse_close_or_query_leaves_the_unnamed_statement(same):
	for skipped in (P("", "select 2"), C("S", ""), Q("select 3")):
		same((0, [P("", "select 'kept'"), S]),
		     (0, [D("S", "nosuch"), skipped, S]),
		     (0, [B("", ""), E(), S]),
		     (0, [D("S", "nosuch"), skipped, S, B("", ""), E(), S]))


def test_a_skipped_unnamed_parse_does_not_undo_the_next_one_in_the_same_write(same):
	same((0, [D("S", "nosuch"), P("", "begin read only"), S, P("", "select 1"), S, B("", ""), E(), S]))


def test_a_failed_unnamed_parse_drops_the_one_before(same):
	same((0, [P("", "select 1"), S]), (0, [P("", "selekt"), S, B("", ""), E(), S]),
	     (0, [B("", ""), E(), S]))


def test_an_unnamed_statement_survives_a_transaction_that_failed_elsewhere(same):
	same((0, [P("", "select 'kept'"), S]), (1, [Q("begin")]), (2, [Q("select 1")]),
	     (0, [Q("begin")]), (0, [Q("select 1/0")]), (0, [P("", "select 2"), S, Q("rollback")]),
	     (0, [B("", ""), E(), S]))


def test_a_text_that_the_server_has_is_not_parsed_in_a_failed_transaction(same):
	same((1, [P("c", "select 1"), S]),
	     (0, [Q("begin")]), (0, [Q("selekt")]), (0, [P("d", "select 1"), S]),
	     (0, [P("e", "rollback"), S]), (0, [Q("rollback")]), (0, [P("d", "select 1"), S]))


def test_the_same_while_the_failure_is_on_its_way(same):
	same((0, [P("a", "select 1"), S]),
	     (0, [Q("begin"), D("P", "nosuch"), S, C("S", "a"), P("b", "select 1"), S, Q("rollback")]))


def test_a_name_twice_in_a_failed_transaction_is_refused_for_the_right_reason(same):
	same((0, [P("d", "values (1), (2)"), S]), (0, [Q("begin")]), (0, [Q("selekt")]),
	     (0, [P("d", "rollback to s1"), S]), (0, [P("d", "select 1"), S]), (0, [Q("rollback")]))


def test_a_name_used_behind_deallocate_all_in_the_same_write_is_gone(same):
	same((0, [P("e", "select 'old'"), S]),
	     (1, [P("a", "select 1"), P("b", "select 2"), P("c", "select 3"), S]),  # its server has it no more
	     (0, [Q("deallocate all"), B("", "e"), E(), S]), (0, [B("", "e"), E(), S]))


@pytest.mark.parametrize("ending", [[S], [S, c], [S, d("3\tx\n"), c], [S, S, f()]], ids=str)
def test_a_sync_behind_copy_data_that_failed_hurts_nobody(pg, pooler, ending):
	# Sync is ignored while COPY reads data and answered when it has failed. Which of the two it was
	# nobody but the server knows: a ReadyForQuery too many must never get to the next client.
	weir = pooler(settings={"default_pool_size": 1})
	a, b = weir.raw(), weir.raw()
	for turn in range(20):
		a.send(*[m.bytes() for m in [Q("copy ct from stdin"), d("bad\tx\n"), *ending]])
		for i in range(5):
			assert b.talk(Q(f"select {turn}, {i}").bytes()) == f"T D[{turn},{i}] C(SELECT 1) Z(I)"
		a.read_ready()
		a.close()
		a = weir.raw()


def alone(sql):
	"""One statement under a name of its own, which leaves the unnamed one alone."""
	name = "n" + sql[0]
	return [P(name, sql), B("", name), E(), C("S", name), S]


@pytest.mark.parametrize("new", [[P("", "select 'new'"), S], [C("S", ""), S]], ids=["parsed anew", "closed"])
def test_an_older_unnamed_statement_left_on_another_server_is_not_run(same, new):
	same((7, alone("begin")), (0, [P("", "select 'old'"), S]), (6, alone("begin")), (7, alone("rollback")),
	     (0, new), (7, alone("begin")), (6, alone("rollback")),
	     (0, [B("", ""), E(), S]), (7, alone("rollback")))


def test_a_name_parsed_twice_behind_deallocate_all_is_refused(same):
	same((7, [P("e", "select 1"), P("e", "select 2"), S]),
	     (4, [Q("DEALLOCATE ALL"), P("d", "select 1"), P("d", "select 2"), S]))


def test_the_unnamed_statement_behind_a_skipped_parse_is_described_in_a_failed_transaction(same):
	same((4, [P("", "begin"), B("", ""), E(), E("", 2), P("", "select 1"), S]), (4, [D("S", ""), S, Q("rollback")]),
	     (4, [P("", "begin"), B("", ""), E(), E("", 2), Q("select 1"), C("S", ""), S, D("S", ""), S, Q("rollback")]))


def test_a_name_behind_its_deallocate_in_a_failed_transaction_exists(same):
	same((3, [Q("begin"), P("b", "select 1"), S]), (3, [E("nosuch"), S, Q("deallocate b"), B("", "b"), S, Q("rollback"), B("", "b"), E(), S]))


def test_two_copies_of_one_query_read_their_data_one_after_another(same):
	both = Q("copy prop2 from stdin; copy prop2 from stdin")
	same((2, [both]), (2, [c, d("bad11\tx\n")]), (2, [c, S, Q("select 1")]),
	     (2, [both]), (2, [d("1\tx\n"), c, S, d("2\tx\n"), c, S, Q("select * from prop2 order by id")]),
	     (2, [both, d("3\tx\n"), f(), d("4\tx\n"), c, S, Q("select 1")]))


def escaped(name):
	return [P(name, "select 'a\\b'"), S]


def test_a_notice_of_our_own_parse_is_not_told_twice(same):
	same((6, [Q("set standard_conforming_strings to off")]), (6, escaped("")), (4, [Q("select 1")]),
	     (6, [B("", ""), E(), S]), (6, escaped("a")), (7, alone("begin")), (6, [B("", "a"), E(), S]), (7, alone("rollback")))


def test_everyone_who_parses_a_text_is_told_its_notices(same):
	same((6, [Q("set standard_conforming_strings to off")]), (6, escaped("a")), (6, escaped("b")),
	     (5, [Q("set standard_conforming_strings to off")]), (5, escaped("a")), (5, [B("", "a"), E(), S]))


@pytest.mark.parametrize("behind", [C("P", ""), Q("select 1"), P("", "select 2"), B("", "nosuch")], ids=str)
def test_a_sync_behind_copy_data_that_failed_keeps_its_place(same, behind):
	same((6, [Q("copy prop6 from stdin")]), (6, [d("bad\tx\n"), S, S, behind, S]),
	     (6, [P("", "copy prop6 from stdin"), B(), E(), S]), (6, [d("bad\tx\n"), S, S, behind, S]))


@pytest.mark.parametrize("sql", ["insert into prop0 values (1, 'x')", "begin"])
def test_what_no_sync_has_ended_goes_with_its_client(same, sql):
	same((0, [P("", sql), B("", ""), E(), H]), (0, [gone()]), (1, [Q("select 1")]), (2, [P("", "select 1"), B("", ""), E(), S]),
	     (0, [Q("select * from prop0"), Q("rollback")]))


def test_what_a_prepared_statement_did_and_no_sync_has_ended_goes_with_its_client(same):
	same((0, [P("s", "insert into prop0 values (1, 'x')"), S]), (0, [B("", "s"), E(), H]), (0, [gone()]), (1, [Q("select 1")]),
	     (2, [P("", "select 1"), B("", ""), E(), S]), (0, [Q("select * from prop0"), Q("rollback")]))


def unnamed(sql):
	return [P("", sql), B("", ""), E(), S]


def test_whether_a_name_is_there_to_deallocate_is_known_behind_an_earlier_batch(same):
	same((6, [E("nosuch"), P("d", "select 1"), S, *unnamed("deallocate d")]), (6, [Q("select 1")]),
	     (6, [P("d", "select 1"), S]), (6, [E("nosuch"), C("S", "d"), S, *unnamed("deallocate d"), Q("deallocate d")]))


def test_a_portal_keeps_which_name_it_deallocates(same):
	same((0, [P("d", "select 1"), P("e", "select 2"), S]),
	     (0, [P("", "deallocate d"), B("", ""), P("", "deallocate e"), E(), S]),
	     (0, [B("", "e"), E(), B("", "d"), E(), S, D("S", "d"), S]))


def test_the_unnamed_deallocate_before_a_skipped_one_keeps_its_name(same):
	same((0, [P("d", "select 1"), P("e", "select 2"), S]), (0, [P("", "deallocate d"), S]),
	     (0, [E("nosuch"), P("", "deallocate e"), S]), (0, [B("", ""), E(), S, D("S", "d"), S, D("S", "e"), S]))


def test_named_portals_and_statements_deallocate_too(same):
	same((0, [P("d", "select 1"), P("e", "select 2"), S]), (0, [P("", "deallocate d"), B("p", ""), E("p"), S, D("S", "d"), S]),
	     (0, [P("", "deallocate f"), P("f", "select 3"), B("", ""), E(), S, D("S", "f"), S]),
	     (0, [P("f", "select 3"), P("", "deallocate f"), B("", ""), E(), E(), S, D("S", "f"), S]),
	     (0, [P("a", "deallocate e"), B("", "a"), E(), S, D("S", "e"), S]), (0, [B("", "a"), E(), S]),
	     (0, [P("e", "select 3"), B("q", "a"), E("q"), S, B("", "e"), E(), S]))


def test_a_name_that_is_gone_when_it_is_deallocated_is_unknown(same):
	same((0, [P("d", "select 1"), S]), (0, [P("", "deallocate d"), B("", ""), C("S", "d"), E(), S]),
	     (0, [P("", "deallocate d"), B("", ""), C("P", ""), E(), S]), (0, [D("S", "d"), B("", ""), S, E(), S]),
	     (0, [Q("begin"), P("d", "select 1"), P("", "deallocate d"), B("p", ""), E("p"), B("q", ""), E("q"), S, Q("rollback")]))


def test_a_skipped_eviction_behind_deallocate_all_brings_nothing_back(same):
	kept = [P("a", "select 1"), P("b", "select 2"), P("c", "select 3"), S]
	same((3, kept), (0, [Q("deallocate all"), P("a", "select 4"), Q("select 1"), E("nosuch"), P("b", "select 5"), P("c", "select 6"), S]),
	     (3, [B("", "a"), E(), S, B("", "b"), E(), S, B("", "c"), E(), S]))


def test_a_name_behind_a_portal_that_deallocates_all_is_new(same):
	same((0, [P("", "deallocate all"), P("a", "select 1"), B("", ""), E(), P("a", "select 2"), B("", "a"), E(), S]))


def test_a_deallocate_behind_deallocate_all_finds_no_name(same):
	same((4, [P("b", "select 1"), S]), (4, [Q("deallocate all"), Q("deallocate b")]),
	     (4, [P("b", "select 1"), S]), (4, [P("", "deallocate all"), B("", ""), E(), *unnamed("deallocate b")]))


def test_a_setting_that_a_function_has_set_stays_when_a_reset_of_it_is_undone(same):
	same((1, [Q("set default_transaction_read_only to on")]), (1, [Q("do $$ begin perform set_config('work_mem', '64kB', false); end $$")]),
	     (1, [Q("reset all; delete from prop1")]), (3, [Q("show work_mem")]), (1, [Q("show work_mem")]))


def test_a_portal_deallocates_once(same):
	same((0, [Q("prepare sp as select 5"), P("d", "select 1"), S]), (0, [P("", "deallocate sp"), B("", ""), E(), E(), S]),
	     (0, [P("", "deallocate d"), B("", ""), E(), E(), S, D("S", "d"), S, Q("execute sp")]))


def test_a_text_that_is_parsed_behind_a_change_of_its_table_has_the_new_result(same):
	use = [P("a", "select * from prop0"), D("S", "a"), B("", "a"), E(), S]
	insert = [P("b", "insert into prop0 values (1, $1)"), D("S", "b"), S]
	change = [Q("deallocate all"), Q("alter table prop0 alter v type varchar(50)")]
	same((0, [*use, *insert]), (7, alone("begin")), (1, [P("", "select 1"), S]), (0, [*use[1:], *insert[1:]]), (7, alone("rollback")),
	     (0, change), (0, [*use, *insert]), (7, alone("begin")), (0, use[1:]), (7, alone("rollback")))


def test_the_same_in_the_transaction_that_changes_it(same):
	use = [P("a", "select * from prop0"), D("S", "a"), B("", "a"), E(), S]
	same((0, use), (0, [C("S", "a"), Q("begin"), Q("alter table prop0 alter v type varchar(50)")]), (0, use),
	     (0, [C("S", "a"), S, Q("rollback")]), (0, use))


def test_a_statement_amid_copy_data_ends_the_session_as_in_postgresql(pg, pooler):
	weir = pooler(settings=play.SETTINGS)
	sent = [m.bytes() for m in [P("", "select 1"), Q("copy ct from stdin"), S, B("", "a")]]
	for session in (Raw.login(pg.address, user="app", database="app"), weir.raw()):
		session.send(*sent)
		assert session.read_eof().endswith("G E(08P01) E(08P01) EOF")
	assert weir.raw().value("select 5") == "5"
