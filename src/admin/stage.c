/* See admin/stage.h.
 *
 * What lasts are flags that every thread reads: process_stage, and each entry's paused and disabled. They are set first, so
 * that lanes and clients which come meanwhile see them; then a gather has each loop do what is to be done at once, and a
 * part that waits for servers to end answers when its last lane is done. */
#include "admin/stage.h"

#include "admin/clients_priv.h"
#include "base/mem.h"
#include "pool/order.h"
#include "tenant/org.h"
#include "wire/sqlstate.h"

struct stage_call {
	struct list link;            /* in pending */
	void (*order)(struct lane *l, struct tally *entry, struct part *p); /* what each lane does; ends with lane_done(p), then or later */
	void (*rest)(struct part *p); /* what each loop does beside; may be NULL */
	struct tally *entry;         /* borrows; NULL: everything */
	uint64_t client;             /* KILL_CLIENT's */
	char org[ORG_ID_MOST + 1];   /* of PAUSE, FREEZE and RESUME ORG; "": not about one */
	bool pauses;                 /* RESUME makes an end of it */

	/* control's only */
	bool canceled;
	int64_t found;
	stage_done_fn done;          /* NULL: nobody wants to know */
	void (*ended)(struct stage_call *call, struct err *err); /* may say that it failed; may be NULL */
	void *arg;
};

static struct list pending = {&pending, &pending}; /* calls whose gather is under way */

/* ---- in the loops ---- */

static void lane_done(struct part *p)
{
	if (--p->number == 0)
		part_done(p);
}

static void ask(struct part *p)
{
	const struct stage_call *call = p->gather->arg;
	struct worker *w = worker_of(p->loop);

	p->number = 1; /* ourselves, so that it cannot end before all lanes were told */
	if (call->order)
		hash_each(link, &w->lanes) {
			p->number++;
			call->order(owner_of(link, struct lane, link), call->entry, p);
		}
	if (call->rest)
		call->rest(p);
	lane_done(p);
}

static void suspend_if_all(struct lane *l, const struct tally *entry)
{
	if (!entry)
		l->suspended = true;
}

static void lane_pause(struct lane *l, struct tally *entry, struct part *p)
{
	suspend_if_all(l, entry);
	order_pause(l, entry);
	order_wait(l, entry, ORDER_NO_SERVERS, p, lane_done);
}

static void lane_suspend(struct lane *l, struct tally *entry, struct part *p)
{
	suspend_if_all(l, entry);
	order_wait(l, entry, ORDER_NO_BUSY_SERVERS, p, lane_done);
}

static void lane_resume(struct lane *l, struct tally *entry, struct part *p)
{
	if (!entry)
		l->suspended = false;
	order_cancel(l, entry);
	order_resume(l, entry);
	lane_done(p);
}

static void lane_wait_close(struct lane *l, struct tally *entry, struct part *p)
{
	order_wait(l, entry, ORDER_NO_STALE_SERVERS, p, lane_done);
}

static void lane_reconnect(struct lane *l, struct tally *entry, struct part *p)
{
	order_reconnect(l, entry);
	lane_done(p);
}

static void lane_pause_org(struct lane *l, struct tally *entry, struct part *p)
{
	const struct stage_call *call = p->gather->arg;

	(void)entry;
	order_pause_org(l, call->org, p, lane_done);
}

static void lane_freeze_org(struct lane *l, struct tally *entry, struct part *p)
{
	const struct stage_call *call = p->gather->arg;
	struct flow *f = lane_flow(l, call->org);

	if (f)
		flow_freeze(f);
	order_wait(l, entry, ORDER_NO_WRITES, p, lane_done);
}

static void lane_resume_org(struct lane *l, struct tally *entry, struct part *p)
{
	const struct stage_call *call = p->gather->arg;
	struct flow *f = lane_flow(l, call->org);

	(void)entry;
	if (f)
		flow_thaw(f);
	order_resume_org(l, call->org);
	lane_done(p);
}

