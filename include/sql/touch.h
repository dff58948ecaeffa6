/* What a text may do to the session beyond its transaction: settings that PostgreSQL does not report, and what cannot be carried to another
 * server connection. Only hints, on the safe side: whoever wants to know asks the server afterwards (proxy/inventory). Pure. */
#pragma once

#include "sql/scan.h"

enum touch {
	/* what ties a session to its server connection; one row each in touch.def */
#define TIE(NAME, word, exists) TOUCH_BIT_##NAME,
#include "sql/touch.def"
#undef TIE
	TOUCH_TIES,
	TOUCH_BIT_NAMED = TOUCH_TIES, /* settings whose names were told */
	TOUCH_BIT_SETTINGS,           /* settings of any name */
	TOUCH_BIT_GIVES,              /* a tie may be given up */
};
#define TOUCH(NAME) (1u << TOUCH_BIT_##NAME)
#define TOUCH_ALL_TIES ((1u << TOUCH_TIES) - 1)

struct touches {
	unsigned asks;  /* what may have changed: TOUCH() bits */
	unsigned takes; /* the ties among it that the text itself asks for, for certain */
};

/* name: folded as PostgreSQL folds it; NULL: all settings (RESET ALL). value: a constant that it is set to; NULL: none, or not known. LOCAL: until the
 * end of the transaction, so it is not among what is asked. */
enum touch_how { TOUCH_SET, TOUCH_RESET, TOUCH_LOCAL };
typedef void (*touch_name_fn)(void *arg, const char *name, const char *value, enum touch_how how);

/* Is it worth a look? Runs for every text, so it takes sixteen bytes at a time. */
enum touch_look { TOUCH_LOOK_FOR_TAKING, TOUCH_LOOK_FOR_GIVING_TOO };
bool touch_may(const uint8_t *sql, size_t len, enum touch_look look);
struct touches touch_find(struct scan text, touch_name_fn name, void *arg); /* text: with the reading of backslashes that is in force */
/* SQL that does the same to the session as the function with that OID, which is called without any (FunctionCall). NULL: it does nothing to it. */
const char *touch_text_of_call(uint32_t oid);
/* May this be the name of a setting of the application's own, one with a point? */
bool touch_is_own_name(const uint8_t *name, size_t len);
const char *touch_tie_word(int tie); /* as SHOW and errors name it */
