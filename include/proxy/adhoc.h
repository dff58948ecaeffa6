/* SCRAM verifiers made from plain passwords, kept per thread: PBKDF2 takes milliseconds, and a salt that changed with
 * each login would tell known users from unknown ones, whose mock salt does not change. */
#pragma once

#include "auth/scram.h"

/* Borrowed until the next call in this thread. NULL: none can be made. */
const struct scram_verifier *adhoc_verifier(const char *user, const struct secret *plain, int iterations);
