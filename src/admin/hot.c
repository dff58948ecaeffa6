/* See admin/hot.h. A period: a round of admin/collect, which notes what orgs did; then, in slices, the judgement; now and then the file. */
#include "admin/hot_priv.h"

#include "admin/collect.h"
#include "base/clock.h"
#include "base/log.h"

#define ORGS_AT_ONCE 512
#define SAVE_EVERY (300 * USEC_PER_SEC)

static struct {
	bool started;
	struct timer period;
	bool busy;         /* a period's work is under way */
	struct later later;
	size_t step;
	usec_t saved_at;   /* by the loop's clock */
	struct log_limit limit;
} hot;

const struct heat *hot_heat(void)
{
	return &picture.heat;
}

const char *hot_verdict(const struct heat_org *o)
{
	if (!o || !o->since)
		return NULL;
	return o->hot ? "hot" : "ok";
}

static void add_measure(struct buf *text, const struct heat *h, const struct heat_org *o, enum heat_measure m)
{
	if (heat_value(o, HEAT_1M, m) < 0)
		return;
	buf_add_fmt(text, "%s %s=%.*f ratio=%.1f %s", m ? "," : "", heat_measure_name(m), m == HEAT_SLOTS ? 3 : 0, heat_value(o, HEAT_1M, m),
		    heat_ratio(h, o, HEAT_1M, m), heat_severity_name((enum heat_severity)o->severity[HEAT_1M][m]));
}

static void log_change(const struct heat *h, const struct heat_org *o)
{
	const struct conf_org *line = conf_org(control->setup->conf, o->id);
	struct buf text = {0};

	buf_add_fmt(&text, "org %s", o->id);
	if (line && line->name)
		buf_add_fmt(&text, " (%s)", line->name);
	buf_add_fmt(&text, " is hot%s:", o->hot ? "" : " no more");
	for (int m = 0; m < HEAT_MEASURES; m++)
		add_measure(&text, h, o, (enum heat_measure)m);
	buf_add_u8(&text, 0);
	log_limited(&hot.limit, LOG_WARNING_, NULL, "%s", (const char *)text.p);
	buf_free(&text);
}

/* ---- a period's work ---- */

static bool begin(void)
{
	const struct settings *set = &control->setup->conf->set;
	const double floors[HEAT_MEASURES] = {
		[HEAT_QUERIES] = set->hot_floor_queries, [HEAT_SLOTS] = set->hot_floor_slots, [HEAT_STORAGE] = (double)set->hot_floor_storage,
	};

	heat_judge_begin(&picture.heat, floors);
	return false;
}

static bool measure(void)
{
	return heat_measure_some(&picture.heat, picture.wall, ORGS_AT_ONCE);
}

static bool weigh(void)
{
	heat_weigh(&picture.heat);
	return false;
}

static bool decide(void)
{
	return heat_decide_some(&picture.heat, picture.wall, ORGS_AT_ONCE, log_change);
}

static bool forget(void)
{
	heat_forget(&picture.heat, picture.wall, control->setup->conf->set.max_orgs);
	return false;
}

static bool saves; /* ... in this period */

static bool save_begin(void)
{
	usec_t now = loop_now(control->loop);

	saves = now - hot.saved_at >= SAVE_EVERY && hot_file_begin(&picture.heat, picture.wall);
	if (saves)
		hot.saved_at = now;
	return false;
}

static bool save(void)
{
	return saves && hot_file_some(&picture.heat);
}

static bool (*const steps[])(void) = {begin, measure, weigh, decide, forget, save_begin, save};
#define N_STEPS (sizeof(steps) / sizeof(steps[0]))

static void next_slice(struct later *w)
{
	bool more = steps[hot.step]();

	if (!more)
		hot.step = (hot.step + 1) % N_STEPS;
	if (more || hot.step)
		loop_later(control->loop, w);
	else
		hot.busy = false;
}

static void collected(void *arg)
{
	(void)arg;
	if (hot.started)
		loop_later(control->loop, &hot.later);
}

static void period_over(struct timer *t)
{
	timer_in(t, control->setup->conf->set.hot_period);
	if (hot.busy)
		return;
	hot.busy = true;
	collect_now(collected, NULL);
}

/* ---- start and stop ---- */

void hot_start(void)
{
	hot.started = true;
	hot.saved_at = loop_now(control->loop);
	hot_file_load(&picture.heat, collect_wall());
	later_init(&hot.later, next_slice);
	timer_init(&hot.period, control->loop, period_over);
	timer_in(&hot.period, 0); /* what the file says is judged at once */
	hot_storage_start(&picture.heat);
}

void hot_stop(void)
{
	hot.started = false;
	timer_stop(&hot.period);
	later_stop(&hot.later);
	hot_storage_stop();
	hot_file_stop();
	hot_file_now(&picture.heat, collect_wall());
}
