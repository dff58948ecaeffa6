/* Assertions about our own mistakes. Always compiled in: a pooler that has lost
 * track of who owns a connection must stop, not guess. What a peer sends is never
 * an assertion; it is a close reason. */
#pragma once

/* Prints the claim and where it was made to stderr, then aborts. */
_Noreturn void verify_failed(const char *claim, const char *file, int line, const char *function);

#define verify(claim) \
	((__builtin_expect(!!(claim), 1)) ? (void)0 : verify_failed(#claim, __FILE__, __LINE__, __func__))

/* The branch that cannot be reached. */
#define never(text) verify_failed(text, __FILE__, __LINE__, __func__)

/* Functions that stay out of their callers, so that those need no registers and no stack for them: what hardly ever runs, and what does. */
#define SELDOM __attribute__((noinline, cold))
#define APART __attribute__((noinline))

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
