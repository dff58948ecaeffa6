/* A board: figures by name, of orgs or of entries, added up from what pools tell (pool/usage). The busiest lines have metrics of their own, the
 * others one line together, "other", so that ten thousand orgs make no ten thousand series. Which ones are named changes; every
 * count goes to exactly one series, the one that its line has at that moment, so no series ever goes back, and the sum of all is
 * right. A line that loses its name keeps what its series had, and goes on from there when it is named again.
 *
 * Pure; control's thread. */
#pragma once

#include "base/hash.h"
#include "pool/usage.h"

#define BOARD_REST "other" /* a line of this name is never named */

/* In the order of figures.def. */
enum now {
#define NOW_FIGURE(name, kind, unit, help) NOW_##name,
#include "admin/figures.def"
	NOWS,
};
enum org_count {
#define ORG_FIGURE(name, kind, unit, help) ORG_##name,
#include "admin/figures.def"
	ORG_COUNTS,
};

struct sums {
	uint64_t n[TOTALS];
	uint64_t of_org[ORG_COUNTS]; /* of orgs only */
	uint64_t waits[HIST_SLOTS];
};

struct board_line {
	struct hash_link link;
	char *name;        /* owns */
	int64_t now[NOWS];
	double busy;       /* seconds of slots and of queries, fading */
	bool named;
	struct sums *told; /* owns: what its series has; NULL: it was never named */
};

struct board {
	struct hash lines;
	struct sums rest;  /* the series of all that are not named */
	int n_named, most_named;
	usec_t now, ranked_at;
};

/* A round: begin, any number of adds, end. most_named: how many may have a name; keep: how many lines stay in memory, if they are quiet. */
void board_begin(struct board *b, usec_t now, int most_named);
void board_add(struct board *b, const char *name, const struct usage *u);
void board_count(struct board *b, const char *name, enum org_count which, uint64_t n);
void board_end(struct board *b, int keep);
void board_free(struct board *b);

/* A copy for metrics, that no later round changes: the named lines by name, then BOARD_REST. */
struct sheet_line {
	char *name; /* owns */
	int64_t now[NOWS];
	struct sums sums;
};
struct sheet {
	struct sheet_line *lines; /* owns */
	int n;
};
void board_sheet(const struct board *b, struct sheet *out);
void sheet_free(struct sheet *s);
