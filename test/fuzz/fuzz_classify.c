/* The classifier: every text ends, and of two texts the one that may do more never has the lower class. The first byte
 * chooses the reading. */
#include <stdlib.h>

#include "base/verify.h"
#include "sql/classify.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len);

static void is_sum_of_its_statements(struct span sql, bool backslash)
{
	struct classified whole = classify(sql, backslash ? READING_BACKSLASH : READING_CONFORMING), one;
	struct scan s = scan_of(sql.p, sql.len);
	enum sql_class worst = CLASS_READ;
	unsigned acts = 0, n = 0;
	s.backslash = backslash;
	for (; classify_next(&s, &one); n++) {
		verify(one.statements == 1 && one.class <= CLASS_WRITE);
		worst = one.class > worst ? one.class : worst;
		acts |= one.acts;
	}
	verify(s.p == s.end);
	verify(whole.class == worst && whole.acts == acts && whole.statements == n);
	verify(whole.class != CLASS_UNKNOWN || whole.acts & (ACT_COMMIT | ACT_RUNS_UNKNOWN));
	verify(whole.class != CLASS_READ || !(whole.acts & (ACT_COMMIT | ACT_RUNS_UNKNOWN | ACT_LIFT | ACT_READ_ONLY | ACT_TWO_PHASE | ACT_RESET_ALL | ACT_DISCARD_ALL)));
}

static void either_is_the_worse(struct span sql)
{
	struct classified on = classify(sql, READING_CONFORMING), off = classify(sql, READING_BACKSLASH);
	struct classified either = classify(sql, READING_EITHER);
	verify(either.class == (on.class > off.class ? on.class : off.class));
	verify(either.acts == (on.acts | off.acts));
	verify(classify(sql, READING_EITHER | READING_ODD_ENCODING).class >= either.class);
}

static bool is_open(struct span sql, bool backslash)
{
	struct scan s = scan_of(sql.p, sql.len);
	enum token t;
	s.backslash = backslash;
	while ((t = scan_next(&s)) != TOKEN_END)
		if (t == TOKEN_OPEN)
			return true;
	return false;
}

/* The newline ends a comment that the text may end with; a string must not go on behind it. */
static void with_behind(struct span sql, bool backslash, const char *more, enum sql_class least)
{
	struct buf both = {0};
	unsigned reading = backslash ? READING_BACKSLASH : READING_CONFORMING;
	buf_add(&both, sql.p, sql.len);
	buf_add_str(&both, more);
	struct classified with = classify(buf_span(&both), reading), without = classify(sql, reading);
	verify(with.class >= least && with.class >= without.class && (with.acts & without.acts) == without.acts);
	buf_free(&both);
}

static void calls_are_found_where_they_stand(struct span sql, bool backslash)
{
	static const char *const names[] = {"f", "lower", "public.g", "select"};
	struct buf both = {0};
	unsigned reading = backslash ? READING_BACKSLASH : READING_CONFORMING;
	classify_calls(sql, READING_EITHER, names, 4);
	buf_add(&both, sql.p, sql.len);
	buf_add_str(&both, "\n;SELECT public.g(1)");
	verify(classify_calls(buf_span(&both), reading, names, 4));
	buf_free(&both);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	if (len == 0)
		return 0;
	struct span sql = {p + 1, len - 1};
	bool backslash = *p & 1;
	is_sum_of_its_statements(sql, backslash);
	either_is_the_worse(sql);
	if (is_open(sql, backslash))
		return 0;
	with_behind(sql, backslash, "\n;SELECT 1", CLASS_READ);
	with_behind(sql, backslash, "\n;SELECT f(1)", CLASS_UNKNOWN);
	with_behind(sql, backslash, "\n;DELETE FROM t", CLASS_WRITE);
	with_behind(sql, backslash, "\n;WITH a AS (SELECT 1) UPDATE t SET x = 1", CLASS_WRITE);
	calls_are_found_where_they_stand(sql, backslash);
	return 0;
}
