/* The order of replies: every letter below is what PostgreSQL 15 answers to the sequence (chapter 55.2), and what the client must be given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/mem.h"
#include "pool/replies.h"

struct log {
	struct replies replies;
	char settled[64]; /* marks, in order */
	char undone[64];
};

static void add(char *to, const struct reply *r)
{
	size_t n = strlen(to);
	to[n] = (char)r->mark;
	to[n + 1] = 0;
}

static void settled(void *owner, struct reply *r)
{
	add(((struct log *)owner)->settled, r);
}

static void undone(void *owner, struct reply *r)
{
	add(((struct log *)owner)->undone, r);
}

static int setup(void **state)
{
	struct log *l = mem_make(struct log);
	replies_init(&l->replies, l, settled, undone);
	*state = l;
	return 0;
}

static int teardown(void **state)
{
	struct log *l = *state;
	replies_free(&l->replies);
	mem_free(l);
	return 0;
}

static enum reply_verdict take(struct log *l, char type)
{
	enum reply_verdict v = replies_take(&l->replies, (uint8_t)type);
	replies_make_up(&l->replies);
	return v;
}

static void takes_all(struct log *l, const char *types)
{
	for (; *types; types++)
		assert_int_equal(take(l, *types), VERDICT_FORWARD);
}

static void push(struct log *l, enum reply_kind kind, enum reply_act act, char mark)
{
	replies_push(&l->replies, kind, act, (uint16_t)mark, NULL);
}

#define F REPLY_FORWARD

static void an_extended_batch_is_answered_letter_by_letter(void **state)
{
	struct log *l = *state;
	push(l, REPLY_PARSE, F, 'p');
	push(l, REPLY_BIND, F, 'b');
	push(l, REPLY_DESCRIBE, F, 'd');
	push(l, REPLY_EXECUTE, F, 'e');
	push(l, REPLY_SYNC, F, 's');
	takes_all(l, "12TDDC");
	assert_false(replies_empty(&l->replies));
	takes_all(l, "Z");
	assert_true(replies_empty(&l->replies));
	assert_string_equal(l->settled, "pbdes");
}

static void a_describe_of_a_statement_takes_two_messages(void **state)
{
	struct log *l = *state;
	push(l, REPLY_DESCRIBE, F, 'd');
	takes_all(l, "t");
	assert_string_equal(l->settled, "");
	takes_all(l, "n");
	assert_string_equal(l->settled, "d");
}

static void a_query_ends_with_ready_and_not_with_its_tag(void **state)
{
	struct log *l = *state;
	push(l, REPLY_QUERY, F, 'q');
	takes_all(l, "TDCTDCEZ");
	assert_string_equal(l->settled, "q");
}

static void what_is_made_up_waits_for_its_turn(void **state)
{
	struct log *l = *state;
	push(l, REPLY_PARSE, F, 'a');
	push(l, REPLY_CLOSE, REPLY_MAKE_UP, 'b');
	push(l, REPLY_PARSE, F, 'c');
	push(l, REPLY_PARSE, REPLY_MAKE_UP, 'd');
	push(l, REPLY_SYNC, F, 's');
	assert_string_equal(l->settled, "");
	assert_int_equal(replies_take(&l->replies, '1'), VERDICT_FORWARD);
	assert_string_equal(l->settled, "a"); /* the caller passes the message on first */
	replies_make_up(&l->replies);
	assert_string_equal(l->settled, "ab");
	takes_all(l, "1");
	assert_string_equal(l->settled, "abcd");
}

static void what_is_made_up_with_nothing_owed_is_settled_at_once(void **state)
{
	struct log *l = *state;
	push(l, REPLY_PARSE, REPLY_MAKE_UP, 'p');
	assert_string_equal(l->settled, "p");
	assert_true(replies_empty(&l->replies));
}

static void our_own_messages_are_skipped(void **state)
{
	struct log *l = *state;
	push(l, REPLY_QUERY, REPLY_SKIP, 'o');
	push(l, REPLY_QUERY, F, 'q');
	assert_int_equal(take(l, 'C'), VERDICT_SKIP);
	assert_int_equal(take(l, 'Z'), VERDICT_SKIP);
	takes_all(l, "CZ");
}

