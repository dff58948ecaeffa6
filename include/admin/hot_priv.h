/* Between hot.c (verdicts), hot_file.c (the file) and hot_storage.c (the surveys). */
#pragma once

#include "admin/hot.h"

/* Reads the file into the empty heat. */
void hot_file_load(struct heat *h, usec_t now);
/* Writes it in slices: begin, then some until it says that it is through. False of begin: there is no state_dir, or it cannot be written. */
bool hot_file_begin(const struct heat *h, usec_t now);
bool hot_file_some(const struct heat *h);
/* The whole of it at once, and on the disk when this returns. */
void hot_file_now(const struct heat *h, usec_t now);
void hot_file_stop(void); /* one that is not whole is given up */

void hot_storage_start(struct heat *h);
void hot_storage_stop(void);
