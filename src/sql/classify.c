/* The class of statements: a function per kind of first word (classes.def), which reads as far as the kind asks.
 *
 * The server's grammar is not repeated here. What we rely on is where tokens end (scan.c), that key words which the
 * server reserves stand for nothing else, and that a text with a mistake anywhere does nothing at all: the server
 * parses the whole of it first. Where that leaves a doubt, the worse class is taken. Queries are read by body.c.
 *
 * Only SET, BEGIN and their like say READ ONLY or READ WRITE; there the two words side by side are enough, whatever
 * stands around them. */
#include "sql/classify.h"

#include "sql/classify_priv.h"
#include "sql/scan_priv.h"
#include "sql/statement.h"
#include "sql/word_priv.h"

enum verb {
	VERB_UNKNOWN, /* no row */
	VERB_ABORT, VERB_BEGIN, VERB_CHANGE, VERB_COMMIT, VERB_COPY, VERB_CREATE, VERB_DECLARE, VERB_DISCARD, VERB_END, VERB_EXPLAIN,
	VERB_LOCK, VERB_PREPARE, VERB_QUERY, VERB_READ, VERB_RESET, VERB_ROLLBACK, VERB_SAVEPOINT, VERB_SET, VERB_START, VERB_WRITE,
};

static const struct word_row verbs[] = {
#define VERB(text, kind) WORD_ROW(text, VERB_##kind),
#include "sql/classes.def"
#undef VERB
};

void walk_raise(struct walk *w, enum sql_class class, unsigned acts)
{
	if (class > w->out->class)
		w->out->class = class;
	w->out->acts |= acts;
}

void walk_write(struct walk *w)
{
	if (w->planning == PLAN_AND_RUN)
		walk_raise(w, CLASS_WRITE, 0);
}

static void unknown(struct walk *w)
{
	walk_raise(w, CLASS_UNKNOWN, ACT_RUNS_UNKNOWN);
}

static void token_take(struct walk *w)
{
	w->token = scan_next(&w->scan);
	if (w->token == TOKEN_OPEN)
		unknown(w);
}

void walk_step(struct walk *w)
{
	if (!walk_is_at_end(w))
		token_take(w);
}

static void walk_end(struct walk *w)
{
	while (!walk_is_at_end(w))
		walk_step(w);
}

/* Steps over the word if it is there. */
static bool word_take(struct walk *w, const char *lower)
{
	bool there = walk_is_word(w, lower);
	if (there)
		walk_step(w);
	return there;
}

static bool is_in_any_case(const char *text, const char *lower)
{
	char folded[WORD_MOST];
	size_t len = strlen(text);
	return len <= WORD_MOST && len == strlen(lower) && memcmp(folded, lower, word_fold(folded, (const uint8_t *)text, len)) == 0;
}

bool setting_is_fence(const char *name)
{
	return is_in_any_case(name, "transaction_read_only") || is_in_any_case(name, "default_transaction_read_only");
}

/* READ ONLY and READ WRITE, with the walk on READ. */
static void mode_read(struct walk *w)
{
	if (!word_take(w, "read"))
		walk_step(w);
	else if (walk_is_word(w, "only"))
		walk_raise(w, CLASS_FLIP, ACT_READ_ONLY);
	else if (walk_is_word(w, "write"))
		walk_raise(w, CLASS_FLIP, ACT_LIFT);
}

static void modes_read(struct walk *w)
{
	while (!walk_is_at_end(w))
		mode_read(w);
}

static void begin_read(struct walk *w)
{
	walk_raise(w, CLASS_READ, ACT_BEGIN);
	modes_read(w);
}

/* A bare name beyond ASCII: the server folds it by its locale, and in a Turkish one a capital dotted I becomes an i. */
static bool is_beyond_ascii(struct span text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.p[i] >= 0x80)
			return true;
	return false;
}

/* Whether the token is the name of a setting that makes transactions read-only, or one that cannot be read. */
static bool is_fence(const struct walk *w)
{
	char name[WORD_MOST + 1];
	return walk_is_name(w) && (!scan_value_cut(&w->scan, name, sizeof(name)) || setting_is_fence(name));
}

