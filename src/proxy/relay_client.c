/* See proxy/relay.h: client bytes -> frame -> (inspect) -> to_server parcel -> one send. */
#include "proxy/relay.h"

#include "cluster/fence.h"
#include "proxy/fence.h"
#include "proxy/inspect.h"
#include "proxy/link.h"
#include "proxy/mode.h"
#include "proxy/parcel.h"
#include "proxy/place.h"
#include "proxy/refuse.h"
#include "proxy/relay_priv.h"
#include "proxy/speak.h"
#include "proxy/throttle.h"
#include "proxy/worker.h"
#include "wire/frame.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

static size_t bad_client(struct client *c, const char *text, size_t len)
{
	struct err err;

	parcel_drop(c->worker->to_server);
	parcel_drop(c->worker->to_client);
	err_set(&err, SQLSTATE_PROTOCOL, "%s", text);
	client_close(c, &err, text);
	return len;
}

/* Without a server: what needs none is answered here, as PostgreSQL would answer it. False: a server is needed. */
static bool answer_alone(struct client *c, const struct frame *f)
{
	switch (f->type) {
	case 'S':
		mode_tell(c);
		msg_ready(parcel_made(c->worker->to_client), 'I');
		speak_sync(c);
		return true;
	case 'H':
	case 'c':
	case 'f':
		return true;
	case 'd': /* stray copy data, thrown away by PostgreSQL too */
		refuse_drop(c, f);
		return true;
	default:
		return false;
	}
}

static size_t pass_client(struct client *c, const uint8_t *p, size_t len)
{
	uint32_t n = len < c->pass_left ? (uint32_t)len : c->pass_left;

	if (!c->pass_drop)
		parcel_pass(c->worker->to_server, p, n);
	c->pass_left -= n;
	return n;
}

/* A COPY may fail while the client is in the middle of a message of its data: they part when that, and what else is on its way, is through. */
static void rest_or_part(struct client *c)
{
	struct server *s = c->server;

	if (c->may_part && c->pass_left == 0 && server_is_clean(s) && stream_left(&s->stream).len == 0)
		relay_part_or_stay(c);
	else
		relay_watch_idle(c);
}

enum step { STEP_ON, STEP_MORE, STEP_STOP, STEP_PASS /* the message goes its way */ };

static enum step drop(struct client *c, const struct frame *f)
{
	refuse_drop(c, f);
	return STEP_ON;
}

/* The client skips to its Sync after an error of ours. */
static bool is_skipped(const struct client *c, const struct frame *f)
{
	return c->refusing && f->type != 'S' && f->type != 'X';
}

#define NAMES_MOST (64 * 1024) /* Describe, Close and CopyFail hold a name or a text, no data */

/* What a client's message means to the relay, beside how it is passed on. */
static const struct {
	uint32_t most;     /* bytes; what must be there as a whole is bounded before it is waited for. 0: by max_packet_size */
	bool unanswered;   /* copy data and Flush have no answer of their own: behind a ReadyForQuery they begin nothing */
	bool kept_back;    /* PostgreSQL keeps the answer back until a Flush or a Sync comes: a client that sends neither awaits nothing */
} traits[256] = {
	['P'] = {.kept_back = true},
	['B'] = {.kept_back = true},
	['E'] = {.kept_back = true},
	['D'] = {.most = NAMES_MOST, .kept_back = true},
	['C'] = {.most = NAMES_MOST, .kept_back = true},
	['S'] = {.most = FRAME_HEAD}, /* no body, exactly */
	['X'] = {.most = FRAME_HEAD},
	['H'] = {.most = FRAME_HEAD, .unanswered = true},
	['d'] = {.unanswered = true},
	['c'] = {.most = FRAME_HEAD, .unanswered = true},
	['f'] = {.most = NAMES_MOST, .unanswered = true},
};

static bool size_is_sound(const struct settings *set, const struct frame *f)
{
	uint32_t most = traits[f->type].most;

	return most ? f->size <= most : f->size - 1 <= set->max_packet_size;
}

