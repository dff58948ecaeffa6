/* TLS by OpenSSL 3: what one side wants becomes a setup (an SSL_CTX that never changes), and a setup makes sessions.
 *
 * Choices that are not settings:
 * - No session tickets and no session cache, as in PgBouncer and PostgreSQL: a resumed session would outlive a RELOAD that
 *   changed certificates, and pooled connections live long, so that there is little to save.
 * - No renegotiation.
 * - An EOF without close_notify is an EOF: libpq and PostgreSQL end connections that way, and the protocol's own
 *   messages tell a whole conversation from a cut one.
 * - Idle sessions give their buffers back.
 *
 * The process must ignore SIGPIPE: OpenSSL writes to the socket with write(2). */
#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"

#define BACKEND_FAILED "08006"

static const uint8_t alpn[] = "\x0apostgresql"; /* length and name, RFC 7301 */
#define ALPN_LEN (sizeof alpn - 1)

struct tls_setup {
	_Atomic int refs;
	SSL_CTX *context; /* owns */
	enum tls_side side;
	enum tls_verify verify;
};

enum life { LIFE_OPENING, LIFE_OPEN, LIFE_BROKEN }; /* broken: OpenSSL must not be asked for a shutdown */

struct tls {
	SSL *ssl;                /* owns; the fd is the caller's */
	struct tls_setup *setup; /* ref */
	enum life life;
};

/* ---- errors ---- */

/* strerror's text without its static buffer. */
static const char *system_text(int error)
{
	const char *text = strerrordesc_np(error);

	return text ? text : "unknown system error";
}

/* The oldest entry of the queue is the cause; the ones behind it only say who passed it on. */
static void reason(char *out, size_t room)
{
	unsigned long code = ERR_get_error();
	const char *text;

	ERR_clear_error();
	if (code == 0) {
		snprintf(out, room, "unknown reason");
		return;
	}
	if (ERR_SYSTEM_ERROR(code)) {
		snprintf(out, room, "%s", system_text(ERR_GET_REASON(code)));
		return;
	}
	text = ERR_reason_error_string(code);
	if (text)
		snprintf(out, room, "%s", text);
	else
		snprintf(out, room, "OpenSSL error %08lx", code);
}

static bool fail_setup(struct err *err, const char *what, const char *value)
{
	char why[160];

	reason(why, sizeof why);
	return err_set(err, NULL, "%s \"%.200s\": %s", what, value, why);
}

/* ---- values ---- */

#define ALL_VERSIONS 0xf
#define SECURE_VERSIONS 0xc

static const struct version {
	const char *name;
	unsigned bits; /* 1 << place in `numbers` */
} versions[] = {
	{"secure", SECURE_VERSIONS}, {"default", SECURE_VERSIONS},
	{"all", ALL_VERSIONS}, {"legacy", ALL_VERSIONS}, {"tlsv1", ALL_VERSIONS},
	{"tlsv1.0", 0x1}, {"tlsv1.1", 0x2}, {"tlsv1.2", 0x4}, {"tlsv1.3", 0x8},
};

static const struct number {
	int version;
	uint64_t off;
} numbers[] = {
	{TLS1_VERSION, SSL_OP_NO_TLSv1}, {TLS1_1_VERSION, SSL_OP_NO_TLSv1_1},
	{TLS1_2_VERSION, SSL_OP_NO_TLSv1_2}, {TLS1_3_VERSION, SSL_OP_NO_TLSv1_3},
};
#define N_NUMBERS (sizeof numbers / sizeof *numbers)

static bool is_set(const char *text)
{
	return text && *text;
}

static bool word_is(const char *word, size_t len, const char *name)
{
	return strlen(name) == len && strncasecmp(word, name, len) == 0;
}

static unsigned version_bits(const char *word, size_t len)
{
	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
		if (word_is(word, len, versions[i].name))
			return versions[i].bits;
	return 0;
}

/* PgBouncer's list: commas or colons, spaces around words, and "!" takes a word away, from all of them if it comes first.
 * 0: a word is unknown or none is left. */
