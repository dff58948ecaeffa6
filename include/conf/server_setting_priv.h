/* Which keys of a [databases] line are settings of the server's session? */
#pragma once

#include <stdbool.h>

#include "conf/near_priv.h"

bool server_setting_is(const char *name); /* a name of the table, or a custom one with a dot in it */
void server_settings_offer(struct near *near);