/* PostgreSQL sees Terminate when it has done what stands before it; so does the client's work here. */
static void terminate(struct client *c)
{
	struct server *s = c->server;

	parcel_send(c->worker->to_client, &c->stream);
	if (s)
		parcel_send(c->worker->to_server, &s->stream);
	if (relay_is_seen_through(c)) {
		client_leave(c, "client close request");
		return;
	}
	c->leaving = true;
	stream_pause(&c->stream);
}

#define TAKEN_AT_HIS_WORD (256 * 1024)

/* It waits for what the server has to say yet. */
static enum step hold(struct client *c)
{
	c->holding = true;
	stream_pause(&c->stream);
	return STEP_STOP;
}

static enum step fence_outcome(struct client *c, enum fence_step step)
{
	switch (step) {
	case FENCE_GO_ON:
		return STEP_PASS;
	case FENCE_HOLD:
		return hold(c);
	case FENCE_TOLD:
		return STEP_ON;
	case FENCE_GONE:
		return STEP_STOP;
	}
	never("no such step");
}

static enum step bad_message(struct client *c, const char *text)
{
	bad_client(c, text, 0);
	return STEP_STOP;
}

static enum step need(struct client *c, size_t bytes)
{
	stream_want(&c->stream, bytes);
	return STEP_MORE;
}

/* May it be looked at at all? */
static enum step vet(struct client *c, const struct settings *set, const struct frame *f)
{
	if (treat_of_client[f->type] == TREAT_BAD)
		return bad_message(c, "unexpected message type from client");
	if (!size_is_sound(set, f))
		return bad_message(c, "bad packet header");
	if (f->type == 'X') {
		terminate(c);
		return STEP_STOP;
	}
	if (treat_of_client[f->type] == TREAT_WHOLE && f->have < f->size)
		return need(c, frame_want(f, TAKEN_AT_HIS_WORD));
	if (is_skipped(c, f))
		return drop(c, f);
	c->refusing = false;
	if (f->type == 'Q' && set->disable_pqexec)
		return bad_message(c, "PQexec disallowed");
	return STEP_PASS;
}

/* The message at the front of what the client has sent. */
struct at {
	const uint8_t *p; /* f->have bytes of it */
	size_t len;       /* of all that has come, from p on */
	const struct frame *f;
	size_t *used;     /* is moved over what was dealt with */
};

static enum step spoken_outcome(struct client *c, const struct at *at, enum spoken said, uint32_t done, uint32_t want)
{
	switch (said) {
	case SPOKEN_NOT:
		return STEP_PASS;
	case SPOKEN_DONE:
		*at->used += done;
		return STEP_ON;
	case SPOKEN_MORE:
		return need(c, want);
	case SPOKEN_HOLD:
		return hold(c);
	case SPOKEN_AWAY:
		return STEP_STOP;
	}
	never("no such word");
}

/* What stands in the parcel would be the next client's if this one ended. */
static void send_made(struct client *c)
{
	if (!parcel_empty(c->worker->to_client))
		parcel_send(c->worker->to_client, &c->stream);
}

/* The client begins a transaction with this message, if one is needed for it: whose is it, and where is it served? */
static enum step settle(struct client *c, const struct at *at)
{
	uint32_t done = 0, want = 0;

	if (answer_alone(c, at->f)) {
		*at->used += c->pass_left ? 0 : at->f->size;
		return STEP_ON;
	}
	if (c->worker->setup->org_by_comment) {
		enum spoken visit = speak_visit(c, at->p, at->len, at->f, &done, &want);
		if (visit != SPOKEN_NOT)
			return spoken_outcome(c, at, visit, done, want);
	}
	if (place_is_due(c)) {
		send_made(c);
		if (place_settle(c) != PLACE_HERE)
			return STEP_STOP;
	}
	return STEP_PASS;
}

static enum step admit(struct client *c, const struct at *at)
{
	switch (throttle_admit(c, at->p, at->len, at->f)) {
	case ADMIT_PASS:
		return STEP_PASS;
	case ADMIT_LATER:
		return STEP_STOP;
	case ADMIT_REFUSED:
		return drop(c, at->f);
	}
	never("no such admission");
}

static enum step pass(struct client *c, const struct at *at)
{
	const struct frame *f = at->f;
	uint32_t done = 0, want = 0;
	bool drops = false;

