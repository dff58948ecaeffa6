/* The mailbox: a queue under a lock, and an eventfd that wakes its loop.
 *
 * The sender that finds the queue empty writes the eventfd; those behind it need not, since
 * the reader takes all there is. The event is edge-triggered: every write is a new edge, so
 * nobody ever reads the counter back (it would take 2^64 wake-ups to fill it), which saves a
 * system call per wake-up. */
#include "loop/mail.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "loop/mail_priv.h"

struct mailbox {
	struct loop *loop;   /* borrows: it owns us */
	struct event *event; /* owns */
	int fd;              /* owns */

	pthread_mutex_t lock;
	struct mail *first;  /* guarded by lock, as is: */
	struct mail **end;   /* where the next one is linked in */
};

static void mailbox_woke(evutil_socket_t fd, short what, void *arg)
{
	struct mailbox *box = arg;

	(void)fd;
	(void)what;
	loop_now(box->loop);
	mailbox_read(box);
}

static struct mail *take_all(struct mailbox *box)
{
	struct mail *all;

	pthread_mutex_lock(&box->lock);
	all = box->first;
	box->first = NULL;
	box->end = &box->first;
	pthread_mutex_unlock(&box->lock);
	return all;
}

struct mailbox *mailbox_new(struct loop *l)
{
	struct mailbox *box = mem_make(struct mailbox);

	box->loop = l;
	box->end = &box->first;
	verify(pthread_mutex_init(&box->lock, NULL) == 0);
	box->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	verify(box->fd >= 0);
	box->event = event_new(l->base, box->fd, EV_READ | EV_PERSIST | EV_ET, mailbox_woke, box);
	verify(box->event && event_add(box->event, NULL) == 0);
	return box;
}

void mailbox_read(struct mailbox *box)
{
	struct mail *next;

	verify_here(box->loop);
	for (struct mail *m = take_all(box); m; m = next) {
		next = m->next;
		m->next = NULL;
		m->read(box->loop, m);
	}
}

bool mailbox_is_empty(struct mailbox *box)
{
	bool empty;

	pthread_mutex_lock(&box->lock);
	empty = !box->first;
	pthread_mutex_unlock(&box->lock);
	return empty;
}

void mailbox_free(struct mailbox **at)
{
	struct mailbox *box = *at;

	*at = NULL;
	verify(mailbox_is_empty(box));
	event_free(box->event);
	close(box->fd);
	pthread_mutex_destroy(&box->lock);
	mem_free(box);
}

void mail_send(struct loop *to, struct mail *m)
{
	struct mailbox *box = to->mailbox;
	bool was_empty;

	m->next = NULL;
	pthread_mutex_lock(&box->lock);
	was_empty = !box->first;
	*box->end = m;
	box->end = &m->next;
	/* Under the lock: behind it the loop may have read the mail, stopped and been freed. */
	if (was_empty)
		verify(eventfd_write(box->fd, 1) == 0);
	pthread_mutex_unlock(&box->lock);
}
