/* See pool/sfq.h. */
#include "pool/sfq.h"

#include "base/mem.h"
#include "base/verify.h"

/* Virtual seconds. A use counts for a little more than it has taken so far, or several slots that come free at one moment would all go to one
 * unit. */
#define AHEAD 0.001
#define DEBT_MOST 60.0

static struct sfq_unit *of_tag(struct heap_node *n)
{
	return owner_of(n, struct sfq_unit, by_tag);
}

static bool tag_before(const struct heap_node *a, const struct heap_node *b)
{
	return owner_of(a, struct sfq_unit, by_tag)->tag < owner_of(b, struct sfq_unit, by_tag)->tag;
}

static bool wait_before(const struct heap_node *a, const struct heap_node *b)
{
	return owner_of(a, struct sfq_unit, by_wait)->since < owner_of(b, struct sfq_unit, by_wait)->since;
}

/* ---- the queue ---- */

void sfq_init(struct sfq *q)
{
	*q = (struct sfq){0};
	for (int rank = 0; rank < SFQ_RANKS; rank++) {
		heap_init(&q->ranks[rank].by_tag, tag_before);
		heap_init(&q->ranks[rank].by_wait, wait_before);
	}
}

void sfq_free(struct sfq *q)
{
	verify(sfq_is_empty(q));
	for (int rank = 0; rank < SFQ_RANKS; rank++) {
		heap_free(&q->ranks[rank].by_tag);
		heap_free(&q->ranks[rank].by_wait);
	}
}

static bool rank_is_empty(const struct sfq *q, int rank)
{
	return q->ranks[rank].by_wait.count == 0;
}

bool sfq_is_empty(const struct sfq *q)
{
	for (int rank = 0; rank < SFQ_RANKS; rank++)
		if (!rank_is_empty(q, rank))
			return false;
	return true;
}

static usec_t rank_oldest(const struct sfq *q, int rank)
{
	return owner_of(heap_top(&q->ranks[rank].by_wait), struct sfq_unit, by_wait)->since;
}

usec_t sfq_oldest(const struct sfq *q)
{
	usec_t oldest = 0;
	bool any = false;

	for (int rank = 0; rank < SFQ_RANKS; rank++) {
		if (rank_is_empty(q, rank) || (any && rank_oldest(q, rank) >= oldest))
			continue;
		oldest = rank_oldest(q, rank);
		any = true;
	}
	verify(any);
	return oldest;
}

/* ---- units ---- */

void sfq_unit_init(struct sfq_unit *u)
{
	*u = (struct sfq_unit){.pace = 1, .rank = SFQ_NORMAL};
}

double sfq_tag(const struct sfq_unit *u, usec_t now)
{
	if (u->n_uses == 0)
		return u->used;
	return u->used + ((double)(u->n_uses * now - u->begun) / USEC_PER_SEC + u->n_uses * AHEAD) * u->pace;
}

double sfq_tag_in(const struct sfq *q, const struct sfq_unit *u, usec_t now)
{
	double tag = sfq_tag(u, now), vtime = q->ranks[u->rank].vtime;

	if (u->in == q)
		return tag;
	if (tag < vtime)
		return vtime;
	return tag > vtime + DEBT_MOST ? vtime + DEBT_MOST : tag;
}

void sfq_enter(struct sfq *q, struct sfq_unit *u, usec_t since, usec_t now)
{
	verify(!sfq_waits(u));
	double tag = sfq_tag_in(q, u, now);
	u->used += tag - sfq_tag(u, now);
	u->tag = tag;
	u->since = since;
	u->in = q;
	heap_add(&q->ranks[u->rank].by_tag, &u->by_tag);
	heap_add(&q->ranks[u->rank].by_wait, &u->by_wait);
}

void sfq_leave(struct sfq_unit *u)
{
	verify(sfq_waits(u));
	heap_take(&u->in->ranks[u->rank].by_tag, &u->by_tag);
	heap_take(&u->in->ranks[u->rank].by_wait, &u->by_wait);
	u->in = NULL;
}

