/* What systemd is told (Type=notify) and what it hands over (socket activation). Nothing happens without it. */
#pragma once

#define NOTIFY_FDS_MOST 32

int notify_sockets(int out[NOTIFY_FDS_MOST]);
void notify_ready(void);
void notify_reloading(void);
void notify_stopping(void);