static void an_error_undoes_the_rest_of_the_batch_last_first(void **state)
{
	struct log *l = *state;
	push(l, REPLY_PARSE, F, 'a');
	push(l, REPLY_BIND, F, 'b');
	push(l, REPLY_PARSE, REPLY_MAKE_UP, 'c');
	push(l, REPLY_EXECUTE, F, 'd');
	push(l, REPLY_SYNC, F, 's');
	push(l, REPLY_QUERY, F, 'q');
	takes_all(l, "1E");
	assert_string_equal(l->settled, "a");
	assert_string_equal(l->undone, "dcb");
	takes_all(l, "ZCZ");
	assert_string_equal(l->settled, "asq");
}

static void after_an_error_without_sync_what_follows_is_undone_until_sync(void **state)
{
	struct log *l = *state;
	push(l, REPLY_PARSE, F, 'a');
	takes_all(l, "E");
	assert_true(l->replies.skipping);
	push(l, REPLY_BIND, F, 'b');
	assert_string_equal(l->undone, "ab");
	push(l, REPLY_SYNC, F, 's');
	assert_false(l->replies.skipping);
	push(l, REPLY_PARSE, F, 'c');
	takes_all(l, "Z1");
	assert_string_equal(l->settled, "sc");
}

static void an_error_of_our_own_parse_is_the_clients(void **state)
{
	struct log *l = *state;
	push(l, REPLY_PARSE, REPLY_SKIP, 'o');
	push(l, REPLY_BIND, F, 'b');
	push(l, REPLY_SYNC, F, 's');
	takes_all(l, "EZ");
	assert_string_equal(l->undone, "bo");
}

static void an_error_at_sync_is_followed_by_ready(void **state)
{
	struct log *l = *state;
	push(l, REPLY_EXECUTE, F, 'e');
	push(l, REPLY_SYNC, F, 's'); /* a deferred constraint fails at the implicit commit */
	takes_all(l, "CEZ");
	assert_true(replies_empty(&l->replies));
}

static void a_batch_is_open_until_sync_or_query(void **state)
{
	struct log *l = *state;
	push(l, REPLY_EXECUTE, F, 'e'); /* ... Flush */
	takes_all(l, "C");
	assert_true(replies_empty(&l->replies));
	assert_true(l->replies.open);
	push(l, REPLY_SYNC, F, 's');
	takes_all(l, "Z");
	assert_false(l->replies.open);
	push(l, REPLY_PARSE, F, 'p');
	push(l, REPLY_QUERY, F, 'q');
	takes_all(l, "1CZ");
	assert_false(l->replies.open);
}

static void a_batch_of_plain_answers_is_open_too(void **state)
{
	struct log *l = *state;
	push(l, REPLY_BIND, F, 0);
	push(l, REPLY_EXECUTE, F, 0); /* ... Flush */
	assert_true(replies_take_plain(&l->replies, '2') && replies_take_plain(&l->replies, 'C'));
	assert_true(replies_empty(&l->replies));
	assert_true(l->replies.open);
	push(l, REPLY_SYNC, F, 0);
	takes_all(l, "Z");
	assert_false(l->replies.open);
}

static void a_sync_before_copy_data_is_never_answered(void **state)
{
	struct log *l = *state;
	push(l, REPLY_PARSE, F, 'p');
	push(l, REPLY_BIND, F, 'b');
	push(l, REPLY_EXECUTE, F, 'e');
	push(l, REPLY_SYNC, F, 's');
	takes_all(l, "12G");
	assert_string_equal(l->undone, "s");
	push(l, REPLY_SYNC, F, 't'); /* another one before the data */
	assert_string_equal(l->undone, "st");
	push(l, REPLY_COPY_END, F, 'c');
	push(l, REPLY_SYNC, F, 'u');
	takes_all(l, "CZ");
	assert_true(replies_empty(&l->replies));
	assert_string_equal(l->settled, "pbecu");
}

static void a_whole_copy_in_one_write_keeps_the_sync_behind_the_data(void **state)
{
	struct log *l = *state;
	push(l, REPLY_EXECUTE, F, 'e');
	push(l, REPLY_COPY_END, F, 'c');
	push(l, REPLY_SYNC, F, 's');
	takes_all(l, "GCZ");
	assert_string_equal(l->undone, "");
	assert_true(replies_empty(&l->replies));
}