/* The servers first: their clients then hear it from them, and no query is cancelled on a server that is closed anyway. */
static void lane_kill(struct lane *l, struct tally *entry, struct part *p)
{
	struct err why;

	err_set(&why, SQLSTATE_SHUTDOWN, "admin forced disconnect");
	suspend_if_all(l, entry);
	order_kill(l, entry, &why);
	lane_done(p);
}

static bool is_of_entry(const struct client *c, const void *entry)
{
	return !c->console && (!entry || c->seats.entry == entry || (c->pool && c->pool->target->entry == entry));
}

static void kill_clients(struct part *p)
{
	const struct stage_call *call = p->gather->arg;
	struct err why;

	err_set(&why, SQLSTATE_SHUTDOWN, "admin forced disconnect");
	clients_close(worker_of(p->loop), is_of_entry, call->entry, &why);
}

static bool is_that(const struct client *c, const void *id)
{
	return c->id == *(const uint64_t *)id;
}

static void kill_one(struct part *p)
{
	const struct stage_call *call = p->gather->arg;
	struct err why;

	err_set(&why, SQLSTATE_SHUTDOWN, "admin forced disconnect");
	if (clients_close(worker_of(p->loop), is_that, &call->client, &why))
		buf_add_u8(&p->rows, 1);
}

/* Those on Unix sockets stay: the console must be reachable to the end. Whoever else comes that way is refused at login. */
static void close_tcp(struct worker *w)
{
	list_each_safe(link, &w->listeners) {
		struct listener *l = list_owner(link, struct listener, link);
		if (addr_is_unix(&l->addr))
			continue;
		list_take(&l->link);
		listener_stop(l);
		mem_free(l);
	}
}

static void drain_clients(struct part *p)
{
	close_tcp(worker_of(p->loop));
}

static bool is_waiting(const struct client *c, const void *arg)
{
	(void)arg;
	return c->state == CLIENT_WAIT;
}

static void drain_servers(struct part *p)
{
	struct err why;

	close_tcp(worker_of(p->loop));
	err_set(&why, SQLSTATE_SHUTDOWN, "server shutting down");
	clients_close(worker_of(p->loop), is_waiting, NULL, &why);
}

/* ---- calls ---- */

static void call_over(struct gather *g)
{
	struct stage_call *call = g->arg;
	struct err err = {0};

	for (int i = 0; i < g->n_parts; i++)
		call->found += (int64_t)g->parts[i].rows.len;
	gather_free(&g);
	list_take(&call->link);
	if (call->ended)
		call->ended(call, &err);
	if (call->canceled)
		err_set(&err, SQLSTATE_CANCELED, "canceled by RESUME");
	if (call->done)
		call->done(call->arg, err.sqlstate[0] ? &err : NULL);
	mem_free(call);
}

/* All that the loops look at must be in `what`. */
static struct stage_call *call_start(const struct stage_call *what, stage_done_fn done, void *arg)
{
	struct stage_call *call = mem_make(struct stage_call);
	struct loop *loops[WORKERS_MOST + 1];
	int n = worker_loops(loops);

	*call = *what;
	call->done = done;
	call->arg = arg;
	list_init(&call->link);
	list_push(&pending, &call->link);
	gather_start(control->loop, loops, n, ask, call_over, call);
	return call;
}

void stage_forget(struct stage_call *call)
{
	call->done = NULL;
}

static bool is_ending(void)
{
	return atomic_load(&process_stage) >= STAGE_WAIT_SERVERS;
}

static bool refuse_if_ending(struct err *err)
{
	return !is_ending() || err_set(err, SQLSTATE_NOT_NOW, "pooler is shutting down");
}

static bool refuse_if_held(struct err *err)
{
	return atomic_load(&process_stage) == STAGE_RUNNING || err_set(err, SQLSTATE_NOT_NOW, "already suspended/paused");
}

/* ---- orders ---- */

