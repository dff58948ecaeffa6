/* Hot orgs (tenant/heat): every hot_period what orgs did is collected and judged; a verdict that changes is logged as a warning. It is never
 * more than a warning: moving an org is a person's decision. The windows outlive a restart in state_dir; what orgs store is asked of
 * the clusters at a slow pace (hot_storage_query). In control's loop. */
#pragma once

#include "tenant/heat.h"

void hot_start(void);
void hot_stop(void); /* with the loop stopped: saves the windows */
/* As of the last verdict. */
const struct heat *hot_heat(void);
const char *hot_verdict(const struct heat_org *o); /* "hot" or "ok"; NULL: not judged yet */
