/* The SQL scanner and all that reads tokens: tokens follow each other without overlap, every text ends, and values,
 * statements and log lines stay in the room they were given. The first byte chooses the session's backslash mode. */
#include "base/verify.h"
#include "sql/redact.h"
#include "sql/statement.h"
#include "sql/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len);

static bool has_room_left(const char *text, size_t room)
{
	return strnlen(text, room) < room;
}

static void tokens_walk(struct scan s, enum token (*next)(struct scan *))
{
	const uint8_t *behind = s.p;
	enum token t;
	char value[24];
	while ((t = next(&s)) != TOKEN_END) {
		verify(s.text.len > 0 && s.text.p >= behind && s.text.p + s.text.len == s.p && s.p <= s.end);
		verify(t != TOKEN_OPEN || s.p == s.end);
		behind = s.p;
		if (scan_value(&s, value, sizeof(value)))
			verify(t == TOKEN_WORD || t == TOKEN_NAME || t == TOKEN_STRING || t == TOKEN_NUMBER);
		verify(has_room_left(value, sizeof(value)));
	}
	verify(s.p == s.end && s.text.len == 0);
}

static void statements_walk(struct scan s)
{
	struct statement st;
	const uint8_t *behind = s.p;
	while (statement_next(&s, &st)) {
		verify(st.kind != STATEMENT_EMPTY && st.text.len > 0);
		verify(st.text.p >= behind && st.text.p + st.text.len <= s.p && s.p <= s.end);
		verify(has_room_left(st.name, sizeof(st.name)) && has_room_left(st.value, sizeof(st.value)));
		behind = s.p;
	}
	verify(s.p == s.end);
}

static void name_is_bounded(void *arg, const char *name, const char *value, enum touch_how how)
{
	(void)arg;
	verify(!name || has_room_left(name, 64));
	verify(!value || has_room_left(value, 256));
	verify(how == TOUCH_SET || how == TOUCH_RESET || how == TOUCH_LOCAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	if (len == 0)
		return 0;
	struct scan s = scan_of(p + 1, len - 1);
	s.backslash = *p & 1;
	tokens_walk(s, scan_next);
	tokens_walk(s, scan_next_all);
	statements_walk(s);
	touch_may(p + 1, len - 1, TOUCH_LOOK_FOR_GIVING_TOO);
	struct touches t = touch_find(s, name_is_bounded, NULL);
	verify((t.takes & ~t.asks) == 0);

	char line[40];
	redact_sql((struct span){p + 1, len - 1}, line, sizeof(line));
	verify(has_room_left(line, sizeof(line)));
	for (const char *c = line; *c; c++)
		verify((uint8_t)*c >= ' ');
	return 0;
}
