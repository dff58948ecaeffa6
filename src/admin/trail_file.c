/* See admin/trail_file.h. A file that cannot be read or is none of ours leaves all routes used last at the start: too careful rather than
 * too bold, where somebody may clean up by it. */
#include "admin/trail_file.h"

#include "base/atomic_file.h"
#include "proxy/trail.h"
#include "proxy/worker.h"

#define FILE_NAME "routes"
#define FILE_MOST (64 * 1024 * 1024)
#define EVERY (60 * USEC_PER_SEC)

static struct timer timer;
static bool complained;

static void read_file(const char *folder)
{
	struct buf text = {0};
	struct err err;
	bool missing;

	if (!folder[0])
		return;
	if (!atomic_file_read(folder, FILE_NAME, FILE_MOST, &text, &missing, &err)) {
		if (!missing)
			log_error("%s: when old places were used last is not known from before this start", err.text);
		return;
	}
	if (!trails_read(buf_span(&text)))
		log_error("%s/%s is broken: when old places were used last is not known from before this start", folder, FILE_NAME);
	buf_free(&text);
}

static bool write_file(const char *folder, const struct buf *text, struct err *err)
{
	struct atomic_file *f = atomic_file_begin(folder, FILE_NAME, err);

	if (!f)
		return false;
	atomic_file_add(f, text->p, text->len);
	return atomic_file_end(&f, ATOMIC_WRITTEN, err);
}

static void save(void)
{
	const char *folder = control->setup->conf->set.state_dir;
	struct buf text = {0};
	struct err err;

	if (!folder[0] || !trails_changed())
		return;
	trails_print(&text);
	bool written = write_file(folder, &text, &err);
	if (!written && !complained)
		log_error("%s: when old places of routes were used last will not be known after a restart", err.text);
	complained = !written;
	buf_free(&text);
}

static void minute_over(struct timer *t)
{
	save();
	timer_in(t, EVERY);
}

void trail_file_follow(const struct conf *conf)
{
	trails_follow(conf, clock_wall());
	save();
}

void trail_file_start(void)
{
	timer_init(&timer, control->loop, minute_over);
	timer_in(&timer, EVERY);
	trails_follow(control->setup->conf, clock_wall());
	read_file(control->setup->conf->set.state_dir);
	save();
}

void trail_file_stop(void)
{
	timer_stop(&timer);
	save();
}
