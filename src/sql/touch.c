/* See sql/touch.h. touch_may is the sieve that every text passes through; what stays in it is read token by token.
 *
 * What is looked for stands in three kinds of places: the first word of a statement, calls of a few functions (all with an underscore in
 * their names), and INTO TEMP in the middle of a query. Inside functions, DO blocks apart, nothing can be seen. */
#include "sql/touch.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "sql/statement.h"

static const char *const tie_words[TOUCH_TIES] = {
#define TIE(NAME, word, exists) [TOUCH_BIT_##NAME] = word,
#include "sql/touch.def"
#undef TIE
};

const char *touch_tie_word(int tie)
{
	return tie_words[tie];
}

/* ---- the sieve ---- */

static uint8_t low(const uint8_t *p, const uint8_t *end, size_t i)
{
	return p + i < end ? p[i] | 0x20 : 0;
}

static bool is_blank(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_of_word(uint8_t c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' || c >= 0x80;
}

/* Behind blanks and comments; at the comment where they nest. */
static const uint8_t *first_word(const uint8_t *p, const uint8_t *end)
{
	while (p < end) {
		if (is_blank(*p) || *p == '(') {
			p++;
		} else if (end - p > 3 && p[0] == '/' && p[1] == '*') {
			const uint8_t *close = memmem(p + 2, (size_t)(end - p - 2), "*/", 2);
			if (close && memmem(p + 2, (size_t)(close - p - 2), "/*", 2))
				return p;
			p = close ? close + 2 : end;
		} else if (end - p > 1 && p[0] == '-' && p[1] == '-') {
			const uint8_t *line = memchr(p, '\n', (size_t)(end - p));
			p = line ? line + 1 : end;
		} else {
			return p;
		}
	}
	return end;
}

static bool word_may(const uint8_t *p, const uint8_t *end, enum touch_look look)
{
	bool giving = look == TOUCH_LOOK_FOR_GIVING_TOO;
	uint8_t second = low(p, end, 1), third = low(p, end, 2);

	switch (low(p, end, 0)) {
	case 's':
		return second == 'e' && third == 't'; /* SET, not SELECT */
	case 'r':
		return second == 'e' && third == 's'; /* RESET */
	case 'l':
		return second == 'i' || third == 'a'; /* LISTEN, LOAD, not LOCK */
	case 'p':
		return true; /* PREPARE */
	case 'c':
		return second == 'r' || (giving && second == 'l'); /* CREATE, CLOSE */
	case 'd':
		return third == 'c' || second == 'o' || second == 'i' || (giving && (third == 'a' || second == 'r')); /* DECLARE, DO, DISCARD, DEALLOCATE, DROP, not DELETE */
	case 'u':
		return giving && second == 'n'; /* UNLISTEN, not UPDATE */
	case 'e':
		return third == 'p'; /* EXPLAIN ANALYZE of something */
	case '/':
		return true; /* comments that nest */
	default:
		return false;
	}
}

static bool stands_before(const uint8_t *sql, const uint8_t *at, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(at - sql) < len)
		return false;
	at -= len;
	for (size_t i = 0; i < len; i++)
		if ((at[i] | 0x20) != (uint8_t)word[i])
			return false;
	return true;
}

/* set_config, pg_advisory_lock, pg_try_advisory_lock and pg_temp, by what stands around an underscore. */
static bool function_may(const uint8_t *sql, const uint8_t *at, const uint8_t *end)
{
	uint8_t next = low(at, end, 1);

	if (next == 'c')
		return stands_before(sql, at, "set");
	if (next == 'a')
		return stands_before(sql, at, "pg") || stands_before(sql, at, "try");
	return next == 't' && low(at, end, 2) == 'e' && stands_before(sql, at, "pg");
}

/* INTO TEMP, by the letter in its middle. */
static bool temp_may(const uint8_t *sql, const uint8_t *at, const uint8_t *end)
{
	return low(at, end, 1) == 'p' && stands_before(sql, at, "te") && (at - sql < 3 || !is_of_word(at[-3]));
}

static bool another_statement(const uint8_t *at, const uint8_t *end)
{
	for (at++; at < end; at++)
		if (!is_blank(*at) && *at != ';' && *at)
			return true;
	return false;
}