struct stage_call *stage_pause(struct tally *entry, stage_done_fn done, void *arg, struct err *err)
{
	if (!refuse_if_ending(err) || !refuse_if_held(err))
		return NULL;
	if (!entry) {
		atomic_store(&process_stage, STAGE_PAUSED);
	} else if (atomic_exchange(&entry->paused, true)) {
		err_set(err, SQLSTATE_NOT_NOW, "database %s is already paused", entry->name);
		return NULL;
	}
	return call_start(&(struct stage_call){.order = lane_pause, .entry = entry, .pauses = true}, done, arg);
}

static void note_paused(void *arg, struct tally *t)
{
	if (atomic_load(&t->paused))
		*(bool *)arg = true;
}

struct stage_call *stage_suspend(stage_done_fn done, void *arg, struct err *err)
{
	bool any_paused = false;

	if (!refuse_if_ending(err) || !refuse_if_held(err))
		return NULL;
	tally_each_entry(note_paused, &any_paused);
	if (any_paused) {
		err_set(err, SQLSTATE_NOT_NOW, "cannot suspend with paused databases");
		return NULL;
	}
	atomic_store(&process_stage, STAGE_SUSPENDED);
	return call_start(&(struct stage_call){.order = lane_suspend, .pauses = true}, done, arg);
}

static void cancel_pauses(const struct tally *entry, const char *org)
{
	list_each(link, &pending) {
		struct stage_call *call = list_owner(link, struct stage_call, link);
		if (call->pauses && call->entry == entry && strcmp(call->org, org) == 0)
			call->canceled = true;
	}
}

bool stage_resume(struct tally *entry, struct err *err)
{
	if (!refuse_if_ending(err))
		return false;
	if (entry && !atomic_exchange(&entry->paused, false))
		return err_set(err, SQLSTATE_NOT_NOW, "database %s is not paused", entry->name);
	if (!entry && atomic_exchange(&process_stage, STAGE_RUNNING) == STAGE_RUNNING)
		return err_set(err, SQLSTATE_NOT_NOW, "pooler is not paused/suspended");
	cancel_pauses(entry, "");
	call_start(&(struct stage_call){.order = lane_resume, .entry = entry}, NULL, NULL);
	return true;
}

struct stage_call *stage_wait_close(struct tally *entry, stage_done_fn done, void *arg, struct err *err)
{
	(void)err; /* never refused: there is nothing that it could disturb */
	return call_start(&(struct stage_call){.order = lane_wait_close, .entry = entry}, done, arg);
}

bool stage_reconnect(struct tally *entry, struct err *err)
{
	if (!refuse_if_ending(err))
		return false;
	call_start(&(struct stage_call){.order = lane_reconnect, .entry = entry}, NULL, NULL);
	return true;
}

bool stage_kill(struct tally *entry, struct err *err)
{
	if (!refuse_if_ending(err))
		return false;
	if (entry)
		atomic_store(&entry->paused, true);
	else
		atomic_store(&process_stage, STAGE_PAUSED);
	call_start(&(struct stage_call){.order = lane_kill, .rest = kill_clients, .entry = entry}, NULL, NULL);
	return true;
}

/* ---- of one org ---- */

/* The registry keeps an org that is held back, so that its clients find it so whenever they come; what is set there comes ahead of the lanes. */
static struct stage_call *org_order(const char *id, const struct stage_call *what, stage_done_fn done, void *arg)
{
	struct stage_call call = *what;

	strcpy(call.org, id);
	return call_start(&call, done, arg);
}

struct stage_call *stage_pause_org(const char *id, stage_done_fn done, void *arg, struct err *err)
{
	struct org *org;
	bool was;

	if (!refuse_if_ending(err))
		return NULL;
	org = org_of(id, 0);
	was = atomic_exchange(&org->paused, true);
	org_drop(&org);
	if (was) {
		err_set(err, SQLSTATE_NOT_NOW, "org \"%s\" is already paused", id);
		return NULL;
	}
	return org_order(id, &(struct stage_call){.order = lane_pause_org, .pauses = true}, done, arg);
}

struct stage_call *stage_freeze_org(const char *id, stage_done_fn done, void *arg, struct err *err)
{
	struct org *org;

