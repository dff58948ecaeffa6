/* Filling in what went wrong. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

bool err_set(struct err *err, const char *sqlstate, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return false;
	snprintf(err->sqlstate, sizeof(err->sqlstate), "%s", sqlstate ? sqlstate : "XX000");
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	err->hint[0] = 0;
	return false;
}

void err_hint(struct err *err, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return;
	va_start(ap, fmt);
	vsnprintf(err->hint, sizeof(err->hint), fmt, ap);
	va_end(ap);
}
