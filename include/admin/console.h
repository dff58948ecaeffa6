/* The console: clients of the databases "pgweir" and "pgbouncer", all on control's loop. Simple queries only. */
#pragma once

#include "proxy/client.h"

void console_open(struct client *c);   /* logged in: sends the greeting */
size_t console_bytes(struct client *c, const uint8_t *p, size_t len);
void console_close(struct client *c);  /* the client ends: pending orders are forgotten */
void console_register(void);            /* at start: proxy reaches the console by what this sets */
