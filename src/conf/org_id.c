/* The ids of orgs. */
#include <ctype.h>
#include <string.h>

#include "conf/conf.h"

/* RFC 9562, section 4: hexadecimal digits in groups of 8-4-4-4-12, "output as lowercase ... case insensitive on input". */
#define UUID_LEN 36

static bool is_letter_or_digit(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_uuid(const char *text, size_t len)
{
	if (len != UUID_LEN)
		return false;
	for (size_t i = 0; i < len; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
			return false;
	}
	return true;
}

bool org_id_make(const char *text, size_t len, char out[ORG_ID_MOST + 1])
{
	if (len < 1 || len > ORG_ID_MOST)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_letter_or_digit((unsigned char)text[i]) && !memchr("_.:-", text[i], 4))
			return false;
	memcpy(out, text, len);
	out[len] = '\0';
	if (is_uuid(text, len))
		for (size_t i = 0; i < len; i++)
			out[i] = (char)tolower((unsigned char)out[i]);
	return true;
}
