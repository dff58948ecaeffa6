/* Which of a cluster's hosts may be served as its primary, after all of them were asked. Pure.
 *
 * A host that says it is the primary may be one that was left behind: its twin was promoted, or it was started from an old copy. PostgreSQL
 * gives each promotion a timeline of its own, above all before it, so the highest is right, and the others get nothing. Where the
 * timelines cannot tell (two hosts on the same one; one that is below or beside what was served last), or the data is another
 * system's altogether, no host may be served: a write to the wrong one would be lost. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum role { ROLE_UNKNOWN, ROLE_PRIMARY, ROLE_REPLICA };

/* What a probe saw of a host. */
struct sighting {
	bool up;            /* it answered in time, and not with "not now" */
	enum role role;     /* UNKNOWN: it was not asked, or did not say */
	uint64_t system_id; /* 0: as above, and then the next two are 0 as well */
	uint32_t timeline;
	uint64_t position;  /* in the WAL: a primary's end, how far a replica has replayed */
	struct err err;     /* why it is not up, or does not say; "" */
};

/* What is known from before. */
struct primary_known {
	uint64_t system_id; /* of the primary that was served last; 0: none, or not known */
	uint32_t timeline;
	int last;           /* which host that was; -1: none of these */
	int trusted;        /* a host that is served now: it need not say again what it is; -1: none */
};

enum primary_choice {
	PRIMARY_FOUND,
	PRIMARY_NONE,     /* no host says that it is one */
	PRIMARY_CONFLICT, /* there are such, but none may be served */
};

/* names: what to call the hosts in why->text, which says why nobody was found. */
enum primary_choice primary_choose(const struct sighting *seen, const char *const *names, int n, const struct primary_known *known, int *host, struct err *why);
