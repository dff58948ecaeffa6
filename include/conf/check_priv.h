/* What a setting's value must be beyond its kind. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/verify.h"

MUST_CHECK bool check_setting(const char *name, const char *value, struct err *err);
/* The part of a value that is known but not built yet ("sni" of org_sources); NULL: none. */
const char *check_unbuilt_part(const char *name, const char *value);
/* May auth_query run there? The console's own names are not databases. */
MUST_CHECK bool check_auth_dbname(const char *value, struct err *err);
bool check_is_console(const char *dbname);
