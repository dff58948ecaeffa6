/* For the tests of conf: texts that must load, or must not and why. Included behind cmocka.h. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"

static inline char *report_text(const struct buf *b)
{
	char *text = calloc(1, b->len + 1);

	if (b->len)
		memcpy(text, b->p, b->len);
	return text;
}

/* Loads; the warnings must be these. The caller drops. */
static inline struct conf *loads_warning(const char *text, const char *warnings)
{
	struct conf_report r = {0};
	struct conf *c = conf_load_text(text, &r);
	char *errors = report_text(&r.errors), *seen = report_text(&r.warnings);

	assert_string_equal(errors, "");
	assert_string_equal(seen, warnings);
	assert_non_null(c);
	free(errors);
	free(seen);
	conf_report_free(&r);
	return c;
}

static inline struct conf *loads(const char *text)
{
	return loads_warning(text, "");
}

/* Does not load; the errors must be exactly these. */
static inline void refuses(const char *text, const char *errors)
{
	struct conf_report r = {0};
	struct conf *c = conf_load_text(text, &r);
	char *seen = report_text(&r.errors);

	assert_string_equal(seen, errors);
	assert_null(c);
	free(seen);
	conf_report_free(&r);
}
