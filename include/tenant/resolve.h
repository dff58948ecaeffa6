/* Which org a client speaks for, from what it said at login (and later at a switch). One row per source. Pure. */
#pragma once

#include "base/err.h"
#include "conf/conf.h"
#include "wire/startup.h"

/* What the sources look at; NULL: not there. */
struct claims {
	const struct startup *startup;
	const char *application_name; /* from the startup packet or its options */
	const char *options;          /* the options parameter */
	const char *user;
	const char *user_suffix;      /* what stood behind the last point of the name that the client gave, where that is not a user as a whole */
	const char *sni;              /* the server name of TLS */
	char **cert_names;            /* of the client's certificate, proven by TLS: the common name first */
	int n_cert_names;
};

struct verdict_org {
	char id[ORG_ID_MOST + 1]; /* "default" when nobody said anything */
	bool said;                /* a source gave it (or a binding did) */
};

/* Sources in the order of org_sources; two that differ, an illegal id, a broken binding, org_required and org_unknown=reject
 * refuse with 28000. A user bound to exactly one org gets it without saying so. */
bool org_resolve(const struct conf *c, const struct claims *cl, struct verdict_org *out, struct err *err);
/* The checks alone (binding, org_unknown), for a switch: `id` is what is claimed. */
bool org_admit(const struct conf *c, const char *user, const char *id, struct err *err);
/* Is this startup parameter (or -c setting) ours, an org's name, not to be passed to the server? x-org-id org_id pgweir.org, without case. */
bool org_is_parameter(const char *name);
/* org_pattern, a POSIX extended regular expression with one group, applied to text; compiled once per pattern and kept. */
bool org_from_pattern(const char *pattern, const char *text, char out[ORG_ID_MOST + 1], bool *illegal);
