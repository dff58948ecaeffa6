/* The names of a cluster's states. */
#include "cluster/word.h"

#include <string.h>

static const char *const names[CLUSTER_STATES] = {
	[CLUSTER_PRIMARY] = "primary",
	[CLUSTER_DEGRADED] = "degraded",
	[CLUSTER_RECOVERING] = "recovering",
};

const char *cluster_state_name(enum cluster_state s)
{
	verify(s >= 0 && s < CLUSTER_STATES);
	return names[s];
}

bool cluster_state_find(const char *name, enum cluster_state *out)
{
	for (int i = 0; i < CLUSTER_STATES; i++)
		if (strcmp(names[i], name) == 0) {
			*out = (enum cluster_state)i;
			return true;
		}
	return false;
}