/* Which of sixteen bytes may be ; _ m or M, a bit each. With the bit of lower case set they are ; DEL and m. */
#ifdef __SSE2__
static inline unsigned marks_of(const uint8_t *p)
{
	__m128i bytes = _mm_or_si128(_mm_loadu_si128((const __m128i *)p), _mm_set1_epi8(0x20));
	__m128i found = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(';')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('_' | 0x20))),
				     _mm_cmpeq_epi8(bytes, _mm_set1_epi8('m')));
	return (unsigned)_mm_movemask_epi8(found);
}
#else
static inline unsigned marks_of(const uint8_t *p)
{
	unsigned marks = 0;

	for (int i = 0; i < 16; i++)
		marks |= (unsigned)(p[i] == ';' || p[i] == '_' || (p[i] | 0x20) == 'm') << i;
	return marks;
}
#endif

/* The same of those that stand at `at` and before the end; a text that is shorter than sixteen bytes is looked at as a whole. */
static inline unsigned marks_at(const uint8_t *begin, const uint8_t *at, const uint8_t *end)
{
	size_t left = (size_t)(end - at);
	uint8_t few[16] = {0};

	if (left >= 16)
		return marks_of(at);
	if (end - begin >= 16)
		return marks_of(end - 16) >> (16 - left);
	memcpy(few, at, left);
	return marks_of(few);
}

bool touch_may(const uint8_t *sql, size_t len, enum touch_look look)
{
	const uint8_t *end = sql + len;
	const uint8_t *first = first_word(sql, end);
	uint8_t letter = low(first, end, 0);
	bool may_make = letter == 's' || letter == 'w'; /* SELECT, WITH ... INTO TEMP */

	if (word_may(first, end, look))
		return true;
	for (const uint8_t *block = first; block < end; block += 16)
		for (unsigned marks = marks_at(first, block, end); marks; marks &= marks - 1) {
			const uint8_t *at = block + __builtin_ctz(marks);
			if (*at == '_' ? function_may(first, at, end) : *at == ';' ? another_statement(at, end) : may_make && temp_may(first, at, end))
				return true;
		}
	return false;
}

/* ---- the reading ---- */

struct finder {
	struct scan scan;
	enum token token;
	struct span text; /* of the statement */
	struct touches *out;
	touch_name_fn name;
	void *arg;
};

static void advance(struct finder *f)
{
	f->token = scan_next(&f->scan);
}

static bool at_word(const struct finder *f, const char *lower)
{
	return f->token == TOKEN_WORD && scan_word_is(&f->scan, lower);
}

static bool at_punct(const struct finder *f, char c)
{
	return f->token == TOKEN_PUNCT && f->scan.text.len == 1 && *f->scan.text.p == (uint8_t)c;
}

static bool take_word(struct finder *f, const char *lower)
{
	if (!at_word(f, lower))
		return false;
	advance(f);
	return true;
}

static bool take_temp(struct finder *f)
{
	if (at_word(f, "local") || at_word(f, "global"))
		advance(f);
	return take_word(f, "temp") || take_word(f, "temporary");
}

static void takes(struct finder *f, unsigned ties)
{
	f->out->asks |= ties;
	f->out->takes |= ties;
}

static void found_name(struct finder *f, const char *name, const char *value, enum touch_how how)
{
	if (how != TOUCH_LOCAL)
		f->out->asks |= TOUCH(NAMED);
	f->name(f->arg, name, value, how);
}

/* Steps over one argument of a call; true if it is the one word `lower`. Ends at the comma or the closing parenthesis. */
static bool argument_is(struct finder *f, const char *lower)
{
	bool is = at_word(f, lower);
	int depth = 0, n = 0;

	for (; f->token != TOKEN_END; advance(f), n++) {
		if (depth == 0 && (at_punct(f, ',') || at_punct(f, ')')))
			break;
		depth += at_punct(f, '(') - at_punct(f, ')');
	}
	return is && n == 1;
}

/* Where search_path names pg_temp, CREATE TABLE makes temporary tables without saying so. */
static void found_path(struct finder *f, const char *name)
{
	const uint8_t *end = f->text.p + f->text.len;

	if (strcmp(name, "search_path") != 0)
		return;
	for (const uint8_t *at = f->text.p; (at = memchr(at, '_', (size_t)(end - at))) != NULL; at++)
		if (stands_before(f->text.p, at, "pg") && low(at, end, 1) == 't')
			f->out->asks |= TOUCH(TEMP);
}

