/* The message tables, made from the rows of messages.def: how the relay treats a letter, and what people call it.
 * Framing itself is inline in frame.h, since it runs for every message. Arrays of 256, so that the relay looks a
 * letter up without a branch and no letter is out of range. */
#include "wire/frame.h"

#define MESSAGE(side, letter, name, treat) TREAT_FROM_##side(letter, treat)

#define TREAT_FROM_CLIENT(letter, treat) [letter] = TREAT_##treat,
#define TREAT_FROM_SERVER(letter, treat)
const uint8_t treat_of_client[256] = {
#include "wire/messages.def"
};
#undef TREAT_FROM_CLIENT
#undef TREAT_FROM_SERVER

#define TREAT_FROM_CLIENT(letter, treat)
#define TREAT_FROM_SERVER(letter, treat) [letter] = TREAT_##treat,
const uint8_t treat_of_server[256] = {
#include "wire/messages.def"
};
#undef MESSAGE

enum side { CLIENT, SERVER };

static const char *const names[2][256] = {
#define MESSAGE(side, letter, name, treat) [side][letter] = name,
#include "wire/messages.def"
#undef MESSAGE
};

const char *message_name(bool from_client, uint8_t type)
{
	const char *name = names[from_client ? CLIENT : SERVER][type];
	return name ? name : "unknown";
}
