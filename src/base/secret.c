/* Secrets: bytes that are overwritten before their memory is given back. The buffer is
 * made in its final size, because one that grew would leave copies behind. */
#include "base/secret.h"

#include <openssl/crypto.h>

void secret_set(struct secret *s, const void *bytes, size_t len)
{
	struct buf fresh = {0};

	buf_need(&fresh, len + 1); /* the NUL of secret_text; it is not counted */
	buf_add(&fresh, bytes, len);
	fresh.p[len] = '\0';
	secret_free(s); /* last: bytes may point into it */
	s->hidden_ = fresh;
}

void secret_copy(struct secret *to, const struct secret *from)
{
	if (secret_is_set(from))
		secret_set(to, from->hidden_.p, from->hidden_.len);
	else
		secret_free(to);
}

void secret_free(struct secret *s)
{
	buf_wipe(&s->hidden_);
}

const char *secret_text(const struct secret *s)
{
	return secret_is_set(s) ? (const char *)s->hidden_.p : "";
}

bool bytes_same_secretly(const void *a, const void *b, size_t len)
{
	return len == 0 || CRYPTO_memcmp(a, b, len) == 0;
}
