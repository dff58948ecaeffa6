/* See cluster/epoch.h. The files, where "system", "timeline" and "host" are those of the primary served last:
 *
 *   pgweir epochs 1
 *   generation 17
 *   cluster main epoch 5 state primary fenced 0 system 7291346 timeline 2 host 10.0.0.1:5432
 *   sha256 3f0c...
 *
 * The checksum makes a file that was half written, or edited, as good as none. What has a right checksum was written by us,
 * and is parsed with the same care all the same. */
#include "cluster/epoch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

#define HEADING "pgweir epochs 1\n"
#define SUM_WORD "sha256 "
#define SUM_HEX 64
#define SUM_LINE (sizeof(SUM_WORD) - 1 + SUM_HEX + 1)
#define FILE_MOST (16 * 1024 * 1024)
#define NEW_FILE "epochs.new"

struct epoch_book {
	char *folder;           /* owns; NULL: nothing is kept */
	int dir;                /* owns: the folder, locked while we live */
	uint64_t generation;    /* of the newest file */
	struct epoch_row *rows; /* owns */
	int n_rows;
	bool lost;              /* a file may have been newer than what we know */
	bool unsure;            /* a write failed: the disk may say what we do not */
	char warning[200];
};

/* ---- rows ---- */

static struct epoch_row *find(const struct epoch_book *b, const char *cluster)
{
	for (int i = 0; i < b->n_rows; i++)
		if (strcmp(b->rows[i].cluster, cluster) == 0)
			return &b->rows[i];
	return NULL;
}

static void rows_set(struct epoch_book *b, const struct epoch_row *row)
{
	struct epoch_row *old = find(b, row->cluster);

	if (!old) {
		b->rows = mem_grow(b->rows, (size_t)(b->n_rows + 1) * sizeof(*b->rows));
		old = &b->rows[b->n_rows++];
	}
	*old = *row;
}

/* ---- text ---- */

static void sum_of(struct span text, char hex[SUM_HEX + 1])
{
	uint8_t sum[EVP_MAX_MD_SIZE];
	unsigned len = 0;

	verify(EVP_Digest(text.p, text.len, sum, &len, EVP_sha256(), NULL) == 1 && len * 2 == SUM_HEX);
	for (unsigned i = 0; i < len; i++)
		snprintf(hex + i * 2, 3, "%02x", sum[i]);
}

static void print_row(struct buf *out, const struct epoch_row *r)
{
	verify(!strpbrk(r->cluster, " \n") && !strchr(r->host, '\n'));
	buf_add_fmt(out, "cluster %s epoch %" PRIu64 " state %s fenced %d system %" PRIu64 " timeline %" PRIu32 " host %s\n", r->cluster, r->epoch,
		    cluster_state_name(r->state), r->fenced, r->system_id, r->timeline, r->host);
}

/* `changed` stands in the place of the row of its cluster, or behind all others; NULL: none. */
static void print_book(struct buf *out, const struct epoch_book *b, uint64_t generation, const struct epoch_row *changed)
{
	char hex[SUM_HEX + 1];

	buf_add_str(out, HEADING);
	buf_add_fmt(out, "generation %" PRIu64 "\n", generation);
	for (int i = 0; i < b->n_rows; i++)
		print_row(out, changed && strcmp(b->rows[i].cluster, changed->cluster) == 0 ? changed : &b->rows[i]);
	if (changed && !find(b, changed->cluster))
		print_row(out, changed);
	sum_of(buf_span(out), hex);
	buf_add_fmt(out, SUM_WORD "%s\n", hex);
}

/* The next word of a line; false where there is none, or a longer one. */
static bool take_word(char **at, char *out, size_t room)
{
	size_t len = strcspn(*at, " ");

	if (!len || len >= room)
		return false;
	memcpy(out, *at, len);
	out[len] = '\0';
	*at += len + ((*at)[len] == ' ');
	return true;
}

static bool take_named(char **at, const char *name, char *out, size_t room)
{
	char word[16];

	return take_word(at, word, sizeof(word)) && strcmp(word, name) == 0 && take_word(at, out, room);
}

static bool read_number(const char *text, uint64_t most, uint64_t *out)
{
	char *end;

	if (strspn(text, "0123456789") != strlen(text) || !*text)
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return !*end && !errno && *out <= most;
}

static bool take_number(char **at, const char *name, uint64_t most, uint64_t *out)
{
	char text[24];

	return take_named(at, name, text, sizeof(text)) && read_number(text, most, out);
}

static bool read_row(char *line, struct epoch_row *r)
{
	char state[16];
	uint64_t fenced, timeline;

	*r = (struct epoch_row){0};
	if (!take_named(&line, "cluster", r->cluster, sizeof(r->cluster)) || !take_number(&line, "epoch", EPOCH_MOST - 2, &r->epoch) ||
	    !take_named(&line, "state", state, sizeof(state)) || !take_number(&line, "fenced", 1, &fenced) ||
	    !take_number(&line, "system", UINT64_MAX, &r->system_id) || !take_number(&line, "timeline", UINT32_MAX, &timeline))
		return false;
	if (r->epoch == 0 || !cluster_state_find(state, &r->state) || strncmp(line, "host ", 5) != 0 || strlen(line + 5) > EPOCH_HOST_MOST)
		return false;
	r->fenced = fenced;
	r->timeline = (uint32_t)timeline;
	strcpy(r->host, line + 5);
	return true;
}

