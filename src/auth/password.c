/* Passwords as they are stored and as they are sent. What is compared is compared in constant time; what is empty or
 * cannot be computed (MD5 in a FIPS build of OpenSSL) never matches. */
#include "auth/password.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "auth/scram.h"
#include "auth/scram_priv.h"

#define MD5_HEX 32

static bool looks_like_md5(struct span s)
{
	if (s.len != PASSWORD_MD5_LEN || memcmp(s.p, "md5", 3) != 0)
		return false;
	for (size_t i = 3; i < s.len; i++)
		if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
			return false;
	return true;
}

/* A stored text with a NUL inside is no verifier: it would be read up to there only. */
static bool parse_scram(const struct secret *stored, struct scram_verifier *v)
{
	*v = (struct scram_verifier){0};
	return strlen(secret_text(stored)) == secret_span(stored).len && scram_verifier_parse(secret_text(stored), v);
}

enum password_kind password_kind(const struct secret *stored)
{
	struct scram_verifier v;

	if (secret_span(stored).len == 0)
		return PASSWORD_NONE;
	if (looks_like_md5(secret_span(stored)))
		return PASSWORD_MD5;
	if (!parse_scram(stored, &v))
		return PASSWORD_PLAIN;
	scram_verifier_free(&v);
	return PASSWORD_SCRAM;
}

/* "md5" and the hex of MD5(a b) into out; "" where there is no MD5. */
static void md5_text(struct span a, struct span b, char out[PASSWORD_MD5_LEN + 1])
{
	static const char hex[] = "0123456789abcdef";
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	uint8_t sum[MD5_HEX / 2];
	bool done = md && EVP_DigestInit_ex(md, EVP_md5(), NULL) && EVP_DigestUpdate(md, a.p, a.len) && EVP_DigestUpdate(md, b.p, b.len) && EVP_DigestFinal_ex(md, sum, NULL);

	EVP_MD_CTX_free(md);
	memset(out, 0, PASSWORD_MD5_LEN + 1);
	if (!done)
		return;
	memcpy(out, "md5", 3);
	for (size_t i = 0; i < sizeof sum; i++) {
		out[3 + 2 * i] = hex[sum[i] >> 4];
		out[4 + 2 * i] = hex[sum[i] & 15];
	}
}

/* PostgreSQL's chapter 55.2.3: concat('md5', md5(concat(password, username))). */
void password_md5(const void *password, size_t len, const char *user, char out[PASSWORD_MD5_LEN + 1])
{
	md5_text((struct span){password, len}, span_str(user), out);
}

/* Stored in either form, the md5 form out. */
static bool md5_stored(const struct secret *stored, const char *user, char out[PASSWORD_MD5_LEN + 1])
{
	struct span s = secret_span(stored);

	switch (password_kind(stored)) {
	case PASSWORD_MD5:
		memcpy(out, s.p, PASSWORD_MD5_LEN);
		out[PASSWORD_MD5_LEN] = 0;
		return true;
	case PASSWORD_PLAIN:
		password_md5(s.p, s.len, user, out);
		return out[0] != 0;
	case PASSWORD_NONE:
	case PASSWORD_SCRAM:
		break;
	}
	return false;
}

/* The same chapter: concat('md5', md5(concat(md5(concat(password, username)), random-salt))). */
bool password_md5_answer(const struct secret *stored, const char *user, const uint8_t salt[4], char out[PASSWORD_MD5_LEN + 1])
{
	char own[PASSWORD_MD5_LEN + 1];

	memset(out, 0, PASSWORD_MD5_LEN + 1);
	if (!md5_stored(stored, user, own))
		return false;
	md5_text((struct span){(const uint8_t *)own + 3, MD5_HEX}, (struct span){salt, 4}, out);
	OPENSSL_cleanse(own, sizeof own);
	return out[0] != 0;
}

static bool same(struct span a, struct span b)
{
	return a.len == b.len && a.len > 0 && bytes_same_secretly(a.p, b.p, a.len);
}

static bool matches_scram(const struct secret *stored, struct span sent)
{
	uint8_t client_key[SCRAM_KEY], server_key[SCRAM_KEY], stored_key[SCRAM_KEY];
	struct scram_verifier v;
	bool right;

	if (!parse_scram(stored, &v))
		return false;
	scram_derive(sent, buf_span(&v.salt), v.iterations, client_key, server_key);
	scram_stored_key(client_key, stored_key);
	right = bytes_same_secretly(stored_key, v.stored_key, SCRAM_KEY);
	OPENSSL_cleanse(client_key, sizeof client_key);
	OPENSSL_cleanse(server_key, sizeof server_key);
	scram_verifier_free(&v);
	return right;
}

bool password_matches(const struct secret *stored, const char *user, struct span sent)
{
	char md5[PASSWORD_MD5_LEN + 1];

	if (sent.len == 0)
		return false;
	switch (password_kind(stored)) {
	case PASSWORD_PLAIN:
		return same(secret_span(stored), sent);
	case PASSWORD_MD5:
		password_md5(sent.p, sent.len, user, md5);
		return same(secret_span(stored), span_str(md5));
	case PASSWORD_SCRAM:
		return matches_scram(stored, sent);
	case PASSWORD_NONE:
		break;
	}
	return false;
}

bool password_md5_matches(const struct secret *stored, const char *user, const uint8_t salt[4], struct span sent)
{
	char right[PASSWORD_MD5_LEN + 1];

	return password_md5_answer(stored, user, salt, right) && same(span_str(right), sent);
}
