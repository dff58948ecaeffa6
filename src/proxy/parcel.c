/* See proxy/parcel.h. */
#include "proxy/parcel.h"

#define MADE_KEEP (64 * 1024) /* a larger buffer is given back after the send */

static const uint8_t *piece_at(const struct parcel *p, int i)
{
	return p->pieces[i].p ? p->pieces[i].p : p->made.p + p->pieces[i].at;
}

/* All pieces become one, in made; what was made and is not in a piece yet stays behind it. */
static SELDOM void fold(struct parcel *p)
{
	struct buf all = {0};

	for (int i = 0; i < p->n; i++)
		buf_add(&all, piece_at(p, i), p->pieces[i].len);
	p->pieces[0] = (struct piece){.len = all.len};
	p->n = 1;
	p->run_end = NULL;
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

static APART void send_copied(const struct parcel *p, struct stream *to)
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
	p->run_end = NULL;
}

void parcel_add(struct parcel *p, const uint8_t *bytes, size_t len)
{
	if (len == 0)
		return;
	note_made(p);
	make_place(p);
	p->run = &p->pieces[p->n++];
	*p->run = (struct piece){.p = bytes, .len = len};
	p->run_end = bytes + len;
}

static APART void send_gathered(const struct parcel *p, struct stream *to)
{
	struct iovec iov[PARCEL_PIECES];

	for (int i = 0; i < p->n; i++)
		iov[i] = (struct iovec){(void *)piece_at(p, i), p->pieces[i].len};
	stream_sendv(to, iov, p->n);
}

void parcel_send(struct parcel *p, struct stream *to)
{
	note_made(p);
	if (p->n == 1)
		stream_send(to, piece_at(p, 0), p->pieces[0].len);
	else if (p->n > 1 && parcel_size(p) <= COPY_MOST)
		send_copied(p, to);
	else if (p->n > 1)
		send_gathered(p, to);
	parcel_drop(p);
}

void parcel_drop(struct parcel *p)
{
	p->n = 0;
	p->run_end = NULL;
	p->noted = 0;
	if (p->made.room > MADE_KEEP)
		buf_free(&p->made);
	p->made.len = 0;
}

void parcel_free(struct parcel *p)
{
	buf_free(&p->made);
}
