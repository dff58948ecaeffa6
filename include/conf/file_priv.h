/* Reads a file of the configuration whole. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/verify.h"

#define FILE_MOST (64u << 20) /* what is larger was named by mistake */

/* out is empty before it; false and err->text: "cannot read x: No such file or directory". */
MUST_CHECK bool file_read(const char *path, struct buf *out, struct err *err);

/* Takes the next line, without its end (\n or \r\n) and the blanks around it, off the front; false: there is none. */
bool line_next(struct span *rest, struct span *line);
