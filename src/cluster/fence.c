/* See cluster/fence.h. */
#include "cluster/fence.h"

#include <inttypes.h>

#include "wire/sqlstate.h"

static bool is_in_force(const struct fence_case *c)
{
	return c->frozen || (fence_is_up(c->word) && !c->exempt);
}

static bool is_control(const struct classified *text)
{
	return text->acts & (ACT_BEGIN | ACT_COMMIT | ACT_ROLLBACK);
}

static bool is_unknown(const struct classified *text)
{
	return text->class != CLASS_READ && text->acts & ACT_RUNS_UNKNOWN;
}

enum fence_verdict fence_decide(const struct fence_case *c)
{
	const struct classified *text = &c->text;

	if (!is_in_force(c))
		return FENCE_PASS;
	if (text->acts & ACT_LIFT)
		return FENCE_REFUSE_LIFT;
	if (text->class == CLASS_WRITE || text->acts & ACT_TWO_PHASE)
		return FENCE_REFUSE_WRITE;
	if (is_unknown(text) && text->statements > 1)
		return FENCE_REFUSE_AMONG;
	if (is_control(text) && c->batch & FENCE_RAN_UNKNOWN)
		return FENCE_REFUSE_BESIDE;
	if (!is_unknown(text))
		return FENCE_PASS;
	if (c->batch & FENCE_ENDED)
		return FENCE_REFUSE_BESIDE;
	return c->in_block || c->batch & (FENCE_BEGAN | FENCE_WRAPPED) ? FENCE_PASS : FENCE_WRAP;
}

unsigned fence_passed(enum fence_verdict v, const struct classified *text)
{
	unsigned bits = v == FENCE_WRAP ? FENCE_WRAPPED : 0;

	if (is_unknown(text))
		bits |= FENCE_RAN_UNKNOWN;
	if (text->acts & ACT_BEGIN)
		bits |= FENCE_BEGAN;
	if (text->acts & (ACT_COMMIT | ACT_ROLLBACK))
		bits |= FENCE_ENDED;
	return bits;
}

static const char *const whys[FENCE_VERDICTS] = {
	[FENCE_REFUSE_WRITE] = "this may not write",
	[FENCE_REFUSE_LIFT] = "the session may not be made writable",
	[FENCE_REFUSE_AMONG] = "what may write must stand alone, not among several statements",
	[FENCE_REFUSE_BESIDE] = "what may write must not be sent together with the end or the beginning of a transaction",
	[FENCE_REFUSE_LONG] = "the text is too long to be looked at as a whole (inspect_bytes)",
};

/* DEGRADED has a code of its own: there is nothing to write to, and a later try may find it. */
bool fence_refuse(struct err *err, enum fence_verdict v, const char *cluster, word_t w, const char *org)
{
	const char *state = word_state(w) == CLUSTER_DEGRADED ? SQLSTATE_NOT_NOW : SQLSTATE_READ_ONLY;

	if (!fence_is_up(w))
		return err_set(err, SQLSTATE_READ_ONLY, "org \"%s\" is frozen: %s", org, whys[v]);
	return err_set(err, state, "cluster %s is %s under epoch %" PRIu64 ": %s", cluster, cluster_state_name(word_state(w)), word_epoch(w), whys[v]);
}

bool fence_is_over(word_t began, word_t now)
{
	if (began == now)
		return false;
	if (began == WORD_OVER)
		return true;
	return (word_is_guarded(began) && word_is_guarded(now)) || word_state(began) != CLUSTER_PRIMARY || word_state(now) != CLUSTER_PRIMARY;
}

bool fence_over(struct err *err, const char *cluster, word_t began, word_t now, const char *org)
{
	if (began == WORD_OVER)
		return err_set(err, SQLSTATE_EPOCH_OVER, "org \"%s\" was frozen since the transaction began (epoch %" PRIu64 " of cluster %s): it is rolled back, and may be tried again",
			       org, word_epoch(now), cluster);
	return err_set(err, SQLSTATE_EPOCH_OVER, "the transaction began under epoch %" PRIu64 " of cluster %s, then %s, which is %s under epoch %" PRIu64
		       " now: it is rolled back, and may be tried again", word_epoch(began), cluster, cluster_state_name(word_state(began)),
		       cluster_state_name(word_state(now)), word_epoch(now));
}

bool fence_epoch_fits(word_t w, uint64_t epoch)
{
	return !epoch || !word_is_guarded(w) || epoch == word_epoch(w);
}

bool fence_epoch_stale(struct err *err, const char *cluster, word_t w, uint64_t epoch)
{
	return err_set(err, SQLSTATE_EPOCH_OVER, "pgweir.epoch is %" PRIu64 ", and cluster %s is under epoch %" PRIu64, epoch, cluster, word_epoch(w));
}
