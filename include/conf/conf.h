/* A snapshot of everything the configuration files say: immutable once loaded, counted, read by any thread.
 * A reload makes a whole new one or none. Looked up by name; live objects (pools, orgs, entries) outlive a
 * snapshot and hold names, not pointers into it, or a reference of their own.
 *
 * Inheritance: a value is taken from the org, else the user, else the entry, else the process (conf_policy). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/secret.h"
#include "conf/settings.h"

/* What may be overridden below the process; -1: not set here. */
struct overrides {
	int pool_size, min_pool_size, reserve_pool_size;
	int pool_mode; /* enum pool_mode or -1 */
	usec_t query_timeout, query_wait_timeout, idle_transaction_timeout, transaction_timeout, client_idle_timeout, server_lifetime;
};

struct conf_host {
	char *host; /* owns; name, IP, /dir, @abstract; NULL: the default Unix socket directory */
	int port;
};

/* Where a control store is: control=. */
struct conf_control {
	char *host;          /* owns; NULL: the default unix directory */
	int port;
	char *user, *dbname; /* own */
	struct secret password;
};

/* A line of [clusters], or the implicit one made for entries with the same plain host= and port=. */
struct conf_cluster {
	struct hash_link link;
	char *name;        /* owns; of an implicit one "host:port" ("unix:5432", "a,b:5432") */
	bool implicit;
	struct conf_host *primary; int n_primary;   /* owns */
	struct conf_host *replicas; int n_replicas; /* owns */
	int max_server_conn;  /* 0: no ceiling */
	int max_server_login; /* 0: no bound of ours */
	usec_t priority_max_wait; /* 0: for ever */
	char *org_reset_query;
	enum breaker_mode breaker; /* off for an implicit one */
	int breaker_failures, breaker_probes;
	usec_t breaker_open, probe_interval, probe_timeout;
	char *probe_user, *probe_dbname; /* own; "": none */
	char *fence_exempt_users; /* owns: a comma list */
	struct secret probe_password;
	struct conf_control control; /* user NULL: there is none */
	usec_t fence_lease;
	char *hot_storage_query; /* owns; "": none */
	char *hot_storage_entry; /* owns; "": the first by name */
	int index;            /* 0 .. n_clusters-1, stable only within a snapshot */
};

struct conf_param { /* a server setting of an entry's pool: statement_timeout, work_mem ... and client_encoding, datestyle, timezone, application_name */
	char *name, *value; /* owns */
};

/* A line of [databases]. */
struct conf_entry {
	struct hash_link link;
	char *name;                          /* owns; "*" is not here but in conf->star */
	struct conf_cluster *cluster;        /* borrows the snapshot's */
	char *dbname;                        /* owns; what the server is asked for */
	char *user;                          /* owns; NULL: the client's own */
	struct secret password;
	char *auth_user, *auth_query, *auth_dbname; /* owns; NULL: the process's */
	char *connect_query;                 /* owns; NULL */
	struct conf_param *params; int n_params; /* owns */
	enum balance balance;
	bool prefer_replica;
	char *fallback;                      /* owns; NULL */
	int max_db_connections, max_db_client_connections; /* resolved: 0 = no limit */
	struct overrides over;
	bool automatic;                      /* made from the * line */
};

/* A line of [users]. Settings only: credentials are the userlist's matter. */
struct conf_user {
	struct hash_link link;
	char *name;
	int max_user_connections, max_user_client_connections; /* -1: the process's */
	struct overrides over;
};

/* A line of auth_file. */
struct conf_login {
	struct hash_link link;
	char *name;
	struct secret secret; /* plain, md5... or SCRAM-SHA-256$... */
};

#define ORG_ID_MOST 64

/* Is this the id of an org: 1 to 64 of A-Za-z0-9_.:-? Writes it with a NUL, a UUID in lower case, so that ids compare exactly. */
bool org_id_make(const char *text, size_t len, char out[ORG_ID_MOST + 1]);

/* A line of [orgs]; conf->org_star holds the defaults of "*". */
struct conf_org {
	struct hash_link link;
	char id[ORG_ID_MOST + 1];
	char *name;                     /* owns; NULL: none */
	char **users; int n_users;      /* owns; bound users */
	struct overrides over;
	int max_client_conn;            /* -1: the star's, 0: no limit */
	double tx_rate, tx_burst, conn_rate; /* -1: the star's; 0: no limit */
	int rate_action;                /* enum rate_action or -1 */
	usec_t rate_wait;
	double weight;                  /* -1: the star's; default 1 */
	int priority;                   /* -1; 0 high, 1 normal, 2 low */
	int max_pinned;
};

#define ROUTE_NAME_MOST 63

