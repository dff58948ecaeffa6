/* A file that is there as a whole or not at all: written beside its name, then renamed into its place. In pieces, so that a large one
 * holds up nobody. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct atomic_file;

/* SYNCED: on the disk before it has its name, and the name too: for what must not be lost, and takes its time. WRITTEN: a crash of the
 * machine (not of the process) may leave the old one, or one cut short. */
enum atomic_how { ATOMIC_WRITTEN, ATOMIC_SYNCED };

struct atomic_file *atomic_file_begin(const char *folder, const char *name, struct err *err); /* NULL: err says why */
/* The first failure is remembered, and told at the end. */
void atomic_file_add(struct atomic_file *f, const void *bytes, size_t len);
bool atomic_file_end(struct atomic_file **f, enum atomic_how how, struct err *err);
void atomic_file_abandon(struct atomic_file **f); /* the old one stays */

/* All of a file of at most so many bytes. False: err says why; *missing if there is none. */
bool atomic_file_read(const char *folder, const char *name, size_t most, struct buf *out, bool *missing, struct err *err);