	switch (inspect_message(c, at->p, f, &done, &want)) {
	case INSPECT_MORE:
		return need(c, want);
	case INSPECT_HOLD:
		return hold(c);
	case INSPECT_BAD:
		return bad_message(c, "malformed message from client");
	case INSPECT_DROP:
		drops = true;
		done = (uint32_t)f->have;
		break;
	case INSPECT_DONE:
		break;
	}
	c->unflushed = traits[f->type].kept_back;
	if (!traits[f->type].unanswered) {
		relay_query_begins(c);
		c->may_part = false;
	}
	c->pass_drop = drops;
	c->pass_left = f->size - (uint32_t)f->have;
	parcel_pass(c->worker->to_server, at->p + done, f->have - done);
	*at->used += f->have;
	return STEP_ON;
}

static enum step get_server(struct client *c, const struct frame *f)
{
	struct err err;

	mode_tell(c);
	send_made(c);
	switch (link_get(c, &err)) {
	case GOT_SERVER:
		return STEP_PASS;
	case GOT_LATER:
		return STEP_STOP;
	case GOT_ERROR:
		mode_tell(c); /* it may have moved since */
		refuse_here(c, f, &err);
		return STEP_ON;
	}
	never("no such answer");
}

/* One message at the front. Each that has a say says whether it goes on. */
static enum step client_message(struct client *c, const struct settings *set, const struct at *at)
{
	uint32_t done = 0, want = 0;
	enum step step = vet(c, set, at->f);

	if (step == STEP_PASS && speak_concerns(c, at->p, at->f)) {
		enum spoken said = speak_message(c, at->p, at->f, &done, &want);
		step = spoken_outcome(c, at, said, done, want);
	}
	if (step == STEP_PASS && c->server && c->worker->setup->org_by_comment && speak_may_follow(at->f))
		step = spoken_outcome(c, at, speak_follow(c, at->p, at->len, &want), 0, want);
	if (step == STEP_PASS && c->server && fence_has_moved(c->server))
		step = fence_outcome(c, fence_moved(c, at->f));
	if (step == STEP_PASS && !c->server)
		step = settle(c, at);
	if (step == STEP_PASS && throttle_concerns(c))
		step = admit(c, at);
	if (step == STEP_PASS && !c->server)
		step = get_server(c, at->f);
	if (step != STEP_PASS)
		return step;
	if (c->link_due && c->epoch) {
		step = fence_outcome(c, fence_check_epoch(c, at->f));
		if (step != STEP_PASS)
			return step;
	}
	if (c->link_due)
		link_prelude(c);
	return pass(c, at);
}

static void send_on(struct client *c)
{
	struct worker *w = c->worker;
	struct server *s = c->server;

	if (s && !parcel_empty(w->to_server)) {
		parcel_send(w->to_server, &s->stream);
		if (stream_is_full(&s->stream))
			stream_pause(&c->stream);
	}
	send_made(c);
}

size_t relay_client_bytes(struct client *c, const uint8_t *p, size_t len)
{
	const struct settings *set = &c->worker->setup->conf->set;
	size_t used = 0;
	struct frame f;

	if (c->state == CLIENT_WAIT)
		return 0;
	c->deadline_idle = 0;
	c->looked_ahead = false;
	stream_want(&c->stream, 0);
	while (used < len) {
		if (c->pass_left) {
			used += pass_client(c, p + used, len - used);
			continue;
		}
		enum parse parsed = frame_peek(p + used, len - used, &f);
		if (parsed == PARSE_MORE)
			break;
		if (parsed == PARSE_BAD)
			return bad_client(c, "bad packet header", len);
		enum step step = client_message(c, set, &(struct at){p + used, len - used, &f, &used});
		if (c->state == CLIENT_CLOSING)
			return len;
		if (step != STEP_ON)
			break;
	}
	count_add(&c->pool->counts.received, used);
	send_on(c);
	if (c->server)
		rest_or_part(c);
	else if (c->state == CLIENT_IDLE)
		link_idle(c);
	return used;
}

void relay_client_drained(struct client *c)
{
	if (c->server && c->state == CLIENT_ACTIVE)
		stream_resume(&c->server->stream);
}