static void two_copies_of_one_query_have_an_end_of_data_each(void **state)
{
	struct log *l = *state;
	push(l, REPLY_QUERY, F, 'q'); /* copy t from stdin; copy t from stdin */
	push(l, REPLY_COPY_END, F, 'c');
	takes_all(l, "GCG");
	assert_true(l->replies.copy_in);
	assert_string_equal(l->settled, "c");
	push(l, REPLY_COPY_END, F, 'd');
	takes_all(l, "CZ");
	assert_string_equal(l->settled, "cdq");
	assert_true(replies_empty(&l->replies));
}

static void the_ends_of_two_copies_may_both_be_on_their_way(void **state)
{
	struct log *l = *state;
	push(l, REPLY_QUERY, F, 'q');
	push(l, REPLY_COPY_END, F, 'c');
	push(l, REPLY_SYNC, F, 's'); /* is read as data of the second, and ignored */
	push(l, REPLY_COPY_END, F, 'd');
	push(l, REPLY_SYNC, F, 't');
	takes_all(l, "GCG");
	assert_false(l->replies.copy_in);
	assert_string_equal(l->undone, "s");
	takes_all(l, "CZZ");
	assert_string_equal(l->settled, "cdqt");
	assert_true(replies_empty(&l->replies));
}

static void stray_copy_messages_are_not_answered(void **state)
{
	struct log *l = *state;
	push(l, REPLY_QUERY, F, 'q'); /* copy of a table that is not there */
	push(l, REPLY_COPY_END, F, 'c');
	push(l, REPLY_QUERY, F, 'r');
	takes_all(l, "EZTDCZ");
	assert_string_equal(l->settled, "qcr");
}

static void a_portal_may_be_suspended_and_go_on(void **state)
{
	struct log *l = *state;
	push(l, REPLY_EXECUTE, F, 'a');
	takes_all(l, "DDs");
	push(l, REPLY_EXECUTE, F, 'b');
	push(l, REPLY_SYNC, F, 's');
	takes_all(l, "DCZ");
	assert_string_equal(l->settled, "abs");
}

static void an_answer_that_nobody_asked_for_is_bad(void **state)
{
	struct log *l = *state;
	for (const char *t = "123TDCIsGHdcVZtn"; *t; t++)
		assert_int_equal(replies_take(&l->replies, (uint8_t)*t), VERDICT_BAD);
	push(l, REPLY_BIND, F, 'b');
	assert_int_equal(replies_take(&l->replies, '1'), VERDICT_BAD);
	assert_int_equal(replies_take(&l->replies, 'Z'), VERDICT_BAD);
}

static void a_thousand_pipelined_messages_keep_their_order(void **state)
{
	struct log *l = *state;
	for (int i = 0; i < 1000; i++)
		push(l, i % 2 ? REPLY_SYNC : REPLY_BIND, F, 0);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(take(l, i % 2 ? '2' : 'Z'), VERDICT_BAD);
		assert_int_equal(take(l, i % 2 ? 'Z' : '2'), VERDICT_FORWARD);
	}
	assert_true(replies_empty(&l->replies));
}

static void entries_with_nothing_to_do_are_not_told(void **state)
{
	struct log *l = *state;
	push(l, REPLY_QUERY, F, REPLY_MARK_TOLD - 1);
	push(l, REPLY_BIND, F, 0);
	push(l, REPLY_EXECUTE, F, 'e');
	push(l, REPLY_EXECUTE, F, 0);
	push(l, REPLY_SYNC, F, 's');
	takes_all(l, "Z2EZ");
	assert_string_equal(l->settled, "s");
	assert_string_equal(l->undone, "e");
	push(l, REPLY_SYNC, F, 0);
	assert_false(replies_empty(&l->replies));
}