	if (!refuse_if_ending(err))
		return NULL;
	org = org_of(id, 0);
	atomic_store(&org->frozen, true);
	org_drop(&org);
	return org_order(id, &(struct stage_call){.order = lane_freeze_org}, done, arg);
}

struct stage_call *stage_resume_org(const char *id, stage_done_fn done, void *arg, struct err *err)
{
	struct org *org;
	bool was;

	if (!refuse_if_ending(err))
		return NULL;
	org = org_of(id, 0);
	was = atomic_exchange(&org->frozen, false);
	was |= atomic_exchange(&org->paused, false);
	org_drop(&org);
	if (!was) {
		err_set(err, SQLSTATE_NOT_NOW, "org \"%s\" is neither frozen nor paused", id);
		return NULL;
	}
	cancel_pauses(NULL, id);
	return org_order(id, &(struct stage_call){.order = lane_resume_org}, done, arg);
}

static void kill_ended(struct stage_call *call, struct err *err)
{
	if (!call->found)
		err_set(err, SQLSTATE_BAD_VALUE, "client not found");
}

bool stage_kill_client(uint64_t id, stage_done_fn done, void *arg)
{
	call_start(&(struct stage_call){.rest = kill_one, .client = id, .ended = kill_ended}, done, arg);
	return true;
}

struct stage_call *stage_settle(stage_done_fn done, void *arg)
{
	return call_start(&(struct stage_call){0}, done, arg);
}

/* ---- the end ---- */

static void end_now(void)
{
	if (control) /* NULL: it ends already */
		loop_stop(control->loop);
}

static void servers_gone(struct stage_call *call, struct err *err)
{
	(void)call;
	(void)err;
	log_log("all servers are gone, shutting down");
	end_now();
}

static void end_if_clients_gone(void)
{
	if (atomic_load(&process_stage) != STAGE_WAIT_CLIENTS || seats_process_count())
		return;
	log_log("all clients are gone, shutting down");
	end_now();
}

static void listeners_closed(struct stage_call *call, struct err *err)
{
	(void)call;
	(void)err;
	end_if_clients_gone();
}

static atomic_bool look_sent; /* one at a time, however many clients leave */

static void look(struct loop *here, struct mail *m)
{
	(void)here;
	mem_free(m);
	atomic_store(&look_sent, false);
	end_if_clients_gone();
}

void stage_client_gone(struct worker *w)
{
	struct mail *m;

	(void)w;
	if (!control || atomic_load(&process_stage) != STAGE_WAIT_CLIENTS || atomic_exchange(&look_sent, true))
		return;
	m = mem_make(struct mail);
	m->read = look;
	mail_send(control->loop, m);
}

/* Clients that a pause holds back could never leave: nothing is held any more. */
static void wait_for_clients(void)
{
	cancel_pauses(NULL, "");
	call_start(&(struct stage_call){.order = lane_resume, .rest = drain_clients, .ended = listeners_closed}, NULL, NULL);
}

bool stage_shutdown(enum shutdown_how how, struct err *err)
{
	(void)err; /* never refused: a second one is immediate */
	if (how == SHUTDOWN_NOW || is_ending()) {
		end_now();
		return true;
	}
	if (how == SHUTDOWN_WAIT_CLIENTS) {
		atomic_store(&process_stage, STAGE_WAIT_CLIENTS);
		wait_for_clients();
		return true;
	}
	atomic_store(&process_stage, STAGE_WAIT_SERVERS);
	call_start(&(struct stage_call){.order = lane_pause, .rest = drain_servers, .ended = servers_gone}, NULL, NULL);
	return true;
}

const char *stage_name(void)
{
	switch ((enum stage)atomic_load(&process_stage)) {
	case STAGE_RUNNING:
		return "running";
	case STAGE_SUSPENDED:
		return "suspended";
	case STAGE_PAUSED:
		return "paused";
	case STAGE_WAIT_SERVERS:
		return "shutting down, waiting for servers";
	case STAGE_WAIT_CLIENTS:
		return "shutting down, waiting for clients";
	}
	never("no such stage");
}
