/* Memory: thin wraps of malloc that end the process instead of returning NULL,
 * so that no caller of mem_new carries a branch that is never tested. */
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/verify.h"

static void *given(void *p)
{
	if (!p)
		never("out of memory");
	return p;
}

void *mem_new(size_t size)
{
	return given(calloc(1, size ? size : 1));
}

void *mem_grow(void *old, size_t size)
{
	return given(realloc(old, size ? size : 1));
}

void *mem_try(size_t size)
{
	return malloc(size ? size : 1);
}

char *mem_str(const char *text)
{
	return text ? mem_strn(text, strlen(text)) : NULL;
}

char *mem_strn(const void *bytes, size_t len)
{
	char *copy;

	verify(len < SIZE_MAX);
	copy = given(malloc(len + 1));
	if (len)
		memcpy(copy, bytes, len);
	copy[len] = '\0';
	return copy;
}

void mem_free(void *p)
{
	free(p);
}
