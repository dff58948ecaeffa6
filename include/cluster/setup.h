/* What a reload replaces as one: the configuration's snapshot and what was built from its files. Immutable, counted. Each loop
 * holds one; control makes a new one whole and hands it to every loop by gather, which adopts it at its edge. */
#pragma once

#include <stdatomic.h>

#include "conf/conf.h"
#include "net/tls.h"

#define GUC_MOST 32

struct setup {
	atomic_int refs;
	struct conf *conf;              /* ref */
	struct tls_setup *client_tls;   /* ref; NULL: client_tls_sslmode=disable */
	struct tls_setup *server_tls;   /* ref; NULL: server_tls_sslmode=disable */
	uint64_t client_tls_digest;     /* settings, files and sslmode; 0: disable */
	uint64_t server_tls_digest;     /* servers opened under another one are closed when they come free */
	bool org_by_comment, org_by_name; /* org_sources has comment, application_name */
	int name_guc;                   /* the place of application_name among the tracked ones */
	int n_gucs;                     /* tracked parameters, by name, in a fixed order for the life of the process */
	const char *guc_names[GUC_MOST]; /* owns those of track_extra_parameters */
};

/* Builds TLS from the files; NULL and err when that fails. Takes over `conf` in either case. Keeps `old`'s TLS where nothing changed. */
struct setup *setup_new(struct conf *conf, const struct setup *old, struct err *err);
struct setup *setup_ref(struct setup *s);
void setup_drop(struct setup **s);
int setup_guc(const struct setup *s, const char *name, size_t len); /* index of a tracked parameter, without case; -1 */