/* All that stands before = or TO may be the name. */
static void set_read(struct walk *w)
{
	bool beyond_ascii = false;
	for (walk_step(w); !walk_is_at_end(w) && !walk_is_punct(w, '=') && !walk_is_word(w, "to");) {
		beyond_ascii = w->token == TOKEN_WORD && is_beyond_ascii(w->scan.text);
		if (is_fence(w))
			walk_raise(w, CLASS_FLIP, ACT_LIFT);
		else if (walk_is_word(w, "immediate")) /* SET CONSTRAINTS: runs the triggers that were put off */
			unknown(w);
		mode_read(w);
	}
	if (beyond_ascii && !walk_is_at_end(w))
		walk_raise(w, CLASS_FLIP, ACT_LIFT);
	walk_end(w);
}

static void reset_read(struct walk *w)
{
	walk_step(w);
	if (walk_is_word(w, "all"))
		walk_raise(w, CLASS_FLIP, ACT_RESET_ALL);
	for (; !walk_is_at_end(w); walk_step(w))
		if (is_fence(w) || (w->token == TOKEN_WORD && is_beyond_ascii(w->scan.text)))
			walk_raise(w, CLASS_FLIP, ACT_LIFT);
}

/* DISCARD TEMP drops tables. */
static void discard_read(struct walk *w)
{
	walk_step(w);
	if (walk_is_word(w, "all"))
		walk_raise(w, CLASS_FLIP, ACT_DISCARD_ALL);
	else if (!walk_is_word(w, "plans") && !walk_is_word(w, "sequences"))
		walk_raise(w, CLASS_WRITE, 0);
}

static void start_read(struct walk *w)
{
	walk_step(w);
	if (walk_is_word(w, "transaction"))
		begin_read(w);
	else
		unknown(w);
}

static void chain_read(struct walk *w)
{
	if (word_take(w, "and") && walk_is_word(w, "chain"))
		walk_raise(w, CLASS_READ, ACT_CHAIN);
}

/* Behind COMMIT or ROLLBACK. */
static bool prepared_read(struct walk *w)
{
	walk_step(w);
	bool prepared = walk_is_word(w, "prepared");
	if (prepared)
		walk_raise(w, CLASS_WRITE, ACT_TWO_PHASE);
	return prepared;
}

/* COMMIT runs what was put off to the end of the transaction, and makes its writes last: not a read even alone. */
static void commit_read(struct walk *w)
{
	if (prepared_read(w))
		return;
	walk_raise(w, CLASS_UNKNOWN, ACT_COMMIT);
	if (!word_take(w, "work"))
		word_take(w, "transaction");
	chain_read(w);
}

static void rollback_read(struct walk *w)
{
	if (prepared_read(w))
		return;
	if (!word_take(w, "work"))
		word_take(w, "transaction");
	walk_raise(w, CLASS_READ, walk_is_word(w, "to") ? ACT_SAVEPOINT : ACT_ROLLBACK);
	chain_read(w);
}

/* A lock of ACCESS SHARE is what a SELECT takes. IN is reserved: no table is called so. */
static void lock_read(struct walk *w)
{
	while (!walk_is_at_end(w) && !walk_is_word(w, "in"))
		walk_step(w);
	if (!word_take(w, "in") || !word_take(w, "access") || !walk_is_word(w, "share"))
		walk_raise(w, CLASS_WRITE, 0);
}

/* To where FROM or TO stand, over a table's name and its columns. */
static void copy_table_skip(struct walk *w)
{
	while (!walk_is_at_end(w) && !walk_is_word(w, "from") && !walk_is_word(w, "to"))
		walk_step(w);
}

/* STDIN is taken for STDOUT by the server as well. Anything else than a program is a file of the server's. */
static void copy_read(struct walk *w)
{
	walk_step(w);
	if (walk_is_punct(w, '('))
		body_walk(w, BODY_PARENTHESIS);
	else
		copy_table_skip(w);
	if (!word_take(w, "to"))
		walk_raise(w, CLASS_WRITE, 0);
	else if (walk_is_word(w, "program"))
		unknown(w);
	else if (!walk_is_word(w, "stdout") && !walk_is_word(w, "stdin"))
		walk_raise(w, CLASS_WRITE, 0);
}

