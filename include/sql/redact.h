/* SQL for the log: every string, number and parameter constant becomes ?, cut at the room there is. */
#pragma once

#include <stddef.h>

#include "base/buf.h"

void redact_sql(struct span sql, char *out, size_t room);
