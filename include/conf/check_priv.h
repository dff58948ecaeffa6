/* What a setting's value must be beyond its kind. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/verify.h"

MUST_CHECK bool check_setting(const char *name, const char *value, struct err *err);
/* May auth_query run there? The console's own names are not databases. */
MUST_CHECK bool check_auth_dbname(const char *value, struct err *err);
bool check_is_console(const char *dbname);
