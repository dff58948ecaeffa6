/* Numbers, durations and sizes as people write them. Whole input or nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int64_t usec_t; /* microseconds */
#define USEC_PER_MSEC ((usec_t)1000)
#define USEC_PER_SEC ((usec_t)1000000)

bool num_i64(const char *text, int64_t *out);   /* decimal, 0x hexadecimal or 0 octal, as PgBouncer reads them */
bool num_octal(const char *text, int64_t *out);
bool num_usec(const char *text, usec_t *out);   /* "1.5" is seconds; units us ms s min h d; never negative */
bool num_bytes(const char *text, int64_t *out); /* units B kB MB GB (1024) */
bool num_bool(const char *text, bool *out);     /* 1/0 on/off yes/no true/false, any case */
/* Writes v in decimal, no NUL; returns the length, at most 20. */
size_t num_write(char *out, uint64_t v);