void sfq_wait_moved(struct sfq_unit *u, usec_t since)
{
	if (u->since == since)
		return;
	u->since = since;
	heap_fix(&u->in->ranks[u->rank].by_wait, &u->by_wait);
}

void sfq_unit_tune(struct sfq_unit *u, double weight, enum sfq_rank rank, usec_t now)
{
	struct sfq *q = u->in;

	verify(weight > 0 && rank >= 0 && rank < SFQ_RANKS);
	if (q)
		sfq_leave(u);
	u->pace = 1 / weight;
	u->rank = rank;
	if (q)
		sfq_enter(q, u, u->since, now);
}

/* ---- who is next ---- */

/* A rank in which somebody has waited too long behind a higher one; -1: there is none, or it had its turn just now. */
static int rank_to_lift(const struct sfq *q, usec_t now, usec_t max_wait)
{
	int base = 0, lift = -1;

	if (!max_wait || q->lifted)
		return -1;
	while (base < SFQ_RANKS && rank_is_empty(q, base))
		base++;
	for (int rank = base + 1; rank < SFQ_RANKS; rank++) {
		if (rank_is_empty(q, rank) || now - rank_oldest(q, rank) < max_wait)
			continue;
		if (lift < 0 || rank_oldest(q, rank) < rank_oldest(q, lift))
			lift = rank;
	}
	return lift;
}

/* The least by what the heap knows, its true tag looked at. */
static struct sfq_unit *least(struct heap *h, usec_t now)
{
	for (;;) {
		struct heap_node *top = heap_top(h);
		if (!top)
			return NULL;
		struct sfq_unit *u = of_tag(top);
		double tag = sfq_tag(u, now);
		if (tag <= u->tag)
			return u;
		u->tag = tag;
		heap_fix(h, top);
	}
}

static struct sfq_unit *pick_of(struct sfq *q, int rank, usec_t now, sfq_fit_fn fit, void *arg)
{
	struct heap *h = &q->ranks[rank].by_tag;
	struct sfq_unit *passed = NULL, *u, *found = NULL;

	while (!found && (u = least(h, now))) {
		switch (fit(u, arg)) {
		case SFQ_TAKE:
			found = u;
			break;
		case SFQ_DROP:
			sfq_leave(u);
			break;
		case SFQ_PASS:
			heap_take(h, &u->by_tag);
			u->passed_before = passed;
			passed = u;
			break;
		}
	}
	for (; passed; passed = passed->passed_before)
		heap_add(h, &passed->by_tag);
	return found;
}

struct sfq_unit *sfq_pick(struct sfq *q, usec_t now, usec_t max_wait, sfq_fit_fn fit, void *arg)
{
	int lift = rank_to_lift(q, now, max_wait);
	struct sfq_unit *u = lift < 0 ? NULL : pick_of(q, lift, now, fit, arg);

	q->lifted = u != NULL;
	for (int rank = 0; rank < SFQ_RANKS && !u; rank++)
		if (rank != lift)
			u = pick_of(q, rank, now, fit, arg);
	return u;
}

/* ---- uses ---- */

void sfq_advance(struct sfq *q, const struct sfq_unit *u, usec_t now)
{
	const struct heap *h = &q->ranks[u->rank].by_tag;
	double to = sfq_tag(u, now);

	/* Those who wait must not be left behind by one whom a slot is of use to that they could not take: who comes to wait next would
	 * stand behind him, too. */
	if (h->count && of_tag(heap_top(h))->tag < to)
		to = of_tag(heap_top(h))->tag;
	if (to > q->ranks[u->rank].vtime)
		q->ranks[u->rank].vtime = to;
}

void sfq_begin(struct sfq_unit *u, usec_t now)
{
	u->n_uses++;
	u->begun += now;
}

void sfq_end(struct sfq_unit *u, usec_t begun, usec_t now)
{
	verify(u->n_uses > 0);
	u->n_uses--;
	u->begun -= begun;
	u->used += (double)(now - begun) / USEC_PER_SEC * u->pace;
	if (!sfq_waits(u))
		return;
	u->tag = sfq_tag(u, now); /* what was counted ahead is taken back: it may be less than before */
	heap_fix(&u->in->ranks[u->rank].by_tag, &u->by_tag);
}