/* Takes the checksum's line off the end of the text. */
static bool sum_is_right(char *text, size_t *len)
{
	char hex[SUM_HEX + 1];
	char *sum;

	if (*len < SUM_LINE || strlen(text) != *len || text[*len - 1] != '\n')
		return false;
	sum = text + *len - SUM_LINE;
	sum_of((struct span){(const uint8_t *)text, *len - SUM_LINE}, hex);
	if (strncmp(sum, SUM_WORD, strlen(SUM_WORD)) != 0 || strncmp(sum + strlen(SUM_WORD), hex, SUM_HEX) != 0)
		return false;
	*sum = '\0';
	*len -= SUM_LINE;
	return true;
}

/* Reads a file's text, which it writes to, into an empty book. */
static bool read_book(char *text, size_t len, struct epoch_book *into)
{
	char *line, *end;

	if (!sum_is_right(text, &len) || strncmp(text, HEADING, strlen(HEADING)) != 0)
		return false;
	line = text + strlen(HEADING);
	for (bool first = true; *line; first = false, line = end + 1) {
		struct epoch_row row;

		end = strchr(line, '\n');
		if (!end)
			return false;
		*end = '\0';
		if (first ? !take_number(&line, "generation", UINT64_MAX - 3, &into->generation) : !read_row(line, &row))
			return false;
		if (!first)
			rows_set(into, &row);
	}
	return into->generation > 0;
}

/* ---- files ---- */

static const char *slot_name(uint64_t generation)
{
	return generation % 2 ? "epochs.1" : "epochs.0";
}

enum slot_state { SLOT_MISSING, SLOT_GOOD, SLOT_BROKEN, SLOT_UNREADABLE };

static bool read_all(int fd, struct buf *out)
{
	for (;;) {
		ssize_t n;

		buf_need(out, 4096);
		n = read(fd, out->p + out->len, 4096);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		out->len += (size_t)n;
		if (out->len > FILE_MOST) {
			errno = EFBIG;
			return false;
		}
	}
}

