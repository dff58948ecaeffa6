/* [peers]: id = host=... port=... pool_size=... */
#include "base/mem.h"
#include "base/num.h"
#include "conf/line_priv.h"

static const struct key keys[] = {
	KEY(struct conf_peer, host, KIND_STR, NULL, 0, 0, 0, KEY_BUILT),
	KEY(struct conf_peer, port, KIND_INT, NULL, 1, 65535, 0, KEY_BUILT),
	KEY(struct conf_peer, pool_size, KIND_INT, NULL, 0, 0, FIELD_NEGATIVE_INHERITS, KEY_BUILT),
};

void peer_free(struct conf_peer *p)
{
	list_take(&p->link);
	mem_free(p->host);
	mem_free(p);
}

static void keep(struct conf *conf, struct conf_peer *p)
{
	list_each_safe(at, &conf->peers) {
		struct conf_peer *old = list_owner(at, struct conf_peer, link);

		if (old->id == p->id)
			peer_free(old);
	}
	list_push(&conf->peers, &p->link);
}

void peers_row(struct load *l, const struct row *row)
{
	struct conf_peer *p = mem_make(struct conf_peer);
	struct line line = {.load = l, .row = row, .keys = keys, .n_keys = sizeof(keys) / sizeof(keys[0]), .into = p};
	int64_t id;

	list_init(&p->link);
	p->port = 6432;
	p->pool_size = -1;
	line_read(&line);
	load_unbuilt(l, row, "[peers]");
	if (!num_i64(row->key, &id) || id < 1 || id > 65535) {
		load_error(l, row->file, row->line, "[peers] %.64s: a peer's name is its peer_id, 1 to 65535", row->key);
		line.bad = true;
	} else if (!line.bad && !(p->host && *p->host)) {
		load_error(l, row->file, row->line, "[peers] %.64s: a peer needs host=", row->key);
		line.bad = true;
	}
	if (line.bad) {
		peer_free(p);
		return;
	}
	p->id = (int)id;
	keep(l->conf, p);
}
