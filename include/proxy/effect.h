/* What a client's statements do, as far as their text tells: enough to say what the loss of an answer means. */
#pragma once

#include "proxy/client.h"

enum effect { EFFECT_READS, EFFECT_WRITES, EFFECT_ENDS /* a transaction */ };
enum effect effect_of(const char first[FIRST_WORD]); /* how the text of one statement begins */
/* A statement is about to go to the server. */
void effect_note(struct client *c, const uint8_t *sql, size_t len);
/* The same text is a whole Query, which may hold several. */
void effect_note_all(struct client *c, const uint8_t *sql, size_t len);
/* The worst of all that is under way. */
enum effect effect_outcome(const struct client *c);
