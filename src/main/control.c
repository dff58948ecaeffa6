/* See main/control.h. Signals become calls of admin's, the same that the console's commands make. */
#include "main/control.h"

#include <signal.h>
#include <unistd.h>

#include "admin/collect.h"
#include "admin/hot.h"
#include "admin/http.h"
#include "admin/reload.h"
#include "admin/stage.h"
#include "admin/stats.h"
#include "admin/trail_file.h"
#include "base/log.h"
#include "main/notify.h"
#include "proxy/worker.h"

static void reloaded(void *arg, const struct err *err)
{
	(void)arg;
	(void)err; /* logged where it happened */
	notify_ready();
}

static void on_hup(void)
{
	log_log("got SIGHUP, re-reading config");
	log_reopen();
	notify_reloading();
	reload_start(reloaded, NULL);
}

static void shut_down(enum shutdown_how how)
{
	struct err err;

	notify_stopping();
	if (!stage_shutdown(how, &err))
		log_warning("%s", err.text);
}

static void on_term(void)
{
	log_log("got SIGTERM, shutting down when the clients have left");
	shut_down(SHUTDOWN_WAIT_CLIENTS);
}

static void on_int(void)
{
	log_log("got SIGINT, shutting down when transactions are done");
	shut_down(SHUTDOWN_WAIT_SERVERS);
}

static void on_quit(void)
{
	log_log("got SIGQUIT, shutting down at once");
	shut_down(SHUTDOWN_NOW);
}

static void paused(void *arg, const struct err *err)
{
	(void)arg;
	if (err)
		log_warning("SIGUSR1: %s", err->text);
}

static void on_usr1(void)
{
	struct err err;

	log_log("got SIGUSR1, pausing all activity");
	if (!stage_pause(NULL, paused, NULL, &err))
		log_warning("%s", err.text);
}

static void on_usr2(void)
{
	struct err err;

	if (atomic_load(&process_stage) >= STAGE_WAIT_SERVERS) {
		log_log("got SIGUSR2 while shutting down, ignoring");
		return;
	}
	log_log("got SIGUSR2, continuing from PAUSE / SUSPEND");
	if (!stage_resume(NULL, &err))
		log_warning("%s", err.text);
}

static const struct on_signal {
	int number;
	void (*run)(void);
} table[] = {
	{SIGHUP, on_hup}, {SIGTERM, on_term}, {SIGINT, on_int}, {SIGQUIT, on_quit}, {SIGUSR1, on_usr1}, {SIGUSR2, on_usr2},
};
#define N_SIGNALS (sizeof(table) / sizeof(table[0]))

static void signal_came(evutil_socket_t number, short what, void *arg)
{
	const struct on_signal *s = arg;

	(void)number;
	(void)what;
	loop_renew(control->loop);
	s->run();
}

static struct event *events[N_SIGNALS];

void control_prepare(void)
{
	for (size_t i = 0; i < N_SIGNALS; i++) {
		events[i] = evsignal_new(control->loop->base, table[i].number, signal_came, (void *)&table[i]);
		verify(events[i] && event_add(events[i], NULL) == 0);
	}
}

void control_run(void)
{
	stats_start();
	collect_start();
	hot_start();
	trail_file_start();
	notify_ready();
	loop_run(control->loop);
	notify_stopping();
	stats_stop();
	http_stop();
	hot_stop();
	collect_stop();
	trail_file_stop();
	for (size_t i = 0; i < N_SIGNALS; i++)
		event_free(events[i]);
}
