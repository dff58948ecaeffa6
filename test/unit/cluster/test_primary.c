/* Who is served among several hosts: a table of what was seen and what was known. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "cluster/primary.h"

#define HOSTS 3

static const char *const names[HOSTS] = {"a:1", "b:2", "c:3"};

#define DOWN {.up = false, .err = {.text = "connect failed: Connection refused"}}
#define MUTE {.up = true}
#define REPLICA(system, line) {.up = true, .role = ROLE_REPLICA, .system_id = system, .timeline = line}
#define PRIMARY(system, line) {.up = true, .role = ROLE_PRIMARY, .system_id = system, .timeline = line}
#define SAYS_PRIMARY {.up = true, .role = ROLE_PRIMARY} /* and no more */
#define SAYS_REPLICA {.up = true, .role = ROLE_REPLICA}
#define NEW {0, 0, -1, -1}
/* system, timeline, who it was; -1: not one of these */
#define SERVED(system, line, host) {system, line, host, host}
#define RECOVERING(system, line, host) {system, line, host, -1}

enum { NONE = -1, CONFLICT = -2 };

static const struct row {
	const char *what;
	int n;
	struct sighting seen[HOSTS];
	struct primary_known known;
	int host; /* or NONE, CONFLICT */
	const char *why; /* a part of the text */
} rows[] = {
	/* --- one that is right */
	{"a primary and its replica", 2, {PRIMARY(7, 1), REPLICA(7, 1)}, NEW, 0, NULL},
	{"the same the other way round", 2, {REPLICA(7, 1), PRIMARY(7, 1)}, NEW, 1, NULL},
	{"a primary alone", 1, {PRIMARY(7, 1)}, NEW, 0, NULL},
	{"a primary whose replica is down", 2, {PRIMARY(7, 1), DOWN}, SERVED(7, 1, 0), 0, NULL},
	{"the one that was served, again", 3, {PRIMARY(7, 4), REPLICA(7, 4), REPLICA(7, 4)}, SERVED(7, 4, 0), 0, NULL},
	{"it was promoted in place (a restore to a point in time)", 1, {PRIMARY(7, 5)}, SERVED(7, 4, 0), 0, NULL},

	/* --- promotions */
	{"the old primary is down, a replica was promoted", 2, {DOWN, PRIMARY(7, 2)}, SERVED(7, 1, 0), 1, NULL},
	{"the old primary is a replica now", 2, {REPLICA(7, 2), PRIMARY(7, 2)}, SERVED(7, 1, 0), 1, NULL},
	{"the old primary has not noticed", 2, {PRIMARY(7, 1), PRIMARY(7, 2)}, SERVED(7, 1, 0), 1, NULL},
	{"the old primary is back and has not noticed", 2, {PRIMARY(7, 1), PRIMARY(7, 2)}, SERVED(7, 2, 1), 1, NULL},
	{"three, each promoted in its turn", 3, {PRIMARY(7, 2), PRIMARY(7, 4), PRIMARY(7, 3)}, NEW, 1, NULL},
	{"two left behind on the same timeline", 3, {PRIMARY(7, 2), PRIMARY(7, 2), PRIMARY(7, 3)}, SERVED(7, 2, 0), 2, NULL},
	{"the host that was served is no longer in the list", 2, {PRIMARY(7, 1), REPLICA(7, 1)}, SERVED(7, 1, -1), 0, NULL},

	/* --- none there */
	{"all are down", 2, {DOWN, DOWN}, SERVED(7, 1, 0), NONE, "no host says that it is the primary"},
	{"only a replica", 2, {DOWN, REPLICA(7, 1)}, SERVED(7, 1, 0), NONE, "no host says that it is the primary"},
	{"the only host is down", 1, {DOWN}, SERVED(7, 1, 0), NONE, "a:1: connect failed: Connection refused"},
	{"the only host is a replica", 1, {REPLICA(7, 1)}, SERVED(7, 1, 0), NONE, "a:1 is a replica"},
	{"two replicas: it was switched over, and the other is not promoted yet", 2, {REPLICA(7, 1), REPLICA(7, 1)}, SERVED(7, 1, 0), NONE, NULL},

	/* --- timelines that cannot tell */
	{"two on the same timeline", 2, {PRIMARY(7, 1), PRIMARY(7, 1)}, SERVED(7, 1, 0), CONFLICT, "a:1 and b:2 both say that they are the primary, on the same timeline 1"},
	{"two on the same timeline, and an older one", 3, {PRIMARY(7, 1), PRIMARY(7, 2), PRIMARY(7, 2)}, NEW, CONFLICT, "b:2 and c:3"},
	{"the old primary alone, after a promotion", 2, {PRIMARY(7, 1), DOWN}, SERVED(7, 2, 1), CONFLICT, "there was one on 2 already"},
	{"... in whatever state", 2, {PRIMARY(7, 1), DOWN}, RECOVERING(7, 2, 1), CONFLICT, "there was one on 2 already"},
	{"the old primary, and the new one is its replica now without a new timeline", 2, {PRIMARY(7, 1), REPLICA(7, 1)}, SERVED(7, 2, 1), CONFLICT, NULL},
	{"another host on the timeline of the one that was served: a copy, not promoted", 2, {DOWN, PRIMARY(7, 1)}, SERVED(7, 1, 0), CONFLICT, "it was not promoted"},

	/* --- other systems */
	{"another system beside it", 2, {PRIMARY(7, 1), PRIMARY(8, 1)}, SERVED(7, 1, 0), CONFLICT, "two different systems (system identifiers 7 and 8)"},
	{"another system beside it, on a lower timeline", 2, {PRIMARY(7, 3), PRIMARY(8, 1)}, SERVED(7, 3, 0), CONFLICT, "two different systems"},
	{"another system beside it, on a higher timeline", 2, {PRIMARY(7, 3), PRIMARY(8, 9)}, SERVED(7, 3, 0), CONFLICT, "two different systems"},
	{"another system in its place", 1, {PRIMARY(8, 1)}, SERVED(7, 3, 0), CONFLICT, "primary of another system (system identifier 8, it was 7)"},
	{"another system on a higher timeline in its place", 2, {DOWN, PRIMARY(8, 9)}, SERVED(7, 3, 0), CONFLICT, "another system"},
	{"system identifiers that differ in their high bits", 2, {PRIMARY(7ull << 40, 1), PRIMARY(7ull << 41, 2)}, NEW, CONFLICT, "different systems"},

	/* --- who does not say on which timeline */
	{"a primary without a timeline, the first ever", 2, {SAYS_PRIMARY, SAYS_REPLICA}, NEW, 0, NULL},
	{"the one that was served does not say any more", 2, {SAYS_PRIMARY, SAYS_REPLICA}, SERVED(7, 2, 0), 0, NULL},
	{"another one does not say", 2, {DOWN, SAYS_PRIMARY}, SERVED(7, 2, 0), CONFLICT, "not on which timeline"},
	{"another one, and timelines were never known", 2, {SAYS_REPLICA, SAYS_PRIMARY}, SERVED(0, 0, 0), 1, NULL},
	{"two, neither of which says", 2, {SAYS_PRIMARY, SAYS_PRIMARY}, SERVED(0, 0, 0), CONFLICT, "do not say on which timeline"},
	{"two, one of which says", 2, {PRIMARY(7, 2), SAYS_PRIMARY}, SERVED(7, 2, 0), CONFLICT, "do not say on which timeline"},

	/* --- who answers and does not say what it is */
	{"the one that is served is full", 2, {MUTE, REPLICA(7, 1)}, SERVED(7, 1, 0), 0, NULL},
	{"the one that was served is full, and its breaker is open", 2, {MUTE, REPLICA(7, 1)}, RECOVERING(7, 1, 0), NONE, NULL},
	{"another one is full", 2, {DOWN, MUTE}, SERVED(7, 1, 0), NONE, NULL},
	{"the only host is full", 1, {MUTE}, RECOVERING(7, 1, 0), 0, NULL},
	{"the one that is served is full, another was promoted", 2, {MUTE, PRIMARY(7, 2)}, SERVED(7, 1, 0), 1, NULL},
};

