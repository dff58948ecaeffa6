/* Looks built-in functions up. */
#include "sql/builtin.h"

#include "sql/word_priv.h"

static const struct word_row rows[] = {
#define BUILTIN(name, kind) WORD_ROW(name, BUILTIN_##kind),
#include "sql/builtins.def"
#undef BUILTIN
};

enum builtin builtin_find(const char *name, size_t len)
{
	return (enum builtin)word_find(rows, sizeof(rows) / sizeof(rows[0]), name, len);
}
