/* The fence's decisions, as a table: what was said about a text, where it comes, and what becomes of it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "cluster/fence.h"
#include "wire/sqlstate.h"

#define UP word_pack(CLUSTER_RECOVERING, 7)
#define DOWN word_pack(CLUSTER_DEGRADED, 7)
#define SERVED word_pack(CLUSTER_PRIMARY, 7)

static struct classified said(const char *sql)
{
	return classify(span_str(sql), READING_EITHER);
}

static enum fence_verdict decide(const char *sql, unsigned batch, bool in_block)
{
	struct fence_case c = {.word = UP, .in_block = in_block, .batch = batch, .text = said(sql)};
	return fence_decide(&c);
}

/* ---- alone, outside any block ---- */

static const struct {
	const char *sql;
	enum fence_verdict verdict;
} alone[] = {
	{"", FENCE_PASS},
	{"SELECT 1", FENCE_PASS},
	{"SELECT 1; SELECT 2", FENCE_PASS},
	{"SHOW TimeZone", FENCE_PASS},
	{"SET TimeZone = 'UTC'", FENCE_PASS},
	{"BEGIN", FENCE_PASS},
	{"BEGIN READ ONLY", FENCE_PASS},
	{"BEGIN; SELECT 1; COMMIT", FENCE_PASS},
	{"COMMIT", FENCE_PASS},
	{"ROLLBACK AND CHAIN", FENCE_PASS},
	{"RESET ALL", FENCE_PASS},
	{"DISCARD ALL", FENCE_PASS},
	{"SET TRANSACTION READ ONLY", FENCE_PASS},
	{"SELECT f()", FENCE_WRAP},
	{"CALL p()", FENCE_WRAP},
	{"DO $$ BEGIN NULL; END $$", FENCE_WRAP},
	{"EXECUTE x", FENCE_WRAP},
	{"FETCH c", FENCE_WRAP},
	{"EXPLAIN ANALYZE SELECT f()", FENCE_WRAP},
	{"INSERT INTO t VALUES (1)", FENCE_REFUSE_WRITE},
	{"WITH a AS (DELETE FROM t RETURNING 1) SELECT * FROM a", FENCE_REFUSE_WRITE},
	{"SELECT 1; DROP TABLE t", FENCE_REFUSE_WRITE},
	{"SELECT f(); DROP TABLE t", FENCE_REFUSE_WRITE},
	{"PREPARE TRANSACTION 'x'", FENCE_REFUSE_WRITE},
	{"COMMIT PREPARED 'x'", FENCE_REFUSE_WRITE},
	{"NOTIFY n", FENCE_REFUSE_WRITE},
	{"SELECT pg_advisory_lock(1)", FENCE_REFUSE_WRITE},
	{"SELECT lo_create(0)", FENCE_REFUSE_WRITE},
	{"COPY t FROM STDIN", FENCE_REFUSE_WRITE},
	{"BEGIN READ WRITE", FENCE_REFUSE_LIFT},
	{"SET default_transaction_read_only = off", FENCE_REFUSE_LIFT},
	{"RESET default_transaction_read_only", FENCE_REFUSE_LIFT},
	{"SELECT set_config('transaction_read_only', 'off', true)", FENCE_REFUSE_LIFT},
	{"SELECT f(); SELECT 1", FENCE_REFUSE_AMONG},
	{"SELECT f(); COMMIT; SELECT g()", FENCE_REFUSE_AMONG},
	{"BEGIN; SELECT f()", FENCE_REFUSE_AMONG},
};

static void a_text_alone_passes_is_wrapped_or_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++)
		if (decide(alone[i].sql, 0, false) != alone[i].verdict)
			fail_msg("%s: %d and not %d", alone[i].sql, decide(alone[i].sql, 0, false), alone[i].verdict);
}

static void nothing_is_refused_where_no_fence_is_up(void **state)
{
	(void)state;
	const struct fence_case cases[] = {{.word = SERVED}, {.word = 0}, {.word = UP, .exempt = true}};

	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
		for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
			struct fence_case c = cases[k];
			c.text = said(alone[i].sql);
			assert_int_equal(fence_decide(&c), FENCE_PASS);
		}
}

static void a_frozen_org_is_fenced_wherever_it_is_and_whoever_speaks_for_it(void **state)
{
	(void)state;
	const struct fence_case cases[] = {{.word = SERVED}, {.word = 0}, {.word = UP, .exempt = true}, {.word = DOWN}};

	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
		for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
			struct fence_case c = cases[k];
			c.frozen = true;
			c.text = said(alone[i].sql);
			assert_int_equal(fence_decide(&c), alone[i].verdict);
		}
}

/* ---- in a batch, step by step ---- */

