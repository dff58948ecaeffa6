/* Names, values and labels of Prometheus's text format, as its documentation has them (Exposition formats; Metric and label naming). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "admin/metrics_priv.h"
#include "base/figure.h"

static void text_is(struct buf *b, const char *text)
{
	buf_add_u8(b, 0);
	assert_string_equal((const char *)b->p, text);
	buf_free(b);
}

static void name_is(const char *name, int kind, int unit, const char *text)
{
	struct buf b = {0};

	metric_name(&b, "pgweir_org", name, kind, unit);
	text_is(&b, text);
}

static void value_is(int64_t v, int unit, const char *text)
{
	struct buf b = {0};

	metric_value(&b, v, unit);
	text_is(&b, text);
}

static void label_is(const char *value, const char *text)
{
	struct buf b = {0};

	metric_label(&b, value);
	text_is(&b, text);
}

static void a_name_ends_in_its_unit_and_a_counter_in_total(void **state)
{
	(void)state;
	name_is("clients", FIGURE_GAUGE, FIGURE_COUNT, "pgweir_org_clients");
	name_is("queries", FIGURE_COUNTER, FIGURE_COUNT, "pgweir_org_queries_total");
	name_is("xact_us", FIGURE_COUNTER, FIGURE_USEC, "pgweir_org_xact_seconds_total");
	name_is("maxwait", FIGURE_GAUGE, FIGURE_USEC, "pgweir_org_maxwait_seconds");
	name_is("us", FIGURE_GAUGE, FIGURE_USEC, "pgweir_org_us_seconds");
	name_is("sent", FIGURE_COUNTER, FIGURE_BYTES, "pgweir_org_sent_bytes_total");
	name_is("pool_use", FIGURE_GAUGE, FIGURE_PERMILLE, "pgweir_org_pool_use_ratio");
}

static void times_are_in_seconds_and_shares_of_one(void **state)
{
	(void)state;
	value_is(0, FIGURE_USEC, "0");
	value_is(1, FIGURE_USEC, "0.000001");
	value_is(2000000, FIGURE_USEC, "2");
	value_is(61500000, FIGURE_USEC, "61.500000");
	value_is(700, FIGURE_PERMILLE, "0.700");
	value_is(1000, FIGURE_PERMILLE, "1");
	value_is(12345, FIGURE_PERMILLE, "12.345");
	value_is(-1500, FIGURE_PERMILLE, "-1.500");
	value_is(INT64_MAX, FIGURE_BYTES, "9223372036854775807");
}

static void labels_are_escaped(void **state)
{
	(void)state;
	label_is("11111111-1111:a.b_c", "\"11111111-1111:a.b_c\"");
	label_is("a\"b\\c\nd", "\"a\\\"b\\\\c\\nd\"");
	label_is("", "\"\"");
}

static void labels_are_utf8_whatever_the_name_is(void **state)
{
	(void)state;
	label_is("M\xC3\xBCller \xE2\x82\xAC \xF0\x9F\x90\x98", "\"M\xC3\xBCller \xE2\x82\xAC \xF0\x9F\x90\x98\"");
	label_is("a\xFF", "\"a\\\\xFF\"");
	label_is("\xC0\x80", "\"\\\\xC0\\\\x80\"");           /* overlong */
	label_is("\xED\xA0\x80", "\"\\\\xED\\\\xA0\\\\x80\""); /* a surrogate */
	label_is("\xF4\x90\x80\x80", "\"\\\\xF4\\\\x90\\\\x80\\\\x80\""); /* behind U+10FFFF */
	label_is("\xE2\x82", "\"\\\\xE2\\\\x82\"");           /* cut short */
	label_is("\xE2\x82x", "\"\\\\xE2\\\\x82x\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_ends_in_its_unit_and_a_counter_in_total),
		cmocka_unit_test(times_are_in_seconds_and_shares_of_one),
		cmocka_unit_test(labels_are_escaped),
		cmocka_unit_test(labels_are_utf8_whatever_the_name_is),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
