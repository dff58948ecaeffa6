/* Mail: the one way to make another thread do something. The sender gives the mail away;
 * the receiver's thread runs read(), which owns it from then on. In order per sender. A loop that
 * has stopped still takes mail; loop_free runs what is left over. */
#pragma once

#include "loop/loop.h"

struct mail {
	struct mail *next;
	void (*read)(struct loop *here, struct mail *m);
};

void mail_send(struct loop *to, struct mail *m); /* any thread, its own included */
