/* SCRAM-SHA-256: the arithmetic, the attributes and base64 of both sides, and verifiers. The exchanges are in
 * scram_server.c and scram_client.c. Names are RFC 5802's. */
#include "auth/scram.h"

#include <limits.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "auth/saslprep.h"
#include "auth/scram_priv.h"
#include "base/random.h"
#include "base/verify.h"

#define SALT_LEN 16 /* PostgreSQL's; a made-up verifier must not differ */
#define MECHANISM "SCRAM-SHA-256$"

void scram_hmac(const uint8_t key[SCRAM_KEY], struct span text, uint8_t out[SCRAM_KEY])
{
	unsigned len = SCRAM_KEY;

	verify(HMAC(EVP_sha256(), key, SCRAM_KEY, text.p, text.len, out, &len) && len == SCRAM_KEY);
}

void scram_stored_key(const uint8_t client_key[SCRAM_KEY], uint8_t out[SCRAM_KEY])
{
	verify(EVP_Digest(client_key, SCRAM_KEY, out, NULL, EVP_sha256(), NULL) == 1);
}

void scram_xor(const uint8_t a[SCRAM_KEY], const uint8_t b[SCRAM_KEY], uint8_t out[SCRAM_KEY])
{
	for (int i = 0; i < SCRAM_KEY; i++)
		out[i] = a[i] ^ b[i];
}

void scram_derive(struct span password, struct span salt, int iterations, uint8_t client_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY])
{
	struct buf ready = {0};
	uint8_t salted[SCRAM_KEY];

	saslprep(password, &ready);
	verify(iterations > 0 && ready.len <= INT_MAX && salt.len <= SCRAM_SALT_MOST);
	verify(PKCS5_PBKDF2_HMAC((const char *)ready.p, (int)ready.len, salt.p, (int)salt.len, iterations, EVP_sha256(), SCRAM_KEY, salted) == 1);
	scram_hmac(salted, span_str("Client Key"), client_key);
	scram_hmac(salted, span_str("Server Key"), server_key);
	OPENSSL_cleanse(salted, sizeof salted);
	buf_wipe(&ready);
}

static struct span span_from(struct span s, size_t at)
{
	return (struct span){s.p + at, s.len - at};
}

bool scram_take(struct span *left, char *name, struct span *value)
{
	const uint8_t *comma;

	if (left->len < 2 || left->p[1] != '=' || !((left->p[0] | 0x20) >= 'a' && (left->p[0] | 0x20) <= 'z'))
		return false;
	*name = (char)left->p[0];
	*value = span_from(*left, 2);
	comma = value->len ? memchr(value->p, ',', value->len) : NULL;
	if (!comma) {
		*left = span_from(*left, left->len);
		return true;
	}
	value->len = (size_t)(comma - value->p);
	*left = span_from(*left, value->len + 3);
	return left->len > 0; /* a comma has an attribute behind it */
}

bool scram_take_named(struct span *left, char name, struct span *value)
{
	char found = 0;

	return scram_take(left, &found, value) && found == name;
}

bool scram_is_printable(struct span nonce)
{
	for (size_t i = 0; i < nonce.len; i++)
		if (nonce.p[i] < 0x21 || nonce.p[i] > 0x7e || nonce.p[i] == ',')
			return false;
	return nonce.len > 0;
}

bool scram_iterations(struct span text, int *out)
{
	int v = 0;

	if (text.len == 0 || text.len > 8) /* SCRAM_ITERATIONS_MOST has 8 digits: no overflow */
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.p[i] < '0' || text.p[i] > '9')
			return false;
		v = v * 10 + (text.p[i] - '0');
	}
	*out = v;
	return v >= 1 && v <= SCRAM_ITERATIONS_MOST;
}

void scram_base64_add(struct buf *out, const void *p, size_t len)
{
	size_t text = (len + 2) / 3 * 4;

	verify(len <= INT_MAX / 2);
	buf_need(out, text + 1); /* EVP_EncodeBlock writes a NUL behind */
	verify(EVP_EncodeBlock(out->p + out->len, p, (int)len) == (int)text);
	out->len += text;
}

static bool is_base64(uint8_t c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
}

