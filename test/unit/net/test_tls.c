/* TLS: both sides in one process over a socket pair, with certificates made here. Names of files are of a folder that is
 * made first and removed last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/buf.h"
#include "net/tls.h"

/* ---- certificates ---- */

static char folder[64];
static char paths[40][128]; /* what path() gave out */
static unsigned n_paths;

/* Lives until 40 more were asked for. */
static const char *path(const char *name, const char *kind)
{
	char *out = paths[n_paths++ % 40];

	snprintf(out, sizeof paths[0], "%s/%s.%s", folder, name, kind);
	return out;
}

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX v3;
	X509_EXTENSION *ext;

	X509V3_set_ctx(&v3, issuer, cert, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &v3, nid, value);
	assert_non_null(ext);
	X509_add_ext(cert, ext, -1);
	X509_EXTENSION_free(ext);
}

static void save(const char *name, X509 *cert, EVP_PKEY *key)
{
	FILE *f = fopen(path(name, "crt"), "w");

	assert_int_equal(PEM_write_X509(f, cert), 1);
	fclose(f);
	f = fopen(path(name, "key"), "w");
	assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(f);
}

struct authority {
	X509 *cert;
	EVP_PKEY *key;
};
static struct authority ca, other_ca;

/* A certificate and its key, as files by that name. issuer NULL: signed by itself, a CA. hash NULL: the key's own (Ed25519). */
static struct authority make(const char *name, const char *cn, const char *san, EVP_PKEY *key, const EVP_MD *hash, const struct authority *issuer)
{
	static long serial;
	struct authority made = {X509_new(), key};
	X509_NAME *subject = X509_get_subject_name(made.cert);

	X509_set_version(made.cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(made.cert), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(made.cert), -3600);
	X509_gmtime_adj(X509_getm_notAfter(made.cert), 86400);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const uint8_t *)cn, -1, -1, 0);
	X509_set_issuer_name(made.cert, issuer ? X509_get_subject_name(issuer->cert) : subject);
	X509_set_pubkey(made.cert, key);
	add_extension(made.cert, issuer ? issuer->cert : made.cert, NID_basic_constraints, issuer ? "CA:FALSE" : "critical,CA:TRUE");
	if (san)
		add_extension(made.cert, made.cert, NID_subject_alt_name, san);
	assert_true(X509_sign(made.cert, issuer ? issuer->key : key, hash) > 0);
	save(name, made.cert, key);
	return made;
}

static void drop(struct authority a)
{
	X509_free(a.cert);
	EVP_PKEY_free(a.key);
}

static int make_folder(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	strcpy(folder, "/tmp/pgweir-test-tls.XXXXXX");
	assert_non_null(mkdtemp(folder));
	ca = make("ca", "Test CA", NULL, EVP_EC_gen("P-256"), EVP_sha256(), NULL);
	other_ca = make("other_ca", "Other CA", NULL, EVP_EC_gen("P-256"), EVP_sha256(), NULL);
	drop(make("server", "server.test", "DNS:server.test,DNS:*.wild.test,IP:127.0.0.1,IP:::1", EVP_EC_gen("P-256"), EVP_sha256(), &ca));
	drop(make("sha384", "server.test", NULL, EVP_EC_gen("P-256"), EVP_sha384(), &ca));
	drop(make("sha1", "server.test", NULL, EVP_RSA_gen(2048), EVP_sha1(), NULL));
	drop(make("ed25519", "server.test", NULL, EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), NULL, NULL));
	drop(make("client", "bob", "DNS:bob.test,DNS:*.bob.test,email:mail@bob.test", EVP_EC_gen("P-256"), EVP_sha256(), &ca));
	drop(make("stranger", "bob", NULL, EVP_EC_gen("P-256"), EVP_sha256(), &other_ca));
	return 0;
}

static int remove_folder(void **state)
{
	char command[100];

	(void)state;
	drop(ca);
	drop(other_ca);
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

/* ---- two sides ---- */

struct pair {
	int fd[2]; /* accepting, connecting; -1 when closed */
	struct tls *server, *client;
	enum tls_step server_step, client_step;
	struct err server_err, client_err;
};

static struct tls_want server_want(void)
{
	return (struct tls_want){.side = TLS_ACCEPT, .cert_file = path("server", "crt"), .key_file = path("server", "key")};
}

static struct tls_want client_want(void)
{
	return (struct tls_want){.side = TLS_CONNECT};
}

static void open_pair(struct pair *p, const struct tls_want *server, const struct tls_want *client, const char *host)
{
	struct err err = {0};
	struct tls_setup *s = tls_setup_new(server, &err), *c;

	if (!s)
		fail_msg("%s", err.text);
	c = tls_setup_new(client, &err);
	if (!c)
		fail_msg("%s", err.text);
	memset(p, 0, sizeof *p);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->fd), 0);
	p->server = tls_new(s, p->fd[0], NULL, &err);
	p->client = tls_new(c, p->fd[1], host, &err);
	assert_non_null(p->server);
	assert_non_null(p->client);
	tls_setup_drop(&s); /* sessions hold on to theirs */
	tls_setup_drop(&c);
	assert_null(s);
}

