/* The connecting side of SCRAM-SHA-256. The server is as hostile as anybody: every length is taken from what it sent and checked,
 * and it is not believed to be the server before its signature says so (scram_client_check).
 *
 * It logs in with a password, or with the keys that a client of ours revealed when it logged in here: then the salt and the
 * iterations do not matter, and it works exactly when the server stores the same verifier as we do. */
#include "auth/scram.h"

#include <openssl/crypto.h>

#include "auth/scram_priv.h"
#include "base/mem.h"

enum step { STEP_START, STEP_FIRST, STEP_FINAL, STEP_OVER };

struct scram_client {
	enum step step;

	struct secret password; /* owns; unset with keys */
	struct scram_keys keys; /* given, or made from the password */
	struct buf user;        /* owns; empty but in tests: the server takes the startup packet's */
	struct buf nonce;       /* owns; ours */
	struct buf binding;     /* owns; gs2-header and channel binding */
	struct buf exchange;    /* owns; RFC 5802's AuthMessage as far as it has come */
};

struct scram_client *scram_client_new(const struct secret *password, const struct scram_keys *keys)
{
	struct scram_client *c = mem_make(struct scram_client);

	verify((password != NULL) != (keys != NULL));
	verify(!keys || keys->set);
	if (keys)
		c->keys = *keys;
	else
		secret_copy(&c->password, password);
	return c;
}

void scram_client_free(struct scram_client **c)
{
	if (!*c)
		return;
	secret_free(&(*c)->password);
	buf_free(&(*c)->user);
	buf_free(&(*c)->nonce);
	buf_free(&(*c)->binding);
	buf_free(&(*c)->exchange);
	OPENSSL_cleanse(*c, sizeof **c);
	mem_free(*c);
	*c = NULL;
}

void scram_client_fix(struct scram_client *c, const char *user, const char *nonce)
{
	buf_add_str(&c->user, user);
	buf_add_str(&c->nonce, nonce);
}

static bool malformed(struct err *err, const char *why)
{
	return err_set(err, "08P01", "malformed SCRAM message from the server: %s", why);
}

void scram_client_first(struct scram_client *c, bool plus, bool cb_possible, struct span cb, struct buf *client_first)
{
	verify(c->step == STEP_START);
	verify(!plus || cb.len > 0);
	c->step = STEP_FIRST;
	if (c->nonce.len == 0)
		scram_nonce_add(&c->nonce);
	buf_add_str(&c->exchange, "n=");
	buf_add(&c->exchange, c->user.p, c->user.len);
	buf_add_str(&c->exchange, ",r=");
	buf_add(&c->exchange, c->nonce.p, c->nonce.len);

	buf_add_str(&c->binding, plus ? "p=tls-server-end-point,," : cb_possible ? "y,," : "n,,");
	buf_add(client_first, c->binding.p, c->binding.len);
	buf_add(client_first, c->exchange.p, c->exchange.len);
	if (plus)
		buf_add(&c->binding, cb.p, cb.len);
}

struct challenge {
	struct span nonce; /* borrows server-first */
	struct buf salt;   /* owns */
	int iterations;
};

static bool begins_with(struct span s, const struct buf *start)
{
	return s.len >= start->len && memcmp(s.p, start->p, start->len) == 0;
}

static bool read_first(const struct scram_client *c, struct span left, struct challenge *ch, struct err *err)
{
	struct span value;
	char name;

	if (left.len && left.p[0] == 'm')
		return malformed(err, "it requires an extension");
	if (!scram_take_named(&left, 'r', &ch->nonce) || !scram_is_printable(ch->nonce))
		return malformed(err, "no nonce");
	if (!begins_with(ch->nonce, &c->nonce))
		return err_set(err, "08P01", "invalid SCRAM response from the server: nonce does not begin with ours");
	if (!scram_take_named(&left, 's', &value) || !scram_base64_decode(value, SCRAM_SALT_MOST, &ch->salt) || ch->salt.len == 0)
		return malformed(err, "bad salt");
	if (!scram_take_named(&left, 'i', &value) || !scram_iterations(value, &ch->iterations))
		return malformed(err, "bad iteration count");
	while (left.len)
		if (!scram_take(&left, &name, &value) || name == 'm')
			return malformed(err, "bad attribute");
	return true;
}

/* client-final without its proof. */
static void write_without_proof(const struct scram_client *c, struct span nonce, struct buf *out)
{
	buf_add_str(out, "c=");
	scram_base64_add(out, c->binding.p, c->binding.len);
	buf_add_str(out, ",r=");
	buf_add(out, nonce.p, nonce.len);
}

static void write_proof(const struct scram_client *c, struct buf *out)
{
	uint8_t stored[SCRAM_KEY], signature[SCRAM_KEY], proof[SCRAM_KEY];

	scram_stored_key(c->keys.client_key, stored);
	scram_hmac(stored, buf_span(&c->exchange), signature);
	scram_xor(c->keys.client_key, signature, proof);
	buf_add_str(out, ",p=");
	scram_base64_add(out, proof, SCRAM_KEY);
	OPENSSL_cleanse(signature, sizeof signature); /* with the proof it gives the key away */
}

bool scram_client_next(struct scram_client *c, struct span server_first, struct buf *client_final, struct err *err)
{
	struct challenge ch = {0};
	size_t before = client_final->len;

	if (c->step != STEP_FIRST)
		return malformed(err, "out of turn");
	c->step = STEP_OVER;
	if (!read_first(c, server_first, &ch, err)) {
		buf_free(&ch.salt);
		return false;
	}
	if (!c->keys.set) {
		scram_derive(secret_span(&c->password), buf_span(&ch.salt), ch.iterations, c->keys.client_key, c->keys.server_key);
		c->keys.set = true;
	}
	buf_free(&ch.salt);
	write_without_proof(c, ch.nonce, client_final);
	buf_add_str(&c->exchange, ",");
	buf_add(&c->exchange, server_first.p, server_first.len);
	buf_add_str(&c->exchange, ",");
	buf_add(&c->exchange, client_final->p + before, client_final->len - before);
	write_proof(c, client_final);
	c->step = STEP_FINAL;
	return true;
}

/* Text of a peer's for an error of ours: printable ASCII, not long. */
static void tame(struct span text, char out[80])
{
	size_t n = text.len < 79 ? text.len : 79;

	for (size_t i = 0; i < n; i++)
		out[i] = text.p[i] >= 0x20 && text.p[i] < 0x7f ? (char)text.p[i] : '?';
	out[n] = 0;
}

bool scram_client_check(struct scram_client *c, struct span server_final, struct err *err)
{
	uint8_t theirs[SCRAM_KEY], right[SCRAM_KEY];
	struct span left = server_final, value;
	char name = 0, text[80];

	if (c->step != STEP_FINAL)
		return malformed(err, "out of turn");
	c->step = STEP_OVER;
	if (!scram_take(&left, &name, &value) || left.len)
		return malformed(err, "bad attribute");
	if (name == 'e') {
		tame(value, text);
		return err_set(err, "28P01", "SCRAM error from the server: %s", text);
	}
	if (name != 'v' || !scram_base64_key(value, theirs))
		return malformed(err, "bad server signature");
	scram_hmac(c->keys.server_key, buf_span(&c->exchange), right);
	if (!bytes_same_secretly(theirs, right, SCRAM_KEY))
		return err_set(err, "28P01", "the server does not know the password: incorrect SCRAM signature");
	return true;
}
