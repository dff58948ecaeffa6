/* "did you mean": is a word a slip of the pen for a name we know? */
#pragma once

/* Keeps the nearest of the names offered to it. */
struct near {
	const char *word; /* borrows */
	const char *best; /* borrows; NULL: nothing near was offered */
	unsigned distance;
};

void near_offer(struct near *n, const char *name);