/* A line of [routes]: what has all that it asks for goes to another entry. */
struct conf_route {
	char *name;                    /* owns */
	char org[ORG_ID_MOST + 1];     /* the id, also where the line has a name; "": any */
	char *application_name;        /* owns; as fnmatch(3) has it; NULL: any */
	char *user, *entry;            /* own; the client's, and what it asked for; NULL: any */
	char *to;                      /* owns: a line of [databases] */
	int place;                     /* 0 .. n_routes-1: the first that matches wins */
	struct hash_link link;         /* in routes_by_org: the first of its org */
	const struct conf_route *next; /* borrows: the next one of the same org, or of none */
};

struct conf_peer {
	struct list link;
	int id; char *host; int port; int pool_size;
};

struct conf {
	atomic_int refs;
	char *file;                /* owns: path of the main file */
	bool pgbouncer;            /* the heading was [pgbouncer]: its defaults and behaviours */
	struct settings set;
	struct hash entries;       /* conf_entry by name */
	struct conf_entry *star;   /* owns; NULL: no * line */
	struct hash clusters;      /* conf_cluster by name; conf->cluster_at has them by index */
	struct conf_cluster **cluster_at; int n_clusters;
	struct hash users;
	struct hash logins;
	struct hash orgs;
	struct conf_org org_star;
	struct conf_route **routes; int n_routes; /* own: in the order of the file */
	struct hash routes_by_org;
	const struct conf_route *routes_of_any; /* borrows: those that ask for no org */
	bool routes_by_name;       /* one of them looks at application_name */
	struct hash bindings;      /* user name to the orgs it is bound to; see conf_bound */
	struct list peers;
	unsigned long serial;      /* grows with each load */
	struct rows *rows;         /* ref: the lines of the files, from which conf_with makes its copy */
};

/* Problems found while loading: all of them, one per line, each with file and line. */
struct conf_report {
	struct buf errors;   /* owns: text lines; not empty: nothing was loaded */
	struct buf warnings; /* owns */
};
void conf_report_free(struct conf_report *r);

/* Reads the file, what it includes and the files it names (auth_file). NULL when there is any error. Never prints.
 * What the console SET since the last load is gone with a new one, as with PgBouncer. */
struct conf *conf_load(const char *path, struct conf_report *r);
struct conf *conf_load_text(const char *text, struct conf_report *r); /* for tests: the main file's text; file names are "test.ini" */
/* A copy with one setting changed: the console's SET. NULL and err: unknown or bad value. */
struct conf *conf_with(const struct conf *c, const char *name, const char *value, struct err *err);
struct conf *conf_ref(struct conf *c);
void conf_drop(struct conf **c);

const struct conf_entry *conf_entry(const struct conf *c, const char *name); /* exact lines only; NULL */
/* The * line applied to a name: a new entry that the caller owns; its cluster is the snapshot's. NULL: there is no * line. */
struct conf_entry *conf_entry_make(const struct conf *c, const char *name);
void conf_entry_free(struct conf_entry **e);
const struct conf_cluster *conf_cluster(const struct conf *c, const char *name);
/* All hosts of a cluster in one row: those of primary=, then those of replicas=. */
static inline const struct conf_host *conf_cluster_host(const struct conf_cluster *c, int i) { return i < c->n_primary ? &c->primary[i] : &c->replicas[i - c->n_primary]; }
const struct conf_user *conf_user(const struct conf *c, const char *name);   /* NULL: no line */
const struct conf_login *conf_login(const struct conf *c, const char *name); /* NULL: not in auth_file */
const struct conf_org *conf_org(const struct conf *c, const char *id);       /* NULL: no line of its own */
/* By id, else by name=; NULL: no line has it. *several: the name is that of more than one. */
const struct conf_org *conf_org_named(const struct conf *c, const char *text, bool *several);
/* The orgs a user is bound to: fills up to `most`, returns how many there are in all; 0: unbound. */
int conf_bound(const struct conf *c, const char *user, const struct conf_org **out, int most);
bool conf_is_admin(const struct conf *c, const char *user); /* admin_users */
bool conf_is_stats(const struct conf *c, const char *user); /* stats_users; admins are not counted */
bool conf_in_list(const char *comma_list, const char *name); /* exact, blanks around names do not count */
bool conf_in_list_fold(const char *comma_list, const char *name); /* without case */

/* All values that hold for one (entry, user, org), each resolved once. */
struct policy {
	int pool_size, min_pool_size, reserve_pool_size;
	enum pool_mode pool_mode;
	usec_t query_timeout, query_wait_timeout, idle_transaction_timeout, transaction_timeout, client_idle_timeout, server_lifetime;
	int max_user_connections, max_user_client_connections; /* 0: no limit */
	int max_db_connections, max_db_client_connections;     /* 0: no limit */
	int max_org_clients;                                   /* 0: no limit */
	int max_pinned;                                        /* 0: no limit */
	double weight;
	int priority;                                          /* 0 high, 1 normal, 2 low */
	double tx_rate, conn_rate;                             /* per second; 0: no limit */
	double tx_burst;                                       /* 0 or less: a second's worth */
	enum rate_action rate_action;
	usec_t rate_wait;
};
void conf_policy(const struct conf *c, const struct conf_entry *e, const char *user, const char *org, struct policy *out);
