/* Passwords as stored and as sent: plain, md5 (chapter 55.2.3 of PostgreSQL's documentation), SCRAM. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/secret.h"

enum password_kind { PASSWORD_NONE, PASSWORD_PLAIN, PASSWORD_MD5, PASSWORD_SCRAM };
enum password_kind password_kind(const struct secret *stored); /* "md5"+32 hex; a SCRAM verifier that parses; else plain; unset or empty: NONE */

#define PASSWORD_MD5_LEN 35 /* "md5" and 32 hex digits */
void password_md5(const void *password, size_t len, const char *user, char out[PASSWORD_MD5_LEN + 1]);
/* What a client answers to AuthenticationMD5Password. stored: plain or md5. False for SCRAM or none. */
bool password_md5_answer(const struct secret *stored, const char *user, const uint8_t salt[4], char out[PASSWORD_MD5_LEN + 1]);
/* Does what the client sent in clear match what is stored (plain, md5 or SCRAM)? Constant time over equal lengths; an empty one never matches. */
bool password_matches(const struct secret *stored, const char *user, struct span sent);
bool password_md5_matches(const struct secret *stored, const char *user, const uint8_t salt[4], struct span sent);