static unsigned parse_protocols(const char *text)
{
	unsigned bits = 0;

	for (const char *at = text; *at;) {
		size_t gap = strspn(at, ",: \t");
		const char *word = at + gap;
		bool minus = *word == '!';
		size_t len;
		unsigned found;

		word += minus;
		len = strcspn(word, ",: \t");
		if (len == 0 && !minus)
			break;
		found = version_bits(word, len);
		if (!found)
			return 0;
		if (minus && bits == 0)
			bits = ALL_VERSIONS;
		bits = minus ? bits & ~found : bits | found;
		at = word + len;
	}
	return bits;
}

static bool use_protocols(SSL_CTX *c, const char *text, struct err *err)
{
	const char *list = is_set(text) ? text : "secure";
	unsigned bits = parse_protocols(list);
	int least = 0, most = 0;

	if (!bits)
		return err_set(err, NULL, "invalid TLS protocols \"%.200s\"", list);
	for (size_t i = 0; i < N_NUMBERS; i++) {
		if (!(bits & (1u << i))) {
			SSL_CTX_set_options(c, numbers[i].off);
			continue;
		}
		least = least ? least : numbers[i].version;
		most = numbers[i].version;
	}
	if (SSL_CTX_set_min_proto_version(c, least) != 1 || SSL_CTX_set_max_proto_version(c, most) != 1)
		return fail_setup(err, "failed to set TLS protocols", list);
	return true;
}

/* PgBouncer's short words; NULL: the library's own defaults, which are kept up better than any list of ours. */
static const struct {
	const char *name;
	const char *list;
} cipher_words[] = {
	{"default", NULL}, {"secure", NULL}, {"normal", NULL}, {"fast", NULL}, {"compat", "HIGH:!aNULL"},
	{"legacy", "HIGH:MEDIUM:!aNULL"}, {"all", "ALL:!aNULL:!eNULL"}, {"insecure", "ALL:!aNULL:!eNULL"},
};

static const char *cipher_list(const char *text)
{
	if (!is_set(text))
		return NULL;
	for (size_t i = 0; i < sizeof cipher_words / sizeof *cipher_words; i++)
		if (strcasecmp(text, cipher_words[i].name) == 0)
			return cipher_words[i].list;
	return text;
}

/* ecdhcurve=none takes the ECDHE suites away; TLS 1.3 always has its groups. */
static bool use_ciphers(SSL_CTX *c, const struct tls_want *want, struct err *err)
{
	const char *list = cipher_list(want->ciphers);
	bool no_ecdh = is_set(want->ecdhcurve) && strcasecmp(want->ecdhcurve, "none") == 0;
	struct buf text = {0};
	bool done;

	if (is_set(want->tls13_ciphers) && SSL_CTX_set_ciphersuites(c, want->tls13_ciphers) != 1)
		return fail_setup(err, "failed to set the TLSv1.3 cipher suites", want->tls13_ciphers);
	if (!list && !no_ecdh)
		return true;
	buf_add_fmt(&text, "%s%s", list ? list : OSSL_default_cipher_list(), no_ecdh ? ":!kECDHE:!kECDHEPSK" : "");
	buf_add_u8(&text, 0);
	done = SSL_CTX_set_cipher_list(c, (const char *)text.p) == 1;
	buf_free(&text);
	return done || fail_setup(err, "failed to set the TLS ciphers", list ? list : "default");
}

static bool use_curve(SSL_CTX *c, const char *text, struct err *err)
{
	if (!is_set(text) || strcasecmp(text, "auto") == 0 || strcasecmp(text, "none") == 0)
		return true;
	if (SSL_CTX_set1_groups_list(c, text) != 1)
		return fail_setup(err, "unknown TLS ecdhcurve", text);
	return true;
}

static const struct {
	const char *name;
	int dh_auto;
} dh_words[] = {{"auto", 1}, {"none", 0}, {"legacy", 2 /* OpenSSL's word for 1024 bits, if its security level lets it */}};

static bool use_dh(SSL_CTX *c, const char *text, struct err *err)
{
	for (size_t i = 0; i < sizeof dh_words / sizeof *dh_words; i++)
		if (strcasecmp(is_set(text) ? text : "auto", dh_words[i].name) == 0)
			return SSL_CTX_set_dh_auto(c, dh_words[i].dh_auto) == 1;
	return err_set(err, NULL, "invalid TLS dheparams \"%.200s\"", text);
}

/* ---- certificates ---- */

/* A key with a passphrase is an error: nobody is there to type it. */
static int no_passphrase(char *out, int room, int writing, void *unused)
{
	(void)out, (void)room, (void)writing, (void)unused;
	return 0;
}