static bool under_way(enum tls_step step)
{
	return step == TLS_READ || step == TLS_WRITE;
}

/* Turn by turn until both know. A side that waits for one that failed is left waiting. */
static void shake(struct pair *p)
{
	p->server_step = p->client_step = TLS_READ;
	for (int turn = 0; turn < 20 && (under_way(p->server_step) || under_way(p->client_step)); turn++) {
		if (under_way(p->client_step))
			p->client_step = tls_handshake(p->client, &p->client_err);
		if (under_way(p->server_step))
			p->server_step = tls_handshake(p->server, &p->server_err);
	}
}

static void close_pair(struct pair *p)
{
	tls_free(&p->client);
	tls_free(&p->server);
	for (int i = 0; i < 2; i++)
		if (p->fd[i] >= 0)
			close(p->fd[i]);
}

static void open_shaken(struct pair *p, const struct tls_want *server, const struct tls_want *client, const char *host)
{
	open_pair(p, server, client, host);
	shake(p);
	if (p->server_step != TLS_DONE || p->client_step != TLS_DONE)
		fail_msg("server: %s, client: %s", p->server_err.text, p->client_err.text);
}

/* One byte each way: under TLS 1.3 the client learns here only that its certificate was refused. */
static bool talks(struct pair *p)
{
	char c = 0;
	size_t n;

	return tls_write(p->server, "x", 1, &n, &p->server_err) == TLS_DONE && tls_read(p->client, &c, 1, &n, &p->client_err) == TLS_DONE && c == 'x' &&
	       tls_write(p->client, "y", 1, &n, &p->client_err) == TLS_DONE && tls_read(p->server, &c, 1, &n, &p->server_err) == TLS_DONE && c == 'y';
}

static bool connects(const struct tls_want *server, const struct tls_want *client, const char *host, struct pair *p)
{
	bool done;

	open_pair(p, server, client, host);
	shake(p);
	done = p->server_step == TLS_DONE && p->client_step == TLS_DONE && talks(p);
	close_pair(p);
	return done;
}

/* ---- the ordinary way ---- */

static void both_sides_meet_in_tls_1_3_by_default(void **state)
{
	struct tls_want s = server_want(), c = client_want();
	struct pair p;
	char a[64], b[64];

	(void)state;
	open_shaken(&p, &s, &c, "server.test");
	assert_true(talks(&p));
	tls_print(p.server, a);
	tls_print(p.client, b);
	assert_string_equal(a, "TLSv1.3/TLS_AES_256_GCM_SHA384");
	assert_string_equal(a, b);
	assert_false(tls_peer_has_cert(p.server));
	assert_true(tls_peer_has_cert(p.client));
	close_pair(&p);
	assert_null(p.server);
}

static void much_passes_in_pieces_as_the_socket_takes_it(void **state)
{
	struct tls_want s = server_want(), c = client_want();
	struct pair p;
	size_t sent = 0, got = 0, n, size = 4 << 20;
	uint8_t *out = malloc(size), *in = malloc(size);
	bool waited = false;

	(void)state;
	for (size_t i = 0; i < size; i++)
		out[i] = (uint8_t)(i * 31 + i / 251);
	open_shaken(&p, &s, &c, NULL);
	while (got < size) {
		enum tls_step step = TLS_DONE;

		while (sent < size && step == TLS_DONE) {
			uint8_t *moved = malloc(size - sent); /* the buffer may move between tries */

			memcpy(moved, out + sent, size - sent);
			step = tls_write(p.server, moved, size - sent, &n, &p.server_err);
			sent += n;
			free(moved);
		}
		assert_true(step == TLS_DONE || step == TLS_WRITE);
		waited |= step == TLS_WRITE;
		while ((step = tls_read(p.client, in + got, size - got, &n, &p.client_err)) == TLS_DONE && n)
			got += n;
		assert_true(step == TLS_READ || got == size);
	}
	assert_true(waited);
	assert_memory_equal(in, out, size);
	close_pair(&p);
	free(out);
	free(in);
}