/* Behind the name set_config. One that says for certain that it is local has no effect beyond its transaction. */
static void read_set_config(struct finder *f)
{
	char name[64];

	if (!at_punct(f, '('))
		return;
	advance(f);
	bool known = f->token == TOKEN_STRING && scan_value(&f->scan, name, sizeof(name));
	if (known)
		advance(f);
	known = known && at_punct(f, ',');
	argument_is(f, "");
	if (at_punct(f, ','))
		advance(f);
	argument_is(f, "");
	if (at_punct(f, ','))
		advance(f);
	bool local = argument_is(f, "true");
	if (known) {
		found_name(f, name, NULL, local ? TOUCH_LOCAL : TOUCH_SET);
		found_path(f, name);
	} else if (!local) {
		f->out->asks |= TOUCH(SETTINGS);
	}
}

bool touch_is_own_name(const uint8_t *name, size_t len)
{
	bool point = false;

	if (len < 3 || len > 63 || !is_of_word(name[0]) || !is_of_word(name[len - 1]))
		return false;
	for (size_t i = 0; i < len; i++) {
		point |= name[i] == '.';
		if (name[i] != '.' && !is_of_word(name[i]) && name[i] != '$')
			return false;
	}
	return point;
}

/* The inside of $tag$ ... $tag$. */
static struct span inside_dollars(struct span s)
{
	const uint8_t *second = memchr(s.p + 1, '$', s.len - 1);
	size_t tag = second ? (size_t)(second + 1 - s.p) : s.len;

	return s.len >= 2 * tag ? (struct span){s.p + tag, s.len - 2 * tag} : (struct span){s.p, 0};
}

/* The application's own settings are in no list of the server's: where a text sets names that are not told, its strings may be them. */
static void read_own_names(struct finder *f, struct span text, int depth)
{
	struct scan scan = scan_of(text.p, text.len);
	enum token token;
	char name[64];

	scan.backslash = f->scan.backslash;
	while ((token = scan_next(&scan)) != TOKEN_END) {
		if (token != TOKEN_STRING)
			continue;
		if (*scan.text.p == '$' && depth == 0)
			read_own_names(f, inside_dollars(scan.text), 1);
		else if (scan_value(&scan, name, sizeof(name)) && touch_is_own_name((const uint8_t *)name, strlen(name)))
			found_name(f, name, NULL, TOUCH_SET);
	}
}

static const struct {
	const char *name;
	bool gives;
} lock_functions[] = {
	{"pg_advisory_lock", false}, {"pg_advisory_lock_shared", false}, {"pg_try_advisory_lock", false}, {"pg_try_advisory_lock_shared", false},
	{"pg_advisory_unlock", true}, {"pg_advisory_unlock_shared", true}, {"pg_advisory_unlock_all", true},
};

/* The OIDs are PostgreSQL's own (pg_proc.dat), the same in every version; each lock function is there for one key and for two. */
const char *touch_text_of_call(uint32_t oid)
{
	switch (oid) {
	case 2078:
		return "SELECT set_config($1, $2, $3)";
	case 2880 ... 2883: case 2886 ... 2889:
		return "SELECT pg_advisory_lock($1)";
	case 2884 ... 2885: case 2890 ... 2892:
		return "SELECT pg_advisory_unlock($1)";
	default:
		return NULL;
	}
}

static void read_function(struct finder *f, const char *name)
{
	if (strcmp(name, "set_config") == 0) {
		read_set_config(f);
		return;
	}
	if (strcmp(name, "pg_temp") == 0) {
		f->out->asks |= TOUCH(TEMP);
		return;
	}
	for (size_t i = 0; i < sizeof(lock_functions) / sizeof(lock_functions[0]); i++) {
		if (strcmp(name, lock_functions[i].name) != 0)
			continue;
		if (lock_functions[i].gives)
			f->out->asks |= TOUCH(GIVES);
		else if (at_punct(f, '('))
			takes(f, TOUCH(LOCK));
		else
			f->out->asks |= TOUCH(LOCK);
	}
}