#define STEPS_MOST 5
static const struct {
	bool in_block;
	const char *steps[STEPS_MOST];
	enum fence_verdict last; /* all before pass, or are wrapped */
} batches[] = {
	/* one block serves the whole batch */
	{false, {"SELECT f()", "SELECT g()"}, FENCE_PASS},
	{false, {"SELECT 1", "SELECT f()"}, FENCE_WRAP},
	{false, {"SELECT f()", "SELECT 1", "CALL p()"}, FENCE_PASS},
	/* the client's own does, too */
	{true, {"SELECT f()"}, FENCE_PASS},
	{false, {"BEGIN", "SELECT f()"}, FENCE_PASS},
	{false, {"BEGIN", "SELECT f()", "SAVEPOINT s", "SELECT g()"}, FENCE_PASS},
	/* nothing ends a transaction beside what may have lifted the fence, in whichever order */
	{false, {"SELECT f()", "COMMIT"}, FENCE_REFUSE_BESIDE},
	{false, {"SELECT f()", "ROLLBACK"}, FENCE_REFUSE_BESIDE},
	{false, {"SELECT f()", "COMMIT AND CHAIN"}, FENCE_REFUSE_BESIDE},
	{false, {"SELECT f()", "BEGIN"}, FENCE_REFUSE_BESIDE},
	{false, {"BEGIN", "SELECT f()", "COMMIT"}, FENCE_REFUSE_BESIDE},
	{true, {"SELECT f()", "COMMIT"}, FENCE_REFUSE_BESIDE},
	{true, {"COMMIT", "SELECT f()"}, FENCE_REFUSE_BESIDE},
	{false, {"COMMIT", "SELECT f()"}, FENCE_REFUSE_BESIDE},
	{false, {"COMMIT", "BEGIN", "SELECT f()"}, FENCE_REFUSE_BESIDE},
	{true, {"ROLLBACK", "BEGIN", "CALL p()"}, FENCE_REFUSE_BESIDE},
	/* what is read may be mixed with anything */
	{false, {"BEGIN", "SELECT 1", "COMMIT", "BEGIN", "SELECT 2"}, FENCE_PASS},
	{true, {"SELECT 1", "COMMIT"}, FENCE_PASS},
	{false, {"SELECT f()", "INSERT INTO t VALUES (1)"}, FENCE_REFUSE_WRITE},
	{true, {"SELECT f()", "SET TRANSACTION READ WRITE"}, FENCE_REFUSE_LIFT},
};

static void a_batch_is_judged_by_what_stands_in_it_already(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
		unsigned batch = 0;
		for (int k = 0; k < STEPS_MOST && batches[i].steps[k]; k++) {
			struct classified text = said(batches[i].steps[k]);
			enum fence_verdict v = decide(batches[i].steps[k], batch, batches[i].in_block);
			bool last = k + 1 == STEPS_MOST || !batches[i].steps[k + 1];
			if (last ? v != batches[i].last : v > FENCE_WRAP)
				fail_msg("row %zu, \"%s\": %d", i, batches[i].steps[k], v);
			batch |= fence_passed(v, &text);
		}
	}
}

/* ---- what is told ---- */

static void the_refusal_names_cluster_state_and_epoch(void **state)
{
	(void)state;
	struct err err;

	assert_false(fence_refuse(&err, FENCE_REFUSE_WRITE, "main", UP, NULL));
	assert_string_equal(err.sqlstate, SQLSTATE_READ_ONLY);
	assert_string_equal(err.text, "cluster main is recovering under epoch 7: this may not write");
	fence_refuse(&err, FENCE_REFUSE_WRITE, "main", DOWN, NULL);
	assert_string_equal(err.sqlstate, SQLSTATE_NOT_NOW);
	fence_refuse(&err, FENCE_REFUSE_WRITE, "main", SERVED, "acme");
	assert_string_equal(err.sqlstate, SQLSTATE_READ_ONLY);
	assert_string_equal(err.text, "org \"acme\" is frozen: this may not write");
	for (enum fence_verdict v = FENCE_REFUSE_WRITE; v < FENCE_VERDICTS; v++) {
		fence_refuse(&err, v, "main", UP, NULL);
		assert_null(strstr(err.text, "(null)"));
	}
}

static void a_transaction_is_over_when_epoch_or_state_have_moved_on(void **state)
{
	(void)state;
	struct err err;

	assert_false(fence_is_over(SERVED, SERVED));
	assert_true(fence_is_over(SERVED, UP));
	assert_true(fence_is_over(SERVED, DOWN));
	assert_true(fence_is_over(UP, SERVED));
	assert_true(fence_is_over(SERVED, word_pack(CLUSTER_PRIMARY, 8)));
	assert_true(fence_is_over(WORD_OVER, SERVED));
	assert_true(fence_is_over(0, UP));
	assert_false(fence_is_over(0, SERVED)); /* a reload that gives it a breaker, or takes it away */
	assert_false(fence_is_over(SERVED, 0));
	fence_over(&err, "main", SERVED, word_pack(CLUSTER_RECOVERING, 8), NULL);
	assert_string_equal(err.sqlstate, SQLSTATE_EPOCH_OVER);
	assert_non_null(strstr(err.text, "epoch 7"));
	assert_non_null(strstr(err.text, "epoch 8"));
	fence_over(&err, "main", WORD_OVER, SERVED, "acme");
	assert_string_equal(err.sqlstate, SQLSTATE_EPOCH_OVER);
	assert_non_null(strstr(err.text, "acme"));
}

static void only_the_epoch_of_now_fits(void **state)
{
	(void)state;
	struct err err;

	assert_true(fence_epoch_fits(UP, 7));
	assert_true(fence_epoch_fits(UP, 0)); /* the client says none */
	assert_false(fence_epoch_fits(UP, 6));
	assert_false(fence_epoch_fits(SERVED, 8));
	assert_true(fence_epoch_fits(0, 5)); /* no epochs there */
	fence_epoch_stale(&err, "main", UP, 6);
	assert_string_equal(err.sqlstate, SQLSTATE_EPOCH_OVER);
	assert_string_equal(err.text, "pgweir.epoch is 6, and cluster main is under epoch 7");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_alone_passes_is_wrapped_or_refused),
		cmocka_unit_test(nothing_is_refused_where_no_fence_is_up),
		cmocka_unit_test(a_frozen_org_is_fenced_wherever_it_is_and_whoever_speaks_for_it),
		cmocka_unit_test(a_batch_is_judged_by_what_stands_in_it_already),
		cmocka_unit_test(the_refusal_names_cluster_state_and_epoch),
		cmocka_unit_test(a_transaction_is_over_when_epoch_or_state_have_moved_on),
		cmocka_unit_test(only_the_epoch_of_now_fits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
