/* The connecting side's answers to Authentication messages (PostgreSQL chapter 55.2.1 "Start-up", 55.3 "SASL Authentication").
 *
 * One exchange, once: a server that asks a second time, skips a step, or says OK in the middle of SCRAM, before it has
 * proved that it knows the password itself, is refused. */
#include "auth/login_auth.h"

#include "auth/password.h"
#include "wire/reader.h"
#include "wire/sqlstate.h"
#include "wire/writer.h"

#define SCRAM_NAME "SCRAM-SHA-256"
#define SCRAM_PLUS_NAME "SCRAM-SHA-256-PLUS"

/* One message from the server and what it is answered with. */
struct request {
	struct login_auth *auth;
	const struct credentials *have;
	struct reader body; /* behind the code */
	struct buf *answer;
	struct err *err;
};

static enum auth_result broken(struct request *r, const char *what)
{
	err_set(r->err, SQLSTATE_PROTOCOL, "broken authentication message from the server: %s", what);
	return AUTH_RESULT_REFUSED;
}

static enum auth_result cannot(struct request *r, const char *how, const char *why)
{
	err_set(r->err, SQLSTATE_LOGIN, "cannot do %s authentication as \"%s\": %s", how, r->have->user, why);
	return AUTH_RESULT_REFUSED;
}

static enum password_kind kind_of(const struct credentials *c)
{
	return c->secret ? password_kind(c->secret) : PASSWORD_NONE;
}

static const char *lack(const struct credentials *c)
{
	switch (kind_of(c)) {
	case PASSWORD_NONE:
		return "no password is known";
	case PASSWORD_MD5:
		return "the password is known as an md5 hash only";
	case PASSWORD_SCRAM:
		return "the password is a SCRAM secret and no client has logged in with it";
	default:
		return "wrong password type";
	}
}

/* ---- AuthenticationOk and passwords ---- */

static enum auth_result take_ok(struct request *r)
{
	if (!reader_done(&r->body))
		return broken(r, "bad length");
	if (r->auth->proof == PROOF_UNASKED || r->auth->proof == PROOF_SENT)
		return AUTH_RESULT_OK;
	err_set(r->err, SQLSTATE_PROTOCOL, "the server ended SCRAM authentication before it proved that it knows the password");
	return AUTH_RESULT_REFUSED;
}

static void put_password(struct buf *b, const char *text)
{
	size_t begun = msg_begin(b, 'p');

	msg_str(b, text);
	msg_end(b, begun);
}

static enum auth_result take_cleartext(struct request *r)
{
	if (!reader_done(&r->body))
		return broken(r, "bad length");
	if (kind_of(r->have) != PASSWORD_PLAIN)
		return cannot(r, "cleartext password", lack(r->have));
	put_password(r->answer, secret_text(r->have->secret));
	r->auth->proof = PROOF_SENT;
	return AUTH_RESULT_WAIT;
}

static enum auth_result take_md5(struct request *r)
{
	char text[PASSWORD_MD5_LEN + 1];
	struct span salt = read_bytes(&r->body, 4);

	if (!reader_done(&r->body))
		return broken(r, "bad length");
	if (!r->have->secret || !password_md5_answer(r->have->secret, r->have->user, salt.p, text))
		return cannot(r, "md5", lack(r->have));
	put_password(r->answer, text);
	r->auth->proof = PROOF_SENT;
	return AUTH_RESULT_WAIT;
}

/* ---- SCRAM ---- */

struct offer {
	bool scram;
	bool plus;
	int n;
};

static bool offer_read(struct reader *body, struct offer *o)
{
	const char *name;

	*o = (struct offer){0};
	while (*(name = read_str(body))) {
		o->n++;
		o->scram |= strcmp(name, SCRAM_NAME) == 0;
		o->plus |= strcmp(name, SCRAM_PLUS_NAME) == 0;
	}
	return reader_done(body);
}

/* A plain password works with any verifier the server may have; keys only with the one they were made for. */
static struct scram_client *scram_start(const struct credentials *c)
{
	if (kind_of(c) == PASSWORD_PLAIN)
		return scram_client_new(c->secret, NULL);
	if (c->keys && c->keys->set)
		return scram_client_new(NULL, c->keys);
	return NULL;
}

