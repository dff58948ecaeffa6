/* See proxy/nudge.h. */
#include "proxy/nudge.h"

#include "loop/mail.h"
#include "proxy/worker.h"

struct nudge {
	struct mail mail;
	void (*each)(struct lane *l);
};

static void nudge_read(struct loop *here, struct mail *m)
{
	struct nudge *n = owner_of(m, struct nudge, mail);
	struct worker *w = here->owner;

	hash_each(link, &w->lanes)
		n->each(owner_of(link, struct lane, link));
	mem_free(n);
}

/* A user's cap spans lanes, several on one worker among them: all are told. Rare: only while somebody waits for such a cap. */
static void nudge_all(void (*each)(struct lane *l))
{
	for (int i = 0; i < n_workers; i++) {
		struct nudge *n = mem_make(struct nudge);
		n->mail.read = nudge_read;
		n->each = each;
		mail_send(workers[i]->loop, &n->mail);
	}
}

void nudge_cap_room(struct lane *l)
{
	(void)l;
	nudge_all(lane_cap_room);
}

void nudge_cap_wanted(struct lane *l)
{
	(void)l;
	nudge_all(lane_make_room);
}
