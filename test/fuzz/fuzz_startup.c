/* The first packet, from a block of the input's exact size; what is taken must lie inside the packet, and its options
 * and its negotiation must be readable too. */
#include "base/verify.h"
#include "wire/startup.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len);

static bool inside(const uint8_t *p, const struct startup *s, const char *text)
{
	const uint8_t *at = (const uint8_t *)text;
	return at >= p + 8 && at + strlen(text) < p + s->size;
}

static bool take(void *arg, const char *name, const char *value, struct err *err)
{
	(void)err;
	size_t most = *(size_t *)arg;
	verify(*name && !strchr(name, '-') && strlen(name) + strlen(value) < most);
	return true;
}

static void login_check(const uint8_t *p, const struct startup *s)
{
	struct err err = {0};
	struct buf b = {0};
	verify(s->user[0] && inside(p, s, s->user) && inside(p, s, s->database));
	verify(!s->replication || inside(p, s, s->replication));
	for (int i = 0; i < s->n_params; i++) {
		size_t most = strlen(s->params[i].value);
		verify(inside(p, s, s->params[i].name) && inside(p, s, s->params[i].value));
		verify(startup_options(s->params[i].value, take, &most, &err) || err.text[0]);
	}
	startup_negotiate(&b, s);
	verify(s->negotiate || b.len == 13);
	buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct startup s;
	struct err err = {0};
	switch (startup_parse(p, len, &s, &err)) {
	case PARSE_OK:
		verify(s.size >= 8 && s.size <= len && s.size <= STARTUP_MOST);
		verify(s.kind != STARTUP_CANCEL || s.key.p + s.key.len == p + s.size);
		if (s.kind == STARTUP_LOGIN)
			login_check(p, &s);
		break;
	case PARSE_MORE:
		verify(len < STARTUP_MOST);
		break;
	case PARSE_BAD:
		verify(err.sqlstate[0] && err.text[0]);
		break;
	}
	return 0;
}
