/* The fence: whether a statement may pass while writes to its cluster are fenced, or its org is frozen. Pure. It is the first of two nets and
 * gives the clear error; the second is the server's own session, which is read-only from its startup packet on.
 *
 * Text of class write is refused, and so is what would lift the second net. What the text does not show (a function, CALL, DO, EXECUTE ...) could lift it from
 * inside, but only for the transactions behind its own: so nothing may end its transaction beside it, be it a COMMIT in the same batch or one in
 * a procedure's body. It runs in a transaction block, where procedures cannot commit: the client's own, or one that is opened for it. */
#pragma once

#include "base/err.h"
#include "cluster/word.h"
#include "sql/classify.h"

/* What a batch, all that is answered by one ReadyForQuery, has passed on so far. */
enum fence_batch {
	FENCE_RAN_UNKNOWN = 1 << 0, /* something whose text does not show what it does */
	FENCE_BEGAN = 1 << 1,       /* a transaction block of the client's */
	FENCE_ENDED = 1 << 2,       /* a transaction, by COMMIT or ROLLBACK */
	FENCE_WRAPPED = 1 << 3,     /* a block was opened for it, READ ONLY */
};

struct fence_case {
	word_t word;            /* the cluster's */
	bool exempt;            /* may write while others are fenced: fence_exempt_users, under the epoch of now */
	bool frozen;            /* the client's org, by FREEZE ORG */
	bool in_block;          /* the client has a transaction block open, from an earlier batch */
	unsigned batch;         /* FENCE_ bits */
	struct classified text;
};

enum fence_verdict {
	FENCE_PASS,
	FENCE_WRAP,          /* passes inside a block that is opened READ ONLY for it, and ended behind it */
	FENCE_REFUSE_WRITE,  /* from here on: refused */
	FENCE_REFUSE_LIFT,   /* it would make the session or its transaction writable */
	FENCE_REFUSE_AMONG,  /* of several statements in one text one is unknown */
	FENCE_REFUSE_BESIDE, /* the end of a transaction and unknown text in one batch */
	FENCE_REFUSE_LONG,   /* the text is not there as a whole: the caller's verdict */
	FENCE_VERDICTS,
};

/* Are writes fenced in this state? An unguarded cluster is never. */
static inline bool fence_is_up(word_t w) { return word_is_guarded(w) && word_state(w) != CLUSTER_PRIMARY; }

enum fence_verdict fence_decide(const struct fence_case *c);
/* What the statement's passing adds to the batch; it was not refused. */
unsigned fence_passed(enum fence_verdict v, const struct classified *text);
/* What the client is told. org: of a frozen one, NULL: it is the cluster's fence. Returns false, as err_set. */
bool fence_refuse(struct err *err, enum fence_verdict v, const char *cluster, word_t w, const char *org);

/* Is what began under one word over under another? Not when a cluster merely gets a breaker, or loses it, while its primary is served. */
bool fence_is_over(word_t began, word_t now);
/* Returns false, as err_set. */
bool fence_over(struct err *err, const char *cluster, word_t began, word_t now, const char *org);

/* An epoch that a client says it acts under (pgweir.epoch, 0: none): any but the one of now is stale. */
bool fence_epoch_fits(word_t w, uint64_t epoch);
bool fence_epoch_stale(struct err *err, const char *cluster, word_t w, uint64_t epoch);
