/* What a client takes along when it moves to another worker: the values of its settings and its prepared statements, which are shared
 * within a worker, as plain text in between. One travels with its client and belongs to no thread. */
#pragma once

#include "proxy/client.h"

struct luggage;

struct luggage *luggage_pack(struct client *c);                   /* c holds nothing of its worker's books any more */
void luggage_unpack(struct luggage **l, struct client *c);        /* ... and has it all again, of its new worker's */
void luggage_free(struct luggage **l);