/* One text for each value. The alphabet is checked here since EVP_DecodeBlock forgives blanks around it and padding within. */
bool scram_base64_decode(struct span text, size_t most, struct buf *out)
{
	size_t pad = 0, len;

	verify(most <= SCRAM_SALT_MOST);
	if (text.len % 4 != 0 || text.len / 4 > (most + 2) / 3)
		return false;
	while (pad < 2 && pad < text.len && text.p[text.len - 1 - pad] == '=')
		pad++;
	for (size_t i = 0; i < text.len - pad; i++)
		if (!is_base64(text.p[i]))
			return false;
	len = text.len / 4 * 3;
	if (len - pad > most)
		return false;
	buf_need(out, len + 1);
	if (len && EVP_DecodeBlock(out->p + out->len, text.p, (int)text.len) != (int)len)
		return false;
	out->len += len - pad;
	for (size_t i = 0; i < pad; i++)
		if (out->p[out->len + i]) /* bits that belong to no byte: RFC 4648 chapter 3.5 */
			return false;
	return true;
}

bool scram_base64_key(struct span text, uint8_t out[SCRAM_KEY])
{
	struct buf raw = {0};
	bool right = scram_base64_decode(text, SCRAM_KEY, &raw) && raw.len == SCRAM_KEY;

	if (right)
		memcpy(out, raw.p, SCRAM_KEY);
	buf_wipe(&raw);
	return right;
}

void scram_nonce_add(struct buf *out)
{
	uint8_t raw[SCRAM_NONCE_RAW];

	random_bytes(raw, sizeof raw);
	scram_base64_add(out, raw, sizeof raw);
}

/* Takes what stands before `end` off the front of left, and `end`; false when it is not there. */
static bool cut_at(struct span *left, char end, struct span *part)
{
	const uint8_t *at = left->len ? memchr(left->p, end, left->len) : NULL;

	if (!at)
		return false;
	*part = (struct span){left->p, (size_t)(at - left->p)};
	*left = span_from(*left, part->len + 1);
	return true;
}

bool scram_verifier_parse(const char *text, struct scram_verifier *v)
{
	struct span iterations, salt, stored_key, server_key;

	*v = (struct scram_verifier){0};
	if (!text || strncmp(text, MECHANISM, strlen(MECHANISM)) != 0)
		return false;
	server_key = span_str(text + strlen(MECHANISM));
	if (cut_at(&server_key, ':', &iterations) && cut_at(&server_key, '$', &salt) && cut_at(&server_key, ':', &stored_key) &&
	    scram_iterations(iterations, &v->iterations) && salt.len && scram_base64_decode(salt, SCRAM_SALT_MOST, &v->salt) &&
	    scram_base64_key(stored_key, v->stored_key) && scram_base64_key(server_key, v->server_key))
		return true;
	scram_verifier_free(v);
	return false;
}

bool scram_verifier_make(const struct secret *password, int iterations, struct scram_verifier *v)
{
	uint8_t salt[SALT_LEN], client_key[SCRAM_KEY];

	*v = (struct scram_verifier){0};
	if (iterations < 1 || iterations > SCRAM_ITERATIONS_MOST || secret_span(password).len == 0)
		return false;
	random_bytes(salt, sizeof salt);
	buf_add(&v->salt, salt, sizeof salt);
	v->iterations = iterations;
	scram_derive(secret_span(password), buf_span(&v->salt), iterations, client_key, v->server_key);
	scram_stored_key(client_key, v->stored_key);
	OPENSSL_cleanse(client_key, sizeof client_key);
	return true;
}

/* HMAC of the name and of what it is for. */
static void mock_bytes(const uint8_t seed[32], char purpose, const char *user, uint8_t out[SCRAM_KEY])
{
	struct buf text = {0};

	buf_add(&text, &purpose, 1);
	buf_add_str(&text, user);
	scram_hmac(seed, buf_span(&text), out);
	buf_free(&text);
}

/* The stored key is a hash that nobody knows a preimage of, so no proof can fit it. */
void scram_verifier_mock(const char *user, const uint8_t seed[32], int iterations, struct scram_verifier *v)
{
	uint8_t salt[SCRAM_KEY];

	*v = (struct scram_verifier){.iterations = iterations};
	mock_bytes(seed, 's', user, salt);
	buf_add(&v->salt, salt, SALT_LEN);
	mock_bytes(seed, 'c', user, v->stored_key);
	mock_bytes(seed, 'k', user, v->server_key);
}

void scram_verifier_free(struct scram_verifier *v)
{
	buf_wipe(&v->salt);
	OPENSSL_cleanse(v, sizeof *v);
}