static bool use_certificate(SSL_CTX *c, const struct tls_want *want, struct err *err)
{
	if (!is_set(want->cert_file) && !is_set(want->key_file))
		return want->side == TLS_CONNECT || err_set(err, NULL, "no certificate and key file is set");
	if (!is_set(want->cert_file) || !is_set(want->key_file))
		return err_set(err, NULL, "a certificate file needs a key file, and the other way round");
	SSL_CTX_set_default_passwd_cb(c, no_passphrase);
	if (SSL_CTX_use_certificate_chain_file(c, want->cert_file) != 1)
		return fail_setup(err, "failed to load the TLS certificate file", want->cert_file);
	if (SSL_CTX_use_PrivateKey_file(c, want->key_file, SSL_FILETYPE_PEM) != 1)
		return fail_setup(err, "failed to load the TLS key file", want->key_file);
	if (SSL_CTX_check_private_key(c) != 1)
		return fail_setup(err, "the key does not fit the TLS certificate file", want->cert_file);
	return true;
}

static bool load_ca(SSL_CTX *c, const struct tls_want *want, struct err *err)
{
	STACK_OF(X509_NAME) *names;

	if (!is_set(want->ca_file)) {
		SSL_CTX_set_default_verify_paths(c);
		return true;
	}
	if (SSL_CTX_load_verify_locations(c, want->ca_file, NULL) != 1)
		return fail_setup(err, "failed to load the TLS CA file", want->ca_file);
	if (want->side == TLS_CONNECT)
		return true;
	names = SSL_load_client_CA_file(want->ca_file);
	if (!names)
		return fail_setup(err, "failed to load the TLS CA file", want->ca_file);
	SSL_CTX_set_client_CA_list(c, names); /* takes names */
	return true;
}

static bool use_verify(SSL_CTX *c, const struct tls_want *want, struct err *err)
{
	int mode = SSL_VERIFY_PEER;

	if (want->verify == TLS_VERIFY_NONE) {
		SSL_CTX_set_verify(c, SSL_VERIFY_NONE, NULL);
		/* A file that is named must be there even so, or the mistake shows up on the day the mode changes. */
		return !is_set(want->ca_file) || load_ca(c, want, err);
	}
	if (want->side == TLS_ACCEPT && want->verify != TLS_VERIFY_OPTIONAL)
		mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
	SSL_CTX_set_verify(c, mode, NULL);
	return load_ca(c, want, err);
}

/* ---- ALPN and SNI ---- */

