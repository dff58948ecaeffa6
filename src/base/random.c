/* Random numbers: OpenSSL's generator, which seeds itself and is safe after fork. A pooler
 * without it could give out cancel keys and SCRAM nonces that are guessed, so it stops. */
#include "base/random.h"

#include <limits.h>
#include <openssl/rand.h>

#include "base/verify.h"

void random_bytes(void *out, size_t len)
{
	verify(len <= INT_MAX);
	verify(RAND_bytes(out, (int)len) == 1);
}

uint64_t random_u64(void)
{
	uint64_t v;

	random_bytes(&v, sizeof(v));
	return v;
}

uint32_t random_below(uint32_t limit)
{
	uint32_t uneven, v;

	verify(limit > 0);
	/* 2^32 mod limit: so many values at the bottom would make some results likelier. */
	uneven = -limit % limit;
	do
		random_bytes(&v, sizeof(v));
	while (v < uneven);
	return v % limit;
}
