/* What the files of this layer share about tokens and their values. For this layer only. */
#pragma once

#include "sql/scan.h"

/* p is behind the closing quote of a string: the place behind the opening quote of its next part, NULL if there is none. */
const uint8_t *scan_next_part(const uint8_t *p, const uint8_t *end);

/* As scan_value, but what does not fit is cut off, as PostgreSQL cuts long names, and never inside a UTF-8 character. */
bool scan_value_cut(const struct scan *s, char *out, size_t room);

/* Text was cut at len: what stays of it when a character that lost its end there is dropped whole. */
size_t scan_text_cut(const char *text, size_t len);
