/* How a client proves who it is: PostgreSQL chapter 55.2.1 (the messages), 55.3 (SASL). Two steps of proxy/greet: the request
 * goes out, the answer is judged.
 *
 * A user that does not exist is asked for the same thing as one that does, and fails in the same place with the same words. A
 * stored secret that the method cannot check (md5 under SCRAM, none at all) is treated like a user that does not exist. */
#include "proxy/greet_priv.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "auth/password.h"
#include "base/mem.h"
#include "base/random.h"
#include "net/tls.h"
#include "proxy/adhoc.h"
#include "proxy/greet.h"
#include "proxy/lookup.h"
#include "proxy/worker.h"
#include "wire/reader.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

/* Authentication requests, chapter 55.7. */
enum { AUTH_CODE_CLEAR = 3, AUTH_CODE_MD5 = 5, AUTH_CODE_SASL = 10, AUTH_CODE_SASL_CONTINUE = 11, AUTH_CODE_SASL_FINAL = 12 };

#define MECHANISM "SCRAM-SHA-256"
#define MECHANISM_PLUS "SCRAM-SHA-256-PLUS"

/* Bytes of a message body: PostgreSQL's limits, PG_MAX_AUTH_TOKEN_LENGTH and PG_MAX_SASL_MESSAGE_LENGTH. */
#define PASSWORD_MOST 65535
#define SASL_MOST 1024

/* ---- the end of it ---- */

static enum greeting prove(struct client *c)
{
	c->greet->proven = true;
	c->greet->step = STEP_ENTER;
	return GREETING_NEXT;
}

/* The wrong password, whatever was wrong with it. */
static enum greeting fail(struct client *c, const char *reason)
{
	struct err err;

	lookup_login_failed(c->user);
	err_set(&err, SQLSTATE_PASSWORD, "password authentication failed for user \"%s\"", c->user);
	return greet_refuse(c, &err, reason);
}

static enum greeting garbled(struct client *c, const char *text)
{
	struct err err;

	err_set(&err, SQLSTATE_PROTOCOL, "%s", text);
	return greet_refuse(c, &err, NULL);
}

/* ---- the request ---- */

static enum greeting ask_for(struct client *c, enum asked asked, uint32_t code, const void *body, size_t len)
{
	struct greet *g = c->greet;

	msg_auth(&g->answer, code, body, len);
	client_send(c, &g->answer);
	buf_free(&g->answer);
	g->asked = asked;
	g->step = STEP_ANSWER;
	return GREETING_NEXT;
}

static enum greeting ask_md5(struct client *c)
{
	struct greet *g = c->greet;

	random_bytes(g->salt, sizeof(g->salt));
	return ask_for(c, ASKED_MD5, AUTH_CODE_MD5, g->salt, sizeof(g->salt));
}

static uint8_t mock_seed[32];
static pthread_once_t mock_once = PTHREAD_ONCE_INIT;

static void mock_seed_make(void)
{
	random_bytes(mock_seed, sizeof(mock_seed));
}

static struct scram_server *scram_of_nobody(const struct client *c)
{
	struct scram_verifier v = {0};

	pthread_once(&mock_once, mock_seed_make);
	scram_verifier_mock(c->user, mock_seed, c->greet->setup->conf->set.scram_iterations, &v);
	struct scram_server *s = scram_server_new(&v);
	scram_verifier_free(&v);
	return s;
}

static struct scram_server *scram_of_verifier(const struct secret *stored)
{
	struct scram_verifier v = {0};

	verify(scram_verifier_parse(secret_text(stored), &v));
	struct scram_server *s = scram_server_new(&v);
	scram_verifier_free(&v);
	return s;
}

static struct scram_server *scram_of(struct client *c)
{
	struct greet *g = c->greet;
	const struct scram_verifier *made;

