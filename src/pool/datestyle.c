/* See pool/datestyle.h. The words and what they imply are those of PostgreSQL's check_datestyle (variable.c). */
#include "pool/datestyle.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum style { STYLE_NONE, STYLE_ISO, STYLE_SQL, STYLE_POSTGRES, STYLE_GERMAN };
enum order { ORDER_NONE, ORDER_YMD, ORDER_DMY, ORDER_MDY };

static const char *const style_names[] = {"", "ISO", "SQL", "Postgres", "German"};
static const char *const order_names[] = {"", "YMD", "DMY", "MDY"};

enum match { MATCH_WHOLE, MATCH_START };

static const struct word {
	const char *text;
	enum match match;
	enum style style;
	enum order order;
} words[] = {
	{"ISO", MATCH_WHOLE, STYLE_ISO, ORDER_NONE},
	{"SQL", MATCH_WHOLE, STYLE_SQL, ORDER_NONE},
	{"POSTGRES", MATCH_START, STYLE_POSTGRES, ORDER_NONE},
	{"GERMAN", MATCH_WHOLE, STYLE_GERMAN, ORDER_NONE},
	{"YMD", MATCH_WHOLE, STYLE_NONE, ORDER_YMD},
	{"DMY", MATCH_WHOLE, STYLE_NONE, ORDER_DMY},
	{"EURO", MATCH_START, STYLE_NONE, ORDER_DMY},
	{"MDY", MATCH_WHOLE, STYLE_NONE, ORDER_MDY},
	{"US", MATCH_WHOLE, STYLE_NONE, ORDER_MDY},
	{"NONEURO", MATCH_START, STYLE_NONE, ORDER_MDY},
};

static const struct word *word_of(const char *text, size_t len)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i].text);
		if ((words[i].match == MATCH_START ? len >= n : len == n) && strncasecmp(text, words[i].text, n) == 0)
			return &words[i];
	}
	return NULL;
}

/* Words between commas, with blanks around them; no words at all ask for nothing. */
static bool read_style(const char *text, enum style *style, enum order *order)
{
	static const char blanks[] = " \t\n\r\f";

	*style = STYLE_NONE;
	*order = ORDER_NONE;
	text += strspn(text, blanks);
	if (!*text)
		return true;
	for (;;) {
		size_t len = strcspn(text, ", \t\n\r\f");
		const struct word *w = word_of(text, len);
		if (!w || (w->style && *style && *style != w->style) || (w->order && *order && *order != w->order))
			return false;
		if (w->style)
			*style = w->style;
		if (w->order)
			*order = w->order;
		text += len;
		text += strspn(text, blanks);
		if (!*text)
			return true;
		if (*text++ != ',')
			return false;
		text += strspn(text, blanks);
	}
}

bool datestyle_complete(const char *asked, const char *base, char whole[DATESTYLE_MOST])
{
	enum style style, base_style;
	enum order order, base_order;

	if (!read_style(asked, &style, &order) || !read_style(base, &base_style, &base_order) || !base_style || !base_order)
		return false;
	if (style == STYLE_GERMAN && !order)
		order = ORDER_DMY;
	snprintf(whole, DATESTYLE_MOST, "%s, %s", style_names[style ? style : base_style], order_names[order ? order : base_order]);
	return true;
}
