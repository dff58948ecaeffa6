/* Where the cancel key of a client leads. It is told once and names a worker and a slot there; a client that moves to another worker (proxy/place)
 * leaves a forwarding address in that slot, which follows it until it ends. */
#pragma once

#include "proxy/client.h"

void address_take(struct client *c);   /* its first slot, and its secret */
void address_leave(struct client *c);  /* it is about to move away from its worker */
void address_arrive(struct client *c); /* ... and has come to another */
void address_give(struct client *c);   /* it ends, wherever it is; safe when it has none */

void address_key(const struct client *c, uint32_t *pid, uint32_t *secret); /* what BackendKeyData tells it */
struct worker *address_worker(uint32_t pid); /* the one that a key names; NULL: there is no such worker */
/* Who lives there, if the secret is right. NULL: nobody, or *moved_to is where it can be found now (0: nowhere). In w's thread. */
struct client *address_find(const struct worker *w, uint32_t pid, uint32_t secret, uint32_t *moved_to);
void address_free(struct worker *w);   /* the end of the process */
