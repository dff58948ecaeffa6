/* The order of a start: options, configuration, account, background, sockets, threads. And of an end: control's loop stops, the workers
 * are stopped and joined, everything is freed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "admin/console.h"
#include "admin/http.h"
#include "admin/reload.h"
#include "base/log.h"
#include "cluster/cluster.h"
#include "cluster/watch.h"
#include "config.h"
#include "main/control.h"
#include "main/daemon.h"
#include "main/options.h"
#include "main/sockets.h"
#include "proxy/worker.h"

static int fail(const struct err *err)
{
	log_fatal("%s", err->text);
	return 1;
}

static int workers_wanted(const struct conf *conf)
{
	long n = conf->set.workers ? conf->set.workers : sysconf(_SC_NPROCESSORS_ONLN);

	if (n < 1)
		n = 1;
	return n > WORKERS_MOST ? WORKERS_MOST : (int)n;
}

static void make_workers(struct setup *setup)
{
	n_workers = workers_wanted(setup->conf);
	cluster_set_workers(n_workers);
	for (int i = 0; i < n_workers; i++)
		workers[i] = worker_new(i, setup);
	control = worker_new(-1, setup);
	console_register();
}

static void free_workers(void)
{
	watch_stop();
	for (int i = 0; i < n_workers; i++)
		worker_free(&workers[i]);
	worker_free(&control);
}

static void run(void)
{
	control_prepare();
	for (int i = 0; i < n_workers; i++)
		loop_start(workers[i]->loop);
	log_log("process up: " PACKAGE_NAME " " PACKAGE_VERSION ", libevent %s, %d worker(s)", event_get_version(), n_workers);
	daemon_started();
	control_run();
	for (int i = 0; i < n_workers; i++)
		loop_stop(workers[i]->loop);
	for (int i = 0; i < n_workers; i++)
		loop_join(workers[i]->loop);
}

static bool settle(const struct options *o, const struct setup *setup, struct err *err)
{
	const struct settings *set = &setup->conf->set;

	if (o->daemon && (!set->pidfile[0] || !set->logfile[0]))
		return err_set(err, NULL, "-d needs the settings pidfile and logfile");
	return daemon_become(o->user ? o->user : set->user, err) && (!o->daemon || daemon_detach(err)) && pidfile_write(set->pidfile, err);
}

int main(int argc, char **argv)
{
	struct options options;
	struct setup *setup;
	struct err err;

	switch (options_read(argc, argv, &options)) {
	case OPTIONS_DONE:
		return 0;
	case OPTIONS_BAD:
		return 1;
	case OPTIONS_RUN:
		break;
	}
	signal(SIGPIPE, SIG_IGN);
	log_open(NULL, true, NULL, NULL);
	if (options.reboot) {
		err_set(&err, NULL, "-R is not built yet");
		return fail(&err);
	}
	setup = reload_first(options.config, options.quiet, options.verbose);
	if (!setup)
		return 1;
	if (!settle(&options, setup, &err)) {
		setup_drop(&setup);
		return fail(&err);
	}
	reload_apply(setup);
	daemon_raise_files();
	make_workers(setup);
	setup_drop(&setup);
	if (!watch_start(control->loop, control->setup, worker_follow, &err) || !sockets_listen(workers[0]->setup->conf, &err) ||
	    !http_start(workers[0]->setup->conf, &err)) {
		free_workers();
		pidfile_remove();
		return fail(&err);
	}
	run();
	free_workers();
	pidfile_remove();
	log_log("shut down");
	return 0;
}
