/* The end of a process that has found its own mistake: the claim goes to stderr,
 * and to the log file and syslog where there are any, for a daemon has no stderr.
 * Nothing here allocates, since it may be the allocator that failed. */
#include "base/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log_priv.h"

_Noreturn void verify_failed(const char *claim, const char *file, int line, const char *function)
{
	char text[512];
	ssize_t ignored;

	snprintf(text, sizeof(text), "BUG in %s (%s:%d): %s\n", function, file, line, claim);
	ignored = write(STDERR_FILENO, text, strlen(text));
	(void)ignored;
	log_last_words(text);
	abort();
}
