/* pgweir.mode: the state of a client's cluster, declared by ParameterStatus. It is said at login to a cluster with a breaker, and before the
 * first answer after it changed. Only where nothing is owed to the client: a message of the server's may be half way through otherwise. */
#pragma once

#include "proxy/client.h"

void mode_greet(struct client *c, struct buf *out);
void mode_say(struct client *c, enum cluster_state now);

/* Of the client's own place, not of a fallback that serves it. */
static inline word_t mode_word(const struct client *c)
{
	const struct pool *own = c->fallen_from ? c->fallen_from : c->pool;
	return atomic_load_explicit(&own->lane->cluster->word, memory_order_relaxed);
}

/* Inline: it runs for every transaction. */
static inline void mode_tell(struct client *c)
{
	enum cluster_state now = word_state(mode_word(c));

	if (__builtin_expect(now != c->mode_told, 0))
		mode_say(c, now);
}