static enum auth_result take_sasl(struct request *r)
{
	struct buf first = {0};
	struct offer offer;
	size_t begun;
	bool plus, possible = r->have->end_point.len > 0;

	if (!offer_read(&r->body, &offer))
		return broken(r, "malformed list of SASL mechanisms");
	if (offer.n == 0)
		return broken(r, "no SASL mechanism is offered");
	plus = offer.plus && possible;
	if (!offer.scram && !plus) {
		err_set(r->err, SQLSTATE_LOGIN, "the server offers no SASL mechanism that is supported (" SCRAM_NAME ")");
		return AUTH_RESULT_REFUSED;
	}
	r->auth->scram = scram_start(r->have);
	if (!r->auth->scram)
		return cannot(r, "SCRAM", lack(r->have));
	scram_client_first(r->auth->scram, plus, possible, r->have->end_point, &first);
	begun = msg_begin(r->answer, 'p');
	msg_str(r->answer, plus ? SCRAM_PLUS_NAME : SCRAM_NAME);
	msg_u32(r->answer, (uint32_t)first.len);
	msg_bytes(r->answer, first.p, first.len);
	msg_end(r->answer, begun);
	buf_free(&first);
	r->auth->proof = PROOF_SCRAM_FIRST;
	return AUTH_RESULT_WAIT;
}

static enum auth_result take_sasl_continue(struct request *r)
{
	struct span server_first = read_bytes(&r->body, reader_left(&r->body));
	struct buf final = {0};
	size_t begun;

	if (!scram_client_next(r->auth->scram, server_first, &final, r->err)) {
		buf_wipe(&final);
		return AUTH_RESULT_REFUSED;
	}
	begun = msg_begin(r->answer, 'p');
	msg_bytes(r->answer, final.p, final.len);
	msg_end(r->answer, begun);
	buf_wipe(&final);
	r->auth->proof = PROOF_SCRAM_FINAL;
	return AUTH_RESULT_WAIT;
}

static enum auth_result take_sasl_final(struct request *r)
{
	struct span server_final = read_bytes(&r->body, reader_left(&r->body));

	if (!scram_client_check(r->auth->scram, server_final, r->err))
		return AUTH_RESULT_REFUSED;
	r->auth->proof = PROOF_SENT;
	return AUTH_RESULT_WAIT;
}

/* ---- the requests ---- */

#define ANY_PROOF (-1)

static const struct {
	uint32_t code;
	int proof; /* the one in which it may come */
	enum auth_result (*take)(struct request *r);
	const char *name;
} requests[] = {
	{0, ANY_PROOF, take_ok, "Ok"},
	{3, PROOF_UNASKED, take_cleartext, "CleartextPassword"},
	{5, PROOF_UNASKED, take_md5, "MD5Password"},
	{10, PROOF_UNASKED, take_sasl, "SASL"},
	{11, PROOF_SCRAM_FIRST, take_sasl_continue, "SASLContinue"},
	{12, PROOF_SCRAM_FINAL, take_sasl_final, "SASLFinal"},
	{2, ANY_PROOF, NULL, "Kerberos V5"},
	{6, ANY_PROOF, NULL, "SCM credentials"},
	{7, ANY_PROOF, NULL, "GSSAPI"},
	{8, ANY_PROOF, NULL, "GSSAPI"},
	{9, ANY_PROOF, NULL, "SSPI"},
};

enum auth_result login_auth_take(struct login_auth *a, const struct credentials *c, struct span body, struct buf *answer, struct err *err)
{
	struct request r = {a, c, reader_of(body.p, body.len), answer, err};
	uint32_t code = read_u32(&r.body);

	if (r.body.bad)
		return broken(&r, "bad length");
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		if (requests[i].code != code)
			continue;
		if (!requests[i].take)
			return cannot(&r, requests[i].name, "it is not supported");
		if (requests[i].proof != ANY_PROOF && requests[i].proof != (int)a->proof)
			return broken(&r, "out of turn");
		return requests[i].take(&r);
	}
	err_set(err, SQLSTATE_PROTOCOL, "unknown authentication request %u from the server", code);
	return AUTH_RESULT_REFUSED;
}

void login_auth_free(struct login_auth *a)
{
	scram_client_free(&a->scram);
	a->proof = PROOF_UNASKED;
}
