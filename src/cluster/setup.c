/* Builds a setup: the TLS of both sides from their files, and the list of tracked parameters. Called by control only,
 * at start and at each reload, so that no worker ever reads a file. */
#include "cluster/setup.h"

#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/verify.h"

/* Always tracked, in this order: those that PostgreSQL reports and a session may set. track_extra_parameters come behind. */
static const char *const usual_gucs[] = {
	"client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings",
	"application_name", "default_transaction_read_only", "IntervalStyle",
};
#define N_USUAL ((int)(sizeof(usual_gucs) / sizeof(usual_gucs[0])))

/* ---- tracked parameters ---- */

int setup_guc(const struct setup *s, const char *name, size_t len)
{
	for (int i = 0; i < s->n_gucs; i++)
		if (strncasecmp(s->guc_names[i], name, len) == 0 && s->guc_names[i][len] == '\0')
			return i;
	return -1;
}

static struct span word_next(const char **at)
{
	static const char between[] = ", \t\r\n";
	const char *word = *at + strspn(*at, between);
	size_t len = strcspn(word, between);

	*at = word + len;
	return (struct span){(const uint8_t *)word, len};
}

static bool gucs_add_extra(struct setup *s, const char *list, struct err *err)
{
	struct span word;

	while ((word = word_next(&list)).len) {
		const char *name = (const char *)word.p;

		if (setup_guc(s, name, word.len) >= 0)
			continue;
		if (s->n_gucs == GUC_MOST)
			return err_set(err, NULL, "track_extra_parameters: more than %d parameters", GUC_MOST - N_USUAL);
		s->guc_names[s->n_gucs++] = mem_strn(name, word.len);
	}
	return true;
}

/* Connections keep their values by index, so the order of the first setup stays for good. */
static bool gucs_fill(struct setup *s, const struct setup *old, struct err *err)
{
	for (; s->n_gucs < N_USUAL; s->n_gucs++)
		s->guc_names[s->n_gucs] = usual_gucs[s->n_gucs];
	if (!old)
		return gucs_add_extra(s, s->conf->set.track_extra_parameters, err);
	for (; s->n_gucs < old->n_gucs; s->n_gucs++)
		s->guc_names[s->n_gucs] = mem_str(old->guc_names[s->n_gucs]);
	return true;
}

/* ---- TLS ---- */

/* A client's certificate is asked for by verify-ca and verify-full only; its name is a matter of auth_type cert. */
static struct tls_want client_want(const struct settings *set)
{
	return (struct tls_want){
		.side = TLS_ACCEPT,
		.verify = set->client_tls_sslmode >= SSL_VERIFY_CA ? TLS_VERIFY_CA : TLS_VERIFY_NONE,
		.ca_file = set->client_tls_ca_file,
		.cert_file = set->client_tls_cert_file,
		.key_file = set->client_tls_key_file,
		.protocols = set->client_tls_protocols,
		.ciphers = set->client_tls_ciphers,
		.tls13_ciphers = set->client_tls13_ciphers,
		.ecdhcurve = set->client_tls_ecdhcurve,
		.dheparams = set->client_tls_dheparams,
		.alpn_postgresql = true,
	};
}

static enum tls_verify server_verify(enum sslmode mode)
{
	switch (mode) {
	case SSL_VERIFY_FULL:
		return TLS_VERIFY_FULL;
	case SSL_VERIFY_CA:
		return TLS_VERIFY_CA;
	default:
		return TLS_VERIFY_NONE;
	}
}

static struct tls_want server_want(const struct settings *set)
{
	return (struct tls_want){
		.side = TLS_CONNECT,
		.verify = server_verify(set->server_tls_sslmode),
		.ca_file = set->server_tls_ca_file,
		.cert_file = set->server_tls_cert_file,
		.key_file = set->server_tls_key_file,
		.protocols = set->server_tls_protocols,
		.ciphers = set->server_tls_ciphers,
		.tls13_ciphers = set->server_tls13_ciphers,
	};
}

/* One side as it was: what may be kept when nothing has changed. */
struct side_before {
	struct tls_setup *tls; /* borrows; NULL: none */
	uint64_t digest;
};

/* TLS is off, but what is written must be right all the same: a wrong word is told now and not on the day it is turned on. */
static bool words_are_sound(const struct tls_want *want, struct err *err)
{
	struct tls_want words = *want;
	struct err why = {0};
	struct tls_setup *tried;

	words.ca_file = words.cert_file = words.key_file = NULL;
	words.side = TLS_CONNECT; /* which needs no certificate */
	tried = tls_setup_new(&words, &why);
	if (!tried)
		return err_set(err, NULL, "%s: %s", want->side == TLS_ACCEPT ? "client_tls" : "server_tls", why.text);
	tls_setup_drop(&tried);
	return true;
}

/* Fills in *tls (stays NULL under `disable`) and *digest. The mode is part of the digest: a server opened in clear under
 * `prefer` must not live on under `require`. */
static bool side_build(const struct tls_want *want, enum sslmode mode, struct side_before before, struct tls_setup **tls, uint64_t *digest, struct err *err)
{
	struct err why = {0};

	if (mode == SSL_DISABLE) {
		*digest = 0;
		return words_are_sound(want, err);
	}
	*digest = hash_join(tls_want_digest(want), (uint64_t)mode);
	if (before.tls && before.digest == *digest) {
		*tls = tls_setup_ref(before.tls);
		return true;
	}
	*tls = tls_setup_new(want, &why);
	if (*tls)
		return true;
	return err_set(err, why.sqlstate[0] ? why.sqlstate : NULL, "TLS setup failed: %s: %s",
	               want->side == TLS_ACCEPT ? "client_tls" : "server_tls", why.text);
}

static bool tls_build(struct setup *s, const struct setup *old, struct err *err)
{
	const struct settings *set = &s->conf->set;
	struct tls_want client = client_want(set), server = server_want(set);
	struct side_before client_before = {0}, server_before = {0};

	if (old) {
		client_before = (struct side_before){old->client_tls, old->client_tls_digest};
		server_before = (struct side_before){old->server_tls, old->server_tls_digest};
	}
	return side_build(&client, set->client_tls_sslmode, client_before, &s->client_tls, &s->client_tls_digest, err) &&
	       side_build(&server, set->server_tls_sslmode, server_before, &s->server_tls, &s->server_tls_digest, err);
}

/* ---- a setup's life ---- */

struct setup *setup_new(struct conf *conf, const struct setup *old, struct err *err)
{
	struct setup *s = mem_make(struct setup);

	atomic_init(&s->refs, 1);
	s->conf = conf;
	s->org_by_comment = conf_in_list_fold(conf->set.org_sources, "comment");
	s->org_by_name = conf_in_list_fold(conf->set.org_sources, "application_name");
	if (!gucs_fill(s, old, err) || !tls_build(s, old, err)) {
		setup_drop(&s);
		return NULL;
	}
	s->name_guc = setup_guc(s, "application_name", strlen("application_name"));
	return s;
}

struct setup *setup_ref(struct setup *s)
{
	atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

static void setup_free(struct setup *s)
{
	for (int i = N_USUAL; i < s->n_gucs; i++)
		mem_free((void *)s->guc_names[i]);
	tls_setup_drop(&s->client_tls);
	tls_setup_drop(&s->server_tls);
	conf_drop(&s->conf);
	mem_free(s);
}

void setup_drop(struct setup **at)
{
	struct setup *s = *at;

	*at = NULL;
	if (s && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
		setup_free(s);
}
