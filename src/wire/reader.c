/* The field reader. Every length is compared with what is left, never added to a pointer first, so that no length
 * from a peer can wrap. A reader that has gone bad stands at its end: loops over what is left stop by themselves. */
#include "wire/reader.h"

static bool has(struct reader *r, size_t n)
{
	if (reader_left(r) >= n)
		return true;
	r->bad = true;
	r->p = r->end;
	return false;
}

uint8_t read_u8(struct reader *r)
{
	return has(r, 1) ? *r->p++ : 0;
}

uint16_t read_u16(struct reader *r)
{
	if (!has(r, 2))
		return 0;
	uint16_t v = (uint16_t)(r->p[0] << 8 | r->p[1]);
	r->p += 2;
	return v;
}

uint32_t read_u32(struct reader *r)
{
	if (!has(r, 4))
		return 0;
	uint32_t v = (uint32_t)r->p[0] << 24 | (uint32_t)r->p[1] << 16 | (uint32_t)r->p[2] << 8 | r->p[3];
	r->p += 4;
	return v;
}

const char *read_str(struct reader *r)
{
	if (!has(r, 1))
		return "";
	const char *text = (const char *)r->p;
	const uint8_t *nul = memchr(r->p, 0, reader_left(r));
	if (!nul) {
		r->bad = true;
		r->p = r->end;
		return "";
	}
	r->p = nul + 1;
	return text;
}

struct span read_bytes(struct reader *r, size_t n)
{
	if (!has(r, n))
		return (struct span){NULL, 0};
	struct span bytes = {r->p, n};
	r->p = n > 0 ? r->p + n : r->p; /* an empty body may have no address to add to */
	return bytes;
}
