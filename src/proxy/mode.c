/* See proxy/mode.h. */
#include "proxy/mode.h"

#include "proxy/parcel.h"
#include "proxy/worker.h"
#include "wire/writer.h"

#define MODE_PARAMETER "pgweir.mode"

void mode_greet(struct client *c, struct buf *out)
{
	word_t word = mode_word(c);

	c->mode_told = (uint8_t)word_state(word);
	if (word_is_guarded(word))
		msg_parameter(out, MODE_PARAMETER, cluster_state_name(word_state(word)));
}

void mode_say(struct client *c, enum cluster_state now)
{
	c->mode_told = (uint8_t)now;
	msg_parameter(parcel_made(c->worker->to_client), MODE_PARAMETER, cluster_state_name(now));
}