static void query_read(struct walk *w)
{
	body_walk(w, BODY_STATEMENT);
}

/* INSERT and its like. What is only planned still plans what it calls. */
static void change_read(struct walk *w)
{
	walk_write(w);
	if (w->planning == PLAN_ONLY)
		query_read(w);
}

/* The bodies of rules and routines have semicolons of their own. */
static void create_read(struct walk *w)
{
	struct statement st;
	if (w->planning == PLAN_ONLY) {
		query_read(w);
		return;
	}
	walk_raise(w, CLASS_WRITE, 0);
	struct scan rest = w->scan;
	rest.p = w->scan.text.p;
	statement_next(&rest, &st);
	w->scan = rest;
	w->token = TOKEN_SEMICOLON; /* or the end, which the next step finds */
}

static void inner_read(struct walk *w);

/* FOR is reserved: the first is the one before the query. */
static void declare_read(struct walk *w)
{
	while (!walk_is_at_end(w) && !walk_is_word(w, "for"))
		walk_step(w);
	if (word_take(w, "for"))
		query_read(w);
}

/* PREPARE TRANSACTION 'id', or PREPARE name [(types)] AS statement, where AS is reserved. */
static void prepare_read(struct walk *w)
{
	walk_step(w);
	if (word_take(w, "transaction") && w->token == TOKEN_STRING)
		walk_raise(w, CLASS_WRITE, ACT_TWO_PHASE);
	while (!walk_is_at_end(w) && !walk_is_word(w, "as"))
		walk_step(w);
	if (word_take(w, "as"))
		inner_read(w);
}

/* Whether an option's value says no. A value that means nothing to the server is an error there. */
static bool is_no(const struct walk *w)
{
	char value[8];
	bool is_value = walk_is_name(w) || w->token == TOKEN_STRING || w->token == TOKEN_NUMBER;
	if (!is_value || !scan_value(&w->scan, value, sizeof(value)))
		return false;
	return is_in_any_case(value, "false") || is_in_any_case(value, "off") || is_in_any_case(value, "0");
}

/* A name that cannot be read may be it. */
static bool is_analyze(const struct walk *w)
{
	char name[WORD_MOST + 1];
	if (!walk_is_name(w))
		return false;
	return !scan_value_cut(&w->scan, name, sizeof(name)) || is_in_any_case(name, "analyze") || is_in_any_case(name, "analyse");
}

/* One option, from its name to the comma or parenthesis behind it. True: it says to run what is explained. */
static bool option_read(struct walk *w)
{
	bool analyze = is_analyze(w);
	walk_step(w);
	if (is_no(w))
		analyze = false;
	while (!walk_is_at_end(w) && !walk_is_punct(w, ',') && !walk_is_punct(w, ')'))
		walk_step(w);
	return analyze;
}

/* At the parenthesis. Of two options that differ the server takes the last; we take the worse. */
static bool options_read(struct walk *w)
{
	bool analyze = false;
	do {
		walk_step(w);
		analyze |= option_read(w);
	} while (walk_is_punct(w, ','));
	if (walk_is_punct(w, ')'))
		walk_step(w);
	return analyze;
}

/* EXPLAIN (SELECT 1) has no options. */
static bool options_follow(const struct walk *w)
{
	struct walk next = *w;
	if (!walk_is_punct(w, '('))
		return false;
	next.token = scan_next(&next.scan);
	return walk_is_name(&next) && !walk_is_word(&next, "select") && !walk_is_word(&next, "with") && !walk_is_word(&next, "values") && !walk_is_word(&next, "table");
}

static void explain_read(struct walk *w)
{
	bool analyze = false;
	walk_step(w);
	if (options_follow(w)) {
		analyze = options_read(w);
	} else {
		for (; is_analyze(w) || walk_is_word(w, "verbose"); walk_step(w))
			analyze |= is_analyze(w);
	}
	if (!analyze)
		w->planning = PLAN_ONLY;
	inner_read(w);
}

static enum verb verb_find(const struct walk *w)
{
	if (w->token != TOKEN_WORD)
		return walk_is_punct(w, '(') ? VERB_QUERY : VERB_UNKNOWN;
	return (enum verb)word_find_folded(verbs, sizeof(verbs) / sizeof(verbs[0]), w->scan.text);
}

