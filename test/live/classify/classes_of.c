/* Prints class and acts of each text of standard input, one line each; a NUL ends a text. The argument is the reading,
 * as a number. The live tests compile it and ask it what the classifier says. */
#include <stdio.h>
#include <stdlib.h>

#include "sql/classify.h"

static const char *const names[] = {[CLASS_READ] = "read", [CLASS_UNKNOWN] = "unknown", [CLASS_FLIP] = "flip", [CLASS_WRITE] = "write"};

int main(int argc, char **argv)
{
	unsigned reading = argc > 1 ? (unsigned)atoi(argv[1]) : READING_CONFORMING;
	char *text = NULL;
	size_t room = 0;
	ssize_t len;
	while ((len = getdelim(&text, &room, '\0', stdin)) > 0) {
		struct classified c = classify((struct span){(uint8_t *)text, (size_t)len - 1}, reading);
		printf("%s %u\n", names[c.class], c.acts);
	}
	free(text);
	return 0;
}
