/* See proxy/parcel.h. */
#include "proxy/parcel.h"

#define MADE_KEEP (64 * 1024) /* a larger buffer is given back after the send */

static const uint8_t *piece_at(const struct parcel *p, int i)
{
	return p->pieces[i].p ? p->pieces[i].p : p->made.p + p->pieces[i].at;
}

/* All pieces become one, in made; what was made and is not in a piece yet stays behind it. */
static void fold(struct parcel *p)
{
	struct buf all = {0};

	for (int i = 0; i < p->n; i++)
		buf_add(&all, piece_at(p, i), p->pieces[i].len);
	p->pieces[0] = (struct piece){.len = all.len};
	p->n = 1;
	buf_add(&all, p->made.p + p->noted, p->made.len - p->noted);
	p->noted = p->pieces[0].len;
	buf_free(&p->made);
	p->made = all;
}

/* Copying so little costs less than what the kernel does for a sendmsg. */
#define COPY_MOST 4096

static size_t parcel_size(const struct parcel *p)
{
	size_t size = 0;

	for (int i = 0; i < p->n; i++)
		size += p->pieces[i].len;
	return size;
}

static void send_copied(const struct parcel *p, struct stream *to)
{
	uint8_t all[COPY_MOST];
	size_t len = 0;

	for (int i = 0; i < p->n; i++) {
		memcpy(all + len, piece_at(p, i), p->pieces[i].len);
		len += p->pieces[i].len;
	}
	stream_send(to, all, len);
}

static void make_place(struct parcel *p)
{
	if (p->n == PARCEL_PIECES)
		fold(p);
}

static void note_made(struct parcel *p)
{
	if (p->made.len == p->noted)
		return;
	make_place(p);
	p->pieces[p->n++] = (struct piece){.at = p->noted, .len = p->made.len - p->noted};
	p->noted = p->made.len;
}

void parcel_add(struct parcel *p, const uint8_t *bytes, size_t len)
{
	if (len == 0)
		return;
	note_made(p);
	make_place(p);
	p->pieces[p->n++] = (struct piece){.p = bytes, .len = len};
}

void parcel_send(struct parcel *p, struct stream *to)
{
	struct iovec iov[PARCEL_PIECES];

	if (p->n == 1 && p->pieces[0].p && p->made.len == p->noted) { /* a plain run, as nearly always */
		stream_send(to, p->pieces[0].p, p->pieces[0].len);
		parcel_drop(p);
		return;
	}
	note_made(p);
	if (p->n > 1 && parcel_size(p) <= COPY_MOST) {
		send_copied(p, to);
		parcel_drop(p);
		return;
	}
	for (int i = 0; i < p->n; i++)
		iov[i] = (struct iovec){(void *)piece_at(p, i), p->pieces[i].len};
	if (p->n)
		stream_sendv(to, iov, p->n);
	parcel_drop(p);
}

void parcel_drop(struct parcel *p)
{
	p->n = 0;
	p->noted = 0;
	if (p->made.room > MADE_KEEP)
		buf_free(&p->made);
	p->made.len = 0;
}

void parcel_free(struct parcel *p)
{
	buf_free(&p->made);
}
