/* The process among others: account, background, pidfile, file limit. All before any thread. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Becomes the account (name may be NULL or ""). Fails as root with no account to become. */
bool daemon_become(const char *user, struct err *err);
/* Into the background; the parent waits until daemon_started (exit 0) or the child's end (exit 1). */
bool daemon_detach(struct err *err);
void daemon_started(void);
/* A stale pidfile is replaced, a running process's refuses. "": none. */
bool pidfile_write(const char *path, struct err *err);
void pidfile_remove(void);
/* As many descriptors as the system allows; logs how many. */
void daemon_raise_files(void);
