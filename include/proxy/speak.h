/* For which org a client speaks after its login: it may change between transactions, for good or for one transaction.
 *
 *   SET pgweir.org = '<id>', SET application_name = '... org=<id> ...'    answered here, without a server; for good
 *   a comment on the first statement of a transaction, org='<id>'         the source `comment`; for that transaction
 *
 * Inside a transaction, amid other statements, or while the client is pinned it is refused (25001), and so is what its binding
 * does not allow (28000); the client then speaks for the same org as before. */
#pragma once

#include "proxy/client.h"
#include "wire/frame.h"

/* Is this statement, alone in its text, a change of org? */
bool speak_is_change(const struct client *c, const uint8_t *sql, size_t len);
/* Would setting this parameter name another org than the client's? Then err says why that must not be done here. */
bool speak_may_set(const struct client *c, const char *name, const char *value, struct err *err);

enum spoken {
	SPOKEN_NOT,    /* not about an org, or a server has to answer: as any other message */
	SPOKEN_DONE,   /* answered into the worker's to_client parcel, *used bytes of it are dealt with */
	SPOKEN_MORE,   /* *want bytes of the message are needed */
	SPOKEN_HOLD,   /* the client's earlier transaction has to be over first */
	SPOKEN_AWAY,   /* the org is served on another worker: the client goes there, and the message is looked at again */
};
/* May SET be the first word? SELECT is not. */
static inline bool speak_may_be_set(const uint8_t *sql)
{
	return sql[0] <= ' ' || ((sql[0] | 0x20) == 's' && (sql[2] | 0x20) == 't');
}
/* Is a message worth speak_message? Inline: it runs for every one. */
static inline bool speak_concerns(const struct client *c, const uint8_t *p, const struct frame *f)
{
	switch (f->type) {
	case 'Q':
		return f->have > FRAME_HEAD + 3 && speak_may_be_set(p + FRAME_HEAD);
	case 'P':
		return f->have > FRAME_HEAD + 4 && (p[FRAME_HEAD] || speak_may_be_set(p + FRAME_HEAD + 1));
	case 'B':
	case 'D':
	case 'E':
		return c->speaks;
	default:
		return false;
	}
}
enum spoken speak_message(struct client *c, const uint8_t *p, const struct frame *f, uint32_t *used, uint32_t *want);
void speak_sync(struct client *c); /* portals end with their transaction */
/* setup->org_by_comment: the client begins a transaction with this message, and has no server yet; a comment may say for whom. len: of all that has
 * come, from p on. NOT: it goes on, in the right pool. DONE: refused, and told. */
enum spoken speak_visit(struct client *c, const uint8_t *p, size_t len, const struct frame *f, uint32_t *used, uint32_t *want);
/* The same for a client that has a server: where the message stands behind the end of a batch, it may begin a transaction of another org. HOLD: that is known
 * when what stands before it is answered. NOT: it belongs to the server's org, or to the transaction. */
static inline bool speak_may_follow(const struct frame *f)
{
	return f->type == 'Q' || f->type == 'P' || f->type == 'B' || f->type == 'D' || f->type == 'C' || f->type == 'E' || f->type == 'F';
}
enum spoken speak_follow(struct client *c, const uint8_t *p, size_t len, uint32_t *want);
/* A later statement of its transaction: false: a comment names another org. */
bool speak_may_run(const struct client *c, const uint8_t *sql, size_t len, struct err *err);
/* The visit that it came for to this worker. */
void speak_visit_here(struct client *c, const char *org, struct pool *pool);
void speak_visit_end(struct client *c); /* its transaction is over */
bool speak_is_visiting(const struct client *c);
void speak_free(struct client *c);
/* The parameters that pgweir itself sets for the client (org_guc) are put among c->named. */
void speak_name_org(struct client *c);
/* RESET ALL is about to go to the client's server, and resets org_guc as well: it is set again when the transaction is over. */
void speak_org_is_reset(struct client *c);
