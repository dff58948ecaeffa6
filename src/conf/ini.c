/* INI files through inih, which sees none of their long or odd lines.
 *
 * Debian builds inih so that it cuts lines at 200 bytes, ends a value at " ;", takes an indented line for more of
 * the value above, splits a line at ':' as well as at '=' (and a ':' may stand in an org's id), and tells nobody of
 * a section without keys. So each line of the file is taken apart here, and inih gets a short line that stands for it:
 *
 *     file                                inih sees      the handler then calls
 *     [databases]                         [#1]
 *                                         begin=#1       row(databases, NULL)
 *     app = host=h password='a ; b' ...   key=#2         row(databases, app, ...)
 *
 * inih asks for a line only when it is through with the one before, so the line at hand is all that is kept.
 * An included file is read in the place of its %include line: the section goes on in it, and behind it.
 *
 * A key may stand in double quotes ("" is one of them) to hold blanks or '=', as PgBouncer's database names do. */
#include "conf/ini.h"

#include <ctype.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/verify.h"
#include "conf/file_priv.h"

#define INCLUDE_MOST 10 /* files open at a time below the main one, as with PgBouncer */
#define STAND_IN_MOST 32

/* A file that is being read; `up` is the one that includes it. */
struct source {
	struct source *up; /* owns */
	char *name;        /* owns */
	struct buf text;   /* owns; empty for a text that the caller holds */
	struct span rest;
	int line;
};

struct reading {
	struct source *at; /* owns; NULL at the end */
	int depth;

	ini_row_fn row;
	ini_fault_fn fault;
	void *arg;
	bool faulty;

	/* the line that the last stand-in means */
	unsigned long serial;
	bool begins;      /* a section line whose begin= is still to be given out */
	char *section;    /* owns; "" before the first */
	char *key, *value; /* owns; NULL for a section */
};

static void fault(struct reading *r, const char *text)
{
	r->faulty = true;
	r->fault(r->arg, r->at->name, r->at->line, text);
}

static void forget_pair(struct reading *r)
{
	mem_free(r->key);
	if (r->value)
		explicit_bzero(r->value, strlen(r->value));
	mem_free(r->value);
	r->key = r->value = NULL;
}

static void push(struct reading *r, const char *name, struct span text, struct buf *owned)
{
	struct source *s = mem_make(struct source);

	s->up = r->at;
	s->name = mem_str(name);
	if (owned) {
		s->text = *owned;
		text = buf_span(&s->text);
	}
	/* A byte order mark is no part of the first line. */
	if (text.len >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0) {
		text.p += 3;
		text.len -= 3;
	}
	s->rest = text;
	r->at = s;
	r->depth++;
}

static void pop(struct reading *r)
{
	struct source *s = r->at;

	r->at = s->up;
	r->depth--;
	mem_free(s->name);
	buf_wipe(&s->text);
	mem_free(s);
}

static bool is_open(const struct reading *r, const char *name)
{
	for (const struct source *s = r->at; s; s = s->up)
		if (strcmp(s->name, name) == 0)
			return true;
	return false;
}

static void include(struct reading *r, const char *path)
{
	struct buf text = {0};
	struct err err = {0};

	if (is_open(r, path))
		fault(r, "the file includes itself");
	else if (r->depth > INCLUDE_MOST)
		fault(r, "%include goes deeper than 10 files");
	else if (!file_read(path, &text, &err))
		fault(r, err.text);
	else
		push(r, path, (struct span){0}, &text);
}

/* "%include path" */
static void directive(struct reading *r, struct span line)
{
	static const char word[] = "%include";
	size_t n = sizeof(word) - 1;
	char *path;

	if (line.len < n || memcmp(line.p, word, n) != 0 || (line.len > n && !isspace(line.p[n]))) {
		fault(r, "unknown directive; %include is the only one");
		return;
	}
	while (n < line.len && isspace(line.p[n]))
		n++;
	if (n == line.len) {
		fault(r, "%include names no file");
		return;
	}
	path = mem_strn(line.p + n, line.len - n);
	include(r, path);
	mem_free(path);
}

static bool take_section(struct reading *r, struct span line)
{
	const uint8_t *end = memchr(line.p, ']', line.len);

	if (!end || end != line.p + line.len - 1 || line.len == 2) {
		fault(r, "not a section; expected [name]");
		return false;
	}
	mem_free(r->section);
	r->section = mem_strn(line.p + 1, line.len - 2);
	forget_pair(r);
	return true;
}

