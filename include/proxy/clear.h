/* What goes ahead of a question of our own to a pooled server: queries that undo what clients left on it. */
#pragma once

#include "base/buf.h"
#include "cluster/setup.h"
#include "pool/server.h"

/* Appends them and takes the server to be as at login from now on. Returns how many there are: each is answered by a ReadyForQuery. */
int clear_ahead(struct server *s, const struct setup *setup, struct buf *out);
