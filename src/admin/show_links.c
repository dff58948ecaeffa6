/* SHOW CLIENTS, SERVERS, SOCKETS and ACTIVE_SOCKETS: one row per connection, written by the loop that it lives on. */
#include <stdio.h>

#include "admin/show_priv.h"
#include "base/clock.h"
#include "net/tls.h"
#include "proxy/inventory.h"
#include "proxy/worker.h"

#define PEER_COLUMNS \
	{"type", COL_TEXT}, {"user", COL_TEXT}, {"database", COL_TEXT}, {"replication", COL_TEXT}, {"state", COL_TEXT}, {"addr", COL_TEXT}, {"port", COL_INT4}, \
	{"local_addr", COL_TEXT}, {"local_port", COL_INT4}, {"connect_time", COL_TEXT}, {"request_time", COL_TEXT}, {"wait", COL_INT4}, {"wait_us", COL_INT4}, \
	{"close_needed", COL_INT4}, {"ptr", COL_TEXT}, {"link", COL_TEXT}, {"remote_pid", COL_INT4}, {"tls", COL_TEXT}, {"application_name", COL_TEXT}, \
	{"prepared_statements", COL_INT4}, {"id", COL_INT4}

static const struct column peer_columns[] = {PEER_COLUMNS, {"org", COL_TEXT}, {"pinned", COL_TEXT}};
static const struct column socket_columns[] = {
	PEER_COLUMNS,
	{"recv_pos", COL_INT4}, {"pkt_pos", COL_INT4}, {"pkt_remain", COL_INT4}, {"send_pos", COL_INT4}, {"send_remain", COL_INT4},
	{"pkt_avail", COL_INT4}, {"send_avail", COL_INT4}, {"org", COL_TEXT}, {"pinned", COL_TEXT},
};
const struct columns columns_links = COLUMNS_OF(peer_columns);
const struct columns columns_sockets = COLUMNS_OF(socket_columns);

/* What both kinds have. */
struct link_row {
	const char *type, *user, *database, *state, *application_name, *org;
	const struct stream *stream;
	const struct addr *addr;
	usec_t connected_at, request_at, waiting_since;
	bool close_needed;
	uint64_t id, linked_id; /* 0: not linked */
	int remote_pid;
	size_t statements;
	uint32_t pass_left;
	unsigned ties;
};

static void row_address(struct row *r, const struct addr *a, int unix_port)
{
	char host[ADDR_TEXT];

	if (!a || !a->len) {
		row_text(r, NULL);
		row_int(r, 0);
	} else if (addr_is_unix(a)) {
		row_text(r, "unix");
		row_int(r, unix_port);
	} else {
		addr_print_host(a, host);
		row_text(r, host);
		row_int(r, addr_port(a));
	}
}

static void row_time(struct row *r, usec_t at, usec_t now)
{
	char text[32];

	clock_print(clock_wall() - (now - at), text);
	row_text(r, text);
}

/* Connections are told apart by numbers that never come again; the form is that of PgBouncer's pointers. */
static void row_ptr(struct row *r, uint64_t id)
{
	char text[32] = "";

	if (id)
		snprintf(text, sizeof(text), "0x%llx", (unsigned long long)id);
	row_text(r, text);
}

static void row_tls(struct row *r, const struct stream *s)
{
	char text[64] = "";

	if (s->tls)
		tls_print(s->tls, text);
	row_text(r, text);
}

static void row_buffers(struct row *r, const struct link_row *l)
{
	row_int(r, 0);
	row_int(r, 0);
	row_int(r, l->pass_left);
	row_int(r, 0);
	row_int(r, 0);
	row_int(r, (int64_t)stream_left(l->stream).len);
	row_int(r, (int64_t)stream_backlog(l->stream));
}

static void put(struct worker *w, struct buf *out, const struct columns *columns, const struct link_row *l)
{
	usec_t now = loop_now(w->loop);
	int port = w->setup->conf->set.listen_port;
	usec_t wait = l->waiting_since ? now - l->waiting_since : 0;
	bool unix_peer = l->addr->len && addr_is_unix(l->addr);
	struct addr self = {0};
	bool has_self = l->stream->fd >= 0 && addr_of_self(&self, l->stream->fd);
	char ties[TIES_TEXT];
	struct row r;

	row_begin(&r, out, columns->n);
	row_text(&r, l->type);
	row_text(&r, l->user);
	row_text(&r, l->database);
	row_text(&r, "none");
	row_text(&r, l->state);
	row_address(&r, l->addr, port);
	row_address(&r, unix_peer ? l->addr : has_self ? &self : NULL, port);
	row_time(&r, l->connected_at, now);
	row_time(&r, l->request_at ? l->request_at : l->connected_at, now);
	row_int(&r, wait / USEC_PER_SEC);
	row_int(&r, wait % USEC_PER_SEC);
	row_int(&r, l->close_needed);
	row_ptr(&r, l->id);
	row_ptr(&r, l->linked_id);
	row_int(&r, l->remote_pid);
	row_tls(&r, l->stream);
	row_text(&r, l->application_name ? l->application_name : "");
	row_int(&r, (int64_t)l->statements);
	row_int(&r, (int64_t)l->id);
	if (columns == &columns_sockets)
		row_buffers(&r, l);
	row_text(&r, l->org);
	inventory_print_ties(l->ties, ties);
	row_text(&r, ties);
	row_end(&r);
}

