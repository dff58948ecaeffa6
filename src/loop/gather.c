/* A question to many loops. The mail in each part travels twice: to the loop with the
 * question and back to the asker with the answer, so that an answer needs no memory and
 * cannot fail. Between the two its read is NULL, which is how a part that is answered
 * twice is caught. */
#include "loop/gather.h"

#include "base/mem.h"

static void part_asked(struct loop *here, struct mail *m)
{
	struct part *p = owner_of(m, struct part, mail);

	verify(here == p->loop);
	m->read = NULL;
	p->gather->ask(p);
}

static void part_returned(struct loop *here, struct mail *m)
{
	struct gather *g = owner_of(m, struct part, mail)->gather;

	verify(here == g->asker && g->n_open > 0);
	if (--g->n_open == 0)
		g->done(g);
}

struct gather *gather_start(struct loop *asker, struct loop **loops, int n_loops, void (*ask)(struct part *), void (*done)(struct gather *), void *arg)
{
	struct gather *g = mem_make(struct gather);

	verify_here(asker);
	verify(n_loops > 0);
	g->asker = asker;
	g->ask = ask;
	g->done = done;
	g->arg = arg;
	g->n_parts = g->n_open = n_loops;
	g->parts = mem_new((size_t)n_loops * sizeof(g->parts[0]));
	for (int i = 0; i < n_loops; i++) {
		g->parts[i].gather = g;
		g->parts[i].loop = loops[i];
		g->parts[i].mail.read = part_asked;
	}
	for (int i = 0; i < n_loops; i++)
		mail_send(loops[i], &g->parts[i].mail);
	return g;
}

void part_done(struct part *p)
{
	verify_here(p->loop);
	verify(!p->mail.read);
	p->mail.read = part_returned;
	mail_send(p->gather->asker, &p->mail);
}

void gather_forget(struct gather *g)
{
	verify_here(g->asker);
	g->forgotten = true;
}

void gather_free(struct gather **at)
{
	struct gather *g = *at;

	if (!g)
		return;
	*at = NULL;
	verify(g->n_open == 0);
	for (int i = 0; i < g->n_parts; i++)
		buf_free(&g->parts[i].rows);
	mem_free(g->parts);
	mem_free(g);
}