static void pending_tells_what_no_edge_will(void **state)
{
	struct tls_want s = server_want(), c = client_want();
	struct pair p;
	char part[4];
	size_t n;

	(void)state;
	open_shaken(&p, &s, &c, NULL);
	assert_int_equal(tls_pending(p.client), 0);
	assert_int_equal(tls_write(p.server, "0123456789", 10, &n, NULL), TLS_DONE);
	assert_int_equal(tls_read(p.client, part, 4, &n, NULL), TLS_DONE);
	assert_int_equal(n, 4);
	assert_int_equal(tls_pending(p.client), 6);
	assert_int_equal(tls_read(p.client, part, 0, &n, NULL), TLS_DONE);
	assert_int_equal(n, 0);
	assert_int_equal(tls_write(p.client, part, 0, &n, NULL), TLS_DONE);
	close_pair(&p);
}

static void no_ticket_is_sent(void **state)
{
	struct tls_want s = server_want(), c = client_want();
	struct pair p;
	char byte;

	(void)state;
	open_shaken(&p, &s, &c, NULL);
	/* After the client has finished, the server has nothing to say: a ticket would wait in the socket. */
	assert_int_equal(recv(p.fd[1], &byte, 1, MSG_PEEK), -1);
	assert_int_equal(errno, EAGAIN);
	close_pair(&p);
}

/* ---- versions, ciphers, curves ---- */

static bool print_is(const struct tls_want *s, const struct tls_want *c, const char *want)
{
	struct pair p;
	char text[64];
	bool same;

	open_shaken(&p, s, c, NULL);
	tls_print(p.server, text);
	same = strncmp(text, want, strlen(want)) == 0;
	if (!same)
		print_error("%s\n", text);
	close_pair(&p);
	return same;
}

static void protocols_bound_the_version(void **state)
{
	struct tls_want s = server_want(), c = client_want();
	struct pair p;

	(void)state;
	s.protocols = "tlsv1.2";
	assert_true(print_is(&s, &c, "TLSv1.2/"));
	s.protocols = "TLSv1.2, tlsv1.3";
	assert_true(print_is(&s, &c, "TLSv1.3/"));
	s.protocols = "all:!tlsv1.3";
	assert_true(print_is(&s, &c, "TLSv1.2/"));
	s.protocols = "secure,!tlsv1.3";
	assert_true(print_is(&s, &c, "TLSv1.2/"));
	s.protocols = "!tlsv1.3";
	assert_true(print_is(&s, &c, "TLSv1.2/"));
	s.protocols = "tlsv1.3";
	c.protocols = "tlsv1.2";
	assert_false(connects(&s, &c, NULL, &p));
}

static void tls_1_1_is_refused_by_default(void **state)
{
	struct tls_want s = server_want(), c = client_want();
	struct pair p;

	(void)state;
	s.ciphers = c.ciphers = "ALL:@SECLEVEL=0"; /* OpenSSL 3 has no TLS 1.1 above that */
	c.protocols = "tlsv1.1";
	assert_false(connects(&s, &c, NULL, &p));
	assert_non_null(strstr(p.server_err.text, "unsupported protocol"));
	s.protocols = "all";
	assert_true(print_is(&s, &c, "TLSv1.1/"));
	s.protocols = "tlsv1.1,tlsv1.3"; /* a hole in between */
	c.protocols = "tlsv1.2";
	assert_false(connects(&s, &c, NULL, &p));
}

static void ciphers_are_chosen_by_the_settings(void **state)
{
	static const char *const words[] = {"default", "secure", "normal", "fast", "all", "HIGH:!aNULL"};
	struct tls_want s = server_want(), c = client_want();

	(void)state;
	s.tls13_ciphers = "TLS_CHACHA20_POLY1305_SHA256";
	assert_true(print_is(&s, &c, "TLSv1.3/TLS_CHACHA20_POLY1305_SHA256"));
	s.protocols = "tlsv1.2";
	s.ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256";
	assert_true(print_is(&s, &c, "TLSv1.2/ECDHE-ECDSA-AES128-GCM-SHA256"));
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		s.ciphers = words[i];
		assert_true(print_is(&s, &c, "TLSv1.2/ECDHE"));
	}
}