/* ---- clients ---- */

static const char *guc_text(const struct gucs *g, int i)
{
	return i >= 0 && g->at[i] ? g->at[i]->text : NULL;
}

static int name_of_application(const struct worker *w)
{
	static const char name[] = "application_name";
	return setup_guc(w->setup, name, sizeof(name) - 1);
}

static const char *client_state_shown(const struct client *c)
{
	return c->console && c->console->busy ? "active" : client_state_name(c);
}

static void put_client(struct worker *w, struct buf *out, const struct columns *columns, const struct client *c)
{
	const char *application_name = c->console ? c->application_name : guc_text(&c->gucs, name_of_application(w));
	int pid = 0;
	unsigned uid;

	if (addr_is_unix(&c->addr) && c->stream.fd >= 0)
		addr_unix_peer(c->stream.fd, &pid, &uid);
	put(w, out, columns, &(struct link_row){
		.type = "C", .user = c->user, .database = c->console ? CONSOLE_DATABASE : c->database, .state = client_state_shown(c),
		.application_name = application_name, .org = c->org ? c->org->id : NULL, .stream = &c->stream, .addr = &c->addr,
		.connected_at = c->connected_at, .request_at = c->query_at > c->request_at ? c->query_at : c->request_at,
		.waiting_since = c->state == CLIENT_WAIT ? c->waiter.since : 0, .id = c->id, .linked_id = c->server ? c->server->id : 0,
		.remote_pid = pid, .statements = stmt_names_count(&c->stmts), .pass_left = c->pass_left, .ties = c->ties,
	});
}

static void put_clients(struct worker *w, struct buf *out, const struct columns *columns, enum client_state state)
{
	list_each(link, &w->clients[state])
		put_client(w, out, columns, list_owner(link, struct client, link));
}

void ask_clients(struct worker *w, struct buf *out)
{
	for (int state = CLIENT_IDLE; state < CLIENT_CLOSING; state++)
		put_clients(w, out, &columns_links, (enum client_state)state);
}

/* ---- servers ---- */

static void put_server(struct worker *w, struct buf *out, const struct columns *columns, const struct server *s)
{
	const struct client *c = s->asker ? NULL : s->user;
	const char *application_name = guc_text(&s->gucs, name_of_application(w));

	put(w, out, columns, &(struct link_row){
		.type = "S", .user = s->target->user->name, .database = s->target->entry->name, .state = server_state_name(s->state),
		.application_name = application_name, .org = s->pool->flow->key, .stream = &s->stream, .addr = &s->addr,
		.connected_at = s->opened_at, .request_at = s->request_at, .close_needed = s->stale, .id = s->id, .linked_id = c ? c->id : 0,
		.remote_pid = (int)s->pid, .statements = stmt_set_count(&s->stmts), .pass_left = s->pass_left,
		.ties = c ? c->ties : 0,
	});
}

static void put_state_of_pool(struct worker *w, struct buf *out, const struct columns *columns, struct pool *p, enum server_state state)
{
	list_each(link, &p->servers[state])
		put_server(w, out, columns, list_owner(link, struct server, link));
}

typedef void (*pool_fn)(struct worker *w, struct buf *out, struct pool *p);

static void each_pool(struct worker *w, struct buf *out, pool_fn fn)
{
	hash_each(at, &w->lanes) {
		struct lane *l = owner_of(at, struct lane, link);
		hash_each(link, &l->pools)
			fn(w, out, owner_of(link, struct pool, link));
	}
}

static void pool_servers(struct worker *w, struct buf *out, struct pool *p)
{
	for (int state = SERVER_DIAL; state < SERVER_CLOSING; state++)
		put_state_of_pool(w, out, &columns_links, p, (enum server_state)state);
}

static void pool_sockets(struct worker *w, struct buf *out, struct pool *p)
{
	for (int state = SERVER_DIAL; state < SERVER_CLOSING; state++)
		put_state_of_pool(w, out, &columns_sockets, p, (enum server_state)state);
}

static void pool_active(struct worker *w, struct buf *out, struct pool *p)
{
	put_state_of_pool(w, out, &columns_sockets, p, SERVER_ACTIVE);
}

void ask_servers(struct worker *w, struct buf *out)
{
	each_pool(w, out, pool_servers);
}

/* ---- sockets: both, and clients that log in ---- */

void ask_sockets(struct worker *w, struct buf *out)
{
	for (int state = CLIENT_GREET; state < CLIENT_CLOSING; state++)
		put_clients(w, out, &columns_sockets, (enum client_state)state);
	each_pool(w, out, pool_sockets);
}

void ask_active_sockets(struct worker *w, struct buf *out)
{
	list_each(link, &w->clients[CLIENT_IDLE]) {
		struct client *c = list_owner(link, struct client, link);
		if (c->console && c->console->busy)
			put_client(w, out, &columns_sockets, c);
	}
	put_clients(w, out, &columns_sockets, CLIENT_ACTIVE);
	each_pool(w, out, pool_active);
}
