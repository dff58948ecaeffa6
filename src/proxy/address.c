/* See proxy/address.h.
 *
 *   process id   [worker: 8 bits][slot: 24 bits]     an address; control is CONTROL_ID
 *   secret       [random: 32 bits]                   what is compared
 *
 *   at home        slots[slot] is the client
 *   moved away     slots[slot] is empty but not free, and a forward has the slot where it is now. Whoever sees it arrive or end tells
 *                  the first worker by mail; as a client is at one place at a time, these mails come in their order
 *
 * While a client travels its forward says nowhere: it has no query that could be cancelled. */
#include "proxy/address.h"

#include "base/mem.h"
#include "base/random.h"
#include "base/secret.h"
#include "loop/mail.h"
#include "proxy/worker.h"

#define CONTROL_ID 255u
#define SLOT_BITS 24
#define SLOT_MOST ((1u << SLOT_BITS) - 1)

struct forward {
	struct hash_link link; /* in the first worker's forwards, by slot */
	uint32_t slot;
	uint32_t secret;
	uint32_t to;           /* 0: on its way */
};

static uint32_t slot_of(uint32_t pid)
{
	return pid & SLOT_MOST;
}

struct worker *address_worker(uint32_t pid)
{
	uint32_t id = pid >> SLOT_BITS;

	if (id == CONTROL_ID)
		return control;
	return id < (uint32_t)n_workers ? workers[id] : NULL;
}

static uint32_t pid_of(const struct worker *w, uint32_t slot)
{
	uint32_t id = w->id < 0 ? CONTROL_ID : (uint32_t)w->id;

	verify(slot > 0 && slot <= SLOT_MOST);
	return id << SLOT_BITS | slot;
}

/* ---- slots ---- */

static uint32_t slot_take(struct worker *w, struct client *c)
{
	uint32_t slot = w->free_slot;

	if (slot) {
		w->free_slot = w->next_slots[slot];
	} else {
		if (w->n_slots == 0)
			w->n_slots = 1; /* slot 0 is none */
		if (w->n_slots >= w->room_slots) {
			w->room_slots = w->room_slots ? w->room_slots * 2 : 64;
			w->slots = mem_grow(w->slots, w->room_slots * sizeof(*w->slots));
			w->next_slots = mem_grow(w->next_slots, w->room_slots * sizeof(*w->next_slots));
		}
		slot = w->n_slots++;
	}
	w->slots[slot] = c;
	return slot;
}

static void slot_give(struct worker *w, uint32_t slot)
{
	w->slots[slot] = NULL;
	w->next_slots[slot] = w->free_slot;
	w->free_slot = slot;
}

/* ---- forwards ---- */

static bool forward_is_of(const struct hash_link *link, const void *slot)
{
	return owner_of(link, struct forward, link)->slot == *(const uint32_t *)slot;
}

static struct forward *forward_find(const struct worker *w, uint32_t slot)
{
	struct hash_link *link = w->forwards.count ? hash_find(&w->forwards, hash_join(0, slot), forward_is_of, &slot) : NULL;

	return link ? owner_of(link, struct forward, link) : NULL;
}

static void forward_add(struct worker *w, uint32_t slot, uint32_t secret)
{
	struct forward *f = mem_make(struct forward);

	*f = (struct forward){.slot = slot, .secret = secret};
	hash_add(&w->forwards, &f->link, hash_join(0, slot));
	w->slots[slot] = NULL;
}

static void forward_drop(struct worker *w, uint32_t slot)
{
	struct forward *f = forward_find(w, slot);

	verify(f);
	hash_take(&w->forwards, &f->link);
	mem_free(f);
}

/* ---- telling the first worker ---- */

struct news {
	struct mail mail;
	uint32_t slot;
	uint32_t to; /* 0: it has ended */
};

static void news_read(struct loop *here, struct mail *m)
{
	struct news *n = owner_of(m, struct news, mail);
	struct worker *w = worker_of(here);

	if (n->to) {
		forward_find(w, n->slot)->to = n->to;
	} else {
		forward_drop(w, n->slot);
		slot_give(w, n->slot);
	}
	mem_free(n);
}

static void tell(const struct client *c, uint32_t to)
{
	struct worker *first = address_worker(c->address);

	if (!first) /* the process ends */
		return;
	struct news *n = mem_make(struct news);
	*n = (struct news){.mail.read = news_read, .slot = slot_of(c->address), .to = to};
	mail_send(first->loop, &n->mail);
}

/* ---- public ---- */

void address_take(struct client *c)
{
	verify(!c->address);
	c->slot = slot_take(c->worker, c);
	c->address = pid_of(c->worker, c->slot);
	random_bytes(&c->cancel_secret, sizeof(c->cancel_secret));
}

static bool is_first(const struct client *c)
{
	return address_worker(c->address) == c->worker;
}

void address_leave(struct client *c)
{
	verify(c->slot);
	if (is_first(c))
		forward_add(c->worker, c->slot, c->cancel_secret);
	else
		slot_give(c->worker, c->slot);
	c->slot = 0;
}

void address_arrive(struct client *c)
{
	struct worker *w = c->worker;

	verify(!c->slot);
	if (is_first(c)) {
		c->slot = slot_of(c->address);
		forward_drop(w, c->slot);
		w->slots[c->slot] = c;
		return;
	}
	c->slot = slot_take(w, c);
	tell(c, pid_of(w, c->slot));
}

void address_give(struct client *c)
{
	if (!c->address)
		return;
	if (c->slot)
		slot_give(c->worker, c->slot);
	if (!c->slot || !is_first(c))
		tell(c, 0);
	c->slot = c->address = 0;
}

void address_key(const struct client *c, uint32_t *pid, uint32_t *secret)
{
	verify(c->address);
	*pid = c->address;
	*secret = c->cancel_secret;
}

static bool same(uint32_t a, uint32_t b)
{
	return bytes_same_secretly(&a, &b, sizeof(a));
}

struct client *address_find(const struct worker *w, uint32_t pid, uint32_t secret, uint32_t *moved_to)
{
	uint32_t slot = slot_of(pid);
	struct client *c = slot > 0 && slot < w->n_slots ? w->slots[slot] : NULL;
	const struct forward *f = c ? NULL : forward_find(w, slot);

	*moved_to = f && same(f->secret, secret) ? f->to : 0;
	return c && same(c->cancel_secret, secret) ? c : NULL;
}

void address_free(struct worker *w)
{
	hash_each(link, &w->forwards)
		mem_free(owner_of(link, struct forward, link));
	hash_free(&w->forwards);
	mem_free(w->slots);
	mem_free(w->next_slots);
}
