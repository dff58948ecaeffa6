/* Hot orgs: three measures per org over four windows, each set against the median of the orgs that were active in that window.
 *
 *   queries   per minute
 *   slots     in use: slot time over the window, not a sample
 *   storage   bytes, as last reported; a level, and the same in every window
 *
 * A measure's severity is WARN above 3 times the median and CRITICAL above 10; it goes up at once and comes down below 0.8 of its threshold.
 * The median has a floor, or a median of 0 would make everybody hot. The median is the lower one of two (a value that an org has): when half
 * of the orgs are hot it is one of the others. An org is hot when at least two measures of the last minute are WARN or worse; one alone may
 * be a batch job.
 *
 * Windows are made of buckets in three rings (10 s, 30 min, 12 h), which only orgs that had traffic have: 1.6 KiB each. The time at hand,
 * which grows, and the buckets of the window before it make a window, so it is up to a bucket longer than its name says, and what happened is
 * divided by what it covers. What was before the first bucket of all is no time of quiet: a young process divides by its age, but not
 * by less than a minute.
 *
 * Pure: time (since 1970, and never going back) is the caller's. One thread. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/num.h"
#include "conf/conf.h"

enum heat_measure { HEAT_QUERIES, HEAT_SLOTS, HEAT_STORAGE, HEAT_MEASURES };
enum heat_severity { HEAT_OK, HEAT_WARN, HEAT_CRITICAL };
enum heat_window { HEAT_1M, HEAT_5M, HEAT_24H, HEAT_30D, HEAT_WINDOWS };

const char *heat_measure_name(enum heat_measure m);   /* queries, slots, storage */
const char *heat_severity_name(enum heat_severity s); /* OK, WARN, CRITICAL */
const char *heat_window_name(enum heat_window w);     /* 1m, 5m, 24h, 30d */
bool heat_window_find(const char *name, enum heat_window *out);

struct heat_org {
	struct hash_link link;
	char id[ORG_ID_MOST + 1];
	int place;                  /* in heat->all */
	struct heat_ring *rings;    /* owns: HEAT_RINGS; NULL: had no traffic */
	struct heat_store *stores;  /* owns: bytes by cluster */
	usec_t active_at;           /* had traffic last; 0: never */

	/* as of the last judgement */
	double rate[HEAT_WINDOWS][HEAT_STORAGE]; /* queries and slots */
	double storage;             /* -1: not known */
	uint8_t severity[HEAT_WINDOWS][HEAT_MEASURES];
	bool hot;
	usec_t since;               /* when hot was decided last; 0: not yet */
};

struct heat {
	struct hash by_id;
	struct heat_org **all;      /* owns the array: the same orgs, in no order */
	size_t n, room;
	usec_t began;               /* nothing is known of the time before; 0: nothing was noted yet */
	double p50[HEAT_WINDOWS][HEAT_MEASURES];
	double floors[HEAT_MEASURES];
	char **clusters;            /* owns: those that reported storage */
	unsigned *reports;          /* owns: how many times each did */
	int n_clusters;

	/* a judgement under way */
	double *values[HEAT_WINDOWS][HEAT_MEASURES]; /* owns */
	size_t n_values[HEAT_WINDOWS][HEAT_MEASURES];
	size_t n_judged; /* the first ones of all: who comes meanwhile is judged the next time */
	size_t at;
};

void heat_free(struct heat *h);
struct heat_org *heat_find(const struct heat *h, const char *id); /* NULL: not known */

/* What an org did up to now, since it was noted last. */
void heat_note(struct heat *h, const char *id, usec_t now, uint64_t queries, usec_t slot_time);

/* A judgement, in slices: begin; measure until it says that it is through; weigh (the medians); decide until it is through. Meanwhile nothing
 * is forgotten. Floors by measure. changed: an org became hot, or is not any more. */
void heat_judge_begin(struct heat *h, const double floors[HEAT_MEASURES]);
bool heat_measure_some(struct heat *h, usec_t now, size_t most);
void heat_weigh(struct heat *h);
bool heat_decide_some(struct heat *h, usec_t now, size_t most, void (*changed)(const struct heat *h, const struct heat_org *o));

/* As of the last judgement. */
bool heat_is_active(const struct heat_org *o, enum heat_window w);
double heat_value(const struct heat_org *o, enum heat_window w, enum heat_measure m); /* -1: not known */
double heat_ratio(const struct heat *h, const struct heat_org *o, enum heat_window w, enum heat_measure m);
enum heat_severity heat_next(enum heat_severity before, double ratio);

/* A report of a cluster: begin, a line for each org (several of one org are summed), end: what it does not name is not stored there any more. */
int heat_report_begin(struct heat *h, const char *cluster);
void heat_report(struct heat *h, int report, const char *id, double bytes);
void heat_report_end(struct heat *h, int report);

/* Forgets orgs of which all windows are empty, and beyond `most` those that were quiet for longest. */
void heat_forget(struct heat *h, usec_t now, int most);

/* The windows as text, line by line, and back (see heat_file.c). Saving: orgs from *at on, so many at most; false: that was all. */
void heat_save_head(const struct heat *h, usec_t now, struct buf *out);
bool heat_save_some(const struct heat *h, size_t *at, size_t most, struct buf *out);
void heat_save_end(size_t n, struct buf *out); /* n: how many orgs were saved */
/* Into an empty heat. False and why: it is not such a text, whole and sound; the heat is empty then. */
bool heat_load(struct heat *h, usec_t now, const char *text, size_t len, const char **why);
