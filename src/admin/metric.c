/* How Prometheus's text format writes names, values and labels (Exposition formats, text-based format 0.0.4; naming by its "Metric and label
 * naming"). Pure; the page is metrics.c's. */
#include <inttypes.h>
#include <string.h>

#include "admin/metrics_priv.h"
#include "base/figure.h"

static const char *unit_name(int unit)
{
	switch ((enum figure_unit)unit) {
	case FIGURE_BYTES:
		return "_bytes";
	case FIGURE_USEC:
	case FIGURE_SECONDS:
		return "_seconds";
	case FIGURE_PERMILLE:
		return "_ratio";
	case FIGURE_COUNT:
	case FIGURE_MILLI:
		break;
	}
	return "";
}

/* Fields of microseconds say so at their end; the metric's unit stands there instead. */
static size_t bare_length(const char *name, int unit)
{
	size_t len = strlen(name);

	return unit == FIGURE_USEC && len > 3 && strcmp(name + len - 3, "_us") == 0 ? len - 3 : len;
}

void metric_name(struct buf *out, const char *scope, const char *name, int kind, int unit)
{
	buf_add_fmt(out, "%s_%.*s%s%s", scope, (int)bare_length(name, unit), name, unit_name(unit), kind == FIGURE_COUNTER ? "_total" : "");
}

static void fraction(struct buf *out, int64_t v, int64_t one, int digits)
{
	if (v % one == 0)
		buf_add_fmt(out, "%" PRId64, v / one);
	else
		buf_add_fmt(out, "%s%" PRId64 ".%0*" PRId64, v < 0 ? "-" : "", v < 0 ? -(v / one) : v / one, digits, v < 0 ? -(v % one) : v % one);
}

void metric_value(struct buf *out, int64_t v, int unit)
{
	switch ((enum figure_unit)unit) {
	case FIGURE_USEC:
		fraction(out, v, USEC_PER_SEC, 6);
		return;
	case FIGURE_PERMILLE:
	case FIGURE_MILLI:
		fraction(out, v, 1000, 3);
		return;
	case FIGURE_COUNT:
	case FIGURE_BYTES:
	case FIGURE_SECONDS:
		break;
	}
	buf_add_fmt(out, "%" PRId64, v);
}

/* Length of the well-formed sequence of UTF-8 at p (RFC 3629, section 4), which ends with a NUL; 0: there is none. */
static size_t utf8_length(const uint8_t *p)
{
	uint8_t least = 0x80, most = 0xBF; /* of the second byte */
	size_t more;

	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xC2 && p[0] <= 0xDF)
		more = 1;
	else if (p[0] >= 0xE0 && p[0] <= 0xEF)
		more = 2;
	else if (p[0] >= 0xF0 && p[0] <= 0xF4)
		more = 3;
	else
		return 0;
	if (p[0] == 0xE0)
		least = 0xA0;
	else if (p[0] == 0xED)
		most = 0x9F;
	else if (p[0] == 0xF0)
		least = 0x90;
	else if (p[0] == 0xF4)
		most = 0x8F;
	if (p[1] < least || p[1] > most)
		return 0;
	for (size_t i = 2; i <= more; i++)
		if ((p[i] & 0xC0) != 0x80)
			return 0;
	return more + 1;
}

void metric_label(struct buf *out, const char *text)
{
	const uint8_t *p = (const uint8_t *)text;

	buf_add_u8(out, '"');
	while (*p) {
		size_t len = utf8_length(p);
		if (len == 0)
			buf_add_fmt(out, "\\\\x%02X", *p);
		else if (*p == '"' || *p == '\\')
			buf_add_fmt(out, "\\%c", *p);
		else if (*p == '\n')
			buf_add_str(out, "\\n");
		else
			buf_add(out, p, len);
		p += len ? len : 1;
	}
	buf_add_u8(out, '"');
}