static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in, unsigned in_len, void *unused)
{
	unsigned char *chosen;

	(void)ssl, (void)unused;
	if (SSL_select_next_proto(&chosen, out_len, alpn, ALPN_LEN, in, in_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL; /* no_application_protocol: the peer came for another protocol */
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

/* Any name is welcome, since there is one certificate; saying so acknowledges it (RFC 6066 chapter 3). */
static int note_sni(SSL *ssl, int *alert, void *unused)
{
	(void)alert, (void)unused;
	return SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

static bool use_names(SSL_CTX *c, const struct tls_want *want)
{
	if (want->side == TLS_ACCEPT)
		SSL_CTX_set_tlsext_servername_callback(c, note_sni);
	if (!want->alpn_postgresql)
		return true;
	if (want->side == TLS_CONNECT)
		return SSL_CTX_set_alpn_protos(c, alpn, ALPN_LEN) == 0; /* 0 is success here */
	SSL_CTX_set_alpn_select_cb(c, choose_alpn, NULL);
	return true;
}

/* ---- setups ---- */

static void use_choices(SSL_CTX *c)
{
	SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_num_tickets(c, 0); /* TLS 1.3 would send stateful ones in spite of NO_TICKET */
	SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
}

static bool use_want(SSL_CTX *c, const struct tls_want *want, struct err *err)
{
	use_choices(c);
	return use_protocols(c, want->protocols, err) && use_ciphers(c, want, err) && use_curve(c, want->ecdhcurve, err) && use_dh(c, want->dheparams, err) &&
	       use_certificate(c, want, err) && use_verify(c, want, err) && (use_names(c, want) || fail_setup(err, "failed to set ALPN", "postgresql"));
}

struct tls_setup *tls_setup_new(const struct tls_want *want, struct err *err)
{
	SSL_CTX *c;
	struct tls_setup *s;

	ERR_clear_error();
	c = SSL_CTX_new(want->side == TLS_ACCEPT ? TLS_server_method() : TLS_client_method());
	if (!c) {
		fail_setup(err, "failed to start", "OpenSSL");
		return NULL;
	}
	if (!use_want(c, want, err)) {
		SSL_CTX_free(c);
		return NULL;
	}
	s = mem_make(struct tls_setup);
	s->refs = 1;
	s->context = c;
	s->side = want->side;
	s->verify = want->verify;
	return s;
}

struct tls_setup *tls_setup_ref(struct tls_setup *s)
{
	atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

void tls_setup_drop(struct tls_setup **s)
{
	struct tls_setup *old = *s;

	*s = NULL;
	if (!old || atomic_fetch_sub_explicit(&old->refs, 1, memory_order_acq_rel) > 1)
		return;
	SSL_CTX_free(old->context);
	mem_free(old);
}

static uint64_t digest_text(uint64_t so_far, const char *text)
{
	return hash_join(so_far, is_set(text) ? hash_bytes(text, strlen(text)) : 0);
}

/* The contents, or why there are none. Not blocking: the name may turn out to be a pipe. */
static uint64_t digest_file(uint64_t so_far, const char *path)
{
	char part[4096];
	ssize_t n;
	int fd;

	so_far = digest_text(so_far, path);
	if (!is_set(path))
		return so_far;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return hash_join(so_far, (uint64_t)errno);
	while ((n = read(fd, part, sizeof part)) > 0)
		so_far = hash_join(so_far, hash_bytes(part, (size_t)n));
	close(fd);
	return so_far;
}

uint64_t tls_want_digest(const struct tls_want *want)
{
	uint64_t d = hash_join(hash_join((uint64_t)want->side, (uint64_t)want->verify), want->alpn_postgresql);

	d = digest_file(digest_file(digest_file(d, want->ca_file), want->cert_file), want->key_file);
	d = digest_text(digest_text(d, want->protocols), want->ciphers);
	d = digest_text(digest_text(d, want->tls13_ciphers), want->ecdhcurve);
	return digest_text(d, want->dheparams);
}

/* ---- sessions ---- */

static bool is_ip(const char *host)
{
	uint8_t raw[16];

	return inet_pton(AF_INET, host, raw) == 1 || inet_pton(AF_INET6, host, raw) == 1;
}

/* The certificate must be for this host: a name is matched with DNS entries (or the CN where there are none), an address with IP entries. */
static bool expect_host(SSL *ssl, const char *host)
{
	X509_VERIFY_PARAM *rules = SSL_get0_param(ssl);

	X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (is_ip(host))
		return X509_VERIFY_PARAM_set1_ip_asc(rules, host) == 1;
	return X509_VERIFY_PARAM_set1_host(rules, host, 0) == 1;
}

static bool aim(SSL *ssl, const struct tls_setup *setup, const char *host, struct err *err)
{
	if (setup->verify == TLS_VERIFY_FULL && !is_set(host))
		return err_set(err, BACKEND_FAILED, "no host name to verify the server certificate for");
	if (!is_set(host))
		return true;
	if (!is_ip(host) && SSL_set_tlsext_host_name(ssl, host) != 1)
		return fail_setup(err, "cannot ask for the server name", host);
	if (setup->verify == TLS_VERIFY_FULL && !expect_host(ssl, host))
		return fail_setup(err, "cannot verify the host name", host);
	return true;
}

struct tls *tls_new(struct tls_setup *setup, int fd, const char *host, struct err *err)
{
	SSL *ssl;
	struct tls *t;

	ERR_clear_error();
	ssl = SSL_new(setup->context);
	if (!ssl || SSL_set_fd(ssl, fd) != 1) {
		fail_setup(err, "cannot begin", "TLS session");
		SSL_free(ssl);
		return NULL;
	}
	if (setup->side == TLS_CONNECT && !aim(ssl, setup, host, err)) {
		SSL_free(ssl);
		return NULL;
	}
	if (setup->side == TLS_CONNECT)
		SSL_set_connect_state(ssl);
	else
		SSL_set_accept_state(ssl);
	t = mem_make(struct tls);
	t->ssl = ssl;
	t->setup = tls_setup_ref(setup);
	return t;
}

void tls_free(struct tls **t)
{
	if (!*t)
		return;
	ERR_clear_error();
	if ((*t)->life == LIFE_OPEN)
		SSL_shutdown((*t)->ssl); /* one try: the socket may be full, and the peer owes us nothing */
	ERR_clear_error();
	SSL_free((*t)->ssl);
	tls_setup_drop(&(*t)->setup);
	mem_free(*t);
	*t = NULL;
}

/* "certificate verify failed" alone does not help an operator. */
static void say_verify(const SSL *ssl, struct err *err)
{
	long result = SSL_get_verify_result(ssl);
	size_t len = strlen(err->text);

	if (result != X509_V_OK)
		snprintf(err->text + len, sizeof err->text - len, " (%s)", X509_verify_cert_error_string(result));
}

static enum tls_step broken(struct tls *t, int error, int system_error, struct err *err)
{
	unsigned long code = ERR_peek_error();
	char why[160];

	t->life = LIFE_BROKEN;
	if (error == SSL_ERROR_SYSCALL && code == 0) {
		err_set(err, BACKEND_FAILED, "TLS: %s", system_error ? system_text(system_error) : "unexpected eof while reading");
		return TLS_FAIL;
	}
	reason(why, sizeof why);
	err_set(err, BACKEND_FAILED, "TLS: %s", why);
	if (err && ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED)
		say_verify(t->ssl, err);
	return TLS_FAIL;
}

/* What a call that did not succeed needs. */
static enum tls_step step_of(struct tls *t, int result, struct err *err)
{
	int system_error = errno; /* before anything else is called */
	int error = SSL_get_error(t->ssl, result);

	switch (error) {
	case SSL_ERROR_WANT_READ:
		return TLS_READ;
	case SSL_ERROR_WANT_WRITE:
		return TLS_WRITE;
	case SSL_ERROR_ZERO_RETURN:
		return TLS_EOF;
	default:
		return broken(t, error, system_error, err);
	}
}

enum tls_step tls_handshake(struct tls *t, struct err *err)
{
	enum tls_step step;
	int result;

	if (t->life == LIFE_BROKEN) {
		err_set(err, BACKEND_FAILED, "TLS: the session has failed");
		return TLS_FAIL;
	}
	ERR_clear_error();
	errno = 0;
	result = SSL_do_handshake(t->ssl);
	if (result == 1) {
		t->life = LIFE_OPEN;
		return TLS_DONE;
	}
	step = step_of(t, result, err);
	if (step != TLS_EOF)
		return step;
	t->life = LIFE_BROKEN; /* no end is orderly here */
	err_set(err, BACKEND_FAILED, "TLS: unexpected eof while reading");
	return TLS_FAIL;
}

enum tls_step tls_read(struct tls *t, void *p, size_t room, size_t *n, struct err *err)
{
	int result;

	*n = 0;
	if (t->life != LIFE_OPEN) {
		err_set(err, BACKEND_FAILED, "TLS: the session has failed");
		return TLS_FAIL;
	}
	if (room == 0)
		return TLS_DONE;
	ERR_clear_error();
	errno = 0;
	result = SSL_read_ex(t->ssl, p, room, n);
	return result == 1 ? TLS_DONE : step_of(t, result, err);
}

enum tls_step tls_write(struct tls *t, const void *p, size_t len, size_t *n, struct err *err)
{
	int result;

	*n = 0;
	if (t->life != LIFE_OPEN) {
		err_set(err, BACKEND_FAILED, "TLS: the session has failed");
		return TLS_FAIL;
	}
	if (len == 0)
		return TLS_DONE; /* OpenSSL leaves it undefined */
	ERR_clear_error();
	errno = 0;
	result = SSL_write_ex(t->ssl, p, len, n);
	return result == 1 ? TLS_DONE : step_of(t, result, err);
}

size_t tls_pending(const struct tls *t)
{
	int n = SSL_pending(t->ssl);

	return n > 0 ? (size_t)n : 0;
}

/* ---- what was agreed ---- */

const char *tls_sni(const struct tls *t)
{
	return SSL_get_servername(t->ssl, TLSEXT_NAMETYPE_host_name);
}

bool tls_alpn_is_postgresql(const struct tls *t)
{
	const unsigned char *name;
	unsigned len;

	SSL_get0_alpn_selected(t->ssl, &name, &len);
	return len == alpn[0] && memcmp(name, alpn + 1, len) == 0;
}

void tls_print(const struct tls *t, char out[64])
{
	snprintf(out, 64, "%s/%s", SSL_get_version(t->ssl), SSL_get_cipher_name(t->ssl));
}

bool tls_peer_has_cert(const struct tls *t)
{
	return SSL_get0_peer_certificate(t->ssl) != NULL;
}

/* Exactly the name: no wildcard, no folding of case, and no NUL that hides a rest. It may be a login name. */
static bool text_is(const ASN1_STRING *text, const char *name)
{
	uint8_t *utf8 = NULL;
	int len = ASN1_STRING_to_UTF8(&utf8, text);
	bool same;

	if (len < 0)
		return false;
	same = span_is((struct span){utf8, (size_t)len}, name);
	OPENSSL_free(utf8);
	return same;
}

static bool cn_is(const X509 *cert, const char *name)
{
	const X509_NAME *subject = X509_get_subject_name(cert);
	int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

	return at >= 0 && text_is(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)), name);
}

static bool san_has(const X509 *cert, const char *name)
{
	GENERAL_NAMES *all = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	bool found = false;

	for (int i = 0; !found && i < sk_GENERAL_NAME_num(all); i++) {
		const GENERAL_NAME *one = sk_GENERAL_NAME_value(all, i);

		found = one->type == GEN_DNS && text_is(one->d.dNSName, name);
	}
	GENERAL_NAMES_free(all);
	return found;
}

bool tls_peer_names(const struct tls *t, const char *name)
{
	const X509 *cert = SSL_get0_peer_certificate(t->ssl);

	return cert && *name && (cn_is(cert, name) || san_has(cert, name));
}

/* NULL where a NUL hides a rest. */
static char *text_copy(const ASN1_STRING *text)
{
	uint8_t *utf8 = NULL;
	int len = ASN1_STRING_to_UTF8(&utf8, text);
	char *copy = NULL;

	if (len < 0)
		return NULL;
	if (!memchr(utf8, 0, (size_t)len))
		copy = mem_strn((const char *)utf8, (size_t)len);
	OPENSSL_free(utf8);
	return copy;
}

static char *cn_copy(const X509 *cert)
{
	const X509_NAME *subject = X509_get_subject_name(cert);
	int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

	return at < 0 ? mem_str("") : text_copy(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

static char *san_copy(const X509 *cert, int i)
{
	GENERAL_NAMES *all = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	char *copy = NULL;

	for (int k = 0; !copy && k < sk_GENERAL_NAME_num(all); k++) {
		const GENERAL_NAME *one = sk_GENERAL_NAME_value(all, k);
		if ((one->type == GEN_DNS || one->type == GEN_URI) && i-- == 0)
			copy = text_copy(one->d.ia5);
	}
	GENERAL_NAMES_free(all);
	return copy;
}

char *tls_peer_name(const struct tls *t, int i)
{
	const X509 *cert = SSL_get0_peer_certificate(t->ssl);

	if (!cert)
		return NULL;
	return i == 0 ? cn_copy(cert) : san_copy(cert, i - 1);
}

/* RFC 5929 chapter 4.1: the hash of the certificate's signature, but SHA-256 in place of MD5 and SHA-1. A signature without
 * one hash (Ed25519) has no end point defined. */
static const EVP_MD *end_point_hash(X509 *cert)
{
	int nid = NID_undef;

	if (!X509_get_signature_info(cert, &nid, NULL, NULL, NULL))
		return NULL;
	if (nid == NID_md5 || nid == NID_sha1)
		return EVP_sha256();
	return EVP_get_digestbynid(nid);
}

size_t tls_end_point(const struct tls *t, uint8_t out[64])
{
	X509 *cert = t->setup->side == TLS_ACCEPT ? SSL_get_certificate(t->ssl) : SSL_get0_peer_certificate(t->ssl);
	const EVP_MD *hash = cert ? end_point_hash(cert) : NULL;
	unsigned len = 0;

	if (hash && EVP_MD_get_size(hash) <= 64 && X509_digest(cert, hash, out, &len) != 1)
		len = 0;
	ERR_clear_error();
	return len;
}
