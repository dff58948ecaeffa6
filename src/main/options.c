/* See main/options.h. */
#include "main/options.h"

#include <getopt.h>
#include <stdio.h>

#include "config.h"

static const struct option longs[] = {
	{"daemon", no_argument, NULL, 'd'},  {"quiet", no_argument, NULL, 'q'},        {"verbose", no_argument, NULL, 'v'},
	{"reboot", no_argument, NULL, 'R'},  {"user", required_argument, NULL, 'u'},   {"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'},    {0, 0, NULL, 0},
};

static const char help[] =
	"pgweir is a connection pooler for PostgreSQL that keeps organisations apart.\n"
	"\n"
	"Usage: pgweir [options] config.ini\n"
	"\n"
	"  -d, --daemon         run in the background (needs pidfile and logfile)\n"
	"  -q, --quiet          no log on the standard error stream\n"
	"  -v, --verbose        more log; twice: still more\n"
	"  -u, --user=NAME      run as this account (when started as root)\n"
	"  -R, --reboot         take over from the running process (not built yet)\n"
	"  -V, --version        print the version\n"
	"  -h, --help           print this\n"
	"\n"
	"Signals: HUP reloads, TERM ends when the clients have left, INT when their transactions are done,\n"
	"QUIT at once; USR1 pauses, USR2 resumes.\n";

static void print_version(void)
{
	printf("PgBouncer 1.25.2\n" PACKAGE_NAME " " PACKAGE_VERSION "\n");
}

enum options_result options_read(int argc, char **argv, struct options *out)
{
	int c;

	*out = (struct options){0};
	while ((c = getopt_long(argc, argv, "dqvRu:Vh", longs, NULL)) != -1) {
		switch (c) {
		case 'd':
			out->daemon = true;
			break;
		case 'q':
			out->quiet = true;
			break;
		case 'v':
			out->verbose++;
			break;
		case 'R':
			out->reboot = true;
			break;
		case 'u':
			out->user = optarg;
			break;
		case 'V':
			print_version();
			return OPTIONS_DONE;
		case 'h':
			fputs(help, stdout);
			return OPTIONS_DONE;
		default:
			fputs("Try \"pgweir --help\".\n", stderr);
			return OPTIONS_BAD;
		}
	}
	if (optind + 1 != argc) {
		fputs("pgweir: exactly one configuration file is needed\nTry \"pgweir --help\".\n", stderr);
		return OPTIONS_BAD;
	}
	out->config = argv[optind];
	return OPTIONS_RUN;
}