static void curves_and_dh_are_chosen_by_the_settings(void **state)
{
	struct tls_want s = server_want(), c = client_want();
	struct pair p;

	(void)state;
	s.ecdhcurve = "auto";
	s.dheparams = "none";
	assert_true(print_is(&s, &c, "TLSv1.3/"));
	s.ecdhcurve = "secp384r1";
	c.ecdhcurve = "prime256v1";
	assert_false(connects(&s, &c, NULL, &p));
	c.ecdhcurve = "P-384";
	assert_true(print_is(&s, &c, "TLSv1.3/"));

	/* Without ECDHE an RSA certificate is left with DHE, and without that too with RSA's own exchange. */
	s = server_want();
	c = client_want();
	s.cert_file = path("sha1", "crt");
	s.key_file = path("sha1", "key");
	s.ciphers = "ALL:@SECLEVEL=0";
	s.protocols = "tlsv1.2";
	s.ecdhcurve = "none";
	assert_true(print_is(&s, &c, "TLSv1.2/DHE-"));
	s.dheparams = "legacy";
	c.ciphers = "ALL:@SECLEVEL=0";
	assert_true(print_is(&s, &c, "TLSv1.2/DHE-"));
	s.dheparams = "none";
	assert_true(print_is(&s, &c, "TLSv1.2/AES"));
}

/* ---- settings that are wrong ---- */

static void is_refused(const struct tls_want *want, const char *why)
{
	struct err err = {0};
	struct tls_setup *s = tls_setup_new(want, &err);

	assert_null(s);
	if (!strstr(err.text, why))
		fail_msg("\"%s\" is not in \"%s\"", why, err.text);
}

static void wrong_values_are_named(void **state)
{
	static const char *const protocols[] = {"tlsv1.4", "tlsv1.2;tlsv1.3", "secure,!all", "!", "secure,x", ","};
	struct tls_want want;

	(void)state;
	for (size_t i = 0; i < sizeof protocols / sizeof *protocols; i++) {
		want = server_want();
		want.protocols = protocols[i];
		is_refused(&want, protocols[i]);
	}
	want = server_want();
	want.ciphers = "NOSUCH";
	is_refused(&want, "no cipher match");
	want = server_want();
	want.tls13_ciphers = "NOSUCH";
	is_refused(&want, "failed to set the TLSv1.3 cipher suites");
	want = server_want();
	want.ecdhcurve = "nosuch";
	is_refused(&want, "nosuch");
	want = server_want();
	want.dheparams = "nosuch";
	is_refused(&want, "nosuch");
}

static void missing_files_are_told_in_the_systems_words(void **state)
{
	struct tls_want want = server_want();

	(void)state;
	want.cert_file = path("absent", "crt");
	is_refused(&want, "absent.crt\": No such file or directory");
	want = server_want();
	want.key_file = path("absent", "key");
	is_refused(&want, "absent.key\": No such file or directory");
	want = server_want();
	want.ca_file = path("absent", "crt");
	is_refused(&want, "absent.crt\": No such file or directory");
	want.verify = TLS_VERIFY_CA;
	is_refused(&want, "No such file or directory");
	want = client_want();
	want.ca_file = path("absent", "crt");
	want.verify = TLS_VERIFY_FULL;
	is_refused(&want, "No such file or directory");
}

static void files_that_do_not_fit_are_refused(void **state)
{
	struct tls_want want = server_want();

	(void)state;
	want.key_file = path("client", "key");
	is_refused(&want, "key values mismatch");
	want = server_want();
	want.cert_file = path("server", "key");
	is_refused(&want, "no start line");
	want = server_want();
	want.key_file = NULL;
	is_refused(&want, "key file");
	want = client_want();
	want.key_file = path("client", "key");
	is_refused(&want, "certificate file");
	want = (struct tls_want){.side = TLS_ACCEPT, .cert_file = "", .key_file = ""};
	is_refused(&want, "no certificate");
}

static void a_key_with_a_passphrase_is_refused_and_nobody_is_asked(void **state)
{
	struct tls_want want = server_want();
	FILE *f = fopen(path("locked", "key"), "w");

	(void)state;
	assert_int_equal(PEM_write_PrivateKey(f, ca.key, EVP_aes_128_cbc(), (const unsigned char *)"pass", 4, NULL, NULL), 1);
	fclose(f);
	want.key_file = path("locked", "key");
	is_refused(&want, "locked.key");
}

/* ---- verifying ---- */

static const struct {
	const char *what;
	enum tls_verify verify;
	const char *client; /* its certificate, or none */
	bool admitted, seen;
} client_certs[] = {
	{"none asks nobody", TLS_VERIFY_NONE, "client", true, false},
	{"none takes one without", TLS_VERIFY_NONE, NULL, true, false},
	{"optional takes one without", TLS_VERIFY_OPTIONAL, NULL, true, false},
	{"optional takes a good one", TLS_VERIFY_OPTIONAL, "client", true, true},
	{"optional refuses a stranger", TLS_VERIFY_OPTIONAL, "stranger", false, false},
	{"ca refuses one without", TLS_VERIFY_CA, NULL, false, false},
	{"ca takes a good one", TLS_VERIFY_CA, "client", true, true},
	{"ca refuses a stranger", TLS_VERIFY_CA, "stranger", false, false},
	{"full refuses one without", TLS_VERIFY_FULL, NULL, false, false},
	{"full takes a good one", TLS_VERIFY_FULL, "client", true, true},
	{"full refuses a stranger", TLS_VERIFY_FULL, "stranger", false, false},
};

