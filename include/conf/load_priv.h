/* A snapshot that is being made, shared by the files that each read one section. */
#pragma once

#include "conf/conf.h"
#include "conf/field_priv.h"
#include "conf/rows_priv.h"

/* Keys that the files use but that are not built yet: one warning each, however many lines have it. */
struct unbuilt {
	struct list link;
	char *what;        /* owns: "[orgs] tx_rate" */
	char *file;        /* owns: where it was seen first */
	int line;
	unsigned long more; /* further lines */
};

struct load {
	struct conf *conf;
	struct conf_report *report;
	struct list unbuilt;
};

void load_error(struct load *l, const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void load_warning(struct load *l, const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void load_unbuilt(struct load *l, const struct row *row, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void load_unknown(struct load *l, const struct row *row, const char *what, const char *name, const char *near);

/* What the files of the sections offer to load.c. A *_row reads one line; a *_end is called when all lines were. */
void clusters_row(struct load *l, const struct row *row);
void databases_row(struct load *l, const struct row *row);
void databases_end(struct load *l);
void users_row(struct load *l, const struct row *row);
void orgs_begin(struct load *l);
void orgs_row(struct load *l, const struct row *row);
void orgs_end(struct load *l);
void routes_row(struct load *l, const struct row *row);
void routes_end(struct load *l);
void peers_row(struct load *l, const struct row *row);
void userlist_load(struct load *l, const char *path);
void userlist_copy(struct conf *to, const struct conf *from);

/* Makes the cluster of a comma list of hosts, or finds the one that an earlier line with the same hosts made. NULL and err. */
struct conf_cluster *cluster_implicit(struct load *l, const char *hosts, const char *ports, struct err *err);

/* "a, [::1]:5433, /dir" to hosts that the caller owns. false and err. */
bool hosts_read(const char *text, int port, struct conf_host **out, int *n, struct err *err);
bool control_read(const char *text, struct conf_control *out, struct err *err); /* control.c */
void control_clear(struct conf_control *c);
bool port_read(const char *text, int *out, struct err *err);
void hosts_free(struct conf_host **hosts, int n);

/* Freers of what a snapshot owns, for conf.c. */
void cluster_free(struct conf_cluster *c);
void user_free(struct conf_user *u);
void org_clear(struct conf_org *o);
void org_free(struct conf_org *o);
void bindings_free(struct hash *bindings);
void route_free(struct conf_route *r);
void conf_login_free(struct conf_login *login);
void peer_free(struct conf_peer *p);

void overrides_clear(struct overrides *over); /* nothing set */

/* A whole new snapshot with no sections and a count of 1. */
struct conf *conf_new(const char *file);
