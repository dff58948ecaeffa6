/* A password, verifier or key. It has no printf form and is overwritten when freed;
 * whoever needs the bytes says secret_span and answers for them. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

struct secret {
	struct buf hidden_; /* owns */
};

void secret_set(struct secret *s, const void *bytes, size_t len); /* copies */
void secret_copy(struct secret *to, const struct secret *from);
void secret_free(struct secret *s); /* wipes; s is unset after it */
static inline bool secret_is_set(const struct secret *s) { return s->hidden_.p != NULL; }
static inline struct span secret_span(const struct secret *s) { return buf_span(&s->hidden_); }
/* The bytes as a C string: a NUL always stands behind them. "" when unset. */
const char *secret_text(const struct secret *s);
/* Compares in time that depends on the lengths only. */
bool bytes_same_secretly(const void *a, const void *b, size_t len);
