/* See proxy/worker.h. */
#include "proxy/worker.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "proxy/address.h"
#include "proxy/greet.h"
#include "proxy/lookup.h"
#include "proxy/parcel.h"
#include "proxy/place.h"
#include "proxy/relay.h"
#include "proxy/survey.h"
#include "proxy/throttle.h"

struct worker *workers[WORKERS_MOST];
int n_workers;
struct worker *control;
atomic_ullong last_connection_id;
atomic_int process_stage;
const struct console_calls *console_calls;

static const char *worker_name(int id)
{
	static char names[WORKERS_MOST][24];

	if (id < 0)
		return "control";
	snprintf(names[id], sizeof(names[id]), "worker-%d", id);
	return names[id];
}

/* A forced user's pool keeps its minimum though no client has come yet. */
static void keep_warm(struct worker *w)
{
	const struct conf *conf = w->setup->conf;

	hash_each(link, &conf->entries) {
		const struct conf_entry *e = owner_of(link, struct conf_entry, link);
		struct policy policy;
		if (!e->user)
			continue;
		conf_policy(conf, e, e->user, "default", &policy);
		if (policy.min_pool_size > 0 && cluster_of(e->cluster->name, e->cluster->max_server_conn)->home == w->id)
			pool_serve_soon(lane_pool(worker_lane(w, e->cluster), e, e->user, "default"));
	}
}

static void keep_warm_later(struct later *l)
{
	keep_warm(owner_of(l, struct worker, warm_later));
}

struct worker *worker_new(int id, struct setup *setup)
{
	struct worker *w = mem_make(struct worker);

	w->id = id;
	w->loop = loop_new(worker_name(id), id);
	w->loop->owner = w;
	w->setup = setup_ref(setup);
	w->started_at = clock_now();
	list_init(&w->listeners);
	list_init(&w->crowds);
	list_init(&w->surveys);
	for (int i = 0; i < CLIENT_STATES; i++)
		list_init(&w->clients[i]);
	gate_init(&w->gate);
	later_init(&w->warm_later, keep_warm_later);
	loop_later(w->loop, &w->warm_later);
	w->to_server = mem_make(struct parcel);
	w->to_client = mem_make(struct parcel);
	return w;
}

void worker_free(struct worker **wp)
{
	struct worker *w = *wp;
	struct err why;

	*wp = NULL;
	err_set(&why, "57P01", "server shutting down");
	for (int state = 0; state < CLIENT_CLOSING; state++)
		list_each_safe(link, &w->clients[state])
			client_close(list_owner(link, struct client, link), &why, "server shutting down");
	list_each_safe(link, &w->listeners) {
		struct listener *l = list_owner(link, struct listener, link);
		list_take(&l->link);
		if (addr_is_unix(&l->addr) && l->addr.un.sun_path[0])
			unlink(l->addr.un.sun_path);
		listener_stop(l);
		mem_free(l);
	}
	lookup_crowds_free(w);
	surveys_end(w);
	hash_each(link, &w->lanes) {
		struct lane *l = owner_of(link, struct lane, link);
		lane_free(&l);
	}
	hash_free(&w->lanes);
	hash_free(&w->throttles);
	gate_free(&w->gate);
	stream_buffers_free(w->loop);
	loop_free(&w->loop);
	stmt_book_free(&w->stmt_book);
	guc_book_free(&w->guc_book);
	parcel_free(w->to_server);
	parcel_free(w->to_client);
	mem_free(w->to_server);
	mem_free(w->to_client);
	buf_free(&w->scratch);
	address_free(w);
	setup_drop(&w->setup);
	mem_free(w);
}

void worker_adopt(struct worker *w, struct setup *setup)
{
	struct setup *old = w->setup;

	verify_here(w->loop);
	w->setup = setup_ref(setup);
	hash_each(link, &w->lanes)
		lane_adopt(owner_of(link, struct lane, link), setup);
	place_adopt(w, old->conf);
	throttle_adopt(w);
	keep_warm(w);
	setup_drop(&old);
}

static void accepted(struct listener *l, int fd)
{
	struct worker *w = l->owner;
	const struct settings *set = &w->setup->conf->set;
	struct addr peer = l->addr;

	if (!addr_is_unix(&l->addr)) {
		if (!addr_of_peer(&peer, fd)) {
			close(fd);
			return;
		}
		sock_tune(fd, &(struct sock_options){set->tcp_keepalive, set->tcp_keepcnt, set->tcp_keepidle, set->tcp_keepintvl, set->tcp_user_timeout, set->tcp_socket_buffer});
	}
	greet_begin(client_new(w, fd, &peer));
}

void worker_listen(struct worker *w, int fd)
{
	struct listener *l = mem_make(struct listener);

	listener_start(l, w->loop, fd, accepted, w);
	list_push(&w->listeners, &l->link);
}

static bool lane_same(const struct hash_link *link, const void *key)
{
	return owner_of(link, struct lane, link)->cluster == key;
}

struct lane *worker_lane(struct worker *w, const struct conf_cluster *cc)
{
	struct cluster *c = cluster_of(cc->name, cc->max_server_conn);
	uint64_t hash = hash_bytes(&c, sizeof(c));
	struct hash_link *link = hash_find(&w->lanes, hash, lane_same, c);

	verify_here(w->loop);
	verify(c->home == w->id);
	if (link)
		return owner_of(link, struct lane, link);
	struct lane *l = lane_new(w->loop, c, w->setup, &w->guc_book, &w->stmt_book, &relay_server_calls, &last_connection_id);
	int stage = atomic_load(&process_stage);
	l->suspended = stage == STAGE_PAUSED || stage == STAGE_SUSPENDED || stage == STAGE_WAIT_SERVERS;
	hash_add(&w->lanes, &l->link, hash);
	return l;
}

/* ---- clusters that move on ---- */

struct follow {
	struct mail mail;
	struct cluster *cluster; /* borrows: for good */
};

static void follow_read(struct loop *here, struct mail *m)
{
	struct follow *f = owner_of(m, struct follow, mail);
	struct worker *w = worker_of(here);
	struct hash_link *link = hash_find(&w->lanes, hash_bytes(&f->cluster, sizeof(f->cluster)), lane_same, f->cluster);

	if (link)
		lane_keep_up(owner_of(link, struct lane, link));
	mem_free(f);
}

void worker_follow(struct cluster *c)
{
	struct follow *f = mem_make(struct follow);

	*f = (struct follow){.mail.read = follow_read, .cluster = c};
	mail_send(workers[c->home]->loop, &f->mail);
}

/* ---- all of them ---- */

int worker_loops(struct loop *out[WORKERS_MOST + 1])
{
	for (int i = 0; i < n_workers; i++)
		out[i] = workers[i]->loop;
	out[n_workers] = control->loop;
	return n_workers + 1;
}