static void client_certificates_are_verified_as_the_mode_says(void **state)
{
	static const char *const versions[] = {"tlsv1.2", "tlsv1.3"};

	(void)state;
	for (size_t i = 0; i < 2 * sizeof client_certs / sizeof *client_certs; i++) {
		struct tls_want s = server_want(), c = client_want();
		struct pair p;
		bool admitted;

		s.protocols = versions[i % 2];
		s.verify = client_certs[i / 2].verify;
		s.ca_file = path("ca", "crt");
		if (client_certs[i / 2].client) {
			c.cert_file = path(client_certs[i / 2].client, "crt");
			c.key_file = path(client_certs[i / 2].client, "key");
		}
		open_pair(&p, &s, &c, NULL);
		shake(&p);
		admitted = p.server_step == TLS_DONE && talks(&p);
		if (admitted != client_certs[i / 2].admitted || (admitted && tls_peer_has_cert(p.server) != client_certs[i / 2].seen))
			fail_msg("%s (%s): %s", client_certs[i / 2].what, versions[i % 2], p.server_err.text);
		if (!admitted && client_certs[i / 2].client)
			assert_non_null(strstr(p.server_err.text, "certificate verify failed"));
		else if (!admitted)
			assert_non_null(strstr(p.server_err.text, "peer did not return a certificate"));
		close_pair(&p);
	}
}

static const struct {
	const char *what;
	enum tls_verify verify;
	const char *ca, *host;
	const char *refusal; /* NULL: it connects */
} server_certs[] = {
	{"none takes all", TLS_VERIFY_NONE, NULL, "other.test", NULL},
	{"ca takes any host", TLS_VERIFY_CA, "ca", "other.test", NULL},
	{"ca needs no host", TLS_VERIFY_CA, "ca", NULL, NULL},
	{"ca refuses another CA", TLS_VERIFY_CA, "other_ca", "server.test", "certificate verify failed"},
	{"without a file the system's CAs count", TLS_VERIFY_CA, NULL, "server.test", "certificate verify failed"},
	{"full takes the host", TLS_VERIFY_FULL, "ca", "server.test", NULL},
	{"full takes the host in any case", TLS_VERIFY_FULL, "ca", "SERVER.test", NULL},
	{"full takes a wildcard", TLS_VERIFY_FULL, "ca", "a.wild.test", NULL},
	{"a wildcard is one label", TLS_VERIFY_FULL, "ca", "a.b.wild.test", "hostname mismatch"},
	{"full refuses another host", TLS_VERIFY_FULL, "ca", "other.test", "certificate verify failed (hostname mismatch)"},
	{"full takes an IPv4 address", TLS_VERIFY_FULL, "ca", "127.0.0.1", NULL},
	{"full takes an IPv6 address", TLS_VERIFY_FULL, "ca", "::1", NULL},
	{"full refuses another address", TLS_VERIFY_FULL, "ca", "127.0.0.2", "certificate verify failed (IP address mismatch)"},
	{"full refuses another CA", TLS_VERIFY_FULL, "other_ca", "server.test", "certificate verify failed"},
};

static void server_certificates_are_verified_as_the_mode_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof server_certs / sizeof *server_certs; i++) {
		struct tls_want s = server_want(), c = client_want();
		struct pair p;
		bool done;

		c.verify = server_certs[i].verify;
		c.ca_file = server_certs[i].ca ? path(server_certs[i].ca, "crt") : NULL;
		done = connects(&s, &c, server_certs[i].host, &p);
		if (done != !server_certs[i].refusal || (!done && !strstr(p.client_err.text, server_certs[i].refusal)))
			fail_msg("%s: %s", server_certs[i].what, p.client_err.text);
	}
}

static void the_server_learns_why_it_was_refused(void **state)
{
	struct tls_want s = server_want(), c = client_want();
	struct pair p;

	(void)state;
	c.verify = TLS_VERIFY_CA;
	c.ca_file = path("other_ca", "crt");
	assert_false(connects(&s, &c, NULL, &p));
	assert_non_null(strstr(p.server_err.text, "unknown ca"));
}