static void every_row_of_the_table_comes_out_as_it_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct err why = {0};
		int host = -7;
		enum primary_choice got = primary_choose(r->seen, names, r->n, &r->known, &host, &why);
		enum primary_choice due = r->host >= 0 ? PRIMARY_FOUND : r->host == NONE ? PRIMARY_NONE : PRIMARY_CONFLICT;

		if (got != due || (got == PRIMARY_FOUND && host != r->host))
			fail_msg("%s: choice %d, host %d, \"%s\"", r->what, got, host, why.text);
		if (got != PRIMARY_FOUND && !why.text[0])
			fail_msg("%s: does not say why", r->what);
		if (r->why && !strstr(why.text, r->why))
			fail_msg("%s: says \"%s\"", r->what, why.text);
	}
}

/* However hosts are numbered, the answer is the same. */
static void the_order_of_hosts_does_not_matter(void **state)
{
	static const int orders[][HOSTS] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t o = 0; o < sizeof(orders) / sizeof(orders[0]); o++) {
			const struct row *r = &rows[i];
			struct sighting seen[HOSTS];
			struct primary_known known = r->known;
			struct err why;
			int host = -7, straight = -7;

			if (r->n != HOSTS && o != 0 && !(r->n == 2 && o == 2))
				continue;
			for (int h = 0; h < r->n; h++) {
				seen[h] = r->seen[orders[o][h]];
				if (r->known.last == orders[o][h])
					known.last = h;
				if (r->known.trusted == orders[o][h])
					known.trusted = h;
			}
			enum primary_choice got = primary_choose(seen, names, r->n, &known, &host, &why);
			enum primary_choice due = primary_choose(r->seen, names, r->n, &r->known, &straight, &why);
			if (got != due || (got == PRIMARY_FOUND && orders[o][host] != straight))
				fail_msg("%s: order %zu", r->what, o);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_of_the_table_comes_out_as_it_says),
		cmocka_unit_test(the_order_of_hosts_does_not_matter),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
