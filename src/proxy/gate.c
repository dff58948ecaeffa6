/* See proxy/gate.h. What counts is time: a SCRAM exchange costs some microseconds, a clear password against a SCRAM verifier some
 * milliseconds. How many pass in a turn follows from what the last ones took. */
#include "proxy/gate.h"

#include "proxy/greet_priv.h"
#include "proxy/worker.h"

#define PER_TURN USEC_PER_MSEC

/* Those of one org, or of orgs that nobody knows. */
struct gate_queue {
	struct hash_link link; /* in gate->by_org */
	struct list round_link;
	const struct org *org; /* borrows: its clients have references; NULL: unknown */
	struct list greets;
};

static int most_in_turn(const struct gate *g)
{
	return g->cost ? (int)(PER_TURN / g->cost) + 1 : INT_MAX;
}

static bool queue_is_of(const struct hash_link *link, const void *org)
{
	return owner_of(link, struct gate_queue, link)->org == org;
}

static struct gate_queue *queue_of(struct gate *g, const struct org *org)
{
	uint64_t hash = hash_bytes(&org, sizeof(org));
	struct hash_link *link = hash_find(&g->by_org, hash, queue_is_of, org);
	struct gate_queue *q;

	if (link)
		return owner_of(link, struct gate_queue, link);
	q = mem_make(struct gate_queue);
	q->org = org;
	list_init(&q->greets);
	hash_add(&g->by_org, &q->link, hash);
	list_push(&g->round, &q->round_link);
	return q;
}

static void leave(struct gate *g, struct greet *greet)
{
	struct gate_queue *q = greet->queue;

	greet->queue = NULL;
	list_take(&greet->gate_link);
	if (!list_empty(&q->greets))
		return;
	hash_take(&g->by_org, &q->link);
	list_take(&q->round_link);
	mem_free(q);
}

void gate_leave(struct client *c)
{
	if (c->greet->queue)
		leave(&c->worker->gate, c->greet);
}

static void wait_here(struct client *c)
{
	struct gate *g = &c->worker->gate;
	struct gate_queue *q = queue_of(g, c->org);

	c->greet->queue = q;
	list_push(&q->greets, &c->greet->gate_link);
	loop_later(c->worker->loop, &g->let_pass);
}

/* One of each org in turn. */
static void let_pass(struct later *l)
{
	struct gate *g = owner_of(l, struct gate, let_pass);
	struct list *link;
	struct loop *loop = NULL;

	for (int n = most_in_turn(g); n > 0 && (link = list_first(&g->round)); n--) {
		struct gate_queue *q = list_owner(link, struct gate_queue, round_link);
		struct greet *greet = list_owner(list_first(&q->greets), struct greet, gate_link);
		list_take(link);
		list_push(&g->round, link);
		leave(g, greet);
		greet->may_pass = true;
		loop = greet->client->worker->loop;
		stream_resume(&greet->client->stream);
	}
	if (loop && !list_empty(&g->round))
		loop_later(loop, &g->let_pass);
}

void gate_init(struct gate *g)
{
	list_init(&g->round);
	later_init(&g->let_pass, let_pass);
}

void gate_free(struct gate *g)
{
	later_stop(&g->let_pass);
	hash_free(&g->by_org);
}

bool gate_passes(struct client *c)
{
	struct gate *g = &c->worker->gate;
	usec_t now = loop_now(c->worker->loop);
	bool may = c->greet->may_pass;

	c->greet->may_pass = false;
	if (g->turn != now) {
		g->turn = now;
		g->passed = 0;
	}
	if (may || (list_empty(&g->round) && g->passed < most_in_turn(g))) {
		g->passed++;
		return true;
	}
	if (!c->greet->queue)
		wait_here(c);
	stream_pause(&c->stream);
	return false;
}

void gate_took(struct worker *w, usec_t time)
{
	struct gate *g = &w->gate;

	g->cost = (g->cost * 7 + time) / 8;
}