static void full_without_a_host_is_refused_before_it_begins(void **state)
{
	struct tls_want c = client_want();
	struct err err = {0};
	struct tls_setup *setup;

	(void)state;
	c.verify = TLS_VERIFY_FULL;
	c.ca_file = path("ca", "crt");
	setup = tls_setup_new(&c, &err);
	assert_non_null(setup);
	assert_null(tls_new(setup, 0, NULL, &err));
	assert_non_null(strstr(err.text, "no host name"));
	assert_null(tls_new(setup, 0, "", &err));
	tls_setup_drop(&setup);
}

static void the_names_of_a_client_are_its_cn_and_dns_entries(void **state)
{
	struct tls_want s = server_want(), c = client_want();
	struct pair p;

	(void)state;
	s.verify = TLS_VERIFY_CA;
	s.ca_file = path("ca", "crt");
	c.cert_file = path("client", "crt");
	c.key_file = path("client", "key");
	open_shaken(&p, &s, &c, NULL);
	assert_true(tls_peer_names(p.server, "bob"));
	assert_true(tls_peer_names(p.server, "bob.test"));
	assert_false(tls_peer_names(p.server, "Bob")); /* login names have case */
	assert_false(tls_peer_names(p.server, "bo"));
	assert_false(tls_peer_names(p.server, "bobb"));
	assert_false(tls_peer_names(p.server, ""));
	assert_false(tls_peer_names(p.server, "x.bob.test")); /* no wildcards for logins */
	assert_false(tls_peer_names(p.server, "mail@bob.test"));
	close_pair(&p);
	c = client_want();
	s.verify = TLS_VERIFY_NONE;
	open_shaken(&p, &s, &c, NULL);
	assert_false(tls_peer_names(p.server, "bob"));
	close_pair(&p);
}

/* ---- SNI, ALPN, end point ---- */

static void the_name_asked_for_is_noted_but_for_addresses(void **state)
{
	static const char *const versions[] = {"tlsv1.2", "tlsv1.3"};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct tls_want s = server_want(), c = client_want();
		struct pair p;

		s.protocols = versions[i];
		open_shaken(&p, &s, &c, "acme.db.test");
		assert_string_equal(tls_sni(p.server), "acme.db.test");
		close_pair(&p);
		open_shaken(&p, &s, &c, "127.0.0.1"); /* RFC 6066 chapter 3: no literal addresses */
		assert_null(tls_sni(p.server));
		close_pair(&p);
		open_shaken(&p, &s, &c, "fe80::1");
		assert_null(tls_sni(p.server));
		close_pair(&p);
		open_shaken(&p, &s, &c, NULL);
		assert_null(tls_sni(p.server));
		close_pair(&p);
	}
}

static void alpn_is_agreed_when_both_want_it(void **state)
{
	struct tls_want s = server_want(), c = client_want();
	struct pair p;

	(void)state;
	for (int i = 0; i < 4; i++) {
		s.alpn_postgresql = i & 1;
		c.alpn_postgresql = i & 2;
		open_shaken(&p, &s, &c, NULL);
		assert_int_equal(tls_alpn_is_postgresql(p.server), i == 3);
		assert_int_equal(tls_alpn_is_postgresql(p.client), i == 3);
		close_pair(&p);
	}
}

/* The handshake of an OpenSSL client of the test's own that offers these protocols, with our server. */
static enum tls_step meet_alpn(const uint8_t *offer, unsigned len, bool *agreed)
{
	struct tls_want s = server_want(), c = client_want();
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(context);
	struct pair p;
	enum tls_step step;

	s.alpn_postgresql = true;
	open_pair(&p, &s, &c, NULL);
	assert_int_equal(SSL_set_alpn_protos(ssl, offer, len), 0);
	SSL_set_fd(ssl, p.fd[1]);
	for (int turn = 0; turn < 10; turn++) {
		SSL_connect(ssl);
		if (turn == 0 || under_way(p.server_step))
			p.server_step = tls_handshake(p.server, &p.server_err);
	}
	step = p.server_step;
	*agreed = step == TLS_DONE && tls_alpn_is_postgresql(p.server);
	SSL_free(ssl);
	SSL_CTX_free(context);
	close_pair(&p);
	return step;
}

static void a_client_of_another_protocol_is_turned_away(void **state)
{
	bool agreed;

	(void)state;
	assert_int_equal(meet_alpn((const uint8_t *)"\x02h2\x08http/1.1", 12, &agreed), TLS_FAIL);
	assert_int_equal(meet_alpn((const uint8_t *)"\x0bpostgresql2", 12, &agreed), TLS_FAIL);
	assert_int_equal(meet_alpn((const uint8_t *)"\x02h2\x0apostgresql", 14, &agreed), TLS_DONE);
	assert_true(agreed);
}

