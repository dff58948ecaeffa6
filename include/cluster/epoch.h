/* What must outlive the process of each cluster: its epoch, which never goes back, its state and an operator's fence, and which primary was
 * served last. Kept in `state_dir`, in two files that are written in turn:
 *
 *   epochs.0   epochs.1     text, a line per cluster, a generation, and a SHA-256 over all of it
 *
 * Each write makes the older of the two anew, by a file beside it that is synced and renamed: a crash leaves both whole. A file that is
 * broken or gone all the same (a bad disk, a hand) may have been the newer one. Its generation was one ahead at
 * most, and so was each of its epochs; so all epochs are then taken to be one further than the file that is left says,
 * and all clusters come up fenced, until an operator who knows better says UNFENCE. With both gone there is nothing to reckon from,
 * and the process does not start. No clock is asked. Control only. */
#pragma once

#include "base/err.h"
#include "base/verify.h"
#include "cluster/word.h"

#define EPOCH_CLUSTER_MOST 64
#define EPOCH_HOST_MOST 300

struct epoch_row {
	char cluster[EPOCH_CLUSTER_MOST + 1];
	uint64_t epoch;
	enum cluster_state state;
	bool fenced;                    /* by an operator */
	uint64_t system_id;             /* of the primary served last; 0: not known */
	uint32_t timeline;              /* its timeline; 0: not known */
	char host[EPOCH_HOST_MOST + 1]; /* where it was; "" not known */
};

struct epoch_book;

/* Reads what is there, and writes it again, so that a folder that cannot be written to is found now and not at the first cutover. One process at a
 * time. folder "": nothing is kept, nothing was. NULL and err: do not start. */
struct epoch_book *epoch_book_open(const char *folder, struct err *err) MUST_CHECK;
void epoch_book_close(struct epoch_book **b);
bool epoch_book_is_kept(const struct epoch_book *b); /* is there a folder? */
const char *epoch_book_warning(const struct epoch_book *b); /* what was lost and what was done about it; NULL: all was whole */

/* What is known of a cluster; of one that was never kept what it begins with. */
struct epoch_row epoch_of(const struct epoch_book *b, const char *cluster);
/* Returns when it is on the disk. False: it may or may not be, and the book says what it said before. */
bool epoch_keep(struct epoch_book *b, const struct epoch_row *row, struct err *err) MUST_CHECK;
