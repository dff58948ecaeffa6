/* The tables of SHOW: what shows.c (the mechanism) and the files that fill them (show_*.c) know of each other. The rows are those of
 * shows.def; each name in a row is declared here. */
#pragma once

#include "admin/console_priv.h"
#include "admin/totals_priv.h"
#include "loop/gather.h"
#include "wire/rows.h"

struct worker;

struct columns {
	const struct column *at;
	int n;
};
#define COLUMNS_OF(array) {array, (int)(sizeof(array) / sizeof((array)[0]))}

#define SHOW(name, right, head, ask, tell) extern const struct columns head;
#define SHOW_BY(name, right, head, tell, words) extern const struct columns head;
#include "admin/shows.def"

/* In each loop's thread. Nothing but the worker's own and atomics may be looked at. */
typedef void (*show_ask_fn)(struct worker *w, struct buf *out);
/* In control. */
typedef void (*show_tell_fn)(const struct gather *g, struct buf *out);
/* by: the word behind it; NULL: none. False and err: there is no such word. */
typedef bool (*show_tell_by_fn)(const char *by, struct buf *out, struct err *err);

void ask_pools(struct worker *w, struct buf *out);
void ask_clients(struct worker *w, struct buf *out);
void ask_servers(struct worker *w, struct buf *out);
void ask_sockets(struct worker *w, struct buf *out);
void ask_active_sockets(struct worker *w, struct buf *out);
void ask_counts(struct worker *w, struct buf *out);
void ask_orgs(struct worker *w, struct buf *out);
void ask_routes(struct worker *w, struct buf *out);
void ask_workers(struct worker *w, struct buf *out);

void tell_config(const struct gather *g, struct buf *out);
void tell_databases(const struct gather *g, struct buf *out);
void tell_users(const struct gather *g, struct buf *out);
void tell_version(const struct gather *g, struct buf *out);
void tell_lists(const struct gather *g, struct buf *out);
void tell_mem(const struct gather *g, struct buf *out);
void tell_state(const struct gather *g, struct buf *out);
void tell_peers(const struct gather *g, struct buf *out);
void tell_dns_hosts(const struct gather *g, struct buf *out);
void tell_nothing(const struct gather *g, struct buf *out);
void tell_stats(const struct gather *g, struct buf *out);
void tell_stats_totals(const struct gather *g, struct buf *out);
void tell_stats_averages(const struct gather *g, struct buf *out);
void tell_totals(const struct gather *g, struct buf *out);
void tell_orgs(const struct gather *g, struct buf *out);
void tell_routes(const struct gather *g, struct buf *out);
void tell_clusters(const struct gather *g, struct buf *out);
void tell_fences(const struct gather *g, struct buf *out);

bool tell_hot_orgs(const char *by, struct buf *out, struct err *err);

/* Names that several tables list, sorted; the array is the caller's to free, what it points to lives on. */
int names_of_entries(const struct conf *conf, const char ***out); /* those of the files, and of the * line while in use */
int names_of_users(const struct conf *conf, const char ***out);
int names_of_clusters(const struct conf *conf, const char ***out);
/* The hosts of a cluster as one text: "a,b". NULL: the Unix socket. Returns out. */
const char *hosts_text(const struct conf_cluster *cc, struct buf *out);
/* An IP of a host list is tried in turn only if there are several. */
const char *balance_text(const struct conf_entry *e);
