/* Homes, and the journeys of clients: one at login, and more where its place moves (proxy/place). In transit it is on nobody's list and has
 * no timer: whoever walks a worker's clients at that moment does not see it, and the mail is the only one that holds it. */
#include "proxy/home.h"

#include "base/mem.h"
#include "cluster/cluster.h"
#include "loop/mail.h"
#include "proxy/worker.h"

struct journey {
	struct mail mail;
	struct client *client; /* owns, until it is read */
	usec_t timer_at;       /* 0: not set */
	void (*arrived)(struct client *c);
};

struct worker *home_of(const struct conf_cluster *cc)
{
	int home = cluster_of(cc->name, cc->max_server_conn)->home;

	verify(home >= 0 && home < n_workers);
	return workers[home];
}

static void depart(struct client *c, struct worker *from)
{
	verify_here(from->loop);
	verify(!c->server && !c->pool && !c->slot && c->state != CLIENT_CLOSING);
	stream_leave(&c->stream);
	timer_stop(&c->timer);
	list_take(&c->link);
	from->n_clients[c->state]--;
}

static void arrive(struct loop *here, struct mail *m)
{
	struct journey *j = owner_of(m, struct journey, mail);
	struct client *c = j->client;
	void (*arrived)(struct client *c) = j->arrived;
	struct worker *w = worker_of(here);

	list_push(&w->clients[c->state], &c->link);
	w->n_clients[c->state]++;
	timer_init(&c->timer, here, c->timer.fire);
	if (j->timer_at)
		timer_set(&c->timer, j->timer_at); /* all loops tell the time by one clock */
	mem_free(j);
	stream_join(&c->stream, here);
	if (here->running)
		arrived(c);
	else
		client_leave(c, "server shutting down");
}

void home_go(struct client *c, struct worker *to, void (*arrived)(struct client *c))
{
	struct worker *from = c->worker;

	if (from == to) {
		arrived(c);
		return;
	}
	struct journey *j = mem_make(struct journey);
	*j = (struct journey){.mail.read = arrive, .client = c, .timer_at = timer_is_set(&c->timer) ? c->timer.at : 0, .arrived = arrived};
	depart(c, from);
	c->worker = to;
	mail_send(to->loop, &j->mail);
}
