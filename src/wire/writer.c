/* The message writer. A message is [type][length][body]; the length counts itself and the body but not the type,
 * so "begun", the place of the length word, is all that msg_end has to know. What is written here is ours: a message
 * too long for its length word is our mistake. */
#include "wire/writer.h"

#include <string.h>

#include "base/verify.h"
#include "wire/startup.h"

static void put_u32(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 24);
	at[1] = (uint8_t)(v >> 16);
	at[2] = (uint8_t)(v >> 8);
	at[3] = (uint8_t)v;
}

size_t msg_begin(struct buf *b, uint8_t type)
{
	if (type)
		msg_u8(b, type);
	size_t begun = b->len;
	msg_u32(b, 0);
	return begun;
}

void msg_end(struct buf *b, size_t begun)
{
	verify(b->len - begun >= 4 && b->len - begun <= INT32_MAX);
	put_u32(b->p + begun, (uint32_t)(b->len - begun));
}

uint8_t *msg_head(struct buf *b, uint8_t type, uint32_t length, size_t n)
{
	uint8_t *at = buf_more(b, 1 + sizeof(length) + n);

	at[0] = type;
	put_u32(at + 1, length);
	return at + 1 + sizeof(length);
}

void msg_u8(struct buf *b, uint8_t v)
{
	buf_add_u8(b, v);
}

void msg_u16(struct buf *b, uint16_t v)
{
	uint8_t bytes[2] = {(uint8_t)(v >> 8), (uint8_t)v};
	buf_add(b, bytes, sizeof(bytes));
}

void msg_u32(struct buf *b, uint32_t v)
{
	uint8_t bytes[4];
	put_u32(bytes, v);
	buf_add(b, bytes, sizeof(bytes));
}

void msg_str(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text) + 1);
}

void msg_pair(struct buf *b, const char *name, const char *value)
{
	msg_str(b, name);
	msg_str(b, value);
}

void msg_bytes(struct buf *b, const void *p, size_t n)
{
	if (n > 0)
		buf_add(b, p, n);
}

void msg_ready(struct buf *b, char status)
{
	size_t begun = msg_begin(b, 'Z');
	msg_u8(b, (uint8_t)status);
	msg_end(b, begun);
}

void msg_empty(struct buf *b, uint8_t type)
{
	msg_end(b, msg_begin(b, type));
}

void msg_auth(struct buf *b, uint32_t code, const void *p, size_t n)
{
	size_t begun = msg_begin(b, 'R');
	msg_u32(b, code);
	msg_bytes(b, p, n);
	msg_end(b, begun);
}

void msg_parameter(struct buf *b, const char *name, const char *value)
{
	size_t begun = msg_begin(b, 'S');
	msg_pair(b, name, value);
	msg_end(b, begun);
}

void msg_key(struct buf *b, uint32_t pid, uint32_t key)
{
	size_t begun = msg_begin(b, 'K');
	msg_u32(b, pid);
	msg_u32(b, key);
	msg_end(b, begun);
}

void msg_query(struct buf *b, const char *sql)
{
	size_t begun = msg_begin(b, 'Q');
	msg_str(b, sql);
	msg_end(b, begun);
}

void msg_complete(struct buf *b, const char *tag)
{
	size_t begun = msg_begin(b, 'C');
	msg_str(b, tag);
	msg_end(b, begun);
}

void msg_parse(struct buf *b, const char *name, const void *body, size_t len)
{
	size_t begun = msg_begin(b, 'P');
	msg_str(b, name);
	msg_bytes(b, body, len);
	msg_end(b, begun);
}

void msg_parse_sql(struct buf *b, const char *name, const char *sql)
{
	size_t begun = msg_begin(b, 'P');
	msg_pair(b, name, sql);
	msg_u16(b, 0);
	msg_end(b, begun);
}

void msg_bind(struct buf *b, const char *portal, const char *statement, const char *const *values, int n)
{
	size_t begun = msg_begin(b, 'B');
	msg_pair(b, portal, statement);
	msg_u16(b, 0); /* values in text */
	msg_u16(b, (uint16_t)n);
	for (int i = 0; i < n; i++) {
		msg_u32(b, (uint32_t)strlen(values[i]));
		msg_bytes(b, values[i], strlen(values[i]));
	}
	msg_u16(b, 0); /* results in text */
	msg_end(b, begun);
}

void msg_object(struct buf *b, uint8_t type, char what, const char *name)
{
	size_t begun = msg_begin(b, type);
	msg_u8(b, (uint8_t)what);
	msg_str(b, name);
	msg_end(b, begun);
}

void msg_execute(struct buf *b, const char *portal)
{
	size_t begun = msg_begin(b, 'E');
	msg_str(b, portal);
	msg_u32(b, 0);
	msg_end(b, begun);
}

void msg_ssl_request(struct buf *b)
{
	size_t begun = msg_begin(b, 0);
	msg_u32(b, CODE_SSL);
	msg_end(b, begun);
}

void msg_startup_head(struct buf *b, uint32_t version)
{
	msg_begin(b, 0);
	msg_u32(b, version);
}
