/* The page that /metrics serves: Prometheus's text format, version 0.0.4, of all figures (admin/figures.def, pool/pool.h). Made on demand, in slices,
 * from a round of admin/collect; one that is younger than a second serves again. Control's thread. */
#pragma once

#include "base/buf.h"
#include "base/num.h"

struct page {
	int refs;
	struct buf text; /* owns */
	usec_t made_at;
};

typedef void (*page_done_fn)(void *arg, struct page *p); /* p: borrowed, whoever keeps it says page_ref; NULL: the process ends */
void metrics_page(page_done_fn done, void *arg); /* done is called once, now or later */
#define METRICS_WAITING_MOST 256
int metrics_waiting(void); /* how many wait for a page: no more than these may */
struct page *page_ref(struct page *p);
void page_drop(struct page **p);
void metrics_stop(void);

/* Pure parts, for tests. */
/* pgweir_org + xact_us -> pgweir_org_xact_seconds_total; what is in front of a name must not end in _ */
void metric_name(struct buf *out, const char *scope, const char *name, int kind, int unit);
void metric_value(struct buf *out, int64_t v, int unit);
/* A label's value with quotes: escaped, and UTF-8 whatever the bytes are (\xNN for what is none), since one bad label would spoil the page. */
void metric_label(struct buf *out, const char *text);