	switch (password_kind(&g->secret)) {
	case PASSWORD_SCRAM:
		g->real_verifier = true;
		return scram_of_verifier(&g->secret);
	case PASSWORD_PLAIN:
		made = adhoc_verifier(c->user, &g->secret, g->setup->conf->set.scram_iterations);
		return made ? scram_server_new(made) : scram_of_nobody(c);
	case PASSWORD_MD5:
		greet_log(c, LOG_WARNING_, "wrong password type: SCRAM authentication needs a plain password or a SCRAM verifier, but an md5 one is stored");
		return scram_of_nobody(c);
	case PASSWORD_NONE:
		break;
	}
	return scram_of_nobody(c);
}

static enum greeting ask_sasl(struct client *c)
{
	static const char both[] = MECHANISM_PLUS "\0" MECHANISM "\0"; /* and the literal's own NUL ends the list */
	static const char one[] = MECHANISM "\0";
	struct greet *g = c->greet;
	uint8_t cb[64];

	g->scram = scram_of(c);
	g->cb_offered = c->stream.tls && tls_end_point(c->stream.tls, cb) > 0;
	return g->cb_offered ? ask_for(c, ASKED_SASL, AUTH_CODE_SASL, both, sizeof(both)) : ask_for(c, ASKED_SASL, AUTH_CODE_SASL, one, sizeof(one));
}

static enum greeting ask_nothing(struct client *c)
{
	struct err err;

	if (c->greet->known)
		return prove(c);
	err_set(&err, SQLSTATE_LOGIN, "\"trust\" authentication failed");
	return greet_refuse(c, &err, NULL);
}

enum greeting greet_ask(struct client *c, struct span *in)
{
	struct greet *g = c->greet;
	enum auth_type type = g->setup->conf->set.auth_type;
	struct err err;

	(void)in;
	if (g->startup->negotiate)
		startup_negotiate(&g->answer, g->startup); /* once, ahead of the first authentication message */
	if (type == AUTH_ANY || g->peer_is_owner)
		return prove(c);
	if (!g->known)
		greet_log(c, LOG_LOG_, "no such user");
	switch (type) {
	case AUTH_TRUST:
		return ask_nothing(c);
	case AUTH_PLAIN:
		return ask_for(c, ASKED_CLEAR, AUTH_CODE_CLEAR, NULL, 0);
	case AUTH_MD5:
		return password_kind(&g->secret) == PASSWORD_SCRAM ? ask_sasl(c) : ask_md5(c);
	case AUTH_SCRAM:
		return ask_sasl(c);
	default:
		break;
	}
	err_set(&err, SQLSTATE_CONFIG, "bouncer config error");
	return greet_refuse(c, &err, "auth_type is not built yet");
}

/* ---- the answer ---- */

/* PasswordMessage: one text, and nothing behind its NUL. */
static bool password_text(struct span body, struct span *text)
{
	struct reader r = reader_of(body.p, body.len);

	*text = span_str(read_str(&r));
	return reader_done(&r);
}

static enum greeting judge_clear(struct client *c, struct span body)
{
	struct greet *g = c->greet;
	struct span sent;

	if (!password_text(body, &sent))
		return garbled(c, "invalid password packet size");
	if (!g->known || !password_matches(&g->secret, c->user, sent))
		return fail(c, "password authentication failed");
	secret_set(&g->clear, sent.p, sent.len);
	return prove(c);
}

static enum greeting judge_md5(struct client *c, struct span body)
{
	struct greet *g = c->greet;
	struct span sent;

	if (!password_text(body, &sent))
		return garbled(c, "invalid password packet size");
	if (!g->known || !password_md5_matches(&g->secret, g->said_user ? g->said_user : c->user, g->salt, sent))
		return fail(c, "password authentication failed");
	return prove(c);
}

static enum greeting sasl_first(struct client *c, struct span first)
{
	struct greet *g = c->greet;
	struct buf reply = {0};
	struct err err;
	uint8_t cb[64];
	struct span bound = {cb, g->cb_offered ? tls_end_point(c->stream.tls, cb) : 0};

	if (!scram_server_first(g->scram, first, g->cb_chosen, g->cb_offered, bound, &reply, &err)) {
		buf_free(&reply);
		return greet_refuse(c, &err, "SASL authentication failed");
	}
	enum greeting then = ask_for(c, ASKED_SASL_FINAL, AUTH_CODE_SASL_CONTINUE, reply.p, reply.len);
	buf_free(&reply);
	return then;
}

