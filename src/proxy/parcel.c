/* See proxy/parcel.h. */
#include "proxy/parcel.h"

#define MADE_KEEP (64 * 1024) /* a larger buffer is given back after the send */

/* All pieces become one, in made; what was made and is not in a piece yet stays behind it. */
static void fold(struct parcel *p)
{
	struct buf all = {0};

	for (int i = 0; i < p->n; i++)
		buf_add(&all, p->pieces[i].p ? p->pieces[i].p : p->made.p + p->pieces[i].at, p->pieces[i].len);
	p->pieces[0] = (struct piece){.len = all.len};
	p->n = 1;
	buf_add(&all, p->made.p + p->noted, p->made.len - p->noted);
	p->noted = p->pieces[0].len;
	buf_free(&p->made);
	p->made = all;
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
	for (int i = 0; i < p->n; i++)
		iov[i] = (struct iovec){(void *)(p->pieces[i].p ? p->pieces[i].p : p->made.p + p->pieces[i].at), p->pieces[i].len};
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
