/* See main/notify.h. */
#include "main/notify.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/clock.h"
#include "config.h"

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>

int notify_sockets(int out[NOTIFY_FDS_MOST])
{
	int n = sd_listen_fds(1);

	if (n > NOTIFY_FDS_MOST)
		n = NOTIFY_FDS_MOST;
	for (int i = 0; i < n; i++) {
		out[i] = SD_LISTEN_FDS_START + i;
		fcntl(out[i], F_SETFL, fcntl(out[i], F_GETFL) | O_NONBLOCK);
	}
	return n < 0 ? 0 : n;
}

void notify_ready(void)
{
	sd_notify(0, "READY=1");
}

void notify_reloading(void)
{
	char text[64];

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld", (long long)clock_now());
	sd_notify(0, text);
}

void notify_stopping(void)
{
	sd_notify(0, "STOPPING=1");
}
#else
int notify_sockets(int out[NOTIFY_FDS_MOST])
{
	(void)out;
	return 0;
}

void notify_ready(void) {}
void notify_reloading(void) {}
void notify_stopping(void) {}
#endif
