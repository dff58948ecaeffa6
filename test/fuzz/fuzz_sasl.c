/* SCRAM messages of hostile peers, verifiers and passwords. The first byte says which of them, the next whether channel binding is on;
 * a zero byte stands between two messages. Nonces are fixed, so that the fuzzer can get past them. */
#include <stdlib.h>

#include "auth/password.h"
#include "auth/saslprep.h"
#include "auth/scram_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len);

static const char cb[] = "end point";

/* The bytes up to the next zero byte. */
static struct span next_part(struct span *left)
{
	const uint8_t *zero = left->len ? memchr(left->p, 0, left->len) : NULL;
	struct span part = {left->p, zero ? (size_t)(zero - left->p) : left->len};

	*left = zero ? (struct span){zero + 1, left->len - part.len - 1} : (struct span){NULL, 0};
	return part;
}

static void drive_server(bool bound, struct span left)
{
	struct scram_verifier v;
	struct scram_server *s;
	struct buf first = {0}, final = {0};
	struct scram_keys keys;
	struct err err;
	struct span hash = bound ? span_str(cb) : (struct span){NULL, 0};

	scram_verifier_mock("user", (const uint8_t[32]){1}, 1, &v);
	s = scram_server_new(&v);
	scram_server_fix(s, "SERVER");
	scram_server_first(s, next_part(&left), bound, bound, hash, &first, &err);
	verify(!scram_server_final(s, left, &final, &keys, &err) && !keys.set && final.len == 0); /* nobody knows a mock's password */
	buf_free(&first);
	buf_free(&final);
	scram_server_free(&s);
	scram_verifier_free(&v);
}

static bool is_slow(struct span server_first)
{
	const uint8_t *at = server_first.len > 3 ? memmem(server_first.p, server_first.len, ",i=", 3) : NULL;

	return at && server_first.p + server_first.len - at > 6;
}

/* The password is empty, so that no iteration count is worth a fuzzer's time: those of more than three digits go with keys. */
static void drive_client(bool bound, struct span left)
{
	static const struct scram_keys keys = {.set = true};
	struct secret password = {0};
	struct span server_first = next_part(&left);
	struct scram_client *c = is_slow(server_first) ? scram_client_new(NULL, &keys) : scram_client_new(&password, NULL);
	struct buf out = {0};
	struct err err;

	scram_client_fix(c, "", "CLIENT");
	scram_client_first(c, bound, false, bound ? span_str(cb) : (struct span){NULL, 0}, &out);
	scram_client_next(c, server_first, &out, &err);
	scram_client_check(c, left, &err);
	buf_free(&out);
	scram_client_free(&c);
}

static void drive_verifier(struct span text)
{
	struct secret stored = {0};
	struct scram_verifier v;
	char answer[PASSWORD_MD5_LEN + 1];

	secret_set(&stored, text.p, text.len);
	if (scram_verifier_parse(secret_text(&stored), &v))
		verify(v.iterations > 0 && v.iterations <= SCRAM_ITERATIONS_MOST && v.salt.len > 0 && v.salt.len <= SCRAM_SALT_MOST);
	scram_verifier_free(&v);
	password_md5_answer(&stored, "user", (const uint8_t *)"salt", answer);
	if (password_kind(&stored) == PASSWORD_PLAIN)
		verify(password_matches(&stored, "user", text));
	secret_free(&stored);
}

/* A password never becomes empty on the way: what would be nothing is used raw. */
static void drive_saslprep(struct span text)
{
	struct buf out = {0};

	saslprep(text, &out);
	verify((out.len == 0) == (text.len == 0));
	buf_wipe(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct span left;

	if (len < 2)
		return 0;
	left = (struct span){p + 2, len - 2};
	switch (p[0]) {
	case 's':
		drive_server(p[1] == '+', left);
		break;
	case 'c':
		drive_client(p[1] == '+', left);
		break;
	case 'v':
		drive_verifier(left);
		break;
	case 'p':
		drive_saslprep(left);
		break;
	}
	return 0;
}