/* SASLInitialResponse: the mechanism, and client-first, which may be left out at first (length -1). */
static enum greeting judge_sasl(struct client *c, struct span body)
{
	struct greet *g = c->greet;
	struct reader r = reader_of(body.p, body.len);
	const char *mechanism = read_str(&r);
	uint32_t len = read_u32(&r);
	bool left_out = len == UINT32_MAX;
	struct span first = left_out ? (struct span){0} : read_bytes(&r, len);

	if (!reader_done(&r))
		return garbled(c, "malformed SASLInitialResponse");
	g->cb_chosen = strcmp(mechanism, MECHANISM_PLUS) == 0;
	if (g->cb_chosen ? !g->cb_offered : strcmp(mechanism, MECHANISM) != 0)
		return garbled(c, "client selected an invalid SASL authentication mechanism");
	return left_out ? ask_for(c, ASKED_SASL_FIRST, AUTH_CODE_SASL_CONTINUE, NULL, 0) : sasl_first(c, first);
}

static enum greeting judge_sasl_final(struct client *c, struct span body)
{
	struct greet *g = c->greet;
	struct buf reply = {0};
	struct err err;
	bool right = scram_server_final(g->scram, body, &reply, &g->keys, &err);

	if (right)
		msg_auth(&g->answer, AUTH_CODE_SASL_FINAL, reply.p, reply.len);
	buf_free(&reply);
	if (!g->real_verifier) /* keys of a verifier that we made open nothing */
		g->keys.set = false;
	if (right)
		return prove(c);
	return strcmp(err.sqlstate, SQLSTATE_PASSWORD) == 0 ? fail(c, "SASL authentication failed") : greet_refuse(c, &err, "SASL authentication failed");
}

static enum greeting judge(struct client *c, struct span body)
{
	switch (c->greet->asked) {
	case ASKED_CLEAR:
		return judge_clear(c, body);
	case ASKED_MD5:
		return judge_md5(c, body);
	case ASKED_SASL:
		return judge_sasl(c, body);
	case ASKED_SASL_FIRST:
		return sasl_first(c, body);
	case ASKED_SASL_FINAL:
		return judge_sasl_final(c, body);
	case ASKED_NOTHING:
		break;
	}
	never("an answer to nothing");
}

static size_t answer_most(const struct greet *g)
{
	return g->asked == ASKED_CLEAR || g->asked == ASKED_MD5 ? PASSWORD_MOST : SASL_MOST;
}

enum greeting greet_answer(struct client *c, struct span *in)
{
	struct frame f;
	struct span body;

	if (in->len && in->p[0] == 'X') {
		client_leave(c, "client close request");
		return GREETING_GONE;
	}
	if (in->len && in->p[0] != 'p')
		return garbled(c, "expected a password message");
	switch (frame_peek(in->p, in->len, &f)) {
	case PARSE_MORE:
		return GREETING_MORE;
	case PARSE_BAD:
		return garbled(c, "invalid message length");
	case PARSE_OK:
		break;
	}
	if (f.size - FRAME_HEAD > answer_most(c->greet))
		return garbled(c, "password message is too long");
	if (f.have < f.size)
		return GREETING_MORE;
	body = (struct span){in->p + FRAME_HEAD, f.size - FRAME_HEAD};
	span_take(in, f.size);
	return judge(c, body);
}

/* ---- what it revealed ---- */

void greet_teach(struct client *c, struct target *t)
{
	const struct greet *g = c->greet;
	enum password_kind kind;

	if (!g || strcmp(t->user->name, c->user) != 0)
		return;
	kind = g->looked_up ? password_kind(&g->secret) : PASSWORD_NONE;
	if (g->keys.set)
		t->keys = g->keys;
	if (secret_is_set(&g->clear))
		secret_copy(&t->password, &g->clear);
	else if (kind == PASSWORD_PLAIN || kind == PASSWORD_MD5)
		secret_copy(&t->password, &g->secret);
	else if (kind == PASSWORD_SCRAM)
		secret_free(&t->password); /* an older lookup's: it would only fail ahead of the keys */
}