/* Both sides' hash; expected is computed from the certificate file. */
static void end_point_is(const char *name, const EVP_MD *hash)
{
	struct tls_want s = server_want(), c = client_want();
	struct pair p;
	uint8_t server[64], client[64], want[64];
	unsigned len = 0;
	FILE *f = fopen(path(name, "crt"), "r");
	X509 *cert = PEM_read_X509(f, NULL, NULL, NULL);

	fclose(f);
	s.cert_file = path(name, "crt");
	s.key_file = path(name, "key");
	s.ciphers = c.ciphers = "ALL:@SECLEVEL=0"; /* for SHA-1 */
	open_shaken(&p, &s, &c, NULL);
	if (hash)
		assert_int_equal(X509_digest(cert, hash, want, &len), 1);
	assert_int_equal(tls_end_point(p.server, server), len);
	assert_int_equal(tls_end_point(p.client, client), len);
	if (len) {
		assert_memory_equal(server, want, len);
		assert_memory_equal(client, want, len);
	}
	close_pair(&p);
	X509_free(cert);
}

/* RFC 5929 chapter 4.1 */
static void the_end_point_is_the_same_on_both_sides(void **state)
{
	(void)state;
	end_point_is("server", EVP_sha256());
	end_point_is("sha384", EVP_sha384());
	end_point_is("sha1", EVP_sha256());
	end_point_is("ed25519", NULL);
}

/* ---- ends ---- */

static void garbage_instead_of_a_client_hello_fails(void **state)
{
	static const char *const garbage[] = {"GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01\xff\xff\x01zzzzzz", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00zz", "aaaaaaaaaaaaaaaaaaaaaaaa"};

	(void)state;
	for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
		struct tls_want s = server_want(), c = client_want();
		struct pair p;
		size_t n, len = i == 2 ? 12 : strlen(garbage[i]);
		char byte;

		open_pair(&p, &s, &c, NULL);
		assert_int_equal(send(p.fd[1], garbage[i], len, 0), len);
		shutdown(p.fd[1], SHUT_WR);
		assert_int_equal(tls_handshake(p.server, &p.server_err), TLS_FAIL);
		assert_string_not_equal(p.server_err.text, "");
		/* And it stays failed. */
		assert_int_equal(tls_handshake(p.server, &p.server_err), TLS_FAIL);
		assert_int_equal(tls_read(p.server, &byte, 1, &n, &p.server_err), TLS_FAIL);
		assert_int_equal(tls_write(p.server, &byte, 1, &n, &p.server_err), TLS_FAIL);
		close_pair(&p);
	}
}

static void an_end_within_the_handshake_is_a_failure(void **state)
{
	struct tls_want s = server_want(), c = client_want();
	struct pair p;

	(void)state;
	open_pair(&p, &s, &c, NULL);
	assert_int_equal(tls_handshake(p.server, &p.server_err), TLS_READ);
	assert_int_equal(tls_handshake(p.client, &p.client_err), TLS_READ);
	shutdown(p.fd[1], SHUT_WR); /* after its hello */
	assert_int_equal(tls_handshake(p.server, &p.server_err), TLS_FAIL);
	assert_non_null(strstr(p.server_err.text, "unexpected eof while reading"));
	close_pair(&p);
}

static void close_notify_and_a_bare_end_are_both_an_end(void **state)
{
	struct tls_want s = server_want(), c = client_want();
	struct pair p;
	char text[8];
	size_t n;

	(void)state;
	for (int bare = 0; bare < 2; bare++) {
		open_shaken(&p, &s, &c, NULL);
		assert_int_equal(tls_write(p.client, "last", 4, &n, NULL), TLS_DONE);
		if (bare) {
			shutdown(p.fd[1], SHUT_RDWR);
		} else {
			tls_free(&p.client);
			/* The socket is still open: it is the alert that ends it. */
		}
		assert_int_equal(tls_read(p.server, text, sizeof text, &n, &p.server_err), TLS_DONE);
		assert_int_equal(n, 4);
		assert_int_equal(tls_read(p.server, text, sizeof text, &n, &p.server_err), TLS_EOF);
		assert_int_equal(n, 0);
		assert_int_equal(tls_read(p.server, text, sizeof text, &n, &p.server_err), TLS_EOF);
		assert_string_equal(p.server_err.text, "");
		close_pair(&p);
	}
}

static void a_write_to_a_dead_socket_says_what_the_system_says(void **state)
{
	struct tls_want s = server_want(), c = client_want();
	struct pair p;
	size_t n;

	(void)state;
	open_shaken(&p, &s, &c, NULL);
	close(p.fd[1]);
	p.fd[1] = -1;
	assert_int_equal(tls_write(p.server, "x", 1, &n, &p.server_err), TLS_FAIL);
	assert_non_null(strstr(p.server_err.text, "Broken pipe"));
	assert_int_equal(n, 0);
	close_pair(&p);
}

