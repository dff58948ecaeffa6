/* See proxy/effect.h. */
#include "proxy/effect.h"

#include <string.h>
#include <strings.h>

#include "sql/classify.h"

/* Whatever is not known to read is taken to write. */
enum effect effect_of(const char first[FIRST_WORD])
{
	static const struct {
		const char *word;
		enum effect effect;
	} words[] = {
		{"select", EFFECT_READS}, {"show", EFFECT_READS}, {"set", EFFECT_READS}, {"begin", EFFECT_READS}, {"start", EFFECT_READS},
		{"values", EFFECT_READS}, {"table", EFFECT_READS}, {"fetch", EFFECT_READS}, {"reset", EFFECT_READS}, {"declare", EFFECT_READS},
		{"close", EFFECT_READS}, {"rollback", EFFECT_READS}, {"abort", EFFECT_READS}, {"commit", EFFECT_ENDS}, {"end", EFFECT_ENDS},
	};
	size_t at = strspn(first, " \t\r\n(");

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strncasecmp(first + at, words[i].word, strlen(words[i].word)) == 0)
			return words[i].effect;
	return EFFECT_WRITES;
}

enum effect effect_outcome(const struct client *c)
{
	enum effect last = effect_of(c->first);
	return last > c->worst ? last : (enum effect)c->worst;
}

/* Called for every statement, so only its first bytes are kept; they are looked at when its server is lost, or when another one follows before
 * all is answered. */
void effect_note(struct client *c, const uint8_t *sql, size_t len)
{
	if (c->ran)
		c->worst = (uint8_t)effect_outcome(c);
	if (len >= FIRST_WORD - 1) {
		memcpy(c->first, sql, FIRST_WORD - 1); /* the last byte stays 0 */
		return;
	}
	memset(c->first, 0, FIRST_WORD);
	memcpy(c->first, sql, len);
}

/* Of several statements the last may be the one that counts. */
void effect_note_all(struct client *c, const uint8_t *sql, size_t len)
{
	const uint8_t *point = memchr(sql, ';', len);
	struct classified text;
	enum effect effect;

	if (!point || sql + len - point <= 2)
		return; /* its end, and the NUL */
	text = classify((struct span){sql, strnlen((const char *)sql, len)}, READING_EITHER);
	effect = text.acts & (ACT_COMMIT | ACT_TWO_PHASE) ? EFFECT_ENDS : text.class == CLASS_WRITE ? EFFECT_WRITES : EFFECT_READS;
	if (effect > c->worst)
		c->worst = (uint8_t)effect;
}
