/* Keeps the trails of routes (proxy/trail) over restarts: the file `routes` in state_dir, written each minute while something changes, after a
 * reload and at the end. Without state_dir nothing is kept. Control's thread. */
#pragma once

#include "conf/conf.h"

void trail_file_start(void); /* reads it */
void trail_file_follow(const struct conf *conf); /* a configuration that is about to be in force */
void trail_file_stop(void);
