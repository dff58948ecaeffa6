/* Builds messages in a buf. msg_begin notes where the message starts; msg_end fills in its length. */
#pragma once

#include "base/buf.h"

size_t msg_begin(struct buf *b, uint8_t type);  /* returns the place for msg_end; type 0: no type byte (startup) */
void msg_end(struct buf *b, size_t begun);
/* The head of a message whose length word is known, and n bytes behind it for the caller to fill in at once; the rest comes from elsewhere. */
uint8_t *msg_head(struct buf *b, uint8_t type, uint32_t length, size_t n);
void msg_u8(struct buf *b, uint8_t v);
void msg_u16(struct buf *b, uint16_t v);
void msg_u32(struct buf *b, uint32_t v);
void msg_str(struct buf *b, const char *text);  /* with its NUL */
void msg_pair(struct buf *b, const char *name, const char *value);
void msg_bytes(struct buf *b, const void *p, size_t n);

/* Whole messages. */
void msg_ready(struct buf *b, char status);             /* ReadyForQuery: I, T or E */
void msg_empty(struct buf *b, uint8_t type);            /* ParseComplete and its like: no body */
void msg_auth(struct buf *b, uint32_t code, const void *p, size_t n); /* Authentication* */
void msg_parameter(struct buf *b, const char *name, const char *value);
void msg_key(struct buf *b, uint32_t pid, uint32_t key); /* BackendKeyData */
void msg_query(struct buf *b, const char *sql);
void msg_complete(struct buf *b, const char *tag);       /* CommandComplete */
/* Extended query (chapter 55.7). */
void msg_parse(struct buf *b, const char *name, const void *body, size_t len); /* body: the query, its NUL, and the types with their count */
void msg_parse_sql(struct buf *b, const char *name, const char *sql);          /* the types are left to the server */
void msg_bind(struct buf *b, const char *portal, const char *statement, const char *const *values, int n); /* all in text, and none is null */
void msg_object(struct buf *b, uint8_t type, char what, const char *name);     /* Describe and Close; what: S or P */
void msg_execute(struct buf *b, const char *portal);                           /* all rows */
void msg_ssl_request(struct buf *b);
void msg_startup_head(struct buf *b, uint32_t version); /* then msg_pair, msg_u8 0, msg_end(b, begun): begun is b->len before this call */
