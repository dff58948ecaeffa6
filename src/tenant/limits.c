/* Seats. A count is taken before the client has what it stands for, by compare-and-swap, so that no cap is passed for a
 * moment even while all workers log clients in at once; and each one taken is noted in the client's struct seats, because
 * counting back by what a client looks like at its end is how counters drift. */
#include "tenant/limits.h"

#include "base/verify.h"
#include "wire/sqlstate.h"

static atomic_int process_count;

bool seats_take_process(struct seats *s, const struct conf *c, struct err *err)
{
	verify(!s->process);
	if (!tally_take(&process_count, c->set.max_client_conn))
		return err_set(err, SQLSTATE_TOO_MANY, "no more connections allowed (max_client_conn)");
	s->process = true;
	return true;
}

bool seats_take_entry(struct seats *s, struct tally *entry, int most, struct err *err)
{
	verify(!s->entry);
	if (!tally_take(&entry->clients, most))
		return err_set(err, SQLSTATE_TOO_MANY, "client connections exceeded (max_db_client_connections)");
	s->entry = entry;
	return true;
}

bool seats_take_user(struct seats *s, struct tally *user, int most, struct err *err)
{
	verify(!s->user);
	if (!tally_take(&user->clients, most))
		return err_set(err, SQLSTATE_TOO_MANY, "client connections exceeded (max_user_client_connections)");
	s->user = user;
	return true;
}

bool seats_take_org(struct seats *s, struct org *org, int most, struct err *err)
{
	verify(!s->org);
	if (!tally_take(&org->clients, most)) {
		atomic_fetch_add_explicit(&org->refused, 1, memory_order_relaxed);
		return err_set(err, SQLSTATE_TOO_MANY, "client connections of org \"%s\" exceeded (max_client_conn)", org->id);
	}
	s->org = org;
	return true;
}

bool seats_move_org(struct seats *s, struct org *org, int most, struct err *err)
{
	struct org *old = s->org;

	s->org = NULL;
	if (!seats_take_org(s, org, most, err)) {
		s->org = old;
		return false;
	}
	if (old)
		tally_give(&old->clients);
	return true;
}

void seats_give(struct seats *s)
{
	if (s->process)
		tally_give(&process_count);
	if (s->entry)
		tally_give(&s->entry->clients);
	if (s->user)
		tally_give(&s->user->clients);
	if (s->org)
		tally_give(&s->org->clients);
	*s = (struct seats){0};
}

int seats_process_count(void)
{
	return atomic_load_explicit(&process_count, memory_order_relaxed);
}