static void verb_read(struct walk *w, enum verb v)
{
	switch (v) {
	case VERB_ABORT: rollback_read(w); break;
	case VERB_BEGIN: begin_read(w); break;
	case VERB_CHANGE: change_read(w); break;
	case VERB_COMMIT: commit_read(w); break;
	case VERB_COPY: copy_read(w); break;
	case VERB_CREATE: create_read(w); break;
	case VERB_DECLARE: declare_read(w); break;
	case VERB_DISCARD: discard_read(w); break;
	case VERB_END: commit_read(w); break;
	case VERB_EXPLAIN: explain_read(w); break;
	case VERB_LOCK: lock_read(w); break;
	case VERB_PREPARE: prepare_read(w); break;
	case VERB_QUERY: query_read(w); break;
	case VERB_READ: break;
	case VERB_RESET: reset_read(w); break;
	case VERB_ROLLBACK: rollback_read(w); break;
	case VERB_SAVEPOINT: walk_raise(w, CLASS_READ, ACT_SAVEPOINT); break;
	case VERB_SET: set_read(w); break;
	case VERB_START: start_read(w); break;
	case VERB_WRITE: walk_raise(w, CLASS_WRITE, 0); break;
	case VERB_UNKNOWN: unknown(w); break;
	}
}

/* What can be explained. */
static bool verb_is_planned(enum verb v)
{
	return v == VERB_QUERY || v == VERB_CHANGE || v == VERB_CREATE || v == VERB_DECLARE;
}

/* A statement inside EXPLAIN or PREPARE. These cannot hold each other, which also bounds our stack. */
static void inner_read(struct walk *w)
{
	enum verb v = verb_find(w);
	bool may_be = w->planning == PLAN_ONLY ? verb_is_planned(v) : v != VERB_EXPLAIN && v != VERB_PREPARE;
	verb_read(w, may_be ? v : VERB_UNKNOWN);
}

bool classify_next(struct scan *s, struct classified *out)
{
	*out = (struct classified){CLASS_READ, 0, 0};
	struct walk w = {.scan = *s, .out = out, .planning = PLAN_AND_RUN};
	do
		token_take(&w);
	while (w.token == TOKEN_SEMICOLON);
	if (w.token != TOKEN_END) {
		out->statements = 1;
		verb_read(&w, verb_find(&w));
		walk_end(&w);
	}
	*s = w.scan;
	return out->statements > 0;
}

static void classified_add(struct classified *sum, const struct classified *more)
{
	if (more->class > sum->class)
		sum->class = more->class;
	sum->acts |= more->acts;
}

static struct classified classify_as(struct span sql, bool backslash)
{
	struct classified sum = {CLASS_READ, 0, 0}, one;
	struct scan s = scan_of(sql.p, sql.len);
	s.backslash = backslash;
	while (classify_next(&s, &one)) {
		classified_add(&sum, &one);
		sum.statements++;
	}
	return sum;
}

static bool has_backslash(struct span sql)
{
	return sql.len > 0 && memchr(sql.p, '\\', sql.len);
}

struct classified classify(struct span sql, unsigned reading)
{
	struct classified sum = classify_as(sql, reading & READING_BACKSLASH);
	if (reading & READING_EITHER && has_backslash(sql)) {
		struct classified other = classify_as(sql, !(reading & READING_BACKSLASH));
		classified_add(&sum, &other);
		if (other.statements > sum.statements)
			sum.statements = other.statements;
	}
	if (reading & READING_ODD_ENCODING && is_beyond_ascii(sql))
		sum.class = CLASS_WRITE;
	return sum;
}

/* By the names that the server reports. All encodings that a server can have are in, since there every byte of a
 * character is above 127; what is left out is for clients only. */
bool classify_reads_encoding(const char *name)
{
	static const char *const begins[] = {"UTF8", "SQL_ASCII", "LATIN", "WIN1", "WIN8", "ISO_8859_", "KOI8", "EUC_", "MULE_INTERNAL"};
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (strncmp(name, begins[i], strlen(begins[i])) == 0)
			return true;
	return false;
}
