/* The accepting side of SCRAM-SHA-256. The checks are PostgreSQL's, in its order and with its SQLSTATEs, so that a
 * driver meets the same answers here as there:
 *
 *   client-first   gs2-flag "," [authzid] "," "n=" name ",r=" nonce            gs2-header, then client-first-bare
 *   server-first   "r=" nonce + ours ",s=" salt ",i=" iterations
 *   client-final   "c=" base64(gs2-header + channel binding) ",r=" both nonces ",p=" proof
 *   server-final   "v=" signature
 *
 * The name in client-first is ignored; the one of the startup packet counts (PostgreSQL's chapter 55.3.1). */
#include "auth/scram.h"

#include <openssl/crypto.h>

#include "auth/scram_priv.h"
#include "base/mem.h"

enum step { STEP_FIRST, STEP_FINAL, STEP_OVER };
enum mechanism { WITHOUT_PLUS, WITH_PLUS };

struct scram_server {
	enum step step;

	struct scram_verifier verifier; /* owns */
	struct buf own_nonce;           /* owns; set by tests, else empty until the first message */
	struct buf nonce;               /* owns; the client's and ours */
	struct buf binding;             /* owns; what "c=" must say, in base64 */
	struct buf exchange;            /* owns; RFC 5802's AuthMessage as far as it has come */
};

struct scram_server *scram_server_new(const struct scram_verifier *v)
{
	struct scram_server *s = mem_make(struct scram_server);

	s->verifier = *v;
	s->verifier.salt = (struct buf){0};
	buf_add(&s->verifier.salt, v->salt.p, v->salt.len);
	return s;
}

void scram_server_free(struct scram_server **s)
{
	if (!*s)
		return;
	scram_verifier_free(&(*s)->verifier);
	buf_free(&(*s)->own_nonce);
	buf_free(&(*s)->nonce);
	buf_free(&(*s)->binding);
	buf_free(&(*s)->exchange);
	mem_free(*s);
	*s = NULL;
}

void scram_server_fix(struct scram_server *s, const char *nonce)
{
	buf_add_str(&s->own_nonce, nonce);
}

static bool malformed(struct err *err, const char *why)
{
	return err_set(err, "08P01", "malformed SCRAM message: %s", why);
}

/* n: the client cannot bind; y: it could but believes that we cannot; p: it does. */
static bool check_flag(struct span flag, enum mechanism mechanism, bool cb_offered, struct err *err)
{
	if (span_is(flag, "n") || span_is(flag, "y")) {
		if (mechanism == WITH_PLUS)
			return malformed(err, "the client selected SCRAM-SHA-256-PLUS, but the message has no channel binding");
		/* We did offer it, so somebody in between took the offer away. */
		if (span_is(flag, "y") && cb_offered)
			return err_set(err, "28000", "SCRAM channel binding negotiation error: the client believes that channel binding was not offered, but it was");
		return true;
	}
	if (flag.len < 2 || memcmp(flag.p, "p=", 2) != 0)
		return malformed(err, "unexpected channel binding flag");
	if (mechanism != WITH_PLUS)
		return malformed(err, "the client selected SCRAM-SHA-256 without channel binding, but the message has it");
	if (!span_is(flag, "p=tls-server-end-point"))
		return err_set(err, "08P01", "unsupported SCRAM channel binding type");
	return true;
}

/* Splits client-first: the gs2-header with both of its commas, and the rest. */
static bool split_first(struct span first, struct span *flag, struct span *header, struct span *bare)
{
	const uint8_t *comma = first.len ? memchr(first.p, ',', first.len) : NULL;
	size_t at;

	if (!comma)
		return false;
	at = (size_t)(comma - first.p);
	*flag = (struct span){first.p, at};
	if (first.len - at < 2 || first.p[at + 1] != ',') /* an authzid: PostgreSQL refuses it too */
		return false;
	*header = (struct span){first.p, at + 2};
	*bare = (struct span){first.p + at + 2, first.len - at - 2};
	return true;
}

static bool read_bare(struct span bare, struct span *nonce, struct err *err)
{
	struct span left = bare, value;
	char name;

	if (left.len && left.p[0] == 'm')
		return err_set(err, "0A000", "client requires an unsupported SCRAM extension");
	if (!scram_take_named(&left, 'n', &value))
		return malformed(err, "expected attribute \"n\"");
	if (!scram_take_named(&left, 'r', nonce))
		return malformed(err, "expected attribute \"r\"");
	if (!scram_is_printable(*nonce))
		return malformed(err, "non-printable characters in the nonce");
	while (left.len)
		if (!scram_take(&left, &name, &value))
			return malformed(err, "bad attribute");
	return true;
}

static void expect_binding(struct scram_server *s, struct span header, struct span cb)
{
	struct buf raw = {0};

	buf_add(&raw, header.p, header.len);
	buf_add(&raw, cb.p, cb.len);
	scram_base64_add(&s->binding, raw.p, raw.len);
	buf_free(&raw);
}