/* The words of a statement in which the order does not matter. */
static void read_words(struct finder *f)
{
	char name[64];

	while (f->token != TOKEN_END) {
		bool is_name = f->token == TOKEN_WORD || f->token == TOKEN_NAME;
		if (take_word(f, "into")) {
			if (take_temp(f))
				takes(f, TOUCH(TEMP));
		} else if (take_word(f, "with")) {
			if (take_word(f, "hold"))
				takes(f, TOUCH(HOLD));
		} else if (is_name && scan_value(&f->scan, name, sizeof(name))) {
			advance(f);
			read_function(f, name);
		} else {
			advance(f);
		}
	}
}

static bool has_on_commit_drop(struct finder f)
{
	for (; f.token != TOKEN_END;)
		if (take_word(&f, "on")) {
			if (take_word(&f, "commit") && at_word(&f, "drop"))
				return true;
		} else {
			advance(&f);
		}
	return false;
}

static void read_create(struct finder *f)
{
	if (take_word(f, "or"))
		take_word(f, "replace");
	if (take_temp(f)) {
		if (has_on_commit_drop(*f))
			f->out->asks |= TOUCH(TEMP);
		else
			takes(f, TOUCH(TEMP));
	}
	read_words(f);
}

static void read_other(struct finder *f)
{
	while (at_punct(f, '('))
		advance(f);
	if (take_word(f, "create")) {
		read_create(f);
	} else if (take_word(f, "explain")) { /* with ANALYZE it does what it explains */
		while (f->token != TOKEN_END && !at_word(f, "create") && !at_word(f, "select") && !at_word(f, "with") && !at_word(f, "declare"))
			advance(f);
		if (take_word(f, "create"))
			read_create(f);
		else
			read_words(f);
	} else if (take_word(f, "do")) {
		f->out->asks |= TOUCH(SETTINGS) | TOUCH(GIVES) | TOUCH_ALL_TIES;
	} else {
		if (at_word(f, "drop") || at_word(f, "close"))
			f->out->asks |= TOUCH(GIVES);
		read_words(f);
	}
}

static void read_statement(struct finder *f, const struct statement *st)
{
	switch (st->kind) {
	case STATEMENT_SET:
		found_name(f, st->name, st->has_value ? st->value : NULL, st->is_default ? TOUCH_RESET : TOUCH_SET);
		found_path(f, st->name);
		break;
	case STATEMENT_SET_LOCAL:
		found_name(f, st->name, NULL, TOUCH_LOCAL);
		found_path(f, st->name);
		break;
	case STATEMENT_SET_OTHER:
		if (st->name[0])
			found_name(f, st->name, NULL, TOUCH_SET);
		break;
	case STATEMENT_SET_CHARACTERISTICS:
		found_name(f, "default_transaction_isolation", NULL, TOUCH_SET);
		found_name(f, "default_transaction_read_only", NULL, TOUCH_SET);
		found_name(f, "default_transaction_deferrable", NULL, TOUCH_SET);
		break;
	case STATEMENT_RESET:
		found_name(f, st->name, NULL, TOUCH_RESET);
		break;
	case STATEMENT_RESET_ALL:
		found_name(f, NULL, NULL, TOUCH_RESET);
		break;
	case STATEMENT_LISTEN:
		takes(f, TOUCH(LISTEN));
		break;
	case STATEMENT_LOAD:
		takes(f, TOUCH(LOAD));
		break;
	case STATEMENT_PREPARE:
		takes(f, TOUCH(PREPARE));
		read_words(f);
		break;
	case STATEMENT_UNLISTEN:
	case STATEMENT_DEALLOCATE:
	case STATEMENT_DEALLOCATE_ALL:
	case STATEMENT_DISCARD:
	case STATEMENT_DISCARD_ALL:
		f->out->asks |= TOUCH(GIVES);
		break;
	default:
		read_other(f);
		break;
	}
}

struct touches touch_find(struct scan text, touch_name_fn name, void *arg)
{
	struct scan scan = text;
	struct touches out = {0, 0};
	struct statement st;

	while (statement_next(&scan, &st)) {
		struct finder f = {.scan = scan_of(st.text.p, st.text.len), .text = st.text, .out = &out, .name = name, .arg = arg};
		f.scan.backslash = text.backslash;
		advance(&f);
		read_statement(&f, &st);
		if (out.asks & TOUCH(SETTINGS))
			read_own_names(&f, st.text, 0);
	}
	return out;
}
