/* See admin/clients_priv.h. */
#include "admin/clients_priv.h"

#include "base/mem.h"
#include "proxy/worker.h"

static int pick(struct worker *w, bool (*match)(const struct client *c, const void *arg), const void *arg, struct client **out)
{
	int n = 0;

	for (int state = CLIENT_IDLE; state < CLIENT_CLOSING; state++)
		list_each(link, &w->clients[state]) {
			struct client *c = list_owner(link, struct client, link);
			if (match(c, arg))
				out[n++] = c;
		}
	return n;
}

int clients_close(struct worker *w, bool (*match)(const struct client *c, const void *arg), const void *arg, const struct err *why)
{
	size_t room = 0;

	for (int state = CLIENT_IDLE; state < CLIENT_CLOSING; state++)
		room += (size_t)w->n_clients[state];
	if (!room)
		return 0;
	struct client **picked = mem_new(room * sizeof(*picked));
	int n = pick(w, match, arg, picked);
	for (int i = 0; i < n; i++)
		client_close(picked[i], why, why->text); /* does nothing to one that has ended meanwhile: it is in its grave until the turn ends */
	mem_free(picked);
	return n;
}
