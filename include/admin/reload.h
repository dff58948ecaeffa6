/* A new configuration, whole or not at all: SIGHUP, RELOAD and SET. All in control's loop. */
#pragma once

#include "base/err.h"
#include "proxy/worker.h"

typedef void (*reload_done_fn)(void *arg, const struct err *err); /* err NULL: it is in force in every loop */

/* Reads the file (and the files it names), logs every error and warning by file and line, builds TLS, and hands the new setup to all loops.
 * Settings that change only at start keep their value; a warning names those that differ. One at a time: a second call
 * while one is under way is answered with an error. done may be NULL (SIGHUP). */
void reload_start(reload_done_fn done, void *arg);
/* The same for one changed setting. */
void reload_set(const char *name, const char *value, reload_done_fn done, void *arg);
/* At start: loads file and builds the first setup; errors go to the log. NULL: do not start. */
struct setup *reload_first(const char *path, bool quiet, int verbose); /* quiet, verbose: from the command line; they hold over reloads */
/* What a setup says about process-wide things: log, DNS, ceilings of clusters. At start and after each reload. */
void reload_apply(const struct setup *setup);
