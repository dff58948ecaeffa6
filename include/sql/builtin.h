/* The built-in functions: what a call of each does. One row each in builtins.def. Pure. */
#pragma once

#include <stddef.h>

enum builtin {
	BUILTIN_NONE,    /* not in the table: may do anything */
	BUILTIN_READ,
	BUILTIN_WRITE,
	BUILTIN_XID,     /* a write that calls itself STABLE: planning alone may run it */
	BUILTIN_SETTING, /* set_config: depends on which setting */
};

enum builtin builtin_find(const char *name, size_t len); /* in lower case */
