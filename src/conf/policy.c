/* Inheritance: each value that holds for an entry, a user and an org, taken from the org, else the user, else the
 * entry, else the process. Caps (max_...) of all of them hold together. Pure. */
#include <string.h>

#include "conf/conf.h"

/* The levels, the first that says something wins. An org without a line of its own has the star's. */
struct levels {
	const struct conf_org *org; /* NULL: no line of its own */
	const struct conf_org *star;
	const struct overrides *over[4];
	int n;
};

#define PICK(levels, field, process) \
	({ \
		__typeof__((levels)->over[0]->field + 0) picked_ = (process); \
		for (int i_ = (levels)->n - 1; i_ >= 0; i_--) \
			if ((levels)->over[i_]->field >= 0) \
				picked_ = (levels)->over[i_]->field; \
		picked_; \
	})

/* An org's own value, else the star's, else the last. */
#define PICK_ORG(levels, field, otherwise) \
	((levels)->org && (levels)->org->field >= 0 ? (levels)->org->field : (levels)->star->field >= 0 ? (levels)->star->field : (otherwise))

#define RATE_WAIT USEC_PER_SEC /* unless set */

/* Lowers *n to a cap; 0 is no cap. */
static void cap(int *n, int most)
{
	if (most > 0 && *n > most)
		*n = most;
}

static struct levels levels_of(const struct conf *c, const struct conf_entry *e, const struct conf_user *u, const char *org)
{
	struct levels l = {.star = &c->org_star};

	l.org = conf_org(c, org && *org ? org : "default");
	if (l.org)
		l.over[l.n++] = &l.org->over;
	l.over[l.n++] = &l.star->over;
	if (u)
		l.over[l.n++] = &u->over;
	if (e)
		l.over[l.n++] = &e->over;
	return l;
}

void conf_policy(const struct conf *c, const struct conf_entry *e, const char *user, const char *org, struct policy *out)
{
	const struct settings *set = &c->set;
	const struct conf_user *u = user ? conf_user(c, user) : NULL;
	struct levels l = levels_of(c, e, u, org);

	*out = (struct policy){
		.pool_size = PICK(&l, pool_size, set->default_pool_size),
		.min_pool_size = PICK(&l, min_pool_size, set->min_pool_size),
		.reserve_pool_size = PICK(&l, reserve_pool_size, set->reserve_pool_size),
		.pool_mode = (enum pool_mode)PICK(&l, pool_mode, (int)set->pool_mode),
		.query_timeout = PICK(&l, query_timeout, set->query_timeout),
		.query_wait_timeout = PICK(&l, query_wait_timeout, set->query_wait_timeout),
		.idle_transaction_timeout = PICK(&l, idle_transaction_timeout, set->idle_transaction_timeout),
		.transaction_timeout = PICK(&l, transaction_timeout, set->transaction_timeout),
		.client_idle_timeout = PICK(&l, client_idle_timeout, set->client_idle_timeout),
		.server_lifetime = PICK(&l, server_lifetime, set->server_lifetime),
		.max_user_connections = u && u->max_user_connections >= 0 ? u->max_user_connections : set->max_user_connections,
		.max_user_client_connections = u && u->max_user_client_connections >= 0 ? u->max_user_client_connections : set->max_user_client_connections,
		.max_db_connections = e ? e->max_db_connections : set->max_db_connections,
		.max_db_client_connections = e ? e->max_db_client_connections : set->max_db_client_connections,
		.max_org_clients = PICK_ORG(&l, max_client_conn, 0),
		.max_pinned = PICK_ORG(&l, max_pinned, set->max_pinned),
		.weight = PICK_ORG(&l, weight, 1.0),
		.priority = PICK_ORG(&l, priority, 1),
		.tx_rate = PICK_ORG(&l, tx_rate, 0.0),
		.tx_burst = PICK_ORG(&l, tx_burst, 0.0),
		.conn_rate = PICK_ORG(&l, conn_rate, 0.0),
		.rate_action = (enum rate_action)PICK_ORG(&l, rate_action, (int)RATE_QUEUE),
		.rate_wait = PICK_ORG(&l, rate_wait, RATE_WAIT),
	};
	/* A minimum above a cap would have connections opened only to be closed again, for ever. */
	cap(&out->min_pool_size, out->pool_size);
	cap(&out->min_pool_size, out->max_user_connections);
	cap(&out->min_pool_size, out->max_db_connections);
	cap(&out->min_pool_size, e ? e->cluster->max_server_conn : 0);
}
