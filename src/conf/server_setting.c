/* Settings of the server that an entry may give to its pool. */
#include "conf/server_setting_priv.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

static const char *const names[] = {
#define SERVER_SETTING(name) #name,
#include "conf/server_settings.def"
#undef SERVER_SETTING
};

/* "app.current_org": identifiers with dots between them, as PostgreSQL asks for (valid_custom_variable_name in its guc.c). */
static bool is_custom(const char *name)
{
	bool dotted = false, starts = true;

	for (; *name; name++) {
		unsigned char c = (unsigned char)*name;

		if (c == '.' && starts)
			return false;
		if (c != '.' && !isalpha(c) && c != '_' && c < 0x80 && (starts || (!isdigit(c) && c != '$')))
			return false;
		starts = c == '.';
		dotted |= starts;
	}
	return dotted && !starts;
}

bool server_setting_is(const char *name)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcasecmp(names[i], name) == 0)
			return true;
	return is_custom(name);
}

void server_settings_offer(struct near *near)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		near_offer(near, names[i]);
}
