/* See proxy/sweep.h. */
#include "proxy/sweep.h"

#include "proxy/greet.h"
#include "proxy/throttle.h"
#include "proxy/worker.h"
#include "wire/report.h"
#include "wire/sqlstate.h"

/* The limits, in the order in which they are looked at when several are due. */
static const struct limit {
	size_t deadline; /* offset of the deadline in struct client */
	const char *sqlstate;
	const char *text;
} limits[] = {
	{offsetof(struct client, deadline_query), SQLSTATE_CANCELED, "query_timeout"},
	{offsetof(struct client, deadline_xact), SQLSTATE_CANCELED, "transaction timeout"},
	{offsetof(struct client, deadline_wait), SQLSTATE_CANCELED, "query_wait_timeout"},
	{offsetof(struct client, deadline_inventory), SQLSTATE_SERVER_LOST, "server did not answer in server_check_timeout"},
};
#define N_LIMITS (sizeof(limits) / sizeof(limits[0]))

static usec_t deadline_at(const struct client *c, const struct limit *l)
{
	return *(const usec_t *)((const char *)c + l->deadline);
}

static usec_t earlier(usec_t a, usec_t b)
{
	if (!a || !b)
		return a ? a : b;
	return a < b ? a : b;
}

void sweep_set(struct client *c)
{
	usec_t next = earlier(earlier(c->deadline_idle, c->deadline_notice), c->deadline_rate);

	for (size_t i = 0; i < N_LIMITS; i++)
		next = earlier(next, deadline_at(c, &limits[i]));
	if (next && (!timer_is_set(&c->timer) || c->timer.at > next))
		timer_set(&c->timer, next);
}

static void idle_too_long(struct client *c)
{
	struct err err;

	if (c->server && !(c->ties && c->may_part))
		err_set(&err, SQLSTATE_IDLE_TRANSACTION, "idle transaction timeout");
	else
		err_set(&err, SQLSTATE_CLIENT_IDLE, "client_idle_timeout");
	client_close(c, &err, err.text);
}

static void wait_notice(struct client *c)
{
	struct buf b = {0};

	c->deadline_notice = 0;
	report_notice(&b, "No server connection available in postgres backend, client being queued");
	client_send(c, &b);
	buf_free(&b);
}

void sweep_fire(struct timer *t)
{
	struct client *c = owner_of(t, struct client, timer);
	usec_t now = loop_now(c->worker->loop);
	struct err err;

	if (c->state == CLIENT_GREET) {
		greet_timeout(c);
		return;
	}
	for (size_t i = 0; i < N_LIMITS; i++) {
		usec_t at = deadline_at(c, &limits[i]);
		if (at && at <= now) {
			err_set(&err, limits[i].sqlstate, "%s", limits[i].text);
			client_close(c, &err, limits[i].text);
			return;
		}
	}
	if (c->deadline_idle && c->deadline_idle <= now) {
		idle_too_long(c);
		return;
	}
	if (c->deadline_notice && c->deadline_notice <= now)
		wait_notice(c);
	if (c->deadline_rate && c->deadline_rate <= now)
		throttle_timeout(c);
	sweep_set(c);
}