static void what_is_made_up_waits_until_a_message_is_through(void **state)
{
	struct log *l = *state;
	l->replies.midway = true;
	push(l, REPLY_CLOSE, REPLY_MAKE_UP, 'a');
	replies_make_up(&l->replies);
	assert_string_equal(l->settled, "");
	l->replies.midway = false;
	replies_make_up(&l->replies);
	assert_string_equal(l->settled, "a");
	push(l, REPLY_PARSE, F, 'p');
	push(l, REPLY_CLOSE, REPLY_MAKE_UP, 'b');
	push(l, REPLY_SYNC, F, 's');
	takes_all(l, "EZ"); /* undone, and not waited for any more */
	assert_string_equal(l->undone, "bp");
	assert_int_equal(l->replies.unanswered, 0);
}

static void what_calls_for_nothing_is_taken_as_plain(void **state)
{
	struct log *l = *state;
	struct replies *r = &l->replies;
	push(l, REPLY_QUERY, F, 0);
	assert_true(replies_take_plain(r, 'T') && replies_take_plain(r, 'D') && replies_take_plain(r, 'C'));
	assert_false(replies_take_plain(r, 'Z') || replies_take_plain(r, 'G') || replies_take_plain(r, 'E') || replies_take_plain(r, 'S') || replies_take_plain(r, 'N'));
	takes_all(l, "Z");
	assert_false(replies_take_plain(r, 'D')); /* nobody asked for it */
	push(l, REPLY_BIND, F, 0);
	push(l, REPLY_EXECUTE, F, 0);
	push(l, REPLY_SYNC, F, 0);
	assert_false(replies_take_plain(r, 'D'));
	assert_true(replies_take_plain(r, '2') && replies_take_plain(r, 'D') && replies_take_plain(r, 'C'));
	assert_int_equal(r->count, 1);
}

static void what_is_told_skipped_or_followed_by_a_made_up_answer_is_not_plain(void **state)
{
	struct log *l = *state;
	struct replies *r = &l->replies;
	push(l, REPLY_PARSE, F, 'p');
	assert_false(replies_take_plain(r, '1'));
	takes_all(l, "1");
	push(l, REPLY_QUERY, F, 'q');
	assert_true(replies_take_plain(r, 'D'));
	assert_false(replies_take_plain(r, 'C')); /* the owner may have another tag for it */
	takes_all(l, "CZ");
	push(l, REPLY_PARSE, REPLY_SKIP, 0);
	assert_false(replies_take_plain(r, '1'));
	assert_int_equal(take(l, '1'), VERDICT_SKIP);
	push(l, REPLY_BIND, F, 0);
	push(l, REPLY_CLOSE, REPLY_MAKE_UP, 'c');
	assert_false(replies_take_plain(r, '2'));
	takes_all(l, "2");
	assert_string_equal(l->settled, "pqc");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_extended_batch_is_answered_letter_by_letter),
		TEST(a_describe_of_a_statement_takes_two_messages),
		TEST(a_query_ends_with_ready_and_not_with_its_tag),
		TEST(what_is_made_up_waits_for_its_turn),
		TEST(what_is_made_up_with_nothing_owed_is_settled_at_once),
		TEST(our_own_messages_are_skipped),
		TEST(an_error_undoes_the_rest_of_the_batch_last_first),
		TEST(after_an_error_without_sync_what_follows_is_undone_until_sync),
		TEST(an_error_of_our_own_parse_is_the_clients),
		TEST(an_error_at_sync_is_followed_by_ready),
		TEST(a_batch_is_open_until_sync_or_query),
		TEST(a_batch_of_plain_answers_is_open_too),
		TEST(a_sync_before_copy_data_is_never_answered),
		TEST(a_whole_copy_in_one_write_keeps_the_sync_behind_the_data),
		TEST(two_copies_of_one_query_have_an_end_of_data_each),
		TEST(the_ends_of_two_copies_may_both_be_on_their_way),
		TEST(stray_copy_messages_are_not_answered),
		TEST(a_portal_may_be_suspended_and_go_on),
		TEST(an_answer_that_nobody_asked_for_is_bad),
		TEST(entries_with_nothing_to_do_are_not_told),
		TEST(what_is_made_up_waits_until_a_message_is_through),
		TEST(what_calls_for_nothing_is_taken_as_plain),
		TEST(what_is_told_skipped_or_followed_by_a_made_up_answer_is_not_plain),
		TEST(a_thousand_pipelined_messages_keep_their_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
