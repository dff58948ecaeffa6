/* Memory. Small fixed objects come from mem_new, which cannot fail: it aborts.
 * What a peer can make large is bounded by a setting and goes through mem_try.
 * Any thread. */
#pragma once

#include <stddef.h>

void *mem_new(size_t size);                          /* zeroed */
void *mem_grow(void *old, size_t size);              /* realloc that aborts; the new part is not zeroed */
void *mem_try(size_t size) __attribute__((malloc));  /* NULL when there is none; not zeroed */
char *mem_str(const char *text);                     /* copy; NULL stays NULL */
char *mem_strn(const void *bytes, size_t len);       /* copy with a NUL behind it */
void mem_free(void *p);

#define mem_make(type) ((type *)mem_new(sizeof(type)))
#define owner_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
