/* [users]: name = pool_mode=... max_user_connections=... query_timeout=... */
#include <string.h>

#include "base/mem.h"
#include "conf/line_priv.h"

#define USER_MOST 127 /* as PgBouncer */

#define U(name, place, kind, words, flags) KEY_AT(struct conf_user, name, place, kind, words, 0, 0, flags, KEY_BUILT)
static const struct key keys[] = {
	U(pool_mode, over.pool_mode, KIND_WORD, words_pool_mode, 0),
	U(pool_size, over.pool_size, KIND_INT, NULL, FIELD_NEGATIVE_INHERITS),
	U(min_pool_size, over.min_pool_size, KIND_INT, NULL, FIELD_NEGATIVE_INHERITS),
	U(reserve_pool_size, over.reserve_pool_size, KIND_INT, NULL, FIELD_NEGATIVE_INHERITS),
	U(max_user_connections, max_user_connections, KIND_INT, NULL, FIELD_ZERO_INHERITS),
	U(max_user_client_connections, max_user_client_connections, KIND_INT, NULL, FIELD_ZERO_INHERITS),
	/* PgBouncer's rule: 0 takes the next level's value, but a query_wait_timeout of 0 waits for ever. */
	U(query_timeout, over.query_timeout, KIND_SEC, NULL, FIELD_ZERO_INHERITS),
	U(query_wait_timeout, over.query_wait_timeout, KIND_SEC, NULL, 0),
	U(idle_transaction_timeout, over.idle_transaction_timeout, KIND_SEC, NULL, FIELD_ZERO_INHERITS),
	U(transaction_timeout, over.transaction_timeout, KIND_SEC, NULL, FIELD_ZERO_INHERITS),
	U(client_idle_timeout, over.client_idle_timeout, KIND_SEC, NULL, FIELD_ZERO_INHERITS),
};
#undef U

void user_free(struct conf_user *u)
{
	mem_free(u->name);
	mem_free(u);
}

void users_row(struct load *l, const struct row *row)
{
	struct conf_user *u = mem_make(struct conf_user), *old;
	struct line line = {.load = l, .row = row, .keys = keys, .n_keys = sizeof(keys) / sizeof(keys[0]), .into = u};

	u->name = mem_str(row->key);
	u->max_user_connections = u->max_user_client_connections = -1;
	overrides_clear(&u->over);
	line_read(&line);
	if (strlen(u->name) > USER_MOST) {
		load_error(l, row->file, row->line, "[users]: a name is longer than %d bytes", USER_MOST);
		line.bad = true;
	}
	if (line.bad) {
		user_free(u);
		return;
	}
	old = (struct conf_user *)conf_user(l->conf, u->name);
	if (old) {
		hash_take(&l->conf->users, &old->link);
		user_free(old);
	}
	hash_add(&l->conf->users, &u->link, hash_bytes(u->name, strlen(u->name)));
}