static void a_record_that_was_tampered_with_fails(void **state)
{
	struct tls_want s = server_want(), c = client_want();
	struct pair p;
	uint8_t record[100], byte;
	ssize_t len;
	size_t n;

	(void)state;
	open_shaken(&p, &s, &c, NULL);
	assert_int_equal(tls_write(p.client, "x", 1, &n, NULL), TLS_DONE);
	len = recv(p.fd[0], record, sizeof record, 0);
	assert_true(len > 5);
	record[len - 1] ^= 1;
	assert_int_equal(send(p.fd[1], record, (size_t)len, 0), len);
	assert_int_equal(tls_read(p.server, &byte, 1, &n, &p.server_err), TLS_FAIL);
	assert_non_null(strstr(p.server_err.text, "bad record mac"));
	close_pair(&p);
}

/* ---- the digest of a want ---- */

static void write_file(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	fputs(text, f);
	fclose(f);
}

static void a_digest_sees_every_option_and_the_files_contents(void **state)
{
	struct tls_want base = server_want(), w;
	uint64_t first;
	const char *file = path("changing", "pem");

	(void)state;
	base.ca_file = file;
	write_file(file, "one");
	first = tls_want_digest(&base);
	assert_true(tls_want_digest(&base) == first);
#define DIFFERS(field, value) (w = base, w.field = (value), assert_true(tls_want_digest(&w) != first))
	DIFFERS(side, TLS_CONNECT);
	DIFFERS(verify, TLS_VERIFY_CA);
	DIFFERS(cert_file, path("client", "crt"));
	DIFFERS(key_file, NULL);
	DIFFERS(protocols, "all");
	DIFFERS(ciphers, "all");
	DIFFERS(tls13_ciphers, "all");
	DIFFERS(ecdhcurve, "all");
	DIFFERS(dheparams, "all");
	DIFFERS(alpn_postgresql, true);
#undef DIFFERS
	w = base;
	w.ciphers = "";
	assert_true(tls_want_digest(&w) == first); /* not set, as NULL */
	write_file(file, "two");
	assert_true(tls_want_digest(&base) != first);
	write_file(file, "one");
	assert_true(tls_want_digest(&base) == first);
	unlink(file);
	assert_true(tls_want_digest(&base) != first);
	write_file(file, "");
	assert_true(tls_want_digest(&base) != first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_sides_meet_in_tls_1_3_by_default),
		cmocka_unit_test(much_passes_in_pieces_as_the_socket_takes_it),
		cmocka_unit_test(pending_tells_what_no_edge_will),
		cmocka_unit_test(no_ticket_is_sent),
		cmocka_unit_test(protocols_bound_the_version),
		cmocka_unit_test(tls_1_1_is_refused_by_default),
		cmocka_unit_test(ciphers_are_chosen_by_the_settings),
		cmocka_unit_test(curves_and_dh_are_chosen_by_the_settings),
		cmocka_unit_test(wrong_values_are_named),
		cmocka_unit_test(missing_files_are_told_in_the_systems_words),
		cmocka_unit_test(files_that_do_not_fit_are_refused),
		cmocka_unit_test(a_key_with_a_passphrase_is_refused_and_nobody_is_asked),
		cmocka_unit_test(client_certificates_are_verified_as_the_mode_says),
		cmocka_unit_test(server_certificates_are_verified_as_the_mode_says),
		cmocka_unit_test(the_server_learns_why_it_was_refused),
		cmocka_unit_test(full_without_a_host_is_refused_before_it_begins),
		cmocka_unit_test(the_names_of_a_client_are_its_cn_and_dns_entries),
		cmocka_unit_test(the_name_asked_for_is_noted_but_for_addresses),
		cmocka_unit_test(alpn_is_agreed_when_both_want_it),
		cmocka_unit_test(a_client_of_another_protocol_is_turned_away),
		cmocka_unit_test(the_end_point_is_the_same_on_both_sides),
		cmocka_unit_test(garbage_instead_of_a_client_hello_fails),
		cmocka_unit_test(an_end_within_the_handshake_is_a_failure),
		cmocka_unit_test(close_notify_and_a_bare_end_are_both_an_end),
		cmocka_unit_test(a_write_to_a_dead_socket_says_what_the_system_says),
		cmocka_unit_test(a_record_that_was_tampered_with_fails),
		cmocka_unit_test(a_digest_sees_every_option_and_the_files_contents),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
