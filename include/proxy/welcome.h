/* The end of a client's login: its pool, its place among the worker's clients, and what PostgreSQL would tell it: ParameterStatus, key,
 * ReadyForQuery. A server is needed for it when no login of the target has told the parameters yet, or when the client asks for a setting
 * that no server of the target has accepted yet: then it is tried first, and PostgreSQL's refusal is the client's. */
#pragma once

#include "proxy/client.h"

void client_welcome(struct client *c);               /* by proxy/greet, in the client's home loop */
void welcome_has_server(struct client *c);           /* a server was granted for it */
void welcome_go_on(struct later *l);                 /* ... and has done its part */