/* UNREADABLE: err says why. */
static enum slot_state read_slot(const struct epoch_book *b, uint64_t generation, struct epoch_book *into, struct err *err)
{
	int fd = openat(b->dir, slot_name(generation), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct buf text = {0};
	bool ok;

	if (fd < 0 && errno == ENOENT)
		return SLOT_MISSING;
	ok = fd >= 0 && read_all(fd, &text);
	if (!ok)
		err_set(err, NULL, "cannot read %s/%s: %m", b->folder, slot_name(generation));
	if (fd >= 0)
		close(fd);
	if (!ok) {
		buf_free(&text);
		return SLOT_UNREADABLE;
	}
	buf_add_u8(&text, '\0');
	ok = read_book((char *)text.p, text.len - 1, into);
	buf_free(&text);
	return ok ? SLOT_GOOD : SLOT_BROKEN;
}

static bool write_all(int fd, const struct buf *text)
{
	size_t done = 0;

	while (done < text->len) {
		ssize_t n = write(fd, text->p + done, text->len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

static bool write_new(const struct epoch_book *b, const struct buf *text)
{
	int fd = openat(b->dir, NEW_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	bool ok = fd >= 0 && write_all(fd, text) && fsync(fd) == 0;
	int number = errno;

	if (fd >= 0)
		close(fd);
	errno = number;
	return ok;
}

/* The next generation. When it fails, the one after it will be written in the same place, under the same number. */
static bool write_book(struct epoch_book *b, const struct epoch_row *changed, struct err *err)
{
	uint64_t generation = b->generation + 1;
	struct buf text = {0};
	bool ok;

	print_book(&text, b, generation, changed);
	ok = write_new(b, &text) && renameat(b->dir, NEW_FILE, b->dir, slot_name(generation)) == 0 && fsync(b->dir) == 0;
	if (!ok) {
		err_set(err, NULL, "cannot write %s/%s: %m", b->folder, slot_name(generation));
		unlinkat(b->dir, NEW_FILE, 0);
	}
	b->unsure = !ok;
	buf_free(&text);
	b->generation = ok ? generation : b->generation;
	return ok;
}

/* ---- opening ---- */

static void take_over(struct epoch_book *b, struct epoch_book *from)
{
	b->generation = from->generation;
	b->rows = from->rows;
	b->n_rows = from->n_rows;
	from->rows = NULL;
}

/* Whatever the lost file said, it was not further than this. */
static void assume_the_worst(struct epoch_book *b)
{
	b->lost = true;
	b->generation++;
	for (int i = 0; i < b->n_rows; i++) {
		b->rows[i].epoch++;
		b->rows[i].fenced = true;
		b->rows[i].state = CLUSTER_RECOVERING;
	}
}

static const char *const how_bad[] = {[SLOT_MISSING] = "missing", [SLOT_BROKEN] = "broken"};

static bool choose(struct epoch_book *b, struct epoch_book slots[2], const enum slot_state states[2], struct err *err)
{
	bool both = states[0] == SLOT_GOOD && states[1] == SLOT_GOOD;
	int newest = both ? slots[1].generation > slots[0].generation : states[1] == SLOT_GOOD;

	if (states[0] == SLOT_MISSING && states[1] == SLOT_MISSING)
		return true; /* the first start ever */
	if (states[newest] != SLOT_GOOD)
		return err_set(err, NULL, "%s: epochs.0 is %s and epochs.1 is %s: which epochs were used is not known. Put a copy of either back; without one, make "
			       "sure that nothing relies on earlier epochs and remove both", b->folder, how_bad[states[0]], how_bad[states[1]]);
	take_over(b, &slots[newest]);
	if (both && slots[newest].generation == slots[!newest].generation + 1)
		return true;
	if (states[!newest] == SLOT_MISSING && b->generation == 1)
		return true; /* there was only one write so far */
	snprintf(b->warning, sizeof(b->warning), "epochs.%d is %s and may have been the newer one: all epochs go on one further, and all clusters stay fenced "
		 "until UNFENCE", !newest, both ? "from another time" : how_bad[states[!newest]]);
	assume_the_worst(b);
	return true;
}

/* Both files are whole again after this, so that the next loss can be told from this one. */
static bool write_first(struct epoch_book *b, struct err *err)
{
	return write_book(b, NULL, err) && (!b->lost || write_book(b, NULL, err));
}

static bool open_folder(struct epoch_book *b, struct err *err)
{
	b->dir = open(b->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->dir < 0)
		return err_set(err, NULL, "state_dir %s: %m", b->folder);
	if (flock(b->dir, LOCK_EX | LOCK_NB) != 0)
		return err_set(err, NULL, errno == EWOULDBLOCK ? "state_dir %s is another process's" : "state_dir %s: %m", b->folder);
	return true;
}

static bool read_both(struct epoch_book *b, struct err *err)
{
	struct epoch_book slots[2] = {0};
	enum slot_state states[2];
	bool ok = true;

	for (uint64_t i = 0; i < 2; i++) {
		states[i] = read_slot(b, i, &slots[i], err);
		ok &= states[i] != SLOT_UNREADABLE;
	}
	ok = ok && choose(b, slots, states, err);
	mem_free(slots[0].rows);
	mem_free(slots[1].rows);
	return ok;
}

struct epoch_book *epoch_book_open(const char *folder, struct err *err)
{
	struct epoch_book *b = mem_make(struct epoch_book);

	b->dir = -1;
	if (!folder[0])
		return b;
	b->folder = mem_str(folder);
	if (!open_folder(b, err) || !read_both(b, err) || !write_first(b, err))
		epoch_book_close(&b);
	return b;
}

void epoch_book_close(struct epoch_book **at)
{
	struct epoch_book *b = *at;

	*at = NULL;
	if (!b)
		return;
	if (b->dir >= 0)
		close(b->dir);
	mem_free(b->rows);
	mem_free(b->folder);
	mem_free(b);
}

/* ---- reading and keeping ---- */

bool epoch_book_is_kept(const struct epoch_book *b)
{
	return b->folder;
}

const char *epoch_book_warning(const struct epoch_book *b)
{
	return b->lost ? b->warning : NULL;
}

/* A cluster that is not in the book may have been in the lost file, with its first epoch. */
struct epoch_row epoch_of(const struct epoch_book *b, const char *cluster)
{
	const struct epoch_row *known = find(b, cluster);
	struct epoch_row row = {.epoch = b->lost ? 2 : 1, .fenced = b->lost, .state = b->lost ? CLUSTER_RECOVERING : CLUSTER_PRIMARY};

	if (known)
		return *known;
	verify(strlen(cluster) <= EPOCH_CLUSTER_MOST);
	strcpy(row.cluster, cluster);
	return row;
}

static bool rows_agree(const struct epoch_row *a, const struct epoch_row *b)
{
	return a->epoch == b->epoch && a->state == b->state && a->fenced == b->fenced && a->system_id == b->system_id && a->timeline == b->timeline &&
	       strcmp(a->host, b->host) == 0;
}

bool epoch_keep(struct epoch_book *b, const struct epoch_row *row, struct err *err)
{
	const struct epoch_row *known = find(b, row->cluster);

	verify(row->epoch >= epoch_of(b, row->cluster).epoch);
	if (known && !b->unsure && rows_agree(known, row))
		return true;
	if (b->folder && !write_book(b, row, err))
		return false;
	rows_set(b, row);
	return true;
}