static void write_first(struct scram_server *s, struct span client_nonce, struct buf *out)
{
	buf_add(&s->nonce, client_nonce.p, client_nonce.len);
	if (s->own_nonce.len)
		buf_add(&s->nonce, s->own_nonce.p, s->own_nonce.len);
	else
		scram_nonce_add(&s->nonce);
	buf_add_str(out, "r=");
	buf_add(out, s->nonce.p, s->nonce.len);
	buf_add_str(out, ",s=");
	scram_base64_add(out, s->verifier.salt.p, s->verifier.salt.len);
	buf_add_fmt(out, ",i=%d", s->verifier.iterations);
}

bool scram_server_first(struct scram_server *s, struct span client_first, bool plus, bool cb_offered, struct span cb, struct buf *server_first, struct err *err)
{
	struct span flag, header, bare, nonce;
	size_t before = server_first->len;

	if (s->step != STEP_FIRST)
		return malformed(err, "out of turn");
	s->step = STEP_OVER;
	if (plus && cb.len == 0)
		return malformed(err, "SCRAM-SHA-256-PLUS was not offered");
	if (client_first.len && memchr(client_first.p, 0, client_first.len))
		return malformed(err, "it holds a zero byte");
	if (!split_first(client_first, &flag, &header, &bare))
		return malformed(err, "bad GS2 header");
	if (!check_flag(flag, plus ? WITH_PLUS : WITHOUT_PLUS, cb_offered, err) || !read_bare(bare, &nonce, err))
		return false;
	expect_binding(s, header, plus ? cb : (struct span){NULL, 0});
	write_first(s, nonce, server_first);
	buf_add(&s->exchange, bare.p, bare.len);
	buf_add_str(&s->exchange, ",");
	buf_add(&s->exchange, server_first->p + before, server_first->len - before);
	s->step = STEP_FINAL;
	return true;
}

/* proof: decoded; without: how much of the message stands before ",p=". */
static bool read_final(const struct scram_server *s, struct span final, size_t *without, uint8_t proof[SCRAM_KEY], struct err *err)
{
	struct span left = final, value;
	char name = 0;

	if (!scram_take_named(&left, 'c', &value))
		return malformed(err, "expected attribute \"c\"");
	if (!span_same(value, buf_span(&s->binding)))
		return err_set(err, "28000", "SCRAM channel binding check failed");
	if (!scram_take_named(&left, 'r', &value))
		return malformed(err, "expected attribute \"r\"");
	if (!span_same(value, buf_span(&s->nonce)))
		return err_set(err, "08P01", "invalid SCRAM response: nonce does not match");
	while (name != 'p') {
		*without = final.len - left.len - 1;
		if (!scram_take(&left, &name, &value))
			return malformed(err, "expected attribute \"p\"");
	}
	if (left.len)
		return malformed(err, "garbage at the end of client-final-message");
	if (!scram_base64_key(value, proof))
		return malformed(err, "bad proof");
	return true;
}

/* The ClientKey that the proof reveals, if it is the right one. */
static bool reveal(const struct scram_server *s, const uint8_t proof[SCRAM_KEY], uint8_t client_key[SCRAM_KEY])
{
	uint8_t signature[SCRAM_KEY], stored[SCRAM_KEY];

	scram_hmac(s->verifier.stored_key, buf_span(&s->exchange), signature);
	scram_xor(proof, signature, client_key);
	scram_stored_key(client_key, stored);
	return bytes_same_secretly(stored, s->verifier.stored_key, SCRAM_KEY);
}

static void write_final(const struct scram_server *s, struct buf *out)
{
	uint8_t signature[SCRAM_KEY];

	scram_hmac(s->verifier.server_key, buf_span(&s->exchange), signature);
	buf_add_str(out, "v=");
	scram_base64_add(out, signature, SCRAM_KEY);
}

bool scram_server_final(struct scram_server *s, struct span client_final, struct buf *server_final, struct scram_keys *keys, struct err *err)
{
	uint8_t proof[SCRAM_KEY], client_key[SCRAM_KEY];
	size_t without = 0;
	bool right;

	memset(keys, 0, sizeof *keys);
	if (s->step != STEP_FINAL)
		return malformed(err, "out of turn");
	s->step = STEP_OVER;
	if (!read_final(s, client_final, &without, proof, err))
		return false;
	buf_add_str(&s->exchange, ",");
	buf_add(&s->exchange, client_final.p, without);
	right = reveal(s, proof, client_key);
	if (right) {
		keys->set = true;
		memcpy(keys->client_key, client_key, SCRAM_KEY);
		memcpy(keys->server_key, s->verifier.server_key, SCRAM_KEY);
		write_final(s, server_final);
	}
	OPENSSL_cleanse(client_key, sizeof client_key);
	return right || err_set(err, "28P01", "SASL authentication failed");
}
