/* The words that a setting or key of an enum kind may be set to. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum word_state {
	WORD_BUILT,
	WORD_UNBUILT, /* known, but refused: falling back to another word in silence would be worse than not starting */
};

struct word {
	const char *name; /* NULL ends the table */
	int value;
	enum word_state state;
};

extern const struct word words_pool_mode[];
extern const struct word words_auth_type[];
extern const struct word words_sslmode[];
extern const struct word words_log_format[];
extern const struct word words_org_unknown[];
extern const struct word words_session_features[];
extern const struct word words_breaker_mode[];
extern const struct word words_balance[];
extern const struct word words_prefer[];
extern const struct word words_rate_action[];
extern const struct word words_priority[];

const struct word *word_find(const struct word *words, const char *name); /* case does not count; NULL: not there */
const char *word_name(const struct word *words, int value);               /* "?" when there is none */
