/* SASLprep (RFC 4013) as PostgreSQL applies it to passwords: on bytes that are not valid UTF-8, or hold prohibited
 * characters, the password is used as it is. */
#pragma once

#include "base/buf.h"

void saslprep(struct span in, struct buf *out); /* replaces out */
