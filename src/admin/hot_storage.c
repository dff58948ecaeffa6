/* What orgs store: hot_storage_query of each cluster that has one, every hot_storage_period, one cluster at a time. The time of the next
 * run is kept by the cluster's name, over reloads; a cluster whose query changed is asked at once. */
#include "admin/hot_priv.h"
#include "base/log.h"
#include "base/mem.h"
#include "proxy/survey.h"
#include "proxy/worker.h"

#define LOOK_EVERY (5 * USEC_PER_SEC)
#define FIRST_AFTER USEC_PER_SEC         /* after the start, and after a change */
#define SURVEY_MOST (600 * USEC_PER_SEC) /* it may take, and never more than a period */

struct due {
	struct list link;
	char *cluster, *query; /* owns */
	bool asked;
	usec_t asked_at;
};

static struct {
	struct heat *heat;
	struct timer timer;
	struct list dues;
	const struct setup *setup; /* compared only: the one that dues were made from */
	struct survey *survey;     /* borrows: the one under way; NULL */
	char *asked;               /* owns: its cluster */
} storage;

static usec_t period(void)
{
	return control->setup->conf->set.hot_storage_period;
}

/* ---- who is due ---- */

static struct due *due_of(const char *cluster)
{
	list_each(link, &storage.dues) {
		struct due *d = list_owner(link, struct due, link);
		if (strcmp(d->cluster, cluster) == 0)
			return d;
	}
	struct due *d = mem_make(struct due);
	d->cluster = mem_str(cluster);
	list_push(&storage.dues, &d->link);
	return d;
}

static void due_free(struct due *d)
{
	list_take(&d->link);
	mem_free(d->cluster);
	mem_free(d->query);
	mem_free(d);
}

static void report_nothing(const char *cluster)
{
	heat_report_end(storage.heat, heat_report_begin(storage.heat, cluster));
}

/* Clusters that are asked no more: what they said goes. */
static void drop_stale(const struct conf *conf)
{
	list_each_safe(link, &storage.dues) {
		struct due *d = list_owner(link, struct due, link);
		const struct conf_cluster *cc = conf_cluster(conf, d->cluster);
		if (cc && cc->hot_storage_query[0])
			continue;
		report_nothing(d->cluster);
		due_free(d);
	}
	for (int i = 0; i < storage.heat->n_clusters; i++) { /* those that the file knew of */
		const struct conf_cluster *cc = conf_cluster(conf, storage.heat->clusters[i]);
		if (!cc || !cc->hot_storage_query[0])
			report_nothing(storage.heat->clusters[i]);
	}
}

static void follow(const struct conf *conf)
{
	drop_stale(conf);
	for (int i = 0; i < conf->n_clusters; i++) {
		const struct conf_cluster *cc = conf->cluster_at[i];
		if (!cc->hot_storage_query[0])
			continue;
		struct due *d = due_of(cc->name);
		if (d->query && strcmp(d->query, cc->hot_storage_query) == 0)
			continue;
		mem_free(d->query);
		d->query = mem_str(cc->hot_storage_query);
		d->asked = false;
	}
}

/* Those that were never asked first, then the one that was asked longest ago. */
static struct due *first_due(usec_t now)
{
	struct due *first = NULL;

	list_each(link, &storage.dues) {
		struct due *d = list_owner(link, struct due, link);
		if (d->asked && now - d->asked_at < period())
			continue;
		if (!first || (first->asked && (!d->asked || d->asked_at < first->asked_at)))
			first = d;
	}
	return first;
}

/* ---- asking ---- */

static void answered(void *arg, const struct survey_answer *a)
{
	(void)arg;
	storage.survey = NULL;
	if (a->err) {
		log_warning("hot_storage_query of cluster %s: %s", storage.asked, a->err->text);
		return;
	}
	int report = heat_report_begin(storage.heat, storage.asked);
	for (size_t i = 0; i < a->n; i++)
		heat_report(storage.heat, report, a->rows[i].org, a->rows[i].bytes);
	heat_report_end(storage.heat, report);
	if (a->ignored)
		log_warning("hot_storage_query of cluster %s: %zu rows are left out, whose org is no id or whose bytes are no number", storage.asked, a->ignored);
	log_debug("hot_storage_query of cluster %s: %zu rows", storage.asked, a->n);
}

/* The one that is named, else the cluster's first by name. */
static const struct conf_entry *entry_for(const struct conf *conf, const struct conf_cluster *cc)
{
	const struct conf_entry *first = NULL;

	if (cc->hot_storage_entry[0]) {
		first = conf_entry(conf, cc->hot_storage_entry);
		return first && first->cluster == cc ? first : NULL;
	}
	hash_each(link, &conf->entries) {
		const struct conf_entry *e = owner_of(link, struct conf_entry, link);
		if (e->cluster == cc && (!first || strcmp(e->name, first->name) < 0))
			first = e;
	}
	return first;
}

static const char *user_for(const struct settings *set, const struct conf_entry *e)
{
	if (e->user)
		return e->user;
	if (set->hot_storage_user[0])
		return set->hot_storage_user;
	return e->auth_user ? e->auth_user : set->auth_user;
}

static void ask(const struct conf *conf, const struct conf_cluster *cc)
{
	const struct conf_entry *e = entry_for(conf, cc);
	const char *user = e ? user_for(&conf->set, e) : "";
	struct survey_question q = {
		.entry = e ? e->name : NULL, .user = user, .query = cc->hot_storage_query, .most = period() < SURVEY_MOST ? period() : SURVEY_MOST,
		.rows_most = (size_t)conf->set.max_orgs,
	};

	if (!e) {
		log_warning("hot_storage_query of cluster %s: hot_storage_entry is no entry of it", cc->name);
		return;
	}
	if (!user[0]) {
		log_warning("hot_storage_query of cluster %s: entry %s has no user, and hot_storage_user and auth_user are empty", cc->name, e->name);
		return;
	}
	mem_free(storage.asked);
	storage.asked = mem_str(cc->name);
	storage.survey = survey_start(control->loop, &q, answered, NULL);
}

static void look(struct timer *t)
{
	const struct conf *conf = control->setup->conf;
	usec_t now = loop_now(control->loop);

	timer_in(t, period() < LOOK_EVERY ? period() : LOOK_EVERY);
	if (storage.survey || atomic_load(&process_stage) != STAGE_RUNNING)
		return;
	if (storage.setup != control->setup) {
		storage.setup = control->setup;
		follow(conf);
	}
	struct due *d = first_due(now);
	if (!d)
		return;
	d->asked = true;
	d->asked_at = now;
	ask(conf, conf_cluster(conf, d->cluster));
}

void hot_storage_start(struct heat *h)
{
	storage.heat = h;
	list_init(&storage.dues);
	timer_init(&storage.timer, control->loop, look);
	timer_in(&storage.timer, FIRST_AFTER);
}

void hot_storage_stop(void)
{
	timer_stop(&storage.timer);
	survey_forget(&storage.survey);
	list_each_safe(link, &storage.dues)
		due_free(list_owner(link, struct due, link));
	mem_free(storage.asked);
	storage.asked = NULL;
}
