/* The windows of hot orgs in state_dir/hot_orgs (tenant/heat_file.c has the text). A file that is damaged is told of and left behind: the
 * windows begin anew. */
#include <stdlib.h>

#include "admin/hot_priv.h"
#include "base/atomic_file.h"
#include "base/log.h"
#include "proxy/worker.h"

#define NAME "hot_orgs"
#define FILE_MOST ((size_t)1 << 30)
#define ORGS_AT_ONCE 16 /* of up to 4 KiB of text each: half a millisecond */

static struct {
	struct atomic_file *file; /* owns: while it is written; NULL */
	size_t at;                /* the next org */
	bool told;                /* that it cannot be written: once, until it can */
} saving;

static const char *folder(void)
{
	return control->setup->conf->set.state_dir;
}

void hot_file_load(struct heat *h, usec_t now)
{
	struct buf text = {0};
	const char *why;
	struct err err;
	bool missing;

	if (!folder()[0])
		return;
	if (!atomic_file_read(folder(), NAME, FILE_MOST, &text, &missing, &err)) {
		if (!missing)
			log_warning("the windows of hot orgs begin anew: %s", err.text);
		return;
	}
	if (heat_load(h, now, (const char *)text.p, text.len, &why))
		log_log("windows of %zu orgs read from %s/" NAME, h->n, folder());
	else
		log_warning("the windows of hot orgs begin anew: %s/" NAME ": %s", folder(), why);
	buf_free(&text);
}

static void tell(bool ok, const struct err *err)
{
	if (!ok && !saving.told)
		log_warning("the windows of hot orgs are not kept: %s", err->text);
	saving.told = !ok;
}

static void add(struct buf *text)
{
	atomic_file_add(saving.file, text->p, text->len);
	buf_free(text);
}

bool hot_file_begin(const struct heat *h, usec_t now)
{
	struct buf text = {0};
	struct err err;

	if (!folder()[0])
		return false;
	saving.file = atomic_file_begin(folder(), NAME, &err);
	if (!saving.file) {
		tell(false, &err);
		return false;
	}
	saving.at = 0;
	heat_save_head(h, now, &text);
	add(&text);
	return true;
}

static void end(enum atomic_how how)
{
	struct buf text = {0};
	struct err err;

	heat_save_end(saving.at, &text);
	add(&text);
	tell(atomic_file_end(&saving.file, how, &err), &err);
}

static bool save_some(const struct heat *h)
{
	struct buf text = {0};
	bool more = heat_save_some(h, &saving.at, ORGS_AT_ONCE, &text);

	add(&text);
	return more;
}

bool hot_file_some(const struct heat *h)
{
	if (save_some(h))
		return true;
	end(ATOMIC_WRITTEN); /* a crash of the machine costs the windows: not worth the time that fsync takes in control's loop */
	return false;
}

void hot_file_now(const struct heat *h, usec_t now)
{
	if (!hot_file_begin(h, now))
		return;
	while (save_some(h))
		;
	end(ATOMIC_SYNCED);
}

void hot_file_stop(void)
{
	atomic_file_abandon(&saving.file);
}
