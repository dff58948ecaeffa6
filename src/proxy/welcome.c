/* See proxy/welcome.h. */
#include "proxy/welcome.h"

#include "pool/datestyle.h"
#include "proxy/address.h"
#include "proxy/fence.h"
#include "proxy/greet.h"
#include "proxy/link.h"
#include "proxy/mode.h"
#include "proxy/parcel.h"
#include "proxy/place.h"
#include "proxy/speak.h"
#include "proxy/sweep.h"
#include "proxy/worker.h"
#include "wire/frame.h"
#include "wire/report.h"
#include "wire/writer.h"

/* The target's ParameterStatus messages, with the values this client asked for in place of the server's. */
static void write_parameters(struct client *c, struct buf *out)
{
	const struct setup *setup = c->worker->setup;
	struct span all = buf_span(&c->pool->target->welcome.messages);
	struct frame f;

	while (all.len && frame_peek(all.p, all.len, &f) == PARSE_OK) {
		const char *name = (const char *)all.p + FRAME_HEAD;
		int i = setup_guc(setup, name, strlen(name));
		if (i >= 0 && c->gucs.at[i])
			msg_parameter(out, name, c->gucs.at[i]->text);
		else
			buf_add(out, all.p, f.size);
		all.p += f.size;
		all.len -= f.size;
	}
}

static void send_welcome(struct client *c)
{
	const struct settings *set = &c->worker->setup->conf->set;
	struct buf b = {0};
	uint32_t pid, key;

	write_parameters(c, &b);
	mode_greet(c, &b);
	address_key(c, &pid, &key);
	msg_key(&b, pid, key);
	if (set->login_notify_message[0])
		report_notice(&b, set->login_notify_message);
	msg_ready(&b, 'I');
	client_send(c, &b);
	buf_free(&b);
}

/* Has a server of this target accepted every setting that the client asks for? Takes PostgreSQL's spelling of those it has. Any text
 * does for application_name. */
static bool spelling_is_known(struct client *c)
{
	const struct setup *setup = c->worker->setup;
	int name = setup_guc(setup, "application_name", strlen("application_name"));
	bool all = true;

	for (int i = 0; i < setup->n_gucs; i++) {
		if (!c->gucs.at[i] || i == name)
			continue;
		struct guc_value *known = target_spelling(c->pool->target, i, c->gucs.at[i]);
		if (known)
			gucs_set(&c->gucs, i, guc_ref(known));
		else
			all = false;
	}
	return all;
}

static bool join_pool(struct client *c)
{
	if (!place_join(c))
		return false;
	count_add(&c->pool->counts.client_logins, 1);
	speak_name_org(c);
	greet_teach(c, c->pool->target);
	greet_free(c);
	address_take(c);
	c->verify_due = !spelling_is_known(c);
	return true;
}

/* It was said on top of the server's default: see pool/datestyle.h. */
static void complete_date_style(struct client *c)
{
	struct server *s = c->server;
	int i = setup_guc(c->worker->setup, "DateStyle", strlen("DateStyle"));
	char whole[DATESTYLE_MOST];

	if (i < 0 || !c->gucs.at[i] || !s->gucs_at_login.at[i] ||
	    !datestyle_complete(c->gucs.at[i]->text, s->gucs_at_login.at[i]->text, whole))
		return;
	struct guc_value *v = guc_of(&c->worker->guc_book, whole);
	target_spelling_add(s->target, i, c->gucs.at[i], v);
	gucs_set(&c->gucs, i, v);
}

void welcome_has_server(struct client *c)
{
	struct worker *w = c->worker;

	if (c->verify_due) {
		complete_date_style(c);
		link_prelude(c);
	}
	if (!parcel_empty(w->to_server))
		parcel_send(w->to_server, &c->server->stream);
	if (server_is_clean(c->server))
		loop_later(w->loop, &c->welcome_later);
}

void welcome_go_on(struct later *l)
{
	struct client *c = owner_of(l, struct client, welcome_later);

	c->verify_due = false;
	link_part(c);
	client_welcome(c);
}

void client_welcome(struct client *c)
{
	struct err err;

	verify_here(c->worker->loop);
	if (c->place == PLACE_NOW) { /* a reload has moved it: it is welcomed there */
		c->welcome_due = true;
		if (place_settle(c) != PLACE_HERE)
			return;
	}
	c->welcome_due = false;
	if (!c->pool && !join_pool(c)) {
		err_set(&err, "3D000", "no such database: %s", c->database);
		client_close(c, &err, err.text);
		return;
	}
	if (!fence_admits(c, &err)) {
		client_close(c, &err, err.text);
		return;
	}
	timer_stop(&c->timer);
	if (!c->pool->target->welcome.known || c->verify_due) {
		link_get_welcome(c);
		return;
	}
	if (c->state == CLIENT_GREET)
		client_move(c, CLIENT_IDLE);
	c->start_bits = c->gucs.set;
	send_welcome(c);
	place_rise(c);
	link_idle(c);
	stream_resume(&c->stream);
}