/* A key in double quotes: leaves the line behind the closing one. NULL: there is none. */
static char *quoted_key(struct span *line)
{
	struct buf key = {0};
	size_t i = 1;
	char *text;

	for (; i < line->len; i++) {
		if (line->p[i] != '"') {
			buf_add_u8(&key, line->p[i]);
		} else if (i + 1 < line->len && line->p[i + 1] == '"') {
			buf_add_u8(&key, '"');
			i++;
		} else {
			break;
		}
	}
	text = i < line->len && key.len ? mem_strn(key.p, key.len) : NULL;
	buf_free(&key);
	if (text) {
		line->p += i + 1;
		line->len -= i + 1;
	}
	return text;
}

static char *bare_key(struct span *line)
{
	size_t n = 0;
	char *text;

	while (n < line->len && line->p[n] != '=' && !isspace(line->p[n]))
		n++;
	text = n ? mem_strn(line->p, n) : NULL;
	line->p += n;
	line->len -= n;
	return text;
}

static void skip_blanks(struct span *line)
{
	while (line->len && isspace(line->p[0])) {
		line->p++;
		line->len--;
	}
}

/* "key = value". The text of a bad line is not shown: it may be a password that lost its key. */
static bool take_pair(struct reading *r, struct span line)
{
	forget_pair(r);
	r->key = line.p[0] == '"' ? quoted_key(&line) : bare_key(&line);
	skip_blanks(&line);
	if (!r->key || line.len == 0 || line.p[0] != '=') {
		fault(r, "not a setting; expected key = value");
		return false;
	}
	line.p++;
	line.len--;
	skip_blanks(&line);
	r->value = mem_strn(line.p, line.len);
	return true;
}

/* One line of a file: true when it stands for a row. */
static bool take_line(struct reading *r, struct span line)
{
	if (line.len == 0 || line.p[0] == ';' || line.p[0] == '#')
		return false;
	if (memchr(line.p, '\0', line.len)) {
		fault(r, "the line holds a NUL byte");
		return false;
	}
	if (line.p[0] == '%') {
		directive(r, line);
		return false;
	}
	if (line.p[0] != '[')
		return take_pair(r, line);
	r->begins = take_section(r, line);
	return r->begins;
}

/* inih's reader, shaped as fgets: gives the next stand-in. */
static char *next_stand_in(char *out, int room, void *arg)
{
	struct reading *r = arg;
	struct span line;

	verify(room >= STAND_IN_MOST);
	if (r->begins) {
		r->begins = false;
		snprintf(out, STAND_IN_MOST, "begin=#%lu\n", r->serial);
		return out;
	}
	while (r->at) {
		if (!line_next(&r->at->rest, &line)) {
			pop(r);
			continue;
		}
		r->at->line++;
		if (!take_line(r, line))
			continue;
		r->serial++;
		snprintf(out, STAND_IN_MOST, r->begins ? "[#%lu]\n" : "key=#%lu\n", r->serial);
		return out;
	}
	return NULL;
}

static int on_stand_in(void *arg, const char *section, const char *name, const char *value)
{
	struct reading *r = arg;

	(void)section, (void)name;
	verify(value[0] == '#' && strtoul(value + 1, NULL, 10) == r->serial);
	r->row(r->arg, &(struct ini_row){r->at->name, r->at->line, r->section, r->key, r->value});
	return 1;
}

static bool run(struct reading *r)
{
	int rc;

	r->section = mem_str("");
	rc = ini_parse_stream(next_stand_in, r, on_stand_in, r);
	verify(rc == 0); /* stand-ins are never wrong */
	forget_pair(r);
	mem_free(r->section);
	return !r->faulty;
}

bool ini_read_file(const char *path, ini_row_fn row, ini_fault_fn fault_fn, void *arg)
{
	struct reading r = {.row = row, .fault = fault_fn, .arg = arg};
	struct buf text = {0};
	struct err err = {0};

	if (!file_read(path, &text, &err)) {
		fault_fn(arg, path, 0, err.text);
		return false;
	}
	push(&r, path, (struct span){0}, &text);
	return run(&r);
}

bool ini_read_text(const char *name, struct span text, ini_row_fn row, ini_fault_fn fault_fn, void *arg)
{
	struct reading r = {.row = row, .fault = fault_fn, .arg = arg};

	push(&r, name, text, NULL);
	return run(&r);
}
