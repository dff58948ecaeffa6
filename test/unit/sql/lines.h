/* The lines of a data file beside the tests: a word, a tab, the rest, with its escapes read. Lines that begin with # are
 * comments. Where the source is comes from make ($srcdir). */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lines {
	FILE *file;
	char line[4096];
	const char *first;
	char *rest;
	size_t rest_len;
};

static inline struct lines lines_of(const char *name)
{
	const char *srcdir = getenv("srcdir");
	char path[1024];
	snprintf(path, sizeof(path), "%s/test/unit/sql/%s", srcdir ? srcdir : ".", name);
	struct lines lines = {.file = fopen(path, "r")};
	if (!lines.file)
		fail_msg("cannot open %s", path);
	return lines;
}

/* The end of the text with each escape replaced. */
static inline size_t escapes_read(char *text)
{
	static const char letters[] = "nrtf\\", stand_for[] = "\n\r\t\f\\";
	char *out = text;
	for (const char *in = text; *in; in++) {
		const char *letter = *in == '\\' && in[1] ? strchr(letters, in[1]) : NULL;
		*out++ = letter ? stand_for[letter - letters] : *in;
		in += letter != NULL;
	}
	*out = '\0';
	return (size_t)(out - text);
}

/* False at the end, which closes the file. */
static inline int lines_next(struct lines *lines)
{
	while (fgets(lines->line, sizeof(lines->line), lines->file)) {
		char *tab = strchr(lines->line, '\t');
		if (lines->line[0] == '#')
			continue;
		if (!tab)
			fail_msg("no tab in: %s", lines->line);
		*tab = '\0';
		tab[1 + strcspn(tab + 1, "\n")] = '\0';
		lines->first = lines->line;
		lines->rest = tab + 1;
		lines->rest_len = escapes_read(lines->rest);
		return 1;
	}
	fclose(lines->file);
	return 0;
}
